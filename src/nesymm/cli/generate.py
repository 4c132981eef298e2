"""`nesymm generate`: trajectories as tables of atoms, as JSON, and as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType

from nesymm.cli.data import read_data
from nesymm.cli.model_files import open_over_time
from nesymm.cli.output import print_json, print_parts, reporting, text
from nesymm.inference.columns import DataError
from nesymm.inference.findings import plain_name
from nesymm.inference.methods import parse_method
from nesymm.inference.trajectories import Trajectories

# How much is shown of what may be long; `--json` has everything.
SEQUENCES = 3
TRAJECTORIES = 5


def generate(
    model_file: Path,
    count: int,
    steps: int | None,
    data: Path | None,
    const: Sequence[str],
    extend: Sequence[Path],
    seed: int,
    json: bool,
    plot: Path | None,
    method: str,
    particles: int | None,
    networks: str | None,
) -> None:
    with reporting(json):
        if plot is not None:
            from nesymm.plots.figures import refuse_unwritable

            refuse_unwritable(plot)
        chosen = parse_method(method, particles)
        files = [model_file, *extend]
        model = open_over_time(files, const, networks, ", so it has no trajectories")
        arrays, _ = ({}, {}) if data is None else read_data(model, data)
        try:
            found = model.generate(arrays, count, method=chosen, steps=steps, key=seed)
        except DataError as error:
            raise DataError(str(error) if data is None else f"`{data}`: {error}") from None
        if json:
            print_json({"sequences": [_sequence(found, i) for i in range(len(found.lengths))]})
        else:
            print_parts(*_tables(found))
        if plot is not None:
            from nesymm.plots.figures import save
            from nesymm.plots.trajectories import draw

            save(draw(found, model_file.stem), plot)
            typer.echo(f"wrote {plot}", err=True)


def _sequence(found: Trajectories, sequence: int) -> dict[str, Any]:
    name = {} if found.names is None else {"sequence": plain_name(found.names[sequence])}
    return name | {"trajectories": [_trajectory(found, sequence, i) for i in range(found.count)]}


def _trajectory(found: Trajectories, sequence: int, trajectory: int) -> dict[str, Any]:
    steps = range(int(found.lengths[sequence]))
    atoms = [found.atoms(sequence, trajectory, step) for step in steps]
    return {
        "steps": [[atom.rpartition("@")[0] for atom in row] for row in atoms],
        "queries": _answers(found, sequence, trajectory),
    }


def _answers(found: Trajectories, sequence: int, trajectory: int) -> dict[str, bool]:
    """The truth of queries about one step; those at every step are among the atoms."""
    return {
        name: bool(array[sequence, trajectory])
        for name, array in found.asked.items()
        if array.ndim == 2
    }


def _tables(found: Trajectories) -> Iterator[RenderableType]:
    batch = len(found.lengths)
    for i in range(min(batch, SEQUENCES)):
        for j in range(min(found.count, TRAJECTORIES)):
            of = f"sequence {found.names[i] if found.names else i}, " if batch > 1 else ""
            yield text(f"{of}trajectory {j}", "bold")
            yield text(found.table(i, j))
            true = [name for name, holds in _answers(found, i, j).items() if holds]
            if true:
                yield text(f" end  {', '.join(true)}")
            yield ""
    total = batch * found.count
    shown = min(batch, SEQUENCES) * min(found.count, TRAJECTORIES)
    if shown < total:
        yield text(f"not shown: {total - shown} more trajectories (--json has everything)")
