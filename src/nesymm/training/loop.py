"""The training loop: of one run, or of several side by side on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmWarning, warn
from nesymm.training.averaging import Averaged
from nesymm.training.checkpoints import Checkpoints
from nesymm.training.failures import diverged
from nesymm.training.logs import tensorboard
from nesymm.training.plan import Options
from nesymm.training.progress import Progress, progress
from nesymm.training.results import Fitted
from nesymm.training.state import Best, State, batches_of, better, is_stuck
from nesymm.training.trainer import Trainer, Update


@dataclass(frozen=True)
class Lanes:
    """How the numbers of runs lie side by side: along a leading axis, which one run has not."""

    count: int

    def pack(self, trees: list[Any]) -> Any:
        return trees[0] if self.count == 1 else _stack(trees)

    def of(self, tree: Any, i: int) -> Any:
        """What belongs to one run."""
        if self.count == 1:
            return tree
        return jax.tree.map(lambda x: x[i] if _is_array(x) else x, tree)

    def compiled(self, update: Callable[..., Any]) -> Any:
        return eqx.filter_jit(update if self.count == 1 else eqx.filter_vmap(update))


class Numbers(NamedTuple):
    """Parameters and networks of all runs, and the states of their optimizers."""

    variables: Any
    optimizer: Any


class Done(NamedTuple):
    """An update that may still be computing: its number, the numbers before it, its rows."""

    number: int
    before: Numbers
    rows: list[np.ndarray]
    found: Update


@dataclass
class Loop:
    """Runs by their seeds: where each stands, its best epoch, and where its checkpoints go."""

    trainer: Trainer
    options: Options
    seeds: list[int]
    states: list[State]
    bests: list[Best]
    stores: list[Checkpoints]

    @classmethod
    def start(
        cls, trainer: Trainer, options: Options, seeds: list[int], states: list[State],
        folders: list[Path],
    ) -> Loop:  # fmt: skip
        """Fresh runs, or those that `options` resume; `folders` are those of checkpoints."""
        size, keep = trainer.plan.batch_size, options.keep
        stores = [
            Checkpoints(folder, trainer.model, seed, keep, size)
            for folder, seed in zip(folders, seeds, strict=bool(folders))
        ]
        _warn_of_nothing_to_learn(states[0])
        loop = cls(trainer, options, seeds, states, [None] * len(seeds), stores)
        if options.resume:
            loop._resume()
        for store in stores if not options.resume else ():
            store.refuse_earlier()
        return loop

    def _resume(self) -> None:
        """Resume from the last checkpoints; where the process was stopped while it wrote them,
        from those of the last step that all runs have."""
        fresh, until = self.states, None
        while True:
            pairs = [s.restore(f, until) for s, f in zip(self.stores, fresh, strict=True)]
            self.states, self.bests = [state for state, _ in pairs], [best for _, best in pairs]
            places = {self.states[i].place for i in self._going(1 << 62)}
            if len(places) < 2:
                return
            until = min(places)

    def _going(self, epochs: int) -> list[int]:
        """The runs that have not come to their end; they are all at the same step."""
        patience = self.options.patience
        found = enumerate(self.states)
        return [i for i, s in found if s.epoch < epochs and not is_stuck(s.history, patience)]

    @cached_property
    def lanes(self) -> Lanes:
        return Lanes(len(self.seeds))

    @cached_property
    def update(self) -> Any:
        """One update of all runs, compiled."""
        return self.lanes.compiled(self.trainer.update)

    # ------------------------------------------------------------ learning

    def learn(self, log: str | Path | None = None) -> list[Fitted]:
        """Epoch after epoch, until all runs have come to their end."""
        batches, epochs = self.trainer.plan.batches, self.options.epochs
        pack = self.lanes.pack
        numbers = Numbers(
            pack([s.variables for s in self.states]), pack([s.optimizer for s in self.states])
        )
        done = max(s.epoch * batches + s.batch for s in self.states)
        showing = progress(epochs * batches, done, self.options.progress)
        with tensorboard(log) as write, showing as bar:
            while going := self._going(epochs):
                numbers = self._epoch(going, numbers, bar)
                rows = [self.states[i].history[-1] for i in going]
                row = {n: float(np.mean([r[n] for r in rows])) for n in rows[0]}
                bar.epoch(row)
                write(row)
        return [self._result(i) for i in range(len(self.seeds))]

    def _epoch(self, going: list[int], numbers: Numbers, bar: Progress) -> Numbers:
        """One epoch. A run that has come to its end stays as it was; the others continue."""
        plan, every = self.trainer.plan, self.options.every
        epoch, first = self.states[going[0]].place
        kinds, size = plan.training.kinds, plan.batch_size
        batches = [batches_of(seed, epoch, kinds, size) for seed in self.seeds]
        last: Done | None = None
        for number in range(first, plan.batches):
            rows = [own[number] for own in batches]
            done = Done(number, numbers, rows, self._updated(numbers, epoch, number, rows))
            numbers = Numbers(done.found.variables, done.found.optimizer)
            # Of the update before: this one is still being computed.
            self._note(going, last, bar)
            last = done
            if self.stores and every and (number + 1) % every == 0 and number + 1 < plan.batches:
                self._note(going, last, bar)
                last = None
                self._keep(going, numbers)
        self._note(going, last, bar)
        self._finish(going, numbers)
        return numbers

    def _updated(self, numbers: Numbers, epoch: int, number: int, rows: list[np.ndarray]) -> Update:
        trainer, pack = self.trainer, self.lanes.pack
        at = epoch * trainer.plan.batches + number
        training = trainer.plan.training
        batches = pack([training.rows(r, at, training.steps(rows)) for r in rows])
        now = [replace(s, epoch=epoch) for s in self.states]
        each = zip(self.seeds, now, rows, strict=True)
        keys = pack([trainer.key(seed, s, number, r) for seed, s, r in each])
        found: Update = self.update(*numbers, batches, keys)
        return found

    def _note(self, going: list[int], done: Done | None, bar: Progress) -> None:
        """Note the losses of an update, if there is one; stop where one, or a gradient, is not
        finite."""
        if done is None:
            return
        found = done.found
        losses, sizes, odds = jax.device_get((found.loss, found.sizes, found.odds))
        for i in going:
            of = self.lanes.of
            loss, size, state = float(of(losses, i)), of(sizes, i), self.states[i]
            if not np.isfinite([loss, *size.values()]).all():
                before = replace(state, variables=of(done.before.variables, i), batch=done.number)
                raise diverged(self.trainer, before, loss, size, done.rows[i], self._name(i))
            runs = self.trainer.kept(state, done.rows[i], of(odds, i), self.seeds[i], done.number)
            self.states[i] = replace(
                state, batch=done.number + 1, losses=(*state.losses, loss), runs=runs
            )
        bar.step(float(np.mean([self.states[i].losses[-1] for i in going])))

    def _name(self, i: int) -> str:
        return "" if self.lanes.count == 1 else f" of key {self.seeds[i]}"

    # ------------------------------------------------------------ keeping

    def _keep(self, going: list[int], numbers: Numbers) -> None:
        """Note the numbers of the runs, and write all to their checkpoints."""
        for i in going:
            variables, optimizer = self.lanes.of(numbers, i)
            self.states[i] = replace(self.states[i], variables=variables, optimizer=optimizer)
        for i in going if self.stores else ():
            self.stores[i].save(self.states[i], self.bests[i])

    def _finish(self, going: list[int], numbers: Numbers) -> None:
        """The end of an epoch: its row of the history, and whether it is the best."""
        for i in going:
            state = replace(self.states[i], variables=self.lanes.of(numbers.variables, i))
            row = self.trainer.row(state, self.seeds[i])
            self.bests[i] = better(self.bests[i], row, state.variables)
            self.states[i] = replace(
                state, epoch=state.epoch + 1, batch=0, losses=(), history=[*state.history, row]
            )
        self._keep(going, numbers)

    def _result(self, i: int) -> Fitted:
        """The best epoch of a run, or else the last, and why it ended."""
        state, best, patience = self.states[i], self.bests[i], self.options.patience
        stuck = is_stuck(state.history, patience)
        stopped = f"no better validation loss in {patience} epochs" if stuck else "finished"
        chosen = best[1] if best is not None else state.variables
        if isinstance(state.optimizer, Averaged):
            chosen = eqx.combine(state.optimizer.mean, chosen)
        return Fitted(self.trainer.model_with(chosen), state.history, stopped)


def _warn_of_nothing_to_learn(state: State) -> None:
    if not jax.tree.leaves(eqx.filter(state.variables, eqx.is_inexact_array)):
        warn(
            NesymmWarning(
                "nothing to learn",
                "the program has no learnable number and no network with parameters",
                "training changes nothing",
                "write `t(0.5)` for a number that is to be learnt, or give a network",
            )
        )


def _stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a leading axis; what is no array must be the same in all."""
    arrays, rest = zip(*(eqx.partition(t, _is_array) for t in trees), strict=True)
    return eqx.combine(jax.tree.map(_stacked, *arrays), rest[0])


def _stacked(*arrays: Any) -> Any:
    known = all(isinstance(a, np.ndarray | np.generic) for a in arrays)
    return np.stack(arrays) if known else jnp.stack(arrays)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | np.generic)


__all__ = ["Loop"]
