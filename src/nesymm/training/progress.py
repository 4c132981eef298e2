"""A progress bar for training, with the losses."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Progress:
    """Shows epochs, the running loss and the validation loss; silent if not wanted."""

    def __init__(self, epochs: int, batches: int, show: bool):
        self.show = show
        self.bar: Any = None
        self.task: Any = None
        self.total = epochs * batches
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
            self.task = self.bar.add_task("", total=self.total, told="")
        return self

    def step(self, loss: float) -> None:
        if self.bar is not None:
            best = self.row.get("validation")
            told = f"loss {loss:.4f}" + (f", validation {best:.4f}" if best is not None else "")
            self.bar.update(self.task, advance=1, told=told)

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
