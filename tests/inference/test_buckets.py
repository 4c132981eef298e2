"""Sequences of very different lengths: the same answers as each alone."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.inference.buckets import Buckets
from nesymm.inference.data import prepare
from nesymm.inference.diagnostics import Diagnostics

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
    found = Buckets.of(prepare(MODEL.step, data()))
    assert [rows.tolist() for rows in found.rows] == [[3], [0, 2], [4], [1]]
    assert found.steps == (1, 4, 5, 150)
    assert found.kinds.tolist() == [1, 3, 1, 0, 2]
    alike = {n: a[:, :5] if n != "length" else [5, 4, 3, 5, 5] for n, a in data().items()}
    assert len(Buckets.of(prepare(MODEL.step, alike)).rows) == 1


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


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
def test_each_is_smoothed_as_it_is_alone(method: str) -> None:
    long = MODEL.smooth({**data(), "length": LENGTHS}, method=method, key=1)
    for b, length in enumerate(LENGTHS):
        right = MODEL.smooth(alone(b), method="exact")["wet@t"][0]
        assert np.isnan(long["wet@t"][b, length:]).all()
        if method == "exact":
            np.testing.assert_allclose(long["wet@t"][b, :length], right, atol=1e-5)
        elif length < 10:
            # 1,000 particles, of which resampling leaves some hundred ancestors.
            np.testing.assert_allclose(long["wet@t"][b, :length], right, atol=0.2)


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
@pytest.mark.parametrize("generated", [False, True])
def test_trajectories_have_the_smoothed_chances(method: str, generated: bool) -> None:
    draw = MODEL.generate if generated else MODEL.trajectories
    found = draw(data(), 400, method=method, key=2)
    assert found.lengths.tolist() == LENGTHS.tolist()
    assert found["wet"].shape == (len(LENGTHS), 400, 150)
    for b, length in enumerate(LENGTHS):
        right = MODEL.smooth(alone(b), method="exact")["wet@t"][0]
        late = max(0, length - 4)  # particles have enough ancestors for the last few steps
        chances = found["wet"][b].mean(0)[late:length]
        # 400 draws: four standard errors; particles add theirs.
        error = 0.1 if method == "exact" else 0.2
        np.testing.assert_allclose(chances, right[late:], atol=error)
    if generated:
        seen = data()["seen"]
        for b, length in enumerate(LENGTHS):
            assert (found["seen"][b, :, :length] == seen[b, :length]).all()
            wet = found["wet"][b]
            assert (found["wet@t"][b, :, :length] == wet[:, :length]).all()
            if length > 3:
                assert (found["wet@3"][b] == wet[:, 3]).all()
            assert (found["wet@T"][b] == wet[:, length - 1]).all()


def test_what_has_no_time_is_put_back_in_the_order_of_the_sequences() -> None:
    model = MODEL.extend(":- input(tall, bool). observe(label). label :- tall.")
    tall = np.array([True, False, False, True, False])
    found = model.generate({**data(), "tall": tall}, 3)
    assert (found["label"] == tall[:, None]).all()


def test_the_most_probable_trajectory_is_that_of_each_alone() -> None:
    found = MODEL.trajectories(data(), best=True)
    for b, length in enumerate(LENGTHS):
        right = MODEL.trajectories(alone(b), best=True)["wet"][0, 0]
        np.testing.assert_array_equal(found["wet"][b, 0, :length], right)


def test_failures_are_those_of_their_sequences() -> None:
    model = MODEL.extend("observe(dry@t). dry@t :- not rain@t.")
    some = data()
    some["rain"] = np.zeros_like(some["rain"])
    some["dry"] = np.ones(some["rain"].shape)
    some["dry"][4, 2] = 0
    for run in (model.filter, model.smooth, model.trajectories):
        found = run(some, errors="keep")
        assert [(f.sequence, f.step) for f in found.failures] == [(4, 2)]
    assert found.lengths.tolist() == [3, 150, 4, 1, 0]


def test_buckets_that_are_exact_are_not_said_to_have_few_particles() -> None:
    """Short sequences may be few enough to be exact, where long ones are not."""
    found = Buckets.of(prepare(MODEL.step, data()))
    parts = [
        Diagnostics(*(1, *np.ones((4, len(own))))) if i < 3 else Diagnostics(
            1000, np.array([700.0]), np.array([3]), np.array([2]), np.array([40])
        )
        for i, own in enumerate(found.rows)
    ]  # fmt: skip
    whole = found.diagnostics(parts)
    assert whole.particles == 1000
    assert whole.smallest_effective.tolist() == [1000, 700, 1000, 1000, 1000]
    assert whole.ancestors.tolist() == [1000, 40, 1000, 1000, 1000]
