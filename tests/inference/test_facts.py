"""Facts as data: Python facts, data frames of three kinds, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals
import numpy as np
import pandas
import polars
import pyarrow
import pytest

import nesymm
from nesymm import NesymmError, NesymmWarning

PEOPLE = "[ann, bob, eve]"
PROGRAM = f"""
:- input(person(key), {PEOPLE}).
:- input(friend(key, key), {PEOPLE}, {PEOPLE}).
:- input(age(key, A), {PEOPLE}, 0..99).
:- input(rain@t, bool).
0.3::sad(P)@t :- person(P).
0.4::sad(P)@t :- friend(P, Q), sad(Q)@(t-1).
0.5::sad(P)@t :- age(P, A), A > 30, rain@t.
0.8::cries(P)@t :- sad(P)@t.
observe(cries(P)@t).
query(sad(P)@t).
"""
MODEL = nesymm.compile(PROGRAM)
FACTS: list[dict[str, Any]] = [
    {
        "person": ["ann", "bob"],
        "friend": [("ann", "bob")],
        "age": [("ann", 40)],
        "rain": [True, False],
        "cries": [(0, "ann", True), (1, "bob", False)],
    },
    {"person": ["eve"], "rain": [False, True, True], "cries": [(1, "eve")]},
]
COLUMNS: dict[str, dict[str, list[Any]]] = {
    "person": {"sequence": ["a", "a", "b"], "name": ["ann", "bob", "eve"]},
    "friend": {"sequence": ["a"], "x": ["ann"], "y": ["bob"]},
    "age": {"sequence": ["a"], "p": ["ann"], "age": [40]},
    "rain": {"sequence": list("aabbb"), "time": [0, 1, 0, 1, 2], "rain": [1, 0, 0, 1, 1]},
    "cries": {
        "sequence": list("aab"), "time": [0, 1, 1], "p": ["ann", "bob", "eve"],
        "yes": [True, False, True],
    },
}  # fmt: skip


def arrays() -> dict[str, Any]:
    """The same by hand."""
    friend = np.zeros((2, 3, 3), bool)
    friend[0, 0, 1] = True
    age = np.full((2, 3), np.nan)
    age[0, 0] = 40
    cries = np.full((2, 3, 3), np.nan)
    cries[0, 0, 0], cries[0, 1, 1], cries[1, 1, 2] = 1, 0, 1
    return {
        "person": np.array([[1, 1, 0], [0, 0, 1]], bool),
        "friend": friend, "age": age, "cries": cries,
        "rain": np.array([[1, 0, 0], [0, 1, 1]], bool), "length": np.array([2, 3]),
    }  # fmt: skip


def same(data: Any) -> None:
    expected = MODEL.filter(arrays(), method="exact")
    found = MODEL.filter(data, method="exact")
    assert found.lengths.tolist() == [2, 3]
    np.testing.assert_array_equal(found.log_evidence, expected.log_evidence)
    for name, answers in expected.filtered.items():
        np.testing.assert_array_equal(found.filtered[name], answers)


def test_python_facts() -> None:
    same(FACTS)


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_data_frames(make: Any) -> None:
    same({name: make(columns) for name, columns in COLUMNS.items()})


def test_frames_beside_arrays() -> None:
    keep = arrays()
    del keep["friend"]
    frame = pandas.DataFrame({"sequence": [0], "x": ["ann"], "y": ["bob"]})
    same({**keep, "friend": frame})


def test_what_a_table_does_not_list_up_to_the_end_of_the_arrays_is_missing() -> None:
    """The array has three steps of each sequence, the table ends after the second and the first."""
    model = nesymm.compile(
        ":- input(rain@t, bool). :- input(away(key)@t, [ann, bob]). 0.2::wet@t. 0.5::wet@t :- "
        "rain@t. 0.3::wet@t :- away(_)@t. 0.9::seen@t :- wet@t. 0.1::seen@t :- not wet@t. "
        "observe(seen@t). query(wet@t)."
    )
    rain = np.array([[1, 0, 1], [0, 1, 1]], bool)
    seen = pandas.DataFrame({"sequence": [0, 0, 1], "time": [0, 1, 0], "seen": [1, 0, 1]})
    away = pandas.DataFrame({"sequence": [0], "time": [1], "who": ["bob"]})
    found = model.filter({"rain": rain, "seen": seen, "away": away}, method="exact")
    assert found.lengths.tolist() == [3, 3]
    told = np.array([[1, 0, np.nan], [1, np.nan, np.nan]])
    wet = 1 - 0.8 * np.where(rain, 0.5, 1) * np.where([[0, 1, 0], [0, 0, 0]], 0.7, 1)
    yes, no = np.where(told, 0.9, 0.1), np.where(told, 0.1, 0.9)
    right = np.where(np.isnan(told), wet, wet * yes / (wet * yes + (1 - wet) * no))
    np.testing.assert_allclose(found.filtered["wet@t"], right, atol=1e-6)
    # Arrays have an entry for each step: a table that goes on is none of their sequences.
    with pytest.raises(nesymm.DataError, match="the time axes differ: rain 2, seen 3"):
        late = seen.assign(time=[0, 2, 0])
        model.filter({"rain": rain[:, :2], "seen": late, "away": away})
    # The lengths are those that are given.
    found = model.filter({"rain": rain, "seen": seen, "away": away, "length": [2, 3]})
    assert found.lengths.tolist() == [2, 3]


def test_one_table_of_all() -> None:
    model = nesymm.compile(
        ":- input(rain@t, bool). :- input(cold(T), real). 0.3::wet@t :- not rain@t. "
        "wet@t :- rain@t. x(X)@t ~ normal(T, 1) :- cold(T), wet@t. observe(x@t)."
    )
    frame = pandas.DataFrame({
        "sequence": [7, 7, 9], "time": [0, 1, 0], "rain": [1, 0, 1],
        "cold": [0.5, 0.5, 2.0], "x": [0.1, np.nan, 0.3],
    })  # fmt: skip
    found = model.filter(frame, method="exact")
    right = model.filter(
        {"rain": [[1, 0], [1, 0]], "cold": [0.5, 2.0], "x": [[0.1, np.nan], [0.3, np.nan]]},
        steps=[2, 1],
        method="exact",
    )
    np.testing.assert_array_equal(found.log_evidence, right.log_evidence)


def test_training_takes_facts() -> None:
    model = nesymm.compile(PROGRAM.replace("0.3::sad", "t(0.3)::sad"))
    runs = [
        model.fit(d, epochs=2, method="exact", progress=False).model.parameters
        for d in (FACTS, arrays())
    ]
    assert runs[0] == runs[1] != model.parameters


def test_worlds_without_time() -> None:
    model = nesymm.compile("""
        :- input(edge(key, key), [a, b, c], [a, b, c]).
        path(X, Y) :- edge(X, Y), open(X, Y).
        path(X, Y) :- edge(X, Z), open(X, Z), path(Z, Y).
        0.5::open(X, Y) :- edge(X, Y).
        query(path(a, c)).
    """)
    for edges in ([("a", "b"), ("b", "c")], {("b", "c"), ("a", "b")}):
        assert model.infer({"edge": edges}).probability("path(a,c)") == pytest.approx(0.25)
    frame = polars.DataFrame({"from": ["a", "a", "b"], "to": ["b", "c", "c"]})
    found = model.infer({"edge": frame}).probability("path(a,c)")
    assert found == pytest.approx(1 - 0.5 * 0.75)


def test_entities_that_have_arrays_of_their_own() -> None:
    """Of facts in the program, each is observed apart."""
    model = nesymm.compile(
        "e(ann). e(bob). 0.5::a(E)@t :- e(E). observe(a(E)@t) :- e(E). x@t :- a(_)@t. query(x@t)."
    )
    found = model.filter([{"a": [(0, "ann", False), (0, "bob", False), (1, "bob", True)]}])
    assert found.filtered["x@t"].tolist() == [[0, 1]]
    with pytest.raises(nesymm.DataError, match=r"a, row 0: no such entity .*a\(ann\), a\(bob\)"):
        model.filter([{"a": [(0, "joe", False)]}])


MISTAKES: dict[str, tuple[Any, str]] = {
    "a key out of range": (
        {"friend": {"sequence": ["a"], "x": ["ann"], "y": ["joe"]}},
        r"friend, row 0, column y: the key 'joe' of friend is not in its domain, one of \{ann, ",
    ),
    "a column too few": (
        {"friend": {"sequence": ["a"], "x": ["ann"]}},
        "friend: expected the columns key 1, key 2, bool besides .* received 1: x",
    ),
    "two values": (
        {"age": {"sequence": ["a", "a"], "x": ["ann", "ann"], "y": [3, 4]}},
        r"age, row 1: age\(ann\) has two values, 3 \(age, row 0\) and 4",
    ),
    "no time": (
        {"rain": {"sequence": ["a", "a"], "rain": [1, 1]}},
        r"rain: the column `time` is needed, since rain has a time \(there are: sequence, rain\)",
    ),
    "half a step": (
        {"rain": {"sequence": ["a", "a"], "time": [0, 1.5], "rain": [1, 1]}},
        "rain, row 1: expected a step from 0 in the column `time`, received 1.5",
    ),
    "a value out of range": (
        {"age": {"sequence": ["a"], "x": ["ann"], "y": [400]}},
        r"age, row 0, column y: expected int 0\.\.99 as the value of age, received 400",
    ),
    "a time in seconds": (
        {"rain": {"sequence": ["a", "a"], "time": [0, 1_700_000_000], "rain": [1, 1]}},
        "rain, row 1: 1,700,000,001 steps of 2 sequences do not fit into memory\n.*0, 1, 2",
    ),
    "no sequences": (
        {"friend": {"x": ["ann"], "y": ["bob"]}},
        "friend: the column `sequence` is needed, since there are 2 sequences",
    ),
    "half a year": (
        {"age": {"sequence": ["a"], "x": ["ann"], "y": [1.5]}},
        "age, row 0, column y: expected int 0..99 as the value of age, received 1.5",
    ),
    "a text": (
        {"age": {"sequence": ["a"], "x": ["ann"], "y": ["old"]}},
        "age, row 0, column y: expected int 0..99 as the value of age, received 'old'",
    ),
    "a truth that is none": (
        {"friend": {"sequence": ["a"], "x": ["ann"], "y": ["bob"], "z": [5]}},
        r"friend, row 0, column z: expected bool \(true or false\) .* received 5",
    ),
    "a time that is not used": (
        {"person": {"sequence": ["a"], "time": [0], "x": ["ann"]}},
        "person: person has no time, and the table has a column `time`",
    ),
    "no name of a sequence": (
        {"person": {"sequence": ["a", None], "x": ["ann", "bob"]}},
        "person, row 1: expected the name of a sequence in the column `sequence`, received",
    ),
    "endless": (
        {"rain": {"sequence": ["a"], "time": [10**12], "rain": [1]}},
        "rain, row 0: 1,000,000,000,001 steps of 2 sequences do not fit into memory",
    ),
    "an empty table of other columns": (
        {"friend": {"sequence": [], "x": []}},
        "friend: expected the columns key 1, key 2, bool besides",
    ),
    "an unknown name": ({"foo": {"x": [1]}}, "the program reads no data called foo"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_frames(mistake: str) -> None:
    columns, message = MISTAKES[mistake]
    frames = {n: pandas.DataFrame(c) for n, c in {**COLUMNS, **columns}.items()}
    with pytest.raises(nesymm.DataError, match=message):
        MODEL.filter(frames)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            [{"friend": [("ann",), ("ann", "bob")]}],
            "of sequence 0 differ in their number",
        ),
        ([{"person": ["zoe"]}], "the key 'zoe' of person is not in its domain"),
        ([{"person": [True]}], "the key True of person is not in its domain"),
        ([{"rain": [[1], [0]]}, {"rain": [1]}], "input rain: the sequences differ in shape"),
        ([{"friend": [("ann", ["bob"])]}], r"the key \['bob'\] of friend is not in its domain"),
        (
            [{"friend": [("ann", "bob", "yes")]}],
            r"expected bool \(true or false\).* received 'yes'",
        ),
        (
            [{}, {"age": [("ann", 3), ("bob", 3), ("bob", "x")]}],
            "age of sequence 1, row 2: expected",
        ),
        ([{"age": [("ann", True)]}], "received True"),
        ([{"person": [1, 1, 0]}], r"person: \[1, 1, 0\] may be keys, or truths"),
        ([{"person": "ann"}], "person: expected a list of facts, tuples of keys and values"),
        ([{"rain": True}], "rain of sequence 0: expected an entry for each step, received True"),
        ([{"rain": []}], "rain of sequence 0: there is no step in it"),
        ([{"rain": [1, 1], "cries": [(5, "ann")]}], "has 2 steps, and the facts of cries 6"),
        ({"person": ["ann"], "rain": [True]}, r"(.|\n)*in a list with a dictionary for each"),
        ([], "or a list with a dictionary of facts for each sequence"),
        ([3], "or a list with a dictionary of facts for each sequence"),
        (
            [{"person": [("ann", "bob")]}],
            r"row 0: expected bool \(true or false\) as the value of person, received 'bob'",
        ),
        ([{"rain": 3}], "rain of sequence 0: expected an entry for each step, received 3"),
        ([{"rain": {}}], r"rain of sequence 0: expected an entry for each step, received \{\}"),
        (
            [{"friend": {"ann": "bob"}}],
            "friend: expected a list of facts, tuples of keys and values",
        ),
        (
            {"person": ["ann", "bob"]},
            r"person: .* received facts\n.*a list with a dictionary for each sequence",
        ),
        ({"friend": [("ann", "bob")]}, "friend: expected an array or a table, received facts"),
    ],
)
def test_mistakes_in_facts(facts: Any, message: str) -> None:
    with pytest.raises(nesymm.DataError, match=message):
        MODEL.filter(facts, steps=2)


def test_truths_that_are_missing_beside_shorter_sequences() -> None:
    model = nesymm.compile("0.5::a@t. observe(a@t). query(a@t).")
    found = model.filter([{"a": [1, None, 0]}, {"a": [1]}])
    np.testing.assert_array_equal(found.filtered["a@t"], [[1, 0.5, 0], [1, np.nan, np.nan]])


def test_frames_are_read_through_narwhals() -> None:
    same({name: narwhals.from_native(pandas.DataFrame(c)) for name, c in COLUMNS.items()})


def test_a_truth_that_is_missing_is_no_fact() -> None:
    """NaN is no entry, in a relation too."""
    frames = {n: pandas.DataFrame(c) for n, c in COLUMNS.items()}
    frames["friend"] = pandas.DataFrame(
        {"sequence": ["a", "a"], "x": ["ann", "bob"], "y": ["bob", "ann"], "there": [1.0, np.nan]}
    )
    same(frames)


def test_no_facts_at_all() -> None:
    found = MODEL.filter([{**FACTS[0], "friend": [], "age": None}], method="exact")
    none = MODEL.filter([{**FACTS[0], "friend": [], "age": []}], method="exact")
    assert found.log_evidence == none.log_evidence


def test_values_of_each_step_as_facts() -> None:
    rain = [(0, True), (1, False)], [(0, False), (1, True), (2, True)]
    same([{**facts, "rain": own} for facts, own in zip(FACTS, rain, strict=True)])


def test_a_value_that_is_missing_in_several_rows_of_a_wide_table() -> None:
    model = nesymm.compile(
        ":- input(cold(T), real). c@t :- cold(_). n@t. observe(n@t). query(c@t)."
    )
    nan = float("nan")
    frame = pandas.DataFrame({"time": [0, 1], "cold": [nan, float("nan")], "n": [1, 1]})
    assert model.filter(frame).filtered["c@t"].tolist() == [[0, 0]]


def test_results_have_the_names_of_sequences() -> None:
    frames = {n: pandas.DataFrame(c) for n, c in COLUMNS.items()}
    found = MODEL.filter(frames, method="exact")
    assert found.names == ("a", "b")
    expected = MODEL.filter(arrays(), method="exact")
    for frame, plain in (
        (found.to_dataframe(), expected.to_dataframe()),
        (MODEL.smooth(frames).to_dataframe(), MODEL.smooth(arrays()).to_dataframe()),
    ):
        assert frame.sequence.tolist() == ["ab"[i] for i in plain.sequence]
    ill = found.to_xarray()["sad"].sel(sequence="b", time=2)
    np.testing.assert_array_equal(ill.sel({"sad 1": "eve"}), expected.filtered["sad(eve)@t"][1, 2])
    drawn = MODEL.trajectories(frames, 3, method="exact")
    assert set(drawn.to_dataframe().sequence) == {"a", "b"}
    assert drawn.to_xarray().sequence.values.tolist() == ["a", "b"]
    made = MODEL.generate(frames, 1, method="exact")
    assert set(made.to_dataframe().sequence) == {"a", "b"}


def test_failures_have_the_names_of_sequences() -> None:
    model = nesymm.compile(":- input(rain@t, bool). wet@t :- rain@t. observe(wet@t).")
    frame = pandas.DataFrame(
        {"sequence": ["x", "y"], "time": [0, 0], "rain": [1, 0], "wet": [1, 1]}
    )
    with pytest.raises(nesymm.FilterError, match="sequence y, step 0: the evidence is impossible"):
        model.filter(frame)


def test_sequences_that_arrays_do_not_have() -> None:
    frame = pandas.DataFrame({"sequence": [0, 2], "x": ["ann", "ann"], "y": ["bob", "bob"]})
    keep = arrays()
    with pytest.raises(nesymm.DataError, match=r"friend, row 1: the sequence 2 is none of those"):
        MODEL.filter({**keep, "friend": frame})


def test_labels_are_data_too() -> None:
    """One for each sequence, in any form: the same as an array."""
    model = nesymm.compile("t(0.3)::wet@t. 0.9::seen@t :- wet@t. observe(seen@t). query(wet@T).")
    loss = nesymm.QueryLoss("wet@T", "was")
    rows = {"sequence": ["x", "x", "y"], "time": [0, 1, 0], "seen": [1, 0, 1], "was": [1, 1, 0]}
    seen = np.array([[1, 0], [1, np.nan]])
    forms: list[Any] = [
        {"seen": seen, "was": np.array([1.0, 0.0]), "length": np.array([2, 1])},
        [{"seen": [True, False], "was": True}, {"seen": [True], "was": False}],
        pandas.DataFrame(rows),
    ]
    runs = [
        model.fit(d, objective=loss, epochs=2, method="exact", progress=False).model.parameters
        for d in forms
    ]
    assert runs[0] == runs[1] == runs[2] != model.parameters


TRUTHS = """
    a(X)@t ~ categorical([0.3, 0.7], [true, false]).
    o(X)@t ~ categorical([0.9, 0.1], [true, false]) :- a(true)@t.
    o(X)@t ~ categorical([0.2, 0.8], [true, false]) :- a(false)@t.
    observe(o@t). query(a(true)@t).
"""
POSITIVE, NEGATIVE = 0.27 / (0.27 + 0.14), 0.03 / (0.03 + 0.56)  # by Bayes' rule


@pytest.mark.parametrize(
    "data",
    [
        [{"o": [True, False]}],
        [{"o": np.array([True, False])}],
        [{"o": [(0, True), (1, False)]}],
        {"o": [[True, False]]},
        {"o": np.array([[True, False]])},
        {"o": [["true", "false"]]},
        '[{"o": [true, false]}]',
        '{"o": [[true, false]]}',
    ],
    ids=str,
)
def test_truths_may_be_names(data: Any, tmp_path: Path) -> None:
    if isinstance(data, str):
        (tmp_path / "data.json").write_text(data)
        data = tmp_path / "data.json"
    filtered = nesymm.compile(TRUTHS).filter(data).filtered["a(true)@t"]
    np.testing.assert_allclose(filtered, [[POSITIVE, NEGATIVE]], atol=1e-5)


@pytest.mark.parametrize(
    "data", [[{"o": [True, None]}], {"o": [[True, None]]}, '{"o": [[true, null]]}'], ids=str
)
def test_truths_may_be_names_beside_what_is_missing(data: Any, tmp_path: Path) -> None:
    if isinstance(data, str):
        (tmp_path / "data.json").write_text(data)
        data = tmp_path / "data.json"
    filtered = nesymm.compile(TRUTHS).filter(data).filtered["a(true)@t"]
    np.testing.assert_allclose(filtered, [[POSITIVE, 0.3]], atol=1e-5)


def test_truths_are_no_positions_of_other_names() -> None:
    model = nesymm.compile(":- input(act(A)@t, [up, down]). q@t :- act(up)@t. query(q@t).")
    with pytest.raises(NesymmError, match="True at sequence 0, step 0 is outside its domain"):
        model.filter([{"act": [True, True]}])
    static = nesymm.compile(":- input(s(X), [false, true]). q@t :- s(true). query(q@t).")
    assert static.filter([{"s": True}], steps=1).filtered["q@t"].tolist() == [[1]]


def test_names_of_digits_are_found_in_tables() -> None:
    model = nesymm.compile(":- input(code(X)@t, ['2', '1']). q@t :- code('1')@t. query(q@t).")
    codes = pandas.DataFrame({"time": [0, 1], "code": [2, 1]})
    assert model.filter({"code": codes}).filtered["q@t"].tolist() == [[0, 1]]
    with pytest.raises(NesymmError, match=r"expected \{'2', '1'\} as the value"):
        model.filter({"code": codes.assign(code=[2, 3])})


def test_texts_are_no_numbers() -> None:
    model = nesymm.compile(":- input(n(X)@t, 0..3). q@t :- n(1)@t. query(q@t).")
    with pytest.raises(NesymmError, match=r"input n: expected int 0..3, received texts"):
        model.filter([{"n": ["1", "2"]}])


RISKS = """
    :- input(risk(S)).
    0.5::ill@0.
    ill@t :- ill@(t-1).
    P::test@t :- ill@t, risk(P).
    observe(test@t). query(ill@t).
"""
TESTS = pandas.DataFrame({"sequence": [0, 0, 1], "time": [0, 1, 0], "test": [False] * 3})


def test_sequences_are_the_same_as_numbers_and_as_texts() -> None:
    risk = pandas.DataFrame({"sequence": ["0", "1"], "risk": [0.9, 0.2]})
    filtered = nesymm.compile(RISKS).filter({"risk": risk, "test": TESTS}).filtered["ill@t"]
    np.testing.assert_allclose(filtered[:, 0], [0.05 / 0.55, 0.4 / 0.9], atol=1e-5)


def test_sequences_that_some_tables_do_not_have_are_pointed_out() -> None:
    risk = pandas.DataFrame({"sequence": [0, "one"], "risk": [0.9, 0.2]})
    with pytest.warns(NesymmWarning) as caught:
        nesymm.compile(RISKS).filter({"risk": risk, "test": TESTS})
    text = "\n".join(str(w.message) for w in caught)
    assert "test: no row for the sequence 'one'" in text
    assert "risk: no row for the sequence 1" in text
