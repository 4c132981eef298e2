"""Checkpoints: nothing is lost, nothing half-written is taken for whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import nesymm
from nesymm.files import load, save
from nesymm.training import Fitted, fit
from nesymm.training.checkpoints import (
    CheckpointError,
    _progress,
    read,
    write,
)
from nesymm.training.networks import MLP

pytestmark = pytest.mark.compiled

PROGRAM = """
:- input(u(X)@t).
:- network(net, 1).
x@t ~ bernoulli(net(X)) :- u(X)@t.
t(0.7)::o@t :- x@t.
t(0.2)::o@t :- \\+ x@t.
observe(o@t).
query(x@t).
"""


KEY = jax.random.key(0)


def make_model() -> nesymm.Model:
    return nesymm.compile(PROGRAM, networks={"net": MLP(1, 1, 4, 1, key=KEY)})


def make_data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "u": rng.normal(size=(40, 1)),
        "o": rng.integers(0, 2, size=(40, 1)),
    }


def numbers(model: nesymm.Model) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves((model.parameters, dict(model.networks)))
            if not callable(x)]  # fmt: skip


def same(a: nesymm.Model, b: nesymm.Model) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True))


# Noisy enough that the best epoch is not the last.
OPTIONS = {
    "method": "exact", "batch_size": 8, "key": 3, "progress": False, "patience": 3,
    "optimizer": optax.adam(0.3), "validation": {k: v[:8] for k, v in make_data().items()},
}  # fmt: skip
EPOCHS = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    """A run that was never stopped, and all its checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    fitted = fit(
        make_model(), make_data(), epochs=EPOCHS, checkpoints=folder, every=2, keep=100, **OPTIONS
    )
    return fitted, folder


def upto(whole: tuple[Fitted, Path], last: str, folder: Path) -> Path:
    """The checkpoints that a run had when it died: those up to one."""
    for path in sorted(whole[1].glob("epoch-*"), key=_progress):
        shutil.copy(path, folder)
        if path.stem == last:
            return folder
    raise AssertionError(f"{last} was not written")


def resume(folder: Path, **options: object) -> Fitted:
    given = {**OPTIONS, "epochs": EPOCHS, "checkpoints": folder, "resume": True, **options}
    return fit(make_model(), make_data(), **given)


@pytest.mark.parametrize(
    "last",
    ["epoch-000002", "epoch-000000-batch-000002", "epoch-000001-batch-000004", "epoch-000004"],
)
def test_a_resumed_run_is_the_uninterrupted_one(
    whole: tuple[Fitted, Path], tmp_path: Path, last: str
) -> None:
    rest = resume(upto(whole, last, tmp_path))
    assert same(whole[0].model, rest.model)
    assert whole[0].history == rest.history


def test_a_run_that_stopped_early_has_nothing_left_to_do(tmp_path: Path) -> None:
    # Learning from the opposite of what it is judged by, it gets worse from the first epoch on.
    opposite = {**make_data(), "o": 0 * make_data()["o"]}
    options = {**OPTIONS, "patience": 1, "validation": {**opposite, "o": 1 + opposite["o"]}}
    options |= {"epochs": 9, "checkpoints": tmp_path}
    first = fit(make_model(), opposite, **options)
    again = fit(make_model(), opposite, resume=True, **options)
    assert first.stopped == again.stopped == "no better validation loss in 1 epochs"
    assert first.history == again.history and len(first.history) == 2
    assert same(first.model, again.model)


def test_a_new_run_does_not_mix_with_an_earlier_one(
    whole: tuple[Fitted, Path], tmp_path: Path
) -> None:
    folder = upto(whole, "epoch-000001-batch-000002", tmp_path)
    with pytest.raises(CheckpointError, match=r"earlier run, up to epoch-000001-batch-000002"):
        resume(folder, resume=False)
    with pytest.raises(CheckpointError, match="with batch_size 8, this run has 5"):
        resume(folder, batch_size=5)
    with pytest.raises(CheckpointError, match="a run with seed 3, this one has 4"):
        resume(folder, key=4)
    with pytest.raises(
        nesymm.NesymmError, match="keep: expected a whole number from 1, received 0"
    ):
        resume(folder, keep=0)


@pytest.mark.parametrize("every", [None, 2])
def test_a_killed_run_goes_on(tmp_path: Path, every: int | None) -> None:
    """The process really dies, in the middle of whatever it is doing."""
    options = {**OPTIONS, "patience": None}
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_checkpoints import OPTIONS, fit, make_data, make_model
        options = {{**OPTIONS, "patience": None, "epochs": 10_000, "every": {every}}}
        fit(make_model(), make_data(), checkpoints={str(tmp_path)!r}, **options)
    """)
    cache = {"JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir}
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **cache})
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("epoch-*.safetensors"))) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    last = max(tmp_path.glob("epoch-*.safetensors"), key=_progress)
    options["epochs"] = read(last)[1]["epoch"] + 2
    resumed = resume(tmp_path, **options)
    uninterrupted = fit(make_model(), make_data(), **options)
    assert same(uninterrupted.model, resumed.model)
    assert uninterrupted.history == resumed.history
    assert not list(tmp_path.glob(".*.partial"))


def test_a_truncated_checkpoint_is_rejected(tmp_path: Path) -> None:
    model = make_model()
    path = tmp_path / "model.safetensors"
    save(model, path)
    data = path.read_bytes()
    for size in range(0, len(data), 10):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match="not a whole checkpoint"):
            load(path, into=model)
    path.write_bytes(data)
    assert same(model, load(path, into=model))


def test_a_checkpoint_of_a_run_truncated_anywhere_is_rejected(
    whole: tuple[Fitted, Path], tmp_path: Path
) -> None:
    data = (whole[1] / "epoch-000004.safetensors").read_bytes()
    path = tmp_path / "epoch-000004.safetensors"
    for size in range(0, len(data), 10):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match="not a whole checkpoint"):
            read(path)


def test_a_checkpoint_of_something_else_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(make_model(), path)
    with pytest.raises(CheckpointError, match=r"line 4 was\n  x@t ~ .*\nand is\n  0.5::x@t."):
        other = PROGRAM.replace("x@t ~ bernoulli(net(X)) :- u(X)@t.", "0.5::x@t.")
        load(path, into=nesymm.compile(other))

    def built(width: int, depth: int) -> nesymm.Model:
        return nesymm.compile(PROGRAM, networks={"net": MLP(1, 1, width, depth, key=KEY)})

    with pytest.raises(CheckpointError, match=r"net.*weight has shape \(4, 1\), .* needs \(8, 1\)"):
        load(path, into=built(8, 1))
    with pytest.raises(CheckpointError, match=r"it has no .*net.*layers\[2\]"):
        load(path, into=built(4, 2))
    with pytest.raises(CheckpointError, match="there is no file"):
        load(tmp_path / "none.safetensors", into=make_model())
    # A network of fewer layers of the same shapes.
    save(built(1, 2), path)
    less = built(1, 1)
    with pytest.raises(CheckpointError, match=r"it has .*layers\[2\].*, the model does not"):
        load(path, into=less)
    load(path, into=less, check=False)
    sized = nesymm.compile(":- const(n, 2). :- const(k, 1). 0.5::x(n, k). query(x(A, B)).")
    save(sized, path)
    with pytest.raises(CheckpointError, match=r"constants: n was what the program says, is 3$"):
        load(path, into=sized.with_constants(n=3))
    save(sized.with_constants(n=4), path)
    with pytest.raises(CheckpointError, match=r"constants: n was 4, is 3$"):
        load(path, into=sized.with_constants(n=3))


def test_only_the_last_few_and_the_best_are_kept(
    whole: tuple[Fitted, Path], tmp_path: Path
) -> None:
    resume(upto(whole, "epoch-000001", tmp_path), keep=2)
    names = sorted(p.name for p in tmp_path.glob("epoch-*"))
    assert names == ["epoch-000003.safetensors", "epoch-000004.safetensors"]
    assert (whole[1] / "best.safetensors").exists()


def test_a_truncated_last_checkpoint_is_passed_over(
    whole: tuple[Fitted, Path], tmp_path: Path
) -> None:
    last = upto(whole, "epoch-000004", tmp_path) / "epoch-000004.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    told = (
        r"damaged checkpoint: .*epoch-000004.* is not a whole checkpoint.*\n.*resumes from the one"
    )
    with pytest.warns(nesymm.NesymmWarning, match=told):
        again = resume(tmp_path)
    assert same(whole[0].model, again.model)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with (
        pytest.warns(nesymm.NesymmWarning, match="not a whole checkpoint"),
        pytest.raises(CheckpointError, match="no checkpoint in"),
    ):
        resume(tmp_path)


DAMAGES = {
    "program": (7, "program: expected a text, received 7"),
    "constants": ([], r"constants: expected constants by name, received \[\]"),
    "seed": (-1, "seed: expected a whole number from 0 to 4294967295, received -1"),
    "epoch": ("2", "epoch: expected a whole number from 0, received '2'"),
    "batch": (1.5, "batch: expected a whole number from 0, received 1.5"),
    "losses": (None, "losses: expected a list of numbers, received None"),
    "history": ([3], r"history: expected a list of rows of numbers, received \[3\]"),
    "best": ("best", "best: expected a number or null, received 'best'"),
}


def test_damaged_json_is_told_in_words(whole: tuple[Fitted, Path], tmp_path: Path) -> None:
    arrays, about = read(whole[1] / "epoch-000002.safetensors")
    path, model = tmp_path / "damaged.safetensors", make_model()
    for key, (value, told) in DAMAGES.items():
        write(path, arrays, {**about, key: value})
        with pytest.raises(CheckpointError, match=f"damaged.safetensors is damaged: {told}"):
            load(path, into=model)
        write(path, arrays, {k: v for k, v in about.items() if k != key})
        with pytest.raises(CheckpointError, match=f"is damaged: it has no {key}"):
            read(path, of_run=True)
    write(path, arrays, {**about, "batch": 1})
    with pytest.raises(CheckpointError, match="batch is 1, losses has 0 entries"):
        load(path, into=model)


def test_numbers_out_of_range_are_those_of_a_damaged_file(tmp_path: Path) -> None:
    path, model = tmp_path / "model.safetensors", make_model()
    save(model, path)
    arrays, about = read(path)
    for number in (7.0, -1.0, np.nan):
        write(path, {**arrays, "['parameters']['o']": np.asarray(number)}, about)
        told = f"model.safetensors is damaged: parameter o: expected .* 0 to 1, received {number:g}"
        with pytest.raises(CheckpointError, match=told):
            load(path, into=model)


@pytest.mark.parametrize("key", ["epoch", "best"])
def test_a_damaged_last_checkpoint_is_passed_over(
    whole: tuple[Fitted, Path], tmp_path: Path, key: str
) -> None:
    last = upto(whole, "epoch-000004", tmp_path) / "epoch-000004.safetensors"
    arrays, about = read(last)
    write(last, arrays, {k: v for k, v in about.items() if k != key})
    with pytest.warns(nesymm.NesymmWarning, match=f"it has no {key}\n.*the one before it"):
        again = resume(tmp_path)
    assert same(whole[0].model, again.model)


def test_a_model_is_read_from_the_checkpoint_of_a_run(whole: tuple[Fitted, Path]) -> None:
    for name in ("epoch-000004", "best"):
        found = load(whole[1] / f"{name}.safetensors", into=make_model())
        assert same(found, whole[0].model)
