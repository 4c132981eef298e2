"""Which clauses the atoms of a program came from, for explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nesymm.ground.tabling import Derivation, Table
from nesymm.ground.unify import resolve
from nesymm.ir.algebra import and_, or_
from nesymm.ir.axes import anywhere
from nesymm.ir.expr import FALSE, TRUE, Expr
from nesymm.ir.step import ClauseUse, Hole, Provenance
from nesymm.ir.symbols import is_ground, key_of, map_symbols
from nesymm.ir.terms import FREE, V


def provenance(tables: Iterable[Table]) -> Provenance:
    """The uses of clauses in completed tables, in the order of the program, each once."""
    tables = list(tables)
    called = _Called(tables)
    uses = {key_of(_identity(use)): use for table in tables for use in _uses(table, called)}
    return Provenance(tuple(sorted(uses.values(), key=lambda use: (use.clause, use.option))))


def _identity(use: ClauseUse) -> tuple:
    return use.clause, use.option, use.holds, use.values, use.head, use.bindings


def _uses(table: Table, called: _Called) -> Iterator[ClauseUse]:
    for derivation in table.derived:
        holds = and_(derivation.condition, called.when(table))
        if holds is not FALSE:
            yield _use(derivation, holds)


def _use(derivation: Derivation, holds: Expr) -> ClauseUse:
    rule = derivation.rule
    assert rule.origin is not None
    found = {
        name: resolve(V(i), derivation.env) for i, name in enumerate(rule.names) if name != "_"
    }
    bindings = tuple((n, v) for n, v in found.items() if is_ground(v) and v != FREE)
    values: dict[Expr, Hole] = {}

    def hole(symbol: Expr) -> Hole:
        return values.setdefault(symbol, Hole("value", len(values)))

    head: Any = None if rule.origin.option is None else map_symbols(derivation.terms, hole)
    bound = tuple((name, map_symbols(value, hole)) for name, value in bindings)
    return ClauseUse(rule.origin.clause, rule.origin.option or 0, holds, tuple(values), head, bound)


class _Called:
    """When tables are called with values that are only known at run time.

    Where nobody calls them these values have no meaning, and nothing that follows from them is
    explained.
    """

    def __init__(self, tables: list[Table]):
        self.callers: dict[int, list[tuple[Table, Expr]]] = {}
        self.known: dict[int, Expr] = {}
        for table in tables:
            for callee, condition in table.calls:
                self.callers.setdefault(id(callee), []).append((table, condition))

    def when(self, table: Table) -> Expr:
        if not table.symbolic:
            return TRUE
        if id(table) not in self.known:
            self.known[id(table)] = FALSE  # A call of its own adds nothing.
            found = []
            for caller, condition in self.callers.get(id(table), ()):
                found.append(anywhere(and_(condition, self.when(caller)), table.given))
            self.known[id(table)] = or_(*found)
        return self.known[id(table)]
