"""How good pictures are: how far from the true ones, and whether the agent is in its place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Of `n` sequences whose pictures were made from the first one and the actions."""

    error: float  # mean absolute difference of a pixel, times 1,000
    accuracy: float  # frames in which the classifier finds the agent in its true place, per cent
    sequence_accuracy: float  # sequences in which that holds for all frames, per cent
    n: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def reconstruction_error(frames: np.ndarray, truth: np.ndarray) -> float:
    """Mean absolute difference of pictures [n, T, …], times 1,000."""
    return 1000 * float(np.mean([np.abs(a - b).mean() for a, b in zip(frames, truth, strict=True)]))


def accuracies(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Right places among frames and among whole sequences, per cent; places are [n, T, 2]."""
    right = (np.asarray(found, int) == np.asarray(truth, int)).all(axis=-1)
    return 100 * float(right.mean()), 100 * float(right.all(axis=1).mean())


def score(frames: np.ndarray, truth: np.ndarray, found: np.ndarray, agent: np.ndarray) -> Scores:
    """`found` are the places that the classifier reads in `frames`, `agent` the true ones."""
    one, whole = accuracies(found, agent)
    return Scores(reconstruction_error(frames, truth), one, whole, len(frames))
