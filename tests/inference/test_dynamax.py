"""Hidden Markov models and linear Gaussian models: the same numbers as dynamax."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dynamax.hidden_markov_model import hmm_filter, hmm_posterior_mode, hmm_smoother
    from dynamax.linear_gaussian_ssm import lgssm_filter
    from dynamax.linear_gaussian_ssm.inference import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
    )

# ---------------------------------------------------------------- hidden Markov models

STATES = ("a", "b", "c")
SYMBOLS = (0, 1, 2, 3)


def random_hmm(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where it starts, how it moves, what it emits."""
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(3))
    return start, rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(4), 3)


def hmm_program(start: np.ndarray, moves: np.ndarray, emits: np.ndarray) -> str:
    def row(weights: np.ndarray, values: tuple) -> str:
        ps = ", ".join(f"{p:.17f}" for p in weights)
        return f"categorical([{ps}], [{', '.join(map(str, values))}])"

    lines = [f"state(S)@0 ~ {row(start, STATES)}."]
    for i, s in enumerate(STATES):
        lines.append(f"state(S)@t ~ {row(moves[i], STATES)} :- state({s})@(t-1).")
        lines.append(f"symbol(X)@t ~ {row(emits[i], SYMBOLS)} :- state({s})@t.")
    return "\n".join([*lines, "observe(symbol@t).", "query(state(_)@t)."])


@pytest.fixture(scope="module")
def hmm() -> Any:
    """Programs and dynamax on five sequences of ten steps: filtered, smoothed, best."""
    start, moves, emits = random_hmm(1)
    symbols = np.random.default_rng(2).integers(0, 4, (5, 10))
    model = nesymm.compile(hmm_program(start, moves, emits))
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        likelihoods = jnp.asarray(np.log(emits.T[symbols]))

        def one(ll: Any) -> Any:
            parts = (jnp.asarray(start), jnp.asarray(moves), ll)
            smooth = hmm_smoother(*parts)
            return hmm_filter(*parts), smooth.smoothed_probs, hmm_posterior_mode(*parts)

        found = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(likelihoods))
    return model, {"symbol": symbols}, found


def along_states(answers: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([answers[f"state({s})@t"] for s in STATES], axis=-1)


def test_hmm_filtered(hmm: Any) -> None:
    model, data, (filtered, _, _) = hmm
    with jax.enable_x64(True):
        found = model.filter(data, method=ExactForward())
    assert found.log_evidence == pytest.approx(filtered.marginal_loglik, abs=1e-9)
    assert along_states(found.filtered) == pytest.approx(filtered.filtered_probs, abs=1e-9)


@pytest.mark.slow
def test_hmm_filtered_in_single_precision(hmm: Any) -> None:
    model, data, (filtered, _, _) = hmm
    found = model.filter(data, method=ExactForward())
    assert found.log_evidence == pytest.approx(filtered.marginal_loglik, abs=1e-5)
    assert along_states(found.filtered) == pytest.approx(filtered.filtered_probs, abs=1e-5)


@pytest.mark.slow
def test_hmm_smoothed(hmm: Any) -> None:
    model, data, (_, smoothed, _) = hmm
    with jax.enable_x64(True):
        found = model.smooth(data, method=ExactForward())
    assert along_states(found) == pytest.approx(smoothed, abs=1e-5)


def test_hmm_viterbi(hmm: Any) -> None:
    model, data, (_, _, path) = hmm
    with jax.enable_x64(True):
        best = model.trajectories(data, method=ExactForward(), best=True)
    for b in range(len(path)):
        for t in range(path.shape[1]):
            (atom,) = best.atoms(b, 0, t)
            assert atom == f"state({STATES[path[b, t]]})@{t}"


# ---------------------------------------------------------------- linear Gaussian models

# A place and a speed; the place is seen.
MOVES = """
    x@0 ~ normal(1, 0.8).
    v@0 ~ normal(0.5, 0.3).
    v@t ~ normal(0.9 * v@(t-1), 0.3).
    x@t ~ normal(x@(t-1) + v@(t-1) + 0.1, 0.4).
    y@t ~ normal(2 * x@t, 0.9).
    observe(y@t).
"""
SEEN = np.asarray([[1.5, 3.6, 5.0, 5.2, 7.5, 9.0, 8.2, 9.9], [2.2, 2.1, 1.7, 2.9, 1.2, 0.3, 0, 1]])
REPEATS = 40


def kalman(seen: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parameters = ParamsLGSSM(
            initial=ParamsLGSSMInitial(
                mean=jnp.asarray([1.0, 0.5]), cov=jnp.diag(jnp.asarray([0.8, 0.3]) ** 2)
            ),
            dynamics=ParamsLGSSMDynamics(
                weights=jnp.asarray([[1.0, 1.0], [0.0, 0.9]]),
                bias=jnp.asarray([0.1, 0.0]),
                input_weights=jnp.zeros((2, 0)),
                cov=jnp.diag(jnp.asarray([0.4, 0.3]) ** 2),
            ),
            emissions=ParamsLGSSMEmissions(
                weights=jnp.asarray([[2.0, 0.0]]),
                bias=jnp.zeros(1),
                input_weights=jnp.zeros((1, 0)),
                cov=jnp.asarray([[0.9**2]]),
            ),
        )
        return np.asarray(
            [lgssm_filter(parameters, jnp.asarray(y)[:, None]).marginal_loglik for y in seen]
        )


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return kalman(SEEN)


@pytest.mark.filterwarnings("ignore:low effective sample size")  # never resampled
@pytest.mark.parametrize(
    "method",
    [
        RaoBlackwellised(particles=1000),
        Bootstrap(particles=1000),
        Bootstrap(particles=1000, resample_below="always", resampling="multinomial"),
        Bootstrap(particles=1000, resample_below=0),
    ],
    ids=str,
)
def test_linear_gaussian_evidence(method: Any, expected: np.ndarray) -> None:
    """The evidence is right on average, whether or not particles are resampled."""
    model = nesymm.compile(MOVES)
    found = model.filter({"y": np.repeat(SEEN, REPEATS, axis=0)}, method=method)
    if method.resample_below == 0:
        assert not found.resampled.any()
    elif method.resample_below == "always":
        assert found.resampled[:, :-1].all()
    else:
        assert found.resampled[:, :-1].any(axis=1).all()
    ratios = np.exp(found.log_evidence.reshape(2, REPEATS) - expected[:, None])
    errors = ratios.std(axis=1) / np.sqrt(REPEATS)
    assert (errors < (0.5 if method.resample_below == 0 else 0.1)).all()
    assert (abs(ratios.mean(axis=1) - 1) < 4 * errors).all()
