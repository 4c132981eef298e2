"""Arrays whose dimensions have names.

An expression with free axes is an array with one dimension per axis. Operations align
dimensions by name and broadcast the rest, so that nobody counts positions. A dimension
can be anything hashable: an axis of the program, or a random variable that is being
enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Dim = Hashable


@dataclass(frozen=True, slots=True)
class Named:
    """An array and the names of its dimensions, in order."""

    array: Any
    dims: tuple[Dim, ...] = ()

    def rename(self, mapping: dict[Dim, Dim]) -> Named:
        return Named(self.array, tuple(mapping.get(d, d) for d in self.dims))


def union(dims: Iterable[Sequence[Dim]]) -> tuple[Dim, ...]:
    """All dimensions, each once, in order of first appearance."""
    return tuple(dict.fromkeys(d for group in dims for d in group))


def expand(xp: Any, value: Named, dims: tuple[Dim, ...]) -> Any:
    """The bare array with exactly these dimensions, of size 1 where it has none."""
    if value.dims == dims:
        return value.array
    own = [d for d in dims if d in value.dims]
    array = xp.transpose(value.array, [value.dims.index(d) for d in own])
    shape = iter(array.shape)
    return xp.reshape(array, tuple(next(shape) if d in value.dims else 1 for d in dims))


def apply(xp: Any, function: Callable[..., Any], *values: Named) -> Named:
    """An elementwise function of aligned arrays."""
    first = values[0].dims
    if all(v.dims == first for v in values):
        return Named(function(*(v.array for v in values)), first)
    dims = union(v.dims for v in values)
    return Named(function(*(expand(xp, v, dims) for v in values)), dims)


def reduce(xp: Any, function: Callable[..., Any], value: Named, dims: Iterable[Dim]) -> Named:
    """A reduction (`function(array, axis=…)`) over some of the dimensions."""
    gone = [d for d in dims if d in value.dims]
    if not gone:
        return value
    axes = tuple(value.dims.index(d) for d in gone)
    kept = tuple(d for d in value.dims if d not in gone)
    return Named(function(value.array, axis=axes), kept)


def take(xp: Any, table: Any, indices: Sequence[Named], trailing: tuple[Dim, ...] = ()) -> Named:
    """Entries of an array by one index array per leading dimension (a gather)."""
    if not indices:
        return Named(table, trailing)
    dims = union(i.dims for i in indices)
    picked = table[tuple(expand(xp, i, dims) for i in indices)]
    shared = [d for d in trailing if d in dims]
    if shared:
        raise ValueError(f"dimensions {shared} are both gathered and kept")
    return Named(picked, (*dims, *trailing))
