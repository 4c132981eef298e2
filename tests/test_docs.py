"""The examples in docs/ run, and give what the pages say.

A program is a fence of language `prolog` with a comment before it:

    <!-- run: steps=3 data={"umbrella": [true, null, false]} -->

Options, in JSON: `steps`, `data`, `inputs`, `parameters`, `constants`, `networks` (a name and
what the network always returns), `engine="exact"` for continuous programs without time,
`engine="filter"` for what is refused when data are there, `compile` to stop after compiling,
`nest` (« and » stand for that many `f(` and `)`), and, instead
of a program's text, `encoding` (the text is written to a file and read back) or `file` (a file
that is read).

Comments in the program say what to expect: `% => query: probability` (several for one per
step; checked to the printed precision), `% step: line` of the compiled program, `% error: E201`,
`% run error: part of the message`. After a refused program, a fence of language `text` is the
message; `pytest --update-golden` rewrites it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from reference import infer

import nesymm
from nesymm.errors import NesymmError, ProgramError
from nesymm.ground import compile_step
from nesymm.language import builtins
from nesymm.language.families import FAMILIES
from nesymm.language.parser import read

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = ("language.md", "errors.md")

_FENCE = re.compile(
    r"(?:<!-- run(?::\s*(?P<options>.*?))? -->\n)?"
    r"```prolog\n(?P<text>.*?)```\n(?:\n```text\n(?P<message>.*?)```\n)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    text: str
    options: dict[str, Any] | None
    message: str | None
    section: str

    def expected(self, what: str) -> list[str]:
        return re.findall(rf"^% {what} ?(.*)$", self.text, re.MULTILINE)


def _options(text: str | None) -> dict[str, Any]:
    """`a=1 b={"c": 2} d` as a dictionary; a name without a value is true."""
    found: dict[str, Any] = {}
    text = (text or "").strip()
    while text:
        match = re.match(r"(\w+)(=?)\s*", text)
        assert match, f"cannot read the options at {text!r}"
        text = text[match.end() :]
        value: Any = True
        if match[2]:
            value, end = json.JSONDecoder().raw_decode(text)
            text = text[end:].lstrip()
        found[match[1]] = value
    return found


def _examples(page: str) -> list[Example]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        sections = re.findall(r"^## (.+)$", before, re.MULTILINE)
        marked = match[0].startswith("<!-- run")
        found.append(
            Example(
                page,
                before.count("\n") + 1,
                match["text"],
                _options(match["options"]) if marked else None,
                match["message"],
                sections[-1] if sections else "",
            )
        )
    return found


EXAMPLES = [example for page in PAGES for example in _examples(page)]


def _name(example: Example) -> str:
    return f"{example.page}:{example.line}"


@pytest.mark.parametrize("example", EXAMPLES, ids=_name)
def test_example(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert example.options is not None, "say how to run it: <!-- run -->"
    error = example.expected("error:")
    if not error:
        assert example.message is None, "only a refused program has a message"
        _check_answers(example, example.options)
        return
    with pytest.raises(ProgramError) as caught:
        monkeypatch.chdir(tmp_path)
        _compile(example)
    assert list(dict.fromkeys(caught.value.codes)) == error


def _compile(example: Example) -> Any:
    options = example.options or {}
    name = "program.nsl"
    if "file" in options:
        return read(options["file"])
    if "encoding" in options:
        Path(name).write_text(example.text, encoding=options["encoding"])
        return read(name)
    if options.get("engine") == "exact" and example.expected("error:"):
        return nesymm.compile(example.text, name=name).infer()
    if options.get("engine") == "filter":
        return nesymm.compile(example.text, name=name).filter(options["data"])
    nest = options.get("nest", 0)
    text = example.text.replace("«", "f(" * nest).replace("»", ")" * nest)
    return compile_step(text, name, options.get("constants"))


def _check_answers(example: Example, options: dict[str, Any]) -> None:
    step = _compile(example)
    lines = [line.strip() for line in str(step).splitlines()]
    for wanted in example.expected("step:"):
        assert wanted in lines
    failure = example.expected("run error:")
    if failure:
        with pytest.raises(NesymmError, match=re.escape(failure[0])):
            _infer(example, step, options)
        return
    answers = example.expected("=>")
    if not answers:
        assert example.expected("step:"), "say what to expect"
        return
    values, filtered = _infer(example, step, options)
    listed = set()
    for answer in answers:
        name, _, numbers = answer.rpartition(": ")
        listed.add(name)
        assert name in values, f"{name} is not among {sorted(values)}"
        found = filtered[name] if "," in numbers else [values[name]]
        wanted_numbers = numbers.split(", ")
        assert len(found) == len(wanted_numbers), f"{name}: {found}"
        for value, printed in zip(found, wanted_numbers, strict=True):
            digits = len(printed.partition(".")[2])
            assert abs(value - float(printed)) <= 0.5 * 10**-digits + 1e-12, f"{name}: {found}"
    assert {n for n, value in values.items() if value > 0} <= listed


def _infer(example: Example, step: Any, options: dict[str, Any]) -> tuple[dict, dict]:
    given = {k: options[k] for k in ("data", "inputs", "parameters") if k in options}
    if options.get("engine") == "exact":
        return nesymm.compile(example.text).infer(options.get("data")).queries, {}
    networks = {n: _always(value) for n, value in options.get("networks", {}).items()}
    result = infer(step, options.get("steps", 1) - 1, networks=networks, **given)
    return result.queries, result.filtered


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


@pytest.mark.parametrize("page", PAGES)
def test_the_messages_on_the_page(
    page: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def shown(match: re.Match[str]) -> str:
        if match["message"] is None:
            return match[0]
        example = Example(page, 0, match["text"], _options(match["options"]), None, "")
        with pytest.raises(ProgramError) as caught:
            _compile(example)
        return match[0].replace(match["message"], f"{caught.value}\n")

    rewritten = _FENCE.sub(shown, text)
    if request.config.getoption("--update-golden"):
        path.write_text(rewritten, encoding="utf-8", newline="\n")
        return
    assert rewritten == text, "if the new messages are right, run pytest with --update-golden"


# --- What a page must hold ---------------------------------------------------------------


def _section(page: str, title: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert match, f"{page} has no section {title}"
    return match[1]


def test_every_section_of_the_language_has_an_example() -> None:
    text = (DOCS / "language.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert set(sections) == {e.section for e in EXAMPLES if e.page == "language.md"}


def test_all_families_are_listed() -> None:
    rows = re.findall(r"^\| `(\w+)` +\| ([^|]+?) +\|", _section("language.md", "Families"), re.M)
    assert rows == [(f.name, ", ".join(f.params)) for f in FAMILIES.values()]


def test_the_examples_of_families_compile() -> None:
    for family in FAMILIES.values():
        drawn = "X, Y" if family.name == "multivariate_normal" else "X"
        step = compile_step(f"x({drawn}) ~ {family.example}.\nquery(x({drawn})).\n")
        assert step.variables[0].family == family.name


def test_all_builtins_are_listed() -> None:
    section = _section("language.md", "Builtins")
    shown = {re.split(r"[(\s]", name)[0] for name in re.findall(r"`([^`]+)`", section)}
    operators = set(re.findall(r"`(?:X|not|\\\+)? ?([^\s`(]+) ?\w*`", section))
    names = {*builtins.PREDICATES, *builtins.GOALS, *builtins.FUNCTION_CONSTANTS}
    names |= {name for name, _ in builtins.FUNCTIONS}
    assert names <= shown | operators
    collected = _section("language.md", "findall and aggregates")
    assert all(re.search(rf"`{name}\b", collected) for name in builtins.AGGREGATES)


def test_all_refused_prolog_is_listed() -> None:
    section = _section("language.md", "What is refused")
    printing = {"write", "writeln", "print", "nl", "asserta", "assertz"}
    assert all(f"`{name}`" in section for name in set(builtins.REFUSED) - printing)


# --- errors.md ---------------------------------------------------------------------------


def _codes_in_source() -> set[str]:
    files = (ROOT / "src").rglob("*.py")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return set(re.findall(r'"(E\d{3})"', text))


def test_every_code_is_explained_and_shown() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (E\d{3}): ", text, re.MULTILINE)
    assert headings == sorted(_codes_in_source())
    for example in EXAMPLES:
        if example.page == "errors.md":
            assert example.expected("error:") == [example.section[:4]]
            assert example.message is not None
    shown = {e.section[:4] for e in EXAMPLES if e.page == "errors.md"}
    assert shown == set(headings)


def test_every_code_has_a_cause_and_a_cure() -> None:
    for code in sorted(_codes_in_source()):
        text = (DOCS / "errors.md").read_text(encoding="utf-8")
        section = re.search(rf"^## {code}: .*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        assert section and "**Cause.**" in section[0] and "**Cure.**" in section[0], code
