"""A random choice is the same one whoever asks for it: for some of its keys, for all of them, or
for a value that is drawn."""

from __future__ import annotations

import pytest
from agreement import agree
from reference import infer

from nesymm.errors import ProgramError
from nesymm.ground import compile_step

_MARKS = """
    :- fluent(m(key)).
    one@t :- m(1)@t.
    some@t :- m(X)@t, X > 0.
    query(one@T). query(some@T). query(both@T). query(apart@T).
    both@t :- one@t, some@t.
    apart@t :- one@t, not some@t.
"""

# ProbLog has each of them written out step by step.
PROGRAMS = {
    "a value as a key, and that it is 1": """
        v(X)@t ~ uniform_int(0, 1).
        0.5::m(X)@t :- v(X)@t.
    """
    + _MARKS,
    "the same without time": """
        v(X) ~ uniform_int(0, 1).
        :- fluent(m(key)).
        0.5::m(X) :- v(X).
        one :- m(1).
        some :- m(X), X > 0.
        both :- one, some.
        apart :- one, not some.
        query(both). query(apart).
    """,
    "a constant before a value that may be the same": """
        v(X)@t ~ uniform_int(0, 1).
        m(1, 0)@t.
        m(1, Y)@t :- v(Y)@t.
        0.5::b@t :- m(X, Y)@t.
        query(b@T).
    """,
    "a constant behind a value that may be the same": """
        v(X)@t ~ uniform_int(0, 1).
        m(1, Y)@t :- v(Y)@t.
        m(1, 0)@t.
        0.5::b@t :- m(X, Y)@t.
        query(b@T).
    """,
    "two values as keys": """
        v(1, X)@t ~ uniform_int(0, 1).
        v(2, X)@t ~ uniform_int(0, 1).
        0.5::m(X)@t :- v(E, X)@t.
    """
    + _MARKS,
    "values along an axis as keys": """
        v(E, X)@t ~ uniform_int(0, 1) :- between(1, 2, E).
        0.5::m(X)@t :- v(_, X)@t.
    """
    + _MARKS,
    "two ways, by a drawn value and by a number": """
        e(E) :- between(1, 2, E).
        v(E, V)@t ~ uniform_int(3, 4) :- e(E).
        0.5::m(E)@t :- e(E), (v(E, S)@t ; S is 2 * E).
        q(E)@t :- m(E)@t, m(2)@t.
        query(q(1)@T). query(m(2)@T). query(q(2)@T).
    """,
    "a drawn key or a number, in one clause": """
        v(X)@t ~ uniform_int(0, 1).
        0.5::m(X)@t :- (v(X)@t ; X is 1).
    """
    + _MARKS,
    "a fact beside drawn values": """
        v(E, V)@t ~ uniform_int(0, 2) :- between(1, 2, E).
        at(X, E)@t :- v(E, X)@t.
        at(0, 1)@t.
        0.5::b@t :- at(X, Y)@t.
        query(b@T).
    """,
    "a drawn key beyond the entities": """
        e(E) :- between(1, 2, E).
        k(E, V) ~ categorical([0.6, 0.4], [0, 1]) :- e(E).
        f(E, F)@t :- between(1, 2, F), k(E, V), k(V, V).
        query(k(2, 1)). query(f(2, 1)@T).
    """,
    "several derivations, one of them asked for by itself": """
        foe(E) :- between(1, 2, E).
        left(E, X)@t ~ uniform_int(1, 2) :- foe(E).
        right(E, X)@t ~ uniform_int(1, 2) :- foe(E).
        hand(E, X)@t :- left(E, X)@t.
        hand(E, X)@t :- right(E, X)@t.
        0.5::hit(E)@t :- foe(E), hand(E, X)@t.
        anyone@t :- hit(E)@t.
        first@t :- hit(1)@t.
        query(anyone@T). query(first@T).
    """,
    "a row and a column, of a relation that is found by facts": """
        e(1). e(2).
        0.5::x(A, B)@t :- e(A), between(1, 2, B).
        v(V)@t ~ uniform_int(1, 2).
        q@t :- v(V)@t, x(V, 2)@t.
        r@t :- x(1, B)@t, B > 1.
        both@t :- q@t, r@t.
        query(q@T). query(r@T). query(both@T).
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_one_choice(name: str) -> None:
    agree(PROGRAMS[name], 1)


def answers(source: str) -> dict[str, float]:
    return {n: p for n, p in infer(compile_step(source), 1).queries.items() if p > 0}


def test_an_alternative_that_leaves_a_variable_open_is_a_choice_of_its_own() -> None:
    found = answers("""
        v(E, V)@0 ~ categorical([0.3, 0.7], [0, 1]) :- between(1, 1, E).
        a(E)@0 :- between(1, 1, E).
        0.5::a(E)@t :- a(E)@(t-1), (v(1, 0)@(t-1) ; v(E, _)@(t-3)).
        query(a(_)@T).
    """)
    assert found == pytest.approx({"a(1)@T": 0.5 * 0.3})


def test_a_drawn_key_is_looked_up_in_a_relation_that_is_collected() -> None:
    # The key is 0 or 2, there with one half.
    found = answers("""
        e(E) :- between(1, 1, E).
        v(E, V) ~ uniform_int(0, 1) :- e(E).
        :- fluent(m(key)).
        0.5::m(Z)@t :- v(E, X), v(F, Y), Z is X + Y.
        g(M)@t :- aggregate_all(max(X), (m(X)@t, m(X)@t), M).
        query(g(_)@T).
    """)
    assert found == pytest.approx({"g(0)@T": 0.25, "g(2)@T": 0.25})


def test_a_key_is_observed_and_all_of_them_are_counted() -> None:
    # There is one mark at most, and it is seen: V is 1 or 2 a priori.
    found = answers("""
        v(E, V) ~ categorical([0.6, 0.4], [1, 2]) :- between(1, 1, E).
        :- fluent(m(key)).
        0.5::m(Y)@t :- v(_, Y).
        g(N)@t :- aggregate_all(count, m(_)@t, N).
        observe(m(1)@0, true).
        query(g(_)@T). query(g(_)@0). query(m(_)@T).
    """)
    assert found == pytest.approx({"g(0)@T": 0.5, "g(1)@T": 0.5, "g(1)@0": 1.0, "m(1)@T": 0.5})


_NEEDS_ITS_CALLER = """
    0.5::safe(X)@t{body}.
    at(X)@t ~ uniform_int(0, 2).
    by(X)@t ~ uniform_int(1, 3).
    a@t :- at(X)@t, safe(X)@t.
    b@t :- by(X)@t, safe(X)@t.
    both@t :- a@t, b@t.
    query(both@T).
"""


def test_parts_that_cannot_be_found_together_are_refused() -> None:
    with pytest.raises(ProgramError, match="safe/1 are used in parts that overlap"):
        compile_step(_NEEDS_ITS_CALLER.format(body=""))
    # What the message says to do. Both are at one place in 2 of 9 cases.
    found = answers(_NEEDS_ITS_CALLER.format(body=" :- between(0, 3, X)"))
    assert found == pytest.approx({"both@T": 2 / 9 * 0.5 + 7 / 9 * 0.25})
