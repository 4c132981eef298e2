"""The checked program: what the statements of a text mean.

`check` turns terms into these; the compiler reads nothing else. Constants are already
replaced by their values, time arguments by times, and references to variables that are
their own value (`temperature > 20`) by calls that fetch the value.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from nesymm.errors import Source, Span
from nesymm.language.terms import Struct, Term, subterms

Kind = typing.Literal[
    "program", "root", "choice", "draw", "guide", "observed", "not", "each", "all"
]


@dataclass(frozen=True, slots=True)
class Pred:
    """A predicate: its name and the number of arguments as written, time aside.

    Those of other kinds than `program` are made by the compiler: for a question, the body of a
    clause that chooses, draws or guides, what is observed (in guides), and goals inside goals: the
    body of a negation, answers to be collected `each` once, or `all` their proofs.
    """

    name: str
    arity: int
    kind: Kind = "program"

    def __str__(self) -> str:
        return f"{self.name}/{self.arity}"


# ---------------------------------------------------------------- times


@dataclass(frozen=True, slots=True)
class Now:
    """`@t` (lag 0) or `@(t-k)` (lag k)."""

    lag: int = 0

    def __str__(self) -> str:
        return "@t" if self.lag == 0 else f"@(t-{self.lag})"


@dataclass(frozen=True, slots=True)
class At:
    """`@c`: one step, counted from 0."""

    index: int

    def __str__(self) -> str:
        return f"@{self.index}"


@dataclass(frozen=True, slots=True)
class During:
    """`@(a:b)`, both ends included; without an end (`@(a:T)`) up to the last step."""

    first: int
    last: int | None

    def __str__(self) -> str:
        return f"@({self.first}:{'T' if self.last is None else self.last})"


@dataclass(frozen=True, slots=True)
class AtLast:
    """`@T`, the last step of each sequence."""

    def __str__(self) -> str:
        return "@T"


Time = Now | At | During | AtLast


def steps_of(when: Time | None) -> tuple[int, int | None]:
    """The first step that a time can stand for, and the last; None where that depends on how many
    steps there are. What has no time belongs to step 0."""
    match when:
        case At(index):
            return index, index
        case During(first, last):
            return first, last
        case None:
            return 0, 0
    return 0, None


# ---------------------------------------------------------------- literals


def _span() -> Any:
    """A place in the text, which no comparison looks at."""
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate applied to arguments at a time (None for what has no time)."""

    pred: Pred
    args: tuple[Term, ...]
    time: Time | None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Call:
    atom: Atom
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Builtin:
    name: str
    args: tuple[Term, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Negation:
    body: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Disjunction:
    bodies: tuple[Body, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Collect:
    """`findall` and the aggregates: gather the answers of a goal into one result.

    An aggregate in a head (`p(X, min<Y>) :- …`) has one result per binding of `groups`,
    the head's other variables.
    """

    kind: str
    template: Term
    body: Body
    result: Term
    groups: tuple[str, ...] = ()
    span: Span | None = _span()


Literal = Call | Builtin | Negation | Disjunction | Collect
Body = tuple[Literal, ...]


def terms_of(node: Any) -> Iterator[Term]:
    """The terms that an atom, a literal, a clause or a tuple of these is made of."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from terms_of(part)
    elif is_dataclass(node):
        for f in fields(node):
            if f.compare:
                yield from terms_of(getattr(node, f.name))


# ---------------------------------------------------------------- clauses


@dataclass(frozen=True, slots=True)
class Rule:
    head: Atom
    body: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Choice:
    """A probabilistic fact or clause, or an annotated disjunction."""

    options: tuple[tuple[Term, Atom], ...]
    body: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Draw:
    """A distributional clause; `drawn` are the argument positions that the draw binds.

    A variable that is its own value (`temperature ~ …`) has one hidden last argument.
    """

    head: Atom
    drawn: tuple[int, ...]
    family: str
    params: tuple[Term, ...]
    body: Body
    span: Span | None = _span()


Clause = Rule | Choice | Draw


# ---------------------------------------------------------------- the rest


@dataclass(frozen=True, slots=True)
class Input:
    """Data from outside: one predicate, or a tensor if `tensor`.

    The arguments at the positions in `keys` are keys: there is an atom, with values of its own, or
    a tensor for each of their values. Where `boolean`, the data are truth values.
    """

    pred: Pred
    timed: bool
    domains: tuple[Term | None, ...]
    tensor: bool
    boolean: bool
    keys: tuple[int, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Observation:
    """`value` is None where the value comes from data."""

    atom: Atom
    value: Term | None
    body: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """`negated`: what is asked is whether each of the answers does not hold."""

    atom: Atom
    body: Body
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Guide:
    """A proposal for a drawn variable."""

    target: Atom
    family: str
    params: tuple[Term, ...]
    body: Body
    span: Span | None = _span()


@dataclass(frozen=True)
class CheckedProgram:
    clauses: tuple[Clause, ...]
    inputs: Mapping[Pred, Input]
    tensors: Mapping[str, Input]
    networks: Mapping[str, tuple[int, ...] | None]
    domains: Mapping[tuple[Pred, int], Term]
    fluents: Mapping[Pred, tuple[bool, ...]]
    constants: Mapping[str, object]
    timed: frozenset[Pred]
    self_valued: frozenset[Pred]
    observations: tuple[Observation, ...]
    queries: tuple[Query, ...]
    guides: tuple[Guide, ...]
    sources: tuple[Source, ...]

    @property
    def temporal(self) -> bool:
        return bool(self.timed)

    def calls(self, network: str) -> tuple[Span, ...]:
        """Where the program calls a network."""
        places = {
            part.span: None
            for term in terms_of((self.clauses, self.observations, self.queries, self.guides))
            for part in subterms(term)
            if isinstance(part, Struct) and part.functor == network and part.span is not None
        }
        return tuple(sorted(places, key=lambda span: span.start))
