"""Measures the rules of the game on traced trajectories.

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
    """All steps of all trajectories. Positions are int [n, 2], those of enemies [n, E, 2]."""

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
        """The enemies stayed. One that killed did."""
        return self.death | (self.enemy_after == self.enemy).all(axis=(1, 2))

    @property
    def distance(self) -> np.ndarray:
        """From the enemies, before their move, to the agent, after its own (Chebyshev; [n, E])."""
        return np.abs(self.agent_after[:, None] - self.enemy).max(axis=2)


def steps(path: str | Path) -> Steps:
    with np.load(path) as trace:
        agent = trace["agent"].astype(int)
        enemy = trace["enemy"].astype(int)
        health = trace["hit_points"].astype(int)
        turns = trace["turn"].astype(int) - 1
        actions, messages, grid = trace["actions"], trace["messages"], int(trace["grid"])
    lives = health[:, :-1] > 0
    before, after = agent[:, :-1], agent[:, 1:]
    goal = np.clip(before + MOVES[actions], 1, grid)
    death = health[:, 1:] == 0
    attack = (goal[:, :, None] == enemy[:, :-1]).all(axis=-1).any(axis=-1)
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


def mentions(some: Steps, *words: str) -> np.ndarray:
    found = [np.char.find(some.messages, word) >= 0 for word in words]
    return np.any(found, axis=0)


def facts(every: Steps) -> Iterator[tuple[str, str]]:
    yield from clock(every)
    yield from alone(every) if every.enemy.shape[1] == 1 else crowd(every)


def clock(every: Steps) -> Iterator[tuple[str, str]]:
    """How the agent moves, and when time passes."""
    yield "steps", str(len(every))
    went = (every.agent_after == every.goal).all(axis=1)
    yield "the agent went where its action leads (walls considered)", share(went)
    yield "… when it did not, an enemy was in the way", share(every[~went].attack)
    yield "… an enemy in the way, and it went there all the same", share(went[every.attack])
    yield (
        "attacks on the enemy that hit (messages)",
        share(mentions(every[every.attack & ~every.death], "You hit", "You stab")),
    )

    yield "the action led into a wall", share(every.wall)
    yield "… and the clock stood still", share(~every[every.wall & ~every.death].passed)
    yield "the clock stood still although there was no wall", share(~every[~every.wall].passed)
    still = every[~every.passed]
    yield "no time passed: the imp moved or hit", share(~still.stayed | still.hit)
    first = every[every.passed & (every.turns == 0)]
    yield "the first turn of the clock: the imp moved or hit", share(~first.stayed | first.hit)


def alone(every: Steps) -> Iterator[tuple[str, str]]:
    """What the only enemy does."""
    near = every.distance[:, 0] == 1
    alive = every[~every.death]
    yield "adjacent before the imp's move: hit", share(every[near].hit)
    yield "hits that adjacency before the imp's move explains", share(near[every.hit])
    due = every.passed & (every.turns > 0)
    yield "adjacent, on the imp's turn: hit", share(every[near & due].hit)
    yield "hits that adjacency on the imp's turn explains", share((near & due)[every.hit])
    early = np.abs(every.agent - every.enemy[:, 0]).max(axis=1) == 1
    yield "hits that adjacency before the agent's move explains", share(early[every.hit])
    close = every[near & due]
    yield "adjacent, on the imp's turn: the imp stayed", share(close.stayed)
    yield "… stayed: hit", share(close[close.stayed].hit)
    idle = close[close.stayed & ~close.hit]
    yield "… stayed without a hit: the message is of a miss", share(mentions(idle, "misses"))
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
        share(~struck[mentions(struck, "You hit", "You stab")].stayed),
    )

    for what, some in (
        ("that did not kill", every[every.hit & ~every.death]),
        ("on more than 4 hit points", every[every.hit & (every.health > 4)]),
    ):
        lost = some.health - some.health_after
        for points in range(1, 5):
            yield f"a hit {what} took {points}", share(lost == points)
        yield f"a hit {what} took more", share(lost > 4)
    healed = alive[alive.health_after > alive.health]
    yield "steps in which health rose", str(len(healed))
    yield "… on these turns of the clock", count(healed.turns_after)
    yield "… in these steps", count(healed.number)
    healing = alive[alive.passed & (alive.turns_after == 14) & (alive.health < 12) & ~alive.hit]
    rose = healing.health_after > healing.health
    yield "turn 14, wounded, health did not drop: it rose", share(rose)
    yield "… it did not rise: the message is of a hit", share(mentions(healing[~rose], "hits"))

    far = every[~near & due & ~every.death]
    went = (far.enemy_after - far.enemy)[:, 0]
    length = np.abs(went).max(axis=1)
    for cells in range(int(length.max()) + 1):
        yield f"not adjacent, on its turn: the imp moved {cells} cells", share(length == cells)
    stuck = far[length == 0]
    yield (
        "… did not move: it drank, read, zapped or put on something",
        share(
            mentions(stuck, "drinks", "reads", "zaps", "puts on", "wields", "imp looks", "seems")
        ),
    )
    moved, went = far[length == 1], went[length == 1]
    yield "… moved one cell: diagonally", share((np.abs(went) == 1).all(axis=1))
    gain = np.abs(moved.agent_after - moved.enemy_after[:, 0]).max(axis=1) - moved.distance[:, 0]
    for change in (-1, 0, 1):
        yield f"… moved one cell: its Chebyshev distance changed by {change}", share(gain == change)
    now = np.sign(moved.agent_after - moved.enemy[:, 0])
    yield (
        "… moved one cell: by the sign of the difference in both axes",
        share((went == now).all(axis=1)),
    )
    old = np.sign(moved.agent - moved.enemy[:, 0])
    yield (
        "… the same towards where the agent was before its own move",
        share((went == old).all(axis=1)),
    )


def crowd(every: Steps) -> Iterator[tuple[str, str]]:
    """What several enemies do."""
    due = every[every.passed & (every.turns > 0)]
    near = (due.distance == 1).sum(axis=1)
    for k in range(due.enemy.shape[1] + 1):
        yield f"{k} adjacent, on the imps' turn: hit", share(due[near == k].hit)
    lost = due.health - due.health_after
    yield "hits that did not kill and took more than 4", share((lost > 4)[due.hit & ~due.death])

    clear, blocked = [], []
    for k in np.flatnonzero(~due.death):
        agent, before, close = due.agent_after[k], due.enemy[k], due.distance[k] == 1
        goals = np.where(close[:, None], before, before + np.sign(agent - before))
        taken, wanted, after = places(before), places(goals), places(due.enemy_after[k])
        met = taken & places(goals[~close])
        if not met and len(wanted) == len(goals):
            clear.append(after == wanted)
        elif len(goals) == 2 and close.sum() == 1:  # the other one is at the agent already
            (mover,) = before[~close]
            around = places(mover + np.array(list(np.ndindex(3, 3))) - 1)
            length = {c: int(((agent - c) ** 2).sum()) for c in around - met - places(mover[None])}
            (went,) = after - met if len(after - met) == 1 else [(0, 0)]
            blocked.append(length.get(went) == min(length.values()))
    yield (
        "no imp in another's way: each stays if adjacent, else goes straight",
        share(np.array(clear)),
    )
    yield (
        "an adjacent imp in another's way: that goes to the free cell nearest to the agent",
        share(np.array(blocked)),
    )


def places(cells: np.ndarray) -> set[tuple[int, int]]:
    return {(int(row), int(column)) for row, column in cells}


def count(values: np.ndarray) -> str:
    return ", ".join(
        f"{v}: {n}" for v, n in zip(*np.unique(values, return_counts=True), strict=True)
    )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.minihack.facts TRACE.npz")
    if not Path(sys.argv[1]).is_file():
        sys.exit(f"error: there is no file {sys.argv[1]}")
    print("| fact | measured |\n|---|---|")
    for fact, measured in facts(steps(sys.argv[1])):
        print(f"| {fact} | {measured} |")


if __name__ == "__main__":
    main()
