"""docs/problog.md: ProbLog and nesymm agree on every program, or the page says otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from oracles import problog

import nesymm
from nesymm.errors import ProgramError
from nesymm.inference.static.solver import Impossible

PAGE = (Path(__file__).parents[3] / "docs" / "problog.md").read_text(encoding="utf-8")
FENCES = re.findall(r"<!-- (same|differs|refused: \w+) -->\n```prolog\n(.*?)```", PAGE, re.DOTALL)
SAME = [text for status, text in FENCES if status == "same"]
DIFFERS = [text for status, text in FENCES if status == "differs"]
REFUSED = [(status.split()[-1], text) for status, text in FENCES if status.startswith("refused")]


def test_every_program_of_the_page_is_run() -> None:
    assert len(FENCES) == PAGE.count("```prolog")
    assert len(SAME) >= 12 and len(REFUSED) >= 8


def test_every_row_of_the_table_leads_to_a_section() -> None:
    anchors = {
        re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    }
    links = re.findall(r"\]\(#([a-z-]+)\)", PAGE)
    assert links and set(links) == anchors


@pytest.mark.parametrize("source", SAME, ids=range(len(SAME)))
@pytest.mark.parametrize("method", ["enumerate", "circuit"])
def test_same_answers(source: str, method: str) -> None:
    expected = problog(source)
    found = nesymm.compile(source).infer(method=method).queries
    positive = {k: p for k, p in expected.items() if p > 0}
    assert {k: p for k, p in found.items() if p > 0} == pytest.approx(positive, abs=1e-9)
    assert expected.keys() - positive.keys() <= found.keys()


@pytest.mark.parametrize("source", DIFFERS, ids=range(len(DIFFERS)))
def test_what_differs_still_differs(source: str) -> None:
    assert nesymm.compile(source).infer().queries.keys() != problog(source).keys()


@pytest.mark.parametrize(("code", "source"), REFUSED)
def test_refused(code: str, source: str) -> None:
    if code == "impossible":
        with pytest.raises(Impossible, match="the evidence is impossible"):
            nesymm.compile(source).infer()
        return
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(source).infer()
    assert caught.value.codes == (code,)
