"""A recursion comes back to the place where a variable runs along an axis: there it is another
variable."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

import nesymm

N = 4
Edges = frozenset[tuple[int, int]]


def chance(holds: Callable[[Edges], bool]) -> float:
    """The probability of a property of a graph whose edges are there with 0.5 each: by counting.
    Edges into the first node or out of the last one do not matter, nor do loops."""
    edges = [(x, y) for x in range(1, N) for y in range(2, N + 1) if x != y]
    worlds = product((False, True), repeat=len(edges))
    graphs = (frozenset(e for e, there in zip(edges, w, strict=True) if there) for w in worlds)
    found = [holds(g) for g in graphs]
    return sum(found) / len(found)


def reached(edges: Edges, steps: int) -> set[int]:
    """Where walks of so many edges from the first node may end."""
    here = {1}
    for _ in range(steps):
        here = {y for x, y in edges if x in here}
    return here


def connected(edges: Edges) -> bool:
    return any(N in reached(edges, steps) for steps in range(N))


def walk_of_three(edges: Edges) -> bool:
    return N in reached(edges, 3)


EDGES = "0.5::e(X, Y)@t :- between(1, 4, X), between(1, 4, Y), X \\= Y.\n"
# No walk through these comes back to where it began or goes on from where it ends.
INNER = "f(X, Y)@t :- e(X, Y)@t, Y > 1, X < 4.\n"
CLOSURE = """
path(X, Y)@t :- e(X, Y)@t.
path(X, Y)@t :- e(X, Z)@t, path(Z, Y)@t.
query(path(1, 4)@t).
"""
COUNTED = """
walk(X, Y, 1)@t :- f(X, Y)@t.
walk(X, Y, N)@t :- N > 1, f(X, Z)@t, M is N - 1, walk(Z, Y, M)@t.
query(walk(1, 4, 3)@t).
"""
COUNTED_BETWEEN = """
walk(X, Y, 1)@t :- f(X, Y)@t.
walk(X, Y, N)@t :- N > 1, between(1, 4, Z), f(X, Z)@t, M is N - 1, walk(Z, Y, M)@t.
query(walk(1, 4, 3)@t).
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (EDGES + CLOSURE, connected),
        (EDGES + INNER + COUNTED, walk_of_three),
        (EDGES + INNER + COUNTED_BETWEEN, walk_of_three),
    ],
)
def test_a_recursion_along_an_axis(text: str, holds: Callable[[Edges], bool]) -> None:
    found = nesymm.compile(text).filter(steps=2, method="exact")
    (query,) = found.filtered
    assert found.filtered[query] == pytest.approx(chance(holds))


def test_a_recursion_through_what_is_carried() -> None:
    text = """
    0.5::e(X, Y)@0 :- between(1, 4, X), between(1, 4, Y), X \\= Y.
    e(X, Y)@t :- e(X, Y)@(t-1).
    walk(X, Y, 1)@t :- e(X, Y)@(t-1), Y > 1, X < 4.
    walk(X, Y, N)@t :- N > 1, e(X, Z)@(t-1), Z > 1, X < 4, M is N - 1, walk(Z, Y, M)@t.
    query(walk(1, 4, 3)@T).
    """
    found = nesymm.compile(text).filter(steps=2, method="exact")
    assert found.probability("walk(1,4,3)@T") == pytest.approx(chance(walk_of_three))
