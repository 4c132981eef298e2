"""Small exact trajectories are drawn by NumPy: nothing is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm.inference.filter import Filter

# A lamp has an owner, who is drawn once; it is seen on or off, with errors.
LAMP = """
owner(W) ~ categorical([0.5, 0.3, 0.2], [ann, bob, eve]).
on(V)@0 ~ uniform_int(0, 2).
on(V)@t ~ categorical([0.3, 0.2, 0.5], [0, 1, 2]) :- on(_)@(t-1), not owner(eve).
on(V)@t ~ uniform_int(0, W) :- on(W)@(t-1), owner(eve).
0.8::lit@t :- on(V)@t, V > 0.
0.1::lit@t.
observe(lit@t).
query(on(0)@t).
query(owner(eve)).
"""
SEEN = {"lit": np.array([[1, 1, 0, 1], [0, 1, 1, 1]])}
LENGTH = np.array([4, 2])
COUNT = 20_000


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawing(*_: Any) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(Filter, "_drawing", drawing)


def test_trajectories_have_the_smoothed_chances() -> None:
    model = nesymm.compile(LAMP)
    drawn = model.trajectories(SEEN, COUNT, steps=LENGTH, method="exact", key=3)
    smoothed = model.smooth(SEEN, steps=LENGTH, method="exact")
    for b, steps in enumerate(LENGTH):
        for t in range(steps):
            chance = smoothed["on(0)@t"][b, t]
            error = np.sqrt(chance * (1 - chance) / COUNT)
            assert abs((drawn.values["on"][b, :, t] == 0).mean() - chance) < 4 * error
    # Neighbouring steps fit together, and the owner stays who he is.
    values, owner = drawn.values["on"][0], drawn.draws["owner"][0]
    assert (owner == owner[:, :1]).all()
    eves = owner[:, 0] == 2
    assert (np.diff(values[eves]) <= 0).all() and (np.diff(values[~eves]) > 0).any()


def test_the_best_trajectory_is_the_most_frequent_one() -> None:
    model = nesymm.compile(LAMP)
    best = model.trajectories(SEEN, steps=LENGTH, method="exact", best=True).draws
    drawn = model.trajectories(SEEN, COUNT, steps=LENGTH, method="exact").draws
    for b, steps in enumerate(LENGTH):
        # Of everything that is drawn, also of what makes the lamp look lit.
        found, most = (
            np.concatenate([np.asarray(v[b, :, :steps], int) for _, v in sorted(x.items())], axis=1)
            for x in (drawn, best)
        )
        _, counts = np.unique(found, axis=0, return_counts=True)
        assert (found == most).all(1).sum() > counts.max() - 4 * np.sqrt(counts.max())
