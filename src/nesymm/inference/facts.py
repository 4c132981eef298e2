"""Facts as data: what people have, as the arrays that a program reads.

A *table* has a row per fact. Its columns are `sequence` and `time`, where they matter, then the
keys and the values of a predicate in the order of its arguments. Data frames are tables, and so
are the facts of one sequence in Python: `{"edge": [("a", "b"), ("b", "c")]}`. What a table does not
list is absent where it is an input, and missing where it is observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.inference.columns import DataError, Wanted
from nesymm.inference.data import LENGTH, wanted
from nesymm.ir.step import StepProgram
from nesymm.ir.terms import atom_text
from nesymm.ir.terms import show as show_term
from nesymm.ir.types import Bool, Enum, Int, domain

SEQUENCE, TIME = "sequence", "time"


@dataclass(frozen=True)
class Table:
    """Rows of facts: `columns` are their names, `where` says of a row where it comes from."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    source: str = ""
    first_line: int = 0  # how rows are counted for people: CSV files have a title in line 1

    def where(self, row: int) -> str:
        return f"{self.source or self.name}, row {row + self.first_line}"


def as_arrays(step: StepProgram, data: Any) -> Any:
    """Data in any of their forms as arrays by name. Arrays stay as they are."""
    if isinstance(data, list | tuple):
        return _of_sequences(step, data)
    if is_frame(data):
        return _wide(step, table_of("the table", data))
    if not isinstance(data, Mapping):
        return data
    tables = {n: table_of(n, v) for n, v in data.items() if is_frame(v)}
    if not tables:
        return data
    arrays = {n: v for n, v in data.items() if n not in tables}
    batch = next((len(v) for n, v in arrays.items() if hasattr(v, "__len__")), None)
    return {**arrays, **filled(step, tables, batch)}


def single(step: StepProgram, data: Any) -> Any:
    """The same for a program without time, whose data are those of one world."""
    if not isinstance(data, Mapping):
        return data
    names = wanted(step)
    facts = {n: v for n, v in data.items() if is_frame(v) or _are_facts(names, n, v)}
    if not facts:
        return data
    tables = {n: table_of(n, v) if is_frame(v) else _rows(n, v) for n, v in facts.items()}
    arrays = {n: a[0] for n, a in filled(step, tables, 1).items() if n != LENGTH}
    return {**{n: v for n, v in data.items() if n not in facts}, **arrays}


# ---------------------------------------------------------------- tables


def is_frame(value: Any) -> bool:
    """Whether something is a data frame, of pandas, Polars or Arrow, or one of our tables."""
    names = getattr(value, "columns", None) is not None and hasattr(value, "__getitem__")
    return isinstance(value, Table) or names or hasattr(value, "column_names")


def table_of(name: str, frame: Any) -> Table:
    """A data frame as a table."""
    if isinstance(frame, Table):
        return frame
    import narwhals.stable.v1 as nw

    try:
        whole = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(f"{name}: expected an array or a data frame: {error}") from None
    return Table(name, tuple(map(str, whole.columns)), whole.rows())


def _rows(name: str, facts: Any, sequence: Any = None) -> Table:
    """Facts in Python as a table without names of columns; a lone key need be no tuple."""
    rows = [tuple(f) if isinstance(f, tuple | list) else (f,) for f in facts]
    widths = {len(r) for r in rows}
    if len(widths) > 1:
        shown = ", ".join(map(str, sorted(widths)))
        about = "" if sequence is None else f" of sequence {sequence}"
        raise DataError(f"{name}: the facts{about} differ in their number of arguments: {shown}")
    return Table(name, ("",) * (widths.pop() if widths else 0), rows)


def _are_facts(names: Mapping[str, Wanted], name: str, value: Any) -> bool:
    """Whether a value lists facts: those of what has keys, and is no array."""
    keyed = name in names and bool(names[name].axes) and names[name].tensor is None
    apart = name not in names and bool(_told_apart(names, name))
    listed = isinstance(value, list | tuple | set | frozenset)
    return (keyed or apart) and listed and all(isinstance(v, tuple | str | int) for v in value)


# ---------------------------------------------------------------- one dictionary a sequence


def _of_sequences(step: StepProgram, data: Sequence[Any]) -> dict[str, Any]:
    """Arrays of the facts and values that are given for one sequence after the other."""
    if not data or not all(isinstance(d, Mapping) for d in data):
        raise DataError(
            "data: expected arrays by name, or a list with a dictionary of facts for each sequence"
        )
    names = wanted(step)
    found = list(dict.fromkeys(n for d in data for n in d))
    tables: dict[str, Table] = {}
    series: dict[str, list[Any]] = {}
    for name in found:
        values = [d.get(name) for d in data]
        if all(v is None or _are_facts(names, name, v) for v in values):
            tables[name] = _joined(names, name, values)
        else:
            series[name] = values
    out = filled(step, tables, len(data)) if tables else {}
    lengths = [out.pop(LENGTH)] if LENGTH in out else []
    for name, values in series.items():
        want = names.get(name)
        if want is None:
            out[name] = values  # `prepare` says which names there are.
            continue
        lengths += [_lengths(values)] if want.timed else []
        out[name] = _padded(want, values)
    if lengths:
        length = np.max(lengths, axis=0)
        most = int(length.max())
        out = {
            n: _to_length(a, most) if n in names and names[n].timed else a for n, a in out.items()
        }
        if (length < most).any():
            out[LENGTH] = length
    return out


def _joined(names: Mapping[str, Wanted], name: str, values: Sequence[Any]) -> Table:
    """The facts of all sequences as one table."""
    want = names.get(name) or names[_told_apart(names, name)[0]]
    own = [_rows(name, facts or (), number) for number, facts in enumerate(values)]
    width = max(len(table.columns) for table in own)
    # That something holds need not be written.
    implied = (True,) if isinstance(want.types[0], Bool) else ()
    rows = [
        (number, *r, *(implied if len(r) == width - 1 else ()))
        for number, table in enumerate(own)
        for r in table.rows
    ]
    if any(len(r) != width + 1 for r in rows):
        raise DataError(f"{name}: the facts differ in their number of arguments")
    time = (TIME,) if want.timed else ()
    return Table(name, (SEQUENCE, *time, *("",) * (width - len(time))), rows)


def _lengths(values: Sequence[Any]) -> np.ndarray:
    return np.array([0 if v is None else len(v) for v in values])


def _padded(want: Wanted, values: Sequence[Any]) -> Any:
    """The values of all sequences side by side; what a sequence lacks is missing."""
    try:
        arrays = [None if v is None else np.asarray(v) for v in values]
    except ValueError:
        raise DataError(f"{want}: the steps of a sequence differ in shape") from None
    arrays = [
        a if a is None or a.dtype.kind in "biuf" else np.asarray(v, object)
        for a, v in zip(arrays, values, strict=True)
    ]
    known = [a for a in arrays if a is not None]
    steps = max((len(a) for a in known), default=0) if want.timed else 0
    shapes = {a.shape[1:] if want.timed else a.shape for a in known}
    if len(shapes) != 1:
        shown = ", ".join(map(str, sorted(shapes)))
        raise DataError(f"{want}: the sequences differ in shape: {shown}")
    (inner,) = shapes
    shape = (steps, *inner) if want.timed else inner
    if any(a.dtype == object for a in known):
        out = np.full((len(values), *shape), None, object)
    else:
        fill: Any = 0.0 if want.tensor is not None and want.kind == "input" else np.nan
        out = np.full((len(values), *shape), fill)
    for number, array in enumerate(arrays):
        if array is not None:
            out[(number, slice(len(array))) if want.timed else number] = array
    return out


def _to_length(array: Any, steps: int) -> Any:
    """An array with as many steps as the longest sequence has."""
    short = steps - array.shape[1]
    if short <= 0:
        return array
    fill = None if array.dtype == object else False if array.dtype == bool else np.nan
    rest = np.full((array.shape[0], short, *array.shape[2:]), fill, array.dtype)
    return np.concatenate([array, rest], axis=1)


# ---------------------------------------------------------------- tables as arrays


def _wide(step: StepProgram, table: Table) -> dict[str, Any]:
    """A table that has a column for each input and observation, and a row for each step."""
    names = wanted(step)
    out: dict[str, Table] = {}
    places = [c for c in table.columns if c in (SEQUENCE, TIME)]
    for name in table.columns:
        if name in places:
            continue
        if name not in names or names[name].axes or len(names[name].types) > 1:
            known = ", ".join(n for n, w in names.items() if not w.axes and len(w.types) == 1)
            raise DataError(
                f"{table.source or table.name}: the column {name} is no input or observation of "
                f"one value (there are: {known or 'none'})\n  = help: give what has keys or "
                f"several values as a table of its own: `{{{name!r}: table}}`"
            )
        kept = [c for c in places if names[name].timed or c != TIME]
        at = [table.columns.index(c) for c in (*kept, name)]
        rows = list(dict.fromkeys(tuple(r[i] for i in at) for r in table.rows))
        out[name] = Table(name, (*kept, name), rows, table.source, table.first_line)
    return filled(step, out, None)


def filled(step: StepProgram, tables: Mapping[str, Table], batch: int | None) -> dict[str, Any]:
    """Tables as arrays, and the lengths of the sequences where they differ."""
    names = wanted(step)
    for name in tables:
        if name not in names and not _told_apart(names, name):
            known = ", ".join(names) or "none"
            raise DataError(f"the program reads no data called {name} (it reads: {known})")
    rows = _Places(tables, batch)
    timed = [n for n in tables if _example(names, n).timed]
    steps = rows.steps(timed)
    out: dict[str, Any] = {}
    for name, table in tables.items():
        if name in names:
            out[name] = _Filling(names[name], table, rows, steps).array()
        else:
            out |= _labelled(names, table, rows, steps)
    if timed and len(set(rows.lengths)) > 1:
        out[LENGTH] = np.array(rows.lengths)
    return out


def _example(names: Mapping[str, Wanted], name: str) -> Wanted:
    return names.get(name) or names[_told_apart(names, name)[0]]


def _told_apart(names: Mapping[str, Wanted], name: str) -> list[str]:
    """The arrays of a predicate whose entities have one each, as `test(ann)`."""
    return [n for n in names if n.startswith(f"{name}(")]


def _labelled(
    names: Mapping[str, Wanted], table: Table, rows: _Places, steps: int
) -> dict[str, Any]:
    """A table about entities that have an array each."""
    labels = _told_apart(names, table.name)
    want = names[labels[0]]
    first = len([c for c in table.columns if c in (SEQUENCE, TIME)])
    values = 0 if isinstance(want.types[0], Bool) else len(want.types)
    own: dict[str, list[tuple[Any, ...]]] = {}
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
    out = {}
    for label, found in own.items():
        columns = (*table.columns[:first], *("",) * (len(found[0]) - first))
        one = Table(label, columns, found, table.source, table.first_line)
        out[label] = _Filling(names[label], one, rows, steps).array()
    return out


class _Places:
    """The rows of arrays that sequences have, and how many steps each has."""

    def __init__(self, tables: Mapping[str, Table], batch: int | None):
        self.tables = tables
        names: dict[Any, None] = {}
        for table in tables.values():
            if SEQUENCE in table.columns:
                at = table.columns.index(SEQUENCE)
                names |= dict.fromkeys(row[at] for row in table.rows)
        whole = all(_is_whole(n) for n in names)
        order = sorted(names) if whole else list(names)
        if batch is not None and whole and all(0 <= n < batch for n in order):
            order = list(range(batch))
        self.number = {name: i for i, name in enumerate(order)} or {None: 0}
        self.batch = len(self.number)
        if batch is not None and self.batch != batch:
            raise DataError(
                f"the tables are about {self.batch} sequences, and the arrays about {batch}"
            )
        self.lengths = [0] * self.batch

    def steps(self, timed: Iterable[str]) -> int:
        for name in timed:
            table = self.tables[name]
            if TIME not in table.columns:
                raise DataError(
                    f"{table.source or name}: the column `time` is needed, since {name} has a time "
                    f"(there are: {', '.join(c or '_' for c in table.columns)})"
                )
            at = table.columns.index(TIME)
            for number, row in enumerate(table.rows):
                if not _is_whole(row[at]) or row[at] < 0:
                    raise DataError(
                        f"{table.where(number)}: expected a step from 0 in the column `time`, "
                        f"received {row[at]!r}"
                    )
                sequence = self.of(table, row)
                self.lengths[sequence] = max(self.lengths[sequence], int(row[at]) + 1)
        self.lengths = [max(1, n) for n in self.lengths]
        return max(self.lengths)

    def of(self, table: Table, row: tuple[Any, ...]) -> int:
        if SEQUENCE in table.columns:
            return self.number[row[table.columns.index(SEQUENCE)]]
        if self.batch > 1:
            raise DataError(
                f"{table.source or table.name}: the column `sequence` is needed, since there are "
                f"{self.batch} sequences"
            )
        return 0


def _is_whole(value: Any) -> bool:
    """Whole numbers may come as real ones, from a column in which some are missing."""
    if isinstance(value, float | np.floating):
        return float(value).is_integer()
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)


class _Filling:
    """One array, filled by the rows of a table."""

    def __init__(self, want: Wanted, table: Table, places: _Places, steps: int):
        self.want, self.table, self.places, self.steps = want, table, places, steps
        self.inner = [i for i, c in enumerate(table.columns) if c not in (SEQUENCE, TIME)]
        self.truth = isinstance(want.types[0], Bool)
        keys, types = len(want.axes), len(want.types)
        # Whether something is there need not be written.
        fits = {keys + types, keys} if self.truth else {keys + types}
        if want.tensor is not None:
            raise DataError(f"{want}: a tensor is given as an array")
        if table.rows and len(self.inner) not in fits:
            words = ", ".join([*(f"key {i + 1}" for i in range(keys)), *map(str, want.types)])
            raise DataError(
                f"{table.source or table.name}: expected the columns {words} besides `sequence` "
                f"and `time`, received {len(self.inner)}: "
                f"{', '.join(table.columns[i] or '_' for i in self.inner)}"
            )
        self.index = [
            {**{show_term(v): i for i, v in enumerate(domain(a.type))},
             **{v: i for i, v in enumerate(domain(a.type))}}
            for a in want.axes
        ]  # fmt: skip

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
            value = self._value(row)
            if at in filled and not _same(out[at], value):
                before = filled[at] + self.table.first_line
                raise DataError(
                    f"{self.table.where(number)}: {self._shown(row)} has two values, "
                    f"{_plain(out[at])} (row {before}) and {_plain(value)}"
                )
            filled[at] = number
            out[at] = value
        if relation:
            return out.astype(bool)
        names = any(isinstance(t, Enum) for t in want.types)
        return out if names else np.array(np.where(out == None, np.nan, out), float)  # noqa: E711

    def _place(self, number: int, row: tuple[Any, ...]) -> tuple[int, ...]:
        table = self.table
        at = [self.places.of(table, row)]
        if self.want.timed:
            at.append(int(row[table.columns.index(TIME)]))
        for i, index, axis in zip(self.inner, self.index, self.want.axes, strict=False):
            if isinstance(row[i], bool) or row[i] not in index:
                type_ = axis.type if isinstance(axis.type, Int) else f"one of {axis.type}"
                column = f", column {table.columns[i]}" if table.columns[i] else ""
                raise DataError(
                    f"{table.where(number)}{column}: the key {row[i]!r} of {self.want.name} is "
                    f"not in its domain, {type_}"
                )
            at.append(index[row[i]])
        return tuple(at)

    def _value(self, row: tuple[Any, ...]) -> Any:
        values = tuple(row[i] for i in self.inner[len(self.want.axes) :])
        if not values:
            return True
        if self.truth:
            values = tuple({"true": True, "false": False}.get(v, v) for v in values)
        return values[0] if len(values) == 1 else np.array(values, object)

    def _shown(self, row: tuple[Any, ...]) -> str:
        keys = tuple(row[i] for i in self.inner[: len(self.want.axes)])
        return atom_text(self.want.name, keys)


def _same(one: Any, other: Any) -> bool:
    return bool(np.all(one == other))


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, np.ndarray) else str(value)


__all__ = ["SEQUENCE", "TIME", "Table", "as_arrays", "filled", "is_frame", "single", "table_of"]
