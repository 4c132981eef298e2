"""Pictures of the experiment: accuracy by setting, the learned policy, the belief over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.minihack import results
from experiments.minihack.data import Dataset, load
from experiments.minihack.methods import SETTINGS
from experiments.minihack.rules import FURTHEST, TrainedRules, arrays
from nesymm import RaoBlackwellised

# (row, column) by direction, in the order of `compass` in the program.
COMPASS = np.array([(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)])

# Distinguishable by people who see colours differently (Okabe and Ito).
COLOURS = {
    "nesymm": "#D55E00",
    "nesymm-exact": "#E69F00",
    "transformer": "#0072B2",
    "transformer-paper": "#56B4E9",
    "deep-hmm": "#009E73",
}
PAPER_MARKS = {"Transformer": "^", "Deep-HMM": "s", "NeSy-MM": "D"}
GREY = "#777777"
WEIGHTED = "-weighted"
FILLS = {"posterior": "full", "half": "left", "even": "none"}
ACCURACIES = {"test": "accuracy.png", "test_large": "accuracy_large.png"}


def draw_all(trained: TrainedRules, records: dict[str, Any], out: Path) -> list[Path]:
    """All pictures into a folder; the accuracies only where there are any."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for part, name in ACCURACIES.items():
        if results.measured(records, part):
            paths.append(out / name)
            accuracy(records, part).savefig(paths[-1])
    if curves := {name: r for name, r in results.trained(records).items() if results.validation(r)}:
        paths.append(out / "training.png")
        training(curves).savefig(paths[-1])
    paths.append(out / "policy.png")
    policy(trained).savefig(paths[-1])
    paths.append(out / "belief.gif")
    belief(trained, paths[-1])
    return paths


def _figure(width: float, height: float, dpi: int = 150) -> Figure:
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# ---------------------------------------------------------------- accuracy


def _colour_and_fill(name: str) -> tuple[str, str]:
    """A colour for each method, and how much of its mark is filled."""
    method, version = results.version_of(name)
    fill = "none" if method.endswith(WEIGHTED) else FILLS[version]
    return COLOURS[method.removesuffix(WEIGHTED)], fill


def accuracy(records: dict[str, Any], part: str = "test") -> Figure:
    """Balanced accuracy and F1 by setting: the paper's methods in grey, ours in colour."""
    figure = _figure(10, 6.5)
    axes = figure.subplots(2, 1, sharex=True)
    places = np.arange(len(SETTINGS))
    for ax, metric in zip(axes, results.IN_PAPER, strict=True):
        _panel(ax, metric, records, part)
        for edge in places[:-1] + 0.5:
            ax.axvline(edge, color="#eeeeee")
    axes[0].axhline(50, color=GREY, lw=0.8, ls=":")
    names = [f"N {n}, T {t}\n{e} imp{'s' if e > 1 else ''}" for n, t, e in SETTINGS]
    axes[1].set_xticks(places, names)
    axes[1].set_xlim(-0.5, len(SETTINGS) - 0.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _panel(ax: Any, metric: str, records: dict[str, Any], part: str) -> None:
    """One metric by setting: the methods side by side, each with its standard error."""
    offsets = iter(np.linspace(-0.3, 0.3, len(results.PAPER) + len(records)))
    column = list(results.IN_PAPER).index(metric)
    for name, published in results.PAPER.items():
        xs = [SETTINGS.index(setting) for setting in published] + next(offsets)
        ys = [numbers[column] for numbers in published.values()]
        ax.plot(xs, ys, PAPER_MARKS[name], color=GREY, mfc="white", label=f"{name} (paper)")
    for name, record in records.items():
        found = {
            place: results.mean_and_error(values)
            for place, setting in enumerate(SETTINGS)
            if len(values := results.over_seeds(record, results.set_name(setting, part), metric))
        }
        xs = list(found) + next(offsets)
        ys, errors = np.nan_to_num(list(found.values())).reshape(-1, 2).T
        colour, fill = _colour_and_fill(name)
        mark = {"fmt": "o", "ms": 5, "color": colour, "fillstyle": fill}
        ax.errorbar(xs, ys, errors, capsize=2, label=name, **mark)
    ax.set_ylabel(results.IN_PAPER[metric][0])
    ax.grid(axis="y", color="#dddddd")
    ax.set_axisbelow(True)


# ---------------------------------------------------------------- training


def training(records: dict[str, Any]) -> Figure:
    """The loss on the validation set by epoch, a line for each seed, a panel for each method."""
    rows = -(-len(records) // 3)
    figure = _figure(10, 2.6 * rows)
    panels = figure.subplots(rows, 3, squeeze=False).ravel()
    for ax, (name, record) in zip(panels, records.items(), strict=False):
        for losses in results.validation(record).values():
            epochs = np.arange(1, len(losses) + 1)
            ax.plot(epochs, losses, color=_colour_and_fill(name)[0], lw=1)
            best = int(np.argmin(losses))
            ax.plot(epochs[best], losses[best], "o", color="black", ms=4)
        ax.set(title=name, xlabel="epoch")
        ax.grid(color="#dddddd")
    for ax in panels[::3]:
        ax.set_ylabel("validation loss")
    for ax in panels[len(records) :]:
        ax.set_axis_off()
    return figure


# ---------------------------------------------------------------- policy


def move_chances(trained: TrainedRules, furthest: int = FURTHEST) -> np.ndarray:
    """`[rows, columns, 8]`: how likely each direction is, by where the agent is from the imp."""
    import jax

    side = np.arange(-furthest, furthest + 1)
    rows, columns = np.meshgrid(side, side, indexing="ij")
    outputs = jax.vmap(trained.model.networks["policy"])(rows.ravel(), columns.ravel())
    return np.asarray(jax.nn.softmax(outputs, -1)).reshape(*rows.shape, 8)


def policy(trained: TrainedRules) -> Figure:
    """Where an imp goes, by where it stands from the agent: the mean step as an arrow."""
    # The table is by the way to the agent; turned round, it is by the imp's place.
    chances = move_chances(trained)[::-1, ::-1]
    step = chances @ COMPASS
    side = np.arange(-FURTHEST, FURTHEST + 1)
    columns, rows = np.meshgrid(side, side)
    moving = np.maximum(abs(rows), abs(columns)) > 1
    figure = _figure(6.4, 5.8)
    ax = figure.subplots()
    arrows = ax.quiver(
        columns[moving], rows[moving], step[moving][:, 1], step[moving][:, 0],
        chances.max(-1)[moving], angles="xy", scale_units="xy", scale=1.6, pivot="mid",
        cmap="viridis", clim=(0.125, 1), width=0.004,
    )  # fmt: skip
    ax.plot(0, 0, "o", color=COLOURS["nesymm"], ms=9)
    ax.annotate("agent", (0, 0), (0, -9), textcoords="offset points", ha="center", va="top")
    ax.set(xlabel="columns east of the agent", ylabel="rows south of the agent", aspect="equal")
    ax.set(xticks=side[::3], yticks=side[::3])
    ax.set_title(f"Learned moves of an imp; it hits with chance {trained.hit_chance:.2f}")
    ax.invert_yaxis()
    figure.colorbar(arrows, label="probability of the likeliest direction", shrink=0.8)
    return figure


# ---------------------------------------------------------------- belief


def filtered_places(trained: TrainedRules, data: Dataset, row: int) -> dict[str, np.ndarray]:
    """`[T, N, N]` for `enemy` and `agent`: where they are, given the hits up to each frame."""
    model = trained.on(data).extend("query(enemy(1, R, C)@t).\nquery(agent(R, C)@t).\n")
    found = model.filter(arrays(data, np.array([row])), method=RaoBlackwellised(5000))
    size = range(1, data.grid + 1)
    never = np.zeros((1, data.frames))  # a place that no particle ever took is left out

    def table(start: str) -> np.ndarray:
        cells = [[found.filtered.get(f"{start}{r},{c})@t", never)[0] for c in size] for r in size]
        return np.moveaxis(np.array(cells), -1, 0)

    return {"enemy": table("enemy(1,"), "agent": table("agent(")}


def belief(trained: TrainedRules, path: Path) -> None:
    """An animation of the belief over the imp's place in a game with many hits."""
    data = load("N10T10E1test")
    row = int(data.hits[:200].sum(1).argmax())
    places = filtered_places(trained, data, row)
    figure = _figure(5.2, 4.8, dpi=100)
    ax = figure.subplots()
    edges = (0.5, data.grid + 0.5, data.grid + 0.5, 0.5)
    image = ax.imshow(places["enemy"][0], cmap="Blues", vmin=0, vmax=1, extent=edges)
    image.set_norm("log")
    image.set_clim(1e-3, 1)
    label = "agent (likeliest place); white: hit"
    (agent,) = ax.plot([], [], "o", color=COLOURS["nesymm"], ms=11, mew=2.5, label=label)
    ax.set(xlabel="column", ylabel="row", xticks=range(1, 11, 3), yticks=range(1, 11, 3))
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False)
    figure.colorbar(image, label="p(imp is here | hits so far)")

    def frame(t: int) -> Any:
        image.set_data(np.maximum(places["enemy"][t], 1e-6))
        r, c = np.unravel_index(int(places["agent"][t].argmax()), places["agent"][t].shape)
        agent.set_data([c + 1], [r + 1])
        hit = data.hits[row, t] == 1
        agent.set_markerfacecolor("white" if hit else COLOURS["nesymm"])
        ax.set_title(f"frame {t}" + (": hit" if hit else ""))
        return image, agent

    FuncAnimation(figure, frame, frames=data.frames).save(path, writer=PillowWriter(fps=2))
