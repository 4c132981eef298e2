"""Runs the Python on a page of the documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"


def _blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


def run_page(name: str) -> dict[str, Any]:
    """What the blocks of a page define, run one after the other."""
    names: dict[str, Any] = {}
    for block in _blocks(name):
        exec(compile(block, str(DOCS / name), "exec", dont_inherit=True), names)
    return names


def definitions(name: str) -> dict[str, Any]:
    """What they import and define; the rest is not run."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    names: dict[str, Any] = {"__name__": "page"}
    for block in _blocks(name):
        tree = ast.parse(block)
        tree.body = [node for node in tree.body if isinstance(node, kinds)]
        exec(compile(tree, str(DOCS / name), "exec", dont_inherit=True), names)
    return names
