"""Several runs at once, side by side on the device: `vmap` over their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from nesymm.training.fit import (
    Best,
    Fitted,
    TrainingError,
    _Run,
    better,
    is_stuck,
    order_of,
    result,
)
from nesymm.training.objectives import Objective, Term
from nesymm.training.plan import make_plan, method_for
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
    debias: bool = True,
    progress: bool = True,
) -> list[Fitted]:
    """What `fit` gives for each key. `networks` makes the networks that a key starts from.

    The bar shows the means over the runs that still learn.
    """
    check_training(epochs=epochs, batch_size=batch_size, patience=patience, clip=clip)
    if not np.iterable(keys) or not len(keys):
        raise NesymmError(f"keys: expected a list of at least one, received {keys!r}")
    seeds = [seed_of(check_key(k, "keys")) for k in keys]
    plan = make_plan(
        model, data, objective, metrics, optimizer, batch_size, validation, patience, clip, steps
    )
    run = _Run(model, model._filter(method_for(plan.terms, method)), plan, debias)
    starts = [
        replace(run, model=replace(model, networks=_made(networks, k, model))) if networks else run
        for k in keys
    ]
    lanes = [s.begin() for s in starts]
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
                now = [replace(lane, epoch=epoch) for lane in lanes]
                drawn = _stack(
                    [
                        run.key(s, lane, number, o[here])
                        for s, lane, o in zip(seeds, now, orders, strict=True)
                    ]
                )
                arrays, labels = _stack([b[0] for b in batches]), _stack([b[1] for b in batches])
                variables, optimizers, loss, _, _, odds, _ = update(
                    variables, optimizers, arrays, labels, drawn
                )
                for i in going:
                    runs = run.kept(now[i], orders[i][here], odds[i], seeds[i], number)
                    lanes[i] = replace(lanes[i], runs=runs)
                losses.append(np.asarray(loss))
                bar.step(float(losses[-1][going].mean()))
            for i in going:
                seed = seeds[i]
                mine = _lane(variables, i)
                told = tuple(float(x[i]) for x in losses)
                if not np.isfinite(told).all():
                    last = lanes[i]
                    raise TrainingError(
                        f"the loss of key {seed} is not finite in epoch {epoch}, "
                        f"batch {int(np.argmin(np.isfinite(told)))}\n"
                        f"  = help: `fit(..., key={seed})` says what it is due to",
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


def _made(networks: Callable[[Key], Mapping[str, Any]], key: Key, model: Model) -> dict[str, Any]:
    made = networks(key)
    check_networks(model.program.networks, made)
    return dict(made)


def _stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a leading axis; what is no array must be the same in all."""
    arrays, rest = zip(*(eqx.partition(t, _is_array) for t in trees), strict=True)
    return eqx.combine(jax.tree.map(lambda *xs: jnp.stack(xs), *arrays), rest[0])


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)


def _lane(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, tree)
