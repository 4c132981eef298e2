"""Inputs that are missing are absent, whoever reads them; observations without time count once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import infer

import nesymm
from nesymm.inference.columns import DataError

METHODS = ["exact", "rao-blackwellised", "bootstrap"]

# An input of a whole sequence: its declaration, whether it is the first value, what is missing.
STATIC = {
    "names": (":- input(k(X), [p, q]).", "k(p)", ["p", "q", None]),
    "positions": (":- input(k(X), [p, q]).", "k(p)", [0, 1, None]),
    "names, NaN": (":- input(k(X), [p, q]).", "k(p)", ["p", "q", float("nan")]),
    "range": (":- input(k(X), 1..3).", "k(1)", [1.0, 3.0, np.nan]),
    "range, None": (":- input(k(X), 1..3).", "k(1)", [1, 3, None]),
    "real": (":- input(k(X)).", "k(X), X < 1", [0.5, 2.0, np.nan]),
    "truth": (":- input(k, bool).", "k", [1.0, 0.0, np.nan]),
    "two": (":- input(k(X, Y), 0..1, real).", "k(0, _)", [[0, 0.5], [1, 2], [np.nan, np.nan]]),
}


def absent(declared: str) -> str:
    if "bool" in declared:
        return "not k"
    return "not k(_, _)" if "Y" in declared else "not k(_)"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", STATIC)
def test_a_missing_input_of_a_sequence_is_absent(kind: str, method: str) -> None:
    declared, first, values = STATIC[kind]
    model = nesymm.compile(
        f"{declared} a@t :- {first}. c@t :- {absent(declared)}. query(a@t). query(c@t)."
    )
    result = model.filter({"k": values}, steps=2, method=method)
    gone = [0, 1, 1] if "bool" in declared else [0, 0, 1]
    assert result.filtered["a@t"].tolist() == [[1, 1], [0, 0], [0, 0]]
    assert result.filtered["c@t"].tolist() == [[g, g] for g in gone]
    smoothed = model.smooth({"k": values}, steps=2, method=method)
    assert smoothed["a@t"] == pytest.approx(result.filtered["a@t"], abs=1e-5)
    drawn = model.generate({"k": values}, 2, steps=2, method=method)
    assert drawn["a@t"][:, :, 0].tolist() == [[True] * 2, [False] * 2, [False] * 2]


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
@pytest.mark.parametrize("kind", STATIC)
def test_a_missing_input_without_time_is_absent(kind: str, method: str) -> None:
    declared, first, values = STATIC[kind]
    model = nesymm.compile(f"{declared} a :- {first}. c :- {absent(declared)}. query(a). query(c).")
    gone = [0, 1, 1] if "bool" in declared else [0, 0, 1]
    for value, a, c in zip(values, [1, 0, 0], gone, strict=True):
        assert model.infer({"k": value}, method=method).queries == {"a": a, "c": c}
    assert model.infer({"k": None}, method=method).probability("a") == 0


def test_an_observation_without_time_that_is_missing_says_nothing() -> None:
    model = nesymm.compile("0.3::a. 0.9::b :- a. 0.2::b :- not a. observe(b). query(a).")
    assert model.infer({"b": True}).probability("a") == pytest.approx(0.27 / 0.41)
    for nothing in (None, np.nan, np.ma.masked_array(True, True)):
        assert model.infer({"b": nothing}).probability("a") == pytest.approx(0.3)


def test_observed_names_of_two_clauses_are_told_apart() -> None:
    """The clauses know different names; each name means the same for both."""
    model = nesymm.compile("""
        0.5::m.
        k(K) ~ categorical([0.5, 0.5], [a, b]) :- m.
        k(K) ~ categorical([0.9, 0.1], [b, c]) :- not m.
        observe(k). query(m).
    """)
    for name, expected in {"a": 1.0, "b": 0.25 / 0.7, "c": 0.0}.items():
        assert model.infer({"k": name}).probability("m") == pytest.approx(expected)
    with pytest.raises(DataError, match=r"observation k: 'd' is outside its domain, \{a, b, c\}"):
        model.infer({"k": "d"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"k": "z"}, r"input k: 'z' is outside its domain, \{p, q\}"),
        ({"k": ["p", "q"]}, r"input k: expected shape \(\), received \(2,\)"),
        ({}, r"the input k is not given \(given: none\)"),
        ({"k": "p", "x": 1}, r"reads no data called x \(it reads: k, b\)"),
        ({"k": "p", "b": 2}, r"observation b: 2 is outside its domain"),
        ([1], r"data: expected a dictionary of arrays by name, received list"),
    ],
)
def test_mistakes_in_data_without_time(data: Any, message: str) -> None:
    model = nesymm.compile(":- input(k(X), [p, q]). 0.5::b :- k(p). observe(b). query(b).")
    with pytest.raises(DataError, match=message):
        model.infer(data)


# ---------------------------------------------------------------- streams

WALK = """
    :- input(go(D)@t, [left, right]).
    :- input(start(S), 0..3).
    0.8::works@t.
    x(X)@0 :- start(X).
    x(0)@0 :- not start(_).
    x(Y)@t :- x(X)@(t-1), go(right)@t, works@t, Y is min(3, X + 1).
    x(X)@t :- x(X)@(t-1), go(right)@t, not works@t.
    x(X)@t :- x(X)@(t-1), not go(right)@t.
    none@t :- not go(_)@t.
    0.9::seen@t :- x(X)@t, X > 1.
    0.2::seen@t :- x(X)@t, X =< 1.
    observe(seen@t).
    query(x(X)@t). query(none@t).
"""
GO = [["right", None, "right"], [None, "left", "right"]]
SEEN = [[1, None, 0], [1, 0, None]]


@pytest.mark.parametrize("start", [[1, None], [None, 2]])
def test_a_stream_reads_missing_inputs_as_filtering_does(start: list[int | None]) -> None:
    model = nesymm.compile(WALK)
    given = {"go": GO, "seen": SEEN, "start": start}
    whole = model.filter(given, method="exact")
    stream = model.stream(method="exact", batch=2, data={"start": start})
    for t in range(3):
        now = {n: np.array([row[t] for row in given[n]], object) for n in ("go", "seen")}
        update = stream.update(now)
        assert update.log_gain == pytest.approx(whole.log_gains[:, t], abs=1e-5)
        for name, probability in update.probabilities.items():
            assert probability == pytest.approx(whole.filtered[name][:, t], abs=1e-5)
    for b in range(2):
        # The oracle shares no code with the filters.
        said = infer(model.step, 2, {"seen": SEEN[b]}, {"go": GO[b], "start": start[b]}).filtered
        for name, row in said.items():
            assert whole.filtered[name][b] == pytest.approx(row, abs=1e-5)


def test_what_is_left_out_of_an_update_is_missing() -> None:
    model = nesymm.compile(WALK)
    said, silent = (model.stream(method="exact", data={"start": [1]}) for _ in range(2))
    for _ in range(3):
        a = said.update({"go": np.array([None]), "seen": np.array([np.nan])})
        b = silent.update()
        assert a.probabilities == b.probabilities
        assert b.probabilities["none@t"] == pytest.approx([1])


def test_mistakes_in_streams() -> None:
    model = nesymm.compile(WALK)
    with pytest.raises(DataError, match="go has time: give it to `update`"):
        model.stream(data={"start": [1], "go": ["left"]})
    with pytest.raises(nesymm.NesymmError, match="batch: expected at least 1 sequence, received 0"):
        model.stream(batch=0, data={"start": []})
    stream = model.stream(batch=2, data={"start": [1, 2]})
    with pytest.raises(DataError, match=r"input go: expected .*shape \(2,\), received \(3,\)"):
        stream.update({"go": np.array(["left"] * 3)})
    with pytest.raises(DataError, match="reads no start at each step"):
        stream.update({"start": np.array([1, 2])})
    tensors = nesymm.compile(
        ":- input(i@t). :- network(n, 1). 0.5::a@t. b@t ~ bernoulli(n(i@t)). query(b@t).",
        networks={"n": lambda x: x[0]},
    )
    stream = tensors.stream(shapes={"i": (2,)})
    with pytest.raises(DataError, match="the tensor i is not given at step 0"):
        stream.update()
    with pytest.raises(DataError, match=r"input i: expected shape \(1, 2\), received \(1, 3\)"):
        stream.update({"i": np.zeros((1, 3))})
    with pytest.raises(DataError, match="the tensor at sequence 0 is missing, and a network"):
        stream.update({"i": np.full((1, 2), np.nan)})


# ---------------------------------------------------------------- observations without time

KIND = """
    kind(K) ~ categorical([0.3, 0.7], [a, b]).
    0.9::hot@t :- kind(a).
    0.2::hot@t :- kind(b).
    observe(kind). observe(hot@t).
    query(kind(K)). query(hot@t).
"""
HOT = np.array([[1, 0], [1, 1], [1, 0]])


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_an_observation_without_time_has_one_value_per_sequence(method: str) -> None:
    model = nesymm.compile(KIND)
    kinds = np.array(["a", "b", None], object)
    result = model.filter({"kind": kinds, "hot": HOT}, method=method)
    expected = np.log([0.3 * 0.09, 0.7 * 0.04, 0.3 * 0.09 + 0.7 * 0.16])
    assert result.log_evidence == pytest.approx(expected, abs=1e-5)
    assert result.final["kind(a)"] == pytest.approx([1, 0, 0.027 / 0.139], abs=1e-5)
    with pytest.raises(DataError, match=r"kind: expected .* shape \(3,\), received \(3, 2\)"):
        model.filter({"kind": np.array([["a", "b"]] * 3), "hot": HOT}, method=method)
    stream = model.stream(method=method, batch=3, data={"kind": kinds})
    gains = sum(stream.update({"hot": HOT[:, t]}).log_gain for t in range(2))
    assert gains == pytest.approx(expected, abs=1e-5)


BROKEN = """
    :- const(n, 3).
    e(E) :- between(1, n, E).
    0.3::bad(E) :- e(E).
    0.9::alarm(E)@t :- bad(E).
    0.1::alarm(E)@t :- e(E), not bad(E).
    t(0.4)::other@t.
    some@t :- alarm(E)@t.
    observe(bad(E)). observe(alarm(E)@t). observe(other@t).
    query(bad(E)). query(some@t).
"""


def test_an_observation_without_time_along_an_axis() -> None:
    model = nesymm.compile(BROKEN)
    bad = np.array([[1, 0, np.nan], [np.nan] * 3])
    data = {"bad": bad, "alarm": np.ones((2, 2, 3))}
    result = model.filter(data, method="exact")
    one = 0.3 * 0.81 + 0.7 * 0.01
    expected = np.log([0.3 * 0.81 * 0.7 * 0.01 * one, one**3])
    assert result.log_evidence == pytest.approx(expected, abs=1e-5)
    assert result.final["bad(3)"] == pytest.approx([0.3 * 0.81 / one] * 2, abs=1e-5)
    drawn = model.generate({"bad": bad[:1]}, 4, steps=2)
    assert drawn["bad"].shape == (1, 4, 3)
    assert (drawn["bad"][0, :, :2] == [True, False]).all()
    again = model.filter(drawn.data(), method="exact")
    assert np.isfinite(again.log_evidence).all()
    assert model.fit({**data, "other": np.ones((2, 2))}, epochs=1, progress=False).history


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_observations_of_no_entity_at_all(method: str) -> None:
    model = nesymm.compile(BROKEN, constants={"n": 0})
    data = {"bad": np.ones((2, 0)), "alarm": np.ones((2, 3, 0)), "other": np.ones((2, 3))}
    for given in (data, {"other": data["other"]}):
        result = model.filter(given, method=method)
        assert result.log_evidence == pytest.approx([3 * np.log(0.4)] * 2, abs=0.2)
        assert not result.filtered["some@t"].any()
    with pytest.raises(DataError, match=r"alarm: expected .*\(2, 3, 0\), received \(2, 3, 1\)"):
        model.filter({**data, "alarm": np.ones((2, 3, 1))}, method=method)


# ---------------------------------------------------------------- parts of a value

PARTS = """
    :- input(wind(X, Y)@t, 0..3, 0..3).
    :- input(image@t).
    :- network(net, 1).
    calm@t :- wind(0, 0)@t.
    dark@t ~ bernoulli(net(image@t)).
    query(calm@t). query(dark@t).
"""


def test_half_a_value_is_a_mistake() -> None:
    model = nesymm.compile(PARTS, networks={"net": lambda x: x.sum()})
    data = {"wind": np.zeros((2, 2, 2)), "image": np.zeros((2, 2, 3))}
    half = data["wind"].copy()
    half[1, 0, 1] = np.nan
    with pytest.raises(
        DataError, match="input wind: some of the 2 values at sequence 1, step 0 are missing"
    ):
        model.filter({**data, "wind": half})
    half = data["image"].copy()
    half[0, 1, 2] = np.nan
    with pytest.raises(
        DataError, match="input image: some of the entries at sequence 0, step 1 are missing"
    ):
        model.filter({**data, "image": half})
    with pytest.raises(DataError, match="the tensor at sequence 0, step 1 is missing, and a netw"):
        half[0, 1] = np.nan
        model.filter({**data, "image": half})
    # What lies past the end of a sequence is not looked at.
    assert model.filter({**data, "image": half}, steps=[1, 2]).log_evidence.tolist() == [0, 0]


def test_arrays_of_one_name() -> None:
    model = nesymm.compile("0.5::p. 0.5::p(X)@t :- between(1, 2, X). observe(p). observe(p(X)@t).")
    with pytest.raises(DataError, match="two different arrays would be called p"):
        model.filter({"p": np.ones(2)}, steps=2)
