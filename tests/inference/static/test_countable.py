"""Whole numbers without end, compared with constants: closed forms, not samples."""

from __future__ import annotations

import pytest
import scipy.stats

import nesymm

POISSON, GEOMETRIC = scipy.stats.poisson(2), scipy.stats.geom(0.3, loc=-1)

CASES = [
    ("poisson(2)", "k =:= 3", POISSON.pmf(3)),
    ("poisson(2)", "k = 3", POISSON.pmf(3)),
    ("poisson(2)", "k =\\= 3", 1 - POISSON.pmf(3)),
    ("geometric(0.3)", "3 =:= k", GEOMETRIC.pmf(3)),
    ("poisson(2)", "k < 3", POISSON.cdf(2)),
    ("poisson(2)", "k =< 3", POISSON.cdf(3)),
    ("geometric(0.3)", "k >= 3", GEOMETRIC.sf(2)),
    ("geometric(0.3)", "k > 3", GEOMETRIC.sf(3)),
    ("poisson(2)", "2 * k + 1 =:= 7", POISSON.pmf(3)),
    ("poisson(2)", "2 * k =:= 7", 0.0),
    ("poisson(2)", "k =:= -1", 0.0),
    ("poisson(2)", "abs(k - 2) =:= 1", POISSON.pmf(1) + POISSON.pmf(3)),
    ("poisson(2)", "(k =:= 0 ; k =:= 2)", POISSON.pmf(0) + POISSON.pmf(2)),
    ("poisson(2)", "k > 1, k =\\= 3", POISSON.sf(1) - POISSON.pmf(3)),
]


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
@pytest.mark.parametrize(("family", "goal", "expected"), CASES)
def test_comparisons_are_exact(family: str, goal: str, expected: float, method: str) -> None:
    posterior = nesymm.compile(f"k ~ {family}. q :- {goal}. query(q).").infer(method=method)
    assert posterior.stderr == {} and posterior.method == method
    assert posterior.probability("q") == pytest.approx(expected, abs=1e-12)


def test_a_value_that_one_of_two_clauses_draws() -> None:
    source = """
        0.4::busy. calls ~ poisson(5) :- busy. calls ~ poisson(1) :- \\+ busy.
        evidence(quiet). quiet :- calls =:= 1. query(busy).
    """
    posterior = nesymm.compile(source).infer()
    busy, idle = 0.4 * scipy.stats.poisson(5).pmf(1), 0.6 * scipy.stats.poisson(1).pmf(1)
    assert posterior.probability("busy") == pytest.approx(busy / (busy + idle))
    assert posterior.stderr == {}
