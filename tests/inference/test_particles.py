"""Particles and trajectories: what is resampled, drawn and traced is what evidence allows."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from interpreter import State, World, places
from random_programs import Case, temporal
from reference import worlds
from scipy.stats import norm

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised
from nesymm.inference.resampling import SCHEMES
from nesymm.inference.trajectories import Trajectories
from nesymm.ir.step import StepProgram
from nesymm.ir.terms import atom_text

EXAMPLES = Path(__file__).parents[2] / "examples"

# ---------------------------------------------------------------- resampling schemes

WEIGHTS = np.asarray([0.0, 0.02, 0.3, 0.0, 0.11, 0.25, 0.07, 0.25, 0.0])


def descendants(scheme: str, weights: np.ndarray, times: int, seed: int = 0) -> np.ndarray:
    """How often each particle was chosen, [times, particle]."""
    table = jnp.asarray(np.repeat(weights[None], times, axis=0), jnp.float32)
    ancestors = np.asarray(SCHEMES[scheme](jax.random.key(seed), table))
    return np.stack([(ancestors == i).sum(axis=1) for i in range(len(weights))], axis=1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_expected_numbers_of_descendants(scheme: str) -> None:
    times = 20_000
    counts = descendants(scheme, WEIGHTS, times)
    assert (counts.sum(axis=1) == len(WEIGHTS)).all()
    expected = len(WEIGHTS) * WEIGHTS
    errors = counts.std(axis=0) / np.sqrt(times)
    assert (abs(counts.mean(axis=0) - expected) <= 4 * errors + 1e-6).all()
    off = abs(counts - expected)
    if scheme == "systematic":
        assert off.max() < 1
    elif scheme == "stratified":
        assert off.max() < 2
    elif scheme == "residual":
        assert (counts >= np.floor(expected)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_weights_keep_everyone(scheme: str) -> None:
    counts = descendants(scheme, np.full(8, 1 / 8), 50)
    if scheme == "multinomial":
        assert (counts != 1).any()
    else:
        assert (counts == 1).all() if scheme != "stratified" else (counts >= 0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("particles", [10, 1000, 20_000])
def test_a_particle_of_weight_zero_never_survives(scheme: str, particles: int) -> None:
    """Not even by the rounding of long sums."""
    rng = np.random.default_rng(particles)
    batch = 400_000 // particles
    weights = rng.exponential(size=(batch, particles)) * (rng.random((batch, particles)) < 0.3)
    weights[:, 0] = weights[:, -1] = 0
    weights[:, particles // 2] = 1
    table = jnp.asarray(weights / weights.sum(axis=1, keepdims=True), jnp.float32)
    for seed in range(3):
        ancestors = np.asarray(SCHEMES[scheme](jax.random.key(seed), table))
        assert (np.take_along_axis(weights, ancestors, axis=1) > 0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_only_particle_alive_takes_all(scheme: str) -> None:
    for place in (0, 3, 6):
        weights = np.eye(7)[place]
        assert (descendants(scheme, weights, 5)[:, place] == 7).all()


# ---------------------------------------------------------------- after resampling

# A counter that moves at every step, and evidence that makes resampling due.
COUNTER = """
    n(0)@0.
    n(N+1)@t :- n(N)@(t-1), N < 9.
    side(S)@0 ~ categorical([0.5, 0.5], [left, right]).
    side(left)@t :- side(right)@(t-1).
    side(right)@t :- side(left)@(t-1).
    0.95::o@t :- side(left)@t.
    0.05::o@t :- side(right)@t.
    observe(o@t). query(n(_)@t). query(side(left)@t).
"""


@pytest.mark.parametrize("kind", [RaoBlackwellised, Bootstrap])
def test_the_discrete_state_advances_after_resampling(kind: Any) -> None:
    model = nesymm.compile(COUNTER)
    seen = np.asarray([[True, False, True, False, True]] * 3)
    method = kind(particles=100, resample_below="always")
    found = model.filter({"o": seen}, method=method)
    assert found.resampled[:, :-1].all()
    for t in range(5):
        assert found.filtered[f"n({t})@t"][:, t] == pytest.approx(1)
    left = [0.95 ** (t + 1) / (0.95 ** (t + 1) + 0.05 ** (t + 1)) for t in range(5)]
    expected = [p if t % 2 == 0 else 1 - p for t, p in enumerate(left)]
    assert found.filtered["side(left)@t"].mean(axis=0) == pytest.approx(expected, abs=0.03)
    drawn = model.trajectories({"o": seen}, 20, method=method)
    assert (drawn.values["n"] == np.arange(5)).all()
    sides = drawn.values["side"]
    assert (sides[:, :, 1:] != sides[:, :, :-1]).all()


# Exactly one of two coins, which remember how they fell.
COINS = """
    0.5::a@0.   0.5::b@0.
    0.7::a@t :- a@(t-1).   0.4::a@t :- not a@(t-1).
    0.7::b@t :- b@(t-1).   0.4::b@t :- not b@(t-1).
    one@t :- a@t, not b@t.
    one@t :- b@t, not a@t.
    observe(one@t). query(a@t). query(b@t).
"""


@pytest.mark.parametrize("kind", [RaoBlackwellised, Bootstrap, ExactForward])
def test_a_coupled_pair_is_never_drawn_into_what_evidence_forbids(kind: Any) -> None:
    model = nesymm.compile(COINS)
    data = {"one": np.asarray([[True] * 8, [False] * 8, [True, False] * 4])}
    method = ExactForward() if kind is ExactForward else kind(particles=500)
    values = model.trajectories(data, 200, method=method).values
    a, b = values["a"], values["b"]
    assert ((a != b) == data["one"][:, None, :]).all()
    # Both coins are drawn, not one of them only.
    assert 0.2 < a[0].mean() < 0.8
    assert 0.2 < b[0].mean() < 0.8


# ---------------------------------------------------------------- the paper's game


def test_the_markov_game_for_a_hundred_steps() -> None:
    """Whoever survives was safe at every step."""
    source = (EXAMPLES / "paper" / "markov_game.nsl").read_text(encoding="utf-8")
    networks = {
        "noisy_player": lambda _: jnp.asarray([4.0, 1.5]),
        "noisy_monster": lambda _: jnp.asarray([0.0, 0.5]),
    }
    model = nesymm.compile(source, networks=networks)
    data = {"image": np.zeros((4, 2))}
    method = RaoBlackwellised(particles=1000)
    drawn = model.trajectories(data, 50, method=method, steps=101).values
    player, monster = drawn["player(image)"], drawn["monster(image)"]
    assert player.shape == monster.shape == (4, 50, 101)
    apart = player - monster
    assert (abs(apart) > 2).all()
    # The monster stays where it is; the player walks away, one unit per step.
    assert (monster == monster[:, :, :1]).all()
    walked = np.diff(player, axis=2) * np.sign(apart[:, :, :-1])
    assert walked.mean() == pytest.approx(1, abs=0.01)
    assert abs(walked - 1).max() < 0.7

    found = model.filter(data, method=method, steps=101)
    # Those who are at a distance of two at first stay there: the evidence is about the start.
    spread = np.hypot(*np.log1p(np.exp([1.5, 0.5])))  # networks give scales by softplus
    safe = norm.sf(2, 4, spread) + norm.cdf(-2, 4, spread)
    error = np.sqrt(safe * (1 - safe) / (4 * 1000))
    assert abs(np.exp(found.log_evidence).mean() - safe) < 4 * error
    assert (found.filtered["game_over(image)@t"] == 0).all()


# ---------------------------------------------------------------- trajectories

# Two fluents with a common cause, a static variable and a gap in the data.
CHAIN = """
    0.4::s.
    0.5::a@0.
    0.8::a@t :- a@(t-1).
    0.3::a@t :- s.
    v(V)@0 ~ categorical([0.2, 0.3, 0.5], [x, y, z]).
    v(V)@t ~ categorical([0.7, 0.2, 0.1], [x, y, z]) :- a@(t-1).
    v(V)@t ~ categorical([0.1, 0.3, 0.6], [x, y, z]) :- not a@(t-1).
    still@t :- v(V)@t, v(V)@(t-1).
    0.9::o@t :- a@t, v(x)@t.
    0.3::o@t :- v(z)@t.
    observe(o@t). query(a@t). query(v(_)@t). query(still@t).
"""
SEEN = {"o": np.asarray([[True, None, False, True, True], [False, False, None, None, True]])}


def frequencies(drawn: Trajectories) -> dict[str, np.ndarray]:
    """How often each atom holds, [batch, step]."""
    out = {"a@t": drawn.values["a"].mean(axis=1)}
    for i, value in enumerate("xyz"):
        out[f"v({value})@t"] = (drawn.values["v"] == i).mean(axis=1)
    return out


@pytest.fixture(scope="module")
def smoothed() -> dict[str, np.ndarray]:
    return nesymm.compile(CHAIN).smooth(SEEN, method=ExactForward())


def test_exact_trajectories_have_the_smoothed_probabilities(smoothed: dict[str, Any]) -> None:
    model = nesymm.compile(CHAIN)
    count = 4000
    drawn = model.trajectories(SEEN, count, method=ExactForward())
    assert drawn.values["v"].shape == (2, count, 5)
    for name, found in frequencies(drawn).items():
        p = smoothed[name]
        error = np.sqrt(p * (1 - p) / count)
        assert (abs(found - p) < 4 * error + 1e-6).all(), name
    # Steps belong together: what follows from the step before does so in each trajectory.
    a, v = drawn.values["a"], drawn.values["v"]
    joint = pair_probabilities()
    for before, after in product((False, True), range(3)):
        p = joint[before, after]
        found = ((a[0, :, 1] == before) & (v[0, :, 2] == after)).mean()
        assert abs(found - p) < 4 * np.sqrt(p * (1 - p) / count), (before, after)


def pair_probabilities() -> dict[tuple[bool, int], float]:
    """p(a@1 = …, v@2 = … | all evidence) of the first sequence, by enumeration."""
    from reference import infer

    pairs = list(enumerate(product(("not ", ""), "xyz")))
    source = CHAIN + "".join(
        f"j{n}@t :- {sign}a@(t-1), v({v})@t. query(j{n}@2).\n" for n, (sign, v) in pairs
    )
    found = infer(nesymm.compile(source).step, 4, {"o": [True, None, False, True, True]}).queries
    return {key: found[f"j{n}@2"] for n, key in enumerate(product((False, True), range(3)))}


@pytest.mark.parametrize(
    "kind", [RaoBlackwellised, pytest.param(Bootstrap, marks=pytest.mark.slow)]
)
def test_particle_trajectories_approximate_them(kind: Any, smoothed: dict[str, Any]) -> None:
    model = nesymm.compile(CHAIN)
    repeats = 30
    data = {"o": np.repeat(SEEN["o"], repeats, axis=0)}
    drawn = model.trajectories(data, 100, method=kind(particles=2000))
    for name, found in frequencies(drawn).items():
        runs = found.reshape(2, repeats, -1)
        error = runs.std(axis=1) / np.sqrt(repeats)
        assert (abs(runs.mean(axis=1) - smoothed[name]) < 4 * error + 0.003).all(), name


# ---------------------------------------------------------------- the most probable one


def best_weight(model: nesymm.Model, case: Case, along: list[set[str]] | None = None) -> float:
    """The probability of the most probable assignment, and the evidence, by trying them all.

    `along` prescribes the fluents that hold at each step.
    """
    step = model.step
    best: dict[tuple, tuple[State, float]] = {(): (State(), 1.0)}
    for time in range(case.horizon + 1):
        seen = {n: v[time] for n, v in case.data.items()}
        following: dict[tuple, tuple[State, float]] = {}
        for state, mass in best.values():

            def run(choose: Any, state: State = state, time: int = time, seen: Any = seen) -> Any:
                world = World(step, time, case.horizon, state, {}, choose)
                for variable in step.variables:
                    if time == 0 or not variable.static:
                        for place in places(variable.axes):
                            world.draw(variable.name, tuple(place.values()))
                weight = 1.0
                for observation in step.observations:
                    weight *= world.observed(observation, seen)
                return weight, world.next_state()

            for probability, (weight, new) in worlds(run):
                total = mass * probability * weight
                if total == 0 or (
                    along is not None and atoms_of(model.step, new, time) != along[time]
                ):
                    continue
                key = new.frozen()
                if key not in following or following[key][1] < total:
                    following[key] = (new, total)
        best = following
    return max((mass for _, mass in best.values()), default=0.0)


def atoms_of(step: StepProgram, state: State, time: int) -> set[str]:
    return {
        atom_text(slot.atom[0], slot.arguments(key, values)) + f"@{time}"
        for slot in step.slots
        if slot.atom is not None
        for key, values in state.slots[slot.name].items()
        if values is not None
    }


def best_agrees(case: Case) -> None:
    model = nesymm.compile(case.source)
    expected = best_weight(model, case)
    if expected == 0:
        return
    data = {n: np.asarray([v], dtype=object) for n, v in case.data.items()}
    with jax.enable_x64(True):
        found = model.trajectories(data, method=ExactForward(), steps=case.horizon + 1, best=True)
    along = [set(found.atoms(0, 0, t)) for t in range(case.horizon + 1)]
    # Several may be equally probable: that it is one of them is enough.
    assert best_weight(model, case, along) == pytest.approx(expected)


def some(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=(Phase.generate,),  # each example is compiled: shrinking takes too long
        suppress_health_check=list(HealthCheck),
    )


@some(4)
@given(temporal())
def test_the_best_trajectory_is_the_most_probable_one(case: Case) -> None:
    best_agrees(case)


@pytest.mark.slow
@some(100)
@given(temporal())
def test_the_best_trajectory_is_the_most_probable_one_on_many(case: Case) -> None:
    best_agrees(case)


def test_the_best_trajectory_of_the_chain() -> None:
    best_agrees(Case(CHAIN, 4, {"o": [True, None, False, True, True]}))
