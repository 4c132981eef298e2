"""What a builtin predicate answers: bindings, each with the condition under which they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, meet
from nesymm.ir.algebra import const
from nesymm.ir.expr import FALSE, Expr

Results = Iterable[tuple[Env, Expr]]
Goal = Callable[[Context, BuiltinLit, Env], Results]


def bind(env: Env, *pairs: tuple[Any, Any]) -> Results:
    """Unify pairs of terms: one result or none."""
    found = meet(pairs, env)
    return () if found is None else (found,)


def where(env: Env, condition: Expr | bool) -> Results:
    """Continue where a condition holds."""
    condition = const(condition) if isinstance(condition, bool) else condition
    return () if condition is FALSE else ((env, condition),)
