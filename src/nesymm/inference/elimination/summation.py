"""Sums of products over finite variables whose elements are told apart.

A *factor* is a log-table over choices (side by side for sequences and draws). A *target* is a
finite value computed from choices: a field of the next state, the answer to a query. It enters
the sum as a deterministic factor that is never written out: when the first choice that it depends
on is summed, the mass of the joined table is moved to the target's places, and from then on the
target is a dimension like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.inference.arrays import xp
from nesymm.inference.elimination.beliefs import scatter
from nesymm.inference.elimination.capacity import CAPACITY, Capacity
from nesymm.inference.elimination.choices import Choice, cells, choices
from nesymm.inference.elimination.factors import Sum, add, logsumexp, summing
from nesymm.inference.elimination.order import searched_order
from nesymm.inference.named import Named, apply, expand, reduce, union
from nesymm.ir.expr import Axis

# Mass is moved by comparing each place with each cell while there are no more pairs than this.
_COMPARED = 1 << 14


@dataclass(frozen=True, eq=False)
class Target:
    """A finite value: the dimension it will have, and its position given the choices."""

    new: Choice
    index: Named


def sum_out(
    factors: Iterable[Named],
    targets: Iterable[Target] = (),
    keep: frozenset[Choice] = frozenset(),
    capacity: Capacity = CAPACITY,
    sum_: Sum = logsumexp,
    inner: Iterable[Target] = (),
) -> tuple[Named, list[Named]]:
    """Sum out all choices but those in `keep`: what has no choices left, and log-tables over the
    targets and what is kept. `inner` targets are named on the way and summed out too."""
    live = [product_along_axes(f) for f in factors]
    waiting = list(targets)
    keep = keep | {t.new for t in waiting}
    live, waiting = _renamed(live, [*waiting, *inner], keep)
    # What depends on kept choices alone would wait for ever.
    stuck = [t for t in waiting if t.new not in keep and set(choices(t.index.dims)) <= keep]
    live += map(point, stuck)
    waiting = [t for t in waiting if t not in stuck]
    total = [f for f in live if not choices(f.dims)]
    live = [f for f in live if choices(f.dims)]
    sum_ = summing(sum_, union([*(f.dims for f in live), *(t.index.dims for t in waiting)]))
    order = searched_order(live, keep, [(t.new, t.index) for t in waiting])
    _refuse_ahead(live, waiting, order, capacity)
    for dim in order:
        mine = [f for f in live if dim in f.dims]
        moved = [t for t in waiting if dim in t.index.dims]
        dims = union([*(f.dims for f in mine), *(t.index.dims for t in moved)])
        table = add(mine)
        if moved:
            left = _move(Named(expand(table, dims), dims), moved, dim, capacity, sum_)
        else:
            left = reduce(sum_, table, [dim])
        live = [f for f in live if dim not in f.dims]
        (live if choices(left.dims) else total).append(left)
        waiting = [t for t in waiting if dim not in t.index.dims]
    live += [point(t) for t in waiting]
    return add(total), live


def _refuse_ahead(
    live: list[Named], waiting: list[Target], order: list[Choice], capacity: Capacity
) -> None:
    """Refuse tables that will be too large, before the first of them is computed."""
    scopes = [f.dims for f in live]
    for dim in order:
        moved = [t for t in waiting if dim in t.index.dims]
        joined = union([*(s for s in scopes if dim in s), *(t.index.dims for t in moved)])
        capacity.refuse(joined)
        left = tuple(d for d in joined if d != dim)
        if moved:
            left = union([tuple(t.new for t in moved), left])
            capacity.refuse(left)
        scopes = [*(s for s in scopes if dim not in s), left]
        waiting = [t for t in waiting if dim not in t.index.dims]


def product_along_axes(factor: Named) -> Named:
    """A factor per element of some data is the product of them all."""
    axes = [d for d in factor.dims if isinstance(d, Axis)]
    return reduce(xp.sum, Named(factor.array, factor.dims), axes)


def point(target: Target) -> Named:
    """A target as a factor of its own: all mass where its value is."""
    here = apply(xp.equal, Named(np.arange(target.new.size), (target.new,)), target.index)
    return Named(xp.where(here.array, 0.0, -np.inf), here.dims)


def _renamed(
    live: list[Named], waiting: list[Target], keep: frozenset[Choice]
) -> tuple[list[Named], list[Target]]:
    """A target that is the value of one choice, as what is only carried along is, takes the place
    of that choice."""
    names: dict[Any, Any] = {}
    rest = []
    there = {d for f in live for d in f.dims} | {t.new for t in waiting}
    for target in waiting:
        index = target.index
        (dim, *others) = index.dims or (None,)
        same = (
            isinstance(dim, Choice)
            and not others
            and dim not in keep
            and dim not in names
            and dim.size == target.new.size
            and isinstance(index.array, np.ndarray)
            and bool((index.array == np.arange(dim.size)).all())
        )
        if same and dim in there:
            names[dim] = target.new
        else:
            rest.append(target)
    if not names:
        return live, waiting
    live = [f.rename(names) for f in live]
    return live, [Target(names.get(t.new, t.new), t.index.rename(names)) for t in rest]


def _move(
    table: Named, targets: list[Target], gone: Choice, capacity: Capacity, sum_: Sum
) -> Named:
    """Sum a choice out, each cell of the table into its place in the targets."""
    news = tuple(t.new for t in targets)
    if cells(table.dims) * cells(news) > _COMPARED and not set(news) & set(table.dims):
        pairs = [(t.new, t.index) for t in targets]
        return scatter(table, pairs, [gone], capacity, sum_ is xp.max)
    for target in targets:
        here = apply(xp.equal, Named(np.arange(target.new.size), (target.new,)), target.index)
        table = apply(lambda h, x: xp.where(h, x, -np.inf), here, table)
    return reduce(sum_, table, [gone])
