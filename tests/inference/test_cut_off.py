"""Comparisons of continuous values that max or min cuts off, against distribution functions."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm

import nesymm
from nesymm import Bootstrap, ProgramError, RaoBlackwellised

X = norm(0.5, 1)
# name: condition on X, which is normal(0.5, 1), and K, which is 0, 1 or 2; its probability
CONDITIONS = {
    "cut off at its bound": ("max(X, 0) =:= 0", X.cdf(0)),
    "above its bound": ("max(X, 0) =\\= 0", X.sf(0)),
    "the bound on the left": ("0.25 =:= min(0.25, X)", X.sf(0.25)),
    "by a name": ("Y is max(X, 0), Y =:= 0", X.cdf(0)),
    "cut off at both ends, low": ("max(0, min(2 * X - 1, 1)) =:= 0", X.cdf(0.5)),
    "cut off at both ends, high": ("max(0, min(2 * X - 1, 1)) =:= 1", X.sf(1)),
    "by a random bound": ("max(X, K) =:= 1", X.cdf(1) / 3),
    "where it never is": ("max(X, 1) =:= 0", 0.0),
    "below a third": ("max(X, K) < 1.5", (2 * X.cdf(1.5)) / 3),
    "below a third, or not": ("min(X, K) < 0.5", (1 + 2 * X.cdf(0.5)) / 3),
    "above a third": ("1.5 =< max(X, K)", (1 + 2 * X.sf(1.5)) / 3),
    "both are cut off": ("max(X, 0) < min(2 * X, 1)", X.cdf(1) - X.cdf(0)),
}
DRAWN = "x(X){t} ~ normal(0.5, 1). k(K){t} ~ uniform_int(0, 2)."
ASKED = "a{t} :- x(X){t}, k(K){t}, {condition}. query(a{t})."


@pytest.mark.parametrize("name", CONDITIONS)
def test_probabilities(name: str) -> None:
    condition, expected = CONDITIONS[name]
    program = f"{DRAWN} {ASKED}"
    static = nesymm.compile(program.format(t="", condition=condition)).infer()
    assert static.probability("a") == pytest.approx(expected, abs=1e-9)
    model = nesymm.compile(program.format(t="@t", condition=condition))
    for method, error in (("exact", 1e-9), (RaoBlackwellised(10), 1e-6)):
        found = model.filter(steps=1, method=method).filtered["a@t"]
        assert found[0, 0] == pytest.approx(expected, abs=error)
    # Here values are drawn and compared.
    found = model.filter(steps=1, method=Bootstrap(10_000)).filtered["a@t"][0, 0]
    assert found == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / 10_000))


def test_a_value_of_the_step_before() -> None:
    model = nesymm.compile("""
        x(X)@0 ~ normal(0.5, 1).
        x(X)@t ~ normal(Y + 1, 1) :- x(Y)@(t-1).
        a@t :- x(X)@(t-1), max(X, 0) =:= 0.
        query(a@t).
    """)
    found = model.filter(steps=3, method=Bootstrap(10_000)).filtered["a@t"][0]
    expected = np.array([0.0, X.cdf(0), norm(1.5, np.sqrt(2)).cdf(0)])
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / 10_000)).all()


def test_evidence_and_gradients() -> None:
    model = nesymm.compile("""
        x(X)@t ~ normal(t(0.5), 1).
        a@t :- x(X)@t, max(X, 0) =:= 0.
        observe(a@t).
    """)
    seen = {"a": [[1, 0, 1]]}
    value, gradient = jax.value_and_grad(lambda m: m.log_evidence(seen, method="exact")[0])(model)
    (found,) = gradient.parameters.values()
    assert value == pytest.approx(2 * X.logcdf(0) + X.logsf(0), rel=1e-5)
    assert found == pytest.approx(-2 * X.pdf(0) / X.cdf(0) + X.pdf(0) / X.sf(0), rel=1e-5)


@pytest.mark.parametrize(
    ("condition", "cause"),
    {
        "X - 1 =:= 0": "a continuous value is tested for equality, which it never meets",
        "max(X, 0) =:= max(X, 1)": "a continuous value that max or min cuts off",
        "max(X, X * X) =:= 0": "a continuous value that max or min cuts off",
    }.items(),
)
def test_what_is_refused(condition: str, cause: str) -> None:
    with pytest.raises(ProgramError, match=f"E311.*{cause}"):
        nesymm.compile(f"x(X)@t ~ normal(0.5, 1). a@t :- x(X)@t, {condition}. query(a@t).")
