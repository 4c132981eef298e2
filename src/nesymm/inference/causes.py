"""Many causes of one effect, told apart along trajectories.

Particles carry one variable for all causes of an effect (`ir/passes/causes.py`), which is what the
evidence is about. Given it, the causes do not depend on anything else, so that they are drawn for
the few trajectories that are asked for, and not for each particle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.inference.evidence import ObservedWorld
from nesymm.inference.loop import Run
from nesymm.inference.named import Named, expand
from nesymm.inference.plan import Plan
from nesymm.inference.state import LANES, Settings, slot_key
from nesymm.inference.tables import Tables
from nesymm.ir.expr import Expr
from nesymm.ir.step import RandomVariable

# Pieces over time, [step, axes…, batch, trajectory], as `Traced` has them.
Pieces = Mapping[str, list[Named | None]]

# Apart from the random numbers of steps and of the choice of trajectories.
_CAUSES = 1 << 21


def causes_apart(
    plans: tuple[Plan, Plan], run: Run, lanes: Settings, fields: Pieces, variables: Pieces
) -> dict[str, Any]:
    """The variables of trajectories with those of each cause in the place of those for many."""
    found = {n: list(pieces) for n, pieces in variables.items()}
    steps = run.sequences.steps
    for phase, plan in enumerate(plans[:steps]):
        merged = [v.name for v in plan.step.variables if v.causes and v.name in found]
        known = {n: found[n][phase] for n in merged if found[n][phase] is not None}
        if not known:
            continue
        times = jnp.arange(phase, steps if phase else 1)
        before = {n: jax.tree.map(lambda x: x[:-1], p[0]) for n, p in fields.items() if phase}
        one = _Step(plan, run, lanes)
        slices = jax.tree.map(lambda x, at=times: jnp.asarray(x)[at], run.arrays["timed"])
        for name, values in jax.lax.map(one, (times, slices, before, known)).items():
            found.setdefault(name, [None] * len(found[merged[0]]))[phase] = values
    gone = {v.name for plan in plans for v in plan.step.variables if v.causes}
    return {n: pieces for n, pieces in found.items() if n not in gone}


class _Step:
    """The causes of one step."""

    def __init__(self, plan: Plan, run: Run, lanes: Settings):
        self.plan, self.run, self.lanes = plan, run, lanes

    def __call__(self, xs: tuple[Any, Any, dict[str, Named], dict[str, Named]]) -> dict[str, Named]:
        time, slices, before, known = xs
        moment, binding = self.run.moment(time, slices), self.run.binding
        slots = {slot_key(n): v for n, v in before.items()}
        world = ObservedWorld(self.plan.step, moment, binding, slots, {})
        low = Tables(world, self.run.settings.real)
        key = jax.random.fold_in(jax.random.fold_in(self.run.key, _CAUSES), time)
        out: dict[str, Named] = {}
        for number, (name, value) in enumerate(known.items()):
            variable = self.plan.variables[name]
            while variable.causes is not None:
                key = jax.random.fold_in(key, number)
                value = _drawn(low, variable, value, key, self.lanes)
                variable = variable.causes.variable
            out[variable.name] = value
        return out


def _drawn(low: Tables, variable: RandomVariable, value: Named, key: Any, lanes: Settings) -> Named:
    """The draws of all causes, given whether any of those that count came up."""
    assert variable.causes is not None
    one, axis = variable.causes.variable, variable.causes.position
    dims = (*one.axes, *LANES)
    shape = lanes.shape(dims)

    def spread(x: Named) -> Any:
        return jnp.broadcast_to(expand(x, dims), shape)

    (parameter,) = one.params
    assert isinstance(parameter, Expr)
    chance, counts = spread(low.value(parameter)), spread(low.value(variable.causes.counts))
    any_key, first_key = jax.random.split(key)
    free = jax.random.uniform(any_key, shape) < chance
    # Which is the first that comes up, given that one does: those before it fail.
    weight = jnp.where(counts, chance, 0.0)
    fails = jnp.cumsum(jnp.log1p(-weight), axis)
    fails = jnp.concatenate([jnp.zeros_like(jnp.take(fails, jnp.arange(1), axis)), fails], axis)
    so_far = jnp.take(fails, jnp.arange(shape[axis]), axis)
    first = jax.random.categorical(first_key, jnp.log(weight) + so_far, axis)
    first = jnp.expand_dims(first, axis)
    number = jnp.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    fired = spread(value) & ((number == first) | ((number > first) & free))
    return Named(jnp.where(counts, fired, free), dims)
