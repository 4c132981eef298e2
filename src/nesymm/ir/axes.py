"""Choice by cases, reductions along axes, lookups; substitution and rebuilding."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

from nesymm.ir.algebra import (
    and_,
    axis_value,
    conjuncts,
    const,
    eq,
    is_const,
    item,
    le,
    lt,
    not_,
    or_,
    within,
)
from nesymm.ir.arithmetic import BINARY, UNARY, arithmetic, number
from nesymm.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    ConstantTable,
    Expr,
    Substitution,
    in_order,
    make,
    rewrite,
)
from nesymm.ir.types import Bool, Enum, Int, Real, Type, domain, join_all

# ---------------------------------------------------------------- choice


def case(branches: Sequence[tuple[Expr, Expr]]) -> Expr:
    """The value of the first condition that holds; without meaning where none does."""
    live: list[tuple[Expr, Expr]] = []
    for condition, value in branches:
        if condition is FALSE:
            continue
        known = next((i for i, (_, v) in enumerate(live) if v is value), None)
        if known is not None and known == len(live) - 1:
            live[known] = (or_(live[known][0], condition), value)
        else:
            live.append((condition, value))
        if condition is TRUE:
            break
    if not live:
        raise ValueError("a case needs a branch that can apply")
    if len(live) == 1 or all(v is live[0][1] for _, v in live):
        return live[0][1]
    type_ = join_all(value.type for _, value in live)
    if type_ is None:
        raise TypeError("the branches of a case have no common type")
    if isinstance(type_, Bool):
        taken: list[Expr] = []
        parts = []
        for condition, value in live:
            parts.append(and_(condition, *(not_(c) for c in taken), value))
            taken.append(condition)
        return or_(*parts)
    return make("case", tuple(part for branch in live for part in branch), type_=type_)


# ---------------------------------------------------------------- axes


def substitute(expr: Expr, mapping: Substitution, memo: dict[int, Expr] | None = None) -> Expr:
    """Replace axes by expressions; bound axes are never captured (names are unique)."""
    if not mapping or not expr.axes or expr.axes.isdisjoint(mapping):
        return expr

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "axis":
            return mapping.get(node.data, node)
        return rebuild(node, args)

    return rewrite(expr, rule, memo, keep=lambda n: n.axes.isdisjoint(mapping))


def rebuild(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other arguments, simplified again."""
    if args == node.args:
        return node
    match node.op:
        case op if op in _CONDITIONS:
            return _CONDITIONS[op](*args)
        case "case":
            pairs = list(zip(args[::2], args[1::2], strict=True))
            if all(c is FALSE for c, _ in pairs):
                return pairs[0][1]
            return case(pairs)
        case "any":
            return any_(node.data, *args)
        case "sum" | "min" | "max" | "pick" if isinstance(node.data, Axis):
            return reduce_(node.op, node.data, *args)
        case "lookup":
            return lookup(node.data, *args)
        case "item":
            return item(args[0], node.data)
        case op if op in UNARY or op in BINARY:
            try:
                return arithmetic(op, *args)
            except (ArithmeticError, ValueError):
                # What has no value, as 0 / 0, is guarded by a condition that does not hold here.
                pass
    return make(node.op, args, node.data, node.type)


def replacing(
    found: Callable[[Expr], Expr | None],
) -> Callable[[Expr, tuple[Expr, ...]], Expr]:
    """A rule for `rewrite` that puts what is found for a node, if anything is, in its place."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        new = found(node)
        return rebuild(node, args) if new is None else new

    return rule


_CONDITIONS: dict[str, Callable[..., Expr]] = {
    "and": and_,
    "or": or_,
    "not": not_,
    "eq": eq,
    "lt": lt,
    "le": le,
    "number": number,
}


def anywhere(condition: Expr, but: Container[Axis] = ()) -> Expr:
    """Whether a condition holds at some place along its axes, those in `but` aside."""
    for axis in in_order(condition.axes):
        if axis not in but:
            condition = any_(axis, condition)
    return condition


def any_(axis: Axis, condition: Expr) -> Expr:
    """Whether the condition holds for some value of the axis."""
    if axis not in condition.axes:
        return condition
    if condition.op == "or":
        return or_(*(any_(axis, part) for part in condition.args))
    parts = conjuncts(condition)
    # The one-point rule: some E with E = e and g(E) is g(e), if e is in range.
    for part in parts:
        point = _only_point(axis, part)
        if point is not None:
            rest = and_(*(p for p in parts if p is not part))
            return and_(within(point, axis.type), substitute(rest, {axis: point}))
    outside = [p for p in parts if axis not in p.axes]
    (inside,), bound = _bind(axis, and_(*(p for p in parts if axis in p.axes)))
    return and_(*outside, make("any", (inside,), bound))


def _only_point(axis: Axis, condition: Expr) -> Expr | None:
    """The e of a condition E = e on an axis E."""
    if condition.op == "eq":
        for this, other in (condition.args, condition.args[::-1]):
            if this.op == "axis" and this.data == axis and axis not in other.axes:
                return other
    return None


def _bind(axis: Axis, *parts: Expr) -> tuple[tuple[Expr, ...], Axis]:
    """Name a bound axis by how deeply reductions are nested inside its scope.

    Bound names then never clash with free ones (no capture), and reductions that differ
    only in the name of their axis are one expression.
    """
    if axis.role == "bound":
        return parts, axis
    depth = max(p.binders for p in parts)
    bound = Axis(f"{axis.name}{depth or ''}", axis.type, role="bound")
    mapping = {axis: axis_value(bound)}
    return tuple(substitute(p, mapping) for p in parts), bound


def reduce_(op: str, axis: Axis, condition: Expr, value: Expr) -> Expr:
    """sum, min, max or pick of a value over the places where a condition holds."""
    if op == "pick":
        if axis not in value.axes:
            return value
        for part in conjuncts(condition):
            point = _only_point(axis, part)
            if point is not None:
                return substitute(value, {axis: point})
    if op == "sum":
        assert isinstance(value.type, Int | Real)
        n = axis.size
        lo, hi = min(0, n * value.type.lo), max(0, n * value.type.hi)
        type_: Type = Int(lo, hi) if isinstance(value.type, Int) else Real(lo, hi)
    else:
        type_ = value.type
    parts, bound = _bind(axis, condition, value)
    return make(op, parts, bound, type_)


# ---------------------------------------------------------------- constant tables


def lookup(table: Any, *keys: Expr) -> Expr:
    """An entry of a constant table; the caller has checked that the keys are in range."""
    if all(is_const(k) for k in keys):
        return const(table.entries.get(tuple(k.data for k in keys), table.default))
    values = list(dict.fromkeys(table.entries.values()))
    if table.default is not None:
        values.append(table.default)
    type_ = join_all(const(v).type for v in values)
    if type_ is None:
        raise TypeError("the entries of a table have no common type")
    return make("lookup", keys, table, type_)


@cache
def _positions(type_: Enum) -> ConstantTable:
    return ConstantTable("position", (type_,), {(v,): i for i, v in enumerate(type_.values)})


def position(term: Expr) -> Expr:
    """Where a term stands in its domain, as networks read it: 0, 1, …

    It is a number of its own, since an expression may get a narrower domain later: in one world, or
    at the first step.
    """
    assert isinstance(term.type, Enum)
    return lookup(_positions(term.type), term)


# ---------------------------------------------------------------- places along axes


def places(axes: tuple[Axis, ...]) -> Iterator[tuple]:
    """Every combination of values along some axes."""
    return product(*(domain(a.type) for a in axes))


def at_place(expr: Expr, axes: tuple[Axis, ...], key: tuple) -> Expr:
    """An expression at such a combination."""
    return substitute(expr, {a: const(k) for a, k in zip(axes, key, strict=True)})


def position_along(axis: Axis, value: Any) -> int:
    """The position of a value along an axis."""
    if isinstance(axis.type, Int):
        return int(value - axis.type.lo)
    return axis.type.values.index(value)
