"""Random programs: both backends, the reference interpreter and ProbLog agree.

So do gradients with finite differences, and samples with marginals.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import jax
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from oracles import Inconsistent, Refused, problog
from random_programs import graphs, numeric, propositional, relational, static_programs

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.static.solver import Impossible
from nesymm.model import Model

METHODS = ("enumerate", "circuit")
SETTINGS = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def ask_problog(source: str, method: str) -> dict[str, float]:
    try:
        return problog(source, method)
    except Refused:
        assume(False)
        raise


def answers_agree(source: str, problog_method: str = "sdd") -> None:
    """Everyone finds the same answers, or everyone finds the evidence impossible."""
    try:
        expected = ask_problog(source, problog_method)
    except Inconsistent:
        everyone_refuses(nesymm.compile(source))
        return
    model = nesymm.compile(source)
    oracle = reference.infer(model.step)
    # Answers that are known to be false need no listing, unless the query is ground.
    asked = {name for name in expected if f"query({name})." in source.replace(" ", "")}

    def listed(found: dict[str, float]) -> dict[str, float]:
        return {n: p for n, p in found.items() if p > 1e-12 or n in asked}

    assert listed(oracle.queries) == pytest.approx(listed(expected), abs=1e-6)
    for method in METHODS:
        posterior = model.infer(method=method)
        assert posterior.method == method
        assert posterior.stderr == {}
        assert listed(posterior.queries) == pytest.approx(listed(oracle.queries), abs=1e-6)
        assert posterior.log_evidence == pytest.approx(math.log(oracle.evidence), abs=1e-6)


def everyone_refuses(model: Model) -> None:
    with pytest.raises(reference.Impossible):
        reference.infer(model.step)
    for method in METHODS:
        with pytest.raises(Impossible):
            model.infer(method=method)


@SETTINGS
@given(static_programs())
def test_answers_agree(source: str) -> None:
    answers_agree(source)


@settings(SETTINGS, max_examples=30)
@given(graphs())
def test_answers_about_graphs_agree(source: str) -> None:
    # This method of ProbLog copes with dense cycles.
    answers_agree(source, "fsdd")


@pytest.mark.slow
@settings(SETTINGS, max_examples=2000)
@given(static_programs())
def test_answers_agree_on_many_programs(source: str) -> None:
    answers_agree(source)


@pytest.mark.slow
@settings(SETTINGS, max_examples=300)
@given(graphs())
def test_answers_about_many_graphs_agree(source: str) -> None:
    answers_agree(source, "fsdd")


def test_dense_recursion_over_few_variables_is_quick() -> None:
    """Every pair of nodes depends on every other: far more atoms than random choices."""
    source = """
        0.25::edge(2,2). 0.2::edge(4,3). 0.1::edge(3,2). 0.5::edge(2,1).
        path(X,Y) :- edge(X,Y).
        path(X,Y) :- path(Y,X).
        path(X,Y) :- path(X,Z), path(Z,Y).
        query(path(X,Y)).
    """
    answers_agree(source, "fsdd")


def test_parameters_that_depend_on_the_same_variable() -> None:
    """P and Q are 0 for some X, but never for the same: there is always an outcome."""
    source = """
        x(X) ~ uniform_int(0, 2).
        y(Y) ~ categorical([P, Q], [a, b]) :- x(X), P is X / 2, Q is 1 - P.
        query(x(_)). query(y(_)).
    """
    model = nesymm.compile(source)
    for method in METHODS:
        assert model.infer(method=method).queries == pytest.approx(
            {"x(0)": 1 / 3, "x(1)": 1 / 3, "x(2)": 1 / 3, "y(a)": 0.5, "y(b)": 0.5}
        )


def test_many_parameters_that_depend_on_the_same_variable() -> None:
    """Seven parameters of ten values each, but ten combinations in all."""
    names = "abcdefg"
    weights = ", ".join(f"P{i} is (X + {i}) / (7*X + 21)" for i in range(7))
    source = f"""
        x(X) ~ uniform_int(1, 10).
        y(Y) ~ categorical([{", ".join(f"P{i}" for i in range(7))}], [{", ".join(names)}])
            :- x(X), {weights}.
        query(y(_)).
    """
    model = nesymm.compile(source)
    expected = {
        f"y({name})": sum((x + i) / (7 * x + 21) for x in range(1, 11)) / 10
        for i, name in enumerate(names)
    }
    for method in ("auto", "circuit"):
        assert model.infer(method=method).queries == pytest.approx(expected)


# ---------------------------------------------------------------- gradients


@st.composite
def learnable_programs(draw: DrawFn) -> str:
    """A random program, some of whose probabilities are to be learned."""
    source = draw(st.one_of(propositional(), relational(), numeric()))

    def learn(found: re.Match[str]) -> str:
        written, head = found.groups()
        number = str(round(float(Fraction(written)), 3))
        match draw(st.integers(0, 2)):
            case 0:
                return found[0]
            case 1 if head == "q(X)":  # a number for every X
                return f"t({number}, X)::{head}"
        return f"t({number})::{head}"

    return re.sub(r"([\d./]+)::([a-z]\w*(?:\([^)]*\))?)", learn, source)


def slopes_agree(source: str) -> None:
    """Gradients in JAX equal finite differences of the answers in NumPy."""
    model = nesymm.compile(source)
    assume(model.parameters)
    # Off the written values: those of a choice may sum to 1, and must not sum to more.
    model = model.with_parameters({k: 0.9 * np.asarray(v) for k, v in model.parameters.items()})
    for method in METHODS:
        query = uncertain_query(model, method)

        def value(parameters: dict[str, jax.Array], query: str = query, method: str = method):
            return model.with_parameters(parameters).log_probability(query, method=method)

        with jax.enable_x64(True):  # one compilation is quicker than one for each operation
            gradients = jax.jit(jax.grad(value))(model.parameters)
        for name, gradient in gradients.items():
            for place in np.ndindex(gradient.shape):
                numeric = difference(model, method, query, name, place)
                assert float(gradient[place]) == pytest.approx(numeric, abs=1e-5, rel=1e-5), name


def uncertain_query(model: Model, method: str) -> str:
    try:
        found = model.infer(method=method).queries
    except Impossible:
        found = {}
    uncertain = [name for name, p in found.items() if 1e-3 < p < 1 - 1e-9]
    assume(uncertain)
    return min(uncertain)


def difference(model: Model, method: str, query: str, name: str, place: tuple[int, ...]) -> float:
    """The central difference quotient of a log-probability in one parameter."""

    def value(step: float) -> float:
        moved = np.array(model.parameters[name])
        moved[place] += step
        nearby = replace(model, parameters=model.parameters | {name: moved})
        return math.log(nearby.infer(method=method).probability(query))

    return (value(1e-5) - value(-1e-5)) / 2e-5


@settings(SETTINGS, max_examples=6)
@given(learnable_programs())
def test_gradients_equal_finite_differences(source: str) -> None:
    slopes_agree(source)


@pytest.mark.slow
@settings(SETTINGS, max_examples=150)
@given(learnable_programs())
def test_gradients_of_many_programs_equal_finite_differences(source: str) -> None:
    slopes_agree(source)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("observed", [0.5, 0.6])
def test_gradients_where_a_point_mass_may_outweigh_a_density(method: str, observed: float) -> None:
    """Which of the two explains the observation is known when the value is."""
    source = f"""
        t(0.3)::c. 0.4::d.
        x(V) ~ normal(2, 1) :- c, d.
        x(V) ~ normal(1, 1) :- c, not d.
        x(0.5) :- not c.
        observe(x, {observed}).
        query(c). query(d).
    """
    model = nesymm.compile(source)
    expected = model.infer(method=method).probability("d")
    with jax.enable_x64(True):
        found, gradient = jax.jit(
            jax.value_and_grad(
                lambda p: model.with_parameters(p).log_probability("d", method=method)
            )
        )({"c": 0.3})
    assert math.exp(found) == pytest.approx(expected)
    assert float(gradient["c"]) == pytest.approx(difference(model, method, "d", "c", ()), abs=1e-7)


# ---------------------------------------------------------------- samples


def samples_agree(source: str, n: int = 4000) -> None:
    """Frequencies are within four standard errors of the marginals, and of the probability
    of the most probable world.

    Seeds are fixed, so that a test that passes will pass again.
    """
    model = nesymm.compile(source)
    try:
        posteriors = [model.infer(method=method) for method in METHODS]
    except Impossible:
        assume(False)
        return
    samples = [posterior.sample(n, key=1) for posterior in posteriors]
    world, probability = posteriors[0].most_probable()
    for drawn in samples:
        error = math.sqrt(probability * (1 - probability) / n)
        assert abs(drawn.count(world) / n - probability) <= 4 * error + 1e-9
    # The variables that are drawn in every world.
    for name in set.intersection(*(set(s) for drawn in samples for s in drawn)):
        expected = posteriors[0].marginal(name)
        assert posteriors[1].marginal(name) == pytest.approx(expected, abs=1e-9)
        assert sum(expected.values()) == pytest.approx(1.0)
        for drawn in samples:
            counts = Counter(sample[name] for sample in drawn)
            assert counts.keys() <= expected.keys()
            for value, p in expected.items():
                error = math.sqrt(max(0.0, p * (1 - p)) / n)
                assert abs(counts[value] / n - p) <= 4 * error + 1e-9, (name, value)


@pytest.mark.slow
@settings(SETTINGS, max_examples=6)
@given(st.one_of(static_programs(), graphs()))
def test_samples_have_the_right_frequencies(source: str) -> None:
    samples_agree(source)


@pytest.mark.slow
@settings(SETTINGS, max_examples=150)
@given(st.one_of(static_programs(), graphs()))
def test_samples_of_many_programs_have_the_right_frequencies(source: str) -> None:
    samples_agree(source)


DEPENDENT = {
    "a range": """
        x(V) ~ uniform_int(1, 4). y(V) ~ uniform_int(1, X) :- x(X).
        query(x(_)). evidence(y(2)).
    """,
    "a chain": """
        x(V) ~ uniform_int(1, 2). y(V) ~ uniform_int(X, 3) :- x(X).
        z(V) ~ uniform_int(1, Y) :- y(Y). query(x(_)). evidence(z(2)).
    """,
    "a number of trials": """
        n(N) ~ uniform_int(0, 3). k(K) ~ binomial(N, 0.4) :- n(N). query(n(_)). evidence(k(1)).
    """,
    "weights": """
        x(X) ~ uniform_int(0, 2).
        y(Y) ~ categorical([P, Q], [a, f(b)]) :- x(X), P is X / 2, Q is 1 - P.
        query(x(_)). query(y(_)).
    """,
    "a truth": "0.3::a. y(V) ~ bernoulli(P) :- (a, P = 0.2 ; \\+ a, P = 0.8). query(y(_)).",
    "a key": """
        k(V) ~ uniform_int(1, 3). 0.3::p(X) :- between(1, 3, X). q :- k(K), p(K).
        query(k(_)). evidence(q).
    """,
    "values of several kinds": """
        x(V) ~ categorical([0.2, 0.3, 0.5], [red, 1, f(a)]). y :- x(1). query(y). query(x(_)).
    """,
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_variables_that_depend_on_variables(name: str) -> None:
    samples_agree(DEPENDENT[name])
    # The marginals are right: the reference interpreter answers queries for the values.
    model = nesymm.compile(DEPENDENT[name])
    oracle = reference.infer(model.step).queries
    drawn = {v.name for v in model.step.variables}
    for method in METHODS:
        found = model.infer(method=method)
        assert {n: p for n, p in found.queries.items() if p} == pytest.approx(
            {n: p for n, p in oracle.items() if p}
        )
        for query, p in oracle.items():
            variable, value = query.removesuffix(")").split("(", 1) if "(" in query else (query, "")
            if value.isdigit() and variable in drawn:
                assert found.marginal(variable)[int(value)] == pytest.approx(p)


def test_what_a_posterior_cannot_tell_it_refuses() -> None:
    keyed = nesymm.compile(DEPENDENT["a key"]).infer()
    with pytest.raises(NesymmError, match=r"no finite variable called p; there are: k, p\(1\)"):
        keyed.marginal("p")
    plane = "x ~ normal(0, 1). y ~ normal(0, 1). a :- x * y > 1. 0.5::b. c :- a, b. query(c)."
    sampled = nesymm.compile(plane).infer(samples=100)
    with pytest.raises(NesymmError, match="only answers its queries"):
        sampled.marginal("b")
