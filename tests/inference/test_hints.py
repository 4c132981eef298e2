"""What a user is told where something is easily misunderstood."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import nesymm

RAIN = "0.3::rain@t. observe(rain@t). query(rain@t). query(rain@T)."


def test_evidence_after_the_end_is_pointed_out() -> None:
    model = nesymm.compile("0.5::a@0. a@t :- a@(t-1). observe(a@9, true). query(a@0).")
    with pytest.warns(nesymm.NesymmWarning, match="observes a at step 9, and the last step"):
        assert model.filter({}, steps=6).final["a@0"][0] == pytest.approx(0.5)
    assert model.filter({}, steps=10).final["a@0"][0] == pytest.approx(1.0)


def test_one_number_per_sequence_is_no_series() -> None:
    with pytest.raises(nesymm.NesymmError, match="one step only has NaN at the others"):
        nesymm.compile("0.5::c@t. observe(c@T).").filter({"c": np.ones(5)})


def test_a_query_that_is_not_smoothed() -> None:
    smoothed = nesymm.compile(RAIN).smooth({"rain": [[1, np.nan]]})
    with pytest.raises(nesymm.NesymmError, match=r"rain@T is not asked at every step.*rain@t"):
        smoothed["rain@T"]


def test_truth_is_written_as_such() -> None:
    with pytest.raises(nesymm.NesymmError, match="write True and False, or 1 and 0"):
        nesymm.compile(RAIN).filter({"rain": [["true", "false"]]})


def test_keys_can_be_declared() -> None:
    model = nesymm.compile("""
        at(K)@t ~ uniform_int(1, 2). cell(1). cell(2).
        c(K, 1)@0 :- at(K)@0. c(K, 0)@0 :- cell(K), not at(K)@0.
        c(K, N + 1)@t :- c(K, N)@(t-1), at(K)@t. c(K, N)@t :- c(K, N)@(t-1), not at(K)@t.
        query(c(1, 1)@t).
    """)
    with pytest.raises(nesymm.NesymmError, match=r":- fluent\(c\(key, value\)\)\."):
        model.filter({}, steps=2)


def test_what_is_generated_is_found_by_its_name() -> None:
    model = nesymm.compile("pos(0)@0. pos(X + 1)@t :- pos(X)@(t-1). query(pos(2)@2).")
    generated = model.generate({}, 2, steps=3)
    assert generated["pos"].tolist() == [[[0, 1, 2], [0, 1, 2]]]
    with pytest.raises(nesymm.NesymmError) as caught:
        generated["position"]
    assert "query" not in str(caught.value)


def test_nothing_to_learn() -> None:
    with pytest.warns(nesymm.NesymmWarning, match="nothing to learn"):
        nesymm.compile(RAIN).fit({"rain": [[1, 0]]}, epochs=1, progress=False)


def test_the_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nesymm", "--help"], capture_output=True, text=True, check=True
    )
    assert "query" in done.stdout
