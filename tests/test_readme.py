"""The example of README.md learns what it says, its commands print what they show."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from matplotlib.image import imread
from pages import ROOT, assert_alike, blocks, run_commands

from examples import readme
from examples.tutorial.notebook import Output
from nesymm.inference.elimination.order import MAX_CELLS

pytestmark = pytest.mark.compiled

PAGE = "README.md"


@pytest.fixture(scope="module")
def ran() -> tuple[list[Output], dict[str, Any]]:
    return readme.run()


def test_it_prints_what_is_shown(ran) -> None:
    (output,), (shown,) = ran[0], blocks(PAGE, "text")
    assert_alike(output.text, shown.text)


def test_what_is_learnt_is_true(ran) -> None:
    names = ran[1]
    repair = names["data"]["repair"]
    _, wear = names["machines"](count=200, steps=40, seed=0)
    draws = np.sum(~repair[:, 1:] & (wear[:, :-1] < 5))
    # The draws are seen indirectly: the error is larger than theirs.
    assert abs(names["model"].parameters["wears"] - 0.2) < 3 * np.sqrt(0.2 * 0.8 / draws)
    outputs = jax.vmap(names["model"].networks["sensor"])(np.arange(6.0))
    np.testing.assert_allclose(outputs[:, 0], 1 + 0.1 * np.arange(6) ** 2, atol=0.2)
    scale = jax.nn.softplus(outputs[:, 1])
    np.testing.assert_allclose(scale, 0.15 + 0.05 * np.arange(6), atol=0.06)


def test_the_forecast_is_the_closed_form(ran) -> None:
    belief, wears = ran[1]["belief"], ran[1]["model"].parameters["wears"]
    today = np.array([belief.probability(f"wear({w})@t", step=39)[0] for w in range(6)])
    step = (1 - wears) * np.eye(6) + wears * np.eye(6, k=1)
    step[5, 5] = 1
    later = today @ np.linalg.matrix_power(step, 20)
    assert belief.probability("wear(5)@t", step=59)[0] == pytest.approx(later[5], abs=1e-5)


def test_the_program_has_ten_lines(ran) -> None:
    lines = [line for line in ran[1]["program"].splitlines() if line.strip()]
    assert len(lines) == 10


def test_the_figure_is_drawn(ran, tmp_path: Path) -> None:
    readme.draw(ran[1], tmp_path / "wear.png")
    drawn, shown = imread(tmp_path / "wear.png"), imread(readme.FIGURE)
    assert drawn.shape == shown.shape
    assert np.mean(np.abs(drawn - shown)) < 0.02


def test_the_commands(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "paper", tmp_path / "examples" / "paper")
    run_commands(PAGE, tmp_path)


def test_the_size_of_tables_is_the_limit() -> None:
    assert MAX_CELLS // 10**6 == 2
    assert "tables of more than two million cells" in (ROOT / PAGE).read_text(encoding="utf-8")
