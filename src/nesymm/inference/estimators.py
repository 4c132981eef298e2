"""Where the gradients of estimates come from.

`surrogate` (the default) carries gradients in the weights: see `step`. The others are the
paper's. They hold the weights fixed and multiply the gradient of the log-probability of
each particle's past, its score, by how good the particle is: `score` by its value,
`rloo` by how much better it is than the others. `recursive_rloo` replaces the score of
the whole past by that of the present state alone, itself estimated by RLOO over all
particles of the step before (quadratic in their number).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import BATCH, PARTICLE, TARGET
from nesymm.inference.named import Named, apply, expand
from nesymm.inference.questions import Question
from nesymm.inference.solve import Problem
from nesymm.inference.state import LANES, Settings, gradient_of, normalise, slot_key
from nesymm.ir.step import StepProgram
from nesymm.ir.types import Real, Tensor

ESTIMATORS = ("surrogate", "rloo", "recursive_rloo", "score")


def check_estimator(name: str) -> None:
    if name not in ESTIMATORS:
        raise NesymmError(f"there is no estimator {name} (there are: {', '.join(ESTIMATORS)})")


def average(
    question: Question, probability: Named, log_weights: Any, scores: Any, settings: Settings
) -> Any:
    """The probability of a query, [batch, axes…], with the gradient of the estimator."""
    dims = (BATCH, *question.axes, PARTICLE)
    sizes = tuple(a.size for a in question.axes)
    shape = (settings.batch, *sizes, settings.particles)
    values = jnp.broadcast_to(expand(probability, dims), shape)

    def aligned(x: Any) -> Any:
        return x.reshape(settings.batch, *(1,) * len(sizes), settings.particles)

    return expectation(values, aligned(normalise(log_weights)), aligned(scores), settings.estimator)


def expectation(values: Any, weights: Any, scores: Any, estimator: str | None) -> Any:
    """Σ w f along the last axis, with the gradient that an estimator gives it."""
    mean = jnp.sum(values * weights, axis=-1)
    if estimator in (None, "surrogate"):
        return mean
    fixed = stop_gradient(weights)
    f = stop_gradient(values)
    n = values.shape[-1]
    if estimator == "score":
        coefficient = fixed * f
    else:
        if n < 2:
            raise NesymmError("leave-one-out baselines need at least two particles")
        better = f - jnp.sum(fixed * f, axis=-1, keepdims=True)
        coefficient = fixed * better * (n / (n - 1))
    direct = jnp.sum(fixed * values, axis=-1)
    return direct + gradient_of(jnp.sum(coefficient * scores, axis=-1))


def no_gradient_at_edges(step: StepProgram, parameters: Mapping[str, Any]) -> Any:
    """Nothing, whose gradient in a probability that is exactly 0 or 1 is NaN: of the outcome that
    never happens there is no draw, and without one no estimate of what it would change."""
    kinds = ("unit", "simplex")
    total = jnp.zeros(())
    for parameter in step.parameters:
        if parameter.constraint in kinds and parameter.name in parameters:
            total = total + jnp.sum(_nan_at_edges(jnp.asarray(parameters[parameter.name], float)))
    return total


@jax.custom_jvp
def _nan_at_edges(p: Any) -> Any:
    return jnp.zeros_like(p)


@_nan_at_edges.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (p,), (gradient,) = primals, tangents
    return _nan_at_edges(p), jnp.where((p <= 0) | (p >= 1), jnp.nan, 0.0) * gradient


def marginal_scores(
    problem: Problem, slots: dict[str, Named], scores: Named, settings: Settings
) -> Named:
    """Nothing, with the gradient of the log-probability of each particle's present state.

    p(x_i) is the mean over particles j of p(x_i | x_j); its gradient in the particles
    themselves is that of RLOO.
    """
    step = problem.plan.step
    same = Named(jnp.asarray(True))
    for name, target in slots.items():
        slot_name, column = slot_key(name)
        slot = step.slot(slot_name)
        if column != "present" and isinstance(slot.fields[column], Real | Tensor):
            kind = "a tensor" if isinstance(slot.fields[column], Tensor) else "a real number"
            raise NesymmError(
                f"recursive_rloo compares states, and {slot_name} is {kind}; use rloo"
            )
        expr = slot.present if column == "present" else slot.values[column]
        goal = target.rename({PARTICLE: TARGET})
        value = problem.low.value(expr)
        if column != "present":
            value = problem.low.recode(value, expr.type, slot.fields[column])
        here = apply(jnp.equal, value, goal)
        same = apply(jnp.logical_and, same, here)
    n = settings.particles
    shape = (settings.batch, n, n)
    p = problem.probability(same, ())
    table = jnp.broadcast_to(expand(p, (BATCH, PARTICLE, TARGET)), shape)
    mean = jnp.mean(table, axis=1)
    fixed = stop_gradient(table)
    better = fixed - jnp.mean(fixed, axis=1, keepdims=True)
    past = jnp.sum(better * scores.array[:, :, None], axis=1) / (n - 1)
    safe = jnp.maximum(stop_gradient(mean), float(np.finfo(table.dtype).tiny))
    return Named(gradient_of((mean + past) / safe), LANES)
