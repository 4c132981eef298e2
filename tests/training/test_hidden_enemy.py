"""Hidden behaviour is recovered from its consequences alone.

An enemy walks around a ring by a policy that nobody sees; all that is known is where the
agent stood and when it was hit. Policy (a network) and hit chance (a `t(_)`) are learnt
together. Tolerances are standard errors from the scores of the sequences.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.inference.methods import ExactForward, Method, RaoBlackwellised
from nesymm.training import Fitted, fit

pytestmark = pytest.mark.compiled

PROGRAM = """
:- const(n, 3).
:- input(agent(X)@t, 0..2).
:- network(policy, 3).
enemy(0)@0.
move(M)@t ~ categorical(policy(E), [0, 1, 2]) :- enemy(E)@(t-1).
enemy(N)@t :- enemy(E)@(t-1), move(M)@t, N is (E + M) mod n.
t(0.5)::hit@t :- enemy(E)@t, agent(E)@t.
observe(hit@t).
"""
CHANCE = 0.8
# Log-odds of the moves 1 and 2 against 0, per place of the enemy.
POLICY = np.array([[1.5, 0.0], [-1.0, 1.0], [0.5, -1.5]])


def policy(params: jax.Array, place: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.zeros(1), params[place]])


def simulate(count: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = np.concatenate([np.zeros((3, 1)), POLICY], axis=1)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    agent = rng.integers(0, 3, size=(count, steps))
    enemy = np.zeros(count, int)
    hits = np.zeros((count, steps))
    for t in range(steps):
        if t:
            move = np.array([rng.choice(3, p=chances[e]) for e in enemy])
            enemy = (enemy + move) % 3
        hits[:, t] = (enemy == agent[:, t]) & (rng.random(count) < CHANCE)
    return {"agent": agent, "hit": hits}


def learn(data: dict[str, np.ndarray], method: Method, epochs: int) -> Fitted:
    model = nesymm.compile(PROGRAM, networks={"policy": nesymm.Function(policy, np.zeros((3, 2)))})
    schedule = optax.cosine_decay_schedule(0.1, epochs * (len(data["hit"]) // 100))
    return fit(
        model, data, method=method, epochs=epochs, batch_size=100, progress=False,
        optimizer=optax.adam(schedule),
    )  # fmt: skip


def each(model: nesymm.Model, data: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(model.log_evidence(data, method="exact"), float)


def test_policy_and_hit_chance_are_recovered_from_hits_alone() -> None:
    data = simulate(1200, 8, seed=0)
    fitted = learn(data, ExactForward(), epochs=25).model
    table = fitted.networks["policy"].params

    def evidence(numbers: jax.Array) -> jax.Array:
        networks = {"policy": nesymm.Function(policy, numbers[1:].reshape(3, 2))}
        return (
            fitted.with_parameters({"hit": numbers[0]})
            .with_networks(networks)
            .log_evidence(data, method="exact")
        )

    found = np.concatenate([[fitted.parameters["hit"]], np.ravel(table)])
    scores = np.asarray(jax.jit(jax.jacfwd(evidence))(jnp.asarray(found, jnp.float32)), float)
    errors = np.sqrt(np.diag(np.linalg.inv(scores.T @ scores)))
    true = np.concatenate([[CHANCE], POLICY.ravel()])
    assert errors[0] < 0.05 and (errors < 0.5).all()
    np.testing.assert_array_less(abs(found - true), 4 * errors)


@pytest.mark.slow
def test_particles_learn_what_exact_inference_learns() -> None:
    data, test = simulate(1200, 8, seed=0), simulate(1200, 8, seed=1)
    exact = each(learn(data, ExactForward(), 25).model, test)
    particles = each(learn(data, RaoBlackwellised(particles=30), 25).model, test)
    gap = particles - exact
    error = np.std(gap, ddof=1) / np.sqrt(len(gap))
    # Seven parameters learnt from 1,200 sequences cost about 7 / (2 · 1,200).
    assert abs(gap.mean()) < 4 * error + 4 * 7 / (2 * 1200)
