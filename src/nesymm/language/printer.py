"""`Program` back to text: `parse(pprint(p)) == p`.

Operators are written as operators with the fewest parentheses, and whatever the grammar
has no operator for in that place is written `'functor'(...)`, which is always allowed.
The numbers below are the levels of `grammar.lark`, tightest first.
"""

from __future__ import annotations

import re

from nesymm.language.terms import ListTerm, Num, Program, Str, Struct, Term, Var, quoted

WIDTH = 80

_TIMED, _POWER, _SIGNED, _PRODUCT, _SUM, _RANGE, _COMPARISON = range(7)
_ANNOTATED, _NEGATED, _BOTH, _IMPLIES, _EITHER, _CLAUSE = range(7, 13)

# Operator: its level, and the loosest levels of its two sides.
_INFIX = {
    "->": (_IMPLIES, _BOTH, _IMPLIES),
    **dict.fromkeys(
        ("~", "=", "\\=", "==", "\\==", "is", "=:=", "=\\=", "<", ">", "=<", ">=", "<=", "=.."),
        (_COMPARISON, _RANGE, _RANGE),
    ),
    **dict.fromkeys(("@<", "@>", "@=<", "@>="), (_COMPARISON, _RANGE, _RANGE)),
    **dict.fromkeys((":", ".."), (_RANGE, _SUM, _SUM)),
    **dict.fromkeys(("+", "-"), (_SUM, _SUM, _PRODUCT)),
    **dict.fromkeys(("*", "/", "//", "mod", "rem"), (_PRODUCT, _PRODUCT, _SIGNED)),
    **dict.fromkeys(("xor", ">>", "<<"), (_PRODUCT, _PRODUCT, _SIGNED)),
    **dict.fromkeys(("**", "^"), (_POWER, _TIMED, _SIGNED)),
}
_TIGHT = frozenset((":", "..", "**", "^"))

_PLAIN = re.compile(r"[a-z][a-zA-Z0-9_]*", re.ASCII)
# Names that are operators too: quoted, they cannot be mistaken.
_RESERVED = frozenset(("not", "is", "mod", "rem", "xor"))


def pprint(program: Program | Term) -> str:
    """A program as text, one statement after the other; a term without its full stop."""
    if isinstance(program, Program):
        return "".join(f"{_statement(term)}\n" for term in program.statements)
    return _clause(program)


def _statement(term: Term) -> str:
    line = f"{_clause(term)}."
    if len(line) <= WIDTH:
        return line
    match term:
        case Struct(":-", (head, body)):
            return f"{_text(head, _EITHER)} :-\n    {_lines(body)}."
        case Struct(":-", (body,)):
            return f":- {_lines(body)}."
        case _:
            return f"{_lines(term)}."


def _lines(term: Term) -> str:
    """The parts of a conjunction or disjunction, each on a line of its own."""
    match term:
        case Struct("," | ";" as functor, (_, _, *_) as args):
            inner = _NEGATED if functor == "," else _IMPLIES
            return f"{functor}\n    ".join(_text(arg, inner) for arg in args)
        case _:
            return _text(term, _EITHER)


def _clause(term: Term) -> str:
    match term:
        case Struct(":-", (head, body)):
            return f"{_text(head, _EITHER)} :- {_text(body, _EITHER)}"
        case Struct(":-", (body,)):
            return f":- {_text(body, _EITHER)}"
        case _:
            return _text(term, _EITHER)


def _text(term: Term, loosest: int) -> str:
    """A term where terms of a level, or tighter ones, may stand."""
    text, level = _written(term)
    return text if level <= loosest else f"({text})"


def _written(term: Term) -> tuple[str, int]:
    """A term as text, and its level."""
    match term:
        case Var(name):
            return name, _TIMED
        case Num(value):
            text = repr(value)
            return text, _SIGNED if text.startswith("-") else _TIMED
        case Str(value):
            return quoted(value, '"'), _TIMED
        case ListTerm(items, tail):
            inside = ", ".join(_text(item, _NEGATED) for item in items)
            rest = "" if tail is None else f" | {_text(tail, _NEGATED)}"
            return f"[{inside}{rest}]", _TIMED
        case Struct("!", ()):
            return "!", _TIMED
        case Struct(functor, ()):
            return _name(functor), _TIMED
        case Struct("not", (arg,)):
            return f"not {_text(arg, _NEGATED)}", _NEGATED
        case Struct("-" | "+" as sign, (arg,)):
            text, level = _written(arg)
            # A sign would melt into a number, and two signs are hard to read. A bracket that
            # the sign touches would end its argument.
            if level > _SIGNED or text[0] in "+-0123456789(":
                return f"{sign}({_text(arg, _NEGATED)})", _TIMED
            return sign + text, _SIGNED
        case Struct("," | ";" as functor, (_, _, *_) as args):
            level = _BOTH if functor == "," else _EITHER
            inner = _NEGATED if functor == "," else _IMPLIES
            separator = ", " if functor == "," else "; "
            return separator.join(_text(arg, inner) for arg in args), level
        case Struct("::", (left, right)):
            return f"{_text(left, _COMPARISON)}::{_annotation(right)}", _ANNOTATED
        case Struct("@", (left, right)):
            return f"{_text(left, _TIMED)}@{_time(right)}", _TIMED
        case Struct("<>", (Struct(name, ()), arg)):
            inside = _text(arg, _RANGE)
            space = " " if inside.startswith("-") else ""  # `<-` is a token
            return f"{_name(name)}<{space}{inside}>", _COMPARISON
        case Struct(functor, (left, right)) if functor in _INFIX:
            level, left_level, right_level = _INFIX[functor]
            before, after = _text(left, left_level), _text(right, right_level)
            # `hp/1` and `1/6`, but `(X + 1) / (Y * 2)`.
            short = functor == "/" and "(" not in before + after and " " not in before + after
            if functor not in _TIGHT and not short:
                return f"{before} {functor} {after}", level
            space = " " if after[0] in "+-" else ""  # `:-` is a token
            return f"{before}{functor}{space}{after}", level
        case Struct(functor, args):
            inside = ", ".join(_text(arg, _NEGATED) for arg in args)
            return f"{_name(functor)}({inside})", _TIMED


def _annotation(term: Term) -> str:
    match term:
        case Struct("not", (arg,)):
            return f"not {_annotation(arg)}"
        case _:
            return _text(term, _COMPARISON)


def _time(term: Term) -> str:
    match term:
        case Var(name):
            return name
        case Num(int(value)) if value >= 0:
            return repr(value)
        case Struct(name, ()) if _is_plain(name):
            return name
        case Struct("+" | "-" as sign, (Struct() | Var() as left, Num(int(value)))) if value >= 0:
            return f"({_text(left, _TIMED)}{sign}{value})"  # `@(t-1)` reads as one word
        case _:
            return f"({_text(term, _EITHER)})"


def _is_plain(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None and name not in _RESERVED


def _name(name: str) -> str:
    return name if _is_plain(name) else quoted(name, "'")
