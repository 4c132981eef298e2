"""What VAEL does: the whole horizon as one static program, solved exactly. Its cost explodes.

The same question is asked of the program over time: where is the agent after T random actions?
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nesymm

RULES = """
way(0, -1, 0). way(1, 0, 1). way(2, 1, 0). way(3, 0, -1).
moved(R0, C0, A, R, C) :-
    way(A, DR, DC), R is min(n, max(1, R0 + DR)), C is min(n, max(1, C0 + DC)).
"""
OVER_TIME = """
agent(R, C)@0 ~ categorical(Chances, Cells) :- cells(Cells), chances(Chances).
action(A)@t ~ categorical([0.25, 0.25, 0.25, 0.25], [0, 1, 2, 3]).
agent(R, C)@t :- agent(R0, C0)@(t-1), action(A)@t, moved(R0, C0, A, R, C).
:- domain(agent/2, 1, 1..n).
:- domain(agent/2, 2, 1..n).
corner@t :- agent(1, 1)@t.
query(corner@T).
"""


@dataclass(frozen=True)
class Cost:
    """Seconds to compile and answer once, and the chance to be in the corner."""

    horizon: int
    seconds: float
    answer: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _start(grid: int) -> str:
    cells = [[r, c] for r in range(1, grid + 1) for c in range(1, grid + 1)]
    chances = [1 / len(cells)] * len(cells)
    return f":- const(n, {grid}).\ncells({cells}).\nchances({chances}).\n"


def unrolled_program(grid: int, horizon: int) -> str:
    """A predicate of its own for each step, and no time."""
    text = _start(grid) + RULES
    text += "agent_0(R, C) ~ categorical(Chances, Cells) :- cells(Cells), chances(Chances).\n"
    for t in range(1, horizon + 1):
        text += f"action_{t}(A) ~ categorical([0.25, 0.25, 0.25, 0.25], [0, 1, 2, 3]).\n"
        text += (
            f"agent_{t}(R, C) :- agent_{t - 1}(R0, C0), action_{t}(A), moved(R0, C0, A, R, C).\n"
        )
    return text + f"corner :- agent_{horizon}(1, 1).\nquery(corner).\n"


def unrolled_cost(grid: int, horizon: int) -> Cost:
    begun = time.perf_counter()
    model = nesymm.compile(unrolled_program(grid, horizon))
    answer = model.infer(method="enumerate").probability("corner")
    return Cost(horizon, time.perf_counter() - begun, float(answer))


def filter_cost(grid: int, horizon: int) -> Cost:
    begun = time.perf_counter()
    model = nesymm.compile(_start(grid) + RULES + OVER_TIME)
    answer = model.filter(horizon=horizon, method="exact").final["corner@T"]
    return Cost(horizon, time.perf_counter() - begun, float(np.ravel(answer)[0]))


def draw(unrolled: list[Cost], filtered: list[Cost], path: Path) -> None:
    """Both costs against the horizon."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for costs, label in ((unrolled, "unrolled"), (filtered, "filter")):
        axes.plot([c.horizon for c in costs], [c.seconds for c in costs], "o-", label=label)
    axes.set(xscale="log", yscale="log", xlabel="horizon", ylabel="seconds, compilation included")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
