"""How a literal of a derivation is called, and how facts are read without a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nesymm.errors import fail
from nesymm.ground.axes import Axes
from nesymm.ground.clauses import Clauses
from nesymm.ground.context import Context
from nesymm.ground.limits import check_proofs
from nesymm.ground.literals import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    DisjLit,
    Lit,
    NegLit,
    shift_literal,
)
from nesymm.ground.tables import lookup_facts
from nesymm.ground.tabling import State
from nesymm.ground.unify import Env, meet, number_variables, resolve, shift, unify_all
from nesymm.ir.algebra import and_, axis_value
from nesymm.ir.axes import substitute
from nesymm.ir.expr import FALSE, Axis, Expr
from nesymm.ir.symbols import atoms_of, axis_of, map_symbols
from nesymm.ir.terms import Compound, V
from nesymm.ir.types import Enum, Int, is_finite
from nesymm.language.builtins import PREDICATES
from nesymm.language.program import Pred


def goal(clauses: Clauses, lit: BuiltinLit, env: Env) -> tuple[Lit, ...]:
    """`call(Goal, Extra…)`: the literals that the goal turns out to be."""
    called = resolve(lit.args[0], env)
    if type(called) is str:
        called = Compound(called, ())
    if type(called) is not Compound:
        fail(
            "E302",
            "the goal to call is not known yet",
            lit.span,
            "bind it by a literal to the left",
        )
    args = (*called.args, *lit.args[1:])
    if called.functor in (",", ";") and len(lit.args) == 1:
        parts = tuple(replace(lit, args=(part,)) for part in args)
        return parts if called.functor == "," else (DisjLit(tuple((p,) for p in parts)),)
    pred = Pred(called.functor, len(args))
    if pred not in clauses.resolvents and len(args) in PREDICATES.get(called.functor, ()):
        return (BuiltinLit(called.functor, args, lit.span, lit.site, lit.timed),)
    if pred not in clauses.resolvents or clauses.resolvents[pred][0].timed:
        fail(
            "E101",
            f"{pred} cannot be called: nothing without a time defines it",
            lit.span,
            "call a predicate that has no time, or write the literal itself",
        )
    return (CallLit(pred, args, 0, lit.span, lit.site),)


def canonical(args: tuple, env: Env) -> tuple:
    return number_variables(tuple([resolve(a, env) for a in args]))


def of_negation(state: State, lit: NegLit) -> tuple:
    values = canonical(lit.args, state.env)
    for original, value in zip(lit.args, values, strict=True):
        if any(type(leaf) is V for leaf in atoms_of(value)):
            named = type(original) is V and original.i < len(state.rule.names)
            name = state.rule.names[original.i] if named else "a variable"
            fail(
                "E309",
                f"the negation would have to bind {name}",
                lit.span,
                f"bind {name} before the negation, by a literal to the left of it",
            )
    return values


# ---------------------------------------------------------------- keys known at run time


def by_key(ctx: Context, lit: CallLit, args: tuple, env: Env) -> tuple:
    """How what is random or carried is called: values open, symbols in keys as axes."""
    values = ctx.clauses.values.get(lit.pred, frozenset())
    out: list[Any] = []
    for i, arg in enumerate(args):
        if i in values:
            out.append(V(len(env) + i))
        elif isinstance(arg, Expr) and arg.op != "axis":
            out.append(axis_value(_key_axis(ctx.axes, lit, i, arg)))
        else:
            out.append(arg)
    return tuple(out)


def _key_axis(axes: Axes, lit: CallLit, position: int, symbol: Expr) -> Axis:
    """An axis over the values that a symbol in key position can take."""
    type_ = symbol.type
    if not is_finite(type_) or not isinstance(type_, Int | Enum):
        fail(
            "E306",
            f"argument {position + 1} of {lit.pred} is a key, and the value used for it "
            f"here is unbounded ({type_})",
            lit.span,
            "declare the domain of the value with `:- domain(…)`, or make the argument "
            "a value with `:- fluent(…)`",
        )
    return axes.note(Axis(f"K{position}", type_, lit.site, "key"), axes.sites(symbol.axes))


def with_keys(lit: CallLit, terms: tuple, condition: Expr, env: Env) -> tuple[tuple, Expr]:
    """An answer to such a call, with the symbols put back in the place of their axes."""
    keys: dict[Axis, Expr] = {}
    for arg, term in zip(lit.args, terms, strict=True):
        actual = resolve(arg, env)
        axis = axis_of(term)
        if isinstance(actual, Expr) and axis is not None and axis.role == "key":
            keys[axis] = actual
    return replaced(terms, condition, keys)


def replaced(terms: tuple, condition: Expr, axes: dict[Axis, Expr]) -> tuple[tuple, Expr]:
    """An answer with its axes replaced."""
    if not axes:
        return terms, condition
    memo: dict[int, Expr] = {}
    new = tuple(map_symbols(t, lambda e: substitute(e, axes, memo)) for t in terms)
    return new, substitute(condition, axes, memo)


# ---------------------------------------------------------------- without a table


def facts(clauses: Clauses, lit: CallLit, args: tuple, env: Env) -> Iterator[tuple[Env, Expr]]:
    """Ground facts: enumerate the rows, or look symbols up in an array."""
    rows = clauses.matching(lit.pred, args)
    symbolic = [i for i, a in enumerate(args) if isinstance(a, Expr)]
    if symbolic and len(rows) > 3:
        looked_up = lookup_facts(lit.pred, args, [r.head for r in rows], symbolic)
        if looked_up is not None:
            for terms, condition in looked_up:
                pairs = zip(lit.args, terms, strict=True)
                others = (pair for i, pair in enumerate(pairs) if i not in symbolic)
                if found := meet(others, env, condition):
                    yield found
            return
    for row in rows:
        if found := meet(zip(args, row.head, strict=True), env):
            yield found


def expanded(ctx: Context, state: State, lit: CallLit, args: tuple) -> list[State] | None:
    """Resolve a call in place, clause by clause, as Prolog does; None where a table is needed.

    The answers to collect are counted by their proofs, and a table has each answer only once.
    """
    clauses = ctx.clauses
    if clauses.is_functional(lit.pred) or ctx.axes.temporal:
        return None
    check_proofs(lit.pred, state.depth, lit.span)
    rules = clauses.matching(lit.pred, args)
    if any(isinstance(a, Expr) for a in args) or any(r.evaluate_head for r in rules):
        return None
    if clauses.is_recursive(lit.pred):
        state.table.ordered = False
    offset = len(state.env)
    found = []
    for rule in rules:
        env = state.env + [None] * rule.size
        conditions = [state.condition]
        head = (shift(h, offset) for h in rule.head)
        if unify_all(zip(head, args, strict=True), env, conditions):
            body = tuple(shift_literal(x, offset) for x in rule.body)
            condition = and_(*conditions)
            if condition is not FALSE:
                found.append(state.then(body + state.body[1:], env, condition, deeper=1))
    return found


def has_proofs(clauses: Clauses, lit: ChoiceLit) -> bool:
    """Whether the body of a choice may be proved in several ways, one by one."""
    rules = clauses.resolvents[lit.pred]
    return not lit.proved and all(r.body and not r.optional for r in rules)
