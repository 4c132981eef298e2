"""What VAEL does: the whole horizon as one static program, solved exactly. Its cost explodes.

The agent begins in a corner and takes T random actions. How likely is it in that corner then?
Three ways to the same answer:

- *enumerated*: the unrolled program, world by world. VAEL draws a picture for each world, so it
  has to list the worlds, and their number, 4^T, is exponential in the horizon.
- *circuit*: the unrolled program compiled to a circuit, as nesymm does by default where there are
  many worlds. A circuit shares what worlds have in common and lists none. That is enough for a
  chance, but not for a picture of each world.
- *filter*: the program over time, one step after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nesymm
from nesymm import NesymmError

TOLERANCE = 1e-5  # filters count in 32 bits
RULES = """
way(0, -1, 0). way(1, 0, 1). way(2, 1, 0). way(3, 0, -1).
moved(R0, C0, A, R, C) :-
    way(A, DR, DC), R is min(n, max(1, R0 + DR)), C is min(n, max(1, C0 + DC)).
"""
OVER_TIME = """
agent(1, 1)@0.
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


def unrolled_program(grid: int, horizon: int) -> str:
    """A predicate of its own for each step, and no time."""
    text = f":- const(n, {grid}).\n{RULES}agent_0(1, 1).\n"
    for t in range(1, horizon + 1):
        text += f"action_{t}(A) ~ categorical([0.25, 0.25, 0.25, 0.25], [0, 1, 2, 3]).\n"
        text += (
            f"agent_{t}(R, C) :- agent_{t - 1}(R0, C0), action_{t}(A), moved(R0, C0, A, R, C).\n"
        )
    return text + f"corner :- agent_{horizon}(1, 1).\nquery(corner).\n"


def unrolled_cost(grid: int, horizon: int, method: str) -> Cost:
    """By `enumerate` or by `circuit`."""
    begun = time.perf_counter()
    model = nesymm.compile(unrolled_program(grid, horizon))
    answer = float(model.infer(method=method).probability("corner"))
    return Cost(horizon, time.perf_counter() - begun, answer)


def filter_cost(grid: int, horizon: int) -> Cost:
    begun = time.perf_counter()
    model = nesymm.compile(f":- const(n, {grid}).\n{RULES}{OVER_TIME}")
    found = model.filter(steps=horizon + 1, method="exact").final["corner@T"]
    answer = float(np.ravel(found)[0])
    return Cost(horizon, time.perf_counter() - begun, answer)


def check_agreement(ways: Mapping[str, Iterable[Cost]], way: str = "filter") -> None:
    """Every answer must be that of one way, which has been to all horizons."""
    right = {cost.horizon: cost.answer for cost in ways[way]}
    for name, costs in ways.items():
        for cost in costs:
            if not abs(cost.answer - right[cost.horizon]) < TOLERANCE:
                raise NesymmError(
                    f"{name}: after {cost.horizon} actions expected the answer of {way}, "
                    f"{right[cost.horizon]}, received {cost.answer}"
                )


def draw(ways: Mapping[str, Sequence[Cost]], pictures: Sequence[Any], path: Path) -> None:
    """Left what an answer costs, right what pictures cost, against the horizon."""
    import matplotlib.pyplot as plt

    labels = {
        "enumerated": "unrolled, worlds enumerated",
        "circuit": "unrolled, compiled to a circuit",
        "filter": "filter",
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for name, costs in ways.items():
        points = [c.horizon for c in costs], [c.seconds for c in costs]
        left.plot(*points, "o-", markersize=4, label=labels[name])
    left.set(title="one answer", ylabel="seconds, compilation included")
    steps, seconds = ([p[name] for p in pictures] for name in ("horizon", "seconds"))
    right.plot(steps, seconds, "o-C2", markersize=4, label="once compiled")
    right.set(title="one sequence of pictures", ylabel="seconds")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="horizon")
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.18))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
