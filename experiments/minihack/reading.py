"""Reads a file of the data format that somebody else may have written: mistakes are named."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from experiments.minihack.arrays import DataError, misshapen, outside, read_arrays
from experiments.minihack.data import Dataset

# More would take more memory and time than an answer is worth.
MOST_CELLS = 60  # along a room
MOST_ENEMIES = 8

NAMES = tuple(field.name for field in fields(Dataset))


def read(path: str | Path) -> Dataset:
    """The data set in a file, checked."""
    given: dict[str, Any] = read_arrays(path, NAMES)
    wrong = _shapes(given) or _values(given)
    if wrong:
        raise DataError(f"{path}: {'; '.join(wrong)}")
    return Dataset(**{**given, "grid": int(given["grid"]), "enemies": int(given["enemies"])})


def _shapes(given: dict[str, Any]) -> list[str]:
    """What is wrong with the shapes."""
    dead, hits = given["dead"].shape, given["hits"].shape
    if len(dead) != 1 or len(hits) != 2:
        return [f"expected dead [n] and hits [n, T], received dead {dead} and hits {hits}"]
    n, frames = dead[0], hits[1]
    shapes = {"actions": (n, frames - 1), "start": (n, 2), "hits": (n, frames)}
    wrong = misshapen(given, {**shapes, "grid": (), "enemies": ()})
    if not wrong and (n == 0 or frames < 2):
        wrong = [f"expected sequences of at least 2 frames, received {n} of {frames}"]
    return wrong


def _values(given: dict[str, Any]) -> list[str]:
    """What is wrong with the values. The shapes are right."""
    wrong = outside(given, {"grid": (3, MOST_CELLS), "enemies": (1, MOST_ENEMIES)})
    if wrong:
        return wrong
    cells = (1, int(given["grid"]))
    wrong = outside(given, {"actions": (0, 3), "start": cells, "hits": (0, 1), "dead": (0, 1)})
    if not wrong and given["hits"][:, 0].any():
        wrong = ["hits: expected 0 in the first frame, received 1"]
    return wrong
