"""The code on docs/inference.md runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import run_commands, run_page, text_of

import nesymm
from nesymm.inference.devices import memory
from nesymm.inference.diagnostics import FEW, SHARE
from nesymm.inference.elimination.capacity import MAX_BYTES
from nesymm.inference.elimination.order import MAX_CELLS
from nesymm.inference.methods import parse_method
from nesymm.inference.resampling import SCHEMES
from nesymm.inference.unrolled import MAX_SECONDS

PAGE = "inference.md"


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = run_page(PAGE)
    printed = capsys.readouterr().out
    assert printed.startswith("exact forward [-2.62")
    assert names["gradients"].parameters["rain"] == pytest.approx(-0.8421, abs=1e-4)
    (tmp_path / "rain.nsl").write_text(names["program"], encoding="utf-8")
    np.savez(tmp_path / "days.npz", **names["days"])
    run_commands(PAGE, tmp_path)


def test_every_method_is_listed_by_its_name() -> None:
    rows = re.findall(r"^\| `(\w+)\(\)` \| `([\w-]+)` \|", text_of(PAGE), re.MULTILINE)
    assert {name for name, _ in rows} == {"ExactForward", "RaoBlackwellised", "Bootstrap", "Auto"}
    for name, short in rows:
        assert parse_method(short) == getattr(nesymm, name)()


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    text = text_of(PAGE)
    assert nesymm.Auto().budget == 65_536 and "65,536 cells (`budget`)" in text
    assert MAX_CELLS // 10**6 == 2 and "Tables of more than two million cells" in text
    assert min(8 * 2**30, memory() // 16) == MAX_BYTES
    assert "more than 8 GiB, or a sixteenth of the\nmachine's memory" in text
    assert MAX_SECONDS == 10 and "small circuit is found within ten seconds" in text
    assert (FEW, SHARE) == (5, 0.02) and "below 5 at some step" in text and "2 % of" in text
    assert nesymm.RaoBlackwellised().resample_below == 0.5 and "`resample_below` (0.5)" in text
    for scheme in SCHEMES:
        assert f"`{scheme}`" in text
