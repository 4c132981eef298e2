"""The discriminative experiment: its rules, and `evaluate` on any file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from experiments.minihack import discriminative
from experiments.minihack.data import Dataset, load
from experiments.minihack.metrics import score
from experiments.minihack.plots import COMPASS
from experiments.minihack.rules import (
    PROGRAM,
    QUERY,
    WEIGHTS,
    ExactRules,
    Policy,
    Rules,
    TrainedRules,
    after_the_first,
    arrays,
    compile_model,
)
from experiments.minihack.thresholds import unseen
from nesymm.inference.methods import ExactForward, RaoBlackwellised

MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
CHANCE, RARE = 0.3, 0.002
DIRECTION = {tuple(step): i for i, step in enumerate(COMPASS.tolist())}
TABLE = jnp.array([[DIRECTION.get((r, c), 0) for c in (-1, 0, 1)] for r in (-1, 0, 1)])


def straight(rows: Any, columns: Any) -> Any:
    """The imp goes straight to the agent, for certain."""
    way = TABLE[jnp.sign(rows).astype(int) + 1, jnp.sign(columns).astype(int) + 1]
    return 100.0 * jax.nn.one_hot(way, 8)


def known_model(**constants: int) -> nesymm.Model:
    return nesymm.compile(
        PROGRAM.read_text(),
        constants=constants,
        networks={"policy": straight},
        parameters={"strikes": CHANCE, "hit": RARE},
    )


def games(n: int, frames: int, grid: int, enemies: int, seed: int) -> Dataset:
    """Games without hits, only for their shape."""
    rng = np.random.default_rng(seed)
    return Dataset(
        actions=rng.integers(4, size=(n, frames - 1), dtype=np.uint8),
        start=rng.integers(1, grid, size=(n, 2), dtype=np.uint8),
        hits=np.zeros((n, frames), np.uint8),
        dead=np.zeros(n, np.uint8),
        grid=grid,
        enemies=enemies,
    )


# ---------------------------------------------------------------- rules


def agent_step(
    agent: np.ndarray, action: int, imps: np.ndarray, grid: int, collisions: bool = True
) -> tuple[Any, bool]:
    """Where the agent is after its action, and whether time went on."""
    aim = np.clip(agent + MOVES[action], 1, grid)
    if (aim == agent).all():
        return agent, False
    attacks = collisions and bool((imps == aim).all(-1).any())
    return (agent if attacks else aim), True


def test_trajectories_obey_the_rules_of_the_game() -> None:
    grid, enemies, frames = 6, 2, 20
    data = games(12, frames, grid, enemies, seed=0)
    model = known_model(n=grid, enemies=enemies)
    given = arrays(data)
    given["hit"] = np.full(data.hits.shape, np.nan)  # from the prior: nothing is observed
    drawn = model.trajectories(given, 20, method=RaoBlackwellised(particles=100)).values
    agents = drawn["agent"]
    imps = drawn["enemy"]
    hp, turns = drawn["hp"], drawn["turn"]
    strikes = chances = deaths = healed = 0
    for game, draw in itertools.product(range(len(data)), range(20)):
        agent, imp, health = agents[game, draw], imps[game, draw], hp[game, draw]
        turn = turns[game, draw]
        assert (agent[0] == data.start[game]).all() and health[0] == 12 and turn[0] == 0
        assert not (imp[0] == agent[0]).all(-1).any()
        assert imp[0].min() >= 1 and imp[0].max() <= grid - 1
        for t in range(1, frames):
            place, goes_on = agent_step(agent[t - 1], data.actions[game, t - 1], imp[t - 1], grid)
            assert (agent[t] == place).all()
            assert turn[t] == turn[t - 1] + goes_on
            act = goes_on and turn[t] > 1 and health[t - 1] > 0
            gaps = agent[t] - imp[t - 1]
            near = abs(gaps).max(-1) <= 1
            moved = np.sign(gaps) * (act & ~near)[:, None]
            assert (imp[t] == imp[t - 1] + moved).all()
            heals = goes_on and turn[t] % 15 == 14
            lost = health[t - 1] - health[t] + (heals and health[t] > 0 and health[t - 1] < 12)
            assert lost <= 4 * np.sum(near & act)
            assert health[t - 1] > 0 or health[t] == 0
            assert health[t] <= health[t - 1] + heals
            healed += health[t] > health[t - 1]
            if act and near.sum() == 1 and not heals:
                chances += 1
                strikes += lost > 0
        deaths += health[-1] == 0
    assert deaths > 0 and healed > 0
    assert strikes / chances == pytest.approx(
        CHANCE, abs=4 * np.sqrt(CHANCE * (1 - CHANCE) / chances)
    )


def likelihood(data: Dataset, game: int, collisions: bool) -> float:
    """p(hits) by going through all first cells. Too short a game to die or to heal in."""
    grid, total = data.grid, []
    start = data.start[game].astype(int)
    cells = itertools.product(range(1, grid), repeat=2)
    for cell in (np.array(c) for c in cells if c != tuple(start)):
        agent, imp, turn, weight = start, cell, 0, 1.0
        for t, action in enumerate(data.actions[game], start=1):
            agent, goes_on = agent_step(agent, action, imp[None], grid, collisions)
            turn += goes_on
            chance = RARE
            if goes_on and turn > 1:
                if abs(agent - imp).max() <= 1:
                    chance = 1 - (1 - CHANCE) * (1 - RARE)
                else:
                    imp = imp + np.sign(agent - imp)
            weight *= chance if data.hits[game, t] else 1 - chance
        total.append(weight * (1 - RARE))  # and nothing in the first frame
    return float(np.mean(total))


def games_with_hits() -> Dataset:
    data = games(8, 5, 4, 1, seed=1)
    data.hits[:, 1:] = np.random.default_rng(2).integers(2, size=(8, 4))
    return data


@pytest.mark.slow
def test_without_collisions_the_evidence_is_exactly_that_of_a_simulation() -> None:
    data = games_with_hits()
    model = known_model(n=4, enemies=1, collisions=0)
    found = model.filter(arrays(data), method=ExactForward())
    expected = [np.log(likelihood(data, game, collisions=False)) for game in range(8)]
    assert found.log_evidence == pytest.approx(expected, abs=1e-3)


def test_with_collisions_the_mean_evidence_is_that_of_a_simulation() -> None:
    data = games_with_hits()
    model = known_model(n=4, enemies=1)
    runs = [
        np.exp(model.filter(arrays(data), method=RaoBlackwellised(500), key=seed).log_evidence)
        for seed in range(20)
    ]
    expected = np.array([likelihood(data, game, collisions=True) for game in range(8)])
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(abs(np.mean(runs, axis=0) - expected) < 4.5 * error + 1e-6)
    apart = [likelihood(data, game, collisions=False) for game in range(8)]
    assert np.any(abs(expected - apart) > 9 * error)  # the collisions show


@pytest.mark.slow
def test_both_engines_agree_on_real_games() -> None:
    data = arrays(load("N10T10E1valid"), slice(20))
    model = Rules().load().model.with_constants(collisions=0)
    exact = model.filter(data, method=ExactForward())
    runs = [model.filter(data, method=RaoBlackwellised(1000), key=seed) for seed in range(10)]
    ratios = np.exp([run.log_evidence - exact.log_evidence for run in runs])
    error = np.std(ratios, axis=0, ddof=1) / np.sqrt(len(runs))
    # Student's t with 9 degrees of freedom: six errors are less likely than 1 in 4,000.
    assert np.all(abs(ratios.mean(axis=0) - 1) < 6 * error + 1e-6)
    assert error.max() < 0.1
    # Weighted by the evidence of its run, an answer is right on average.
    apart = ratios * ([run.final["dead@T"] for run in runs] - exact.final["dead@T"])
    error = np.std(apart, axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(abs(apart.mean(axis=0)) < 6 * error + 1e-6)


@pytest.mark.slow
def test_the_first_hit_says_nothing() -> None:
    data = games_with_hits()
    told = arrays(data)
    untold = told | {"hit": after_the_first(data.hits)}
    assert np.isnan(untold["hit"][:, 0]).all() and not np.isnan(untold["hit"][:, 1:]).any()
    model = known_model(n=4, enemies=1)
    a, b = (
        model.filter(given, method=RaoBlackwellised(50)).final[QUERY] for given in (told, untold)
    )
    assert a == pytest.approx(b, abs=1e-6)


def test_exact_inference_is_used_in_training_and_afterwards() -> None:
    method = ExactRules()
    fitted = method.model(games_with_hits(), seed=0)
    trained = method.trained(fitted.with_constants(collisions=1))
    assert method.inference == trained.inference == ExactForward()
    assert fitted.constants["collisions"] == trained.model.constants["collisions"] == 0
    assert method.takes((19, 50, 1)) and not method.takes((10, 10, 2))


@pytest.mark.slow
def test_exact_inference_is_trained_without_a_crash() -> None:
    """Some versions of XLA die on its gradients (`nesymm/xla.py`)."""
    data = games(8, frames=4, grid=4, enemies=1, seed=0)
    model = ExactRules().model(data, seed=0)

    def loss(parameters: Any) -> Any:
        told = model.with_parameters(parameters).log_evidence(arrays(data), method=ExactForward())
        return -jnp.sum(told)

    gradients = jax.jit(jax.grad(loss))(dict(model.parameters))
    assert gradients["strikes"] > 0  # nobody was hit


def test_far_away_the_policy_is_that_of_the_furthest() -> None:
    policy = Policy(jax.random.key(0))
    assert policy(14, -12) == pytest.approx(policy(9, -9))
    assert policy(14, 2) != pytest.approx(policy(5, 2))


# ---------------------------------------------------------------- the command line


def test_shipped_weights_have_learned_how_well_an_imp_aims() -> None:
    trained = Rules().load(WEIGHTS)
    assert trained.hit_chance == pytest.approx(0.9, abs=0.05)


def test_evaluate_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = load("N10T10E1test")
    rows = np.r_[np.flatnonzero(whole.dead == 1)[:10], np.flatnonzero(whole.dead == 0)[:10]]
    some = Dataset(*(a[rows] for a in (whole.actions, whole.start, whole.hits, whole.dead)), 10, 1)
    some.save(tmp_path / "some.npz")
    command = ["evaluate", "--data", str(tmp_path / "some.npz"), "--json", "--particles", "50"]
    assert discriminative.main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"balanced_accuracy", "f1", "n", "probabilities"}
    assert told["n"] == len(told["probabilities"]) == 20
    again = score(np.array(told["probabilities"]), some.dead)
    assert told["balanced_accuracy"] == pytest.approx(again.balanced_accuracy)
    assert told["f1"] == pytest.approx(again.f1)
    assert told["balanced_accuracy"] > 60
    # Another threshold: all odds are multiplied by the same, here by more than one, for few die.
    assert discriminative.main([*command, "--threshold", "posterior"]) == 0
    plain = np.array(json.loads(capsys.readouterr().out)["probabilities"])
    inside = (plain > 0.01) & (plain < 0.99)
    before, after = plain[inside], np.array(told["probabilities"])[inside]
    factors = (after / (1 - after)) / (before / (1 - before))
    assert len(factors) > 3 and factors.min() > 1.5
    assert factors == pytest.approx(factors[0], rel=1e-3)


def test_the_program_knows_beforehand_how_many_die() -> None:
    given, foretold = load("N10T10E1train").dead, unseen((10, 10, 1), 500)
    answers = Rules().load(WEIGHTS).roughly().probabilities(foretold)
    error = np.sqrt(np.var(given) / len(given) + np.var(answers) / len(answers))
    assert np.mean(answers) == pytest.approx(given.mean(), abs=4 * error)


def broken(kind: str, path: Path) -> None:
    data = games(3, 4, 5, 1, seed=3)
    parts: dict[str, Any] = {
        name: getattr(data, name)
        for name in ("actions", "start", "hits", "dead", "grid", "enemies")
    }
    match kind:
        case "text":
            path.write_text("no arrays")
            return
        case "lacking":
            del parts["hits"]
        case "shape":
            parts["actions"] = parts["actions"][:, :-1]
        case "axes":
            parts["dead"] = parts["dead"][:, None]
        case "none":
            parts = {name: a[:0] if np.ndim(a) else a for name, a in parts.items()}
        case "range":
            parts["start"] = parts["start"] + 7
        case "first":
            parts["hits"] = np.ones_like(parts["hits"])
        case "real":
            parts["actions"] = parts["actions"] + 0.5
        case "words":
            parts["actions"] = np.full(parts["actions"].shape, "north")
        case "objects":
            parts["hits"] = np.full(parts["hits"].shape, None)
        case "grid":
            parts["grid"] = 5.5
        case "grids":
            parts["grid"] = np.array([5, 5])
        case "enemies":
            parts["enemies"] = 0
    np.savez_compressed(path, **parts)
    if kind == "damaged":
        content = bytearray(path.read_bytes())
        content[60:80] = b"\xff" * 20
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "not a file of the data format: it is no .npz file"),
        ("damaged", "not a file of the data format"),
        ("objects", "Object arrays cannot be loaded when allow_pickle=False"),
        ("lacking", "lacks hits; expected the arrays actions, start, hits, dead, grid, enemies"),
        ("shape", "actions: expected shape (3, 3), received (3, 2)"),
        ("axes", "expected dead [n] and hits [n, T], received dead (3, 1) and hits (3, 4)"),
        ("none", "expected sequences of at least 2 frames, received 0 of 4"),
        ("range", "start: expected whole numbers 1 to 5, received"),
        ("first", "hits: expected 0 in the first frame"),
        ("real", "actions: expected whole numbers 0 to 3, received float64"),
        ("words", "actions: expected whole numbers 0 to 3, received <U5"),
        ("grid", "grid: expected whole numbers 3 to 60, received float64"),
        ("grids", "grid: expected shape (), received (2,)"),
        ("enemies", "enemies: expected whole numbers 1 to 8, received 0 to 0"),
    ],
)
def test_bad_files_are_named(
    kind: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(kind, tmp_path / "bad.npz")
    assert discriminative.main(["evaluate", "--data", str(tmp_path / "bad.npz"), "--json"]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert discriminative.main(["evaluate", "--data", "nowhere.npz"]) == 2
    assert "there is no file nowhere.npz" in capsys.readouterr().err


# ---------------------------------------------------------------- learning


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:low effective sample size")  # with so few particles
def test_a_short_training_explains_the_hits_better() -> None:
    train, validation = load("N10T10E1train"), load("N10T10E1valid")
    short = Rules(epochs=2, particles=50, test_particles=100, sequences=2000)
    before = TrainedRules(compile_model(), RaoBlackwellised(100))
    after = short.fit(train, validation, seed=0, progress=False)

    def log_evidence(trained: TrainedRules) -> np.ndarray:
        found = trained.model.filter(arrays(validation), method=RaoBlackwellised(100))
        return np.asarray(found.log_evidence)

    gain = log_evidence(after) - log_evidence(before)
    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert (
        QUERY
        in after.on(load("N15T10E1test"))
        .filter(arrays(load("N15T10E1test"), np.arange(2)), method=RaoBlackwellised(20))
        .final
    )
