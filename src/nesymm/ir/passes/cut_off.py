"""Comparisons of a continuous value that `max` or `min` cuts off.

`max(X, 0) =:= 0` holds where X =< 0, which has a probability. In general max(a, b) = c where
a = c and b =< c, or b = c and a =< c. Of these equalities those of a continuous value with one of
countably many values have probability 0, and are left out. And max(a, b) =< c where a =< c and
b =< c: what is cut off is compared itself, so that thresholds have a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nesymm.ir.algebra import and_, eq, is_const, le, lt, or_
from nesymm.ir.axes import rebuild
from nesymm.ir.expr import FALSE, Expr
from nesymm.ir.step import StepProgram
from nesymm.ir.types import Int, Real, Tensor


def cut_off(step: StepProgram) -> StepProgram:
    """Comparisons of what is cut off as those of what it is cut off from."""
    kinds = Kinds(step)

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if kinds.is_equality_of_continuous(node):
            for part, other in (args, args[::-1]):
                found = _met(kinds, part, other)
                if found is not None and found is not FALSE:
                    return found
        if node.op in ("lt", "le") and any(map(kinds.continuous, node.args)):
            return _apart(lt if node.op == "lt" else le, *args)
        return rebuild(node, args)

    if not any(n.op in ("max", "min") and kinds.continuous(n) for n in step.nodes()):
        return step
    return step.rewrite(rule)


def _apart(compare: Callable[[Expr, Expr], Expr], low: Expr, high: Expr) -> Expr:
    """Whether one is below the other, without `max` and `min` on top of them."""
    for at, side in enumerate((low, high)):
        if side.op in ("max", "min") and side.data is None:
            ways = [
                _apart(compare, *((part, high) if at == 0 else (low, part))) for part in side.args
            ]
            # The larger of two is below a third if both are, and above it if one of them is.
            return (and_ if (side.op == "max") == (at == 0) else or_)(*ways)
    return compare(low, high)


def _met(kinds: Kinds, part: Expr, value: Expr) -> Expr | None:
    """Where a part equals a value that is one of countably many, or None if that is not known."""
    if kinds.continuous(value):
        return None
    if not kinds.continuous(part):
        return eq(part, value)
    if part.op not in ("max", "min") or part.data is not None:
        return FALSE if kinds.spread(part) else None
    ways = []
    for one, other in (part.args, part.args[::-1]):
        equal = _met(kinds, one, value)
        if equal is None:
            return None
        beyond = _apart(le, *((other, value) if part.op == "max" else (value, other)))
        ways.append(and_(equal, beyond))
    return or_(*ways)


@dataclass(frozen=True)
class Kinds:
    """Which values of a step are continuous."""

    step: StepProgram

    @cached_property
    def _drawn(self) -> set[str]:
        return {
            v.name
            for v in self.step.variables
            if not v.finite and isinstance(v.type, Real | Tensor)
        }

    @cached_property
    def _carried(self) -> set[str]:
        """The slots that a continuous value may be in."""
        uncertain = [s for s in self.step.slots if not s.deterministic]
        below = {s.name: list(made_of(s.values)) for s in uncertain}
        found: set[str] = set()
        while True:
            more = {
                name
                for name, nodes in below.items()
                if name not in found
                and any(self._is_drawn(n) or (n.op == "slot" and n.data[0] in found) for n in nodes)
            }
            if not more:
                return found
            found |= more

    def _is_drawn(self, node: Expr) -> bool:
        return node.op == "rv" and node.data in self._drawn

    def continuous(self, value: Expr) -> bool:
        """Whether a number is computed from one of uncountably many."""
        return any(
            self._is_drawn(n) or (n.op == "slot" and n.data[0] in self._carried)
            for n in made_of((value,))
        )

    def is_equality_of_continuous(self, node: Expr) -> bool:
        if node.op != "eq" or not all(isinstance(a.type, Int | Real) for a in node.args):
            return False
        return any(isinstance(a.type, Real) and self.continuous(a) for a in node.args)

    def spread(self, value: Expr, seen: frozenset[Any] = frozenset()) -> bool:
        """Whether each single number is known to have probability 0."""
        match value.op:
            case "rv":
                return isinstance(value.type, Real) and self._is_drawn(value)
            case "slot":
                name, column = value.data
                if column == "present" or not isinstance(value.type, Real):
                    return False
                again = value.data in seen
                return again or self.spread(
                    self.step.slot(name).values[column], seen | {value.data}
                )
            case "case":
                return all(self.spread(v, seen) for v in value.args[1::2])
            case "add" | "sub":
                for one, other in (value.args, value.args[::-1]):
                    if self.spread(one, seen) and not self.continuous(other):
                        return True
            case "mul" | "div":
                one, other = value.args
                if value.op == "mul" and is_const(one):
                    one, other = other, one
                return is_const(other) and other.data != 0 and self.spread(one, seen)
            case "neg":
                return self.spread(value.args[0], seen)
        return False


def made_of(values: Iterable[Expr], types: Any = Real | Tensor) -> Iterator[Expr]:
    """What values are computed from: real numbers and tensors, since what is rounded is not
    continuous. The conditions that choose among values are no part of them."""
    seen: set[int] = set()
    pending = list(values)
    while pending:
        node = pending.pop()
        if id(node) not in seen and isinstance(node.type, types):
            seen.add(id(node))
            yield node
            pending.extend(node.args)
