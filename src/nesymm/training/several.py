"""Several runs at once, side by side on the device: `vmap` over their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
