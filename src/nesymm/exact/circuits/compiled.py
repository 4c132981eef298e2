"""The queries in JAX: compiled, differentiable, and at random.

The gradient of a log value is not left to automatic differentiation. The downward pass is
cheaper, and finite where weights are 0 or 1.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.exact.circuits import jax_passes, queries
from nesymm.exact.layers import Tables


@jax.custom_vjp
def _log_values(tables: Tables, weights: jax.Array) -> jax.Array:
    return _forward(tables, weights)[0]


def _forward(tables: Tables, weights: jax.Array) -> tuple[jax.Array, Any]:
    roots, literals, values = queries.evaluate(jnp, jax_passes, tables, weights, "sum")
    return roots, (tables, roots, literals, values)


def _backward(saved: Any, cotangents: jax.Array) -> tuple[None, jax.Array]:
    tables, roots, literals, values = saved
    # Where a root is impossible, its value is -inf whatever the weights do.
    flows = jnp.where(roots > -jnp.inf, cotangents, 0)
    return None, queries.posterior(jnp, jax_passes, tables, literals, values, flows)


_log_values.defvjp(_forward, _backward)


@jax.jit
def log_values(tables: Tables, weights: jax.Array) -> jax.Array:
    """The log weighted model counts of the roots, of shape (root, batch)."""
    return _log_values(tables, weights)


marginals = jax.jit(partial(queries.marginals, jnp, jax_passes))
most_probable = jax.jit(partial(queries.most_probable, jnp, jax_passes))


@partial(jax.jit, static_argnames=("count", "scopes"))
def sample(
    key: jax.Array, tables: Tables, weights: jax.Array, root: Any, count: int, scopes: int
) -> jax.Array:
    """`count` assignments given a root, of shape (count, variable, batch).

    The downward pass chooses one product of every sum it reaches. That is a draw from the
    posterior, because the value of a product is the probability of all that is below it.
    Sums of the same scope exclude each other, so they can share a random number.
    """
    roots, literals, values = queries.evaluate(jnp, jax_passes, tables, weights, "sum")
    flow = queries.flow_of(jnp, roots, root)

    def one(key: jax.Array) -> jax.Array:
        for_sums, for_rest = jax.random.split(key)
        uniform = jax.random.uniform(for_sums, (scopes, weights.shape[1]), weights.dtype)
        flows = jax_passes.flows_of(tables, values, flow, "draw", uniform)
        scores = literals + jax.random.gumbel(for_rest, literals.shape, literals.dtype)
        return queries.assignment(jnp, jax_passes, tables, flows, scores)

    return jax.vmap(one)(jax.random.split(key, count))
