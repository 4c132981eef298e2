"""Measures the rules of the game on traced trajectories with one enemy.

    python -m experiments.minihack.data --only N10T10E1train --out OUT --trace OUT
    python -m experiments.minihack.facts OUT/N10T10E1train_trace.npz

A step leads from a frame in which the agent lives to the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.minihack.game import MOVES


@dataclass(frozen=True)
class Steps:
    """All steps of all trajectories, one after the other; positions are int [n, 2]."""

    number: np.ndarray  # 1 for the step out of the first frame
    turns: np.ndarray  # how many turns the game's clock had counted before the step
    wall: np.ndarray  # the action leads into a wall
    attack: np.ndarray  # the action leads into the enemy
    agent: np.ndarray  # the agent before the step
    goal: np.ndarray  # where the action leads, walls considered
    agent_after: np.ndarray  # after the step; by the rules where the agent died
    enemy: np.ndarray
    enemy_after: np.ndarray
    health: np.ndarray
    health_after: np.ndarray
    turns_after: np.ndarray
    death: np.ndarray
    messages: np.ndarray

    def __getitem__(self, which: np.ndarray) -> Steps:
        return Steps(**{name: value[which] for name, value in vars(self).items()})

    def __len__(self) -> int:
        return len(self.number)

    @property
    def hit(self) -> np.ndarray:
        return self.health_after < self.health

    @property
    def passed(self) -> np.ndarray:
        """Time passed. The dead did not die at a wall."""
        return self.death | (self.turns_after > self.turns)

    @property
    def stayed(self) -> np.ndarray:
        """The enemy stayed. It did where it killed."""
        return self.death | (self.enemy_after == self.enemy).all(axis=1)

    def distance(self) -> np.ndarray:
        """From the enemy, before its move, to the agent, after its own (Chebyshev)."""
        return np.abs(self.agent_after - self.enemy).max(axis=1)


def steps(path: str | Path) -> Steps:
    with np.load(path) as trace:
        agent = trace["agent"].astype(int)
        enemy = trace["enemy"].astype(int)
        health = trace["hit_points"].astype(int)
        turns = trace["turn"].astype(int) - 1
        actions, messages, grid = trace["actions"], trace["messages"], int(trace["grid"])
    if enemy.shape[2] != 1:
        raise ValueError(f"{path} has {enemy.shape[2]} enemies; the facts are about one")
    enemy = enemy[:, :, 0]
    lives = health[:, :-1] > 0
    before, after = agent[:, :-1], agent[:, 1:]
    goal = np.clip(before + MOVES[actions], 1, grid)
    death = health[:, 1:] == 0
    attack = (goal == enemy[:, :-1]).all(axis=-1)
    by_rule = np.where(attack[..., None], before, goal)
    return Steps(
        number=np.broadcast_to(np.arange(1, lives.shape[1] + 1), lives.shape)[lives],
        turns=turns[:, :-1][lives],
        wall=(goal == before).all(axis=-1)[lives],
        attack=attack[lives],
        agent=before[lives],
        goal=goal[lives],
        agent_after=np.where(death[..., None], by_rule, after)[lives],
        enemy=enemy[:, :-1][lives],
        enemy_after=enemy[:, 1:][lives],
        health=health[:, :-1][lives],
        health_after=health[:, 1:][lives],
        turns_after=turns[:, 1:][lives],
        death=death[lives],
        messages=messages[:, 1:][lives],
    )


def share(part: np.ndarray) -> str:
    """A frequency, with its standard error and the number it is out of."""
    if len(part) == 0:
        return "– of 0"
    mean = float(np.mean(part))
    error = np.sqrt(mean * (1 - mean) / len(part))
    return f"{100 * mean:.2f} ± {100 * error:.2f} % of {len(part)}"


def said(some: Steps, *words: str) -> np.ndarray:
    found = [np.char.find(some.messages, word) >= 0 for word in words]
    return np.any(found, axis=0)


def facts(every: Steps) -> Iterator[tuple[str, str]]:
    near = every.distance() == 1
    alive = every[~every.death]
    yield "steps", str(len(every))
    went = (every.agent_after == every.goal).all(axis=1)
    yield "the agent went where its action leads (walls considered)", share(went)
    yield "… when it did not, an enemy was in the way", share(every[~went].attack)
    yield "… an enemy in the way, and it went there all the same", share(went[every.attack])
    yield (
        "attacks on the enemy that hit (messages)",
        share(said(every[every.attack & ~every.death], "You hit", "You stab")),
    )

    yield "the action led into a wall", share(every.wall)
    yield "… and the clock stood still", share(~every[every.wall & ~every.death].passed)
    yield "the clock stood still although there was no wall", share(~every[~every.wall].passed)
    still = every[~every.passed]
    yield "no time passed: the imp moved or hit", share(~still.stayed | still.hit)
    first = every[every.passed & (every.turns == 0)]
    yield "the first turn of the clock: the imp moved or hit", share(~first.stayed | first.hit)

    yield "adjacent before the imp's move: hit", share(every[near].hit)
    yield "hits that this condition explains", share(near[every.hit])
    due = every.passed & (every.turns > 0)
    yield "adjacent, on the imp's turn: hit", share(every[near & due].hit)
    yield "hits that this condition explains ", share((near & due)[every.hit])
    early = np.abs(every.agent - every.enemy).max(axis=1) == 1
    yield "hits explained by adjacency before the agent's move", share(early[every.hit])
    close = every[near & due]
    yield "adjacent, on the imp's turn: the imp stayed", share(close.stayed)
    yield "… stayed: hit", share(close[close.stayed].hit)
    idle = close[close.stayed & ~close.hit]
    yield "… stayed without a hit: the message is of a miss", share(said(idle, "misses"))
    yield "… moved: hit", share(close[~close.stayed].hit)
    yield (
        "adjacent, on its turn, not attacked: the imp moved",
        share(~close[~close.attack & ~close.death].stayed),
    )
    yield (
        "adjacent, on its turn, attacked: the imp moved",
        share(~close[close.attack & ~close.death].stayed),
    )
    struck = close[close.attack & ~close.death]
    yield (
        "adjacent, on its turn, struck: the imp moved",
        share(~struck[said(struck, "You hit", "You stab")].stayed),
    )

    wound = (every.health - every.health_after)[every.hit & ~every.death]
    for points in range(1, int(wound.max()) + 1):
        yield f"a hit that did not kill took {points}", share(wound == points)
    strong = alive[(alive.health > 4) & alive.hit]
    for points in range(1, 5):
        yield (
            f"a hit on more than 4 hit points took {points}",
            share(strong.health - strong.health_after == points),
        )
    healed = alive[alive.health_after > alive.health]
    yield "steps in which health rose", str(len(healed))
    yield "… on these turns of the clock", count(healed.turns_after)
    yield "… in these steps", count(healed.number)
    chance = alive[alive.passed & (alive.turns_after == 14) & (alive.health < 12) & ~alive.hit]
    yield "turn 14, wounded, no hit: health rose", share(chance.health_after > chance.health)

    far = every[~near & due & ~every.death]
    length = np.abs(far.enemy_after - far.enemy).max(axis=1)
    for cells in range(int(length.max()) + 1):
        yield f"not adjacent, on its turn: the imp moved {cells} cells", share(length == cells)
    stuck = far[length == 0]
    yield (
        "… did not move: it drank, read, zapped or put on something",
        share(said(stuck, "drinks", "reads", "zaps", "puts on", "wields", "imp looks", "seems")),
    )
    moved = far[length == 1]
    yield (
        "… moved one cell: diagonally",
        share((np.abs(moved.enemy_after - moved.enemy) == 1).all(axis=1)),
    )
    gain = np.abs(moved.agent_after - moved.enemy_after).max(axis=1) - moved.distance()
    for change in (-1, 0, 1):
        yield f"… moved one cell: its Chebyshev distance changed by {change}", share(gain == change)
    straight = np.sign(moved.agent_after - moved.enemy)
    yield (
        "… moved one cell: by the sign of the difference in both axes",
        share((moved.enemy_after - moved.enemy == straight).all(axis=1)),
    )
    stale = np.sign(moved.agent - moved.enemy)
    yield (
        "… the same towards where the agent was before its own move",
        share((moved.enemy_after - moved.enemy == stale).all(axis=1)),
    )


def count(values: np.ndarray) -> str:
    return ", ".join(
        f"{v}: {n}" for v, n in zip(*np.unique(values, return_counts=True), strict=True)
    )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.minihack.facts TRACE.npz")
    print("| fact | measured |\n|---|---|")
    for fact, measured in facts(steps(sys.argv[1])):
        print(f"| {fact.strip()} | {measured} |")


if __name__ == "__main__":
    main()
