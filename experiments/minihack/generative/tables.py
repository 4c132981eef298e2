"""The records of `results/` as the paper's table, with its numbers beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.minihack.results import mean_and_error

# Reconstruction error (times 1000) and accuracy (per cent), by grid.
PAPER: dict[str, dict[int, tuple[str, str]]] = {
    "variational transformer (paper)": {
        5: ("3.30 ± 0.04", "91.39 ± 0.54"),
        10: ("2.23 ± 0.01", "30.62 ± 1.24"),
    },
    "Deep-HMM (paper)": {
        5: ("4.97 ± 0.37", "44.55 ± 5.75"),
        10: ("4.66 ± 0.08", "1.54 ± 0.00"),
    },
    "NeSy-MM (paper)": {
        5: ("3.32 ± 1.80", "97.17 ± 1.00"),
        10: ("3.78 ± 0.07", "89.63 ± 3.59"),
    },
}
METRICS = ("error", "accuracy", "sequence_accuracy", "symbolic_accuracy", "classifier_accuracy")


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """The records by the name of their file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("N*.json"))}


def tables(records: dict[str, dict[str, Any]]) -> str:
    """Markdown: one table for each grid, then what was done to get it."""
    text = []
    for grid in (5, 10):
        heads = ["method", "seeds", "error (x 1000)", "accuracy (%)", "whole sequences (%)"]
        heads += ["symbols (%)", "classifier (%)", "training (s)", "steps", "GPU (MB)", "device"]
        text += [f"## {grid} × {grid} cells", "", _row(heads), "|" + "---|" * len(heads)]
        for name, paper in PAPER.items():
            text.append(_row([name, "", *paper[grid], *[""] * 7]))
        for stem, record in records.items():
            if stem.startswith(f"N{grid}-"):
                text.append(_row(_cells(stem.split("-", 2)[2], record)))
        text.append("")
    text += ["## Commands", ""]
    text += [f"- `{r['command']}` ({r['device']})" for r in records.values()]
    return "\n".join(text) + "\n"


def _cells(method: str, record: dict[str, Any]) -> list[str]:
    runs = list(record["seeds"].values())
    cells = [method, str(len(runs))]
    for metric in METRICS:
        values = np.array([r[metric] for r in runs if metric in r])
        mean, error = mean_and_error(values) if len(values) else (np.nan, np.nan)
        text = f"{mean:.2f}" + (f" ± {error:.2f}" if np.isfinite(error) else "")
        cells.append(text if np.isfinite(mean) else "–")
    memory = record.get("device_memory_mb")
    cells += [f"{record['train_seconds_all_seeds']:.0f}", str(record["steps"])]
    return [*cells, "–" if memory is None else f"{memory:.0f}", record["device"]]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
