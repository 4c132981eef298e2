"""Answers about an entity and itself, beside others about two: each pair is an answer."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm

KEYS = ":- input(k(key), 1..2).\n"
BOTH = {"k": np.array([[1, 1]])}


@pytest.mark.parametrize(
    "clauses",
    [
        "q(Z, Z)@t :- k(Z). q(1, 2)@t.",
        "q(1, 2)@t. q(Z, Z)@t :- k(Z).",
        "q(Z, Z)@t :- k(Z). q(X, Y)@t :- k(X), k(Y), X < Y.",
        "q(X, Y)@t :- k(X), k(Y), X < Y. q(Z, Z)@t :- k(Z).",
        "q(X, Y)@t :- (k(X), X = Y ; k(X), k(Y), X < Y).",
        "q(Z, Z) :- k(Z). q(1, 2).",
    ],
)
def test_a_diagonal_beside_another_pair(clauses: str) -> None:
    when = "" if "@" not in clauses else "@t"
    text = (
        KEYS
        + clauses
        + (
            f"\napart@t :- q(X, Y){when}, X =\\= Y.\n"
            f"pairs(N)@t :- aggregate_all(count, q(_, _){when}, N).\n"
            f"back@t :- q(2, 1){when}.\n"
            "query(apart@t). query(pairs(N)@t). query(back@t)."
        )
    )
    found = nesymm.compile(text).filter(BOTH, steps=1, method="exact").filtered
    assert found["apart@t"] == 1 and found["pairs(3)@t"] == 1 and found["back@t"] == 0


def test_three_keys_of_which_some_are_alike() -> None:
    text = KEYS + (
        "q(Z, Z, Z)@t :- k(Z). q(X, X, Y)@t :- k(X), k(Y). q(1, 2, 2)@t.\nquery(q(X, Y, Z)@t)."
    )
    found = nesymm.compile(text).filter(BOTH, steps=1, method="exact").filtered
    there = {(1, 1, 1), (2, 2, 2), (1, 1, 2), (2, 2, 1), (1, 2, 2)}
    named = {f"q({x},{y},{z})@t" for x, y, z in there}
    assert {name for name, p in found.items() if p == 1} == named
    assert all(found[name] == 0 for name in set(found) - named)


def test_a_reflexive_closure() -> None:
    text = """
    :- input(n(key), 1..2).
    0.5::e(X, Y)@t :- n(X), n(Y).
    r(X, X)@t :- n(X).
    r(X, Z)@t :- e(X, Y)@t, r(Y, Z)@t.
    apart@t :- r(X, Y)@t, X =\\= Y.
    query(apart@t). query(r(1, 2)@t).
    """
    found = nesymm.compile(text).filter({"n": np.array([[1, 1]])}, steps=1, method="exact").filtered
    assert found["apart@t"] == pytest.approx(1 - 0.5**2)
    assert found["r(1,2)@t"] == pytest.approx(0.5)


def test_evidence_about_a_pair_beside_a_diagonal() -> None:
    text = (
        KEYS
        + """
    q(Z, Z)@t :- k(Z).
    0.5::q(1, 2)@t.
    0.9::b@t :- q(X, Y)@t, X < Y.
    0.1::b@t.
    observe(b@t, true).
    c@t :- q(1, 2)@t.
    query(c@t).
    """
    )
    found = nesymm.compile(text).filter(BOTH, steps=1, method="exact")
    given, evidence = 0.5 * (1 - 0.1 * 0.9), 0.5 * (1 - 0.1 * 0.9) + 0.5 * 0.1
    assert found.filtered["c@t"] == pytest.approx(given / evidence)
    assert found.log_evidence == pytest.approx(np.log(evidence))
