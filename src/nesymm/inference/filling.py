"""Tables of facts as the arrays that a program reads.

What a table does not list is absent where it is an input, and missing where it is observed. Each
cell is checked where it stands, so that a mistake is named with its row and column.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from math import isfinite, prod
from typing import Any

import numpy as np

from nesymm.errors import NesymmWarning, warn
from nesymm.inference.columns import DataError, Wanted, is_missing
from nesymm.inference.data import LENGTH, Arrays, fits_into_memory
from nesymm.inference.fact_tables import SEQUENCE, TIME, Table, is_whole
from nesymm.ir.terms import Compound, Cons, atom_text
from nesymm.ir.terms import show as show_term
from nesymm.ir.types import Bool, Enum, Int, Type, domain

_BYTES = 32  # of an entry while it is filled, its object included


def filled(
    names: Mapping[str, Wanted],
    tables: Mapping[str, Table],
    batch: int | None,
    given: int | None = None,
) -> Arrays:
    """Tables as the arrays that are wanted, and the lengths of the sequences where they differ.

    Arrays that stand beside them have an entry for each step. So where these have a time, the
    number of steps that is `given` is theirs, and what ends earlier in a table is not listed.
    """
    for name in tables:
        if name not in names and not told_apart(names, name):
            known = ", ".join(names) or "none"
            raise DataError(f"the program reads no data called {name} (it reads: {known})")
    places = _Places(tables, batch)
    timed = [n for n in tables if example(names, n).timed]
    steps = places.steps({n: prod(a.size for a in example(names, n).axes) for n in timed})
    steps = max(steps, given or 0)
    if batch is None:
        places.warn_of_gaps(names, timed)
    out = Arrays(sequences=places.names)
    for name, table in tables.items():
        if name in names:
            out[name] = _Filling(names[name], table, places, steps).array()
        else:
            out |= _labelled(names, table, places, steps)
    if timed and given is None and len(set(places.lengths)) > 1:
        out[LENGTH] = np.array(places.lengths)
    return out


def example(names: Mapping[str, Wanted], name: str) -> Wanted:
    """What the program expects of a predicate, or of one of its entities."""
    return names.get(name) or names[told_apart(names, name)[0]]


def told_apart(names: Mapping[str, Wanted], name: str) -> list[str]:
    """The arrays of a predicate whose entities have one each, as `test(ann)`."""
    return [n for n in names if n.startswith(f"{name}(")]


def _labelled(
    names: Mapping[str, Wanted], table: Table, places: _Places, steps: int
) -> dict[str, Any]:
    """A table about entities that have an array each."""
    labels = told_apart(names, table.name)
    want = names[labels[0]]
    first = len([c for c in table.columns if c in (SEQUENCE, TIME)])
    values = 0 if isinstance(want.types[0], Bool) else len(want.types)
    own: dict[str, list[tuple[Any, ...]]] = {}
    numbers: dict[str, list[int]] = {}
    width = len(table.columns) - first
    for number, row in enumerate(table.rows):
        for keys in (width - values, width - 1):
            label = atom_text(table.name, row[first : first + keys]) if keys > 0 else ""
            if label in names:
                break
        else:
            shown = ", ".join(labels[:8])
            raise DataError(f"{table.where(number)}: no such entity (there are: {shown})")
        own.setdefault(label, []).append((*row[:first], *row[first + keys :]))
        numbers.setdefault(label, []).append(number)
    out = {}
    for label, found in own.items():
        columns = (*table.columns[:first], *("",) * (len(found[0]) - first))
        rows = numbers[label]
        one = Table(label, columns, found, table.source, lambda r, rows=rows: table.where(rows[r]))  # type: ignore[misc]
        out[label] = _Filling(names[label], one, places, steps).array()
    return out


class _Places:
    """The rows of arrays that sequences have, and how many steps each has."""

    def __init__(self, tables: Mapping[str, Table], batch: int | None):
        self.tables = tables
        self.alike: dict[Any, Any] = {}  # texts that are numbers elsewhere
        found = self._names()
        whole = all(map(is_whole, found))
        order: list[Any] = sorted(map(int, found)) if whole else list(found)
        if batch is not None and (batch > 1 or len(order) > 1):
            # Arrays number their sequences.
            odd = next((n for n in order if not (is_whole(n) and 0 <= n < batch)), None)
            if odd is not None:
                raise DataError(
                    f"{found[odd]}: the sequence {odd!r} is none of those of the arrays, which "
                    f"are numbered 0 to {batch - 1}"
                )
            order = list(range(batch))
        self.number = {name: i for i, name in enumerate(order)} or {None: 0}
        self.batch = len(self.number)
        # Those that are numbered from 0 have the names that arrays give them.
        self.names = None if order == list(range(len(order))) else tuple(order)
        self.lengths = [0] * self.batch

    def _names(self) -> dict[Any, str]:
        """The names of sequences, and where each is first met."""
        names: dict[Any, str] = {}
        for table in self.tables.values():
            at = table.place(SEQUENCE)
            for number, row in enumerate(table.rows if at is not None else ()):
                name = row[at]  # type: ignore[index]
                if is_missing(name) or not isinstance(name, Hashable):
                    raise DataError(
                        f"{table.where(number)}: expected the name of a sequence in the column "
                        f"`sequence`, received {name!r}"
                    )
                if name not in names:
                    names[name] = table.where(number)
        # Some readers of files make numbers of names, and others do not.
        numbers = {str(name): name for name in names if is_whole(name)}
        self.alike = {name: numbers[name] for name in names if name in numbers}
        return {name: where for name, where in names.items() if name not in self.alike}

    def steps(self, timed: Mapping[str, int]) -> int:
        """The steps of the longest sequence, by the tables with a time and the number of entries
        that each has for a step."""
        for name, size in timed.items():
            table = self.tables[name]
            at = table.place(TIME)
            if not table.columns:
                continue
            if at is None:
                raise DataError(
                    f"{table.title}: the column `time` is needed, since {name} has a time "
                    f"(there are: {', '.join(c or '_' for c in table.columns)})"
                )
            most = 0
            for number, row in enumerate(table.rows):
                if not is_whole(row[at]) or row[at] < 0:
                    raise DataError(
                        f"{table.where(number)}: expected a step from 0 in the column `time`, "
                        f"received {row[at]!r}"
                    )
                length = int(row[at]) + 1
                if length > most:
                    most = length
                    if not fits_into_memory(length, self.batch * max(1, size) * _BYTES):
                        raise DataError(
                            f"{table.where(number)}: {length:,} steps of {self.batch:,} sequences "
                            "do not fit into memory\n"
                            "  = help: number the steps 0, 1, 2, …; is this a date, or a time "
                            "in seconds?"
                        )
                sequence = self.of(table, row)
                self.lengths[sequence] = max(self.lengths[sequence], length)
        self.lengths = [max(1, n) for n in self.lengths]
        return max(self.lengths)

    def warn_of_gaps(self, names: Mapping[str, Wanted], timed: list[str]) -> None:
        """Names of sequences that are misspelt in a table look like sequences of their own."""
        values = [
            n
            for n, want in names.items()
            if n in self.tables and want.kind == "input" and not want.timed and not want.axes
        ]
        for group in ([timed] if timed else []) + [[n] for n in values]:
            tables = [self.tables[n] for n in group if self.tables[n].place(SEQUENCE) is not None]
            met = {self.of(table, row) for table in tables for row in table.rows}
            gaps = [repr(name) for name, i in self.number.items() if i not in met]
            if tables and met and gaps:
                more = f" and {len(gaps) - 3:,} more" if len(gaps) > 3 else ""
                warn(
                    NesymmWarning(
                        "sequences without rows",
                        f"{', '.join(group)}: no row for the sequence {', '.join(gaps[:3])}{more}",
                        "other tables have rows for it; here, its values count as missing",
                        "check that the names of the sequences are spelt alike in all tables",
                    )
                )

    def of(self, table: Table, row: tuple[Any, ...]) -> int:
        at = table.place(SEQUENCE)
        if at is not None:
            return self.number[self.alike.get(row[at], row[at])]
        if self.batch > 1:
            raise DataError(
                f"{table.title}: the column `sequence` is needed, since there are "
                f"{self.batch} sequences"
            )
        return 0


class _Filling:
    """One array, filled by the rows of a table."""

    def __init__(self, want: Wanted, table: Table, places: _Places, steps: int):
        self.want, self.table, self.places, self.steps = want, table, places, steps
        if want.tensor is not None:
            raise DataError(f"{want}: a tensor is given as an array")
        self.inner = [i for i, c in enumerate(table.columns) if c not in (SEQUENCE, TIME)]
        self.truth = isinstance(want.types[0], Bool)
        self._check_columns()
        self.keys = [_index(a.type) for a in want.axes]
        self.terms = [_index(t) if isinstance(t, Enum) else {} for t in want.types]

    def _check_columns(self) -> None:
        want, table = self.want, self.table
        keys, types = len(want.axes), len(want.types)
        # That something is there need not be written.
        fits = {keys + types, keys} if self.truth else {keys + types}
        if len(self.inner) not in fits and table.columns:
            words = ", ".join([*(f"key {i + 1}" for i in range(keys)), *map(str, want.types)])
            raise DataError(
                f"{table.title}: expected the columns {words} besides `sequence` "
                f"and `time`, received {len(self.inner)}: "
                f"{', '.join(table.columns[i] or '_' for i in self.inner)}"
            )
        if not want.timed and TIME in table.columns:
            raise DataError(
                f"{table.title}: {want.name} has no time, and the table has a column `time`"
            )

    def array(self) -> np.ndarray:
        want = self.want
        shape = (
            self.places.batch, *((self.steps,) if want.timed else ()), *(a.size for a in want.axes)
        )  # fmt: skip
        columns = len(want.types)
        relation = self.truth and want.kind == "input"
        out = np.full((*shape, *((columns,) if columns > 1 else ())), None, object)
        if relation:
            out[...] = False
        filled: dict[tuple[int, ...], int] = {}
        for number, row in enumerate(self.table.rows):
            at = self._place(number, row)
            value = self._value(number, row)
            if value is None and not relation:
                continue  # It says nothing, wherever else there is a row for it.
            if at in filled and not _same(out[at], value):
                raise DataError(
                    f"{self.table.where(number)}: {self._shown(row)} has two values, "
                    f"{_plain(out[at])} ({self.table.where(filled[at])}) and {_plain(value)}"
                )
            filled[at] = number
            out[at] = False if value is None and relation else value
        if relation:
            return out.astype(bool)
        names = any(isinstance(t, Enum) for t in want.types)
        return out if names else np.array(np.where(out == None, np.nan, out), float)  # noqa: E711

    def _place(self, number: int, row: tuple[Any, ...]) -> tuple[int, ...]:
        table = self.table
        at = [self.places.of(table, row)]
        if self.want.timed:
            at.append(int(row[table.columns.index(TIME)]))
        for i, index, axis in zip(self.inner, self.keys, self.want.axes, strict=False):
            found = _found(index, row[i])
            if found is None:
                type_ = axis.type if isinstance(axis.type, Int) else f"one of {axis.type}"
                raise DataError(
                    f"{table.where(number, i)}: the key {_shown(row[i])} of {self.want.name} is "
                    f"not in its domain, {type_}"
                )
            at.append(found)
        return tuple(at)

    def _value(self, number: int, row: tuple[Any, ...]) -> Any:
        """The value of a row, several as an array; None where there is none."""
        places = self.inner[len(self.want.axes) :]
        if not places:
            return True
        gone = [is_missing(row[i]) for i in places]
        if all(gone):
            return None
        if any(gone):
            raise DataError(
                f"{self.table.where(number)}: some of the {len(places)} values of "
                f"{self._shown(row)} are missing and others are not; give all or none"
            )
        values = [
            self._cell(number, i, row[i], type_, terms)
            for i, type_, terms in zip(places, self.want.types, self.terms, strict=True)
        ]
        return values[0] if len(values) == 1 else np.array(values, object)

    def _cell(self, number: int, at: int, cell: Any, type_: Type, terms: dict[Any, int]) -> Any:
        match type_:
            case Bool():
                value = _truth(cell)
            case Enum(values):
                position = _found(terms, cell)
                value = None if position is None else values[position]
            case _:
                value = _number(cell)
        if value is None or (isinstance(type_, Int) and not self._is_in(type_, value)):
            hint = " (true or false)" if isinstance(type_, Bool) else ""
            raise DataError(
                f"{self.table.where(number, at)}: expected {type_}{hint} as the value of "
                f"{self.want.name}, received {_shown(cell)}"
            )
        return value

    def _is_in(self, type_: Int, value: Any) -> bool:
        # An observed value that cannot be is impossible evidence, not a mistake in the data.
        inside = self.want.kind != "input" or type_.lo <= value <= type_.hi
        return is_whole(value) and inside

    def _shown(self, row: tuple[Any, ...]) -> str:
        keys = tuple(row[i] for i in self.inner[: len(self.want.axes)])
        return atom_text(self.want.name, keys)


def _index(type_: Type) -> dict[Any, int]:
    """The positions of the values of a finite type, as they are and as they are written."""
    values = domain(type_)
    return {
        **{show_term(v): i for i, v in enumerate(values)},
        **{v: i for i, v in enumerate(values)},
    }


def _found(index: Mapping[Any, int], cell: Any) -> int | None:
    """The position of a cell, if it is there; true and false may be names, and names may consist
    of digits, which files do not tell from numbers."""
    if isinstance(cell, bool | np.bool_):
        cell = str(cell).lower()
    if isinstance(cell, Hashable) and cell in index:
        return index[cell]
    return index.get(str(cell)) if is_whole(cell) else None


def _truth(cell: Any) -> bool | None:
    if isinstance(cell, str):
        return {"true": True, "false": False}.get(cell.lower())
    if isinstance(cell, bool | np.bool_) or (_number(cell) is not None and cell in (0, 1)):
        return bool(cell)
    return None


def _number(cell: Any) -> Any:
    """A cell that is a finite number, else None."""
    if isinstance(cell, bool | np.bool_):
        return None
    if isinstance(cell, Decimal):
        cell = int(cell) if cell == cell.to_integral_value() else float(cell)
    if not isinstance(cell, int | float | np.integer | np.floating):
        return None
    try:
        return cell if isfinite(cell) else None
    except OverflowError:  # a whole number beyond all reals
        return None


def _shown(cell: Any) -> str:
    return show_term(cell) if isinstance(cell, Compound | Cons) else f"{cell!r:.80}"


def _same(one: Any, other: Any) -> bool:
    return bool(np.all(one == other))


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, np.ndarray) else str(value)


__all__ = ["example", "filled", "told_apart"]
