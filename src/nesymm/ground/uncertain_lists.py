"""Lists with uncertain items, spelt out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.axes import Axes, Split
from nesymm.ground.unify import replace_list
from nesymm.ir.algebra import and_, not_
from nesymm.ir.expr import FALSE, TRUE, Expr
from nesymm.ir.symbols import CondList, axes_of, inside

MAX_UNFOLD = 12


def refuse_order(value: CondList, span: Span | None) -> None:
    """Raise if a list is used in its order, and that is not the order that ProbLog has."""
    if not value.ordered:
        fail(
            "E319",
            "this list is used in its order, and ProbLog may collect its items in another",
            span,
            "sort it right after the findall, `msort(L, S)` or `sort(L, S)`; or use only "
            "its length, sum, minimum, maximum or members",
            "the order differs where an item has several proofs, and where the goal "
            "has recursion or a negation",
        )


def unfold(value: CondList, span: Span | None) -> Iterator[tuple[tuple, Expr]]:
    """All the lists that a conditional list can be, each with its condition."""
    uncertain = [c for _, c in value.items if c is not TRUE]
    if len(uncertain) > MAX_UNFOLD:
        fail(
            "E316",
            f"this list has {len(uncertain)} uncertain items, so it can be any of "
            f"2^{len(uncertain)} lists",
            span,
            "take only its length, sum, minimum or maximum, which need not spell it out",
        )
    found: list[tuple[tuple, Expr]] = [((), TRUE)]
    for term, condition in value.items:
        longer = [((*items, term), and_(holds, condition)) for items, holds in found]
        if condition is not TRUE:
            longer += [(items, and_(holds, not_(condition))) for items, holds in found]
        found = [(items, holds) for items, holds in longer if holds is not FALSE]
    yield from found


def uncertain_list(terms: Iterable[Any]) -> CondList | None:
    """The first list in some terms whose items are uncertain."""
    return next((x for term in terms for x in inside(term) if type(x) is CondList), None)


def each_list(
    axes: Axes, value: CondList, terms: Iterable[Any], span: Span | None
) -> list[tuple[tuple, Expr]]:
    """The terms with a list replaced by each of the lists that it can be, in their order."""
    refuse_order(value, span)
    return [
        (tuple([replace_list(t, value, items) for t in terms]), holds)
        for items, holds in unfold_here(axes, value, span)
    ]


def unfold_here(axes: Axes, value: CondList, span: Span | None) -> list[tuple[tuple, Expr]]:
    """The same as `unfold`, for a list whose items may lie along axes: these are split."""
    if along := axes_of(x for item in value.items for x in item):
        raise Split(axes.sites(along))
    return list(unfold(value, span))


def without_lists(
    axes: Axes, terms: tuple, condition: Expr, span: Span | None
) -> Iterator[tuple[tuple, Expr]]:
    """Terms in which all lists are plain, for each of the lists that uncertain ones can be."""
    pending = [(terms, condition)]
    while pending:
        row, holds = pending.pop()
        value = uncertain_list(row)
        if value is None:
            yield row, holds
            continue
        for new, extra in each_list(axes, value, row, span):
            both = and_(holds, extra)
            if both is not FALSE:
                pending.append((new, both))
