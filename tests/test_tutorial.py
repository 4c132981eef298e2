"""The tutorial runs, says what happens, and its files fit together."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from pages import assert_alike, run_commands

import nesymm
from examples.tutorial import notebook
from nesymm.language.parser import parse
from nesymm.language.printer import pprint

pytestmark = pytest.mark.compiled

FOLDER = Path(notebook.__file__).parent


def stored() -> dict[str, Any]:
    return json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))


def page() -> str:
    return notebook.PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page(), re.DOTALL)


def printed(cell: dict[str, Any]) -> str:
    return "".join(line for o in cell["outputs"] for line in o.get("text", []))


@pytest.fixture(scope="module")
def ran() -> tuple[list[dict[str, Any]], list[notebook.Output], dict[str, Any]]:
    """The code cells of the notebook, what they show now, and the names that they leave."""
    cells = [c for c in stored()["cells"] if c["cell_type"] == "code"]
    outputs, names = notebook.run(["".join(c["source"]) for c in cells])
    return cells, outputs, names


def test_the_notebook_is_the_page() -> None:
    found = [(c["cell_type"], "".join(c["source"])) for c in stored()["cells"]]
    assert found == notebook.cells(page()), "run python examples/tutorial/notebook.py"


def test_the_outputs_of_page_and_notebook_are_the_same() -> None:
    texts = [printed(c) for c in stored()["cells"] if c["cell_type"] == "code"]
    assert blocks("text") == [text for text in texts if text]


def test_the_cells_show_what_is_stored(ran) -> None:
    cells, outputs, _ = ran
    for cell, output in zip(cells, outputs, strict=True):
        assert (output.image is not None) == any("data" in o for o in cell["outputs"])
        if "late" in "".join(cell["source"]):
            continue  # What is drawn may differ where the last digit of a number does.
        assert_alike(output.text, printed(cell))


def test_what_is_learnt_is_true(ran) -> None:
    model = ran[2]["model"]
    # 2,200 draws; the error is larger than their binomial one, as slips are seen indirectly.
    assert abs(model.parameters["slips"] - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 2200)
    outputs = jax.vmap(model.networks["lamp"])(np.arange(4.0))
    np.testing.assert_allclose(outputs[:, 0], 3 * np.exp(-np.arange(4)), atol=0.1)
    np.testing.assert_allclose(jax.nn.softplus(outputs[:, 1]), [0.1, 0.2, 0.3, 0.4], atol=0.06)


def test_the_new_rule_is_obeyed_from_the_start(ran) -> None:
    free, late = ran[2]["free"]["at"][0], ran[2]["late"]["at"][0]
    assert late.max() < 20
    assert free.max() >= 20
    for cells in (free, late):
        assert set(np.unique(np.diff(cells, axis=1))) <= {0, 1}


def test_the_answer_is_the_closed_form(ran) -> None:
    from scipy.stats import binom

    moves = 1 - ran[2]["model"].parameters["slips"]
    found = ran[2]["answer"].probability("charged@T")
    assert found == pytest.approx(binom.sf(18, 29, moves), abs=1e-4)


def test_the_folder_has_the_files_of_the_page() -> None:
    (shown,) = blocks("toml")
    assert tomllib.loads(shown) == tomllib.loads(
        (FOLDER / "corridor.toml").read_text(encoding="utf-8")
    )
    names: dict[str, Any] = {}
    first = next(text for kind, text in notebook.cells(page()) if kind == "code")
    notebook.run_cell(first, names)
    file = (FOLDER / "corridor.nsl").read_text(encoding="utf-8")
    assert pprint(parse(file, "file")) == pprint(parse(names["program"], "page"))
    function = re.search(r"def drive.*?return [^\n]*\n", page(), re.DOTALL)
    assert function and function[0] in (FOLDER / "data.py").read_text(encoding="utf-8")
    nesymm.compile(file).extend((FOLDER / "charger.nsl").read_text(encoding="utf-8"))


def test_the_data_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.tutorial import data

    monkeypatch.setattr(data, "OUT", tmp_path / "out")
    data.main()
    written = {p.stem: dict(np.load(p)) for p in (tmp_path / "out").glob("*.npz")}
    assert {name: sorted(arrays) for name, arrays in written.items()} == {
        "train": ["go", "light"],
        "validation": ["go", "light"],
        "larger": ["go", "in_12", "light"],
        "plan": ["go", "light"],
    }


@pytest.mark.slow
def test_the_commands(tmp_path: Path) -> None:
    shutil.copytree(
        FOLDER, tmp_path / "examples" / "tutorial", ignore=shutil.ignore_patterns("out")
    )
    run_commands("tutorial.md", tmp_path)
    out = tmp_path / "examples" / "tutorial" / "out"
    assert (out / "courses.png").exists()
    assert nesymm.load(out / "corridor" / "model.safetensors").parameters["slips"] > 0.2
