"""The Python on docs/learning.md runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "   6  pos(4)" in printed
    first = r"^1 pos\((-?1)\)@1 because pos\(0\)@0, step\(\1\)@1  \[line 4\]$"
    assert len(re.findall(first, printed, re.MULTILINE)) == 1
    # Nothing moves at step 0.
    assert "step(" not in "".join(x for x in printed.splitlines() if x.startswith("0 "))
