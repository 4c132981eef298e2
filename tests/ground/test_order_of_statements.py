"""The order of observations and queries means nothing, nor in which parts they name a predicate.

A keyed variable asked for by one key, along one of its keys and as a whole is one variable.
"""

from __future__ import annotations

import math
from itertools import permutations
from random import Random

import pytest
from oracles import unrolled
from reference import infer

import nesymm
from nesymm.ground import compile_step
from nesymm.inference.methods import Bootstrap

_GRID = "between(1, 2, A), between(1, 2, B)"

# Clauses, and statements about parts of what they define.
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "one key and all keys, carried": (
        """
        x(B,V)@0 ~ uniform_int(0, 2) :- between(1, 3, B).
        x(B,V)@t ~ categorical([0.3, 0.7], [0, 1]) :- x(B,W)@(t-1), W > 0.
        x(B,V)@t ~ categorical([0.4, 0.6], [0, 2]) :- x(B,0)@(t-1).
        n@t :- x(1,V)@t, x(B,V)@t, B > 1.
        """,
        [
            "observe(x(1)@1, 0).",
            "observe(x(3)@0, 1).",
            "query(x(B,V)@T).",
            "query(x(2,_)@0).",
            "query(n@T).",
        ],
    ),
    "a row and a column, carried": (
        f"""
        0.5::x(A,B)@0 :- {_GRID}.
        0.3::x(A,B)@t :- {_GRID}, not x(A,B)@(t-1).
        row@t :- x(1,B)@(t-1), B > 1.
        column@t :- x(A,2)@(t-1), A < 2.
        both@t :- row@t, column@t.
        """,
        ["query(both@T).", "query(column@T).", "query(row@T)."],
    ),
    "a row and a column": (
        f"""
        P::x(A,B)@t :- {_GRID}, P is A / (A + B).
        row@t :- x(1,B)@t, B > 1.
        column@t :- x(A,2)@t, A < 2.
        both@t :- row@t, column@t.
        """,
        ["observe(x(2,1)@0, false).", "query(both@T).", "query(row@0).", "query(x(1,1)@T)."],
    ),
    "a diagonal and a row": (
        f"""
        P::x(A,B)@t :- {_GRID}, P is A / (A + B).
        same@t :- x(A,A)@t.
        row@t :- x(2,B)@t, B > 1.
        both@t :- same@t, row@t.
        """,
        ["observe(same@0, true).", "query(both@0).", "query(row@T).", "query(x(A,B)@T)."],
    ),
    "a clause for the diagonal": (
        """
        x(A,A,V)@t ~ uniform_int(0, 2) :- between(1, 3, A).
        one@t :- x(1,B,V)@t, V > 0.
        some@t :- x(A,B,V)@t, A < 2, V > 1.
        """,
        ["observe(one@T, true).", "query(some@T).", "query(x(A,B,V)@0).", "query(one@0)."],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_order_gives_the_same_answers(name: str) -> None:
    clauses, statements = PROGRAMS[name]
    expected = unrolled("\n".join([clauses, *statements]), 1)
    orders = list(permutations(statements))
    for order in Random(0).sample(orders, 6):
        found = infer(compile_step("\n".join([clauses, *order])), 1).queries
        # Atoms that cannot hold may be listed or not.
        names = {n for n in (*found, *expected) if found.get(n, 0) + expected.get(n, 0) > 1e-12}
        assert {n: found.get(n) for n in names} == pytest.approx(
            {n: expected.get(n) for n in names}, abs=1e-9
        )


def _log_normal(x: float, mean: float) -> float:
    return -0.5 * (x - mean) ** 2 - 0.5 * math.log(2 * math.pi)


@pytest.mark.parametrize("turn", range(3))
def test_one_continuous_element_is_observed_and_all_are_asked_for(turn: int) -> None:
    statements = ["observe(x(1)@0, 0.5).", "observe(seen@t, true).", "observe(x(1)@1, 0.3)."]
    model = nesymm.compile(
        """
        x(B,V)@0 ~ normal(0, 1) :- between(1, 3, B).
        x(B,V)@t ~ normal(W, 1) :- x(B,W)@(t-1).
        seen@t :- x(B,V)@t, V > -100.
        up(B)@t :- x(B,V)@t, V > 0.
        query(up(B)@T).
        """
        + "\n".join(statements[turn:] + statements[:turn])
    )
    particles = 2000
    found = model.filter(steps=2, method=Bootstrap(particles=particles))
    assert found.log_evidence == pytest.approx(
        [_log_normal(0.5, 0.0) + _log_normal(0.3, 0.5)], abs=1e-4
    )
    assert found.probability("up(1)@T") == 1.0
    # By symmetry one half; the bound is four standard errors.
    for b in (2, 3):
        assert found.probability(f"up({b})@T") == pytest.approx(0.5, abs=2 / particles**0.5)
