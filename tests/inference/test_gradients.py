"""Gradients: exact ones against finite differences, estimates against exact ones.

Estimates are random. Many are averaged, with fixed seeds, and their mean must lie within
four standard errors of the truth: from exact inference, a closed form or a fine grid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import (
    HealthCheck,
    assume,
    currently_in_test_context,
    event,
    given,
    note,
    settings,
)
from hypothesis import strategies as st
from jax.scipy.stats import multivariate_normal, norm, poisson
from random_programs import Case, temporal

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.densities import DENSITIES, log_masses, special
from nesymm.inference.elimination.capacity import TooLarge
from nesymm.inference.methods import Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.inference.particles import plans
from nesymm.ir.passes.phases import Phases, phases, use_observed
from nesymm.ir.step import StepProgram

Parameters = Mapping[str, Any]


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------- estimates and their errors


def numbers(parameters: Parameters) -> dict[str, jax.Array]:
    return {k: jnp.asarray(v, float) for k, v in parameters.items()}


def repeated(data: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The same sequence many times: independent estimates in one run."""
    return {k: [list(v)] * batch for k, v in data.items()}


def exact_evidence(model: Any, data: Mapping[str, Any], horizon: int | None = None) -> Callable:
    """p(evidence) as a function of the parameters."""

    def evidence(parameters: Parameters) -> Any:
        return jnp.exp(
            model.with_parameters(parameters).log_evidence(
                repeated(data, 1), method=ExactForward(), steps=horizon + 1
            )[0]
        )

    return evidence


def fits(evidence: Callable, model: Any) -> bool:
    """Whether exact inference does not refuse a program because its tables are too large."""
    try:
        jax.eval_shape(evidence, numbers(model.parameters))
    except TooLarge:
        return False
    return True


def evidence_slopes(
    model: Any,
    data: Mapping[str, Any],
    method: Method,
    batch: int,
    keys: int,
    horizon: int | None = None,
) -> list[tuple[float, dict[str, np.ndarray]]]:
    """Independent estimates of p(evidence) and its gradients, each an average over a batch."""
    many = repeated(data, batch)
    length = None if many else np.full(batch, (horizon or 0) + 1)

    def mean(parameters: Parameters, key: Any) -> Any:
        logs = model.with_parameters(parameters).log_evidence(
            many, method=method, key=key, steps=length
        )
        return jnp.mean(jnp.exp(logs))

    run = jax.jit(jax.value_and_grad(mean))
    at = numbers(model.parameters)
    return [jax.tree.map(np.asarray, run(at, jax.random.key(i))) for i in range(keys)]


def agree(estimates: list[Any], truth: Any, name: str, errors: float = 4.0) -> None:
    """The mean of independent estimates lies within some standard errors of the truth."""
    array = np.asarray(estimates)
    mean = array.mean(0)
    error = array.std(0, ddof=1) / np.sqrt(len(array))
    off = np.abs(mean - np.asarray(truth))
    report = f"{name}: {mean} is not {truth}, standard error {error}"
    assert (off <= errors * error + 1e-9 * (1 + np.abs(mean))).all(), report


def unbiased(
    model: Any,
    data: Mapping[str, Any],
    truth: Callable[[Parameters], Any],
    method: Method,
    batch: int = 256,
    keys: int = 64,
    horizon: int | None = None,
) -> None:
    value, gradients = jax.jit(jax.value_and_grad(truth))(numbers(model.parameters))
    if currently_in_test_context():
        assume(value > 0)
    found = evidence_slopes(model, data, method, batch, keys, horizon)
    agree([v for v, _ in found], value, "evidence")
    for name in gradients:
        agree([s[name] for _, s in found], gradients[name], f"gradient in {name}")


def tangents(
    function: Callable[[Parameters, Any], Any], parameters: Parameters, keys: int
) -> dict[str, np.ndarray]:
    """The gradient of every element of a batch of values, per parameter: [keys × batch]."""
    at = numbers(parameters)

    @jax.jit
    def along(direction: Parameters, key: Any) -> Any:
        return jax.jvp(lambda p: function(p, key), (at,), (dict(direction),))[1]

    out = {}
    for name in at:
        direction = {n: jnp.asarray(float(n == name)) for n in at}
        out[name] = np.concatenate([along(direction, jax.random.key(i)) for i in range(keys)])
    return out


METHODS = [
    pytest.param(kind(particles=n, resample_below=below), id=f"{kind.__name__}-{n}-{below}")
    for kind in (RaoBlackwellised, Bootstrap)
    for n in (4, 16)
    for below in (0.0, 0.5, "always")
]


# ---------------------------------------------------------------- exact inference


def learnable(text: str) -> str:
    """A program with the probabilities before clauses as parameters."""
    return re.sub(r"(?<![\w.])(0\.\d+)::", r"t(\1)::", text)


def differences(function: Callable, parameters: dict[str, Any], width: float = 1e-5) -> Any:
    """Central finite differences in every number of a tree."""
    leaves, tree = jax.tree.flatten(parameters)
    out = []
    for i, leaf in enumerate(leaves):
        gradients = np.zeros(leaf.shape)
        for place in np.ndindex(*leaf.shape):
            ends = []
            for sign in (1, -1):
                moved = leaf.at[place].add(sign * width)
                ends.append(function(tree.unflatten([*leaves[:i], moved, *leaves[i + 1 :]])))
            gradients[place] = (float(ends[0]) - float(ends[1])) / (2 * width)
        out.append(gradients)
    return tree.unflatten(out)


def like_differences(function: Callable, parameters: dict[str, Any]) -> None:
    run = jax.jit(jax.value_and_grad(function))
    value, gradients = run(parameters)
    if currently_in_test_context():
        assume(value > 0)
    expected = differences(lambda p: run(p)[0], parameters)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        other = expected
        for step in path:
            other = other[step.key if hasattr(step, "key") else step.idx]
        np.testing.assert_allclose(gradient, other, rtol=1e-5, atol=1e-8, err_msg=str(path))


def check_exact(case: Case) -> None:
    note(case.source)
    model = nesymm.compile(learnable(case.source))
    assume(model.parameters)
    event(f"{len(model.parameters)} parameters")
    evidence = exact_evidence(model, case.data, case.horizon)
    assume(fits(evidence, model))
    like_differences(evidence, numbers(model.parameters))


# Programs with something to learn from something that is seen.
OBSERVED = temporal().filter(
    lambda c: learnable(c.source) != c.source and bool(re.search("observe|evidence", c.source))
)
SHORT = OBSERVED.filter(lambda c: len(c.source) < 160)
RANDOM = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@settings(max_examples=2, **RANDOM)
@given(SHORT)
def test_exact_slopes_of_random_programs_are_finite_differences(case: Case) -> None:
    check_exact(case)


@pytest.mark.slow
@settings(max_examples=60, **RANDOM)
@given(OBSERVED)
def test_exact_slopes_of_many_random_programs_are_finite_differences(case: Case) -> None:
    check_exact(case)


NEURAL = """
    :- input(image@t).
    :- network(look, 2).
    :- network(turn, 2).
    t(0.3)::wet@0.
    t(0.8)::wet@t :- wet@(t-1).
    t(0.1)::wet@t :- not wet@(t-1), cloud(1)@t.
    cloud(C)@t ~ categorical(look(image@t), [0, 1]).
    side(S)@0 ~ uniform_int(0, 1).
    side(S)@t ~ categorical(turn(R), [0, 1]) :- side(R)@(t-1).
    0.9::dark@t :- wet@t, side(1)@t.
    t(0.2)::dark@t :- not wet@t.
    observe(dark@t).
"""


def neural_networks(weights: Mapping[str, Any]) -> dict[str, Callable]:
    return {
        "look": lambda image: jnp.tanh(image @ weights["look"]),
        "turn": lambda side: weights["turn"][side],
    }


def neural_data(batch: int) -> dict[str, Any]:
    images = np.random.default_rng(1).normal(size=(3, 4))
    return {
        "image": np.repeat(images[None], batch, 0),
        "dark": np.repeat([[True, False, True]], batch, 0),
    }


def neural_model() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(2)
    weights = {"look": rng.normal(size=(4, 2)), "turn": rng.normal(size=(2, 2))}
    model = nesymm.compile(NEURAL, networks=neural_networks(weights))
    return model, {
        "parameters": numbers(model.parameters),
        "weights": jax.tree.map(jnp.asarray, weights),
    }


def neural_evidence(model: Any, tree: Mapping[str, Any], data: Any, **more: Any) -> Any:
    networks = neural_networks(tree["weights"])
    return (
        model.with_parameters(tree["parameters"]).with_networks(networks).log_evidence(data, **more)
    )


def test_exact_slopes_in_networks_are_finite_differences() -> None:
    model, tree = neural_model()
    data = neural_data(1)
    like_differences(lambda x: neural_evidence(model, x, data, method=ExactForward())[0], tree)


def test_exact_slopes_of_answers_are_finite_differences() -> None:
    model = nesymm.compile(WEATHER)

    def answer(p: Parameters) -> Any:
        gradients = model.with_parameters(p).estimate(method=ExactForward(), steps=4)
        return gradients.probability("rain@T")[0]

    like_differences(answer, numbers(model.parameters))


@pytest.mark.slow
@pytest.mark.parametrize("below", [0.0, "always"])
def test_slopes_in_networks_are_unbiased(below: float | str) -> None:
    model, tree = neural_model()
    data, one = neural_data(256), neural_data(1)
    method = RaoBlackwellised(particles=4, resample_below=below)

    def mean(x: Any, key: Any) -> Any:
        return jnp.mean(jnp.exp(neural_evidence(model, x, data, method=method, key=key)))

    run = jax.jit(jax.grad(mean))
    found = [run(tree, jax.random.key(i)) for i in range(64)]
    truth = jax.jit(
        jax.grad(lambda x: jnp.exp(neural_evidence(model, x, one, method=ExactForward())[0]))
    )(tree)
    for (path, gradient), *others in zip(
        jax.tree.leaves_with_path(truth), *(jax.tree.leaves(f) for f in found), strict=True
    ):
        agree(others, gradient, str(path))


# ---------------------------------------------------------------- the surrogate: finite programs


def check_unbiased(case: Case, method: Method) -> None:
    note(case.source)
    note(str(method))
    model = nesymm.compile(learnable(case.source))
    assume(model.parameters)
    truth = exact_evidence(model, case.data, case.horizon)
    assume(fits(truth, model))
    unbiased(model, case.data, truth, method, horizon=case.horizon)


METHOD = st.sampled_from([p.values[0] for p in METHODS])


@settings(max_examples=2, **RANDOM)
@given(SHORT, METHOD)
def test_slopes_of_random_programs_are_unbiased(case: Case, method: Method) -> None:
    check_unbiased(case, method)


@pytest.mark.slow
@settings(max_examples=30, **RANDOM)
@given(OBSERVED, METHOD)
def test_slopes_of_many_random_programs_are_unbiased(case: Case, method: Method) -> None:
    check_unbiased(case, method)


# ---------------------------------------------------------------- the surrogate: hybrid programs


@dataclass(frozen=True)
class Hybrid:
    """A program with infinite variables, what is seen, and p(evidence) by other means."""

    text: str
    data: Mapping[str, Any]
    evidence: Callable[[Parameters], Any]


HYBRID: dict[str, Hybrid] = {}
WIDTH = 0.01
# No cell straddles a whole number, so that comparisons with one are exact.
CELLS = np.arange(-800, 800) * WIDTH + WIDTH / 2
SEEN = np.asarray([0.3, 1.1, -0.4])


def on_grid(first: Any, move: Callable[[Any, Any], Any], weights: list[Any]) -> Any:
    """p(evidence) of a Markov chain on the cells: `first` and `move` are densities."""
    belief = first * weights[0]
    for weight in weights[1:]:
        belief = belief @ move(CELLS[None, :], CELLS[:, None]) * WIDTH * weight
    return jnp.sum(belief) * WIDTH


def gaussian(x: Any, mean: Any, covariance: Any) -> Any:
    return jnp.exp(multivariate_normal.logpdf(jnp.asarray(x), mean, covariance))


def linear_evidence(p: Parameters) -> Any:
    factor, n = p["x.3"], len(SEEN)
    variance = [p["x.2"] ** 2]
    for _ in range(n - 1):
        variance.append(factor**2 * variance[-1] + 0.25)
    covariance = jnp.stack(
        [
            jnp.stack([variance[min(i, j)] * factor ** abs(i - j) for j in range(n)])
            for i in range(n)
        ]
    )
    return gaussian(SEEN, p["x"] * factor ** jnp.arange(n), covariance + p["y"] ** 2 * jnp.eye(n))


CHAIN = """
    x(X)@0 ~ normal(t(0.4), t(0.8)).
    x(Y)@t ~ normal(M, 0.5) :- x(X)@(t-1), M is t(0.9) * X.
"""
HYBRID["reparameterised"] = Hybrid(
    CHAIN + "y(Y)@t ~ normal(X, t(0.6)) :- x(X)@t.  observe(y@t).", {"y": SEEN}, linear_evidence
)


def chain_on_grid(p: Parameters, weights: list[Any]) -> Any:
    return on_grid(
        norm.pdf(CELLS, p["x"], p["x.2"]),
        lambda new, old: norm.pdf(new, p["x.3"] * old, 0.5),
        weights,
    )


HYBRID["compared"] = Hybrid(
    CHAIN + "safe@t :- x(X)@t, X > 0.  observe(safe@t).",
    {"safe": [True, True, False]},
    lambda p: chain_on_grid(p, [CELLS > 0, CELLS > 0, CELLS <= 0]),
)
HYBRID["compared and seen in part"] = Hybrid(
    CHAIN + "safe@t :- x(X)@t, X > 0.  observe(safe@t).  observe(x@t).",
    {"safe": [True, True, False], "x": [0.3, None, -0.4]},
    lambda p: (
        norm.pdf(0.3, p["x"], p["x.2"])
        * jnp.sum(
            norm.pdf(CELLS, 0.3 * p["x.3"], 0.5)
            * (CELLS > 0)
            * norm.pdf(-0.4, p["x.3"] * CELLS, 0.5)
        )
        * WIDTH
    ),
)
HYBRID["a choice depends on it"] = Hybrid(
    CHAIN
    + """
    P::hot@t :- x(X)@t, P is 1 / (1 + exp(-X)).
    0.9::felt@t :- hot@t.
    t(0.2)::felt@t :- not hot@t.
    observe(felt@t).
    """,
    {"felt": [True, True, False]},
    lambda p: chain_on_grid(
        p,
        [
            jnp.abs(no - (0.9 * jax.nn.sigmoid(CELLS) + p["felt"] * jax.nn.sigmoid(-CELLS)))
            for no in (0, 0, 1)
        ],
    ),
)
HYBRID["moves the support of a density"] = Hybrid(
    CHAIN
    + """
    y(Y)@t ~ uniform(L, H) :- x(X)@t, L is X - 1, H is X + 1.
    observe(y@t).
    """,
    {"y": SEEN},
    lambda p: chain_on_grid(p, [0.5 * (np.abs(CELLS - y) <= 1) for y in SEEN]),
)


def tied_evidence(p: Parameters) -> Any:
    total = 0.0
    n = len(SEEN)
    covariance = 0.25 * np.minimum.outer(np.arange(n) + 1, np.arange(n) + 1) + 0.36 * np.eye(n)
    for modes in product((False, True), repeat=n):
        weight, moves = 1.0, []
        for t, fast in enumerate(modes):
            chance = p["fast"] if t == 0 else p["fast.2"] if modes[t - 1] else p["fast.3"]
            weight = weight * (chance if fast else 1 - chance)
            moves.append((p["x"] if t == 0 else p["x.2"]) * fast)
        total = total + weight * gaussian(SEEN, jnp.cumsum(jnp.stack(moves)), covariance)
    return total


HYBRID["tied to a finite variable"] = Hybrid(
    """
    t(0.4)::fast@0.
    t(0.7)::fast@t :- fast@(t-1).
    t(0.2)::fast@t :- not fast@(t-1).
    x(X)@0 ~ normal(t(1.0), 0.5) :- fast@0.
    x(X)@0 ~ normal(0, 0.5) :- not fast@0.
    x(Y)@t ~ normal(M, 0.5) :- fast@t, x(X)@(t-1), M is X + t(0.8).
    x(Y)@t ~ normal(X, 0.5) :- not fast@t, x(X)@(t-1).
    y(Y)@t ~ normal(X, 0.6) :- x(X)@t.
    observe(y@t).
    """,
    {"y": SEEN},
    tied_evidence,
)


def two_modes_evidence(p: Parameters) -> Any:
    total = 0.0
    for modes in product((False, True), repeat=2):
        weight = jnp.prod(jnp.stack([p["fast"] if m else 1 - p["fast"] for m in modes]))
        means = jnp.cumsum(jnp.stack([0.0, *(0.0 if m else 0.2 for m in modes)]))
        variances = [0.0, *((p["a"] if m else p["a.2"]) ** 2 for m in modes)]
        shared = jnp.cumsum(jnp.stack(variances))
        covariance = jnp.minimum(shared[:, None], shared[None, :]) + p["y"] ** 2 * jnp.eye(3)
        total = total + weight * gaussian(SEEN, means, covariance)
    return total


# What is drawn in each mode is drawn given what is seen, and once more given the mode.
HYBRID["drawn given what is seen"] = Hybrid(
    """
    t(0.4)::fast@t.
    a(A)@t ~ normal(0, t(1.0)) :- fast@t.
    a(A)@t ~ normal(0.2, t(0.3)) :- not fast@t.
    x(0.0)@0.
    x(X + A)@t :- x(X)@(t-1), a(A)@t.
    y(Y)@t ~ normal(X, t(0.5)) :- x(X)@t.
    observe(y@t).
    """,
    {"y": SEEN},
    two_modes_evidence,
)


def on_integers(first: Any, move: Any, weights: list[Any]) -> Any:
    belief = first * weights[0]
    for weight in weights[1:]:
        belief = (belief @ move) * weight
    return jnp.sum(belief)


WHOLE = np.arange(60.0)
COUNTS = (1.2, 0.4, 2.3)
HYBRID["poisson"] = Hybrid(
    """
    c(C)@0 ~ poisson(t(1.5)).
    c(D)@t ~ poisson(M) :- c(C)@(t-1), M is 0.5 * C + t(0.8).
    y(Y)@t ~ normal(C, 0.7) :- c(C)@t.
    observe(y@t).
    """,
    {"y": COUNTS},
    lambda p: on_integers(
        jnp.exp(poisson.logpmf(WHOLE, p["c"])),
        jnp.exp(poisson.logpmf(WHOLE[None, :], 0.5 * WHOLE[:, None] + p["c.2"])),
        [norm.pdf(y, WHOLE, 0.7) for y in COUNTS],
    ),
)


def geometric_step(p: Any) -> Any:
    more = WHOLE[None, :] - WHOLE[:, None]
    return jnp.where(more >= 0, p * (1 - p) ** jnp.maximum(more, 0), 0.0)


HYBRID["geometric"] = Hybrid(
    """
    g(G)@t ~ geometric(t(0.6)).
    sum(G)@0 :- g(G)@0.
    sum(S)@t :- sum(R)@(t-1), g(G)@t, S is R + G.
    y(Y)@t ~ normal(S, t(0.7)) :- sum(S)@t.
    observe(y@t).
    """,
    {"y": COUNTS},
    lambda p: on_integers(
        p["g"] * (1 - p["g"]) ** WHOLE,
        geometric_step(p["g"]),
        [norm.pdf(y, WHOLE, p["y"]) for y in COUNTS],
    ),
)
HYBRID["static"] = Hybrid(
    """
    m(M) ~ normal(t(0.5), t(1.2)).
    y(Y)@t ~ normal(M, t(0.7)) :- m(M).
    observe(y@t).
    """,
    {"y": SEEN},
    lambda p: gaussian(
        SEEN, jnp.full(3, p["m"]), p["m.2"] ** 2 * np.ones((3, 3)) + p["y"] ** 2 * np.eye(3)
    ),
)


def above(p: Parameters) -> Any:
    higher = norm.cdf((p["x"] - CELLS) / p["x.2"])
    return jnp.sum(norm.pdf(CELLS, p["m"], p["m.2"]) * higher**2 * (1 - higher)) * WIDTH


HYBRID["static and compared"] = Hybrid(
    """
    m(M) ~ normal(t(0.5), t(1.2)).
    x(X)@t ~ normal(t(0.2), t(0.9)).
    above@t :- m(M), x(X)@t, X > M.
    observe(above@t).
    """,
    {"above": [True, False, True]},
    above,
)
HYBRID["static and finite"] = Hybrid(
    """
    right ~ bernoulli(t(0.4)).
    x(X)@0 ~ normal(0, 1).
    x(Y)@t ~ normal(M, 0.5) :- right, x(X)@(t-1), M is X + t(0.5).
    x(Y)@t ~ normal(M, 0.5) :- not right, x(X)@(t-1), M is X - 0.5.
    y(Y)@t ~ normal(X, 0.6) :- x(X)@t.
    observe(y@t).
    """,
    {"y": SEEN},
    lambda p: sum(
        chance
        * on_grid(
            norm.pdf(CELLS),
            lambda new, old, move=move: norm.pdf(new, old + move, 0.5),
            [norm.pdf(y, CELLS, 0.6) for y in SEEN],
        )
        for chance, move in ((p["right"], p["x"]), (1 - p["right"], -0.5))
    ),
)
HYBRID["guided"] = Hybrid(
    """
    x(X)@0 ~ normal(t(0.4), t(0.8)).
    x(Y)@t ~ normal(M, 0.5) :- x(X)@(t-1), M is t(0.9) * X.
    guide(x(X)@0) ~ normal(0.3, 0.9).
    guide(x(Y)@t) ~ normal(0.2, 0.8) :- x(_)@(t-1).
    y(Y)@t ~ normal(X, t(0.6)) :- x(X)@t.
    observe(y@t).
    """,
    {"y": SEEN},
    linear_evidence,
)


def mixture_evidence(p: Parameters) -> Any:
    """Each step by itself: x is normal about one of two means, and y is about x."""
    sd = jnp.sqrt(1 + p["y"] ** 2)
    each = [p["m"] * norm.pdf(y, p["x"], sd) + (1 - p["m"]) * norm.pdf(y, 2, sd) for y in SEEN]
    return math.prod(each)


# Guides that apply at some steps, and one that depends on what is summed out.
HYBRID["guided in some worlds"] = Hybrid(
    """
    t(0.4)::m@t.
    x(X)@t ~ normal(t(0.2), 1) :- m@t.
    x(X)@t ~ normal(2, 1) :- not m@t.
    y(Y)@t ~ normal(X, t(0.6)) :- x(X)@t.
    guide(x@t) ~ normal(Y, 0.6) :- y(Y)@t, Y > 0.
    observe(y@t).
    """,
    {"y": SEEN},
    mixture_evidence,
)
HYBRID["guided and tied to a finite variable"] = Hybrid(
    """
    t(0.4)::m@t.
    which(1)@t :- m@t.
    which(0)@t :- not m@t.
    x(X)@t ~ normal(M, 1) :- which(K)@t, M is t(0.2) * K + 2 - 2 * K.
    y(Y)@t ~ normal(X, t(0.6)) :- x(X)@t.
    guide(x@t) ~ normal(Y, 0.8) :- y(Y)@t, m@t.
    observe(y@t).
    """,
    {"y": SEEN},
    mixture_evidence,
)


def alarms(p: Parameters) -> Any:
    """Each step by itself: x is above 1 with a chance that depends on m, and rings the alarm."""
    above = p["m"] * norm.cdf(p["x"], 1) + (1 - p["m"]) * norm.cdf(2, 1, 0.5)
    rings = 0.9 * above + 0.2 * (1 - above)
    return rings * (1 - rings) * rings


# Whether x is drawn depends on what is summed out, and its draw is scored.
HYBRID["compared in some worlds"] = Hybrid(
    """
    t(0.4)::m@t.
    x(X)@t ~ normal(t(0.2), 1) :- m@t.
    x(X)@t ~ normal(2, 0.5) :- not m@t.
    big@t :- x(X)@t, X > 1.
    0.9::alarm@t :- big@t.
    0.2::alarm@t :- not big@t.
    observe(alarm@t).
    """,
    {"alarm": np.asarray([True, False, True])},
    alarms,
)

FEW = {
    "compared in some worlds": RaoBlackwellised(particles=4, resample_below=0.5),
    "guided in some worlds": RaoBlackwellised(particles=4, resample_below=0.5),
    "guided and tied to a finite variable": RaoBlackwellised(particles=4, resample_below="always"),
    "reparameterised": RaoBlackwellised(particles=4, resample_below="always"),
    "compared": Bootstrap(particles=4, resample_below=0.5),
    "tied to a finite variable": RaoBlackwellised(particles=4, resample_below=0.5),
    "drawn given what is seen": RaoBlackwellised(particles=4, resample_below=0.5),
    "poisson": RaoBlackwellised(particles=4, resample_below="always"),
    "static and compared": Bootstrap(particles=16, resample_below=0.0),
}


@pytest.mark.parametrize("name", FEW)
def test_slopes_of_hybrid_programs_are_unbiased(name: str) -> None:
    case = HYBRID[name]
    unbiased(nesymm.compile(case.text), case.data, case.evidence, FEW[name])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HYBRID)
def test_slopes_of_hybrid_programs_are_unbiased_by_every_method(name: str, method: Method) -> None:
    case = HYBRID[name]
    unbiased(nesymm.compile(case.text), case.data, case.evidence, method, 512)


def phases_of(step: StepProgram, given: frozenset[str]) -> Phases:
    return use_observed(phases(step, given), given)


def test_what_moves_the_support_of_a_density_is_scored() -> None:
    step = nesymm.compile(HYBRID["moves the support of a density"].text).step
    for plan in plans(phases_of(step, frozenset({"y"})), True):
        assert {v.name for v in plan.ahead} == plan.scored
    step = nesymm.compile(HYBRID["reparameterised"].text).step
    for plan in plans(phases_of(step, frozenset({"y"})), True):
        assert plan.ahead and not plan.scored


def test_what_later_steps_read_is_scored_where_particles_are_resampled() -> None:
    step = nesymm.compile(HYBRID["reparameterised"].text).step
    for plan in plans(phases_of(step, frozenset({"y"})), True, resamples=True):
        assert {v.name for v in plan.ahead} == plan.scored
    step = nesymm.compile(HYBRID["guided"].text).step
    for plan in plans(phases_of(step, frozenset({"y"})), True, resamples=True):
        assert plan.ahead and not plan.scored  # a guide learns through its draws


# Only the alarm reads the noise, which is summed out inside it. Which noises fit what is seen
# depends on x; that is drawn, and always 2, so that the filter must be exact.
FOLDED = """
    :- input(bound(K)@t, 1..4).
    :- input(above(A)@t, 1..2).
    :- network(weights, 3).
    x(X)@t ~ categorical([0.0, 1.0], [1, 2]).
    noise(N)@t ~ categorical(weights(%s), [0, 1, 2]) :- x(X)@t, above(A)@t, X > A.
    alarm@t :- x(X)@t, noise(N)@t, bound(K)@t, X + N > K.
    observe(alarm@t).
"""


@pytest.mark.parametrize("argument", ["X", "A"])
def test_what_is_summed_inside_an_observation_has_exact_slopes(argument: str) -> None:
    def network(logits: Any) -> Callable:
        # Nobody reads what the network says where there is no noise.
        return lambda x: jnp.where((argument == "A") & (x == 2), jnp.nan, logits)

    model = nesymm.compile(FOLDED % argument, networks={"weights": network(jnp.zeros(3))})
    for plan in plans(phases_of(model.step, frozenset({"bound", "above", "alarm"})), True):
        assert [f.variable.name for f in plan.folded.values()] == ["noise"]
    # All noises fit; two; one; one; two; none is loud enough; there is none; nothing is seen.
    data = {
        "bound": [[1, 2, 2, 3, 3, 4, 2, 3]],
        "above": [[1, 1, 1, 1, 1, 1, 2, 1]],
        "alarm": [[True, True, False, True, False, False, False, None]],
    }

    def evidence(logits: Any) -> Any:
        return model.with_networks({"weights": network(logits)}).log_evidence(
            data,
            method=RaoBlackwellised(particles=3, resample_below="always"),
            key=jax.random.key(0),
        )[0]

    def closed_form(logits: Any) -> Any:
        a, b, c = jax.nn.softmax(logits)
        return jnp.log(b + c) + jnp.log(a) + jnp.log(c) + jnp.log(a + b)

    logits = jnp.asarray([0.3, -0.8, 0.4])
    value, gradient = jax.jit(jax.value_and_grad(evidence))(logits)
    truth, true_slope = jax.value_and_grad(closed_form)(logits)
    assert value == pytest.approx(truth)
    np.testing.assert_allclose(gradient, true_slope, atol=1e-9)


@pytest.mark.slow
def test_slopes_of_sequences_of_different_lengths_are_unbiased() -> None:
    case = HYBRID["compared"]
    model = nesymm.compile(case.text)
    method = RaoBlackwellised(particles=4, resample_below="always")
    lengths = np.asarray([1, 2, 3] * 128)
    data = {"safe": [case.data["safe"]] * len(lengths)}

    def means(parameters: Parameters, key: Any) -> Any:
        logs = model.with_parameters(parameters).log_evidence(
            data, method=method, key=key, steps=lengths
        )
        return jnp.mean(jnp.exp(logs).reshape(-1, 3), axis=0)

    weights = [CELLS > 0, CELLS > 0, CELLS <= 0]
    found = tangents(means, model.parameters, 64)
    for i in range(3):
        truth = jax.jit(jax.grad(lambda p, n=i + 1: chain_on_grid(p, weights[:n])))(
            numbers(model.parameters)
        )
        for name, gradient in truth.items():
            agree(list(found[name].reshape(-1, 3)[:, i]), gradient, f"{name} after {i + 1} steps")


def test_masses_of_whole_numbers_have_slopes() -> None:
    values = jnp.asarray([2, 0, 1])

    def rate(r: Any) -> Any:
        return jnp.sum(DENSITIES["poisson"].log(jnp, special(jnp), values, r))

    def chance(p: Any) -> Any:
        return jnp.sum(DENSITIES["geometric"].log(jnp, special(jnp), values, p))

    def twice(p: Any) -> Any:
        return log_masses(jnp, "binomial", (3, p), (0, 1, 2, 3), False)[2]

    assert jax.grad(rate)(0.4) == pytest.approx(3 / 0.4 - 3)
    assert jax.grad(chance)(0.4) == pytest.approx(3 / 0.4 - 3 / 0.6)
    assert jax.grad(twice)(0.4) == pytest.approx(2 / 0.4 - 1 / 0.6)


# ---------------------------------------------------------------- the logarithm


# Weights that differ little: terms in 1/N² hardly show, even with four particles.
MILD = """
    m(M) ~ normal(0.5, 0.5).
    y(Y)@t ~ normal(M, t(1.0)) :- m(M).
    observe(y@t).
"""


def mild_evidence(p: Parameters) -> Any:
    return gaussian(SEEN, jnp.full(3, 0.5), 0.25 * np.ones((3, 3)) + p["y"] ** 2 * np.eye(3))


def order_of_bias(method: Callable[[int], Method], keys: int, batch: int) -> None:
    """The bias of the gradient of log p(evidence) falls like one over the particles."""
    model = nesymm.compile(MILD)
    truth = jax.grad(lambda p: jnp.log(mild_evidence(p)))(numbers(model.parameters))["y"]
    data = repeated({"y": SEEN}, batch)
    counts, bias, error = (4, 16, 64), [], []
    for particles in counts:

        def logs(p: Parameters, key: Any, particles: int = particles) -> Any:
            return model.with_parameters(p).log_evidence(data, method=method(particles), key=key)

        found = tangents(logs, model.parameters, keys)["y"]
        bias.append(float(found.mean() - truth))
        error.append(float(found.std() / np.sqrt(len(found))))
    report = f"bias {bias}, standard error {error}"
    off, relative = np.abs(bias), np.asarray(error) / np.abs(bias)
    assert (relative < 1 / 4).all(), report
    # The gradient of the line through the logarithms, and its standard error.
    x = np.log(counts) - np.mean(np.log(counts))
    gradient = np.sum(x * np.log(off)) / np.sum(x**2)
    uncertain = np.sqrt(np.sum((x * relative) ** 2)) / np.sum(x**2)
    assert abs(gradient + 1) < 4 * uncertain + 0.1, f"gradient {gradient} ± {uncertain}; {report}"


@pytest.mark.slow
def test_bias_of_the_logarithm_falls_like_one_over_the_particles() -> None:
    order_of_bias(lambda n: RaoBlackwellised(particles=n, resample_below=0.0), 32, 4096)


@pytest.mark.slow
@pytest.mark.parametrize("below", [0.5, "always"])
def test_bias_of_the_logarithm_with_resampling(below: float | str) -> None:
    order_of_bias(lambda n: Bootstrap(particles=n, resample_below=below), 128, 4096)


# ---------------------------------------------------------------- estimators of the paper

WEATHER = """
    t(0.3)::rain@0.
    t(0.7)::rain@t :- rain@(t-1).
    t(0.2)::rain@t :- not rain@(t-1).
    0.9::umbrella@t :- rain@t.
    t(0.25)::umbrella@t :- not rain@t.
    observe(umbrella@0, true).
    dry@t :- not rain@t.
    query(rain@T).
    query(dry@T).
"""
WALK = """
    at(X)@0 ~ uniform_int(0, 2).
    t(0.6)::right@t.
    t(0.1)::jump@t :- at(2)@(t-1).
    at(Y)@t :- at(X)@(t-1), right@t, not jump@t, Y is min(X + 1, 4).
    at(Y)@t :- at(X)@(t-1), not right@t, not jump@t, Y is max(X - 1, 0).
    at(0)@t :- at(X)@(t-1), jump@t.
    t(0.8)::warm@t :- at(X)@t, X < 2.
    0.3::warm@t :- at(X)@t, X >= 2.
    observe(warm@0, true).
    goal@t :- at(4)@t.
    away@t :- not goal@t.
    query(goal@T).
    query(away@T).
"""
# Each with a query and its opposite.
PROGRAMS = {"weather": (WEATHER, "rain@T", "dry@T"), "walk": (WALK, "goal@T", "away@T")}


def answer_slopes(
    name: str, method: Method, estimator: str, horizon: int, keys: int = 4, batch: int = 4000
) -> dict[str, np.ndarray]:
    """Gradients of the probabilities of a query and its opposite: [estimates, 2]."""
    text, *queries = PROGRAMS[name]
    model = nesymm.compile(text)
    length = np.full(batch, horizon + 1)

    def answer(p: Parameters, key: Any) -> Any:
        gradients = model.with_parameters(p).estimate(
            method=method,
            steps=length,
            key=key,
            estimator=estimator,
        )
        return jnp.stack([gradients.probability(q) for q in queries], -1)

    return tangents(answer, model.parameters, keys)


def independent(particles: int) -> Method:
    """Particles drawn from the exact posterior: all evidence comes first."""
    return RaoBlackwellised(particles=particles, resample_below=0.0, recursion="paper")


ESTIMATES = [
    ("weather", "rloo", 2),
    ("weather", "recursive_rloo", 1),
    ("weather", "score", 2),
    pytest.param("weather", "recursive_rloo", 3, marks=pytest.mark.slow),
    pytest.param("walk", "rloo", 3, marks=pytest.mark.slow),
    pytest.param("walk", "recursive_rloo", 1, marks=pytest.mark.slow),
    pytest.param("walk", "score", 3, marks=pytest.mark.slow),
    pytest.param("weather", "rloo", 5, marks=pytest.mark.slow),
    pytest.param("weather", "score", 5, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("program", "estimator", "horizon"), ESTIMATES)
def test_estimators_are_unbiased_over_independent_draws(
    program: str, estimator: str, horizon: int
) -> None:
    truth = answer_slopes(program, ExactForward(), "surrogate", horizon, 1, 1)
    method = independent(4)
    if estimator == "recursive_rloo":
        # It needs states that are independent draws from the mixture over all before.
        method = replace(method, resampling="multinomial", resample_below="always")
    found = answer_slopes(program, method, estimator, horizon)
    for name, gradients in found.items():
        agree(list(gradients), truth[name][0], f"{estimator} gradient in {name}")


# ---------------------------------------------------------------- which estimator varies less


@pytest.mark.parametrize("program", ["weather", pytest.param("walk", marks=pytest.mark.slow)])
def test_a_baseline_makes_slopes_vary_less(program: str) -> None:
    """Less than the worse of the plain scores of a query and of its opposite.

    The variance of (f - b) × score is a parabola in b. The plain score of f has b = 0, that
    of 1 - f has b = 1, and the mean of f lies between. For one query alone a baseline may
    hurt: where the score is large and f is nearly 0.
    """
    plain = answer_slopes(program, independent(16), "score", 2, 1, 2000)
    better = answer_slopes(program, independent(16), "rloo", 2, 1, 2000)
    for name, gradients in better.items():
        np.testing.assert_allclose(gradients[:, 0], -gradients[:, 1], atol=1e-12)
        worst = plain[name].std(0).max()
        assert gradients[:, 0].std() < worst or worst == 0, name


@pytest.mark.parametrize("program", ["weather", pytest.param("walk", marks=pytest.mark.slow)])
def test_exact_slopes_do_not_vary(program: str) -> None:
    found = answer_slopes(program, ExactForward(), "surrogate", 2, 3, 2)
    for gradients in found.values():
        assert (np.ptp(gradients, axis=0) == 0).all()


def test_baselines_need_two_particles() -> None:
    with pytest.raises(NesymmError, match="at least two particles"):
        answer_slopes("weather", independent(1), "rloo", 1, 1, 1)


def test_unknown_estimators_are_refused() -> None:
    with pytest.raises(NesymmError, match="there is no estimator"):
        answer_slopes("weather", independent(2), "magic", 1, 1, 1)
