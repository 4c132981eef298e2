"""The generative experiment.

python -m experiments.minihack.generative run [--grid 5] [--methods …] [--seeds 0-4] [--steps …]
python -m experiments.minihack.generative evaluate [--grid 5] [--method nesymm] [--data FILE.npz]
python -m experiments.minihack.generative figures [--grid 5] --out out
python -m experiments.minihack.generative obedience [--grid 5] --out out
python -m experiments.minihack.generative horizon --out out
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from experiments.minihack.generative import harness
from experiments.minihack.options import positive, seeds
from nesymm import NesymmError


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.minihack.generative", description="The generative experiment."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about)
        added.add_argument("--grid", type=int, choices=(5, 10), default=5)
        added.add_argument("--small", action="store_true", help="4 pixels a cell, for a CPU")
        added.add_argument("--folder", type=Path, default=harness.FOLDER, help="for all files")
        return added

    run = command("run", "train all seeds together, then score them; resumes where it stopped")
    run.add_argument("--methods", nargs="+", choices=harness.METHODS, default=[*harness.METHODS])
    run.add_argument("--seeds", type=seeds, default=seeds("0-4"), metavar="0-4")
    run.add_argument("--steps", type=positive, help="instead of the method's own number")
    run.add_argument("--batch", type=positive, default=16)
    run.add_argument(
        "--minutes", type=float, default=float("inf"), help="then stop, to be resumed later"
    )
    run.add_argument("--test", type=positive, help="score that many test sequences only")

    evaluate = command("evaluate", "score trained weights; prints JSON")
    evaluate.add_argument("--method", choices=harness.METHODS, default="nesymm")
    evaluate.add_argument("--seed", type=int, default=0, help="which weights")
    evaluate.add_argument("--data", help="a file, or the name of a shipped one (the test set)")
    evaluate.add_argument("--test", type=positive, help="that many sequences only")

    figures = command("figures", "draw what the trained models generate")
    figures.add_argument("--seed", type=int, default=0, help="which weights")
    figures.add_argument("--out", type=Path, default=Path("out"))

    obedience = command("obedience", "count generated trajectories that obey; prints JSON")
    obedience.add_argument("--seed", type=int, default=0, help="which weights")
    obedience.add_argument("--test", type=positive, help="that many sequences only")
    obedience.add_argument("--out", type=Path, default=Path("out"))

    horizon = commands.add_parser("horizon", help="the cost of the unrolled model and the filter")
    horizon.add_argument("--grid", type=positive, default=3)
    horizon.add_argument("--longest", type=positive, default=11, help="whose worlds are enumerated")
    horizon.add_argument("--out", type=Path, default=Path("out"))
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = command_line().parse_args(arguments)
    commands: dict[str, Any] = {
        "run": harness.run,
        "evaluate": harness.evaluate,
        "figures": harness.figures,
        "obedience": harness.obedience,
        "horizon": harness.horizon,
    }
    try:
        summary = commands[options.command](options)
    except NesymmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
