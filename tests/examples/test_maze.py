"""The robot in a maze: its exact belief, against a forward algorithm written for it alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from examples.maze import run
from examples.maze.simulator import DIRECTIONS, WAYS, maze, simulate

FOLDER = Path(run.__file__).parent


def forward(wall: np.ndarray, action: np.ndarray, senses: np.ndarray) -> tuple[np.ndarray, float]:
    """The belief after each step, and the log-evidence: a hidden Markov model over cells."""
    n = len(wall)
    blocked = np.pad(wall, 1, constant_values=True)
    around = np.stack([blocked[1 + a : n + 1 + a, 1 + b : n + 1 + b] for a, b in WAYS])
    belief, total = np.full((n, n), 1 / n**2), 0.0
    beliefs = []
    for t, heading in enumerate(action):
        if t == 0:
            belief = np.where(wall, 0, belief)
        else:
            moves = 0.85 * belief * ~around[heading]
            belief = belief - moves
            a, b = WAYS[heading]
            arrives = np.zeros((n + 2, n + 2))
            arrives[1 + a : n + 1 + a, 1 + b : n + 1 + b] = moves
            belief = belief + arrives[1:-1, 1:-1]
        for side in range(4):
            chance = np.where(around[side], 0.9, 0.1)
            belief = belief * (chance if senses[t, side] else 1 - chance)
        total += np.log(belief.sum())
        belief = belief / belief.sum()
        beliefs.append(belief)
    return np.stack(beliefs), total


def test_beliefs_are_those_of_the_forward_algorithm() -> None:
    rooms = simulate(np.random.default_rng(5), 3, 7, 8)
    belief = run.beliefs(rooms.data)
    senses = np.stack([rooms.data[f"senses({d})"] for d in DIRECTIONS], -1)
    for room in range(3):
        action = [DIRECTIONS.index(a) for a in rooms.data["action"][room]]
        expected, _ = forward(rooms.data["wall"][room], np.array(action), senses[room])
        np.testing.assert_allclose(belief[room], expected, atol=1e-6)


def test_mazes_are_connected() -> None:
    rng = np.random.default_rng(2)
    for n in (3, 7, 13):
        wall = maze(rng, n)
        reached = np.zeros((n, n), bool)
        reached[0, 0] = True
        for _ in range(n * n):
            wide = np.pad(reached, 1)
            for a, b in WAYS:
                reached |= wide[1 + a : n + 1 + a, 1 + b : n + 1 + b]
            reached &= ~wall
        assert (reached == ~wall).all()


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path), "--rooms", "2", "--side", "5", "--steps", "6"]
    run.main([*arguments, "--quiet"])
    record = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert run.tables(record) in capsys.readouterr().out
    assert (tmp_path / "belief.png").stat().st_size > 1000
    for scores in record["scores"].values():
        assert all(0 <= p <= 1 for p in scores["found"] + scores["probability"])


def test_the_page_shows_what_was_recorded() -> None:
    record = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert run.tables(record) in page
    program = (FOLDER / "maze.nsl").read_text(encoding="utf-8")
    assert f"```prolog\n{program}```" in page


def test_an_even_side_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--side", "8"])
    assert "the side of a maze is odd" in capsys.readouterr().err
