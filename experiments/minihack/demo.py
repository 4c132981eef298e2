"""The experiment in short: a few epochs, all eight settings, the table and the pictures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.minihack import plots, results
from experiments.minihack.data import load
from experiments.minihack.methods import SETTINGS, Setting
from experiments.minihack.metrics import Scores, score
from experiments.minihack.rules import Rules
from experiments.minihack.thresholds import THRESHOLDS, death_rate, moved

# Fewer of everything than in `run`.
SHORT = Rules(epochs=10, particles=200, test_particles=400)
SEED = 0
THRESHOLD = "half"  # as `evaluate` has it
TITLE = "Did the agent die? 1,000 games each, threshold midway to the expected death rate"


def show(out: Path) -> None:
    console = Console()
    train, validation = load("N10T10E1train"), load("N10T10E1valid")
    console.print(
        f"Learning how imps move and aim from {len(train):,} games in a room of {train.grid} × "
        f"{train.grid} cells with one imp …"
    )
    trained = SHORT.fit(train, validation, SEED, progress=True)
    console.print(
        f"An imp next to the agent hits with chance {trained.hit_chance:.2f} (the game: 0.9).\n"
        "The same model on other grids, for longer, with more imps:"
    )
    found: dict[Setting, Scores] = {}
    for setting in SETTINGS:
        data = load(results.set_name(setting, "test"))
        answers, rate = trained.probabilities(data, SEED), death_rate(trained, setting)
        found[setting] = score(moved(answers, rate, THRESHOLDS[THRESHOLD]), data.dead)
    console.print(table(found))
    record = {
        "scores": {results.set_name(s, "test"): f.to_json() for s, f in found.items()},
    }
    for path in plots.draw_all(trained, {"nesymm-half": {"seeds": {str(SEED): record}}}, out):
        console.print(f"drawn: {path}")


def table(found: dict[Setting, Scores]) -> Table:
    """Our numbers beside the best of the paper's."""
    out = Table("grid", "frames", "imps", title=TITLE)
    for head in ("balanced accuracy", "best in the paper", "F1", "best in the paper"):
        out.add_column(head, justify="right")
    for setting, scores in found.items():
        papers = [p[setting] for p in results.PAPER.values() if setting in p]
        accuracy, f1 = (max(values) for values in zip(*papers, strict=True))
        cells = (
            f"{scores.balanced_accuracy:.1f} %",
            f"{accuracy:.1f} %",
            f"{scores.f1:.3f}",
            f"{f1:.2f}",
        )
        out.add_row(*map(str, setting), *cells)
    return out
