"""Arrays from a file that somebody else may have written: mistakes are named."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nesymm import NesymmError

LARGEST = 255  # files hold bytes
# What NumPy raises where a file is damaged, encrypted, too large, or holds Python objects.
UNREADABLE = (
    *(OSError, EOFError, MemoryError, RuntimeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


class DataError(NesymmError):
    """A file that is not of the data format."""


def read_arrays(path: str | Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of these names in an .npz file, whatever their shapes. Nothing is unpickled."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a file of the data format: it is no .npz file")
    given, reading = {}, "its list of arrays"
    try:
        with np.load(path, allow_pickle=False) as file:
            for reading in set(names) & set(file):
                given[reading] = file[reading]
    except UNREADABLE as error:
        raise DataError(f"{path} is not a file of the data format: {reading}: {error}") from None
    missing = [name for name in names if name not in given]
    if missing:
        raise DataError(
            f"{path} lacks {', '.join(missing)}; expected the arrays {', '.join(names)}"
        )
    for name, array in given.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path}: {name}: expected an array, received other data")
    return given


def misshapen(given: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Which arrays are not of their shape."""
    return [
        f"{name}: expected shape {shape}, received {given[name].shape}"
        for name, shape in shapes.items()
        if given[name].shape != shape
    ]


def outside(given: Mapping[str, np.ndarray], ranges: Mapping[str, tuple[int, int]]) -> list[str]:
    """Which arrays are not of whole numbers in their range. None of them is empty."""
    wrong = []
    for name, (low, high) in ranges.items():
        array = given[name]
        whole = np.issubdtype(array.dtype, np.integer) or array.dtype == bool
        if whole and low <= array.min() and array.max() <= high:
            continue
        received = f"{array.min()} to {array.max()} ({array.dtype})" if whole else array.dtype
        wrong.append(f"{name}: expected whole numbers {low} to {high}, received {received}")
    return wrong
