"""The arrays of a file for a model: those that it reads, and labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import typer

from nesymm.errors import NesymmError
from nesymm.inference.data import LENGTH, Arrays, sequences_of, wanted
from nesymm.inference.data_files import read_file
from nesymm.model import Model
from nesymm.training.objectives import read_labels

_NONE: Mapping[str, bool] = MappingProxyType({})


def read_data(
    model: Model, path: Path, labels: Mapping[str, bool] = _NONE
) -> tuple[Arrays, dict[str, np.ndarray]]:
    """What the model reads (with the lengths), and the labels, which have a truth for each step or
    for each sequence. The rest is named and left out."""
    arrays = read_file(model.step, path, labels)
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
    return Arrays({n: a for n, a in arrays.items() if n in read}, sequences_of(arrays)), truths
