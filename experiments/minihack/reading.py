"""Reads a file of the data format that somebody else may have written: mistakes are named."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from experiments.minihack.data import Dataset
from nesymm.errors import NesymmError

NAMES = tuple(field.name for field in fields(Dataset))
LARGEST = 255  # files hold bytes
# What NumPy raises where a file is damaged, encrypted, too large, or holds Python objects.
UNREADABLE = (
    *(OSError, EOFError, MemoryError, RuntimeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


class DataError(NesymmError):
    """A file that is not of the data format."""


def read(path: str | Path) -> Dataset:
    """The data set in a file, checked."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a file of the data format: it is no .npz file")
    given = _arrays(path)
    wrong = _shapes(given) or _values(given)
    if wrong:
        raise DataError(f"{path}: {'; '.join(wrong)}")
    return Dataset(**{**given, "grid": int(given["grid"]), "enemies": int(given["enemies"])})


def _arrays(path: str | Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            given = {name: file[name] for name in NAMES if name in file}
    except UNREADABLE as error:
        raise DataError(f"{path} is not a file of the data format: {error}") from None
    missing = [name for name in NAMES if name not in given]
    if missing:
        expected = ", ".join(NAMES)
        raise DataError(f"{path} lacks {', '.join(missing)}; expected the arrays {expected}")
    for name, array in given.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path}: {name}: expected an array, received other data")
    return given


def _shapes(given: dict[str, Any]) -> list[str]:
    """What is wrong with the shapes."""
    dead, hits = given["dead"].shape, given["hits"].shape
    if len(dead) != 1 or len(hits) != 2:
        return [f"expected dead [n] and hits [n, T], received dead {dead} and hits {hits}"]
    n, frames = dead[0], hits[1]
    shapes = {"actions": (n, frames - 1), "start": (n, 2), "hits": (n, frames)}
    wrong = [
        f"{name}: expected shape {shape}, received {given[name].shape}"
        for name, shape in {**shapes, "grid": (), "enemies": ()}.items()
        if given[name].shape != shape
    ]
    if not wrong and (n == 0 or frames < 2):
        wrong = [f"expected sequences of at least 2 frames, received {n} of {frames}"]
    return wrong


def _values(given: dict[str, Any]) -> list[str]:
    """What is wrong with the values. The shapes are right."""
    wrong = _outside(given, {"grid": (3, LARGEST), "enemies": (1, LARGEST)})
    if wrong:
        return wrong
    cells = (1, int(given["grid"]))
    wrong = _outside(given, {"actions": (0, 3), "start": cells, "hits": (0, 1), "dead": (0, 1)})
    if not wrong and given["hits"][:, 0].any():
        wrong = ["hits: expected 0 in the first frame, received 1"]
    return wrong


def _outside(given: dict[str, Any], ranges: dict[str, tuple[int, int]]) -> list[str]:
    """Which arrays are not of whole numbers in their range."""
    wrong = []
    for name, (low, high) in ranges.items():
        array = given[name]
        whole = np.issubdtype(array.dtype, np.integer) or array.dtype == bool
        if whole and low <= array.min() and array.max() <= high:
            continue
        received = f"{array.min()} to {array.max()} ({array.dtype})" if whole else array.dtype
        wrong.append(f"{name}: expected whole numbers {low} to {high}, received {received}")
    return wrong
