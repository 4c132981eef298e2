"""Constructors that simplify: Boolean algebra, comparisons by bounds, reductions.

Everything here preserves meaning; nothing depends on it for correctness except that a
condition which is *recognised* as false prunes a derivation, and that conditions
recognised as exclusive let derivations merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nesymm.compiler.expr import (
    FALSE,
    TRUE,
    Axis,
    Expr,
    Substitution,
    make,
    rewrite,
)
from nesymm.compiler.types import (
    BOOL,
    INF,
    Bool,
    Enum,
    Int,
    Real,
    Type,
    contains,
    domain,
    is_finite,
    join,
    like,
    product_bounds,
    quotient_bounds,
)

# ---------------------------------------------------------------- constants


def const(value: Any) -> Expr:
    """A constant: a truth value, a number or a ground term."""
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if isinstance(value, int):
        return make("const", data=value, type_=Int(value, value))
    if isinstance(value, float):
        return make("const", data=value, type_=Real(value, value))
    return make("const", data=value, type_=Enum((value,)))


def is_const(expr: Expr) -> bool:
    return expr.op == "const"


def axis_value(axis: Axis) -> Expr:
    """The axis as a value. An axis of size 1 stays symbolic too, so that one entity
    compiles to what twenty do."""
    return make("axis", data=axis, type_=axis.type)


# ---------------------------------------------------------------- Boolean algebra


def not_(a: Expr) -> Expr:
    if a is TRUE:
        return FALSE
    if a is FALSE:
        return TRUE
    if a.op == "not":
        return a.args[0]
    if a.op == "lt":
        return make("le", (a.args[1], a.args[0]))
    if a.op == "le":
        return make("lt", (a.args[1], a.args[0]))
    return make("not", (a,))


def _flatten(op: str, args: Iterable[Expr]) -> list[Expr]:
    """The operands of nested `op`s, each once, in order of first appearance."""
    seen: dict[int, Expr] = {}
    for arg in args:
        for part in arg.args if arg.op == op else (arg,):
            seen.setdefault(id(part), part)
    return list(seen.values())


def and_(*args: Expr) -> Expr:
    # The common cases, met in every resolution step, first.
    live = [a for a in args if a is not TRUE]
    if not live:
        return TRUE
    if len(live) == 1 or (len(live) == 2 and live[0] is live[1]):
        return live[0]
    if FALSE in live:
        return FALSE
    parts = _flatten("and", live)
    if len(parts) == 1:
        return parts[0]
    ids = {id(p) for p in parts}
    for p in parts:
        if p.op == "not" and id(p.args[0]) in ids:
            return FALSE
        # Not all of these, and each of these.
        if p.op == "not" and p.args[0].op == "and" and all(id(q) in ids for q in p.args[0].args):
            return FALSE
        if p.op == "or" and any(id(q) in ids for q in p.args):
            return and_(*(q for q in parts if q is not p))
    if _contradictory(parts):
        return FALSE
    return make("and", tuple(parts))


def or_(*args: Expr) -> Expr:
    live = [a for a in args if a is not FALSE]
    if not live:
        return FALSE
    if len(live) == 1:
        return live[0]
    if TRUE in live:
        return TRUE
    parts = _flatten("or", live)
    if len(parts) == 1:
        return parts[0]
    ids = {id(p) for p in parts}
    for p in parts:
        if p.op == "not" and id(p.args[0]) in ids:
            return TRUE
        if p.op in ("lt", "le") and id(not_(p)) in ids:
            return TRUE
        # Absorption: a or (a and b).
        if p.op == "and" and any(id(q) in ids for q in p.args):
            return or_(*(q for q in parts if q is not p))
    if len(parts) == 2:
        merged = _resolve(*parts)
        if merged is not None:
            return merged
    return make("or", tuple(parts))


def _resolve(a: Expr, b: Expr) -> Expr | None:
    """(c and x) or (c and not x) is c: the two halves of a rule with `not`."""
    parts_a, parts_b = conjuncts(a), conjuncts(b)
    only_a = [p for p in parts_a if all(p is not q for q in parts_b)]
    only_b = [p for p in parts_b if all(p is not q for q in parts_a)]
    if len(only_a) == len(only_b) == 1 and only_a[0] is not_(only_b[0]):
        return and_(*(p for p in parts_a if p is not only_a[0]))
    return None


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    if condition is TRUE:
        return ()
    return condition.args if condition.op == "and" else (condition,)


def exclusive(a: Expr, b: Expr) -> bool:
    """Whether it is evident that the two conditions never hold together."""
    for x, y in ((a, b), (b, a)):
        if x.op == "or":
            return all(exclusive(part, y) for part in x.args)
    if and_(a, b) is FALSE:
        return True
    parts = [*conjuncts(a), *conjuncts(b)]
    return any(
        p.op == "or" and all(and_(q, *(r for r in parts if r is not p)) is FALSE for q in p.args)
        for p in parts
    )


# Which of <, =, > a comparison admits between its operands.
_ADMITS = {"eq": 0b010, "lt": 0b001, "le": 0b011}
_FLIP = {0b000: 0b000, 0b001: 0b100, 0b010: 0b010, 0b011: 0b110}
_FLIP |= {0b100: 0b001, 0b101: 0b101, 0b110: 0b011, 0b111: 0b111}


def _contradictory(parts: Sequence[Expr]) -> bool:
    """Whether the comparisons among the parts cannot hold together."""
    comparisons = [
        p for p in parts if p.op in _ADMITS or (p.op == "not" and p.args[0].op in _ADMITS)
    ]
    if len(comparisons) < 2:
        return False
    relations: dict[tuple[int, int], int] = {}
    bounds: dict[int, tuple[float, float]] = {}
    terms: dict[int, set] = {}
    for part in comparisons:
        negated = part.op == "not"
        literal = part.args[0] if negated else part
        a, b = literal.args
        admits = _ADMITS[literal.op]
        if negated:
            admits ^= 0b111
        key = (id(a), id(b))
        if key[0] > key[1]:
            key, admits_key = (key[1], key[0]), _FLIP[admits]
        else:
            admits_key = admits
        relations[key] = relations.get(key, 0b111) & admits_key
        if relations[key] == 0:
            return True
        for x, y, admitted in ((a, b, admits), (b, a, _FLIP[admits])):
            if y.op != "const" or x.op == "const":
                continue
            if isinstance(x.type, Int | Real):
                lo, hi = bounds.get(id(x), (x.type.lo, x.type.hi))
                lo, hi = _tighten(lo, hi, admitted, y.data, isinstance(x.type, Int))
                if lo > hi:
                    return True
                bounds[id(x)] = (lo, hi)
            elif isinstance(x.type, Enum):
                left = terms.setdefault(id(x), set(x.type.values))
                if admitted == 0b010:
                    left &= {y.data}
                elif admitted == 0b101:
                    left -= {y.data}
                if not left:
                    return True
    return False


def _tighten(lo: float, hi: float, admits: int, value: float, whole: bool) -> tuple[float, float]:
    """The bounds of x once `x admits value` is known."""
    step: float = 1 if whole else 0
    if admits == 0b010:
        return max(lo, value), min(hi, value)
    if admits == 0b001:
        return lo, min(hi, math.ceil(value) - 1 if whole else value)
    if admits == 0b011:
        return lo, min(hi, math.floor(value) if whole else value)
    if admits == 0b100:
        return max(lo, math.floor(value) + 1 if whole else value), hi
    if admits == 0b110:
        return max(lo, math.ceil(value) if whole else value), hi
    if admits == 0b101 and whole:
        return lo + step * (lo == value), hi - step * (hi == value)
    return lo, hi


# ---------------------------------------------------------------- comparisons


def eq(a: Expr, b: Expr) -> Expr:
    """Equality of two values: of two numbers, two terms, two truth values."""
    if a is b:
        return TRUE
    if is_const(a) and not is_const(b):
        a, b = b, a
    ta, tb = a.type, b.type
    if isinstance(ta, Bool) and isinstance(tb, Bool):
        if b is TRUE:
            return a
        if b is FALSE:
            return not_(a)
        return or_(and_(a, b), and_(not_(a), not_(b)))
    if isinstance(ta, Enum) and isinstance(tb, Enum):
        shared = [v for v in ta.values if v in tb.values]
        if not shared:
            return FALSE
        if len(ta.values) == len(tb.values) == 1:
            return TRUE
    elif isinstance(ta, Int | Real) and isinstance(tb, Int | Real):
        if ta.lo > tb.hi or tb.lo > ta.hi:
            return FALSE
        if ta.lo == ta.hi == tb.lo == tb.hi:
            return TRUE
        if isinstance(ta, Int) and is_const(b) and b.data != int(b.data):
            return FALSE
    else:
        return FALSE
    if a.op == "number" and is_const(b):
        return a.args[0] if b.data == 1 else not_(a.args[0])
    if is_const(b) and a.op == "case" and all(is_const(v) for v in a.args[1::2]):
        return _case_equals(a, b)
    return make("eq", (a, b))


def _case_equals(case: Expr, value: Expr) -> Expr:
    """A merged value compared with a constant is a condition on which clause applied.

    Only where the conditions exclude one another: then no order among them matters.
    Where none of them holds the value is absent, and the comparison with it is guarded
    by its presence elsewhere.
    """
    hits = [c for c, v in zip(case.args[::2], case.args[1::2], strict=True) if eq(v, value) is TRUE]
    conditions = case.args[::2]
    if all(exclusive(x, y) for i, x in enumerate(conditions) for y in conditions[i + 1 :]):
        return or_(*hits)
    return make("eq", (case, value))


def lt(a: Expr, b: Expr) -> Expr:
    if a is b:
        return FALSE
    ta, tb = a.type, b.type
    assert isinstance(ta, Int | Real) and isinstance(tb, Int | Real)
    if ta.hi < tb.lo:
        return TRUE
    if ta.lo >= tb.hi:
        return FALSE
    return make("lt", (a, b))


def le(a: Expr, b: Expr) -> Expr:
    if a is b:
        return TRUE
    ta, tb = a.type, b.type
    assert isinstance(ta, Int | Real) and isinstance(tb, Int | Real)
    if ta.hi <= tb.lo:
        return TRUE
    if ta.lo > tb.hi:
        return FALSE
    return make("le", (a, b))


def within(value: Expr, type_: Type) -> Expr:
    """The condition that a value lies in a finite type."""
    if contains(type_, value.type):
        return TRUE
    if isinstance(type_, Int) and isinstance(value.type, Int | Real):
        return and_(le(const(int(type_.lo)), value), le(value, const(int(type_.hi))))
    if isinstance(type_, Enum) and isinstance(value.type, Enum):
        return or_(*(eq(value, const(v)) for v in value.type.values if v in type_.values))
    return FALSE


# ---------------------------------------------------------------- arithmetic


class NotANumber(Exception):
    """An operand that has no number: a term, a truth value or a tensor."""

    def __init__(self, operand: Expr):
        self.operand = operand


# As ProbLog computes: `/` gives a real number, `//` and `mod` round down, `round` rounds
# halves to even.
_UNARY = {
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
    "sign": lambda x: (x > 0) - (x < 0) if isinstance(x, int) else math.copysign(1.0, x) * (x != 0),
    "float": float,
}
_BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "idiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
    "pow": lambda x, y: x**y,
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
    return make(op, args, type_=_result_type(op, [a.type for a in args]))


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
        case "sqrt" | "exp":
            return Real(0, INF)
        case "sign":
            return like(a, a, -1, 1)
        case "tanh" | "sin" | "cos":
            return Real(-1, 1)
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
    type_: Type | None = live[0][1].type
    for _, value in live[1:]:
        type_ = join(type_, value.type) if type_ is not None else None
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
        case "and":
            return and_(*args)
        case "or":
            return or_(*args)
        case "not":
            return not_(*args)
        case "eq":
            return eq(*args)
        case "lt":
            return lt(*args)
        case "le":
            return le(*args)
        case "number":
            return number(*args)
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
        case op if op in UNARY or op in BINARY:
            return arithmetic(op, *args)
    return make(node.op, args, node.data, node.type)


def any_(axis: Axis, condition: Expr) -> Expr:
    """Whether the condition holds for some value of the axis."""
    if axis not in condition.axes:
        return condition
    if condition.op == "or":
        return or_(*(any_(axis, part) for part in condition.args))
    parts = conjuncts(condition)
    # The one-point rule: some E with E = e and g(E) is g(e), if e is in range.
    for part in parts:
        if part.op != "eq":
            continue
        for this, other in (part.args, part.args[::-1]):
            if this.op == "axis" and this.data == axis and axis not in other.axes:
                rest = and_(*(p for p in parts if p is not part))
                return and_(within(other, axis.type), substitute(rest, {axis: other}))
    outside = [p for p in parts if axis not in p.axes]
    (inside,), bound = _bind(axis, and_(*(p for p in parts if axis in p.axes)))
    return and_(*outside, make("any", (inside,), bound))


def _bind(axis: Axis, *parts: Expr) -> tuple[tuple[Expr, ...], Axis]:
    """Name a bound axis by how deeply reductions are nested inside its scope.

    Bound names then never clash with free ones (no capture), and reductions that differ
    only in the name of their axis are one expression.
    """
    if axis.name.startswith("∃"):
        return parts, axis
    depth = max(p.binders for p in parts)
    bound = Axis(f"∃{axis.name.split('~')[0]}{depth or ''}", axis.type)
    mapping = {axis: axis_value(bound)}
    return tuple(substitute(p, mapping) for p in parts), bound


def reduce_(op: str, axis: Axis, condition: Expr, value: Expr) -> Expr:
    """sum, min, max or pick of a value over the places where a condition holds."""
    if op == "pick":
        if axis not in value.axes:
            return value
        for part in conjuncts(condition):
            if part.op == "eq":
                for this, other in (part.args, part.args[::-1]):
                    if this.op == "axis" and this.data == axis and axis not in other.axes:
                        return substitute(value, {axis: other})
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
    types: list[Type] = [const(v).type for v in values]
    type_: Type | None = types[0]
    for other in types[1:]:
        type_ = join(type_, other) if type_ is not None else None
    if type_ is None:
        raise TypeError("the entries of a table have no common type")
    return make("lookup", keys, table, BOOL if isinstance(types[0], Bool) else type_)


def refine(expr: Expr, condition: Expr) -> Type:
    """The type of an expression where a condition holds: bounds learned from it."""
    known: dict[int, tuple[float, float]] = {}
    for _ in range(2):
        for part in conjuncts(condition):
            negated = part.op == "not"
            literal = part.args[0] if negated else part
            if literal.op not in _ADMITS:
                continue
            a, b = literal.args
            admits = _ADMITS[literal.op] ^ (0b111 if negated else 0)
            for x, y, admitted in ((a, b, admits), (b, a, _FLIP[admits])):
                if isinstance(x.type, Int | Real) and isinstance(y.type, Int | Real):
                    ylo, yhi = known.get(id(y), (y.type.lo, y.type.hi))
                    whole = isinstance(x.type, Int)
                    lo, hi = known.get(id(x), (x.type.lo, x.type.hi))
                    if admitted & 0b100 == 0 and yhi < INF:
                        lo, hi = _tighten(lo, hi, 0b001 | (admitted & 0b010), yhi, whole)
                    if admitted & 0b001 == 0 and ylo > -INF:
                        lo, hi = _tighten(lo, hi, 0b100 | (admitted & 0b010), ylo, whole)
                    if admitted == 0b101 and is_const(y):
                        lo, hi = _tighten(lo, hi, admitted, y.data, whole)
                    known[id(x)] = (lo, hi)
    return _refined(expr, known, {})


def _refined(expr: Expr, known: dict[int, tuple[float, float]], memo: dict[int, Type]) -> Type:
    if id(expr) in memo:
        return memo[id(expr)]
    type_ = expr.type
    if isinstance(type_, Int | Real):
        if expr.op in BINARY or expr.op in UNARY:
            below = [_refined(a, known, memo) for a in expr.args]
            type_ = _result_type(expr.op, below)
        elif expr.op == "case":
            joined: Type | None = None
            for value in expr.args[1::2]:
                t = _refined(value, known, memo)
                joined = t if joined is None else join(joined, t)
            type_ = joined if isinstance(joined, Int | Real) else type_
        if id(expr) in known and isinstance(type_, Int | Real):
            lo, hi = known[id(expr)]
            lo, hi = max(lo, type_.lo), min(hi, type_.hi)
            type_ = Int(lo, hi) if isinstance(type_, Int) else Real(lo, hi)
    memo[id(expr)] = type_
    return type_


def values_of(expr: Expr) -> list | None:
    """The values an expression can take, if they are finitely many."""
    return domain(expr.type) if is_finite(expr.type) else None


__all__ = [
    "BINARY",
    "BOOL",
    "UNARY",
    "NotANumber",
    "and_",
    "any_",
    "arithmetic",
    "axis_value",
    "case",
    "compute",
    "conjuncts",
    "const",
    "eq",
    "exclusive",
    "is_const",
    "le",
    "lookup",
    "lt",
    "not_",
    "number",
    "or_",
    "rebuild",
    "reduce_",
    "refine",
    "substitute",
    "values_of",
    "within",
]
