"""`nesymm train`, `nesymm evaluate` and `nesymm generate`: what they do, write and refuse."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilation import shared_compilation  # noqa: F401
from interruption import NESYMM
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import nesymm
from nesymm import files
from nesymm.cli import model_files
from nesymm.cli.config import optimizers, read_config
from nesymm.cli.main import app
from nesymm.cli.scores import score
from nesymm.cli.toml_tables import ConfigError
from nesymm.inference.methods import ExactForward
from nesymm.training import Fitted, LogEvidence, QueryLoss, TrainingError, checkpoints
from nesymm.training.networks import MLP

ROOT = Path(__file__).parent.parent
PROGRAM = """
:- const(n, 2).
:- input(signal@t).
:- network(sensor, 2).
t(0.5)::on@0.
t(0.6)::on@t :- on@(t-1).
t(0.4)::on@t :- not on@(t-1).
seen(S)@t ~ categorical(sensor(signal@t), [no, yes]).
agrees@t :- seen(yes)@t, on@t.
agrees@t :- seen(no)@t, not on@t.
observe(agrees@t, true).
query(on@t).
query(on@T).
"""
CONFIG = """
[program]
file = "switch.nsl"

[networks.sensor]
kind = "mlp"
inputs = 1
width = 4
depth = 1

[data]
train = "train.npz"
validation = "validation.npz"

[[objective]]
kind = "query"
query = "on@T"
labels = "last"

[[objective]]
kind = "log-evidence"
weight = 0.1

[training]
method = "exact"
epochs = 12
batch_size = 20

[training.optimizer]
name = "adamw"
learning_rate = 0.05
schedule = "cosine"
weight_decay = 0.001
"""
RAIN = """
0.7::rain@t :- rain@(t-1).
0.2::rain@t.
0.9::umbrella@t :- rain@t.
0.1::umbrella@t.
observe(umbrella@t).
query(rain@t).
query(rain@T).
"""


def run(*args: object) -> Result:
    return CliRunner().invoke(app, list(map(str, args)))


def simulate(number: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    on = np.zeros((number, steps), bool)
    on[:, 0] = random.random(number) < 0.5
    for t in range(1, steps):
        on[:, t] = random.random(number) < np.where(on[:, t - 1], 0.8, 0.2)
    signal = np.where(on, 1.0, -1.0) + random.normal(0, 0.5, on.shape)
    return {"signal": signal[..., None].astype("float32"), "last": on[:, -1].astype(float)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything to train."""
    path = tmp_path_factory.mktemp("train")
    (path / "switch.nsl").write_text(PROGRAM, encoding="utf-8")
    (path / "config.toml").write_text(CONFIG, encoding="utf-8")
    for name, seed in (("train", 0), ("validation", 1)):
        np.savez(path / f"{name}.npz", **simulate(60, 5, seed))
    return path


@pytest.fixture(scope="module")
def trained(folder: Path) -> tuple[Path, Result]:
    result = run("train", folder / "config.toml", "--out", folder / "trained")
    assert result.exit_code == 0, result.output
    return folder / "trained", result


def copy(folder: Path, into: Path) -> Path:
    """The folder somewhere else."""
    for file in folder.iterdir():
        if file.is_file():
            (into / file.name).write_bytes(file.read_bytes())
    return into / "config.toml"


# ---------------------------------------------------------------- train


def test_training_writes_its_files(trained: tuple[Path, Result]) -> None:
    out, result = trained
    assert "12 epochs (finished)" in result.stdout
    assert f"wrote {out / 'model.safetensors'}" in result.stdout
    assert sorted(p.name for p in (out / "checkpoints").iterdir())[-1] == "epoch-000012.safetensors"
    history = json.loads((out / "history.json").read_text(encoding="utf-8"))
    with (out / "history.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in history] == list(range(12))
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in history]
    assert history[-1]["validation"] < history[0]["validation"]
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")


class Spy:
    """Stands for `fit`: remembers how it was called, and learns nothing."""

    def __call__(self, model: nesymm.Model, data: dict[str, np.ndarray], **options):
        self.model, self.data, self.options = model, data, options
        return Fitted(model, [{"epoch": 0.0, "loss": 1.0}])


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    from nesymm.cli import train

    found = Spy()
    monkeypatch.setattr(train, "fit", found)
    return found


def test_the_configuration_is_what_fit_is_told(folder: Path, tmp_path: Path, spy: Spy) -> None:
    import jax
    import optax

    assert run("train", copy(folder, tmp_path), "--seed", "5").exit_code == 0
    told = spy.options
    assert told["objective"] == (QueryLoss("on@T", "last"), LogEvidence(weight=0.1))
    assert (told["epochs"], told["batch_size"], told["key"]) == (12, 20, 5)
    assert (told["method"], told["resume"]) == (ExactForward(), False)
    assert told["checkpoints"] == tmp_path / "config-out" / "checkpoints"
    for given, seed in ((spy.data, 0), (told["validation"], 1)):
        for name, array in simulate(60, 5, seed).items():
            np.testing.assert_array_equal(given[name], array)
    (key,) = jax.random.split(jax.random.key(5), 1)
    x = np.ones(1, "float32")
    expected = MLP(1, 2, width=4, depth=1, key=key)(x)
    np.testing.assert_array_equal(spy.model.networks["sensor"](x), expected)
    # 12 epochs of 3 batches, over which the rate falls.
    wanted = optax.adamw(optax.cosine_decay_schedule(0.05, 36), weight_decay=0.001)
    a, b = (_descend(tool) for tool in (told["optimizer"], wanted))
    np.testing.assert_array_equal(a, b)


def _descend(tool) -> np.ndarray:
    """A few steps down x²."""
    x = np.asarray(3.0)
    state = tool.init(x)
    for _ in range(5):
        step, state = tool.update(2 * x, state, x)
        x = np.asarray(x + step)
    return x


LEARNT_RAIN = """
[program]
file = "rain.nsl"
[data]
train = "rain.npz"
[training]
batch_size = 2
"""


def rainy(folder: Path, epochs: int) -> Path:
    """A folder with a program that learns quickly."""
    folder.mkdir(exist_ok=True)
    learnt = RAIN.replace("0.7::", "t(0.5)::")
    (folder / "rain.nsl").write_text(learnt, encoding="utf-8")
    (folder / "config.toml").write_text(f"{LEARNT_RAIN}epochs = {epochs}\n", encoding="utf-8")
    umbrella = np.random.default_rng(0).random((4, 3)) < 0.4
    np.savez(folder / "rain.npz", umbrella=umbrella)
    return folder / "config.toml"


def test_a_resumed_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert run("train", rainy(whole, 3)).exit_code == 0
    assert run("train", rainy(part, 1)).exit_code == 0
    result = run("train", rainy(part, 3), "--resume")
    assert (result.exit_code, "3 epochs" in result.stdout) == (0, True)
    a, b = (load_file(p / "config-out" / "model.safetensors") for p in (whole, part))
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_damaged_checkpoint_is_passed_over_with_a_note(tmp_path: Path) -> None:
    assert run("train", rainy(tmp_path, 2)).exit_code == 0
    last = tmp_path / "config-out" / "checkpoints" / "epoch-000002.safetensors"
    last.write_bytes(last.read_bytes()[:-50])
    result = run("train", rainy(tmp_path, 2), "--resume")
    assert (result.exit_code, "2 epochs" in result.stdout) == (0, True)
    assert result.stderr.startswith(f"\nnote: damaged checkpoint: {last} is not a whole")
    assert "training resumes from the one before it" in result.stderr
    assert "warnings.warn" not in result.stderr and ".py" not in result.stderr


def added(config: Path, line: str) -> Path:
    config.write_text(config.read_text(encoding="utf-8") + line, encoding="utf-8")
    return config


def test_results_do_not_go_into_a_file(tmp_path: Path) -> None:
    result = run("train", added(rainy(tmp_path, 1), 'out = "rain.nsl"\n'))
    assert (result.exit_code, result.stdout) == (2, "")
    told = f"error: cannot make the folder `{tmp_path / 'rain.nsl'}`: File exists\n"
    assert result.stderr == told


def test_a_configuration_has_the_options_of_fit(tmp_path: Path, spy: Spy) -> None:
    assert run("train", added(rainy(tmp_path, 1), "average = 0.5\n")).exit_code == 0
    assert spy.options["average"] == 0.5
    wrong = {
        "average = 2": "average: expected a share from 0 to 1, received 2",
        "seed = 99999999999999999999999": "seed: expected a whole number from 0 to 4294967295, rec",
        "seed = -1": "seed: expected a whole number from 0 to 4294967295, received -1",
        "clip = 0": "clip: expected a number above 0, received 0",
        "keep = 0": "keep: expected a whole number from 1, received 0",
    }
    for line, message in wrong.items():
        with pytest.raises(ConfigError, match=message):
            read_config(added(rainy(tmp_path, 1), f"{line}\n"))
    config = added(rainy(tmp_path, 1), "average = 0.5\n")
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("[data]", '[data]\nvalidation = "rain.npz"'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"average: with \[data\] validation the best epoch"):
        read_config(config)


def test_an_earlier_run_is_not_overwritten(folder: Path, trained: tuple[Path, Result]) -> None:
    result = run("train", folder / "config.toml", "--out", trained[0])
    assert result.exit_code == 2
    assert "has checkpoints of an earlier run, up to epoch 12" in result.stderr
    assert "`--resume`" in result.stderr


def test_json_has_the_history_and_nothing_else(folder: Path, trained: tuple[Path, Result]) -> None:
    result = run("train", folder / "config.toml", "--out", trained[0], "--resume", "--json")
    found = json.loads(result.stdout)
    assert found["stopped"] == "finished"
    assert len(found["history"]) == 12
    assert set(found["parameters"]) == {"on", "on.2", "on.3"}


def test_a_loss_that_is_not_finite_is_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nesymm.cli import train

    def fail(model: nesymm.Model, data, **options):
        raise TrainingError("the loss is nan in epoch 0, batch 1", model, [])

    monkeypatch.setattr(train, "fit", fail)
    result = run("train", rainy(tmp_path, 1))
    assert (result.exit_code, result.stdout) == (3, "")
    last = tmp_path / "config-out" / "last-good.safetensors"
    told = "error: the loss is nan in epoch 0, batch 1\nthe numbers before it are in"
    assert result.stderr == f"{told} {last}\n"
    assert model_files.load(last).parameters == {"rain": 0.5}


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    rainy(tmp_path, 100_000)
    child = subprocess.Popen(
        [*NESYMM, "train", "config.toml", "--seed", "3"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    checkpoints = tmp_path / "config-out" / "checkpoints"
    deadline = time.monotonic() + 120
    while not list(checkpoints.glob("epoch-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert b"Traceback" not in err
    last = max(int(p.stem[-6:]) for p in checkpoints.glob("epoch-*"))
    told = f"{last} epochs are kept; resume with: nesymm train config.toml --resume --seed 3"
    assert told.encode() in err


SIZES = 'kind = "mlp"\ninputs = 1\nwidth = 4\ndepth = 1\n'


def test_networks_of_the_user(folder: Path, tmp_path: Path, spy: Spy) -> None:
    (tmp_path / "my_sensor_net.py").write_text(
        "from nesymm.training.networks import MLP\n"
        "def make(key):\n    return MLP(1, 2, width=3, depth=1, key=key)\n",
        encoding="utf-8",
    )
    config = copy(folder, tmp_path)
    text = CONFIG.replace(SIZES, 'kind = "my_sensor_net:make"\n')
    config.write_text(text, encoding="utf-8")
    result = run("train", config)
    assert result.exit_code == 0, result.output
    made = spy.model.networks["sensor"]
    file = tmp_path / "config-out" / "model.safetensors"
    loaded = model_files.load(file, "my_sensor_net").networks["sensor"]
    assert loaded.layers.layers[0].weight.shape == (3, 1)
    x = np.ones(1, "float32")
    np.testing.assert_array_equal(loaded(x), made(x))


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file that names a module of the current folder, and that module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "surprise.py").write_text(
        "open('ran', 'w').close()\ndef make(key):\n    return lambda x: x\n", encoding="utf-8"
    )
    model = nesymm.compile(":- network(n, 1). x(1)@0. a@t ~ bernoulli(n(1)). query(a@t).")
    specification = {"n": {"kind": "surprise:make"}}
    files.write(model, specification, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("command", ["evaluate", "generate"])
@pytest.mark.parametrize("networks", [(), ("--networks", "json:loads"), ("--networks", "sur")])
def test_a_model_file_does_not_run_code(
    foreign: Path, command: str, networks: tuple[str, ...]
) -> None:
    np.savez(foreign.with_name("data.npz"), length=np.array([2]))
    data = ("--data", "data.npz")
    result = run(command, foreign, *data, *networks)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "takes networks from surprise:make; a model file does not run code" in result.stderr
    assert "say `--networks surprise`" in result.stderr
    assert not foreign.with_name("ran").exists()
    assert "surprise" not in sys.modules


@pytest.mark.parametrize("place", ["surprise", "surprise:make"])
def test_a_model_file_may_use_a_module_that_the_user_names(foreign: Path, place: str) -> None:
    result = run("generate", foreign, "--steps", "3", "--networks", place)
    sys.modules.pop("surprise", None)
    assert result.exit_code == 0, result.output
    assert foreign.with_name("ran").exists()


@pytest.mark.parametrize(
    ("specifications", "message"),
    [
        ({"n": {"kind": "mlp", "inputs": 1, "odd": 3}}, "the network n: a mlp cannot be built"),
        ({"n": {"kind": "mlp"}}, "the network n: a mlp cannot be built"),
        ({"n": {}}, "it does not say of which kind its networks are"),
        ([1], "it does not say of which kind its networks are"),
    ],
)
def test_damaged_model_files(tmp_path: Path, specifications: Any, message: str) -> None:
    model = nesymm.compile(":- network(n, 1). x(1)@0. a@t ~ bernoulli(n(1)). query(a@t).")
    about = {**checkpoints.describe(model), "networks": specifications}
    checkpoints.write(tmp_path / "model.safetensors", {}, about)
    result = run("generate", tmp_path / "model.safetensors", "--steps", "3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_networks_that_a_model_file_does_not_need(trained: tuple[Path, Result]) -> None:
    result = run("generate", trained[0] / "model.safetensors", "--networks", "nets:all")
    assert result.exit_code == 2
    assert "takes no networks from nets" in result.stderr


def test_a_model_file_keeps_parameters_of_several_entities(tmp_path: Path) -> None:
    model = nesymm.compile(
        "e(E) :- between(1, 3, E). t(_, E)::b(E)@t :- e(E). x@t :- b(E)@t. query(x@T)."
    )
    model = model.with_parameters(b=np.asarray([0.1, 0.2, 0.3]))
    files.write(model, {}, tmp_path / "model.safetensors")
    loaded = model_files.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.parameters["b"], [0.1, 0.2, 0.3])


# ---------------------------------------------------------------- mistakes in a configuration


def line(text: str) -> int:
    return CONFIG.splitlines().index(text) + 1


def mistakes(folder: Path, tmp_path: Path, old: str, new: str) -> str:
    config = copy(folder, tmp_path)
    assert old in CONFIG
    config.write_text(CONFIG.replace(old, new), encoding="utf-8")
    result = run("train", config)
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (tmp_path / "config-out").exists()
    return result.stderr.replace(str(tmp_path) + os.sep, "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "epochs = 12",
            "epoch = 2",
            f"config.toml:{line('epochs = 12')}: [training] epoch: there is no such key "
            "(there are: optimizer, method,",
        ),
        ("epochs = 12", "epoch = 2", "= help: did you mean epochs?"),
        (
            "epochs = 12",
            'epochs = "two"',
            '[training] epochs: expected a whole number from 1, received "two"',
        ),
        ("epochs = 12", "epochs = 0", "epochs: expected a whole number from 1, received 0"),
        ("epochs = 12", "epochs = true", "epochs: expected a whole number from 1, received true"),
        ("[training]", "[trainings]", "trainings: there is no such key"),
        (
            '"exact"',
            '"exakt"',
            "method: expected auto, exact, rao-blackwellised, bootstrap or paper, "
            'received "exakt"\n  = help: did you mean exact?',
        ),
        (
            "inputs = 1\n",
            "",
            f"config.toml:{line('[networks.sensor]')}: [networks.sensor] inputs: is missing; "
            "expected a whole number from 1",
        ),
        ('"mlp"', '"mpl"', "expected mlp, conv-encoder, conv-decoder or module:object"),
        ("width = 4", "widths = 4", "[networks.sensor] widths: there is no such key"),
        ("[networks.sensor]", "[networks.eye]", "the program has no such network (it has: sensor)"),
        (
            '"switch.nsl"',
            '"swich.nsl"',
            "[program] file: expected a file, but `swich.nsl` does not",
        ),
        ('"train.npz"', '"."', "[data] train: expected a file, but `"),
        ('labels = "last"\n', "", "[objective 1] labels: is missing; expected a text"),
        (
            "weight = 0.1",
            "weight = -1",
            f"config.toml:{line('weight = 0.1')}: [objective 2] weight: expected a number",
        ),
        ('labels = "last"', 'labels = "first"', "has no labels first (it has: signal, last)"),
        ('query = "on@T"', 'query = "off@T"', "off@T is not asked"),
        ('"adamw"', '"adamm"', "= help: did you mean adam?"),
        ("weight_decay", "weightdecay", "= help: did you mean weight_decay?"),
        ("[program]", "[program", "`config.toml` is not TOML"),
        ("[program]", "[program]\nextensions = 3", "extensions: expected a list of files"),
        (
            'file = "switch.nsl"',
            'file = "switch.nsl"\nconstants = {m = 3}',
            "the program has no constant called m",
        ),
        ("inputs = 1", "inputs = 3", "the network sensor failed"),
        ('kind = "mlp"\n', 'kind = "conv-decoder"\nchannels = [2]\n', "there is no such key"),
        (SIZES, 'kind = "no_such_module:make"\n', "No module named 'no_such_module'"),
    ],
)
def test_mistakes_in_a_configuration(
    folder: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in mistakes(folder, tmp_path, old, new)


def test_patience_needs_something_to_watch(tmp_path: Path) -> None:
    config = added(rainy(tmp_path, 1), "patience = 2\n")
    with pytest.raises(ConfigError, match=r"patience: needs \[data\] validation, whose loss"):
        read_config(config)


def test_all_mistakes_are_reported_at_once(folder: Path, tmp_path: Path) -> None:
    config = copy(folder, tmp_path)
    text = CONFIG.replace("epochs = 12", "epochs = -2").replace('"train.npz"', '"no.npz"')
    config.write_text(text + "colour = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(config)
    assert len(str(caught.value).split("config.toml:")) - 1 == 3


def test_a_network_without_a_section(folder: Path, tmp_path: Path) -> None:
    config = copy(folder, tmp_path)
    start, end = CONFIG.index("[networks"), CONFIG.index("[data]")
    config.write_text(CONFIG[:start] + CONFIG[end:], encoding="utf-8")
    result = run("train", config)
    assert result.exit_code == 2
    assert "the networks sensor are not given" in result.stderr
    assert "add a section [networks.NAME]" in result.stderr


def test_the_optimisers_make_updates() -> None:
    import optax

    known = optimizers()
    assert {"adam", "adamw", "sgd", "rmsprop", "lion"} <= set(known)
    assert "lbfgs" not in known
    assert set(known["sgd"]) == {"momentum", "nesterov"}
    for name in ("adam", "sgd", "adagrad"):
        assert isinstance(getattr(optax, name)(learning_rate=0.1), tuple)


# ---------------------------------------------------------------- evaluate


@pytest.fixture
def rain(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "rain.nsl").write_text(RAIN, encoding="utf-8")
    random = np.random.default_rng(4)
    umbrella = (random.random((6, 4)) < 0.5).astype(float)
    labels = (random.random((6, 4)) < 0.5).astype(float)
    labels[0, 1] = np.nan
    np.savez(tmp_path / "rain.npz", umbrella=umbrella, wet=labels, end=labels[:, -1])
    return str(tmp_path / "rain.nsl"), str(tmp_path / "rain.npz")


def test_evaluation_of_a_program_is_what_filter_finds(rain: tuple[str, str]) -> None:
    program, data = rain
    arrays = dict(np.load(data))
    expected = nesymm.compile(RAIN).filter({"umbrella": arrays["umbrella"]}, method="exact")
    args = ("--data", data, "--labels", "end=rain@T", "--labels", "wet=rain@t", "--json")
    result = run("evaluate", program, *args)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    np.testing.assert_allclose(
        [s["log_evidence"] for s in found["sequences"]], expected.log_evidence, rtol=1e-6
    )
    p, told = expected.final["rain@T"], arrays["end"]
    assert found["labels"]["end"]["accuracy"] == pytest.approx(np.mean((p >= 0.5) == told))
    assert found["labels"]["end"]["log_loss"] == pytest.approx(
        -np.mean(np.where(told == 1, np.log(p), np.log1p(-p))), rel=1e-5
    )
    assert (found["labels"]["wet"]["query"], found["labels"]["wet"]["known"]) == ("rain@t", 23)


def test_evaluation_needs_only_the_model_file(
    trained: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "moved.safetensors"
    model.write_bytes((trained[0] / "model.safetensors").read_bytes())
    np.savez(tmp_path / "test.npz", **simulate(40, 5, 2))
    monkeypatch.chdir(tmp_path)
    result = run("evaluate", "moved.safetensors", "--data", "test.npz", "--labels", "last=on@T")
    assert result.exit_code == 0, result.output
    assert "log-evidence of 40 sequences together" in result.stdout
    row = result.stdout.splitlines()[-1].split()
    assert row[:3] == ["last", "on@T", "40"]
    assert float(row[3]) > 0.8


def test_a_model_is_extended_and_its_constants_changed(
    trained: tuple[Path, Result], tmp_path: Path
) -> None:
    more = tmp_path / "more.nsl"
    more.write_text("many@t :- on@t, n > 2.\nquery(many@T).\n", encoding="utf-8")
    np.savez(tmp_path / "test.npz", signal=simulate(3, 5, 2)["signal"])
    args = ("--data", tmp_path / "test.npz", "--json", "--extend", more)
    model = trained[0] / "model.safetensors"
    few = json.loads(run("evaluate", model, *args).stdout)["sequences"][0]["queries"]
    many = json.loads(run("evaluate", model, *args, "--const", "n=3").stdout)
    assert few["many@T"] == 0
    queries = many["sequences"][0]["queries"]
    assert queries["many@T"] == pytest.approx(queries["on@T"]) == pytest.approx(few["on@T"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--labels", "end"), "`--labels end`: write NAME=QUERY"),
        (("--labels", "end=snow@T"), "the program does not ask snow@T (it asks: rain@T, rain@t)"),
        (("--labels", "start=rain@T"), "has no labels start (it has: umbrella, wet, end)"),
        (("--labels", "end=rain@t"), "expected 6 × 4 of them, received 6"),
        (("--labels", "end=rain@T", "--labels", "end=rain@t"), "the labels end are given twice"),
        (("--const", "n=3"), "the program has no constant called n"),
        (("--method", "exakt"), "there is no method exakt"),
        (("--extend", "none.nsl"), "cannot read"),
    ],
)
def test_mistakes_of_evaluate(rain: tuple[str, str], args: tuple[str, ...], message: str) -> None:
    result = run("evaluate", rain[0], "--data", rain[1], *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_what_is_not_read_is_named(rain: tuple[str, str]) -> None:
    result = run("evaluate", rain[0], "--data", rain[1])
    assert result.exit_code == 0
    assert "not read: wet, end" in result.stderr


def test_files_that_are_not_models(rain: tuple[str, str], tmp_path: Path) -> None:
    for name, content in (("none", None), ("short", b"\x01\x02"), ("empty", b"")):
        path = tmp_path / f"{name}.safetensors"
        if content is not None:
            path.write_bytes(content)
        result = run("evaluate", path, "--data", rain[1])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: ")


def test_a_checkpoint_is_a_model(trained: tuple[Path, Result], tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", **simulate(40, 5, 2))
    folder = trained[0]
    both = [
        run("evaluate", path, "--data", tmp_path / "test.npz", "--json").stdout
        for path in (folder / "checkpoints" / "best.safetensors", folder / "model.safetensors")
    ]
    ours, theirs = ([s["log_evidence"] for s in json.loads(b)["sequences"]] for b in both)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


# ---------------------------------------------------------------- scores


def test_scores_by_hand() -> None:
    p = np.asarray([0.9, 0.8, 0.3, 0.6, 0.2, 0.5, np.nan, 0.7])
    y = np.asarray([1, 1, 1, 0, 0, 0, 1, np.nan])
    found = score(p, y)
    # Two of three true and one of three false labels are told; two false alarms.
    assert found.known == 6
    assert found.accuracy == pytest.approx(3 / 6)
    assert found.balanced_accuracy == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert found.f1 == pytest.approx(2 * 2 / (2 * 2 + 2 + 1))
    surprise = -math.log(0.9 * 0.8 * 0.3 * 0.4 * 0.8 * 0.5) / 6
    assert found.log_loss == pytest.approx(surprise)


def test_scores_that_labels_do_not_define() -> None:
    found = score(np.asarray([0.2, 0.1]), np.asarray([0.0, 0.0])).as_json()
    assert (found["accuracy"], found["balanced_accuracy"], found["f1"]) == (1.0, None, None)
    assert score(np.asarray([0.2]), np.asarray([np.nan])).as_json()["accuracy"] is None


# ---------------------------------------------------------------- generate

WALK = """
:- const(n, 5).
at(1)@0.
0.5::goes@t.
at(Y)@t :- at(X)@(t-1), goes@t, Y is min(n, X + 1).
at(X)@t :- at(X)@(t-1), not goes@t.
end@t :- at(n)@t.
query(end@T).
"""


@pytest.fixture
def walk(tmp_path: Path) -> str:
    (tmp_path / "walk.nsl").write_text(WALK, encoding="utf-8")
    return str(tmp_path / "walk.nsl")


def test_trajectories_of_a_program(walk: str) -> None:
    result = run("generate", walk, "--steps", "7", "--count", "8", "--seed", "1", "--json")
    assert result.exit_code == 0, result.output
    (sequence,) = json.loads(result.stdout)["sequences"]
    assert len(sequence["trajectories"]) == 8
    for trajectory in sequence["trajectories"]:
        cells = [int(step[0].removeprefix("at(")[:-1]) for step in trajectory["steps"]]
        assert cells[0] == 1 and len(cells) == 7
        assert all(b - a in (0, 1) for a, b in pairwise(cells))
        assert trajectory["queries"] == {"end@T": cells[-1] == 5}


def test_generation_obeys_evidence_about_the_end(walk: str, tmp_path: Path) -> None:
    (tmp_path / "end.nsl").write_text("observe(end@T, true).\n", encoding="utf-8")
    args = ("--steps", "7", "--count", "20", "--extend", tmp_path / "end.nsl", "--json")
    (sequence,) = json.loads(run("generate", walk, *args).stdout)["sequences"]
    assert all(t["queries"]["end@T"] for t in sequence["trajectories"])
    (sequence,) = json.loads(run("generate", walk, *args, "--const", "n=7").stdout)["sequences"]
    straight = [[f"at({x})"] for x in range(1, 8)]
    assert all(t["steps"] == straight for t in sequence["trajectories"])


def test_the_table_and_the_drawing(walk: str, tmp_path: Path) -> None:
    plot = tmp_path / "walk.png"
    result = run("generate", walk, "--steps", "4", "--count", "7", "--plot", plot)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:2] == ["trajectory 0", "   0  at(1)"]
    assert lines[-1] == "not shown: 2 more trajectories (--json has everything)"
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_generation_by_a_trained_model(trained: tuple[Path, Result], tmp_path: Path) -> None:
    np.savez(tmp_path / "given.npz", signal=simulate(2, 5, 3)["signal"])
    model = trained[0] / "model.safetensors"
    result = run("generate", model, "--data", tmp_path / "given.npz", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["sequences"]
    assert [len(s["trajectories"][0]["steps"]) for s in found] == [5, 5]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "the number of steps is not known"),
        (("--steps", "4", "--plot", "walk.txt"), "the name must end in .png, .pdf or .svg"),
        (("--steps", "4", "--data", "none.npz"), "cannot read `none.npz`"),
        (("--steps", "4", "--count", "0"), "count"),
        (("--steps", "4", "--networks", "nets:all"), "No module named 'nets'"),
    ],
)
def test_mistakes_of_generate(walk: str, args: tuple[str, ...], message: str) -> None:
    result = run("generate", walk, *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_programs_without_time_have_no_trajectories(tmp_path: Path) -> None:
    path = tmp_path / "coin.nsl"
    path.write_text("0.5::heads.\nquery(heads).\n", encoding="utf-8")
    result = run("generate", path)
    assert result.exit_code == 2
    assert "this program has no time, so it has no trajectories" in result.stderr


def test_help_names_the_keys_of_a_configuration() -> None:
    text = run("train", "--help").stdout
    assert all(f"[{s}]" in text for s in ("program", "networks.NAME", "data", "training.optimizer"))
