"""The drawing of `nesymm generate`: pictures, numbers over time, and how often atoms hold.

It shows the trajectories of the first sequence, and the pictures of the first of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nesymm.errors import NesymmError
from nesymm.inference.data import wanted
from nesymm.inference.trajectories import Trajectories
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis
from nesymm.ir.terms import show
from nesymm.ir.types import Int, Real
from nesymm.plots.figures import COLOURS, new_figure, plain

PICTURES = 12  # along a strip
NUMBERS = 6
ATOMS = 24
TRAJECTORIES = 100


def draw(found: Trajectories, title: str) -> Figure:
    """Above strips of pictures, then a panel for each of the first numbers, the shares of atoms."""
    count = min(found.count, TRAJECTORIES)
    all_numbers = dict(_numbers(found, count))
    shares = _shares(found, count, {re.split(r"[( ]", name)[0] for name in all_numbers})
    numbers = dict(list(all_numbers.items())[:NUMBERS])
    pictures = dict(_pictures(found))
    heights = [_strip_height(found)] * len(pictures) + [1.6] * len(numbers)
    heights += [0.4 + 0.22 * len(shares)] if shares else []
    if not heights:
        raise NesymmError("there is nothing to draw: no step has numbers or atoms")
    figure = new_figure(7.5, 0.9 + sum(heights))
    panels = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    for axes, (name, strip) in zip(panels, pictures.items(), strict=False):
        _strip(axes, name, strip)
    below = panels[len(pictures) :]
    for axes, (name, lines), i in zip(below, numbers.items(), range(len(numbers)), strict=False):
        _lines(axes, name, lines, COLOURS[i % len(COLOURS)])
    if shares:
        _raster(figure, panels[-1], shares)
    panels[-1].set_xlabel("step")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    noun = "trajectory" if count == 1 else "trajectories"
    figure.suptitle(f"{title}  ({count} {noun})", parse_math=False, fontsize=11)
    return figure


def _numbers(found: Trajectories, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Names of numbers, and their values [trajectory, step]; NaN where there is none."""
    at = (0, slice(count), slice(int(found.lengths[0])))
    for slot in found.model.step.slots:
        if slot.name not in found.present:
            continue  # No fluent, or one without values.
        for index, key in _elements(slot.axes):
            here = (*at, *index)
            for i, type_ in enumerate(slot.fields):
                if not isinstance(type_, Int | Real):
                    continue
                values = np.asarray(found.drawn.fields[slot.name, i][here], dtype=float)
                values = np.where(found.present[slot.name][here], values, np.nan)
                yield _named(slot.name, key, i, len(slot.fields)), values
    for name, want in wanted(found.model.step).items():
        if name not in found.observed or not want.timed:
            continue
        for index, key in _elements(want.axes):
            for i, type_ in enumerate(want.types):
                if isinstance(type_, Int | Real):
                    several = len(want.types) > 1
                    here = (*at, *index, i) if several else (*at, *index)
                    yield _named(name, key, i, len(want.types)), found.observed[name][here]


def _pictures(found: Trajectories) -> Iterator[tuple[str, np.ndarray]]:
    """Observed tensors that are pictures, [step, height, width] or with colours at the end."""
    for name, want in wanted(found.model.step).items():
        if name not in found.observed or not want.timed:
            continue
        of_one = np.asarray(found.observed[name])[0, 0, : int(found.lengths[0])]
        if of_one.ndim == 4 and of_one.shape[1] in (1, 3):
            of_one = np.moveaxis(of_one, 1, -1)
            yield name, of_one[..., 0] if of_one.shape[-1] == 1 else of_one
        elif of_one.ndim == 3 and min(of_one.shape[1:]) > 4:
            yield name, of_one


def _strip_height(found: Trajectories) -> float:
    """Such that square pictures look square, in inches."""
    return 6.0 / min(int(found.lengths[0]), PICTURES)


def _strip(axes: Any, name: str, pictures: np.ndarray) -> None:
    """Pictures side by side, each above its step; of many steps only some."""
    every = -(-len(pictures) // PICTURES)
    half = 0.47 * every
    shown = np.clip(pictures, 0, 1)
    for step in range(0, len(pictures), every):
        axes.imshow(
            shown[step], extent=(step - half, step + half, 0, 1), aspect="auto", cmap="gray",
            vmin=0, vmax=1, interpolation="nearest",
        )  # fmt: skip
    axes.set(xlim=(-0.5 * every, len(pictures) - 1 + 0.5 * every), ylim=(0, 1), yticks=[])
    axes.set_ylabel(name, fontsize=8, parse_math=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(bottom=False)


def _elements(axes: tuple[Axis, ...]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Positions along axes, and the keys there."""
    sizes = [a.size for a in axes]
    for position, key in enumerate(places(axes)):
        yield tuple(np.unravel_index(position, sizes)) if sizes else (), key


def _named(name: str, key: tuple[Any, ...], column: int, columns: int) -> str:
    # Keys that are fixed stand in the name, before those along axes.
    base, _, fixed = name.partition("(")
    keys = [fixed.removesuffix(")")] if fixed else []
    keys += map(show, key)
    atom = f"{base}({','.join(keys)})" if keys else base
    return atom if columns == 1 else f"{atom} value {column + 1}"


def _shares(found: Trajectories, count: int, drawn: set[str]) -> dict[str, np.ndarray]:
    """In which share of the trajectories an atom holds, per step."""
    steps = int(found.lengths[0])
    rows: dict[str, np.ndarray] = {}
    total: Counter[str] = Counter()
    for step in range(steps):
        for trajectory in range(count):
            for atom in found.atoms(0, trajectory, step):
                name = atom.rpartition("@")[0]
                if name.partition("(")[0] in drawn:
                    continue
                rows.setdefault(name, np.zeros(steps))[step] += 1 / count
                total[name] += 1
    kept = {name for name, _ in total.most_common(ATOMS)}
    return {name: row for name, row in sorted(rows.items()) if name in kept}


def _lines(axes: Any, name: str, values: np.ndarray, colour: str) -> None:
    opacity = max(0.08, min(0.9, 3 / len(values)))
    steps = np.arange(values.shape[1])
    for row in values:
        axes.plot(
            steps, row, color=colour, alpha=opacity, linewidth=1.2,
            marker="o" if len(values) <= 5 else "", markersize=3,
        )  # fmt: skip
    axes.set_ylabel(name, fontsize=8, parse_math=False)
    plain(axes, 8)


def _raster(figure: Figure, axes: Any, shares: dict[str, np.ndarray]) -> None:
    image = axes.imshow(
        np.stack(list(shares.values())), aspect="auto", cmap="Blues", vmin=0, vmax=1,
        interpolation="nearest",
    )  # fmt: skip
    axes.set_yticks(range(len(shares)))
    axes.set_yticklabels(list(shares), fontsize=7, parse_math=False)
    axes.tick_params(axis="x", labelsize=8)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.set_label("share", fontsize=7)
    bar.ax.tick_params(labelsize=7)
