"""Probabilistic facts and clauses, and annotated disjunctions: a choice among their heads."""

from __future__ import annotations

from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.context import Context
from nesymm.ground.literals import ChoiceLit
from nesymm.ground.random_variables.identity import identify
from nesymm.ground.random_variables.parameters import (
    NO_PROBABILITY,
    is_computed,
    outside_unit,
    refuse_probability,
    total_of,
)
from nesymm.ground.random_variables.variables import Variables, derivation_number
from nesymm.ground.tabling import Answer, Table, coincide
from nesymm.ground.unify import Env, resolve
from nesymm.ir.algebra import and_, const, eq, is_const, lt
from nesymm.ir.axes import case
from nesymm.ir.expr import FALSE, TRUE, Expr, make
from nesymm.ir.step import Param, RandomVariable
from nesymm.ir.symbols import as_expr, has_symbol, is_ground, key_of
from nesymm.ir.terms import Compound, atom_text, compile_term
from nesymm.ir.types import BOOL, Int, Real, Type
from nesymm.language.program import Atom


def choose(variables: Variables, lit: ChoiceLit, answer: Answer, table: Table | None) -> Expr:
    """The condition that a probabilistic clause picks one of its options.

    `table` has the derivations of its body; there is none while a cycle is open.
    """
    chosen = _chosen(variables, lit, answer, table)
    if table is None:
        return chosen
    # Derivations with the same bindings are one grounding: it takes the draw of the
    # first of them that holds, whichever asks.
    for other in reversed(table.before(answer)):
        equal = coincide(variables.ctx.axes, table.given, other, answer)
        if equal is not FALSE:
            chosen = case([(equal, _chosen(variables, lit, other, table)), (TRUE, chosen)])
    return chosen


def _chosen(variables: Variables, lit: ChoiceLit, answer: Answer, table: Table | None) -> Expr:
    """The same for one derivation of the body, with a draw of its own."""
    if table is None and has_symbol(answer.terms):
        fail(
            "E305",
            "a recursion chooses at random along values only known at run time",
            lit.span,
            "let the recursion run over constants, or look one step back",
        )
    # While a cycle is open, what it depends on has no meaning yet; a choice needs none.
    guard = answer.condition if table is not None else TRUE
    params = _probabilities(variables.ctx, lit, answer, guard)
    option = params[lit.option]
    if is_const(option) and option.data == 0:
        return FALSE
    if len(params) == 1:
        if is_const(option) and option.data == 1:
            return TRUE
        variable = _variable(lit, guard, "bernoulli", (option,), BOOL, (False, True))
    else:
        # What is left of the probability is one more outcome.
        certain = all(map(is_const, params)) and abs(sum(p.data for p in params) - 1) < 1e-12
        outcomes = range(len(params) + (not certain))
        type_ = Int(0, len(outcomes) - 1)
        variable = _variable(lit, guard, "choice", (tuple(params),), type_, tuple(outcomes))
    derivation = derivation_number(answer, table, lit.names)
    identity = identify(answer.terms, lit.names)
    call = key_of(table.args) if table is not None else None
    pred = lit.clause.options[0][1].pred
    name, keys = variables.declare(pred, lit, derivation, identity, answer.terms, call, variable)
    rv = make("rv", keys, name, variable.type)
    return rv if len(params) == 1 else eq(rv, const(lit.option))


def _variable(
    lit: ChoiceLit,
    guard: Expr,
    family: str,
    params: tuple[Param, ...],
    type_: Type,
    support: tuple,
) -> RandomVariable:
    heads = [head for _, head in lit.clause.options]
    static = heads[0].time is None
    label = "; ".join(map(_text, heads))
    return RandomVariable("", family, guard, params, (), type_, support, static, False, label)


def _text(head: Atom) -> str:
    return atom_text(head.pred.name, tuple(compile_term(a, {}, lambda: 0) for a in head.args))


def _probabilities(ctx: Context, lit: ChoiceLit, answer: Answer, guard: Expr) -> list[Expr]:
    env: Env = [None] * (1 + max((v.i for v in lit.variables), default=-1))
    for variable, term in zip(lit.variables, answer.terms, strict=True):
        env[variable.i] = term
    many = len(lit.probabilities) > 1
    params = [
        _probability(ctx, resolve(compiled, env), term.span or head.span, many, guard)
        for (term, head), compiled in zip(lit.clause.options, lit.probabilities, strict=True)
    ]
    total = sum(p.data for p in params if is_const(p))
    if total > 1 + 1e-9:
        fail(
            "E112",
            f"the probabilities of this disjunction add up to {total:g}",
            lit.span,
            "let them add up to at most 1",
        )
    if many and is_computed(params):
        ctx.must_not(
            "the probabilities of a disjunction add up to more than 1",
            and_(guard, lt(const(1 + 1e-9), total_of(params))),
            lit.span,
        )
    return params


def _probability(ctx: Context, term: Any, span: Span | None, many: bool, condition: Expr) -> Expr:
    if not is_ground(term) and not (type(term) is Compound and term.functor == "$param"):
        fail(
            "E303",
            "this probability is not known when the clause is used",
            span,
            "bind its variable in the body",
        )
    if type(term) is Compound and term.functor in ctx.evaluator.networks:
        raw = ctx.evaluator.network(term, span, True)
        if not isinstance(raw, Expr) or raw.type != Real():
            fail(
                "E110",
                f"a probability is one number; {term.functor} has more outputs",
                span,
                f"declare `:- network({term.functor}, 1).`",
            )
        return make("sigmoid", (raw,), type_=Real(0, 1))
    value = as_expr(ctx.number(term, span, constraint="simplex" if many else "unit"))
    refuse_probability(value, span)
    ctx.must_not(NO_PROBABILITY, and_(condition, outside_unit(value)), span)
    return value
