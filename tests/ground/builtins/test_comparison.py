"""Comparisons of names that are also constants of arithmetic, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm

PROGRAM = """
d(D)@t ~ categorical([0.2, 0.3, 0.5], [e, pi, t]).
east@t :- d(D)@t, D =:= e.
other@t :- d(D)@t, D =\\= e.
pie@t :- d(D)@t, not D =\\= pi.
tea@t :- d(D)@t, t =:= D.
k(K)@t ~ uniform_int(0, 3).
now@t :- k(K)@t, K =:= t.
below@t :- k(K)@t, K < e.
query(east@t). query(other@t). query(pie@t). query(tea@t). query(now@t). query(below@t).
"""


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_names_that_are_constants_elsewhere(method: str) -> None:
    found = nesymm.compile(PROGRAM).filter(steps=2, method=method).filtered
    expected = {"east": 0.2, "other": 0.8, "pie": 0.3, "tea": 0.5, "now": 0.25, "below": 0.75}
    for name, right in expected.items():
        assert found[f"{name}@t"][0] == pytest.approx([right] * 2)


def test_directions_that_are_given() -> None:
    model = nesymm.compile("""
        :- input(way(W)@t, [n, e, s, w]).
        east@t :- way(W)@t, W =:= e.
        west@t :- way(W)@t, W =\\= e, W =\\= n, W =\\= s.
        query(east@t). query(west@t).
    """)
    found = model.filter({"way": [["n", "e", "w", None]]}).filtered
    assert found["east@t"].tolist() == [[0, 1, 0, 0]]
    assert found["west@t"].tolist() == [[0, 0, 1, 0]]


def test_worlds_without_time() -> None:
    text = "way ~ categorical([0.2, 0.8], [e, inf]). a :- way =:= e. b :- way =\\= inf. "
    found = nesymm.compile(text + "query(a). query(b).").infer()
    assert found.probability("a") == found.probability("b") == pytest.approx(0.2)


def test_such_a_name_is_observed() -> None:
    drawn = "way(W){} ~ categorical([0.2, 0.8], [e, inf]). a{} :- way(e){}. "
    still = nesymm.compile(drawn.format("", "", "") + "observe(way, e). query(a).").infer()
    assert still.log_evidence == pytest.approx(np.log(0.2))
    assert still.probability("a") == 1
    moving = nesymm.compile(drawn.format("@t", "@t", "@t") + "observe(way@1, e). query(a@t).")
    found = moving.filter(steps=2)
    assert found.log_evidence == pytest.approx(np.log(0.2))
    assert found.filtered["a@t"][0] == pytest.approx([0.2, 1])
