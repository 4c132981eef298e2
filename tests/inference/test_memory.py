"""What a filter keeps, what it computes only once, and what not at all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.data import prepare
from nesymm.inference.elimination.choices import PARTICLE
from nesymm.inference.loop import Run, to_arrays
from nesymm.inference.methods import RaoBlackwellised
from nesymm.inference.resampling import systematic
from nesymm.inference.state import gradient_of

pytestmark = pytest.mark.compiled

WALK = """
:- input(push(D)@t, -1..1).
:- network(drift, 3).
place(5)@0.
place(P)@t :- place(Q)@(t-1), push(D)@t, P is max(0, min(9, Q + D)).
prey(5)@0.
prey(P)@t :- prey(Q)@(t-1), step(S)@t, P is max(0, min(9, Q + S)).
step(S)@t ~ categorical(drift(Q), [-1, 0, 1]) :- prey(Q)@(t-1).
t(0.8)::seen@t :- place(P)@t, prey(P)@t.
t(0.1)::seen@t :- place(P)@t, prey(Q)@t, P =\\= Q.
observe(seen@t).
query(seen@T).
"""
STEPS, PARTICLES = 6, 300


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (2, STEPS)
    return {"push": rng.integers(-1, 2, shape), "seen": rng.integers(0, 2, shape)}


def test_what_follows_from_inputs_has_no_particle_axis() -> None:
    model = nesymm.compile(WALK, networks={"drift": lambda place: jnp.zeros(3)})
    sequences = prepare(model.step, data())
    engine = model._filter(RaoBlackwellised(particles=PARTICLES)).engines.choose(sequences)
    run = Run(
        engine,
        engine.settings(sequences.batch),
        sequences,
        to_arrays(sequences),
        model.parameters,
        model.networks,
        jax.random.key(0),
        together=True,
    )
    state = run.outcome().last
    assert PARTICLE not in state.slots["place.0"].dims
    assert PARTICLE in state.slots["prey.0"].dims


def test_a_network_of_few_values_is_called_once_per_value() -> None:
    """Ten places, 600 particles, six steps: ten calls."""
    rows: list[int] = []

    def drift(place: Any) -> Any:
        # Inside `vmap` an argument does not show its batch; a callback counts the rows.
        jax.debug.callback(lambda p: rows.append(np.size(p)), place)
        return jnp.zeros(3)

    model = nesymm.compile(WALK, networks={"drift": drift})
    model.filter(data(), method=RaoBlackwellised(particles=PARTICLES))
    jax.effects_barrier()
    assert sum(rows) == 10


def test_the_way_back_keeps_less_than_every_step_whole() -> None:
    """A step is computed again on the way back: only what it drew is kept."""
    model = nesymm.compile(WALK, networks={"drift": lambda place: jnp.zeros(3)})

    def loss(parameters: Any) -> Any:
        method = RaoBlackwellised(particles=PARTICLES)
        return model.with_parameters(parameters).log_evidence(data(), method=method).sum()

    text = str(jax.make_jaxpr(jax.grad(loss))(model.parameters))
    assert "checkpoint" in text or "remat" in text


def test_what_has_a_gradient_alone_is_not_computed_without_it() -> None:
    """Each step would else compute the scores of its draws."""

    def nothing(x: Any) -> Any:
        return gradient_of(jnp.tanh(x))

    text = jax.jit(nothing).lower(jnp.ones(3)).compile().as_text()
    assert text is not None and "tanh" in str(jax.make_jaxpr(nothing)(1.0)) and "tanh" not in text
    np.testing.assert_allclose(jax.vmap(jax.grad(nothing))(jnp.zeros(3)), 1.0)


@pytest.mark.parametrize(("below", "expected"), [(1.0, False), ("always", True)])
def test_equal_weights_are_resampled_only_if_all_are(below: Any, expected: bool) -> None:
    """At the first step no evidence tells the particles apart."""
    asked = []

    def scheme(key: Any, weights: Any) -> Any:
        asked.append(weights)
        return systematic(key, weights)

    model = nesymm.compile(WALK, networks={"drift": lambda place: jnp.zeros(3)})
    first = {name: array[:, :1] for name, array in data().items()}
    method = RaoBlackwellised(particles=PARTICLES, resampling=scheme, resample_below=below)
    model.filter(first, method=method)
    assert bool(asked) == expected
