"""A progress bar for training, with losses and metrics."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Progress:
    """Shows the running loss and what the last epoch brought; silent if not wanted."""

    def __init__(self, steps: int, done: int, show: bool):
        self.show = show
        self.bar: Any = None
        self.task: Any = None
        self.steps = steps
        self.done = done
        self.row: dict[str, float] = {}

    def __enter__(self) -> Progress:
        if self.show:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("training"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[told]}"),
            )
            self.bar.start()
            self.task = self.bar.add_task("", total=self.steps, completed=self.done, told="")
        return self

    def step(self, loss: float) -> None:
        if self.bar is not None:
            self.bar.update(self.task, advance=1, told=told(loss, self.row))

    def epoch(self, row: dict[str, float]) -> None:
        self.row = row

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


def told(loss: float, row: dict[str, float]) -> str:
    """The running loss, and the last epoch's validation and metrics."""
    rest = {n: v for n, v in row.items() if n not in ("epoch", "loss")}
    return ", ".join(f"{n} {v:.4f}" for n, v in {"loss": loss, **rest}.items())
