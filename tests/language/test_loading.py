"""Programs in several files: what `consult` and `csv_load` read, and what they never read."""

from __future__ import annotations

from pathlib import Path

import pytest

import nesymm
from nesymm.errors import ProgramError


def write(folder: Path, **files: str) -> Path:
    """Write files, `__` in a name for a folder, `_` for the dot; gives the path of the program."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "model.pl"


def queries(path: Path) -> dict[str, float]:
    return dict(nesymm.compile(path).infer().queries)


def refused(path: Path) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(path)
    return caught.value


def test_clauses_of_other_files(tmp_path: Path) -> None:
    """Each file is read once, names are relative to the file that names them."""
    path = write(
        tmp_path,
        model_pl=":- consult('parts/rain'). :- consult('parts/rain.pl').\n"
        ":- consult('parts/wet').\nquery(wet).",
        parts__rain_pl="0.3::rain.",
        parts__wet_nsl=":- consult('rain').\n0.5::wet :- rain.",
    )
    assert queries(path) == pytest.approx({"wet": 0.15})


@pytest.mark.parametrize("directive", ["consult(parts/rain)", "csv_load('t.csv')", "consult(X)"])
def test_malformed_directives(tmp_path: Path, directive: str) -> None:
    error = refused(write(tmp_path, model_pl=f":- {directive}.\nquery(p)."))
    assert error.codes[0] == "E106" and "directive is malformed" in str(error)


def test_the_text_of_a_model_holds_what_was_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        model_pl=":- consult('rain').\n:- csv_load('edges.csv', edge). 0.5::wet :- rain.\n"
        "hop(X) :- edge(X, 'it''s').\nquery(wet). query(hop(_)).",
        rain_pl="% a comment at the end\n0.3::rain. % no new line",
        edges_csv="from,to\nann,it's\n'odd,bob\n",
    )
    model = nesymm.compile(path)
    again = nesymm.compile(model.text)
    assert model.infer().queries == pytest.approx({"wet": 0.15, "hop(ann)": 1.0})
    assert again.infer().queries == model.infer().queries
    assert model.extend("query(rain).").infer().queries["rain"] == pytest.approx(0.3)


def test_a_saved_model_needs_no_other_file(tmp_path: Path) -> None:
    path = write(tmp_path, model_pl=":- consult(rain).\nquery(rain).", rain_pl="t(0.3)::rain.")
    nesymm.save(nesymm.compile(path), tmp_path / "model.safetensors")
    (tmp_path / "rain.pl").unlink()
    model = nesymm.load(tmp_path / "model.safetensors")
    assert model.infer().queries == pytest.approx({"rain": 0.3})


def test_facts_of_a_table(tmp_path: Path) -> None:
    """The first row says which columns are numbers."""
    path = write(
        tmp_path,
        model_pl=":- use_module(library(db)).\n:- csv_load('data/edges.csv', 'edge').\n"
        "P::near(X, Y) :- edge(X, Y, N, P), N > 1.\nquery(near(_, _)).",
        data__edges_csv='"from" ,to,count,chance\n"ann" ,bob,2,0.5\nbob,"New York",3,1\n\n'
        "ann,ann,-1,.25\n",
    )
    assert queries(path) == pytest.approx({"near(ann,bob)": 0.5, "near(bob,'New York')": 1.0})


@pytest.mark.parametrize(
    ("table", "message", "row"),
    [
        ("a,b\n1,2\n3\n", "this row has 1 cells, and there are 2 columns", "3"),
        ("a,b\n1,2\n3,x\n", "the column b begins with whole numbers, and this row has `x`", "3,x"),
        ("a,b\n1,2\n3,0.5\n", "the column b begins with whole numbers", "3,0.5"),
        ("a,b\n1,0.5\n3,nan\n", "the column b begins with numbers", "3,nan"),
        ("a,b\n1,2\n3," + 5000 * "1", "the column b begins with whole", "3," + 5000 * "1"),
        ("a,b\n1,2.0\n3,1e999\n", "the column b begins with numbers", "3,1e999"),
        ("a,b\n", "the table `t.csv` has no rows", None),
        ("", "the table `t.csv` has no rows", None),
    ],
)
def test_bad_tables(tmp_path: Path, table: str, message: str, row: str | None) -> None:
    program = ":- csv_load('t.csv', p).\nquery(p(_, _))."
    error = refused(write(tmp_path, model_pl=program, t_csv=table))
    found = next(d for d in error.diagnostics if d.code == "E007")
    assert message in found.message and found.span is not None
    assert found.span.text == (row or ":- csv_load('t.csv', p)")
    assert found.span.source.name.endswith("t.csv" if row else "model.pl")


@pytest.mark.parametrize("directive", [":- consult('{}').", ":- csv_load('{}', p)."])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, directive: str) -> None:
    folder = tmp_path / "inside"
    write(folder, model_pl="")
    secret = write(tmp_path, model_pl="p(1).\n2\n").rename(tmp_path / "secret.pl")
    (folder / "link.pl").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "here").mkdir()
    leads_out = "leads out of the folder of the program"
    names = {
        "../secret.pl": leads_out,
        "here/../../secret.pl": leads_out,
        "here/../here/x": leads_out,
        str(secret): leads_out,
        "link.pl": leads_out,
        "linked/secret.pl": leads_out,
        "here": "there is no file",
        "missing.pl": "there is no file",
        "": "there is no file",
    }
    for name, message in names.items():
        text = directive.format(name) + "\nquery(p(_))."
        path = write(folder, model_pl=text)
        error = refused(path)
        assert error.codes == ("E007",) and message in str(error), name
        assert "--> " + str(path) + ":1:1" in str(error)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    path = write(tmp_path, model_pl=":- consult(link).\nquery(p).", rules_pl="0.5::p.")
    (tmp_path / "link.pl").symlink_to(tmp_path / "rules.pl")
    assert queries(path) == pytest.approx({"p": 0.5})


@pytest.mark.parametrize("directive", [":- consult(rules).", ":- csv_load('t.csv', p)."])
def test_a_text_reads_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directive: str
) -> None:
    """Not even of the folder that the process runs in, or one that the name of the text names."""
    write(tmp_path, rules_pl="p(1).", t_csv="a\n1\n")
    monkeypatch.chdir(tmp_path)
    text = f"{directive}\nquery(p(_))."
    for name in ("<program>", str(tmp_path / "model.pl")):
        with pytest.raises(ProgramError) as caught:
            nesymm.compile(text, name=name)
        assert "E007" in caught.value.codes and "this program is in no file" in str(caught.value)
    with pytest.raises(ProgramError, match="this program is in no file"):
        nesymm.compile("0.5::q.").extend(directive)


def test_mistakes_of_all_files_are_reported(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        model_pl=":- consult(one).\n:- consult(two).\n:- consult(three).\nquery(p).",
        one_pl="p :- .",
        two_pl="q(.",
    )
    error = refused(path)
    assert [d.span.source.name.rpartition("/")[2] for d in error.diagnostics if d.span] == [
        "one.pl",
        "two.pl",
        "model.pl",
    ]


def test_names_with_and_without_quotes(tmp_path: Path) -> None:
    """ProbLog has the texts of a table in quotes, and takes those without for others."""
    program = ":- csv_load('t.csv', person).\n0.5::p(X) :- person(X).\nquery(p({}))."
    table = "name\nann\n"
    error = refused(write(tmp_path, model_pl=program.format("ann"), t_csv=table))
    assert error.codes == ("E008",) and "write `'ann'`" in str(error)
    path = write(tmp_path, model_pl=program.format("'ann'"), t_csv=table)
    assert queries(path) == pytest.approx({"p(ann)": 0.5})
    write(tmp_path, model_pl=":- consult(a).\nquery(p('x')).", a_pl="0.5::p(x).")
    assert refused(path).codes == ("E008",)


def test_a_table_holds_no_control_characters(tmp_path: Path) -> None:
    program = ":- csv_load('t.csv', p).\nquery(p(_))."
    error = refused(write(tmp_path, model_pl=program, t_csv="a\n\x1b[2J\n"))
    assert error.codes == ("E005",) and "\x1b" not in str(error)
