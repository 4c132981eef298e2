"""Data that do not fit, evidence that cannot be, networks that break: each is said clearly."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.columns import DataError
from nesymm.inference.data import prepare
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised
from nesymm.inference.results import FilterError
from nesymm.model import Model

READS = """
    :- input(start(X), 0..9).
    :- input(action(A)@t, [up, down]).
    :- input(speed(V)@t).
    :- input(image@t).
    :- input(wind(X, Y)@t, 0..3, 0..3).
    :- network(see, 2).
    e(E) :- between(1, 3, E).
    x(X)@0 :- start(X).
    x(X+1)@t :- x(X)@(t-1), action(up)@(t-1).
    x(X)@t :- x(X)@(t-1), not action(up)@(t-1).
    calm@t :- wind(0, Y)@t, speed(V)@t, V < Y.
    nn(see, [image@t], Y, [dark, light])::view(Y)@t.
    0.9::hit(E)@t :- e(E), x(X)@t, X > E, view(light)@t.
    y@t ~ normal(X, 1) :- x(X)@t.
    die(D)@t ~ uniform_int(1, 6).
    mood(M)@t ~ categorical([0.5, 0.5], [good, bad]).
    observe(hit(E)@t). observe(y@t). observe(die@t). observe(mood@t).
    query(calm@t).
"""
BATCH, STEPS = 2, 4


@pytest.fixture(scope="module")
def reads() -> Model:
    return nesymm.compile(READS)


def good() -> dict[str, Any]:
    lead = (BATCH, STEPS)
    return {
        "start": np.zeros(BATCH, int),
        "action": np.full(lead, "up"),
        "speed": np.zeros(lead),
        "image": np.zeros((*lead, 5)),
        "wind": np.zeros((*lead, 2), int),
        "hit": np.zeros((*lead, 3), bool),
        "y": np.zeros(lead),
        "die": np.ones(lead, int),
        "mood": np.full(lead, "good"),
    }


def test_data_that_fit(reads: Model) -> None:
    sequences = prepare(reads.step, good(), STEPS)
    assert (sequences.batch, sequences.steps) == (BATCH, STEPS)
    assert sequences.complete == frozenset(good())


WRONG_SHAPES = {
    "start": ((BATCH, 1, 1), r"input start: expected .*\(2,\), received \(2, 1, 1\)"),
    "action": ((BATCH, STEPS, 2), r"input action: expected .*\(2, 4\), received \(2, 4, 2\)"),
    "wind": ((BATCH, STEPS), r"input wind: expected .*\(2, 4, 2\), received \(2, 4\)"),
    "hit": ((BATCH, STEPS, 2), r"observation hit: expected .*\(2, 4, 3\), received \(2, 4, 2\)"),
    "y": ((BATCH,), r"y: expected axes \(batch, time, …\), received shape \(2,\)"),
    "image": ((BATCH,), r"image: expected axes \(batch, time, …\), received shape \(2,\)"),
    "die": ((BATCH, STEPS + 1), r"the time axes differ: .*die 5"),
    "mood": ((BATCH + 1, STEPS), r"the batch axes differ: .*mood 3"),
    "speed": ((), r"speed: expected an array with a leading batch axis, received a scalar"),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_a_wrong_shape(reads: Model, name: str) -> None:
    shape, message = WRONG_SHAPES[name]
    data = good()
    data[name] = np.zeros(shape, data[name].dtype)
    with pytest.raises(DataError, match=message):
        reads.filter(data)


def broken(name: str, value: Any) -> dict[str, Any]:
    """Good data but for one value, of the second sequence at step 2."""
    data = good()
    array = data[name].astype(object)
    array[(1, 2, *(0,) * (array.ndim - 2)) if array.ndim > 1 else 1] = value
    data[name] = array
    return data


OUTSIDE = {
    "action": ("left", r"input action: 'left' at sequence 1, step 2 is outside its domain"),
    "wind": (4, r"input wind: 4 at sequence 1, step 2 is outside its domain, int 0\.\.3"),
    "start": (-1, r"input start: -1 at sequence 1 is outside its domain, int 0\.\.9"),
    "hit": (7, r"observation hit: 7 at sequence 1, step 2 is outside its domain"),
    "die": (1.5, r"observation die: 1\.5 at sequence 1, step 2 is outside its domain"),
    "mood": ("sad", r"observation mood: 'sad' at sequence 1, step 2 is outside its domain"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_value_outside_its_domain(reads: Model, name: str) -> None:
    value, message = OUTSIDE[name]
    with pytest.raises(DataError, match=message):
        reads.filter(broken(name, value))


@pytest.mark.parametrize("name", ["speed", "y", "die", "wind", "start"])
def test_words_where_numbers_are_expected(reads: Model, name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: expected"):
        reads.filter({**good(), name: np.full(good()[name].shape, "much")})
    with pytest.raises(DataError, match=f"{name}: expected"):
        reads.filter(broken(name, "much"))


def test_names_that_the_program_does_not_read(reads: Model) -> None:
    with pytest.raises(DataError, match=r"reads no data called dice \(it reads: .*die.*\)"):
        reads.filter({**good(), "dice": np.ones((BATCH, STEPS))})


@pytest.mark.parametrize("name", ["start", "action", "speed", "image", "wind"])
def test_an_input_that_is_not_given(reads: Model, name: str) -> None:
    data = good()
    del data[name]
    with pytest.raises(DataError, match=f"the input {name} is not given"):
        reads.filter(data)


def test_data_and_horizon_must_fit(reads: Model) -> None:
    with pytest.raises(DataError, match=r"steps: .* has 4, received 5"):
        reads.filter(good(), steps=STEPS + 1)
    with pytest.raises(DataError, match=r"steps: .* has 4, received 3"):
        reads.filter(good(), steps=STEPS - 2 + 1)


def test_lengths(reads: Model) -> None:
    with pytest.raises(DataError, match=r"length of sequence 1 is 5; .* must lie in 1\.\.4"):
        reads.filter(good(), steps=[4, 5])
    with pytest.raises(DataError, match=r"length of sequence 0 is 0"):
        reads.filter(good(), steps=[0, 4])
    with pytest.raises(DataError, match=r"the batch axes differ: .*length 3"):
        reads.filter(good(), steps=[1, 1, 1])
    with pytest.raises(DataError, match=r"steps: expected whole numbers, received float64"):
        reads.filter(good(), steps=[1.5, 2.0])


def test_sequences_of_different_lengths(reads: Model) -> None:
    with pytest.raises(DataError, match="y: the sequences differ in length; pad them"):
        reads.filter({**good(), "y": [[0.0, 1.0], [0.0]]})


def test_no_step_and_no_sequence(reads: Model) -> None:
    with pytest.raises(DataError, match="there is no step"):
        reads.filter({n: v[:, :0] if v.ndim > 1 else v for n, v in good().items()})
    with pytest.raises(DataError, match="there is no sequence"):
        reads.filter({n: v[:0] for n, v in good().items()})


def test_a_program_without_data_needs_a_horizon() -> None:
    model = nesymm.compile("0.5::a@0. a@t :- a@(t-1). query(a@t).")
    with pytest.raises(DataError, match="the number of steps is not known"):
        model.filter()


def test_past_the_end_of_a_sequence_anything_may_stand(reads: Model) -> None:
    sequences = prepare(reads.step, broken("mood", "sad"), [4, 2])
    assert "mood" in sequences.complete
    with pytest.raises(DataError, match="'sad' at sequence 1, step 2"):
        prepare(reads.step, broken("mood", "sad"), [4, 3])


# ---------------------------------------------------------------- evidence that cannot be

WEATHER = """
    0.3::rain@0.
    0.8::rain@t :- rain@(t-1).
    0.1::rain@t :- not rain@(t-1).
    wet@t :- rain@t.
    0.4::wet@t :- rain@t.
    observe(wet@t). observe(rain@t). query(rain@t). query(rain@T).
"""
METHODS = (ExactForward(), RaoBlackwellised(particles=2000), Bootstrap(particles=2000))
LONG = pytest.param(METHODS[1], marks=pytest.mark.slow)


@pytest.mark.parametrize("method", [METHODS[0], LONG, METHODS[2]], ids=str)
def test_impossible_evidence_names_step_and_sequence(method: Any) -> None:
    """The other sequences of the batch keep their results."""
    model = nesymm.compile(WEATHER)
    wet = np.asarray([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 1, 1]], dtype=object)
    rain = np.full((4, 3), None)
    rain[1, 1], rain[3, 2] = True, False
    with pytest.raises(FilterError) as raised:
        model.filter({"wet": wet, "rain": rain}, method=method)
    assert [(f.sequence, f.step) for f in raised.value.failures] == [(1, 1), (3, 2)]
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("sequence 1, step 1: ")
    assert lines[1].startswith("sequence 3, step 2: ")
    says = "the evidence is impossible" if method == METHODS[0] else "no particle explains"
    assert all(says in line for line in lines)
    result = raised.value.result
    known = 0.3 * 0.2 * 0.1  # rain, none, rain
    exact = method == METHODS[0]
    assert np.exp(result.log_evidence[0]) == pytest.approx(known, abs=1e-6 if exact else 0.003)
    assert np.isfinite(result.log_evidence[[0, 2]]).all()
    assert not np.isfinite(result.log_evidence[[1, 3]]).any()
    assert result.filtered["rain@t"][0] == pytest.approx([1, 0, 1], abs=1e-6)
    assert result.final["rain@T"][[0, 2]] == pytest.approx([1, 1], abs=1e-6)
    # A sequence that fails has answers up to there and none after.
    assert result.filtered["rain@t"][3] == pytest.approx([0, 1, np.nan], nan_ok=True, abs=1e-6)
    assert np.isnan(result.final["rain@T"][[1, 3]]).all()


def test_all_particles_die() -> None:
    """Evidence that is possible but too rare for these particles."""
    model = nesymm.compile("""
        x@0 ~ normal(0, 1).
        x@t ~ normal(x@(t-1), 1).
        far@t :- x@t > 9.
        observe(far@t). query(far@t).
    """)
    data = {"far": np.asarray([[False, False, False], [False, False, True]])}
    with pytest.raises(FilterError) as raised:
        model.filter(data, method=RaoBlackwellised(particles=50))
    (failure,) = raised.value.failures
    assert (failure.sequence, failure.step) == (1, 2)
    assert "no particle explains the evidence" in failure.message
    assert "too rare for this many particles" in failure.message
    assert raised.value.result.log_evidence[0] == pytest.approx(0, abs=1e-4)
    kept = model.filter(data, method=RaoBlackwellised(particles=50), errors="keep")
    assert [(f.sequence, f.step) for f in kept.failures] == [(1, 2)]
    assert kept.log_evidence[1] == -np.inf


def test_a_rule_that_breaks_names_step_and_sequence() -> None:
    model = nesymm.compile("""
        :- input(jump(X)@t, 0..9).
        :- domain(level/1, 1, 0..5).
        level(0)@0.
        level(L + J)@t :- level(L)@(t-1), jump(J)@t.
        query(level(5)@T).
    """)
    data = {"jump": np.asarray([[0, 2, 3], [0, 5, 1]])}
    with pytest.raises(FilterError, match=r"^sequence 1, step 2: level/1 leaves its domain"):
        model.filter(data, method=ExactForward())


# ---------------------------------------------------------------- networks

SEES = """
    :- input(image@t).
    :- network(see, 2).
    :- network(guess, 2).
    nn(see, [image@t], Y, [dark, light])::view(Y)@t.
    nn(guess, [image@t], Y, [dark, light])::said(Y)@t :- view(dark)@t.
    said(light)@t :- view(light)@t.
    observe(said@t). query(view(light)@t).
"""


@pytest.mark.parametrize("method", [METHODS[0], LONG], ids=str)
def test_a_network_that_gives_nan_is_named(method: Any) -> None:
    def fine(image: Any) -> Any:
        return jnp.stack([image[0], -image[0]])

    def breaks(image: Any) -> Any:
        return jnp.log(fine(image) + 1.0)

    model = nesymm.compile(SEES, networks={"guess": fine, "see": breaks})
    images = np.zeros((2, 3, 1))
    images[1, 2] = 5.0
    data = {"image": images, "said": np.full((2, 3), "light")}
    with pytest.raises(FilterError, match=r"^sequence 1, step 2: the network see gave NaN") as e:
        model.filter(data, method=method)
    assert [(f.sequence, f.step) for f in e.value.failures] == [(1, 2)]
    assert np.isfinite(e.value.result.log_evidence[0])


def test_a_network_that_is_not_given() -> None:
    model = nesymm.compile(SEES)
    data = {"image": np.zeros((1, 2, 1)), "said": np.full((1, 2), "light")}
    with pytest.raises(NesymmError, match="see"):
        model.filter(data, method=ExactForward())
