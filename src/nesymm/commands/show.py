"""`nesymm show`: the compiled transition as text, and as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nesymm.commands.output import print_parts, reporting, text
from nesymm.commands.reading import compile_files
from nesymm.compiler.step import StepProgram
from nesymm.errors import NesymmError


def show(files: Sequence[Path], const: Sequence[str], graph: Path | None, unroll: int) -> None:
    with reporting():
        if graph is not None and graph.suffix.lower() != ".svg":
            raise NesymmError(
                f"cannot draw to `{graph}`: the drawing is SVG, so name it `{graph.stem}.svg`"
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
    from nesymm.draw import both_svg
    from nesymm.graph import graph_of

    svg = both_svg(graph_of(step, title), steps)
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise NesymmError(f"cannot write `{path}`: {error.strerror}") from None
    typer.echo(f"wrote {path}", err=True)
