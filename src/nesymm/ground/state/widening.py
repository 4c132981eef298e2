"""Bounds that keep growing: they jump to the next number of the program, and then to infinity."""

from __future__ import annotations

from typing import Any

from nesymm.ground.state.blocks import AxisKey, Block, Blocks, by_place
from nesymm.ir.types import INF, Enum, Int, Real, Type
from nesymm.language.program import CheckedProgram, terms_of
from nesymm.language.terms import Num, subterms

# How long an axis may become by a guess at its bounds.
MAX_WIDENED = 2**10


def thresholds(program: CheckedProgram) -> list[int]:
    """The whole numbers of a program: where a growing bound may come to rest."""
    found = {0, 1}
    constants = [c for c in program.constants.values() if isinstance(c, int)]
    for term in terms_of((program.clauses, tuple(program.domains.values()))):
        for sub in subterms(term):
            if isinstance(sub, Num) and isinstance(sub.value, int):
                constants.append(sub.value)
    for constant in constants:
        found |= {constant - 1, constant, constant + 1}
    return sorted(found)


def widen(old: Blocks, new: Blocks, thresholds: list[int], hard: bool) -> Blocks:
    """Let bounds that keep growing jump to the next constant of the program, then away."""
    out: Blocks = {}
    for pred, blocks in new.items():
        before = by_place(old.get(pred, ()))
        widened = []
        for block in blocks:
            known = before.get(block.place)
            if known is None or known.template != block.template:
                widened.append(block)
                continue
            keys = tuple(
                _widen_key(a, b, thresholds) for a, b in zip(known.keys, block.keys, strict=True)
            )
            types = tuple(
                _widen_type(a, b, thresholds, hard)
                for a, b in zip(known.types, block.types, strict=True)
            )
            widened.append(Block(keys, block.template, types))
        out[pred] = tuple(widened)
    return out


def _widen_key(old: Any, new: Any, thresholds: list[int]) -> Any:
    """An axis is finite: where no constant is near, it grows as it does."""
    if not isinstance(old, AxisKey) or not isinstance(new, AxisKey) or isinstance(new.type, Enum):
        return new
    wider = _widen_type(old.type, new.type, thresholds, hard=False)
    assert isinstance(wider, Int)
    grown = (
        Int(
            wider.lo if wider.lo > -INF else min(old.type.lo, new.type.lo),
            wider.hi if wider.hi < INF else max(old.type.hi, new.type.hi),
        )
        if isinstance(old.type, Int)
        else new.type
    )
    return AxisKey(grown) if grown.size <= MAX_WIDENED else new


def _widen_type(old: Type, new: Type, thresholds: list[int], hard: bool) -> Type:
    if old == new or not isinstance(new, Int | Real) or not isinstance(old, Int | Real):
        return new
    lo, hi = min(old.lo, new.lo), max(old.hi, new.hi)
    if lo < old.lo:
        lo = -INF if hard else max((t for t in thresholds if t <= lo), default=-INF)
    if hi > old.hi:
        hi = INF if hard else min((t for t in thresholds if t >= hi), default=INF)
    return Int(lo, hi) if isinstance(new, Int) and isinstance(old, Int) else Real(lo, hi)
