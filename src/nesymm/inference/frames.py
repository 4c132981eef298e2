"""Results as data frames of pandas and as data sets of xarray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A data frame; the arguments of atoms stand before their probabilities."""
    pandas = _library("pandas")
    rows = list(rows)
    columns = list(dict.fromkeys(c for row in rows for c in row))
    if "probability" in columns:
        columns.remove("probability")
        columns.append("probability")
    return pandas.DataFrame(rows, columns=columns)


def dataset(answers: Answers) -> Any:
    """A data set with an array for each predicate over sequence, time and its arguments."""
    xarray = _library("xarray")
    found: dict[tuple[str, int], dict[tuple, np.ndarray]] = {}
    for name, rows in answers.items():
        predicate, terms, _ = answers.atoms[name]
        found.setdefault((predicate, len(terms)), {})[tuple(map(_plain, terms))] = rows
    arities: dict[str, int] = {}
    for predicate, _ in found:
        arities[predicate] = arities.get(predicate, 0) + 1
    arrays = {}
    for (predicate, arity), atoms in found.items():
        # Two predicates of one name are told apart by their number of arguments.
        label = predicate if arities[predicate] == 1 else f"{predicate}/{arity}"
        arrays[label] = _array(xarray, label, arity, atoms)
    return xarray.Dataset(arrays)


def arrays_dataset(arrays: Mapping[str, np.ndarray], lead: tuple[str, ...]) -> Any:
    """A data set of arrays that share their first dimensions."""
    xarray = _library("xarray")
    return xarray.Dataset({
        name: ((*lead, *(f"{name} {i + 1}" for i in range(a.ndim - len(lead)))), a)
        for name, a in arrays.items()
    })  # fmt: skip


def _array(xarray: Any, label: str, arity: int, atoms: Mapping[tuple, np.ndarray]) -> Any:
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
    coordinates = {
        "sequence": np.arange(shape[0]),
        "time": np.arange(shape[1]),
        **dict(zip(names, keys, strict=True)),
    }
    return xarray.DataArray(values, coordinates, ("sequence", "time", *names))


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise NesymmError(
            f"{name} is needed for this, and not installed\n  = help: `pip install 'nesymm[data]'`"
        ) from None
