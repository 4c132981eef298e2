"""Query strings as the program prints them: `p( a,b )` and `p(a,b)` are one query."""

from __future__ import annotations

from nesymm.ir.terms import compile_term, show


def canonical(query: str) -> str:
    """The name under which an answer is listed."""
    from nesymm.language.parser import parse_term
    from nesymm.language.terms import Struct

    term = parse_term(query, "<query>")
    suffix = ""
    if isinstance(term, Struct) and term.functor == "@":
        _, _, suffix = query.rpartition("@")
        term, suffix = term.args[0], "@" + suffix.strip()
    sign = ""
    if isinstance(term, Struct) and term.functor == "not" and term.arity == 1:
        sign, term = "\\+", term.args[0]
    return sign + show(compile_term(term, {}, lambda: 0)) + suffix
