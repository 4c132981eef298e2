"""What training gives back, or raises."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nesymm.errors import NesymmError
from nesymm.html import MOST, table
from nesymm.inference.frames import frame, history_dataset
from nesymm.training.noise import Noise

if TYPE_CHECKING:
    from nesymm.model import Model


class TrainingError(NesymmError):
    """Training has failed. `model` has the last good parameters, `history` what came before."""

    def __init__(self, message: str, model: Model, history: list[dict[str, float]]):
        super().__init__(message)
        self.model = model
        self.history = history


@dataclass(frozen=True)
class Fitted:
    """A trained model, and one row per epoch: loss, validation loss, metrics.

    `diagnostics` say how much of the gradient was noise of the particles when it started, and
    how many of them carried the weight.
    """

    model: Model
    history: list[dict[str, float]] = field(repr=False)
    stopped: str = "finished"
    diagnostics: Noise = field(default_factory=Noise, repr=False)

    def _repr_html_(self) -> str:
        """The last epochs of the history."""
        names = list(dict.fromkeys(n for row in self.history for n in row))
        return table(names, ([r.get(n, math.nan) for n in names] for r in self.history[-MOST:]))

    def to_dataframe(self) -> Any:
        """The history as a data frame of pandas, a row for each epoch."""
        return frame(self.history)

    def to_xarray(self) -> Any:
        """The history as a data set of xarray, over epochs."""
        return history_dataset(self.history)

    def table(self) -> str:
        """The history as text."""
        names = list(dict.fromkeys(n for row in self.history for n in row))
        rows = [names] + [[f"{r[n]:.5g}" if n in r else "" for n in names] for r in self.history]
        return "\n".join("  ".join(cell.rjust(10) for cell in row) for row in rows)


__all__ = ["Fitted", "TrainingError"]
