"""Networks that are very sure: values and gradients in 32 bits, at both ends of every family.

The oracle works in 64 bits, with SciPy's densities and with differences.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.training import MLP

pytestmark = pytest.mark.compiled

RAW = np.array([-1e4, -200.0, -90.0, -30.0, -3.0, 0.4, 3.0, 30.0, 90.0, 200.0, 1e4])
# A scale from a network is at least this in 32 bits.
LEAST = float(np.finfo(np.float32).tiny) ** 0.25


def positive(raw: np.ndarray) -> np.ndarray:
    return np.maximum(np.logaddexp(raw, 0.0), LEAST)


def chances(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log(1 - p) and log p."""
    return special.log_expit(-raw), special.log_expit(raw)


def categorical(x: float, *raw: np.ndarray) -> np.ndarray:
    return special.log_softmax(np.stack(raw), axis=0)[int(x)]


# Per family: what follows `x(X)@t ~`, outputs of the network, values, and the oracle.
FAMILIES: dict[str, tuple[str, int, tuple[float, ...], Callable[..., Any]]] = {
    "bernoulli": ("bernoulli(net(0))", 1, (0, 1), lambda x, a: chances(a)[int(x)]),
    "binomial": (
        "binomial(4, net(0))",
        1,
        (0, 1, 4),
        lambda x, a: np.log(special.comb(4, x)) + x * chances(a)[1] + (4 - x) * chances(a)[0],
    ),
    "geometric": (
        "geometric(net(0))",
        1,
        (0, 3),
        lambda x, a: x * chances(a)[0] + chances(a)[1],
    ),
    "categorical": ("categorical(net(0), [0, 1, 2])", 3, (0, 2), categorical),
    "poisson": (
        "poisson(net(0))",
        1,
        (0, 4),
        lambda x, a: special.xlogy(x, positive(a)) - positive(a) - special.gammaln(x + 1),
    ),
    "exponential": (
        "exponential(net(0))",
        1,
        (0.0, 2.5),
        lambda x, a: np.log(positive(a)) - positive(a) * x,
    ),
    "normal": (
        "normal(net(0))",
        2,
        (0.0, -3.0),
        lambda x, m, s: stats.norm.logpdf(x, m, positive(s)),
    ),
    "laplace": (
        "laplace(net(0))",
        2,
        (0.1, -2.5),
        lambda x, m, s: -np.abs(x - m) / positive(s) - np.log(2 * positive(s)),
    ),
    "lognormal": (
        "lognormal(net(0))",
        2,
        (0.7, 4.0),
        lambda x, m, s: stats.norm.logpdf(np.log(x), m, positive(s)) - np.log(x),
    ),
    "gamma": (
        "gamma(net(0))",
        2,
        (0.7, 4.0),
        lambda x, a, r: stats.gamma.logpdf(x, positive(a), scale=1 / positive(r)),
    ),
    "beta": (
        "beta(net(0))",
        2,
        (0.3, 0.9),
        lambda x, a, b: stats.beta.logpdf(x, positive(a), positive(b)),
    ),
    "student_t": (
        "student_t(net(0))",
        3,
        (0.5,),
        lambda x, d, m, s: stats.t.logpdf(x, positive(d), m, positive(s)),
    ),
}


def constant(params: jax.Array, _: jax.Array) -> jax.Array:
    return params


@pytest.mark.parametrize("name", FAMILIES)
def test_densities_and_gradients_at_both_ends(name: str) -> None:
    family, outputs, values, oracle = FAMILIES[name]
    model = nesymm.compile(
        f":- network(net, {outputs}). x(X)@t ~ {family}. observe(x@t).",
        networks={"net": nesymm.Function(constant, np.zeros(outputs))},
    )
    grid = np.array(list(product(RAW, repeat=outputs)))

    def found(raw: jax.Array, x: jax.Array) -> jax.Array:
        net = {"net": nesymm.Function(constant, raw)}
        return model.with_networks(net).log_evidence({"x": x[None, None]})[0]

    both = jax.jit(jax.vmap(jax.value_and_grad(found), in_axes=(0, None)))
    for x in values:
        kind = jnp.float32 if isinstance(x, float) else jnp.int32
        found_there = both(jnp.asarray(grid, jnp.float32), jnp.asarray(x, kind))
        value, gradient = map(np.asarray, found_there)
        assert value.dtype == np.float32
        columns = grid.T
        exact = oracle(x, *columns)
        representable = np.abs(exact) < 1e34
        # Terms that cancel leave the rounding of the largest.
        scale = np.maximum(1.0, np.abs(np.where(np.isfinite(grid), grid, 0.0)).max(-1) * 12)
        tolerance = 4e-5 * np.maximum(np.abs(exact), 0.02 * scale)
        assert np.isfinite(value[representable]).all()
        assert np.isfinite(gradient[representable]).all()
        close = np.abs(value - exact) <= tolerance + 1e-5
        assert close[representable].all(), grid[representable & ~close][:5]
        for i in range(outputs):
            step = 1e-5 * np.maximum(np.abs(columns[i]), 1.0)
            above = [c + step * (j == i) for j, c in enumerate(columns)]
            below = [c - step * (j == i) for j, c in enumerate(columns)]
            # As 32 bits see it: where the density is flat on both sides, or nearly so.
            rise = (oracle(x, *above) - oracle(x, *below)) / (2 * step)
            mild = representable & (np.abs(grid).max(-1) < 50) & (np.abs(exact) < 1e4)
            error = np.abs(gradient[:, i] - rise)
            assert (error <= 1e-3 * np.abs(rise) + 2e-3)[mild].all(), grid[mild][
                error[mild].argmax()
            ]


ALARM = """
:- input(u(X)@t).
:- network(net, 1).
x@t ~ bernoulli(net(X)) :- u(X)@t.
0.7::o@t :- x@t.
0.2::o@t :- not x@t.
observe(o@t).
query(x@T).
"""


def scaled(params: jax.Array, x: jax.Array) -> jax.Array:
    return params * x[None]


@pytest.mark.parametrize(
    "method",
    [ExactForward(), RaoBlackwellised(particles=50), Bootstrap(particles=50)],
    ids=["exact", "rao-blackwellised", "bootstrap"],
)
def test_a_sure_network_in_every_engine(method: Method) -> None:
    """Gradients are finite; where the finite part is summed out the evidence is exact."""
    model = nesymm.compile(ALARM, networks={"net": nesymm.Function(scaled, np.ones(1))})
    data = {"u": np.ones((1, 2)), "o": np.array([[True, False]])}

    def found(w: jax.Array) -> jax.Array:
        net = {"net": nesymm.Function(scaled, w)}
        return model.with_networks(net).log_evidence(data, method=method)[0]

    for logit in (-1e4, -120.0, 120.0, 1e4):
        value, gradient = jax.value_and_grad(found)(jnp.asarray([logit], jnp.float32))
        sure = 0.7 * 0.3 if logit > 0 else 0.2 * 0.8
        if isinstance(method, Bootstrap):
            assert np.isfinite(float(value)), logit
        else:
            assert float(value) == pytest.approx(np.log(sure), abs=1e-5), logit
        assert abs(float(gradient[0])) < 1e-6, logit


def test_the_example_of_the_learning_page_trains_through() -> None:
    model = nesymm.compile(
        ALARM.replace("0.7", "t(0.7)").replace("0.2", "t(0.2)"),
        networks={"net": MLP(1, 1, key=jax.random.key(0))},
    )
    u = np.random.default_rng(0).normal(size=(2000, 3))
    fitted = model.fit({"u": u, "o": u > 0}, epochs=2, progress=False)
    losses = [row["loss"] for row in fitted.history]
    assert losses[1] < losses[0] < 3 * np.log(2)


def test_missing_values_of_a_bounded_density_have_finite_gradients() -> None:
    """What stands in the place of missing data may lie at the end of the range."""
    model = nesymm.compile("x(X)@t ~ beta(t(2.0), t(3.0)). observe(x@t).")
    data = {"x": np.array([[0.3, np.nan]])}
    names = list(model.parameters)

    def found(values: jax.Array) -> jax.Array:
        return model.with_parameters(dict(zip(names, values, strict=True))).log_evidence(data)[0]

    value, gradient = jax.value_and_grad(found)(jnp.asarray([2.0, 3.0]))
    assert float(value) == pytest.approx(stats.beta.logpdf(0.3, 2, 3), rel=1e-5)
    digamma = special.digamma
    exact = [
        np.log(0.3) - digamma(2) + digamma(5),
        np.log(0.7) - digamma(3) + digamma(5),
    ]
    np.testing.assert_allclose(gradient, exact, rtol=1e-4)
