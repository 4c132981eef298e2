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


def test_each_cause_of_a_noisy_or_is_listed_by_its_own_draw() -> None:
    model = nesymm.compile(CAUSES)
    result = model.generate(count=12, steps=4, method="exact")
    for trajectory in range(12):
        firings = model.explain(result, 0, trajectory)
        for step in range(4):
            here = (0, trajectory, step)
            lines = {f.line for f in firings if f.step == step}
            first = bool(result["a"][here] and result.draws["h"][here])
            second = bool(result["b"][here] and result.draws["h:2"][here])
            assert (4 in lines, 5 in lines) == (first, second)
            assert (6 in lines) == (first or second) == bool(result.observed["h"][here])
            assert (7 in lines) == bool(step and result["ever"][0, trajectory, step - 1])


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


def test_derivations_are_listed_with_their_values() -> None:
    model = nesymm.compile(MOVES)
    actions = np.array([["stop", "go", "stop", "go"]])
    result = model.generate({"action": actions}, count=3)
    for trajectory in range(3):
        firings = model.explain(result, 0, trajectory)
        heads = {f.head for f in firings}
        listed = {(f.head, f.because) for f in firings}
        assert ("pos(1,1)@1", ("pos(1,0)@0", "action(go)@1")) in listed
        assert ("pos(2,1)@2", ("pos(2,1)@1", "not action(go)@2")) in listed
        for step in range(4):
            atoms = result.atoms(0, trajectory, step)
            assert {a for a in atoms if a.startswith("pos(")} <= heads
            hits = result.draws["hit"][0, trajectory, step] if step else [False, False]
            for enemy, hit in enumerate(hits, start=1):
                assert (f"hit({enemy})@{step}" in heads) == bool(hit)
            assert (f"hurt@{step}" in heads) == any(hits)
        # A rule that needs its arguments from a caller is listed for those that it was called with.
        near = {h for h in heads if h.startswith("near")}
        assert near == {h.replace("close", "near(3,2)") for h in heads if h.startswith("close")}
        assert ("near(3,2)@3", ("pos(1,2)@3", "abs(3 - 2) < 2")) in listed
        assert "close@3" in heads and "close@0" not in heads
        (shift,) = [f for f in firings if f.head.startswith("shift")]
        assert shift.step == 0 and shift.clause == "shift(S) ~ normal(0, 1)" and shift.line == 10
        assert "close@3 because near(3,2)@3  [line 12]" in [str(f) for f in firings]


def test_lists_are_listed_with_the_items_that_were_there() -> None:
    model = nesymm.compile("""
        0.5::ill(X)@t :- between(1, 3, X).
        many(N)@t :- findall(X, ill(X)@t, L), length(L, N).
        observe(many@t).
    """)
    found = model.generate(count=5, steps=3)
    for trajectory in range(5):
        listed = {f.head: f.because[0] for f in found.explain(0, trajectory)}
        for step in range(3):
            there = [x + 1 for x in np.flatnonzero(found["ill"][0, trajectory, step])]
            items = ", ".join(map(str, there))
            assert listed[f"many({len(there)})@{step}"] == f"findall(X, ill(X)@{step}, [{items}])"


def test_a_rule_is_listed_where_the_values_that_it_is_called_with_exist() -> None:
    """The place of somebody who is not there has no meaning, and nothing follows from it."""
    model = nesymm.compile("""
        far(X)@t :- goal(Z)@t, abs(X - Z) > 2.
        goal(4)@t.
        0.5::here@t.
        pos(X)@t ~ categorical([0.5, 0.5], [1, 2]) :- here@t.
        lost@t :- pos(X)@t, far(X)@t.
        observe(lost@t).
    """)
    found = model.generate(count=10, steps=4, method="exact")
    for trajectory in range(10):
        heads = {f.head for f in found.explain(0, trajectory)}
        for step in range(4):
            at = (0, trajectory, step)
            lost = bool(found["here"][at] and found["pos"][at] == 1)
            assert lost == bool(found["lost"][at]) == (f"lost@{step}" in heads)
            assert lost == (f"far(1)@{step}" in heads) and f"far(2)@{step}" not in heads


def test_recursion_within_a_step_is_listed() -> None:
    model = nesymm.compile("""
        0.5::edge(X, Y)@t :- between(1, 3, X), between(1, 3, Y), X \\= Y.
        reach(1)@t.
        reach(Y)@t :- reach(X)@t, edge(X, Y)@t.
        query(reach(3)@t).
        observe(reach(3)@1, true).
    """)
    found = model.generate(count=5, steps=3, method="exact")
    for trajectory in range(5):
        listed = found.explain(0, trajectory)
        for step in range(3):
            heads = {f.head for f in listed if f.step == step}
            edges = [
                (x, y) for x in (1, 2, 3) for y in (1, 2, 3) if f"edge({x},{y})@{step}" in heads
            ]
            reached = {1}
            for _ in range(3):
                reached |= {y for x, y in edges if x in reached}
            asked = bool(found["reach(3)@t"][0, trajectory, step])
            assert (f"reach(3)@{step}" in heads) == (3 in reached) == asked
            because = {f.because for f in listed if f.head == f"reach(3)@{step}"}
            steps = {
                (f"reach({x})@{step}", f"edge({x},3)@{step}") for x in reached if (x, 3) in edges
            }
            assert because == steps


def test_an_extension_is_named() -> None:
    model = nesymm.compile(CAUSES).extend("c@t :- a@t, b@t.\nobserve(c@1, true).", "more.nsl")
    found = model.generate(steps=2, method="exact")
    listed = [str(f) for f in found.explain()]
    assert "c@1 because a@1, b@1  [line 1 of more.nsl]" in listed
    assert "a@1  [line 2]" in listed


def test_posterior_draws_are_explained_too() -> None:
    model = nesymm.compile(CAUSES)
    found = model.trajectories({"h": np.array([[1, 0, 1]])}, 3, method="exact")
    for trajectory in range(3):
        heads = {f.head for f in model.explain(found, 0, trajectory)}
        assert {"h@0", "h@2"} <= heads and "h@1" not in heads


def test_nothing_is_compiled_to_explain(monkeypatch) -> None:
    found = nesymm.compile(CAUSES).generate(steps=2, method="exact")
    monkeypatch.delattr("nesymm.ground.grounder.ground")
    assert found.explain()


def test_what_is_written_as_an_underscore_is_shown_so() -> None:
    model = nesymm.compile("""
        room(hall). room(attic).
        at(ann, hall)@t.
        dark(R)@t :- room(R), not at(_, R)@t.
        query(dark(attic)@t).
    """)
    paths = model.generate(count=1, steps=1)
    shown = [str(f) for f in model.explain(paths)]
    assert any(f.startswith("dark(attic)@0 because room(attic), not at(_,attic)@0") for f in shown)


def test_aggregates_read_as_they_are_written() -> None:
    model = nesymm.compile("""
        e(1). e(2). on(E)@t :- e(E), E > t.
        a(N)@t :- aggregate_all(count, on(_)@t, N).
        b(S)@t :- aggregate_all(sum(E), (on(E)@t, E > 0), S).
        c(N)@t :- findall(E, on(E)@t, L), length(L, N).
        d(min<E>)@t :- on(E)@t.
        query(a(2)@t). query(b(3)@t). query(c(2)@t). query(d(1)@t).
    """)
    fired = model.explain(model.trajectories(steps=1))
    assert {f.head: ", ".join(f.because) for f in fired if not f.head.startswith("on")} == {
        "a(2)@0": "aggregate_all(count, on(_)@0, 2)",
        "b(3)@0": "aggregate_all(sum(E), (on(E)@0, E > 0), 3)",
        "c(2)@0": "findall(E, on(E)@0, [1, 2]), length([1, 2], 2)",
        "d(1)@0": "aggregate_all(min(E), on(E)@0, 1)",
    }
