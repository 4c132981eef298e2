"""Groups of friends who take up smoking and give it up, simulated with NumPy alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# What a model is to find: the chances in the program, in its order.
TRUTH = {"start": 0.25, "habit": 0.8, "stress": 0.3, "friend": 0.08}
FEATURES = 3
FRIENDS = 3.0  # of a person, on average
ASKED = 0.25  # how often a person is asked whether they smoke, and whether they are stressed


class Groups(NamedTuple):
    """Data as the program reads them, and who really smokes, [group, week, person]."""

    data: dict[str, np.ndarray]
    smokes: np.ndarray


def strain(features: np.ndarray) -> np.ndarray:
    """The chance of stress: by work or by trouble at home, whichever is worse."""
    worse = np.maximum(features[..., 0], features[..., 1])
    return 1 / (1 + np.exp(2.5 - 2.5 * worse))


def simulate(
    rng: np.random.Generator, groups: int, smallest: int, largest: int, weeks: int, room: int
) -> Groups:
    """Groups of `smallest` to `largest` people, in arrays with a place for `room`."""
    size = rng.integers(smallest, largest + 1, groups)
    person = np.arange(room) < size[:, None]
    chance = np.minimum(1, FRIENDS / (size - 1))[:, None, None]
    friend = np.triu(rng.random((groups, room, room)) < chance, 1)
    friend = (friend | friend.transpose(0, 2, 1)) & person[:, :, None] & person[:, None]
    features = rng.normal(size=(groups, room, FEATURES))
    stress = rng.random((groups, weeks, room)) < strain(features)[:, None]
    smokes = np.zeros((groups, weeks, room), bool)
    for week in range(weeks):
        quiet = np.where(stress[:, week], 1 - TRUTH["stress"], 1.0)
        if week == 0:
            quiet = quiet * (1 - TRUTH["start"])
        else:
            before = smokes[:, week - 1]
            quiet = quiet * np.where(before, 1 - TRUTH["habit"], 1.0)
            quiet = quiet * (1 - TRUTH["friend"]) ** (friend & before[:, None]).sum(-1)
        smokes[:, week] = person & (rng.random((groups, room)) >= quiet)

    def asked(truth: np.ndarray) -> np.ndarray:
        return np.where((rng.random(truth.shape) < ASKED) & person[:, None], truth, np.nan)

    data = {"person": person, "friend": friend, "features": features}
    return Groups({**data, "stress": asked(stress), "smokes": asked(smokes)}, smokes)
