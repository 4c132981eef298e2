"""The course of a training: as a table, as JSON, and as a drawing."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nesymm.plots import figures
from nesymm.plots.figures import COLOURS, new_figure

Rows = Sequence[Mapping[str, Any]]


def plain(history: Rows) -> list[dict[str, Any]]:
    """Epochs as whole numbers."""
    return [{**row, "epoch": int(row["epoch"])} for row in history]


def write_history(history: Rows, folder: Path) -> None:
    """history.csv and history.json."""
    rows = plain(history)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with (folder / "history.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    (folder / "history.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def draw_losses(history: Rows, title: str) -> Figure:
    """Loss and validation loss by epoch; a ring marks the epoch that is kept."""
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    epochs = [row["epoch"] for row in history]
    marker = "o" if len(history) <= 40 else ""
    for name, label, colour in (
        ("loss", "training", COLOURS[0]),
        ("validation", "validation", COLOURS[1]),
    ):
        losses = np.asarray([row.get(name, np.nan) for row in history], dtype=float)
        if np.isnan(losses).all():
            continue
        axes.plot(
            epochs, losses, color=colour, linewidth=1.5, marker=marker, markersize=3, label=label
        )
        if name == "validation":
            best = int(np.nanargmin(losses))
            axes.plot(
                epochs[best], losses[best], color=colour, marker="o", markersize=9,
                markerfacecolor="none", linestyle="", label="best, and kept",
            )  # fmt: skip
    axes.set_title(title, fontsize=11, parse_math=False)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss per sequence")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figures.plain(axes)
    if len(axes.lines) > 1:
        axes.legend(frameon=False)
    return figure
