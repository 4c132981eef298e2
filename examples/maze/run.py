"""Localise robots in mazes, each of which has another map.

    python examples/maze/run.py                          # all of it
    python examples/maze/run.py --rooms 2 --side 7       # a quick look

Writes the numbers (results.json) and the picture (belief.png) to the folder of `--out`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))

import nesymm  # noqa: E402
from examples.maze.simulator import Rooms, simulate  # noqa: E402

SHOWN = (0, 4, 10, 25)  # steps in the picture
METHODS = {"all": "moves and sensors", "moves": "moves alone"}


def beliefs(data: dict[str, np.ndarray]) -> np.ndarray:
    """Where each robot may be, given all that was sensed so far: [room, step, row, column]."""
    n = data["wall"].shape[-1]
    model = nesymm.compile(FOLDER / "maze.nsl", constants={"n": n})
    found = model.filter(data, method="exact").filtered
    cells = [[found[f"at({r + 1},{c + 1})@t"] for c in range(n)] for r in range(n)]
    return np.moveaxis(np.array(cells), (0, 1), (2, 3))


def score(belief: np.ndarray, rooms: Rooms) -> dict[str, list[float]]:
    """By step: how often the robot is where it most probably is, the probability of its cell, and
    how many cells are left (the exponential of the entropy). Means over rooms."""
    batch, steps = belief.shape[:2]
    flat = belief.reshape(batch, steps, -1)
    side = belief.shape[-1]
    true = rooms.position[..., 0] * side + rooms.position[..., 1]
    chance = np.take_along_axis(flat, true[..., None], -1)[..., 0]
    entropy = -(flat * np.log(np.where(flat > 0, flat, 1))).sum(-1)
    return {
        "found": (flat.argmax(-1) == true).mean(0).tolist(),
        "probability": chance.mean(0).tolist(),
        "cells": np.exp(entropy).mean(0).tolist(),
    }


def experiment(args: argparse.Namespace) -> tuple[dict[str, Any], np.ndarray, Rooms]:
    """All numbers, and the beliefs in all rooms."""
    rooms = simulate(np.random.default_rng(args.seed), args.rooms, args.side, args.steps)
    scores = {}
    for name, label in reversed(METHODS.items()):
        say(args, f"{args.rooms} rooms of {args.side} × {args.side} cells: {label}")
        sensed = {n: a for n, a in rooms.data.items() if name == "all" or "senses" not in n}
        belief = beliefs(sensed)
        scores[name] = score(belief, rooms)
    record = {
        "settings": {k: v for k, v in vars(args).items() if k not in ("out", "progress")},
        "free": float((~rooms.data["wall"]).sum((1, 2)).mean()),
        "scores": scores,
    }
    return record, belief, rooms


def tables(record: dict[str, Any]) -> str:
    """What the page shows of the numbers."""
    lines = ["| | step | right | probability of the true cell | cells left |"]
    lines += ["|---|---:|---:|---:|---:|"]
    for name, label in METHODS.items():
        scores = record["scores"][name]
        last = len(scores["found"]) - 1
        for step in sorted({*(s for s in SHOWN if s < last), last}):
            found, chance, cells = (scores[k][step] for k in ("found", "probability", "cells"))
            lines.append(f"| {label} | {step} | {100 * found:.0f} % | {chance:.3f} | {cells:.1f} |")
    return "\n".join(lines) + "\n"


def draw(belief: np.ndarray, rooms: Rooms, path: Path) -> None:
    """The belief in one room, at some steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    steps = [s for s in SHOWN if s < belief.shape[1]]
    figure = Figure(figsize=(2.6 * len(steps) + 0.6, 3), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(steps), squeeze=False)[0]
    wall = rooms.data["wall"][0]
    for axes, step in zip(panels, steps, strict=True):
        shown = np.ma.masked_array(belief[0, step], wall)
        # Small probabilities are to be seen, too.
        image = axes.imshow(shown, cmap="YlGnBu", norm=PowerNorm(0.5, 0, 1))
        axes.set_facecolor("#444444")
        row, column = rooms.position[0, step]
        axes.plot(column, row, "o", mfc="none", mec="#D55E00", mew=2, ms=9, label="the robot")
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"step {step}", fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", frameon=False)
    figure.colorbar(image, ax=panels, label="probability", ticks=[0, 0.01, 0.1, 0.3, 1])
    figure.savefig(path)


def say(args: argparse.Namespace, text: str) -> None:
    if args.progress:
        print(text, flush=True)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/maze"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0, help="of rooms and robots")
    parser.add_argument("--rooms", type=int, default=20)
    parser.add_argument("--side", type=int, default=13, help="of a room, in cells; odd")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--quiet", dest="progress", action="store_false")
    args = parser.parse_args(argv)
    if args.side % 2 == 0:
        parser.error("--side: the side of a maze is odd")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = options(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    record, belief, rooms = experiment(args)
    (args.out / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draw(belief, rooms, args.out / "belief.png")
    print(tables(record))
    say(args, f"written to {args.out}")


if __name__ == "__main__":
    main()
