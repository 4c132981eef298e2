"""The drawing of `nesymm filter`: probabilities over time, and below how sound they are."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from nesymm.inference.findings import Findings, Sequence, asked_step
from nesymm.plots.figures import COLOURS, GREY, new_figure, plain

SEQUENCES = 6
QUERIES = 8


def draw(found: Findings, title: str) -> Figure:
    """The first sequences, each with its probabilities and effective sample sizes."""
    shown = found.sequences[:SEQUENCES]
    columns = min(len(shown), 2 if len(shown) == 4 else 3)
    lines = math.ceil(len(shown) / columns)
    names = _names(found)
    colours = dict(zip(names, COLOURS, strict=False))
    height = (2.7 if found.exact else 3.8) * lines + 1.2
    layout = ConstrainedLayoutEngine(hspace=0.02, wspace=0.02)
    figure = new_figure(max(6.0, 4.2 * columns), height, layout)
    longest = max(s.steps for s in shown)
    largest = max((e for s in shown for e in s.effective if not math.isnan(e)), default=1.0)
    outer = figure.add_gridspec(lines, columns)
    handles: dict[str, Any] = {}
    for number, sequence in enumerate(shown):
        cell = outer[number // columns, number % columns]
        left = number % columns == 0
        if found.exact:
            top = figure.add_subplot(cell)
        else:
            inner = cell.subgridspec(2, 1, height_ratios=[3, 1], hspace=0.0)
            top = figure.add_subplot(inner[0])
            below = figure.add_subplot(inner[1], sharex=top)
            _effective(below, sequence, left, largest)
            top.tick_params(labelbottom=False)
        _probabilities(top, sequence, longest, colours, handles)
        _frame(top, sequence, number, left, found.exact, longest)
    _heading(figure, found, title, len(shown))
    labels = {n: h for n, h in handles.items() if n in colours}
    if labels:
        legend = figure.legend(
            list(labels.values()), list(labels), loc="outside lower center",
            ncols=min(len(labels), 6), frameon=False,
            title=_explained(found), title_fontsize=8,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _names(found: Findings) -> list[str]:
    first = found.sequences[0]
    return [*first.filtered, *first.final][:QUERIES]


def _explained(found: Findings) -> str | None:
    first = found.sequences[0]
    if not first.filtered or not first.final:
        return None
    return "Lines are given the evidence up to each step, the others all evidence."


def _heading(figure: Figure, found: Findings, title: str, shown: int) -> None:
    first = found.sequences[0]
    parts = [found.method]
    if shown < len(found.sequences):
        parts.append(f"{shown} of {len(found.sequences)} sequences")
    asked = len(first.filtered) + len(first.final)
    if asked > QUERIES:
        parts.append(f"{QUERIES} of {asked} queries")
    figure.suptitle(f"{title}  ({'; '.join(parts)})", parse_math=False)


# ---------------------------------------------------------------- one sequence


def _probabilities(
    axes: Any, sequence: Sequence, longest: int, colours: dict[str, str], handles: dict[str, Any]
) -> None:
    steps = np.arange(sequence.steps)
    few = longest <= 40
    for name, colour in colours.items():
        if name in sequence.filtered:
            (line,) = axes.plot(
                steps, sequence.filtered[name], color=colour, linewidth=1.5,
                marker="o" if few else "", markersize=3.5, clip_on=False,
            )  # fmt: skip
            handles.setdefault(name, line)
            continue
        step = asked_step(name, sequence.steps)
        value = sequence.final[name]
        if step is None:  # it has no time, so it holds all along
            ends = [0, sequence.steps - 1]
            (line,) = axes.plot(ends, [value] * 2, color=colour, linewidth=1.2, linestyle="--")
        else:
            (line,) = axes.plot(
                [step], [value], color=colour, marker="D", markersize=7, linestyle="",
                markerfacecolor="none", markeredgewidth=1.6, clip_on=False, zorder=5,
            )  # fmt: skip
        handles.setdefault(name, line)


def _frame(
    axes: Any, sequence: Sequence, number: int, left: bool, exact: bool, longest: int
) -> None:
    if sequence.error is None:
        evidence = f"log-evidence {sequence.log_evidence:.4g}"
        axes.set_title(f"sequence {number}: {evidence}", fontsize=10)
    else:
        axes.set_title(f"sequence {number}: failed", fontsize=10, color="#B00020")
        step, _, why = sequence.error.partition(": ")
        axes.text(
            0.5, 0.5, f"{step}:\n{fill(why, 36)}", transform=axes.transAxes, ha="center",
            va="center", fontsize=8, color="#B00020", parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlim(-0.02 * longest, longest - 1 + 0.02 * longest)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    if left:
        axes.set_ylabel("probability")
    if exact:
        axes.set_xlabel("step")
    plain(axes, 8)


def _effective(axes: Any, sequence: Sequence, left: bool, largest: float) -> None:
    steps = np.arange(sequence.steps)
    axes.fill_between(steps, sequence.effective, color=GREY, alpha=0.25, linewidth=0)
    axes.plot(
        steps,
        sequence.effective,
        color=GREY,
        linewidth=1.2,
        marker="." if sequence.steps == 1 else "",
    )
    axes.set_ylim(0, 1.1 * largest)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.set_xlabel("step")
    if left:
        axes.set_ylabel("effective\nsample size", fontsize=8)
    plain(axes, 8)
