"""Literals about an earlier step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nesymm.ground.context import Context
from nesymm.ground.literals import CallLit
from nesymm.ground.state.blocks import AxisKey, Block
from nesymm.ground.unify import Env, meet, resolve, unify_all
from nesymm.ir.algebra import and_, axis_value, const, within
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, make
from nesymm.ir.step import filled
from nesymm.ir.symbols import as_expr
from nesymm.ir.terms import V
from nesymm.ir.types import BOOL, domain


def read(
    ctx: Context, blocks: Iterable[Block], lit: CallLit, env: Env, asked: tuple
) -> Iterator[tuple[Env, Expr]]:
    """A literal about an earlier step, whose keys are `asked`, among the blocks of its fluent."""
    values = [lit.args[i] for i in ctx.clauses.value_positions(lit.pred)]
    for block in blocks:
        name = block.slot(lit.pred, lit.lag)
        for new, indices, condition in match(ctx, lit, env, asked, block):
            conditions = [condition, make("slot", indices, (name, "present"), BOOL)]
            fields = [make("slot", indices, (name, i), t) for i, t in enumerate(block.types)]
            terms = [filled(term, {"field": fields}) for term in block.template]
            if unify_all(zip(values, terms, strict=True), new, conditions):
                yield new, and_(*conditions)


def match(
    ctx: Context, lit: CallLit, env: Env, asked: tuple, block: Block
) -> Iterator[tuple[Env, tuple[Expr, ...], Expr]]:
    """The ways in which the keys of a literal meet those of a block."""
    states: list[tuple[Env, tuple[Expr, ...], Expr]] = [(list(env), (), TRUE)]
    for position, (arg, key) in enumerate(zip(asked, block.keys, strict=True)):
        following = []
        for current, indices, condition in states:
            term = resolve(arg, current)
            if not isinstance(key, AxisKey):
                if met := meet([(term, key)], current, condition):
                    following.append((met[0], indices, met[1]))
                continue
            if type(term) is V:
                following += _spread(ctx, lit, position, term, key, current, indices, condition)
                continue
            index = as_expr(term)
            inside = and_(condition, within(index, key.type))
            if inside is not FALSE:
                following.append((current, (*indices, index), inside))
        states = following
    yield from (s for s in states if s[2] is not FALSE)


def _spread(
    ctx: Context,
    lit: CallLit,
    position: int,
    variable: V,
    key: AxisKey,
    env: Env,
    indices: tuple[Expr, ...],
    condition: Expr,
) -> list[tuple[Env, tuple[Expr, ...], Expr]]:
    """An unbound key: along an axis, or value by value where axes are not wanted."""
    site = f"{lit.site}.{position}"
    if ctx.axes.wanted(site):
        name = ctx.clauses.argument_name(lit.pred, ctx.clauses.key_positions(lit.pred)[position])
        axis = ctx.axes.fresh(Axis(name, key.type, site), [site])
        new = list(env)
        new[variable.i] = axis_value(axis)
        return [(new, (*indices, axis_value(axis)), condition)]
    out = []
    for value in domain(key.type):
        new = list(env)
        new[variable.i] = value
        out.append((new, (*indices, const(value)), condition))
    return out
