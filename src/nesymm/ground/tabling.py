"""What the engine works on: tables, their answers, derivations under way; and what it asks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Protocol

from nesymm.errors import Span
from nesymm.ground.axes import Axes
from nesymm.ground.clauses import Resolvent
from nesymm.ground.literals import CallLit, ChoiceLit, DrawLit, Lit
from nesymm.ground.order import Order
from nesymm.ground.unify import Env, unify
from nesymm.ir.algebra import and_, const, eq, exclusive
from nesymm.ir.expr import FALSE, Axis, Expr
from nesymm.ir.symbols import axes_of, has_symbol, map_symbols, symbols
from nesymm.ir.terms import atom_text
from nesymm.ir.types import domain, is_finite, size
from nesymm.language.program import Pred

# How many values the symbols of an answer may take for it to be spelt out.
MAX_VALUES = 1_000


class Host(Protocol):
    """What the engine asks of its surroundings."""

    def read_state(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]]: ...

    def read_input(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]] | None: ...

    def draw(self, lit: DrawLit, answer: Answer, table: Table) -> Iterable[tuple[tuple, Expr]]: ...

    def choose(self, lit: ChoiceLit, answer: Answer, table: Table | None) -> Expr: ...

    def asks_whole(self, body: Pred) -> bool: ...

    def completed(self, table: Table) -> None: ...


class Answer:
    """One row of a table. `derivations` while the table is open, `condition` afterwards."""

    __slots__ = ("condition", "derivations", "reference", "span", "terms")

    def __init__(self, terms: tuple, condition: Expr, span: Span | None):
        self.terms = terms
        self.derivations = [condition]
        self.condition = condition
        self.reference: Expr | None = None
        self.span = span


class Derivation:
    """One way in which a clause applied: its head, what its variables are bound to, when."""

    __slots__ = ("condition", "env", "rule", "terms")

    def __init__(self, rule: Resolvent, terms: tuple, env: Env, condition: Expr):
        self.rule = rule
        self.terms = terms
        self.env = env
        self.condition = condition


class Table:
    """The answers to one call. `derived` and `calls` say, for explanations, which clauses they
    came from, and when which tables were called with symbols."""

    __slots__ = (
        "answers",
        "answers_with_symbols",
        "args",
        "bag",
        "calls",
        "complete",
        "consumers",
        "derived",
        "final",
        "given",
        "growth",
        "largest",
        "low",
        "negations",
        "number",
        "numbers",
        "order",
        "ordered",
        "pred",
        "recursive",
        "span",
        "symbolic_depth",
        "waiting",
    )

    def __init__(self, pred: Pred, args: tuple, number: int, span: Span | None):
        self.pred = pred
        self.args = args
        # Answers to be collected are counted as often as they are proved.
        self.bag = pred.kind == "all"
        # Whether ProbLog has the answers in the same order.
        self.ordered = True
        self.order = Order() if self.bag else None
        self.number = number
        self.low = number
        self.span = span
        self.answers: dict[Any, Answer] = {}
        self.final: list[Answer] = []
        # What is known of `final`: numbers of answers that are alike, those that have symbols.
        self.numbers: dict[tuple[str, ...], dict[int, int]] = {}
        self.answers_with_symbols: list[Answer] | None = None
        self.derived: list[Derivation] = []
        self.calls: list[tuple[Table, Expr]] = []
        self.complete = False
        self.recursive = False
        self.consumers: list[State] = []
        self.waiting: State | None = None
        self.negations: list[tuple[Expr, State]] = []
        self.given = frozenset(axes_of(args))
        self.symbolic_depth = 0
        self.largest = 0
        self.growth = 0

    def with_symbols(self) -> list[Answer]:
        """The final answers that have symbols."""
        if self.answers_with_symbols is None:
            self.answers_with_symbols = [a for a in self.final if has_symbol(a.terms)]
        return self.answers_with_symbols

    def name(self) -> str:
        return atom_text(self.pred.name, self.args)

    @property
    def symbolic(self) -> bool:
        """Whether it was called with values that are only known at run time."""
        return any(isinstance(a, Expr) and a.op != "axis" for a in self.args)


class State:
    """A derivation under way: the literals still to prove, bindings, condition."""

    __slots__ = ("alone", "body", "condition", "depth", "env", "rule", "table")

    def __init__(
        self,
        table: Table,
        rule: Resolvent,
        body: tuple[Lit, ...],
        env: Env,
        condition: Expr,
        depth: int = 0,
    ):
        self.table = table
        self.rule = rule
        self.body = body
        self.env = env
        self.condition = condition
        self.depth = depth
        # Whether one literal leads to the next: there never was another beside it.
        self.alone = len(body) < 2

    def then(self, body: tuple[Lit, ...], env: Env, condition: Expr, deeper: int = 0) -> State:
        """The same derivation, further on."""
        new = State(self.table, self.rule, body, env, condition, self.depth + deeper)
        new.alone = new.alone and self.alone
        return new


def spelt_out(answer: Answer) -> Iterator[Answer]:
    """An answer for each of the values that its symbols can take, where they are few."""
    found = list(dict.fromkeys(symbols(answer.terms)))
    if not found or not all(is_finite(symbol.type) for symbol in found):
        yield answer
        return
    if math.prod(size(symbol.type) for symbol in found) > MAX_VALUES:
        yield answer
        return
    for values in product(*(domain(symbol.type) for symbol in found)):
        here = dict(zip(found, values, strict=True))
        where = and_(*(eq(symbol, const(value)) for symbol, value in here.items()))
        if where is not FALSE:
            one = Answer(map_symbols(answer.terms, here.__getitem__), FALSE, answer.span)
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
        # Elements of an axis beside what is not along it: to be told one by one.
        axes.split(apart, answer.span)
    return and_(other.condition, *conditions)
