"""Constraints that the rules never heard of, added to a trained model; and an independent judge."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import nesymm
from experiments.minihack.game import MOVES
from experiments.minihack.generative.programs import EXACT
from nesymm import Method as Inference
from nesymm import RaoBlackwellised

Cell = tuple[int, int]


@dataclass(frozen=True)
class Constraint:
    """Further walls, a cell to visit, no cell twice."""

    walls: frozenset[Cell] = field(default_factory=frozenset)
    visit: Cell | None = None
    never_twice: bool = False

    def text(self) -> str:
        """As clauses for `model.extend`."""
        lines = [f"wall({r}, {c})." for r, c in sorted(self.walls)]
        if self.visit is not None:
            r, c = self.visit
            lines += [
                f"visited@t :- agent({r}, {c})@t.",
                "visited@t :- visited@(t-1).",
                "observe(visited@T, true).",
            ]
        if self.never_twice:
            lines += [
                ":- fluent(trodden(key, key)).",
                "trodden(R, C)@t :- agent(R, C)@t.",
                "trodden(R, C)@t :- trodden(R, C)@(t-1).",
                "again@t :- agent(R, C)@t, trodden(R, C)@(t-1).",
                "observe(again@t, false).",
            ]
        return "\n".join(lines) + "\n"

    @property
    def inference(self) -> Inference:
        """The cells that were stepped on are too many sets for an exact belief."""
        return RaoBlackwellised() if self.never_twice else EXACT

    def added_to(self, model: nesymm.Model) -> nesymm.Model:
        return model if self == Constraint() else model.extend(self.text(), name="constraint.nsl")


def right_part(grid: int, column: int) -> Constraint:
    """The part of the room to the right of a column is walled off."""
    cells = {(r, c) for r in range(1, grid + 1) for c in range(column + 1, grid + 1)}
    return Constraint(walls=frozenset(cells))


def obeys(path: np.ndarray, actions: np.ndarray, grid: int, constraint: Constraint) -> bool:
    """Whether a path [T, 2] follows from its first cell, the actions [T-1] and the constraint.

    It is written without the program, to judge it. Where the path begins is not its choice, as
    long as it is in the room.
    """
    cells = [(int(r), int(c)) for r, c in path]
    if not all(1 <= x <= grid for x in cells[0]):
        return False
    for here, there, action in zip(cells[:-1], cells[1:], actions, strict=True):
        r, c = (int(x) for x in np.add(here, MOVES[int(action)]))
        free = 1 <= r <= grid and 1 <= c <= grid and (r, c) not in constraint.walls
        if there != ((r, c) if free else here):
            return False
    if constraint.visit is not None and constraint.visit not in cells:
        return False
    return not (constraint.never_twice and len(set(cells)) < len(cells))
