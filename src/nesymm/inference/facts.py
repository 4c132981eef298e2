"""Facts as data: what people have, as the arrays that a program reads.

Data frames are tables of facts, and so are the facts of one sequence in Python: `{"edge": [("a",
"b"), ("b", "c")]}`. What a table does not list is absent where it is an input, and missing where it
is observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nesymm.inference.columns import DataError, Wanted
from nesymm.inference.data import LENGTH, Arrays
from nesymm.inference.fact_tables import (
    SEQUENCE,
    TIME,
    Table,
    in_turn,
    is_frame,
    python_facts,
    table_of,
)
from nesymm.inference.filling import example, filled, told_apart
from nesymm.ir.types import Bool, Enum

# What may list facts, or be an array.
_LISTS = (list, tuple, set, frozenset, np.ndarray)


def as_arrays(names: Mapping[str, Wanted], data: Any) -> Any:
    """Data in any of their forms as arrays by name, of those that are wanted. Arrays stay as they
    are."""
    if isinstance(data, list | tuple):
        return _of_sequences(names, data)
    if is_frame(data):
        return _wide(names, table_of("the table", data))
    if not isinstance(data, Mapping):
        return data
    tables = {n: table_of(n, v) for n, v in data.items() if is_frame(v)}
    arrays = {n: v for n, v in data.items() if n not in tables}
    _refuse_facts(names, arrays)
    if not tables:
        return data
    batch = next((len(v) for n, v in arrays.items() if np.ndim(v)), None)
    found = filled(names, tables, batch, _steps(names, arrays))
    return Arrays({**arrays, **found}, found.sequences)


def _steps(names: Mapping[str, Wanted], arrays: Mapping[str, Any]) -> int | None:
    """How many steps arrays have; None where none has a time."""
    timed = (np.shape(v) for n, v in arrays.items() if n in names and names[n].timed)
    return next((shape[1] for shape in timed if len(shape) > 1), None)


def single(names: Mapping[str, Wanted], data: Any) -> Any:
    """The same for a program without time, whose data are those of one world."""
    if isinstance(data, list | tuple) and all(isinstance(world, Mapping) for world in data):
        if len(data) != 1:
            raise DataError(f"data: expected the facts of one world, received {len(data)}")
        (data,) = data
    if isinstance(data, Arrays):
        return _only_world(data)
    if not isinstance(data, Mapping):
        return data
    facts = {n: v for n, v in data.items() if is_frame(v) or _are_facts(names, n, v)}
    if not facts:
        return data
    tables = {
        n: table_of(n, v) if is_frame(v) else _joined(names, n, [v]) for n, v in facts.items()
    }
    return {
        **{n: v for n, v in data.items() if n not in facts},
        **_only_world(filled(names, tables, 1)),
    }


def _only_world(arrays: Arrays) -> dict[str, Any]:
    batch = max((len(a) for a in arrays.values()), default=1)
    if batch != 1:
        raise DataError(f"data: expected those of one world, received {batch} sequences")
    return {n: a[0] for n, a in arrays.items() if n != LENGTH}


# ---------------------------------------------------------------- one dictionary a sequence


def _are_facts(names: Mapping[str, Wanted], name: str, value: Any) -> bool:
    """Whether a value lists facts: those of what has keys, or a time, and is no array."""
    if not isinstance(value, list | tuple | set | frozenset):
        return False
    if name not in names:
        return bool(told_apart(names, name)) and not any(isinstance(v, list) for v in value)
    want = names[name]
    if want.tensor is not None:
        return False
    if not want.axes:
        # A step, and all values: an array has no place for the step.
        width = len(want.types) + 1
        return bool(value) and all(isinstance(v, tuple) and len(v) == width for v in value)
    _refuse_truths(want, value)
    return not any(isinstance(v, list | np.ndarray | float) for v in value)


def _refuse_truths(want: Wanted, value: Any) -> None:
    """Zeros and ones, one for each key, are meant as truths, and would be read as keys."""
    whole = isinstance(value, list | tuple) and all(type(v) is int for v in value)
    sizes = [a.size for a in want.axes]
    if whole and len(value) > len(set(value)) and set(value) <= {0, 1} and sizes == [len(value)]:
        raise DataError(
            f"{want.name}: {value!r:.80} may be keys, or truths\n  = help: list keys once, and "
            "give truths as an array: `np.array([…])`"
        )


def _refuse_facts(names: Mapping[str, Wanted], arrays: Mapping[str, Any]) -> None:
    """Facts of one sequence are not those of a batch."""
    for name, value in arrays.items():
        keyed = name in names and names[name].axes and names[name].tensor is None
        if keyed and isinstance(value, list | tuple | set | frozenset):
            flat = [c for v in value for c in (v if isinstance(v, tuple) else (v,))]
            if any(isinstance(c, str) for c in flat) or isinstance(value, set | frozenset):
                raise DataError(
                    f"{name}: expected an array or a table, received facts\n  = help: facts are "
                    "given in a list with a dictionary for each sequence: `[{…}]`"
                )


def _of_sequences(names: Mapping[str, Wanted], data: Sequence[Any]) -> Arrays:
    """Arrays of the facts and values that are given for one sequence after the other."""
    if not data or not all(isinstance(d, Mapping) for d in data):
        raise DataError(
            "data: expected arrays by name, or a list with a dictionary of facts for each sequence"
        )
    found = list(dict.fromkeys(n for d in data for n in d))
    tables: dict[str, Table] = {}
    series: dict[str, list[Any]] = {}
    for name in found:
        values = [d.get(name) for d in data]
        keyed = name in names and names[name].axes and names[name].tensor is None
        if keyed and not all(v is None or isinstance(v, _LISTS) for v in values):
            raise DataError(f"{name}: expected a list of facts, tuples of keys and values")
        if all(v is None or _are_facts(names, name, v) for v in values):
            tables[name] = _joined(names, name, values)
        else:
            series[name] = values
    out = filled(names, tables, len(data)) if tables else Arrays()
    _add_series(names, out, series, tables, len(data))
    return out


def _add_series(
    names: Mapping[str, Wanted],
    out: Arrays,
    series: Mapping[str, list[Any]],
    tables: Mapping[str, Table],
    batch: int,
) -> None:
    """Adds values that are given as arrays, and the lengths of all sequences."""
    timed = [n for n in tables if example(names, n).timed]
    length = np.ones(batch, int)
    if timed:
        most = next(a.shape[1] for n, a in out.items() if n in names and names[n].timed)
        length = out.pop(LENGTH) if LENGTH in out else np.full(batch, most)
    own: dict[str, np.ndarray] = {}
    for name, values in series.items():
        want = names.get(name)
        if want is None:
            out[name] = values  # `prepare` says which names there are.
            continue
        if want.timed:
            own[name] = _lengths(want, values)
            length = np.maximum(length, own[name])
        out[name] = _padded(want, values)
    _refuse_short(own, length, timed)
    if not (timed or own):
        return
    most = int(length.max())
    for name, array in out.items():
        if name in names and names[name].timed:
            out[name] = _to_length(array, most)
    if (length < most).any() and LENGTH not in series:
        out[LENGTH] = length


def _refuse_short(own: Mapping[str, np.ndarray], length: np.ndarray, timed: Sequence[str]) -> None:
    """Arrays have an entry for each step of their sequence."""
    for name, counts in own.items():
        short = np.flatnonzero((counts != _UNKNOWN) & (counts < length))
        if short.size:
            b = int(short[0])
            if counts[b] == 0:
                raise DataError(f"{name} of sequence {b}: there is no step in it")
            other = next((n for n, c in own.items() if c[b] == length[b]), None)
            longer = other or f"the facts of {', '.join(timed)}"
            raise DataError(
                f"{name} of sequence {b} has {counts[b]} steps, and {longer} {length[b]}\n"
                "  = help: give an entry for each step; None says that it is not known"
            )


def _joined(names: Mapping[str, Wanted], name: str, values: Sequence[Any]) -> Table:
    """The facts of all sequences as one table."""
    want = example(names, name)
    own = [python_facts(name, facts or (), number) for number, facts in enumerate(values)]
    width = max((len(rows[0]) for rows in own if rows), default=0)
    # That something holds need not be written.
    implied = (True,) if isinstance(want.types[0], Bool) else ()
    rows = [
        (number, *r, *(implied if len(r) == width - 1 else ()))
        for number, rows in enumerate(own)
        for r in rows
    ]
    origin = in_turn(name, [len(rows) for rows in own])
    odd = next((i for i, r in enumerate(rows) if len(r) != width + 1), None)
    if odd is not None:
        raise DataError(f"{origin(odd)}: the facts differ in their number of arguments")
    if not rows:
        return Table(name, (), ())
    time = (TIME,) if want.timed else ()
    columns = (SEQUENCE, *time, *("",) * (width - len(time)))
    return Table(name, columns, rows, origin=origin)


_UNKNOWN = -1  # the number of entries of a sequence that has none


def _lengths(want: Wanted, values: Sequence[Any]) -> np.ndarray:
    for number, value in enumerate(values):
        if value is not None and not np.ndim(_shape_of(value)):
            raise DataError(
                f"{want.name} of sequence {number}: expected an entry for each step, received "
                f"{value!r:.80}"
            )
    return np.array([_UNKNOWN if v is None else len(v) for v in values])


def _shape_of(value: Any) -> Any:
    """Something with the number of axes of a value, which may be ragged."""
    return value if hasattr(value, "shape") else np.empty(len(value)) if _listed(value) else 0


def _listed(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _padded(want: Wanted, values: Sequence[Any]) -> Any:
    """The values of all sequences side by side; what a sequence lacks is missing."""
    arrays = [None if v is None else _own_array(want, number, v) for number, v in enumerate(values)]
    known = [a for a in arrays if a is not None]
    steps = max((len(a) for a in known), default=0) if want.timed else 0
    shapes = {a.shape[1:] if want.timed else a.shape for a in known}
    if len(shapes) != 1:
        shown = ", ".join(map(str, sorted(shapes))) or "none"
        raise DataError(f"{want}: the sequences differ in shape: {shown}")
    (inner,) = shapes
    shape = (steps, *inner) if want.timed else inner
    # Truths may be names; as numbers they would be the positions of others.
    named = any(isinstance(t, Enum) for t in want.types)
    if any(a.dtype == object or (named and a.dtype == bool) for a in known):
        out = np.full((len(values), *shape), None, object)
    else:
        fill: Any = 0.0 if want.tensor is not None and want.kind == "input" else np.nan
        out = np.full((len(values), *shape), fill)
    for number, array in enumerate(arrays):
        if array is not None:
            # `[()]`: a single object itself, not an array around it.
            out[(number, slice(len(array))) if want.timed else number] = array[()]
    return out if named or out.dtype != object else _numbers(out)


def _numbers(array: np.ndarray) -> np.ndarray:
    """Numbers and None as numbers and NaN; what has other entries stays."""
    if not all(v is None or isinstance(v, bool | int | float | np.number) for v in array.ravel()):
        return array
    try:
        return np.where(array == None, np.nan, array).astype(float)  # noqa: E711
    except OverflowError:  # a whole number beyond all reals, refused where it is read
        return array


def _own_array(want: Wanted, number: int, value: Any) -> np.ndarray:
    """The value of one sequence as an array, with NaN where it is masked."""
    try:
        array = np.asarray(value)
        array = array if array.dtype.kind in "biuf" else np.asarray(value, object)
    except ValueError:
        raise DataError(f"{want.name} of sequence {number}: the entries differ in shape") from None
    if isinstance(value, np.ma.MaskedArray):
        array = array.astype(object)
        array[np.ma.getmaskarray(value)] = None
    return array


def _to_length(array: Any, steps: int) -> Any:
    """An array with as many steps as the longest sequence has."""
    short = steps - array.shape[1]
    if short <= 0:
        return array
    fill = None if array.dtype == object else False if array.dtype == bool else np.nan
    rest = np.full((array.shape[0], short, *array.shape[2:]), fill, array.dtype)
    return np.concatenate([array, rest], axis=1)


# ---------------------------------------------------------------- a wide table


def _wide(names: Mapping[str, Wanted], table: Table) -> Arrays:
    """A table that has a column for each input and observation, and a row for each step."""
    out: dict[str, Table] = {}
    places = [c for c in table.columns if c in (SEQUENCE, TIME)]
    for name in table.columns:
        if name in places:
            continue
        if name not in names or names[name].axes or len(names[name].types) > 1:
            known = ", ".join(n for n, w in names.items() if not w.axes and len(w.types) == 1)
            raise DataError(
                f"{table.title}: the column {name} is no input or observation of "
                f"one value (there are: {known or 'none'})\n  = help: give what has keys or "
                f"several values as a table of its own: `{{{name!r}: table}}`"
            )
        kept = [c for c in places if names[name].timed or c != TIME]
        out[name] = table.picked(name, [table.columns.index(c) for c in (*kept, name)])
    return filled(names, out, None)


__all__ = ["as_arrays", "single"]
