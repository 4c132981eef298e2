"""Small questions about terms that every part of the check asks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

from nesymm.language.terms import Num, Struct, Term, Var, mapped

# No text can contain this character in a variable, so names with it are ours.
OURS = "·"
HIDDEN = f"_value{OURS}"


def is_op(term: Term, functor: str, arity: int | None = None) -> TypeGuard[Struct]:
    return (
        isinstance(term, Struct)
        and term.functor == functor
        and (term.arity == arity if arity is not None else term.arity >= 2)
    )


def is_struct(term: Term, functor: str) -> TypeGuard[Struct]:
    return isinstance(term, Struct) and term.functor == functor


def split_clause(statement: Term) -> tuple[Term, Term | None]:
    if is_op(statement, ":-", 2):
        head, body = statement.args
        return head, body
    return statement, None


def alternatives(head: Term) -> Iterable[Term]:
    if not is_op(head, ";"):
        return (head,)
    return tuple(option for part in head.args for option in alternatives(part))


def predicate_name(head: Term) -> str | None:
    """The name that a clause's head defines, whatever else is wrong with it."""
    if is_op(head, "::", 2):
        head = head.args[1]
    for operator in ("~", "@"):
        if is_op(head, operator, 2):
            head = head.args[0]
    return head.functor if isinstance(head, Struct) else None


def verbatim(term: Struct) -> bool:
    """Whether a name stands in the text as it is, and not for a constant."""
    return term.span is None or term.span.text == term.functor


def constant_value(term: Term) -> float | None:
    """The value of an expression of constant numbers, or None."""
    match term:
        case Num(value):
            return float(value)
        case Struct("-", (inner,)):
            positive = constant_value(inner)
            return None if positive is None else -positive
        case Struct("+" | "-" | "*" | "/" as op, (left, right)):
            a, b = constant_value(left), constant_value(right)
            if a is None or b is None or (op == "/" and b == 0):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[op]
    return None


def replace_variable(term: Term, name: str, by: Struct) -> Term:
    match term:
        case Var(n) if n == name:
            return replace(by, span=term.span)
    return mapped(term, lambda t: replace_variable(t, name, by))


def nearest(name: str, names: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name, [n for n in names if n[:1].isalpha()], 1, 0.7)
    return close[0] if close else None


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def arguments_shown(arities: Sequence[int]) -> str:
    shown = " or ".join(map(str, arities))
    if len(arities) > 2 and list(arities) == list(range(arities[0], arities[-1] + 1)):
        shown = f"{arities[0]} to {arities[-1]}"
    return f"{shown} argument" if shown == "1" else f"{shown} arguments"
