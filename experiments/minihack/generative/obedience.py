"""How many generated trajectories keep to the rules, and to constraints added after training.

Each path is judged without the program, and the pictures are read by the location classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.minihack.generative.classifier import Classifier
from experiments.minihack.generative.constraints import Constraint, obeys, right_part
from experiments.minihack.generative.data import Dataset
from experiments.minihack.generative.metrics import accuracies
from experiments.minihack.generative.programs import ProgramMethod, given_actions, positions


@dataclass(frozen=True)
class Case:
    """A constraint; the actions are those of the data, or chosen by the model for some steps."""

    name: str
    constraint: Constraint
    horizon: int | None = None


def cases(grid: int) -> list[Case]:
    return [
        Case("rules alone", Constraint()),
        Case("right part walled off", right_part(grid, (grid + 1) // 2)),
        # Any cell can be reached in that many steps.
        Case("visit row 1, column 1", Constraint(visit=(1, 1)), 2 * grid - 2),
        Case("no cell twice", Constraint(never_twice=True), 8),
    ]


def allowed(data: Dataset, constraint: Constraint) -> Dataset:
    """Without the sequences that begin in a wall."""
    starts = [tuple(map(int, cell)) for cell in data.agent[:, 0]]
    return data.take(np.array([cell not in constraint.walls for cell in starts]))


def check(
    method: ProgramMethod,
    networks: Any,
    data: Dataset,
    judge: Classifier,
    tell: Callable[[str], None],
    seed: int = 0,
    size: int = 100,
) -> list[dict[str, Any]]:
    """For each case: of how many trajectories how many obey, and how many frames show the agent
    where the program has it, in per cent."""
    summary = []
    for case in cases(method.scene.grid):
        model = case.constraint.added_to(method.with_networks(networks))
        some = allowed(data, case.constraint)
        kept, shown = [], []
        for k in range(0, len(some), size):
            rows = some.take(slice(k, k + size))
            given: dict[str, Any] = method.given(networks, rows.frames(method.scene.pixels)[:, 0])
            if case.horizon is None:
                given["action"] = given_actions(rows.actions)
            steps = None if case.horizon is None else case.horizon + 1
            found = model.generate(
                given, method=case.constraint.inference, steps=steps, key=seed + k
            )
            paths, taken = positions(found), found["action"][:, 0, 1:].astype(int)
            kept += [
                obeys(path, actions, method.scene.grid, case.constraint)
                for path, actions in zip(paths, taken, strict=True)
            ]
            shown += [accuracies(judge(found["image"][:, 0]), paths)[0]] * len(paths)
        summary.append(
            {
                "constraint": case.name,
                "n": len(kept),
                "obey": sum(kept),
                "drawn_accuracy": float(np.mean(shown)),
            }
        )
        tell(str(summary[-1]))
    return summary
