"""The Python on docs/learning.md runs and prints what it says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pages import run_page, text_of

import nesymm


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


def test_every_option_of_fit_is_listed() -> None:
    section = text_of("learning.md").split("\n## fit\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    options = {*inspect.signature(nesymm.fit).parameters} - {"model", "data", "objective"}
    assert sorted(listed) == sorted(options)
