"""Plays by the rules that were measured in NetHack (reproduce.md), in rooms of any size.

The largest room on NetHack's map has 19 × 19 cells. What a model does in larger ones is asked
here. Two things are left out: the exceptions (potions, wands and other monsters), and that imps
die; games in which one dies are not in the data either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.minihack.data import Dataset, Split, first_places
from experiments.minihack.game import HIT_POINTS, MOVES, Cell

AIM = 0.9  # of an imp that stands next to the agent
DAMAGE = 4  # hit points that a hit takes at most
HEALS = 15  # turns from one recovery to the next; the first comes one turn earlier


def simulate(split: Split) -> Dataset:
    """The games of a split. Each depends on the split and its own number alone."""
    starts, all_actions, all_hits, deaths = [], [], [], []
    for index in range(split.count):
        rng = np.random.default_rng((split.seed, split.grid, split.frames, split.enemies, index))
        (agent, *imps), actions = first_places(split, rng)
        hits, dead = play(split.grid, agent, imps, actions.tolist(), rng)
        starts.append(agent)
        all_actions.append(actions)
        all_hits.append(hits)
        deaths.append(dead)
    return Dataset(
        actions=np.stack(all_actions),
        start=np.array(starts, np.uint8),
        hits=np.stack(all_hits),
        dead=np.array(deaths, np.uint8),
        grid=split.grid,
        enemies=split.enemies,
    )


def play(
    grid: int, agent: Cell, imps: Sequence[Cell], actions: Sequence[int], rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """One game: whether health dropped on the way to each frame, and whether the agent died."""
    place, others = np.array(agent), [np.array(imp) for imp in imps]
    health, turn = HIT_POINTS, 0
    hits = [0]
    for action in actions:
        before = health
        target = np.clip(place + MOVES[action], 1, grid)
        if health > 0 and (target != place).any():  # a step into a wall takes no time
            turn += 1
            if not any((target == other).all() for other in others):
                place = target  # else it attacks, and stays
            if turn > 1:  # the imps sit out the first turn
                for k, imp in enumerate(others):
                    if abs(place - imp).max() > 1:
                        others[k] = towards(imp, place, [*others[:k], *others[k + 1 :]], grid)
                    elif rng.random() < AIM:
                        health = max(0, health - int(rng.integers(1, DAMAGE + 1)))
            if health > 0 and turn % HEALS == HEALS - 1:
                health = min(HIT_POINTS, health + 1)
        hits.append(int(health < before))
    return np.array(hits, np.uint8), health == 0


def towards(
    imp: np.ndarray, agent: np.ndarray, others: Sequence[np.ndarray], grid: int
) -> np.ndarray:
    """Where an imp goes: straight to the agent, or round another imp to the nearest free cell."""

    def free(cell: np.ndarray) -> bool:
        inside = cell.min() >= 1 and cell.max() <= grid
        return inside and not any((cell == other).all() for other in others)

    straight = imp + np.sign(agent - imp)
    if free(straight):
        return np.asarray(straight)
    around = [imp + np.array((r, c)) for r in (-1, 0, 1) for c in (-1, 0, 1)]
    return min(filter(free, around), key=lambda cell: int(((cell - agent) ** 2).sum()))
