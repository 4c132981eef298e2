"""Random temporal programs: every method agrees with the enumeration of all worlds.

Exact inference does so to rounding errors. Particles do so on average: the estimate of
the evidence, and that of the evidence times the probability of a query, have no bias.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from interpreter import RunError
from pages import definitions
from random_programs import Case, temporal
from reference import Impossible

import nesymm
from nesymm.inference.methods import Auto, Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.results import Filtered, FilterError

# Some programs are hard for few particles: here it is the mean of many runs that counts.
pytestmark = [
    pytest.mark.compiled,
    pytest.mark.filterwarnings("ignore::nesymm.NesymmWarning"),
]


def some(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=(Phase.generate,),  # each example is compiled: shrinking takes too long
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def cases(draw: DrawFn) -> Case:
    """A temporal program that also asks at every step, and may observe what it asks."""
    case = draw(temporal())
    asked = dict.fromkeys(re.findall(r"^query\((.*)@\w+\)\.$", case.source, re.MULTILINE))
    lines = [f"query({atom}@t)." for atom in asked]
    ground = [atom for atom in asked if "_" not in atom]
    if ground and draw(st.booleans()):
        # Evidence about what is derived couples all that it is derived from.
        when = draw(st.integers(0, case.horizon))
        truth = draw(st.sampled_from(("true", "false")))
        lines.append(f"observe({draw(st.sampled_from(ground))}@{when}, {truth}).")
    return Case(case.source + "\n".join(lines) + "\n", case.horizon, case.data)


def batch_of(case: Case, times: int = 1) -> dict[str, np.ndarray]:
    """The data of a case, repeated as so many sequences."""
    return {n: np.asarray([v] * times, dtype=object) for n, v in case.data.items()}


def enumerate_worlds(model: nesymm.Model, case: Case) -> reference.Result | None:
    """What enumeration finds; None if it refuses the evidence or a rule breaks."""
    try:
        return reference.infer(model.step, case.horizon, by_entity(case.data))
    except (Impossible, RunError):
        return None


def by_entity(data: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Observations of entities 1, 2, … as the reference reads them."""
    return {
        name: [{(i + 1,): v for i, v in enumerate(x)} if isinstance(x, list) else x for x in row]
        for name, row in data.items()
    }


# ---------------------------------------------------------------- exactly


def exact_agrees(case: Case, method: Method) -> None:
    model = nesymm.compile(case.source)
    expected = enumerate_worlds(model, case)
    with jax.enable_x64(True):
        if expected is None:
            with pytest.raises(FilterError, match="sequence 0, step"):
                model.filter(batch_of(case), method=method, steps=case.horizon + 1)
            return
        found = model.filter(batch_of(case), method=method, steps=case.horizon + 1)
    assert found.method == "exact forward"
    assert found.log_evidence[0] == pytest.approx(np.log(expected.evidence), abs=1e-6)
    at_every_step = {n: row[0][~np.isnan(row[0])] for n, row in found.filtered.items()}
    every, one = asked_when(expected)
    assert listed(at_every_step) == pytest.approx(listed(every), abs=1e-6)
    assert listed(found.final) == pytest.approx(listed(one), abs=1e-6)


def asked_when(expected: reference.Result) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Answers at every step, and those to queries about one step."""
    every = {n: row for n, row in expected.filtered.items() if n.endswith("@t")}
    return every, {n: p for n, p in expected.queries.items() if not n.endswith("@t")}


def listed(probabilities: Mapping[str, Any]) -> dict[tuple[str, int], float]:
    """Answers that are possible; the others need no listing."""
    return {
        (name, step): float(p)
        for name, row in probabilities.items()
        for step, p in enumerate(np.atleast_1d(row))
        if p > 1e-9
    }


@some(4)
@given(cases())
def test_exact_forward_agrees_with_enumeration(case: Case) -> None:
    exact_agrees(case, ExactForward())


@pytest.mark.slow
@some(150)
@given(cases(), st.sampled_from((ExactForward(), Auto())))
def test_exact_forward_agrees_with_enumeration_on_many(case: Case, method: Method) -> None:
    exact_agrees(case, method)


def test_impossible_evidence_is_refused_by_all() -> None:
    case = Case("0.5::a@0.\na@t :- a@(t-1).\nobserve(a@t).\nquery(a@t).\n", 1, {"a": [True, False]})
    for method in (ExactForward(), RaoBlackwellised(particles=64), Bootstrap(particles=64)):
        model = nesymm.compile(case.source)
        assert enumerate_worlds(model, case) is None
        with pytest.raises(FilterError, match="sequence 0, step 1"):
            model.filter(batch_of(case), method=method)


def test_evidence_in_the_program_may_be_all_that_is_left_to_blame() -> None:
    """Without the data that is impossible beside it, the program reads no data at all."""
    source = "0.4::p@0.\np@t :- p@(t-1).\nobserve(p@t).\nobserve(p@0, false).\nquery(p@t).\n"
    for method in (ExactForward(), RaoBlackwellised(particles=64)):
        with pytest.raises(FilterError, match=r"sequence 0, step 1.*without p@t it is not"):
            nesymm.compile(source).filter({"p": [[False, True]]}, method=method)


# ---------------------------------------------------------------- with particles

REPEATS, PARTICLES = 100, 500


def particles_agree(case: Case, method: Method) -> None:
    model = nesymm.compile(case.source)
    expected = enumerate_worlds(model, case)
    with jax.enable_x64(True):
        found = model.filter(
            batch_of(case, REPEATS) or None,
            method=method,
            steps=np.full(REPEATS, case.horizon + 1),
            errors="keep",
        )
    if expected is None:
        # Particles may miss the world in which a rule breaks.
        assert found.failures or case_breaks(model, case)
        return
    unbiased(found, expected)


def case_breaks(model: nesymm.Model, case: Case) -> bool:
    try:
        reference.infer(model.step, case.horizon, by_entity(case.data))
    except RunError:
        return True
    except Impossible:
        return False
    return False


def unbiased(found: Filtered, expected: reference.Result) -> None:
    """Averages over the sequences of a batch lie within the errors that they show.

    To these comes what draws cannot show: a world of probability p is not drawn at all
    in 10 / p tries once in e^10 times, and weighs one at most.
    """
    unseen = 10 / (REPEATS * PARTICLES)

    def close(estimates: np.ndarray, exact: float, what: str) -> None:
        error = estimates.std() / np.sqrt(len(estimates))
        assert abs(estimates.mean() - exact) < 4 * error + unseen, what

    evidence = np.exp(found.log_evidence)
    close(evidence, expected.evidence, "evidence")
    every, one = asked_when(expected)
    for name, p in one.items():
        joint = evidence * np.nan_to_num(found.final.get(name, np.zeros(len(evidence))))
        close(joint, expected.evidence * p, name)
    until = np.exp(np.cumsum(found.log_gains, axis=1))
    for name, row in every.items():
        here = found.filtered.get(name, np.zeros(until.shape))
        asked = np.flatnonzero(~np.isnan(here).all(axis=0))
        if len(asked) != len(row):
            continue  # all died before the end
        # What was seen by then is estimated as well: compare both.
        mass = until[:, asked]
        ratio = np.nansum(mass * np.nan_to_num(here[:, asked]), axis=0) / mass.sum(axis=0)
        spread = np.nanstd(mass * (np.nan_to_num(here[:, asked]) - ratio), axis=0)
        error = spread / np.sqrt(len(mass)) / mass.mean(axis=0)
        rare = unseen / mass.mean(axis=0)
        assert (abs(ratio - row) < 4 * error + rare).all(), name


# docs/extending.md adds a scheme and an engine.
ADDED = definitions("extending.md")
METHODS: tuple[Method, ...] = (
    *(
        kind(particles=PARTICLES, resampling=scheme, resample_below=below)
        for kind in (RaoBlackwellised, Bootstrap)
        for scheme in ("systematic", "multinomial", "stratified", "residual")
        for below in ("always", 0.5, 0)
    ),
    RaoBlackwellised(particles=PARTICLES, resampling=ADDED["killing"], resample_below="always"),
    ADDED["SoftResampling"](particles=PARTICLES),
)


@some(3)
@given(cases(), st.sampled_from(METHODS))
def test_particles_agree_with_enumeration(case: Case, method: Method) -> None:
    particles_agree(case, method)


@pytest.mark.slow
@some(120)
@given(cases(), st.sampled_from(METHODS))
def test_particles_agree_with_enumeration_on_many(case: Case, method: Method) -> None:
    particles_agree(case, method)


# A static variable, a lag of two steps, entities that share a cause, and missing data.
EVERYTHING = Case(
    """
    e(E) :- between(1, 2, E).
    0.4::s.
    0.5::ill(E)@0 :- e(E).
    0.7::ill(E)@t :- ill(E)@(t-1).
    0.3::ill(E)@t :- e(F), F \\= E, ill(F)@(t-1), s.
    level(V)@0 ~ categorical([0.2, 0.3, 0.5], [0, 1, 2]).
    level(V)@t ~ categorical([0.6, 0.2, 0.2], [0, 1, 2]) :- level(W)@(t-1), W > 0.
    level(V)@t ~ uniform_int(0, 2) :- level(0)@(t-1).
    again@t :- ill(1)@t, ill(1)@(t-2).
    one@t :- ill(E)@t, e(F), F \\= E, \\+ ill(F)@t.
    0.9::o@t :- one@t.
    0.2::o@t :- \\+ one@t, level(V)@t, V > 1.
    observe(o@t).
    query(ill(_)@t). query(level(_)@T). query(again@T). query(s). query(one@1).
    """,
    3,
    {"o": [True, None, True, True]},
)
# Entities that are observed one by one, with a gap in the data of one of them.
HEARD = Case(
    """
    e(E) :- between(1, 3, E).
    0.3::ill(E)@0 :- e(E).
    0.7::ill(E)@t :- ill(E)@(t-1).
    0.1::ill(E)@t :- e(E), \\+ ill(E)@(t-1).
    0.6::heard(E)@t :- ill(E)@t.
    0.2::heard(E)@t :- e(E), \\+ ill(E)@t.
    observe(heard(E)@t). query(ill(2)@t).
    """,
    2,
    {"heard": [[True, False, True], [None, False, True], [False, True, False]]},
)
# Entities that one observation is about, all alike: any of them may have brought it about.
BITES = Case(
    """
    e(E) :- between(1, 3, E).
    place(E, X)@0 ~ uniform_int(1, 2) :- e(E).
    place(E, X)@t :- place(E, X)@(t-1), \\+ go(E)@t.
    place(E, 3-X)@t :- place(E, X)@(t-1), go(E)@t.
    0.4::go(E)@t :- e(E).
    0.7::bite(E)@t :- place(E, 2)@t.
    hit@t :- bite(E)@t.
    near@t :- place(E, 2)@t.
    both@t :- hit@t, near@t.
    observe(hit@t). query(near@t). query(both@t).
    """,
    1,
    {"hit": [False, True]},
)


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(HEARD, id="heard"), pytest.param(BITES, id="bites")])
def test_entities_alike(case: Case) -> None:
    exact_agrees(case, ExactForward())
    particles_agree(case, METHODS[0])


TOTALS = """
is(E) :- between(1, 5, E).
0.6::strikes(E)@t :- is(E).
damage(E, D)@t ~ uniform_int(1, 4) :- is(E).
wound(E, D)@t :- strikes(E)@t, damage(E, D)@t.
wounds(W)@t :- aggregate_all(sum(D), wound(_, D)@t, W).
much@t :- wounds(W)@t, W > 3.
observe(much@t). query(much@t).
"""


@pytest.mark.parametrize("method", [ExactForward(), RaoBlackwellised(particles=10)])
def test_totals_of_many_are_summed_one_by_one(method: Method) -> None:
    """Five blows of 0 to 4 points have 32,768 joint causes and 21 totals."""
    total = np.ones(1)
    for _ in range(5):
        total = np.convolve(total, [0.4, 0.15, 0.15, 0.15, 0.15])
    often = total[4:].sum()
    with jax.enable_x64(True):
        found = nesymm.compile(TOTALS).filter({"much": [[1, 0, 1]]}, method=method)
    expected = 2 * np.log(often) + np.log(1 - often)
    assert found.log_evidence[0] == pytest.approx(expected, abs=1e-9)


def test_entities_that_one_observation_couples_stay_side_by_side() -> None:
    step = nesymm.compile(BITES.source).step
    engine = ParticleFilter(step, frozenset({"hit"}), np.float64, 2, particles=1000, solve=True)
    assert engine.later.split == engine.first.split == frozenset()


# Evidence that makes resampling due, a static variable and a gap in the data.
WEATHER = Case(
    """
    0.4::wet_year.
    0.3::rain@0.
    0.8::rain@t :- rain@(t-1).
    0.2::rain@t :- wet_year.
    0.95::umbrella@t :- rain@t.
    0.1::umbrella@t :- not rain@t.
    observe(umbrella@t). query(rain@t). query(rain@1). query(wet_year).
    """,
    4,
    {"umbrella": [True, True, None, False, True]},
)
FEW = (
    METHODS[0],  # Rao-Blackwellised: systematic, always
    Bootstrap(particles=PARTICLES, resampling="residual", resample_below=0.5),
    Bootstrap(particles=PARTICLES, resampling="multinomial", resample_below="always"),
    Bootstrap(particles=PARTICLES, resampling="stratified", resample_below="always"),
    Bootstrap(particles=PARTICLES, resample_below=0),
    *METHODS[-2:],  # those of docs/extending.md
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RaoBlackwellised, Bootstrap])
def test_the_program_with_everything(kind: Any) -> None:
    particles_agree(EVERYTHING, kind(particles=PARTICLES))


@pytest.mark.parametrize(
    "method",
    [m if m in FEW else pytest.param(m, marks=pytest.mark.slow) for m in METHODS],
    ids=lambda m: re.sub(r"<function (\w+) .*?>", r"\1", str(m)),
)
def test_every_scheme_and_threshold(method: Method) -> None:
    particles_agree(WEATHER, method)


@pytest.mark.slow
def test_the_program_with_everything_exactly() -> None:
    exact_agrees(EVERYTHING, ExactForward())


# A query over entities whose condition is long enough to be named piece by piece.
LONG_CONDITION = Case(
    """
    e(E) :- between(1, 3, E).
    0.75::s.
    v(E,0)@0 :- e(E).
    p(E)@t :- e(E), t mod 2 =:= 0.
    p(E)@t :- e(E), s, v(E,W)@(t-1), W < 2.
    0.5::q(E)@t :- e(E), v(E,W)@0, W < 2, p(1)@(t-1).
    observe(q(3)@t). query(q(_)@1).
    """,
    1,
    {"q(3)": [False, True]},
)


def test_a_long_condition_is_told_apart_for_each_entity() -> None:
    exact_agrees(LONG_CONDITION, ExactForward())
