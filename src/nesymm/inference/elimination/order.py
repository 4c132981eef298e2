"""The order in which finite variables are summed out.

It decides how large the joined tables become. Three greedy searches (by the size of the next table,
by fill, and along chains of named conditions) are simulated on the scopes of the factors, and the
cheapest order is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

import numpy as np

from nesymm.inference.elimination.choices import Choice, choices
from nesymm.inference.named import Named

# No table over finite variables may have more cells than this (per particle).
MAX_CELLS = 1 << 21
_HOPELESS = float(np.log2(MAX_CELLS))


def searched_order(
    factors: Iterable[Named],
    keep: Collection[Choice] = frozenset(),
    moved: Iterable[tuple[Choice, Named]] = (),
) -> list[Choice]:
    """The order in which to sum out all choices of some factors but those to keep.

    `moved` are choices whose values are functions of others: see `summation`."""
    numbers: dict[Choice, int] = {}

    def scope(dims: tuple) -> int:
        mask = 0
        for dim in choices(dims):
            mask |= 1 << numbers.setdefault(dim, len(numbers))
        return mask

    scopes = tuple(scope(f.dims) for f in factors)
    functions = tuple((scope((new,)), scope(index.dims)) for new, index in moved)
    open_ = scope(tuple(d for d in numbers if d not in keep))
    sizes = tuple(float(np.log2(d.size)) for d in numbers)
    ages = tuple(d.name if d.kind == "aux" else np.inf for d in numbers)
    named = list(numbers)
    return [named[i] for i in _search(scopes, functions, open_, sizes, ages)]


@lru_cache(maxsize=4096)
def _search(
    scopes: tuple[int, ...],
    moved: tuple[tuple[int, int], ...],
    open_: int,
    sizes: tuple[float, ...],
    ages: tuple[float, ...],
) -> tuple[int, ...]:
    """The cheapest of three orders. Scopes are bit masks; sizes are binary logarithms; a condition
    has the age at which it was named."""

    def by_size(i: int, joined: int, left: int, near: list[int]) -> tuple[float, ...]:
        return (max(_bits(joined, sizes), _bits(left, sizes)),)

    def by_fill(i: int, joined: int, left: int, near: list[int]) -> tuple[float, ...]:
        return (_fill(left, near), _bits(left, sizes))

    def by_age(i: int, joined: int, left: int, near: list[int]) -> tuple[float, ...]:
        # A long disjunction is a chain of conditions, each named after what it is made of. The
        # other two join the chain first, with all that hangs on it.
        return (ages[i], _bits(joined, sizes))

    scores: tuple[Score, ...] = (by_size, by_fill, by_age)
    return min(_simulate(scopes, moved, open_, sizes, score) for score in scores)[2]


Score = Callable[[int, int, int, list[int]], tuple[float, ...]]


def _fill(left: int, near: list[int]) -> int:
    """How many pairs would meet for the first time (each seen from both sides)."""
    fill, rest = 0, left
    while rest:
        low = rest & -rest
        fill += (left & ~near[low.bit_length() - 1] & ~low).bit_count()
        rest ^= low
    return fill


def _bits(mask: int, sizes: tuple[float, ...]) -> float:
    total = 0.0
    while mask:
        low = mask & -mask
        total += sizes[low.bit_length() - 1]
        mask ^= low
    return total


def _simulate(
    scopes: tuple[int, ...],
    moved: tuple[tuple[int, int], ...],
    open_: int,
    sizes: tuple[float, ...],
    score: Score,
) -> tuple[float, float, tuple[int, ...]]:
    """The largest table, the cells of all tables, and the order that a search finds."""
    live, waiting = list(scopes), list(moved)
    near = [0] * len(sizes)  # What each stands in one scope with.
    for scope in scopes:
        _meet(near, scope)
    order: list[int] = []
    peak = work = 0.0
    todo = [i for i in range(len(sizes)) if open_ >> i & 1]
    known: dict[int, tuple[tuple[float, ...], int, int]] = {}
    while todo:
        # A target is a dimension only after its mass was moved.
        unmoved = 0
        for new, _ in waiting:
            unmoved |= new
        ready = [i for i in todo if not unmoved >> i & 1]
        for i in ready:
            if i not in known:
                joined, left = _reach(1 << i, live, waiting)
                known[i] = (score(i, joined, left, near), joined, left)
        best = min(ready, key=lambda i: (known[i][0], i))
        _, joined, left = known[best]
        bit = 1 << best
        live = [s for s in live if not s & bit]
        live.append(left)
        _meet(near, left)
        waiting = [t for t in waiting if not t[1] & bit]
        todo.remove(best)
        order.append(best)
        size = max(_bits(joined, sizes), _bits(left, sizes))
        peak = max(peak, size)
        if peak > _HOPELESS:
            # It will be refused there, whatever comes after.
            return peak, np.inf, (*order, *todo)
        work += 2.0**size
        known = {i: k for i, k in known.items() if not (joined | left) >> i & 1}
    return peak, work, tuple(order)


def _meet(near: list[int], scope: int) -> None:
    """Note that all choices of a scope stand together."""
    rest = scope
    while rest:
        low = rest & -rest
        near[low.bit_length() - 1] |= scope
        rest ^= low


def _reach(bit: int, live: list[int], waiting: list[tuple[int, int]]) -> tuple[int, int]:
    """The table that summing out a choice makes, and what is left of it."""
    joined = bit
    for scope in live:
        if scope & bit:
            joined |= scope
    left = joined
    for new, index in waiting:
        if index & bit:
            joined |= index
            left |= index | new
    return joined, left & ~bit
