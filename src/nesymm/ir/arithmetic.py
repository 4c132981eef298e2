"""Arithmetic on expressions, and the bounds of its results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nesymm.ir.algebra import and_, comparisons, conjuncts, const, is_const, tighten
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, make
from nesymm.ir.terms import rounded
from nesymm.ir.types import (
    INF,
    Int,
    Real,
    Type,
    join,
    like,
    numbers,
    product_bounds,
    quotient_bounds,
)

# How deep alternatives within alternatives are looked into for bounds.
MAX_NESTED = 2


class NotANumber(Exception):
    """An operand that has no number: a term, a truth value or a tensor."""

    def __init__(self, operand: Expr):
        self.operand = operand


def _power(x: Any, y: Any) -> Any:
    """x ** y, unless the result would be a number of a million digits."""
    if isinstance(x, int) and isinstance(y, int) and x.bit_length() * y > 100_000:
        raise OverflowError("the number is too large")
    return x**y


# As ProbLog computes: `/` gives a real number, `//` and `mod` round down, `round` rounds
# halves to even, and a sign is a whole number. `decimals` is what `is` makes of a real number.
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "tanh": math.tanh,
    "floor": lambda x: math.floor(x),
    "ceiling": lambda x: math.ceil(x),
    "round": round,
    "truncate": lambda x: math.trunc(x),
    "sign": lambda x: (x > 0) - (x < 0),
    "float": float,
    "decimals": rounded,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "idiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
    "pow": _power,
}
UNARY, BINARY = frozenset(_UNARY), frozenset(_BINARY)
_WHOLE = {"floor", "ceiling", "round", "truncate"}


def compute(op: str, *values: Any) -> Any:
    """The one place where arithmetic on numbers is done; the interpreter uses it too."""
    if len(values) == 1:
        return _UNARY[op](values[0])
    return _BINARY[op](*values)


def arithmetic(op: str, *args: Expr) -> Expr:
    for arg in args:
        if not isinstance(arg.type, Int | Real):
            raise NotANumber(arg)
    if all(is_const(a) for a in args):
        return const(compute(op, *(a.data for a in args)))
    if op in ("add", "sub") and is_const(args[1]):
        offset = args[1].data if op == "add" else -args[1].data
        if type(offset) is int and offset == 0:
            return args[0]
        # x + 1 + 2 is x + 3: keeps chains of moves small.
        if args[0].op == "add" and is_const(args[0].args[1]):
            inner = args[0].args[1].data
            if type(inner) is int and type(offset) is int:
                return arithmetic("add", args[0].args[0], const(inner + offset))
        if op == "sub" and type(offset) is int:
            return arithmetic("add", args[0], const(offset))
    if op == "add" and is_const(args[0]) and not is_const(args[1]):
        return arithmetic("add", args[1], args[0])
    if op == "sub" and args[0] is args[1] and isinstance(args[0].type, Int):
        return const(0)
    type_ = _result_type(op, [a.type for a in args])
    if op == "mul" and args[0] is args[1] and isinstance(type_, Int | Real):
        type_ = type(type_)(max(type_.lo, 0), type_.hi)  # a square
    return make(op, args, type_=type_)


def _result_type(op: str, types: list) -> Type:
    a = types[0]
    b = types[1] if len(types) > 1 else types[0]
    match op:
        case "add":
            return like(a, b, a.lo + b.lo, a.hi + b.hi)
        case "sub":
            return like(a, b, a.lo - b.hi, a.hi - b.lo)
        case "mul":
            return like(a, b, *product_bounds(a, b))
        case "neg":
            return like(a, a, -a.hi, -a.lo)
        case "abs":
            low = 0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi))
            return like(a, a, low, max(abs(a.lo), abs(a.hi)))
        case "min":
            return like(a, b, min(a.lo, b.lo), min(a.hi, b.hi))
        case "max":
            return like(a, b, max(a.lo, b.lo), max(a.hi, b.hi))
        case "div":
            return Real(*quotient_bounds(a, b))
        case "idiv":
            lo, hi = quotient_bounds(a, b)
            return like(a, b, _whole(lo, math.floor), _whole(hi, math.ceil))
        case "mod":
            if isinstance(a, Int) and isinstance(b, Int):
                return Int(0 if b.lo > 0 else -INF, b.hi - 1 if b.lo > 0 else INF)
            return Real()
        case "sqrt" if a.lo < 0:
            return Real()  # for some numbers it has no value: no comparison is sure
        case "sqrt" | "exp":
            return Real(0, INF)
        case "sign":
            return Int(-1, 1)
        case "tanh" | "sin" | "cos":
            return Real(-1, 1)
        case "decimals":
            return like(a, a, rounded(a.lo), rounded(a.hi))
        case "pow":
            return Int() if isinstance(a, Int) and isinstance(b, Int) and b.lo >= 0 else Real()
    if op in _WHOLE:
        return Int(_whole(a.lo, math.floor), _whole(a.hi, math.ceil))
    return Real()


def _whole(x: float, rounding: Any) -> float:
    return x if math.isinf(x) else rounding(x)


def number(condition: Expr) -> Expr:
    """1 where the condition holds, 0 elsewhere."""
    if condition is TRUE:
        return const(1)
    if condition is FALSE:
        return const(0)
    return make("number", (condition,), type_=Int(0, 1))


# ---------------------------------------------------------------- bounds


def refine(expr: Expr, condition: Expr) -> Type:
    """The type of an expression where a condition holds: bounds learned from it."""
    return _refined(expr, _bounds(condition, MAX_NESTED), {}, condition)


def _bounds(condition: Expr, depth: int) -> dict[int, tuple[float, float]]:
    """The bounds of numbers that a condition compares."""
    known: dict[int, tuple[float, float]] = {}
    parts = conjuncts(condition)
    for part in parts:
        if part.op == "or" and depth:
            # What all alternatives say.
            first, *others = (_bounds(alternative, depth - 1) for alternative in part.args)
            for key, (lo, hi) in first.items():
                if all(key in other for other in others):
                    lo = min([lo, *(other[key][0] for other in others)])
                    hi = max([hi, *(other[key][1] for other in others)])
                    before = known.get(key, (-INF, INF))
                    known[key] = max(lo, before[0]), min(hi, before[1])
    for _ in range(2):
        for x, y, admitted in comparisons(parts):
            if isinstance(x.type, Int | Real) and isinstance(y.type, Int | Real):
                ylo, yhi = known.get(id(y), (y.type.lo, y.type.hi))
                whole = isinstance(x.type, Int)
                lo, hi = known.get(id(x), (x.type.lo, x.type.hi))
                if admitted & 0b100 == 0 and yhi < INF:
                    lo, hi = tighten(lo, hi, 0b001 | (admitted & 0b010), yhi, whole)
                if admitted & 0b001 == 0 and ylo > -INF:
                    lo, hi = tighten(lo, hi, 0b100 | (admitted & 0b010), ylo, whole)
                if admitted == 0b101 and is_const(y):
                    lo, hi = tighten(lo, hi, admitted, y.data, whole)
                known[id(x)] = (lo, hi)
    return known


def _refined(
    expr: Expr, known: dict[int, tuple[float, float]], memo: dict[int, Type], condition: Expr
) -> Type:
    if id(expr) in memo:
        return memo[id(expr)]
    type_ = expr.type
    if isinstance(type_, Int | Real):
        # A reduction along an axis goes by the names of operations on numbers.
        if (expr.op in BINARY or expr.op in UNARY) and not isinstance(expr.data, Axis):
            below = [_refined(a, known, memo, condition) for a in expr.args]
            type_ = _result_type(expr.op, below)
        elif expr.op == "case":
            joined: Type | None = None
            for holds, value in zip(expr.args[::2], expr.args[1::2], strict=True):
                both = and_(condition, holds)
                if both is not FALSE:
                    t = refine(value, both)
                    joined = t if joined is None else join(joined, t)
            type_ = joined if isinstance(joined, Int | Real) else type_
        if id(expr) in known and isinstance(type_, Int | Real):
            lo, hi = known[id(expr)]
            lo, hi = max(lo, type_.lo), min(hi, type_.hi)
            type_ = numbers(isinstance(type_, Int), lo, hi)
    memo[id(expr)] = type_
    return type_
