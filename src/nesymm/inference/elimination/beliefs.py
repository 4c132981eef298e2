"""Tables of a belief: which fields stand in one table, and how mass moves to the next fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nesymm.inference.arrays import scatter as put
from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.densities import safe_log
from nesymm.inference.elimination.capacity import Capacity
from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice, cells, choices
from nesymm.inference.elimination.factors import add, components
from nesymm.inference.named import Named, apply, expand, union

Partition = tuple[frozenset[Choice], ...]


def partition(beliefs: Sequence[Named]) -> Partition:
    return _sorted(frozenset(choices(b.dims)) for b in beliefs)


def merge(a: Partition, b: Partition) -> Partition:
    parts = [*a, *b]
    groups = components([Named(None, tuple(part)) for part in parts])
    return _sorted(frozenset().union(*(parts[i] for i in group)) for group in groups)


def _sorted(parts: Iterable[frozenset[Choice]]) -> Partition:
    return tuple(sorted(parts, key=lambda part: sorted(map(repr, part))))


def regroup(beliefs: Sequence[Named], partition: Partition, capacity: Capacity) -> list[Named]:
    out = []
    for part in partition:
        capacity.refuse((*sorted(part, key=repr), BATCH, PARTICLE))
        mine = [b for b in beliefs if set(choices(b.dims)) & part]
        table = add(mine)
        dims = (
            *sorted(part, key=repr),
            *(d for d in union([table.dims]) if not isinstance(d, Choice)),
        )
        shape = [
            d.size
            if isinstance(d, Choice)
            else next(b.array.shape[b.dims.index(d)] for b in mine if d in b.dims)
            for d in dims
        ]
        out.append(Named(jnp.broadcast_to(expand(table, dims), shape), dims))
    return out


def scatter(
    table: Named,
    targets: list[tuple[Choice, Named]],
    gone: list[Choice],
    capacity: Capacity,
    best: bool = False,
) -> Named:
    """Sum a log-table over the choices in `gone`, each cell into its place in the targets.

    With `best`, the largest cell counts in place of the sum.
    """
    kept = tuple(d for d in table.dims if d not in gone)
    sizes = tuple(d.size for d in gone)
    news = tuple(new for new, _ in targets)
    # One number for the places along all targets.
    index = Named(jnp.zeros((), jnp.int32))
    for new, position in targets:
        index = apply(lambda i, p, n=new.size: i * n + p, index, position)
    total_size = cells(news)
    capacity.refuse((*news, *kept))
    aligned = expand(table, (*gone, *kept))
    where = expand(index, (*gone, *kept))
    # Previous choices that the place depends on stay apart, though the mass is the same.
    shape = jnp.broadcast_shapes(aligned.shape, where.shape, (*sizes, *(1,) * len(kept)))
    rows = cells(tuple(gone))
    flat = jnp.broadcast_to(aligned, shape).reshape(rows, *shape[len(gone) :])
    if set(index.dims) <= set(gone):
        at: Any = jnp.broadcast_to(where, (*sizes, *(1,) * len(kept))).reshape(rows)
    else:
        place = jnp.broadcast_to(where, shape).reshape(flat.shape)
        others = jnp.meshgrid(*(jnp.arange(n) for n in flat.shape[1:]), indexing="ij")
        at = (place, *(o[None] for o in others))
    out = (total_size, *flat.shape[1:])
    # Each place has a scale of its own: what is unlikely now may be all that is left later.
    log = put(out, at, flat if best else stop_gradient(flat), "max", -np.inf)
    if not best:
        top = jnp.where(jnp.isfinite(log), log, 0.0)
        total = put(out, at, jnp.exp(flat - top[at]), "add", 0.0)
        log = safe_log(jnp, total) + top
    return Named(log.reshape((*(n.size for n in news), *log.shape[1:])), (*news, *kept))
