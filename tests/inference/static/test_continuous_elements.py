"""Continuous variables with keys that are read by keys which are drawn themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import nesymm

TWO = "x(E, X) ~ normal(M, 1) :- between(1, 2, E), m(M).\nm(0).\nat(V) ~ uniform_int(1, 2).\n"


def near(found: nesymm.Posterior, expected: dict[str, float]) -> None:
    """Within five standard errors, or exactly where nothing is sampled."""
    for name, p in expected.items():
        error = 1e-9 + 5 * found.stderr.get(name, 0.0)
        assert found.probability(name) == pytest.approx(p, abs=error), name


def test_elements_are_independent() -> None:
    """A shared draw would make `both` as probable as either."""
    model = nesymm.compile(
        TWO
        + """
        big(E) :- x(E, X), X * X > 2.
        hit :- at(E), big(E).
        both :- big(1), big(2).
        evidence(hit).
        query(big(_)). query(both).
        """
    )
    p = 2 * norm.sf(math.sqrt(2))
    found = model.infer(key=1)
    assert found.stderr["both"] > 0
    near(found, {"big(1)": (1 + p) / 2, "big(2)": (1 + p) / 2, "both": p})


def test_what_is_only_compared_has_a_closed_form() -> None:
    model = nesymm.compile(
        TWO
        + """
        big(E) :- x(E, X), X > 1.5.
        hit :- at(E), big(E).
        evidence(hit).
        query(big(_)).
        """
    )
    p = norm.sf(1.5)
    found = model.infer()
    assert not found.stderr
    near(found, {"big(1)": (1 + p) / 2, "big(2)": (1 + p) / 2})


def test_elements_share_what_their_parameters_depend_on() -> None:
    model = nesymm.compile(
        TWO.replace("m(0).", "m(M) ~ categorical([0.5, 0.5], [0, 3]).")
        + """
        big(E) :- x(E, X), X * X > 2.
        hit :- at(E), big(E).
        both :- big(1), big(2).
        evidence(hit).
        query(both). query(m(0)).
        """
    )
    p = norm.sf(math.sqrt(2) - np.array([0, 3])) + norm.cdf(-math.sqrt(2) - np.array([0, 3]))
    near(model.infer(key=2), {"both": (p**2).sum() / p.sum(), "m(0)": p[0] / p.sum()})


def test_one_element_is_observed() -> None:
    model = nesymm.compile(
        TWO.replace("m(0).", "m(M) ~ uniform_int(0, 3).")
        + """
        big(E) :- x(E, X), X > 1.
        hit :- at(E), big(E).
        observe(x(2), 2.0).
        query(big(_)). query(hit). query(m(3)).
        """
    )
    means = np.arange(4)
    weights = norm.pdf(2 - means) / norm.pdf(2 - means).sum()
    big = (weights * norm.sf(1 - means)).sum()
    near(model.infer(), {"big(1)": big, "big(2)": 1, "hit": (big + 1) / 2, "m(3)": weights[3]})


def test_the_element_that_is_observed_is_drawn() -> None:
    """x(1) has a mean of 0, x(2) one of 2: what is seen says which it is."""
    model = nesymm.compile(
        """
        x(E, X) ~ normal(M, 1) :- between(1, 2, E), M is 2 * (E - 1).
        at(V) ~ uniform_int(1, 2).
        seen(X) :- at(E), x(E, X).
        big :- x(1, X), X > 1.
        observe(seen, 2.5).
        query(at(2)). query(big).
        """
    )
    densities = norm.pdf(2.5 - np.array([0, 2]))
    second = densities[1] / densities.sum()
    found = model.infer()
    near(found, {"at(2)": second, "big": 1 - second + second * norm.sf(1)})
    assert found.log_evidence == pytest.approx(math.log(densities.mean()))
