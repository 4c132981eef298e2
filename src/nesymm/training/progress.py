"""A progress bar for training, with losses and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as rich


class Progress:
    """Shows the running loss and what the last epoch brought; silent if not wanted."""

    def __init__(self, steps: int, done: int, show: bool):
        self.bar = rich.Progress(
            rich.TextColumn("training"),
            rich.BarColumn(),
            rich.TextColumn("{task.percentage:>3.0f}%"),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[summary]}"),
            disable=not show,
        )
        self.task = self.bar.add_task("", total=steps, completed=done, summary="")
        self.row: dict[str, float] = {}

    def step(self, loss: float) -> None:
        self.bar.update(self.task, advance=1, summary=summary(loss, self.row))

    def epoch(self, row: dict[str, float]) -> None:
        self.row = row


@contextmanager
def progress(steps: int, done: int, show: bool) -> Iterator[Progress]:
    found = Progress(steps, done, show)
    with found.bar:
        yield found


def summary(loss: float, row: dict[str, float]) -> str:
    """The running loss, and the last epoch's validation and metrics."""
    rest = {n: v for n, v in row.items() if n not in ("epoch", "loss")}
    return ", ".join(f"{n} {v:.4f}" for n, v in {"loss": loss, **rest}.items())
