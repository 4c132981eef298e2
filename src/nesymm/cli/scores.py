"""How well probabilities predict labels: the usual scores of a yes-or-no question."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scores:
    """`known` counts the labels. A score that these labels do not define is NaN."""

    known: int
    accuracy: float
    balanced_accuracy: float
    f1: float
    log_loss: float

    def as_json(self) -> dict[str, Any]:
        return {n: None if math.isnan(v) else v for n, v in asdict(self).items()}


def score(probabilities: np.ndarray, labels: np.ndarray) -> Scores:
    """Compare probabilities with zeros and ones; NaN on either side is left out.

    A probability from 0.5 on counts as yes. Balanced accuracy is the mean of the shares of right
    answers among true and among false labels; log loss the mean of -log p(label).
    """
    known = ~np.isnan(probabilities) & ~np.isnan(labels)
    p, true = probabilities[known], labels[known] > 0.5
    positive = p >= 0.5
    right = positive == true
    hits = int(np.sum(positive & true))
    found_or_missed = int(np.sum(positive)) + int(np.sum(true))
    with np.errstate(divide="ignore"):
        surprise = -np.log(np.where(true, p, 1 - p))
    return Scores(
        int(known.sum()),
        _mean(right),
        0.5 * (_mean(right[true]) + _mean(right[~true])),
        2 * hits / found_or_missed if found_or_missed else math.nan,
        _mean(surprise),
    )


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan
