"""Lifted calls of networks: once for each value of the arguments, not once for each cause of it.

What a network sees often takes few values, though much leads to them: a place on a grid follows
from the place before, an action and the walls. So a network is evaluated on the grid of the values
of its finite arguments, and its table is read at the arguments. Where it gives more numbers (the
pixels of a picture) than there are values, nothing is read: the values become choices that are
summed over, and what is computed from the pixels is computed once for each value too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import Choice, choices
from nesymm.inference.named import Named, expand, take, union
from nesymm.ir.expr import Expr, postorder
from nesymm.ir.step import StepProgram
from nesymm.ir.types import Enum, Int, Type, is_finite

if TYPE_CHECKING:
    from nesymm.inference.tables import Tables


@dataclass(frozen=True, slots=True)
class Argument:
    """The dimension of a table that runs through the values of an argument of a network."""

    position: int


def value_types(step: StepProgram) -> dict[Expr, Type]:
    """The values that the state takes have the types of its fields, which may be narrower than
    what their expressions show: leaving them is an error."""
    return {
        value: type_
        for slot in step.slots
        for value, type_ in zip(slot.values, slot.fields, strict=True)
        if isinstance(type_, Int) and isinstance(value.type, Int)
    }


def finite_arguments(call: Expr, types: Mapping[Expr, Type]) -> dict[int, Int | Enum]:
    """The types of the finite arguments of a network, by their positions."""
    found = {i: types.get(a, a.type) for i, a in enumerate(call.args)}
    return {
        i: t if isinstance(t, Int | Enum) else Int(0, 1) for i, t in found.items() if is_finite(t)
    }


def is_static(expr: Expr, statics: Collection[str]) -> bool:
    """Whether an expression is the same at all steps: of variables that were drawn once."""
    changing = ("time", "input", "given", "observed", "slot", "neural", "lfp", "axis")
    return all(
        n.op not in changing and (n.op != "rv" or n.data in statics) for n in postorder([expr])
    )


def on_grid(arguments: Sequence[Any], finite: Mapping[int, Int | Enum]) -> tuple[Named, ...]:
    """The arguments of a network, the finite ones with all their values side by side."""
    return tuple(
        Named(_codes(finite[i]), (Argument(i),)) if i in finite else a
        for i, a in enumerate(arguments)
    )


def causes(arguments: Sequence[Named], finite: Mapping[int, Int | Enum]) -> int:
    """How often more a network is called, since its finite arguments depend on so much."""
    rest = {d for i, a in enumerate(arguments) if i not in finite for d in a.dims}
    sizes: dict[Any, int] = {}
    for i in finite:
        sizes |= dict(zip(arguments[i].dims, arguments[i].array.shape, strict=False))
    return math.prod(n for d, n in sizes.items() if d not in rest)


def fewer_values(
    arguments: Sequence[Named], finite: Mapping[int, Int | Enum]
) -> dict[int, Int | Enum]:
    """The finite arguments that have fewer values than causes; none, if there are as many."""
    rest = {d for i, a in enumerate(arguments) if i not in finite for d in a.dims}
    free = {i: t for i, t in finite.items() if set(arguments[i].dims) - rest}
    return free if values(free) < causes(arguments, free) else {}


def values(finite: Mapping[int, Int | Enum]) -> int:
    """How many values finite arguments have together."""
    return math.prod(int(t.size) for t in finite.values())


def read(low: Tables, table: Named, call: Expr, finite: Mapping[int, Int | Enum]) -> Named:
    """The table of a network at the arguments of a call."""
    numbers = math.prod(table.array.shape[len(table.dims) :])
    named: dict[Any, Any] = {}
    indices: dict[Argument, Named] = {}
    for i, type_ in finite.items():
        value = low.value(call.args[i])
        index = low.index(value, type_)
        dim = _whole(index, type_)
        if dim is None and choices(index.dims) and numbers > values(finite):
            dim = low.name_of(call.args[i], index, type_)
        if dim is not None and dim not in named.values():
            named[Argument(i)] = dim
        else:
            indices[Argument(i)] = index
    table = table.rename(named)
    if not indices:
        dims = union([table.dims])
        return Named(expand(table, dims), dims)
    others = tuple(d for d in table.dims if d not in indices)
    array = expand(table, (*indices, *others))
    return take(array, list(indices.values()), others)


def _whole(index: Named, type_: Int | Enum) -> Choice | None:
    """The choice whose values an argument runs through, one after the other."""
    (dim, *others) = index.dims or (None,)
    if others or not isinstance(dim, Choice) or not isinstance(index.array, np.ndarray):
        return None
    return dim if np.array_equal(index.array, np.arange(int(type_.size))) else None


def _codes(type_: Int | Enum) -> Any:
    first = int(type_.lo) if isinstance(type_, Int) else 0
    return jnp.arange(first, first + int(type_.size))
