"""The builtin predicates, over constants and symbols alike.

Where a term is only known at run time, a builtin does not succeed or fail: it gives the condition
under which it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nesymm.ground.builtins.comparison import compare, identical, is_, not_unify, unify_goal
from nesymm.ground.builtins.integers import between, plus, succ
from nesymm.ground.builtins.lists import (
    append,
    concatenate,
    distance,
    expect_list,
    last,
    length,
    member,
    memberchk,
    nth,
    reverse,
    select,
    summary,
    to_set,
)
from nesymm.ground.builtins.results import Goal, Results, where
from nesymm.ground.builtins.sorting import order, precedes, sort
from nesymm.ground.builtins.subquery import subquery
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, NeedsUnfolding, resolve
from nesymm.ir.expr import Expr
from nesymm.ir.symbols import CondList, is_ground
from nesymm.ir.terms import Compound, Cons, V
from nesymm.ir.types import Int, Real


def run(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    return _GOALS[lit.name](ctx, lit, env)


def kind(test: Callable[[Any], bool]) -> Goal:
    def goal(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
        term = resolve(lit.args[0], env)
        if type(term) is CondList and test(()) != test((0,)):
            # It depends on whether the list is empty: `[]` is an atom.
            raise NeedsUnfolding(term)
        return where(env, test(term))

    return goal


def is_whole(term: Any) -> bool:
    return type(term) is int or (isinstance(term, Expr) and isinstance(term.type, Int))


def is_real(term: Any) -> bool:
    return type(term) is float or (isinstance(term, Expr) and isinstance(term.type, Real))


def is_list(term: Any) -> bool:
    """As in ProbLog, a list whose end is still open is one."""
    return type(term) in (tuple, CondList) or (type(term) is Cons and type(term.tail) is V)


def truth(value: bool) -> Goal:
    return lambda ctx, lit, env: where(env, value)


_GOALS: dict[str, Goal] = {
    **dict.fromkeys(("<", ">", "=<", ">=", "=:=", "=\\="), compare),
    "=": unify_goal,
    "\\=": not_unify,
    "==": identical,
    "\\==": identical,
    **dict.fromkeys(("@<", "@>", "@=<", "@>="), precedes),
    "compare": order,
    "is": is_,
    "true": truth(True),
    "fail": truth(False),
    "false": truth(False),
    "between": between,
    "succ": succ,
    "plus": plus,
    "member": member,
    "memberchk": memberchk,
    "append": lambda ctx, lit, env: (append if len(lit.args) == 3 else concatenate)(ctx, lit, env),
    "$list": expect_list,
    "length": length,
    "nth0": nth,
    "nth1": nth,
    "reverse": reverse,
    "last": last,
    "sum_list": summary("sum"),
    "sumlist": summary("sum"),
    "max_list": summary("max"),
    "min_list": summary("min"),
    "sort": sort,
    "msort": sort,
    "list_to_set": to_set,
    "select": select,
    "subquery": subquery,
    "distance": distance,
    "number": kind(lambda t: is_whole(t) or is_real(t)),
    "integer": kind(is_whole),
    "float": kind(is_real),
    "atom": kind(lambda t: type(t) is str or t == ()),
    "atomic": kind(lambda t: type(t) in (str, int, float) or t == () or isinstance(t, Expr)),
    "compound": kind(lambda t: type(t) is Compound or (type(t) is tuple and bool(t))),
    "is_list": kind(is_list),
    "ground": kind(is_ground),
    "var": kind(lambda t: type(t) is V),
    "nonvar": kind(lambda t: type(t) is not V),
}
