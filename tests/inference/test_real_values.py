"""Finitely many real numbers: every method compares and adds them alike, whatever its precision.

The expected numbers are added up over all draws, in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import nesymm
from nesymm.inference.engines import Engines

STEPS = 2
METHODS = {
    "exact": ("exact", 1e-6),
    "rao-blackwellised": (nesymm.RaoBlackwellised(particles=100), 1e-5),
    "bootstrap": (nesymm.Bootstrap(particles=20_000), 0.02),
}
PROGRAM = """
    speed(V) ~ categorical([0.3, 0.3, 0.4], [0.1, 0.2, 0.7]).
    gust(W)@t ~ categorical([0.25, 0.75], [0.1, 0.7]).
    total(S)@t :- speed(V), gust(W)@t, S is V + W.
    same@t :- speed(V), gust(V)@t.
    above@t :- speed(V), gust(W)@t, V > W.
    sum@t :- total(0.8)@t.
    far@t :- total(S)@t, S >= 0.8.
    third@t :- total(S)@t, S =:= 0.3.
    known@t :- S is 0.1 + 0.2, S =:= 0.3.
    named(slow)@t :- speed(V), word(V, slow).
    word(0.1, slow). word(0.2, slow). word(0.7, fast).
    V::gone@t :- speed(V).
    query(speed(0.2)). query(same@t). query(above@t). query(sum@t). query(far@t).
    query(third@t). query(known@t). query(named(slow)@t). query(gone@t).
"""
SPEED = {Fraction(1, 10): 0.3, Fraction(2, 10): 0.3, Fraction(7, 10): 0.4}
GUST = {Fraction(1, 10): 0.25, Fraction(7, 10): 0.75}
ANSWERS = {
    "same@t": lambda v, w: v == w,
    "above@t": lambda v, w: v > w,
    "sum@t": lambda v, w: v + w == Fraction(8, 10),
    "far@t": lambda v, w: v + w >= Fraction(8, 10),
    "third@t": lambda v, w: v + w == Fraction(3, 10),
    "known@t": lambda v, w: True,
    "named(slow)@t": lambda v, w: v < Fraction(1, 2),
    "gone@t": lambda v, w: float(v),
}


def expected() -> dict[str, float]:
    worlds = [(v, w, p * q) for (v, p), (w, q) in product(SPEED.items(), GUST.items())]
    return {name: sum(p * f(v, w) for v, w, p in worlds) for name, f in ANSWERS.items()}


@pytest.fixture(params=["in 64 bits at once", "in 32 bits by JAX"])
def computed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in 32 bits by JAX":
        monkeypatch.setattr(Engines, "at_once", lambda self, sequences: None)
        monkeypatch.setattr(Engines, "stepwise", lambda self, engine, sequences: None)


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("method", METHODS)
def test_real_numbers_of_a_list(method: str) -> None:
    how, error = METHODS[method]
    result = nesymm.compile(PROGRAM).filter(steps=STEPS, method=how)
    found = {name: values[0] for name, values in result.filtered.items()}
    assert found == {n: pytest.approx([p] * STEPS, abs=error) for n, p in expected().items()}
    assert result.final["speed(0.2)"] == pytest.approx(0.3, abs=error)


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("method", METHODS)
def test_evidence_about_a_probability_that_is_drawn(method: str) -> None:
    how, error = METHODS[method]
    model = nesymm.compile(PROGRAM + "observe(gone@t).")
    result = model.filter({"gone": np.array([[0, 1]])}, method=how)
    weights = {v: p * float((1 - v) * v) for v, p in SPEED.items()}
    evidence = sum(weights.values())
    assert np.exp(result.log_evidence) == pytest.approx([evidence], rel=5 * error)
    share = weights[Fraction(2, 10)] / evidence
    assert result.final["speed(0.2)"] == pytest.approx(share, abs=2 * error)


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("method", METHODS)
def test_values_that_are_observed_and_values_that_are_given(method: str) -> None:
    how, error = METHODS[method]
    model = nesymm.compile(
        PROGRAM
        + """
        :- input(limit(L)@t, real).
        over@t :- speed(V), limit(L)@t, V > L.
        at@t :- speed(V), limit(V)@t.
        observe(gust@t). query(over@t). query(at@t).
        """
    )
    data = {"gust": np.array([[0.1, 0.7]]), "limit": np.array([[0.2, 0.7]])}
    result = model.filter(data, method=how)
    assert np.exp(result.log_evidence) == pytest.approx([0.25 * 0.75], rel=5 * error)
    assert result.filtered["over@t"][0] == pytest.approx([0.4, 0], abs=error)
    assert result.filtered["at@t"][0] == pytest.approx([0.3, 0.4], abs=error)
    assert result.filtered["far@t"][0] == pytest.approx([0.4, 1], abs=error)


def test_without_time() -> None:
    """What a query lists, a comparison meets."""
    found = nesymm.compile("""
        speed(V) ~ categorical([0.3, 0.3, 0.4], [0.1, 0.2, 0.7]).
        gust(W) ~ categorical([0.25, 0.75], [0.1, 0.7]).
        total(S) :- speed(V), gust(W), S is V + W.
        far :- total(S), S >= 0.8.
        plain :- speed(V), gust(W), V + W >= 0.8.
        query(total(_)). query(far). query(plain).
    """).infer()
    assert found.queries == pytest.approx({
        "total(0.2)": 0.075, "total(0.3)": 0.075, "total(0.8)": 0.225 + 0.1,
        "total(0.9)": 0.225, "total(1.4)": 0.3, "far": 0.85,
        # As in ProbLog, which compares what it has not kept with all its decimals.
        "plain": 0.525,
    })  # fmt: skip


def test_a_continuous_variable_is_not_rounded() -> None:
    found = nesymm.compile("""
        x(X) ~ normal(0, 1). y(Y) ~ normal(0, 2).
        far :- x(X), y(Y), D is X - Y, D > 1.
        query(far).
    """).infer()
    assert found.method == "enumerate" and not found.stderr
    assert found.queries["far"] == pytest.approx(0.32736042300928847)  # of a normal (0, sqrt 5)


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_data_of_32_bits_are_the_decimals_that_they_stand_for(method: str) -> None:
    """By hand: the nearest number of 32 bits to 0.1 is none of the outcomes."""
    model = nesymm.compile(
        "x(V)@t ~ categorical([0.2, 0.3, 0.5], [0.1, 12.75, 1234.567]). observe(x@t). "
        "y@t :- x(0.1)@t. query(y@t)."
    )
    data = np.array([[0.1, 12.75, 1234.567, np.nan]], np.float32)
    found = model.filter({"x": data}, method=method, key=0)
    np.testing.assert_allclose(found.log_evidence, np.log(0.2 * 0.3 * 0.5), rtol=1e-5)
    np.testing.assert_allclose(found.filtered["y@t"], [[1, 0, 0, 0.2]], atol=1e-6)
