"""Tables of facts: a row per fact, and where each row comes from.

The columns are `sequence` and `time`, where they matter, then the keys and the values of a
predicate in the order of its arguments. Data frames are tables, and so are facts in Python and in
files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.inference.columns import DataError, is_missing

SEQUENCE, TIME = "sequence", "time"


@dataclass(frozen=True)
class Table:
    """Rows of facts: `columns` are their names, `origin` says of a row where it comes from. A table
    without columns is that of a predicate about which there are no facts."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    source: str = ""
    origin: Callable[[int], str] | None = None

    def where(self, row: int, column: int | None = None) -> str:
        """A row in words, and its column if it has a name."""
        place = self.origin(row) if self.origin else f"{self.title}, row {row}"
        named = column is not None and self.columns[column]
        return f"{place}, column {self.columns[column]}" if named else place  # type: ignore[index]

    @property
    def title(self) -> str:
        return self.source or self.name

    def place(self, name: str) -> int | None:
        """Where a column stands, if there is one of this name."""
        return self.columns.index(name) if name in self.columns else None

    def picked(self, name: str, columns: Sequence[int]) -> Table:
        """A table of some of the columns; what is in several rows alike is listed once."""
        first: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(self.rows):
            first.setdefault(tuple(None if is_missing(row[i]) else row[i] for i in columns), number)
        numbers = list(first.values())
        return Table(
            name,
            tuple(self.columns[i] for i in columns),
            list(first),
            self.source,
            lambda row: self.where(numbers[row]),
        )


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
        rows = whole.rows()
    except TypeError as error:
        raise DataError(f"{name}: expected an array or a data frame: {error}") from None
    except Exception as error:  # Each library of data frames has errors of its own.
        raise DataError(f"{name}: the data frame cannot be read: {error}") from None
    columns = tuple(map(str, whole.columns))
    if len(set(columns)) < len(columns):
        raise DataError(f"{name}: the columns need names that differ: {', '.join(columns)}")
    return Table(name, columns, rows)


def python_facts(name: str, facts: Any, number: int | None = None) -> list[tuple[Any, ...]]:
    """Facts in Python as rows; a lone key need be no tuple."""
    rows = [f if isinstance(f, tuple) else (f,) for f in facts]
    widths = {len(r) for r in rows}
    if len(widths) > 1:
        shown = ", ".join(map(str, sorted(widths)))
        about = "" if number is None else f" of sequence {number}"
        raise DataError(f"{name}: the facts{about} differ in their number of arguments: {shown}")
    return rows


def in_turn(name: str, counts: Sequence[int]) -> Callable[[int], str]:
    """Where rows come from that are the facts of one sequence after the other."""
    ends = np.cumsum(counts).tolist()

    def where(row: int) -> str:
        sequence = bisect_right(ends, row)
        first = ends[sequence - 1] if sequence else 0
        of = f" of sequence {sequence}" if len(ends) > 1 else ""
        return f"{name}{of}, row {row - first}"

    return where


def is_whole(value: Any) -> bool:
    """Whole numbers may come as real ones, from a column in which some are missing."""
    if isinstance(value, float | np.floating):
        return float(value).is_integer()
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
