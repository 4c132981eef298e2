"""Streams give what filters give, one step at a time; their state can be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nesymm
from nesymm.inference.columns import DataError
from nesymm.inference.methods import ExactForward, RaoBlackwellised
from nesymm.inference.results import FilterError

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


@pytest.mark.parametrize("method", ["auto", "exact", "rao-blackwellised", "bootstrap"])
def test_it_says_what_it_computes_by(model: nesymm.Model, method: str) -> None:
    stream, found = model.stream(method=method), model.filter({"umbrella": DAYS}, method=method)
    assert (stream.method, stream.reason) == (found.method, found.reason)
    assert repr(stream) == f"Stream(1 sequences, 0 steps so far, {found.method})"


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
    stream = model.stream(method=method, batch=2, key=3)
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


@pytest.mark.parametrize("data", [[{"umbrella": True}], [1], np.ones(1)])
def test_an_update_is_a_dictionary(model: nesymm.Model, data: Any) -> None:
    stream = model.stream(method="exact")
    with pytest.raises(nesymm.DataError, match="a dictionary with an array of one step for each"):
        stream.update(data)


def test_impossible_evidence_leaves_the_stream_where_it_was() -> None:
    model = nesymm.compile("0.5::x@0. x@t :- x@(t-1). observe(x@t). query(x@t).")
    stream = model.stream(method="exact")
    stream.update({"x": np.array([1])})
    with pytest.raises(nesymm.NesymmError, match="sequence 0, step 1"):
        stream.update({"x": np.array([0])})
    assert stream.update({"x": np.array([1])}).time == 1


def test_evidence_of_a_later_step_is_not_after_the_end(recwarn: pytest.WarningsRecorder) -> None:
    model = nesymm.compile("0.5::a@0. a@t :- a@(t-1). observe(a@1, true). query(a@t).")
    stream = model.stream()
    answers = [stream.update({}).probabilities["a@t"][0] for _ in range(2)]
    assert answers == pytest.approx([0.5, 1.0])
    assert not [w for w in recwarn if issubclass(w.category, nesymm.NesymmWarning)]


def test_what_an_element_is_by_its_place_is_not_remembered() -> None:
    counters = nesymm.compile("""
        e(E) :- between(1, 3, E).
        0.5::up@t.
        :- domain(n/2, 2, -3..3).
        n(E, 0)@0 :- e(E).
        n(E, W + 1)@t :- n(E, W)@(t-1), up@t.
        n(E, W)@t :- n(E, W)@(t-1), not up@t.
        0.5::a(E)@0 :- e(E).
        a(E)@t :- a(E)@(t-2).
        0.7::a(E)@t :- e(E), not a(E)@(t-2), t >= 2, n(_, 3)@t.
        query(n(_, 1)@2).
        query(n(2, _)@2).
    """)
    latches = [s for s in counters.step.slots if s.latch]
    assert [len(s.fields) for s in latches] == [0, 1]
    stream = counters.stream(method="exact")
    updates = [stream.update().probabilities for _ in range(4)]
    for found in updates[2:]:
        assert found["n(1,1)@2"] == found["n(3,1)@2"] == pytest.approx(0.5)
        assert found["n(2,2)@2"] == pytest.approx(0.25)


def test_what_a_recursion_does_not_change_is_one_variable() -> None:
    """Illness spreads between four, each of whom may catch it in several ways."""
    spreading = nesymm.compile("""
        e(E) :- between(1, 4, E).
        0.1::caught(E)@t :- e(E), e(_).
        0.2::caught(E)@t :- e(E).
        ill(E)@t :- caught(E)@t.
        ill(E)@t :- e(E), ill(F)@t, E \\= F.
        worst(M)@t :- aggregate_all(max(E), ill(E)@t, M).
        query(worst(4)@t). query(ill(_)@1).
    """)
    stream = spreading.stream(method="exact")
    found = [stream.update().probabilities for _ in range(3)][-1]
    # All are ill as soon as one is: none is, where all ways fail for all.
    any_ill = 1 - (0.9**4 * 0.8) ** 4
    assert found["worst(4)@t"] == pytest.approx(any_ill)
    assert found["ill(2)@1"] == pytest.approx(any_ill)


def test_impossible_evidence_names_what_was_observed(model: nesymm.Model) -> None:
    stays = "0.5::x@0. x@t :- x@(t-1). observe(x@t). query(x@t)."
    stream = nesymm.compile(stays).stream(method="exact")
    stream.update({"x": [1]})
    with pytest.raises(FilterError, match=r"the evidence is impossible \(observed: x\)"):
        stream.update({"x": [0]})
    stream = nesymm.compile(f"{stays} 0.5::w@t. observe(w@t).").stream(method="exact")
    stream.update({"x": [1], "w": [1]})
    with pytest.raises(FilterError, match=r"the evidence is impossible \(without x@t it is not\)"):
        stream.update({"x": [0], "w": [1]})


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
def test_a_sequence_that_fails_does_not_stop_the_others(method: str, tmp_path: Path) -> None:
    model = nesymm.compile("0.5::x@0. x@t :- x@(t-1). observe(x@t). query(x@t).")
    stream = model.stream(method=method, batch=3)
    stream.update({"x": [1, 1, 0]})
    data = {"x": [1, 0, 0]}
    with pytest.raises(FilterError, match="sequence 1, step 1"):
        stream.update(data)
    found = stream.update(data, errors="keep")
    np.testing.assert_allclose(found.probabilities["x@t"], [1, np.nan, 0])
    np.testing.assert_allclose(found.log_gain, [0, np.nan, 0], atol=1e-6)
    assert [(f.sequence, f.step) for f in found.failures] == [(1, 1)]
    stream.save(tmp_path / "state.npz")
    other = model.stream(method=method, batch=3)
    other.restore(tmp_path / "state.npz")
    for going in (stream, other):
        found = going.update({"x": [1, 1, 0]})
        np.testing.assert_allclose(found.probabilities["x@t"], [1, np.nan, 0])
        assert [(f.sequence, f.step) for f in found.failures] == [(1, 1)]
    with pytest.raises(nesymm.NesymmError, match="expected 'raise' or 'keep'"):
        stream.update(data, errors="kepp")


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
def test_a_query_has_no_answer_before_its_step_or_outside_its_range(method: str) -> None:
    model = nesymm.compile("""
        0.3::a@0. 0.8::a@t :- a@(t-1). 0.4::a@t :- not a@(t-1).
        0.9::o@t :- a@t. 0.2::o@t :- not a@t.
        observe(o@t). query(a@1). query(a@(1:2)). query(a@T).
    """)
    seen = [1, 0, 1, 1]
    stream = model.stream(method=method)
    updates = [stream.update({"o": [o]}) for o in seen]
    answers = [update.probabilities for update in updates]
    exact = model.filter({"o": [seen]}, method="exact")
    found = np.array([a["a@(1:2)"][0] for a in answers])
    # Each step adds an error of at most 0.5 / √n for n effective particles.
    effective = min(update.effective[0] for update in updates)
    bound = 1e-6 if method == "exact" else 4 * np.sqrt(len(seen)) * 0.5 / np.sqrt(effective)
    np.testing.assert_allclose(found, exact.filtered["a@(1:2)"][0], atol=bound)
    assert np.isnan(answers[0]["a@1"]).all()
    assert answers[3]["a@1"] == pytest.approx(exact.final["a@1"], abs=bound)


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised", "bootstrap"])
def test_answers_that_are_impossible_at_a_step_are_zeros(method: str) -> None:
    """As in filtering, an answer is there at every step, whichever are possible then."""
    model = nesymm.compile(
        "at(0)@0. 0.5::go@t. at(X)@t :- at(Y)@(t-1), go@t, Y < 3, X is Y + 1. "
        "at(X)@t :- at(X)@(t-1), not (go@t, X < 3). query(at(X)@t). observe(go@t)."
    )
    walk = [1, 0, 1]
    whole = model.filter({"go": [walk]}, method=method).filtered
    stream = model.stream(method=method)
    where = 0
    for time, go in enumerate(walk):
        where += go if time else 0
        found = stream.update({"go": [go]}).probabilities
        assert {f"at({x})@t" for x in range(4)} <= set(found)
        for x in range(4):
            assert found[f"at({x})@t"] == pytest.approx([float(x == where)])
            assert whole[f"at({x})@t"][0, time] == pytest.approx(float(x == where))
    # What is impossible at all steps is not listed by a filter; asked by its name, it is 0.
    assert "at(3)@t" not in whole
    np.testing.assert_array_equal(whole["at(3)@t"], np.zeros((1, 3)))
    np.testing.assert_array_equal(
        model.smooth({"go": [walk]}, method=method)["at(3)@t"], np.zeros((1, 3))
    )
    with pytest.raises(KeyError, match=r"at\(7\)@t is not asked \(there are: at\(0\)@t, at\(1\)@t"):
        whole["at(7)@t"]


def test_what_is_given_once_makes_no_table_smaller_than_it_may_become() -> None:
    """Who is there is known when the state gets its shape, and not while a step is compiled."""
    model = nesymm.compile(
        """
        :- input(e(key), 1..3).
        :- input(u@t).
        :- network(net, 1).
        0.9::a(E)@0 :- e(E).
        a(E)@t :- a(E)@(t-1), a(_)@(t-1).
        0.2::a(E)@t :- e(E), not a(E)@(t-1).
        0.6::a(E)@t :- e(E), a(1)@(t-1).
        h@t ~ bernoulli(net(u@t)).
        query(h@t). query(a(2)@t).
        """,
        networks={"net": lambda x: x[:1]},
    )
    there, u = np.array([[True, True, False]]), np.array([[[0.5], [-0.3], [1.0]]])
    whole = model.filter({"e": there, "u": u}, method="exact")
    stream = model.stream({"e": there}, method="exact", shapes={"u": (1,)})
    for t in range(3):
        found = stream.update({"u": u[:, t]}).probabilities
        for name in ("h@t", "a(2)@t"):
            np.testing.assert_allclose(found[name], whole.filtered[name][:, t], rtol=1e-5)
