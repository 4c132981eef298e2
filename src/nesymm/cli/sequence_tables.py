"""What `nesymm filter` and `nesymm evaluate` print for people."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nesymm.inference.findings import Findings, Sequence

# How much is shown of what may be long; `--json` has everything.
SEQUENCES = 3
STEPS = 12
QUERIES = 8
SUMMARY = 20


def tables(found: Findings) -> Iterator[RenderableType]:
    """A table for each of the first sequences, then a summary."""
    first = found.sequences[0]
    if first.filtered:
        for number, sequence in enumerate(found.sequences[:SEQUENCES]):
            yield Text(f"sequence {found.label(number)}", "bold")
            yield _steps(sequence, found.exact)
            yield ""
    yield from summary(found)
    left_out = list(_left_out(found))
    if left_out:
        yield Text(f"not shown: {', '.join(left_out)} (--json has everything)")


def _steps(sequence: Sequence, exact: bool) -> Table:
    names = list(sequence.filtered)[:QUERIES]
    columns = [*names] if exact else [*names, "effective"]
    rows = []
    for t in range(sequence.steps):
        row = [_probability(sequence.filtered[n][t]) for n in names]
        rows.append([str(t), *row, *([] if exact else [_size(sequence.effective[t])])])
    if len(rows) > STEPS:
        rows[STEPS // 2 : -STEPS // 2] = [["…"] * (len(columns) + 1)]
    return table(["step", *columns], rows)


def summary(found: Findings) -> Iterator[RenderableType]:
    """A row for each of the first sequences, and the log-evidence of all."""
    yield Text("summary", "bold")
    yield _rows(found)
    total = sum(s.log_evidence for s in found.sequences if s.error is None)
    answered = sum(s.error is None for s in found.sequences)
    if answered > 1:
        yield ""
        yield Text(f"log-evidence of {answered} sequences together: {total:.6g}")


def _rows(found: Findings) -> Table:
    names = list(found.sequences[0].final)[:QUERIES]
    wrong = any(s.error is not None for s in found.sequences[:SUMMARY])
    heads = ["sequence", "steps", "log-evidence", *([] if found.exact else ["least effective"])]
    rows = []
    for number, sequence in enumerate(found.sequences[:SUMMARY]):
        row = [found.label(number), str(sequence.steps), _probability(sequence.log_evidence)]
        if not found.exact:
            known = [e for e in sequence.effective if not math.isnan(e)]
            row.append(_size(min(known, default=math.nan)))
        row += [_probability(sequence.final[n]) for n in names]
        rows.append([*row, *([sequence.error or ""] if wrong else [])])
    return table([*heads, *names, *(["error"] if wrong else [])], rows)


def _left_out(found: Findings) -> Iterator[str]:
    first = found.sequences[0]
    queries = max(0, len(first.filtered) - QUERIES) + max(0, len(first.final) - QUERIES)
    if queries:
        yield f"{queries} more queries"
    number = len(found.sequences)
    if first.filtered and number > SEQUENCES:
        yield f"the steps of {number - SEQUENCES} more sequences"
    if number > SUMMARY:
        yield f"the summary of {number - SUMMARY} more sequences"


def table(heads: list[str], rows: list[list[str]]) -> Table:
    """Columns of text, numbers to the right."""
    out = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for head in heads:
        side = "left" if head == "error" else "right"
        out.add_column(Text(head), no_wrap=True, header_style="dim", justify=side)  # type: ignore[arg-type]
    for row in rows:
        out.add_row(*(Text(cell, "red" if heads[i] == "error" else "")
                      for i, cell in enumerate(row)))  # fmt: skip
    return out


def _probability(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _size(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.1f}"
