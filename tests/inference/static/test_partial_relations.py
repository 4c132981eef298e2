"""Relations of names that do not hold for all of them: every graph of rooms is one."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm

ROOMS = {"o": 0.1, "h": 0.2, "k": 0.3, "l": 0.15, "g": 0.25}
DOORS = [("o", "h"), ("h", "k"), ("h", "l"), ("h", "g")]
VALUES = f"categorical({list(ROOMS.values())}, [{', '.join(ROOMS)}])"
FACTS = " ".join(f"d({a}, {b})." for a, b in DOORS)
METHODS = ["exact", "rao-blackwellised", "bootstrap"]
DRAWN = f"""
    w(Q)@t ~ {VALUES}.
    v(R)@t ~ {VALUES}.
    {FACTS}
    size(o, 1). size(h, 2). size(attic, 3).
    ok@t :- w(Q)@t, v(R)@t, d(Q, R).
    not_ok@t :- w(Q)@t, v(R)@t, not d(Q, R).
    next(R)@t :- w(Q)@t, d(Q, R).
    s(N)@t :- w(Q)@t, size(Q, N).
    query(ok@t). query(not_ok@t). query(next(R)@t). query(s(N)@t).
"""


def expected() -> dict[str, float]:
    joined = sum(ROOMS[a] * ROOMS[b] for a, b in DOORS)
    found = {"ok": joined, "not_ok": 1 - joined}
    for room in dict.fromkeys(b for _, b in DOORS):
        found[f"next({room})"] = sum(ROOMS[a] for a, b in DOORS if b == room)
    return found | {"s(1)": ROOMS["o"], "s(2)": ROOMS["h"]}


@pytest.mark.parametrize("method", METHODS)
def test_names_that_a_relation_does_not_have(method: str) -> None:
    result = nesymm.compile(DRAWN).filter(steps=2, method=method)
    for name, p in expected().items():
        error = 4 * np.sqrt(p * (1 - p) / 1000) if method == "bootstrap" else 0
        assert result.filtered[f"{name}@t"] == pytest.approx(np.full((1, 2), p), abs=1e-5 + error)
    assert not result.filtered.get("s(3)@t", np.zeros(1)).any()


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
def test_names_that_a_relation_does_not_have_without_time(method: str) -> None:
    result = nesymm.compile(DRAWN.replace("@t", "")).infer(method=method)
    for name, p in expected().items():
        assert result.probability(name) == pytest.approx(p)


WALK = f"""
    {FACTS}
    0.5::stay@t.
    0.7::open(R)@t :- d(_, R).
    at(o)@0.
    at(h)@t :- at(o)@(t-1), not stay@t.
    at(k)@t :- at(h)@(t-1), not stay@t.
    at(R)@t :- at(R)@(t-1), stay@t.
    stuck@t :- at(R)@t, not d(R, _).
    0.9::noise@t :- stuck@t.
    0.2::noise@t :- not stuck@t.
    observe(noise@t).
    query(stuck@t). query(at(R)@t).
"""


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_a_walk_through_rooms(method: str) -> None:
    """Compared with a filter over the four states (o, h, k, gone), written out."""
    noise = [0, 1, 1]
    move = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1]])
    hears = np.array([0.2, 0.2, 0.9, 0.2])
    belief, rows, evidence = np.array([1.0, 0, 0, 0]), [], 0.0
    for t, heard in enumerate(noise):
        belief = belief @ move if t else belief
        belief = belief * (hears if heard else 1 - hears)
        evidence += np.log(belief.sum())
        belief = belief / belief.sum()
        rows.append(belief)
    result = nesymm.compile(WALK).filter({"noise": [noise]}, method=method)
    error = 1e-5 if method == "exact" else 0.06
    assert result.log_evidence == pytest.approx([evidence], abs=error)
    for i, room in enumerate("ohk"):
        assert result.filtered[f"at({room})@t"][0] == pytest.approx([r[i] for r in rows], abs=error)
    assert result.filtered["stuck@t"][0] == pytest.approx([r[2] for r in rows], abs=error)
