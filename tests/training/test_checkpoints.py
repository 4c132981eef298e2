"""Checkpoints: nothing is lost, nothing half-written is taken for whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import nesymm
from nesymm.training import fit
from nesymm.training.checkpoints import CheckpointError, load_model, read, save_model
from nesymm.training.networks import MLP

PROGRAM = """
:- input(u(X)@t).
:- network(net, 1).
t(0.4)::x@0.
x@t ~ bernoulli(net(X)) :- u(X)@t, t > 0.
t(0.7)::o@t :- x@t.
t(0.2)::o@t :- \\+ x@t.
observe(o@t).
query(x@t).
"""


def make_model() -> nesymm.Model:
    return nesymm.compile(PROGRAM, networks={"net": MLP(1, 1, 4, 1, key=jax.random.key(0))})


def make_data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "u": rng.normal(size=(40, 4)),
        "o": rng.integers(0, 2, size=(40, 4)),
    }


def numbers(model: nesymm.Model) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves((model.parameters, dict(model.networks)))
            if not callable(x)]  # fmt: skip


def same(a: nesymm.Model, b: nesymm.Model) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True))


OPTIONS = {"batch_size": 20, "method": "exact", "progress": False, "seed": 3}


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = fit(make_model(), make_data(), epochs=4, **OPTIONS)
    fit(make_model(), make_data(), epochs=2, checkpoints=tmp_path, **OPTIONS)
    rest = fit(make_model(), make_data(), epochs=4, checkpoints=tmp_path, resume=True, **OPTIONS)
    assert same(whole.model, rest.model)
    assert whole.history == rest.history


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """The process really dies, in the middle of whatever it is doing."""
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_checkpoints import OPTIONS, fit, make_data, make_model
        fit(make_model(), make_data(), epochs=10_000, checkpoints={str(tmp_path)!r}, **OPTIONS)
    """)
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("epoch-*.safetensors"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    last = sorted(tmp_path.glob("epoch-*.safetensors"))[-1]
    epochs = read(last)[1]["epoch"] + 2
    resumed = fit(
        make_model(), make_data(), epochs=epochs, checkpoints=tmp_path, resume=True, **OPTIONS
    )
    whole = fit(make_model(), make_data(), epochs=epochs, **OPTIONS)
    assert same(whole.model, resumed.model)


def test_a_truncated_checkpoint_is_rejected(tmp_path: Path) -> None:
    model = make_model()
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    data = path.read_bytes()
    for size in range(0, len(data), 10):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match="not a whole checkpoint"):
            load_model(model, path)
    path.write_bytes(data)
    assert same(model, load_model(model, path))


def test_a_checkpoint_of_something_else_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(make_model(), path)
    with pytest.raises(CheckpointError, match=r"line 5 was\n  x@t"):
        other = PROGRAM.replace("x@t ~ bernoulli(net(X)) :- u(X)@t, t > 0.", "0.5::x@t.")
        load_model(nesymm.compile(other), path)
    wide = nesymm.compile(PROGRAM, networks={"net": MLP(1, 1, 8, 1, key=jax.random.key(0))})
    with pytest.raises(CheckpointError, match="has shape"):
        load_model(wide, path)
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_model(make_model(), tmp_path / "none.safetensors")


def test_only_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    data = make_data()
    fit(make_model(), data, epochs=4, validation=data, checkpoints=tmp_path, keep=2, **OPTIONS)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["best.safetensors", "epoch-000003.safetensors", "epoch-000004.safetensors"]


def test_a_run_goes_on_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """Checkpoints every so many steps: what was lost is less than an epoch."""
    options = {**OPTIONS, "batch_size": 8}
    whole = fit(make_model(), make_data(), epochs=2, **options)
    fit(make_model(), make_data(), epochs=2, checkpoints=tmp_path, every=2, keep=10, **options)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert "epoch-000001-batch-000002.safetensors" in names
    for name in ("epoch-000001-batch-000004.safetensors", "epoch-000002.safetensors"):
        (tmp_path / name).unlink()
    rest = fit(make_model(), make_data(), epochs=2, checkpoints=tmp_path, resume=True, **options)
    assert same(whole.model, rest.model)
    assert whole.history == rest.history


def test_a_truncated_last_checkpoint_is_passed_over(tmp_path: Path) -> None:
    whole = fit(make_model(), make_data(), epochs=3, checkpoints=tmp_path, **OPTIONS)
    last = tmp_path / "epoch-000003.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"epoch-000003.* is not a whole checkpoint.*one before"):
        again = fit(
            make_model(), make_data(), epochs=3, checkpoints=tmp_path, resume=True, **OPTIONS
        )
    assert same(whole.model, again.model)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="not a whole checkpoint"),
        pytest.raises(CheckpointError, match="no checkpoint in"),
    ):
        fit(make_model(), make_data(), epochs=3, checkpoints=tmp_path, resume=True, **OPTIONS)


def test_a_model_is_read_from_the_checkpoint_of_a_run(tmp_path: Path) -> None:
    data = make_data()
    fitted = fit(
        make_model(), data, epochs=3, validation=data, checkpoints=tmp_path, **OPTIONS
    )  # fmt: skip
    found = load_model(make_model(), tmp_path / "epoch-000003.safetensors")
    assert same(found, fitted.model)
