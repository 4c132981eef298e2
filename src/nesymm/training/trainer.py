"""One update of parameters and networks from a batch, and the scores of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.diagnostics import warn_of_batch
from nesymm.inference.estimates import Estimate
from nesymm.inference.filter import Filter
from nesymm.ir.parameters import bound, free, plain
from nesymm.training.noise import REPEATS, Noise, measure, warn_of_noise
from nesymm.training.objectives import ELBO, LogEvidence, total
from nesymm.training.plan import Batch, Data, Options, Plan, make_plan, method_for
from nesymm.training.runs import chosen, each, keys_of
from nesymm.training.state import State, Trainable, batches_of, key_of

if TYPE_CHECKING:
    from nesymm.inference.data_files import AnyData
    from nesymm.model import Model

# Random numbers from here on are not those of any epoch or batch.
_APART = 1 << 28


class Update(NamedTuple):
    """What an update gives: the next numbers, the loss and how large gradients and numbers are by
    name, the gradients, the log-odds of fresh runs, and the effective sample sizes."""

    variables: Trainable
    optimizer: Any
    loss: Any
    sizes: dict[str, Any]
    gradients: Any
    odds: Any
    effective: Any


@dataclass
class Trainer:
    """A model and a plan: one update, and what is watched."""

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

    def begin(self, networks: Mapping[str, Any]) -> State:
        """Where a run starts that has these networks."""
        variables = self._start(networks)
        optimizer = self.plan.tool.init(eqx.filter(variables, eqx.is_inexact_array))
        size = self.plan.training.size if self.keeps_runs else 0
        return State(variables, optimizer, runs=np.zeros(size, np.int64))

    def key(self, seed: int, state: State, number: int, rows: np.ndarray) -> Any:
        """The random numbers of an update of the epoch. Run 0 of a sequence is its first."""
        if not self.keeps_runs:
            return key_of(seed, state.epoch, number)
        return keys_of(seed, rows, state.runs[rows], state.epoch + 1)

    def kept(self, state: State, rows: np.ndarray, odds: Any, seed: int, number: int) -> np.ndarray:
        """The runs that the sequences keep after an update."""
        if not self.keeps_runs:
            return state.runs
        new = state.runs.copy()
        new[rows] = chosen(new[rows], state.epoch + 1, odds, seed, state.epoch, number)
        return new

    def _start(self, networks: Mapping[str, Any]) -> Trainable:
        numbers = free(self.model.step, self.model.parameters)
        real = jnp.zeros(()).dtype
        return {
            "parameters": {n: jnp.asarray(v, real) for n, v in numbers.items()},
            "networks": dict(networks),
        }

    def model_with(self, variables: Trainable) -> Model:
        values = bound(self.model.step, variables["parameters"])
        return replace(
            self.model,
            parameters=plain(values),
            networks=variables["networks"],
        )

    def estimates(self, data: Data, batch: int, steps: int) -> Any:
        """What is estimated of a batch of so many steps, as a function of its numbers."""
        # Only the numbers are those of the batch: any so many sequences have its layout.
        layout = data.layout.some(slice(batch), steps)
        layout = replace(layout, last=np.full(batch, steps - 1))

        analytic = any(isinstance(t, ELBO) and t.kl == "analytic" for t in self.plan.terms)

        def estimates(variables: Trainable, arrays: Any, key: Any) -> Estimate:
            parameters = bound(self.model.step, variables["parameters"])
            return self.filter.estimate_of(
                layout, arrays, parameters, variables["networks"], key, "surrogate",
                data.uniform, analytic,
            )  # fmt: skip

        return estimates

    def _estimates_by_runs(self, steps: int) -> Any:
        """The same by the kept and the fresh run of each sequence, and the log-odds of these."""
        single = self.estimates(self.plan.training, 1, steps)

        def both(variables: Trainable, arrays: Any, keys: Any) -> tuple[Estimate, Any]:
            """The evidence by the kept and the fresh runs together."""

            def estimate(alone: Any, key: Any) -> Any:
                found = single(variables, alone, key)
                return found.log_evidence, found.effective

            (kept, _), (fresh, sizes) = (each(estimate, arrays, keys[n]) for n in ("kept", "fresh"))
            together = jnp.logaddexp(kept, fresh) - jnp.log(2.0)
            return Estimate(together, {}, (), arrays["last"], sizes), fresh - kept

        return both

    def update(self, variables: Trainable, optimizer: Any, rows: Batch, key: Any) -> Update:
        """One update from a batch; to be compiled."""
        data = self.plan.training
        arrays, labels = data.read(rows)
        estimates = (
            self._estimates_by_runs(rows.steps)
            if self.keeps_runs
            else self.estimates(data, self.plan.batch_size, rows.steps)
        )

        def loss(variables: Trainable) -> Any:
            found = estimates(variables, arrays, key)
            found, odds = found if self.keeps_runs else (found, jnp.zeros(0))
            value = jnp.mean(total(self.plan.terms, found, labels))
            return value, (odds, found.effective)

        graded: Any = eqx.filter_value_and_grad(loss, has_aux=True)
        (value, (odds, effective)), gradients = graded(variables)
        updates, optimizer = self.plan.tool.update(
            gradients, optimizer, eqx.filter(variables, eqx.is_inexact_array)
        )
        new = eqx.apply_updates(variables, updates)
        sizes = _sizes(gradients, new)
        return Update(new, optimizer, value, sizes, gradients, odds, effective)

    def noise(self, update: Any, state: State, seed: int) -> Noise:
        """How much of the gradient is noise of the particles, and how many of them carry the
        weight; warnings where it is much, or they are few."""
        engine = self.filter.engines.choose(self.plan.training.layout.first(self.plan.batch_size))
        particles = engine.settings(self.plan.batch_size).particles
        if engine.exact:
            return Noise()
        kinds = self.plan.training.kinds
        rows = batches_of(seed, state.epoch, kinds, self.plan.batch_size)[0]
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
                found = update(state.variables, state.optimizer, numbers, key)
                sizes.append(np.asarray(found.effective))
                yield found.gradients

        found = measure(gradients())
        effective = np.median(sizes, axis=0)
        warn_of_batch(effective, particles)
        warn_of_noise(found, particles)
        return replace(found, smallest_effective=float(effective.min()))

    def scores(self, data: Data, batch: int) -> Any:
        """The loss and the metrics of each sequence of a batch."""

        def scores(variables: Trainable, rows: Batch, key: Any) -> dict[str, Any]:
            estimates = self.estimates(data, batch, rows.steps)
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
        order = np.argsort(data.kinds, kind="stable")
        for start in range(0, data.size, batch):
            rows = order[start : start + batch]
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

    def row(self, state: State, seed: int) -> dict[str, float]:
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


def make_trainer(model: Model, data: AnyData, options: Options) -> Trainer:
    if not model.step.temporal:
        raise NesymmError(
            "this program has no time, and `fit` learns from sequences\n"
            "  = help: differentiate `model.log_probability`; or give the program a time (`@t`), "
            "and each world one step"
        )
    plan = make_plan(model, data, options)
    method = method_for(plan.terms, options.method)
    return Trainer(model, model._filter(method), plan, options.debias)


def _known_mean(values: np.ndarray) -> float:
    """A metric may have nothing to say of some sequences."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _sizes(gradients: Trainable, new: Trainable) -> dict[str, Any]:
    """How large gradients and new values are, by name, to name one that is not finite."""
    both = (gradients, eqx.filter(new, eqx.is_inexact_array))
    out: dict[str, Any] = {}
    for kind, prefix in (("parameters", ""), ("networks", "network ")):
        for name in gradients[kind]:
            leaves = jax.tree.leaves([tree[kind][name] for tree in both])
            out[prefix + name] = sum((jnp.sum(jnp.abs(x)) for x in leaves), jnp.zeros(()))
    return out
