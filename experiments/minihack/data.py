"""The data set: its splits, its arrays, its files, and the command that makes them.

    python -m experiments.minihack.data --out experiments/minihack/data

plays every game that ships again (needs the extra `[minihack]`); `load` needs nothing but NumPy.
A file holds, for `n` trajectories of `T` frames,

    actions  uint8 [n, T-1]  0 north, 1 east, 2 south, 3 west
    start    uint8 [n, 2]    row and column of the agent, from 1 to `grid`
    hits     uint8 [n, T]    1 where the health dropped on the way to the frame; the first is 0
    dead     uint8 [n]       1 if the agent died
    grid     uint8           N
    enemies  uint8           E
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from experiments.minihack.game import NEEDED, Cell, Game, Trajectory, installed

FOLDER = Path(__file__).parent / "data"

# Percentage of deaths in the paper (Table 1) by grid, frames and enemies.
PAPER_DEATHS = {
    (10, 10, 1): 17.2,
    (10, 10, 2): 60.9,
    (10, 20, 1): 89.0,
    (10, 20, 2): 99.0,
    (15, 10, 1): 9.9,
    (15, 10, 2): 32.1,
    (15, 20, 1): 75.1,
    (15, 20, 2): 96.7,
}
PAPER_DRAWS = 1000

# Enough for 200 of the rarer class.
LARGE = {
    (10, 10, 1): 2_000,
    (10, 10, 2): 2_000,
    (10, 20, 1): 3_000,
    (10, 20, 2): 30_000,
    (15, 10, 1): 3_000,
    (15, 10, 2): 2_000,
    (15, 20, 1): 2_000,
    (15, 20, 2): 8_000,
}

# Beyond the paper. A room larger than 19 × 19 does not fit on NetHack's map.
FURTHER = (
    (10, 10, 3),
    (10, 10, 5),
    (15, 10, 3),
    (15, 10, 5),
    (10, 50, 1),
    (19, 20, 1),
    (19, 50, 1),
)
# Larger rooms than NetHack has: played by its rules, but not by the game.
SIMULATED = ((30, 20, 1), (30, 20, 2), (30, 30, 1))


@dataclass(frozen=True)
class Split:
    """Which games: `count` of them, with `seed` for everything that is drawn."""

    grid: int
    frames: int
    enemies: int
    part: str
    count: int
    seed: int

    @property
    def name(self) -> str:
        return f"N{self.grid}T{self.frames}E{self.enemies}{self.part}"


# Games to look at while rules and methods are made, so that those of the test sets stay unseen.
# They do not ship.
DEVELOPMENT = "dev"

SPLITS = {
    split.name: split
    for split in [
        Split(10, 10, 1, "train", 5000, seed=0),
        Split(10, 10, 1, "valid", 500, seed=1),
        *(Split(*setting, "test", 1000, seed=5) for setting in PAPER_DEATHS),
        *(Split(*setting, "test_large", count, seed=6) for setting, count in LARGE.items()),
        *(Split(*setting, "test", 1000, seed=5) for setting in FURTHER),
        *(Split(*setting, "simulated", 1000, seed=4) for setting in SIMULATED),
        *(Split(*setting, DEVELOPMENT, 1000, seed=2) for setting in PAPER_DEATHS),
    ]
}
SHIPPED = [name for name, split in SPLITS.items() if split.part != DEVELOPMENT]


@dataclass(frozen=True)
class Dataset:
    """The arrays of one file; see the top of this module."""

    actions: np.ndarray
    start: np.ndarray
    hits: np.ndarray
    dead: np.ndarray
    grid: int
    enemies: int

    def __len__(self) -> int:
        return len(self.dead)

    @property
    def frames(self) -> int:
        return self.hits.shape[1]

    def save(self, path: str | Path) -> None:
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez_compressed(path, **{k: np.asarray(a, np.uint8) for k, a in arrays.items()})

    def padded_with_zeros(self) -> Dataset:
        """A copy in which the actions after death are 0, as the paper's authors have them.

        This gives the label away. It is for comparison only.
        """
        frames = np.arange(self.frames)
        death = np.where(self.dead == 1, (frames * self.hits).max(axis=1), self.frames)
        after = frames[:-1] >= death[:, None]  # action t leads from frame t to frame t + 1
        return replace(self, actions=np.where(after, 0, self.actions).astype(np.uint8))


def load(source: str | Path) -> Dataset:
    """The data set in a file, or the shipped one of that name (`N10T10E1train`, …)."""
    path = FOLDER / f"{source}.npz" if source in SPLITS else Path(source)
    if source in SPLITS and not path.exists():
        play = f"python -m experiments.minihack.data --only {source} --out FOLDER"
        raise FileNotFoundError(f"{source} does not ship; `{play}` plays it: load its path then")
    with np.load(path) as arrays:
        missing = {field.name for field in fields(Dataset)} - set(arrays)
        if missing:
            raise ValueError(f"{path} lacks {', '.join(sorted(missing))}")
        return Dataset(
            actions=arrays["actions"],
            start=arrays["start"],
            hits=arrays["hits"],
            dead=arrays["dead"],
            grid=int(arrays["grid"]),
            enemies=int(arrays["enemies"]),
        )


@dataclass(frozen=True)
class Sample:
    """One trajectory of a split, with the actions that were drawn for it."""

    actions: np.ndarray
    trajectory: Trajectory
    draws: int  # 1 + how many sequences were thrown away because an enemy was lost


def sample(game: Game, split: Split, index: int) -> Sample:
    """Trajectory number `index` of a split; it depends on nothing but these two.

    All actions are drawn before the game, so that those after death say nothing about it.
    """
    entropy = (split.seed, split.grid, split.frames, split.enemies, index)
    rng = np.random.default_rng(entropy)
    for draws in range(1, 10_000):
        places, actions = first_places(split, rng)
        seed = int(rng.integers(2**31))
        trajectory = game.play(places[0], places[1:], actions.tolist(), seed)
        if not trajectory.enemy_lost:
            return Sample(actions, trajectory, draws)
    raise RuntimeError(f"{split.name}: an enemy was lost in every sequence of trajectory {index}")


def first_places(split: Split, rng: np.random.Generator) -> tuple[list[Cell], np.ndarray]:
    """Where the agent and the imps begin, and what the agent will do."""
    side = split.grid - 1  # rows and columns 1 to N - 1, as the paper's authors have it
    cells = rng.choice(side * side, size=1 + split.enemies, replace=False)
    actions = rng.integers(4, size=split.frames - 1, dtype=np.uint8)
    return [(1 + int(c) // side, 1 + int(c) % side) for c in cells], actions


def _sample_range(split: Split, bounds: tuple[int, int]) -> list[Sample]:
    with Game(split.grid) as game:
        return [sample(game, split, index) for index in range(*bounds)]


def generate(split: Split, jobs: int = 1) -> Iterator[list[Sample]]:
    """Plays the games of a split, in order, a few at a time, on `jobs` processes."""
    size = 50
    chunks = [(k, min(k + size, split.count)) for k in range(0, split.count, size)]
    play = functools.partial(_sample_range, split)
    if jobs == 1:
        yield from map(play, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(play, chunks)


def collect(split: Split, samples: list[Sample]) -> Dataset:
    return Dataset(
        actions=np.stack([s.actions for s in samples]),
        start=np.stack([s.trajectory.agent[0] for s in samples]),
        hits=np.stack([s.trajectory.hit for s in samples]).astype(np.uint8),
        dead=np.array([s.trajectory.dead for s in samples], np.uint8),
        grid=split.grid,
        enemies=split.enemies,
    )


def save_trace(path: str | Path, samples: list[Sample], grid: int) -> None:
    """What the models do not see: where everyone was, the health, and the game's messages.

    Arrays `agent [n, T, 2]`, `enemy [n, T, E, 2]` (ordered by row and column), `hit_points
    [n, T]`, `turn [n, T]` (the game's clock), `messages [n, T]`, `actions [n, T-1]`, `dead
    [n]`, `draws [n]` and `grid`. The dead have no place: their coordinates are 0 from the
    frame of their death on.
    """
    games = [s.trajectory for s in samples]
    np.savez_compressed(
        path,
        agent=np.stack([g.agent for g in games]),
        enemy=np.stack([g.enemies for g in games]),
        hit_points=np.stack([g.hit_points for g in games]),
        turn=np.stack([g.turn for g in games]),
        messages=np.array([g.messages for g in games]),
        actions=np.stack([s.actions for s in samples]),
        dead=np.array([g.dead for g in games]),
        draws=np.array([s.draws for s in samples]),
        grid=np.array(grid),
    )


def deviation(deaths: float, count: int, paper: float) -> float:
    """How many standard errors of the difference a death rate is from the paper's (both in 0..1).

    The paper's rate counts as 1,000 draws.
    """
    pooled = (deaths * count + paper * PAPER_DRAWS) / (count + PAPER_DRAWS)
    error = np.sqrt(pooled * (1 - pooled) * (1 / count + 1 / PAPER_DRAWS))
    return float((deaths - paper) / error)


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.minihack.data", description="Play the games of the data set."
    )
    parser.add_argument(
        "--out", type=Path, help="folder for files that do not replace shipped ones"
    )
    parser.add_argument("--only", nargs="+", choices=SPLITS, metavar="NAME", help="these alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--count", type=int, help="trajectories, instead of the split's number")
    parser.add_argument(
        "--padding",
        choices=("drawn", "zero"),
        default="drawn",
        help="actions after death: as drawn, or 0 as the paper's authors have them",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FOLDER", help="also write positions and health there"
    )
    return parser


def summary(split: Split, data: Dataset, samples: list[Sample]) -> str:
    """The death rate beside the paper's, and how many sequences were thrown away."""
    deaths = float(data.dead.mean())
    compared = ""
    paper = PAPER_DEATHS.get((split.grid, split.frames, split.enemies))
    if paper is not None:
        apart = deviation(deaths, len(data), paper / 100)
        compared = f" (paper {paper:.1f} %, {apart:+.1f} standard errors)"
    again = sum(s.draws for s in samples) - len(samples)
    return f"{split.name}: {100 * deaths:.1f} % dead{compared}, {again} drawn again"


def main(arguments: list[str] | None = None) -> None:
    parser = command_line()
    options = parser.parse_args(arguments)
    splits = [SPLITS[name] for name in options.only or SHIPPED]
    if not installed() and any(split.part != "simulated" for split in splits):
        parser.error(NEEDED)
    if options.jobs < 1 or (options.count is not None and options.count < 1):
        parser.error("--jobs and --count must be at least 1")
    others = any(split.part == DEVELOPMENT for split in splits)
    if options.out is None and (others or options.count or options.padding == "zero"):
        parser.error("these are not the sets that ship: say by --out where they go")
    out = options.out or FOLDER

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from experiments.minihack.simulator import simulate

    for folder in filter(None, (out, options.trace)):
        os.makedirs(folder, exist_ok=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        for split in splits:
            name = split.name
            split = replace(split, count=options.count or split.count)
            task = progress.add_task(f"{name:>20}", total=split.count)
            samples: list[Sample] = []
            if split.part == "simulated":
                data = simulate(split)
                progress.advance(task, split.count)
            else:
                for chunk in generate(split, options.jobs):
                    samples += chunk
                    progress.advance(task, len(chunk))
                data = collect(split, samples)
            if options.padding == "zero":
                data = data.padded_with_zeros()
            data.save(out / f"{name}.npz")
            if options.trace and samples:
                save_trace(options.trace / f"{name}_trace.npz", samples, split.grid)
            progress.print(summary(split, data, samples))


if __name__ == "__main__":
    main()
