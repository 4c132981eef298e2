"""Masses, densities and distribution functions of the families.

Each function works on NumPy and on JAX arrays: `xp` is `numpy` or `jax.numpy`, `sp` the
matching `scipy.special` or `jax.scipy.special`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import is_jax, stop_gradient
from nesymm.inference.tails import (
    log1m_exp,
    log_betainc,
    log_difference,
    log_gammainc,
    log_gammaincc,
)
from nesymm.ir.expr import Expr
from nesymm.language.families import FAMILIES, Family

Array = Any
NAME = re.compile(r"[a-z]\w*")


def special(xp: Any) -> Any:
    """The special functions that go with an array module."""
    if hasattr(xp, "special"):
        return xp.special
    if xp.__name__.startswith("jax"):
        import jax.scipy.special

        return jax.scipy.special
    import scipy.special

    return scipy.special


def safe_log(xp: Any, x: Array) -> Array:
    """log x, and -inf (with gradient 0) at 0; what is not a number stays so."""
    nothing = x <= 0
    return xp.where(nothing, -xp.inf, xp.log(xp.where(nothing, 1.0, x)))


def log_chance(x: Array) -> Array:
    """`safe_log` of a probability, with a gradient at 0.

    While JAX differentiates, it is finite at 0, and so steep there that what is multiplied by 0
    still gets its right derivative: d(p·q)/dp = q also at p = 0.
    """
    return _log_chance(x) if is_jax(x) else safe_log(np, x)


@jax.custom_jvp
def _log_chance(x: Array) -> Array:
    return safe_log(jax.numpy, x)


@_log_chance.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (gradient,) = primals, tangents
    # As far from 1 as from where numbers end: products of weights must not vanish.
    tiny = float(np.finfo(x.dtype).tiny) ** 0.5
    x = jax.numpy.where(x < tiny, tiny, x)
    return jax.numpy.log(x), gradient / x


@jax.custom_jvp
def with_gradient_of(x: Array, near: Array) -> Array:
    """The logarithm x with the gradient of one that is `near` it; while JAX differentiates, that
    itself where x is that of 0."""
    return x


@with_gradient_of.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, near), (_, gradient) = primals, tangents
    known = jax.numpy.isfinite(near)
    return jax.numpy.where(x == -np.inf, near, x), jax.numpy.where(known, gradient, 0.0)


def log_sum_exp(xp: Any, x: Array, axis: Any) -> Array:
    """log Σ exp x; -inf (with gradient 0) where there is nothing to sum."""
    top = stop_gradient(xp.max(x, axis=axis, keepdims=True))
    safe = xp.where(xp.isfinite(top), top, 0.0)
    return safe_log(xp, xp.sum(xp.exp(x - safe), axis=axis)) + xp.squeeze(safe, axis)


def constrain(xp: Any, constraint: str, raw: Array) -> Array:
    """Map an unconstrained output of a network to what a parameter must be.

    What must be positive is kept so far from 0 that its third power, by which densities are
    divided in their gradients, does not vanish.
    """
    match constraint:
        case "unit":
            return special(xp).expit(raw)
        case "positive":
            value = xp.logaddexp(raw, 0.0)
            return xp.maximum(value, float(xp.finfo(value.dtype).tiny) ** 0.25)
        case _:
            return raw


def log_chances(xp: Any, logit: Array) -> tuple[Array, Array]:
    """log(1 - p) and log p of the probability that a logit stands for, at both ends precise."""
    return -xp.logaddexp(logit, 0.0), -xp.logaddexp(-logit, 0.0)


def by_logit(family: str, params: tuple) -> tuple | None:
    """The parameters with the logit that a network gives in the place of the probability; None
    where no network gives it, or the family is not computed by it."""
    known = FAMILIES.get(family)
    if known is None or "unit" not in known.constraints:
        return None
    if not known.finite and DENSITIES[family].by_logit is None:
        return None
    place = known.constraints.index("unit")
    if not isinstance(params[place], Expr) or params[place].op != "sigmoid":
        return None
    return (*params[:place], params[place].args[0], *params[place + 1 :])


def sound(xp: Any, family: str, params: tuple) -> tuple:
    """The parameters, with others in the place of those that make no sense.

    Such parameters belong to worlds in which the variable is not drawn, where any will do,
    or to worlds that must not happen.
    """
    out = list(params)
    for i, constraint in enumerate(FAMILIES[family].constraints[: len(params)]):
        if constraint == "positive":
            out[i] = xp.where(out[i] > 0, out[i], 1.0)
        elif constraint == "unit":
            out[i] = xp.where((out[i] >= 0) & (out[i] <= 1), out[i], 0.5)
    if family == "uniform":
        out[1] = xp.where(out[1] > out[0], out[1], out[0] + 1.0)
    elif family == "uniform_int":
        out[0] = xp.minimum(out[0], out[1])
    return tuple(out)


# ---------------------------------------------------------------- finite families


def log_masses(
    xp: Any,
    family: str,
    params: tuple,
    outcomes: tuple,
    neural: bool,
    edges: bool = False,
    network: str = "a network",
) -> Array:
    """Log-probabilities of the outcomes of a finite family, along the last dimension.

    With `edges`, probabilities of 0 have gradients, too. Where they are `neural`, a message says
    which `network` they come from, and the probability of `bernoulli` and `binomial` is given by
    its logit.
    """
    match family:
        case "bernoulli" if neural:
            return xp.stack(log_chances(xp, params[0] * 1.0), axis=-1)
        case "bernoulli":
            p = params[0] * 1.0
            return _logs(xp, xp.stack([1 - p, p], axis=-1), edges)
        case "choice":
            ps = xp.stack(xp.broadcast_arrays(*params[0]), axis=-1)
            if ps.shape[-1] < len(outcomes):
                rest = 1 - xp.sum(ps, axis=-1, keepdims=True)
                # Rounding may take it below 0; its gradient is the same there.
                rest = rest + stop_gradient(xp.maximum(rest, 0.0) - rest)
                ps = xp.concatenate([ps, rest], axis=-1)
            return _logs(xp, ps * 1.0, edges)
        case "intervals":
            return xp.stack(xp.broadcast_arrays(*params[0]), axis=-1)
        case "categorical" if neural:
            rank = _rank(params[0], outcomes, network)
            logits = params[0].reshape((*params[0].shape[: params[0].ndim - rank], -1))
            return logits - special(xp).logsumexp(logits, axis=-1, keepdims=True)
        case "categorical":
            ps = xp.stack(xp.broadcast_arrays(*params[0]), axis=-1)
            return _logs(xp, ps * 1.0, edges)
        case "uniform_int":
            low, high = sound(xp, family, params)
            values = xp.asarray(outcomes)
            inside = (values >= low) & (values <= high)
            return xp.where(inside, -xp.log((high - low + 1) * 1.0), -xp.inf)
        case "binomial":
            n, p = sound(xp, family, params)
            return _log_binomial(xp, n, p, outcomes, params[1] if neural else None)
    raise NesymmError(f"{family} is not a finite family")


def _log_binomial(xp: Any, n: Array, p: Array, outcomes: tuple, logit: Array | None) -> Array:
    """Log-probabilities of counts, by the `logit` of the probability where there is one."""
    # Whole numbers have no gradients, and JAX refuses them in `xlogy`.
    values = xp.asarray(outcomes) * 1.0
    sp = special(xp)
    rest = xp.maximum(n - values, 0)
    combos = sp.gammaln(n + 1.0) - sp.gammaln(values + 1.0) - sp.gammaln(rest + 1.0)
    if logit is None:
        body = combos + sp.xlogy(values, p) + sp.xlog1py(rest, -p)
    else:
        none, one = log_chances(xp, logit)
        body = combos + values * one + rest * none
    return xp.where(values <= n, body, -xp.inf)


def _logs(xp: Any, ps: Array, edges: bool) -> Array:
    return log_chance(ps) if edges else safe_log(xp, ps)


def _rank(logits: Array, outcomes: tuple, network: str) -> int:
    """How many trailing dimensions of a network's output the outcomes are spread over."""
    size, rank = 1, 0
    for n in reversed(logits.shape):
        size, rank = size * n, rank + 1
        if size == len(outcomes):
            return rank
    raise NesymmError(
        f"{network} gave outputs of shape {tuple(logits.shape)}, {len(outcomes)} are needed"
    )


# ---------------------------------------------------------------- infinite families


def _normal(xp: Any, sp: Any, x: Array, mean: Array, sd: Array) -> Array:
    return -0.5 * ((x - mean) / sd) ** 2 - xp.log(sd) - 0.5 * math.log(2 * math.pi)


def _multivariate_normal(xp: Any, x: Array, mean: Array, covariance: Array) -> Array:
    """One density for all entries of the last dimension; each covariance is factorised once."""
    once = np if isinstance(covariance, np.ndarray) else xp
    factor = _cholesky(xp, covariance)
    inverse = once.linalg.inv(factor)
    scale = once.sum(once.log(once.diagonal(factor, axis1=-2, axis2=-1)), -1)
    apart = xp.sum(inverse * (x - mean)[..., None, :], -1)
    size = 0.5 * apart.shape[-1] * math.log(2 * math.pi)
    return -0.5 * xp.sum(apart**2, -1) - scale - size


def draw_vectors(xp: Any, noise: Array, mean: Array, covariance: Array) -> Array:
    """Draws of a multivariate normal from standard normal noise."""
    return mean + xp.sum(_cholesky(xp, covariance) * noise[..., None, :], -1)


def _cholesky(xp: Any, covariance: Array) -> Array:
    """NaN where the matrix is not positive definite, for NumPy as for JAX."""
    if not isinstance(covariance, np.ndarray):
        return xp.linalg.cholesky(covariance)
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return np.full_like(covariance, np.nan)


def _student_t(xp: Any, sp: Any, z: Array, df: Array) -> Array:
    """Of few degrees of freedom the ratio z²/df may overflow; of many, gamma functions cancel."""
    half = df / 2.0
    many = half > 32
    few = xp.where(many, 1.0, half)
    large = xp.where(many, half, 32.0)
    gammas = xp.where(
        many, 0.5 * xp.log(large) - 1 / (8 * large), sp.gammaln(few + 0.5) - sp.gammaln(few)
    )
    near = z * z < df
    close = xp.log1p(xp.where(near, z, 0.0) ** 2 / df)
    far = xp.log(df + xp.where(near, 1.0, z) ** 2) - xp.log(df * 1.0)
    tail = xp.where(near, close, far)
    return gammas - 0.5 * xp.log(df * math.pi) - (half + 0.5) * tail


def _log_beta(xp: Any, sp: Any, a: Array, b: Array) -> Array:
    """By B(a + 1, b + 1): JAX has no gradient of `betaln` near 0."""
    both = a + b
    return sp.betaln(a + 1, b + 1) + xp.log(both) + xp.log1p(both) - xp.log(a) - xp.log(b)


def _where(xp: Any, inside: Array, value: Array) -> Array:
    return xp.where(inside, value, -xp.inf)


def _whole(xp: Any, x: Array) -> Array:
    return (x >= 0) & (xp.floor(x) == x)


def _whole_from_0(xp: Any, x: Array) -> Array:
    """How many whole numbers from 0 are at most x."""
    return xp.floor(xp.maximum(x, 0.0)) + 1.0


def _laplace(xp: Any, z: Array) -> Array:
    """log P(Z <= z)."""
    tail = -xp.abs(z) - math.log(2)
    return xp.where(z < 0, tail, log1m_exp(xp, tail))


def _log_of(xp: Any, x: Array) -> Array:
    return xp.log(xp.where(x > 0, x, 1.0))


def _unit(xp: Any, x: Array) -> Array:
    return xp.where((x > 0) & (x < 1), x, 0.5)


@dataclass(frozen=True)
class Density:
    """How an infinite family is computed with.

    `log(xp, sp, x, *parameters)` is the log-density of a value (the log-mass of a whole number),
    and `distribution(*parameters)` draws: it is NumPyro's, by name or by a function.
    `log_below` and `log_above` are log P(X <= x) and log P(X > x) (far out, where the one is next
    to nothing, the other does not tell); without them, questions about intervals are answered by
    sampling. A
    `reparameterised` draw has gradients with respect to the parameters. `by_logit` is the
    log-density by the logit of the one parameter, a probability, as a network gives it.
    """

    log: Callable[..., Array]
    distribution: str | Callable[..., Any] | None
    log_below: Callable[..., Array] | None = None
    log_above: Callable[..., Array] | None = None
    reparameterised: bool = True
    by_logit: Callable[..., Array] | None = None


DENSITIES: dict[str, Density] = {
    "normal": Density(
        _normal,
        "Normal",
        log_below=lambda xp, sp, x, m, s: sp.log_ndtr((x - m) / s),
        log_above=lambda xp, sp, x, m, s: sp.log_ndtr((m - x) / s),
    ),
    "uniform": Density(
        lambda xp, sp, x, a, b: _where(
            xp, (x >= a) & (x <= b), -xp.log(xp.where(b > a, b - a, 1.0))
        ),
        "Uniform",
        log_below=lambda xp, sp, x, a, b: safe_log(xp, xp.clip((x - a) / (b - a), 0.0, 1.0)),
        log_above=lambda xp, sp, x, a, b: safe_log(xp, xp.clip((b - x) / (b - a), 0.0, 1.0)),
    ),
    "exponential": Density(
        lambda xp, sp, x, r: _where(xp, x >= 0, xp.log(r * 1.0) - r * x),
        "Exponential",
        log_below=lambda xp, sp, x, r: log1m_exp(xp, -r * xp.maximum(x, 0.0)),
        log_above=lambda xp, sp, x, r: -r * xp.maximum(x, 0.0),
    ),
    "gamma": Density(
        lambda xp, sp, x, a, r: _where(
            xp,
            x > 0,
            sp.xlogy(a, r) + (a - 1) * _log_of(xp, x) - r * x - sp.gammaln(a),
        ),
        "Gamma",
        log_below=lambda xp, sp, x, a, r: log_gammainc(xp, sp, a * 1.0, r * x),
        log_above=lambda xp, sp, x, a, r: log_gammaincc(xp, sp, a * 1.0, r * x),
    ),
    "beta": Density(
        lambda xp, sp, x, a, b: _where(
            xp,
            (x > 0) & (x < 1),
            sp.xlogy(a - 1, _unit(xp, x))
            + sp.xlog1py(b - 1, -_unit(xp, x))
            - _log_beta(xp, sp, a, b),
        ),
        "Beta",
        log_below=lambda xp, sp, x, a, b: log_betainc(
            xp, sp, a * 1.0, b * 1.0, x * 1.0, xp.log1p(-_unit(xp, x))
        ),
        log_above=lambda xp, sp, x, a, b: log_betainc(
            xp, sp, b * 1.0, a * 1.0, 1.0 - x, xp.log(_unit(xp, x))
        ),
    ),
    "laplace": Density(
        lambda xp, sp, x, m, s: -xp.abs(x - m) / s - xp.log(2.0 * s),
        "Laplace",
        log_below=lambda xp, sp, x, m, s: _laplace(xp, (x - m) / s),
        log_above=lambda xp, sp, x, m, s: _laplace(xp, (m - x) / s),
    ),
    "lognormal": Density(
        lambda xp, sp, x, m, s: _where(
            xp, x > 0, _normal(xp, sp, _log_of(xp, x), m, s) - _log_of(xp, x)
        ),
        "LogNormal",
        log_below=lambda xp, sp, x, m, s: _where(xp, x > 0, sp.log_ndtr((_log_of(xp, x) - m) / s)),
        log_above=lambda xp, sp, x, m, s: xp.where(
            x > 0, sp.log_ndtr((m - _log_of(xp, x)) / s), 0.0
        ),
    ),
    "student_t": Density(
        lambda xp, sp, x, df, m, s: _student_t(xp, sp, (x - m) / s, df) - xp.log(s * 1.0),
        "StudentT",
    ),
    "multivariate_normal": Density(lambda xp, sp, x, m, c: _multivariate_normal(xp, x, m, c), None),
    "poisson": Density(
        lambda xp, sp, x, r: _where(
            xp, _whole(xp, x), sp.xlogy(x * 1.0, r) - r - sp.gammaln(x + 1.0)
        ),
        "Poisson",
        log_below=lambda xp, sp, x, r: _where(
            xp, x >= 0, log_gammaincc(xp, sp, _whole_from_0(xp, x), r * 1.0)
        ),
        log_above=lambda xp, sp, x, r: xp.where(
            x >= 0, log_gammainc(xp, sp, _whole_from_0(xp, x), r * 1.0), 0.0
        ),
        reparameterised=False,
    ),
    "geometric": Density(
        lambda xp, sp, x, p: _where(xp, _whole(xp, x), sp.xlog1py(x * 1.0, -p) + xp.log(p)),
        "Geometric",
        log_below=lambda xp, sp, x, p: _where(
            xp, x >= 0, log1m_exp(xp, sp.xlog1py(_whole_from_0(xp, x), -p))
        ),
        log_above=lambda xp, sp, x, p: xp.where(x >= 0, sp.xlog1py(_whole_from_0(xp, x), -p), 0.0),
        reparameterised=False,
        by_logit=lambda xp, sp, x, logit: _where(
            xp, _whole(xp, x), x * log_chances(xp, logit)[0] + log_chances(xp, logit)[1]
        ),
    ),
}


def add_family(family: Family, density: Density) -> None:
    """Let programs draw from another infinite family."""
    if not NAME.fullmatch(family.name):
        raise NesymmError(
            f"a family is named by a lower-case word, received {family.name!r}: {family.example}"
        )
    if family.name in FAMILIES:
        raise NesymmError(f"there is a family {family.name} already")
    if len(family.constraints) != len(family.params):
        raise NesymmError(
            f"{family.name}: expected one constraint for each of its "
            f"{len(family.params)} parameters, received {len(family.constraints)}"
        )
    if (density.log_below is None) != (density.log_above is None):
        raise NesymmError(f"{family.name}: expected both `log_below` and `log_above`, or neither")
    FAMILIES[family.name] = family
    DENSITIES[family.name] = density


def make_distribution(family: str, params: list[Any]) -> Any:
    """A NumPyro distribution for an infinite family."""
    import numpyro.distributions as dist

    make = DENSITIES[family].distribution
    if callable(make):
        return make(*params)
    assert make is not None
    # Where a variable is not drawn, its parameters may be none.
    return getattr(dist, make)(*params, validate_args=False)


def log_interval(
    xp: Any, family: str, params: tuple, low: Array | None, high: Array | None
) -> Array:
    """log P(low < X <= high); an end that is None is open."""
    known = DENSITIES[family]
    assert known.log_below is not None and known.log_above is not None
    sp, below, above = special(xp), known.log_below, known.log_above
    if low is None:
        return 0.0 if high is None else below(xp, sp, high, *params)
    if high is None:
        return above(xp, sp, low, *params)
    first, second = below(xp, sp, low, *params), above(xp, sp, low, *params)
    # The tail that is small at the lower end is the precise one.
    left = first < second
    large = xp.where(left, below(xp, sp, high, *params), second)
    small = xp.where(left, first, above(xp, sp, high, *params))
    return log_difference(xp, large, small)
