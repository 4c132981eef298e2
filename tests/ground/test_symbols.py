"""Predicates of facts and rules that are called with what is known at run time only."""

from __future__ import annotations

import pytest
from agreement import agree
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracles import Refused

from nesymm.errors import ProgramError

SETTINGS = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
NUMBERS = st.integers(1, 3)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5)
RECURSIVE = "w(A, B) :- link(A, C), w(C, B)."
RANDOM = "0.4::w(A, 3) :- link(A, _)."
RULES = [
    "w(A, B) :- between(1, 3, A), between(1, 3, B), A < B.",
    "w(A, B) :- between(1, 3, A), B is 4 - A.",
    "w(A, B) :- link(A, B).",
    "w(A, A) :- between(1, 3, A), A \\= 2.",
    RECURSIVE,
    "w(A, 2) :- link(A, _).",
    RANDOM,
]
CALLS = [
    "p@t :- x(X)@t, y(Y)@t, w(X, Y).",
    "p@t :- x(X)@t, y(Y)@t, not w(X, Y).",
    "p@t :- x(X)@t, w(X, 2).",
    "p@t :- x(X)@t, w(3, X), w(X, X).",
    "p@t :- x(X)@t, w(X, Z), y(Y)@t, Z < Y.",
    "0.4::p@t :- x(X)@t, w(X, Z).",
    "p@t :- x(X)@t, findall(Z, w(X, Z), L), length(L, N), N > 1.",
    "g(Z)@t :- x(Z)@t.\ng(Z)@t :- y(Z)@t.\ng(Z)@t :- v(Z)@(t-1).\n"
    "p@t :- findall(Z, g(Z)@t, L), length(L, 2).",
    "0.3::r(Z)@t :- x(X)@t, w(X, Z).\np@t :- y(Y)@t, r(Y)@t.",
    "p@t :- x(X)@t, y(Y)@t, w(X, Y), w(Y, X).",
    "p@t :- v(Z)@(t-1), x(X)@t, w(Z, X).",
]


@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    facts=ROWS,
    links=ROWS,
    rules=st.lists(st.sampled_from(RULES), max_size=3, unique=True),
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True),
)
def test_facts_and_rules_about_symbols(
    facts: list[tuple[int, int]], links: list[tuple[int, int]], rules: list[str], calls: list[str]
) -> None:
    source = [f"w({a}, {b})." for a, b in dict.fromkeys(facts)]
    source += [f"link({a}, {b})." for a, b in dict.fromkeys(links)]
    source += [
        *rules,
        "x(X)@t ~ categorical([0.2, 0.3, 0.5], [1, 2, 3]).",
        "y(Y)@t ~ uniform_int(1, 3).",
        # What it goes to depends on the rows, and stays where there are none.
        "v(1)@0.",
        "v(X)@t :- v(Z)@(t-1), x(X)@t, w(Z, X).",
        "v(Z)@t :- v(Z)@(t-1), x(X)@t, not w(Z, X).",
        *calls,
        "query(p@T). query(v(_)@T).",
    ]
    try:
        agree("\n".join(source), 2)
    except Refused:
        assume(False)
    except ProgramError as error:
        # Where a choice depends on it, a recursion over symbols is not seen to end.
        assert RECURSIVE in rules and "E305" in str(error)
        assume(False)


MEETINGS = [
    "n(N)@t :- findall(P, at(P)@t, L), length(L, N).",
    "n(N)@t :- findall(P, (at(P)@t, P > 1), L), sum_list(L, N).",
    "0.3::n(P)@t :- at(P)@t.",
]
PLACES = ["", "at(P)@t :- x(P)@t.", "at(P)@t :- x(P)@t. at(2)@t.", "at(P)@t :- between(1, 2, P)."]


@pytest.mark.parametrize("entities", ["e(1). e(2).", "e(E) :- between(1, 2, E)."])
@pytest.mark.parametrize("more", PLACES)
@pytest.mark.parametrize("asked", MEETINGS)
def test_places_where_several_meet_are_one(entities: str, more: str, asked: str) -> None:
    source = f"""
        {entities}
        pos(E, P)@t ~ categorical([0.2, 0.3, 0.5], [1, 2, 3]) :- e(E).
        x(X)@t ~ uniform_int(1, 3).
        at(P)@t :- pos(E, P)@t.
        {more}
        {asked}
        query(n(_)@T).
    """
    agree(source, 0)


def test_what_other_bindings_determine_is_no_key() -> None:
    """`S is 10 * E` is a number where E is known and a symbol along an axis: one choice per E."""
    for goal in ("S is 10 * E", "S = f(E)", "size(E, S)"):
        agree(
            f"""
            size(1, 10). size(2, 20).
            0.5::p(E)@t :- between(1, 2, E), {goal}.
            some@t :- p(_)@t.
            one@t :- p(1)@t, some@t.
            none@t :- p(1)@t, not some@t.
            query(one@T). query(none@T).
            """,
            1,
        )
