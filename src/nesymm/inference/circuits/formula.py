"""Propositional formulas over finite variables: a hash-consed graph of integer ids.

A variable with `n` values is one thing here, not `n` Boolean ones: its literals say
"variable `i` takes value `v`", and exactly one of them holds. Atoms that depend on each
other in a circle are `fixpoint` placeholders that get their definitions later; they mean
the least fixpoint, as in logic programming.

Everything is iterative: a formula may be deeper than Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from nesymm.ir.reachability import strong_components

FALSE, TRUE, LITERAL, AND, OR, NOT, ATOM = range(7)
_NONE: Mapping[int, int] = MappingProxyType({})
OP_NAMES = ("false", "true", "literal", "and", "or", "not", "atom")


class Formula:
    """A graph of formulas over variables with `sizes[i]` values each.

    `ops[id]` is the kind of a node and `args[id]` what it is made of: `(variable, value)`
    of a literal, the ids below an `and`, `or` or `not`, and the definition of an atom.
    """

    false = 0
    true = 1

    def __init__(self, sizes: Sequence[int] = ()):
        self.sizes: list[int] = []
        for size in sizes:
            self.add_variable(size)
        self.ops: list[int] = [FALSE, TRUE]
        self.args: list[tuple[int, ...]] = [(), ()]
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._negation: dict[int, int] = {0: 1, 1: 0}

    def __len__(self) -> int:
        return len(self.ops)

    # ------------------------------------------------------------ building

    def add_variable(self, size: int) -> int:
        """A new variable with `size` values; returns its index."""
        if size < 1:
            raise ValueError(f"a variable needs at least one value, not {size}")
        self.sizes.append(int(size))
        return len(self.sizes) - 1

    def literal(self, variable: int, value: int) -> int:
        """`variable` takes `value`."""
        size = self.sizes[variable]
        if not 0 <= value < size:
            raise ValueError(f"variable {variable} has values 0..{size - 1}, not {value}")
        if size == 1:
            return self.true
        known = len(self.ops)
        node = self._node(LITERAL, (variable, value))
        if size == 2 and node == known:
            # The two values of a Boolean variable are each other's negation.
            other = self._known.get((LITERAL, (variable, 1 - value)))
            if other is not None:
                self._negation[node] = other
                self._negation[other] = node
        return node

    def and_(self, ids: Iterable[int]) -> int:
        return self._combine(AND, ids, self.true, self.false)

    def or_(self, ids: Iterable[int]) -> int:
        return self._combine(OR, ids, self.false, self.true)

    def not_(self, node: int) -> int:
        known = self._negation.get(node)
        if known is not None:
            return known
        if self.ops[node] == LITERAL:
            variable, value = self.args[node]
            if self.sizes[variable] == 2:
                return self.literal(variable, 1 - value)
        result = self._node(NOT, (node,))
        self._negation[node] = result
        self._negation[result] = node
        return result

    def fixpoint(self, count: int) -> list[int]:
        """`count` atoms to be defined later, each possibly in terms of all of them."""
        first = len(self.ops)
        self.ops.extend([ATOM] * count)
        self.args.extend([()] * count)
        return list(range(first, first + count))

    def define(self, atoms: Sequence[int], definitions: Sequence[int]) -> None:
        """The least fixpoint of `atoms[i] = definitions[i]`.

        An atom may not depend on its own negation; `components` checks it, because only
        the finished graph shows it.
        """
        if len(atoms) != len(definitions):
            raise ValueError(f"{len(atoms)} atoms but {len(definitions)} definitions")
        for atom, definition in zip(atoms, definitions, strict=True):
            if self.ops[atom] != ATOM:
                raise ValueError(f"node {atom} is not an atom but '{OP_NAMES[self.ops[atom]]}'")
            if self.args[atom]:
                raise ValueError(f"atom {atom} is defined already")
            if not 0 <= definition < len(self.ops):
                raise ValueError(f"there is no node {definition}")
            # Only itself as a reason is no reason; and no component is one node in a loop.
            self.args[atom] = (self.false if definition == atom else definition,)

    def _node(self, op: int, args: tuple[int, ...]) -> int:
        # The order of arguments is kept, for it guides the order of variables, but it
        # does not distinguish nodes.
        key = (op, tuple(sorted(args)) if op in (AND, OR) else args)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.ops)
            self.ops.append(op)
            self.args.append(args)
        return known

    def _combine(self, op: int, ids: Iterable[int], neutral: int, absorbing: int) -> int:
        args = dict.fromkeys(ids)
        args.pop(neutral, None)
        if absorbing in args or any(self._negation.get(arg) in args for arg in args):
            return absorbing
        if not args:
            return neutral
        if len(args) == 1:
            return next(iter(args))
        return self._node(op, tuple(args))

    # ------------------------------------------------------------ reading

    def children(self, node: int) -> tuple[int, ...]:
        return () if self.ops[node] == LITERAL else self.args[node]

    def variable_order(self, roots: Sequence[int], more: Mapping[int, int] = _NONE) -> list[int]:
        """The variables that the roots mention, as a depth-first reader meets them; `more` gives
        numbers of their own to nodes that are to be listed, too."""
        order: dict[int, None] = {}
        seen: set[int] = set()
        stack = list(reversed(roots))
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.ops[node] == LITERAL:
                order.setdefault(self.args[node][0])
                continue
            if node in more:
                order.setdefault(more[node])
            stack.extend(reversed(self.args[node]))
        return list(order)

    def components(self, roots: Sequence[int]) -> Iterator[list[int]]:
        """The strongly connected components below the roots, the deepest first.

        A component of more than one node is recursive.
        """
        for component in strong_components(roots, self._below):
            yield self._checked(component[::-1])

    def _below(self, node: int) -> Sequence[int]:
        if self.ops[node] == ATOM and not self.args[node]:
            raise ValueError(f"atom {node} has no definition; call define first")
        return self.children(node)

    def _checked(self, component: list[int]) -> list[int]:
        if len(component) > 1 and any(self.ops[node] == NOT for node in component):
            atoms = sorted(node for node in component if self.ops[node] == ATOM)
            raise ValueError(f"atoms {atoms} depend on their own negation")
        return component
