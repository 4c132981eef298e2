"""A finite variable that is observed at every step is read from the data, not summed over."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nesymm
from nesymm.ir.algebra import not_, or_
from nesymm.ir.expr import TRUE, make, postorder
from nesymm.ir.passes.phases import phases, use_observed
from nesymm.ir.types import BOOL

WALK = """
way(left, -1).
way(right, 1).
way(stay, 0).
action(A)@t ~ categorical([0.2, 0.5, 0.3], [left, right, stay]).
place(X)@0 ~ uniform_int(1, 4).
place(X)@t :- target(X)@t, not wall(X).
place(X)@t :- place(X)@(t-1), target(Y)@t, wall(Y).
target(Y)@t :- place(X)@(t-1), action(A)@t, way(A, D), Y is X + D.
wall(X) :- between(0, 5, X), (X < 1 ; X > 4).
:- domain(place/1, 1, 1..4).
seen(Z)@t ~ normal(X, 0.7) :- place(X)@t.
0.3::tired@t :- action(right)@t.
observe(action@t).
observe(seen@t).
query(place(X)@t).
query(tired@t).
query(action(right)@t).
"""
STEPS = 4
ACTIONS = ("left", "right", "stay")


@pytest.fixture(scope="module")
def model() -> nesymm.Model:
    return nesymm.compile(WALK)


def test_what_follows_from_it_does_not_depend_on_the_variable(model: nesymm.Model) -> None:
    given = frozenset({"action", "seen"})
    both = use_observed(phases(model.step, given), given)
    for phase in both:
        others = [o for o in phase.observations if o.name != "action"]
        read = [
            *(e for s in phase.slots for e in s.expressions()),
            *(e for q in phase.queries for e in q.expressions()),
            *(e for o in others for e in o.expressions()),
            *(e for v in phase.variables for e in v.expressions()),
        ]
        assert not [n for n in postorder(read) if n.op == "rv" and n.data == "action"]


def test_an_action_that_is_missing_is_summed_over(model: nesymm.Model) -> None:
    """Against the sum over all actions at the steps in which none is told."""
    seen = np.random.default_rng(0).normal(2.0, 1.0, (1, STEPS))
    told = [["right", None, "left", None]]
    whole = model.filter({"action": told, "seen": seen}, method="exact")
    total, answer = 0.0, 0.0
    for first, second in product(ACTIONS, ACTIONS):
        data = {"action": [["right", first, "left", second]], "seen": seen}
        part = model.filter(data, method="exact")
        weight = np.exp(part.log_evidence[0])
        total += weight
        answer += weight * part.probability("place(3)@t", step=STEPS - 1)[0]
        assert part.probability("action(right)@t", step=3)[0] == float(second == "right")
        tired = 0.3 * (second == "right")
        assert part.probability("tired@t", step=3)[0] == pytest.approx(tired)
    assert whole.log_evidence[0] == pytest.approx(np.log(total), rel=1e-9)
    assert whole.probability("place(3)@t", step=3)[0] == pytest.approx(answer / total, rel=1e-9)


def test_trajectories_have_the_actions(model: nesymm.Model) -> None:
    seen = np.random.default_rng(0).normal(2.0, 1.0, (1, STEPS))
    actions = ["right", "stay", "left", "right"]
    drawn = model.trajectories({"action": [actions], "seen": seen}, 5, method="exact")
    made = model.generate({"action": [actions]}, 3, method="exact")
    for found in (drawn, made):
        place = found["place"][0].astype(int)
        moves = np.array([dict(left=-1, right=1, stay=0)[a] for a in actions[1:]])
        assert (place[:, 1:] == np.clip(place[:, :-1] + moves, 1, 4)).all()


def test_one_of_them_or_none_of_them_is_certain() -> None:
    a, b, c = (make("given", data=n, type_=BOOL) for n in "abc")
    assert or_(not_(or_(a, b)), a, b) is TRUE
    assert or_(not_(or_(a, b)), a, c) is or_(a, c, not_(b))
