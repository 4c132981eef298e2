"""Labels that are none are refused, and missing ones are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm.errors import NesymmError
from nesymm.training import QueryLoss
from nesymm.training.plan import load

RAIN = "t(0.3)::rain@t. 0.9::u@t :- rain@t. observe(u@t). query(rain@T)."
DATA = {"u": np.ones((3, 2))}
LOSS = QueryLoss("rain@T", "y")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["wet", "dry", "dry"], "labels y: expected zeros and ones, received"),
        ([2, 0, 1], "labels y: expected zeros and ones, .*; received 2"),
        ([0.5, 0, 1], r"labels y: expected zeros and ones, .*; received 0\.5"),
        (np.ones(3) * 1j, "labels y: expected zeros and ones, received complex128"),
        (np.ones((3, 1)), r"labels y: expected shape \(3,\), received \(3, 1\)"),
        (np.ones(2), r"labels y: expected shape \(3,\), received \(2,\)"),
        (1, r"labels y: expected shape \(3,\), received \(\)"),
    ],
)
def test_labels_that_are_none(labels: Any, message: str) -> None:
    with pytest.raises(NesymmError, match=message):
        load(nesymm.compile(RAIN), {**DATA, "y": labels}, [LOSS])


@pytest.mark.parametrize(
    "labels",
    [[1, None, 0], [1, np.nan, 0], np.ma.masked_array([1, 0, 0], [False, True, False])],
)
def test_missing_labels(labels: Any) -> None:
    found = load(nesymm.compile(RAIN), {**DATA, "y": labels}, [LOSS]).labels["y"]
    np.testing.assert_array_equal(found, [1, np.nan, 0])


def test_mistakes_in_fit() -> None:
    model = nesymm.compile(RAIN)
    with pytest.raises(NesymmError, match="data: expected arrays by name, or a list with a dict"):
        model.fit([1], progress=False)  # type: ignore[arg-type]
    with pytest.raises(
        NesymmError, match=r"batch_size: expected a whole number from 1, received 2\.5"
    ):
        model.fit(DATA, batch_size=2.5, progress=False)
    with pytest.raises(NesymmError, match="key: expected a whole number from 0 to 4294967295"):
        model.fit(DATA, key=-1, progress=False)
