"""Losses and metrics for TensorBoard, through the optional package tensorboardX."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from nesymm.errors import NesymmError


class TensorBoard:
    """Writes one number per name and epoch; does nothing without a folder."""

    def __init__(self, folder: str | Path | None):
        self.writer: Any = None
        if folder is None:
            return
        try:
            board = import_module("tensorboardX")
        except ImportError:
            raise NesymmError(
                "logs for TensorBoard need a further package: pip install tensorboardX"
            ) from None
        self.writer = board.SummaryWriter(str(folder))

    def write(self, row: dict[str, float]) -> None:
        if self.writer is not None:
            for name, value in row.items():
                if name != "epoch":
                    self.writer.add_scalar(name, value, int(row["epoch"]))

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer is not None:
            self.writer.close()
