"""Terms of a program as values, and as text.

Ground constants are plain Python values: an atom is a `str`, a number an `int` or
`float`, a list a `tuple`; `Compound` and `Text` are the rest. `V` and `Cons` stand in terms
that are not ground.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var, quoted


@dataclass(slots=True, unsafe_hash=True)
class V:
    """A variable: an index into the frame of a clause."""

    i: int


@dataclass(frozen=True, slots=True)
class Compound:
    functor: str
    args: tuple

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, slots=True)
class Text:
    value: str

    def __str__(self) -> str:
        return quoted(self.value, '"')


@dataclass(frozen=True, slots=True)
class Cons:
    """`[a, b | Tail]` while the tail is not yet a list."""

    items: tuple
    tail: Any


@dataclass(frozen=True, slots=True)
class Free:
    """The value of a variable that another alternative of a disjunction would have bound."""

    def __str__(self) -> str:
        return "_"


FREE = Free()


def rounded(value: Any) -> Any:
    """A number as ProbLog keeps it: with 15 decimals, so that 0.1 + 0.2 is 0.3.

    A tiny number would lose its digits by that; it keeps them.
    """
    if type(value) is not float or not math.isfinite(value):
        return value
    kept = round(value, 15)
    return kept if abs(kept - value) <= 1e-10 * abs(value) else value


def compile_term(term: Term, slots: dict[str, int], fresh: Callable[[], int]) -> Any:
    """A source term as a run-time term; every `_` is a variable of its own."""
    match term:
        case Var("_"):
            return V(fresh())
        case Var(name):
            if name not in slots:
                slots[name] = fresh()
            return V(slots[name])
        case Num(value):
            return rounded(value)
        case Str(value):
            return Text(value)
        case Struct(functor, ()):
            return functor
        case Struct("," | ";" as functor, (first, *others)) if len(others) > 1:
            # `(a, b, c)` is flat as a body, and a pair of a and a pair as a term.
            rest = Struct(functor, tuple(others))
            pair = (compile_term(first, slots, fresh), compile_term(rest, slots, fresh))
            return Compound(functor, pair)
        case Struct("not", (goal,)) if term.span and term.span.text.startswith("\\+"):
            return Compound("\\+", (compile_term(goal, slots, fresh),))
        case Struct("-" | "+" as sign, args) if term.span and term.span.text.startswith(f"{sign}("):
            # In ProbLog, `-(a)` is not `-a`, and `-(a, b)` not `a - b`.
            return Compound(f"{sign}()", tuple(compile_term(a, slots, fresh) for a in args))
        case Struct(functor, args):
            return Compound(functor, tuple(compile_term(a, slots, fresh) for a in args))
        case ListTerm(items, tail):
            parts = tuple(compile_term(i, slots, fresh) for i in items)
            return parts if tail is None else Cons(parts, compile_term(tail, slots, fresh))
    raise TypeError(term)


# ---------------------------------------------------------------- text

_PLAIN = "abcdefghijklmnopqrstuvwxyz"
# Priorities as in Prolog: a smaller one binds tighter.
_INFIX = {"+": 500, "-": 500, "*": 400, "/": 400, "//": 400, "mod": 400, "rem": 400}
_INFIX |= {"**": 200, "^": 200, ":": 200, "=": 700, "<": 700, ">": 700, "=<": 700, ">=": 700}
_INFIX |= {"is": 700, "=:=": 700, "=\\=": 700, "\\=": 700, "==": 700, "\\==": 700}


def show(term: Any) -> str:
    """A term as ProbLog prints it."""
    kind = type(term)
    if kind is str:
        return quote(term)
    if kind is tuple:
        return "[" + ", ".join(show(t) for t in term) + "]"
    if kind is Cons:
        return "[" + ", ".join(show(t) for t in term.items) + " | " + show(term.tail) + "]"
    if kind is Compound:
        if is_operation(term) and len(term.args) == 2:
            own = _INFIX[term.functor]
            left, right = (
                f"({show(a)})" if _priority(a) > own - limit else show(a)
                for a, limit in zip(term.args, (0, 1), strict=True)
            )
            space = " " if term.functor.isalpha() else ""
            return f"{left}{space}{term.functor}{space}{right}"
        if is_operation(term):
            text = show(term.args[0])
            nested = _priority(term.args[0]) > 200 or text[0] in "+-"
            return f"{term.functor}({text})" if nested else f"{term.functor}{text}"
        if term.functor == ",":
            shown = (f"({show(a)})" if _is(a, ";") else show(a) for a in _spread(term))
            return f"({', '.join(shown)})"
        if term.functor == ";":
            return "; ".join(show(a) for a in _spread(term))
        if _is(term, "->"):
            left, right = (show(a) for a in term.args)
            return f"({left})->{right}" if _is(term.args[0], "->") else f"{left}->{right}"
        return f"{quote(bare(term.functor))}({','.join(show(a) for a in term.args)})"
    if kind is V:
        return "_"
    return str(term)


def _spread(term: Compound) -> list[Any]:
    """The parts of a conjunction or disjunction, pairs of pairs to the right undone."""
    *first, last = term.args
    if _is(last, term.functor):
        return first + _spread(last)
    return [*first, last]


def _is(term: Any, functor: str) -> bool:
    return type(term) is Compound and term.functor == functor and len(term.args) > 1


def is_operation(term: Compound) -> bool:
    """Whether a term is written with an operator."""
    if len(term.args) == 1:
        return term.functor in ("-", "+")
    return len(term.args) == 2 and term.functor in _INFIX


def _priority(term: Any) -> int:
    if type(term) is Compound and len(term.args) == 2:
        return _INFIX.get(term.functor, 0)
    return 0


def bare(functor: str) -> str:
    """The name of a term's functor: `-` for that of `-(a)`, which is not that of `-a`."""
    return functor[0] if functor in ("-()", "+()") else functor


def quote(name: str) -> str:
    plain = name[:1] in _PLAIN and name[:1] and all(c.isalnum() or c == "_" for c in name)
    symbolic = name and all(c in "+-*/\\^<>=~:.?@#&" for c in name)
    if plain or symbolic or name in ("[]", "!", ";", ","):
        return name
    return quoted(name, "'")


def atom_text(name: str, args: tuple) -> str:
    """An atom as ProbLog prints it; symbols are shown as expressions."""
    shown = predicate_text(name)
    return f"{shown}({','.join(map(show, args))})" if args else shown


_SCOPED = re.compile(r"[a-z]\w*(:[a-z]\w*)+")


def predicate_text(name: str) -> str:
    """The name of a predicate, with its scope as it is written: `home:lamp`."""
    return name if _SCOPED.fullmatch(name) else quote(name)
