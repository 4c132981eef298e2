"""Reading times: `@t`, `@(t-1)`, `@0`, `@(0:T)`, `@T`."""

from __future__ import annotations

from nesymm.errors import Diagnostic, ProgramError
from nesymm.language.program import At, AtLast, During, Now, Time
from nesymm.language.terms import Num, Struct, Term, Var

_FORMS = "times are written t, t-1, a number, and in observe and query also 0:T and T"


def read_time(term: Term) -> Time:
    """The time that a term after `@` denotes; raises a located error if it denotes none."""
    match term:
        case Struct("t", ()):
            return Now(0)
        case Var("T"):
            return AtLast()
        case Num(int(index)) if index >= 0:
            return At(index)
        case Struct("-", (Struct("t", ()), Num(int(lag)))) if lag >= 0:
            return Now(lag)
        case Struct("+", (Struct("t", ()), Num(int(lead)))) | Struct(
            "+", (Num(int(lead)), Struct("t", ()))
        ):
            if lead == 0:
                return Now(0)
            raise ProgramError(
                Diagnostic(
                    "E201",
                    "this is about the future: a step may depend on itself and on earlier steps",
                    term.span,
                    f"shift the clause in time, so that its head is at t and this at an "
                    f"earlier step: `head@t :- body@(t-{lead})`",
                )
            )
        case Struct(":", (Num(int(first)), Num(int(last)))) if 0 <= first <= last:
            return During(first, last)
        case Struct(":", (Num(int(first)), Var("T"))) if first >= 0:
            return During(first, None)
    raise ProgramError(Diagnostic("E207", "this is not a time", term.span, _FORMS))
