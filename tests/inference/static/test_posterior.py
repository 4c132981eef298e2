"""Static inference end to end, against closed forms and numerical integration."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.static.solver import Forbidden, Impossible

PAPER = Path(__file__).parents[3] / "examples" / "paper"
METHODS = ("enumerate", "circuit")


def normal(x: float, mean: float, sd: float) -> float:
    return float(scipy.stats.norm.pdf(x, mean, sd))


@pytest.mark.parametrize("method", METHODS)
def test_the_weather_program_has_its_closed_form(method: str) -> None:
    posterior = nesymm.compile((PAPER / "weather.nsl").read_text()).infer(method=method)
    rain = 0.7 * (1 - 0.3)
    temperature = scipy.stats.norm(15, 3)
    good = (1 - rain) * temperature.sf(20) + rain * temperature.cdf(0)
    assert posterior.probability("rain") == pytest.approx(rain, abs=1e-12)
    assert posterior.probability("good_weather") == pytest.approx(good, abs=1e-12)
    assert posterior.log_evidence == pytest.approx(0.0, abs=1e-12)
    assert posterior.stderr == {}


@pytest.mark.parametrize("method", METHODS)
def test_the_game_agrees_with_numerical_integration(method: str) -> None:
    def softplus(x: float) -> float:
        return math.log1p(math.exp(x))

    networks = {
        "noisy_player": lambda image: jnp.stack([image.sum(), -0.2 * image[0]]),
        "noisy_monster": lambda image: jnp.stack([image[1] - 0.5, image[0]]),
    }
    image = np.array([0.7, 1.9])
    model = nesymm.compile((PAPER / "game.nsl").read_text(), networks=networks)
    posterior = model.infer({"image": image}, method=method)
    player = scipy.stats.norm(2.6, softplus(-0.14))
    monster = scipy.stats.norm(1.4, softplus(0.7))
    close, _ = scipy.integrate.quad(
        lambda m: monster.pdf(m) * (player.cdf(m + 2) - player.cdf(m - 2)), -30, 30
    )
    # The networks compute in single precision.
    assert posterior.probability("game_over(image)") == pytest.approx(0.25 * close, abs=1e-6)


CONTINUOUS = {
    "a difference of normals": (
        "x ~ normal(1, 2). y ~ normal(0, 1). a :- x > y + 0.5. query(a).",
        scipy.stats.norm(1, math.sqrt(5)).sf(0.5),
    ),
    "several thresholds on one variable": (
        "x ~ normal(0, 1). a :- x > 1. a :- x < -1. query(a).",
        2 * scipy.stats.norm.sf(1),
    ),
    "a band and its complement": (
        "x ~ normal(0, 1). a :- abs(x - 0.3) < 1. b :- not a. query(b).",
        1 - (scipy.stats.norm.cdf(1.3) - scipy.stats.norm.cdf(-0.7)),
    ),
    "scaled, negative factor": (
        "x ~ normal(2, 3). a :- 5 - 2*x >= 1. query(a).",
        scipy.stats.norm(2, 3).cdf(2),
    ),
    "uniform": ("x ~ uniform(2, 6). a :- x > 3. query(a).", 0.75),
    "exponential": ("x ~ exponential(2). a :- x > 1. query(a).", math.exp(-2)),
    "gamma": (
        "x ~ gamma(2, 3). a :- x < 1. query(a).",
        scipy.stats.gamma(2, scale=1 / 3).cdf(1),
    ),
    "beta": ("x ~ beta(2, 5). a :- x < 0.3. query(a).", scipy.stats.beta(2, 5).cdf(0.3)),
    "laplace": (
        "x ~ laplace(1, 2). a :- x > 0. query(a).",
        scipy.stats.laplace(1, 2).sf(0),
    ),
    "lognormal": (
        "x ~ lognormal(0.5, 1). a :- x > 2. query(a).",
        scipy.stats.lognorm(1, scale=math.exp(0.5)).sf(2),
    ),
    "poisson, strict": (
        "n(N) ~ poisson(3). a :- n(N), N > 2. query(a).",
        scipy.stats.poisson(3).sf(2),
    ),
    "poisson, not strict": (
        "n(N) ~ poisson(3). a :- n(N), N >= 2. query(a).",
        scipy.stats.poisson(3).sf(1),
    ),
    "geometric": (
        "n(N) ~ geometric(0.3). a :- n(N), N =< 1. query(a).",
        1 - 0.7**2,
    ),
    "a mixture": (
        "0.3::c. m(2) :- c. m(0) :- not c. x(V) ~ normal(M, 1) :- m(M). "
        "a :- x(V), V > 1. query(a).",
        0.3 * scipy.stats.norm.sf(-1) + 0.7 * scipy.stats.norm.sf(1),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", METHODS)
def test_comparisons_with_a_closed_form_are_exact(name: str, method: str) -> None:
    source, expected = CONTINUOUS[name]
    posterior = nesymm.compile(source).infer(method=method)
    assert list(posterior.queries.values()) == [pytest.approx(expected, abs=1e-9)]
    assert posterior.stderr == {}


@pytest.mark.parametrize("method", METHODS)
def test_conditioning_on_a_continuous_value_weighs_by_density(method: str) -> None:
    source = """
        c ~ bernoulli(0.3).
        x(V) ~ normal(2, 1) :- c.
        x(V) ~ normal(0, 0.5) :- not c.
        observe(x, 0.8).
        query(c).
    """
    posterior = nesymm.compile(source).infer(method=method)
    one, other = 0.3 * normal(0.8, 2, 1), 0.7 * normal(0.8, 0, 0.5)
    assert posterior.probability("c") == pytest.approx(one / (one + other), abs=1e-12)
    assert posterior.log_evidence == pytest.approx(math.log(one + other), abs=1e-12)


def test_an_observed_value_is_used_where_the_variable_is_compared() -> None:
    source = "x ~ normal(0, 1). observe(x, 0.8). a :- x > 0.5. b :- x > 1. query(a). query(b)."
    posterior = nesymm.compile(source).infer()
    assert posterior.queries == {"a": 1.0, "b": 0.0}
    assert posterior.log_evidence == pytest.approx(math.log(normal(0.8, 0, 1)), abs=1e-12)


MIXED = """
    c ~ bernoulli(0.3).
    x(V) ~ normal(2, 1) :- c.
    x(0.5) :- not c.
    {evidence}
    query(c).
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_point_mass_outweighs_a_density(method: str) -> None:
    at_mass = nesymm.compile(MIXED.format(evidence="observe(x, 0.5).")).infer(method=method)
    assert at_mass.probability("c") == 0.0
    assert at_mass.log_evidence == pytest.approx(math.log(0.7), abs=1e-12)
    beside = nesymm.compile(MIXED.format(evidence="observe(x, 0.6).")).infer(method=method)
    assert beside.probability("c") == pytest.approx(1.0, abs=1e-12)
    both = "observe(x, 0.5). evidence(c)."
    forced = nesymm.compile(MIXED.format(evidence=both)).infer(method=method)
    assert forced.probability("c") == pytest.approx(1.0, abs=1e-12)
    assert forced.log_evidence == pytest.approx(math.log(0.3 * normal(0.5, 2, 1)), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_what_has_no_closed_form_is_sampled_with_its_error(method: str) -> None:
    source = "x ~ normal(0, 1). y ~ normal(0, 1). a :- x*x + y*y < 1. 0.5::b. c :- a, b. query(c)."
    posterior = nesymm.compile(source).infer(method=method, samples=20_000, key=1)
    expected = 0.5 * (1 - math.exp(-0.5))
    error = posterior.stderr["c"]
    # Given a sample, b is summed exactly: the error is half that of a.
    a = 2 * expected
    assert error == pytest.approx(0.5 * math.sqrt(a * (1 - a) / 20_000), rel=0.02)
    assert abs(posterior.probability("c") - expected) < 4 * error


def test_a_sampled_variable_tells_about_its_finite_parents() -> None:
    source = """
        0.4::c.
        m(3) :- c.
        m(0) :- not c.
        x(V) ~ normal(M, 1) :- m(M).
        y ~ normal(0, 1).
        big :- x(V), V * y > 1.
        evidence(big).
        query(c).
    """
    posterior = nesymm.compile(source).infer(samples=40_000, key=2)

    def big(mean: float) -> float:
        def given(x: float) -> float:
            return float(scipy.stats.norm.sf(1 / abs(x))) * normal(x, mean, 1)

        return sum(scipy.integrate.quad(given, a, b)[0] for a, b in ((-9, 0), (0, 12)))

    one, other = 0.4 * big(3), 0.6 * big(0)
    assert abs(posterior.probability("c") - one / (one + other)) < 4 * posterior.stderr["c"]
    assert posterior.stderr["c"] < 0.01


# ---------------------------------------------------------------- learning


def test_gradients_of_parameters_equal_finite_differences() -> None:
    model = nesymm.compile(
        "t(0.3)::a. t(0.6)::b :- a. 0.2::b. t(0.4)::c; t(0.5)::d :- b. query(a). evidence(\\+c)."
    )
    with jax.enable_x64(True):
        for method in METHODS:

            def value(p: dict, method: str = method) -> jax.Array:
                return model.with_parameters(p).log_probability("a", method=method)

            start = {k: jnp.asarray(v) for k, v in model.parameters.items()}
            gradients = jax.grad(value)(start)
            assert set(gradients) == {"a", "b", "c", "d"}
            for name in gradients:
                up = value(start | {name: start[name] + 1e-6})
                down = value(start | {name: start[name] - 1e-6})
                numeric = float(up - down) / 2e-6
                assert float(gradients[name]) == pytest.approx(numeric, abs=1e-7), name


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_finite_at_zero_and_one(method: str) -> None:
    model = nesymm.compile("t(0.5)::a. t(0.5)::b. c :- a. c :- b. query(c).")
    with jax.enable_x64(True):
        for values in ((0.0, 0.5), (1.0, 0.5), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
            start = {"a": jnp.asarray(values[0]), "b": jnp.asarray(values[1])}
            gradients = jax.grad(
                lambda p: model.with_parameters(p).log_probability("c", method=method)
            )(start)
            total = 1 - (1 - values[0]) * (1 - values[1])
            assert float(gradients["a"]) == pytest.approx((1 - values[1]) / total, abs=1e-9)
            assert float(gradients["b"]) == pytest.approx((1 - values[0]) / total, abs=1e-9)


DIGITS = """
    :- input(left). :- input(right).
    nn(digit_net, [X], Y, [0, 1, 2]) :: digit(X, Y).
    sum(Z) :- digit(left, A), digit(right, B), Z is A + B.
    query(sum(Z)).
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_neural_annotated_disjunction(method: str) -> None:
    model = nesymm.compile(DIGITS, networks={"digit_net": lambda x: x})
    left, right = np.array([0.1, 1.0, -1.0]), np.array([2.0, 0.0, 0.5])
    posterior = model.infer({"left": left, "right": right}, method=method)
    p, q = (np.exp(x) / np.exp(x).sum() for x in (left, right))
    for total in range(5):
        expected = sum(p[a] * q[total - a] for a in range(3) if 0 <= total - a < 3)
        assert posterior.probability(f"sum({total})") == pytest.approx(expected, abs=1e-6)
    with jax.enable_x64(True):

        def value(x: jax.Array) -> jax.Array:
            return model.log_probability("sum(2)", {"left": x, "right": right}, method=method)

        gradient = jax.grad(value)(jnp.asarray(left))
        for i in range(3):
            step = np.eye(3)[i] * 1e-6
            numeric = (value(left + step) - value(left - step)) / 2e-6
            assert float(gradient[i]) == pytest.approx(float(numeric), abs=1e-7)


# ---------------------------------------------------------------- the posterior object

ALARM = """
    0.1::burglary. 0.2::earthquake.
    0.9::alarm :- burglary, earthquake.
    0.8::alarm :- burglary, \\+earthquake.
    0.1::alarm :- \\+burglary, earthquake.
    evidence(alarm).
    query(burglary). query(earthquake).
"""


@pytest.mark.parametrize("method", METHODS)
def test_samples_marginals_and_the_most_probable_world(method: str) -> None:
    posterior = nesymm.compile(ALARM).infer(method=method)
    both, only_b, only_e = 0.1 * 0.2 * 0.9, 0.1 * 0.8 * 0.8, 0.9 * 0.2 * 0.1
    alarm = both + only_b + only_e
    assert posterior.log_evidence == pytest.approx(math.log(alarm))
    assert posterior.probability("burglary") == pytest.approx((both + only_b) / alarm)
    assert posterior.marginal("earthquake") == pytest.approx(
        {True: (both + only_e) / alarm, False: only_b / alarm}
    )
    world, probability = posterior.most_probable()
    assert (world["burglary"], world["earthquake"]) == (True, False)
    # The causes that do not apply are not drawn, and do not count.
    assert probability == pytest.approx(only_b / alarm)
    n = 4000
    samples = posterior.sample(n, key=3)
    # A world has the one cause that applies in it, and no others.
    causes = {(True, True): "alarm", (True, False): "alarm:2", (False, True): "alarm:3"}
    for sample in samples:
        cause = causes[sample["burglary"], sample["earthquake"]]
        assert sample.keys() == {"burglary", "earthquake", cause} and sample[cause] is True
    for burglary, earthquake, mass in (
        (True, True, both), (True, False, only_b), (False, True, only_e), (False, False, 0.0),
    ):  # fmt: skip
        p = mass / alarm
        count = sum(s["burglary"] == burglary and s["earthquake"] == earthquake for s in samples)
        assert abs(count / n - p) <= 4 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("method", METHODS)
def test_impossible_evidence_is_named(method: str) -> None:
    model = nesymm.compile("0.5::a. b :- a. evidence(a). evidence(\\+b). query(a).")
    with pytest.raises(Impossible, match="the evidence is impossible: it has probability zero"):
        model.infer(method=method)


@pytest.mark.parametrize("method", METHODS)
def test_impossible_evidence_has_no_log_probability(method: str) -> None:
    """It is named where values are known, and not a number where they are not yet."""
    model = nesymm.compile("t(0.5)::a. 0.5::b. evidence(a).\nquery(b).")

    def value(a: jax.Array) -> jax.Array:
        return model.with_parameters({"a": a}).log_probability("b", method=method)

    assert math.exp(value(jnp.asarray(0.1))) == pytest.approx(0.5)
    for attempt in (value, jax.grad(value)):
        with pytest.raises(Impossible, match=r"it has probability zero\n  = note: see .*:1:20"):
            attempt(jnp.asarray(0.0))
    assert math.isnan(jax.jit(value)(0.0))
    found = jax.vmap(value)(jnp.asarray([0.0, 0.1]))
    assert math.isnan(found[0]) and math.exp(found[1]) == pytest.approx(0.5)


def test_mistakes_in_calls_are_explained() -> None:
    model = nesymm.compile("0.5::a. query(a).")
    with pytest.raises(NesymmError, match=r"b is not asked in the program|it asks: a"):
        model.infer().probability("b")
    with pytest.raises(NesymmError, match="the methods are auto, enumerate and circuit"):
        model.infer(method="magic")
    with pytest.raises(NesymmError, match=r"no network called|no network net \(it has: none\)"):
        nesymm.compile("0.5::a. query(a).", networks={"net": lambda x: x})
    with pytest.raises(NesymmError, match="the network digit_net is not given"):
        nesymm.compile(DIGITS).infer({"left": 0, "right": 0})
    with pytest.raises(NesymmError, match="the input right is not given"):
        nesymm.compile(DIGITS, networks={"digit_net": lambda x: x}).infer({"left": np.zeros(3)})


def test_query_strings_are_read_as_terms() -> None:
    posterior = nesymm.compile("0.3::p('A b', [1, 2]). query(p(X, Y)).").infer()
    assert posterior.probability("p( 'A b' , [1,2] )") == pytest.approx(0.3)


def test_without_a_query_values_are_listed() -> None:
    found = nesymm.compile("d(X) ~ uniform_int(1, 2). e ~ uniform_int(3, 4).").infer().queries
    assert found == pytest.approx({"d(1)": 0.5, "d(2)": 0.5, "e(3)": 0.5, "e(4)": 0.5})


def test_without_a_query_a_continuous_value_is_left_open() -> None:
    found = nesymm.compile("x ~ normal(0, 1). 0.3::a.").infer()
    assert found.queries == pytest.approx({"x(_)": 1.0, "a": 0.3})
    assert found.probability("x(_)") == 1.0


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
def test_answers_that_evidence_rules_out_are_listed(method: str) -> None:
    source = """
        1/3::d(I, 1); 1/3::d(I, 2); 1/3::d(I, 3) :- between(1, 2, I).
        s(S) :- d(1, A), d(2, B), S is A * B.
        big :- s(S), S > 5.
        evidence(big).
        query(s(_)).
    """
    found = nesymm.compile(source).infer(method=method).queries
    # Products of two dice: 5, 7 and 8 are none.
    expected = {"s(1)": 0, "s(2)": 0, "s(3)": 0, "s(4)": 0, "s(6)": 2 / 3, "s(9)": 1 / 3}
    assert found == pytest.approx(expected)


def test_a_parameter_out_of_range_is_located() -> None:
    model = nesymm.compile("0.5::b.\nt(0.2)::a :- b. query(a).")
    told = r"parameter a: expected a number from 0 to 1, received 1\.5\n --> .*:2:1\n"
    with pytest.raises(NesymmError, match=told):
        model.with_parameters({"a": 1.5}).log_probability("a")
    model.parameters["a"] = 1.5
    with pytest.raises(Forbidden, match=r"a must lie between 0 and 1, it is 1\.5\n --> .*:2:1\n"):
        model.log_probability("a")


def not_a_number(x: jax.Array) -> jax.Array:
    return jnp.full(2, jnp.nan)


def one_number(x: jax.Array) -> jax.Array:
    return jnp.reshape(x, 1)


@pytest.mark.parametrize(
    ("network", "message"),
    [(not_a_number, "net gave NaN"), (one_number, r"net gave outputs of shape \(1,\), 2 are")],
)
@pytest.mark.parametrize(
    "rules",
    [
        "x(X) ~ normal(net(Z)) :- z(Z). q :- x(X), z(Z), X > Z.",
        "x(X) ~ categorical(net(Z), [a, b]) :- z(Z). q :- x(a).",
        "x(X) ~ normal(net(1)). q :- x(X), z(Z), X > Z * Z.",
    ],
)
def test_what_a_network_gives_is_checked_in_samples(
    rules: str, network: Callable[[jax.Array], jax.Array], message: str
) -> None:
    source = f":- network(net, 2). z(Z) ~ normal(0, 1). {rules} query(q)."
    with pytest.raises(NesymmError, match=message):
        nesymm.compile(source, networks={"net": network}).infer(samples=10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", [1, 2, None])
def test_an_input_with_a_finite_domain_is_a_key_and_an_answer(
    method: str, given: int | None
) -> None:
    """What is given picks one of the lamps; shifted by a die of two it is asked for."""
    source = """
        :- input(at(X), 1..2).
        0.9::lamp(E) :- between(1, 2, E).
        0.5::lamp(E) :- between(1, 2, E), E > 1.
        die(D) ~ uniform_int(0, 1).
        lit :- at(X), lamp(X).
        sum(Y) :- at(X), die(D), Y is X + D.
        0.4::hue(E, red); 0.6::hue(E, blue) :- between(1, 2, E).
        seen(H) :- at(X), hue(X, H).
        query(lit). query(sum(Y)). query(seen(blue)).
    """
    found = nesymm.compile(source).infer({"at": given}, method=method).queries
    assert found["lit"] == pytest.approx({1: 0.9, 2: 0.95, None: 0.0}[given])
    assert found["seen(blue)"] == pytest.approx(0.6 * (given is not None))
    for y in (1, 2, 3):
        likely = given is not None and y - given in (0, 1)
        assert found[f"sum({y})"] == pytest.approx(0.5 * likely)


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_a_number_of_samples_is_a_whole_number(n: Any) -> None:
    with pytest.raises(nesymm.NesymmError, match="n: expected a whole number from 0, received"):
        nesymm.compile("0.5::a. query(a).").infer().sample(n)


@pytest.mark.parametrize("when", ["", "@t"])
def test_a_comparison_guards_what_is_compared(when: str) -> None:
    """Sums and single variables become intervals, each of which may guard another."""
    text = f"""
    x(X){when} ~ normal(0, 1).
    y(Y){when} ~ normal(1, 0.7).
    wins{when} :- x(X){when}, y(Y){when}, 2 * X - 0.5 > Y.
    z(Z){when} ~ beta(2, 3) :- not wins{when}.
    big{when} :- not (z(Z){when}, Z < 0.6).
    query(big{when}).
    """
    model = nesymm.compile(text)
    loses = scipy.stats.norm.cdf(1.5 / np.sqrt(4 + 0.7**2))
    right = 1 - loses * scipy.stats.beta.cdf(0.6, 2, 3)
    if when:
        assert model.filter(steps=1, method="exact").filtered["big@t"] == pytest.approx(right)
    else:
        assert model.infer().probability("big") == pytest.approx(right)
