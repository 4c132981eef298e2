"""Why a loss or a gradient is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.filter import Request
from nesymm.inference.networks import gave_nan
from nesymm.inference.results import Failure
from nesymm.training.results import TrainingError
from nesymm.training.state import State

if TYPE_CHECKING:
    from nesymm.model import Model
    from nesymm.training.trainer import Trainer


def diverged(
    trainer: Trainer,
    state: State,
    loss: float,
    sizes: Mapping[str, Any],
    rows: np.ndarray,
    name: str = "",
) -> TrainingError:
    """The error for an update after `state` whose loss, or the size of a gradient, is not finite:
    what it is due to. `name` says which run it was."""
    model, plan = trainer.model_with(state.variables), trainer.plan
    shown = ", ".join(map(str, rows[:8])) + ("…" if len(rows) > 8 else "")
    at = f"epoch {state.epoch}, batch {state.batch}"
    message = f"the loss{name} is {loss} in {at} (sequences {shown})"
    some = {n: np.asanyarray(v)[rows] for n, v in plan.data.items()}
    if plan.transform is not None:
        some = dict(plan.transform(some, state.epoch * plan.batches + state.batch))
    cause = None if np.isfinite(loss) else _cause(model, trainer, some, rows)
    bad = [n for n, v in sizes.items() if not np.isfinite(v)]
    if cause is not None:
        message += f"; {cause}"
    elif bad:
        message += f"; not finite: the gradients or the next values of {', '.join(bad)}"
    return TrainingError(message, model, state.history)


def _cause(
    model: Model, trainer: Trainer, batch: Mapping[str, Any], rows: np.ndarray
) -> str | None:
    """What a filter says of the first sequence of a batch that fails."""
    plan = trainer.plan
    labels = {n for t in (*plan.terms, *plan.metrics.values()) for n in t.label_names}
    some = {n: v for n, v in batch.items() if n not in labels}

    def failures(networks: Mapping[str, Any]) -> tuple[Failure, ...]:
        return trainer.filter.failures(Request(some, model.parameters, networks, plan.steps))

    try:
        found = failures(model.networks)
        for failure in found:
            where = f"sequence {rows[failure.sequence]}, step {failure.step}"
            for name, network in model.networks.items():
                calm = {**model.networks, name: lambda *a, f=network: jnp.nan_to_num(f(*a))}
                if failure not in failures(calm):
                    message, details = gave_nan(model.step, name)
                    return f"{where}: {message} or infinity\n{details}"
            return f"{where}: {failure.message}\n{failure.details}".rstrip()
    except NesymmError as error:
        return str(error)
    return None


__all__ = ["diverged"]
