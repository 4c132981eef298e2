"""One layer of a circuit, upwards and downwards, in NumPy or JAX.

Upwards, the values of a layer's sums are computed from their products. Downwards, what
reaches a sum (its *flow*) is divided among its products: in expectation, which gives
marginals and gradients; at random, which gives samples; or all to the largest, which
gives the most probable assignment.

Arrays have the batch last. Values are logarithms, and `-inf` is an ordinary one: nothing
here subtracts infinities, nor divides by what may be zero. Only for the rule "plain" values
are numbers as they are, which is several times as quick but can underflow.
"""

from __future__ import annotations

import math
from typing import Any, Literal

Array = Any
Rule = Literal["sum", "max", "plain"]
Division = Literal["mean", "draw", "best"]
Gather = Literal["sum", "max", "min"]


def terms_of(values: Array, primes: Array, subs: Array) -> Array:
    """The products of a layer, of shape (sum, product, batch)."""
    return values[primes] + values[subs]


def upwards(xp: Any, values: Array, primes: Array, subs: Array, rule: Rule) -> Array:
    """The sums of a layer, of shape (sum, batch)."""
    if rule == "plain":
        # One product of every sum at a time, so that no table of all products is made.
        total = values[primes[:, 0]] * values[subs[:, 0]]
        for i in range(1, primes.shape[1]):
            total = total + values[primes[:, i]] * values[subs[:, i]]
        return total
    terms = terms_of(values, primes, subs)
    if rule == "max":
        return terms.max(axis=1)
    return log_sum(xp, terms, 1)


def constants(rule: Rule) -> tuple[float, float]:
    """The values of `false` and `true`."""
    return (0.0, 1.0) if rule == "plain" else (-math.inf, 0.0)


def log_sum(xp: Any, terms: Array, axis: int) -> Array:
    """log(sum(exp(terms))), with a gradient of zero where nothing is possible."""
    top = finite(xp, terms.max(axis=axis, keepdims=True))
    return log(xp, xp.exp(terms - top).sum(axis=axis)) + xp.squeeze(top, axis)


def log(xp: Any, x: Array) -> Array:
    """log(x), where log(0) is -inf without a warning and without a gradient."""
    possible = x > 0
    return xp.where(possible, xp.log(xp.where(possible, x, 1)), -xp.inf)


def finite(xp: Any, x: Array) -> Array:
    """x, but 0 instead of -inf: for subtracting."""
    return xp.where(x > -xp.inf, x, 0)


def downwards(
    xp: Any, flow: Array, values: Array, terms: Array, division: Division, uniform: Array | None
) -> Array:
    """What reaches each product of a layer. `flow` and `values` are those of its sums;
    `uniform` has a number in [0, 1) for each of them, to draw with."""
    if division == "mean":
        return flow[:, None, :] * xp.exp(terms - finite(xp, values)[:, None, :])
    if division == "draw":
        chosen = _draw(xp.exp(terms - finite(xp, values)[:, None, :]), uniform)
    else:
        chosen = terms.argmax(axis=1)
    places = xp.arange(terms.shape[1], dtype=chosen.dtype)
    return xp.where(chosen[:, None, :] == places[None, :, None], flow[:, None, :], 0)


def _draw(shares: Array, uniform: Array) -> Array:
    """One product of each sum, drawn in proportion to its share.

    The bound is less than the total even after rounding, so that what has no share is
    never drawn; where nothing is possible, nothing is.
    """
    running = [shares[:, 0]]
    for i in range(1, shares.shape[1]):
        running.append(running[-1] + shares[:, i])
    bound = uniform * running[-1]
    chosen = (running[0] <= bound).astype("int32")
    for total in running[1:]:
        chosen = chosen + (total <= bound).astype("int32")
    return chosen
