"""The Python on docs/learning.md runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import run_page


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("learning.md")
    printed = capsys.readouterr().out
    assert "   6  pos(4)" in printed
    first = r"^1 pos\((-?1)\)@1 because pos\(0\)@0, step\(\1\)@1  \[line 4\]$"
    assert len(re.findall(first, printed, re.MULTILINE)) == 1
    # Nothing moves at step 0.
    assert "step(" not in "".join(x for x in printed.splitlines() if x.startswith("0 "))
