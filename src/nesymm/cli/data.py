"""The arrays of a file for a model: those that it reads, and labels."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import typer

from nesymm.errors import NesymmError
from nesymm.inference.data import LENGTH, wanted
from nesymm.inference.data_files import read_file
from nesymm.model import Model
from nesymm.training.objectives import read_labels


def read_data(
    model: Model, path: Path, labels: Collection[str] = ()
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What the model reads (with the lengths), and the labels. The rest is named and left out."""
    arrays = read_file(model.step, path)
    read = {*wanted(model.step), LENGTH}
    truths = {}
    for name in labels:
        if name not in arrays:
            has = ", ".join(arrays) or "none"
            raise NesymmError(f"`{path}` has no labels {name} (it has: {has})")
        try:
            truths[name] = read_labels(name, arrays[name])
        except NesymmError as error:
            raise NesymmError(f"`{path}`: {error}") from None
    unread = [n for n in arrays if n not in read and n not in truths]
    if unread:
        typer.echo(f"`{path}`: not read: {', '.join(unread)}", err=True)
    return {n: a for n, a in arrays.items() if n in read}, truths
