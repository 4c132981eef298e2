"""ProbLog's own system tests: each program gives ProbLog's answers, or is refused for a reason.

They are not a part of this repository. `PROBLOG_TESTS` names the folder `test` of a checkout of
ProbLog:

    PROBLOG_TESTS=../problog/test make test-slow
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import nesymm
from nesymm.errors import ProgramError
from nesymm.inference.static.solver import Impossible

FOLDER = os.environ.get("PROBLOG_TESTS")
FILES = sorted(Path(FOLDER).glob("*.pl")) if FOLDER else []
PAGE = Path(__file__).parents[2] / "docs" / "problog.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="PROBLOG_TESTS names no checkout of ProbLog"),
]

CUT = ("E105", "cut is not supported: it depends on the order in which clauses are tried")
PYTHON = ("E105", "a program never runs Python that it names")
CLAUSES = ("E105", "a program does not look at its own clauses")
COLLECTORS = ("E001", "`=>` is no operator here")
OPEN = ("E301", "is not bound when the clause is used")
ORDER = ("E319", "ProbLog may collect its items in another")

# What is refused by design, with the code and what a user reads.
REFUSED = {
    "01_unbounded": ("E002", "the program is empty"),
    "aggregate_custom": COLLECTORS,
    "aggregate_satisfy": COLLECTORS,
    "bug_unify": OPEN,
    "clause2_basic_tests": CLAUSES,
    "clause_pred": CLAUSES,
    "cut": CUT,
    "cut_2": CUT,
    "extern_test": PYTHON,
    "extern_test_out": PYTHON,
    "findall_check": ORDER,
    "scope_manipulation": ("E105", "a scope is a name that is known before the program runs"),
    "smokers_csv": ("E008", "`bob` is written with and without quotes"),
    "smokers_db": ("E105", "databases are not read"),
    "varunify_all": OPEN,
}


def expected(path: Path) -> dict[str, float] | str:
    """The answers that the comments of a test state, or the error that it ends with.

    Answers stand in lines below `%Expected outcome:`, or behind the query that they are about.
    """
    answers: dict[str, float] = {}
    listed = False
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if listed:
            error = re.match(r"% error\s*(.*)", line, re.IGNORECASE)
            if error:
                return error[1]
            found = re.match(r"% \s*(.*\S)\s+(\S+)$", line)
            if found:
                answers[found[1]] = float(found[2])
            listed = found is not None
        listed = listed or line.startswith("%Expected outcome:")
        found = re.match(r"query\((.*)\)\s*\.\s*% outcome:\s*(\S+)$", line)
        if found:
            answers[found[1].strip()] = float(found[2])
    return answers


def comparable(name: str) -> str:
    """Without quotes where they are not needed, which ProbLog keeps, and names of variables."""
    return re.sub(r"\b(X\d+|_)\b", "_", re.sub(r"'([a-z]\w*|[<=>])'", r"\1", name))


def answers(path: Path) -> dict[str, float]:
    found = nesymm.compile(path).infer().queries
    return {comparable(name): probability for name, probability in found.items()}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_problog_agrees(path: Path) -> None:
    wanted = expected(path)
    if path.stem in REFUSED:
        code, message = REFUSED[path.stem]
        with pytest.raises(ProgramError) as caught:
            answers(path)
        assert code in caught.value.codes and message in str(caught.value)
    elif isinstance(wanted, str):
        with pytest.raises((ProgramError, Impossible)):
            answers(path)
    else:
        wanted = {comparable(name): probability for name, probability in wanted.items()}
        found = answers(path)
        # Only ProbLog lists answers that can never hold.
        assert {n for n, p in found.items() if p > 0} <= wanted.keys()
        assert {n: found.get(n, 0) for n in wanted} == pytest.approx(wanted, abs=1e-7)


def test_the_page_states_the_counts() -> None:
    names = {path.stem for path in FILES}
    assert names >= REFUSED.keys(), "the table names tests that are not there"
    errors = sum(isinstance(expected(path), str) for path in FILES)
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    counts = (len(names), len(names) - len(REFUSED) - errors, errors, len(REFUSED))
    stated = re.search(
        r"Of ProbLog's own (\d+) system tests, (\d+) give the same answers, in (\d+) both refuse "
        r"the program, and (\d+) are refused by nesymm alone", text
    )  # fmt: skip
    assert stated is not None and tuple(map(int, stated.groups())) == counts
    for name in REFUSED:
        assert f"`{name}`" in text, f"the page does not name {name}"
