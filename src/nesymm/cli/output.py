"""What the commands print, on which stream, and with which exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from json import dumps
from typing import TYPE_CHECKING, Any

import typer

from nesymm.errors import Diagnostic, NesymmError, NesymmWarning, ProgramError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


@contextmanager
def reporting(json: bool = False) -> Iterator[None]:
    """Run a command; turn our own errors and warnings, and only those, into messages."""
    try:
        with _warnings_as_notes():
            yield
        sys.stdout.flush()
    except NesymmError as error:
        (_json_mistakes if json else _print_mistakes)(error)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        # Whoever reads our output has seen enough. The interpreter flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print our own warnings, one of each kind: a command may filter several times."""
    kinds: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", NesymmWarning)
        others = warnings.showwarning

        def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
            if not isinstance(message, NesymmWarning):
                others(message, *args, **kwargs)
            elif message.kind not in kinds:
                kinds.add(message.kind)
                print_notes(f"note: {message}")

        warnings.showwarning = show
        yield


def _print_mistakes(error: NesymmError) -> None:
    if not isinstance(error, ProgramError):
        typer.echo(f"error: {error}", err=True)
        return
    typer.echo("\n\n".join(d.render() for d in error.diagnostics), err=True)
    count = len(error.diagnostics)
    if count > 1:
        typer.echo(f"\n{count} mistakes", err=True)


def _json_mistakes(error: NesymmError) -> None:
    found = error.diagnostics if isinstance(error, ProgramError) else ()
    rows = [json_diagnostic(d) for d in found] or [{"code": None, "message": str(error)}]
    print_json({"ok": False, "diagnostics": rows})


def json_diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    span = diagnostic.span
    row: dict[str, Any] = {"code": diagnostic.code, "message": diagnostic.message}
    if span is not None:
        end_line, end_column = span.source.position(span.end)
        row |= {"file": span.source.name, "line": span.line, "column": span.column}
        row |= {"end_line": end_line, "end_column": end_column}
    return row | {"notes": list(diagnostic.notes), "help": diagnostic.cure}


# ---------------------------------------------------------------- printing


def print_notes(*notes: str) -> None:
    """What one should know besides the answers."""
    for note in notes:
        typer.echo(f"\n{note}", err=True)


def print_json(value: Any) -> None:
    typer.echo(dumps(value, indent=2, ensure_ascii=False))


def print_parts(*parts: RenderableType) -> None:
    """In colour on a terminal. Elsewhere plain, as wide as it is, without trailing blanks."""
    from rich.console import Console

    if sys.stdout.isatty():
        console = Console(highlight=False)
        for part in parts:
            console.print(part, soft_wrap=True)
        return
    plain = Console(file=StringIO(), highlight=False, width=10_000, color_system=None)
    for part in parts:
        plain.print(part, soft_wrap=True)
    written = plain.file.getvalue()  # type: ignore[attr-defined]
    typer.echo("\n".join(line.rstrip() for line in written.splitlines()))


def text(content: str, style: str = "") -> Text:
    """Text in which `[E]` is not markup."""
    from rich.text import Text

    return Text(content, style)
