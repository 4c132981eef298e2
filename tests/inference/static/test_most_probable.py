"""The most probable world: against all worlds of the reference interpreter."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy.stats
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from interpreter import State, World, places
from random_programs import PROBABILITIES, graphs, static_programs
from reference import worlds

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.static.solver import ENUMERATE_WORLDS, Impossible
from nesymm.inference.static.sources import Drawn
from nesymm.ir.terms import atom_text
from nesymm.model import Model

METHODS = ("enumerate", "circuit")
SETTINGS = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# The oracle looks at so many worlds and no more.
MANY = 3_000


def all_worlds(model: Model, names: set[str]) -> dict[frozenset[tuple[str, Any]], float]:
    """The joint probabilities of the evidence with each world, of variables of some names.

    Everything whose guard holds is drawn, whether or not anything looks at it; other
    variables than those named are summed out.
    """
    step = model.step

    def run(choose: Any) -> tuple[float, frozenset[tuple[str, Any]]]:
        world = World(step, 0, 0, State(), {}, choose, model.networks, model.parameters)
        for variable in step.variables:
            if variable.finite:
                for place in places(variable.axes):
                    world.draw(variable.name, tuple(place.values()))
        weight = math.prod(world.observed(observation, {}) for observation in step.observations)
        drawn = set()
        for (name, key), value in world.drawn.items():
            variable = world.variables[name]
            shown = atom_text(name, key) if key else name
            if shown in names:
                assert variable.support is not None
                drawn.add((shown, variable.support[variable.outcomes.index(value)]))
        return weight, frozenset(drawn)

    found: dict[frozenset[tuple[str, Any]], float] = {}
    for count, (probability, (weight, world)) in enumerate(worlds(run)):
        assume(count < MANY)
        found[world] = found.get(world, 0.0) + probability * weight
    return found


def worlds_agree(source: str) -> None:
    """Both methods find a world that no world beats, and its probability."""
    model = nesymm.compile(source)
    problem = model.solver().problem
    # A circuit would stand in for a larger table.
    methods = METHODS if problem.worlds.states <= ENUMERATE_WORLDS else METHODS[1:]
    try:
        posteriors = [model.infer(method=method) for method in methods]
    except Impossible:
        assume(False)
        return
    names = {s.name for s in problem.encoding.sources if isinstance(s, Drawn)}
    joint = all_worlds(model, names)
    evidence = math.exp(posteriors[0].log_evidence)
    assert sum(joint.values()) == pytest.approx(evidence)
    for posterior in posteriors:
        world, probability = posterior.most_probable()
        assert probability * evidence == pytest.approx(max(joint.values()))
        assert joint[frozenset(world.items())] == pytest.approx(max(joint.values()))


@SETTINGS
@given(static_programs())
def test_the_most_probable_worlds_of_random_programs(source: str) -> None:
    worlds_agree(source)


@settings(SETTINGS, max_examples=30)
@given(graphs())
def test_the_most_probable_worlds_of_graphs(source: str) -> None:
    worlds_agree(source)


@st.composite
def dependent(draw: DrawFn) -> str:
    """Variables whose distributions, and whether they are drawn, depend on others."""

    def pick(*options: str) -> str:
        return draw(st.sampled_from(options))

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    def condition(earlier: int) -> str:
        """What has to hold, besides that x of the variable before has the value X."""
        return pick("", "", f", X {pick('>', '=<', '=:=')} {number(1, 2)}", f", a{earlier}", ", b")

    p = draw(st.lists(st.sampled_from(PROBABILITIES), min_size=4, max_size=4))
    lines = [f"{p[0]}::b.", f"x0(V) ~ uniform_int({number(0, 1)}, {number(1, 3)})."]
    lines.append(f"{p[1]}::a0 :- x0({number(0, 3)}).")
    count = number(1, 2)
    for i in range(1, count + 1):
        body = f"x{i - 1}(X){condition(i - 1)}"
        lines.append(
            pick(
                f"x{i}(V) ~ uniform_int(X, X + {number(0, 2)}) :- {body}.",
                f"x{i}(V) ~ uniform_int(0, X) :- {body}, X >= 0.",
                f"x{i}(V) ~ binomial(X, {p[2]}) :- {body}.",
                f"x{i}(V) ~ categorical([P, Q], [1, 3]) :- {body}, P is (X + 1) / 9, Q is 1 - P.",
                f"{p[2]}::x{i}(X); 0.1::x{i}(0) :- {body}.",
            )
        )
        lines.append(
            pick(
                f"{p[3]}::a{i} :- x{i}(X), X > {number(0, 2)}.",
                f"P::a{i} :- x{i}(X), P is (X + 1) / 9.",
                f"{p[3]}::k{i}(Z) :- between(0, 2, Z), \\+ Z = 1.\na{i} :- x{i}(X), k{i}(X).",
                f"0.2::a{i} :- x{i}(X), \\+ a{i - 1}.\na{i} :- x{i}({number(0, 3)}), b.",
            )
        )
    lines += [f"query(x{i}(_)). query(a{i})." for i in range(count + 1)]
    seen = f"a{number(0, count)}"
    lines += [pick("", f"evidence({seen}).", f"evidence({seen}, false).")]
    return "\n".join(lines)


@SETTINGS
@given(dependent())
def test_the_most_probable_worlds_of_dependent_variables(source: str) -> None:
    worlds_agree(source)


@pytest.mark.slow
@settings(SETTINGS, max_examples=600)
@given(st.one_of(dependent(), dependent(), static_programs(), graphs()))
def test_the_most_probable_worlds_of_many_programs(source: str) -> None:
    worlds_agree(source)


# ---------------------------------------------------------------- by hand


@pytest.mark.parametrize("method", METHODS)
def test_choices_that_do_not_apply_do_not_count(method: str) -> None:
    """If both cases of y counted in every world, x = 2 would seem to be the better one."""
    source = """
        x(V) ~ categorical([0.4, 0.6], [1, 2]).
        p(1, 0.9). p(2, 0.5).
        y(V) ~ bernoulli(P) :- x(X), p(X, P).
        query(y(_)).
    """
    world, probability = nesymm.compile(source).infer(method=method).most_probable()
    assert world == {"x": 1, "y": 1}
    assert probability == pytest.approx(0.4 * 0.9)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_drawn_is_not_listed(method: str) -> None:
    source = "0.4::a. v(V) ~ uniform_int(1, 4) :- a. big :- v(V), V > 1. query(big)."
    world, probability = nesymm.compile(source).infer(method=method).most_probable()
    assert (world, probability) == ({"a": False}, pytest.approx(0.6))
    observed = nesymm.compile(source + " evidence(big).").infer(method=method)
    world, probability = observed.most_probable()
    assert world["a"] is True and world["v"] in (2, 3, 4)
    assert probability == pytest.approx(1 / 3)


@pytest.mark.parametrize("method", METHODS)
def test_densities_and_intervals_count(method: str) -> None:
    source = """
        c ~ bernoulli(0.3).
        x(V) ~ normal(2, 1) :- c.
        x(V) ~ normal(0, 0.5) :- not c.
        y(V) ~ normal(1, 1) :- c.
        far :- y(V), V > 0.5.
        observe(x, 0.8).
        query(c). query(far).
    """
    posterior = nesymm.compile(source).infer(method=method)
    far = scipy.stats.norm.cdf(0.5)
    one = 0.3 * scipy.stats.norm.pdf(0.8, 2, 1)
    other = 0.7 * scipy.stats.norm.pdf(0.8, 0, 0.5)
    world, probability = posterior.most_probable()
    assert one * far < other
    assert world == {"c": False}
    assert probability == pytest.approx(other / (one + other))
    forced = nesymm.compile(source + "evidence(c).").infer(method=method)
    world, probability = forced.most_probable()
    assert world == {"c": True, "interval of y": 1}
    assert probability == pytest.approx(far)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("observed", "c"), [(0.5, False), (0.6, True)])
def test_a_point_mass_outweighs_a_density(method: str, observed: float, c: bool) -> None:
    source = f"""
        c ~ bernoulli(0.3). x(V) ~ normal(2, 1) :- c. x(0.5) :- not c.
        observe(x, {observed}). query(c).
    """
    world, probability = nesymm.compile(source).infer(method=method).most_probable()
    assert (world, probability) == ({"c": c}, pytest.approx(1.0))


@pytest.mark.parametrize("method", METHODS)
def test_data_parameters_and_networks_decide(method: str) -> None:
    source = """
        :- input(image).
        nn(net, [X], Y, [0, 1, 2])::digit(X, Y).
        t(0.5)::on :- digit(image, Y), Y > 0.
        observe(on). query(digit(image, _)).
    """
    model = nesymm.compile(source, networks={"net": lambda x: x}, parameters={"on": 0.9})
    logits = [math.log(0.5), math.log(0.3), math.log(0.2)]
    for on, digit, joint, evidence in ((True, 1, 0.27, 0.45), (False, 0, 0.5, 0.55)):
        posterior = model.infer({"on": on, "image": logits}, method=method)
        world, probability = posterior.most_probable()
        assert digit in world.values() and len(world) == 1 + on
        assert probability == pytest.approx(joint / evidence, rel=1e-5)


def test_a_long_chain_is_quick() -> None:
    """Sixty variables, each with a choice for both values of the one before."""
    steps = (f"x{i}(V) ~ bernoulli(P) :- x{i - 1}(X), p(X, P)." for i in range(1, 60))
    source = f"""
        x0(V) ~ bernoulli(0.6). p(0, 0.2). p(1, 0.7).
        {" ".join(steps)}
        query(x59(_)). evidence(x59(1)).
    """
    world, probability = nesymm.compile(source).infer().most_probable()
    # It pays to stay at 0, which is likelier than staying at 1, and to leave at the end.
    assert [world[f"x{i}"] for i in range(60)] == [0] * 59 + [1]
    evidence = 0.6
    for _ in range(59):
        evidence = 0.7 * evidence + 0.2 * (1 - evidence)
    assert probability == pytest.approx(0.4 * 0.8**58 * 0.2 / evidence)


def test_sampled_programs_refuse() -> None:
    plane = "x ~ normal(0, 1). y ~ normal(0, 1). a :- x * y > 1. 0.5::b. c :- a, b. query(c)."
    with pytest.raises(NesymmError, match="only answers its queries"):
        nesymm.compile(plane).infer(samples=100).most_probable()
