"""What people write in the cells of tables: truth, numbers, and nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest

import nesymm

MODEL = nesymm.compile("""
    :- input(wall(key), 1..2).
    :- input(door@t, bool).
    :- input(size(key, S), 1..2, 0..4).
    :- input(weight(key, W), 1..2, real).
    0.5::seen(K)@t :- between(1, 2, K).
    observe(seen(K)@t).
    there(K) :- wall(K).
    open@t :- door@t.
    holds(K, S) :- size(K, S).
    heavy(K) :- weight(K, W), W > 2.
    any@t :- seen(_)@t.
    query(there(1)). query(open@t). query(holds(K, S)). query(heavy(1)). query(any@t).
""")
DATA: dict[str, Any] = {
    "wall": [[0, 1]], "door": [[1, 0]], "size": [[1, 2]], "weight": [[1.0, 2.0]],
    "seen": [[[0, 0], [0, 1]]],
}  # fmt: skip
WRITTEN = {
    True: (True, 1, 1.0, "true", "True", "TRUE", np.True_, np.int64(1)),
    False: (False, 0, 0.0, "false", "False", np.False_),
    None: (None, float("nan"), pandas.NA),
}


def answers(**tables: Any) -> dict[str, Any]:
    found = MODEL.filter({**DATA, **tables}, method="exact")
    return {**found.filtered, **found.final}


def objects(*values: Any) -> pandas.Series:
    return pandas.Series(values, dtype=object)


def _written() -> list[tuple[Any, Any]]:
    return [(text, truth) for truth, texts in WRITTEN.items() for text in texts]


@pytest.mark.parametrize(("text", "truth"), _written(), ids=str)
def test_truth_in_a_relation(text: Any, truth: bool | None) -> None:
    """An entry of an input that is missing is false."""
    column = objects(text, True)
    found = answers(wall=pandas.DataFrame({"key": [1, 2], "there": column}))
    assert found["there(1)"].tolist() == [float(bool(truth))]
    found = answers(door=pandas.DataFrame({"time": [0, 1], "open": column}))
    assert found["open@t"].tolist() == [[float(bool(truth)), 1]]


@pytest.mark.parametrize(("text", "truth"), _written(), ids=str)
def test_truth_that_is_observed(text: Any, truth: bool | None) -> None:
    """An observation that is missing says nothing."""
    columns = {"time": [0, 0, 1], "key": [1, 2, 1], "seen": objects(text, False, False)}
    found = answers(seen=pandas.DataFrame(columns))
    assert found["any@t"][0, 0] == (0.5 if truth is None else float(truth))


def test_numbers_of_columns_that_may_be_empty() -> None:
    column = pandas.array([3, None], dtype="Int64")
    found = answers(
        size=pandas.DataFrame({"key": [1, 2], "size": column}),
        weight=pandas.DataFrame({"key": [1, 2], "weight": column}),
    )
    assert found["holds(1,3)"].tolist() == found["heavy(1)"].tolist() == [1]
    assert not [name for name in found if name.startswith("holds(2") and found[name].any()]


def test_empty_cells_in_arrays() -> None:
    column = pandas.Series([[True, pandas.NA]], dtype=object).tolist()
    assert answers(door=column)["open@t"].tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("wall", "no", r"wall, row 0, column value: expected bool \(true or false\) as .* 'no'"),
        ("wall", 2, r"as the value of wall, received 2"),
        ("wall", 0.5, r"as the value of wall, received 0.5"),
        ("wall", "", r"as the value of wall, received ''"),
        ("size", "big", r"size, row 0, column value: expected int 0..4 as .* received 'big'"),
        ("weight", "x", r"weight, row 0, column value: expected real as .* received 'x'"),
        ("weight", 10**400, r"as the value of weight, received 1000"),
    ],
)
def test_cells_that_do_not_fit(name: str, value: Any, message: str) -> None:
    frame = pandas.DataFrame({"key": [1, 2], "value": objects(value, 1)})
    with pytest.raises(nesymm.DataError, match=message):
        MODEL.filter({**DATA, name: frame})


def test_observed_texts_that_are_no_truth() -> None:
    frame = pandas.DataFrame({"time": [0], "key": [1], "seen": ["yes"]})
    with pytest.raises(nesymm.DataError, match=r"as the value of seen, received 'yes'"):
        MODEL.filter({**DATA, "seen": frame})
