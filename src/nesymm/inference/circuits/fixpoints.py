"""Least fixpoints of monotone equations over diagrams, by elimination.

A monotone Boolean equation `x = f(x)` has the least solution `f(false)`. So an unknown can
be solved in terms of the others, substituted and forgotten, one after the other, as in a
system of linear equations. The alternative, iterating from `false`, passes through
diagrams ("reachable within five steps") that are far larger than the result.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from nesymm.inference.circuits.formula import AND, OR

if TYPE_CHECKING:
    from nesymm.inference.circuits.diagrams import Diagrams

Node = Any


class System:
    """Equations `atom = diagram`; `bits` are the library's variables for unknown atoms."""

    def __init__(self, diagrams: Diagrams, bits: dict[int, int]):
        self.diagrams = diagrams
        self.bits = bits
        self.right: dict[int, Node] = {}
        self.mentions: dict[int, set[int]] = {}
        self.readers: dict[int, set[int]] = {atom: set() for atom in bits}

    def unknown(self, atom: int) -> Node:
        return self.diagrams.manager.literal(self.bits[atom])

    def add(self, atom: int, definition: Node, mentions: set[int]) -> None:
        """`atom = definition`, in which only the atoms in `mentions` can occur."""
        self.right[atom] = definition
        self.mentions[atom] = set(mentions)
        for other in mentions:
            self.readers[other].add(atom)

    def solve(self, wanted: set[int]) -> dict[int, Node]:
        """The least solution for the atoms in `wanted`, without unknowns."""
        # The wanted ones go last, so that the equations of the others are never read again.
        self._eliminate(set(self.bits) - wanted, keep=False)
        order = self._eliminate(wanted, keep=True)
        solution: dict[int, Node] = {}
        for atom in reversed(order):
            value = self.right.pop(atom)
            for other in sorted(self.mentions[atom]):
                value = self._substitute(value, other, solution[other])
            solution[atom] = value
        return solution

    def _eliminate(self, atoms: set[int], keep: bool) -> list[int]:
        order: list[int] = []
        queue = [(self._cost(atom), atom) for atom in atoms]
        heapq.heapify(queue)
        left = set(atoms)
        while queue:
            cost, atom = heapq.heappop(queue)
            if atom not in left:
                continue
            now = self._cost(atom)
            if now > cost:
                heapq.heappush(queue, (now, atom))
                continue
            left.discard(atom)
            order.append(atom)
            for other in self._solve_for(atom) & left:
                heapq.heappush(queue, (self._cost(other), other))
            if not keep:
                del self.right[atom]
        return order

    def _cost(self, atom: int) -> int:
        """How many pairs of atoms the elimination of this one links."""
        loop = atom in self.mentions[atom]
        return (len(self.mentions[atom]) - loop) * (len(self.readers[atom]) - loop)

    def _solve_for(self, atom: int) -> set[int]:
        """Removes an unknown from the other equations; returns the atoms it linked."""
        mentions, readers = self.mentions[atom], self.readers.pop(atom)
        if atom in mentions:
            self.right[atom] = self.diagrams.condition(self.right[atom], -self.bits[atom])
            mentions.discard(atom)
            readers.discard(atom)
        for other in mentions:
            self.readers[other].discard(atom)
            self.readers[other] |= readers
        for reader in readers:
            self.right[reader] = self._substitute(self.right[reader], atom, self.right[atom])
            self.mentions[reader].discard(atom)
            self.mentions[reader] |= mentions
        return mentions | readers

    def _substitute(self, node: Node, atom: int, value: Node) -> Node:
        """`node` with `value` for `atom`, of which it is a monotone function."""
        diagrams, bit = self.diagrams, self.bits[atom]
        without = diagrams.condition(node, -bit)
        given = diagrams.condition(node, bit)
        if without == given:
            return without
        return diagrams.apply(OR, without, diagrams.apply(AND, given, value))
