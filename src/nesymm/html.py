"""Results as tables, as Jupyter shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

# How many rows and columns of a result are shown.
MOST = 10


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows of cells below a head; what is too much is left out."""
    lines = [tuple(map(_cell, row)) for row in rows]
    if len(lines) > MOST:
        lines = [*lines[:MOST], ("…",)]
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in _first(tuple(head)))
    body = ("".join(f"<td>{escape(cell)}</td>" for cell in _first(line)) for line in lines)
    top = f"<tr>{titles}</tr>" if head else ""
    return f"<table>{top}{''.join(f'<tr>{line}</tr>' for line in body)}</table>"


def _first(cells: tuple[str, ...]) -> tuple[str, ...]:
    return cells if len(cells) <= MOST + 2 else (*cells[: MOST + 1], "…")


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    number = float(value)
    return "–" if number != number else f"{number:.4g}"
