"""Results as data frames of pandas and as data sets of xarray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.answers import Answers
from nesymm.language.program import At

Row = dict[str, Any]


def rows_over_time(answers: Answers) -> Iterator[Row]:
    """A row for each sequence, step and atom; where it is not asked there is none."""
    for name, rows in answers.items():
        about = _about(answers, name)
        for (b, t), p in np.ndenumerate(rows):
            if not np.isnan(p):
                yield {"sequence": b, "time": t, **about, "probability": float(p)}


def rows_at_once(answers: Answers, last: np.ndarray) -> Iterator[Row]:
    """A row for each sequence and atom that is asked about one step."""
    for name, column in answers.items():
        about, when = _about(answers, name), answers.atoms[name][2]
        for b, p in enumerate(column):
            if not np.isnan(p):
                time = when.index if isinstance(when, At) else int(last[b])
                yield {"sequence": b, "time": time, **about, "probability": float(p)}


def _about(answers: Answers, name: str) -> Row:
    predicate, terms, _ = answers.atoms[name]
    arguments = {f"argument {i + 1}": _plain(t) for i, t in enumerate(terms)}
    return {"atom": name, "predicate": predicate, **arguments}


def _plain(term: Any) -> Any:
    return term if isinstance(term, int | float | str) else str(term)


def frame(rows: Iterable[Mapping[str, Any]], names: Sequence[Any] | None = None) -> Any:
    """A data frame; the arguments of atoms stand before their probabilities. `names` are those of
    the sequences, if they have names."""
    pandas = _library("pandas")
    rows = list(rows)
    if names is not None:
        rows = [{**row, "sequence": names[row["sequence"]]} for row in rows]
    columns = list(dict.fromkeys(c for row in rows for c in row))
    if "probability" in columns:
        columns.remove("probability")
        columns.append("probability")
    return pandas.DataFrame(rows, columns=columns)


def dataset(
    answers: Answers, names: Sequence[Any] | None = None, at_once: Answers | None = None
) -> Any:
    """A data set with an array for each predicate over sequence, time and its arguments. Those of
    `at_once` are about one step, and have no time."""
    xarray = _library("xarray")
    found: dict[tuple[str, int, str], dict[tuple, np.ndarray]] = {}
    for some in (answers, at_once or Answers()):
        for name, rows in some.items():
            predicate, terms, when = some.atoms[name]
            # A predicate may be asked at every step, and about one.
            about = "" if some is answers else name.rpartition("@")[2] if when else "once"
            group = found.setdefault((predicate, len(terms), about), {})
            group[tuple(map(_plain, terms))] = rows
    arrays = {}
    for (predicate, arity, about), atoms in found.items():
        # Two predicates of one name are told apart by their number of arguments.
        others = {a for p, a, _ in found if p == predicate}
        label = predicate if len(others) == 1 else f"{predicate}/{arity}"
        if about and sum(p == predicate and a == arity for p, a, _ in found) > 1:
            label = f"{label}@{about}"
        arrays[label] = _array(xarray, label, arity, atoms, names)
    return xarray.Dataset(arrays)


def arrays_dataset(
    arrays: Mapping[str, tuple[np.ndarray, Sequence[Sequence[Any]]]],
    lead: Mapping[str, Sequence[Any]],
) -> Any:
    """A data set of arrays that share their first dimensions, `lead`; beside each array stand the
    keys along its next ones."""
    xarray = _library("xarray")
    out = {}
    for name, (array, keys) in arrays.items():
        dims = [f"{name} {i + 1}" for i in range(array.ndim - len(lead))]
        coordinates = dict(lead)
        coordinates |= {d: list(map(_plain, k)) for d, k in zip(dims, keys, strict=False)}
        out[name] = xarray.DataArray(array, coordinates, (*lead, *dims))
    return xarray.Dataset(out)


def history_dataset(history: Sequence[Mapping[str, float]]) -> Any:
    """A data set with an array over epochs for each number that was watched."""
    xarray = _library("xarray")
    names = dict.fromkeys(n for row in history for n in row if n != "epoch")
    epochs = [int(row["epoch"]) for row in history]
    return xarray.Dataset(
        {n: ("epoch", [row.get(n, np.nan) for row in history]) for n in names},
        {"epoch": epochs},
    )


def _array(
    xarray: Any,
    label: str,
    arity: int,
    atoms: Mapping[tuple, np.ndarray],
    sequences: Sequence[Any] | None,
) -> Any:
    keys = [list(dict.fromkeys(terms[i] for terms in atoms)) for i in range(arity)]
    shape = next(iter(atoms.values())).shape
    values = np.zeros((*shape, *map(len, keys)))
    asked = ~np.isnan(np.stack(list(atoms.values()))).all(0)
    values[~asked] = np.nan
    for place in product(*(range(len(k)) for k in keys)):
        terms = tuple(k[i] for k, i in zip(keys, place, strict=True))
        if terms in atoms:
            at: Any = (..., *place)
            values[at] = atoms[terms]
    names = [f"{label} {i + 1}" for i in range(arity)]
    lead = ("sequence", "time")[: len(shape)]
    coordinates = {
        **{d: np.arange(n) for d, n in zip(lead, shape, strict=True)},
        **dict(zip(names, keys, strict=True)),
    }
    if sequences is not None:
        coordinates["sequence"] = list(sequences)
    return xarray.DataArray(values, coordinates, (*lead, *names))


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise NesymmError(
            f"{name} is needed for this, and not installed\n  = help: `pip install 'nesymm[data]'`"
        ) from None
