"""Several runs at once, side by side on the device: `vmap` over their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from nesymm.errors import NesymmError
from nesymm.inference.methods import Method
from nesymm.inference.networks import check_networks
from nesymm.inference.options import Key, check_key, check_training, seed_of
from nesymm.training.checkpoints import Checkpoints
from nesymm.training.fit import (
    Best,
    Fitted,
    TrainingError,
    _Run,
    _State,
    better,
    is_stuck,
    order_of,
    result,
)
from nesymm.training.objectives import Objective, Term
from nesymm.training.plan import Transform, make_plan, method_for
from nesymm.training.progress import Progress

if TYPE_CHECKING:
    from nesymm.model import Model


def fit_many(
    model: Model,
    data: Mapping[str, Any],
    keys: Sequence[Key],
    *,
    networks: Callable[[Key], Mapping[str, Any]] | None = None,
    objective: Objective | Sequence[Objective] | None = None,
    metrics: Mapping[str, Term] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: Mapping[str, Any] | None = None,
    patience: int | None = None,
    clip: float | None = None,
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

    The bar shows the means over the runs that still learn. `checkpoints` is a folder in which each
    run has one of its own, `seed-0` and so on, as `fit` writes it; with `resume` all runs go on
    from the last step that all of them have.
    """
    check_training(
        epochs=epochs, batch_size=batch_size, patience=patience, clip=clip, every=every, keep=keep
    )
    if not np.iterable(keys) or not len(keys):
        raise NesymmError(f"keys: expected a list of at least one, received {keys!r}")
    seeds = [seed_of(check_key(k, "keys")) for k in keys]
    plan = make_plan(
        model, data, objective, metrics, optimizer, batch_size, validation, patience, clip, steps,
        transform,
    )  # fmt: skip
    run = _Run(model, model._filter(method_for(plan.terms, method)), plan, debias)
    starts = [
        replace(run, model=replace(model, networks=_made(networks, k, model))) if networks else run
        for k in keys
    ]
    stores = [
        Checkpoints(Path(checkpoints or "") / f"seed-{seed}", model, seed, keep, plan.batch_size)
        for seed in (seeds if checkpoints is not None else ())
    ]
    runs = _Together(run, seeds, [s.begin() for s in starts], [None] * len(seeds), stores)
    runs.begin(resume, patience)
    runs.learn(epochs, patience, every, progress)
    return [result(run, *pair, patience) for pair in zip(runs.lanes, runs.bests, strict=True)]


@dataclass
class _Together:
    """Runs side by side: where each stands, its best epoch, and where its checkpoints go."""

    run: _Run
    seeds: list[int]
    lanes: list[_State]
    bests: list[Best]
    stores: list[Checkpoints]

    def going(self, epochs: int, patience: int | None) -> list[int]:
        """The runs that have not come to their end; they are all at the same step."""
        found = enumerate(self.lanes)
        return [i for i, s in found if s.epoch < epochs and not is_stuck(s.history, patience)]

    def begin(self, resume: bool, patience: int | None) -> None:
        """Resume from the last checkpoints; where the process was stopped while it wrote them,
        from those of the last step that all runs have."""
        for store in self.stores if not resume else ():
            store.refuse_earlier()
        fresh, until = self.lanes, None
        while self.stores and resume:
            pairs = [s.restore(f, until) for s, f in zip(self.stores, fresh, strict=True)]
            self.lanes, self.bests = [state for state, _ in pairs], [best for _, best in pairs]
            places = {_place(self.lanes[i]) for i in self.going(1 << 62, patience)}
            if len(places) < 2:
                return
            until = min(places)

    def learn(self, epochs: int, patience: int | None, every: int | None, show: bool) -> None:
        """Epoch after epoch, until all runs have come to their end."""
        run, plan = self.run, self.run.plan
        variables = _stack([s.variables for s in self.lanes])
        optimizers = _stack([s.optimizer for s in self.lanes])
        update = eqx.filter_jit(eqx.filter_vmap(run.update(plan.training, plan.batch_size)))
        done = max(s.epoch * plan.batches + s.batch for s in self.lanes)
        with Progress(epochs * plan.batches, done, show) as bar:
            while going := self.going(epochs, patience):
                epoch, first = _place(self.lanes[going[0]])
                # A run that has come to its end stays as it was; the others go on without it.
                now = [replace(lane, epoch=epoch) for lane in self.lanes]
                orders = [order_of(s, epoch, plan.training.size) for s in self.seeds]
                losses: list[Any] = []
                for number in range(first, plan.batches):
                    here = slice(number * plan.batch_size, (number + 1) * plan.batch_size)
                    rows = [order[here] for order in orders]
                    at = epoch * plan.batches + number
                    batches = _stack([plan.training.rows(r, at) for r in rows])
                    each = zip(self.seeds, now, rows, strict=True)
                    keys = _stack([run.key(s, lane, number, r) for s, lane, r in each])
                    variables, optimizers, loss, _, _, odds, _ = update(
                        variables, optimizers, batches, keys
                    )
                    for i in going:
                        runs = run.kept(now[i], rows[i], odds[i], self.seeds[i], number)
                        now[i] = replace(now[i], runs=runs)
                    losses.append(loss)
                    # Of the step before: this one is still being computed.
                    bar.step(float(np.mean(np.asarray(losses[-2:][0])[going])))
                    saves = self.stores and every and (number + 1) % every == 0
                    if saves and number + 1 < plan.batches:
                        self._keep(going, now, number + 1, losses, variables, optimizers)
                        losses = []
                        now = [replace(lane, epoch=epoch) for lane in self.lanes]
                self._keep(going, now, plan.batches, losses, variables, optimizers)
                rows_ = [self.lanes[i].history[-1] for i in going]
                bar.epoch({n: float(np.mean([r[n] for r in rows_])) for n in rows_[0]})

    def _keep(
        self,
        going: list[int],
        now: list[_State],
        batch: int,
        losses: list[Any],
        variables: Any,
        optimizers: Any,
    ) -> None:
        """Note where the runs are after so many batches, and write it to their checkpoints."""
        found = np.asarray(jnp.stack(losses)) if losses else np.zeros((0, len(self.lanes)))
        for i in going:
            lane = replace(now[i], losses=(*now[i].losses, *map(float, found[:, i])))
            if not np.isfinite(lane.losses).all():
                raise self._error(i, int(np.argmin(np.isfinite(lane.losses))))
            mine = _lane(variables, i)
            lane = replace(lane, variables=mine, optimizer=_lane(optimizers, i), batch=batch)
            if batch == self.run.plan.batches:
                row = self.run.row(lane, self.seeds[i])
                history = [*lane.history, row]
                lane = replace(lane, epoch=lane.epoch + 1, batch=0, losses=(), history=history)
                self.bests[i] = better(self.bests[i], row, mine)
            self.lanes[i] = lane
        for i in going if self.stores else ():
            self.stores[i].save(self.lanes[i], self.bests[i])

    def _error(self, i: int, batch: int) -> TrainingError:
        seed, last = self.seeds[i], self.lanes[i]
        return TrainingError(
            f"the loss of key {seed} is not finite in epoch {last.epoch}, batch {batch}\n"
            f"  = help: `fit(..., key={seed})` says what it is due to",
            self.run.model_with(last.variables),
            last.history,
        )


def _place(state: _State) -> tuple[int, int]:
    return state.epoch, state.batch


def _made(networks: Callable[[Key], Mapping[str, Any]], key: Key, model: Model) -> dict[str, Any]:
    made = networks(key)
    check_networks(model.program.networks, made)
    return dict(made)


def _stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a leading axis; what is no array must be the same in all."""
    arrays, rest = zip(*(eqx.partition(t, _is_array) for t in trees), strict=True)
    return eqx.combine(jax.tree.map(_stacked, *arrays), rest[0])


def _stacked(*arrays: Any) -> Any:
    known = all(isinstance(a, np.ndarray | np.generic) for a in arrays)
    return np.stack(arrays) if known else jnp.stack(arrays)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | np.generic)


def _lane(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, tree)
