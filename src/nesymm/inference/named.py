"""Arrays whose dimensions have names.

An expression with free axes is an array with one dimension per axis. Operations align
dimensions by name and broadcast the rest, so that nobody counts positions. A dimension
can be anything hashable: an axis of the program, or a random variable that is being
enumerated. Dimensions with a `rank` are ordered by it, so that particles come last.

An array may have further dimensions, without names, behind the named ones: the pixels of
an image, the outputs of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nesymm.inference.arrays import indexed, xp

Dim = Hashable


@dataclass(frozen=True, slots=True)
class Named:
    """An array and the names of its dimensions, in order."""

    array: Any
    dims: tuple[Dim, ...] = ()

    def rename(self, mapping: dict[Dim, Dim]) -> Named:
        return Named(self.array, tuple(mapping.get(d, d) for d in self.dims))


def union(dims: Iterable[Sequence[Dim]]) -> tuple[Dim, ...]:
    """All dimensions, each once, by rank, then in order of first appearance."""
    return tuple(sorted(dict.fromkeys(d for group in dims for d in group), key=_rank))


def _rank(dim: Dim) -> int:
    return getattr(dim, "rank", 0)


def expand(value: Named, dims: tuple[Dim, ...]) -> Any:
    """The bare array with exactly these dimensions, of size 1 where it has none."""
    if value.dims == dims:
        return value.array
    own = [d for d in dims if d in value.dims]
    behind = range(len(value.dims), value.array.ndim)
    # By the array's own methods: what NumPy holds is known, and stays so under JAX.
    array = value.array.transpose([*(value.dims.index(d) for d in own), *behind])
    shape = iter(array.shape)
    named = [next(shape) if d in value.dims else 1 for d in dims]
    return array.reshape((*named, *shape))


def apply(function: Callable[..., Any], *values: Named) -> Named:
    """An elementwise function of aligned arrays.

    What has no dimensions behind the named ones is the same for all that lies there.
    """
    first = values[0]
    if all(v.dims == first.dims and v.array.ndim == first.array.ndim for v in values):
        return Named(function(*(v.array for v in values)), first.dims)
    dims = union(v.dims for v in values)
    aligned = [expand(v, dims) for v in values]
    depth = max(a.ndim for a in aligned)
    return Named(function(*(deepen(a, depth) for a in aligned)), dims)


def only(condition: Named, value: Named) -> Named:
    """A value where a condition holds, and 0 elsewhere."""
    return apply(lambda c, v: xp.where(c, v, 0.0), condition, value)


def all_of(conditions: Iterable[Named | None]) -> Named | None:
    """Where all conditions hold; None is everywhere."""
    known = [c for c in conditions if c is not None]
    return apply_all(xp.logical_and, known) if known else None


def apply_all(function: Callable[[Any, Any], Any], values: Sequence[Named]) -> Named:
    """A function of two arrays for several, one after the other."""
    result, *others = values
    for value in others:
        result = apply(function, result, value)
    return result


def deepen(array: Any, depth: int) -> Any:
    """An array with dimensions of size 1 behind its own, so that it has `depth` of them."""
    missing = depth - array.ndim
    return xp.reshape(array, (*array.shape, *(1,) * missing)) if missing else array


def reduce(function: Callable[..., Any], value: Named, dims: Iterable[Dim]) -> Named:
    """A reduction (`function(array, axis=…)`) over some of the dimensions."""
    gone = [d for d in dims if d in value.dims]
    if not gone:
        return value
    axes = tuple(value.dims.index(d) for d in gone)
    kept = tuple(d for d in value.dims if d not in gone)
    return Named(function(value.array, axis=axes), kept)


def take(table: Any, indices: Sequence[Named], trailing: tuple[Dim, ...] = ()) -> Named:
    """Entries of an array by one index array per leading dimension (a gather)."""
    if not indices:
        return Named(table, trailing)
    dims = union(i.dims for i in indices)
    if any(d in dims for d in trailing):
        # The keys differ along a dimension that is kept: each element has its own.
        kept = table.shape[len(indices) : len(indices) + len(trailing)]
        own = [Named(xp.arange(n), (d,)) for d, n in zip(trailing, kept, strict=True)]
        dims = union([dims, trailing])
        return Named(indexed(table, tuple(expand(i, dims) for i in (*indices, *own))), dims)
    picked = indexed(table, tuple(expand(i, dims) for i in indices))
    return Named(picked, (*dims, *trailing))
