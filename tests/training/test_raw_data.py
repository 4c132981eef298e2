"""Raw arrays that a transform makes data of, and checkpoints of several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm import CheckpointError, LogEvidence, NesymmError, QueryLoss, fit, fit_many

pytestmark = pytest.mark.compiled

PROGRAM = """
:- input(noise(S)).
0.5::up@0.
t(0.6)::up@t :- up@(t-1).
0.2::up@t :- not up@(t-1).
x@t ~ normal(1, S) :- up@t, noise(S).
x@t ~ normal(-1, S) :- not up@t, noise(S).
observe(x@t).
query(up@T).
"""
GAMES, STEPS = 40, 5
SCALES = np.array([-1.0, 1.0])


def raw() -> dict[str, np.ndarray]:
    """Codes instead of numbers: a transform looks up what is observed."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (GAMES, STEPS))
    return {"codes": codes.astype(np.uint8), "label": codes[:, -1]}


def transform(arrays: Any, update: Any) -> dict[str, Any]:
    n = len(arrays["codes"])
    noise = jnp.where(update < 3, 2.0, 1.0)
    return {
        "x": jnp.asarray(SCALES)[arrays["codes"].astype(int)],
        "noise": jnp.full(n, noise),
        "label": arrays["label"],
    }


OPTIONS: dict[str, Any] = {
    "objective": (LogEvidence(), QueryLoss("up@T", "label")),
    "method": "exact",
    "optimizer": optax.adam(0.1),
    "batch_size": 20,
    "progress": False,
}


@pytest.fixture(scope="module")
def model() -> nesymm.Model:
    return nesymm.compile(PROGRAM)


def test_a_transform_gives_what_prepared_data_give(model: nesymm.Model) -> None:
    fixed = {n: np.asarray(v) for n, v in transform(raw(), 10).items()}
    plain = fit(model, fixed, validation=fixed, epochs=2, **OPTIONS)
    rendered = fit(
        model,
        raw(),
        validation=raw(),
        transform=lambda arrays, update: transform(arrays, 10),
        epochs=2,
        **OPTIONS,
    )
    assert [*rendered.history[0]] == [*plain.history[0]]
    for a, b in zip(rendered.history, plain.history, strict=True):
        assert a == pytest.approx(b, rel=1e-5)


def test_a_transform_sees_the_number_of_updates(model: nesymm.Model) -> None:
    """Nothing is learnt: the loss is that of the noise that the updates of an epoch have."""
    still = {**OPTIONS, "optimizer": optax.sgd(0.0), "objective": LogEvidence()}

    def unlabelled(arrays: Any, update: Any) -> dict[str, Any]:
        return {n: v for n, v in transform(arrays, update).items() if n != "label"}

    found = fit(model, raw(), transform=unlabelled, epochs=3, **still).history
    losses = [row["loss"] for row in found]
    wide, narrow = (loss_of(model, noise) for noise in (2.0, 1.0))
    # Two updates an epoch: those of the first are wide, and one of the second.
    assert losses[0] == pytest.approx(wide, rel=1e-4)
    assert losses[2] == pytest.approx(narrow, rel=1e-4)
    assert min(wide, narrow) < losses[1] < max(wide, narrow)


def loss_of(model: nesymm.Model, noise: float) -> float:
    given = {"x": SCALES[raw()["codes"]], "noise": np.full(GAMES, noise)}
    return -float(np.mean(model.log_evidence(given, method="exact")))


def test_mistakes_in_a_transform_are_named(model: nesymm.Model) -> None:
    def broken(given: Any, data: Any = None) -> Any:
        return fit(model, data or raw(), transform=lambda a, n: given, epochs=1, **OPTIONS)

    with pytest.raises(NesymmError, match=r"transform: expected a function .* received list"):
        broken([])
    with pytest.raises(NesymmError, match="transform: it gives no labels label"):
        broken({"x": np.zeros((GAMES, STEPS))})
    ragged = {"codes": raw()["codes"], "label": np.zeros(3)}
    with pytest.raises(NesymmError, match=r"one leading batch axis, received codes \(40, 5\), lab"):
        broken({}, ragged)


# ---------------------------------------------------------------- checkpoints of several runs


def numbers(fitted: nesymm.Fitted) -> list[Any]:
    return [np.asarray(x) for x in jax.tree.leaves(fitted.model.parameters)]


def many(model: nesymm.Model, folder: Path | None, epochs: int, **more: Any) -> list[Any]:
    return fit_many(
        model, raw(), [0, 7], transform=transform, epochs=epochs, checkpoints=folder, **OPTIONS,
        **more,
    )  # fmt: skip


def test_runs_side_by_side_resume_and_end_as_if_never_stopped(
    model: nesymm.Model, tmp_path: Path
) -> None:
    whole = many(model, None, 3)
    many(model, tmp_path, 2, every=1)
    assert sorted(f.name for f in (tmp_path / "seed-7").iterdir()) == [
        "epoch-000001-batch-000001.safetensors",
        "epoch-000001.safetensors",
        "epoch-000002.safetensors",
    ]
    # The process was stopped before run 7 wrote its last file, within the second epoch.
    (tmp_path / "seed-7" / "epoch-000002.safetensors").unlink()
    resumed = many(model, tmp_path, 3, resume=True)
    for a, b in zip(resumed, whole, strict=True):
        assert a.history == b.history
        for x, y in zip(numbers(a), numbers(b), strict=True):
            assert (x == y).all()
    # A file of one run is a checkpoint of `fit`.
    alone = fit(
        model, raw(), transform=transform, epochs=4, key=7, resume=True,
        checkpoints=tmp_path / "seed-7", **OPTIONS,
    )  # fmt: skip
    assert len(alone.history) == 4 and alone.history[:3] == whole[1].history


def test_checkpoints_of_an_earlier_run_are_refused(model: nesymm.Model, tmp_path: Path) -> None:
    many(model, tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"seed-0 has checkpoints of an earlier run"):
        many(model, tmp_path, 1)
