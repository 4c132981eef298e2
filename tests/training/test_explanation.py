"""Explanations name the clauses that fired, and what held in their bodies."""

from __future__ import annotations

import numpy as np

import nesymm

CAUSES = """
0.5::a@t.
0.5::b@t.
0.6::h@t :- a@t.
0.7::h@t :- b@t.
ever@t :- h@t.
ever@t :- ever@(t-1).
observe(h@t).
query(ever@t).
"""


def test_each_cause_of_a_noisy_or_is_told_by_its_own_draw() -> None:
    model = nesymm.compile(CAUSES)
    result = model.generate(count=12, horizon=3, method="exact")
    for trajectory in range(12):
        firings = model.explain(result, 0, trajectory)
        for step in range(4):
            here = (0, trajectory, step)
            lines = {f.line for f in firings if f.step == step}
            first = bool(result["a"][here] and result.values["h"][here])
            second = bool(result["b"][here] and result.values["h:2"][here])
            assert (4 in lines, 5 in lines) == (first, second)
            assert (6 in lines) == (first or second) == bool(result.observed["h"][here])
            assert (7 in lines) == bool(step and result["ever.present"][0, trajectory, step - 1])


MOVES = """
:- const(k, 2).
:- input(action(A)@t, [go, stop]).
near(X, Y)@t :- pos(_, Z)@t, abs(X - Z) < Y.
pos(E, 0)@0 :- between(1, k, E).
pos(E, X+1)@t :- pos(E, X)@(t-1), action(go)@t.
pos(E, X)@t :- pos(E, X)@(t-1), not action(go)@t.
0.5::hit(E)@t :- pos(E, X)@t, X > 0.
hurt@t :- hit(_)@t.
shift(S) ~ normal(0, 1).
level(V)@t ~ normal(M, 1) :- findall(E, hit(E)@t, L), length(L, N), shift(S), M is N + S.
close@t :- near(3, 2)@t.
observe(hurt@t).
observe(level@t).
query(close@t).
"""


def test_derivations_are_told_with_their_values() -> None:
    model = nesymm.compile(MOVES)
    actions = np.array([["stop", "go", "stop", "go"]])
    result = model.generate({"action": actions}, count=3)
    for trajectory in range(3):
        firings = model.explain(result, 0, trajectory)
        heads = {f.head for f in firings}
        told = {(f.head, f.because) for f in firings}
        assert ("pos(1,1)@1", ("pos(1,0)@0", "action(go)@1")) in told
        assert ("pos(2,1)@2", ("pos(2,1)@1", "not action(go)@2")) in told
        for step in range(4):
            atoms = result.atoms(0, trajectory, step)
            assert {a for a in atoms if a.startswith("pos(")} <= heads
            hits = result.values["hit"][0, trajectory, step] if step else [False, False]
            for enemy, hit in enumerate(hits, start=1):
                assert (f"hit({enemy})@{step}" in heads) == bool(hit)
            assert (f"hurt@{step}" in heads) == any(hits)
        # A rule that needs its arguments from a caller is not told by itself.
        assert not any(h.startswith("near") for h in heads)
        assert "close@3" in heads and "close@0" not in heads
        (shift,) = [f for f in firings if f.head.startswith("shift")]
        assert shift.step == 0 and shift.clause == "shift(S) ~ normal(0, 1)" and shift.line == 10
        assert "close@3 because near(3,2)@3  [line 12]" in [str(f) for f in firings]
