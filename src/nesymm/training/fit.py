"""`fit`: learn the networks and parameters of a model end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from nesymm.errors import NesymmError
from nesymm.filtering.data import Sequences, prepare
from nesymm.filtering.filter import Filter
from nesymm.filtering.methods import Method
from nesymm.filtering.particles import to_arrays
from nesymm.model import Model
from nesymm.parameters import bound, free
from nesymm.training.checkpoints import Checkpoints
from nesymm.training.objectives import LogEvidence, Objective, total
from nesymm.training.progress import Progress

Trainable = dict[str, Any]


class TrainingError(NesymmError):
    """Training cannot go on. `model` has the last good parameters, `history` what came before."""

    def __init__(self, message: str, model: Model, history: list[dict[str, float]]):
        super().__init__(message)
        self.model = model
        self.history = history


@dataclass(frozen=True)
class Fitted:
    """A trained model, and one row per epoch: step, loss, validation loss."""

    model: Model
    history: list[dict[str, float]] = field(repr=False)
    stopped: str = "finished"


@dataclass(frozen=True)
class Data:
    """A data set, prepared once: its layout, its numbers, its labels."""

    layout: Sequences
    arrays: Mapping[str, Any]
    labels: Mapping[str, np.ndarray]
    uniform: bool

    @property
    def size(self) -> int:
        return self.layout.batch

    def rows(self, index: np.ndarray) -> tuple[Any, Any]:
        """The numbers and labels of some sequences."""
        timed = jax.tree.map(lambda x: x[:, index], self.arrays["timed"])
        static = jax.tree.map(lambda x: x[index], self.arrays["static"])
        arrays = {"timed": timed, "static": static, "last": self.arrays["last"][index]}
        return arrays, {n: v[index] for n, v in self.labels.items()}


def load(
    model: Model,
    data: Mapping[str, Any],
    terms: Sequence[Objective],
    horizon: int | None = None,
) -> Data:
    """Split a dictionary of arrays into what the program reads and the labels.

    The lengths of the sequences may stand in it as `length`.
    """
    data = dict(data)
    length = data.pop("length", None)
    names = {n for t in terms for n in t.label_names}
    labels = {}
    for name in names:
        if name not in data:
            raise NesymmError(f"the labels {name} are not given (given: {', '.join(data)})")
        labels[name] = np.asarray(data[name], dtype=np.float64)
    layout = prepare(model.step, {n: v for n, v in data.items() if n not in names}, horizon, length)
    for name, label in labels.items():
        if label.shape != (layout.batch,):
            raise NesymmError(
                f"labels {name}: expected shape ({layout.batch},), received {label.shape}"
            )
    uniform = bool(np.all(layout.last == layout.steps - 1))
    return Data(layout, to_arrays(layout), labels, uniform)


def fit(
    model: Model,
    data: Mapping[str, Any],
    *,
    objective: Objective | Sequence[Objective] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: Mapping[str, Any] | None = None,
    patience: int | None = None,
    clip: float | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: bool = True,
    checkpoints: str | Path | None = None,
    keep: int = 3,
    resume: bool = False,
) -> Fitted:
    """Learn from sequences.

    The networks must be pytrees of arrays (Equinox modules are). Sequences of different
    lengths bring an array `length` in `data` and in `validation`. With `validation`, the
    parameters of the best epoch are returned, and training stops after `patience` epochs
    without a better one. `checkpoints` is a folder; `resume` goes on from its last one.
    """
    if objective is None:
        objective = LogEvidence()
    terms = tuple(objective) if isinstance(objective, Sequence) else (objective,)
    training = load(model, data, terms, horizon)
    held_out = load(model, validation, terms, horizon) if validation is not None else None
    if batch_size > training.size:
        batch_size = training.size
    chain = [optax.clip_by_global_norm(clip)] if clip is not None else []
    tool = optax.chain(*chain, optimizer if optimizer is not None else optax.adam(1e-2))
    run = _Run(model, model._filter(method), terms, tool)
    variables = run.start()
    state = _State(variables, tool.init(eqx.filter(variables, eqx.is_inexact_array)), 0, [])
    store = Checkpoints(Path(checkpoints), model, seed, keep) if checkpoints is not None else None
    best: tuple[float, Any] | None = None
    if store is not None and resume:
        state, best = store.restore(state)
    update = run.step(training, batch_size)
    root = np.random.SeedSequence(seed)
    stopped = "finished"
    with Progress(epochs, training.size // batch_size, progress) as bar:
        for epoch in range(state.epoch, epochs):
            # The order of an epoch depends on the seed and its number alone: resuming
            # in the middle gives the same batches.
            order = np.random.default_rng([*root.generate_state(2), epoch]).permutation(
                training.size
            )
            losses = []
            for number in range(training.size // batch_size):
                rows = order[number * batch_size : (number + 1) * batch_size]
                key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), epoch), number)
                arrays, labels = training.rows(rows)
                new, opt, loss, sizes = update(
                    state.variables, state.optimizer, arrays, labels, key
                )
                if not np.isfinite(float(loss)) or not all(np.isfinite(v) for v in sizes.values()):
                    blamed = [n for n, v in sizes.items() if not np.isfinite(v)]
                    raise TrainingError(
                        f"the loss is {float(loss)} in epoch {epoch}, batch {number} (sequences "
                        f"{', '.join(map(str, rows[:8]))}…)"
                        + (f"; not finite: slopes of {', '.join(blamed)}" if blamed else ""),
                        run.model_with(state.variables),
                        state.history,
                    )
                state = replace(state, variables=new, optimizer=opt)
                losses.append(float(loss))
                bar.step(losses[-1])
            row = {"epoch": float(epoch), "loss": float(np.mean(losses))}
            if held_out is not None:
                row["validation"] = run.evaluate(state.variables, held_out, batch_size, seed)
            state = replace(state, epoch=epoch + 1, history=[*state.history, row])
            bar.epoch(row)
            score = row.get("validation", row["loss"])
            if held_out is not None and (best is None or score < best[0]):
                best = (score, state.variables)
            if store is not None:
                store.save(state, best)
            if patience is not None and held_out is not None:
                past = [h["validation"] for h in state.history]
                if len(past) - 1 - int(np.argmin(past)) >= patience:
                    stopped = f"no better validation loss in {patience} epochs"
                    break
    chosen = best[1] if best is not None else state.variables
    return Fitted(run.model_with(chosen), state.history, stopped)


@dataclass(frozen=True)
class _State:
    variables: Trainable
    optimizer: Any
    epoch: int
    history: list[dict[str, float]]


@dataclass
class _Run:
    """One training run: the compiled step, and what it needs."""

    model: Model
    filter: Filter
    terms: tuple[Objective, ...]
    tool: optax.GradientTransformation
    _evaluators: dict[int, Any] = field(default_factory=dict)

    def start(self) -> Trainable:
        numbers = free(self.model.step, self.model.parameters)
        real = jnp.zeros(()).dtype
        return {
            "parameters": {n: jnp.asarray(v, real) for n, v in numbers.items()},
            "networks": dict(self.model.networks),
        }

    def model_with(self, variables: Trainable) -> Model:
        values = bound(self.model.step, variables["parameters"])
        return replace(
            self.model,
            parameters={n: np.asarray(v) if np.ndim(v) else float(v) for n, v in values.items()},
            networks=variables["networks"],
        )

    def losses(self, data: Data, batch: int) -> Any:
        """The loss of each sequence of a batch, as a function of its numbers."""
        last = np.full(batch, data.layout.steps - 1)
        layout = replace(data.layout, batch=batch, last=last)

        def losses(variables: Trainable, arrays: Any, labels: Any, key: Any) -> Any:
            parameters = bound(self.model.step, variables["parameters"])
            networks = variables["networks"]
            slopes = self.filter.estimate(
                layout, arrays, parameters, networks, key, "surrogate", data.uniform
            )
            return total(self.terms, slopes, labels)

        return losses

    def step(self, data: Data, batch: int) -> Any:
        """One update from a batch, compiled."""
        losses = self.losses(data, batch)

        def step(variables: Trainable, optimizer: Any, arrays: Any, labels: Any, key: Any) -> Any:
            def loss(variables: Trainable) -> Any:
                return jnp.mean(losses(variables, arrays, labels, key))

            value, slopes = eqx.filter_value_and_grad(loss)(variables)  # type: ignore[no-untyped-call]
            updates, optimizer = self.tool.update(
                slopes, optimizer, eqx.filter(variables, eqx.is_inexact_array)
            )
            return eqx.apply_updates(variables, updates), optimizer, value, _sizes(slopes)

        return eqx.filter_jit(step)

    def evaluate(self, variables: Trainable, data: Data, batch: int, seed: int) -> float:
        """The mean loss over a data set."""
        sums = 0.0
        for start in range(0, data.size, batch):
            rows = np.arange(start, min(start + batch, data.size))
            if len(rows) not in self._evaluators:
                self._evaluators[len(rows)] = eqx.filter_jit(self.losses(data, len(rows)))
            arrays, labels = data.rows(rows)
            key = jax.random.fold_in(jax.random.key(seed), start)
            sums += float(jnp.sum(self._evaluators[len(rows)](variables, arrays, labels, key)))
        return sums / data.size


def _sizes(slopes: Trainable) -> dict[str, Any]:
    """How large the slopes of parameters and networks are, to name one that is not finite."""
    out = dict(slopes["parameters"])
    for name, network in slopes["networks"].items():
        leaves = [jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(network)]
        out[f"network {name}"] = sum(leaves) if leaves else jnp.zeros(())
    return {n: jnp.sum(jnp.abs(v)) for n, v in out.items()}
