"""From a formula to decision diagrams (SDDs), bottom-up and within a budget.

Every gate is applied to the diagrams of its arguments. Those of a recursive component are
unknowns that are eliminated (see `fixpoints`), or are iterated from `false`. A budget of
nodes and time is checked between operations of the library, which cannot be interrupted.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import ChainMap, deque
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from nesymm.inference.circuits.fixpoints import System
from nesymm.inference.circuits.formula import AND, ATOM, FALSE, LITERAL, NOT, TRUE, Formula
from nesymm.inference.circuits.vtrees import Vtree, value_codes

# An `SddNode` of pysdd, which has no types. Python's references keep nodes alive.
Node = Any

# Dead nodes are collected when there are more of them than this and than live ones.
_GARBAGE = 20_000

# Operations on diagrams larger than this are done in about so many parts.
_LARGE = 10_000
_PARTS = 300


class OutOfBudget(Exception):
    """This vtree needs more nodes or time than it was given."""


@dataclass
class Budget:
    """How large diagrams may get, and how many nodes may be made on the way.

    Work is measured in nodes rather than time, so that the same formula always gives the
    same circuit; the deadline is for formulas without one. `cancelled` is set by another
    thread.
    """

    nodes: int
    work: float
    deadline: float
    cancelled: bool = False
    reached: int = 0
    worked: int = 0

    def check(self, nodes: int, worked: int) -> None:
        self.reached = max(self.reached, nodes)
        self.worked = max(self.worked, worked)
        if nodes > self.nodes or self.worked > self.work:
            raise OutOfBudget
        if self.cancelled or time.monotonic() > self.deadline:
            raise OutOfBudget


@dataclass(frozen=True)
class Plan:
    """What all attempts to compile a formula share."""

    formula: Formula
    roots: tuple[int, ...]
    components: list[list[int]]
    atoms: dict[int, int]  # recursive atoms, as items of the vtree
    uses: dict[int, int]  # how often the value of a node is read
    read: set[int]  # what is read from outside its own component

    @classmethod
    def of(cls, formula: Formula, roots: Sequence[int]) -> Plan:
        components = list(formula.components(roots))
        atoms: dict[int, int] = {}
        uses = dict.fromkeys(roots, 1)
        read = set(roots)
        for component in components:
            inside = set(component) if len(component) > 1 else ()
            for node in component:
                for child in formula.children(node):
                    uses[child] = uses.get(child, 0) + 1
                    if child not in inside:
                        read.add(child)
                if inside and formula.ops[node] == ATOM:
                    atoms[node] = len(formula.sizes) + len(atoms)
        return cls(formula, tuple(roots), components, atoms, uses, read)

    def items(self) -> list[int]:
        """Variables and recursive atoms, as a depth-first reader meets them."""
        return self.formula.variable_order(self.roots, self.atoms)


class Diagrams:
    """Compiles the formula of a plan with one vtree.

    Recursive components are solved by elimination, or by iteration from `false`.
    """

    def __init__(self, plan: Plan, vtree: Vtree, budget: Budget, iterate: bool = False):
        self.plan = plan
        self.iterate = iterate
        self.formula = plan.formula
        self.vtree = vtree
        self.budget = budget
        self.manager = _manager(vtree)
        self.true: Node = self.manager.true()
        self.false: Node = self.manager.false()
        self.values: dict[int, Node] = {}
        self._uses = dict(plan.uses)
        self._codes: dict[int, list[Any]] = {}

    def compile(self) -> list[Node]:
        for component in self.plan.components:
            if len(component) == 1:
                self.values[component[0]] = self._value(component[0], self.values)
            elif self.iterate:
                self._iterate(component)
            else:
                self._solve(component)
            self._release(component)
        return [self.values[root] for root in self.plan.roots]

    # ------------------------------------------------------------ nodes

    def _value(self, node: int, values: MutableMapping[int, Node]) -> Node:
        op, args = self.formula.ops[node], self.formula.args[node]
        if op == LITERAL:
            return self._literal(*args)
        if op in (FALSE, TRUE):
            return self.true if op == TRUE else self.false
        if op == ATOM:
            return values[args[0]]
        if op == NOT:
            return self._checked(self.manager.negate(values[args[0]]))
        return self._fold(op, (values[arg] for arg in args))

    def _literal(self, variable: int, value: int) -> Node:
        if variable not in self._codes:
            self._codes[variable] = value_codes(self.formula.sizes[variable])
        bits = self.vtree.bits[variable]
        result = self.true
        for bit, positive in self._codes[variable][value]:
            literal = self.manager.literal(bits[bit] if positive else -bits[bit])
            result = self.manager.conjoin(result, literal)
        return result

    def _fold(self, op: int, nodes: Iterable[Node]) -> Node:
        """The conjunction or disjunction of many: neighbours in the vtree first, those
        that meet deepest first of all, so that diagrams grow only towards the root."""
        neutral, absorbing = (self.true, self.false) if op == AND else (self.false, self.true)
        parts: list[tuple[int, Node]] = []
        for node in nodes:
            if node == absorbing:
                return absorbing
            if node != neutral:
                parts.append((node.vtree().position(), node))
        if not parts:
            return neutral
        parts.sort(key=lambda part: part[0])
        # Each entry: where it meets the one before it, and the diagram.
        stack: list[tuple[int, Node]] = []
        last = parts[0][0]
        for position, node in parts:
            depth = self.vtree.common_depth(last, position) if stack else -1
            while len(stack) > 1 and stack[-1][0] >= depth:
                self._merge(op, stack)
            stack.append((depth, node))
            last = position
        while len(stack) > 1:
            self._merge(op, stack)
        return stack[0][1]

    def _merge(self, op: int, stack: list[tuple[int, Node]]) -> None:
        _, right = stack.pop()
        depth, left = stack.pop()
        stack.append((depth, self.apply(op, left, right)))

    def apply(self, op: int, left: Node, right: Node) -> Node:
        parts: list[Node] = []
        # Measuring takes time; diagrams not much larger than the formula are harmless.
        explodes = self.manager.live_count() > max(_LARGE, 8 * len(self.formula))
        if explodes and left.size() * right.size() > _LARGE**2:
            parts = self._in_parts(op, left, right)
        result = self._checked(self._operate(op, left, right))
        del parts  # were kept until now for the library to find them
        return result

    def _operate(self, op: int, left: Node, right: Node) -> Node:
        return (self.manager.conjoin if op == AND else self.manager.disjoin)(left, right)

    def _in_parts(self, op: int, left: Node, right: Node) -> list[Node]:
        """The operations that one on large diagrams consists of, done one by one.

        The library cannot be stopped within an operation, but it remembers results. With
        the parts done, the whole is quick; and between the parts the budget is checked.
        """
        results: list[Node] = []
        queue = deque([(op, left, right)])
        seen: set[tuple[int, int, int]] = set()
        while queue and len(seen) < _PARTS:
            op, left, right = queue.popleft()
            key = (op, left.id, right.id)
            if key not in seen:
                seen.add(key)
                queue.extend(self._below(op, left, right))
        for op, left, right in queue:
            results.append(self._checked(self._operate(op, left, right)))
        return results

    def _below(self, op: int, left: Node, right: Node) -> Iterator[tuple[int, Node, Node]]:
        """The operations that an operation does on the elements of its arguments."""
        if not (left.is_decision() and right.is_decision()):
            return
        if left.vtree().position() > right.vtree().position():
            left, right = right, left
        here, there = left.vtree(), right.vtree()
        if here == there:
            if left.node_size() * right.node_size() > _PARTS:
                return
            below = right.elements()
            for prime, sub in left.elements():
                for other, other_sub in below:
                    if not self.manager.conjoin(prime, other).is_false():
                        yield op, sub, other_sub
        elif here.is_sub(there, here):
            for _, sub in left.elements():
                yield op, sub, right
        elif here.is_sub(here, there):
            for prime, _ in right.elements():
                yield AND, prime, left if op == AND else self.manager.negate(left)

    def _checked(self, node: Node) -> Node:
        manager = self.manager
        if manager.dead_count() > max(_GARBAGE, manager.live_count()):
            manager.garbage_collect()
        # Nodes have two elements where variables are Boolean and the vtree is a list;
        # those with many count for more. Ids say how many nodes were ever made.
        self.budget.check(max(manager.live_count(), manager.live_size() // 4), node.id)
        return node

    def _release(self, component: list[int]) -> None:
        """Forgets the diagrams that only this component was waiting for."""
        for node in component:
            for child in self.formula.children(node):
                self._uses[child] -= 1
                if not self._uses[child]:
                    self.values.pop(child, None)

    # ------------------------------------------------------------ recursion

    def _solve(self, component: list[int]) -> None:
        """The least fixpoint of the atoms of a component."""
        formula, inside = self.formula, set(component)
        atoms = sorted(node for node in component if formula.ops[node] == ATOM)
        # Children have smaller ids than gates; only atoms point upwards.
        gates = sorted(node for node in component if formula.ops[node] != ATOM)
        system = System(self, {a: self.vtree.bits[self.plan.atoms[a]][0] for a in atoms})

        known = ChainMap({atom: system.unknown(atom) for atom in atoms}, self.values)
        mentions = {atom: {atom} for atom in atoms}
        for gate in gates:
            known[gate] = self._value(gate, known)
            below = (mentions[c] for c in formula.children(gate) if c in inside)
            mentions[gate] = set().union(*below)
        for atom in atoms:
            definition = formula.args[atom][0]
            system.add(atom, known[definition], mentions.get(definition, set()))
        del known

        # Gates that are read elsewhere are computed again, from the solution.
        wanted = self.plan.read.intersection(component)
        for gate in reversed(gates):
            if gate in wanted:
                wanted.update(child for child in formula.children(gate) if child in inside)
        self.values.update(system.solve(wanted.intersection(atoms)))
        for gate in gates:
            if gate in wanted:
                self.values[gate] = self._value(gate, self.values)

    def _iterate(self, component: list[int]) -> None:
        """The same, computed again and again from `false` until nothing changes."""
        formula = self.formula
        atoms = sorted(node for node in component if formula.ops[node] == ATOM)
        gates = sorted(node for node in component if formula.ops[node] != ATOM)
        values = self.values
        values.update(dict.fromkeys(atoms, self.false))
        changed = set(component)
        while changed:
            for gate in gates:
                if gate not in values or not changed.isdisjoint(formula.children(gate)):
                    value = self._value(gate, values)
                    if value != values.get(gate):
                        values[gate] = value
                        changed.add(gate)
            found = {atom: values[formula.args[atom][0]] for atom in atoms}
            changed = {atom for atom in atoms if found[atom] != values[atom]}
            values.update(found)

    def condition(self, node: Node, literal: int) -> Node:
        return self._checked(self.manager.condition(literal, node))


def _manager(vtree: Vtree) -> Any:
    # The only way to hand the library a vtree of any shape is a file.
    from pysdd.sdd import SddManager
    from pysdd.sdd import Vtree as SddVtree

    handle, path = tempfile.mkstemp(prefix="nesymm-", suffix=".vtree")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(vtree.text())
        return SddManager.from_vtree(SddVtree(filename=path))
    finally:
        os.unlink(path)
