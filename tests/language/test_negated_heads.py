"""Negated heads take away what other clauses give, with and without time."""

from __future__ import annotations

import pytest
from oracles import problog
from reference import infer

import nesymm
from nesymm.ground import compile_step

PROGRAMS = {
    "certain and uncertain": """
        0.7::b. 0.2::c.
        0.5::a :- b. 0.5::\\+a :- c.
        0.5::d :- b. \\+d :- c.
        query(a). query(d).
    """,
    "with arguments": """
        0.5::b(1). 0.4::b(2).
        0.6::c(X) :- b(X). 0.2::\\+c(X) :- b(X). \\+c(2) :- b(1).
        e(N) :- findall(X, c(X), L), length(L, N).
        query(c(_)). query(e(_)).
    """,
    "in disjunctions": """
        0.3::c; 0.4::d.
        0.5::\\+c; 0.2::e :- d.
        query(c). query(d). query(e). evidence(\\+e).
    """,
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=list(PROGRAMS))
def test_like_problog(source: str) -> None:
    found = {n: p for n, p in infer(compile_step(source)).queries.items() if p > 0}
    assert found == pytest.approx({n: p for n, p in problog(source).items() if p > 0}, abs=1e-9)


OVER_TIME = """
    0.5::wet@0.
    0.4::wet@t :- wet@(t-1).
    0.2::\\+wet@t :- wet@(t-1).
    query(wet@t).
"""
WITH_ARGUMENTS = """
    :- time(wet/1, 1).
    0.5::wet(0).
    0.4::wet(T) :- wet(T-1).
    0.2::\\+wet(T) :- wet(T-1).
    query(wet(T)).
"""


@pytest.mark.parametrize("source", [OVER_TIME, WITH_ARGUMENTS])
def test_over_time(source: str) -> None:
    (found,) = infer(compile_step(source), 2).queries.values()
    assert found == pytest.approx(0.5 * (0.4 * 0.8) ** 2)


def test_parameters_have_the_name_of_the_predicate() -> None:
    model = nesymm.compile("0.2::c. t(0.5)::a. t(0.1)::\\+a :- c. query(a).")
    assert model.parameters == {"a": 0.5, "a.2": pytest.approx(0.1)}
    assert model.infer().queries["a"] == pytest.approx(0.5 * (1 - 0.2 * 0.1))
