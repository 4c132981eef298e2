"""Runs the Python on a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def run_page(name: str) -> dict[str, object]:
    """What the blocks of a page define, run one after the other."""
    page = DOCS / name
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    return names
