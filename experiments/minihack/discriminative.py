"""The discriminative experiment: who died?

python -m experiments.minihack.discriminative run [--methods …] [--seeds 0-4]
python -m experiments.minihack.discriminative evaluate --data FILE.npz --json
python -m experiments.minihack.discriminative tables
python -m experiments.minihack.discriminative plots --out out
python -m experiments.minihack.discriminative demo --out out
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.minihack import harness, results
from experiments.minihack.metrics import score
from experiments.minihack.options import seeds
from experiments.minihack.reading import read
from experiments.minihack.thresholds import THRESHOLDS, death_rate, moved
from nesymm import NesymmError

PROGRAM_NAME = "python -m experiments.minihack.discriminative"


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM_NAME, description="The discriminative experiment."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="fit and score methods; what is finished is skipped")
    run.add_argument("--methods", nargs="+", choices=harness.METHODS, default=[*harness.METHODS])
    run.add_argument("--seeds", type=seeds, default=seeds("0-4"), metavar="0-4")
    run.add_argument("--epochs", type=int, help="instead of the method's own number")
    run.add_argument("--parts", nargs="+", choices=results.PARTS, default=[*results.PARTS])
    run.add_argument("--results", type=Path, default=results.FOLDER, help="folder for the records")
    run.add_argument(
        "--weights", type=Path, help="folder for them (RESULTS/weights, if not shipped)"
    )
    run.add_argument(
        "--fit-on", choices=("cpu", "gpu", "tpu"), help="fit there, score on the default device"
    )
    run.add_argument("--quiet", action="store_true", help="no progress")

    evaluate = commands.add_parser("evaluate", help="score the shipped weights on a file")
    evaluate.add_argument("--data", type=Path, required=True, metavar="FILE.npz")
    evaluate.add_argument("--weights", type=Path, help="instead of the shipped ones")
    evaluate.add_argument("--particles", type=int, default=3000)
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument(
        "--threshold",
        choices=THRESHOLDS,
        default="half",
        help="death is what is given more than 0.5 (posterior), more than the death rate that the "
        "program expects (even), or more than the mean of the two (half, the default)",
    )
    evaluate.add_argument("--json", action="store_true", help="print JSON, probabilities included")

    tables = commands.add_parser("tables", help="the paper's tables with the recorded numbers")
    tables.add_argument("--results", type=Path, default=results.FOLDER)

    plots = commands.add_parser("plots", help="draw the recorded numbers and the shipped model")
    plots.add_argument("--results", type=Path, default=results.FOLDER)
    plots.add_argument("--weights", type=Path, help="instead of the shipped ones")
    plots.add_argument("--out", type=Path, default=Path("out"))

    demo = commands.add_parser("demo", help="a short training, all settings, all plots")
    demo.add_argument("--out", type=Path, default=Path("out"))
    return parser


def run(options: argparse.Namespace) -> int:
    for method in options.methods:
        harness.make(method, options.epochs)  # a mistake shows before anything is run
    jobs = [
        harness.Job(
            method=method,
            seed=seed,
            epochs=options.epochs,
            parts=tuple(options.parts),
            folder=options.results,
            weights=options.weights or harness.weights_beside(options.results),
            progress=not options.quiet,
            fit_on=options.fit_on,
        )
        for method in options.methods
        for seed in options.seeds
    ]
    well = harness.run_all(jobs)
    tables(options)
    return 0 if well else 1


def tables(options: argparse.Namespace) -> int:
    records = results.read_all(options.results)
    if not records:
        raise NesymmError(f"there are no records in {options.results}; use `run` first")
    text = results.tables(records)
    (options.results / "tables.md").write_text(text)
    print(text)
    return 0


def evaluate(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import Progress

    from experiments.minihack.rules import WEIGHTS, Rules

    data = read(options.data)
    trained = Rules(test_particles=options.particles).load(options.weights or WEIGHTS)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("games", total=len(data))
        probabilities = trained.probabilities(
            data, options.seed, lambda done: progress.update(task, completed=done)
        )
        rate, way = 0.5, THRESHOLDS[options.threshold]
        if way:
            progress.add_task("games without evidence", total=None)
            rate = death_rate(trained, (data.grid, data.frames, data.enemies))
            probabilities = moved(probabilities, rate, way)
    found = score(probabilities, data.dead)
    if options.json:
        summary = {
            "balanced_accuracy": found.balanced_accuracy,
            "f1": found.f1,
            "n": found.n,
            "probabilities": [round(float(p), 6) for p in probabilities],
        }
        print(json.dumps(summary))
    else:
        print(
            f"balanced accuracy {found.balanced_accuracy:.2f} %, F1 {found.f1:.3f} "
            f"on {found.n} sequences"
        )
        if way:
            print(f"(the program expects {100 * rate:.1f} % deaths before it sees them)")
    return 0


def plots(options: argparse.Namespace) -> int:
    from experiments.minihack import plots as drawing
    from experiments.minihack.rules import WEIGHTS, Rules

    trained = Rules().load(options.weights or WEIGHTS)
    for path in drawing.draw_all(trained, results.read_all(options.results), options.out):
        print(path)
    return 0


def demo(options: argparse.Namespace) -> int:
    from experiments.minihack.demo import show

    show(options.out)
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = command_line().parse_args(arguments)
    commands = {
        "run": run,
        "evaluate": evaluate,
        "tables": tables,
        "plots": plots,
        "demo": demo,
    }
    try:
        return commands[options.command](options)
    except NesymmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
