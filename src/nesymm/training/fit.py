"""`fit`: learn the networks and parameters of a model end to end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from nesymm.errors import NesymmError, NesymmWarning
from nesymm.inference.diagnostics import warn_of_batch
from nesymm.inference.estimates import Estimate
from nesymm.inference.filter import Filter, Request
from nesymm.inference.methods import Method
from nesymm.inference.options import Key, check_key, check_training, seed_of
from nesymm.inference.results import Failure
from nesymm.ir.parameters import bound, free
from nesymm.training.averaging import Averaged, averaged
from nesymm.training.checkpoints import Checkpoints
from nesymm.training.logs import TensorBoard
from nesymm.training.noise import REPEATS, Noise, measure, warn_of_noise
from nesymm.training.objectives import ELBO, LogEvidence, Objective, Term, total
from nesymm.training.plan import Data, Plan, Transform, make_plan, method_for
from nesymm.training.progress import Progress
from nesymm.training.runs import chosen, each, keys_of

if TYPE_CHECKING:
    from nesymm.model import Model

Trainable = dict[str, Any]

# Random numbers from here on are not those of any epoch or batch.
_APART = 1 << 28


class TrainingError(NesymmError):
    """Training cannot go on. `model` has the last good parameters, `history` what came before."""

    def __init__(self, message: str, model: Model, history: list[dict[str, float]]):
        super().__init__(message)
        self.model = model
        self.history = history


@dataclass(frozen=True)
class Fitted:
    """A trained model, and one row per epoch: loss, validation loss, metrics.

    `diagnostics` say how much of the gradient was noise of the particles when it started, and
    how many of them carried the weight.
    """

    model: Model
    history: list[dict[str, float]] = field(repr=False)
    stopped: str = "finished"
    diagnostics: Noise = field(default_factory=Noise, repr=False)

    def table(self) -> str:
        """The history as text."""
        names = list(dict.fromkeys(n for row in self.history for n in row))
        rows = [names] + [[f"{r[n]:.5g}" if n in r else "" for n in names] for r in self.history]
        return "\n".join("  ".join(cell.rjust(10) for cell in row) for row in rows)


def order_of(seed: int, epoch: int, size: int) -> np.ndarray:
    """The order of an epoch. It depends on the seed and the number of the epoch alone, so that
    resuming in the middle gives the same batches."""
    root = np.random.SeedSequence(seed).generate_state(2)
    return np.random.default_rng([*root, epoch]).permutation(size)


def key_of(seed: int, epoch: int, number: int) -> Any:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), epoch), number)


def fit(
    model: Model,
    data: Mapping[str, Any],
    *,
    objective: Objective | Sequence[Objective] | None = None,
    metrics: Mapping[str, Term] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: Mapping[str, Any] | None = None,
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
    also after so many steps; `resume` goes
    on from the last one. `log` is a folder for TensorBoard.
    """
    check_training(
        epochs=epochs, batch_size=batch_size, patience=patience, clip=clip, average=average,
        every=every, keep=keep,
    )  # fmt: skip
    seed = seed_of(check_key(key))
    plan = make_plan(
        model, data, objective, metrics, optimizer, batch_size, validation, patience, clip, steps,
        transform,
    )  # fmt: skip
    if average and validation is not None:
        raise NesymmError("average: with validation data the best epoch is returned, not a mean")
    if average:
        first = round((1 - average) * epochs * plan.batches)
        plan = replace(plan, tool=averaged(plan.tool, first))
    run = _Run(model, model._filter(method_for(plan.terms, method)), plan, debias)
    state = run.begin()
    _warn_of_nothing_to_learn(state.variables)
    store: Checkpoints | None = None
    if checkpoints is not None:
        store = Checkpoints(Path(checkpoints), model, seed, keep, plan.batch_size)
    best: Best = None
    if store is not None and resume:
        state, best = store.restore(state)
    elif store is not None:
        store.refuse_earlier()
    update = run.step(plan.training, plan.batch_size)
    noise = run.noise(update, state, seed)
    done = state.epoch * plan.batches + state.batch
    with TensorBoard(log) as board, Progress(epochs * plan.batches, done, progress) as bar:
        # A run that had stopped early and is resumed has nothing left to do.
        while state.epoch < epochs and not is_stuck(state.history, patience):
            order = order_of(seed, state.epoch, plan.training.size)
            for number in range(state.batch, plan.batches):
                rows = order[number * plan.batch_size : (number + 1) * plan.batch_size]
                here = run.key(seed, state, number, rows)
                batch = plan.training.rows(rows, state.epoch * plan.batches + number)
                new, opt, loss, sizes, _, odds, _ = update(
                    state.variables, state.optimizer, batch, here
                )
                _refuse_infinite(run, state, loss, sizes, data, rows, steps, transform)
                losses = (*state.losses, float(loss))
                state = replace(
                    state,
                    variables=new,
                    optimizer=opt,
                    batch=number + 1,
                    losses=losses,
                    runs=run.kept(state, rows, odds, seed, number),
                )
                bar.step(losses[-1])
                within = number + 1 < plan.batches
                if store is not None and every and within and (number + 1) % every == 0:
                    store.save(state, best)
            row = run.row(state, seed)
            state = replace(
                state, epoch=state.epoch + 1, batch=0, losses=(), history=[*state.history, row]
            )
            bar.epoch(row)
            board.write(row)
            best = better(best, row, state.variables)
            if store is not None:
                store.save(state, best)
    return replace(result(run, state, best, patience), diagnostics=noise)


def _warn_of_nothing_to_learn(variables: Trainable) -> None:
    if not jax.tree.leaves(eqx.filter(variables, eqx.is_inexact_array)):
        warnings.warn(
            NesymmWarning(
                "nothing to learn",
                "the program has no learnable number and no network with parameters",
                "training changes nothing",
                "write `t(0.5)` for a number that is to be learnt, or give a network",
            ),
            stacklevel=4,
        )


Best = tuple[float, Any] | None


def result(run: _Run, state: _State, best: Best, patience: int | None) -> Fitted:
    """The best epoch of a run, or else the last, and why it ended."""
    stuck = is_stuck(state.history, patience)
    stopped = f"no better validation loss in {patience} epochs" if stuck else "finished"
    chosen = best[1] if best is not None else state.variables
    if isinstance(state.optimizer, Averaged):
        chosen = eqx.combine(state.optimizer.mean, chosen)
    return Fitted(run.model_with(chosen), state.history, stopped)


def better(best: Best, row: Mapping[str, float], variables: Any) -> Best:
    """The best epoch so far, where there is validation."""
    score = row.get("validation")
    if score is None or np.isnan(score) or (best is not None and not score < best[0]):
        return best
    return score, variables


def is_stuck(history: list[dict[str, float]], patience: int | None) -> bool:
    """Whether the validation loss has not become better for so many epochs."""
    if patience is None or not history or "validation" not in history[-1]:
        return False
    past = np.nan_to_num([h["validation"] for h in history], nan=np.inf)
    return len(past) - 1 - int(np.argmin(past)) >= patience


def _refuse_infinite(
    run: _Run,
    state: _State,
    loss: Any,
    sizes: Mapping[str, Any],
    data: Mapping[str, Any],
    rows: np.ndarray,
    steps: int | None,
    transform: Transform | None,
) -> None:
    """Stop where the loss or a gradient is not finite, and say what it is due to."""
    bad = [n for n, v in sizes.items() if not np.isfinite(v)]
    if np.isfinite(float(loss)) and not bad:
        return
    model = run.model_with(state.variables)
    shown = ", ".join(map(str, rows[:8])) + ("…" if len(rows) > 8 else "")
    message = f"the loss is {float(loss)} in epoch {state.epoch}, batch {state.batch} "
    message += f"(sequences {shown})"
    some = {n: np.asanyarray(v)[rows] for n, v in data.items()}
    if transform is not None:
        some = dict(transform(some, state.epoch * run.plan.batches + state.batch))
    cause = None if np.isfinite(float(loss)) else _cause(model, run, some, rows, steps)
    if cause is not None:
        message += f"; {cause}"
    elif bad:
        message += f"; not finite: the gradients or the next values of {', '.join(bad)}"
    raise TrainingError(message, model, state.history)


def _cause(
    model: Model, run: _Run, batch: Mapping[str, Any], rows: np.ndarray, steps: int | None
) -> str | None:
    """What a filter says of the first sequence of a batch that fails."""
    labels = {n for t in run.plan.terms for n in t.label_names}
    labels |= {n for t in run.plan.metrics.values() for n in t.label_names}
    some = {n: v for n, v in batch.items() if n not in labels}

    def failures(networks: Mapping[str, Any]) -> tuple[Failure, ...]:
        return run.filter.failures(Request(some, model.parameters, networks, steps))

    try:
        found = failures(model.networks)
        for failure in found:
            where = f"sequence {rows[failure.sequence]}, step {failure.step}"
            for name, network in model.networks.items():
                calm = {**model.networks, name: lambda *a, f=network: jnp.nan_to_num(f(*a))}
                if failure not in failures(calm):
                    return f"{where}: the network {name} gave NaN or infinity"
            return f"{where}: {failure.message}"
    except NesymmError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _State:
    """Where a run stands: epochs done, and of the next one the batches done and their losses.

    `runs` are the numbers of the filter runs that the sequences keep, if they do.
    """

    variables: Trainable
    optimizer: Any
    epoch: int = 0
    batch: int = 0
    losses: tuple[float, ...] = ()
    history: list[dict[str, float]] = field(default_factory=list)
    runs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass
class _Run:
    """One training run: the compiled step, and what it needs."""

    model: Model
    filter: Filter
    plan: Plan
    debias: bool = True
    _evaluators: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def keeps_runs(self) -> bool:
        """Whether sequences keep runs: where log-evidence is estimated by resampled particles.

        A guide learns from the bias: the better it is, the less there is of it.
        """
        engine = self.filter.engines.choose(self.plan.training.layout.first(1))
        return (
            self.debias
            and all(isinstance(t, LogEvidence) for t in self.plan.terms)
            and engine.resamples
            and all(v.guides == () for v in self.model.step.variables)
        )

    def begin(self) -> _State:
        variables = self.start()
        optimizer = self.plan.tool.init(eqx.filter(variables, eqx.is_inexact_array))
        size = self.plan.training.size if self.keeps_runs else 0
        return _State(variables, optimizer, runs=np.zeros(size, np.int64))

    def key(self, seed: int, state: _State, number: int, rows: np.ndarray) -> Any:
        """The random numbers of an update. Run 0 of a sequence is its first."""
        if not self.keeps_runs:
            return key_of(seed, state.epoch, number)
        return keys_of(seed, rows, state.runs[rows], state.epoch + 1)

    def kept(
        self, state: _State, rows: np.ndarray, odds: Any, seed: int, number: int
    ) -> np.ndarray:
        """The runs that the sequences keep after an update."""
        if not self.keeps_runs:
            return state.runs
        new = state.runs.copy()
        new[rows] = chosen(new[rows], state.epoch + 1, odds, seed, state.epoch, number)
        return new

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

    def estimates(self, data: Data, batch: int) -> Any:
        """What is estimated of a batch, as a function of its numbers."""
        # Only the numbers are those of the batch: any so many sequences have its layout.
        layout = data.layout.first(batch)
        layout = replace(layout, last=np.full(batch, layout.steps - 1))

        analytic = any(isinstance(t, ELBO) and t.kl == "analytic" for t in self.plan.terms)

        def estimates(variables: Trainable, arrays: Any, key: Any) -> Estimate:
            parameters = bound(self.model.step, variables["parameters"])
            return self.filter.estimate_of(
                layout,
                arrays,
                parameters,
                variables["networks"],
                key,
                "surrogate",
                data.uniform,
                analytic,
            )

        return estimates

    def update(self, data: Data, batch: int) -> Any:
        """One update from a batch."""
        estimates = self.estimates(data, batch)

        single = self.estimates(data, 1) if self.keeps_runs else estimates

        def both(variables: Trainable, arrays: Any, keys: Any) -> tuple[Estimate, Any]:
            """The evidence by the kept and the fresh runs together."""

            def estimate(alone: Any, key: Any) -> Any:
                found = single(variables, alone, key)
                return found.log_evidence, found.effective

            (kept, _), (fresh, sizes) = (each(estimate, arrays, keys[n]) for n in ("kept", "fresh"))
            together = jnp.logaddexp(kept, fresh) - jnp.log(2.0)
            return Estimate(together, {}, (), arrays["last"], sizes), fresh - kept

        def update(variables: Trainable, optimizer: Any, rows: Any, key: Any) -> Any:
            arrays, labels = data.read(rows)

            def loss(variables: Trainable) -> Any:
                if self.keeps_runs:
                    found, odds = both(variables, arrays, key)
                else:
                    found, odds = estimates(variables, arrays, key), jnp.zeros(0)
                value = jnp.mean(total(self.plan.terms, found, labels))
                return value, (odds, found.effective)

            (value, (odds, effective)), gradients = eqx.filter_value_and_grad(loss, has_aux=True)(
                variables
            )  # type: ignore[no-untyped-call]
            updates, optimizer = self.plan.tool.update(
                gradients, optimizer, eqx.filter(variables, eqx.is_inexact_array)
            )
            new = eqx.apply_updates(variables, updates)
            return new, optimizer, value, _sizes(gradients, new), gradients, odds, effective

        return update

    def step(self, data: Data, batch: int) -> Any:
        """The update, compiled."""
        return eqx.filter_jit(self.update(data, batch))

    def noise(self, update: Any, state: _State, seed: int) -> Noise:
        """How much of the gradient is noise of the particles, and how many of them carry the
        weight; warnings where it is much, or they are few."""
        engine = self.filter.engines.choose(self.plan.training.layout.first(self.plan.batch_size))
        particles = engine.settings(self.plan.batch_size).particles
        if engine.exact:
            return Noise()
        rows = order_of(seed, state.epoch, self.plan.training.size)[: self.plan.batch_size]
        numbers = self.plan.training.rows(rows, state.epoch * self.plan.batches)
        keys = [
            keys_of(seed, rows, np.full(len(rows), _APART + k), _APART + REPEATS + k)
            if self.keeps_runs
            else key_of(seed, state.epoch, _APART + k)
            for k in range(REPEATS)
        ]
        sizes: list[np.ndarray] = []

        def gradients() -> Iterator[Any]:
            for key in keys:
                *_, found, _, here = update(state.variables, state.optimizer, numbers, key)
                sizes.append(np.asarray(here))
                yield found

        found = measure(gradients())
        effective = np.median(sizes, axis=0)
        warn_of_batch(effective, particles, stacklevel=5)
        warn_of_noise(found, particles, stacklevel=5)
        return replace(found, smallest_effective=float(effective.min()))

    def scores(self, data: Data, batch: int) -> Any:
        """The loss and the metrics of each sequence of a batch."""
        estimates = self.estimates(data, batch)

        def scores(variables: Trainable, rows: Any, key: Any) -> dict[str, Any]:
            arrays, labels = data.read(rows)
            estimate = estimates(variables, arrays, key)
            watched = {n: m(estimate, labels) for n, m in self.plan.metrics.items()}
            return {"loss": total(self.plan.terms, estimate, labels), **watched}

        return scores

    def evaluate(
        self, variables: Trainable, data: Data, seed: int, update: int
    ) -> dict[str, float]:
        """The means of loss and metrics over a data set, where they are known."""
        batch = self.plan.batch_size
        parts: dict[str, list[np.ndarray]] = {}
        for start in range(0, data.size, batch):
            rows = np.arange(start, min(start + batch, data.size))
            kind = (id(data), len(rows))
            if kind not in self._evaluators:
                self._evaluators[kind] = eqx.filter_jit(self.scores(data, len(rows)))
            key = jax.random.fold_in(jax.random.key(seed), start)
            found = self._evaluators[kind](variables, data.rows(rows, update), key)
            for name, values in found.items():
                parts.setdefault(name, []).append(np.asarray(values, np.float64))
        whole = {n: np.concatenate(v) for n, v in parts.items()}
        loss = float(whole.pop("loss").mean())
        return {"loss": loss, **{n: _known_mean(v) for n, v in whole.items()}}

    def row(self, state: _State, seed: int) -> dict[str, float]:
        """A row of the history: an epoch that is done."""
        out = {"epoch": float(state.epoch), "loss": float(np.mean(state.losses))}
        watched = self.plan.held_out
        if watched is None and self.plan.metrics:
            watched = self.plan.training
        if watched is not None:
            done = (state.epoch + 1) * self.plan.batches
            found = self.evaluate(state.variables, watched, seed, done)
            loss = found.pop("loss")
            if self.plan.judged:
                out["validation"] = loss
            out |= found
        return out


def _known_mean(values: np.ndarray) -> float:
    """A metric may have nothing to say of some sequences."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _sizes(gradients: Trainable, new: Trainable) -> dict[str, Any]:
    """How large gradients and new values are, by name, to tell one that is not finite."""
    both = (gradients, eqx.filter(new, eqx.is_inexact_array))
    out: dict[str, Any] = {}
    for kind, prefix in (("parameters", ""), ("networks", "network ")):
        for name in gradients[kind]:
            leaves = jax.tree.leaves([tree[kind][name] for tree in both])
            out[prefix + name] = sum((jnp.sum(jnp.abs(x)) for x in leaves), jnp.zeros(()))
    return out
