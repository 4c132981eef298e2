"""Filter runs that are kept from epoch to epoch, so that gradients have no bias.

A particle filter estimates the evidence Z without bias, and so does its gradient estimate g that
of Z: E[Ẑ g] = ∇Z. The gradient of log Z is the mean of g over runs *weighed by their Ẑ*; the plain
mean has a bias that shrinks with the number of particles only. So each sequence keeps one run (its
random number; the particles follow from it), sets a fresh one beside it, weighs both by their
Ẑ, and keeps one of them with these weights. This leaves the distribution of kept runs
proportional to Ẑ (iterated sampling importance resampling, with two candidates), whatever the
number of particles.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

# Apart from the numbers that epochs have.
_RUNS = 1 << 29


def keys_of(seed: int, rows: np.ndarray, kept: np.ndarray, fresh: int) -> dict[str, Any]:
    """The random keys of the kept and of the fresh run of some sequences."""
    root = jax.random.fold_in(jax.random.key(seed), _RUNS)
    return {
        "kept": _keys(root, jnp.asarray(rows), jnp.asarray(kept)),
        "fresh": _keys(root, jnp.asarray(rows), jnp.full(len(rows), fresh)),
    }


@jax.jit
def _keys(root: Any, rows: Any, numbers: Any) -> Any:
    return jax.vmap(lambda r, n: jax.random.fold_in(jax.random.fold_in(root, r), n))(rows, numbers)


def each(estimate: Any, arrays: Any, keys: Any) -> Any:
    """What an estimator of one sequence gives for each sequence of a batch, by its own key: a
    tree of arrays."""

    def one(timed: Any, static: Any, last: Any, key: Any) -> Any:
        alone = {
            "timed": jax.tree.map(lambda x: x[:, None], timed),
            "static": jax.tree.map(lambda x: x[None], static),
            "last": last[None],
        }
        return jax.tree.map(lambda x: x[0], estimate(alone, key))

    return jax.vmap(one, in_axes=(1, 0, 0, 0))(
        arrays["timed"], arrays["static"], arrays["last"], keys
    )


def chosen(
    kept: np.ndarray, fresh: int, odds: Any, seed: int, epoch: int, number: int
) -> np.ndarray:
    """The runs to keep; `odds` are log Ẑ of the fresh ones less those of the kept ones."""
    noise = np.random.default_rng([seed, epoch, number, _RUNS]).random(len(kept))
    # Not a number: neither run explains the evidence.
    return np.where(noise < expit(np.asarray(odds, np.float64)), fresh, kept)
