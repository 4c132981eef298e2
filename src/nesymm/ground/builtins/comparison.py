"""Comparing terms and numbers, and `is`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nesymm.errors import fail
from nesymm.ground.builtins.results import Results, bind, where
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, meet, resolve
from nesymm.ir.algebra import eq, le, lt, not_
from nesymm.ir.arithmetic import BINARY, UNARY, arithmetic
from nesymm.ir.expr import TRUE, Expr, postorder
from nesymm.ir.symbols import as_expr, is_ground, key_of
from nesymm.ir.terms import Compound, V, rounded
from nesymm.ir.types import Enum, Int, Real, Tensor


def compare(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    written = [resolve(arg, env) for arg in lit.args]
    terms: list[Any] = []
    for term in written:
        if type(term) is V:
            fail(
                "E302",
                "a variable in this comparison has no value yet",
                lit.span,
                "bind it by a literal to the left",
            )
        terms.append(ctx.evaluator.value(term, lit.span, lit.timed))
    # Beside a value that may be it, `e` is a name: east is no number.
    names = {v for x in terms if isinstance(x, Expr) and isinstance(x.type, Enum)
             for v in x.type.values}  # fmt: skip
    terms = [w if type(w) is str and w in names else x for w, x in zip(written, terms, strict=True)]
    a, b = terms
    terms_only = not any(isinstance(x, Expr) and isinstance(x.type, Tensor) for x in terms)
    test = _TESTS[lit.name]
    if lit.name in ("=:=", "=\\=") and terms_only and (_is_term(a) or _is_term(b)):
        return where(env, test(as_expr(a), as_expr(b)))
    x = as_expr(ctx.number(a, lit.span, lit.timed))
    y = as_expr(ctx.number(b, lit.span, lit.timed))
    return where(env, test(x, y))


_TESTS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "<": lt,
    ">": lambda x, y: lt(y, x),
    "=<": le,
    ">=": lambda x, y: le(y, x),
    "=:=": eq,
    "=\\=": lambda x, y: not_(eq(x, y)),
}


def _is_term(value: Any) -> bool:
    """An atom, or a symbol over atoms: compared as a term, not as a number."""
    if isinstance(value, Expr):
        return not isinstance(value.type, Int | Real)
    return isinstance(value, str)


def unify_goal(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    return bind(env, lit.args)


def not_unify(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    met = meet([lit.args], env)
    return where(env, TRUE if met is None else not_(met[1]))


def identical(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    a, b = (resolve(x, env) for x in lit.args)
    if not (is_ground(a) and is_ground(b)):
        same = key_of(a) == key_of(b)
        return where(env, same == (lit.name == "=="))
    return unify_goal(ctx, lit, env) if lit.name == "==" else not_unify(ctx, lit, env)


def is_(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    value = ctx.evaluator.value(resolve(lit.args[1], env), lit.span, lit.timed)
    if not (isinstance(value, Expr) or type(value) in (int, float, tuple)):
        value = ctx.number(value, lit.span, lit.timed)
    if type(value) is tuple and type(resolve(lit.args[1], env)) is not Compound:
        value = ctx.number(value, lit.span, lit.timed)
    if isinstance(value, Expr):
        value = _with_decimals(ctx, value)
    return bind(env, (lit.args[0], rounded(value)))


# What has infinitely many values, or what only the run knows, is not rounded: equality says nothing
# about the former, and either may have a gradient.
_MEASURED = frozenset(("input", "observed", "slot", "param", "neural", "item", "atom", "lfp"))


def _with_decimals(ctx: Context, value: Expr) -> Expr:
    """A real number that is computed from finitely many values keeps 15 decimals, as constants do:
    0.1 + 0.2 is 0.3."""
    if not isinstance(value.type, Real) or value.op not in UNARY | BINARY:
        return value
    for node in postorder([value]):
        if node.op in _MEASURED or (node.op == "rv" and node.data in ctx.infinite):
            return value
    return arithmetic("decimals", value)
