"""Pictures of results, and of how training went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nesymm.errors import NesymmError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nesymm.inference.results import Filtered
    from nesymm.inference.trajectories import Trajectories


def plot(
    found: Filtered | Trajectories, path: str | Path | None = None, *, title: str = ""
) -> Figure:
    """Draw a result: the query probabilities of its first sequences, or its trajectories.

    Args:
        found: What `model.filter`, `model.trajectories` or `model.generate` returned.
        path: Where to write the drawing: a .png, .pdf or .svg file. Nothing is written without.
        title: The title of the drawing.

    Returns:
        A Matplotlib figure, which notebooks show.

    Example:
        >>> nesymm.plot(model.filter(days), "days.png")
    """
    from nesymm.inference.findings import findings
    from nesymm.inference.results import Filtered
    from nesymm.inference.trajectories import Trajectories
    from nesymm.plots import sequences, trajectories
    from nesymm.plots.figures import refuse_unwritable, save

    if path is not None:
        refuse_unwritable(Path(path))
    if isinstance(found, Filtered):
        figure = sequences.draw(findings(found), title)
    elif isinstance(found, Trajectories):
        figure = trajectories.draw(found, title)
    else:
        raise NesymmError(
            "found: expected what `model.filter`, `model.trajectories` or `model.generate` "
            f"returned, received {type(found).__name__}"
        )
    if path is not None:
        save(figure, Path(path))
    return figure
