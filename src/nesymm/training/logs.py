"""Losses and metrics for TensorBoard, through the optional package tensorboardX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

from nesymm.errors import NesymmError


@contextmanager
def tensorboard(folder: str | Path | None) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Writes one number per name and epoch; does nothing without a folder."""
    if folder is None:
        yield lambda row: None
        return
    try:
        board = import_module("tensorboardX")
    except ImportError:
        raise NesymmError(
            "logs for TensorBoard need a further package: pip install tensorboardX"
        ) from None
    with closing(board.SummaryWriter(str(folder))) as writer:

        def write(row: Mapping[str, float]) -> None:
            for name, value in row.items():
                if name != "epoch":
                    writer.add_scalar(name, value, int(row["epoch"]))

        yield write
