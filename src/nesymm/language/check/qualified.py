"""Scopes: `home:lamp(X)` is a predicate of its own beside `lamp(X)` and `office:lamp(X)`.

A scope is a name that stands in the text. A query may leave it open, or what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nesymm.errors import fail
from nesymm.language.builtins import PREDICATES
from nesymm.language.check.context import Context
from nesymm.language.check.terms import alternatives, is_op, predicate_name, split_clause
from nesymm.language.directives import GOAL_ARGUMENTS
from nesymm.language.terms import Struct, Term, Var, mapped

_TRANSPARENT = frozenset((":-", ",", ";", "not", "->", "<>"))
_FIRST = frozenset(("@", "~"))


def qualified(ctx: Context, statements: Sequence[Term]) -> list[Term]:
    """The statements with the names of scopes made part of the names of predicates."""
    out: list[Term] = []
    open_: list[tuple[Struct, Struct]] = []
    for statement in statements:
        asked = _asked_openly(statement)
        if asked is not None and isinstance(statement, Struct):
            open_.append((statement, asked))
        elif (named := ctx.guard(_goal, statement)) is not None:
            out.append(named)
        else:
            options = alternatives(split_clause(statement)[0])
            ctx.broken |= {name for name in map(predicate_name, options) if name is not None}
    known = _signatures(out) if open_ else []
    return [*out, *(query for s, asked in open_ for query in _queries(s, asked, known))]


def _goal(term: Term) -> Term:
    match term:
        case Struct(":", (scope, goal)):
            return _in_scope(term, scope, goal)
        case Struct("::", (chance, goal)):
            return replace(term, args=(chance, _goal(goal)))
        case Struct(functor) if functor in _TRANSPARENT:
            return mapped(term, _goal)
        case Struct(functor, (goal, *others)) if functor in _FIRST:
            return replace(term, args=(_goal(goal), *others))
        case Struct(functor, args) if functor in GOAL_ARGUMENTS:
            goals = GOAL_ARGUMENTS[functor]
            changed = (_goal(a) if i in goals else a for i, a in enumerate(args))
            return replace(term, args=tuple(changed))
    return term


def _in_scope(term: Term, scope: Term, goal: Term) -> Term:
    match scope, goal:
        case Struct(name, ()), Struct("," | ";" | "not"):
            return mapped(goal, lambda part: _in_scope(part, scope, part))
        case Struct(name, ()), Struct(functor, args) if len(args) in PREDICATES.get(functor, ()):
            return goal
        case Struct(name, ()), Struct(functor):
            return replace(goal, functor=f"{name}:{functor}")
    fail(
        "E105",
        "a scope is a name that is known before the program runs, and so is what it holds",
        term.span,
        "write `home:lamp(X)`; for a scope that is computed, make it an argument: `lamp(Scope, X)`",
    )


# ---------------------------------------------------------------- open queries


def _asked_openly(statement: Term) -> Struct | None:
    """What a query asks of all scopes, or for all that a scope holds."""
    match statement:
        case Struct("query", (Struct(":", (scope, goal)) as asked,)):
            return asked if isinstance(scope, Var) or isinstance(goal, Var) else None
    return None


def _queries(statement: Struct, asked: Struct, known: Iterable[tuple[str, int]]) -> Iterator[Term]:
    scope, goal = asked.args
    for name, arity in known:
        own, _, bare = name.partition(":")
        if isinstance(scope, Struct) and scope.functor != own:
            continue
        if isinstance(goal, Struct) and (goal.functor, goal.arity) != (bare, arity):
            continue
        anything = tuple(Var("_", asked.span) for _ in range(arity))
        args = goal.args if isinstance(goal, Struct) else anything
        yield replace(statement, args=(Struct(name, args, asked.span),))


def _signatures(statements: Iterable[Term]) -> list[tuple[str, int]]:
    """What is defined within scopes, in the order of the program."""
    found: dict[tuple[str, int], None] = {}
    for statement in statements:
        for option in alternatives(split_clause(statement)[0]):
            name = predicate_name(option)
            head = option.args[1] if is_op(option, "::", 2) else option
            head = head.args[0] if is_op(head, "@", 2) or is_op(head, "~", 2) else head
            if name is not None and ":" in name and isinstance(head, Struct):
                found.setdefault((name, head.arity))
    return list(found)
