"""A network that sees only places and static draws is called once for all later steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.forward import ExactFilter
from nesymm.inference.methods import ExactForward, RaoBlackwellised

SOURCE = """
:- const(n, 4).
:- network(draw, [3]).
b ~ normal(0, 1).
place(X)@0 ~ uniform_int(1, n).
place(Y)@t :- place(X)@(t-1), go@t, Y is min(n, X + 1).
place(X)@t :- place(X)@(t-1), not go@t.
0.6::go@t.
frame(F)@t ~ normal(draw(X, b), 0.5) :- place(X)@t.
observe(frame@t).
query(place(4)@t).
"""


def draw(x: Any, b: Any) -> Any:
    return jnp.stack([x * 1.0, b, x * b])


def frames() -> np.ndarray:
    rng = np.random.default_rng(0)
    places = [1, 2, 2, 3, 4, 4]
    return np.stack([np.asarray(draw(x, 0.4)) for x in places])[None] + rng.normal(
        0, 0.5, (1, 6, 3)
    )


@pytest.mark.slow
def test_the_answers_are_those_of_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nesymm.compile(SOURCE, networks={"draw": draw})
    data = {"frame": frames()}
    with jax.enable_x64(True):
        exact = model.filter(data, method=ExactForward(draws=2000))
        loose = model.filter(
            {"frame": np.repeat(frames(), 20, 0)}, method=RaoBlackwellised(particles=2000)
        )
        monkeypatch.setattr(ExactFilter, "hoist", lambda _, binding, *rest: binding)
        again = nesymm.compile(SOURCE, networks={"draw": draw}).filter(
            data, method=ExactForward(draws=2000)
        )
    np.testing.assert_allclose(exact.log_evidence, again.log_evidence, rtol=1e-12)
    for query, row in exact.filtered.items():
        np.testing.assert_allclose(row, again.filtered[query], rtol=1e-9)
    error = loose.log_evidence.std(ddof=1)
    assert abs(exact.log_evidence[0] - loose.log_evidence.mean()) < 4 * error


def test_the_network_is_not_called_inside_the_loop() -> None:
    def marked(x: Any, b: Any) -> Any:
        return jnp.arctan(draw(x, b))

    model = nesymm.compile(SOURCE, networks={"draw": marked})
    data = {"frame": frames()}
    whole = jax.make_jaxpr(
        lambda: model.estimate(data, method=ExactForward(draws=1)).log_evidence
    )()
    loops = [e for e in equations(whole.jaxpr) if e.primitive.name == "scan"]
    assert loops
    assert "atan" in [e.primitive.name for e in equations(whole.jaxpr)]
    for loop in loops:
        assert "atan" not in [e.primitive.name for e in equations(loop.params["jaxpr"].jaxpr)]


def equations(jaxpr: Any) -> Iterator[Any]:
    """All steps of a computation, inner ones included."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from equations(getattr(inner, "jaxpr", inner))
