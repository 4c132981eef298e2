"""Sums over several things that are drawn: what leads to them is forgotten bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.inference.elimination import factors as elimination
from nesymm.inference.elimination.choices import cells
from nesymm.inference.methods import RaoBlackwellised

PROGRAM = """
:- const(imps, 3).
:- domain(hp/1, 1, 0..12).
imp(E) :- between(1, imps, E).
strikes(E)@t ~ bernoulli(0.3) :- imp(E).
damage(E, D)@t ~ uniform_int(1, 4) :- imp(E).
wound(E, D)@t :- strikes(E)@t, damage(E, D)@t.
wounds(W)@t :- aggregate_all(sum(D), wound(_, D)@t, W).
hp(12)@0.
hp(H)@t :- hp(H0)@(t-1), wounds(W)@t, H is max(0, H0 - W).
hit@t :- hp(H)@t, hp(H0)@(t-1), H < H0.
observe(hit@t).
query(hp(H)@t).
"""
HITS = np.array([[0, 1, 1, 0, 1], [0, 0, 1, 1, 1]])


def by_hand(imps: int, hits: np.ndarray) -> tuple[np.ndarray, float]:
    """The filtered distribution of health at each step, and the log-evidence."""
    one = np.array([0.7, *[0.3 / 4] * 4])
    total = np.ones(1)
    for _ in range(imps):
        total = np.convolve(total, one)
    belief, log = np.eye(13)[12], 0.0
    found = [belief]
    for hit in hits[1:]:
        new = np.zeros(13)
        for before in range(13):
            for wounds, chance in enumerate(total):
                after = max(0, before - wounds)
                if (after < before) == hit:
                    new[after] += belief[before] * chance
        log += np.log(new.sum())
        belief = new / new.sum()
        found.append(belief)
    return np.array(found), log


# Each imp has 8 outcomes: all together 512, and 32,768.
@pytest.mark.parametrize(("imps", "most"), [(3, 600), (5, 4000)])
def test_the_total_of_many_wounds(imps: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(elimination.Capacity, "refuse", lambda _, dims: sizes.append(cells(dims)))
    model = nesymm.compile(PROGRAM, constants={"imps": imps})
    exact = model.filter({"hit": HITS}, method="exact")
    rough = model.filter({"hit": HITS}, method=RaoBlackwellised(4000), key=1)
    # The estimate of the evidence has no bias, whatever the number of particles.
    runs = [model.filter({"hit": HITS}, method=RaoBlackwellised(4000), key=k) for k in range(8)]
    logs = np.stack([run.log_evidence for run in runs])
    for row, hits in enumerate(HITS):
        beliefs, log = by_hand(imps, hits)
        assert exact.log_evidence[row] == pytest.approx(log, abs=1e-4)
        ratios = np.exp(logs[:, row] - log)
        error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
        assert np.mean(ratios) == pytest.approx(1, abs=5 * error + 1e-4)
        for health in range(13):
            name = f"hp({health})@t"
            assert exact.filtered[name][row] == pytest.approx(beliefs[:, health], abs=1e-5)
            # The first step is exact; later ones start from 4,000 draws: 5 standard errors at most.
            assert rough.filtered[name][row, :2] == pytest.approx(beliefs[:2, health], abs=1e-5)
            assert rough.filtered[name][row] == pytest.approx(beliefs[:, health], abs=0.04)
    assert 100 < max(sizes) < most
