"""`nesymm filter`: follow sequences of data; tables, JSON, and a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nesymm.cli.model_files import open_over_time
from nesymm.cli.output import print_json, print_parts, reporting
from nesymm.cli.sequences import conclude, filter_arrays
from nesymm.inference.data_files import read_file
from nesymm.inference.methods import parse_method


def filter_data(
    files: Sequence[Path],
    data: Path,
    const: Sequence[str],
    json: bool,
    method: str,
    particles: int | None,
    seed: int,
    steps: int | None,
    networks: str | None,
    plot: Path | None,
) -> None:
    with reporting(json):
        if plot is not None:
            from nesymm.plots.figures import refuse_unwritable

            refuse_unwritable(plot)
        chosen = parse_method(method, particles)
        model = open_over_time(files, const, networks, "; `nesymm query` answers it")
        found = filter_arrays(model, read_file(model.step, data), data, chosen, seed, steps)
        if json:
            print_json(found.as_json())
        else:
            from nesymm.cli.sequence_tables import tables

            print_parts(*tables(found))
            typer.echo(f"({found.method}: {found.reason})", err=True)
        if plot is not None:
            from nesymm.plots.figures import save
            from nesymm.plots.sequences import draw

            save(draw(found, files[0].stem), plot)
            typer.echo(f"wrote {plot}", err=True)
        conclude(found)
