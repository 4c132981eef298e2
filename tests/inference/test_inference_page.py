"""The Python on docs/inference.md runs and prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import run_page


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("inference.md")
    printed = capsys.readouterr().out
    assert printed.startswith("exact forward [-2.62")
    assert names["gradients"].parameters["rain"] == pytest.approx(-0.8421, abs=1e-4)  # type: ignore[index]
