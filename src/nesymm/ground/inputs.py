"""Inputs: data from outside, as symbols."""

from __future__ import annotations

from collections.abc import Iterable

from nesymm.ground.context import Context
from nesymm.ground.literals import CallLit
from nesymm.ground.unify import Env, meet
from nesymm.ir.algebra import and_
from nesymm.ir.expr import Expr, make
from nesymm.ir.step import InputDecl
from nesymm.ir.types import BOOL
from nesymm.language.program import Pred


def read_input(ctx: Context, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]]:
    terms, given = input_terms(ctx, lit.pred)
    found = meet(zip(lit.args, terms, strict=True), env, given)
    return () if found is None else (found,)


def input_terms(ctx: Context, pred: Pred) -> tuple[tuple[Expr, ...], Expr]:
    """The arguments of an input at this step, and whether there is one."""
    terms = tuple(
        make("input", (), (pred.name, i), type_) for i, type_ in enumerate(ctx.clauses.inputs[pred])
    )
    present = make("given", (), pred.name, BOOL)
    if ctx.program.inputs[pred].boolean:
        present = and_(present, make("input", (), (pred.name, 0), BOOL))
    return terms, present


def input_decls(ctx: Context) -> tuple[InputDecl, ...]:
    predicates = (
        InputDecl(
            pred.name,
            given.timed,
            ctx.clauses.inputs[pred] or ((BOOL,) if given.boolean else ()),
            False,
        )
        for pred, given in ctx.program.inputs.items()
    )
    return (*predicates, *ctx.evaluator.tensors.values())
