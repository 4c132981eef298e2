"""What `check` points out though it is no mistake."""

from __future__ import annotations

import pytest

from nesymm.language.check import check
from nesymm.language.hints import notes
from nesymm.language.parser import parse

SURPRISING = {
    "calm@t :- not alarm(1)@(t-1).": "step 0",
    "calm@t :- not alarm(_)@(t-3).": "steps 0 to 2",
    "0.5::calm@t :- quiet, not alarm(_)@(t-1).": "step 0",
    "calm@t :- not (alarm(X)@(t-1), X > 1).": "step 0",
    "level(L)@t ~ normal(0, 1) :- not alarm(_)@(t-1).": "step 0",
}
EXPECTED = [
    "calm@0. calm@t :- not alarm(_)@(t-1).",
    "calm@t :- alarm(2)@(t-1), not alarm(1)@(t-1).",
    "calm@t :- t >= 1, not alarm(_)@(t-1).",
    "calm@t :- not alarm(_)@t.",
    "calm@1 :- not alarm(_)@0.",
    "calm@t :- alarm(1)@(t-1).",
]
BASE = "0.3::alarm(1)@t. 0.2::alarm(2)@t. quiet.\n"


@pytest.mark.parametrize("text", SURPRISING)
def test_a_negation_that_does_not_start_is_pointed_out(text: str) -> None:
    (note,) = notes(check(parse(BASE + text, "p")))
    shown = note.render()
    assert shown.startswith("note[N001]: this clause of ")
    assert f"does not apply at {SURPRISING[text]}," in shown
    assert note.span is not None and note.span.line == 2
    assert note.span.text.startswith("not ")
    assert "add a clause for step 0" in shown


@pytest.mark.parametrize("text", EXPECTED)
def test_no_note_where_the_start_was_thought_of(text: str) -> None:
    assert notes(check(parse(BASE + text, "p"))) == []


def test_own_definitions_of_builtins() -> None:
    """One note for each predicate, and none for a builtin that is only asked for."""
    source = "last([X], X).\nlast([_ | T], X) :- last(T, X).\nappend(a).\nquery(append(_, _, [b]))."
    (note,) = notes(check(parse(source)))
    assert note.span is not None
    assert (note.code, note.span.line, note.level) == ("N002", 1, "note")
    assert note.message == "last/2 is defined here, so the one that is built in is not used"
