"""The standard order of terms, of constants and of values that are only known at run time."""

from __future__ import annotations

import pytest
from oracles import problog
from reference import infer

from nesymm.errors import ProgramError
from nesymm.ground import compile_step

ITEMS = ("a", "b", "f(b)", "f(a)", '"s"', "[]", "[1]", "[1, 2]", "2", "1.5", "g(1, 2)", "'B'")


def test_like_problog() -> None:
    facts = " ".join(f"i({item})." for item in ITEMS)
    source = f"""
        {facts}
        before(X, Y) :- i(X), i(Y), X @< Y.
        after(X, Y) :- i(X), i(Y), X @> Y.
        upto(X, Y) :- i(X), i(Y), X @=< Y.
        from(X, Y) :- i(X), i(Y), X @>= Y.
        alike(X, Y) :- i(X), i(Y), compare('=', X, Y).
        less(X, Y) :- i(X), i(Y), compare(O, X, Y), O = '<'.
        query(before(_, _)). query(after(_, _)). query(upto(_, _)). query(from(_, _)).
        query(alike(_, _)). query(less(_, _)).
    """
    found = infer(compile_step(source)).queries
    assert found == pytest.approx({n: p for n, p in problog(source).items() if p > 0})
    pairs = len(ITEMS) * (len(ITEMS) - 1) // 2
    assert len(found) == 5 * pairs + 3 * len(ITEMS)


def test_of_values_at_run_time() -> None:
    """Over time the order is that of values; a number comes before a name."""
    source = """
        x(X)@t ~ categorical([0.2, 0.3, 0.5], [10, 9, b]).
        low@t :- x(X)@t, X @< 10.
        name@t :- x(X)@t, X @>= a.
        order(O)@t :- x(X)@t, compare(O, X, 9).
        query(low@t). query(name@t). query(order(_)@t).
    """
    found = infer(compile_step(source)).queries
    assert found["low@t"] == pytest.approx(0.3)
    assert found["name@t"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("goal", "code", "message"),
    [
        ("10 @< 9", "E308", "ProbLog compares these numbers as they are written"),
        ("compare(first, a, b)", "E308", "an order is <, = or >"),
        ("X @< b, X = a", "E302", "a term in this comparison is not known yet"),
    ],
)
def test_refused(goal: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        compile_step(f"p :- {goal}.\nquery(p).")
    assert caught.value.codes == (code,)
