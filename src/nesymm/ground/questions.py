"""What is asked of a program: its observations and queries, answered."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from nesymm.errors import fail
from nesymm.ground.atoms import apart
from nesymm.ground.clauses import Root
from nesymm.ground.context import Context
from nesymm.ground.merge import agree
from nesymm.ground.random_variables.identity import distinct
from nesymm.ground.resolution import Engine
from nesymm.ground.state.transition import latch
from nesymm.ground.tabling import Answer
from nesymm.ground.unify import number_variables, resolve
from nesymm.ir.algebra import and_, axis_value, not_, or_, whole_vector
from nesymm.ir.axes import anywhere, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, in_order
from nesymm.ir.step import Branch, ObservationDecl, QueryDecl, Slot
from nesymm.ir.symbols import (
    as_expr,
    as_tensor,
    axes_of,
    has_symbol,
    is_ground,
    key_of,
    map_symbols,
    symbols,
)
from nesymm.ir.terms import V, atom_text, compile_term, predicate_text, show
from nesymm.ir.types import Enum, Int, Tensor, is_finite
from nesymm.language.program import At, Observation, Pred, Query
from nesymm.language.terms import ListTerm, Struct, Term


@dataclass(frozen=True)
class Observed:
    """An observation, and the atom that it is about, None where that is no atom at all; `values`
    are the places of its columns."""

    decl: ObservationDecl
    terms: tuple | None = None
    values: tuple[int, ...] = ()


def _answers(engine: Engine, statement: Observation | Query) -> tuple[Root, list[Answer]]:
    root = engine.clauses.roots[id(statement)]
    if root.alone is not None and root.selected is not None and root.atom.time is None:
        # As in ProbLog, the body says what is asked, not what has to hold.
        select, bound = root.selected
        chosen = engine.solve(select, number_variables(bound), statement.span)
        if not any(has_symbol(answer.terms) for answer in chosen):
            found: list[Answer] = []
            for answer in chosen:
                env: list[Any] = [None] * root.size
                for variable, term in zip(bound, answer.terms, strict=True):
                    env[variable.i] = term
                asked = number_variables(resolve(root.term, env))
                answers = engine.solve(root.alone, asked, statement.span)
                if not answers and is_ground(asked):
                    answers = [Answer(asked, FALSE, statement.span)]
                found += answers
            return root, found
    return root, engine.solve(root.pred, number_variables(root.term), statement.span)


# ---------------------------------------------------------------- observations


def observe(ctx: Context, engine: Engine, observation: Observation) -> Iterator[Observed]:
    """What is observed of each of the atoms that an observation is about."""
    root, answers = _answers(engine, observation)
    pred, time = observation.atom.pred, observation.atom.time
    values = [i for i in ctx.clauses.value_positions(pred) if type(root.term[i]) is V]
    keys = [i for i in range(len(root.term)) if i not in values]
    types = [as_expr(a.terms[i]).type for a in answers for i in values]
    names = {v for type_ in types if isinstance(type_, Enum) for v in type_.values}
    value = _observed_value(ctx, observation, names)
    by_value = bool(values) and not isinstance(value, bool)
    groups: dict[Any, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key_of(tuple(answer.terms[i] for i in keys)), []).append(answer)
    if not groups:
        free = [i for i in keys if type(root.term[i]) is V] if value is None else []
        name = _label(pred, tuple(root.term), [i for i in keys if i not in free])
        # Data of no entity at all: an array with an axis of size 0.
        axes = tuple(Axis(ctx.clauses.argument_name(pred, i), Int(1, 0)) for i in free)
        yield Observed(ObservationDecl(name, time, axes, FALSE, (), value, observation.span))
    for group in groups.values():
        terms = group[0].terms
        axes = tuple(in_order(axes_of(terms[i] for i in keys)))
        name = _label(pred, terms, keys)
        holds = or_(*(anywhere(a.condition, axes) for a in group))
        branches: list[Branch] = []
        if by_value:
            _must_agree(ctx, pred, group, values)
            for answer in group:
                exprs = whole_vector(tuple(as_expr(answer.terms[i]) for i in values))
                branches += split_cases(answer.condition, exprs)
        shaped = _as_vector(value, branches, observation)
        decl = ObservationDecl(name, time, axes, holds, tuple(branches), shaped, observation.span)
        yield Observed(decl, terms, tuple(values))


def _must_agree(ctx: Context, pred: Pred, group: list[Answer], values: list[int]) -> None:
    """An observed value is one value: clauses that apply together must give the same."""
    for a, b in combinations(group, 2):
        same = and_(*(agree(as_expr(a.terms[j]), as_expr(b.terms[j])) for j in values))
        ctx.must_not_differ(pred, and_(a.condition, b.condition, not_(same)), b.span)


def _label(pred: Pred, terms: tuple, keys: list[int]) -> str:
    fixed = [t for i, t in enumerate(terms) if i in keys and not isinstance(t, Expr)]
    return atom_text(pred.name, tuple(fixed))


def _observed_value(ctx: Context, observation: Observation, names: Container[Any]) -> Any:
    match observation.value:
        case None:
            return None
        case Struct("true" | "false" as truth, ()):
            return truth == "true"
        case ListTerm(items, None):
            return tuple(_constant(ctx, i, names) for i in items)
        case term:
            return (_constant(ctx, term, names),)


def _constant(ctx: Context, term: Term, names: Container[Any]) -> Any:
    written = compile_term(term, {}, lambda: -1)
    if type(written) is str and written in names:
        return written  # Where it may be the value, `e` is a name: east is no number.
    value = ctx.evaluator.value(written, term.span)
    if isinstance(value, Expr) or type(value) is V:
        fail("E308", "the observed value must be a constant", term.span)
    return value


def _as_vector(value: Any, branches: list[Branch], observation: Observation) -> Any:
    """What is observed, the numbers of a list as one value where the variable is a vector."""
    if type(value) is not tuple or not branches:
        return value
    first, *more = branches[0].values
    if more or not isinstance(first.type, Tensor):
        return value
    given = as_expr(as_tensor(value)).type
    if given != first.type and first.type.shape is not None:
        fail(
            "E308",
            f"what is observed is {given}, and the vector is {first.type}",
            observation.span,
            "write one number for each entry: `observe(x@1, [0.5, 2]).`",
        )
    return (value,)


def split_cases(condition: Expr, values: tuple[Expr, ...]) -> list[Branch]:
    """Take merged values apart again: an observation weighs each way by itself."""
    for value in values:
        if value.op != "case":
            continue
        out: list[Branch] = []
        taken: list[Expr] = []
        for i in range(0, len(value.args), 2):
            here = and_(condition, value.args[i], *(not_(c) for c in taken))
            taken.append(value.args[i])
            if here is not FALSE:
                out += split_cases(here, tuple(_branch(v, value, i) for v in values))
        return out
    return [Branch(condition, values)]


def _branch(value: Expr, chosen: Expr, i: int) -> Expr:
    """Branch i of a case; values merged together have the same conditions."""
    alike = value.op == "case" and value.args[::2] == chosen.args[::2]
    return value.args[i + 1] if alike else value


# ---------------------------------------------------------------- queries


def ask(ctx: Context, engine: Engine, query: Query) -> Iterator[QueryDecl]:
    """One question for each answer to a query."""
    root, answers = _answers(engine, query)
    pred, time = query.atom.pred, query.atom.time
    suffix = str(time) if time is not None else ""
    sign = "\\+" if query.negated else ""
    if not answers and not any(type(t) is V for t in root.term):
        name = sign + atom_text(pred.name, root.term) + suffix
        holds = TRUE if query.negated else FALSE
        yield QueryDecl(name, time, (), holds, (), root.term, query.span)
    hidden = pred in ctx.program.self_valued
    for answer in apart(answers) if ctx.program.temporal else answers:
        terms = answer.terms
        axes = tuple(in_order(axes_of(terms)))
        values = tuple(symbols(terms))
        args = ["_" if has_symbol(t) else show(t) for t in terms]
        base = sign + predicate_text(pred.name)
        alone = not terms or (hidden and len(terms) == 1)
        name = (base if alone else f"{base}({','.join(args)})") + suffix
        holds = anywhere(answer.condition, axes)
        if query.negated:
            if values:
                fail(
                    "E103",
                    "the negation of a value that is drawn cannot be asked for",
                    query.span,
                    "query the predicate and take one minus its probability",
                )
            holds = not_(holds)
        yield QueryDecl(name, time, axes, holds, values, terms, query.span)


def latched(query: QueryDecl, taken: list[Slot]) -> tuple[QueryDecl, Slot]:
    """A query about a fixed step: a slot carries its answer along for later evidence."""
    when = query.when
    assert isinstance(when, At)
    names = distinct(a.name for a in query.axes)
    own = {a: Axis(n, a.type) for n, a in zip(names, query.axes, strict=True)}
    mapping = {old: axis_value(new) for old, new in own.items()}

    def move(expr: Expr) -> Expr:
        return substitute(expr, mapping)

    query = replace(query.map(move), axes=tuple(own.values()))
    name = f"query {query.name}"
    if any(s.name == name for s in taken):
        name = f"{name} #{len(taken)}"
    # What an element is by its place need not be remembered.
    open_ = tuple(v for v in query.values if v.op not in ("axis", "const"))
    types = tuple(v.type for v in open_)
    slot = latch(name, query.axes, types, when.index, query.holds, open_)
    remembered = iter(slot.values)
    values = tuple(next(remembered) if v in open_ else v for v in query.values)
    template = map_symbols(query.template, move)
    moved = replace(query, holds=slot.present, values=values, template=template)
    return moved, replace(slot, latch=True)


def ask_each(pred: Pred, answers: list[Answer]) -> Iterator[QueryDecl]:
    """Questions about all that a predicate says, where nothing is asked."""
    for answer in answers:
        values = tuple(symbols(answer.terms))
        # Values without end cannot be listed: whether there is one is asked.
        listed = all(is_finite(v.type) for v in values)
        shown = answer.terms if listed else map_symbols(answer.terms, lambda _: V(0))
        yield QueryDecl(
            atom_text(pred.name, shown),
            None,
            tuple(in_order(axes_of(answer.terms))),
            answer.condition,
            values if listed else (),
            answer.terms,
        )
