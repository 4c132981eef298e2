"""What was measured: one JSON file per method, and the paper's tables with our numbers."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from experiments.minihack import data
from experiments.minihack.methods import SETTINGS, Setting
from experiments.minihack.thresholds import THRESHOLDS
from nesymm import NesymmError

FOLDER = Path(__file__).parent / "results"

# Tables 3 and 4 of the paper: balanced accuracy in per cent, F1.
PAPER: dict[str, dict[Setting, tuple[float, float]]] = {
    "Transformer": dict(
        zip(
            SETTINGS,
            [
                (75.72, 0.61), (68.61, 0.59), (50.40, 0.02), (16.09, 0.02),
                (78.53, 0.57), (67.85, 0.52), (50.47, 0.02), (41.54, 0.02),
            ],
            strict=True,
        )
    ),
    "Deep-HMM": dict(
        zip(
            SETTINGS[:4],
            [(59.88, 0.25), (38.43, 0.56), (49.99, 0.79), (49.33, 0.98)],
            strict=True,
        )
    ),
    "NeSy-MM": dict(
        zip(
            SETTINGS,
            [
                (64.45, 0.41), (78.13, 0.79), (67.66, 0.92), (57.47, 0.99),
                (57.22, 0.15), (75.57, 0.65), (71.85, 0.78), (77.13, 0.98),
            ],
            strict=True,
        )
    ),
}  # fmt: skip

# What a table is called, and its digits.
IN_PAPER = {"balanced_accuracy": ("Balanced accuracy (%)", 2), "f1": ("F1", 3)}
METRICS = {
    **IN_PAPER,
    "own_threshold": (
        "Balanced accuracy (%) with the mean of a method's probabilities as threshold",
        2,
    ),
    "ranking": ("Pairs in which one who dies is given more than one who survives (%)", 2),
}
TRAINING = "Training: the loss on the validation set, for each method its own"
LAST = 5  # epochs
FURTHER, SIMULATED = "further", "simulated"
PARTS = {
    "test": "1,000 trajectories per setting, as in the paper",
    "test_large": "larger sets",
    FURTHER: "beyond the paper, 1,000 trajectories per setting",
    SIMULATED: "beyond NetHack's map, 1,000 simulated trajectories per setting",
}
BEYOND = {FURTHER: data.FURTHER, SIMULATED: data.SIMULATED}


def set_name(setting: Setting, part: str) -> str:
    grid, frames, enemies = setting
    return f"N{grid}T{frames}E{enemies}{'test' if part == FURTHER else part}"


def path_of(method: str, folder: Path = FOLDER) -> Path:
    return folder / f"{method}.json"


def read_all(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """The records of every method that there are."""
    found = {path.stem: _read(path) for path in folder.glob("*.json")}
    return {name: found[name] for name in sorted(found, key=_rank)}


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise NesymmError(f"{path} is not JSON: {error}") from None
    if not isinstance(record, dict) or "seeds" not in record:
        raise NesymmError(f"{path} is not a record of a method: it has no seeds")
    return record


def _rank(name: str) -> tuple[bool, str, int]:
    """Ours first; the versions of a method in their order."""
    method, version = version_of(name)
    return not name.startswith("nesymm"), method, list(THRESHOLDS).index(version)


def version_of(name: str) -> tuple[str, str]:
    """The method that a record is of, and its threshold."""
    method, _, threshold = name.rpartition("-")
    return (method, threshold) if threshold in THRESHOLDS else (name, "posterior")


def seeds(method: str, folder: Path = FOLDER) -> dict[int, dict[str, Any]]:
    """The record of each seed of a method."""
    path = path_of(method, folder)
    found = _read(path)["seeds"] if path.exists() else {}
    return {int(seed): record for seed, record in found.items()}


def scored(method: str, seed: int, folder: Path = FOLDER) -> set[str]:
    """The data sets on record for a seed."""
    return set(seeds(method, folder).get(seed, {}).get("scores", {}))


def add(
    method: str, seed: int, record: dict[str, Any], folder: Path = FOLDER, keep: bool = True
) -> None:
    """Writes the record of one seed beside those of the others; `keep` keeps its older scores."""
    path = path_of(method, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        # Seeds may be run side by side: one writes at a time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = seeds(method, folder)
        older = known.get(seed, {}).get("scores", {}) if keep else {}
        known[seed] = {**record, "scores": {**older, **record["scores"]}}
        whole = {"method": method, "seeds": {str(s): known[s] for s in sorted(known)}}
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(whole, indent=1) + "\n")
        partial.replace(path)


def over_seeds(record: dict[str, Any], name: str, metric: str) -> np.ndarray:
    """A metric on one data set, by seed."""
    runs = record["seeds"].values()
    return np.array([r["scores"][name][metric] for r in runs if name in r["scores"]])


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean over seeds and its standard error; that of one seed is not known."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


def tables(records: dict[str, dict[str, Any]]) -> str:
    """Markdown: the paper's Tables 3 and 4 with our numbers beside them, and what they cost."""
    text = []
    for part, about in PARTS.items():
        if not measured(records, part):
            continue
        for metric in IN_PAPER if part in BEYOND else METRICS:
            text += [f"## {METRICS[metric][0]}, {about}", "", *_table(records, part, metric), ""]
    text += ["## Cost", "", *_costs(records), ""]
    if any(map(validation, records.values())):
        text += [f"## {TRAINING}", "", *_training(records), ""]
    return "\n".join(text)


def trained(records: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The records without those of other thresholds, which are of the same networks."""
    return {name: record for name, record in records.items() if version_of(name)[0] == name}


def validation(record: dict[str, Any]) -> dict[int, list[float]]:
    """The loss on the validation set by epoch, for each seed that has it on record."""
    runs = record["seeds"].items()
    return {int(seed): run["validation"] for seed, run in runs if run.get("validation")}


def measured(records: dict[str, dict[str, Any]], part: str) -> bool:
    """Whether there is any score of a part."""
    names = {set_name(setting, part) for setting in settings_of(part)}
    runs = [run for record in records.values() for run in record["seeds"].values()]
    return any(names & set(run["scores"]) for run in runs)


def settings_of(part: str) -> tuple[Setting, ...]:
    return BEYOND.get(part, SETTINGS)


def _table(records: dict[str, dict[str, Any]], part: str, metric: str) -> list[str]:
    digits = METRICS[metric][1]
    column = list(METRICS).index(metric)
    papers = PAPER if metric in IN_PAPER and part not in BEYOND else {}
    if metric not in IN_PAPER:  # these are about the order of answers, or have their own threshold
        records = trained(records)
    heads = ["N", "T", "E", *(f"{m} (paper)" for m in papers), *records]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    for setting in settings_of(part):
        cells = [str(x) for x in setting]
        for paper in papers.values():
            cells.append(f"{paper[setting][column]:.2f}" if setting in paper else "–")
        for record in records.values():
            values = over_seeds(record, set_name(setting, part), metric)
            cells.append(_number(values, digits))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _number(values: np.ndarray, digits: int) -> str:
    if not len(values):
        return "–"
    mean, error = mean_and_error(values)
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def _costs(records: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| method | seeds | numbers learned | training (s) | memory (MB) | on GPU (MB) | device |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for method, record in trained(records).items():
        runs = list(record["seeds"].values())
        seconds, memory, on_device = (
            _number(np.array([r[name] for r in runs if name in r]), 0)
            for name in ("fit_seconds", "peak_memory_mb", "device_memory_mb")
        )
        device = ", ".join(sorted({r["device"] for r in runs}))
        count = runs[0]["parameters"]
        cells = (method, len(runs), count, seconds, memory, on_device, device)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _training(records: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        f"| method | epochs | the best | its loss | mean loss of the last {LAST} |",
        "|---|---:|---:|---:|---:|",
    ]
    for method, record in trained(records).items():
        losses = list(validation(record).values())
        if not losses:
            continue
        counts, best = (_span([f(x) for x in losses]) for f in (len, lambda x: 1 + np.argmin(x)))
        least = _number(np.array([min(x) for x in losses]), 4)
        last = _number(np.array([np.mean(x[-LAST:]) for x in losses]), 4)
        lines.append(f"| {method} | {counts} | {best} | {least} | {last} |")
    return lines


def _span(numbers: list[int]) -> str:
    """The least and the most."""
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"
