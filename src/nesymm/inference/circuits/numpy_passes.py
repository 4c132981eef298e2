"""Passes over a circuit in NumPy: for single queries, where compiling would take longer.

Arrays are of shape (place, batch).
"""

from __future__ import annotations

import numpy as np

from nesymm.inference.circuits.graph import FIRST_LITERAL
from nesymm.inference.circuits.layers import Tables
from nesymm.inference.circuits.steps import (
    Division,
    Gather,
    Rule,
    constants,
    downwards,
    terms_of,
    upwards,
)


def values_of(tables: Tables, literals: np.ndarray, rule: Rule) -> np.ndarray:
    """The values of all places, from those of the literals."""
    count = sum(lane.scopes.size for section in tables.sections for lane in section)
    offset = FIRST_LITERAL + len(literals)
    values = np.empty((offset + count, literals.shape[1]), literals.dtype)
    values[0], values[1] = constants(rule)
    values[FIRST_LITERAL:offset] = literals
    for section in tables.sections:
        for layer in range(len(section[0].scopes)):
            start = offset
            for lane in section:
                primes, subs = lane.primes[layer], lane.subs[layer]
                sums = upwards(np, values[:start], primes, subs, rule)
                values[offset : offset + lane.width] = sums
                offset += lane.width
    return values


def flows_of(
    tables: Tables, values: np.ndarray, root_flows: np.ndarray, division: Division
) -> np.ndarray:
    """What reaches each literal from the roots. `root_flows` is of shape (root, batch)."""
    flows = np.zeros_like(values)
    np.add.at(flows, tables.roots, root_flows)
    offset = len(values)
    for section in reversed(tables.sections):
        for layer in reversed(range(len(section[0].scopes))):
            for lane in reversed(section):
                offset -= lane.width
                mine = slice(offset, offset + lane.width)
                primes, subs = lane.primes[layer], lane.subs[layer]
                terms = terms_of(values, primes, subs)
                parts = downwards(np, flows[mine], values[mine], terms, division, None)
                np.add.at(flows, primes, parts)
                np.add.at(flows, subs, parts)
    return flows[FIRST_LITERAL : FIRST_LITERAL + len(tables.owners)]


def by_variable(tables: Tables, numbers: np.ndarray, how: Gather = "sum") -> np.ndarray:
    """The numbers at the literals of each variable as one, of shape (variable, batch)."""
    if not len(tables.firsts):
        return np.zeros((0, numbers.shape[1]), numbers.dtype)
    function = {"sum": np.add, "max": np.maximum, "min": np.minimum}[how]
    return np.asarray(function.reduceat(numbers, tables.firsts, axis=0))
