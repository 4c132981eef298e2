"""Constructors that simplify: constants, Boolean algebra, comparisons by bounds.

Everything here preserves meaning; nothing depends on it for correctness except that a
condition which is *recognised* as false prunes a derivation, and that conditions
recognised as exclusive let derivations merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, make
from nesymm.ir.types import INF, Bool, Enum, Int, Real, Tensor, Type, contains

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


def vector(entries: Sequence[Expr]) -> Expr:
    """Numbers as one tensor; vectors as the rows of one."""
    inner = entries[0].type
    rest = inner.shape or () if isinstance(inner, Tensor) else ()
    return make("vector", tuple(entries), type_=Tensor((len(entries), *rest)))


def item(tensor: Expr, index: int) -> Expr:
    """An entry of a tensor whose shape is known."""
    assert isinstance(tensor.type, Tensor)
    assert tensor.type.shape
    if tensor.op == "vector":
        return tensor.args[index]
    rest = tensor.type.shape[1:]
    return make("item", (tensor,), index, Tensor(rest) if rest else Real())


def whole_vector(entries: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The vector itself in the place of all its entries in order; else the same."""
    if not entries or entries[0].op != "item":
        return entries
    (source,) = entries[0].args
    assert isinstance(source.type, Tensor)
    whole = source.type.shape == (len(entries),) and all(
        e.op == "item" and e.args == (source,) and e.data == i for i, e in enumerate(entries)
    )
    return (source,) if whole else entries


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
    shorter = _shorter("and", parts)
    if shorter is not None:
        return shorter
    return FALSE if _contradictory(parts) else make("and", tuple(parts))


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
    shorter = _shorter("or", parts)
    if shorter is None and len(parts) == 2:
        shorter = _resolve(*parts)
    return make("or", tuple(parts)) if shorter is None else shorter


def _shorter(op: str, parts: Sequence[Expr]) -> Expr | None:
    """What `and` or `or` of some conditions is without what the others say of them, if anything:
    what holds for the one holds, with true and false exchanged, for the other."""
    join, other_op, absorbing = (and_, "or", FALSE) if op == "and" else (or_, "and", TRUE)
    ids = {id(p) for p in parts}
    for p in parts:
        if p.op == "not" and id(p.args[0]) in ids:
            return absorbing
        if op == "or" and p.op in ("lt", "le") and id(not_(p)) in ids:
            return TRUE
        others = (q for q in parts if q is not p)
        if p.op == "not" and p.args[0].op == op:
            # a, but not both a and b: a and not b; a, or neither a nor b: a or not b.
            open_parts = [q for q in p.args[0].args if id(q) not in ids]
            if len(open_parts) < len(p.args[0].args):
                return join(*others, not_(join(*open_parts)))
        # Absorption: a and (a or b), a or (a and b).
        if p.op == other_op and any(id(q) in ids for q in p.args):
            return join(*others)
    return None


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
ADMITS = {"eq": 0b010, "lt": 0b001, "le": 0b011}
FLIP = {0b000: 0b000, 0b001: 0b100, 0b010: 0b010, 0b011: 0b110}
FLIP |= {0b100: 0b001, 0b101: 0b101, 0b110: 0b011, 0b111: 0b111}


def comparisons(parts: Iterable[Expr]) -> Iterator[tuple[Expr, Expr, int]]:
    """The comparisons among conditions: x, y, and which of <, =, > stands between them; each from
    both sides."""
    for part in parts:
        negated = part.op == "not"
        literal = part.args[0] if negated else part
        if literal.op in ADMITS:
            a, b = literal.args
            admits = ADMITS[literal.op] ^ (0b111 if negated else 0)
            yield a, b, admits
            yield b, a, FLIP[admits]


def _contradictory(parts: Sequence[Expr]) -> bool:
    """Whether the comparisons among the parts cannot hold together."""
    found = list(comparisons(parts))
    if len(found) < 4:
        return False
    relations: dict[tuple[int, int], int] = {}
    bounds: dict[int, tuple[float, float]] = {}
    terms: dict[int, set] = {}
    for x, y, admits in found:
        key = (id(x), id(y))
        relations[key] = relations.get(key, 0b111) & admits
        if relations[key] == 0:
            return True
        if y.op != "const" or x.op == "const":
            continue
        if isinstance(x.type, Int | Real):
            lo, hi = bounds.get(id(x), (x.type.lo, x.type.hi))
            lo, hi = tighten(lo, hi, admits, y.data, isinstance(x.type, Int))
            if lo > hi:
                return True
            bounds[id(x)] = (lo, hi)
        elif isinstance(x.type, Enum):
            left = terms.setdefault(id(x), set(x.type.values))
            if admits == 0b010:
                left &= {y.data}
            elif admits == 0b101:
                left -= {y.data}
            if not left:
                return True
    return False


def tighten(lo: float, hi: float, admits: int, value: float, whole: bool) -> tuple[float, float]:
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
    """Equality of two values: of two numbers, two terms, two truth values.

    That of two tensors is refused when the program is complete.
    """
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
    elif not (isinstance(ta, Tensor) and isinstance(tb, Tensor)):
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
    """The condition that a value lies in a type."""
    if contains(type_, value.type):
        return TRUE
    if isinstance(type_, Int | Real) and isinstance(value.type, Int | Real):
        whole = isinstance(type_, Int)
        low, high = (const(int(b) if whole and abs(b) < INF else b) for b in (type_.lo, type_.hi))
        return and_(le(low, value), le(value, high))
    if isinstance(type_, Enum) and isinstance(value.type, Enum):
        return or_(*(eq(value, const(v)) for v in value.type.values if v in type_.values))
    return FALSE
