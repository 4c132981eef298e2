"""Terms: the one data type that program text is made of.

A program is a sequence of terms, as in Prolog; what a term *means* (a rule, a
distributional clause, a directive) is decided later, by `check`. Terms are immutable,
compare by structure and ignore their spans when compared.

Lists, conjunctions and disjunctions are flat, so that a long one is not a deep one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nesymm.errors import Source, Span


@dataclass(frozen=True, slots=True)
class Var:
    """A variable. Every `_` stands for a variable of its own."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Num:
    """A whole or a real number; `1` and `1.0` are different terms."""

    value: int | float
    span: Span | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Num):
            return NotImplemented
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Str:
    """A double-quoted text."""

    value: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Struct:
    """A functor and its arguments; with none, an atom.

    Operators are functors too: `a@(t-1)` is `@`(a, -(t, 1)), `0.3::a` is `::`(0.3, a),
    `h :- b` is `:-`(h, b), a directive is `:-`(d). Conjunction `,` and disjunction `;`
    take two or more arguments. `not g` and `\\+ g` are both `not`(g), `h <- b` is
    `:-`(h, b).
    """

    functor: str
    args: tuple[Term, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def arity(self) -> int:
        return len(self.args)


@dataclass(frozen=True, slots=True)
class ListTerm:
    """`[a, b, c]` or `[a, b | Tail]`; the empty list has no items and no tail."""

    items: tuple[Term, ...] = ()
    tail: Term | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


Term = Var | Num | Str | Struct | ListTerm


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed text: one term per statement, in order."""

    statements: tuple[Term, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    # What directives of the text have loaded from other files, as text.
    loaded: tuple[tuple[Span, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def text(self) -> str:
        """The text of the program on its own: what its directives load stands before them, and they
        load nothing."""
        if self.source is None:
            return ""
        out, position = [], 0
        for span, text in self.loaded:
            out += [
                self.source.text[position : span.start],
                text,
                "\n:- use_module(library(lists))",
            ]
            position = span.end
        return "".join([*out, self.source.text[position:]])


def children(term: Term) -> tuple[Term, ...]:
    match term:
        case Struct(args=args):
            return args
        case ListTerm(items=items, tail=tail):
            return items if tail is None else (*items, tail)
        case _:
            return ()


def mapped(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with its children changed."""
    match term:
        case Struct(functor, args) if args:
            return Struct(functor, tuple(map(change, args)), term.span)
        case ListTerm(items, tail):
            rest = None if tail is None else change(tail)
            return ListTerm(tuple(map(change, items)), rest, term.span)
    return term


def subterms(term: Term) -> Iterator[Term]:
    """The term and everything inside it, outermost and leftmost first."""
    stack = [term]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def variables(term: Term) -> Iterator[Var]:
    return (t for t in subterms(term) if isinstance(t, Var))


_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str, mark: str) -> str:
    """A text between quotation marks, as the parser reads it."""
    inside = "".join(_ESCAPED.get(char, char) for char in text).replace(mark, f"\\{mark}")
    return f"{mark}{inside}{mark}"
