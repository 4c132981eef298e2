"""The code on docs/data.md runs and prints what it says."""

from __future__ import annotations

import pytest
from pages import blocks, run_page

PAGE = "data.md"


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page(PAGE)
    assert capsys.readouterr().out == "".join(b.text for b in blocks(PAGE, "text"))
