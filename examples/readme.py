"""Run the example of README.md, and draw its figure.

    python examples/readme.py

The page is the source: its blocks of Python are run, what they print is written behind them, and
docs/images/wear.png is drawn from what they leave.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from examples.tutorial import notebook  # noqa: E402

PAGE = ROOT / "README.md"
FIGURE = ROOT / "docs" / "images" / "wear.png"
TODAY = 40
LEVELS = 6


def run() -> tuple[list[notebook.Output], dict[str, Any]]:
    """What the blocks of the page print, and the names that they leave."""
    page = PAGE.read_text(encoding="utf-8")
    return notebook.run([text for kind, text in notebook.cells(page) if kind == "code"])


def draw(names: dict[str, Any], path: Path) -> None:
    """The belief about the wear of one machine, and the learnt sensor beside the true one."""
    import jax
    import matplotlib.pyplot as plt

    filtered = names["belief"].filtered
    belief = np.stack([filtered[f"wear({w})@t"][0] for w in range(LEVELS)])
    steps = belief.shape[1]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.2), layout="constrained", width_ratios=(2.2, 1)
    )
    image = left.imshow(
        belief, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest"
    )
    left.plot(
        names["wear"][0, :TODAY],
        color="tab:orange",
        drawstyle="steps-mid",
        label="true wear, never seen",
    )
    left.axvline(TODAY - 0.5, color="black", linestyle=":")
    left.text(TODAY + 0.3, LEVELS - 0.65, "forecast", va="top")
    left.set(xlabel="step", ylabel="wear", xlim=(-0.5, steps - 0.5))
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    figure.colorbar(image, ax=left, label="probability")

    wear = np.arange(LEVELS)
    outputs = jax.vmap(names["model"].networks["sensor"])(wear.astype(float))
    right.errorbar(
        wear, outputs[:, 0], jax.nn.softplus(outputs[:, 1]), fmt="o", capsize=3, label="learnt"
    )
    right.plot(wear, 1 + 0.1 * wear**2, "k_", markersize=16, label="true mean")
    right.set(xlabel="wear", ylabel="vibration")
    right.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    outputs, names = run()
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(notebook.with_outputs(page, outputs), encoding="utf-8", newline="\n")
    draw(names, FIGURE)
    print(f"wrote {PAGE} and {FIGURE}")


if __name__ == "__main__":
    main()
