"""Finite domains for the fields of the state.

Most have one by their type. A whole number that is only bounded by how often it can
change (a counter, health that is lost) is bounded by the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nesymm.compiler.axes import rebuild
from nesymm.compiler.expr import Expr, make, rewrite
from nesymm.compiler.types import Int, Type, domain, is_finite, join
from nesymm.errors import NesymmError
from nesymm.filtering.phases import Phases

# How many steps are followed one by one before the growth per step is taken as steady.
_FOLLOWED = 24

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
    previous = dict(types)
    for step in range(min(steps, _FOLLOWED)):
        following = _after(both, types, open_)
        if following == types:
            return types
        previous, types = types, following
        if step == _FOLLOWED - 1:
            types = _extrapolate(previous, types, steps - _FOLLOWED)
    return types


def retyped(both: Phases, steps: int) -> dict[Expr, Expr]:
    """The values that queries ask for, with the types that they have within the horizon."""
    values = [v for q in both.later.queries for v in q.values]
    if all(is_finite(v.type) for v in values):
        return {}
    rule = _with_types(field_types(both, steps))
    memo: dict[int, Expr] = {}
    return {v: rewrite(v, rule, memo) for v in values}


def _with_types(types: Mapping[Field, Type]) -> Callable[[Expr, tuple[Expr, ...]], Expr]:
    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "slot" and node.data in types and node.type != types[node.data]:
            return make("slot", args, node.data, types[node.data])
        return rebuild(node, args)

    return rule


def _after(both: Phases, types: Mapping[Field, Type], open_: set[Field]) -> dict[Field, Type]:
    rule = _with_types({f: types[f] for f in open_})
    memo: dict[int, Expr] = {}
    out = dict(types)
    for slot in both.later.slots:
        for i, value in enumerate(slot.values):
            if (slot.name, i) in open_:
                wider = join(types[slot.name, i], rewrite(value, rule, memo).type)
                if wider is not None:
                    out[slot.name, i] = wider
    return out


def _extrapolate(
    before: Mapping[Field, Type], after: Mapping[Field, Type], steps: int
) -> dict[Field, Type]:
    out = dict(after)
    for name, type_ in after.items():
        old = before[name]
        if isinstance(type_, Int) and isinstance(old, Int) and type_ != old:
            out[name] = Int(
                type_.lo + steps * (type_.lo - old.lo), type_.hi + steps * (type_.hi - old.hi)
            )
    return out


def field_domain(name: str, type_: Type) -> tuple:
    """The values of a field of the state."""
    if not is_finite(type_):
        raise NesymmError(
            f"{name} is {type_}: it has infinitely many values, so the state has no exact belief; "
            "use particles"
        )
    return tuple(domain(type_))
