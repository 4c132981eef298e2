"""A tracker whose noise is learnt: gradients and what `fit` reaches, against exact likelihoods."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

import nesymm
from benchmarks.tracker import (
    PROGRAM,
    SEEN,
    TRUTH,
    as_data,
    free_numbers,
    learn,
    log_likelihood,
    maximum_likelihood,
    parameters,
    simulate,
)
from nesymm.inference.data import prepare
from nesymm.inference.loop import to_arrays
from nesymm.inference.methods import RaoBlackwellised
from nesymm.training import fit, fit_many
from nesymm.training.runs import chosen, each, keys_of

# The tracker is hard for particles: that is the point.
pytestmark = [
    pytest.mark.compiled,
    pytest.mark.filterwarnings("ignore::nesymm.NesymmWarning"),
]


def enumerated(seen: np.ndarray, cruise: float, turn: float, switch: float) -> float:
    """log p of one sequence by all paths of modes, each a multivariate normal."""
    steps = len(seen)
    total = -np.inf
    for switches in product((0, 1), repeat=steps - 1):
        mode, log_w = 0, 0.0
        # Positions are sums of the first velocity and the accelerations, with these weights.
        weights = np.zeros((steps, steps))
        scales = np.ones(steps)
        for t, changed in enumerate(switches, start=1):
            mode ^= changed
            log_w += np.log(switch if changed else 1 - switch)
            scales[t] = turn if mode else cruise
            weights[t, 0] = t
            weights[t, 1 : t + 1] = np.arange(t, 0, -1)
        covariance = (weights * scales**2) @ weights.T + SEEN**2 * np.eye(steps)
        for d in range(2):
            there = ~np.isnan(seen[:, d])
            if there.any():
                log_w += multivariate_normal.logpdf(
                    seen[there, d], np.zeros(there.sum()), covariance[np.ix_(there, there)]
                )
        total = np.logaddexp(total, log_w)
    return float(total)


def test_the_exact_likelihood_is_exact() -> None:
    seen = simulate(3, 7, seed=1)
    point = (0.1, 0.8, 0.15)
    expected = [enumerated(s, *point) for s in seen]
    np.testing.assert_allclose(log_likelihood(seen, *point), expected, rtol=1e-10)
    # Merging paths costs little.
    long = simulate(5, 20, seed=2)
    apart = np.abs(log_likelihood(long, *point, depth=6) - log_likelihood(long, *point, depth=9))
    assert apart.max() < 0.05


def estimates(seen: np.ndarray, free: np.ndarray, particles: int, keys: int) -> np.ndarray:
    """Gradients of each sequence's log-evidence in free numbers, [key, sequence, parameter]."""
    model = nesymm.compile(PROGRAM)

    def log_evidence(free: Any, key: Any) -> Any:
        values = (jnp.exp(free[0]), jnp.exp(free[1]), jax.nn.sigmoid(free[2]))
        return model.with_parameters(dict(zip(TRUTH, values, strict=True))).log_evidence(
            as_data(seen),
            method=RaoBlackwellised(particles=particles),
            key=key,
        )

    gradient = jax.jit(jax.jacrev(log_evidence))
    return np.stack([gradient(jnp.asarray(free), jax.random.key(k)) for k in range(keys)])


def exact_gradients(seen: np.ndarray, free: np.ndarray) -> np.ndarray:
    def at(free: np.ndarray) -> np.ndarray:
        return log_likelihood(seen, *parameters(free))

    return np.stack([(at(free + h) - at(free - h)) / 2e-3 for h in 1e-3 * np.eye(3)], -1)


def test_gradients_have_little_noise_and_the_right_mean() -> None:
    seen = simulate(6, 20, seed=3)
    free = free_numbers((0.2, 0.6, 0.2))
    found, exact = estimates(seen, free, 500, 8), exact_gradients(seen, free)
    # One run says more of a sequence than how much sequences differ.
    noise, spread = found.std(0, ddof=1).mean(0), exact.std(0, ddof=1)
    assert (noise < np.maximum(spread, 2.0)).all()
    means = found.mean(1)  # over sequences, per key
    error = means.std(0, ddof=1) / np.sqrt(len(means))
    # The mean has a bias of the order of 1 / particles: a tenth of the noise of one run.
    assert (np.abs(means.mean(0) - exact.mean(0)) < 4 * error + 0.1 * noise).all()


# ---------------------------------------------------------------- kept runs


COUNT = """
    c(C)@t ~ poisson(t(1.5)).
    total(0)@0.
    total(S + C)@t :- total(S)@(t-1), c(C)@t.
    y(Y)@t ~ normal(S, 0.8) :- total(S)@t.
    observe(y@t).
"""
COUNTED = np.array([0.1, 3.2, 3.9, 8.1])


def count_log_likelihood(rate: float) -> float:
    """By a table over totals up to 60."""
    totals = np.arange(60)
    log_pmf = np.where(
        totals[None, :] >= totals[:, None],
        (totals[None, :] - totals[:, None]) * np.log(rate) - rate,
        -np.inf,
    )
    factorials = np.cumsum(np.log(np.maximum(totals, 1)))
    steps = np.maximum(totals[None, :] - totals[:, None], 0)
    move = np.exp(log_pmf - factorials[steps])

    def weight(y: float) -> np.ndarray:
        return np.exp(-0.5 * ((y - totals) / 0.8) ** 2) / (0.8 * np.sqrt(2 * np.pi))

    belief = np.where(totals == 0, 1.0, 0.0) * weight(COUNTED[0])
    for y in COUNTED[1:]:
        belief = (belief @ move) * weight(y)
    return float(np.log(belief.sum()))


def test_kept_runs_have_no_bias_where_plain_ones_do() -> None:
    model = nesymm.compile(COUNT)
    copies, epochs = 400, 60
    data = {"y": np.tile(COUNTED, (copies, 1))}
    arrays = to_arrays(prepare(model.step, data))
    filter_ = model._filter(RaoBlackwellised(particles=8, resample_below="always"))
    alone = prepare(model.step, {"y": COUNTED[None]})

    def both(rate: Any, keys: Any) -> Any:
        def estimate(one: Any, key: Any) -> Any:
            values = {"c": rate}
            return filter_.estimate_of(alone, one, values, {}, key, "surrogate", True).log_evidence

        return jnp.stack([each(estimate, arrays, keys[n]) for n in ("kept", "fresh")])

    @jax.jit
    def step(keys: Any) -> tuple[Any, Any]:
        """log Ẑ and its gradient, [kept or fresh, copy]."""
        return jax.jvp(lambda r: both(r, keys), (jnp.asarray(1.5),), (jnp.ones(()),))

    rows, kept = np.arange(copies), np.zeros(copies, np.int64)
    averages = []
    for epoch in range(epochs):
        values, gradients = map(np.asarray, step(keys_of(0, rows, kept, epoch + 1)))
        share = expit(values[1] - values[0])
        averages.append((1 - share) * gradients[0] + share * gradients[1])
        if epoch == 0:
            plain = gradients.mean(0)
        kept = chosen(kept, epoch + 1, values[1] - values[0], 0, epoch, 0)
    exact = (count_log_likelihood(1.501) - count_log_likelihood(1.499)) / 0.002

    def off(found: np.ndarray) -> float:
        """How many standard errors of the mean over copies it is away."""
        return float((found.mean() - exact) / (found.std(ddof=1) / np.sqrt(len(found))))

    assert abs(off(plain)) > 6
    assert abs(off(np.mean(averages[epochs // 2 :], 0))) < 4


def test_runs_are_kept_in_proportion_to_their_evidence() -> None:
    kept = chosen(np.zeros(20_000, np.int64), 7, np.full(20_000, np.log(3.0)), 0, 0, 0)
    assert set(kept) == {0, 7}
    assert abs((kept == 7).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 20_000)
    # A run that explains nothing is never kept, one that alone explains always.
    assert (chosen(kept, 9, np.full(20_000, np.inf), 0, 1, 0) == 9).all()
    assert (chosen(kept, 9, np.full(20_000, -np.inf), 0, 1, 0) == kept).all()


def test_kept_runs_are_resumed_and_run_side_by_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    totals = np.cumsum(np.pad(rng.poisson(2.0, size=(12, 3)), ((0, 0), (1, 0))), 1)
    data = {"y": totals + 0.8 * rng.normal(size=totals.shape)}
    options: dict[str, Any] = {
        "method": RaoBlackwellised(particles=20),
        "batch_size": 4,
        "progress": False,
    }
    model = nesymm.compile(COUNT)
    whole = fit(model, data, epochs=4, **options)
    fit(model, data, epochs=2, checkpoints=tmp_path, **options)
    resumed = fit(model, data, epochs=4, checkpoints=tmp_path, resume=True, **options)
    assert resumed.model.parameters == whole.model.parameters
    assert resumed.history == whole.history
    (beside, _) = fit_many(model, data, keys=[0, 1], epochs=4, **options)
    assert beside.model.parameters["c"] == pytest.approx(whole.model.parameters["c"], rel=1e-4)
    plain = fit(model, data, epochs=4, debias=False, **options)
    assert plain.model.parameters != whole.model.parameters


# ---------------------------------------------------------------- learning


@pytest.mark.slow
def test_fit_recovers_the_noise_of_the_tracker() -> None:
    seen = simulate(60, 40, seed=0)
    _, errors = maximum_likelihood(seen)
    model = learn(seen, epochs=60, particles=1000)
    found = np.array([model.parameters[n] for n in TRUTH])
    assert (np.abs(found - list(TRUTH.values())) < 2 * errors).all()
