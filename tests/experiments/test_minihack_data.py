"""The data of the discriminative experiment: the shipped files, and the game itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.minihack import data as minihack
from experiments.minihack import facts
from experiments.minihack.data import (
    DEVELOPMENT,
    FOLDER,
    PAPER_DEATHS,
    SHIPPED,
    SPLITS,
    Dataset,
    deviation,
    load,
)
from experiments.minihack.game import EAST, MOVES, NORTH, SOUTH, WEST, Game
from experiments.minihack.simulator import play, simulate, towards


def setting(name: str) -> tuple[int, int, int]:
    split = SPLITS[name]
    return split.grid, split.frames, split.enemies


NAMES = sorted(SHIPPED)


def test_every_split_is_shipped_save_those_for_development() -> None:
    assert {s.part for n, s in SPLITS.items() if n not in NAMES} == {DEVELOPMENT}
    assert sorted(path.name for path in FOLDER.iterdir()) == [f"{name}.npz" for name in NAMES]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", NAMES)
def test_the_arrays_are_as_described(name: str) -> None:
    split, data = SPLITS[name], load(name)
    n, frames = split.count, split.frames
    assert (data.grid, data.enemies, data.frames, len(data)) == (
        split.grid,
        split.enemies,
        frames,
        n,
    )
    assert data.actions.shape == (n, frames - 1)
    assert data.start.shape == (n, 2)
    assert data.hits.shape == (n, frames)
    assert data.dead.shape == (n,)
    for array in (data.actions, data.start, data.hits, data.dead):
        assert array.dtype == np.uint8
    assert set(np.unique(data.actions)) == {0, 1, 2, 3}
    assert data.start.min() == 1
    assert data.start.max() == split.grid - 1  # as the paper's authors draw them
    assert data.hits.max() == 1
    assert data.dead.max() == 1


@pytest.mark.parametrize("name", NAMES)
def test_hits_and_deaths_belong_together(name: str) -> None:
    data = load(name)
    assert not data.hits[:, 0].any()
    wounds = data.hits.sum(axis=1)
    fatal = wounds[data.dead == 1]
    assert fatal.min() >= 1
    # A hit takes at most 4 of 12 hit points. Once in a thousand games an imp has drunk or read
    # something, and hits more than once in a frame.
    assert np.mean(fatal < 12 / (4 * data.enemies)) < 0.01
    # Each wound takes a point, and hardly any heals.
    assert wounds[data.dead == 0].max() <= 12


@pytest.mark.parametrize("name", [n for n in NAMES if setting(n) in PAPER_DEATHS])
def test_the_death_rate_is_that_of_the_paper(name: str) -> None:
    data = load(name)
    paper = PAPER_DEATHS[setting(name)] / 100
    assert abs(deviation(float(data.dead.mean()), len(data), paper)) < 3


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_uniform_also_after_death(name: str) -> None:
    data = load(name)
    padding = data.actions != data.padded_with_zeros().actions  # never where the action is 0
    death = np.where(data.dead == 1, last_hit(data), data.frames)
    after = np.arange(data.frames - 1) >= death[:, None]
    assert not padding[~after].any()
    for where in (after, ~after):
        counts = np.bincount(data.actions[where], minlength=4)
        total = counts.sum()
        error = np.sqrt(total * 0.25 * 0.75)
        assert (np.abs(counts - total / 4) < 5 * error + 1e-9).all()


def last_hit(data: Dataset) -> np.ndarray:
    return data.frames - 1 - np.argmax(data.hits[:, ::-1], axis=1)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_large")])
def test_a_large_test_set_has_enough_of_the_rarer_class(name: str) -> None:
    dead = int(load(name).dead.sum())
    assert min(dead, SPLITS[name].count - dead) >= 200


def test_no_two_splits_share_a_seed() -> None:
    keys = [(s.grid, s.frames, s.enemies, s.seed) for s in SPLITS.values()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["N10T10E1test", "N15T20E1test", "N10T20E2test", "N10T10E5test"])
def test_the_simulator_plays_as_the_game_does(name: str) -> None:
    game, simulated = load(name), simulate(replace(SPLITS[name], seed=4))
    for ours, theirs in (
        (simulated.dead, game.dead),
        (simulated.hits.sum(axis=1), game.hits.sum(axis=1)),
        (simulated.hits.argmax(axis=1), game.hits.argmax(axis=1)),  # the first hit
    ):
        error = np.sqrt(np.var(ours) / len(ours) + np.var(theirs) / len(theirs))
        assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=4 * error)


@pytest.mark.parametrize("name", [n for n in NAMES if SPLITS[n].part == "simulated"])
def test_simulated_games_are_the_shipped_ones(name: str) -> None:
    shipped, again = load(name), simulate(replace(SPLITS[name], count=30))
    for array in ("actions", "start", "hits", "dead"):
        assert (getattr(again, array) == getattr(shipped, array)[:30]).all()


def test_imps_go_round_one_another() -> None:
    rng = np.random.default_rng(0)
    hits, dead = play(9, (5, 9), [(5, 6), (5, 5)], [NORTH, SOUTH] * 10, rng)
    assert dead and not hits[:3].any()  # the first turn is sat out, then they come nearer
    assert towards(np.array((5, 5)), np.array((5, 9)), [np.array((5, 6))], 9).tolist() in (
        [4, 6],
        [6, 6],
    )
    # In a corner with no other free cell it stays.
    walls = [np.array(c) for c in ((1, 2), (2, 1), (2, 2))]
    assert towards(np.array((1, 1)), np.array((5, 5)), walls, 9).tolist() == [1, 1]


def test_padding_with_zeros_starts_after_death() -> None:
    data = Dataset(
        actions=np.array([[1, 2, 3, 1], [1, 2, 3, 1], [1, 2, 3, 1]], np.uint8),
        start=np.ones((3, 2), np.uint8),
        hits=np.array([[0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 1]], np.uint8),
        dead=np.array([1, 0, 1], np.uint8),
        grid=10,
        enemies=1,
    )
    assert data.padded_with_zeros().actions.tolist() == [[1, 2, 0, 0], [1, 2, 3, 1], [1, 2, 3, 1]]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "N10T10E1valid", "--count", "3"],
        ["--only", "N10T10E1valid", "--padding", "zero"],
        ["--only", "N10T10E1dev"],
    ],
)
def test_what_ships_is_not_written_over(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(minihack, "installed", lambda: True)
    with pytest.raises(SystemExit) as stopped:
        minihack.main(arguments)
    assert stopped.value.code == 2
    assert "say by --out where they go" in capsys.readouterr().err


def test_a_set_that_does_not_ship_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"N10T10E1dev does not ship; .*--only N10T10E1dev"):
        load("N10T10E1dev")


def test_a_file_survives_saving_and_loading(tmp_path) -> None:
    data = load("N10T10E1valid")
    data.save(tmp_path / "copy.npz")
    copy = load(tmp_path / "copy.npz")
    assert (copy.grid, copy.enemies) == (10, 1)
    for name in ("actions", "start", "hits", "dead"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(data, name))


def test_a_file_that_lacks_arrays_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "bad.npz", actions=np.zeros((1, 9)), grid=10)
    with pytest.raises(ValueError, match=r"bad\.npz lacks dead, enemies, hits, start"):
        load(tmp_path / "bad.npz")


def test_a_room_larger_than_the_map_is_refused() -> None:
    with pytest.raises(ValueError, match="30 × 30 cells does not fit on NetHack's map"):
        Game(30)


@pytest.fixture
def game():
    pytest.importorskip("nle", reason="the extra [minihack] is not installed")
    pytest.importorskip("minihack", reason="the extra [minihack] is not installed")
    with Game(10) as game:
        yield game


@pytest.mark.filterwarnings("ignore")  # of nle and minihack
class TestGame:
    def test_the_agent_walks_and_stops_at_walls(self, game: Game) -> None:
        actions = [NORTH, NORTH, EAST, SOUTH, WEST, WEST]
        played = game.play((2, 1), [], actions, seed=0)
        assert played.agent.tolist() == [[2, 1], [1, 1], [1, 1], [1, 2], [2, 2], [2, 1], [2, 1]]
        assert not played.dead
        assert not played.hit.any()
        assert MOVES[EAST].tolist() == [0, 1]

    def test_an_imp_comes_and_hits(self, game: Game) -> None:
        played = game.play((5, 5), [(5, 7)], [WEST, EAST] * 10, seed=1)
        assert played.hit.any()
        if not played.enemy_lost:
            assert played.dead == (played.hit_points[-1] == 0)

    def test_time_stands_still_at_a_wall(self, game: Game) -> None:
        played = game.play((2, 1), [(9, 9)], [WEST, WEST, NORTH, NORTH, EAST, SOUTH], seed=0)
        assert played.turn.tolist() == [1, 1, 1, 2, 2, 3, 4]
        # The imp sits out the first turn, too.
        assert played.enemies[:, 0].tolist() == [[9, 9]] * 5 + [[8, 8], [7, 7]]

    @pytest.mark.parametrize("index", [0, 1, 2])
    @pytest.mark.parametrize(
        "name", ["N10T10E1train", "N10T10E1valid", "N10T10E5test", "N10T20E2test_large"]
    )
    def test_the_shipped_trajectories_are_played_again(
        self, game: Game, name: str, index: int
    ) -> None:
        data = load(name)
        again = minihack.sample(game, SPLITS[name], index)
        np.testing.assert_array_equal(again.actions, data.actions[index])
        np.testing.assert_array_equal(again.trajectory.agent[0], data.start[index])
        np.testing.assert_array_equal(again.trajectory.hit, data.hits[index])
        assert again.trajectory.dead == data.dead[index]

    def test_a_trace_gives_facts(self, tmp_path, capsys) -> None:
        pytest.importorskip("minihack", reason="the extra [minihack] is not installed")
        where = ["--out", str(tmp_path), "--trace", str(tmp_path)]
        minihack.main(["--only", "N10T10E1valid", "--count", "40", *where])
        assert "N10T10E1valid" in capsys.readouterr().out
        known = dict(facts.facts(facts.steps(tmp_path / "N10T10E1valid_trace.npz")))
        assert known["no time passed: the imp moved or hit"].startswith("0.00")
        assert known["the first turn of the clock: the imp moved or hit"].endswith("% of 40")
