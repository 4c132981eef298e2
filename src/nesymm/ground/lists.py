"""Lists with uncertain items, spelt out."""

from __future__ import annotations

from collections.abc import Iterator

from nesymm.errors import Span, fail
from nesymm.ir.algebra import and_, not_
from nesymm.ir.expr import FALSE, TRUE, Expr
from nesymm.ir.symbols import CondList

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
