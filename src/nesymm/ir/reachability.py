"""What can be reached in a directed graph, and its strongly connected components."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reachable(starts: Iterable[T], children: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """The nodes below some, these included, in the order in which they are found."""
    found = dict.fromkeys(starts)
    pending = list(found)
    while pending:
        for child in children(pending.pop()):
            if child not in found:
                found[child] = None
                pending.append(child)
    return found


def strong_components(
    roots: Iterable[T], children: Callable[[T], Iterable[T]]
) -> Iterator[list[T]]:
    """The strongly connected components below the roots, the deepest first.

    Each lists its nodes in the order in which they were found. (Tarjan's algorithm with an
    explicit stack.)
    """
    index: dict[T, int] = {}
    low: dict[T, int] = {}
    found: dict[T, None] = {}  # nodes whose component is not known yet, in order
    work: list[tuple[T, Iterator[T]]] = []

    def enter(node: T) -> None:
        index[node] = low[node] = len(index)
        found[node] = None
        work.append((node, iter(children(node))))

    for root in roots:
        if root not in index:
            enter(root)
        while work:
            node, rest = work[-1]
            for child in rest:
                if child not in index:
                    enter(child)
                    break
                if child in found:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    component = [found.popitem()[0]]
                    while component[-1] != node:
                        component.append(found.popitem()[0])
                    yield component[::-1]
