"""Finite expressions as tables: each value with the formula under which it is taken."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from nesymm.errors import NesymmError
from nesymm.inference.static.sources import BUDGET, Place, TooManyCombinations, Values
from nesymm.ir.algebra import const, eq
from nesymm.ir.arithmetic import BINARY, UNARY, compute
from nesymm.ir.expr import Axis, Expr, in_order, postorder
from nesymm.ir.types import Bool, domain, is_finite

if TYPE_CHECKING:
    from nesymm.inference.static.propositional import Encoding


def place_key(node: Expr, place: Place) -> tuple:
    """A node, and the values of the axes that it depends on."""
    if not node.axes:
        return (id(node),)
    return (id(node), *((a.name, place[a]) for a in in_order(node.axes)))


def check_size(node: Expr, size: int) -> None:
    if size > BUDGET:
        names = sorted({n.data for n in postorder([node]) if n.op == "rv"})[:8]
        raise TooManyCombinations(
            f"a comparison runs through {size:,} combinations of values (the limit is "
            f"{BUDGET:,}); it involves {', '.join(names)}"
        )


class ValueTables:
    """The tables of an encoding, which gives the formulas of conditions and random variables."""

    def __init__(self, encoding: Encoding):
        self.encoding = encoding
        self.formula = encoding.formula
        self._known: dict[Any, Values] = {}
        self._keep: list[Expr] = []

    def values(self, root: Expr, place: Place) -> Values:
        """The values of a finite expression, each with the formula under which it holds."""
        stack = [root]
        while stack:
            node = stack[-1]
            key = place_key(node, place)
            if key in self._known:
                stack.pop()
                continue
            missing = [a for a in _numeric(node) if place_key(a, place) not in self._known]
            if missing:
                stack.extend(missing)
                continue
            self._keep.append(node)
            self._known[key] = self._table(node, place)
            stack.pop()
        return self._known[place_key(root, place)]

    def _table(self, node: Expr, place: Place) -> Values:
        if isinstance(node.type, Bool):
            holds = self.encoding.truth(node, place)
            return {True: holds, False: self.formula.not_(holds)}
        return self.computed(node, place)

    def computed(self, node: Expr, place: Place) -> Values:
        """The values of one node from those of its arguments."""
        formula = self.formula
        match node.op:
            case "const":
                return {node.data: formula.true}
            case "axis":
                return {place[node.data]: formula.true}
            case "rv":
                return self.encoding.element(node, place)
            case "input" if is_finite(node.type):
                # Known at run time only: a leaf for each value, of which the data make one true.
                truth = self.encoding.truth
                return {v: truth(eq(node, const(v)), place) for v in domain(node.type)}
            case "number":
                holds = self.encoding.truth(node.args[0], place)
                return self.merged([(1, holds), (0, formula.not_(holds))])
            case "case":
                return self.merged(self._cases(node, place))
            case "lookup":
                entries, default = node.data.entries, node.data.default
                return self._combine(node, place, lambda *k: entries.get(k, default))
            case "sum" if isinstance(node.data, Axis):
                return self._sum(node, place)
            case "pick" if isinstance(node.data, Axis):
                return self.merged(self._first(self._rows(node, place)))
            case "min" | "max" if isinstance(node.data, Axis):
                return self.merged(self._extreme(node, place))
            case op if op in UNARY or op in BINARY:
                return self._combine(node, place, lambda *v: compute(op, *v))
        raise NesymmError(f"{node!r} has no finite table of values")

    def merged(self, ways: Iterable[tuple[Any, int]]) -> Values:
        """Values by the formulas of all ways to take them, without those that are never taken."""
        found: dict[Any, list[int]] = {}
        for value, holds in ways:
            found.setdefault(value, []).append(holds)
        values = {v: self.formula.or_(fs) for v, fs in found.items()}
        return {v: f for v, f in values.items() if f != self.formula.false}

    def joint(self, node: Expr, tables: list[Values]) -> Iterator[tuple[tuple, int]]:
        """The values that several expressions can take together."""
        check_size(node, math.prod(map(len, tables)))
        for combo in product(*(t.items() for t in tables)):
            holds = self.formula.and_([f for _, f in combo])
            if holds != self.formula.false:
                yield tuple(v for v, _ in combo), holds

    def _combine(self, node: Expr, place: Place, function: Any) -> Values:
        tables = [self.values(a, place) for a in node.args]
        return self.merged(self._applied(node, tables, function))

    def _applied(
        self, node: Expr, tables: list[Values], function: Any
    ) -> Iterator[tuple[Any, int]]:
        for values, holds in self.joint(node, tables):
            try:
                yield function(*values), holds
            except (ZeroDivisionError, ValueError, OverflowError):
                # Such a combination is excluded by the condition that guards it.
                continue

    def _cases(self, node: Expr, place: Place) -> Iterator[tuple[Any, int]]:
        pairs = zip(node.args[::2], node.args[1::2], strict=True)
        return self._first(
            [(self.encoding.truth(c, place), self.values(v, place)) for c, v in pairs]
        )

    def _first(self, rows: list[tuple[int, Values]]) -> Iterator[tuple[Any, int]]:
        """The value of the first row that counts; any will do where none does."""
        formula, free = self.formula, self.formula.true
        for holds, table in rows:
            first = formula.and_([free, holds])
            free = formula.and_([free, formula.not_(holds)])
            for value, taken in table.items():
                yield value, formula.and_([first, taken])
        for value, taken in rows[0][1].items():
            yield value, formula.and_([free, taken])

    # ------------------------------------------------------------ along an axis

    def _rows(self, node: Expr, place: Place) -> list[tuple[int, Values]]:
        """Whether each element counts, and its values."""
        condition, value = node.args
        places = [{**place, node.data: at} for at in domain(node.data.type)]
        return [(self.encoding.truth(condition, p), self.values(value, p)) for p in places]

    def _sum(self, node: Expr, place: Place) -> Values:
        formula = self.formula
        total: Values = {0: formula.true}
        for holds, table in self._rows(node, place):
            ways = [(v, formula.and_([holds, f])) for v, f in table.items()]
            absent = formula.not_(holds)
            term = {v: formula.or_([absent, f]) if v == 0 else f for v, f in ways}
            term.setdefault(0, absent)
            known = {v: f for v, f in term.items() if f != formula.false}
            total = self.merged(self._applied(node, [total, known], operator.add))
        return total

    def _extreme(self, node: Expr, place: Place) -> Iterator[tuple[Any, int]]:
        formula, rows = self.formula, self._rows(node, place)
        better = operator.lt if node.op == "min" else operator.gt
        for v in sorted({v for _, table in rows for v in table}, reverse=node.op == "max"):
            reached = formula.or_([formula.and_([h, t[v]]) for h, t in rows if v in t])
            beaten = formula.or_(
                [formula.and_([h, f]) for h, t in rows for w, f in t.items() if better(w, v)]
            )
            yield v, formula.and_([reached, formula.not_(beaten)])


def _numeric(node: Expr) -> list[Expr]:
    """The arguments whose tables come first; those of elements are found where they are read."""
    if node.op == "rv" or isinstance(node.data, Axis):
        return []
    return [a for a in node.args if not isinstance(a.type, Bool)]
