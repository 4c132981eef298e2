"""Tails, masses and densities, values observed here and there, and what must not happen."""

from __future__ import annotations

import math

import pytest
import scipy.stats

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.static.solver import Forbidden, Impossible

METHODS = ("enumerate", "circuit")


def infer(
    source: str, method: str = "enumerate", **more: object
) -> nesymm.inference.static.posterior.Posterior:
    return nesymm.compile(source).infer(method=method, **more)


# ---------------------------------------------------------------- tails

TAILS = {
    "normal(0, 1)": scipy.stats.norm(),
    "exponential(1)": scipy.stats.expon(),
    "gamma(2, 3)": scipy.stats.gamma(2, scale=1 / 3),
    "beta(2, 20)": scipy.stats.beta(2, 20),
    "poisson(3)": scipy.stats.poisson(3),
    "geometric(0.3)": scipy.stats.geom(0.3, loc=-1),
    "laplace(0, 1)": scipy.stats.laplace(),
    "lognormal(0, 0.2)": scipy.stats.lognorm(0.2),
}


@pytest.mark.parametrize("family", TAILS)
def test_far_tails_keep_their_digits(family: str) -> None:
    at = 0.95 if family.startswith("beta") else 12.0
    found = infer(f"x ~ {family}. a :- x > {at}. query(a).").queries["a"]
    assert found == pytest.approx(TAILS[family].sf(at), rel=1e-9, abs=0)


@pytest.mark.parametrize("method", METHODS)
def test_rare_evidence_is_not_impossible(method: str) -> None:
    source = (
        "0.5::a. x ~ normal(0, 1) :- a. x ~ normal(1, 1) :- \\+a. far :- x > 12. evidence(far)."
    )
    here, there = scipy.stats.norm.sf(12), scipy.stats.norm.sf(11)
    posterior = infer(source + " query(a).", method)
    assert posterior.queries["a"] == pytest.approx(here / (here + there), rel=1e-9)
    assert posterior.log_evidence == pytest.approx(math.log((here + there) / 2), rel=1e-9)


# ---------------------------------------------------------------- masses and densities


@pytest.mark.parametrize("method", METHODS)
def test_a_mass_counts_beside_a_point_mass(method: str) -> None:
    source = "0.5::a. x(X) ~ poisson(3) :- a. x(3) :- \\+a. observe(x, 3). query(a)."
    mass = scipy.stats.poisson.pmf(3, 3)
    assert infer(source, method).queries["a"] == pytest.approx(mass / (1 + mass))


@pytest.mark.parametrize("family", ["poisson(3)", "geometric(0.3)"])
def test_counts_are_whole(family: str) -> None:
    with pytest.raises(Impossible):
        infer(f"k ~ {family}. observe(k, 2.5). 0.5::a. query(a).")


# ---------------------------------------------------------------- observed here and there


@pytest.mark.parametrize("method", METHODS)
def test_a_value_is_only_known_where_it_is_the_observed_one(method: str) -> None:
    source = """
        0.5::a. x(V) ~ normal(0, 1). z(V) ~ normal(0, 1).
        y(V) :- a, x(V).
        y(V) :- \\+a, z(V).
        observe(y, 1.0).
        q :- x(V), V > 0.
        query(q). query(a).
    """
    posterior = infer(source, method)
    assert posterior.queries == pytest.approx({"q": 0.75, "a": 0.5})
    assert not posterior.stderr


@pytest.mark.parametrize("method", METHODS)
def test_a_variable_is_free_where_a_point_mass_explains_the_value(method: str) -> None:
    source = """
        0.5::a. x(V) ~ normal(0, 1).
        y(V) :- a, x(V).
        y(2.0) :- \\+a.
        observe(y, 2.0).
        q :- x(V), V > 0.
        query(q).
    """
    assert infer(source, method).queries["q"] == pytest.approx(0.5)


def test_a_value_observed_twice_counts_once() -> None:
    once = "x ~ normal(0, 1). observe(x, 1.0). 0.5::a. query(a). "
    twice = infer(once + "observe(x, 1.0).")
    assert twice.log_evidence == pytest.approx(infer(once).log_evidence)
    with pytest.raises(Impossible):
        infer(once + "observe(x, 2.0).")


def test_what_data_does_not_say_is_not_known() -> None:
    model = nesymm.compile("x ~ normal(0, 1). observe(x). q :- x > 0. query(q).")
    assert model.infer().queries["q"] == pytest.approx(0.5)
    assert model.infer({"x": 1.0}).queries["q"] == 1


# ---------------------------------------------------------------- guards of what is sampled


@pytest.mark.parametrize("method", METHODS)
def test_a_guarded_sample_does_not_tell_about_its_guard(method: str) -> None:
    source = "0.5::a. x ~ normal(0, 1) :- a. q :- x * x > 1. query(q). query(a)."
    posterior = infer(source, method)
    assert posterior.queries["a"] == pytest.approx(0.5)
    far = scipy.stats.norm.sf(1)  # half of 2 sf(1)
    assert abs(posterior.queries["q"] - far) < 4 * posterior.stderr["q"]


def test_parameters_may_make_no_sense_where_nothing_is_drawn() -> None:
    source = "x ~ uniform_int(0, 3). y ~ uniform_int(x, 2) :- x < 3. query(y)."
    assert infer(source).queries["y(2)"] == pytest.approx((1 / 3 + 1 / 2 + 1) / 4)
    source = "x ~ uniform_int(0, 3). y ~ normal(0, x) :- x > 0. q :- y * y > 1. query(q)."
    far = sum(2 * scipy.stats.norm.sf(1 / x) for x in (1, 2, 3)) / 4
    posterior = infer(source)
    assert abs(posterior.queries["q"] - far) < 4 * posterior.stderr["q"]


# ---------------------------------------------------------------- what must not happen

CLASH = "0.5::a. 0.5::b. y ~ normal(0, 1) :- a. y ~ normal(1, 1) :- b. q :- y > 0. query(q). "

FORBIDDEN = {
    "two clauses give y/0 different values": CLASH,
    "a probability is not between": "x ~ uniform_int(1, 3). P::q :- P is x / 2. query(q).",
    "the sd of normal is not positive": (
        "x ~ uniform_int(0, 3). y ~ normal(0, x). q :- y > 1. query(q)."
    ),
    "bounds of uniform_int": "x ~ uniform_int(0, 3). y ~ uniform_int(x, 2). q :- y > 1. query(q).",
    "add up to more than 1": "x ~ uniform_int(1, 3). P::q; 0.6::b :- P is x / 4. query(q).",
    "do not add up to 1": (
        "x ~ uniform_int(1, 3). y ~ categorical([x / 6, 0.5], [a, b]). q :- y = a. query(q)."
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("message", FORBIDDEN)
def test_what_must_not_happen_is_reported(message: str, method: str) -> None:
    model = nesymm.compile(FORBIDDEN[message])
    with pytest.raises(Forbidden, match=message):
        model.infer(method=method)
    with pytest.raises(Forbidden, match=message):
        model.log_probability("q", method=method)


@pytest.mark.parametrize("source", FORBIDDEN.values())
def test_what_must_not_happen_is_located(source: str) -> None:
    """The message shows the clause, or the second of two."""
    with pytest.raises(
        Forbidden, match=r"\n +--> <program>:\d+:\d+\n +\|\n.*\n +\| +\^+(\n +=.*)?$"
    ):
        infer(source)


LARGE = """
    0.5::a. 0.5::b. q :- y > 600. query(q).
    y ~ uniform_int(1, 700) :- a.
    y ~ uniform_int(1, 700) :- b.
"""


def test_a_check_that_is_too_large_is_not_skipped() -> None:
    message = r"cannot be checked whether two clauses give y/0 .*490,000 combinations(.|\n)*:4:5\n"
    with pytest.raises(NesymmError, match=message):
        infer(LARGE)


def test_a_large_check_is_not_needed_for_what_cannot_happen() -> None:
    found = infer(LARGE.replace(":- b", ":- \\+ a, b")).queries["q"]
    assert found == pytest.approx((0.5 + 0.25) / 7)


def test_what_evidence_excludes_does_not_happen() -> None:
    found = infer(CLASH + "evidence(\\+a).").queries["q"]
    assert found == pytest.approx(scipy.stats.norm.sf(-1) / 2)


def test_samples_report_what_must_not_happen() -> None:
    with pytest.raises(Forbidden, match="sd of normal"):
        infer("s ~ normal(0, 1). y ~ normal(0, s). q :- y > 1. query(q).")


@pytest.mark.parametrize("value", [1.5, -0.2, math.nan])
def test_parameters_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(NesymmError, match=f"a: expected a number from 0 to 1, received {value}"):
        nesymm.compile("t(_)::a. query(a).", parameters={"a": value})
    model = nesymm.compile("t(_)::a. query(a).")
    model.parameters["a"] = value
    with pytest.raises(NesymmError, match="the parameter a must lie between 0 and 1"):
        model.infer()
