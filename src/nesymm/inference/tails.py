"""Logarithms of distribution functions, which are right where the probability is no number.

`xp` and `sp` are as in `densities`. What is computed from NaN is NaN: conditions say where there is
nothing to compute, which NaN is not. A tail is computed by SciPy while it is far from the smallest
number, and beyond that by a series or a continued fraction, which converge fast there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

# What is beyond is so far out in the tail that this many terms suffice for the logarithm.
_TERMS = 64


def log1m_exp(xp: Any, x: Array) -> Array:
    """log (1 - exp x) of x <= 0."""
    nothing = x >= 0
    inside = xp.where(nothing, -1.0, x)
    near = inside > -0.7
    by_expm1 = xp.log(-xp.expm1(xp.where(near, inside, -1.0)))
    value = xp.where(near, by_expm1, xp.log1p(-xp.exp(xp.where(near, -1.0, inside))))
    return xp.where(nothing, -xp.inf, value)


def log_difference(xp: Any, large: Array, small: Array) -> Array:
    """log (exp large - exp small); -inf where there is no difference."""
    nothing = xp.isinf(large) | (small >= large)
    gap = xp.where(nothing, -1.0, small - xp.where(nothing, 0.0, large))
    return xp.where(nothing, -xp.inf, large + log1m_exp(xp, gap))


def _in_tail(xp: Any, chance: Array, tail: Array) -> Array:
    """log `chance`, by its logarithm `tail` where it is next to nothing."""
    least = float(np.finfo(chance.dtype).tiny) ** 0.75
    small = chance < least
    return xp.where(small, tail, xp.log(xp.where(small, 1.0, chance)))


def log_gammainc(xp: Any, sp: Any, a: Array, x: Array) -> Array:
    """log P(a, x), the lower tail of the gamma distribution."""
    nothing = x <= 0
    x = xp.where(nothing, 1.0, x)
    chance = sp.gammainc(a, x)
    # P(a, x) = x^a e^-x / Γ(a + 1) · Σ x^n / ((a + 1)…(a + n)); in this tail, x is below a.
    ratio = xp.minimum(x, a)
    term = total = xp.ones_like(chance)
    for n in range(1, _TERMS):
        term = term * ratio / (a + n)
        total = total + term
    front = a * xp.log(x) - x - sp.gammaln(a + 1.0)
    return xp.where(nothing, -xp.inf, _in_tail(xp, chance, front + xp.log(total)))


def log_gammaincc(xp: Any, sp: Any, a: Array, x: Array) -> Array:
    """log Q(a, x), the upper tail of the gamma distribution."""
    nothing = x <= 0
    x = xp.where(nothing, 1.0, x)
    chance = sp.gammaincc(a, x)
    # Γ(a, x) = x^a e^-x / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)); in this tail, x is above a.
    far = xp.maximum(x, a + 1.0)
    fraction = far + 2.0 * _TERMS + 1.0 - a
    for n in range(_TERMS, 0, -1):
        fraction = far + 2.0 * n - 1.0 - a + n * (a - n) / fraction
    front = a * xp.log(x) - x - sp.gammaln(a)
    return xp.where(nothing, 0.0, _in_tail(xp, chance, front - xp.log(fraction)))


def log_betainc(xp: Any, sp: Any, a: Array, b: Array, x: Array, log_rest: Array) -> Array:
    """log I_x(a, b), the lower tail of the beta distribution; `log_rest` is log(1 - x)."""
    outside = (x <= 0) | (x >= 1)
    at = xp.where(outside, 0.5, x)
    chance = sp.betainc(a, b, at)
    # I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) · Σ x^n (a + b)…(a + b + n - 1) / ((a + 1)…(a + n))
    term = total = xp.ones_like(chance)
    for n in range(1, _TERMS):
        term = term * xp.minimum(at * (a + b + n - 1.0) / (a + n), 1.0)
        total = total + term
    log_beta = sp.gammaln(a) + sp.gammaln(b) - sp.gammaln(a + b)
    front = a * xp.log(at) + b * xp.where(outside, 0.0, log_rest) - xp.log(a * 1.0) - log_beta
    found = _in_tail(xp, chance, front + xp.log(total))
    return xp.where(outside, xp.where(x <= 0, -xp.inf, 0.0), found)
