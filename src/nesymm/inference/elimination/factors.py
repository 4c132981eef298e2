"""Sums of products over finite variables, one variable at a time.

A factor is a log-weight over some choices, side by side for all axes, sequences and
particles. Eliminating a choice joins the factors that mention it and sums it out; what
was joined is remembered, so that the choices can be drawn in the opposite order, jointly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import entries, indexed, is_jax
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.densities import log_sum_exp, safe_log
from nesymm.inference.elimination.capacity import CAPACITY, Capacity
from nesymm.inference.elimination.choices import PARTICLE, Choice, cells, choices
from nesymm.inference.elimination.disjunction import Disjunction, Tree
from nesymm.inference.elimination.order import searched_order
from nesymm.inference.named import Named, apply, deepen, expand, reduce, union
from nesymm.ir.expr import Axis

Sum = Callable[[Any, Any], Any]

# Up to this many terms a sum is written out: element by element it fuses with the rest.
_WRITTEN_OUT = 32
# Sums over variables with at most this many joint values may be written out.
_SMALL = 256


def logsumexp(array: Any, axis: Any) -> Any:
    """log Σ exp; -inf (with gradient 0) where there is nothing to sum."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if is_jax(array) and len(axes) == 1 and array.shape[axes[0]] <= _WRITTEN_OUT:
        return _written_logsumexp(array, axes[0])
    return log_sum_exp(jnp, array, axis)


def summing(sum_: Sum, dims: tuple) -> Sum:
    """How to sum in tables over some choices: written out, terms of large tables that depend on
    each other would be computed again and again."""
    return partial(log_sum_exp, jnp) if sum_ is logsumexp and cells(dims) > _SMALL else sum_


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _written_logsumexp(array: Any, axis: int) -> Any:
    terms = entries(array, axis)
    if len(terms) == 1:
        return terms[0]
    top = terms[0]
    for term in terms[1:]:
        top = jnp.maximum(top, term)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.exp(terms[0] - top)
    for term in terms[1:]:
        total = total + jnp.exp(term - top)
    return safe_log(jnp, total) + top


@_written_logsumexp.defjvp
def _(axis: int, primals: Any, tangents: Any) -> Any:
    # Term by term, the way back would be one sum of padded arrays for each.
    (array,), (gradient,) = primals, tangents
    total = _written_logsumexp(array, axis)
    some = jnp.isfinite(total)
    share = jnp.exp(array - jnp.expand_dims(jnp.where(some, total, 0.0), axis))
    share = jnp.where(jnp.expand_dims(some, axis), share, 0.0)
    return total, jnp.sum(share * gradient, axis)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _written_sum(array: Any, axis: int) -> Any:
    terms = entries(array, axis)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@_written_sum.defjvp
def _(axis: int, primals: Any, tangents: Any) -> Any:
    return _written_sum(primals[0], axis), jnp.sum(tangents[0], axis)


def log_add(a: Any, b: Any) -> Any:
    """log (exp a + exp b)."""
    return logsumexp(jnp.stack(jnp.broadcast_arrays(a, b)), 0)


@dataclass(frozen=True, slots=True)
class Factor(Named):
    """A log-weight that is also at hand as a plain number."""

    plain: Any = None


def alike(factor: Named, change: Callable[[Named], Named]) -> Named:
    """The same change to the logarithms of a factor and to its plain numbers."""
    new = change(Named(factor.array, factor.dims))
    if not isinstance(factor, Factor):
        return new
    return Factor(new.array, new.dims, change(Named(factor.plain, factor.dims)).array)


@dataclass
class Eliminated:
    """What is left of some factors, and how the choices can be drawn.

    `joined` holds what was eliminated, in order: a choice with the table of all that it was
    tied to, or the parts of disjunctions along a plate.
    """

    total: Named
    rest: list[Named] = field(default_factory=list)
    joined: list[tuple[Choice, Named] | Tree] = field(default_factory=list)
    plain: bool = False


def add(factors: Iterable[Named], plain: bool = False) -> Named:
    """The product of factors, that is, the sum of their logarithms."""
    both = jnp.multiply if plain else jnp.add
    result: Named | None = None
    for factor in sorted(factors, key=lambda f: cells(f.dims)):
        bare = Named(factor.array, factor.dims)
        result = bare if result is None else apply(both, result, bare)
    return result if result is not None else Named(jnp.asarray(float(plain)))


def eliminate(
    factors: Sequence[Named],
    keep: frozenset[Choice] = frozenset(),
    sum_: Sum = logsumexp,
    capacity: Capacity = CAPACITY,
    first: frozenset[Choice] = frozenset(),
    plain: bool = False,
) -> Eliminated:
    """Sum out all choices but those in `keep`, those in `first` before the others.

    With `plain`, factors that are at hand as plain numbers are multiplied and added as such,
    which saves most of the time and may underflow where evidence is very improbable.

    Choices inside a plate (one per value of an axis) go first; then a plate whose choices
    are gone is a product, that is, a sum of logarithms, along its axis. The last choices of a
    plate are the parts of disjunctions along it, all of them at once.
    """
    out = Eliminated(Named(jnp.zeros(())))
    ties = {f.part: f for f in factors if isinstance(f, Disjunction)}
    tables = [f for f in factors if not isinstance(f, Disjunction)]
    done = [f for f in tables if not choices(f.dims)]
    live = [f for f in tables if choices(f.dims)]
    plain = (
        plain and not keep and not ties and all(isinstance(f, Factor) and _flat(f) for f in live)
    )
    if plain:
        live = [Named(f.plain, f.dims) for f in live if isinstance(f, Factor)]
        sum_, out.plain = _plain_sum, True
    sum_ = summing(sum_, union(f.dims for f in live))
    open_ = {d for f in live for d in choices(f.dims)} | {t.whole for t in ties.values()}
    open_ -= keep
    order: list[Choice] = []
    while open_:
        order = order or _next_ones(live, open_, ties, first)
        dim = order.pop(0)
        if dim not in open_:
            continue  # a part of a disjunction that went with another
        if dim in ties:
            tree, live = _tree(live, dim, ties, capacity)
            out.joined.append(tree)
            live.append(tree.root(lambda terms: sum_(terms, 0)))
            open_ -= set(tree.parts)
            continue
        mine = [_close(f, dim.plates) for f in live if dim in f.dims]
        live = [f for f in live if dim not in f.dims]
        reached = union(f.dims for f in mine)
        capacity.refuse(reached)
        table = add(mine, plain)
        out.joined.append((dim, table))
        left = reduce(sum_, table, [dim])
        live.append(_along(left, dim.plates))
        open_.remove(dim)
    summed = [_close(f, ()) for f in live if not choices(f.dims)]
    out.total = add(summed, plain)
    if plain:
        out.total = Named(safe_log(jnp, out.total.array), out.total.dims)
    out.total = add([out.total, *(_close(f, ()) for f in done)])
    out.rest = [_close(f, ()) for f in live if choices(f.dims)]
    return out


def _flat(factor: Named) -> bool:
    """Whether a factor has no axes, along which plain numbers would have to be multiplied, and no
    choices of a plate, which stand for one factor per element."""
    plated = any(d.plates for d in choices(factor.dims))
    return not plated and not any(isinstance(d, Axis) for d in factor.dims)


def _plain_sum(array: Any, axis: Any) -> Any:
    """A sum; written out where it is short, as in `logsumexp`."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if len(axes) > 1 or array.shape[axes[0]] > _WRITTEN_OUT or not is_jax(array):
        return jnp.sum(array, axis=axis)
    return _written_sum(array, axes[0])


def _next_ones(
    factors: Sequence[Named],
    open_: set[Choice],
    ties: Collection[Choice],
    first: Collection[Choice],
) -> list[Choice]:
    """The next choices to go, in order: the deepest ones, but not yet the parts of disjunctions."""
    depth = max(len(d.plates) for d in open_)
    deepest = [d for d in open_ if len(d.plates) == depth]
    now = [d for d in deepest if d not in ties] or deepest
    now = sorted([d for d in now if d in first] or now, key=repr)
    there = {d for f in factors for d in choices(f.dims)}
    return searched_order(factors, there.difference(now)) + [d for d in now if d not in there]


def _close(factor: Named, plates: Sequence[Axis]) -> Named:
    """Multiply along the plates that the next choice to go does not live in."""
    inside = {a for d in choices(factor.dims) for a in d.plates}
    gone = [d for d in factor.dims if isinstance(d, Axis) and d not in plates and d not in inside]
    return reduce(jnp.sum, factor, gone)


def _along(factor: Named, plates: Sequence[Axis]) -> Named:
    """A factor with the axes of the plates that its choice stood in: it counts once for each
    element, though it is the same for all."""
    missing = tuple(a for a in plates if a not in factor.dims)
    if not missing:
        return factor
    sizes = tuple(a.size for a in missing)
    array = jnp.broadcast_to(factor.array, (*sizes, *factor.array.shape))
    return Named(array, (*missing, *factor.dims))


def _tree(
    factors: list[Named],
    part: Choice,
    ties: dict[Choice, Disjunction],
    capacity: Capacity,
) -> tuple[Tree, list[Named]]:
    """The disjunctions that a choice is a part of, joined along their axis, and all factors that
    are about something else."""
    together = _tied(factors, part, ties)
    mine = [f for f in factors if together & set(choices(f.dims))]
    table = add([_close(f, part.plates) for f in mine])
    capacity.refuse(table.dims)
    parts = tuple(sorted(together, key=repr))
    tree = Tree(parts, tuple(ties[p].whole for p in parts), ties[part].axis, table)
    return tree, [f for f in factors if not together & set(choices(f.dims))]


def _tied(factors: Sequence[Named], part: Choice, ties: dict[Choice, Disjunction]) -> set[Choice]:
    """A part of a disjunction and all others in its component."""
    found = {part}
    while True:
        more = {
            d for f in factors if found & set(choices(f.dims)) for d in choices(f.dims) if d in ties
        }
        if more <= found:
            return found
        found |= more


def components(factors: Sequence[Named]) -> list[list[int]]:
    """Factors that share choices, directly or not, by position."""
    groups: list[tuple[set[Choice], list[int]]] = []
    for i, factor in enumerate(factors):
        dims, members = set(choices(factor.dims)), [i]
        apart = []
        for known, inside in groups:
            if known & dims:
                dims |= known
                members = inside + members
            else:
                apart.append((known, inside))
        groups = [*apart, (dims, members)]
    return [sorted(members) for _, members in groups]


# ---------------------------------------------------------------- drawing


def draw(
    key: Any,
    eliminated: Eliminated,
    shape: Callable[[tuple], tuple[int, ...]],
    ancestors: Named | None = None,
    lanes: tuple = (),
    best: bool = False,
) -> dict[Choice, Named]:
    """A joint draw of all eliminated choices, as positions; with `best`, the best ones.

    With `ancestors`, particle i draws from the tables of particle `ancestors[i]`. `lanes`
    are the dimensions along which draws are independent; `shape` knows their sizes. The `key` is
    JAX's, or NumPy's generator where nothing is compiled.
    """
    drawn: dict[Choice, Named] = {}
    for number, entry in enumerate(reversed(eliminated.joined)):
        if isinstance(entry, Tree):
            table = select(entry.table, drawn, ancestors)
            inside = (*entry.parts, entry.axis)
            table = Named(expand(table, (*inside, *lanes)), (*inside, *lanes))
            here = jax.random.fold_in(key, number)
            drawn |= entry.draw(here, drawn, table, shape(lanes), pick)
            continue
        dim, table = entry
        logits = select(table, drawn, ancestors)
        dims = (*dim.plates, *lanes)
        logits = Named(expand(logits, (dim, *dims)), (dim, *dims))
        if best:
            index = jnp.broadcast_to(jnp.argmax(logits.array, axis=0), shape(dims))
            drawn[dim] = Named(index.astype(jnp.int32), dims)
            continue
        if isinstance(key, np.random.Generator):
            noise: Any = key.random(shape(dims))
        else:
            here = jax.random.fold_in(key, number)
            noise = jax.random.uniform(here, shape(dims), dtype=logits.array.dtype)
        drawn[dim] = Named(pick(logits.array, noise, eliminated.plain), dims)
    return drawn


def pick(logits: Any, noise: Any, plain: bool = False) -> Any:
    """A position along the first dimension with probabilities ∝ exp(logits), or to plain
    weights.

    `noise` is uniform on [0, 1). What has weight zero is never picked.
    """
    weights = logits
    if not plain:
        top = jnp.max(logits, axis=0, keepdims=True)
        weights = jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0.0))
    if weights.shape[0] <= _COMPARED:
        # Few outcomes: running sums fuse with everything around them.
        sums = [weights[0]]
        for k in range(1, weights.shape[0]):
            sums.append(sums[-1] + weights[k])
        aim = noise * sums[-1]
        index = jnp.zeros(jnp.shape(aim), jnp.int32)
        for total in sums[:-1]:
            index = index + (total <= aim)
        return index
    below = jnp.cumsum(weights, axis=0)
    index = jnp.sum(below <= noise * below[-1:], axis=0, dtype=jnp.int32)
    # Only where no choice has any weight can this be out of range.
    return jnp.minimum(index, logits.shape[0] - 1)


def select(table: Named, drawn: dict[Choice, Named], ancestors: Named | None = None) -> Named:
    """A table at the positions drawn so far (and at the ancestors of particles)."""
    known = [d for d in choices(table.dims) if d in drawn]
    trace = ancestors is not None and PARTICLE in table.dims
    if not known and not trace:
        return table
    here: dict[Any, Named] = {d: drawn[d] for d in known}
    if not trace:
        return pick_at(table, here)
    assert ancestors is not None
    if not known:
        return pick_at(table, {PARTICLE: ancestors})
    # One gather for both: the ancestor's whole table may be much larger than the row.
    here[PARTICLE] = ancestors
    dims = union([[d for d in table.dims if d not in here], *(i.dims for i in here.values())])
    own = {
        d: Named(jnp.arange(n), (d,))
        for d, n in zip(table.dims, table.array.shape, strict=True)
        if d not in here
    }
    index = tuple(expand(own.get(d) or here[d], dims) for d in table.dims)
    return Named(indexed(table.array, index), dims)


# Up to this size, picking by comparison beats a gather, and its gradient needs no scatter.
_COMPARED = 64


def pick_at(table: Named, indices: dict[Any, Named]) -> Named:
    """An array at given positions along some of its dimensions."""
    several = tuple(d for d, i in indices.items() if isinstance(d, Choice) and i.dims)
    if len(several) > 1 and cells(several) <= _COMPARED:
        # One by one, the first would spread all rows of the others over the particles.
        table, index = _side_by_side(table, several, indices)
        rest = {d: i for d, i in indices.items() if d not in several}
        indices = {**rest, index[0]: index[1]}
    for dim, index_ in indices.items():
        table = _pick_along(table, dim, index_)
    return table


def _side_by_side(
    table: Named, several: tuple[Choice, ...], indices: dict[Any, Named]
) -> tuple[Named, tuple[Choice, Named]]:
    """A table with one dimension in place of several, and the position along it."""
    rest = tuple(d for d in table.dims if d not in several)
    whole = expand(table, (*several, *rest))
    flat = Choice("aux", several, (), cells(several))
    position = Named(jnp.zeros((), jnp.int32))
    for dim in several:
        position = apply(lambda p, i, size=dim.size: p * size + i, position, indices[dim])
    rows = whole.reshape((flat.size, *whole.shape[len(several) :]))
    return Named(rows, (flat, *rest)), (flat, position)


def _pick_along(table: Named, dim: Any, index: Named) -> Named:
    size = table.array.shape[table.dims.index(dim)]
    if dim in index.dims:
        # Each particle reads the row of another particle.
        dims = union([table.dims, index.dims])
        axis = dims.index(dim)
        whole = expand(table, dims)
        rows = deepen(expand(index, dims), whole.ndim)
        return Named(jnp.take_along_axis(whole, rows, axis=axis, mode="clip"), dims)
    if not index.dims:
        return Named(
            jnp.take(table.array, index.array, axis=table.dims.index(dim), mode="clip"),
            tuple(d for d in table.dims if d != dim),
        )
    if size <= _COMPARED:
        axis = table.dims.index(dim)
        kept = tuple(d for d in table.dims if d != dim)
        *others, picked = (Named(row, kept) for row in entries(table.array, axis))
        for i, row in enumerate(others):
            here = Named(index.array == i, index.dims)
            picked = apply(jnp.where, here, row, picked)
        return picked
    rest = union([[d for d in table.dims if d != dim], index.dims])
    picked = jnp.take_along_axis(
        expand(table, (dim, *rest)),
        expand(index, rest)[None],
        axis=0,
        mode="clip",
    )
    return Named(picked[0], rest)
