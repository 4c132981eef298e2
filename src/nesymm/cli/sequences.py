"""`nesymm filter`: sequences read from a file, and what a filter finds in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import typer

from nesymm.errors import NesymmError
from nesymm.inference.columns import DataError
from nesymm.inference.data import wanted
from nesymm.inference.findings import Findings, findings
from nesymm.inference.methods import Method
from nesymm.ir.types import Enum
from nesymm.model import Model


def filter_arrays(
    model: Model,
    arrays: dict[str, np.ndarray],
    data: Path,
    method: Method,
    seed: int,
    steps: int | None,
) -> Findings:
    """Filter the arrays of a file."""
    refuse_unfit(model, arrays, data)
    try:
        found = model.filter(arrays, method=method, steps=steps, key=seed, errors="keep")
    except DataError as error:
        raise DataError(f"`{data}`: {error}") from None
    return findings(found)


def conclude(found: Findings) -> None:
    """Name the sequences that failed; if all did, that is the exit code."""
    failed = found.failed()
    if failed:
        typer.echo(failed, err=True)
    if all(s.error is not None for s in found.sequences):
        raise typer.Exit(2)


def refuse_unfit(model: Model, arrays: Mapping[str, np.ndarray], data: Path) -> None:
    """All that the program reads must be there, and be numbers or names."""
    expected = wanted(model.step)
    for name, want in expected.items():
        if name not in arrays:
            raise NesymmError(
                f"`{data}` has no array for the {want.kind} {name} "
                f"(it has: {', '.join(arrays) or 'none'})\n"
                "  = help: an array of NaN says that nothing is known"
            )
    for name, array in arrays.items():
        # An axis of entities may have none.
        lead = 2 if name not in expected or expected[name].timed else 1
        if 0 in array.shape[:lead]:
            raise NesymmError(f"`{data}`: {name} is empty, its shape is {array.shape}")
        names = name in expected and all(isinstance(t, Enum) for t in expected[name].types)
        if array.dtype.kind not in ("biufUO" if names else "biuf"):
            raise NesymmError(
                f"`{data}`: {name}: expected numbers or {'names' if names else 'truth values'}, "
                f"received an array of {array.dtype}"
            )
