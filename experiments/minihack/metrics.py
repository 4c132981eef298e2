"""How well predictions fit: over a whole test set, at the threshold 0.5."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

THRESHOLD = 0.5


@dataclass(frozen=True)
class Scores:
    """Balanced accuracy in per cent, F1 of death, and whether the probabilities are right."""

    balanced_accuracy: float
    f1: float
    n: int
    deaths: float  # the frequency of death
    predicted: float  # the mean of the probabilities
    loss: float  # the mean of -log p(what happened)
    ranking: float  # in per cent, how often one who dies is given more than one who survives
    own_bar: float  # balanced accuracy where more than the mean of the probabilities is death
    error: float  # of the balanced accuracy: its standard error over games

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def score(probabilities: np.ndarray, dead: np.ndarray) -> Scores:
    """Compares p(dead) with who died."""
    told = np.asarray(dead) == 1
    given = np.asarray(probabilities)
    said = given > THRESHOLD
    both = int(np.sum(said & told))
    wrong = int(np.sum(said != told))
    p = np.clip(given, 1e-6, 1 - 1e-6)
    return Scores(
        balanced_accuracy=balanced_accuracy(said, told),
        f1=2 * both / (2 * both + wrong) if both + wrong else 1.0,
        n=len(told),
        deaths=float(told.mean()),
        predicted=float(np.mean(given)),
        loss=float(-np.mean(np.where(told, np.log(p), np.log1p(-p)))),
        ranking=ranking(given, told),
        own_bar=balanced_accuracy(given > np.mean(given), told),
        error=balanced_error(said, told),
    )


def balanced_accuracy(said: np.ndarray, told: np.ndarray) -> float:
    """In per cent: the mean over the classes that occur of how many of them are right."""
    right = [np.mean(said[some] == told[some]) for some in (told, ~told) if some.any()]
    return 100 * float(np.mean(right))


def balanced_error(said: np.ndarray, told: np.ndarray) -> float:
    """The standard error of the balanced accuracy, in per cent, if other games were played."""
    variances = [np.var(said[some]) / some.sum() for some in (told, ~told) if some.any()]
    return 100 * float(np.sqrt(sum(variances))) / len(variances)


def ranking(given: np.ndarray, told: np.ndarray) -> float:
    """The area under the ROC curve, in per cent; ties count half."""
    from scipy.stats import rankdata

    dead, alive = int(told.sum()), int(np.sum(~told))
    if not dead or not alive:
        return 100.0
    above = rankdata(given)[told].sum() - dead * (dead + 1) / 2
    return 100 * float(above) / (dead * alive)
