"""Whole numbers: counting and successors."""

from __future__ import annotations

from typing import Any

from nesymm.errors import fail
from nesymm.ground.builtins.results import Results, bind, where
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, resolve
from nesymm.ir.algebra import and_, axis_value, const, le
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr
from nesymm.ir.symbols import as_expr, plain
from nesymm.ir.terms import V
from nesymm.ir.types import INF, Int, Real

MAX_RANGE = 1_000_000


def between(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    low = ctx.number(resolve(lit.args[0], env), lit.span, lit.timed)
    high_term = resolve(lit.args[1], env)
    if high_term in ("inf", "infinite"):
        high: Any = INF
    else:
        high = ctx.number(high_term, lit.span, lit.timed)
    item = resolve(lit.args[2], env)
    if type(item) is float:
        return
    if type(item) is not V:
        x = as_expr(ctx.number(item, lit.span, lit.timed))
        upper = TRUE if high is INF else le(x, as_expr(high))
        yield from where(env, and_(le(as_expr(low), x), upper))
        return
    for bound in (low, high):
        whole = isinstance(bound.type, Int) if isinstance(bound, Expr) else type(bound) is int
        if not whole and bound is not INF:
            fail(
                "E308",
                "between/3 counts whole numbers, and its bounds are not",
                lit.span,
                "round them first: `L is ceiling(X), H is floor(Y), between(L, H, N)`",
            )
    lo, hi = _bounds(low)[0], (INF if high is INF else _bounds(high)[1])
    if lo == -INF or hi == INF:
        fail(
            "E305",
            "between/3 would count without end here",
            lit.span,
            "give it bounds that are known, or declare their domain",
        )
    if hi < lo:
        return
    if hi - lo > MAX_RANGE:
        fail(
            "E305",
            f"between/3 would count over {hi - lo + 1:.0f} numbers here",
            lit.span,
            f"count over at most {MAX_RANGE}, or compare: `X >= {lo:.0f}, X =< {hi:.0f}`",
        )
    symbolic = isinstance(low, Expr) or isinstance(high, Expr)
    if ctx.axes.wanted(lit.site) and not symbolic:
        axis = ctx.axes.fresh(Axis(lit.hint, Int(int(lo), int(hi)), lit.site), [lit.site])
        yield from bind(env, (item, axis_value(axis)))
        return
    for value in range(int(lo), int(hi) + 1):
        x = const(value)
        condition = and_(le(as_expr(low), x), le(x, as_expr(high))) if symbolic else TRUE
        if condition is not FALSE:
            for new, extra in bind(env, (item, value)):
                yield new, and_(condition, extra)


def _bounds(value: Any) -> tuple[float, float]:
    if isinstance(value, Expr):
        assert isinstance(value.type, Int | Real)
        return value.type.lo, value.type.hi
    return value, value


def succ(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    a, b = (resolve(x, env) for x in lit.args)
    if type(a) is not V:
        value = arithmetic("add", as_expr(ctx.number(a, lit.span)), const(1))
        return bind(env, (b, plain(value)))
    value = arithmetic("sub", as_expr(ctx.number(b, lit.span)), const(1))
    return bind(env, (a, plain(value)))


def plus(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    a, b, c = (resolve(x, env) for x in lit.args)

    def number(term: Any) -> Expr:
        return as_expr(ctx.number(term, lit.span))

    if type(c) is V:
        return bind(env, (c, plain(arithmetic("add", number(a), number(b)))))
    if type(b) is V:
        return bind(env, (b, plain(arithmetic("sub", number(c), number(a)))))
    return bind(env, (a, plain(arithmetic("sub", number(c), number(b)))))
