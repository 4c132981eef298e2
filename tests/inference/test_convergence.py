"""More particles, smaller errors, as the inverse square root of their number.

Except with the paper's recursion, which leaves out a weight: it converges elsewhere.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised

START, STAY, COME = 0.3, 0.9, 0.2
SEEN_WET, SEEN_DRY = 0.9, 0.25
WEATHER = f"""
    {START}::rain@0.
    {STAY}::rain@t :- rain@(t-1).
    {COME}::rain@t :- not rain@(t-1).
    {SEEN_WET}::umbrella@t :- rain@t.
    {SEEN_DRY}::umbrella@t :- not rain@t.
    observe(umbrella@t). query(rain@t). query(rain@T).
"""
SEEN = np.asarray([1, 1, 0, 1, 0, 0])


def repeated(times: int) -> dict[str, np.ndarray]:
    return {"umbrella": np.repeat(SEEN[None], times, axis=0)}


def likelihood(seen: int) -> np.ndarray:
    """p(seen | dry), p(seen | rain)."""
    ps = np.asarray([SEEN_DRY, SEEN_WET])
    return ps if seen else 1 - ps


def forward(paper: bool) -> tuple[np.ndarray, float]:
    """The probability of rain at each step and the log-evidence, by the rules of arithmetic.

    The paper's recursion draws the next state from p(next | previous, evidence) and leaves
    the weight p(evidence | previous) out: with infinitely many particles it is
    p'(next) = sum over previous of p'(previous) p(next | previous, evidence).
    """
    joint = np.asarray([1 - START, START]) * likelihood(SEEN[0])
    p, evidence = joint / joint.sum(), np.log(joint.sum())
    out = [p[1]]
    moves = np.asarray([[1 - COME, COME], [1 - STAY, STAY]])
    for seen in SEEN[1:]:
        steps = moves * likelihood(seen)
        weights = steps.sum(axis=1)
        evidence += np.log(p @ weights)
        p = p @ (steps / weights[:, None]) if paper else p @ steps / (p @ weights)
        out.append(p[1])
    return np.asarray(out), float(evidence)


def test_exact_forward_is_the_forward_algorithm() -> None:
    expected, evidence = forward(paper=False)
    found = nesymm.compile(WEATHER).filter(repeated(1), method=ExactForward())
    assert found.filtered["rain@t"][0] == pytest.approx(expected, abs=1e-6)
    assert found.log_evidence[0] == pytest.approx(evidence, abs=1e-5)


# With 150 repeats an error is known to 6 %, and the slope over these sizes to 0.02.
SIZES = (64, 512, 4096)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RaoBlackwellised, Bootstrap])
def test_errors_fall_as_the_inverse_square_root(kind: Any) -> None:
    model = nesymm.compile(WEATHER)
    expected, evidence = forward(paper=False)
    of_evidence, of_answers = [], []
    for n in SIZES:
        method = kind(particles=n, resampling="multinomial")
        found = model.filter(repeated(150), method=method)
        of_evidence.append(rmse(found.log_evidence - evidence))
        of_answers.append(rmse(found.final["rain@T"] - expected[-1]))
    for errors in (of_evidence, of_answers):
        slope = np.polyfit(np.log(SIZES), np.log(errors), 1)[0]
        assert -0.6 < slope < -0.4, (slope, errors)


def rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


@pytest.mark.slow
def test_the_recursion_of_the_paper_converges_elsewhere() -> None:
    model = nesymm.compile(WEATHER)
    exact, evidence = forward(paper=False)
    limit, wrong_evidence = forward(paper=True)
    # The evidence is informative: the limit is far off.
    assert abs(limit - exact).max() > 0.05
    assert abs(wrong_evidence - evidence) > 0.02
    errors: dict[tuple[str, int], float] = {}
    repeats = 50
    for recursion, n in product(("paper", "correct"), (100, 5000)):
        method = RaoBlackwellised(particles=n, recursion=recursion)
        found = model.filter(repeated(repeats), method=method)
        rows = found.filtered["rain@t"]
        errors[recursion, n] = rmse(rows - exact)
        if recursion == "paper":
            spread = rows.std(axis=0) / np.sqrt(repeats)
            assert (abs(rows.mean(axis=0) - limit) < 4 * spread + 1e-5).all()
            spread = found.log_evidence.std() / np.sqrt(repeats)
            bias = 10 / n  # the logarithm of a mean
            assert abs(found.log_evidence.mean() - wrong_evidence) < 4 * spread + bias
    bias = rmse(limit - exact)
    assert errors["paper", 100] > 0.9 * bias
    assert errors["paper", 5000] == pytest.approx(bias, rel=0.05)
    assert errors["correct", 5000] < errors["correct", 100] / 4
    assert errors["correct", 5000] < bias / 10
