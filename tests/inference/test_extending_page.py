"""docs/extending.md runs, and what it adds is right: scipy and closed forms judge it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from pages import definitions, run_page
from scipy.stats import halfnorm

import nesymm
from nesymm.inference.densities import DENSITIES
from nesymm.language.families import FAMILIES

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    yield run_page("extending.md")
    for table in (FAMILIES, DENSITIES):
        del table["half_normal"]  # type: ignore[attr-defined]


def test_the_family_is_that_of_scipy(page: dict[str, Any]) -> None:
    x, scale = np.linspace(-1, 9, 21), np.array([[0.3], [2.0]])
    known = DENSITIES["half_normal"]
    expected = halfnorm(scale=scale)
    for function, oracle in (
        (known.log, expected.logpdf),
        (known.log_below, expected.logcdf),
        (known.log_above, expected.logsf),
    ):
        assert function is not None
        found = function(np, scipy.special, x, scale)
        np.testing.assert_allclose(found, oracle(x), rtol=1e-9, atol=1e-12)
    assert page["delay"].infer().probability("late") == pytest.approx(halfnorm(scale=2).sf(3))


def test_its_parameter_is_learned(page: dict[str, Any]) -> None:
    best = float(np.sqrt(np.mean(page["waits"] ** 2)))
    assert float(page["learned"].model.parameters["wait"]) == pytest.approx(best, rel=0.01)
    with jax.enable_x64(True):
        found = jax.grad(
            lambda m: jnp.sum(m.log_evidence({"wait": page["waits"]}))
        )(page["queue"])  # fmt: skip
    squares = np.sum(page["waits"] ** 2)
    assert found.parameters["wait"] == pytest.approx(squares - page["waits"].size, rel=1e-6)


def test_particles_draw_from_it(page: dict[str, Any]) -> None:
    model = nesymm.compile(
        "x(X)@t ~ half_normal(2).\n0.9::o@t :- x(X)@t, X > 1.\n"
        "0.2::o@t :- x(X)@t, X =< 1.\nobserve(o@t).\nquery(big@t).\nbig@t :- x(X)@t, X > 3."
    )
    data, count = {"o": [[True]]}, 20000
    method = nesymm.Bootstrap(particles=count)
    found = model.filter(data, method=method).filtered["big@t"][0, 0]
    above = halfnorm(scale=2).sf
    p = 0.9 * above(3) / (0.9 * above(1) + 0.2 * (1 - above(1)))
    assert found == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / (0.5 * count)))


def test_networks_give_its_parameter(page: dict[str, Any]) -> None:
    model = nesymm.compile(
        ":- network(net, 1). :- input(u(U)@t).\nx(X)@t ~ half_normal(net(U)) :- u(U)@t.\n"
        "observe(x(X)@t)."
    ).with_networks({"net": nesymm.Function(lambda p, u: p * u, jnp.ones(1))})
    found = model.log_evidence({"u": [[0.5, -1.0]], "x": [[1.0, 2.0]]})
    scales = np.log1p(np.exp([0.5, -1.0]))
    assert found[0] == pytest.approx(halfnorm(scale=scales).logpdf([1.0, 2.0]).sum(), rel=1e-5)


def test_killing_has_no_bias() -> None:
    weights = np.array([[0.5, 0.3, 0.2, 0.0], [0.25, 0.25, 0.25, 0.25]])
    runs = 4000
    found = jax.vmap(definitions("extending.md")["killing"], (0, None))(
        jax.random.split(jax.random.key(0), runs), jnp.asarray(weights)
    )
    children = (np.asarray(found)[..., None] == np.arange(4)).sum(-2)
    error = children.std(0) / np.sqrt(runs)
    assert (np.abs(children.mean(0) - 4 * weights) <= 5 * error + 1e-12).all()


def test_the_engine_smooths_and_learns(page: dict[str, Any]) -> None:
    """That it has no bias is seen in the conformance test."""
    model, days = page["weather"], page["days"]
    method = page["SoftResampling"](particles=4000)
    found = model.smooth(days, method=method, key=0)
    exact = model.smooth(days, method="exact")
    np.testing.assert_allclose(found["rain@t"], exact["rain@t"], atol=0.05)
    learner = nesymm.compile(
        "0.5::rain@0.\nt(0.5)::rain@t :- rain@(t-1).\n0.1::rain@t :- not rain@(t-1).\n"
        "0.9::umbrella@t :- rain@t.\n0.2::umbrella@t :- not rain@t.\nobserve(umbrella@t)."
    )
    one = {"umbrella": np.array([[1, 1, 1, 1, 0, 0, 1, 1]])}

    def evidence(method: Any, keys: Any) -> Any:
        """The log-evidence, and its gradient, by each key."""
        each = jax.value_and_grad(lambda m, k: m.log_evidence(one, method=method, key=k)[0])
        found, gradients = jax.jit(jax.vmap(each, (None, 0)))(learner, keys)
        return np.exp(found), np.asarray(gradients.parameters["rain"])

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 100)
        estimates, gradients = evidence(page["SoftResampling"](particles=50), keys)
        (total,), (gradient,) = evidence("exact", keys[:1])
    # The gradient of the evidence, not of its logarithm, has no bias.
    found = estimates * gradients
    error = found.std() / np.sqrt(len(found))
    expected = total * gradient
    assert error < 0.1 * abs(expected)
    assert found.mean() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize(
    ("family", "density", "message"),
    [
        (("normal", ("mean",), ("real",)), {}, "there is a family normal already"),
        (("Big", ("mean",), ("real",)), {}, "a lower-case word, received 'Big'"),
        (("odd", ("mean", "scale"), ("real",)), {}, "its 2 parameters, received 1"),
        (("odd", ("mean",), ("real",)), {"log_below": abs}, "both `log_below` and `log_above`"),
    ],
)
def test_a_family_that_makes_no_sense_is_refused(
    family: tuple[str, tuple[str, ...], tuple[str, ...]], density: dict[str, Any], message: str
) -> None:
    name, parameters, constraints = family
    with pytest.raises(nesymm.NesymmError, match=message):
        nesymm.add_family(
            nesymm.Family(name, parameters, nesymm.Numbers(False), constraints, f"{name}(1)"),
            nesymm.Density(abs, "Normal", **density),
        )
