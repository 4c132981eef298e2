"""Fact tables called with symbols: array lookups instead of one equality per row."""

from __future__ import annotations

import math
from typing import Any

from nesymm.ir.algebra import and_, const, within
from nesymm.ir.axes import lookup
from nesymm.ir.expr import ConstantTable, Expr
from nesymm.ir.symbols import key_of
from nesymm.ir.terms import V
from nesymm.ir.types import Enum, Int, join_all
from nesymm.language.program import Pred


def lookup_facts(
    pred: Pred, args: tuple, rows: list[tuple], symbolic: list[int]
) -> list[tuple[tuple, Expr]] | None:
    """Answers of a fact table whose arguments at `symbolic` are symbols.

    None where the table does not lend itself to an array (real keys, mixed types), so
    that the caller falls back to equalities.
    """
    concrete = [i for i, a in enumerate(args) if type(a) is not V and i not in symbolic]
    free = [i for i, a in enumerate(args) if type(a) is V]
    if len({args[i].i for i in free}) != len(free):
        return None
    wanted = [r for r in rows if all(key_of(r[i]) == key_of(args[i]) for i in concrete)]
    if not wanted:
        return []
    domains: list[Int | Enum] = []
    for i in symbolic:
        hull = _domain([r[i] for r in wanted])
        if hull is None or not isinstance(args[i].type, type(hull)):
            return None
        domains.append(hull)
    keys = [args[i] for i in symbolic]
    in_range = and_(*(within(k, d) for k, d in zip(keys, domains, strict=True)))
    by_key: dict[tuple, list[tuple]] = {}
    for row in wanted:
        by_key.setdefault(tuple(row[i] for i in symbolic), []).append(row)

    whole = math.prod(int(d.size) for d in domains)

    def table(name: str, entries: dict[tuple, Any], default: Any) -> Expr:
        return lookup(ConstantTable(name, tuple(domains), entries, default), *keys)

    def present(entries: dict[tuple, Any]) -> Expr:
        if len(entries) == whole:
            return in_range
        return and_(in_range, table(pred.name, entries, False))

    if all(len(found) == 1 for found in by_key.values()):
        template = list(args)
        for i in free:
            column = {k: found[0][i] for k, found in by_key.items()}
            if join_all(const(v).type for v in column.values()) is None:
                return None
            anything = next(iter(column.values()))
            template[i] = table(f"{pred.name}.{i + 1}", column, anything)
        return [(tuple(template), present(dict.fromkeys(by_key, True)))]
    by_free: dict[tuple, dict[tuple, Any]] = {}
    for key, found in by_key.items():
        for row in found:
            by_free.setdefault(tuple(row[i] for i in free), {})[key] = True
    return [(_filled(args, free, values), present(entries)) for values, entries in by_free.items()]


def _filled(args: tuple, places: list[int], values: tuple) -> tuple:
    """The arguments with values at some places."""
    filled = list(args)
    for i, value in zip(places, values, strict=True):
        filled[i] = value
    return tuple(filled)


def _domain(values: list) -> Int | Enum | None:
    """The hull of whole numbers, or the set of terms; None for anything else."""
    if all(type(v) is int for v in values):
        return Int(min(values), max(values))
    if all(type(v) is str for v in values):
        return Enum(tuple(dict.fromkeys(values)))
    return None
