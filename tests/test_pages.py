"""What the documentation names exists, its links lead somewhere, and all of its code is run."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import DOCS, PAGES, ROOT, blocks, code, commands, prose, text_of

import nesymm
from nesymm.cli.main import app

# Which test runs the blocks of a page.
RUN_BY = {
    ("README.md", "python"): "test_readme.py",
    ("README.md", "console"): "test_readme.py",
    ("data.md", "python"): "inference/test_data_page.py",
    ("errors.md", "prolog"): "test_docs.py",
    ("extending.md", "python"): "inference/test_extending_page.py",
    ("inference.md", "console"): "inference/test_inference_page.py",
    ("inference.md", "python"): "inference/test_inference_page.py",
    ("language.md", "prolog"): "test_docs.py",
    ("learning.md", "python"): "training/test_learning_page.py",
    ("problog.md", "prolog"): "inference/static/test_problog_page.py",
    ("tutorial.md", "console"): "test_tutorial.py",
    ("tutorial.md", "python"): "test_tutorial.py",
    ("tutorial.md", "toml"): "test_tutorial.py",
}
# Output belongs to the block before it; how to install is only checked for names that exist.
NOT_RUN = {"text", "sh"}

BARS, ROOMS = r"(?<!progress )(?<!error )bars?", r"rooms?"
# Words of this project alone, and what the field says; `docs/glossary.md` has them all.
PRIVATE = {
    r"slopes?": "gradient",
    r"half[- ]way": "midpoint",
    BARS: "threshold",
    r"told(?! apart)|said": "input, observed, evidence; shown, listed",
    r"hangs? together": "connected component, cluster",
    r"spoil(s|ed|t)?": "invalid",
    r"tilt(s|ed)?": "query weight",
    ROOMS: "capacity",
    r"settled?": "resolve, known",
    r"anyway": "(say what the code does)",
    r"goes on|go on|going on|went on": "continue, resume",
}

COMMANDS: Any = typer.main.get_command(app)
FLAGS = {
    name: {flag for p in command.params for flag in (*p.opts, "--help")}
    for name, command in COMMANDS.commands.items()
}
ALL_FLAGS = set.union(*FLAGS.values()) | {"--version"}

each_page = pytest.mark.parametrize("page", PAGES)


@each_page
def test_every_block_is_run(page: str) -> None:
    for language in {b.language for b in blocks(page)} - NOT_RUN:
        assert language, f"{page}: say the language of every block"
        test = Path(__file__).parent / RUN_BY[page, language]
        assert page in test.read_text(encoding="utf-8") or "PAGE" in test.read_text()


@each_page
def test_names_of_the_library_exist(page: str) -> None:
    for name in re.findall(r"\bnesymm\.(\w+)", code(page)):
        public = name in nesymm.__all__
        assert public or importlib.util.find_spec(f"nesymm.{name}"), f"nesymm.{name}"
    for names in re.findall(r"from nesymm import \(?([\w, ]+)", code(page)):
        assert {*names.replace(" ", "").split(",")} <= {*nesymm.__all__}


def names_of(kind: type) -> set[str]:
    return {*dir(kind), *(f.name for f in (fields(kind) if is_dataclass(kind) else ()))}


MEMBERS: dict[str, type] = {
    "model": nesymm.Model,
    "result": nesymm.Filtered,
    "posterior": nesymm.Posterior,
    "fitted": nesymm.Fitted,
    "paths": nesymm.Trajectories,
    "stream": nesymm.Stream,
}


@each_page
def test_members_exist(page: str) -> None:
    for variable, name in re.findall(rf"\b({'|'.join(MEMBERS)})\.([a-z]\w*)\b(?!/)", code(page)):
        if name in ("safetensors", "nsl", "svg", "png"):
            continue
        assert name in names_of(MEMBERS[variable]), f"{variable}.{name}"


def test_members_of_what_is_not_there_are_found() -> None:
    assert "slopes" not in names_of(nesymm.Model) and "parameters" in names_of(nesymm.Model)


@each_page
def test_flags_exist(page: str) -> None:
    for line in re.sub(r"\\\n\s*", "", code(page)).splitlines():
        flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)
        command = re.search(r"\bnesymm (\w+)", line)
        if command and command[1] in FLAGS:
            assert {*flags} <= FLAGS[command[1]], line
        elif not re.search(r"\b(python|pip|pytest|git) ", line):
            assert {*flags} <= ALL_FLAGS, line


@each_page
def test_commands_exist(page: str) -> None:
    for name in re.findall(r"(?<!from )\bnesymm ([a-z]\w*)\b(?= [A-Z.\w-]*[A-Z.])", code(page)):
        assert name in FLAGS, f"nesymm {name}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in re.findall(r"^make ([a-z-]+)", code(page), re.MULTILINE):
        assert name in targets, f"make {name}"
    for script in re.findall(r"\bpython ([\w/]+\.py)", code(page)):
        assert (ROOT / script).exists() or (ROOT / "examples/tutorial" / script).exists(), script
    for module in re.findall(r"\bpython -m (experiments[\w.]*)", code(page)):
        assert importlib.util.find_spec(module), module


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}


@each_page
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text_of(page))):
        if target.startswith(("http:", "https:")):
            continue
        file, _, anchor = target.partition("#")
        path = (PAGES[page].parent / file).resolve() if file else PAGES[page]
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


@each_page
def test_pages_use_the_words_of_the_field(page: str) -> None:
    if page == "glossary.md":
        return
    found = private_words(prose(page))
    assert not found, "\n".join(sorted(found))


def private_words(text: str, words: Iterable[str] = PRIVATE) -> list[str]:
    """Where a text has words of this project alone, and what to say instead."""
    return [
        f"{match[0]!r} (say: {PRIVATE[word]}) in: {' '.join(line.split())}"
        for word in words
        for line in text.splitlines()
        for match in [re.search(rf"\b({word})\b", line, re.IGNORECASE)]
        if match
    ]


def public_docstrings() -> Iterator[str]:
    for name in nesymm.__all__:
        thing = getattr(nesymm, name)
        yield inspect.getdoc(thing) or ""
        if isinstance(thing, type):
            own = [m for n, m in inspect.getmembers(thing) if not n.startswith("_")]
            yield from (inspect.getdoc(m) or "" for m in own if callable(m))
    for command in COMMANDS.commands.values():
        yield command.help
        yield from (p.help or "" for p in command.params if hasattr(p, "help"))


def test_help_uses_the_words_of_the_field() -> None:
    texts = list(public_docstrings())
    assert len(texts) > 100
    found = [word for text in texts for word in private_words(text)]
    assert not found, "\n".join(sorted({*found}))


def test_the_code_uses_the_words_of_the_field() -> None:
    """Of names, comments and messages; there are bars in drawings, and rooms in examples."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    assert len(files) > 200
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in files
        for word in private_words(path.read_text(encoding="utf-8"), {*PRIVATE} - {BARS, ROOMS})
    }
    assert not found, "\n".join(sorted(found))


def test_every_page_is_linked_from_the_readme() -> None:
    for page, path in PAGES.items():
        link = f"({path.relative_to(ROOT)})"
        assert page == "README.md" or link in text_of("README.md"), page


def test_console_commands_are_well_formed() -> None:
    found: list[Any] = [c for page in PAGES for c, _ in commands(page)]
    assert found and all(shlex.split(c) for c in found)
    assert not re.search(r"^    \$ ", "".join(text_of(p) for p in PAGES), re.MULTILINE), (
        "commands stand in blocks of language console, which are run"
    )
    assert DOCS.is_dir()
