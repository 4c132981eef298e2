"""What all plots share: colours, the size and layout of figures, and the files they go to."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine

from nesymm.errors import NesymmError

FORMATS = (".png", ".pdf", ".svg")

# Distinguishable by people who see colours differently (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F4F24", "#000000")
GREY = "#666666"


def new_figure(width: float, height: float, layout: LayoutEngine | None = None) -> Figure:
    """A figure outside pyplot, which keeps its figures in memory."""
    figure = Figure(figsize=(width, height), dpi=150, layout=layout or "constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Any, labelsize: float | None = None) -> None:
    """No frame, and a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    if labelsize is not None:
        axes.tick_params(labelsize=labelsize)


def refuse_unwritable(path: Path) -> None:
    """Find out before the work is done."""
    if path.suffix.lower() not in FORMATS:
        raise NesymmError(
            f"cannot draw to `{path}`: the name must end in {', '.join(FORMATS[:-1])} or "
            f"{FORMATS[-1]}"
        )
    if not path.parent.is_dir():
        raise NesymmError(f"cannot write `{path}`: there is no folder `{path.parent}`")


def save(figure: Figure, path: Path) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name may have letters that the font does not
            figure.savefig(path)
    except OSError as error:
        raise NesymmError(f"cannot write `{path}`: {error.strerror or error}") from None
