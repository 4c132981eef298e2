"""Draws from what the evidence of their own step leaves of them, against Kalman filters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import nesymm
from nesymm.inference.methods import Bootstrap, RaoBlackwellised
from nesymm.inference.particles import ParticleFilter

WALK = """
    x(X)@0 ~ normal(0.5, 2).
    x(Y)@t ~ normal(X, 1) :- x(X)@(t-1).
    y(Y)@t ~ normal(M, 0.1) :- x(X)@t, M is 2 * X - 1.
    observe(y@t).
    up@t :- x(X)@t, X > 0.
    query(up@t).
"""
PLATE = """
    e(E) :- between(1, 3, E).
    x(E, X)@0 ~ normal(0, 1) :- e(E).
    x(E, Y)@t ~ normal(X, 0.5) :- x(E, X)@(t-1).
    y(E, Y)@t ~ normal(X, 0.2) :- x(E, X)@t.
    observe(y(E)@t).
    up@t :- x(1, X)@t, X > 0.
    query(up@t).
"""
SHARED = """
    e(E) :- between(1, 3, E).
    x(X)@0 ~ normal(0, 1).
    x(Y)@t ~ normal(X, 0.5) :- x(X)@(t-1).
    y(E, Y)@t ~ normal(X, 0.4) :- e(E), x(X)@t.
    observe(y(E)@t).
    up@t :- x(X)@t, X > 0.
    query(up@t).
"""


def proposed(text: str, method: RaoBlackwellised | Bootstrap = RaoBlackwellised()) -> dict:  # noqa: B008
    step, solve = nesymm.compile(text).step, isinstance(method, RaoBlackwellised)
    about = (step, frozenset(), np.float32, 4)
    engine = ParticleFilter(*about, particles=method.particles, solve=solve)
    return {n: p.given is not None for found in engine.proposals.values() for n, p in found.items()}


def walk_covariance(steps: int, first: float, move: float) -> np.ndarray:
    shared = first**2 + move**2 * np.arange(steps)
    return np.minimum.outer(shared, shared)


def marginal(values: np.ndarray, mean: float, covariance: np.ndarray) -> float:
    """The log-density of what is not missing."""
    there = ~np.isnan(values)
    if not there.any():
        return 0.0
    return float(
        multivariate_normal.logpdf(
            values[there], np.full(there.sum(), mean), covariance[np.ix_(there, there)]
        )
    )


def close(found: np.ndarray, exact: float) -> None:
    """Whether estimates of a log-evidence have the right mean of their exponentials."""
    ratios = np.exp(found - exact)
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1) < 4 * error
    assert ratios.std() < 0.5


def test_what_is_seen_sharply_costs_no_particles_at_first() -> None:
    result = nesymm.compile(WALK).filter({"y": np.array([[7.0]])})
    # The mean of y is 2 * 0.5 - 1, its variance 4 * 4 + 0.01; every draw explains it equally well.
    assert result.log_evidence[0] == pytest.approx(norm.logpdf(7, 0, np.sqrt(16.01)), abs=1e-4)
    assert result.effective[0, 0] == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize("missing", [(), (1, 2), (0,)])
def test_a_walk_seen_sharply_agrees_with_a_kalman_filter(missing: tuple[int, ...]) -> None:
    seen = np.array([2.0, 3.1, -0.5, 0.4, 1.0])
    seen[list(missing)] = np.nan
    data = {"y": np.tile(seen, (200, 1))}
    found = nesymm.compile(WALK).filter(data, method=RaoBlackwellised(particles=40))
    exact = marginal(seen, 0.0, 4 * walk_covariance(5, 2, 1) + 0.01 * np.eye(5))
    close(found.log_evidence, exact)


@pytest.mark.parametrize("text", [PLATE, SHARED])
def test_elements_are_seen_each_by_itself(text: str) -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(3, 3))  # step, element
    seen[1, 2] = seen[2, 0] = np.nan
    data = {"y": np.tile(seen, (300, 1, 1))}
    method = RaoBlackwellised(particles=50)
    found = nesymm.compile(text).filter(data, method=method)
    if text == PLATE:
        covariance = walk_covariance(3, 1, 0.5) + 0.04 * np.eye(3)
        exact = sum(marginal(seen[:, e], 0.0, covariance) for e in range(3))
    else:
        among = np.kron(walk_covariance(3, 1, 0.5), np.ones((3, 3))) + 0.16 * np.eye(9)
        exact = marginal(seen.ravel(), 0.0, among)
    close(found.log_evidence, exact)


def test_which_variables_are_proposed() -> None:
    assert proposed(WALK) == {"x": True, "x:2": True}
    assert proposed(PLATE) == proposed(SHARED) == {"x": True, "x:2": True}
    # From the prior: in a bootstrap filter, and with one particle, whose evidence is a bound.
    assert proposed(WALK, Bootstrap()) == {}
    assert proposed(WALK, RaoBlackwellised(particles=1)) == {}
    # Not affine; a scale; a draw that is observed itself.
    assert proposed(WALK.replace("M is 2 * X - 1", "M is X * X")) == {}
    assert proposed(WALK.replace("normal(M, 0.1)", "normal(0, M)")) == {}
    assert proposed(WALK + "observe(x@t).") == {}


def test_what_bears_on_a_draw_otherwise_keeps_it_from_being_drawn_anew() -> None:
    compared = WALK + "0.9::felt@t :- up@t. observe(felt@t)."
    assert proposed(compared) == {"x": False, "x:2": False}
    seen = np.array([0.5, -1.0, 0.2])
    data = {"y": np.tile(seen, (300, 1)), "felt": np.tile([True, False, True], (300, 1))}
    found = nesymm.compile(compared).filter(data, method=RaoBlackwellised(particles=100))
    # By a fine grid: x is (y + 1) / 2 up to 0.05.
    cells = np.arange(-4, 4, 0.002) + 0.001
    belief = norm.pdf(cells, 0.5, 2)
    for step, (y, felt) in enumerate(zip(seen, (True, False, True), strict=True)):
        if step:
            belief = norm.pdf(cells[:, None], cells[None, :], 1) @ belief * 0.002
        chance = 0.9 * (cells > 0)
        belief = belief * norm.pdf(y, 2 * cells - 1, 0.1) * (chance if felt else 1 - chance)
    close(found.log_evidence, float(np.log(belief.sum() * 0.002)))


def test_what_a_phase_never_draws_bears_on_nothing() -> None:
    """A value that is fixed at first and drawn later, observed beside what is proposed."""
    both = """
        e(E) :- between(1, 2, E).
        v(E, 0)@0 :- e(E).
        v(E, V)@t ~ categorical([0.3, 0.7], [0, 1]) :- v(E, _)@(t-1).
        observe(v(E)@t).
    """
    assert proposed(WALK + both) == {"x": True, "x:2": True}
