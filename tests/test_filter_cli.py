"""`nesymm query` over time and `nesymm filter`: answers, their form, and mistakes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import infer
from typer.testing import CliRunner, Result

from nesymm.cli.main import app
from nesymm.ground.grounder import ground
from nesymm.language.check import check
from nesymm.language.parser import parse

WEATHER = """
    0.3::rain@0.
    0.7::rain@t :- rain@(t-1).
    0.3::rain@t :- not rain@(t-1).
    0.9::umbrella@t :- rain@t.
    0.2::umbrella@t :- not rain@t.
"""
DRIFT = """
    right ~ bernoulli(0.5).
    x@0 ~ normal(0, 1).
    x@t ~ normal(x@(t-1) + 0.5, 0.5) :- right.
    x@t ~ normal(x@(t-1) - 0.5, 0.5) :- not right.
    far@t :- x@t > 1.
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "program.nsl") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def save(tmp_path: Path):
    def save(**arrays: Any) -> str:
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return str(path)

    return save


@pytest.fixture
def ask(write):
    """The JSON of `nesymm query` for a program text."""

    def ask(text: str, *args: str) -> dict[str, Any]:
        result = run("query", "--json", write(text), *args)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return json.loads(result.stdout)

    return ask


def strict(text: str) -> Any:
    """JSON without NaN and Infinity, which are not JSON."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


# ---------------------------------------------------------------- query: against enumeration


def enumerated(text: str, horizon: int) -> tuple[dict[str, float], float]:
    """Answers by enumeration, named as the command names them, and the log-evidence."""
    step = ground(check(parse(text, "program")))
    found = infer(step, horizon)
    out: dict[str, float] = {}
    for name in found.queries:
        atom, _, when = name.rpartition("@")
        if not atom or when.isdecimal() or when == "T":
            continue
        first = 0 if when == "t" else int(when.strip("()").split(":")[0])
        out |= {f"{atom}@{first + i}": p for i, p in enumerate(found.filtered[name])}
    for name, p in found.queries.items():
        atom, _, when = name.rpartition("@")
        if not atom or when.isdecimal() or when == "T":
            out[name] = p
    return out, math.log(found.evidence)


@pytest.mark.parametrize(
    ("text", "horizon"),
    [
        # Evidence after the query: smoothing.
        ("observe(umbrella@0, true). observe(umbrella@3, false). query(rain@1).", None),
        ("observe(rain@3, true). query(rain@0). query(umbrella@2). query(rain@3).", None),
        # A range that ends, and one that does not.
        ("observe(umbrella@(1:2), true). query(rain@(0:2)).", None),
        ("observe(umbrella@(1:T), true). query(rain@t). query(rain@T).", 4),
        # Evidence at the end, whenever that is, and a query that is asked both ways.
        ("observe(umbrella@T, false). query(rain@(1:T)). query(rain@2).", 3),
        ("query(rain@t).", 0),
        # Without a time.
        ("0.4::s. wet@t :- s, rain@t. observe(wet@1, true). query(s). query(wet@2).", None),
        # Values.
        (
            "die(N)@t ~ uniform_int(1, 4). sum(S)@t :- die(A)@t, die(B)@(t-1), S is A + B.\n"
            "high@t :- sum(S)@t, S > 6. observe(high@2, true). query(die(_)@1). query(sum(_)@T).",
            3,
        ),
    ],
)
def test_answers_over_time_agree_with_enumeration(ask, text: str, horizon: int | None) -> None:
    given_horizon = [] if horizon is None else ["--steps", str(horizon + 1)]
    found = ask(WEATHER + text, "--method", "exact", *given_horizon)
    assert set(found) == {"queries", "stderr", "log_evidence", "method"}
    assert (found["method"], found["stderr"]) == ("exact forward", {})
    last = 3 if horizon is None and "3" in text else (2 if horizon is None else horizon)
    queries, log_evidence = enumerated(WEATHER + text, last)
    assert found["queries"] == pytest.approx(queries, abs=1e-6)
    assert found["log_evidence"] == pytest.approx(log_evidence, abs=1e-6)


def test_later_evidence_changes_an_earlier_answer(ask) -> None:
    filtered = ask(WEATHER + "observe(umbrella@1, true). query(rain@1).")["queries"]["rain@1"]
    later = "observe(umbrella@1, true). observe(umbrella@2, false). query(rain@1)."
    smoothed = ask(WEATHER + later)["queries"]["rain@1"]
    # At every step, only the evidence so far counts.
    every = later.replace("rain@1", "rain@t")
    assert ask(WEATHER + every, "--steps", "3")["queries"]["rain@1"] == pytest.approx(filtered)
    assert smoothed < filtered - 0.1


# ---------------------------------------------------------------- query: particles


@pytest.mark.parametrize(
    "method", ["rao-blackwellised", pytest.param("bootstrap", marks=pytest.mark.slow)]
)
def test_particles_have_standard_errors(ask, method: str) -> None:
    text = WEATHER + "observe(umbrella@1, true). observe(umbrella@3, false). query(rain@(0:3))."
    text += " query(rain@2)."
    args = ("--method", method, "--particles", "4000")
    found = ask(text, *args)
    if method == "bootstrap":
        assert found == ask(text, *args)
        assert found["queries"] != ask(text, *args, "--seed", "1")["queries"]
    assert found["method"].endswith(", 500 particles in each of 8 runs")
    queries, log_evidence = enumerated(text, 3)
    assert set(found["stderr"]) == set(queries)
    for name, p in queries.items():
        assert found["stderr"][name] < 0.03
        assert abs(found["queries"][name] - p) <= 5 * found["stderr"][name] + 1e-9
    assert found["log_evidence"] == pytest.approx(log_evidence, abs=0.1)


def test_few_particles_are_not_split(ask) -> None:
    found = ask(WEATHER + "query(rain@1).", "--method", "bootstrap", "--particles", "50")
    assert (found["method"], found["stderr"]) == ("bootstrap, 50 particles", {})
    assert 0.1 < found["queries"]["rain@1"] < 0.9


@pytest.mark.compiled
def test_runs_in_which_no_particle_survives_do_not_count(ask) -> None:
    # Evidence of probability 1/200, 15 particles in each run.
    text = "0.005::a@t. 0.5::b@t. observe(a@1, true). query(b@0)."
    found = ask(text, "--method", "bootstrap", "--particles", "120")
    assert 0 <= found["queries"]["b@0"] <= 1
    assert found["log_evidence"] == pytest.approx(math.log(0.005), abs=1.5)


def test_continuous_states_take_particles(ask) -> None:
    found = ask(DRIFT + "observe(far@1, true). query(right). query(far@2).")
    assert found["method"].startswith("Rao-Blackwellised, 125 particles")
    # P(x1 > 1 | right) and otherwise, x1 ~ N(±0.5, 1.25).
    tail = [0.5 * math.erfc((1 - m) / math.sqrt(2.5)) for m in (0.5, -0.5)]
    exact = tail[0] / sum(tail)
    assert abs(found["queries"]["right"] - exact) < 5 * found["stderr"]["right"]


def test_the_table_of_answers_over_time(write) -> None:
    path = write(WEATHER + "query(rain@(8:10)). observe(rain@7, true).")
    result = run("query", path)
    assert result.stdout == " rain@8:  0.7\n rain@9:  0.58\nrain@10:  0.532\n"
    assert result.stderr.startswith("(exact forward: ")


def test_networks_over_time(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nets_over_time.py").write_text(
        "import jax.numpy as jnp\nnetworks = {'net': lambda x: jnp.stack([2.0 - x, x - 2.0])}\n"
    )
    text = "nn(net, [1.0], Y, [low, high])::size(Y)@t. query(size(low)@1)."
    found = ask(text, "--networks", "nets_over_time:networks")
    assert found["queries"] == pytest.approx({"size(low)@1": 1 / (1 + math.exp(-2))})


# ---------------------------------------------------------------- query: mistakes

ONCE = WEATHER + "query(rain@2)."


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        (WEATHER + "query(rain@t).", (), "`rain@t` does not say"),
        (WEATHER + "query(rain@T).", (), "`--steps 10`"),
        (WEATHER + "observe(rain@(0:T), true). query(rain@2).", (), "does not say"),
        ("0.5::a. query(a).", ("--steps", "4"), "no time, so `--steps` does not apply"),
        ("0.5::a. query(a).", ("--particles", "3"), "no time, so `--particles` does not apply"),
        (ONCE, ("--samples", "30"), "this one has `--particles`"),
        (ONCE, ("--steps", "2"), "`rain@2` is about a step after the last one, 1"),
        (ONCE, ("--steps", "0"), "'--steps'"),
        (ONCE, ("--method", "circuit"), "there is no method circuit"),
        (ONCE, ("--particles", "0"), "'--particles'"),
        (WEATHER + "observe(umbrella@t). query(rain@2).", (), "the program reads umbrella"),
        (WEATHER + "observe(umbrella@t). query(rain@2).", (), "`nesymm filter FILE --data"),
        (":- input(go@t, bool). a@t :- go@t. query(a@1).", (), "the program reads go from data"),
        ("nn(net, [1], Y, [a, b])::s(Y)@t. query(s(a)@1).", (), "`--networks module:object`"),
        (DRIFT + "query(far@1).", ("--method", "exact"), "use particles"),
        (
            WEATHER + "observe(rain@1, true). observe(rain@1, false). query(rain@2).",
            (),
            "error: step 1: the evidence is impossible (",
        ),
        (
            WEATHER + "observe(rain@1, true). observe(rain@1, false). query(rain@2).",
            ("--method", "bootstrap"),
            "error: step 1: no particle explains the evidence",
        ),
        (
            ":- domain(n/1, 1, 0..1). n(0)@0. n(N + 1)@t :- n(N)@(t-1). query(n(1)@3).",
            (),
            "error: step 2: n/1 leaves its domain",
        ),
    ],
)
def test_mistakes_in_queries(write, text: str, args: tuple[str, ...], message: str) -> None:
    result = run("query", write(text), *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert isinstance(result.exception, SystemExit)


# ---------------------------------------------------------------- filter

SEEN = WEATHER + "observe(umbrella@t). query(rain@t). query(rain@1). query(rain@T)."
SEQUENCES = [[True, None, False], [False, False], [True]]


@pytest.fixture
def weather(write, save) -> tuple[str, str]:
    """A program and data with missing entries and sequences of different lengths."""
    umbrella = np.full((3, 3), 7.0)  # what lies after the end is not looked at
    for b, row in enumerate(SEQUENCES):
        umbrella[b, : len(row)] = [math.nan if v is None else v for v in row]
    return write(SEEN), save(umbrella=umbrella, length=np.array([3, 2, 1]))


def test_filter_agrees_with_enumeration(weather) -> None:
    program, data = weather
    result = run("filter", program, "--data", data, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = strict(result.stdout)
    assert set(found) == {"method", "sequences"}
    assert found["method"] == "exact forward"
    step = ground(check(parse(SEEN, "program")))
    for b, row in enumerate(SEQUENCES):
        one = found["sequences"][b]
        assert set(one) == {"log_evidence", "effective_sample_size", "queries", "error"}
        assert one["error"] is None
        assert len(one["effective_sample_size"]) == len(row)
        expected = infer(step, len(row) - 1, {"umbrella": row})
        queries = one["queries"]
        assert queries["rain@t"] == pytest.approx(expected.filtered["rain@t"], abs=1e-5)
        assert queries["rain@T"] == pytest.approx(expected.queries["rain@T"], abs=1e-5)
        # There is no step 1 in a sequence of one step.
        if len(row) > 1:
            assert queries["rain@1"] == pytest.approx(expected.queries["rain@1"], abs=1e-5)
        else:
            assert queries["rain@1"] is None
        assert one["log_evidence"] == pytest.approx(math.log(expected.evidence), abs=1e-5)


def test_filter_with_particles(weather) -> None:
    program, data = weather
    args = ("filter", program, "--data", data, "--json", "--method", "bootstrap")
    found = strict(run(*args, "--particles", "2000").stdout)
    assert found["method"] == "bootstrap, 2,000 particles"
    first = found["sequences"][0]
    assert first["queries"]["rain@t"] == pytest.approx([0.6585, 0.5634, 0.1215], abs=0.06)
    assert all(1 <= e <= 2001 for e in first["effective_sample_size"])
    assert strict(run(*args, "--particles", "2000").stdout) == found
    assert strict(run(*args, "--particles", "2000", "--seed", "4").stdout) != found


def test_a_query_at_some_steps_is_null_at_the_others(write, save) -> None:
    program = write(WEATHER + "observe(umbrella@t). query(rain@(1:1)).")
    data = save(umbrella=np.ones((1, 3)))
    found = strict(run("filter", program, "--data", data, "--json").stdout)
    row = found["sequences"][0]["queries"]["rain@(1:1)"]
    assert (row[0], row[2]) == (None, None) and 0 < row[1] < 1


CERTAIN = "0.5::a@0. a@t :- a@(t-1). observe(a@t). query(a@t). query(a@T)."


def test_an_impossible_sequence_does_not_stop_the_others(write, save) -> None:
    program = write(CERTAIN)
    data = save(a=np.array([[True, True, True], [True, False, True], [False, False, False]]))
    result = run("filter", program, "--data", data, "--json")
    assert result.exit_code == 0
    said = "the evidence is impossible (observed: a)"
    assert result.stderr == f"1 of 3 failed: sequence 1, step 1: {said}\n"
    sequences = strict(result.stdout)["sequences"]
    assert sequences[1] == {
        "log_evidence": None,
        "effective_sample_size": [1.0, None, None],
        "queries": {"a@t": [1.0, None, None], "a@T": None},
        "error": f"step 1: {said}",
    }
    for b, p in ((0, 1.0), (2, 0.0)):
        assert sequences[b]["error"] is None
        assert sequences[b]["queries"] == {"a@t": [p] * 3, "a@T": p}
        assert sequences[b]["log_evidence"] == pytest.approx(math.log(0.5), abs=1e-5)


def test_all_sequences_fail(write, save) -> None:
    program, data = write(CERTAIN), save(a=np.array([[True, False], [False, True]]))
    result = run("filter", program, "--data", data, "--json")
    assert result.exit_code == 2
    assert all(s["error"] for s in strict(result.stdout)["sequences"])
    assert result.stderr.startswith("2 of 2 failed: sequence 0, step 1: the evidence is impossible")
    assert result.stderr.endswith("(and 1 more)\n")
    assert run("filter", program, "--data", data).exit_code == 2


def test_the_tables_of_sequences(weather) -> None:
    program, data = weather
    result = run("filter", program, "--data", data)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "sequence 0",
        "step     rain@t",
        "   0   0.658537",
        "   1   0.563415",
        "   2   0.121544",
    ]
    summary = lines[lines.index("summary") + 1 :]
    assert summary[0].split() == ["sequence", "steps", "log-evidence", "rain@1", "rain@T"]
    assert summary[1].split() == ["0", "3", "-1.73036", "0.404074", "0.121544"]
    assert summary[3].split() == ["2", "1", "-0.891598", "0.658537"]
    assert result.stderr.startswith("(exact forward: ")


def test_what_is_long_is_shortened(write, save) -> None:
    program = write(CERTAIN)
    values = np.ones((30, 50))
    values[5, 3] = 0
    data = save(a=values)
    result = run("filter", program, "--data", data, "--method", "bootstrap", "--particles", "20")
    lines = result.stdout.splitlines()
    assert len(lines) < 80
    assert "   …     …           …" in [line.rstrip() for line in lines]
    assert "the steps of 27 more sequences, the summary of 10 more sequences" in lines[-1]
    assert "no particle explains the evidence" in result.stdout
    assert result.stderr.count("\n") == 2


def test_inputs_with_names_values_and_tensors(
    write, save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tensor_nets.py").write_text(
        "import jax.numpy as jnp\nnetworks = {'net': lambda x: jnp.stack([0.0, jnp.sum(x)])}\n"
    )
    program = write(
        ":- const(p, 0.1). :- input(action(A)@t, [up, down]). :- input(image@t).\n"
        ":- network(net, 2).\n"
        "kind(K)@t ~ categorical(net(image@t), [cat, dog]).\n"
        "p::moved@t :- action(up)@t. seen(N)@t ~ uniform_int(1, 3).\n"
        "observe(seen@t). query(moved@t). query(kind(dog)@t)."
    )
    data = save(
        action=np.array([["up", "down"]]),
        image=np.array([[[0.0, 0.0], [math.log(3) / 2, math.log(3) / 2]]]),
        seen=np.array([[1, 3]]),
    )
    result = run(
        "filter", program, "--data", data, "--json", "--const", "p=0.4",
        "--networks", "tensor_nets:networks",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (found,) = strict(result.stdout)["sequences"]
    assert found["queries"]["moved@t"] == pytest.approx([0.4, 0.0], abs=1e-5)
    assert found["queries"]["kind(dog)@t"] == pytest.approx([0.5, 0.75], abs=1e-5)
    assert found["log_evidence"] == pytest.approx(2 * math.log(1 / 3), abs=1e-5)


# ---------------------------------------------------------------- filter: drawings


@pytest.mark.parametrize("method", ["exact", "bootstrap"])
def test_a_drawing(weather, tmp_path: Path, method: str) -> None:
    from PIL import Image

    program, data = weather
    out = tmp_path / "out.png"
    result = run("filter", program, "--data", data, "--method", method, "--plot", str(out))
    assert result.exit_code == 0, result.output
    assert f"wrote {out}\n" in result.stderr
    with Image.open(out) as image:
        assert image.format == "PNG" and min(image.size) > 400
        assert len(image.convert("RGB").getcolors(1 << 20)) > 50


def test_a_drawing_of_failures_many_queries_and_odd_names(write, save, tmp_path: Path) -> None:
    program = write(
        CERTAIN + " p('$x_1^$', N)@t :- between(1, 12, N), a@t. 0.5::s. query(s). query(p(_, _)@t)."
    )
    data = save(a=np.array([[True, False]] + [[True, True]] * 8))
    out = tmp_path / "out.svg"
    result = run("filter", program, "--data", data, "--plot", str(out))
    assert result.exit_code == 0, result.output
    assert out.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.txt", "the name must end in .png, .pdf or .svg"),
        ("out", "the name must end in .png, .pdf or .svg"),
        ("none/out.png", "there is no folder"),
        ("folder.png", "cannot write"),
    ],
)
def test_drawings_that_cannot_be_written(weather, tmp_path: Path, name: str, message: str) -> None:
    program, data = weather
    (tmp_path / "folder.png").mkdir()
    result = run("filter", program, "--data", data, "--plot", str(tmp_path / name))
    assert result.exit_code == 2
    assert message in result.stderr


# ---------------------------------------------------------------- filter: mistakes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "has no array for the observation umbrella (it has: none)"),
        ({"rain": np.ones((1, 3))}, "has no array for the observation umbrella (it has: rain)"),
        (
            {"umbrella": np.ones((1, 3)), "wind": np.ones((1, 3))},
            "the program reads no data called wind",
        ),
        ({"umbrella": np.ones(3)}, "expected axes (batch, time, …)"),
        ({"umbrella": np.float64(1)}, "received a scalar"),
        ({"umbrella": np.ones((2, 3, 4))}, "received (2, 3, 4)"),
        ({"umbrella": np.ones((0, 3))}, "umbrella is empty, its shape is (0, 3)"),
        ({"umbrella": np.ones((2, 0))}, "umbrella is empty, its shape is (2, 0)"),
        ({"umbrella": np.full((1, 3), 2)}, "outside its domain, bool"),
        ({"umbrella": np.full((1, 3), "yes")}, "expected numbers or truth values, received an"),
        ({"umbrella": np.ones((1, 3), complex)}, "received an array of complex128"),
        ({"umbrella": np.array([[True, None]])}, "the array umbrella: it holds Python objects"),
        ({"umbrella": np.ones((2, 3)), "length": np.array([3, 4])}, "must lie in 1..3"),
        ({"umbrella": np.ones((2, 3)), "length": np.array([3, 0])}, "must lie in 1..3"),
        ({"umbrella": np.ones((2, 3)), "length": np.array([3])}, "the batch axes differ"),
        ({"umbrella": np.ones((2, 3)), "length": np.array([1.0, 2])}, "expected whole numbers"),
        ({"umbrella": np.ones((2, 3)), "length": np.ones((2, 1), int)}, "received shape (2, 1)"),
    ],
)
def test_mistakes_in_data(write, save, arrays: dict[str, Any], message: str) -> None:
    result = run("filter", write(SEEN), "--data", save(**arrays))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: `") and "data.npz`" in result.stderr
    assert message in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "content",
    [b"", b"umbrella\n1\n0\n", b"PK\x03\x04 cut short", b"\x93NUMPY\x01\x00", b"\x80\x04."],
)
def test_files_that_are_not_npz(write, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    result = run("filter", write(SEEN), "--data", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`{path}` is not an .npz file" in result.stderr


def test_files_that_are_cut_or_changed(write, save) -> None:
    path = Path(save(umbrella=np.ones((20, 30))))
    whole = path.read_bytes()
    for content in (whole[:-100], whole[:200] + b"x" * 50 + whole[250:], whole[:60]):
        path.write_bytes(content)
        result = run("filter", write(SEEN), "--data", str(path))
        assert (result.exit_code, result.stdout) == (2, "")
        assert isinstance(result.exception, SystemExit)


def test_one_array_is_not_a_file_of_arrays(write, tmp_path: Path) -> None:
    path = tmp_path / "data.npy"
    np.save(path, np.ones((1, 3)))
    result = run("filter", write(SEEN), "--data", str(path))
    assert result.exit_code == 2 and "expected data in .npz" in result.stderr
    result = run("filter", write(SEEN), "--data", str(tmp_path / "none.npz"))
    assert result.exit_code == 2 and "No such file or directory" in result.stderr
    result = run("filter", write(SEEN), "--data", str(tmp_path))
    assert result.exit_code == 2 and "has no table (.csv, .parquet)" in result.stderr


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("0.5::a. observe(a). query(a).", (), "this program has no time; `nesymm query`"),
        (SEEN, ("--method", "enumerate"), "there is no method enumerate"),
        (SEEN, ("--steps", "8"), "steps: umbrella has 3, received 8"),
        (SEEN, ("--const", "n=1"), "the program has no constant called n"),
        (SEEN + "nope nope.", (), "program.nsl:"),
        ("nn(net, [1], Y, [a, b])::s(Y)@t. query(s(a)@t).", (), "net are not given"),
    ],
)
def test_mistakes_around_data(write, save, text: str, args: tuple[str, ...], message: str) -> None:
    result = run("filter", write(text), "--data", save(umbrella=np.ones((2, 3))), *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_mistakes_as_json(write, save) -> None:
    result = run("filter", write(SEEN), "--data", save(), "--json")
    assert (result.exit_code, result.stderr) == (2, "")
    found = json.loads(result.stdout)
    assert found["ok"] is False and "no array" in found["diagnostics"][0]["message"]


def test_the_length_may_say_how_many_steps_there_are(write, save) -> None:
    program = write(WEATHER + ":- input(go). query(rain@T).")
    data = save(go=np.ones(2), length=np.array([1, 2]))
    found = strict(run("filter", program, "--data", data, "--json").stdout)
    answers = [s["queries"]["rain@T"] for s in found["sequences"]]
    assert answers == pytest.approx([0.3, 0.42], abs=1e-5)
    data = save(go=np.ones(1))
    result = run("filter", program, "--data", data)
    assert result.exit_code == 2 and "the number of steps is not known" in result.stderr
    found = strict(run("filter", program, "--data", data, "--json", "--steps", "2").stdout)
    assert found["sequences"][0]["queries"]["rain@T"] == pytest.approx(0.42, abs=1e-5)
