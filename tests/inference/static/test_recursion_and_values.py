"""A recursion with choices of its own, asked about a value that is drawn."""

from __future__ import annotations

import pytest

import nesymm

PROGRAM = """
e(1). e(2).
0.6::b(E) :- e(E).
ill(E){t} :- b(E).
0.7::ill(E){t} :- e(E), ill(F){t}, E \\= F.
at(V) ~ categorical([0.3, 0.7], [1, 2]).
well{t} :- at(X), not ill(X){t}.
query(well{t}).
"""
# Well if neither he nor, with the other ill, what comes from there: 0.4 (0.4 + 0.6 · 0.3).
EXPECTED = 0.4 * (0.4 + 0.6 * 0.3)


def test_without_time() -> None:
    assert nesymm.compile(PROGRAM.format(t="")).infer().queries["well"] == pytest.approx(EXPECTED)


def test_over_time() -> None:
    found = nesymm.compile(PROGRAM.format(t="@t")).filter({}, steps=2, method="exact").filtered
    assert found["well@t"][0].tolist() == pytest.approx([EXPECTED] * 2)


# ---------------------------------------------------------------- that starts at a drawn place

SPREAD = """
e(E) :- between(1, 3, E).
at(V) ~ uniform_int(0, 3).
ill(E){t} :- at(E).
0.5::ill(E){t} :- e(E), ill(F){t}, F > 0, E \\= F.
query(ill(1){t}).
"""
# It starts at 1; at 2 or 3, and comes by itself or through the other; or at 0, whence it does
# not spread.
STARTED = 0.25 + 0.5 * (1 - 0.5 * (1 - 0.5 * 0.5))


def test_a_choice_for_each_value() -> None:
    found = nesymm.compile(SPREAD.format(t="")).infer().queries
    assert found["ill(1)"] == pytest.approx(STARTED)


def test_a_choice_for_each_value_over_time() -> None:
    found = nesymm.compile(SPREAD.format(t="@t")).filter({}, steps=2, method="exact").filtered
    assert found["ill(1)@t"][0].tolist() == pytest.approx([STARTED] * 2)


def test_a_choice_for_each_value_of_an_input() -> None:
    model = nesymm.compile("""
        :- input(first(E), 1..2).
        ill(E) :- first(E).
        0.5::ill(E) :- between(1, 2, E), ill(F).
        query(ill(E)).
    """)
    found = model.infer({"first": 2}).queries
    # The one who is ill makes itself ill once more, which changes nothing.
    assert found["ill(2)"] == pytest.approx(1.0)
    # By the choice of (1, 2), that of (1, 1) needs ill(1).
    assert found["ill(1)"] == pytest.approx(0.5)
