"""Negated heads: `0.5::\\+a :- c.` takes from a what its other clauses give.

Of a predicate that has such clauses, the other clauses define one part and the negated ones
another; it holds where the first part does and the second does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nesymm.errors import fail
from nesymm.language.check.context import Context
from nesymm.language.check.terms import OURS, alternatives, is_op, split_clause
from nesymm.language.terms import Struct, Term, Var

_FOR, _AGAINST = f"{OURS}for", f"{OURS}against"
Signature = tuple[str, int]


def without_negated_heads(ctx: Context, statements: Sequence[Term]) -> list[Term]:
    """The same program with a rule for each predicate that has negated heads."""
    negated: dict[Signature, Term] = {}
    for statement in statements:
        for option in alternatives(split_clause(statement)[0]):
            atom = _atom(option)
            if is_op(atom, "not", 1) and (found := _signature(atom.args[0])) is not None:
                negated.setdefault(found, atom)
    if not negated:
        return list(statements)
    stated: set[Signature] = set()
    out = [_in_parts(statement, negated, stated) for statement in statements]
    for signature, head in negated.items():
        rule = ctx.guard(_rule, ctx, signature, head, stated)
        out += [] if rule is None else [rule]
    return out


def _atom(option: Term) -> Term:
    return option.args[1] if is_op(option, "::", 2) else option


def _signature(head: Term) -> Signature | None:
    bare = head.args[0] if is_op(head, "@", 2) else head
    return (bare.functor, bare.arity) if isinstance(bare, Struct) else None


def _in_parts(statement: Term, negated: dict[Signature, Term], stated: set[Signature]) -> Term:
    """A clause whose heads stand for the parts of their predicates."""

    def part(head: Term) -> Term:
        if is_op(head, "::", 2):
            return replace(head, args=(head.args[0], part(head.args[1])))
        if is_op(head, "not", 1) and _signature(head.args[0]) in negated:
            return _renamed(head.args[0], _AGAINST)
        found = _signature(head)
        if found in negated:
            stated.add(found)
            return _renamed(head, _FOR)
        return head

    if is_op(statement, ":-", 2):
        head, body = statement.args
        return replace(statement, args=(_each_option(head, part), body))
    return _each_option(statement, part)


def _each_option(head: Term, change: Callable[[Term], Term]) -> Term:
    if is_op(head, ";"):
        return replace(head, args=tuple(_each_option(a, change) for a in head.args))
    return change(head)


def _renamed(head: Term, suffix: str) -> Term:
    if is_op(head, "@", 2):
        return replace(head, args=(_renamed(head.args[0], suffix), head.args[1]))
    assert isinstance(head, Struct)
    return replace(head, functor=head.functor + suffix)


def _rule(ctx: Context, signature: Signature, head: Term, stated: set[Signature]) -> Term:
    name, arity = signature
    if signature not in stated:
        ctx.broken.add(name)
        fail(
            "E103",
            f"nothing states when {name}/{arity} holds, only when it does not",
            head.span,
            f"add a clause with the head `{name}`",
        )
    assert isinstance(head, Struct)
    whole = head.args[0]
    timed = is_op(whole, "@", 2)
    for suffix in (_FOR, _AGAINST):
        if signature in ctx.directives.time_args:
            ctx.directives.time_args[name + suffix, arity] = ctx.directives.time_args[signature]
    args = tuple(Var(f"A{OURS}{i}", head.span) for i in range(arity))

    def atom(suffix: str) -> Term:
        plain = Struct(name + suffix, args, head.span)
        return Struct("@", (plain, Struct("t")), head.span) if timed else plain

    against = Struct("not", (atom(_AGAINST),), head.span)
    return Struct(":-", (atom(""), Struct(",", (atom(_FOR), against), head.span)), head.span)
