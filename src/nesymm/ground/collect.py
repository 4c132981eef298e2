"""`findall` and the aggregates over answers that are certain or not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from nesymm.errors import fail
from nesymm.ground.axes import Axes, Split
from nesymm.ground.literals import CollectLit
from nesymm.ground.summary import by_list, fold, summarise
from nesymm.ground.uncertain_lists import unfold
from nesymm.ground.unify import Env, meet, resolve
from nesymm.ir.algebra import and_, or_
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr
from nesymm.ir.symbols import CondList, axes_of, each_value, is_ground, key_of, ways
from nesymm.ir.terms import rounded
from nesymm.ir.types import INF

MAX_COPIES = 10_000

# What is collected in a list.
LISTS = frozenset({"findall", "all", "bag", "set"})
# Aggregates that have a value even when there is nothing to aggregate.
_TOTAL = {"findall", "set", "count_all", "sum_all", "bag_all"}


def gather(
    axes: Axes, lit: CollectLit, answers: list[tuple[tuple, Expr]], env: Env, ordered: bool
) -> Iterator[tuple[Env, Expr]]:
    """The collection of the answers; `ordered` if ProbLog has them in this order, too."""
    outer = [resolve(a, env) for a in lit.outer]
    given = frozenset(axes_of(outer))
    n, g = len(outer), len(lit.groups)
    apart = axes_of(key for terms, _ in answers for key in terms[n : n + g])
    if lit.kind in LISTS:
        apart |= given
    if sites := axes.sites(apart):
        raise Split(sites)  # there is one result, or one list, for each value
    groups: dict[Any, tuple[tuple, list[tuple[Any, Expr]]]] = {}
    if not g:
        groups[()] = ((), [])
    for terms, condition in answers:
        # Variables that are still open here stay open: findall does not bind them.
        known = ((a, t) for a, t in zip(outer, terms[:n], strict=True) if is_ground(a))
        met = meet(known, env, condition)
        if met is None:
            continue
        item, holds = terms[n + g], met[1]
        # An axis that only tells solutions apart: as many equal items as it is long.
        silent = axes_of(terms) - axes_of((item,)) - holds.axes - given
        copies = math.prod(axis.size for axis in silent)
        if copies > MAX_COPIES:
            fail(
                "E316",
                f"{copies:,} equal items would be collected",
                lit.span,
                "count them by their number instead",
            )
        for keys, here in _groups(lit, terms[n : n + g]):
            both = and_(holds, here)
            if both is not FALSE:
                groups.setdefault(key_of(keys), (keys, []))[1].extend([(item, both)] * copies)
    for keys, rows in groups.values():
        for value, exists in _results(lit, rows, ordered, given):
            pairs = [*zip(lit.groups, keys, strict=True), (lit.result, value)]
            if met := meet(pairs, env, exists):
                yield met


def _groups(lit: CollectLit, keys: tuple) -> Iterator[tuple[tuple, Expr]]:
    """What an answer is grouped by, and when: a value that is drawn may be any that it can take."""
    count = ways(keys)
    if count > MAX_COPIES:
        fail(
            "E308",
            "an aggregate groups by a value that is not one of finitely many"
            if count == INF
            else f"an aggregate groups by one of {count:,} values",
            lit.span,
            "group by constants",
        )
    return each_value(keys)


def _results(
    lit: CollectLit, rows: list[tuple[Any, Expr]], ordered: bool, given: frozenset[Axis]
) -> Iterator[tuple[Any, Expr]]:
    kind = lit.kind
    if kind in LISTS:
        certain = all(c is TRUE and not axes_of((t,)) for t, c in rows)
        if kind == "all" and not rows:
            return
        some = or_(*(c for _, c in rows)) if kind == "all" else TRUE
        if kind == "set":
            distinct: dict[Any, tuple[Any, Expr]] = {}
            for term, condition in sorted(rows, key=lambda row: str(row[0])):
                known = distinct.get(key_of(term))
                both = condition if known is None else or_(known[1], condition)
                distinct[key_of(term)] = (term, both)
            rows = list(distinct.values())
        ordered = ordered or kind == "set" or not _have_order(rows)
        plain = certain and ordered
        own = frozenset(axes_of(x for row in rows for x in row)) - given
        value = tuple(t for t, _ in rows) if plain else CondList(tuple(rows), ordered, own)
        yield value, some
        return
    if not lit.timed and by_list(kind, tuple(rows)):
        for items, holds in unfold(CondList(tuple(rows)), lit.span):
            if items:
                yield _known(kind, items), holds
        return
    summary = kind.removesuffix("_all")
    if not rows and kind not in _TOTAL:
        return
    value, exists = summarise(summary, tuple(rows), lit.span, given)
    if kind not in _TOTAL and summary in ("count", "sum"):
        _, exists = summarise("max", tuple((0, c) for _, c in rows), lit.span, given)
    yield value, exists


def _have_order(rows: list[tuple[Any, Expr]]) -> bool:
    """Whether two different items can be there together."""
    return any(
        key_of(a) != key_of(b) and and_(x, y) is not FALSE
        for (a, x), (b, y) in combinations(rows, 2)
    )


def _known(kind: str, items: tuple) -> Any:
    """An aggregate of numbers that are known, as ProbLog computes it."""
    if kind in ("min", "max"):
        return items[fold(kind, items, last=False)]
    total = fold("sum", items, last=False)
    return rounded(total / len(items)) if kind == "avg" else total
