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
    own_threshold: float  # balanced accuracy where more than the mean of the probabilities is death
    error: float  # of the balanced accuracy: its standard error over games

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def score(probabilities: np.ndarray, dead: np.ndarray) -> Scores:
    """Compares p(dead) with who died."""
    died = np.asarray(dead) == 1
    given = np.asarray(probabilities)
    positive = given > THRESHOLD
    both = int(np.sum(positive & died))
    wrong = int(np.sum(positive != died))
    p = np.clip(given, 1e-6, 1 - 1e-6)
    return Scores(
        balanced_accuracy=balanced_accuracy(positive, died),
        f1=2 * both / (2 * both + wrong) if both + wrong else 1.0,
        n=len(died),
        deaths=float(died.mean()),
        predicted=float(np.mean(given)),
        loss=float(-np.mean(np.where(died, np.log(p), np.log1p(-p)))),
        ranking=ranking(given, died),
        own_threshold=balanced_accuracy(given > np.mean(given), died),
        error=balanced_error(positive, died),
    )


def balanced_accuracy(positive: np.ndarray, died: np.ndarray) -> float:
    """In per cent: the mean over the classes that occur of how many of them are right."""
    right = [np.mean(positive[some] == died[some]) for some in (died, ~died) if some.any()]
    return 100 * float(np.mean(right))


def balanced_error(positive: np.ndarray, died: np.ndarray) -> float:
    """The standard error of the balanced accuracy, in per cent, if other games were played."""
    variances = [np.var(positive[some]) / some.sum() for some in (died, ~died) if some.any()]
    return 100 * float(np.sqrt(sum(variances))) / len(variances)


def ranking(given: np.ndarray, died: np.ndarray) -> float:
    """The area under the ROC curve, in per cent; ties count half."""
    from scipy.stats import rankdata

    dead, alive = int(died.sum()), int(np.sum(~died))
    if not dead or not alive:
        return 100.0
    above = rankdata(given)[died].sum() - dead * (dead + 1) / 2
    return 100 * float(above) / (dead * alive)
