"""The queries in JAX: compiled, differentiable, and at random.

The gradient of a log value is not left to automatic differentiation. The downward pass is
cheaper, and finite where weights are 0 or 1.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.inference.circuits import jax_passes, queries
from nesymm.inference.circuits.graph import FIRST_LITERAL
from nesymm.inference.circuits.layers import Tables

# Bytes of values that are computed together, and how few rows of a batch that may be.
_CACHE = 4 * 2**20
_NARROWEST = 32


@jax.custom_vjp
def _log_values(tables: Tables, weights: jax.Array) -> jax.Array:
    plain, trusted = queries.plainly(jnp, jax_passes, tables, weights)
    return jax.lax.cond(trusted, lambda: plain, lambda: _forward(tables, weights)[0])


def _forward(tables: Tables, weights: jax.Array) -> tuple[jax.Array, Any]:
    roots, literals, values = queries.evaluate(jnp, jax_passes, tables, weights, "sum")
    return roots, (tables, roots, literals, values)


def _backward(checkpointed: Any, cotangents: jax.Array) -> tuple[None, jax.Array]:
    tables, roots, literals, values = checkpointed
    # Where a root is impossible, its value is -inf whatever the weights do.
    flows = jnp.where(roots > -jnp.inf, cotangents, 0)
    return None, queries.posterior(jnp, jax_passes, tables, literals, values, flows)


_log_values.defvjp(_forward, _backward)


@jax.jit
def log_values(tables: Tables, weights: jax.Array) -> jax.Array:
    """The log weighted model counts of the roots, of shape (root, batch)."""
    literals, batch = weights.shape
    width = _block(tables, weights)
    if batch <= width:
        return _log_values(tables, weights)
    blocks = -(-batch // width)
    width = -(-batch // blocks)
    # Weights come with the batch last, from arrays that had it first: that order is cheap
    # to cut.
    rows = jnp.pad(weights.T, ((0, blocks * width - batch), (0, 0)), mode="edge")
    found = jax.lax.map(
        lambda block: _log_values(tables, block.T).T, rows.reshape(blocks, width, literals)
    )
    return found.reshape(blocks * width, -1)[:batch].T


def _block(tables: Tables, weights: jax.Array) -> int:
    """How much of a batch to evaluate at once: what fits into a processor's cache. An
    accelerator does better with everything."""
    if jax.default_backend() != "cpu":
        return weights.shape[1]
    sums = sum(lane.scopes.size for section in tables.sections for lane in section)
    places = FIRST_LITERAL + weights.shape[0] + sums
    return max(_NARROWEST, _CACHE // (places * weights.dtype.itemsize))


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
