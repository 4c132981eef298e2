"""`nesymm query`: what it answers, in which form, and how it reports mistakes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles import problog
from typer.testing import CliRunner, Result

from nesymm.cli.main import app

COINS = """
    0.5::heads(a). 0.2::heads(b).
    both :- heads(a), heads(b).
    never :- heads(a), \\+ heads(a).
"""
# No closed form: the plane is sampled.
SAMPLED = "x ~ normal(0, 1). y ~ normal(0, 1). a :- x*x + y*y < 1. 0.5::b. query(a). query(b)."
NEURAL = "nn(net, [X], Y, [low, high])::size(X, Y) :- item(X). item(1). item(3). query(size(_, _))."


# Compared with a threshold; and without a closed form, so that the network is sampled from.
NORMAL = ":- network(net, 2). x ~ normal(net(1.5)). a :- x > 0. query(a)."
NORMAL_PAIR = NORMAL + " y ~ normal(0, 1). b :- x * y > 1. query(b)."


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["query", *args])


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "program.nsl") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def answer(write):
    """The JSON for a program text."""

    def answer(text: str, *args: str) -> dict[str, Any]:
        result = run("--json", write(text), *args)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return answer


# ---------------------------------------------------------------- answers


def test_json_has_exactly_these_keys(answer) -> None:
    found = answer(COINS + "query(heads(a)). query(heads(b)). evidence(\\+ both).")
    assert found == {
        "queries": pytest.approx({"heads(a)": 4 / 9, "heads(b)": 1 / 9}),
        "stderr": {},
        "log_evidence": pytest.approx(math.log(0.9)),
        "method": "enumerate",
    }


def test_a_table_for_people(write) -> None:
    result = run(write(COINS + "query(heads(_)). query(both)."))
    assert result.stdout == "    both:  0.1\nheads(a):  0.5\nheads(b):  0.2\n"
    assert result.stderr == "(enumerate: a table of 4 worlds is small)\n"


def test_every_grounding_of_a_query_is_listed(answer) -> None:
    found = answer(COINS + "query(heads(_)).")["queries"]
    assert found == pytest.approx({"heads(a)": 0.5, "heads(b)": 0.2})
    pairs = answer("0.5::p(1,a). p(2,b). 0.1::p(2,a). query(p(2,X)).")
    assert pairs["queries"] == pytest.approx({"p(2,b)": 1.0, "p(2,a)": 0.1})


def test_a_ground_query_of_probability_zero_is_listed(answer) -> None:
    found = answer(COINS + "query(never). query(heads(c)). query(both). evidence(\\+ both).")
    assert found["queries"] == {"never": 0.0, "heads(c)": 0.0, "both": 0.0}


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
def test_the_method_can_be_chosen(answer, method: str) -> None:
    found = answer(COINS + "query(both).", "--method", method)
    assert (found["method"], found["queries"]) == (method, pytest.approx({"both": 0.1}))


def test_auto_takes_a_circuit_where_a_table_would_be_large(answer) -> None:
    many = " ".join(f"0.5::f({i})." for i in range(30))
    found = answer(f"{many} some :- f(_). query(some).", "--method", "auto")
    assert (found["method"], found["queries"]) == ("circuit", pytest.approx({"some": 1 - 2**-30}))


def test_constants_are_replaced(answer) -> None:
    source = ":- const(p, 0.5). :- const(n, 2). p::f(X) :- between(1, n, X). query(f(_))."
    assert answer(source)["queries"] == pytest.approx({"f(1)": 0.5, "f(2)": 0.5})
    found = answer(source, "--const", "p=0.3", "--const", "n=1")
    assert found["queries"] == pytest.approx({"f(1)": 0.3})


def test_several_files_are_one_program(write) -> None:
    result = run("--json", write(COINS), write("query(both).", "more.nsl"))
    assert json.loads(result.stdout)["queries"] == pytest.approx({"both": 0.1})


TERMS = [
    "a", "1", "-1", "- 1", "-2.5", "1.0", "1e-5", "1.0e10", "100000000000000000000",
    "'A b'", "'Abc'", "''", "'a.b'", "'don\\'t'", "'\\n'", '"text"', '"it\'s"',
    "[]", "[1,2]", "[a|b]", "[[1],[2,[3]]]", "[-1,a-1]", "f(a,b)", "f(x,'Y',\"z\",-3)",
    "f([a,g(b)])", "a+b", "a-(-1)", "1+(-2)", "a*b+c", "a*(b+c)", "x-y-z", "x-(y-z)",
    "2**3", "a/b", "a mod b", "a:b", "a=b", "(a,b)", "\\+a",
]  # fmt: skip


@pytest.mark.parametrize("term", TERMS)
def test_queries_are_written_as_problog_writes_them(answer, term: str) -> None:
    source = f"0.5::p({term}). query(p(_))."
    assert answer(source)["queries"] == pytest.approx(problog(source))


# ---------------------------------------------------------------- samples


def test_a_seed_decides_the_samples(answer) -> None:
    first = answer(SAMPLED, "--seed", "1", "--samples", "500")
    assert answer(SAMPLED, "--seed", "1", "--samples", "500") == first
    other = answer(SAMPLED, "--seed", "2", "--samples", "500")
    assert other["queries"]["a"] != first["queries"]["a"]
    # What does not need sampling is exact.
    assert first["queries"]["b"] == pytest.approx(0.5)
    assert first["stderr"]["b"] == pytest.approx(0.0, abs=1e-9)
    assert abs(first["queries"]["a"] - (1 - math.exp(-0.5))) < 4 * first["stderr"]["a"]
    assert first["method"] == "enumerate, 500 samples of x, y"


def test_a_query_that_holds_in_no_sample(answer) -> None:
    source = "x ~ normal(0, 1). y ~ normal(0, 1). a :- x*y > 100. query(a)."
    found = answer(source, "--samples", "100")
    assert (found["queries"], found["stderr"]) == ({"a": 0.0}, {"a": 0.0})


def test_the_table_has_standard_errors(write) -> None:
    lines = run(write(SAMPLED), "--samples", "500").stdout.splitlines()
    assert lines[0].startswith("a:  0.") and " ± 0.02" in lines[0]


# ---------------------------------------------------------------- networks


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules, which Python forgets afterwards."""
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_nets.py").write_text(
        "import jax.numpy as jnp\n"
        "networks = {'net': lambda x: jnp.stack([2.0 - x, x - 2.0])}\n"
        "number = 3\n"
    )
    (tmp_path / "failing_nets.py").write_text(
        "import jax.numpy as jnp\n"
        "def half(x):\n"
        "    return jnp.stack([x]) @ jnp.ones(2)\n"
        "def fail(x):\n"
        "    raise RuntimeError\n"
        "shapes = {'net': half}\n"
        "silent = {'net': fail}\n"
        "arguments = {'net': lambda: 1}\n"
        "few = {'net': lambda x: jnp.zeros(1)}\n"
        "many = {'net': lambda x: jnp.zeros(3)}\n"
        "nan = {'net': lambda x: jnp.full(2, jnp.nan)}\n"
    )
    (tmp_path / "broken_nets.py").write_text("networks = {}\n1 / 0\n")
    (tmp_path / "unreadable_nets.py").write_text("networks = {\n")
    yield tmp_path
    for name in ("my_nets", "failing_nets", "broken_nets", "unreadable_nets"):
        sys.modules.pop(name, None)


def test_networks_come_from_a_module_in_the_current_folder(answer, modules: Path) -> None:
    found = answer(NEURAL, "--networks", "my_nets:networks")["queries"]
    low = 1 / (1 + math.exp(-2))
    assert found == pytest.approx(
        {"size(1,low)": low, "size(1,high)": 1 - low, "size(3,low)": 1 - low, "size(3,high)": low}
    )


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_nets:networks", "`--networks no_nets:networks`: No module named 'no_nets'"),
        ("my_nets", "write module:object, for example nets:networks"),
        (".:networks", "`--networks .:networks`: "),
        ("my_nets:nothing", "my_nets has no object called nothing"),
        ("my_nets:number", "expected a dictionary from network names to functions, received int"),
        ("broken_nets:networks", "broken_nets.py, line 2)"),
        ("unreadable_nets:networks", "(unreadable_nets.py, line 1)"),
    ],
)
def test_mistakes_in_networks(write, modules: Path, place: str, message: str) -> None:
    result = run(write(NEURAL), "--networks", place)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and message in result.stderr


@pytest.mark.parametrize(
    ("program", "networks", "message"),
    [
        (NEURAL, "shapes", "the network net failed: TypeError: dot_general requires"),
        (NEURAL, "shapes", "failing_nets.py, line 3)\n"),
        (NEURAL, "silent", "the network net failed: RuntimeError ("),
        (NEURAL, "arguments", "the network net failed: TypeError: "),
        (NEURAL, "few", "the network net gave outputs of shape (1,), 2 are needed\n"),
        (NORMAL, "shapes", "the network net failed: TypeError: dot_general requires"),
        (NORMAL, "few", "the network net gave outputs of shape (1,), 2 are needed\n"),
        (NORMAL, "many", "the network net gave outputs of shape (3,), 2 are needed\n"),
        (NORMAL, "nan", "the network net gave NaN\n"),
        (NORMAL_PAIR, "nan", "the network net gave NaN\n"),
        (NORMAL_PAIR, "silent", "the network net failed: RuntimeError ("),
    ],
)
def test_a_network_that_fails(
    write, modules: Path, program: str, networks: str, message: str
) -> None:
    result = run(write(program), "--networks", f"failing_nets:{networks}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and message in result.stderr
    assert result.stderr.count("\n --> ") == result.stderr.count("\n  = help: ") == 1
    assert isinstance(result.exception, SystemExit)


def test_a_network_that_fails_as_json(write, modules: Path) -> None:
    result = run("--json", write(NEURAL), "--networks", "failing_nets:silent")
    assert (result.exit_code, result.stderr) == (2, "")
    (diagnostic,) = json.loads(result.stdout)["diagnostics"]
    assert diagnostic["message"].startswith("the network net failed: RuntimeError (")


def test_a_network_that_is_not_given(write) -> None:
    result = run(write(NEURAL))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "net are not given" in result.stderr and "`--networks module:object`" in result.stderr


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("source", "args", "message"),
    [
        ("p q.\nquery(p).", (), "program.nsl:1:3"),
        ("p.\nquery(q).", (), "program.nsl:2:7"),
        (
            "0.5::a.\nevidence(a).\nevidence(\\+ a).\nquery(a).",
            (),
            "the evidence is impossible: it has probability zero",
        ),
        ("0.5::a. query(a).", ("--method", "magic"), "there is no method called magic"),
        ("0.5::a. query(a).", ("--const", "n"), "`--const n` is not a constant"),
        ("0.5::a. query(a).", ("--const", "n=1"), "the program has no constant called n"),
        ("0.5::a. query(a).", ("--seed", "one"), "'--seed'"),
        ("0.5::a. query(a).", ("--seed", "99999999999999999999"), "'--seed'"),
        ("0.5::a. query(a).", ("--samples", "1"), "'--samples'"),
        ("0.5::a@t. query(a@t).", (), "give their number: `--steps 10`"),
        ("0.5::a. observe(a). query(a).", (), "the program observes a in data"),
        ("x ~ normal(0, 1). query(x).", (), "program.nsl:1:19"),
    ],
)
def test_mistakes_are_explained(write, source: str, args: tuple[str, ...], message: str) -> None:
    result = run(write(source), *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    # Not an exception of ours that got out, but an orderly end.
    assert isinstance(result.exception, SystemExit)


def test_impossible_evidence_is_located(write) -> None:
    path = write("0.5::a.\nevidence(a).\nevidence(\\+ a).\nquery(a).")
    assert f"see {path}:2:1, {path}:3:1\n" in run(path).stderr


def test_mistakes_as_json(write) -> None:
    result = run("--json", write("0.5::a. evidence(a). evidence(\\+ a). query(a)."))
    assert (result.exit_code, result.stderr) == (2, "")
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert "the evidence is impossible" in found["diagnostics"][0]["message"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.nsl"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error[E007]: cannot read" in result.stderr
