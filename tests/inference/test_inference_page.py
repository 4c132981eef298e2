"""The code on docs/inference.md runs and prints what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import run_commands, run_page

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
