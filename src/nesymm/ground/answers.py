"""The answers of tables: how a derivation gives one, and how one is read where it is used."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any

from nesymm.ground.axes import Axes, Split
from nesymm.ground.calls import replaced
from nesymm.ground.clauses import Clauses
from nesymm.ground.context import Context
from nesymm.ground.limits import unbounded
from nesymm.ground.open_answers import left_open, refuse_open_answers
from nesymm.ground.tabling import Answer, State, Table, coincide
from nesymm.ground.unify import Env, meet, resolve, shift
from nesymm.ir.algebra import and_, axis_value, not_, or_
from nesymm.ir.axes import anywhere
from nesymm.ir.expr import FALSE, Axis, Expr
from nesymm.ir.symbols import axes_of, axis_of, has_symbol, is_ground, key_of
from nesymm.ir.terms import FREE, Compound, V, bare
from nesymm.ir.types import Enum, Int
from nesymm.language.builtins import FUNCTIONS

# ---------------------------------------------------------------- giving an answer


def computes(term: Any) -> bool:
    return type(term) is Compound and (bare(term.functor), len(term.args)) in FUNCTIONS


def conclusion(ctx: Context, state: State) -> tuple[tuple, Env, Expr] | None:
    """The head of a clause whose body is proved, its bindings, and when it holds."""
    rule, env, condition = state.rule, state.env, state.condition
    terms = tuple([resolve(a, env) for a in rule.head])
    if rule.evaluate_head:
        terms = tuple(
            ctx.number(t, rule.span, rule.timed) if computes(a) else t
            for t, a in zip(terms, rule.head, strict=True)
        )
        asked = (shift(a, rule.size) for a in state.table.args)
        found = meet(zip(asked, terms, strict=True), env, condition)
        if found is None:
            return None
        env, condition = found
        terms = tuple(resolve(t, env) for t in terms)
    if rule.optional:
        terms = tuple(
            FREE if type(t) is V and i in rule.optional else t for i, t in enumerate(terms)
        )
    if not all(map(is_ground, terms)):
        terms = left_open(ctx.clauses, ctx.openings, ctx.listed, state, terms)
    return terms, env, condition


def as_asked(clauses: Clauses, table: Table, terms: tuple) -> tuple:
    """An answer about a symbol says it of the symbol; which value it has is in the condition.

    So `wall(1, 4)` and `wall(2, 4)` are one answer to a call whose row and column are known
    at run time only, and what follows from it is derived once.
    """
    if table.bag or table.pred.kind != "program" or clauses.is_keyed(table.pred):
        return terms
    return tuple(
        a if isinstance(a, Expr) and a.op != "axis" and isinstance(a.type, Int | Enum) else t
        for a, t in zip(table.args, terms, strict=True)
    )


def by_argument(axes: Axes, table: Table, terms: tuple, condition: Expr) -> tuple[tuple, Expr]:
    """Name the axes of an answer by argument, so that answers can be compared."""
    condition = anywhere(condition, axes_of(terms) | table.given)
    mapping: dict[Axis, Expr] = {}
    for i, term in enumerate(terms):
        axis = axis_of(term)
        if axis is None or axis in table.given:
            continue
        own = replace(axis, site=f"{table.pred.name}.{i}")
        if axis not in mapping and axis != own:
            mapping[axis] = axis_value(axes.note(own, axes.sites([axis])))
    return replaced(terms, condition, mapping)


def each_once(answers: Iterable[Answer]) -> list[Answer]:
    """Answers that say the same as one."""
    out: dict[Any, Answer] = {}
    for answer in answers:
        known = out.setdefault(key_of(answer.terms), answer)
        if known is not answer:
            known.condition = or_(known.condition, answer.condition)
    return list(out.values())


# ---------------------------------------------------------------- reading an answer


def instantiated(axes: Axes, site: str, answer: Answer, table: Table) -> tuple[tuple, Expr]:
    """An answer with its own axes renamed for the place where it is used."""
    own = [a for a in axes_of(answer.terms) if a not in table.given]
    return replaced(answer.terms, answer.condition, axes.renamed(own, site))


def to_be_counted(ctx: Context, table: Table) -> list[Answer]:
    """Answers of which, of those that say the same at run time, only the first holds."""
    axes = ctx.axes
    refuse_open_answers(ctx.openings, table.pred, table.final)
    out: list[Answer] = []
    symbolic = [has_symbol(answer.terms) for answer in table.final]
    for i, answer in enumerate(table.final):
        hidden = axes_of(answer.terms) - set(map(axis_of, answer.terms)) - table.given
        if hidden:
            split(axes, hidden, table)  # its elements may say the same as well
        others = (table.final[k] for k in range(i) if symbolic[i] or symbolic[k])
        before = or_(*(coincide(axes, table.given, x, answer) for x in others))
        if before is not FALSE:
            answer = copy(answer)
            answer.condition = and_(answer.condition, not_(before))
        out.append(answer)
    return out


def split(axes: Axes, along: set[Axis], table: Table) -> None:
    """What is solved for single values, not along an axis: a cycle, or what is counted."""
    sites = axes.sites(along)
    if not sites:
        unbounded(table)
    raise Split(sites)
