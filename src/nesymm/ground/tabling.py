"""What the engine works on: tables, their answers, derivations under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from nesymm.errors import Span
from nesymm.ground.axes import Axes
from nesymm.ground.clauses import Resolvent
from nesymm.ground.literals import Lit
from nesymm.ground.order import Order
from nesymm.ground.unify import Env, unify
from nesymm.ir.algebra import and_, exclusive
from nesymm.ir.expr import FALSE, Axis, Expr
from nesymm.ir.symbols import axes_of, each_value, has_symbol, ways
from nesymm.ir.terms import atom_text
from nesymm.language.program import Pred

# How many values the symbols of an answer may take for it to be spelt out.
MAX_VALUES = 1_000


@dataclass(eq=False, slots=True)
class Answer:
    """One row of a table. `derivations` while the table is open, `condition` afterwards."""

    terms: tuple
    condition: Expr
    span: Span | None
    derivations: list[Expr] = field(init=False)
    reference: Expr | None = None

    def __post_init__(self) -> None:
        self.derivations = [self.condition]


@dataclass(eq=False, slots=True)
class Derivation:
    """One way in which a clause applied: its head, what its variables are bound to, when."""

    rule: Resolvent
    terms: tuple
    env: Env
    condition: Expr


@dataclass(eq=False, slots=True)
class Table:
    """The answers to one call. `derived` and `calls` say, for explanations, which clauses they
    came from, and when which tables were called with symbols."""

    pred: Pred
    args: tuple
    number: int
    span: Span | None
    waiting: State | None
    low: int = field(init=False)
    given: frozenset[Axis] = field(init=False)
    answers: dict[Any, Answer] = field(default_factory=dict)
    final: list[Answer] = field(default_factory=list)
    # What is known of `final`: numbers of answers that are alike, and of each, by its id, how
    # many with symbols come before it.
    numbers: dict[tuple[str, ...], dict[int, int]] = field(default_factory=dict)
    with_symbols: list[Answer] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    derived: list[Derivation] = field(default_factory=list)
    calls: list[tuple[Table, Expr]] = field(default_factory=list)
    complete: bool = False
    recursive: bool = False
    consumers: list[State] = field(default_factory=list)
    negations: list[tuple[Expr, State]] = field(default_factory=list)
    # Whether ProbLog has the answers in the same order.
    ordered: bool = True
    order: Order | None = field(init=False)
    symbolic_depth: int = 0
    largest: int = 0
    growth: int = 0

    def __post_init__(self) -> None:
        self.low = self.number
        self.given = frozenset(axes_of(self.args))
        self.order = Order() if self.bag else None

    @property
    def bag(self) -> bool:
        """Whether answers are to be collected, and so counted as often as they are proved."""
        return self.pred.kind == "all"

    def before(self, answer: Answer) -> list[Answer]:
        """The final answers before this one that may be the same atom.

        Those without symbols are not the same: a table has each atom once.
        """
        if has_symbol(answer.terms):
            return list(takewhile(lambda a: a is not answer, self.final))
        if not self.places:
            for other in self.final:
                self.places[id(other)] = len(self.with_symbols)
                if has_symbol(other.terms):
                    self.with_symbols.append(other)
        return self.with_symbols[: self.places[id(answer)]]

    def name(self) -> str:
        return atom_text(self.pred.name, self.args)

    @property
    def symbolic(self) -> bool:
        """Whether it was called with values that are only known at run time."""
        return any(isinstance(a, Expr) and a.op != "axis" for a in self.args)


@dataclass(eq=False, slots=True)
class State:
    """A derivation under way: the literals still to prove, bindings, condition.

    It is `alone` if one literal leads to the next: there never was another beside it.
    """

    table: Table
    rule: Resolvent
    body: tuple[Lit, ...]
    env: Env
    condition: Expr
    depth: int = 0
    alone: bool = True

    def __post_init__(self) -> None:
        self.alone = self.alone and len(self.body) < 2

    def then(self, body: tuple[Lit, ...], env: Env, condition: Expr, deeper: int = 0) -> State:
        """The same derivation, further on."""
        depth = self.depth + deeper
        return State(self.table, self.rule, body, env, condition, depth, self.alone)


def spelt_out(answer: Answer) -> Iterator[Answer]:
    """An answer for each of the values that its symbols can take, where they are few."""
    if not has_symbol(answer.terms) or ways(answer.terms) > MAX_VALUES:
        yield answer
        return
    for terms, where in each_value(answer.terms):
        if where is not FALSE:
            one = Answer(terms, FALSE, answer.span)
            one.condition = and_(answer.condition, where)
            yield one


def coincide(axes: Axes, given: frozenset[Axis], other: Answer, answer: Answer) -> Expr:
    """When another answer of a table holds and has the same terms: they are then one atom.

    `given` are the axes that the table was called with.
    """
    if exclusive(other.condition, answer.condition):
        return FALSE
    conditions: list[Expr] = []
    pairs = list(zip(other.terms, answer.terms, strict=True))
    if not all(unify(x, y, [], conditions) for x, y in pairs):
        return FALSE
    shared = given | {x.data for x, y in pairs if x is y and isinstance(x, Expr) and x.op == "axis"}
    apart = axes_of([term for x, y in pairs if x is not y for term in (x, y)]) - shared
    if apart:
        # Elements of an axis beside what is not along it: to be listed one by one.
        axes.split(apart, answer.span)
    return and_(other.condition, *conditions)
