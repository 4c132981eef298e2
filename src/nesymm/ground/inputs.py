"""Inputs: data from outside, as symbols."""

from __future__ import annotations

from collections.abc import Iterator

from nesymm.ground.context import Context
from nesymm.ground.domains import input_axes
from nesymm.ground.literals import CallLit
from nesymm.ground.state.blocks import AxisKey, Block
from nesymm.ground.state.reading import match
from nesymm.ground.tabling import Answer
from nesymm.ground.unify import Env, resolve, unify_all
from nesymm.ir.algebra import and_
from nesymm.ir.expr import Expr, make
from nesymm.ir.step import InputDecl
from nesymm.ir.terms import V
from nesymm.ir.types import BOOL
from nesymm.language.program import Pred


def read_input(ctx: Context, lit: CallLit, env: Env) -> Iterator[tuple[Env, Expr]]:
    pred, given = lit.pred, ctx.program.inputs[lit.pred]
    types = ctx.clauses.inputs[pred]
    block = Block(tuple(AxisKey(axis.type) for axis in input_axes(given)), (), types)
    asked = tuple(resolve(lit.args[i], env) for i in given.keys)
    values = [lit.args[i] for i in range(pred.arity) if i not in given.keys]
    for new, keys, condition in match(ctx, lit, env, asked, block):
        conditions = [condition, make("given", keys, pred.name, BOOL)]
        if given.boolean:
            conditions.append(make("input", keys, (pred.name, 0), BOOL))
        terms = (make("input", keys, (pred.name, i), type_) for i, type_ in enumerate(types))
        if unify_all(zip(values, terms, strict=True), new, conditions):
            yield new, and_(*conditions)


def input_answers(ctx: Context, pred: Pred) -> list[Answer]:
    """What there is of an input at this step."""
    variables = tuple(V(i) for i in range(pred.arity))
    lit = CallLit(pred, variables, 0, None, f"input {pred}")
    return [
        Answer(tuple(resolve(v, env) for v in variables), condition, None)
        for env, condition in read_input(ctx, lit, [None] * pred.arity)
    ]


def input_decls(ctx: Context) -> tuple[InputDecl, ...]:
    predicates = (
        InputDecl(
            pred.name,
            given.timed,
            (BOOL,) if given.boolean else ctx.clauses.inputs[pred],
            False,
            input_axes(given),
        )
        for pred, given in ctx.program.inputs.items()
    )
    return (*predicates, *ctx.evaluator.tensors.values())


__all__ = ["input_answers", "input_decls", "read_input"]
