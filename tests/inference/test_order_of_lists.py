"""Lists that findall collects of drawn predicates have the order in which answers are found.

The oracle goes through all worlds: who is in the list is decided one after the other, in the order
of the facts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

import nesymm

FACTS = "a(c). a(b). a(d)."
ORDER = ("c", "b", "d")
# How each one comes to be in the list, and with what probability.
DRAWS = {
    "a drawn value": ("lv(A, V){t} ~ uniform_int(0, 1) :- a(A).", "lv(A, 1){t}", 0.5),
    "a drawn name": (
        "lv(A, V){t} ~ categorical([0.2, 0.5, 0.3], [x, y, z]) :- a(A).", "lv(A, y){t}", 0.5),
    "a probabilistic clause": ("0.3::lv(A){t} :- a(A).", "lv(A){t}", 0.3),
    "a disjunction": ("0.3::lv(A, p){t}; 0.6::lv(A, q){t} :- a(A).", "lv(A, q){t}", 0.6),
    "a condition on a value": (
        "lv(A, V){t} ~ uniform_int(1, 4) :- a(A).", "(lv(A, V){t}, V > 1)", 0.75),
    "a rule": (
        "lw(A, V){t} ~ uniform_int(0, 1) :- a(A). lv(A){t} :- lw(A, 1){t}.", "lv(A){t}", 0.5),
}  # fmt: skip
USES = {
    "head": "L = [H | _]",
    "first": "nth1(1, L, H)",
    "second": "nth1(2, L, H)",
    "third": "nth0(2, L, H)",
    "last": "last(L, H)",
    "second from the tail": "L = [_, H | _]",
}
TAKE: dict[str, Any] = {
    "head": lambda x: x[:1],
    "first": lambda x: x[:1],
    "second": lambda x: x[1:2],
    "third": lambda x: x[2:3],
    "last": lambda x: x[-1:],
    "second from the tail": lambda x: x[1:2],
}


def expected(p: float, use: str) -> dict[str, float]:
    found: Counter[str] = Counter()
    for world in itertools.product((False, True), repeat=len(ORDER)):
        weight = 1.0
        for there in world:
            weight *= p if there else 1 - p
        for item in TAKE[use]([x for x, there in zip(ORDER, world, strict=True) if there]):
            found[item] += weight
    return dict(found)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("draw", DRAWS)
def test_items_by_their_place(draw: str, use: str) -> None:
    clause, goal, p = DRAWS[draw]
    right = expected(p, use)
    for time in ("", "@t"):
        text = (
            f"{FACTS} {clause} hd(H){{t}} :- findall(A, {goal}, L), {USES[use]}. query(hd(X){{t}})."
        )
        model = nesymm.compile(text.replace("{t}", time))
        if not time:
            found = {n: float(v) for n, v in model.infer().queries.items() if v > 0}
            assert found == {f"hd({x})": pytest.approx(q) for x, q in right.items()}
            continue
        for method in ("exact", "rao-blackwellised"):
            filtered = model.filter(steps=2, method=method).filtered
            for x, q in right.items():
                assert filtered[f"hd({x})@t"][0] == pytest.approx([q, q], abs=1e-5)


def test_the_head_of_a_list_of_some_numbers() -> None:
    """One half, a quarter, an eighth: the first that is drawn 1."""
    text = (
        "a(1). a(2). a(3). lv(A, V){t} ~ uniform_int(0, 1) :- a(A). "
        "hd(H){t} :- findall(A, lv(A, 1){t}, [H | _]). query(hd(X){t})."
    )
    static = nesymm.compile(text.replace("{t}", "")).infer().queries
    assert [static[f"hd({x})"] for x in (1, 2, 3)] == pytest.approx([0.5, 0.25, 0.125])
    timed = nesymm.compile(text.replace("{t}", "@t")).filter(steps=1).filtered
    assert [timed[f"hd({x})@t"][0, 0] for x in (1, 2, 3)] == pytest.approx([0.5, 0.25, 0.125])


@pytest.mark.parametrize("time", ["", "@t"])
def test_drawn_values_in_order(time: str) -> None:
    """The values themselves as a list: that of each fact at its place."""
    text = (
        f"{FACTS} lv(A, V){time} ~ uniform_int(0, 1) :- a(A). "
        f"same{time} :- findall(V, lv(_, V){time}, [X, Y, Z]), X < Y, Y > Z. "
        f"at(I, X){time} :- member(I, [1, 2, 3]), findall(V, lv(_, V){time}, L), nth1(I, L, X). "
        f"own{time} :- lv(b, V){time}, at(2, V){time}. query(same{time}). query(own{time})."
    )
    model = nesymm.compile(text)
    answers: Any = model.filter(steps=1).filtered if time else model.infer().queries
    assert answers[f"same{time}"] == pytest.approx(1 / 8)
    assert answers[f"own{time}"] == pytest.approx(1)
