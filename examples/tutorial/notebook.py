"""Run docs/tutorial.md, and write its outputs into the page and into docs/tutorial.ipynb.

    python examples/tutorial/notebook.py

The page is the source. Its blocks of Python run in order, as the cells of a notebook do: what is
printed, the value of a last expression and open figures are the outputs of a cell.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import re
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "tutorial.md"
NOTEBOOK = DOCS / "tutorial.ipynb"
IMAGE = "images/tutorial-{}.png"

# A block of Python and the outputs that a former run has put behind it.
_BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```\n(?P<text>\n```text\n.*?```\n)?(?P<image>\n!\[.*?\]\(.*?\)\n)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Output:
    """What a cell shows."""

    text: str = ""
    image: bytes | None = None


def cells(page: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) in the order of the page, without outputs."""
    found = []
    start = 0
    for block in _BLOCK.finditer(page):
        found.append(("markdown", page[start : block.start()].strip()))
        found.append(("code", block["code"].rstrip()))
        start = block.end()
    found.append(("markdown", page[start:].strip()))
    return [(kind, text) for kind, text in found if text]


def run_cell(code: str, names: dict[str, Any]) -> Output:
    """Run one cell with the names that the cells before it have made."""
    import matplotlib.pyplot as plt

    tree = ast.parse(code)
    last = tree.body[-1]
    value = None
    printed = io.StringIO()
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        if isinstance(last, ast.Expr):
            tree.body.pop()
            exec(compile(tree, "<cell>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        else:
            exec(compile(tree, "<cell>", "exec"), names)
    text = printed.getvalue() + (f"{value!r}\n" if value is not None else "")
    image = None
    if plt.get_fignums():
        drawn = io.BytesIO()
        plt.figure(plt.get_fignums()[-1]).savefig(drawn, format="png", dpi=110)
        image = drawn.getvalue()
        plt.close("all")
    return Output(text, image)


def run(codes: list[str]) -> tuple[list[Output], dict[str, Any]]:
    """Run cells in order; also the names that they leave."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell(code, names) for code in codes], names


def with_outputs(page: str, outputs: list[Output]) -> str:
    """The page with these outputs behind its blocks."""
    rest = iter(outputs)
    images = 0

    def shown(block: re.Match[str]) -> str:
        nonlocal images
        output = next(rest)
        text = f"```python\n{block['code']}```\n"
        if output.text:
            text += f"\n```text\n{output.text}```\n"
        if output.image is not None:
            images += 1
            text += f"\n![What the code above draws.]({IMAGE.format(images)})\n"
        return text

    return _BLOCK.sub(shown, page)


def notebook(page: str, outputs: list[Output]) -> dict[str, Any]:
    """The page as a notebook (nbformat 4.5)."""
    rest = iter(outputs)
    rows: list[dict[str, Any]] = []
    number = 0
    for i, (kind, text) in enumerate(cells(page)):
        row: dict[str, Any] = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}}
        row["source"] = text.splitlines(keepends=True)
        if kind == "code":
            number += 1
            row |= {"execution_count": number, "outputs": _outputs(next(rest))}
        rows.append(row)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": rows,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _outputs(output: Output) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if output.image is not None:
        data = {"image/png": base64.b64encode(output.image).decode()}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    if output.text:
        lines = output.text.splitlines(keepends=True)
        found.append({"output_type": "stream", "name": "stdout", "text": lines})
    return found


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    outputs, _ = run([text for kind, text in cells(page) if kind == "code"])
    images = (output.image for output in outputs if output.image is not None)
    for number, image in enumerate(images, 1):
        (DOCS / IMAGE.format(number)).write_bytes(image)
    PAGE.write_text(with_outputs(page, outputs), encoding="utf-8", newline="\n")
    written = json.dumps(notebook(page, outputs), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(written + "\n", encoding="utf-8", newline="\n")
    print(f"wrote {PAGE} and {NOTEBOOK}")


if __name__ == "__main__":
    main()
