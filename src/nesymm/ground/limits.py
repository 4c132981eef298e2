"""When a recursion is taken to have no end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from nesymm.errors import Span, fail
from nesymm.ground.tabling import Table
from nesymm.ir.expr import Expr
from nesymm.ir.symbols import atoms_of, parts
from nesymm.ir.terms import atom_text
from nesymm.language.program import Pred

MAX_TABLES = 400_000
MAX_ANSWERS = 400_000
MAX_SYMBOLIC_DEPTH = 64
MAX_OPEN = 50_000
MAX_GROWTH = 1_500
MAX_NUMBERS = 2**15
MAX_EXPANSION = 400


def measure(table: Table, caller: Table | None) -> None:
    """Note how far the calls that led to a table have grown."""
    symbolic = any(isinstance(a, Expr) for a in table.args)
    table.largest = sum(map(_size, table.args))
    table.symbolic_depth = int(symbolic)
    if caller is not None:
        table.symbolic_depth += caller.symbolic_depth
        table.growth = caller.growth + (table.largest > caller.largest)
        table.largest = max(table.largest, caller.largest)


def check_call(table: Table, opened: int) -> None:
    """Refuse a call that is one too many; `opened` tables are under way."""
    if (
        table.number > MAX_TABLES
        or opened > MAX_OPEN
        or table.growth > MAX_GROWTH
        or table.symbolic_depth > MAX_SYMBOLIC_DEPTH
    ):
        unbounded(table)


def check_answers(table: Table, terms: tuple, known: Callable[[], set[Any]]) -> None:
    """Refuse a new answer where there are too many. A cycle that makes ever larger terms, or ever
    more numbers than are `known`, will not end."""
    if len(table.answers) > MAX_ANSWERS:
        unbounded(table)
    if not table.recursive:
        return
    size = sum(map(_size, terms))
    if size > table.largest:
        table.largest = size
        table.growth += 1
    count = len(table.answers)
    endless = table.growth > MAX_GROWTH
    if not endless and count >= MAX_NUMBERS and count & (count - 1) == 0:
        made = {t for a in table.answers.values() for t in a.terms if type(t) in (int, float)}
        endless = len(made - known()) >= MAX_NUMBERS // 2
    if endless:
        unbounded(table, terms)


def check_proofs(pred: Pred, depth: int, span: Span | None) -> None:
    """Refuse to prove answers one by one where there are ever more proofs."""
    if depth >= MAX_EXPANSION:
        fail(
            "E305",
            f"the answers to collect have no end: the recursion of {pred} proves them "
            "over and over",
            span,
            "collect from a predicate whose proofs are finitely many",
        )


def unbounded(table: Table, terms: tuple | None = None) -> NoReturn:
    reached = table.name() if terms is None else atom_text(table.pred.name, terms)
    symbolic = any(isinstance(a, Expr) for a in table.args)
    fail(
        "E305",
        f"the recursion of {table.pred} does not end"
        + (": its argument is only known at run time" if symbolic else ""),
        table.span,
        "give the argument that changes a bound that the clauses test, "
        "or declare it with `:- domain(…)`",
        f"reached {reached[:80]}",
    )


def too_deep(table: Table) -> NoReturn:
    fail(
        "E305",
        f"the terms of {table.pred} are nested without end",
        table.span,
        "use a list or a number instead of a term inside a term inside a term",
    )


def _size(term: Any) -> int:
    """The number of leaves of a list or compound; 0 for anything else."""
    return sum(1 for _ in atoms_of(term)) if parts(term) else 0
