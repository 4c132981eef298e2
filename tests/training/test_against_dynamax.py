"""A hidden Markov model written with `t(_)` learns what dynamax learns."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.training import fit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dynamax.hidden_markov_model import CategoricalHMM

# Two hidden states, three things to see; the numbers are where learning starts.
PROGRAM = """
x(S)@0 ~ categorical([t(0.6), t(0.4)], [0, 1]).
x(S)@t ~ categorical([t(0.7), t(0.3)], [0, 1]) :- x(0)@(t-1).
x(S)@t ~ categorical([t(0.4), t(0.6)], [0, 1]) :- x(1)@(t-1).
y(O)@t ~ categorical([t(0.5), t(0.3), t(0.2)], [0, 1, 2]) :- x(0)@t.
y(O)@t ~ categorical([t(0.2), t(0.3), t(0.5)], [0, 1, 2]) :- x(1)@t.
observe(y@t).
query(x(S)@T).
"""
START = np.array([0.6, 0.4])
MOVE = np.array([[0.7, 0.3], [0.4, 0.6]])
SEE = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
STEPS = 12


def simulate(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    start, move = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])
    see = np.array([[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])
    out = np.zeros((n, STEPS), int)
    for i in range(n):
        x = rng.choice(2, p=start)
        for t in range(STEPS):
            x = rng.choice(2, p=move[x]) if t else x
            out[i, t] = rng.choice(3, p=see[x])
    return out


@pytest.mark.slow
def test_both_reach_the_same_log_likelihood() -> None:
    """Both to convergence, from the same data and initialisation: dynamax by EM."""
    seen = simulate(60, seed=0)
    hmm = CategoricalHMM(
        num_states=2, emission_dim=1, num_classes=3,
        # Flat priors: the maximum of the likelihood, as we have it.
        initial_probs_concentration=1.0, transition_matrix_concentration=1.0,
        emission_prior_concentration=1.0,
    )  # fmt: skip
    parameters, properties = hmm.initialize(
        jax.random.key(0),
        initial_probs=jnp.asarray(START),
        transition_matrix=jnp.asarray(MOVE),
        emission_probs=jnp.asarray(SEE)[:, None, :],
    )
    emissions = jnp.asarray(seen)[..., None]

    def theirs(p: object) -> float:
        each = jax.jit(jax.vmap(lambda e: hmm.marginal_log_prob(p, e)))(emissions)
        return float(each.mean())

    begun = theirs(parameters)
    learnt, _ = hmm.fit_em(parameters, properties, emissions, num_iters=300, verbose=False)
    model = nesymm.compile(PROGRAM)
    data = {"y": seen}
    ours = float(np.mean(model.log_evidence(data, method="exact")))
    assert abs(ours - begun) < 1e-4
    schedule = optax.cosine_decay_schedule(0.1, 400)
    fitted = fit(
        model, data, method="exact", epochs=400, batch_size=60, progress=False,
        optimizer=optax.adam(schedule),
    )  # fmt: skip
    reached = float(np.mean(fitted.model.log_evidence(data, method="exact")))
    assert reached - ours > 0.1
    assert abs(reached - theirs(learnt)) < 1e-3
