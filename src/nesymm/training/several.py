"""Several runs at once, side by side on the device: `vmap` over their seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from nesymm.errors import NesymmError
from nesymm.filtering.methods import Method
from nesymm.model import Model
from nesymm.training.fit import (
    Best,
    Fitted,
    TrainingError,
    _Run,
    _State,
    better,
    is_stuck,
    key_of,
    make_plan,
    method_for,
    order_of,
    result,
)
from nesymm.training.objectives import Objective, Term
from nesymm.training.progress import Progress


def fit_many(
    model: Model,
    data: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    networks: Callable[[int], Mapping[str, Any]] | None = None,
    objective: Objective | Sequence[Objective] | None = None,
    metrics: Mapping[str, Term] | None = None,
    method: Method | str = "auto",
    optimizer: optax.GradientTransformation | None = None,
    epochs: int = 10,
    batch_size: int = 50,
    validation: Mapping[str, Any] | None = None,
    patience: int | None = None,
    clip: float | None = None,
    horizon: int | None = None,
    progress: bool = True,
) -> list[Fitted]:
    """What `fit` gives for each seed. `networks` makes the networks that a seed starts from.

    The bar shows the means over the seeds that still learn.
    """
    if not seeds:
        raise NesymmError("seeds: expected at least one")
    plan = make_plan(
        model, data, objective, metrics, optimizer, batch_size, validation, clip, horizon
    )
    run = _Run(model, model._filter(method_for(plan.terms, method)), plan)
    starts = [
        replace(run, model=replace(model, networks=dict(networks(s)))) if networks else run
        for s in seeds
    ]
    lanes = [
        _State(v, plan.tool.init(eqx.filter(v, eqx.is_inexact_array)))
        for v in (s.start() for s in starts)
    ]
    variables, optimizers = (
        _stack([s.variables for s in lanes]),
        _stack([s.optimizer for s in lanes]),
    )
    update = eqx.filter_jit(eqx.filter_vmap(run.update(plan.training, plan.batch_size)))
    bests: list[Best] = [None] * len(seeds)
    with Progress(epochs * plan.batches, 0, progress) as bar:
        for epoch in range(epochs):
            # A run that has come to its end stays as it was; the others go on without it.
            going = [i for i in range(len(seeds)) if not is_stuck(lanes[i].history, patience)]
            if not going:
                break
            orders = [order_of(s, epoch, plan.training.size) for s in seeds]
            losses: list[np.ndarray] = []
            for number in range(plan.batches):
                here = slice(number * plan.batch_size, (number + 1) * plan.batch_size)
                batches = [plan.training.rows(o[here]) for o in orders]
                keys = jnp.stack([key_of(s, epoch, number) for s in seeds])
                arrays, labels = _stack([b[0] for b in batches]), _stack([b[1] for b in batches])
                variables, optimizers, loss, _ = update(variables, optimizers, arrays, labels, keys)
                losses.append(np.asarray(loss))
                bar.step(float(losses[-1][going].mean()))
            for i in going:
                seed = seeds[i]
                mine = _lane(variables, i)
                told = tuple(float(x[i]) for x in losses)
                if not np.isfinite(told).all():
                    last = lanes[i]
                    raise TrainingError(
                        f"the loss of seed {seed} is not finite in epoch {epoch}, "
                        f"batch {int(np.argmin(np.isfinite(told)))}\n"
                        f"  = help: `fit(..., seed={seed})` says what it is due to",
                        run.model_with(last.variables),
                        last.history,
                    )
                state = replace(lanes[i], variables=mine, epoch=epoch, losses=told)
                row = run.row(state, seed)
                lanes[i] = replace(state, history=[*state.history, row])
                bests[i] = better(bests[i], row, mine)
            rows = [lanes[i].history[-1] for i in going]
            bar.epoch({n: float(np.mean([r[n] for r in rows])) for n in rows[0]})
    return [result(run, *lane, patience) for lane in zip(lanes, bests, strict=True)]


def _stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a leading axis; what is no array must be the same in all."""
    arrays, rest = zip(*(eqx.partition(t, _is_array) for t in trees), strict=True)
    return eqx.combine(jax.tree.map(lambda *xs: jnp.stack(xs), *arrays), rest[0])


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)


def _lane(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, tree)
