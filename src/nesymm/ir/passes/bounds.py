"""Finite domains for the fields of the state.

Most have one by their type. A whole number that is only bounded by how often it can
change (a counter, health that is lost) is bounded by the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from nesymm.errors import NesymmError
from nesymm.ir.expr import Expr, rewrite
from nesymm.ir.passes.overflow import watch_overflow, with_types
from nesymm.ir.passes.phases import Phases, phases
from nesymm.ir.step import StepProgram
from nesymm.ir.types import INF, Int, Type, domain, is_finite, join, size

# How many steps are followed one by one before the growth per step is taken as steady.
_FOLLOWED = 24

# A field of the state with more values than this has no exact belief.
MAX_VALUES = 2**21

Field = tuple[str, Any]


def field_types(both: Phases, steps: int) -> dict[Field, Type]:
    """The type of every field of the state after at most `steps` steps."""
    types: dict[Field, Type] = {}
    open_: set[Field] = set()
    for slot in both.later.slots:
        for i, type_ in enumerate(slot.fields):
            types[slot.name, i] = type_
            if isinstance(type_, Int) and not is_finite(type_):
                open_.add((slot.name, i))
    if not open_:
        return types
    first = {s.name: s for s in both.first.slots}
    for name, i in open_:
        types[name, i] = first[name].values[i].type
    history = [types]
    for _ in range(min(steps, _FOLLOWED)):
        following = _after(both, history[-1], open_)
        if following == history[-1]:
            return following
        history.append(following)
    return _extrapolate(history, steps - _FOLLOWED) if steps > _FOLLOWED else history[-1]


def retyped(both: Phases, steps: int) -> dict[Expr, Expr]:
    """The values that queries ask for, with the types that they have within the horizon."""
    values = [v for q in both.later.queries for v in q.values]
    if all(is_finite(v.type) for v in values):
        return {}
    rule = with_types(field_types(both, steps))
    memo: dict[int, Expr] = {}
    return {v: rewrite(v, rule, memo) for v in values}


def watched(step: StepProgram, bits: int, steps: int) -> StepProgram:
    """A program that says where, within so many steps, whole numbers do not fit their bits."""

    def fields() -> dict[Field, Type]:
        found = field_types(phases(step), steps)
        own = {(s.name, i): t for s in step.slots for i, t in enumerate(s.fields)}
        return {f: t for f, t in found.items() if isinstance(t, Int) and t != own[f]}

    return watch_overflow(step, bits, fields)


def _after(both: Phases, types: Mapping[Field, Type], open_: set[Field]) -> dict[Field, Type]:
    rule = with_types({f: types[f] for f in open_})
    memo: dict[int, Expr] = {}
    out = dict(types)
    for slot in both.later.slots:
        for i, value in enumerate(slot.values):
            if (slot.name, i) in open_:
                wider = join(types[slot.name, i], rewrite(value, rule, memo).type)
                if wider is not None:
                    out[slot.name, i] = wider
    return out


def _extrapolate(history: Sequence[Mapping[Field, Type]], steps: int) -> dict[Field, Type]:
    """Bounds after so many further steps, if they grow no faster than before; else none."""
    out = dict(history[-1])
    for name, last in out.items():
        seen = [types[name] for types in history]
        if isinstance(last, Int) and last != seen[0]:
            lows = [-t.lo for t in seen if isinstance(t, Int)]
            highs = [t.hi for t in seen if isinstance(t, Int)]
            out[name] = Int(-_grown(lows, steps), _grown(highs, steps))
    return out


def _grown(bounds: list[float], steps: int) -> float:
    growth = [b - a for a, b in pairwise(bounds)]
    half = len(growth) // 2
    fastest = max(growth[half:])
    return bounds[-1] + steps * fastest if fastest <= max(growth[:half]) else INF


def field_domain(name: str, type_: Type) -> tuple:
    """The values of a field of the state."""
    if not is_finite(type_):
        raise NesymmError(
            f"{name} is {type_}: it has infinitely many values, so the state has no exact belief; "
            "use particles"
        )
    if size(type_) > MAX_VALUES:
        raise NesymmError(
            f"{name} is {type_}: an exact belief has at most {MAX_VALUES:,} values; use particles"
        )
    return tuple(domain(type_))
