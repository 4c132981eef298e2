"""The state between steps: which slots there are, what they hold, how they are read.

A predicate that some clause reads at an earlier time is a *fluent*. Per key it has a
presence bit and its values; keys that run along axes make it an array, and keys that
are values themselves are written into the array (scatter) and read from it (gather).

What keys and types a fluent has is found by repeating the grounding until nothing new
appears; `Blocks` is what one round knows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from nesymm.errors import Span, fail
from nesymm.ground.identity import distinct
from nesymm.ground.literals import CallLit
from nesymm.ground.merge import agree
from nesymm.ground.unify import Env, resolve, unify
from nesymm.ir.algebra import and_, axis_value, const, eq, exclusive, le, not_, or_, within
from nesymm.ir.arithmetic import refine
from nesymm.ir.axes import any_, anywhere, case, reduce_, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, in_order, make
from nesymm.ir.step import Flag, Hole
from nesymm.ir.symbols import as_expr, as_tensor, has_symbol, is_ground, key_of, map_symbols, parts
from nesymm.ir.terms import Compound, V, show
from nesymm.ir.types import (
    BOOL,
    INF,
    Enum,
    Int,
    Real,
    Tensor,
    Type,
    contains,
    domain,
    is_finite,
    join,
)
from nesymm.language.program import Pred

if TYPE_CHECKING:
    from nesymm.ground.grounder import Grounder
    from nesymm.ground.tabling import Answer


@dataclass(frozen=True, slots=True)
class Leaf:
    """Stands in a value template for field number i."""

    i: int


@dataclass(frozen=True, slots=True)
class Along:
    """A key that runs along an axis of this type."""

    type: Int | Enum


@dataclass(frozen=True, slots=True)
class Block:
    """Part of a fluent: its keys (constants or axes), the structure and types of values."""

    keys: tuple
    template: tuple
    types: tuple[Type, ...]


# How long an axis may become by a guess at its bounds.
MAX_WIDENED = 2**10

Blocks = dict[Pred, tuple[Block, ...]]


def slot_name(pred: Pred, keys: tuple, lag: int) -> str:
    shown = [show(k) for k in keys if not isinstance(k, Along)]
    name = pred.name + (f"({','.join(shown)})" if shown else "")
    if lag == -1:
        return name + "@0"
    return name if lag == 1 else f"{name}@-{lag}"


def key_positions(host: Grounder, pred: Pred) -> list[int]:
    values = host.clauses.values.get(pred, frozenset())
    return [i for i in range(host.width(pred)) if i not in values]


def value_positions(host: Grounder, pred: Pred) -> list[int]:
    values = host.clauses.values.get(pred, frozenset())
    return [i for i in range(host.width(pred)) if i in values]


def arguments(host: Grounder, pred: Pred, block: Block) -> tuple:
    """The arguments of a fluent as the program writes them, with holes for axes and fields."""
    number = count()

    def hollow(term: Any) -> Any:
        if type(term) is Along:
            return Hole("key", next(number))
        if type(term) is Leaf:
            return Hole("field", term.i)
        if type(term) is tuple:
            return tuple(map(hollow, term))
        if type(term) is Compound:
            return Compound(term.functor, tuple(map(hollow, term.args)))
        return term

    found = dict(zip(key_positions(host, pred), block.keys, strict=True))
    found |= dict(zip(value_positions(host, pred), block.template, strict=True))
    return tuple(hollow(found[i]) for i in range(host.width(pred)))


# ---------------------------------------------------------------- reading


def read(host: Grounder, lit: CallLit, env: Env) -> Iterator[tuple[Env, Expr]]:
    """A literal about an earlier step."""
    pred = lit.pred
    keys = key_positions(host, pred)
    asked = tuple(resolve(lit.args[i], env) for i in keys)
    pattern = tuple(None if not is_ground(a) or has_symbol(a) else a for a in asked)
    host.demand(pred, lit.lag, pattern, lit.span)
    for block in host.blocks_at(pred, pattern):
        name = slot_name(pred, block.keys, lit.lag)
        for new, indices, condition in match(host, lit, env, asked, block):
            conditions = [condition, make("slot", indices, (name, "present"), BOOL)]

            def fill(
                term: Any, indices: tuple = indices, name: str = name, block: Block = block
            ) -> Any:
                return _fill(term, block.types, name, indices)

            terms = [fill(t) for t in block.template]
            if all(
                unify(lit.args[i], t, new, conditions)
                for i, t in zip(value_positions(host, pred), terms, strict=True)
            ):
                yield new, and_(*conditions)


def match(
    host: Grounder, lit: CallLit, env: Env, asked: tuple, block: Block
) -> Iterator[tuple[Env, tuple[Expr, ...], Expr]]:
    """The ways in which the keys of a literal meet those of a block."""
    states: list[tuple[Env, tuple[Expr, ...], Expr]] = [(list(env), (), TRUE)]
    for position, (arg, key) in enumerate(zip(asked, block.keys, strict=True)):
        following = []
        for current, indices, condition in states:
            term = resolve(arg, current)
            if not isinstance(key, Along):
                new, extra = list(current), [condition]
                if unify(term, key, new, extra):
                    following.append((new, indices, and_(*extra)))
                continue
            if type(term) is V:
                following += _spread(host, lit, position, term, key, current, indices, condition)
                continue
            index = as_expr(term)
            inside = and_(condition, within(index, key.type))
            if inside is not FALSE:
                following.append((current, (*indices, index), inside))
        states = following
    yield from (s for s in states if s[2] is not FALSE)


def _spread(
    host: Grounder,
    lit: CallLit,
    position: int,
    variable: V,
    key: Along,
    env: Env,
    indices: tuple[Expr, ...],
    condition: Expr,
) -> list[tuple[Env, tuple[Expr, ...], Expr]]:
    """An unbound key: along an axis, or value by value where axes are not wanted."""
    site = f"{lit.site}.{position}"
    if host.vectorises(site):
        axis = host.axis(Axis(host.key_name(lit, position), key.type, site), [site])
        new = list(env)
        new[variable.i] = axis_value(axis)
        return [(new, (*indices, axis_value(axis)), condition)]
    out = []
    for value in domain(key.type):
        new = list(env)
        new[variable.i] = value
        out.append((new, (*indices, const(value)), condition))
    return out


def _fill(term: Any, types: tuple[Type, ...], name: str, indices: tuple[Expr, ...]) -> Any:
    if type(term) is Leaf:
        return make("slot", indices, (name, term.i), types[term.i])
    if type(term) is tuple:
        return tuple(_fill(t, types, name, indices) for t in term)
    if type(term) is Compound:
        return Compound(term.functor, tuple(_fill(t, types, name, indices) for t in term.args))
    return term


# ---------------------------------------------------------------- what there is


def find_blocks(
    host: Grounder, pred: Pred, answers: list[Answer], span: Span | None
) -> tuple[Block, ...]:
    """The keys and value types that the answers of this round show."""
    keys = key_positions(host, pred)
    values = value_positions(host, pred)
    if not answers:
        return ()
    declared = {i: type_ for i in keys if (type_ := host.declared_type(pred, i)) is not None}
    # What a key outside its domain would be is not part of the state: it is an error.
    answers = [
        a for a in answers if all(outside(a, i, t) is not a.condition for i, t in declared.items())
    ]
    spread = [any(isinstance(a.terms[i], Expr) for a in answers) for i in keys]
    groups: dict[Any, list[Answer]] = {}
    for answer in answers:
        fixed = tuple(
            None if along else key_of(answer.terms[i])
            for i, along in zip(keys, spread, strict=True)
        )
        groups.setdefault(fixed, []).append(answer)
    blocks = []
    for group in groups.values():
        block_keys: list[Any] = []
        for i, along in zip(keys, spread, strict=True):
            if not along:
                block_keys.append(group[0].terms[i])
                continue
            block_keys.append(Along(_key_type(pred, i, group, declared.get(i), span)))
        template, types = _values(host, pred, values, group)
        blocks.append(Block(tuple(block_keys), template, types))
    return tuple(blocks)


def _key_type(
    pred: Pred, position: int, group: list[Answer], declared: Type | None, span: Span | None
) -> Int | Enum:
    if isinstance(declared, Int | Enum) and is_finite(declared):
        return declared
    type_: Type | None = None
    for answer in group:
        term = as_expr(answer.terms[position])
        own = refine(term, answer.condition)
        type_ = own if type_ is None else join(type_, own)
        if type_ is None:
            break
    if not isinstance(type_, Int | Enum) or not is_finite(type_):
        fail(
            "E306",
            f"argument {position + 1} of {pred} is a key, and its values are unbounded ({type_})",
            group[0].span or span,
            f"declare its domain: `:- domain({pred}, {position + 1}, 1..10).`",
        )
    return type_


def _values(
    host: Grounder, pred: Pred, positions: list[int], group: list[Answer]
) -> tuple[tuple, tuple[Type, ...]]:
    """One structure for all answers, and the type of each of its leaves."""
    types: list[Type] = []
    template = []
    for position in positions:
        column = [(a.terms[position], a.condition) for a in group]
        declared = host.declared_type(pred, position)
        template.append(_template(pred, column, types, declared, group[0].span))
    return tuple(template), tuple(types)


def _template(
    pred: Pred,
    column: list[tuple[Any, Expr]],
    types: list[Type],
    declared: Type | None,
    span: Span | None,
) -> Any:
    if any(isinstance(t, Expr) and isinstance(t.type, Tensor) for t, _ in column):
        column = [(as_tensor(t), c) for t, c in column]
    first = column[0][0]
    kinds = {
        (
            type(t),
            len(t) if type(t) is tuple else None,
            (t.functor, len(t.args)) if type(t) is Compound else None,
        )
        if type(t) in (tuple, Compound)
        else None
        for t, _ in column
    }
    if len(kinds) > 1:
        fail(
            "E313",
            f"the clauses of {pred} give values of different structure",
            span,
            "carry the same kind of value in all clauses",
        )
    if type(first) is tuple:
        return tuple(
            _template(pred, [(t[i], c) for t, c in column], types, None, span)
            for i in range(len(first))
        )
    if type(first) is Compound:
        return Compound(
            first.functor,
            tuple(
                _template(pred, [(t.args[i], c) for t, c in column], types, None, span)
                for i in range(len(first.args))
            ),
        )
    type_: Type | None = None
    for term, condition in column:
        own = refine(as_expr(term), condition)
        type_ = own if type_ is None else join(type_, own)
        if type_ is None:
            fail(
                "E313",
                f"the clauses of {pred} give values of different types",
                span,
                "carry only numbers, or only terms, in one argument",
            )
    assert type_ is not None
    if isinstance(type_, Tensor) and type_.shape is None:
        known = all(as_expr(t).type.shape for t, _ in column)  # type: ignore[union-attr]
        fail(
            "E313",
            f"the clauses of {pred} give tensors of different shapes"
            if known
            else f"{pred} would carry a tensor whose shape is not known",
            span,
            "carry the same shape in all clauses"
            if known
            else "say how many outputs the network has: `:- network(net, 2).`",
        )
    types.append(declared if declared is not None else type_)
    return Leaf(len(types) - 1)


def widen(old: Blocks, new: Blocks, thresholds: list[int], hard: bool) -> Blocks:
    """Let bounds that keep growing jump to the next constant of the program, then away."""
    out: Blocks = {}
    for pred, blocks in new.items():
        before = {key_of(_fixed(b)): b for b in old.get(pred, ())}
        widened = []
        for block in blocks:
            known = before.get(key_of(_fixed(block)))
            if known is None or known.template != block.template:
                widened.append(block)
                continue
            keys = tuple(
                _widen_key(a, b, thresholds) for a, b in zip(known.keys, block.keys, strict=True)
            )
            types = tuple(
                _widen_type(a, b, thresholds, hard)
                for a, b in zip(known.types, block.types, strict=True)
            )
            widened.append(Block(keys, block.template, types))
        out[pred] = tuple(widened)
    return out


def same(old: Blocks, new: Blocks) -> bool:
    """Whether two rounds show the same, in whatever order they found it."""
    return old.keys() == new.keys() and all(
        _by_key(blocks) == _by_key(new[pred]) for pred, blocks in old.items()
    )


def known_keys(blocks: Blocks) -> dict[Pred, set[Any]]:
    return {pred: {key_of(_fixed(b)) for b in found} for pred, found in blocks.items()}


def not_in(blocks: Blocks, known: Mapping[Pred, Container[Any]]) -> Blocks:
    """Those whose keys are not known."""
    out: Blocks = {}
    for pred, found in blocks.items():
        new = tuple(b for b in found if key_of(_fixed(b)) not in known.get(pred, ()))
        if new:
            out[pred] = new
    return out


def new_keys(old: Blocks, new: Blocks) -> tuple[Pred, tuple] | None:
    """Keys of a fluent that it does not have in `old`: the last that were found."""
    for pred, blocks in not_in(new, known_keys(old)).items():
        return pred, blocks[-1].keys
    return None


def growing_key(host: Grounder, old: Blocks, new: Blocks) -> tuple[Pred, int] | None:
    """An argument that is a key along an axis, of another size than in `old`."""
    for pred, blocks in new.items():
        known = _by_key(old.get(pred, ()))
        for block in blocks:
            before = known.get(key_of(_fixed(block)))
            if before is None:
                continue
            for i, a, b in zip(key_positions(host, pred), before.keys, block.keys, strict=True):
                if isinstance(a, Along) and a != b:
                    return pred, i
    return None


def _by_key(blocks: tuple[Block, ...]) -> dict[Any, Block]:
    return {key_of(_fixed(b)): b for b in blocks}


def _fixed(block: Block) -> tuple:
    return tuple("*" if isinstance(k, Along) else k for k in block.keys)


def _widen_key(old: Any, new: Any, thresholds: list[int]) -> Any:
    """An axis is finite: where no constant is near, it grows as it does."""
    if not isinstance(old, Along) or not isinstance(new, Along) or isinstance(new.type, Enum):
        return new
    wider = _widen_type(old.type, new.type, thresholds, hard=False)
    assert isinstance(wider, Int)
    grown = (
        Int(
            wider.lo if wider.lo > -INF else min(old.type.lo, new.type.lo),
            wider.hi if wider.hi < INF else max(old.type.hi, new.type.hi),
        )
        if isinstance(old.type, Int)
        else new.type
    )
    return Along(grown) if grown.size <= MAX_WIDENED else new


def _widen_type(old: Type, new: Type, thresholds: list[int], hard: bool) -> Type:
    if old == new or not isinstance(new, Int | Real) or not isinstance(old, Int | Real):
        return new
    lo, hi = min(old.lo, new.lo), max(old.hi, new.hi)
    if lo < old.lo:
        lo = -INF if hard else max((t for t in thresholds if t <= lo), default=-INF)
    if hi > old.hi:
        hi = INF if hard else min((t for t in thresholds if t >= hi), default=INF)
    return Int(lo, hi) if isinstance(new, Int) and isinstance(old, Int) else Real(lo, hi)


# ---------------------------------------------------------------- the next state


def block_axes(host: Grounder, pred: Pred, block: Block) -> tuple[Axis, ...]:
    along = [
        (host.argument_name(pred, i), key.type)
        for i, key in zip(key_positions(host, pred), block.keys, strict=True)
        if isinstance(key, Along)
    ]
    names = distinct(name for name, _ in along)
    return tuple(Axis(n, type_) for n, (_, type_) in zip(names, along, strict=True))


def different_values(pred: Pred) -> str:
    """What is wrong where a value is given twice."""
    message = f"two clauses give {pred} different values"
    if pred.arity > 1:
        message += f"; `:- fluent({pred.name}(…))` says which arguments are keys"
    return message


def next_values(
    host: Grounder, pred: Pred, block: Block, answers: list[Answer]
) -> tuple[Expr, tuple[Expr, ...], list[Flag]]:
    """Presence and values of a block after this step, and what must not happen."""
    keys = key_positions(host, pred)
    axes = block_axes(host, pred, block)
    rows: list[tuple[Expr, tuple[Expr, ...]]] = []
    spans: list[Span | None] = []
    flags: list[Flag] = []
    for answer in answers:
        placed = _place(answer, keys, block, axes)
        if placed is None:
            continue
        condition, renamed = placed
        values: list[Expr] = []
        for position, template in zip(value_positions(host, pred), block.template, strict=True):
            values += _leaves(renamed[position], template)
        for axis in in_order({a for e in (condition, *values) for a in e.axes} - set(axes)):
            values = [reduce_("pick", axis, condition, v) for v in values]
            condition = any_(axis, condition)
        for value, type_ in zip(values, block.types, strict=True):
            leaves = anywhere(_leaving(condition, value, type_))
            if leaves is not FALSE:
                flags.append(Flag(leaving(pred, type_), leaves, answer.span))
        rows.append((condition, tuple(values)))
        spans.append(answer.span)
    if not rows:
        return FALSE, tuple(_anything(t) for t in block.types), flags
    for i, (condition, row) in enumerate(rows):
        for (other, other_values), span in zip(rows[i + 1 :], spans[i + 1 :], strict=True):
            if exclusive(condition, other):
                continue
            same = and_(*(agree(x, y) for x, y in zip(row, other_values, strict=True)))
            clash = anywhere(and_(condition, other, not_(same)))
            if clash is not FALSE:
                flags.append(Flag(different_values(pred), clash, span))
    present = or_(*(c for c, _ in rows))
    columns = tuple(case([(c, row[j]) for c, row in rows]) for j in range(len(block.types)))
    return present, columns, flags


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
        if not isinstance(key, Along):
            if key_of(term) != key_of(key):
                return None
            continue
        axis = next(remaining)
        here = axis_value(axis)
        if isinstance(term, Expr) and term.op == "axis" and term.data not in mapping:
            mapping[term.data] = here
            if not contains(term.data.type, axis.type):
                conditions.append(within(here, term.data.type))
        else:
            equalities.append((here, as_expr(term)))
    memo: dict[int, Expr] = {}
    terms = tuple(map_symbols(t, lambda e: substitute(e, mapping, memo)) for t in answer.terms)
    conditions += [eq(here, substitute(term, mapping, memo)) for here, term in equalities]
    condition = and_(*conditions, substitute(answer.condition, mapping, memo))
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


def _leaves(term: Any, template: Any) -> list[Expr]:
    """What a term has in the places of the leaves of a template."""
    if type(template) is Leaf:
        return [as_expr(as_tensor(term))]
    parts = term.args if type(term) is Compound else term
    inner = template.args if type(template) is Compound else template
    return [leaf for t, i in zip(parts, inner, strict=True) for leaf in _leaves(t, i)]


def _leaving(condition: Expr, value: Expr, type_: Type) -> Expr:
    """When a value is outside its declared domain: an error, never clamped."""
    if contains(type_, refine(value, condition)) or not isinstance(type_, Int | Real | Enum):
        return FALSE
    return and_(condition, not_(_inside(value, type_)))


def _inside(value: Expr, type_: Type) -> Expr:
    if isinstance(type_, Enum):
        return within(value, type_)
    assert isinstance(type_, Int | Real)
    bounds: list[Expr] = []
    if type_.lo > -INF:
        bounds.append(le(const(type_.lo), value))
    if type_.hi < INF:
        bounds.append(le(value, const(type_.hi)))
    return and_(*bounds)


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
