"""No file of the library is longer than 500 lines, and no function longer than 60."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "nesymm"
LONGEST_FILE, LONGEST_FUNCTION = 500, 60


def test_files_and_functions_are_short() -> None:
    long = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(SOURCE)
        if (lines := len(text.splitlines())) > LONGEST_FILE:
            long.append(f"{where}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long.append(f"{where}: {node.name} has {lines} lines")
    assert long == []
