"""What the engine works on: tables, their answers, derivations under way; and what it asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from nesymm.compiler.algebra import and_, exclusive
from nesymm.compiler.clauses import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    CollectLit,
    DrawLit,
    Lit,
    Resolvent,
)
from nesymm.compiler.expr import FALSE, Axis, Expr
from nesymm.compiler.order import Order
from nesymm.compiler.runtime import Env, atom_text, axes_of, unify
from nesymm.compiler.types import Enum, Int
from nesymm.errors import Span
from nesymm.language.program import Pred


class Split(Exception):
    """An axis met something that needs its values one by one: enumerate it at its source."""

    def __init__(self, sites: Iterable[str]):
        self.sites = frozenset(sites)


class Host(Protocol):
    """What the engine asks of its surroundings."""

    def builtin(self, lit: BuiltinLit, env: Env) -> Iterable[tuple[Env, Expr]]: ...

    def read_state(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]]: ...

    def read_input(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]] | None: ...

    def draw(
        self, lit: DrawLit, answer: Answer, index: int, siblings: list[Answer]
    ) -> Iterable[tuple[tuple, Expr]]: ...

    def choose(self, lit: ChoiceLit, env: Env, answer: Answer, table: Table | None) -> Expr: ...

    def collect(
        self, lit: CollectLit, answers: list[tuple[tuple, Expr]], env: Env, ordered: bool
    ) -> Iterable[tuple[Env, Expr]]: ...

    def axis(self, name: str, type_: Int | Enum, sites: Iterable[str]) -> Axis: ...

    def sites_of(self, axes: Iterable[Axis]) -> set[str]: ...

    def split_axes(self, axes: Iterable[Axis], span: Span | None) -> NoReturn: ...

    def has_axes(self) -> bool: ...

    def conflict(self, pred: Pred, condition: Expr, span: Span | None) -> None: ...

    def evaluate(self, term: Any, span: Span | None, timed: bool) -> Any: ...


class Answer:
    """One row of a table. `derivations` while the table is open, `condition` afterwards."""

    __slots__ = ("condition", "derivations", "index", "reference", "span", "terms")

    def __init__(self, terms: tuple, condition: Expr, span: Span | None):
        self.terms = terms
        self.derivations = [condition]
        self.condition = condition
        self.reference: Expr | None = None
        self.span = span
        self.index = 0


class Table:
    __slots__ = (
        "answers",
        "args",
        "bag",
        "complete",
        "consumers",
        "final",
        "given",
        "growth",
        "largest",
        "low",
        "negations",
        "number",
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
        self.bag = pred.name.startswith("$all")
        # Whether ProbLog has the answers in the same order.
        self.ordered = True
        self.order = Order() if self.bag else None
        self.number = number
        self.low = number
        self.span = span
        self.answers: dict[Any, Answer] = {}
        self.final: list[Answer] = []
        self.complete = False
        self.recursive = False
        self.consumers: list[State] = []
        self.waiting: State | None = None
        self.negations: list[tuple[Expr, State]] = []
        self.given = frozenset(axes_of(args))
        self.symbolic_depth = 0
        self.largest = 0
        self.growth = 0

    def name(self) -> str:
        return atom_text(self.pred.name, self.args)


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


def coincide(host: Host, given: frozenset[Axis], other: Answer, answer: Answer) -> Expr:
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
        host.split_axes(apart, answer.span)
    return and_(other.condition, *conditions)
