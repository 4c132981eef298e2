"""The next state: what the clauses write into the slots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import combinations, compress
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.calls import replaced
from nesymm.ground.context import Context
from nesymm.ground.merge import agree
from nesymm.ground.normalise import can_start
from nesymm.ground.state.blocks import AxisKey, Block, Blocks
from nesymm.ground.state.demands import Demands
from nesymm.ground.tabling import Answer
from nesymm.ir.algebra import and_, axis_value, const, eq, exclusive, not_, or_, within
from nesymm.ir.arithmetic import refine
from nesymm.ir.axes import any_, case, reduce_, substitute
from nesymm.ir.expr import FALSE, TIME, TRUE, Axis, Expr, in_order, make
from nesymm.ir.step import Hole, Slot
from nesymm.ir.symbols import as_expr, as_tensor, axis_of, key_of, parts
from nesymm.ir.types import BOOL, INF, Enum, Int, Real, Tensor, Type, contains
from nesymm.language.program import Pred


def slots(
    ctx: Context, demands: Demands, blocks: Blocks, answers: Callable[[Pred], list[Answer]]
) -> Iterator[Slot]:
    """The slots of all fluents that are read, filled by the answers about each."""
    clauses = ctx.clauses
    for pred, lags in demands.lags.items():
        if not blocks.get(pred) and pred not in can_start(ctx.program):
            lag = max(lags)
            atom = pred.name + ("(…)" if pred.arity else "")
            fail(
                "E206",
                f"nothing ever starts {pred}: it is read at an earlier step, but no "
                "clause gives it a first value",
                lags[lag],
                f"add a clause for step 0, for example `{atom}@0.`",
            )
        keys = clauses.key_positions(pred)
        found = answers(pred)
        grouped: dict[tuple[int, ...], dict[Any, list[Answer]]] = {}
        for block in blocks.get(pred, ()):
            # Of many answers, those that have the constants of the block.
            fixed = [not isinstance(k, AxisKey) for k in block.keys]
            places = tuple(compress(keys, fixed))
            if places not in grouped:
                groups = grouped[places] = {}
                for answer in found:
                    own = key_of(tuple(answer.terms[i] for i in places))
                    groups.setdefault(own, []).append(answer)
            own = grouped[places].get(key_of(tuple(compress(block.keys, fixed))), [])
            yield from _block_slots(ctx, pred, block, own, lags)


def _block_slots(
    ctx: Context, pred: Pred, block: Block, answers: list[Answer], lags: Collection[int]
) -> Iterator[Slot]:
    axes = block.axes(ctx.clauses, pred)
    present, values = current = next_values(ctx, pred, block, answers)
    here = tuple(axis_value(a) for a in axes)
    for lag in range(1, max(lags) + 1):
        if lag > 1:
            before = block.slot(pred, lag - 1)
            present = make("slot", here, (before, "present"), BOOL)
            values = tuple(make("slot", here, (before, i), t) for i, t in enumerate(block.types))
        atom = (pred.name, block.arguments(ctx.clauses, pred)) if lag == 1 else None
        name = block.slot(pred, lag)
        yield Slot(name, axes, block.types, present, values, False, atom=atom)
    if -1 in lags:
        yield latch(block.slot(pred, -1), axes, block.types, 0, *current)


def latch(
    name: str,
    axes: tuple[Axis, ...],
    types: tuple[Type, ...],
    step: int,
    holds: Expr,
    values: tuple[Expr, ...],
) -> Slot:
    """A slot that takes its value at one step and keeps it."""
    now = eq(TIME, const(step))
    here = tuple(axis_value(a) for a in axes)
    kept = make("slot", here, (name, "present"), BOOL)
    present = or_(and_(now, holds), and_(not_(now), kept))
    following = tuple(
        case([(now, v), (TRUE, make("slot", here, (name, i), t))])
        for i, (v, t) in enumerate(zip(values, types, strict=True))
    )
    return Slot(name, axes, types, present, following, False)


# ---------------------------------------------------------------- one block


def next_values(
    ctx: Context, pred: Pred, block: Block, answers: list[Answer]
) -> tuple[Expr, tuple[Expr, ...]]:
    """Presence and values of a block after this step."""
    axes = block.axes(ctx.clauses, pred)
    rows: list[tuple[Expr, tuple[Expr, ...], Span | None]] = []
    for answer in answers:
        placed = _place(answer, ctx.clauses.key_positions(pred), block, axes)
        if placed is None:
            continue
        condition, terms = placed
        values: list[Expr] = []
        for i, template in zip(ctx.clauses.value_positions(pred), block.template, strict=True):
            values += _fields(terms[i], template)
        for axis in in_order({a for e in (condition, *values) for a in e.axes} - set(axes)):
            values = [reduce_("pick", axis, condition, v) for v in values]
            condition = any_(axis, condition)
        for value, type_ in zip(values, block.types, strict=True):
            ctx.must_not(leaving(pred, type_), _leaving(condition, value, type_), answer.span)
        rows.append((condition, tuple(values), answer.span))
    if not rows:
        return FALSE, tuple(_anything(t) for t in block.types)
    for (condition, row, _), (other, others, span) in combinations(rows, 2):
        if not exclusive(condition, other):
            same = and_(*(agree(x, y) for x, y in zip(row, others, strict=True)))
            ctx.must_not_differ(pred, and_(condition, other, not_(same)), span)
    present = or_(*(c for c, _, _ in rows))
    columns = (case([(c, row[j]) for c, row, _ in rows]) for j in range(len(block.types)))
    return present, tuple(columns)


def _place(
    answer: Answer, keys: list[int], block: Block, axes: tuple[Axis, ...]
) -> tuple[Expr, tuple] | None:
    """An answer written along the axes of its block."""
    remaining = iter(axes)
    mapping: dict[Axis, Expr] = {}
    conditions: list[Expr] = []
    equalities: list[tuple[Expr, Expr]] = []
    for position, key in zip(keys, block.keys, strict=True):
        term = answer.terms[position]
        if not isinstance(key, AxisKey):
            if key_of(term) != key_of(key):
                return None
            continue
        axis = next(remaining)
        here = axis_value(axis)
        own = axis_of(term)
        if own is not None and own not in mapping:
            mapping[own] = here
            if not contains(own.type, axis.type):
                conditions.append(within(here, own.type))
        else:
            equalities.append((here, as_expr(term)))
    terms, condition = replaced(answer.terms, answer.condition, mapping)
    conditions += [eq(here, substitute(term, mapping)) for here, term in equalities]
    condition = and_(*conditions, condition)
    return None if condition is FALSE else (condition, terms)


def leaving(pred: Pred, type_: Type) -> str:
    return f"{pred} leaves its domain {type_}"


def outside(answer: Answer, position: int, type_: Type) -> Expr:
    """When an argument of an answer is outside its declared domain."""
    term = answer.terms[position]
    if isinstance(term, Expr) and isinstance(term.type, Tensor):
        return FALSE
    if parts(term) or not _comparable(as_expr(term).type, type_):
        return answer.condition
    return _leaving(answer.condition, as_expr(term), type_)


def _comparable(a: Type, b: Type) -> bool:
    return isinstance(a, Int | Real) == isinstance(b, Int | Real)


def _fields(term: Any, template: Any) -> list[Expr]:
    """What a term has in the places of the holes of a template."""
    if type(template) is Hole:
        return [as_expr(as_tensor(term))]
    pairs = zip(parts(term), parts(template), strict=True)
    return [leaf for t, i in pairs for leaf in _fields(t, i)]


def _leaving(condition: Expr, value: Expr, type_: Type) -> Expr:
    """When a value is outside its declared domain: an error, never clamped."""
    if contains(type_, refine(value, condition)) or not isinstance(type_, Int | Real | Enum):
        return FALSE
    return and_(condition, not_(within(value, type_)))


def _anything(type_: Type) -> Expr:
    """A value for a slot that nothing ever fills; it is never looked at."""
    match type_:
        case Int(lo, hi):
            return const(int(lo) if lo > -INF else int(hi) if hi < INF else 0)
        case Real(lo, hi):
            return const(float(lo) if lo > -INF else float(hi) if hi < INF else 0.0)
        case Enum(values):
            return const(values[0])
        case Tensor():
            return make("const", data=0.0, type_=type_)
    return const(0)
