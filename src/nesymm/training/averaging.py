"""The mean of the last iterates in place of the last one (Polyak and Ruppert).

Where gradients are noisy, the iterates wander about the optimum with a spread that the learning
rate decides; their mean is as close to it as any method can come from the same gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class Averaged(NamedTuple):
    """The state of the optimizer, the updates done, and the mean of the parameters."""

    inner: Any
    count: Any
    mean: Any


def averaged(optimizer: optax.GradientTransformation, first: int) -> optax.GradientTransformation:
    """The same optimizer, which takes the mean of the parameters from update `first` on."""

    def init(params: Any) -> Averaged:
        return Averaged(optimizer.init(params), jnp.zeros((), jnp.int32), params)

    def update(updates: Any, state: Averaged, params: Any = None) -> tuple[Any, Averaged]:
        updates, inner = optimizer.update(updates, state.inner, params)
        new = optax.apply_updates(params, updates)
        share = 1.0 / jnp.maximum(state.count - first + 1, 1)
        mean = jax.tree.map(lambda m, x: m + share.astype(x.dtype) * (x - m), state.mean, new)
        return updates, Averaged(inner, state.count + 1, mean)

    return optax.GradientTransformation(init, update)
