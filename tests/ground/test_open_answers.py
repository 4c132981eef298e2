"""Clauses that leave variables of their heads open, for callers to bind, as in ProbLog."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from oracles import Refused, problog
from reference import infer

from nesymm.errors import ProgramError
from nesymm.ground import compile_step

PROGRAMS = {
    "equality": """
        eq(X, X).
        0.5::a(1). 0.3::a(2).
        p(X, Y) :- eq(X, Y), a(X).
        query(p(_, _)).
    """,
    "one argument of two": """
        0.4::a(1). 0.5::a(2). 0.3::b(1). 0.6::b(2). 0.1::c(1, 2).
        p(X, Y) :- a(X).
        p(X, Y) :- b(Y).
        p(X, Y) :- c(X, Y).
        left(X) :- p(X, _).
        some :- p(_, _).
        three(Y) :- p(X, Y), X = 3.
        query(p(1, 2)). query(p(3, 1)). query(left(1)). query(some). query(three(1)).
    """,
    "used twice": """
        0.4::a.
        p(X, f(Y, X)) :- a.
        q(Y, Z) :- p(X, A), p(X, B), X = 3, A = f(Y, _), B = f(Z, _), Y = 1, Z = 2.
        query(q(_, _)).
    """,
    "bound from both sides": """
        0.1::p1. 0.8::p2.
        p(A, B) :- p1, A = unknown.
        p(A, B) :- p2, B = unknown.
        fill(A, B) :- A == unknown, B == unknown.
        fill(A, B) :- p(A, B), fill(A, B).
        query(fill(_, _)).
    """,
    "reflexive paths": """
        path(X, X).
        path(X, Y) :- path(X, Z), edge(Z, Y).
        0.5::edge(1, 2). 0.4::edge(2, 3). 0.3::edge(3, 1).
        to(X, Y) :- path(X, Y), Y = 2.
        query(path(1, _)). query(to(3, 2)). query(to(2, _)).
    """,
    "lists": """
        join([], L, L).
        join([H | T], L, [H | R]) :- join(T, L, R).
        back([], []).
        back([H | T], R) :- back(T, S), join(S, [H], R).
        among(X, [X | _]).
        among(X, [_ | T]) :- among(X, T).
        0.5::pick(X) :- among(X, [a, b]).
        query(join(_, _, [a, b])). query(back([a, b, c], _)). query(pick(_)).
    """,
    "collected": """
        0.4::a.
        p(_) :- a.
        p(1).
        one(L) :- findall(X, (p(X), X = 1), L).
        open(L) :- findall(x, p(_), L).
        query(one(_)). query(open(_)).
    """,
    "negated": """
        0.4::a. 0.7::b(2).
        p(_) :- a.
        q(X) :- b(X), \\+ p(X).
        query(q(2)).
    """,
    "probabilistic, called with all that is known": """
        0.5::p(X, Y) :- a(X).
        a(1).
        q :- p(1, 2).
        q :- p(1, 3).
        query(q). query(p(1, 2)).
    """,
    "one variable in two arguments": """
        p(X, Y, Z) :- a(X).
        0.5::a(1).
        q(X) :- p(X, Y, Y), Y = f(Z), Z = 1.
        r(Y, Z) :- p(1, Y, Z), Y = Z, Z = 4.
        query(q(_)). query(r(_, _)).
    """,
}


def agree(source: str) -> None:
    expected = {name: p for name, p in problog(source).items() if p > 1e-12}
    found = {n: p for n, p in infer(compile_step(source)).queries.items() if p > 1e-12}
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=list(PROGRAMS))
def test_like_problog(source: str) -> None:
    agree(source)


TERMS = st.sampled_from(["X", "Y", "1", "2", "_", "f(X)", "f(Y)"])


@st.composite
def programs(draw: DrawFn) -> str:
    """Two relations whose clauses may leave any argument open, and what follows from them."""
    lines = ["0.3::a(1).", "0.6::a(2).", "0.5::b(1)."]
    callable_ = ["a"]
    for name in ("p", "q"):
        for _ in range(draw(st.integers(1, 3))):
            body = [
                draw(
                    st.sampled_from(["b(1)", "X = Y", "X = f(_)", "Y = 2", *calls(draw, callable_)])
                )
                for _ in range(draw(st.integers(0, 2)))
            ]
            arrow = " :- " + ", ".join(body) if body else ""
            lines.append(f"{name}({draw(TERMS)}, {draw(TERMS)}){arrow}.")
        callable_.append(name)
    goals = ", ".join(draw(st.sampled_from(calls(draw, ["p", "q", "a"]))) for _ in range(2))
    lines += [f"r :- {goals}.", "s(X) :- q(X, Y), X = 1.", "t(X, Y) :- q(X, Y), a(X), a(Y)."]
    return "\n".join([*lines, "query(r).", "query(s(1)).", "query(t(_, _)).", "query(q(1, 2))."])


def calls(draw: DrawFn, names: list[str]) -> list[str]:
    return [
        f"{name}({draw(TERMS)})" if name == "a" else f"{name}({draw(TERMS)}, {draw(TERMS)})"
        for name in names
    ]


@settings(
    max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(programs())
def test_random_programs(source: str) -> None:
    try:
        agree(source)
    except Refused:
        assume(False)
    except ProgramError as error:
        # `X = f(X)`: ProbLog refuses it as well, or does not come across it.
        assert "nested without end" in str(error)


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("p(X, Y) :- a(X).\n0.5::a(1).\nquery(p(_, _)).", "E301", "the variable Y of a head"),
        ("eq(X, X).\nq(X, Y) :- eq(X, Y).\nquery(q(1, _)).\nquery(q(_, 2)).\nquery(q(_, _)).",
         "E301", "the variable X of a head"),
        ("any(X).\n0.5::p(X) :- any(X).\nquery(p(_)).", "E301", "the variable X of a head"),
        ("any(X).\nl(L) :- findall(X, any(X), L).\nquery(l(_)).", "E301", "a head"),
        ("any(X).\nn :- any(X), \\+ b(X).\nb(1).\nquery(n).", "E309", "would have to bind X"),
    ],
)  # fmt: skip
def test_what_stays_open_is_refused(source: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        compile_step(source)
    assert caught.value.codes == (code,)


def test_the_clause_that_left_it_open_is_shown() -> None:
    """It is not the clause that the query names, which only passes the variable on."""
    source = "any(X).\nq(Y) :- r(Y).\nr(Z) :- any(Z).\nquery(q(_))."
    with pytest.raises(ProgramError) as caught:
        compile_step(source)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.text == "any(X)"


def test_nothing_is_asked_of_what_needs_a_caller() -> None:
    """Without a query, predicates with open answers are left out, as those that fail are."""
    program = compile_step("eq(X, X).\n0.3::a(1).\np(Y) :- a(X), eq(X, Y).")
    assert infer(program).queries == pytest.approx({"a(1)": 0.3, "p(1)": 0.3})


def test_nothing_is_asked_of_recursive_lists() -> None:
    """Called with nothing known they have endlessly many answers; a use of them has not."""
    program = compile_step("""
        join([], L, L).
        join([H | T], L, [H | R]) :- join(T, L, R).
        both(A, B, C) :- join(A, B, D), join(D, [x], C).
        0.4::a.
        p(L) :- a, join([1], [2], L).
        q(X) :- select_weighted(1, [1, 3], [u, v], X, _).
    """)
    found = infer(program).queries
    assert found == pytest.approx({"a": 0.4, "p([1, 2])": 0.4, "q(u)": 0.25, "q(v)": 0.75})


def test_over_time() -> None:
    """The same as with the equality written out."""
    rules = """
        0.4::on(1)@t. 0.6::on(2)@t.
        same(X, Y)@t :- on(X)@t, {}.
        both@t :- same(X, Y)@t, on(Y)@(t-1).
        query(both@t).
    """
    open_ = compile_step("eq(X, X).\nflip(A, B) :- eq(B, A).\n" + rules.format("flip(X, Y)"))
    plain = compile_step(rules.format("Y = X"))
    assert infer(open_, 2).queries == pytest.approx(infer(plain, 2).queries)
    always = [1 - (1 - 0.4**2) * (1 - 0.6**2)] * 2
    assert infer(open_, 2).filtered["both@t"] == pytest.approx([0, *always])
