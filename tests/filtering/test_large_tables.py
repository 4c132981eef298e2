"""Tables that are too large are refused before they are made, and Auto goes around them."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.filtering.data import prepare
from nesymm.filtering.elimination import TooLarge
from nesymm.filtering.filter import Filter, describe
from nesymm.filtering.methods import Auto, ExactForward

# Queries about step 1 are remembered, and tie nine variables of four values together.
GRID = """
x(A, B, V)@0 ~ uniform_int(0, 3) :- between(1, 3, A), between(1, 3, B).
x(A, B, V)@t ~ uniform_int(0, M) :- x(A, B, M)@(t-1).
q(A, B)@t :- x(A, B, V)@t, x(1, A, W)@t, W = V.
observe(x(1, 2, V)@1, 2).
query(x(A, 2, V)@1). query(q(2, 2)@1). query(x(1, B, V)@1).
"""
# The same beside a state that has no exact belief in any case.
WALK = """
p(X)@0 ~ normal(0, 1).  p(X)@t ~ normal(Y, 1) :- p(Y)@(t-1).
v(I, V)@t ~ uniform_int(0, 9) :- between(1, 8, I).
alike@t :- v(I, V)@t, v(J, W)@t, I < J, (V + W * W) mod 53 =:= 7.
up@t :- p(X)@t, X > 0, alike@t.
observe(alike@t). query(up@t).
"""
PAIR = """
x(V)@0 ~ uniform_int(0, 15).  x(V)@t ~ uniform_int(0, W) :- x(W)@(t-1).
z(V) ~ uniform_int(0, 15).
0.5::y@t :- x(V)@t, z(V).
0.1::y@t.
observe(y@t). query(y@t).
"""


@pytest.mark.parametrize(
    ("method", "cells", "cure"),
    [("exact", "68,719,476,736", "rao-blackwellised"), ("rao-blackwellised", "262,144", "boots")],
)
def test_a_refusal_says_how_large_and_what_to_do(method: str, cells: str, cure: str) -> None:
    wanted = rf"x.*\[\d,\d\] \(4\), .* a table of {cells} cells, [\d.]+ GB in all; .*fewer .*{cure}"
    with pytest.raises(TooLarge, match=wanted):
        nesymm.compile(GRID).filter(horizon=2, method=method)


def test_auto_goes_around_them() -> None:
    found = nesymm.compile(GRID).filter(horizon=2)
    assert found.method == "bootstrap, 1,000 particles"
    assert "exact inference does not apply" in found.reason
    assert "given a particle: these finite variables" in found.reason
    # x(1, 2) is 2 at step 1 if it was 2 or 3 before; one particle in seven is left.
    p = (1 / 3 + 1 / 4) / 4
    error = np.sqrt((1 - p) / (p * 1000))
    np.testing.assert_allclose(found.log_evidence, np.log(p), atol=4 * error)


def test_auto_goes_around_those_given_a_particle() -> None:
    step = nesymm.compile(WALK).step
    engine, reason = Filter(step, Auto()).engine(prepare(step, {"alike": [[0, 0]]}, None, None))
    assert describe(engine) == "bootstrap, 1,000 particles"
    assert "p is normal" in reason
    assert "given a particle: these finite variables" in reason


def test_a_batch_counts() -> None:
    """A table that is small for one sequence is not so for millions: nothing is computed here."""
    step = nesymm.compile(PAIR).step
    few, many = (prepare(step, {"y": np.ones((n, 2))}, None, None) for n in (2, 3_000_000))
    auto = Filter(step, Auto())
    assert describe(auto.engine(few)[0]) == "exact forward"
    wanted = r"x \(16\), z \(16\).* cells, [\d.]+ GB in all; .* fewer sequences at once"
    with pytest.raises(TooLarge, match=wanted):  # particles would need even more
        auto.engine(many)
    exact = Filter(step, ExactForward())
    with pytest.raises(TooLarge, match=wanted):
        exact._shapes(exact.engine(many)[0], many)
