"""What a circuit can be asked, in terms of its passes; the same for NumPy and JAX.

`passes` is the module `numpy_passes` or `jax_passes`. Weights are of shape (literal, batch).

A circuit does not mention every variable everywhere. Instead of adding nodes that sum over
the missing ones ("smoothing"), the weights of every variable are divided by their total:
then a missing variable contributes the factor 1, and the totals are multiplied in at the
end. For maximisation the total is the largest weight.
"""

from __future__ import annotations

import math
from typing import Any

from nesymm.inference.circuits.graph import FALSE_NODE
from nesymm.inference.circuits.layers import Tables
from nesymm.inference.circuits.steps import Array, Rule, finite, log


def evaluate(
    xp: Any, passes: Any, tables: Tables, weights: Array, rule: Rule
) -> tuple[Array, Array, Array]:
    """The log values of the roots, the divided weights of literals, and all values."""
    top = totals = passes.by_variable(tables, weights, "max")
    if rule == "sum":
        top = finite(xp, top)
        totals = log(xp, passes.by_variable(tables, xp.exp(weights - top[tables.owners]))) + top
    literals = weights - finite(xp, totals)[tables.owners]
    values = passes.values_of(tables, literals, rule)
    return values[tables.roots] + totals.sum(axis=0), literals, values


def plainly(xp: Any, passes: Any, tables: Tables, weights: Array) -> tuple[Array, Array]:
    """The log values of the roots by sums and products of numbers instead of logarithms,
    and whether they can be trusted.

    With divided weights every value is a probability, so that nothing overflows. What
    underflows is lost, but it is less than the smallest number and is only ever multiplied
    by probabilities: roots that are much larger do not feel it. Smaller ones, and 0, can be
    trusted where even the product of all weights would not underflow.
    """
    top = finite(xp, passes.by_variable(tables, weights, "max"))
    parts = xp.exp(weights - top[tables.owners])
    sums = passes.by_variable(tables, parts)
    literals = parts / xp.where(sums > 0, sums, 1)[tables.owners]
    totals = log(xp, sums) + top
    values = passes.values_of(tables, literals, "plain")[tables.roots]
    small = 1e-30 if weights.dtype.itemsize <= 4 else 1e-250
    large = ((values > small) | (tables.roots == FALSE_NODE)[:, None]).all(axis=0)
    least = finite(xp, weights - finite(xp, totals)[tables.owners]).sum(axis=0)
    return log(xp, values) + totals.sum(axis=0), (large | (least > math.log(small))).all()


def flow_of(xp: Any, roots: Array, root: Any) -> Array:
    """One unit of flow at a root, but none where it is impossible."""
    chosen = (xp.arange(roots.shape[0]) == root)[:, None]
    return (chosen & (roots > -xp.inf)).astype(roots.dtype)


def posterior(
    xp: Any, passes: Any, tables: Tables, literals: Array, values: Array, root_flows: Array
) -> Array:
    """What reaches each literal in expectation. The flow that does not pass through a
    variable at all is divided among its literals by their own weights."""
    flows = passes.flows_of(tables, values, root_flows, "mean")
    missing = root_flows.sum(axis=0) - passes.by_variable(tables, flows)
    return flows + missing[tables.owners] * xp.exp(literals)


def marginals(xp: Any, passes: Any, tables: Tables, weights: Array, root: Any) -> Array:
    """The posterior probability of each literal given a root."""
    roots, literals, values = evaluate(xp, passes, tables, weights, "sum")
    flow = flow_of(xp, roots, root)
    return xp.clip(posterior(xp, passes, tables, literals, values, flow), 0, 1)


def most_probable(
    xp: Any, passes: Any, tables: Tables, weights: Array, root: Any
) -> tuple[Array, Array]:
    """The assignment of the largest weight in which a root holds, and its log weight."""
    roots, literals, values = evaluate(xp, passes, tables, weights, "max")
    flows = passes.flows_of(tables, values, flow_of(xp, roots, root), "best")
    return assignment(xp, passes, tables, flows, literals), roots[root]


def assignment(xp: Any, passes: Any, tables: Tables, flows: Array, scores: Array) -> Array:
    """The literal of each variable that the flow reaches; where it reaches none, the one
    with the highest score."""
    places = xp.arange(len(tables.owners), dtype=tables.firsts.dtype)
    index = (places - tables.firsts[tables.owners])[:, None]
    reached = passes.by_variable(tables, flows) > 0.5
    best = scores == passes.by_variable(tables, scores, "max")[tables.owners]
    chosen = xp.where(reached[tables.owners], flows > 0.5, best)
    none = len(tables.owners)
    return passes.by_variable(tables, xp.where(chosen, index, none), "min")
