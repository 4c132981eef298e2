"""From decision diagrams to the sums and products of a circuit.

A decision node is a sum over its elements of (prime times sub). A node inside the block of
a variable says which values the variable may take: it becomes one sum of literals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from nesymm.inference.circuits.graph import FALSE_NODE, FAN_IN, FIRST_LITERAL, TRUE_NODE, Graph
from nesymm.inference.circuits.vtrees import Vtree, bit_count, split, value_codes

Node = Any
Elements = list[tuple[int, int]]


def export(vtree: Vtree, sizes: Sequence[int], roots: Sequence[Node]) -> Graph:
    """The circuit of the diagrams `roots`."""
    return _Export(vtree, sizes).graph(roots)


class _Export:
    def __init__(self, vtree: Vtree, sizes: Sequence[int]):
        self.vtree = vtree
        self.sizes = sizes
        self.items = vtree.items_by_position
        self.first = [FIRST_LITERAL]
        for size in sizes:
            self.first.append(self.first[-1] + size)
        self.made: dict[int, int] = {}  # the library's ids, which it never reuses, to ours
        self.sums: list[Elements] = []
        self.scopes: list[int] = []
        self._scopes: dict[tuple[int, ...], int] = {}
        self._sets: dict[int, tuple[list[int], list[int]]] = {}
        self._allowed: dict[int, int] = {}
        self._branches: dict[tuple[int, int, int], int] = {}

    def graph(self, roots: Sequence[Node]) -> Graph:
        # A node waits on the stack, with the ids of its elements, until these are made.
        # Asking the library is most of the work, so everything is asked once.
        made = self.made
        stack: list[tuple[Node, int, Elements]] = [(root, -1, []) for root in roots]
        while stack:
            node, position, elements = stack.pop()
            key = node.id
            if key in made:
                continue
            if elements:
                made[key] = self._sum([(made[p], made[s]) for p, s in elements], position)
                continue
            if node.is_true() or node.is_false():
                made[key] = TRUE_NODE if node.is_true() else FALSE_NODE
                continue
            position = node.vtree().position()
            if (item := self.items[position]) >= 0:
                made[key] = self._set(node, item)
                continue
            elements = []
            stack.append((node, position, elements))
            for prime, sub in node.elements():
                if sub.is_false():
                    continue
                first, second = prime.id, sub.id
                elements.append((first, second))
                if first not in made:
                    stack.append((prime, -1, []))
                if second not in made:
                    stack.append((sub, -1, []))
        return Graph.build(self.sizes, self.sums, self.scopes, [self.made[r.id] for r in roots])

    def _sum(self, elements: Elements, *scope: int) -> int:
        """A sum, made of smaller ones where it has many elements."""
        if len(elements) > FAN_IN:
            parts = [elements[i : i + FAN_IN] for i in range(0, len(elements), FAN_IN)]
            elements = [(self._sum(part, *scope, len(parts)), TRUE_NODE) for part in parts]
            return self._sum(elements, *scope)
        self.sums.append(elements)
        self.scopes.append(self._scopes.setdefault(scope, len(self._scopes)))
        return self.first[-1] + len(self.sums) - 1

    def _set(self, node: Node, item: int) -> int:
        """The sum of the literals that a node inside a block allows."""
        if self.sizes[item] == 2:
            return self.first[item] + (node.literal > 0)
        if item not in self._sets:
            self._sets[item] = _code_sets(self.sizes[item])
        codes, _ = self._sets[item]
        allowed = self._codes_of(node, item)
        values = [value for value, code in enumerate(codes) if allowed >> code & 1]
        if len(values) <= FAN_IN:
            parts = [self.first[item] + value for value in values]
        else:
            parts = self._cover(item, 0, self.sizes[item], values)
        return self._total(parts, -1, item)

    def _cover(self, item: int, low: int, high: int, values: list[int]) -> list[int]:
        """Sums of whole branches of the code that make up `values`, which are sorted."""
        count = bisect_left(values, high) - bisect_left(values, low)
        if count == 0:
            return []
        if count == high - low:
            return [self._branch(item, low, high)]
        middle = split(low, high)
        return [
            *self._cover(item, low, middle, values),
            *self._cover(item, middle, high, values),
        ]

    def _branch(self, item: int, low: int, high: int) -> int:
        """The sum of the literals of a whole branch: many sets share it."""
        if (item, low, high) not in self._branches:
            if high - low <= FAN_IN:
                parts = [self.first[item] + value for value in range(low, high)]
            else:
                middle = split(low, high)
                parts = [self._branch(item, low, middle), self._branch(item, middle, high)]
            self._branches[item, low, high] = self._total(parts, -1, item, low, high)
        return self._branches[item, low, high]

    def _total(self, parts: list[int], *scope: int) -> int:
        if len(parts) == 1:
            return parts[0]
        return self._sum([(part, TRUE_NODE) for part in parts], *scope)

    def _codes_of(self, node: Node, item: int) -> int:
        """The bit patterns that satisfy a node inside a block, as the bits of an integer."""
        _, where_on = self._sets[item]
        every = (1 << (1 << len(where_on))) - 1
        if node.is_true() or node.is_false():
            return every if node.is_true() else 0
        if node.id not in self._allowed:
            if node.is_literal():
                on = where_on[abs(node.literal) - self.vtree.bits[item][0]]
                self._allowed[node.id] = on if node.literal > 0 else every & ~on
            else:
                allowed = 0
                for prime, sub in node.elements():
                    allowed |= self._codes_of(prime, item) & self._codes_of(sub, item)
                self._allowed[node.id] = allowed
        return self._allowed[node.id]


@lru_cache(maxsize=64)
def _code_sets(size: int) -> tuple[list[int], list[int]]:
    """A bit pattern for each value, and for each bit the set of patterns that have it."""
    count = bit_count(size)
    codes = [sum(1 << bit for bit, on in code if on) for code in value_codes(size)]
    where_on = [
        sum(1 << code for code in range(1 << count) if code >> bit & 1) for bit in range(count)
    ]
    return codes, where_on
