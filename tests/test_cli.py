"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from interruption import NESYMM
from typer.testing import CliRunner, Result

from nesymm.cli.main import app

ROOT = Path(__file__).parent.parent
PAPER = sorted((ROOT / "examples" / "paper").glob("*.nsl"))
GAME = str(ROOT / "examples" / "paper" / "markov_game.nsl")
DISCRIMINATIVE = str(ROOT / "examples" / "paper" / "discriminative.nsl")

LEARNED = """
:- const(enemies, 3).
:- network(unused, 4).
is_enemy(E) :- between(1, enemies, E).
t(0.5)::hungry@t.
t(_, E)::bite(E)@t :- is_enemy(E), hungry@t.
hurt@t :- bite(E)@t.
colour(C)@t ~ categorical([0.5, 0.5], [red, blue]).
observe(hurt@t).
observe(colour@2, red).
query(hungry@T).
"""
TWO_MISTAKES = "p :- q.\nquery(r).\n"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args)


def words(line: str) -> list[str]:
    return line.split()


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes, name: str = "program.nsl") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


# ---------------------------------------------------------------- check


@pytest.mark.parametrize("path", PAPER, ids=lambda p: p.stem)
def test_the_programs_of_the_paper_have_no_mistakes(path: Path) -> None:
    result = run("check", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{path}: no mistakes\n")


def test_check_says_what_must_be_given() -> None:
    lines = run("check", DISCRIMINATIVE).stdout.splitlines()
    assert lines[1] == "23 clauses for 12 predicates; compiled to 111 nodes per step"
    rows = [words(line) for line in lines[4:]]
    assert rows == [
        ["constant", "n", "10", "in", "the", "program"],
        ["constant", "enemies", "1", "in", "the", "program"],
        ["input", "start", "int", "1..10,", "int", "1..10", "per", "sequence"],
        ["input", "action", "{up,", "right,", "down,", "left}", "per", "step"],
        ["network", "policy", "8", "outputs"],
        ["parameter", "hit", "unit", "learned"],
        ["observation", "hit@t", "bool", "data"],
        ["query", "agent_dead@T"],
    ]


def test_check_tells_data_from_evidence_and_names_unused_networks(write) -> None:
    rows = [words(line) for line in run("check", write(LEARNED)).stdout.splitlines()]
    assert ["network", "unused", "4", "outputs", "not", "used"] in rows
    assert ["parameter", "hungry", "unit", "learned,", "starts", "at", "0.5"] in rows
    assert ["parameter", "bite[3]", "unit", "learned"] in rows
    assert ["observation", "hurt@t", "bool", "data"] in rows
    assert ["observation", "colour@2", "{red,", "blue}", "in", "the", "program:", "red"] in rows


def test_check_points_out_a_negation_that_does_not_start(write) -> None:
    path = write("0.3::alarm(1)@t.\ncalm@t :- not alarm(_)@(t-1).\nquery(calm@t).\n")
    result = run("check", path)
    assert result.exit_code == 0 and "no mistakes" in result.stdout
    assert result.stderr == (
        "\nnote[N001]: this clause of calm/0 does not apply at step 0, where there is no "
        f"alarm@(t-1): the negation does not hold there either\n --> {path}:2:11\n  |\n"
        "2 | calm@t :- not alarm(_)@(t-1).\n  |           ^^^^^^^^^^^^^^^^^^\n"
        "  = help: if calm should start true, add a clause for step 0: `calm@0.`; if not, say so "
        "with `t >= 1` in the body\n"
    )
    (note,) = json.loads(run("check", path, "--json").stdout)["notes"]
    assert (note["code"], note["line"], note["column"]) == ("N001", 2, 11)


def test_a_program_of_facts_has_a_short_summary(write) -> None:
    result = run("check", write("p(a).\nquery(p(X)).\n"))
    assert result.stdout.splitlines()[1:] == [
        "1 clause for 1 predicate; compiled to 1 node",
        "",
        "        name",
        "query   p(a)",
    ]


def test_both_suffixes_are_accepted(write) -> None:
    assert run("check", write("p.\nquery(p).\n", "program.pl")).exit_code == 0


def test_an_extension_is_checked_together_with_its_program(write) -> None:
    base, extension = write("p :- q.\n"), write("q.\nquery(p).\n", "more.nsl")
    assert run("check", base).exit_code == 2
    result = run("check", base, extension)
    assert result.exit_code == 0
    assert f"{extension}: no mistakes" in result.stdout


def test_constants_are_replaced() -> None:
    rows = [
        words(line)
        for line in run(
            "check", DISCRIMINATIVE, "--const", "n=15", "--const", "enemies = 2"
        ).stdout.splitlines()
    ]
    assert ["constant", "n", "15", "with", "--const"] in rows
    assert ["constant", "enemies", "2", "with", "--const"] in rows
    assert "int 1..15" in run("show", DISCRIMINATIVE, "--const", "n=15").stdout


def test_constants_can_be_names_and_lists(write) -> None:
    path = write(
        ":- const(who, nobody).\n:- const(xs, []).\np(who, X) :- member(X, xs).\nquery(p(A, B)).\n"
    )
    shown = run("show", path, "--const", "who=imp", "--const", "xs=[1, 2]").stdout
    assert "p(imp,1): true" in shown
    assert "p(imp,2): true" in shown


# ---------------------------------------------------------------- mistakes


def test_all_mistakes_are_printed_to_stderr(write) -> None:
    result = run("check", write(TWO_MISTAKES))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("error[E") == 2
    assert "program.nsl:1:6" in result.stderr
    assert "program.nsl:2:7" in result.stderr
    assert result.stderr.endswith("\n2 mistakes\n")


def test_syntax_errors_of_all_files_are_printed(write) -> None:
    result = run("check", write("p q.\n"), write("r(.\n", "more.nsl"))
    assert result.exit_code == 2
    assert "program.nsl:1:3" in result.stderr
    assert "more.nsl:1:2" in result.stderr


def test_show_reports_mistakes_too(write) -> None:
    result = run("show", write("p :- q.\nquery(p).\n"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error[E" in result.stderr


@pytest.mark.parametrize(
    ("const", "message"),
    [
        ("n", "`--const n` is not a constant: write --const NAME=VALUE"),
        ("n=", "`--const n=` is not a constant"),
        ("=3", "`--const =3` is not a constant"),
        ("n m=3", "`--const n m=3` is not a constant"),
        ("n=X", "`--const n=X`: X is a variable, and a constant has a value"),
        ("n=(", "error[E001]: this `(` is never closed"),
        ("n=1 2", "error[E001]"),
        ("m=3", "error[E108]: the program has no constant called m (it has: n, enemies)"),
    ],
)
@pytest.mark.parametrize("command", ["check", "show"])
def test_malformed_and_unknown_constants(command: str, const: str, message: str) -> None:
    result = run(command, DISCRIMINATIVE, "--const", const)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_constant_given_twice() -> None:
    result = run("check", DISCRIMINATIVE, "--const", "n=3", "--const", "n=4")
    assert result.exit_code == 2
    assert result.stderr == "error: the constant n is given twice\n"


def test_unreadable_files(write, tmp_path: Path) -> None:
    result = run("check", str(tmp_path / "none.nsl"))
    assert result.exit_code == 2
    assert "error[E007]: cannot read" in result.stderr
    assert "No such file or directory" in result.stderr
    result = run("check", str(tmp_path))
    assert result.exit_code == 2
    assert "Is a directory" in result.stderr
    result = run("check", write(b"p.\nq(\xff).\n"))
    assert result.exit_code == 2
    assert "error[E003]: the file is not UTF-8: byte 0xff at offset 5" in result.stderr
    result = run("check", write(""))
    assert result.exit_code == 2
    assert "error[E002]: the program is empty" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "Usage:"),
        (("check",), "Missing argument 'FILE"),
        (("frobnicate", GAME), "No such command 'frobnicate'"),
        (("show", GAME, "--unroll", "0"), "--unroll"),
        (("check", GAME, "--colour"), "No such option"),
    ],
)
def test_mistakes_on_the_command_line(args: tuple[str, ...], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr + result.stdout


# ---------------------------------------------------------------- JSON


def test_json_of_a_good_program(write) -> None:
    result = run("check", "--json", write(LEARNED))
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["ok"] is True
    assert found["temporal"] is True
    assert found["constants"] == {"enemies": 3}
    assert found["networks"] == [{"name": "unused", "outputs": [4], "used": False}]
    assert [p["name"] for p in found["parameters"]] == ["hungry", "bite"]
    assert [(o["name"], o["when"], o["from"]) for o in found["observations"]] == [
        ("hurt", "@t", "data"),
        ("colour", "@2", "program"),
    ]
    assert found["observations"][1]["value"] == ["red"]
    assert found["queries"] == ["hungry@T"]


def test_json_of_mistakes(write) -> None:
    path = write(TWO_MISTAKES)
    result = run("check", "--json", path)
    assert (result.exit_code, result.stderr) == (2, "")
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert [(d["file"], d["line"], d["column"]) for d in found["diagnostics"]] == [
        (path, 1, 6),
        (path, 2, 7),
    ]
    assert all(d["code"].startswith("E") and d["message"] for d in found["diagnostics"])
    found = json.loads(run("check", "--json", path, "--const", "n").stdout)
    assert found["diagnostics"][0]["code"] is None


# ---------------------------------------------------------------- show


def test_show_prints_the_step_program() -> None:
    from nesymm.ground.grounder import ground
    from nesymm.language.check import check
    from nesymm.language.parser import read

    result = run("show", GAME)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == str(ground(check(read(GAME))))


def test_show_draws(tmp_path: Path) -> None:
    path = tmp_path / "game.svg"
    result = run("show", GAME, "--graph", str(path), "--unroll", "2")
    assert result.exit_code == 0
    assert result.stderr == f"wrote {path}\n"
    svg = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    classes = [e.get("class") for e in svg.iter()]
    assert classes.count("cluster column") == 2
    assert classes.count("cluster plate") == 1
    assert "markov_game" in [e.text for e in svg.iter("{http://www.w3.org/2000/svg}title")]


def test_show_draws_other_formats(tmp_path: Path) -> None:
    for name, start in (("game.png", b"\x89PNG"), ("game.pdf", b"%PDF"), ("game.dot", b"digraph")):
        assert run("show", GAME, "--graph", str(tmp_path / name)).exit_code == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def test_drawings_have_a_format(tmp_path: Path) -> None:
    result = run("show", GAME, "--graph", str(tmp_path / "game.jpg"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the name must end in .svg, .png, .pdf or .dot" in result.stderr
    assert not list(tmp_path.iterdir())


def test_drawings_need_a_place(tmp_path: Path) -> None:
    result = run("show", GAME, "--graph", str(tmp_path / "none" / "game.svg"))
    assert result.exit_code == 2
    assert "error: cannot write" in result.stderr
    assert "No such file or directory" in result.stderr


# ---------------------------------------------------------------- help, version, processes


def test_help_names_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in ("check", "show", "query", "filter"))


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("nesymm ")


def process(*args: str, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*NESYMM, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **more},
    )


def test_help_loads_neither_the_compiler_nor_jax() -> None:
    code = (
        "import sys, nesymm.cli; "
        "print(sorted(m for m in sys.modules if m.startswith(('jax', 'lark', 'nesymm.'))))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert found.stdout.strip() == "['nesymm.cli', 'nesymm.cli.main', 'nesymm.xla']"
    # (nesymm.xla is a setting, before JAX.)


def test_a_real_process_reports_mistakes_without_traceback(write) -> None:
    child = process("check", write(TWO_MISTAKES))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (2, b"")
    assert b"2 mistakes" in err
    assert b"Traceback" not in err


def test_a_terminal_without_unicode(write) -> None:
    child = process("show", write(LEARNED), PYTHONIOENCODING="ascii")
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")
    assert b" hungry: unit" in out


def test_a_reader_that_leaves(write) -> None:
    child = process("show", GAME)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert (child.wait(timeout=60), err) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_interruption(tmp_path: Path) -> None:
    path = tmp_path / "never.nsl"
    os.mkfifo(path)
    child = process("check", str(path))
    with path.open("wb"):  # returns when the program is being read
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in err
