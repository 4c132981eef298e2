"""Resampling schemes: which particles survive, in proportion to their weights.

Each takes a key and normalised weights `[batch, particles]` and gives the index of the
ancestor of every new particle; the expected number of descendants of particle i is
N times its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Scheme = Callable[[Any, Any], Any]


def _from_sorted(weights: Any, points: Any) -> Any:
    """Ancestors for ascending points in [0, 1), by inverting the distribution function."""
    below = jnp.cumsum(weights, axis=-1)
    below = below / below[..., -1:]
    # How many points lie below each step; each ancestor then starts where the one before ends.
    count = jax.vmap(lambda p, b: jnp.searchsorted(p, b, side="left"))(points, below)
    return _in_runs(weights, count)


def _in_runs(weights: Any, ends: Any) -> Any:
    """Ancestors in runs, by where the run of each particle ends.

    Each run lasts until the next one begins. A particle of weight zero begins none, so that
    rounded sums do not revive it.
    """
    batch, n = weights.shape
    own = jnp.where(weights > 0, jnp.arange(n, dtype=jnp.int32), 0)
    starts = jnp.zeros((batch, n + 1), jnp.int32)
    starts = starts.at[jnp.arange(batch)[:, None], ends[:, :-1]].max(own[:, 1:])
    return jax.lax.cummax(starts[:, :n], axis=1)


def multinomial(key: Any, weights: Any) -> Any:
    """Independent draws. Sorted uniforms come from normalised sums of exponentials."""
    batch, n = weights.shape
    gaps = jax.random.exponential(key, (batch, n + 1), dtype=weights.dtype)
    sums = jnp.cumsum(gaps, axis=-1)
    return _from_sorted(weights, sums[:, :n] / sums[:, n:])


def stratified(key: Any, weights: Any) -> Any:
    """One draw in each of N equal strata."""
    batch, n = weights.shape
    noise = jax.random.uniform(key, (batch, n), dtype=weights.dtype)
    return _from_sorted(weights, (jnp.arange(n) + noise) / n)


def systematic(key: Any, weights: Any) -> Any:
    """One uniform number, repeated at distance 1/N."""
    batch, n = weights.shape
    noise = jax.random.uniform(key, (batch, 1), dtype=weights.dtype)
    below = jnp.cumsum(weights, axis=-1)
    below = below / below[..., -1:]
    # Points below step k: the j with (j + noise) / n < below, counted without a search.
    count = jnp.clip(jnp.ceil(below * n - noise), 0, n).astype(jnp.int32)
    return _in_runs(weights, count)


def residual(key: Any, weights: Any) -> Any:
    """The whole part of N·w for certain, the rest by multinomial draws."""
    n = weights.shape[-1]
    scaled = weights * n
    certain = jnp.floor(scaled)
    rest = scaled - certain
    number = jnp.sum(certain, axis=-1, keepdims=True).astype(jnp.int32)
    total = jnp.sum(rest, axis=-1, keepdims=True)
    rest = jnp.where(total > 0, rest / jnp.where(total > 0, total, 1), weights)
    drawn = multinomial(key, rest)
    # Multinomial draws come sorted; a random order lets any of them fill the free places.
    shuffled = jax.random.permutation(jax.random.fold_in(key, 1), drawn, axis=1, independent=True)
    copies = jnp.cumsum(certain, axis=-1).astype(jnp.int32)
    slots = jnp.arange(n)[None, :]
    fixed = jax.vmap(lambda c: jnp.searchsorted(c, jnp.arange(n), side="right"))(copies)
    return jnp.where(slots < number, jnp.minimum(fixed, n - 1), shuffled).astype(jnp.int32)


SCHEMES: dict[str, Scheme] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
}
