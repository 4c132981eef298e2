"""Arrays in .npz files: read with care, for files come from anywhere."""

from __future__ import annotations

import math
import tokenize
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np

from nesymm.errors import NesymmError

_BROKEN = (
    ValueError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, NotImplementedError,
    RuntimeError, BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip


def read_npz(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file. Python objects are not read, since they can be programs."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            try:
                archive = ZipFile(file)
            except (*_BROKEN,):
                raise _not_npz(path) from None
            with archive:
                return {n.removesuffix(".npy"): _array(path, archive, n) for n in _names(archive)}
    except OSError as error:
        raise NesymmError(f"cannot read `{path}`: {error.strerror or error}") from None


def _names(archive: ZipFile) -> list[str]:
    return [i.filename for i in archive.infolist() if not i.is_dir()]


def _array(path: Path, archive: ZipFile, entry: str) -> np.ndarray:
    name = entry.removesuffix(".npy")

    def refuse(why: Any) -> NesymmError:
        return NesymmError(f"`{path}`: cannot read the array {name}: {why}")

    if name == entry:
        raise NesymmError(f"`{path}`: {name} is not an array")
    try:
        with archive.open(entry) as file:
            shape, dtype = _header(file)  # type: ignore[arg-type]
            size = archive.getinfo(entry).file_size
        if dtype.hasobject:
            raise refuse("it holds Python objects; save numbers, truth values or texts")
        if math.prod(shape) * dtype.itemsize > size:
            # A header may claim anything; what it claims is allocated before it is read.
            raise refuse(f"it declares the shape {shape} and holds only {size:,} bytes")
        with archive.open(entry) as file:
            found = np.lib.format.read_array(file, allow_pickle=False)
    except _BROKEN as error:
        raise refuse(error) from None
    except MemoryError:
        raise refuse(f"its shape {shape} is too large for the memory of this machine") from None
    return np.asarray(found)


def _header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(file)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not known")
    try:
        shape, _, dtype = reader(file)
    except _BROKEN:
        # NumPy would show a tree of Python's, or advise to trust the file.
        raise ValueError(
            "its header is damaged or too long; it should say the type and the shape of numbers, "
            "as NumPy writes it"
        ) from None
    return shape, dtype


def _not_npz(path: Path) -> NesymmError:
    return NesymmError(
        f"`{path}` is not an .npz file\n  = help: write one with `numpy.savez(file, name=array, …)`"
    )
