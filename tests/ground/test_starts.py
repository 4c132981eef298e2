"""What can start: a predicate that looks back only at what can."""

from __future__ import annotations

import pytest

import nesymm

NOBODY = "e(E) :- between(1, 0, E). seen(E)@t :- e(E). "


def test_what_follows_from_nobody_never_holds() -> None:
    source = NOBODY + "some@t :- seen(_)@(t-1). later@t :- some@(t-1). query(later@t)."
    found = nesymm.compile(source).filter({}, steps=3).filtered
    assert found["later@t"].tolist() == [[0.0, 0.0, 0.0]]


def test_it_is_compiled_though_nothing_asks_for_it() -> None:
    nesymm.compile(NOBODY + "some@t :- seen(_)@(t-1).").filter({}, steps=2)


@pytest.mark.parametrize(
    "source",
    [
        "a@t :- a@(t-1). query(a@t).",
        "a@t :- b@(t-1). b@t :- a@(t-1). query(a@t).",
        "a@t :- (a@(t-1) ; b@(t-1)). b@t :- b@(t-1). query(a@t).",
    ],
)
def test_what_waits_for_itself_never_starts(source: str) -> None:
    with pytest.raises(nesymm.ProgramError, match="nothing ever starts"):
        nesymm.compile(source)


def test_an_alternative_may_start_it() -> None:
    source = "0.5::b@t. a@t :- (a@(t-1) ; b@(t-1)). query(a@t)."
    found = nesymm.compile(source).filter({}, steps=3).filtered["a@t"][0]
    assert found.tolist() == pytest.approx([0.0, 0.5, 0.75])
