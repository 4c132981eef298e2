"""The generative experiment: pictures, scores, rules, constraints, and a training in small."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.minihack.game import EAST, MOVES, SOUTH, Game
from experiments.minihack.generative import data as pictures
from experiments.minihack.generative import harness, obedience, unrolled
from experiments.minihack.generative.__main__ import main
from experiments.minihack.generative.constraints import Constraint, obeys, right_part
from experiments.minihack.generative.data import GRIDS, SPLITS, load, render, shrink
from experiments.minihack.generative.metrics import accuracies, reconstruction_error
from experiments.minihack.generative.networks import SCALES, Encoder, Scene
from experiments.minihack.generative.programs import EXACT, ProgramMethod, positions
from experiments.minihack.generative.tables import read_all, tables
from experiments.minihack.generative.training import Plan, networks_of, train, usual_picture
from experiments.minihack.generative.transformer import Transformer
from experiments.minihack.results import mean_and_error
from nesymm.errors import NesymmError
from nesymm.ir.expr import TRUE, postorder
from nesymm.ir.passes.phases import phases, use_observed

pytestmark = pytest.mark.compiled

SCENE = Scene(5, 1)


@pytest.fixture(scope="module")
def method() -> ProgramMethod:
    return ProgramMethod("nesymm", SCENE)


# ---------------------------------------------------------------- data


@pytest.mark.parametrize("name", SPLITS)
def test_the_agent_walks_as_the_rules_say(name: str) -> None:
    split, data = SPLITS[name], load(name)
    assert data.cells.shape == (split.count, 10, split.grid + 2, split.grid + 2)
    assert data.agent[:, 0].min() == 1
    assert data.agent[:, 0].max() == split.grid - 1  # as the paper's authors draw them
    before, after = data.agent[:, :-1].astype(int), data.agent[:, 1:].astype(int)
    assert (after == np.clip(before + MOVES[data.actions], 1, split.grid)).all()


@pytest.mark.parametrize("grid", GRIDS)
def test_the_picture_shows_the_agent_and_the_stairs_where_it_began(grid: int) -> None:
    data = load(f"N{grid}valid")
    agent, stairs = 0, 8  # the tiles in the order of their glyphs
    found = np.argwhere(data.cells == agent)
    assert (found[:, 2:] == data.agent.reshape(-1, 2)).all()
    shown = np.argwhere(data.cells == stairs)
    assert (shown[:, 2:] == data.agent[shown[:, 0], 0]).all()


def test_a_picture_is_made_of_tiles() -> None:
    data = load("N5valid").first(2)
    frames = data.frames(8)
    small = shrink(data.tiles, 8)
    for (n, t, row, column), tile in np.ndenumerate(data.cells):
        y, x = 8 * row, 8 * column
        assert np.array_equal(frames[n, t, :, y : y + 8, x : x + 8], small[tile])
    corner = data.tiles[3, 0, :2, :2].mean() / 255
    assert small[3, 0, 0, 0] == pytest.approx(corner)
    assert np.array_equal(render(jnp.asarray(data.cells), jnp.asarray(small), jnp), frames)
    with pytest.raises(NesymmError, match="a divisor of 16, received 5"):
        data.frames(5)


def test_the_usual_picture_is_the_mean_of_the_first_ones() -> None:
    data = load("N5valid").first(30)
    assert usual_picture(data, 2) == pytest.approx(data.frames(2)[:, 0].mean(axis=0), abs=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("minihack") is None, reason="needs the game")
def test_pictures_are_the_games_own() -> None:
    for grid in GRIDS:
        split = SPLITS[f"N{grid}valid"]
        data = load(split.name).first(2)
        with Game(grid, pixels=True) as game:
            for index in range(2):
                actions, played = pictures.play(game, split, index)
                assert np.array_equal(actions, data.actions[index])
                assert played.pixels is not None
                assert data.frames(16)[index] == pytest.approx(played.pixels / 255, abs=1e-7)


def broken(kind: str, path: Path) -> None:
    """Writes a file that is wrong in one way."""
    data = load("N5test").first(3)
    parts = {name: getattr(data, name) for name in ("cells", "tiles", "actions", "agent")}
    changed: dict[str, Callable[[], dict[str, np.ndarray]]] = {
        "objects": lambda: {"cells": np.full(data.cells.shape, None)},
        "one picture": lambda: {"cells": data.cells[0, 0]},
        "no axes": lambda: {"cells": np.array(3)},
        "not square": lambda: {"cells": data.cells[:, :, :5]},
        "real": lambda: {"cells": data.cells + 0.5},
        "words": lambda: {"cells": data.cells.astype(str)},
        "unknown tile": lambda: {"cells": data.cells + 1},
        "negative": lambda: {"cells": data.cells.astype(int) - 1},
        "no tiles": lambda: {"tiles": data.tiles[:0]},
        "small tiles": lambda: {"tiles": data.tiles[:, :, :8, :8]},
        "few actions": lambda: {"actions": data.actions[:, :4]},
        "strange action": lambda: {"actions": data.actions + 4},
        "short walk": lambda: {"agent": data.agent[:, :5]},
        "in the wall": lambda: {"agent": 0 * data.agent},
        "one frame": lambda: {"cells": data.cells[:, :1]},
        "nobody": lambda: {name: a[:0] for name, a in parts.items() if name != "tiles"},
    }
    match kind:
        case "text":
            path.write_text("no arrays")
        case "one array":
            with path.open("wb") as file:
                np.save(file, data.cells)
        case "lacking":
            np.savez(path, cells=data.cells, tiles=data.tiles)
        case "cut off":
            data.save(path)
            path.write_bytes(path.read_bytes()[:500])
        case "damaged":
            data.save(path)
            content = bytearray(path.read_bytes())
            content[60:80] = b"\xff" * 20
            path.write_bytes(content)
        case _:
            np.savez(path, **{**parts, **changed[kind]()})


CELLS = "cells: expected shape [n, T, N+2, N+2] with N at least 1, received"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "not a file of the data format: it is no .npz file"),
        ("one array", "not a file of the data format: it is no .npz file"),
        ("cut off", "not a file of the data format: it is no .npz file"),
        ("damaged", "not a file of the data format: cells: "),
        ("objects", "cells: Object arrays cannot be loaded when allow_pickle=False"),
        ("lacking", "lacks actions, agent; expected the arrays cells, tiles, actions, agent"),
        ("one picture", f"{CELLS} (7, 7)"),
        ("no axes", f"{CELLS} ()"),
        ("not square", f"{CELLS} (3, 10, 5, 7)"),
        ("real", "cells: expected whole numbers 0 to 8, received float64"),
        ("words", "cells: expected whole numbers 0 to 8, received <U"),
        ("unknown tile", "cells: expected whole numbers 0 to 8, received 1 to 9 (uint8)"),
        ("negative", "cells: expected whole numbers 0 to 8, received -1 to 7"),
        ("no tiles", "tiles: expected shape [k, 3, 16, 16], received (0, 3, 16, 16)"),
        ("small tiles", "tiles: expected shape (9, 3, 16, 16), received (9, 3, 8, 8)"),
        ("few actions", "actions: expected shape (3, 9), received (3, 4)"),
        ("strange action", "actions: expected whole numbers 0 to 3, received 4 to 7 (uint8)"),
        ("short walk", "agent: expected shape (3, 10, 2), received (3, 5, 2)"),
        ("in the wall", "agent: expected whole numbers 1 to 5, received 0 to 0 (uint8)"),
        ("one frame", "cells: expected sequences of at least 2 frames, received 3 of 1"),
        ("nobody", "cells: expected sequences of at least 2 frames, received 0 of 10"),
    ],
)
def test_bad_files_are_named(
    kind: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(kind, tmp_path / "bad.npz")
    assert main(["evaluate", "--data", str(tmp_path / "bad.npz")]) == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- scores


def test_scores_by_hand() -> None:
    truth = np.zeros((2, 2, 1, 1, 2))
    drawn = truth.copy()
    drawn[0, 0, 0, 0] = (0.1, 0.3)
    assert reconstruction_error(drawn, truth) == pytest.approx(1000 * 0.4 / 8)
    agent = np.array([[[1, 1], [1, 2]], [[3, 3], [4, 3]]])
    found = np.array([[[1, 1], [1, 2]], [[3, 3], [4, 4]]])
    assert accuracies(found, agent) == (75.0, 50.0)


# ---------------------------------------------------------------- the model


@pytest.mark.slow
def test_the_bound_is_the_sum_over_all_starts(method: ProgramMethod) -> None:
    """Against the sum written out; the guide is so narrow that its draw is its mean."""
    data = load("N5valid").first(3)
    images = data.frames(1)
    networks = method.init(jax.random.key(0), usual_picture(data, 1))
    networks["encoder"] = lambda picture, k: jnp.array([0.3 * k, -8.0])
    # In much noise: a walk that is far behind the others for a while is forgotten (float32).
    got = eqx.filter_jit(method.loss)(
        networks, jnp.asarray(images), jnp.asarray(data.actions), jax.random.key(1), 0.0
    )
    sd, noise = np.log1p(np.exp(-8.0)), float(method.noise(0.0))
    kl = sum(0.5 * (m**2 + sd**2 - 1) - np.log(sd) for m in (0.3, 0.6))
    along = jnp.arange(1, 6)
    draw = jax.vmap(
        jax.vmap(lambda r, c: networks["decoder"](r, c, 0.3, 0.6), (None, 0)), (0, None)
    )
    drawn = np.asarray(draw(along, along), np.float64)
    total = 0.0
    for n in range(3):
        chances = np.asarray(jax.nn.log_softmax(networks["detector"](images[n, 0]).ravel()))
        walks = []
        for start in range(25):
            cell, log = np.array([start // 5 + 1, start % 5 + 1]), float(chances[start])
            for t in range(10):
                if t:
                    cell = np.clip(cell + MOVES[data.actions[n, t - 1]], 1, 5)
                z = (images[n, t] - drawn[cell[0] - 1, cell[1] - 1]) / noise
                log += float(np.sum(-0.5 * z**2 - np.log(noise) - 0.5 * np.log(2 * np.pi)))
                log += np.log(1 / 4)  # the action
            walks.append(log)
        total += float(np.logaddexp.reduce(walks)) - kl
    assert float(got) == pytest.approx(-(noise**2) * total / 3 / images[0].size, rel=1e-4)


def test_pictures_are_computed_once_for_each_cell(method: ProgramMethod) -> None:
    """The agent is always somewhere, and no picture depends on how it came there."""
    given = frozenset({"first", "noise", "room", "action", "image"})
    both = use_observed(phases(method.model.step, given), given)
    assert both.always == {"agent"}
    (image,) = (v for v in both.later.variables if v.name == "image")
    assert image.guard is TRUE
    assert not [
        n for n in postorder(list(image.expressions())) if n.op == "rv" and n.data == "action"
    ]


@pytest.mark.slow
def test_particles_estimate_the_sum(method: ProgramMethod) -> None:
    """The evidence that they estimate has the right mean, whatever the draws."""
    data = load("N5valid").first(1)
    images, actions = jnp.asarray(data.frames(1)[:, :4]), jnp.asarray(data.actions[:, :3])
    networks = method.init(jax.random.key(0), usual_picture(data, 1))
    networks["encoder"] = lambda picture, k: jnp.array([0.3 * k, -8.0])

    def log_evidence(of: ProgramMethod, key: jax.Array) -> jax.Array:
        loss = of.loss(networks, images, actions, key, 0.0)
        return -loss * images[0].size / of.noise(0.0) ** 2

    keys = jax.random.split(jax.random.key(1), 400)
    sampled = replace(method, name="nesymm-sampled")
    draws = jax.jit(jax.vmap(lambda key: log_evidence(sampled, key)))(keys)
    summed = float(jax.jit(lambda key: log_evidence(method, key))(keys[0]))
    ratios = np.exp(np.asarray(draws, np.float64) - summed)
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert 0 < error < 0.05
    assert np.mean(ratios) == pytest.approx(1, abs=4 * error + 1e-3)


def leaves(networks: object) -> list[jax.Array]:
    return jax.tree.leaves(eqx.filter(networks, eqx.is_array))


@pytest.mark.slow
def test_training_makes_the_loss_smaller_and_can_be_spread(
    method: ProgramMethod, tmp_path: Path
) -> None:
    data, plan = load("N5valid"), Plan(seeds=(0, 1), steps=8, batch=4, chunk=4)
    quiet: list[str] = []
    whole = train(method, data, plan, tell=quiet.append)
    images, actions = jnp.asarray(data.first(4).frames(1)), jnp.asarray(data.actions[:4])
    loss = eqx.filter_jit(method.loss)
    for index, seed in enumerate(plan.seeds):
        fresh = method.init(jax.random.key(seed), usual_picture(data, 1))
        before, after = (
            float(loss(networks, images, actions, jax.random.key(2), 0.0))
            for networks in (fresh, networks_of(whole, index))
        )
        assert after < before
    file = tmp_path / "run.safetensors"
    part = train(method, data, plan, file, minutes=1e-4, tell=quiet.append)
    assert part.step == 4
    part = train(method, data, plan, file, tell=quiet.append)
    for a, b in zip(leaves(part.networks), leaves(whole.networks), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    with pytest.raises(NesymmError, match="is of another run: plan was"):
        train(method, data, replace(plan, batch=8), file, tell=quiet.append)


@pytest.mark.slow
def test_chosen_actions_obey_new_constraints(method: ProgramMethod) -> None:
    data = load("N5test").first(8)
    networks = method.init(jax.random.key(0), usual_picture(data, 1))
    # An untrained detector begins anywhere, also in a cell that is walled off.
    constraint = replace(right_part(5, 3), visit=(5, 1))
    model = constraint.added_to(method.with_networks(networks))
    free = model.generate(method.given(networks, data.frames(1)[:, 0]), method=EXACT, steps=10)
    taken = free["action"][:, 0, 1:].astype(int)
    for path, actions in zip(positions(free), taken, strict=True):
        assert obeys(path, actions, 5, constraint)


@pytest.mark.slow
def test_obedience_is_counted(method: ProgramMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("N5test").first(8)
    networks = method.init(jax.random.key(0), usual_picture(data, 1))

    def judge(frames: np.ndarray) -> np.ndarray:
        return np.zeros((*frames.shape[:2], 2), int)  # in the wall, where nobody is

    monkeypatch.setattr(obedience, "cases", lambda grid: [obedience.Case("rules", Constraint())])
    told = obedience.check(method, networks, data, judge, lambda _: None, size=4)
    assert told == [{"constraint": "rules", "n": 8, "obey": 8, "drawn_accuracy": 0.0}]


def test_sequences_that_begin_in_a_wall_are_left_out() -> None:
    data = load("N5test")
    some = obedience.allowed(data, right_part(5, 3))
    assert 0 < len(some) < len(data)
    assert some.agent[:, 0, 1].max() == 3


def test_the_judge_is_strict() -> None:
    walk = np.array([[1, 1], [1, 2], [2, 2]])
    assert obeys(walk, np.array([EAST, SOUTH]), 5, Constraint(never_twice=True, visit=(1, 2)))
    assert not obeys(walk, np.array([EAST, EAST]), 5, Constraint())
    assert not obeys(walk, np.array([EAST, SOUTH]), 5, Constraint(visit=(3, 3)))
    assert not obeys(walk, np.array([EAST, SOUTH]), 5, right_part(5, 1))
    assert not obeys(np.array([[0, 1], [1, 1]]), np.array([SOUTH]), 5, Constraint())
    stays = np.array([[1, 1], [1, 1]])
    assert obeys(stays, np.array([EAST]), 5, right_part(5, 1))
    assert not obeys(stays, np.array([EAST]), 5, replace(right_part(5, 1), never_twice=True))


# ---------------------------------------------------------------- networks


def test_the_code_follows_a_thing_and_its_scales_are_bounded() -> None:
    scene, usual = Scene(5, 4), np.zeros((3, 28, 28), np.float32)
    encoder = Encoder(scene, usual, key=jax.random.key(0))
    thing = jax.random.uniform(jax.random.key(1), (3, 4, 4))

    def codes(weight: float) -> np.ndarray:
        larger = eqx.tree_at(lambda e: e.head.weight, encoder, weight * encoder.head.weight)
        pictures = [jnp.asarray(usual).at[:, 4 * y : 4 * y + 4, 12:16].set(thing) for y in range(7)]
        return np.array([[larger(p, k) for k in (1, 2)] for p in pictures])

    means = codes(1.0)[..., 0]
    steps = np.diff(means, axis=0)  # one row further down each
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), rtol=1e-3)
    assert np.abs(steps).min() > 1e-3
    for weight in (-1e4, 1e4):
        scales = np.asarray(jax.nn.softplus(codes(weight)[..., 1]))
        assert scales.min() >= 0.999 * SCALES[0]
        assert scales.max() <= 1.001 * SCALES[1]


# ---------------------------------------------------------------- baselines


@pytest.mark.slow
def test_the_transformer_learns_and_draws() -> None:
    method, data = Transformer(SCENE), load("N5valid")
    run = train(method, data, Plan(steps=20, batch=4, rate=1e-3, chunk=10), tell=lambda _: None)
    assert run.losses[-1][0] < run.losses[0][0]
    first = data.first(2).frames(1)[:, 0]
    drawn = method.reconstruct(networks_of(run, 0), first, data.actions[:2])
    assert drawn.shape == (2, 10, *SCENE.shape)
    # What comes later does not change what was drawn before.
    later = data.actions[:2].copy()
    later[:, 5:] = (later[:, 5:] + 1) % 4
    other = method.reconstruct(networks_of(run, 0), first, later)
    np.testing.assert_allclose(other[:, :6], drawn[:, :6], atol=1e-5)


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_the_unrolled_program_says_the_same_as_the_filter(horizon: int) -> None:
    # On 2 × 2 cells an action changes the row with chance 1/4, the column with chance 1/4.
    expected = (1 + 2 * 0.5**horizon) / 4
    for method in ("enumerate", "circuit"):
        assert unrolled.unrolled_cost(2, horizon, method).answer == pytest.approx(expected)
    assert unrolled.filter_cost(2, horizon).answer == pytest.approx(expected)


def test_different_answers_are_reported() -> None:
    costs = [unrolled.Cost(1, 0.1, 0.5), unrolled.Cost(2, 0.1, 0.375)]
    unrolled.check_agreement({"filter": costs, "circuit": costs[1:]})
    other = [unrolled.Cost(2, 0.1, 0.376)]
    message = r"circuit: after 2 actions expected the answer of filter, 0.375, received 0.376"
    with pytest.raises(NesymmError, match=message):
        unrolled.check_agreement({"filter": costs, "circuit": other})


# ---------------------------------------------------------------- commands


@pytest.mark.slow
def test_run_and_evaluate_print_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--small", "--folder", str(tmp_path), "--test", "4"]
    run = ["run", *common, "--methods", "transformer", "--seeds", "3", "--steps", "2"]
    assert main([*run, "--batch", "2"]) == 0
    trained = json.loads(capsys.readouterr().out)["transformer"]["3"]
    assert main(["evaluate", *common, "--method", "transformer", "--seed", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == trained
    assert trained["n"] == 4
    record = json.loads((tmp_path / "results" / "N5-4px-transformer.json").read_text())
    assert record["seeds"]["3"] == trained
    assert main(["evaluate", *common, "--seed", "9"]) == 2
    assert "use `run` first" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    ["evaluate --test 0", "evaluate --test -995", "run --steps -3", "run --batch 0",
     "horizon --grid 0", "horizon --longest x"],
)  # fmt: skip
def test_numbers_on_the_command_line_begin_at_1(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(line.split())
    told = f"argument {line.split()[1]}: expected a whole number from 1, received"
    assert f"{told} {line.split()[2]}" in capsys.readouterr().err


# ---------------------------------------------------------------- records

FOLDER = Path(harness.__file__).parent
RECORDS = read_all(FOLDER / "results")


def test_the_shipped_tables_are_those_of_the_records() -> None:
    assert (FOLDER / "results" / "tables.md").read_text() == tables(RECORDS)


@pytest.mark.parametrize("stem", ["N5-16px-nesymm", "N10-8px-nesymm"])
def test_every_seed_draws_the_agent_in_its_place(stem: str) -> None:
    runs = RECORDS[stem]["seeds"].values()
    assert len(runs) == 5
    assert min(r["accuracy"] for r in runs) >= 99.5
    assert max(r["error"] for r in runs) < 2


def test_the_page_says_what_is_on_record() -> None:
    page = (FOLDER.parent / "README.md").read_text()
    for stem, record in RECORDS.items():
        grid, _, method = stem.split("-", 2)
        runs = list(record["seeds"].values())

        def told(name: str, digits: int, runs: list[dict[str, float]] = runs) -> str:
            mean, error = mean_and_error(np.array([r[name] for r in runs]))
            return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if len(runs) > 1 else "")

        cells = [grid[1:], method, str(len(runs)), told("error", 2), told("accuracy", 2)]
        cells += [told("sequence_accuracy", 1), f"{record['train_seconds_all_seeds']:.0f} s"]
        assert "| " + " | ".join(cells) + " |" in page


@pytest.mark.parametrize("grid", GRIDS)
def test_all_generated_trajectories_obey(grid: int) -> None:
    path = FOLDER / "results" / f"obedience-N{grid}.json"
    found = json.loads(path.read_text())["constraints"]
    assert [row["constraint"] for row in found] == [case.name for case in obedience.cases(grid)]
    assert all(row["obey"] == row["n"] > 100 for row in found)


def test_drawing_costs_as_much_more_as_the_horizon_is_longer() -> None:
    drawn = json.loads((FOLDER / "results" / "horizon.json").read_text())["pictures"]
    longest, tenth = (next(p for p in drawn if p["horizon"] == t) for t in (1000, 100))
    assert all(p["obeys"] for p in drawn)
    assert longest["seconds"] < 15 * tenth["seconds"]  # on record; nothing is timed here
