"""Data whose values JAX is tracing: the same estimates, and clear words where they cannot be."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm

pytestmark = pytest.mark.compiled

WALK = """
:- input(start(X), 0..3).
:- input(push(P)@t, [left, right]).
:- input(noise(S)).
pos(X)@0 :- start(X).
pos(X)@t :- pos(Y)@(t-1), push(left)@t, slips@t, X is max(0, Y - 1).
pos(X)@t :- pos(Y)@(t-1), push(right)@t, slips@t, X is min(3, Y + 1).
pos(X)@t :- pos(X)@(t-1), not slips@t.
t(0.7)::slips@t.
seen(Z)@t ~ normal(X, S) :- pos(X)@t, noise(S).
0.6::bump@t :- pos(3)@t.
0.1::bump@t.
observe(seen@t).
observe(bump@t).
query(pos(3)@T).
"""
BATCH, STEPS = 3, 4


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "start": np.array([0, 1, 2]),
        "push": rng.integers(0, 2, (BATCH, STEPS)),
        "noise": np.full(BATCH, 0.8),
        "seen": rng.normal(1.0, 1.0, (BATCH, STEPS)),
        "bump": rng.integers(0, 2, (BATCH, STEPS)),
    }


@pytest.fixture(scope="module")
def walk() -> nesymm.Model:
    return nesymm.compile(WALK)


@pytest.mark.parametrize("method", ["exact", nesymm.RaoBlackwellised(particles=20)])
def test_traced_data_give_the_same_estimates(walk: nesymm.Model, method: Any) -> None:
    plain = walk.estimate(data(), method=method, key=3)

    @eqx.filter_jit
    def traced(model: nesymm.Model, arrays: Any) -> tuple[Any, Any]:
        found = model.estimate(arrays, method=method, key=3)
        return found.log_evidence, found.probability("pos(3)@T")

    arrays = jax.tree.map(jnp.asarray, data())
    evidence, answer = traced(walk, arrays)
    np.testing.assert_allclose(evidence, plain.log_evidence, rtol=1e-5)
    np.testing.assert_allclose(answer, plain.probability("pos(3)@T"), rtol=1e-5)
    # Other data of the same shape, and data that are not traced, after it.
    again, _ = traced(walk, {**arrays, "noise": jnp.full(BATCH, 1.6)})
    other = walk.log_evidence({**data(), "noise": np.full(BATCH, 1.6)}, method=method, key=3)
    np.testing.assert_allclose(again, other, rtol=1e-5)


def test_estimates_have_gradients_in_the_data(walk: nesymm.Model) -> None:
    def total(noise: Any) -> Any:
        return walk.log_evidence({**data(), "noise": noise}, method="exact").sum()

    here, step = jnp.full(BATCH, 0.8), 1e-2
    gradient = jax.grad(total)(here)
    for i in range(BATCH):
        up, down = (float(total(here.at[i].add(s))) for s in (step, -step))
        # The central difference is off by step² / 6 times the third derivative.
        assert float(gradient[i]) == pytest.approx((up - down) / (2 * step), rel=2e-2, abs=2e-2)


def test_one_function_serves_many_data(walk: nesymm.Model) -> None:
    """`vmap` over data sets, each with a batch of its own."""
    many = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x), jnp.asarray(x)[::-1]]), data())
    found = jax.vmap(lambda d: walk.log_evidence(d, method="exact"))(many)
    expected = np.asarray(walk.log_evidence(data(), method="exact"))
    np.testing.assert_allclose(found, np.stack([expected, expected[::-1]]), rtol=1e-5)


def test_what_needs_values_is_refused(walk: nesymm.Model) -> None:
    def filtered(start: Any) -> Any:
        return walk.filter({**data(), "start": start}).log_evidence

    with pytest.raises(nesymm.DataError, match=r"start: JAX is tracing(?s:.*)`model.estimate`"):
        jax.jit(filtered)(jnp.zeros(BATCH, int))
    with pytest.raises(nesymm.DataError, match=r"start: expected int.*whole numbers, received fl"):
        jax.jit(lambda x: walk.log_evidence({**data(), "start": x}))(jnp.zeros(BATCH))
    with pytest.raises(nesymm.DataError, match=r"seen: expected axes .* received shape \(3,\)"):
        jax.jit(lambda x: walk.log_evidence({**data(), "seen": x}))(jnp.zeros(BATCH))
