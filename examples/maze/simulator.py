"""Mazes and robots in them, simulated with NumPy alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# As the program has it: that a move succeeds, that a wall is sensed, and one that is not there.
GOES, SENSED, FALSE_ALARM = 0.85, 0.9, 0.1
# north, east, south, west
WAYS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
DIRECTIONS = ("north", "east", "south", "west")


class Rooms(NamedTuple):
    """Data as the program reads them, and where the robot is, [room, step, (row, column)]."""

    data: dict[str, np.ndarray]
    position: np.ndarray


def maze(rng: np.random.Generator, n: int) -> np.ndarray:
    """Which cells of a square with an odd side are walls: a maze, with some walls torn down."""
    wall = np.ones((n, n), bool)
    wall[::2, ::2] = False
    seen = {(0, 0)}
    path = [(0, 0)]
    while path:
        r, c = path[-1]
        ways = [(r + 2 * a, c + 2 * b) for a, b in WAYS]
        ways = [w for w in ways if min(w) >= 0 and max(w) < n and w not in seen]
        if not ways:
            path.pop()
            continue
        new = ways[rng.integers(len(ways))]
        wall[(r + new[0]) // 2, (c + new[1]) // 2] = False
        seen.add(new)
        path.append(new)
    posts = np.add.outer(np.arange(n), np.arange(n)) % 2 == 1
    return wall & ~(posts & (rng.random((n, n)) < 0.1))


def is_open(wall: np.ndarray, cell: np.ndarray) -> bool:
    inside = cell.min() >= 0 and cell.max() < len(wall)
    return bool(inside and not wall[tuple(cell)])


def simulate(rng: np.random.Generator, rooms: int, n: int, steps: int) -> Rooms:
    """Robots that walk on until they seem to meet a wall, each in a room of its own."""
    walls = np.stack([maze(rng, n) for _ in range(rooms)])
    position = np.zeros((rooms, steps, 2), int)
    action = np.zeros((rooms, steps), int)
    senses = np.zeros((rooms, steps, 4), bool)
    for room, wall in enumerate(walls):
        here = rng.permutation(np.argwhere(~wall))[0]
        heading = rng.integers(4)
        for t in range(steps):
            if t:
                action[room, t] = heading
                aim = here + WAYS[heading]
                if rng.random() < GOES and is_open(wall, aim):
                    here = aim
            blocked = np.array([not is_open(wall, here + way) for way in WAYS])
            chance = np.where(blocked, SENSED, FALSE_ALARM)
            senses[room, t] = rng.random(4) < chance
            position[room, t] = here
            if senses[room, t, heading] or rng.random() < 0.2:
                heading = rng.integers(4)
    sensed = {f"senses({d})": senses[:, :, i] for i, d in enumerate(DIRECTIONS)}
    return Rooms({"wall": walls, "action": np.array(DIRECTIONS)[action], **sensed}, position)
