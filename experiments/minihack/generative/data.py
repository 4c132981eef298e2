"""The data set: who walked where, as the game drew it. Pictures are rendered from tiles.

    python -m experiments.minihack.generative.data

plays every game again (needs the extra `[minihack]`); `load` needs nothing but NumPy. A file
holds, for `n` sequences of `T` frames in a room of N × N cells with walls around it,

    cells    uint8 [n, T, N+2, N+2]  which tile is drawn where
    tiles    uint8 [k, 3, 16, 16]    what the tiles look like: red, green, blue
    actions  uint8 [n, T-1]          0 north, 1 east, 2 south, 3 west
    agent    uint8 [n, T, 2]         row and column, from 1 to N; for scores only
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from experiments.minihack.arrays import LARGEST, DataError, misshapen, outside, read_arrays
from experiments.minihack.game import NEEDED, TILE, Game, Trajectory, installed
from experiments.minihack.options import positive
from nesymm import NesymmError

FOLDER = Path(__file__).parent / "data"
FRAMES = 10
GRIDS = (5, 10)
PIXELS = {5: 16, 10: 8}  # along a cell, as in the paper


@dataclass(frozen=True)
class Split:
    """Which games: `count` of them, with `seed` for everything that is drawn."""

    grid: int
    part: str
    count: int
    seed: int

    @property
    def name(self) -> str:
        return f"N{self.grid}{self.part}"


SPLITS = {
    split.name: split
    for grid in GRIDS
    for split in [
        Split(grid, "train", 5000, seed=0),
        Split(grid, "valid", 500, seed=1),
        Split(grid, "test", 1000, seed=2),
    ]
}


@dataclass(frozen=True)
class Dataset:
    """The arrays of one file; see the top of this module."""

    cells: np.ndarray
    tiles: np.ndarray
    actions: np.ndarray
    agent: np.ndarray

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def grid(self) -> int:
        return self.cells.shape[-1] - 2

    def first(self, count: int) -> Dataset:
        """The first `count` sequences."""
        return self.take(slice(count))

    def take(self, rows: slice | np.ndarray) -> Dataset:
        """Some of the sequences."""
        return Dataset(self.cells[rows], self.tiles, self.actions[rows], self.agent[rows])

    def frames(self, pixels: int) -> np.ndarray:
        """All pictures, [n, T, 3, height, width] from 0 to 1, with `pixels` along a cell."""
        return np.asarray(render(self.cells, shrink(self.tiles, pixels), np))

    def save(self, path: str | Path) -> None:
        np.savez_compressed(path, **{f.name: getattr(self, f.name) for f in fields(self)})


def load(source: str | Path) -> Dataset:
    """The data set in a file, or the shipped one of that name (`N5train`, …); it is checked."""
    path = FOLDER / f"{source}.npz" if source in SPLITS else Path(source)
    given = read_arrays(path, [field.name for field in fields(Dataset)])
    wrong = _shapes(given) or _values(given)
    if wrong:
        raise DataError(f"{path}: {'; '.join(wrong)}")
    return Dataset(**{name: array.astype(np.uint8) for name, array in given.items()})


def _shapes(given: dict[str, np.ndarray]) -> list[str]:
    """What is wrong with the shapes."""
    cells, tiles = given["cells"].shape, given["tiles"].shape
    if len(cells) != 4 or cells[2] != cells[3] or cells[2] < 3:
        return [f"cells: expected shape [n, T, N+2, N+2] with N at least 1, received {cells}"]
    if len(tiles) != 4 or not tiles[0]:
        return [f"tiles: expected shape [k, 3, {TILE}, {TILE}], received {tiles}"]
    n, frames = cells[:2]
    if not n or frames < 2:
        return [f"cells: expected sequences of at least 2 frames, received {n} of {frames}"]
    shapes = {"tiles": (tiles[0], 3, TILE, TILE), "actions": (n, frames - 1)}
    return misshapen(given, {**shapes, "agent": (n, frames, 2)})


def _values(given: dict[str, np.ndarray]) -> list[str]:
    """What is wrong with the values. The shapes are right."""
    tiles, along = len(given["tiles"]), given["cells"].shape[-1] - 2
    return outside(
        given,
        {
            "cells": (0, min(tiles - 1, LARGEST)),
            "tiles": (0, LARGEST),
            "actions": (0, 3),
            "agent": (1, min(along, LARGEST)),
        },
    )


# ---------------------------------------------------------------- pictures


def shrink(tiles: np.ndarray, pixels: int) -> np.ndarray:
    """Tiles with `pixels` along a cell, from 0 to 1: means over squares of the game's pixels."""
    if pixels < 1 or TILE % pixels:
        raise NesymmError(f"pixels: expected a divisor of {TILE}, received {pixels}")
    step = TILE // pixels
    squares = tiles.reshape(len(tiles), 3, pixels, step, pixels, step)
    return (squares.mean(axis=(3, 5)) / 255).astype(np.float32)


def render(cells: Any, tiles: Any, xp: Any) -> Any:
    """Pictures [..., 3, height, width] of cells [..., rows, columns]; `xp` is numpy or its like."""
    found = tiles[cells]  # [..., row, column, 3, y, x]
    lead, (rows, columns), pixels = cells.shape[:-2], cells.shape[-2:], tiles.shape[-1]
    k = len(lead)
    order = (*range(k), k + 2, k, k + 3, k + 1, k + 4)
    size = (*lead, 3, rows * pixels, columns * pixels)
    return xp.transpose(found, order).reshape(size)


# ---------------------------------------------------------------- playing


def play(game: Game, split: Split, index: int) -> tuple[np.ndarray, Trajectory]:
    """Actions and game number `index` of a split; they depend on nothing but these two."""
    rng = np.random.default_rng((split.seed, split.grid, FRAMES, index))
    # Rows and columns 1 to N - 1, as the paper's authors have it.
    row, column = rng.integers(1, split.grid, size=2)
    actions = rng.integers(4, size=FRAMES - 1, dtype=np.uint8)
    seed = int(rng.integers(2**31))
    return actions, game.play((int(row), int(column)), [], actions.tolist(), seed)


def _play_range(split: Split, bounds: tuple[int, int]) -> list[tuple[np.ndarray, Trajectory]]:
    with Game(split.grid) as game:
        return [play(game, split, index) for index in range(*bounds)]


def games(split: Split, jobs: int = 1) -> Iterator[tuple[np.ndarray, Trajectory]]:
    """The games of a split, in order, played on `jobs` processes."""
    size = 100
    chunks = [(k, min(k + size, split.count)) for k in range(0, split.count, size)]
    chunk = functools.partial(_play_range, split)
    if jobs == 1:
        for bounds in chunks:
            yield from chunk(bounds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found in pool.imap(chunk, chunks):
            yield from found


def cut_tiles(trajectory: Trajectory) -> dict[int, np.ndarray]:
    """What the glyphs of a game with pixels look like, each the same wherever it is drawn."""
    assert trajectory.pixels is not None
    found: dict[int, np.ndarray] = {}
    for (frame, row, column), glyph in np.ndenumerate(trajectory.glyphs):
        y, x = TILE * row, TILE * column
        tile = trajectory.pixels[frame, :, y : y + TILE, x : x + TILE]
        if not np.array_equal(found.setdefault(int(glyph), tile), tile):
            raise RuntimeError(f"the glyph {glyph} does not always look the same")
    return found


def collect(split: Split, jobs: int = 1) -> Dataset:
    """Plays the games of a split."""
    played = list(games(split, jobs))
    glyphs = np.stack([trajectory.glyphs for _, trajectory in played])
    known, cells = np.unique(glyphs, return_inverse=True)
    looks: dict[int, np.ndarray] = {}
    with Game(split.grid, pixels=True) as game:
        for index in range(split.count):
            looks |= cut_tiles(play(game, split, index)[1])
            if set(known.tolist()) <= set(looks):
                break
    return Dataset(
        cells=cells.reshape(glyphs.shape).astype(np.uint8),
        tiles=np.stack([looks[glyph] for glyph in known.tolist()]),
        actions=np.stack([actions for actions, _ in played]),
        agent=np.stack([trajectory.agent for _, trajectory in played]),
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.minihack.generative.data",
        description="Play the games of the generative experiment.",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder for the files")
    parser.add_argument("--only", nargs="+", choices=SPLITS, metavar="NAME", help="these alone")
    parser.add_argument("--jobs", type=positive, default=1, help="processes (1)")
    options = parser.parse_args(arguments)
    if not installed():
        parser.error(NEEDED)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or SPLITS:
        data = collect(SPLITS[name], options.jobs)
        data.save(options.out / f"{name}.npz")
        print(f"{name}: {len(data)} sequences, {len(data.tiles)} tiles")


if __name__ == "__main__":
    main()
