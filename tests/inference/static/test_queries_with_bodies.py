"""The body of a query says what is asked, not what has to hold: as ProbLog has it."""

from __future__ import annotations

import pytest
from oracles import problog

import nesymm

CHOICE = "0.5::a(1). 0.4::a(2). c(X, Y) :- a(X), Y = 1. c(X, Y) :- \\+ a(X), Y = 2. "
AUCTION = """
    keen(ann, vase). keen(bob, vase). keen(ann, lamp). 0.3::here(vase, 1). 0.2::here(lamp, 2).
    bids(A, I, T) :- here(I, T), keen(A, I).
    bidders(I, T, As) :- findall(A, bids(A, I, T), As).
    many(I, T, N) :- findall(A, bids(A, I, T), As), length(As, N).
"""
PROGRAMS = {
    "the empty list": AUCTION + "query(bidders(I, T, As)) :- here(I, T).",
    "its length": AUCTION + "query(many(I, T, N)) :- here(I, T).",
    "one argument": AUCTION + "query(bidders(I, 1, As)) :- here(I, 1).",
    "of certain things": AUCTION + "item(vase). query(bidders(I, 1, As)) :- item(I).",
    "the negation of what selects": "0.5::a(1). 0.4::a(2). b(X) :- \\+ a(X). query(b(X)) :- a(X).",
    "values that exclude what selects": CHOICE + "query(c(X, Y)) :- a(X).",
    "several conditions": CHOICE + "query(c(X, Y)) :- a(X), a(Z), X < Z.",
    "no variable in common": "0.5::a(1). 0.4::a(2). c(3). c(X) :- a(X). query(c(X)) :- a(_).",
    "what never holds": "b(1). b(2). 0.5::c(1). query(c(X)) :- b(X).",
    "a term": "0.3::a(1). 0.5::c(Y, f(3)) :- a(Y). 0.1::c(2, f(1)). query(c(X, f(Y))) :- a(X).",
    "evidence": "0.3::a(1). 0.6::a(2). 0.5::c(1). c(X) :- a(X). query(a(X)). "
    "evidence(c(X)) :- a(X), X < 2.",
    "a count": "0.5::a(1). 0.4::a(2). n(X, N) :- findall(Y, (a(Y), Y > X), L), length(L, N). "
    "query(n(X, N)) :- a(X), a(Y), X < Y.",
}


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_queries_with_bodies(kind: str, method: str) -> None:
    text = PROGRAMS[kind]
    found = nesymm.compile(text).infer(method=method).queries
    assert found == pytest.approx(problog(text))


def test_the_empty_list_has_its_probability() -> None:
    found = nesymm.compile(PROGRAMS["the empty list"]).infer().queries
    assert found == pytest.approx(
        {"bidders(vase,1,[])": 0.7, "bidders(vase,1,[ann, bob])": 0.3}
        | {"bidders(lamp,2,[])": 0.8, "bidders(lamp,2,[ann])": 0.2}
    )
