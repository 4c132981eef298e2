"""Reads a file of the data format that somebody else may have written: mistakes are named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from experiments.minihack.data import Dataset, load
from nesymm.errors import NesymmError


class DataError(NesymmError):
    """A file that is not of the data format."""


def read(path: str | Path) -> Dataset:
    """The data set in a file, checked."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a file of the data format: it is no .npz file")
    try:
        data = load(Path(path))
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a file of the data format: {error}") from None
    for problem in _problems(data):
        raise DataError(f"{path}: {problem}")
    return data


def _problems(data: Dataset) -> list[str]:
    if data.dead.ndim != 1 or data.hits.ndim != 2:
        received = f"dead {data.dead.shape} and hits {data.hits.shape}"
        return [f"expected dead [n] and hits [n, T], received {received}"]
    n, frames = len(data.dead), data.hits.shape[1]
    shapes = {"actions": (n, frames - 1), "start": (n, 2), "hits": (n, frames)}
    wrong = [
        f"{name}: expected shape {shape}, received {getattr(data, name).shape}"
        for name, shape in shapes.items()
        if getattr(data, name).shape != shape
    ]
    if wrong or n == 0 or frames < 2:
        return wrong or [f"expected sequences of at least 2 frames, received {n} of {frames}"]
    if data.grid < 3 or data.enemies < 1:
        wrong.append(f"expected grid >= 3, enemies >= 1, received {data.grid}, {data.enemies}")
    ranges = {"actions": (0, 3), "start": (1, data.grid), "hits": (0, 1), "dead": (0, 1)}
    for name, (low, high) in ranges.items():
        array = getattr(data, name)
        whole = np.issubdtype(array.dtype, np.integer) or array.dtype == bool
        if not whole or array.min() < low or array.max() > high:
            received = f"{array.min()} to {array.max()} ({array.dtype})"
            wrong.append(f"{name}: expected whole numbers {low} to {high}, received {received}")
    if not wrong and data.hits[:, 0].any():
        wrong.append("hits: expected 0 in the first frame, received 1")
    return wrong
