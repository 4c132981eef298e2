"""Where a run of training stands, and what follows from that alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

Trainable = dict[str, Any]
# The validation loss of the best epoch so far, and the parameters and networks that it had.
Best = tuple[float, Any] | None


@dataclass(frozen=True)
class State:
    """Epochs done, and of the next one the batches done and their losses.

    `runs` are the numbers of the filter runs that the sequences keep, if they do.
    """

    variables: Trainable
    optimizer: Any
    epoch: int = 0
    batch: int = 0
    losses: tuple[float, ...] = ()
    history: list[dict[str, float]] = field(default_factory=list)
    runs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.batch


def batches_of(seed: int, epoch: int, kinds: np.ndarray, size: int) -> np.ndarray:
    """The batches of an epoch, [batch, sequence]. They depend on the seed and the number of the
    epoch alone, so that resuming in the middle gives the same batches.

    Sequences of one kind go together; what does not fill a batch goes with the next larger kind.
    Which kinds come when is the same for all seeds: runs side by side go through as many steps.
    """
    root = np.random.SeedSequence(seed).generate_state(2)
    order = np.random.default_rng([*root, epoch]).permutation(len(kinds))
    order = order[: len(order) // size * size]
    if not kinds.any():
        return order.reshape(-1, size)
    batches = order[np.argsort(kinds[order], kind="stable")].reshape(-1, size)
    return np.random.default_rng(epoch).permutation(batches)


def key_of(seed: int, epoch: int, number: int) -> Any:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), epoch), number)


def better(best: Best, row: Mapping[str, float], variables: Any) -> Best:
    """The best epoch so far, where there is validation."""
    score = row.get("validation")
    if score is None or np.isnan(score) or (best is not None and not score < best[0]):
        return best
    return score, variables


def is_stuck(history: list[dict[str, float]], patience: int | None) -> bool:
    """Whether the validation loss has not become better for so many epochs."""
    if patience is None or not history or "validation" not in history[-1]:
        return False
    past = np.nan_to_num([h["validation"] for h in history], nan=np.inf)
    return len(past) - 1 - int(np.argmin(past)) >= patience


__all__ = ["Best", "State", "Trainable", "batches_of", "better", "is_stuck", "key_of"]
