"""Drives the real game: a rogue and hostile imps in a walled room of NetHack.

`nle` and `minihack` (the extra `[minihack]`) are imported when a `Game` is made, so that this
module can be imported without them.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

NORTH, EAST, SOUTH, WEST = range(4)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # (row, column) by action
HIT_POINTS = 12
NEEDED = "playing the game needs nle and minihack: pip install 'nesymm[minihack]'"
LARGEST_GRID = 19  # NetHack's map has 21 rows, two of which are the walls
TILE = 16  # pixels along a cell

Cell = tuple[int, int]  # row and column, from 1 at the north-west


@dataclass(frozen=True)
class Trajectory:
    """One game, frame by frame. What is not there (the dead) has coordinates 0."""

    hit: np.ndarray  # bool [T]: did the agent's health drop between the last frame and this one?
    dead: bool  # did the agent die?
    enemy_lost: bool  # did an enemy die, leave or become invisible? The game was stopped then
    agent: np.ndarray  # uint8 [T, 2]
    enemies: np.ndarray  # uint8 [T, E, 2], ordered by row and column: they have no names
    hit_points: np.ndarray  # uint8 [T]
    turn: np.ndarray  # uint8 [T]: the game's clock, from 1; it stands still at a wall
    messages: list[str]  # what the game said on the way to each frame
    glyphs: np.ndarray  # int16 [T, N + 2, N + 2]: the room with its walls
    pixels: np.ndarray | None  # uint8 [T, 3, (N + 2) * TILE, (N + 2) * TILE], where asked for


def installed() -> bool:
    """Whether games can be played."""
    return all(importlib.util.find_spec(name) is not None for name in ("nle", "minihack"))


class Game:
    """A room of `grid` × `grid` cells. Close it after use, or use it in a `with` statement.

    With `pixels`, the game's own pictures are recorded too.
    """

    def __init__(self, grid: int, pixels: bool = False) -> None:
        if not 2 <= grid <= LARGEST_GRID:
            raise ValueError(
                f"a room of {grid} × {grid} cells does not fit on NetHack's map: "
                f"the grid must be between 2 and {LARGEST_GRID}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # both packages use what is deprecated
                from minihack import LevelGenerator
                from minihack.base import MiniHack
                from nle import nethack
        except ImportError as error:
            raise ImportError(NEEDED) from error
        self.grid = grid
        self._pixels = pixels
        self._generator = LevelGenerator
        self._nethack = nethack
        self._imp = nethack.GLYPH_MON_OFF + next(
            k for k in range(nethack.NUMMONS) if nethack.permonst(k).mname == "imp"
        )
        compass = nethack.CompassDirection
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._env: Any = MiniHack(
                des_file=self._level((1, 1), []),
                character="rog-hum-cha-mal",
                actions=(compass.N, compass.E, compass.S, compass.W),
                observation_keys=("glyphs", "blstats", "message", *(["pixel"] if pixels else [])),
                max_episode_steps=1_000_000,
                # The luck of a full moon or a Friday the 13th comes from the seed, not from
                # the day on which the game is played.
                fix_moon_phase=True,
            )

    def _level(self, agent: Cell, enemies: Sequence[Cell]) -> str:
        size = self.grid
        wall = "-" * (size + 2)
        level = self._generator(map="\n".join([wall, *["|" + "." * size + "|"] * size, wall]))
        level.set_start_pos((agent[1], agent[0]))
        for row, column in enemies:
            level.add_monster("imp", "i", place=(column, row), args=("hostile", "awake"))
        return level.get_des()

    def play(
        self, agent: Cell, enemies: Sequence[Cell], actions: Sequence[int], seed: int
    ) -> Trajectory:
        """Plays one game until the actions are used up, the agent is dead or an enemy is lost.

        The same arguments always give the same game.
        """
        env, frames = self._env, len(actions) + 1
        env.update(self._level(agent, enemies))
        env.seed(core=seed, disp=seed, reseed=False)
        observation, _ = env.reset()

        stats = observation["blstats"]
        corner = np.array([stats[self._nethack.NLE_BL_Y], stats[self._nethack.NLE_BL_X]]) - agent
        at = np.zeros((frames, 2), np.uint8)
        imps = np.zeros((frames, len(enemies), 2), np.uint8)
        hit_points, turn = np.zeros(frames, np.uint8), np.zeros(frames, np.uint8)
        messages = [""] * frames
        side = self.grid + 2
        glyphs = np.zeros((frames, side, side), np.int16)
        size = side * TILE
        pixels = np.zeros((frames, 3, size, size), np.uint8) if self._pixels else None
        dead = enemy_lost = False

        def record(frame: int) -> bool:
            """Writes down one frame; false when an enemy is missing."""
            stats = observation["blstats"]
            here = (stats[self._nethack.NLE_BL_Y], stats[self._nethack.NLE_BL_X])
            at[frame] = here - corner
            hit_points[frame] = stats[self._nethack.NLE_BL_HP]
            turn[frame] = stats[self._nethack.NLE_BL_TIME]
            messages[frame] = bytes(observation["message"]).rstrip(b"\0").decode("ascii", "replace")
            top, left = corner
            glyphs[frame] = observation["glyphs"][top : top + side, left : left + side]
            if pixels is not None:
                y, x = TILE * corner
                picture = observation["pixel"][y : y + size, x : x + size]
                pixels[frame] = np.moveaxis(picture, -1, 0)
            found = np.argwhere(observation["glyphs"] == self._imp) - corner
            if len(found) != len(enemies):
                return False
            imps[frame] = found
            return True

        placed = record(0) and np.array_equal(imps[0], np.array(sorted(enemies)).reshape(-1, 2))
        if not placed or hit_points[0] != HIT_POINTS:
            raise RuntimeError(
                f"the game did not start as asked: agent {agent}, enemies {enemies}, seed {seed}"
            )
        for frame, action in enumerate(actions, start=1):
            observation, _, done, _, info = env.step(int(action))
            if done:
                if info["end_status"] != env.StepStatus.DEATH:
                    raise RuntimeError(f"the game ended with {info['end_status']!r}, seed {seed}")
                dead = True
                break
            if not record(frame):
                enemy_lost = True
                break
        hit = np.zeros(frames, bool)
        hit[1:] = hit_points[1:] < hit_points[:-1]  # the last frame of the dead included
        return Trajectory(
            hit, dead, enemy_lost, at, imps, hit_points, turn, messages, glyphs, pixels
        )

    def close(self) -> None:
        self._env.close()

    def __enter__(self) -> Game:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
