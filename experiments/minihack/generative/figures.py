"""Figures: trajectories that trained models generate, as strips of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.minihack.game import EAST, NORTH, SOUTH, WEST
from experiments.minihack.generative.constraints import Constraint, obeys, right_part
from experiments.minihack.generative.data import Dataset
from experiments.minihack.generative.programs import ProgramMethod, given_actions, positions

NAMES = {NORTH: "up", EAST: "right", SOUTH: "down", WEST: "left"}
# The paper's action sequences: with the rules alone, and with the right part walled off.
PLAIN = (EAST, SOUTH, WEST, NORTH, WEST, NORTH, EAST, SOUTH)
WALLED = (EAST, SOUTH, WEST, NORTH, EAST, EAST, NORTH, EAST)


def strip(frames: np.ndarray, titles: Sequence[str], path: Path, rows: Sequence[str]) -> None:
    """Pictures [rows, T, 3, size, size] side by side."""
    import matplotlib.pyplot as plt

    height, width = frames.shape[:2]
    figure, axes = plt.subplots(
        height, width, figsize=(1.1 * width, 1.2 * height), squeeze=False, layout="constrained"
    )
    for (y, x), picture in np.ndenumerate(axes):
        picture.imshow(np.clip(frames[y, x].transpose(1, 2, 0), 0, 1), interpolation="nearest")
        picture.set(xticks=[], yticks=[])
        if y == 0:
            picture.set_title(titles[x], fontsize=8)
        if x == 0:
            picture.set_ylabel(rows[y], fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def titles_of(actions: Sequence[int]) -> list[str]:
    return ["start", *(NAMES[int(a)] for a in actions)]


def compare(methods: Mapping[str, tuple[Any, Any]], first: np.ndarray, out: Path) -> Path:
    """The paper's first action sequence by every method; `methods` maps a name to a method and
    its networks."""
    actions = np.array([PLAIN])
    rows = [m.reconstruct(n, first[None], actions)[0] for m, n in methods.values()]
    path = out / "actions.png"
    strip(np.stack(rows), titles_of(PLAIN), path, list(methods))
    return path


def constrained(
    method: ProgramMethod, networks: Any, data: Dataset, out: Path, seed: int = 0
) -> list[dict[str, Any]]:
    """Test-time constraints: figures, and whether each path obeys. Actions that are not given are
    chosen by the model, such that the constraint can be kept."""
    grid = method.scene.grid
    start = tuple(int(x) for x in data.agent[0, 0])
    first = data.first(1).frames(method.scene.pixels)[:, 0]
    goal = (1, 1) if start != (1, 1) else (grid, grid)
    cases = {
        "walled": (right_part(grid, max(start[1], grid // 2)), np.array([WALLED])),
        "visit": (Constraint(visit=goal), None),
        "never_twice": (Constraint(never_twice=True), None),
    }
    summary = []
    for name, (constraint, actions) in cases.items():
        model = constraint.added_to(method.with_networks(networks))
        given: dict[str, Any] = method.given(networks, first)
        if actions is not None:
            given["action"] = given_actions(actions)
        steps = None if actions is not None else len(WALLED) + 1
        found = model.generate(given, method=constraint.inference, steps=steps, key=seed)
        taken = found["action"][0, 0, 1:].astype(int)
        path = positions(found)[0]
        strip(found["image"][:, 0], titles_of(taken), out / f"{name}.png", [name])
        kept = obeys(path, taken, grid, constraint)
        summary.append({"constraint": name, "obeys": kept, "path": path.tolist()})
    return summary
