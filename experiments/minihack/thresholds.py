"""What is called death: answers for another threshold than 0.5.

A program of the game knows how often agents die in a room before it sees one of them: it can be
asked about games without any evidence. Accuracy asks for a threshold of 0.5. Balanced accuracy
counts the rarer class as much as the other, so death is what has become more likely than it was
beforehand: the threshold is the death rate. The mean of both serves both.

No game that was played has a part in this. Answers are moved such that the threshold becomes
0.5, where all methods are scored.
"""

from __future__ import annotations

import numpy as np

from experiments.minihack.data import Dataset
from experiments.minihack.methods import Program, Setting

# By name: how far the threshold is on its way from 0.5 to the death rate.
THRESHOLDS = {"posterior": 0.0, "half": 0.5, "even": 1.0}
GAMES = 1000


def unseen(setting: Setting, count: int = GAMES, seed: int = 0) -> Dataset:
    """Games as they are drawn, of which neither hits nor deaths are known."""
    grid, frames, enemies = setting
    rng = np.random.default_rng(seed)
    return Dataset(
        actions=rng.integers(4, size=(count, frames - 1)),
        start=rng.integers(1, grid, size=(count, 2)),
        hits=np.full((count, frames), np.nan),
        dead=np.full(count, np.nan),
        grid=grid,
        enemies=enemies,
    )


def death_rate(trained: Program, setting: Setting) -> float:
    """How often agents die in a setting, as the program has it."""
    return float(np.mean(trained.roughly().probabilities(unseen(setting))))


def moved(probabilities: np.ndarray, rate: float, way: float) -> np.ndarray:
    """p(dead) with all odds multiplied alike, such that the threshold is at 0.5.

    All the way, they are what would be believed if death and survival were equally likely
    beforehand.
    """
    at = float(np.clip(0.5 + way * (rate - 0.5), 1e-6, 1 - 1e-6))
    return (1 - at) * probabilities / ((1 - at) * probabilities + at * (1 - probabilities))
