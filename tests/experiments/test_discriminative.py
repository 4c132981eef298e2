"""The discriminative experiment: its rules, its scores, its command line."""

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
from experiments.minihack import discriminative, harness, results
from experiments.minihack.data import Dataset, load
from experiments.minihack.methods import SETTINGS
from experiments.minihack.metrics import score
from experiments.minihack.plots import COMPASS
from experiments.minihack.rules import (
    PROGRAM,
    QUERY,
    WEIGHTS,
    Policy,
    Rules,
    TrainedRules,
    arrays,
    compile_model,
)
from nesymm.filtering.methods import ExactForward, RaoBlackwellised

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
    agents = np.stack([drawn["agent.0"], drawn["agent.1"]], -1)
    imps = np.stack([drawn["enemy.0"], drawn["enemy.1"]], -1)
    hp, turns = drawn["hp.0"], drawn["turn.0"]
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
        np.exp(model.filter(arrays(data), method=RaoBlackwellised(500), seed=seed).log_evidence)
        for seed in range(20)
    ]
    expected = np.array([likelihood(data, game, collisions=True) for game in range(8)])
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(abs(np.mean(runs, axis=0) - expected) < 4.5 * error + 1e-6)
    apart = [likelihood(data, game, collisions=False) for game in range(8)]
    assert np.any(abs(expected - apart) > 9 * error)  # the collisions show


def test_far_away_the_policy_is_that_of_the_furthest() -> None:
    policy = Policy(jax.random.key(0))
    assert policy(14, -12) == pytest.approx(policy(9, -9))
    assert policy(14, 2) != pytest.approx(policy(5, 2))


# ---------------------------------------------------------------- scores


def test_scores_by_hand() -> None:
    # Two of three deaths found, three of four survivors.
    p = np.array([0.9, 0.8, 0.2, 0.1, 0.3, 0.6, 0.0])
    dead = np.array([1, 1, 1, 0, 0, 0, 0])
    found = score(p, dead)
    assert found.balanced_accuracy == pytest.approx(100 * (2 / 3 + 3 / 4) / 2)
    assert found.f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert found.n == 7 and found.deaths == pytest.approx(3 / 7)
    assert found.predicted == pytest.approx(p.mean())
    assert score(np.array([0.1]), np.array([0])).balanced_accuracy == 100


def test_half_is_not_dead() -> None:
    assert score(np.array([0.5, 0.5]), np.array([0, 1])).balanced_accuracy == 50


# ---------------------------------------------------------------- harness


class Coin:
    """A method that says the death rate of the training set, and a little more with the seed."""

    name = "coin"

    def settings(self) -> Any:
        return SETTINGS[:2]

    def fit(self, train: Dataset, validation: Dataset, seed: int, progress: bool) -> Any:
        return FittedCoin(float(train.dead.mean()))


class FittedCoin:
    parameters_count = 1

    def __init__(self, rate: float):
        self.rate = rate

    def probabilities(self, data: Dataset, seed: int = 0) -> np.ndarray:
        return np.full(len(data), self.rate)

    def save(self, path: str | Path) -> None:
        Path(path).write_text(str(self.rate))


def test_a_run_leaves_a_record_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(harness.METHODS, "coin", (__name__, "Coin", {}))
    jobs = [
        harness.Job("coin", seed, None, ("test",), tmp_path, tmp_path, progress=False)
        for seed in (0, 1)
    ]
    for job in jobs:
        harness.run(job)
    record = json.loads((tmp_path / "coin.json").read_text())
    assert list(record["seeds"]) == ["0", "1"]
    first = record["seeds"]["0"]
    assert set(first["scores"]) == {"N10T10E1test", "N10T10E2test"}
    assert first["scores"]["N10T10E1test"]["balanced_accuracy"] == 50  # everybody survives
    assert first["peak_memory_mb"] > 1 and first["fit_seconds"] >= 0
    assert "--methods coin --seeds 0" in first["command"]
    told: list[str] = []
    assert harness.run_all(jobs, told.append)
    assert told == ["coin, seed 0: finished before", "coin, seed 1: finished before"]
    text = results.tables(results.read_all(tmp_path))
    assert "| 10 | 10 | 1 | 75.72 | 59.88 | 64.45 | 50.00 ± 0.00 |" in text


def test_the_error_of_the_mean() -> None:
    mean, error = results.mean_and_error(np.array([1.0, 2.0, 3.0]))
    assert (mean, error) == (2.0, pytest.approx(1 / np.sqrt(3)))
    assert np.isnan(results.mean_and_error(np.array([1.0]))[1])


def test_an_unknown_method_has_no_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(harness.METHODS, "coin", (__name__, "Coin", {}))
    with pytest.raises(nesymm.NesymmError, match="coin has no number of epochs"):
        harness.make("coin", epochs=3)
    assert harness.make("nesymm", epochs=3).epochs == 3  # type: ignore[attr-defined]


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
        case "range":
            parts["start"] = parts["start"] + 7
        case "first":
            parts["hits"] = np.ones_like(parts["hits"])
        case "real":
            parts["actions"] = parts["actions"] + 0.5
    np.savez(path, **parts)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "not a file of the data format"),
        ("lacking", "lacks hits"),
        ("shape", "actions: expected shape (3, 3), received (3, 2)"),
        ("range", "start: expected whole numbers 1 to 5, received"),
        ("first", "hits: expected 0 in the first frame"),
        ("real", "actions: expected whole numbers 0 to 3"),
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
def test_a_short_training_lowers_the_loss() -> None:
    train, validation = load("N10T10E1train"), load("N10T10E1valid")
    short = Rules(epochs=2, particles=50, test_particles=100, sequences=2000)
    before = TrainedRules(compile_model(), RaoBlackwellised(100))
    after = short.fit(train, validation, seed=0, progress=False)

    def loss(trained: TrainedRules) -> np.ndarray:
        p = np.clip(trained.probabilities(validation), 1e-3, 1 - 1e-3)
        return -np.where(validation.dead == 1, np.log(p), np.log1p(-p))

    gain = loss(before) - loss(after)
    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert (
        QUERY
        in after.on(load("N15T10E1test"))
        .filter(arrays(load("N15T10E1test"), np.arange(2)), method=RaoBlackwellised(20))
        .final
    )
