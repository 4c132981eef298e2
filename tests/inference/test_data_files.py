"""Data in files: the same as in Python; and files that are none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import nesymm
from nesymm.cli.main import app

PROGRAM = """
:- input(edge(key, key), [ann, bob], [ann, bob]).
:- input(rain@t, bool).
:- input(base(B), real).
0.3::ill(P)@0 :- member(P, [ann, bob]).
ill(P)@t :- ill(P)@(t-1), not rain@t.
0.5::ill(P)@t :- edge(P, Q), ill(Q)@(t-1), base(B), B > 0.
0.9::test(P)@t :- ill(P)@t.
observe(test(P)@t).
query(ill(P)@t).
"""
MODEL = nesymm.compile(PROGRAM)
ARRAYS: dict[str, Any] = {
    "edge": np.array([[[0, 1], [0, 0]], [[0, 0], [1, 0]]], bool),
    "rain": np.array([[0, 1], [0, 0]], bool),
    "base": np.array([1.0, -1.0]),
    "test": np.array([[[1, np.nan], [np.nan, np.nan]], [[np.nan, 0], [np.nan, 1]]]),
}
FACTS = [
    {"edge": [["ann", "bob"]], "rain": [False, True], "base": 1.0, "test": [[0, "ann", True]]},
    {"edge": [["bob", "ann"]], "rain": [False, False], "base": -1.0,
     "test": [[0, "bob", False], [1, "bob", True]]},
]  # fmt: skip


def tables(folder: Path, write: Any) -> None:
    write(folder, "edge", {"sequence": [0, 1], "from": ["ann", "bob"], "to": ["bob", "ann"]})
    rain = {"sequence": [0, 0, 1, 1], "time": [0, 1, 0, 1], "rain": [False, True, False, False]}
    write(folder, "rain", rain)
    write(folder, "base", {"sequence": [0, 1], "base": [1.0, -1.0]})
    test = {"sequence": [0, 1, 1], "time": [0, 0, 1], "who": ["ann", "bob", "bob"]}
    write(folder, "test", {**test, "positive": [True, False, True]})


def as_csv(folder: Path, name: str, columns: dict[str, Any]) -> None:
    pandas.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)


def as_parquet(folder: Path, name: str, columns: dict[str, Any]) -> None:
    pandas.DataFrame(columns).to_parquet(folder / f"{name}.parquet")


def same(path: Path) -> None:
    expected = MODEL.filter(ARRAYS, method="exact")
    found = MODEL.filter(path, method="exact")
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-12)
    for name, answers in expected.filtered.items():
        np.testing.assert_allclose(found.filtered[name], answers, atol=1e-12)
    (path.parent / "p.nsl").write_text(PROGRAM, encoding="utf-8")
    shown = CliRunner().invoke(
        app, ["filter", str(path.parent / "p.nsl"), "--data", str(path), "--json"]
    )
    assert shown.exit_code == 0, shown.output


def test_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **ARRAYS)
    same(tmp_path / "d.npz")


def test_json_of_arrays(tmp_path: Path) -> None:
    plain = {n: np.where(np.isnan(a), None, a).tolist() for n, a in ARRAYS.items()}
    (tmp_path / "d.json").write_text(json.dumps(plain), encoding="utf-8")
    same(tmp_path / "d.json")


def test_json_of_facts(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(json.dumps(FACTS), encoding="utf-8")
    same(tmp_path / "d.json")


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_a_folder_of_tables(write: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    tables(tmp_path / "d", write)
    same(tmp_path / "d")


def test_a_folder_of_problog_facts(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a.pl").write_text(
        "edge(ann, bob). rain(false)@0. rain(true)@1. base(1.0). test(ann)@0."
    )
    (folder / "b.pl").write_text(
        "edge(bob, ann). rain(false)@1. base(-1.0). test(bob, false)@0. test(bob, true)@1."
    )
    with pytest.raises(nesymm.DataError, match=r"b\.pl`, line 1: test has other arguments"):
        MODEL.filter(folder)
    text = (folder / "a.pl").read_text().replace("test(ann)@0", "test(ann, true)@0")
    (folder / "a.pl").write_text(text)
    same(folder)


def test_one_wide_table(tmp_path: Path) -> None:
    model = nesymm.compile(":- input(rain@t, bool). 0.2::x@t :- rain@t. observe(x@t).")
    path = tmp_path / "weather.csv"
    path.write_text("sequence,time,rain,x\n0,0,true,false\n0,1,true,\n1,0,true,true\n")
    found = model.filter(path)
    assert found.lengths.tolist() == [2, 1]
    np.testing.assert_allclose(np.exp(found.log_evidence), [0.8, 0.2], rtol=1e-6)


def test_training_on_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rain.csv"
    path.write_text("time,x\n0,true\n1,false\n2,true\n3,true\n")
    model = nesymm.compile("t(0.5)::x@t. observe(x@t).")
    fitted = model.fit(path, epochs=2, progress=False)
    assert fitted.model.parameters["x"] > 0.5


MISTAKES: dict[str, tuple[str, bytes, str]] = {
    "a bad row": (
        "edge.csv", b"from,to\nann,bob\nann\n",
        r"edge\.csv`, line 3: expected 2 columns \(from, to\), received 1",
    ),
    "a key out of range": (
        "edge.csv", b"from,to\nann,bob\nann,joe\n",
        r"edge\.csv`, line 3, column to: the key 'joe' of edge is not in its domain",
    ),
    "a key out of range behind an empty line": (
        "edge.csv", b'from,to\n\nann,bob\n"ann",joe\n',
        r"edge\.csv`, line 4, column to: the key 'joe' of edge is not in its domain",
    ),
    "a value out of range": (
        "base.csv", b"base\nlow\n",
        r"base\.csv`, line 2, column base: expected real as the value of base, received 'low'",
    ),
    "a fact that does not fit": (
        "d.pl", b"base(1.0).\nedge(ann, joe).", r"d\.pl`, line 2: the key 'joe' of edge",
    ),
    "JSON without a list of facts": (
        "d.json", b'[{"edge": 3}]', r"d\.json`: edge: expected a list of facts, tuples of keys",
    ),
    "JSON that is nested too deeply": (
        "d.json", b"[" * 100_000 + b"]" * 100_000, "its lists are nested too deeply",
    ),
    "JSON that says something twice": (
        "d.json", b'[{"edge": [["ann", "bob"]], "edge": []}]', r"d\.json`: edge is given twice",
    ),
    "a number that is too large": (
        "d.json", b'[{"base": 1' + b"0" * 400 + b', "edge": []}]', r"base",
    ),
    "a fact in JSON": (
        "d.json", b'[{"edge": [["ann", "joe"]]}]', r"d\.json`: edge, row 0: the key 'joe' of edge",
    ),
    "a time that is a variable": (
        "d.pl", b"rain(true)@t.", "line 1: expected a fact without variables",
    ),
    "no title": ("edge.csv", b"", "is empty; its first line names the columns"),
    "two columns of one name": ("edge.csv", b"a,a\n", "the columns need names that differ: a, a"),
    "no text": ("edge.csv", b"a,b\n\xff\xfe,1\n", "is no table of comma-separated values"),
    "an unknown column": (
        "all.csv", b"time,snow\n0,1\n", "the column snow is no input or observation of one value"
    ),
    "no JSON": ("d.json", b"{", "is not JSON"),
    "JSON of a number": ("d.json", b"3", "expected arrays by name, or a list of facts"),
    "ragged lists": ("d.json", b'{"rain": [[1, 0], [1]]}', "rain: the lists differ in length"),
    "no Parquet": ("d.parquet", b"nonsense", "is no Parquet file"),
    "a rule": ("d.pl", b"edge(ann, bob).\nedge(X, Y) :- edge(Y, X).", "line 2: expected a fact"),
    "a variable": ("d.pl", b"edge(ann, X).", "line 1: expected a fact without variables"),
    "a probability": ("d.pl", b"0.5::edge(ann, bob).", "line 1: expected a fact without"),
    "a negation": ("d.pl", b"rain@0.\n\\+rain@1.", "line 2: expected a fact, received a negation"),
    "a text for a truth": (
        "all.csv", b"time,rain\n0,yes\n1,no\n",
        r"all\.csv`, line 2, column rain: expected bool \(true or false\) as .* received 'yes'",
    ),
    "another kind": ("d.txt", b"", r"expected data in \.npz, \.csv, \.parquet or \.json"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_files_that_do_not_fit(mistake: str, tmp_path: Path) -> None:
    name, content, message = MISTAKES[mistake]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(nesymm.NesymmError, match=message):
        MODEL.filter(tmp_path / name)
    (tmp_path / "p.nsl").write_text(PROGRAM, encoding="utf-8")
    shown = CliRunner().invoke(
        app, ["filter", str(tmp_path / "p.nsl"), "--data", str(tmp_path / name)]
    )
    assert shown.exit_code == 2 and "Traceback" not in shown.output


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("d.csv", "d.json", "d.npz", "d.parquet", "d.pl"):
        with pytest.raises(nesymm.NesymmError, match="cannot read"):
            MODEL.filter(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(nesymm.NesymmError, match=r"has no table .* and no facts"):
        MODEL.filter(tmp_path / "empty")


def test_a_damaged_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("rain.npy", b"nonsense")
    with pytest.raises(nesymm.NesymmError, match="cannot read the array rain"):
        MODEL.filter(tmp_path / "d.npz")


WEATHER = """
:- input(rain@t, bool).
0.3::wet@0.
0.7::wet@t :- wet@(t-1).
0.5::wet@t :- rain@t.
0.9::seen@t :- wet@t.
observe(seen@t). query(wet@t). query(wet@T).
"""
TABLE = "sequence,time,rain,seen,was\nmon,0,true,true,1\nmon,1,false,,0\ntue,0,true,false,1\n"


def test_commands_name_sequences(tmp_path: Path) -> None:
    (tmp_path / "p.nsl").write_text(WEATHER, encoding="utf-8")
    (tmp_path / "all.csv").write_text(TABLE, encoding="utf-8")
    pandas.read_csv(tmp_path / "all.csv").drop(columns="was").to_parquet(tmp_path / "d.parquet")
    program = str(tmp_path / "p.nsl")
    for command in (["filter"], ["generate", "--count", "1"]):
        name, *options = command
        line = [name, program, "--data", str(tmp_path / "d.parquet"), *options]
        shown = CliRunner().invoke(app, [*line, "--json"])
        assert shown.exit_code == 0, shown.output
        found = json.loads(shown.stdout)["sequences"]
        assert [s["sequence"] for s in found] == ["mon", "tue"]
        assert "sequence tue" in CliRunner().invoke(app, line).stdout


def test_labels_in_tables_and_facts(tmp_path: Path) -> None:
    """As in an array: a truth for each step."""
    (tmp_path / "p.nsl").write_text(WEATHER, encoding="utf-8")
    (tmp_path / "d.csv").write_text(TABLE, encoding="utf-8")
    facts = [{"rain": [True, False], "seen": [True, None], "was": [1, 0]},
             {"rain": [True], "seen": [False], "was": [1]}]  # fmt: skip
    (tmp_path / "d.json").write_text(json.dumps(facts), encoding="utf-8")
    np.savez(
        tmp_path / "d.npz", rain=[[1, 0], [1, 0]], seen=[[1, np.nan], [0, np.nan]],
        was=[[1, 0], [1, np.nan]], length=[2, 1],
    )  # fmt: skip
    scores = []
    for name in ("d.npz", "d.csv", "d.json"):
        line = ["evaluate", str(tmp_path / "p.nsl"), "--data", str(tmp_path / name)]
        shown = CliRunner().invoke(app, [*line, "--labels", "was=wet@t", "--json"])
        assert shown.exit_code == 0, shown.output
        scores.append(json.loads(shown.stdout)["labels"]["was"])
    assert scores[0] == scores[1] == scores[2]


def test_worlds_in_files(tmp_path: Path) -> None:
    model = nesymm.compile(
        ":- input(edge(key, key), [a, b, c], [a, b, c]). "
        "p(X, Y) :- edge(X, Z), p(Z, Y). p(X, Y) :- edge(X, Y), up(X, Y). 0.5::up(X, Y). "
        "query(p(a, c)).".replace("0.5::up(X, Y).", "0.5::up(X, Y) :- edge(X, Y).")
    )
    (tmp_path / "edge.csv").write_text("from,to\na,b\nb,c\n")
    (tmp_path / "d.pl").write_text("edge(a, b). edge(b, c).")
    (tmp_path / "d.json").write_text('[{"edge": [["a", "b"], ["b", "c"]]}]')
    for name in ("edge.csv", "d.pl", "d.json"):
        assert model.infer(tmp_path / name).probability("p(a,c)") == pytest.approx(0.5)
