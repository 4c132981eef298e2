"""Draws from what the evidence of their own step leaves of a normal distribution.

Where an observed normal variable has a mean that is affine in a drawn normal variable, the
conditional distribution of the draw given what is observed is normal too, and known in closed
form. Drawing from it instead of from the prior, weighed by prior over proposal, loses no
particles to draws that the observation rules out.

A weight makes any proposal right, so that what is assumed needs no proof: a variable is proposed
as if the value that is read were the one that it gives (`focus`). Once the finite part of a step
is drawn, nothing is left to assume. The variable is then drawn anew given all the rest: particles
that resampling made equal become different again, and the distribution stays what it is (a Gibbs
step).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import xp as jnp
from nesymm.inference.evidence import never_made, observed_column, seen
from nesymm.inference.named import Named, all_of, apply, expand, only, reduce
from nesymm.inference.plan import Plan, reads, with_value
from nesymm.inference.state import stop
from nesymm.inference.tables import Tables
from nesymm.inference.weights import family_params
from nesymm.ir.algebra import axis_value
from nesymm.ir.axes import rebuild
from nesymm.ir.expr import Axis, Expr, rewrite
from nesymm.ir.step import ObservationDecl, RandomVariable


@dataclass(frozen=True)
class Sight:
    """An observation ~ normal(mean, scale) whose mean is affine in a variable: its mean where
    the variable is 0, and where it is 1, if it is read at all."""

    observation: ObservationDecl
    at_zero: Expr
    at_one: Expr
    scale: Expr


@dataclass(frozen=True)
class Proposal:
    """How observations bear on a variable: before the finite part of the step is drawn, and given
    it; None if something else bears on the variable too."""

    before: tuple[Sight, ...]
    given: tuple[Sight, ...] | None


Proposals = Mapping[str, Proposal]


def find_proposals(plan: Plan) -> dict[str, Proposal]:
    """The variables drawn ahead that observations of the same step bear on, and how."""
    direct = {
        v.data for o in plan.step.observations for b in o.branches for v in b.values if v.op == "rv"
    }
    out: dict[str, Proposal] = {}
    known = {n for n in plan.variables if n not in {v.name for v in plan.step.variables}}
    for variable in plan.ahead:
        if variable.name not in direct and _may_be_proposed(plan, variable):
            found = [_sight(plan, o, variable, known, True) for o in plan.step.observations]
            before = tuple(s for s in found if s is not None)
            if before:
                out[variable.name] = Proposal(before, _given(plan, variable))
        known.add(variable.name)
    return out


def _may_be_proposed(plan: Plan, variable: RandomVariable) -> bool:
    """A normal variable that is scored. Its guard may be summed over where it is a single one."""
    if variable.family != "normal" or variable.neural or variable.guides:
        return False
    apart = not (variable.axes and plan.enumerated & reads([variable.guard]))
    return apart and variable.name in plan.scored - plan.tied


def _given(plan: Plan, variable: RandomVariable) -> tuple[Sight, ...] | None:
    """All observations that bear on a variable given the rest; None if other things do too."""
    name = variable.name
    summed = plan.beliefs | plan.unread
    known = {n for n in plan.variables if n not in summed and n not in plan.emitted}
    out: list[Sight] = []
    through: set[str] = set()
    for observation in plan.step.observations:
        named = [v for b in observation.branches for v in b.values if v.op == "rv"]
        # What this phase never draws depends on nothing.
        drawn = {v.data for v in named if v.data in plan.variables}
        about = {n for n in drawn if name in reads(plan.variables[n].expressions())}
        if not about and name not in reads(observation.expressions()):
            continue
        sight = _sight(plan, observation, variable, known, False)
        conditions = [b.condition for b in observation.branches]
        guards = [plan.variables[n].guard for n in about]
        if sight is None or name in reads([observation.holds, *conditions, *guards]):
            return None
        out.append(sight)
        through |= about
    others = (v for v in plan.step.variables if v.name not in through)
    if name in reads(e for v in others for e in v.expressions()):
        return None
    return tuple(out)


def _sight(
    plan: Plan,
    observation: ObservationDecl,
    variable: RandomVariable,
    known: set[str],
    focused: bool,
) -> Sight | None:
    values = [b.values[0] for b in observation.branches if len(b.values) == 1]
    values = [v for v in values if v.op == "rv" and v.data in plan.emitted]
    about = [plan.variables[v.data] for v in values]
    seen_through = [w for w in about if variable.name in reads(w.expressions())]
    if len(seen_through) != 1:
        return None
    (emitted,) = seen_through
    if emitted.family != "normal" or emitted.neural or emitted.axes != observation.axes:
        return None
    mean, scale = emitted.params
    if not isinstance(mean, Expr) or not isinstance(scale, Expr):
        return None
    if focused:
        mean = focus(mean, variable.name)
    if not _is_affine(mean, variable) or not reads([mean, scale]) - {variable.name} <= known:
        return None
    if variable.name in reads([scale]):
        return None
    at_zero, at_one = (with_value(mean, variable.name, x) for x in (0.0, 1.0))
    return Sight(observation, at_zero, at_one, scale)


def focus(expr: Expr, name: str) -> Expr:
    """An expression in the case in which a variable is read."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "case":
            for value in args[1::2]:
                if name in reads([value]):
                    return value
        return rebuild(node, args)

    return rewrite(expr, rule)


def _is_affine(expr: Expr, variable: RandomVariable) -> bool:
    """Whether an expression is affine in a variable, which it reads at its own place."""

    def mentions(e: Expr) -> bool:
        return variable.name in reads([e])

    if not mentions(expr):
        return True
    match expr.op:
        case "rv":
            return expr.args == tuple(axis_value(a) for a in variable.axes)
        case "add" | "sub" | "neg":
            return all(_is_affine(a, variable) for a in expr.args)
        case "mul":
            inside = [a for a in expr.args if mentions(a)]
            return len(inside) == 1 and _is_affine(inside[0], variable)
        case "case":
            fixed = not any(mentions(a) for a in expr.args[::2])
            return fixed and all(_is_affine(a, variable) for a in expr.args[1::2])
        case "div":
            return not mentions(expr.args[1]) and _is_affine(expr.args[0], variable)
    return False


# ---------------------------------------------------------------- at run time


def proposal(low: Tables, variable: RandomVariable, sights: Iterable[Sight]) -> tuple[Named, Named]:
    """Mean and standard deviation of a variable given what is observed; without gradients."""
    mean, scale = family_params(low, variable.prior, True)
    precision = apply(lambda s: 1.0 / (s * s), scale)
    pull = apply(jnp.multiply, mean, precision)
    for sight in sights:
        found = _evidence(low, variable, sight)
        if found is not None:
            precision = apply(jnp.add, precision, found[0])
            pull = apply(jnp.add, pull, found[1])
    centre = apply(jnp.divide, pull, precision)
    return stop(centre), stop(apply(lambda p: p**-0.5, precision))


def _evidence(low: Tables, variable: RandomVariable, sight: Sight) -> tuple[Named, Named] | None:
    """What an observation adds to the precision, and to precision times mean."""
    moment = low.world.moment
    if never_made(moment, sight.observation):
        return None
    observed, _ = observed_column(low, sight.observation, 0)
    at_zero, at_one = low.value(sight.at_zero), low.value(sight.at_one)
    gradient = apply(jnp.subtract, at_one, at_zero)
    rest = apply(jnp.subtract, observed, at_zero)
    weight = apply(lambda s: 1.0 / (s * s), low.value(sight.scale))
    sharp = apply(lambda c, w: c * c * w, gradient, weight)
    pull = apply(lambda c, r, w: c * r * w, gradient, rest, weight)
    finite = apply(lambda a, b: jnp.isfinite(a) & jnp.isfinite(b), sharp, pull)
    fine = all_of([finite, seen(moment, sight.observation)])
    assert fine is not None
    return _kept(fine, sharp, variable), _kept(fine, pull, variable)


def _kept(fine: Named, value: Named, variable: RandomVariable) -> Named:
    """The value where it means something, summed over the elements of the observation."""
    value = only(fine, value)
    gone = [d for d in value.dims if isinstance(d, Axis) and d not in variable.axes]
    return reduce(jnp.sum, value, gone)


def log_density(value: Named, mean: Named, scale: Named) -> Named:
    """Of a normal distribution."""
    half = 0.5 * np.log(2 * np.pi)
    return apply(lambda x, m, s: -0.5 * ((x - m) / s) ** 2 - jnp.log(s) - half, value, mean, scale)


def draw(
    key: Any, mean: Named, scale: Named, dims: tuple, shape: tuple[int, ...], real: Any
) -> Named:
    noise = jax.random.normal(key, shape, real)
    return Named(expand(mean, dims) + expand(scale, dims) * noise, dims)
