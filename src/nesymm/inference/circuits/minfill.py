"""A vtree that follows the structure of a formula.

Gates, atoms and variables are the vertices of a graph in which every gate is linked to
what it combines. Eliminating vertices where it links the fewest new pairs ("min-fill")
gives a tree of small separators; items that are eliminated together end up together in
the vtree. For circuits of small treewidth the diagrams stay small.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from nesymm.inference.circuits.formula import LITERAL, Formula
from nesymm.inference.circuits.vtrees import Builder

# Past this many neighbours, separators are no guide any more and counting is slow.
_WIDE = 48


def min_fill(
    formula: Formula,
    roots: Sequence[int],
    order: Sequence[int],
    atoms: dict[int, int],
    build: Builder,
) -> int:
    """The elimination tree for items in `order`; `atoms` maps recursive atoms to items."""
    cliques = _eliminated(_neighbours(formula, roots, order, atoms))
    rank = {vertex: i for i, vertex in enumerate(cliques)}
    items = set(order)
    # What waits for a vertex: the parts of those that are eliminated before it and next to it.
    waiting: dict[int, list[tuple[int, int]]] = {vertex: [] for vertex in cliques}
    tops: list[tuple[int, int]] = []
    for vertex, clique in cliques.items():
        parts = waiting[vertex]
        if vertex in items:
            parts.append((1, build.leaf(vertex)))
        if parts:
            above = waiting[min(clique, key=rank.__getitem__)] if clique else tops
            above.append(_join(parts, build))
    return _join(tops, build)[1]


def _eliminated(near: dict[int, set[int]]) -> dict[int, set[int]]:
    """The vertices in the order of their elimination, and what each is next to then."""
    cliques: dict[int, set[int]] = {}
    queue = [(_fill(near, vertex), i, vertex) for i, vertex in enumerate(near)]
    place = {vertex: i for _, i, vertex in queue}
    heapq.heapify(queue)
    while queue:
        cost, _, vertex = heapq.heappop(queue)
        if vertex in cliques:
            continue
        now = _fill(near, vertex)
        if now > cost:
            # Costs grow while a vertex waits; look again before taking it.
            heapq.heappush(queue, (now, place[vertex], vertex))
            continue
        clique = cliques[vertex] = near.pop(vertex)
        for other in clique:
            links = near[other]
            links |= clique
            links.discard(other)
            links.discard(vertex)
        for other in clique:
            heapq.heappush(queue, (_fill(near, other), place[other], other))
    return cliques


def _join(parts: list[tuple[int, int]], build: Builder) -> tuple[int, int]:
    """One subtree of several, given as (leaves, node); the smallest go deepest."""
    heapq.heapify(parts)
    while len(parts) > 1:
        small, left = heapq.heappop(parts)
        large, right = heapq.heappop(parts)
        heapq.heappush(parts, (small + large, build.inner(left, right)))
    return parts[0]


def _fill(near: dict[int, set[int]], vertex: int) -> tuple[int, int]:
    """How many new links the elimination of a vertex makes, and its degree."""
    others = near[vertex]
    degree = len(others)
    if degree > _WIDE:
        return degree * degree, degree
    missing = sum(degree - 1 - len(others & near[other]) for other in others)
    return missing // 2, degree


def _neighbours(
    formula: Formula, roots: Sequence[int], order: Sequence[int], atoms: dict[int, int]
) -> dict[int, set[int]]:
    near: dict[int, set[int]] = {item: set() for item in order}
    for group in _groups(formula, roots, len(formula.sizes) + len(atoms), atoms):
        for vertex in group:
            near.setdefault(vertex, set()).update(group)
    for vertex, links in near.items():
        links.discard(vertex)
    return near


def _groups(
    formula: Formula, roots: Sequence[int], first_gate: int, atoms: dict[int, int]
) -> Iterator[list[int]]:
    """Vertices that belong together: a gate and what it combines, at most two at a time."""
    vertex: dict[int, int] = {}
    fresh = first_gate

    def name(node: int) -> int:
        nonlocal fresh
        # What has one argument is the same vertex as its argument.
        while node not in atoms and formula.ops[node] != LITERAL and len(formula.args[node]) == 1:
            node = formula.args[node][0]
        if formula.ops[node] == LITERAL:
            return formula.args[node][0]
        if node in atoms:
            return atoms[node]
        if node not in vertex:
            vertex[node] = fresh
            fresh += 1
        return vertex[node]

    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen or formula.ops[node] == LITERAL:
            continue
        seen.add(node)
        args = formula.args[node]
        stack.extend(args)
        if node in atoms:
            yield [atoms[node], name(args[0])]
        elif len(args) > 1:
            # Many arguments are combined two by two: a gate should not link all of them.
            current = name(args[0])
            for arg in args[1:-1]:
                yield [current, name(arg), fresh]
                current, fresh = fresh, fresh + 1
            yield [current, name(args[-1]), name(node)]
