"""Sequences of very different lengths: the same answers as each alone."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.inference.buckets import buckets
from nesymm.inference.data import prepare

MODEL = nesymm.compile("""
    :- input(rain@t, bool).
    0.5::wet@0.
    0.9::wet@t :- wet@(t-1).
    0.7::wet@t :- rain@t.
    0.8::seen@t :- wet@t.
    0.1::seen@t :- not wet@t.
    observe(seen@t).
    query(wet@t). query(wet@T). query(wet@3).
""")
LENGTHS = np.array([3, 150, 4, 1, 5])


def data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rain, seen = random.random((2, len(LENGTHS), 150)) < 0.4
    return {"rain": rain, "seen": seen, "length": LENGTHS}


def alone(b: int) -> dict[str, np.ndarray]:
    return {n: a[b : b + 1, : LENGTHS[b]] for n, a in data().items() if n != "length"}


def test_who_goes_with_whom() -> None:
    found = buckets(prepare(MODEL.step, data()))
    assert [rows.tolist() for rows in found] == [[3], [0, 2], [4], [1]]
    alike = {n: a[:, :5] if n != "length" else [5, 4, 3, 5, 5] for n, a in data().items()}
    assert len(buckets(prepare(MODEL.step, alike))) == 1


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
def test_each_has_the_answers_that_it_has_alone(method: str) -> None:
    found = MODEL.filter(data(), method=method, key=1)
    exact = method == "exact"
    assert found.lengths.tolist() == LENGTHS.tolist()
    for b, length in enumerate(LENGTHS):
        right = MODEL.filter(alone(b), method="exact")
        # 1,000 particles: four standard errors of a probability, and of the evidence of each step.
        error = 1e-5 if exact else float(2 / np.sqrt(found.effective[b, :length].min()))
        np.testing.assert_allclose(
            found.filtered["wet@t"][b, :length], right.filtered["wet@t"][0], atol=error
        )
        assert np.isnan(found.filtered["wet@t"][b, length:]).all()
        assert np.isnan(found.log_gains[b, length:]).all()
        assert found.final["wet@T"][b] == pytest.approx(right.final["wet@T"][0], abs=error)
        if exact:
            assert found.log_evidence[b] == pytest.approx(right.log_evidence[0], rel=1e-5)
        if length > 100 and not exact:
            continue  # What particles say of so early a step is what few ancestors say.
        if length > 3:
            late = found.final["wet@3"][b]
            assert late == pytest.approx(right.final["wet@3"][0], abs=error)
        else:
            assert np.isnan(found.final["wet@3"][b])


def test_failures_are_those_of_their_sequences() -> None:
    model = MODEL.extend("observe(dry@t). dry@t :- not rain@t.")
    some = data()
    some["rain"] = np.zeros_like(some["rain"])
    some["dry"] = np.ones(some["rain"].shape)
    some["dry"][4, 2] = 0
    found = model.filter(some, errors="keep")
    assert [(f.sequence, f.step) for f in found.failures] == [(4, 2)]
