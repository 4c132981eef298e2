"""Disjunctions along a plate: whether any of many alike, independent conditions holds.

Written out, a condition that any of n enemies may bring about ties all of them together,
one by one. Here they stay side by side: their tables are joined pair by pair, in a tree
whose depth is log n, and drawn from its root to its leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.inference.elimination.choices import Choice
from nesymm.inference.named import Named, expand
from nesymm.ir.expr import Axis

Pick = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Disjunction(Named):
    """Says that the choice `whole` is true where `part` is true anywhere along `axis`."""

    whole: Any = None
    part: Any = None
    axis: Any = None


def disjunction(whole: Choice, part: Choice, axis: Axis) -> Disjunction:
    return Disjunction(None, (whole, part), whole, part, axis)


@dataclass(frozen=True)
class Tree:
    """Parts along an axis, and the log-table over them (and over other things)."""

    parts: tuple[Choice, ...]
    wholes: tuple[Choice, ...]
    axis: Axis
    table: Named

    def root(self, add_up: Callable[[Any], Any]) -> Named:
        """The log-table of the wholes; `add_up` sums log-weights along the first dimension."""
        rest, level = self._leaves(self.table)
        while level.shape[1] > 1:
            level = _joined(level, add_up)
        array = level[:, 0].reshape((*(2 for _ in self.wholes), *level.shape[2:]))
        # The parts may depend on the wholes; only where both agree is there any weight.
        fresh = tuple(Choice("copy", w.name, w.key, w.size) for w in self.wholes)
        result = Named(array, (*fresh, *rest))
        for whole, copy in zip(self.wholes, fresh, strict=True):
            if whole in rest:
                result = _diagonal(result, copy, whole)
            else:
                result = result.rename({copy: whole})
        return result

    def draw(
        self, key: Any, drawn: dict[Choice, Named], table: Named, shape: tuple[int, ...], pick: Pick
    ) -> dict[Choice, Named]:
        """The parts, given the wholes. `table` is that of the tree, at all else that is drawn;
        `shape` that of its lanes, which are its last dimensions."""
        lanes, level = self._leaves(table)
        levels = [level]
        while levels[-1].shape[1] > 1:
            levels.append(_joined(levels[-1], _log_sum))
        states = level.shape[0]
        bits = _bits(len(self.parts))
        state = jnp.zeros((), jnp.int32)
        for whole in self.wholes:
            state = state * 2 + expand(drawn[whole], lanes).astype(jnp.int32)
        state = jnp.broadcast_to(state, shape)[None]
        for depth, below in enumerate(reversed(levels[:-1])):
            nodes = below.shape[1] // 2
            left, right = below[:, 0::2], below[:, 1::2]
            logits = []
            for a in range(states):
                for b in range(states):
                    fits = state == (a | b)
                    logits.append(jnp.where(fits, left[a] + right[b], -jnp.inf))
            noise = jax.random.uniform(
                jax.random.fold_in(key, depth), (nodes, *shape), dtype=below.dtype
            )
            both = pick(jnp.stack(jnp.broadcast_arrays(*logits)), noise)
            state = jnp.stack([both // states, both % states], 1).reshape(2 * nodes, *shape)
        state = state[: self.axis.size]
        dims = (self.axis, *lanes)
        return {
            part: Named((state >> bit) & 1, dims)
            for part, bit in zip(self.parts, bits, strict=True)
        }

    def _leaves(self, table: Named) -> tuple[tuple, Any]:
        """The table with one dimension for all parts together, then the axis, filled up to a
        power of two with conditions that never hold; and the dimensions behind."""
        inside = (*self.parts, self.axis)
        rest = tuple(d for d in table.dims if d not in inside)
        array = expand(table, (*inside, *rest))
        n = self.axis.size
        behind = array.shape[len(inside) :]
        array = jnp.broadcast_to(array, (*(2 for _ in self.parts), n, *behind))
        array = array.reshape(2 ** len(self.parts), n, *behind)
        full = 1 << (n - 1).bit_length()
        if full > n:
            never = jnp.full((array.shape[0], full - n, *behind), -jnp.inf, array.dtype)
            array = jnp.concatenate([array, never.at[0].set(0.0)], axis=1)
        return rest, array


def _bits(count: int) -> list[int]:
    return list(range(count - 1, -1, -1))


def _joined(level: Any, add_up: Callable[[Any], Any]) -> Any:
    """One level up: what holds for either of two neighbours holds for both together."""
    left, right = level[:, 0::2], level[:, 1::2]
    terms: list[list[Any]] = [[] for _ in range(level.shape[0])]
    for a in range(level.shape[0]):
        for b in range(level.shape[0]):
            terms[a | b].append(left[a] + right[b])
    return jnp.stack([add_up(jnp.stack(t)) if len(t) > 1 else t[0] for t in terms])


def _log_sum(array: Any) -> Any:
    top = jnp.max(array, axis=0)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    return jnp.log(jnp.sum(jnp.exp(array - top), axis=0)) + top


def _diagonal(table: Named, copy: Choice, whole: Choice) -> Named:
    kept = tuple(d for d in table.dims if d not in (copy, whole))
    both = expand(table, (copy, whole, *kept))
    return Named(jnp.stack([both[i, i] for i in range(whole.size)]), (whole, *kept))
