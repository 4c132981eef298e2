"""`nesymm query`: answers as a list or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nesymm.cli.answers import answer, rows
from nesymm.cli.output import print_json, print_parts, reporting, text
from nesymm.cli.reading import read_constants, read_programs


def query(
    files: Sequence[Path],
    const: Sequence[str],
    json: bool,
    steps: int | None,
    method: str,
    samples: int | None,
    particles: int | None,
    seed: int,
    networks: str | None,
) -> None:
    with reporting(json):
        programs = read_programs(files)
        constants = read_constants(const)
        result = answer(programs, constants, networks, method, samples, particles, seed, steps)
        reason = result.pop("reason")
        if json:
            print_json(result)
            return
        found = rows(result)
        width = max((len(name) for name, _ in found), default=0)
        print_parts(*(text(f"{name:>{width}}:  {value}") for name, value in found))
        typer.echo(f"({result['method']}: {reason})", err=True)
