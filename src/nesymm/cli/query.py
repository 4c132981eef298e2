"""`nesymm query`: answers as a list or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from nesymm.cli.answers import answer, rows
from nesymm.cli.model_files import open_model
from nesymm.cli.output import print_json, print_parts, reporting, text


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
        model = open_model(files, const, networks)
        result = answer(model, method, samples, particles, seed, steps)
        reason = result.pop("reason")
        if json:
            print_json(result)
            return
        found = rows(result)
        width = max((len(name) for name, _ in found), default=0)
        print_parts(*(text(f"{name:>{width}}:  {value}") for name, value in found))
        typer.echo(f"({result['method']}: {reason})", err=True)
