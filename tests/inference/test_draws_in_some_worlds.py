"""Continuous variables whose clauses exclude each other by what is summed out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import nesymm
from nesymm.inference.methods import Bootstrap, Method, RaoBlackwellised

METHODS = [RaoBlackwellised(particles=2000), Bootstrap(particles=2000)]


@pytest.mark.parametrize("method", METHODS)
def test_smoothing_compares_them(method: Method) -> None:
    model = nesymm.compile("""
    0.5::m@t.
    x(X)@t ~ normal(0, 1) :- m@t.
    x(X)@t ~ normal(2, 1) :- not m@t.
    big@t :- x(X)@t, X > 1.
    query(big@t).
    """)
    found = model.smooth(steps=3, method=method)["big@t"]
    assert np.abs(found - 0.5).max() < 4 * np.sqrt(0.25 / 2000)


@pytest.mark.parametrize("method", METHODS)
def test_what_was_drawn_says_nothing_of_worlds_that_do_not_draw_it(method: Method) -> None:
    """How likely a value is where it is not drawn must not count against the other worlds: the
    narrow density is far above 1."""
    model = nesymm.compile("""
    0.4::low.
    x(X)@t ~ normal(0, 1) :- low.
    x(X)@t ~ normal(2, 0.1) :- not low.
    big@t :- x(X)@t, X > 1.
    0.9::o@t :- big@t.
    0.2::o@t :- not big@t.
    observe(o@t).
    query(low).
    """)
    seen = np.array([True, True, False, True, False])

    def likelihood(above: float) -> float:
        chance = 0.9 * above + 0.2 * (1 - above)
        return float(np.prod(np.where(seen, chance, 1 - chance)))

    low, high = 0.4 * likelihood(norm.sf(1)), 0.6 * likelihood(norm.cdf(10))
    found = model.filter({"o": np.repeat(seen[None], 30, 0)}, method=method)
    for values, exact in (
        (np.exp(found.log_evidence), low + high),
        (np.asarray(found.final["low"], float), low / (low + high)),
    ):
        assert abs(values.mean() - exact) < 4 * values.std() / np.sqrt(30)
