"""`nesymm show`: the compiled transition as text, and as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nesymm.cli.output import print_parts, reporting, text
from nesymm.cli.reading import compile_files
from nesymm.draw import FORMATS, both, render
from nesymm.errors import NesymmError
from nesymm.ir.graphical_model import graph_of
from nesymm.ir.step import StepProgram


def show(files: Sequence[Path], const: Sequence[str], graph: Path | None, unroll: int) -> None:
    with reporting():
        if graph is not None and graph.suffix.lower()[1:] not in FORMATS:
            names = ", ".join(f".{form}" for form in FORMATS[:-1])
            raise NesymmError(
                f"cannot draw to `{graph}`: the name must end in {names} or .{FORMATS[-1]}"
            )
        _, step = compile_files(files, const)
        _print_step(step)
        if graph is not None:
            _draw(step, files[0].stem, graph, unroll)


def _print_step(step: StepProgram) -> None:
    """As `str` writes it; a terminal gets bold headings."""
    lines = str(step).splitlines()
    print_parts(*(text(line, "" if line.startswith(" ") else "bold") for line in lines))


def _draw(step: StepProgram, title: str, path: Path, steps: int) -> None:
    drawing = render(both(graph_of(step, title), steps), path.suffix.lower()[1:])
    try:
        path.write_bytes(drawing)
    except OSError as error:
        raise NesymmError(f"cannot write `{path}`: {error.strerror}") from None
    typer.echo(f"wrote {path}", err=True)
