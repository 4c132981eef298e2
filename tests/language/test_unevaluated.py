"""Arithmetic as an argument: refused where it is a term that nothing could match."""

from __future__ import annotations

import pytest

from nesymm.errors import ProgramError
from nesymm.language.check import check
from nesymm.language.parser import parse

BASE = """
:- const(n, 3).
:- input(door(key), 0..3).
:- input(way(W)@t, [a-b, c]).
at(1)@0. at(X+1)@t :- at(X)@(t-1).
wall(3). e(E) :- between(1, n, E). pair(K-C) :- member(K, [a, b]), C = 1.
link(1-2). large(X) :- X > 2.
0.5::c(E, V)@t :- e(E), member(V, [1, 2]).
"""
REFUSED = {
    "q@t :- at(X)@t, wall(X+1).": ("X+1", "Value is X+1, wall(Value)`"),
    "q@t :- at(X)@t, door(X+1).": ("X+1", "Value is X+1, door(Value)`"),
    "q@t :- at(X)@t, not at(X-1)@(t-1).": ("X-1", r"Value is X-1, at(Value)@(t-1)`"),
    "q@t :- aggregate_all(count, (e(E), c(E+1, _)@t), N), N > 0.": ("E+1", "c(Value, …)@t`"),
    "q@t :- at(X)@t, (wall(X) ; wall(abs(X))).": ("abs(X)", "wall(Value)`"),
    "query(at(n-1)@T).": ("n-1", "Value is n-1, at(Value)@T`"),
    "observe(at(1+1)@1, true).": ("1+1", "at(Value)@1`"),
    "p(X)@t :- at(Y)@t, X is Y * 2. q@t :- p(1*2)@t.": ("1*2", "p(Value)@t`"),
    "p(X)@t :- at(X)@t. q@t :- p(1-1)@t.": ("1-1", "p(Value)@t`"),
}
ALLOWED = [
    "query(at(X)@T) :- X is n-1.",
    "q@t :- at(1)@t, pair(a-1).",
    "q@t :- at(1)@t, link(1-2).",
    "q@t :- at(X)@t, large(X+1).",
    "q@t :- way(a-b)@t.",
    "p(X)@t :- member(X, [1-2, a-b]). q@t :- p(1-2)@t.",
    "p(X)@t ~ categorical([0.5, 0.5], [1-2, 2-3]). q@t :- p(1-2)@t.",
    "p(X)@t :- link(X). q@t :- p(1-2)@t.",
    "q@t :- at(-1)@t.",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_nothing_matches_is_refused(text: str) -> None:
    argument, cure = REFUSED[text]
    with pytest.raises(ProgramError) as refused:
        check(parse(BASE + text, "p"))
    (found,) = refused.value.diagnostics
    assert found.code == "E308" and found.span is not None and found.span.text == argument
    assert found.message.startswith(f"`{argument}` is not evaluated here")
    assert found.cure is not None and found.cure.endswith(cure)


@pytest.mark.parametrize("text", ALLOWED)
def test_terms_that_may_be_there_are_not(text: str) -> None:
    check(parse(BASE + text, "p"))


def test_programs_without_time_mean_what_they_mean_in_problog() -> None:
    check(parse("wall(3). q :- wall(2+1). query(wall(2+1)). query(q).", "p"))
