"""What a method is to the harness: something that is fitted, and then says who died.

The harness (`experiments.minihack.discriminative`) fits every method on the same training and
validation sets, and asks what was fitted for a probability of death per trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from experiments.minihack.data import Dataset

Setting = tuple[int, int, int]  # N, T and E: the grid, the frames, the enemies

SETTINGS: tuple[Setting, ...] = (
    (10, 10, 1),
    (10, 10, 2),
    (10, 20, 1),
    (10, 20, 2),
    (15, 10, 1),
    (15, 10, 2),
    (15, 20, 1),
    (15, 20, 2),
)


class Trained(Protocol):
    """A fitted method."""

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """By epoch of training, at least the loss on the `validation` set."""
        ...

    @property
    def parameters_count(self) -> int:
        """How many numbers were learned."""
        ...

    def probabilities(self, data: Dataset, seed: int = 0) -> np.ndarray:
        """p(dead) per trajectory, `[n]`. Never looks at `data.dead`."""
        ...

    def save(self, path: str | Path) -> None:
        """Writes the learned parameters."""
        ...


class Program(Trained, Protocol):
    """A fitted program. It also answers where hits are not known (NaN)."""

    def roughly(self) -> Trained:
        """The same with fewer particles, where a mean over many games is asked for."""
        ...


class Method(Protocol):
    """A method to fit."""

    def takes(self, setting: Setting) -> bool:
        """Whether the method can be used there."""
        ...

    def fit(self, train: Dataset, validation: Dataset, seed: int, progress: bool) -> Trained:
        """Fits on `train`. Whatever is chosen is chosen on `validation`."""
        ...

    def load(self, path: str | Path) -> Trained:
        """What was fitted before, from what `Trained.save` wrote."""
        ...
