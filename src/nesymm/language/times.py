"""Reading times: `@t`, `@(t-1)`, `@0`, `@(0:T)`, `@T`."""

from __future__ import annotations

from typing import NoReturn

from nesymm.errors import Span, fail
from nesymm.language.program import At, AtLast, During, Now, Time
from nesymm.language.terms import Num, Struct, Term, Var, variables

# Every step of a lag is a slot of the state.
MAX_LAG = 1000

_FORMS = "times are written t, t-1, a number, and in observe and query also 0:T and T"


def read_time(term: Term) -> Time:
    """The time that a term after `@` denotes; raises a located error if it denotes none."""
    match term:
        case Var("T"):
            return AtLast()
        case Struct(":", (left, right)):
            return _range(term, left, right)
    found = _linear(term)
    if found is None:
        if any(v.name == "T" for v in variables(term)):
            _fail("`T` is the last step; it cannot be computed with", term.span,
                  "carry the value one step along: `before@t :- a@(t-1).`, and ask for "
                  "`before@T`")  # fmt: skip
        _fail("this is not a time", term.span, _FORMS)
    relative, offset = found
    if not relative:
        if offset < 0:
            _fail("steps count from 0; there is none before", term.span, _FORMS)
        return At(offset)
    if offset > 0:
        fail(
            "E201",
            "this is about the future: a step may depend on itself and on earlier steps",
            term.span,
            f"shift the clause in time, so that its head is at t and this at an "
            f"earlier step: `head@t :- body@(t-{offset})`",
        )
    return lagged(-offset, term.span)


def lagged(lag: int, span: Span | None) -> Now:
    """`lag` steps back, as far as a program may look."""
    if lag > MAX_LAG:
        _fail(f"this looks {lag} steps back; at most {MAX_LAG} are kept", span,
              "carry what you need from that step along in a predicate of its own: "
              "`kept(X)@t :- kept(X)@(t-1).`")  # fmt: skip
    return Now(lag)


def _range(term: Term, left: Term, right: Term) -> During:
    first = _linear(left)
    last = None if right == Var("T") else _linear(right)
    if first is None or first[0] or first[1] < 0 or (last is None) == (right != Var("T")):
        _fail("this is not a time", term.span, _FORMS)
    if last is None:
        return During(first[1], None)
    if last[0]:
        _fail("this is not a time", term.span, _FORMS)
    if last[1] < first[1]:
        _fail("this range holds no step: it ends before it begins", term.span,
              f"write `{last[1]}:{first[1]}`")  # fmt: skip
    return During(first[1], last[1])


def _linear(term: Term) -> tuple[bool, int] | None:
    """Whether `t` is in the term, and what is added to it; None for anything else."""
    match term:
        case Struct("t", ()):
            return True, 0
        case Num(int(value)):
            return False, value
        case Struct("+" | "-" | "*" as op, (left, right)):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                return None
            if op == "*":
                return None if a[0] or b[0] else (False, a[1] * b[1])
            if b[0] and (a[0] or op == "-"):
                return None
            return a[0] or b[0], a[1] + b[1] if op == "+" else a[1] - b[1]
    return None


def _fail(message: str, span: Span | None, cure: str) -> NoReturn:
    fail("E207", message, span, cure)
