"""Passes over a circuit in JAX: for batches, gradients and samples.

Arrays are of shape (place, batch). A section of many layers is a scan, of one layer a few
operations.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from nesymm.inference.circuits.graph import FIRST_LITERAL
from nesymm.inference.circuits.layers import Section, Tables
from nesymm.inference.circuits.steps import (
    Division,
    Gather,
    Rule,
    constants,
    downwards,
    terms_of,
    upwards,
)


def by_variable(tables: Tables, numbers: jax.Array, how: Gather = "sum") -> jax.Array:
    """The numbers at the literals of each variable as one, of shape (variable, batch)."""
    function = getattr(jax.ops, f"segment_{how}")
    found: jax.Array = function(numbers, tables.owners, len(tables.firsts), indices_are_sorted=True)
    return found


def values_of(tables: Tables, literals: jax.Array, rule: Rule) -> jax.Array:
    """The values of all places, from those of the literals."""
    batch = literals.shape[1]
    count = sum(lane.scopes.size for section in tables.sections for lane in section)
    ends = jnp.array(constants(rule), literals.dtype)[:, None]
    values = jnp.concatenate(
        [
            jnp.broadcast_to(ends, (2, batch)),
            literals,
            jnp.zeros((count, batch), literals.dtype),
        ]
    )

    def layer(values: jax.Array, inputs: tuple[Section, Any]) -> tuple[jax.Array, None]:
        section, start = inputs
        sums = [upwards(jnp, values, x.primes, x.subs, rule) for x in section]
        return lax.dynamic_update_slice_in_dim(values, jnp.concatenate(sums), start, 0), None

    offset = FIRST_LITERAL + literals.shape[0]
    for section in tables.sections:
        starts, after = _starts(section, offset)
        values = _each(layer, values, section, starts, reverse=False)
        offset = after
    return values


def flows_of(
    tables: Tables,
    values: jax.Array,
    root_flows: jax.Array,
    division: Division,
    uniform: jax.Array | None = None,
) -> jax.Array:
    """What reaches each literal from the roots. `root_flows` is of shape (root, batch);
    `uniform`, of shape (scope, batch), are the numbers to draw with."""
    flows = jnp.zeros_like(values).at[tables.roots].add(root_flows)

    def layer(flows: jax.Array, inputs: tuple[Section, Any]) -> tuple[jax.Array, None]:
        section, start = inputs
        # All lanes first: the sums of a layer do not reach each other.
        for lane in section:
            width = lane.scopes.shape[0]
            mine = lax.dynamic_slice_in_dim(flows, start, width)
            here = lax.dynamic_slice_in_dim(values, start, width)
            terms = terms_of(values, lane.primes, lane.subs)
            drawn = None if uniform is None else uniform[lane.scopes]
            parts = downwards(jnp, mine, here, terms, division, drawn)
            flows = flows.at[lane.primes].add(parts).at[lane.subs].add(parts)
            start = start + width
        return flows, None

    offset = values.shape[0]
    for section in reversed(tables.sections):
        _, size = _starts(section, 0)
        offset -= size
        starts, _ = _starts(section, offset)
        flows = _each(layer, flows, section, starts, reverse=True)
    return flows[FIRST_LITERAL : FIRST_LITERAL + tables.owners.shape[0]]


def _starts(section: Section, offset: int) -> tuple[Any, int]:
    """Where each layer of a section begins, and where the section ends."""
    layers = section[0].scopes.shape[0]
    width = sum(lane.scopes.shape[1] for lane in section)
    return jnp.arange(layers, dtype=jnp.int32) * width + offset, offset + layers * width


def _each(step: Any, carry: jax.Array, section: Section, starts: Any, reverse: bool) -> jax.Array:
    if starts.shape[0] == 1:
        return step(carry, jax.tree.map(lambda table: table[0], (section, starts)))[0]
    return lax.scan(step, carry, (section, starts), reverse=reverse)[0]
