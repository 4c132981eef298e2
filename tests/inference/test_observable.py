"""Observations of continuous values: what is weighed, what is remembered, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import nesymm
from nesymm.errors import ProgramError
from nesymm.inference.methods import Bootstrap, RaoBlackwellised

METHODS = ("exact", "rao-blackwellised", "bootstrap")
IN_THE_SLOW_SUITE = [pytest.param(m, marks=pytest.mark.slow) for m in METHODS[1:]]

STUCK = """\
0.3::stuck@t.
reading(V)@t ~ normal(0, 1) :- not stuck@t.
reading(0.0)@t :- stuck@t.
observe(reading@t).
query(stuck@t).
"""
READINGS = {"reading": np.array([[0.0, 0.5]])}


# --- a point mass in some worlds, a density in others ------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_a_mixture_is_refused(method: str) -> None:
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(STUCK).filter(READINGS, method=method)
    message = str(caught.value)
    assert caught.value.codes == ("E320",)
    assert "reading is a fixed value in some worlds and drawn from a density in others" in message
    assert "program>:4:1" in message and "observe(reading@t)." in message
    assert "help: draw reading in all worlds" in message


def test_a_mixture_is_refused_wherever_a_filter_runs() -> None:
    model = nesymm.compile(STUCK)
    for run in (
        lambda: model.smooth(READINGS),
        lambda: model.trajectories(READINGS, 3),
        lambda: model.log_evidence(READINGS),
        lambda: model.stream(),
    ):
        with pytest.raises(ProgramError, match="E320"):
            run()


def test_a_value_that_is_kept_is_a_point_mass() -> None:
    kept = STUCK.replace("reading(0.0)@t :-", "reading(9.0)@0 :- stuck@0.\nreading(V)@t :-")
    kept = kept.replace(":- stuck@t.", ":- stuck@t, reading(V)@(t-1).")
    with pytest.raises(ProgramError, match="E320"):
        nesymm.compile(kept).filter(READINGS, method="rao-blackwellised")


def test_nothing_is_mixed_where_the_value_is_not_observed() -> None:
    result = nesymm.compile(STUCK).filter(steps=3)
    np.testing.assert_allclose(result.filtered["stuck@t"], 0.3, atol=0.06)


@pytest.mark.parametrize("method", METHODS)
def test_worlds_that_data_tell_apart_are_not_mixed(method: str) -> None:
    model = nesymm.compile(STUCK + "observe(stuck@t).\n")
    data = {"reading": [[0.0, 0.5], [1.0, 0.0]], "stuck": [[1, 0], [0, 1]]}
    result = model.filter(data, method=method)
    both = np.log(0.3) + np.log(0.7)
    if method != "bootstrap":  # it draws whether the sensor is stuck
        expected = both + stats.norm.logpdf([0.5, 1.0])
        np.testing.assert_allclose(result.log_evidence, expected, rtol=1e-5)
    np.testing.assert_array_equal(result.filtered["stuck@t"], data["stuck"])


def test_steps_may_differ() -> None:
    model = nesymm.compile("""
        0.5::up@t.
        x(0.0)@0.
        x(V)@t ~ normal(1, 1) :- x(_)@(t-1), up@t.
        x(V)@t ~ normal(-1, 1) :- x(_)@(t-1), not up@t.
        observe(x@t).
        query(up@t).
    """)
    result = model.filter({"x": [[0.0, 0.4, -2.0]]}, method="rao-blackwellised")
    values = np.array([0.4, -2.0])
    up, down = stats.norm.pdf(values, 1), stats.norm.pdf(values, -1)
    np.testing.assert_allclose(result.filtered["up@t"][0, 1:], up / (up + down), rtol=1e-4)
    np.testing.assert_allclose(result.log_evidence, np.log((up + down) / 2).sum(), rtol=1e-4)


@pytest.mark.parametrize("method", ["exact", IN_THE_SLOW_SUITE[0]])
def test_numbers_that_are_counted_have_masses(method: str) -> None:
    model = nesymm.compile("""
        0.3::broken@t.
        count(N)@t ~ poisson(2) :- not broken@t.
        count(0)@t :- broken@t.
        observe(count@t).
        query(broken@t).
    """)
    result = model.filter({"count": [[0, 3]]}, method=method)
    expected = 0.3 / (0.3 + 0.7 * stats.poisson.pmf(0, 2))
    np.testing.assert_allclose(result.filtered["broken@t"], [[expected, 0.0]], rtol=1e-5)


# --- one density for one value -----------------------------------------------------------


@pytest.mark.parametrize(
    "observed",
    [
        "y(V)@t :- x(V)@t. observe(x@t). observe(y@t).",
        "observe(x@t). observe(x@1, 0.5).",
        "observe(x@(0:1), 0.5). observe(x@T, 0.5).",
        "s(V) ~ normal(0, 1). x(V)@t :- s(V). observe(x@t).",
    ],
)
def test_a_value_is_observed_once(observed: str) -> None:
    drawn = "" if "s(V)" in observed else "x(V)@t ~ normal(0, 1). "
    model = nesymm.compile(drawn + observed)
    names = [o.name for o in model.step.observations if o.value is None]
    data = {n: np.full((1, 2), 0.5) for n in names}
    with pytest.raises(ProgramError, match=r"E311.*[sx] is observed more than once"):
        model.filter(data or None, steps=None if data else 1 + 1)


@pytest.mark.parametrize("method", ["exact", *IN_THE_SLOW_SUITE])
def test_different_steps_and_keys_are_different_values(method: str) -> None:
    model = nesymm.compile("""
        x(1, V)@t ~ normal(0, 1). x(2, V)@t ~ normal(0, 1).
        observe(x(1)@0, 0.5). observe(x(2)@0, 1.0). observe(x(1)@T, 1.5).
    """)
    expected = stats.norm.logpdf([0.5, 1.0, 1.5]).sum()
    result = model.filter(steps=3, method=method)
    np.testing.assert_allclose(result.log_evidence, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "method", [RaoBlackwellised, pytest.param(Bootstrap, marks=pytest.mark.slow)]
)
def test_one_element_tells_nothing_of_the_others(method: type) -> None:
    """All elements are read by one rule, and tied by what turns their means around."""
    model = nesymm.compile("""
        0.5::turned@t.
        mean(B, B)@t :- between(1, 3, B), not turned@t.
        mean(B, M)@t :- between(1, 3, B), turned@t, M is -B.
        x(B, V)@t ~ normal(M, 1) :- mean(B, M)@t.
        above@t :- x(B, V)@t, V > 3.
        observe(x(1)@0, 0.2). observe(x(2)@0, -0.1).
        query(above@t). query(turned@t).
    """)
    n = 10000
    result = model.filter(steps=1, method=method(particles=n))
    joint = np.array([0.5 * stats.norm.pdf([0.2, -0.1], [s, 2 * s]).prod() for s in (1, -1)])
    truths = {"turned@t": joint[1], "above@t": joint @ stats.norm.sf(3, [3, -3])}
    for query, truth in truths.items():
        truth /= joint.sum()
        error = np.sqrt(truth * (1 - truth) / result.effective[0, 0])
        np.testing.assert_allclose(result.filtered[query], truth, atol=5 * error)
    # Half of the particles of a bootstrap filter draw each sign; the evidence is their mean.
    error = 0.5 * abs(np.diff(joint)[0]) / joint.sum() * 2 / np.sqrt(n)
    np.testing.assert_allclose(result.log_evidence, np.log(joint.sum()), atol=5 * error + 1e-5)


def test_a_value_of_an_earlier_step_has_no_density() -> None:
    model = nesymm.compile("x(V)@t ~ normal(0, 1). y(V)@t :- x(V)@(t-1). observe(y@t).")
    with pytest.raises(ProgramError, match=r"E311.*y is a continuous value of an earlier step"):
        model.filter({"y": np.array([[np.nan, 0.3]])})


# --- what is observed of a static variable -----------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_later_steps_know_observed_static_variables(method: str) -> None:
    """One is read by the first step, one only by later steps, one is the mean of what is seen."""
    model = nesymm.compile("""
        level(V) ~ normal(0, 1). observe(level, 2.0).
        high@t :- level(V), V > 1.5.
        on@0. on@t :- on@(t-1).
        count(N) ~ poisson(2). observe(count, 4).
        many@t :- on@(t-1), count(N), N > 3.
        mean(M) ~ normal(0, 1). observe(mean, 1.5).
        x(V)@t ~ normal(M, 1) :- mean(M). observe(x@t).
        query(high@t). query(many@t).
    """)
    data = np.array([[1.0, 2.0, 3.0]])
    result = model.filter({"x": data}, method=method)
    np.testing.assert_allclose(result.filtered["high@t"], 1.0, rtol=1e-6)
    np.testing.assert_allclose(result.filtered["many@t"], [[0.0, 1.0, 1.0]], rtol=1e-6)
    of_statics = stats.norm.logpdf([2.0, 1.5]).sum() + stats.poisson.logpmf(4, 2)
    expected = of_statics + stats.norm.logpdf(data, 1.5).sum()
    np.testing.assert_allclose(result.log_evidence, expected, rtol=1e-5)


# Five standard errors of the logarithm of the share that a bootstrap filter with 1,000
# particles draws right: one in six.
DRAWN = 5 * np.sqrt(5 / 1000)


@pytest.mark.parametrize("method", ["exact", *IN_THE_SLOW_SUITE])
def test_later_steps_know_an_observed_finite_static_variable(method: str) -> None:
    model = nesymm.compile("""
        x(V) ~ uniform_int(0, 5). observe(x, 4).
        on@0. on@t :- on@(t-1).
        high@t :- on@(t-1), x(V), V > 3.
        query(high@t).
    """)
    result = model.filter(steps=4, method=method)
    np.testing.assert_allclose(result.filtered["high@t"], [[0.0, 1.0, 1.0, 1.0]], rtol=1e-6)
    error = DRAWN if method == "bootstrap" else 1e-5
    np.testing.assert_allclose(result.log_evidence, np.log(1 / 6), atol=error)


@pytest.mark.parametrize("method", ["exact", *IN_THE_SLOW_SUITE])
def test_a_finite_static_variable_is_the_same_at_all_steps(method: str) -> None:
    model = nesymm.compile("x(V) ~ uniform_int(0, 5). y(V)@t :- x(V). observe(y@t).")
    data = {"y": [[2, 2, 2], [2, 2, 3]]}
    result = model.filter(data, method=method, errors="keep")
    assert result.log_evidence[1] == -np.inf
    assert [(f.sequence, f.step) for f in result.failures] == [(1, 2)]
    error = DRAWN if method == "bootstrap" else 1e-5
    np.testing.assert_allclose(result.log_evidence[0], np.log(1 / 6), atol=error)


def test_a_static_variable_that_is_observed_in_some_worlds() -> None:
    model = nesymm.compile("""
        0.5::first.
        a(V) ~ normal(0, 1). b(V) ~ normal(0, 2).
        seen(V) :- first, a(V).
        seen(V) :- not first, b(V).
        observe(seen, 2.0).
        high@t :- a(V), V > 1.5.
        query(high@t).
    """)
    with pytest.raises(nesymm.errors.NesymmError, match="observed only in some worlds"):
        model.filter(steps=3, method="exact")
    n = 4000
    result = model.filter(steps=3, method=RaoBlackwellised(particles=n))
    first, second = stats.norm.pdf(2.0), stats.norm.pdf(2.0, 0, 2)
    share = first / (first + second)
    expected = share + (1 - share) * stats.norm.sf(1.5)
    error = np.sqrt(expected * (1 - expected) / n)
    np.testing.assert_allclose(result.filtered["high@t"], expected, atol=5 * error)


# --- what is reported --------------------------------------------------------------------

WALK = """
threshold(H) ~ normal(0, 1).
observe(threshold, 0.3).
x(V)@0 ~ normal(0, 1).
x(V)@t ~ normal(W, 1) :- x(W)@(t-1).
observe(x@t).
high@t :- x(V)@t, threshold(H), V > H.
query(high@t).
"""


def test_what_is_generated_holds_what_is_observed() -> None:
    data = {"x": np.array([[0.1, np.nan, 0.4]], np.float32)}
    generated = nesymm.compile(WALK).generate(data, 5)
    drawn = generated.values
    np.testing.assert_allclose(drawn["threshold"], 0.3, rtol=1e-6)
    np.testing.assert_array_equal(drawn["x"][0, :, 0], data["x"][0, 0])
    np.testing.assert_array_equal(drawn["x"][0, :, 2], data["x"][0, 2])
    np.testing.assert_array_equal(generated.draws["x:2"][0, :, 2], data["x"][0, 2])
    between = generated.draws["x:2"][0, :, 1]
    assert len(set(between.tolist())) > 1
    np.testing.assert_array_equal(between, drawn["x"][0, :, 1])
    high = np.stack([np.zeros(5, bool), between > 0.3, np.ones(5, bool)], axis=-1)
    np.testing.assert_array_equal(generated.asked["high@t"][0], high)
