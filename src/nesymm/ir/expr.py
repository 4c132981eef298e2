"""Expressions: immutable, hash-consed, typed, with named axes.

Structurally equal expressions are the same object, so equality is identity. An
expression may depend on *axes* (an enemy `E` in 1..20, a cell): it then stands for an
array, one element per value of its free axes. Reductions bind an axis.

`make` builds a node as it stands; `algebra` holds the constructors that simplify.

| op | arguments | data | meaning |
|---|---|---|---|
| const | | value | a number, a truth value or a ground term |
| axis | | Axis | the value of the axis itself |
| time | | | the index of the current step |
| input | | (name, field) | data of the current step or the sequence |
| given | | name | whether the input is present at this step |
| observed | keys | (name, time, from data, column) | what a guide reads of an observation |
| slot | keys | (slot, field) | previous state; field `present` or a number |
| rv | keys | rv id | the value drawn for a random variable |
| param | keys | name | a learnable parameter |
| neural | inputs | (net, output) | output number `output` of a network, or all of them |
| and, or, not, eq, lt, le | operands | | |
| add … | operands | | arithmetic |
| number | condition | | 1 where the condition holds, else 0 |
| vector | numbers, or vectors | | a tensor that has them as its entries |
| item | tensor | index | an entry of a tensor |
| case | c1, v1, c2, v2, … | | the value of the first condition that holds |
| any | condition | Axis | whether the condition holds anywhere along the axis |
| sum, min, max | condition, value | Axis | over the places where the condition holds |
| pick | condition, value | Axis | the value at the first place where the condition holds |
| lookup | keys | ConstantTable | an entry of a constant table |
| lfp | | (System, index) | an atom of a positive cycle, by least fixpoint |
| atom | | key | inside the grounder only: an atom whose definition is not yet known |
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from nesymm.ir.describe import describe
from nesymm.ir.types import BOOL, Enum, Int, Type

T = TypeVar("T")

Role = Literal["free", "key", "bound"]
_ROLES: tuple[Role, ...] = ("free", "key", "bound")


@dataclass(frozen=True, slots=True)
class Axis:
    """A named finite dimension: whole numbers lo..hi or a tuple of terms.

    `site` is the place in the program that an axis comes from, while grounding. A `bound` axis is
    that of a reduction; a `key` axis stands, in a call, for a key known only at run time.
    """

    name: str
    type: Int | Enum
    site: str = ""
    role: Role = "free"

    @property
    def size(self) -> int:
        return int(self.type.size)

    def __str__(self) -> str:
        return self.name


def in_order(axes: Iterable[Axis]) -> list[Axis]:
    """Axes by name, so that no result depends on the order of a set."""
    return sorted(axes, key=lambda a: (_ROLES.index(a.role), f"{a.name}~{a.site}"))


@dataclass(frozen=True, eq=False)
class ConstantTable:
    """A constant array: the rows of a fact table that are looked up by key.

    `entries` is sparse; keys that it lacks have the value `default`.
    """

    name: str
    domains: tuple[Int | Enum, ...]
    entries: dict[tuple, Any]
    default: Any = None


@dataclass(eq=False)
class System:
    """Mutually recursive Boolean definitions, read as their least fixpoint.

    Atom i is `Expr("lfp", data=(system, i))`; `definitions[i]` may mention any of them.
    """

    names: tuple[str, ...]
    definitions: tuple[Expr, ...] = ()


class Expr:
    __slots__ = ("__weakref__", "args", "axes", "binders", "data", "op", "type")

    op: str
    args: tuple[Expr, ...]
    data: Any
    type: Type
    axes: frozenset[Axis]
    binders: int  # how deeply reductions are nested inside

    def __repr__(self) -> str:
        return describe(self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while compiling; use `is TRUE`")


_interned: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()
_NO_AXES: frozenset[Axis] = frozenset()


def make(op: str, args: tuple[Expr, ...] = (), data: Any = None, type_: Type = BOOL) -> Expr:
    # Conditions are the many; their type need not be hashed.
    key = (op, *map(id, args), data) if type_ is BOOL else (op, *map(id, args), data, type_)
    found = _interned.get(key)
    if found is not None:
        return found
    expr = Expr()
    expr.op, expr.args, expr.data, expr.type = op, args, data, type_
    axes = _NO_AXES
    binders = 0
    for arg in args:
        if arg.axes:
            axes = axes | arg.axes if axes else arg.axes
        if arg.binders > binders:
            binders = arg.binders
    if op == "axis":
        axes = frozenset((data,))
    elif isinstance(data, Axis):
        axes = axes - {data}
        binders += 1
    expr.axes = axes
    expr.binders = binders
    _interned[key] = expr
    return expr


TRUE = make("const", data=True)
FALSE = make("const", data=False)
TIME = make("time", type_=Int(0))


def postorder(roots: Iterable[Expr], systems: bool = True) -> Iterator[Expr]:
    """Every node once, arguments before the nodes that use them.

    The definitions of a least-fixpoint system count as arguments of its atoms, unless
    `systems` is false: then its atoms are leaves.
    """
    seen: set[int] = set()
    for root in roots:
        if id(root) in seen:
            continue
        if not root.args and root.op != "lfp":
            # Most of a large program: probabilities, and guards that are true.
            seen.add(id(root))
            yield root
            continue
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                yield node
                continue
            if id(node) in seen:
                continue
            seen.add(id(node))
            stack.append((node, True))
            below = node.args
            if systems and node.op == "lfp" and id(node.data[0]) not in seen:
                # The first atom of a system that is met brings all its definitions.
                seen.add(id(node.data[0]))
                below = node.data[0].definitions
            stack.extend((arg, False) for arg in reversed(below) if id(arg) not in seen)


def fold(
    root: Expr,
    rule: Callable[[Expr, tuple[T, ...]], T],
    memo: dict[int, T],
    known: Callable[[Expr], T | None] = lambda node: None,
) -> T:
    """A value found bottom-up: `rule(node, values of its arguments)`, unless it is `known`."""
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if id(node) in memo:
            continue
        value = known(node)
        if value is not None:
            memo[id(node)] = value
        elif expanded:
            memo[id(node)] = rule(node, tuple(memo[id(arg)] for arg in node.args))
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in node.args if id(arg) not in memo)
    return memo[id(root)]


def rewrite(
    root: Expr,
    rule: Callable[[Expr, tuple[Expr, ...]], Expr],
    memo: dict[int, Expr] | None = None,
    keep: Callable[[Expr], bool] = lambda node: False,
) -> Expr:
    """Rebuild bottom-up: `rule(node, new_args)`; nodes for which `keep` holds stay whole."""
    memo = {} if memo is None else memo
    return fold(root, rule, memo, lambda node: node if keep(node) else None)


def leaves(roots: Iterable[Expr], op: str) -> list[Expr]:
    return [node for node in postorder(roots) if node.op == op]


def drawn(roots: Iterable[Expr]) -> dict[str, None]:
    """The random variables that expressions read, in order."""
    return dict.fromkeys(node.data for node in leaves(roots, "rv"))


Substitution = Mapping[Axis, Expr]
