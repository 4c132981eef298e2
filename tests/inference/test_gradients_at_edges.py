"""Gradients in learnable probabilities that are exactly 0 or 1: those of the limit from inside.

The oracle sums over all runs by hand, and takes the derivative of that polynomial along a complex
step, which is exact at the ends of the range, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm

UMBRELLAS = (True, False, False)
DATA = {"umbrella": np.array([UMBRELLAS])}
SEES = "0.9::umbrella@t :- rain@t. 0.2::umbrella@t :- not rain@t. observe(umbrella@t)."


def weigh(rain: tuple[bool, ...], move: Callable[[bool | None, bool], Any]) -> Any:
    """The probability of some weather and all umbrellas."""
    p: Any = 1.0
    for before, now, seen in zip((None, *rain), rain, UMBRELLAS, strict=False):
        sees = 0.9 if now else 0.2
        p = p * move(before, now) * (sees if seen else 1 - sees)
    return p


def chain(p: dict[str, Any]) -> Any:
    def move(before: bool | None, now: bool) -> Any:
        chance = p["rain"] if before is None else p["rain.2"] if before else 0.3
        return chance if now else 1 - chance

    return sum(weigh(r, move) for r in itertools.product((False, True), repeat=3))


def kinds(p: dict[str, Any]) -> Any:
    """Each day is rainy, sunny or neither, whatever it was before."""
    return math.prod(
        sum(
            chance * (sees if seen else 1 - sees)
            for chance, sees in ((p["wet"], 0.9), (p["dry"], 0.2), (1 - p["wet"] - p["dry"], 0.5))
        )
        for seen in UMBRELLAS
    )


def outcomes(p: dict[str, Any]) -> Any:
    return math.prod(
        sum(
            chance * (sees if seen else 1 - sees)
            for chance, sees in ((p["rain"], 0.9), (1 - p["rain"], 0.2))
        )
        for seen in UMBRELLAS
    )


PROGRAMS = {
    "chain": (
        f"t(0.3)::rain@0. t(0.7)::rain@t :- rain@(t-1). 0.3::rain@t :- not rain@(t-1). {SEES}",
        chain,
        ("rain", "rain.2"),
    ),
    "disjunction": (
        "t(0.3)::wet@t; t(0.3)::dry@t. 0.9::umbrella@t :- wet@t. 0.2::umbrella@t :- dry@t. "
        "0.5::umbrella@t :- not wet@t, not dry@t. observe(umbrella@t).",
        kinds,
        ("wet", "dry"),
    ),
    "categorical": (
        "sky(S)@t ~ categorical([P, 1 - P], [wet, dry]) :- P is t(0.4). "
        f"rain@t :- sky(wet)@t. {SEES}",
        outcomes,
        ("rain",),
    ),
}
EDGES = (0.0, 0.4, 1.0)


def at(model: Any, names: tuple[str, ...], values: tuple[float, ...]) -> dict[str, Any]:
    """The parameters of a model in the order of their clauses."""
    return dict(zip((p.name for p in model.step.parameters), map(jnp.asarray, values), strict=True))


def gradient(function: Callable[[dict[str, Any]], Any], values: dict[str, float]) -> list[float]:
    step = 1e-30
    found = []
    for name in values:
        moved = {n: complex(v, step if n == name else 0.0) for n, v in values.items()}
        found.append(function(moved).imag / step / function(dict(values)))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_gradients_over_time(name: str) -> None:
    text, oracle, names = PROGRAMS[name]
    model = nesymm.compile(text)

    @jax.jit
    @jax.value_and_grad
    def found(parameters: dict[str, Any]) -> Any:
        return model.with_parameters(parameters).log_evidence(DATA, method="exact").sum()

    for values in itertools.product(EDGES, repeat=len(names)):
        if name == "disjunction" and sum(values) > 1:
            continue
        given = dict(zip(names, values, strict=True))
        if oracle(given) == 0:
            continue
        value, gradients = found(at(model, names, values))
        assert value == pytest.approx(math.log(oracle(given)), rel=1e-5)
        expected = gradient(oracle, given)
        assert [gradients[p.name] for p in model.step.parameters] == pytest.approx(
            expected, rel=1e-4
        )


@pytest.mark.parametrize("method", ["rao-blackwellised", "bootstrap"])
def test_particles_do_not_guess(method: str) -> None:
    """There is no draw of what never happens; inside the range nothing changes."""
    model = nesymm.compile(PROGRAMS["chain"][0])

    def found(parameters: dict[str, Any]) -> Any:
        return model.with_parameters(parameters).log_evidence(DATA, method=method).sum()

    value, gradients = jax.value_and_grad(found)(
        {"rain": jnp.asarray(0.0), "rain.2": jnp.asarray(0.7)}
    )
    assert np.isnan(gradients["rain"])
    assert np.isfinite(gradients["rain.2"])
    assert value == pytest.approx(math.log(chain({"rain": 0.0, "rain.2": 0.7})), abs=0.2)


def posterior(b: Any) -> Any:
    return 0.9 * b / (0.9 * b + 0.1 * (1 - b))


STATIC = {
    "clause": ("t(0.2)::b. 0.9::a :- b. 0.1::a :- not b. query(b). evidence(a).", posterior),
    "disjunction": (
        "t(0.2)::b; 0.0::c. 0.9::a :- b. 0.1::a :- not b. query(b). evidence(a).",
        posterior,
    ),
    "two draws": ("t(0.2)::x(E) :- member(E, [1, 2]). b :- x(1). b :- x(2). query(b).",
                  lambda b: 1 - (1 - b) ** 2),
    "what cannot be": ("t(0.2)::x(E) :- member(E, [1, 2]). b :- x(1), x(2). query(b).",
                       lambda b: b * b),
}  # fmt: skip


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("start", EDGES)
def test_gradients_without_time(name: str, start: float, method: str) -> None:
    text, oracle = STATIC[name]
    model = nesymm.compile(text)
    (parameter,) = model.parameters

    def found(p: Any) -> Any:
        with_p = model.with_parameters({parameter: p})
        return jnp.exp(with_p.log_probability("b", method=method))

    value, found_gradient = jax.value_and_grad(found)(jnp.asarray(start))
    assert value == pytest.approx(oracle(start), rel=1e-5, abs=1e-15)
    expected = oracle(complex(start, 1e-30)).imag / 1e-30
    assert found_gradient == pytest.approx(expected, rel=1e-4, abs=1e-15)
    # What is not differentiated is exact: the logarithm of 0 is that of nothing.
    assert float(found(start)) == pytest.approx(oracle(start), rel=1e-5, abs=0)
