"""Streams give what filters give, one step at a time; their state can be kept."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import nesymm
from nesymm.filtering.data import DataError
from nesymm.filtering.methods import ExactForward, RaoBlackwellised

RAIN = """
0.3::rain@0.
0.7::rain@t :- rain@(t-1).
0.2::rain@t :- \\+ rain@(t-1).
0.9::umbrella@t :- rain@t.
0.1::umbrella@t :- \\+ rain@t.
observe(umbrella@t).
query(rain@t).
"""
DAYS = np.array([[1, 0, 1, 1, 0], [0, 0, np.nan, 1, 1]])


@pytest.fixture(scope="module")
def model() -> nesymm.Model:
    return nesymm.compile(RAIN)


def test_a_stream_agrees_with_the_filter(model: nesymm.Model) -> None:
    with jax.enable_x64(True):
        whole = model.filter({"umbrella": DAYS}, method=ExactForward())
        stream = model.stream(method="exact", batch=2)
        updates = [stream.update({"umbrella": day}) for day in DAYS.T]
    probabilities = np.stack([u.probabilities["rain@t"] for u in updates], axis=1)
    np.testing.assert_allclose(probabilities, whole.filtered["rain@t"], atol=1e-9)
    gains = np.stack([u.log_gain for u in updates], axis=1)
    np.testing.assert_allclose(gains, whole.log_gains, atol=1e-9)


def test_what_is_left_out_is_missing(model: nesymm.Model) -> None:
    given, left_out = (model.stream(method="exact") for _ in range(2))
    a = given.update({"umbrella": np.array([np.nan])})
    b = left_out.update()
    assert a.probabilities["rain@t"] == b.probabilities["rain@t"] == pytest.approx(0.3)


def test_nothing_is_compiled_after_the_second_step(model: nesymm.Model) -> None:
    stream = model.stream(method=RaoBlackwellised(particles=10))
    traced = 0
    original = stream.engine.step

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal traced
        traced += 1
        return original(*args, **kwargs)  # type: ignore[arg-type]

    stream.engine.step = counted  # type: ignore[method-assign, assignment]
    for day in (1, 0):
        stream.update({"umbrella": np.array([day])})
    before = traced
    for day in (1, 1, 0, np.nan, 1):
        stream.update({"umbrella": np.array([day])})
    assert traced == before


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_a_restored_stream_goes_on_as_if_nothing_happened(
    model: nesymm.Model, method: str, tmp_path: Path
) -> None:
    stream = model.stream(method=method, batch=2, seed=3)
    for day in DAYS.T[:3]:
        stream.update({"umbrella": day})
    stream.save(tmp_path / "state.npz")
    other = model.stream(method=method, batch=2)
    other.restore(tmp_path / "state.npz")
    for day in DAYS.T[3:]:
        here, there = stream.update({"umbrella": day}), other.update({"umbrella": day})
        np.testing.assert_array_equal(here.probabilities["rain@t"], there.probabilities["rain@t"])
        assert here.time == there.time


def test_the_state_of_another_program_or_method_is_refused(
    model: nesymm.Model, tmp_path: Path
) -> None:
    stream = model.stream(method="exact")
    stream.update({"umbrella": np.array([1])})
    stream.save(tmp_path / "state.npz")
    other = nesymm.compile(RAIN.replace("0.7", "0.6"))
    with pytest.raises(nesymm.NesymmError, match="another program"):
        other.stream(method="exact").restore(tmp_path / "state.npz")
    with pytest.raises(nesymm.NesymmError, match="another method"):
        model.stream(method="exact", batch=2).restore(tmp_path / "state.npz")


def test_what_cannot_be_streamed_is_said(model: nesymm.Model) -> None:
    with pytest.raises(DataError, match="reads no sun"):
        model.stream(method="exact").update({"sun": np.array([1])})
    at_end = nesymm.compile(RAIN + "observe(rain@T, true).")
    with pytest.raises(nesymm.NesymmError, match="at the end"):
        at_end.stream(method="exact")


def test_impossible_evidence_leaves_the_stream_where_it_was() -> None:
    model = nesymm.compile("0.5::x@0. x@t :- x@(t-1). observe(x@t). query(x@t).")
    stream = model.stream(method="exact")
    stream.update({"x": np.array([1])})
    with pytest.raises(nesymm.NesymmError, match="sequence 0, step 1"):
        stream.update({"x": np.array([0])})
    assert stream.update({"x": np.array([1])}).time == 1
