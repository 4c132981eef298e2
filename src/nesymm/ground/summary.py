"""Counts, sums and extremes over items that are there or not."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge, le, lt
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.uncertain_lists import MAX_UNFOLD
from nesymm.ir.algebra import const, or_
from nesymm.ir.arithmetic import arithmetic, number
from nesymm.ir.axes import anywhere, case, reduce_
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, in_order
from nesymm.ir.symbols import CondList, as_expr, axes_of
from nesymm.ir.terms import rounded
from nesymm.ir.types import INF, Int, Real


def summarise(
    kind: str,
    items: tuple[tuple[Any, Expr], ...],
    span: Span | None,
    given: frozenset[Axis] = frozenset(),
) -> tuple[Any, Expr]:
    """The value of `count`, `sum`, `min`, `max` or `avg`, and whether it has one.

    Items run along their axes. There is one value for each place along the axes in `given`.
    """

    def own(term: Any, condition: Expr) -> list[Axis]:
        return in_order((condition.axes | axes_of((term,))) - given)

    exists = or_(*(anywhere(c, given) for _, c in items))
    if kind == "count":
        return _add([_along("sum", const(1), c, own(t, c)) for t, c in items]), TRUE
    for term, _ in items:
        if not isinstance(as_expr(term).type, Int | Real):
            fail("E308", f"{kind} needs numbers", span, "collect numbers only")
    values = [(as_expr(t), c) for t, c in items]
    if kind == "sum":
        return _add([_along("sum", t, c, own(t, c)) for t, c in values]), TRUE
    if exists is FALSE:
        return const(0), FALSE
    if kind == "avg":
        total, _ = summarise("sum", items, span, given)
        count, _ = summarise("count", items, span, given)
        return _plain(arithmetic("div", as_expr(total), as_expr(count))), exists
    # An item that is not there counts as the worst value any item could have.
    bounds = [t.type for t, _ in values if isinstance(t.type, Int | Real)]
    worst = min(b.lo for b in bounds) if kind == "max" else max(b.hi for b in bounds)
    if worst in (INF, -INF):
        default = const(float(worst))
    else:
        whole = all(isinstance(b, Int) for b in bounds)
        default = const(int(worst) if whole else float(worst))
    result: Expr | None = None
    for term, condition in values:
        guarded = term if condition is TRUE else case([(condition, term), (TRUE, default)])
        for axis in own(term, condition):
            guarded = reduce_(kind, axis, TRUE, guarded)
        result = guarded if result is None else arithmetic(kind, result, guarded)
    assert result is not None
    return _plain(result), exists


def fold(kind: str, numbers: Sequence[Any], last: bool) -> Any:
    """The sum of known numbers, or the position of their minimum or maximum.

    As ProbLog's libraries do it, from left to right. Of numbers that are equal, 1 and 1.0,
    a maximum is the last; of a minimum, lists take the last and aggregates the first.
    """
    if kind == "sum":
        total: Any = 0
        for number in numbers:
            total = rounded(total + number)
        return total
    better = ge if kind == "max" else le if last else lt
    best = 0
    for i, number in enumerate(numbers):
        if better(number, numbers[best]):
            best = i
    return best


def by_list(kind: str, items: tuple[tuple[Any, Expr], ...]) -> bool:
    """Whether a summary is to be made list by list, to give the numbers that ProbLog does.

    A sum of real numbers depends on the order and on what is there: nothing sums to 0, not
    to 0.0. More lists than can be spelt out are summarised at once.
    """
    types = {type(term) for term, _ in items}
    if not items or not types <= {int, float} or any(c.axes for _, c in items):
        return False
    whole = {"sum": float not in types, "avg": False}.get(kind, len(types) == 1)
    if whole:
        return False
    return sum(c is not TRUE for _, c in items) <= MAX_UNFOLD


def certain(items: tuple, ordered: bool = True) -> CondList:
    return CondList(tuple((item, TRUE) for item in items), ordered)


def _plain(value: Expr) -> Any:
    return value.data if value.op == "const" else value


def _along(op: str, value: Expr, condition: Expr, axes: list[Axis]) -> Expr:
    if not axes:
        if condition is TRUE:
            return value
        one = number(condition)
        return one if value is const(1) else arithmetic("mul", one, value)
    result = reduce_(op, axes[0], condition, value)
    for axis in axes[1:]:
        result = reduce_(op, axis, TRUE, result)
    return result


def _add(terms: list[Expr]) -> Any:
    total = const(0)
    for term in terms:
        total = term if total is const(0) else arithmetic("add", total, term)
    return _plain(total)
