"""Data in files: arrays, tables and facts, or a folder of these."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nesymm.errors import NesymmError, ProgramError
from nesymm.inference.columns import DataError, Wanted
from nesymm.inference.data import Arrays, wanted
from nesymm.inference.fact_tables import SEQUENCE, TIME, Table, table_of
from nesymm.inference.facts import as_arrays, single
from nesymm.inference.filling import filled
from nesymm.inference.npz import read_npz
from nesymm.ir.step import StepProgram
from nesymm.ir.symbols import is_ground
from nesymm.ir.terms import compile_term
from nesymm.ir.types import BOOL
from nesymm.language.parser import read
from nesymm.language.terms import Num, Struct, Term

# Arrays by name, a list of facts for each sequence, a data frame, or a file of these.
AnyData = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | PathLike[str] | Any

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

_NONE: Mapping[str, bool] = MappingProxyType({})

_TABLES = (".csv", ".parquet")
_KINDS = ".npz, .csv, .parquet or .json, or a folder of tables or of facts (.pl)"


def arrays_of(step: StepProgram, data: Any, labels: Mapping[str, bool] = _NONE) -> Any:
    """Data in any of their forms, files too, as arrays by name. `labels` are truths that go with
    the data: whether each has one for every step, or one for every sequence."""
    if isinstance(data, str | PathLike):
        return read_file(step, data, labels)
    return as_arrays(_expected(step, labels), data)


def world_of(step: StepProgram, data: Any) -> Any:
    """The same for a program without time, whose data are those of one world."""
    names = wanted(step)
    return single(names, read_file(step, data) if isinstance(data, str | PathLike) else data)


def _expected(step: StepProgram, labels: Mapping[str, bool]) -> dict[str, Wanted]:
    """What the program reads, and labels."""
    more = {n: Wanted(n, "label", timed, (BOOL,)) for n, timed in labels.items()}
    return {**more, **wanted(step)}


def read_file(
    step: StepProgram, path: str | PathLike[str], labels: Mapping[str, bool] = _NONE
) -> Any:
    """The arrays of a file or folder; `labels` as in `arrays_of`.

    A table whose file is called after a predicate lists facts of it; any other has a column for
    each input and observation without keys. A folder holds tables, or a file of facts for each
    sequence.
    """
    path, names = Path(path), _expected(step, labels)
    if path.is_dir():
        return _folder(names, path)
    try:
        return _of_kind(names, path)
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"`{path}`: {error}") from None


def _of_kind(names: Mapping[str, Wanted], path: Path) -> Any:
    """The arrays of a file."""
    kind = path.suffix.lower()
    if kind in _TABLES:
        table = _table(path)
        return as_arrays(names, {path.stem: table} if _is_read(names, path.stem) else table)
    if kind == ".json":
        return as_arrays(names, _json(names, path))
    if kind == ".npz":
        return Arrays(read_npz(path))
    if kind == ".pl":
        return filled(names, _tables_of_facts([path]), 1)
    raise NesymmError(f"`{path}`: expected data in {_KINDS}")


def _is_read(names: Mapping[str, Wanted], name: str) -> bool:
    """Whether a program reads something of this name."""
    return any(n == name or n.startswith(f"{name}(") for n in names)


def _folder(names: Mapping[str, Wanted], path: Path) -> Any:
    files = sorted(f for f in path.iterdir() if f.suffix.lower() in (*_TABLES, ".pl"))
    kinds = {f.suffix.lower() for f in files}
    if not files:
        raise NesymmError(f"`{path}` has no table (.csv, .parquet) and no facts (.pl)")
    if ".pl" in kinds and len(kinds) > 1:
        raise NesymmError(f"`{path}` has tables and facts; give one or the other")
    if ".pl" in kinds:
        return filled(names, _tables_of_facts(files), len(files))
    return as_arrays(names, {f.stem: _table(f) for f in files})


# ---------------------------------------------------------------- tables


def _table(path: Path) -> Table:
    return _csv(path) if path.suffix.lower() == ".csv" else _parquet(path)


def _csv(path: Path) -> Table:
    """Numbers, true and false are read as such, and what is empty as missing."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            title = tuple(c.strip() for c in next(lines, ()))
            rows, numbers, began = [], [], lines.line_num
            for line in lines:
                before, began = began, lines.line_num
                if not line:
                    continue
                if len(line) != len(title):
                    raise DataError(
                        f"`{path}`, line {lines.line_num}: expected {len(title)} columns "
                        f"({', '.join(title)}), received {len(line)}"
                    )
                rows.append(tuple(_cell(c.strip()) for c in line))
                numbers.append(before + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise NesymmError(f"`{path}` is no table of comma-separated values: {error}") from None
    if not title:
        raise NesymmError(f"`{path}` is empty; its first line names the columns")
    if len(set(title)) < len(title) or "" in title:
        raise NesymmError(f"`{path}`: the columns need names that differ: {', '.join(title)}")
    return Table(path.stem, title, rows, f"`{path}`", lambda row: f"`{path}`, line {numbers[row]}")


def _cell(text: str) -> Any:
    """Numbers, true and false are read as such; what is empty, or NaN, is missing."""
    if not text:
        return None
    known = {"true": True, "false": False, "nan": None}
    if text.lower() in known:
        return known[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


def _parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError:
        raise NesymmError(
            "pyarrow is needed for Parquet files\n  = help: `pip install 'nesymm[data]'`"
        ) from None
    try:
        frame = read_table(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise NesymmError(f"`{path}` is no Parquet file: {reason}") from None
    table = table_of(path.stem, frame)
    return replace(table, source=f"`{path}`")


# ---------------------------------------------------------------- facts


def _json(names: Mapping[str, Wanted], path: Path) -> Any:
    """Arrays by name, or a list of a dictionary for each sequence, whose lists are facts where
    something has keys."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, object_pairs_hook=_each_once)
    except OSError as error:
        raise _unreadable(path, error) from None
    except DataError:
        raise
    except ValueError as error:
        raise NesymmError(f"`{path}` is not JSON: {error}") from None
    except RecursionError:
        raise NesymmError(f"`{path}`: its lists are nested too deeply") from None
    if isinstance(data, dict):
        return {name: _array(path, name, value) for name, value in data.items()}
    if not isinstance(data, list):
        raise DataError(f"`{path}`: expected arrays by name, or a list of facts for each sequence")
    keyed = {n for n, w in names.items() if w.axes}
    return [
        {n: _as_facts(v) if n in keyed else v for n, v in d.items()} if isinstance(d, dict) else d
        for d in data
    ]


def _as_facts(value: Any) -> Any:
    """Lists as facts: JSON has no tuples."""
    if not isinstance(value, list):
        return value
    return [tuple(f) if isinstance(f, list) else f for f in value]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise DataError(f"{name} is given twice")
        found[name] = value
    return found


def _array(path: Path, name: str, value: Any) -> np.ndarray:
    """Lists within lists as an array; null is missing."""
    try:
        np.asarray(value, None if isinstance(value, list) else object)
        array = np.asarray(value, object)
    except ValueError:
        raise DataError(
            f"`{path}`: {name}: the lists differ in length; pad them with null, and give `length`"
        ) from None
    missing = any(v is None for v in array.ravel())
    # Truths beside others stay what they are: they may be names.
    mixed = {isinstance(v, bool) for v in array.ravel()} == {True, False}
    if mixed or any(isinstance(v, str | dict) for v in array.ravel()):
        return array
    return array.astype(float) if missing else np.asarray(value)


def _tables_of_facts(files: list[Path]) -> dict[str, Table]:
    """The facts of one file for each sequence, by predicate; their times are those of atoms."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    columns: dict[str, tuple[str, ...]] = {}
    origins: dict[str, list[str]] = {}
    for number, path in enumerate(files):
        for statement in _statements(path):
            place = f"`{path}`, line {statement.span.line if statement.span else 1}"
            time: tuple[Any, ...] = ()
            match statement:
                case Struct("@", (Struct() as atom, Num(int(at)))):
                    time = (at,)
                case Struct() as atom:
                    pass
                case _:
                    atom = Struct(":-")
            if atom.functor in ("not", "\\+"):
                line = statement.span.line if statement.span else 1
                raise DataError(
                    f"`{path}`, line {line}: expected a fact, received a negation\n"
                    "  = help: what is observed not to hold is `door(north, false)@3.`, beside "
                    "`door(south, true)@3.`; an input that is not listed is false"
                )
            terms = tuple(compile_term(a, {}, lambda: 0) for a in atom.args)
            if atom.functor in (":-", "::", "~", ";", "@") or not all(map(is_ground, terms)):
                raise DataError(
                    f"{place}: expected a fact without variables, as `edge(a, b).` "
                    "or `door(north)@3.`"
                )
            lead = (SEQUENCE, TIME) if time else (SEQUENCE,)
            title = (*lead, *("",) * len(terms))
            if columns.setdefault(atom.functor, title) != title:
                raise DataError(
                    f"{place}: {atom.functor} has other arguments, or a time, in other facts"
                )
            rows.setdefault(atom.functor, []).append((number, *time, *terms))
            origins.setdefault(atom.functor, []).append(place)
    return {
        n: Table(n, columns[n], found, f"facts of {n}", origins[n].__getitem__)
        for n, found in rows.items()
    }


def _statements(path: Path) -> tuple[Term, ...]:
    try:
        return read(path).statements
    except ProgramError as error:
        if set(error.codes) == {"E002"}:
            return ()  # a sequence about which there are no facts
        raise


def _unreadable(path: Path, error: OSError) -> NesymmError:
    return NesymmError(f"cannot read `{path}`: {error.strerror or error}")
