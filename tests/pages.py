"""The pages of the documentation, taken apart; and their Python, run."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.name: path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")))
}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int
    language: str
    text: str


def text_of(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


def blocks(name: str, language: str | None = None) -> list[Block]:
    text = text_of(name)
    found = [
        Block(text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in _FENCE.finditer(text)
    ]
    return [b for b in found if language in (None, b.language)]


def prose(name: str) -> str:
    """What is read as English: neither code nor comments nor the targets of links."""
    text = _COMMENT.sub("", _FENCE.sub("", text_of(name)))
    return re.sub(r"\]\([^)]*\)", "]", _SPAN.sub("", text))


def code(name: str) -> str:
    """What is read as code: fenced blocks, and spans between back quotes."""
    spans = _SPAN.findall(_FENCE.sub("", text_of(name)))
    return "\n".join([*(b.text for b in blocks(name)), *spans])


def commands(name: str) -> Iterator[tuple[str, str]]:
    """The commands of the blocks of language `console`, each with the output that is shown."""
    for block in blocks(name, "console"):
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = re.sub(r"\\\n\s*", "", part).partition("\n")
            yield command, output


def run_page(name: str) -> dict[str, Any]:
    """What the blocks of Python define, run one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(name, "python"):
        source = "\n" * block.line + block.text  # errors name the line of the page
        exec(compile(source, str(PAGES[name]), "exec", dont_inherit=True), names)
    return names


def definitions(name: str) -> dict[str, Any]:
    """What they import and define; the rest is not run."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(name, "python"):
        tree = ast.parse(block.text)
        tree.body = [node for node in tree.body if isinstance(node, kinds)]
        exec(compile(tree, str(PAGES[name]), "exec", dont_inherit=True), names)
    return names


def assert_alike(new: str, old: str, tolerance: float = 0.05) -> None:
    """The same text with nearly the same numbers; a line `...` of the old one is any lines."""
    new, old = _words(new), _words(old)
    parts = re.split(r"^\.\.\.\n", old, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(_pattern(part) for part in parts)
    match = re.fullmatch(pattern, new)
    assert match, f"expected\n{old}\nreceived\n{new}"
    for found, shown in zip(match.groups(), _NUMBER.findall(old), strict=True):
        assert abs(float(found) - float(shown)) <= tolerance * (1 + abs(float(shown))), (
            f"expected {shown}, received {found} in\n{new}"
        )


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")


def _pattern(text: str) -> str:
    """What matches a text with any numbers in their places, each a group."""
    between = (re.escape(part) for part in _NUMBER.split(text))
    return r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)".join(between)


def _words(text: str) -> str:
    """Without progress bars, and without spaces, which depend on how wide numbers are."""
    lines = (" ".join(line.split()) for line in text.strip().splitlines() if "━" not in line)
    return "".join(f"{line}\n" for line in lines if line)


def run_commands(name: str, folder: Path) -> None:
    """Run the commands of a page in a folder, and compare what they print with what is shown."""
    from typer.testing import CliRunner

    from nesymm.cli.main import app

    with contextlib.chdir(folder):
        for command, shown in commands(name):
            program, *arguments = shlex.split(command)
            if program == "cd":
                os.chdir(arguments[0])
            elif program == "python":
                runpy.run_path(arguments[0], run_name="__main__")
            else:
                assert program == "nesymm", command
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == (2 if "error[" in shown else 0), result.output
                assert_alike(result.stdout or result.stderr, shown)
