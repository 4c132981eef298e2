"""Learn the networks and parameters of a model end to end: `fit`, and `fit_many` for several runs
side by side on the device (`vmap` over their keys)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optax

from nesymm.errors import NesymmError
from nesymm.inference.methods import Method
from nesymm.inference.networks import check_networks
from nesymm.inference.options import Key, check_key, seed_of
from nesymm.training.loop import Loop
from nesymm.training.objectives import Objective, Term
from nesymm.training.plan import Options, Transform
from nesymm.training.results import Fitted
from nesymm.training.trainer import make_trainer

if TYPE_CHECKING:
    from nesymm.inference.data_files import AnyData
    from nesymm.model import Model


def fit(
    model: Model,
    data: AnyData,
    *,
    objective: Objective | Sequence[Objective] | None = None,
    metrics: Mapping[str, Term] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: AnyData | None = None,
    patience: int | None = None,
    clip: float | None = None,
    average: float = 0.0,
    steps: int | None = None,
    transform: Transform | None = None,
    key: Key = 0,
    debias: bool = True,
    progress: bool = True,
    checkpoints: str | Path | None = None,
    every: int | None = None,
    keep: int = 3,
    resume: bool = False,
    log: str | Path | None = None,
) -> Fitted:
    """Learn from sequences.

    The networks must be pytrees of arrays (Equinox modules are, and `nesymm.Function` makes one
    of any function with parameters). Sequences of different lengths bring an array `length` in
    `data` and in `validation`. With `validation`, the parameters of the best epoch are returned,
    and training stops after `patience` epochs without a better one. `metrics` are watched on the
    validation data, or without them on the training data. `average` is the share of the updates,
    the last ones, whose parameters are averaged: it quiets noisy gradients. With `debias`, each
    sequence keeps a run of its particle filter beside every fresh one: see
    `nesymm.training.runs`. With `transform`, `data` and `validation` hold any arrays with a
    leading batch axis: `transform(arrays, update)` makes of those of a batch what the program
    reads, and the labels. JAX compiles it: pictures are rendered on the device, noise falls with
    the number of updates. `checkpoints` is a folder, written after each epoch and with `every`
    also after so many steps; `resume` continues from the last one. `log` is a folder for
    TensorBoard.
    """
    options = Options(
        objective=objective, metrics=metrics, method=method, optimizer=optimizer, epochs=epochs,
        batch_size=batch_size, validation=validation, patience=patience, clip=clip,
        average=average, steps=steps, transform=transform, debias=debias, progress=progress,
        checkpoints=checkpoints, every=every, keep=keep, resume=resume,
    )  # fmt: skip
    seed = seed_of(check_key(key))
    trainer = make_trainer(model, data, options)
    folders = [] if checkpoints is None else [Path(checkpoints)]
    loop = Loop.start(trainer, options, [seed], [trainer.begin(model.networks)], folders)
    noise = trainer.noise(loop.update, loop.states[0], seed)
    (fitted,) = loop.learn(log)
    return replace(fitted, diagnostics=noise)


def fit_many(
    model: Model,
    data: AnyData,
    keys: Sequence[Key],
    *,
    networks: Callable[[Key], Mapping[str, Any]] | None = None,
    objective: Objective | Sequence[Objective] | None = None,
    metrics: Mapping[str, Term] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: AnyData | None = None,
    patience: int | None = None,
    clip: float | None = None,
    average: float = 0.0,
    steps: int | None = None,
    transform: Transform | None = None,
    debias: bool = True,
    progress: bool = True,
    checkpoints: str | Path | None = None,
    every: int | None = None,
    keep: int = 3,
    resume: bool = False,
) -> list[Fitted]:
    """What `fit` gives for each key. `networks` makes the networks that a key starts from.

    The progress bar shows the means over the runs that have not stopped. `checkpoints` is a folder
    in which each run has one of its own, `seed-0` and so on, as `fit` writes it; with `resume` all
    runs resume from the last step that all of them have.
    """
    options = Options(
        objective=objective, metrics=metrics, method=method, optimizer=optimizer, epochs=epochs,
        batch_size=batch_size, validation=validation, patience=patience, clip=clip,
        average=average, steps=steps, transform=transform, debias=debias, progress=progress,
        checkpoints=checkpoints, every=every, keep=keep, resume=resume,
    )  # fmt: skip
    if not np.iterable(keys) or not len(keys):
        raise NesymmError(f"keys: expected a list of at least one, received {keys!r}")
    seeds = [seed_of(check_key(k, "keys")) for k in keys]
    trainer = make_trainer(model, data, options)
    starts = [model.networks if networks is None else _made(networks, k, model) for k in keys]
    folders = [] if checkpoints is None else [Path(checkpoints) / f"seed-{s}" for s in seeds]
    states = [trainer.begin(own) for own in starts]
    return Loop.start(trainer, options, seeds, states, folders).learn()


def _made(networks: Callable[[Key], Mapping[str, Any]], key: Key, model: Model) -> dict[str, Any]:
    made = networks(key)
    check_networks(model.program.networks, made)
    return dict(made)
