"""Evidence far out in a tail is improbable, not impossible.

The oracle integrates SciPy's density over the tail, relative to its value at the end: what is
integrated is then neither too small nor too large for a number.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import nesymm
from nesymm.inference.arrays import xp
from nesymm.inference.densities import log_interval

FAMILIES = {
    "normal": ((0.5, 2.0), stats.norm(0.5, 2), (-80.0, -9.0, 0.0, 3.0, 30.0, 90.0)),
    "uniform": ((1.0, 3.0), stats.uniform(1, 2), (1.0 + 1e-12, 1.5, 2.9, 3 - 1e-12)),
    "exponential": ((0.5,), stats.expon(scale=2), (1e-9, 1.0, 9.0, 4000.0)),
    "gamma": ((2.5, 0.5), stats.gamma(2.5, scale=2), (1e-90, 0.01, 4.0, 90.0, 4000.0)),
    "gamma of a large shape": (
        (900.0, 1.0), stats.gamma(900), (1.0, 300.0, 600.0, 890.0, 1300.0, 3000.0)),
    "beta": ((2.0, 300.0), stats.beta(2, 300), (1e-80, 0.001, 0.01, 0.2, 0.99)),
    "beta of large counts": (
        (2000.0, 1000.0), stats.beta(2000, 1000), (0.05, 0.5, 0.66, 0.8, 0.999)),
    "laplace": ((1.0, 2.0), stats.laplace(1, 2), (-900.0, -3.0, 1.0, 2.0, 900.0)),
    "lognormal": ((0.0, 1.0), stats.lognorm(1), (1e-30, 0.5, 1.0, 4.0, 1e30)),
    "poisson": ((4.0,), stats.poisson(4), (-1.0, 0.0, 3.0, 40.0, 600.0)),
    "geometric": ((0.3,), stats.geom(0.3, loc=-1), (-1.0, 0.0, 4.0, 3000.0)),
}  # fmt: skip


def log_tail(law: Any, end: float, upper: bool) -> float:
    """log P(X > end), or P(X <= end)."""
    if hasattr(law.dist, "pmf"):
        if upper:
            k = np.arange(end + 1, end + 5000)
        else:
            k = np.arange(0, end + 1)
        logs = law.logpmf(k)
        return float(np.logaddexp.reduce(logs)) if len(logs) else -math.inf
    bottom, top = law.support()
    peak = law.logpdf(end)

    def relative(x: float) -> float:
        return math.exp(law.logpdf(x) - peak)

    # In units of the distance over which the density falls to a third, towards that side.
    sign = 1.0 if upper else -1.0
    limit = top if upper else bottom
    total, at = 0.0, end
    scale = min(abs(end) * 1e-8 + 1e-300, abs(limit - end) / 2)
    while abs(scale) < 1e300 and at != limit:
        nearer = at + sign * scale
        nearer = min(nearer, limit) if upper else max(nearer, limit)
        piece = abs(integrate.quad(relative, at, nearer, epsabs=0, epsrel=1e-10)[0])
        total += piece
        if piece < 1e-14 * total and total:
            break
        at, scale = nearer, scale * 1.5
    return float(peak + math.log(total))


@pytest.mark.parametrize("name", FAMILIES)
def test_tails(name: str) -> None:
    params, law, ends = FAMILIES[name]
    family = name.split()[0]
    for end in ends:
        for upper in (False, True):
            low, high = (end, None) if upper else (None, end)
            arrays = tuple(np.asarray(p) for p in params)
            found = log_interval(
                xp, family, arrays, *(None if e is None else np.asarray(e) for e in (low, high))
            )
            expected = law.logsf(end) if upper else law.logcdf(end)
            if not np.isfinite(expected):
                expected = log_tail(law, end, upper)
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-14), (end, upper)


@pytest.mark.parametrize("name", FAMILIES)
def test_intervals_and_their_gradients(name: str) -> None:
    """An interval and what lies beyond it add up to the tail; gradients are finite."""
    params, _, ends = FAMILIES[name]
    family = name.split()[0]

    def of(low: Any, high: Any, *given: Any) -> Any:
        return log_interval(xp, family, given, low, high)

    arrays = [np.asarray(p) for p in params]
    for low, high in pairwise(ends):
        a, b = np.asarray(low), np.asarray(high)
        parts = np.logaddexp(of(a, b, *arrays), of(b, None, *arrays))
        assert parts == pytest.approx(of(a, None, *arrays), rel=1e-9, abs=1e-12)
        parts = np.logaddexp(of(a, b, *arrays), of(None, a, *arrays))
        assert parts == pytest.approx(of(None, b, *arrays), rel=1e-9, abs=1e-12)
        if family == "beta":
            continue  # JAX has no gradient of its distribution function
        gradients = jax.grad(lambda *p, a=a, b=b: of(a, b, *p), tuple(range(len(params))))(
            *(jnp.asarray(p) for p in params)
        )
        assert np.isfinite(gradients).all(), (low, high)


@pytest.mark.parametrize(
    "family, condition, expected",
    [
        ("normal(0,1)", "X > 40", stats.norm.logsf(40)),
        ("normal(0,1)", "X < -40", stats.norm.logsf(40)),
        ("normal(0,1)", "abs(X) > 40", stats.norm.logsf(40) + math.log(2)),
        ("normal(0,1)", "X > 40, X < 40.01", stats.norm.logsf(40) + math.log1p(
            -math.exp(stats.norm.logsf(40.01) - stats.norm.logsf(40)))),
        ("exponential(1)", "X > 1000", -1000.0),
        ("geometric(0.5)", "X > 3000", -3001 * math.log(2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_improbable_evidence(family: str, condition: str, expected: float, method: str) -> None:
    body = f"x(X), {condition}"
    static = nesymm.compile(f"x(X) ~ {family}. a :- {body}. evidence(a). query(a).").infer()
    assert static.log_evidence == pytest.approx(expected, rel=1e-6)
    timed = nesymm.compile(
        f"x(X)@t ~ {family}. a@t :- {body.replace('),', ')@t,', 1)}. "
        "observe(a@(0:1), true). query(a@t)."
    ).filter(steps=3, method=method)
    assert timed.log_evidence == pytest.approx([2 * expected], rel=1e-5)
    assert timed.filtered["a@t"][0, 2] == pytest.approx(math.exp(expected), abs=1e-6)


def test_a_value_that_is_drawn_once_is_compared_at_every_step() -> None:
    """With fixed thresholds, it has one interval for all steps; with others it is drawn."""
    text = "x(X) ~ normal(0,1). a@t :- x(X), X > 40. observe(a@(0:T), true). query(a@t)."
    found = nesymm.compile(text).filter(steps=4, method="exact")
    assert found.log_evidence == pytest.approx([stats.norm.logsf(40)], rel=1e-6)
    text = "x(X) ~ normal(0,1). y(Y)@t ~ normal(0,1). a@t :- x(X), y(Y)@t, X > Y."
    text += " b@t :- x(X), X > t. observe(a@(0:T), true). observe(b@0, true). query(a@t)."
    model = nesymm.compile(text)
    found = model.filter(steps=2, method="rao-blackwellised", key=1)

    def weight(x: float) -> float:
        return stats.norm.pdf(x) * stats.norm.cdf(x) ** 2

    truth = integrate.quad(weight, 0, np.inf)[0]
    assert found.log_evidence == pytest.approx([math.log(truth)], abs=0.15)


def test_thresholds_that_are_learnt() -> None:
    """A comparison of a fresh normal variable has an exact gradient in its threshold."""
    model = nesymm.compile(
        "x(X)@t ~ normal(0, 2). a@t :- x(X)@t, B is t(1.0), X > B. observe(a@t)."
    )
    (name,) = model.parameters
    data = {"a": np.array([[True, False, True]])}

    def evidence(b: Any) -> Any:
        return model.with_parameters({name: b}).log_evidence(data, method="exact").sum()

    value, gradient = jax.value_and_grad(evidence)(jnp.asarray(3.0))
    law = stats.norm(0, 2)
    assert value == pytest.approx(2 * law.logsf(3) + law.logcdf(3), rel=1e-5)
    hazard = law.pdf(3) / law.cdf(3) - 2 * law.pdf(3) / law.sf(3)
    assert gradient == pytest.approx(hazard, rel=1e-4)
