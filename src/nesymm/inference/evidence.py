"""The observations of a step as factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.elimination.factors import Factor, alike, log_add, pick_at
from nesymm.inference.named import Named, all_of, apply, expand, only, reduce, union
from nesymm.inference.plan import Folded, Plan, reads
from nesymm.inference.state import checkpointed
from nesymm.inference.tables import Tables, log_truth
from nesymm.inference.weights import density, marked, masses, masses_apart
from nesymm.inference.world import Moment, World, outcome_codes
from nesymm.ir.algebra import axis_value, conjuncts, is_const, not_
from nesymm.ir.axes import at_place, places
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, leaves
from nesymm.ir.step import ObservationDecl, RandomVariable, active, flat
from nesymm.ir.types import Enum, Type, join
from nesymm.language.program import AtLast, Now


def seen(moment: Moment, observation: ObservationDecl) -> Named | None:
    """Where an observation has a value at this step; None: everywhere."""
    masks: list[Named | None] = []
    when, last = observation.when, moment.last
    if when is not None and not isinstance(when, Now):
        here = jnp.asarray(active(when, moment.time, last.array))
        masks.append(Named(here, last.dims if isinstance(when, AtLast) else ()))
    if observation.value is None:
        if observation.name not in moment.seen:
            return Named(jnp.asarray(False))
        masks.append(moment.masks.get(observation.name))
    return all_of(masks)


def observed_column(low: Tables, observation: ObservationDecl, i: int) -> tuple[Named, Type]:
    """What an observation says, and its type."""
    type_ = observation.column_type(i)
    if observation.value is None:
        return low.world.moment.seen[observation.name][i], type_
    return low.value(observation.constant(i)), type_


def same(low: Tables, a: Named, a_type: Type, b: Named, b_type: Type) -> Named:
    """Where two arrays hold the same value."""
    if isinstance(a_type, Enum) and isinstance(b_type, Enum):
        both = join(a_type, b_type)
        assert both is not None
        a, b = low.recode(a, a_type, both), low.recode(b, b_type, both)
    return apply(jnp.equal, a, b)


def never_made(moment: Moment, observation: ObservationDecl) -> bool:
    return observation.value is None and observation.name not in moment.seen


def evidence_factors(low: Tables, plan: Plan, folded: Mapping[str, Folded]) -> list[Named]:
    """The log-likelihoods of all observations; the variables in `folded` are summed out."""
    out: list[Named] = []
    for observation in plan.step.observations:
        if never_made(low.world.moment, observation):
            continue
        if observation.name in folded:
            out.append(_summed(low, observation, folded[observation.name]))
        else:
            out += _factors(low, plan, observation)
    return out


def _summed(low: Tables, observation: ObservationDecl, inside: Folded) -> Named:
    """The likelihood of an observation, a variable that only it depends on summed out."""
    moment = low.world.moment
    if observation.value is None:
        observed = moment.seen[observation.name][0]
    else:
        observed = Named(jnp.asarray(bool(observation.value)))
    fits = [checkpointed(apply(jnp.equal, low.value(holds), observed)) for holds in inside.holds]
    priors = masses_apart(low, inside.variable)
    logs = _sum_where(fits, priors, log_add, -jnp.inf)
    plain = _sum_where(fits, [Named(p.plain, p.dims) for p in priors], jnp.add, 0.0)
    if inside.variable.guard is not TRUE:
        # Where it is not drawn it has its first outcome.
        drawn = checkpointed(low.value(inside.variable.guard))
        sure = log_truth(fits[0], low.real)
        logs = apply(jnp.where, drawn, logs, sure)
        plain = apply(jnp.where, drawn, plain, Named(sure.plain, sure.dims))
    dims = union([logs.dims, plain.dims])
    factor = Factor(expand(logs, dims), dims, expand(plain, dims))
    mask = seen(moment, observation)
    return factor if mask is None else _masked(mask, factor)


def _sum_where(
    fits: list[Named], terms: Sequence[Named], both: Callable[[Any, Any], Any], nothing: float
) -> Named:
    """The sum of the terms that fit.

    Which terms fit differs from particle to particle, what they are often does not: all sums
    that there can be are formed first, and then picked, those that differ least before the rest.
    """
    pairs = sorted(zip(fits, terms, strict=True), key=lambda pair: -len(pair[0].dims))

    def rest(i: int, total: Named | None) -> Named:
        if i == len(pairs):
            return Named(jnp.asarray(nothing, terms[0].array.dtype)) if total is None else total
        fit, term = pairs[i]
        more = term if total is None else apply(both, total, term)
        return apply(jnp.where, fit, rest(i + 1, more), rest(i + 1, total))

    return rest(0, None)


def _masked(mask: Named, factor: Named) -> Named:
    """A factor where it is observed, and nothing elsewhere."""
    logs = only(mask, factor)
    if not isinstance(factor, Factor):
        return logs
    plain = Named(factor.plain, factor.dims)
    observed_column = apply(lambda m, f: jnp.where(m, f, 1.0), mask, plain)
    return Factor(logs.array, logs.dims, observed_column.array)


def _factors(low: Tables, plan: Plan, observation: ObservationDecl) -> list[Named]:
    mask = seen(low.world.moment, observation)

    def where_observed(factor: Named) -> Named:
        return factor if mask is None else _masked(mask, factor)

    if observation.axes and (plan.grounded or plan.split & reads(observation.expressions())):
        # Elements that are told apart are observed one by one.
        out = []
        for position, key in enumerate(places(observation.axes)):
            for factor in _single(low, plan, observation, key):
                out.append(_at_position(where_observed(factor), observation.axes, position))
        return out
    return [where_observed(f) for f in _single(low, plan, observation, None)]


def _at_position(factor: Named, axes: tuple[Axis, ...], position: int) -> Named:
    """One element of a factor along the axes that data have."""
    for axis in reversed(axes):
        index = position % axis.size
        position //= axis.size
        if axis in factor.dims:
            here = {axis: Named(jnp.asarray(index))}
            factor = alike(factor, lambda f, here=here: pick_at(f, here))  # type: ignore[misc]
    return factor


def _single(
    low: Tables, plan: Plan, observation: ObservationDecl, key: tuple | None
) -> list[Named]:
    def here(expr: Expr) -> Expr:
        return expr if key is None else at_place(expr, observation.axes, key)

    if not observation.is_value:
        holds = here(observation.holds)
        if observation.value is None:
            observed = low.world.moment.seen[observation.name][0]
            return [log_truth(apply(jnp.equal, low.value(holds), observed), low.real)]
        # A conjunction that is known to hold is one factor per conjunct.
        parts = (
            conjuncts(holds)
            if observation.value
            else tuple(not_(p) for p in (holds.args if holds.op == "or" else (holds,)))
        )
        return [log_truth(low.value(p), low.real) for p in parts] or [
            Named(jnp.zeros((), low.real))
        ]
    total = Named(jnp.asarray(-jnp.inf, low.real))
    for branch in reversed(observation.branches):
        if branch.condition is FALSE:
            continue
        weight = Named(jnp.zeros((), low.real))
        for i, expr in enumerate(branch.values):
            observed, type_ = observed_column(low, observation, i)
            weight = apply(jnp.add, weight, _value_factor(low, plan, here(expr), observed, type_))
        condition = low.value(here(branch.condition))
        total = apply(jnp.where, condition, weight, total)
    return [total]


def _value_factor(low: Tables, plan: Plan, value: Expr, observed: Named, type_: Type) -> Named:
    if value.op == "rv" and value.data in plan.variables:
        variable = plan.variables[value.data]
        if variable.finite and value.data in plan.emitted:
            dim = Choice("rv", value.data, variable.axes, len(variable.outcomes))
            table = masses(low, variable, dim, variable.guard, variable.params)
            codes = Named(jnp.asarray(outcome_codes(variable)), (dim,))
            match = same(low, codes, variable.type, observed, type_)
            position = reduce(lambda a, axis: jnp.argmax(a, axis[0]), match, [dim])
            inside = reduce(jnp.any, match, [dim])
            chosen = pick_at(table, {dim: position})
            return apply(lambda i, c: jnp.where(i, c, -jnp.inf), inside, chosen)
        if not variable.finite:
            if plan.split and variable.axes and all(map(is_const, value.args)):
                return _density_of_one(low, variable, observed, value)
            found = density(low, variable, observed)
            if picked_out(low, variable, value) is None:
                return found
            return low.at_keys(found, variable.axes, value, tuple(map(low.value, value.args)))
    return log_truth(same(low, low.value(value), value.type, observed, type_), low.real)


def _density_of_one(low: Tables, variable: RandomVariable, observed: Named, value: Expr) -> Named:
    """The log-density of one element of a variable: a table over what it depends on, and not on
    what all elements do. Networks are called for all of them at once."""
    key = tuple(a.data for a in value.args)

    def here(expr: Expr) -> Expr:
        return at_place(expr, variable.axes, key)

    guard = here(variable.guard)
    if not leaves(flat(variable.params), "neural"):
        params = variable.prior.map(here).params
        return density(low, replace(variable, guard=guard, params=params), observed)
    found = density(low, variable, observed, unguarded=True)
    if variable.guard is not TRUE:
        found = marked(low, variable.prior, found)
    found = low.at_keys(found, variable.axes, value, tuple(map(low.value, value.args)))
    return only(low.value(guard), found)


def picked_out(low: Tables, variable: RandomVariable, value: Expr) -> Named | None:
    """Where among the elements of a variable a reference to it points; None: everywhere."""
    return all_of(
        same(low, low.value(axis_value(axis)), axis.type, low.value(key), key.type)
        for axis, key in zip(variable.axes, value.args, strict=True)
        if key.op != "axis"
    )


class ObservedWorld(World):
    """A world in which an observed value is the value of the variable."""

    def leaf(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        if expr.op == "observed":
            return self._observed(low, expr, keys)
        return super().leaf(low, expr, keys)

    def _observed(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        """What a guide reads of the observations of this step."""
        name, *_, column = expr.data
        for observation in self.step.observations:
            if (observation.name, observation.when, observation.value is None) == expr.data[:3]:
                break
        else:
            return low.nothing(expr.type)
        if column == "given":
            mask = seen(self.moment, observation)
            table = Named(jnp.asarray(True)) if mask is None else mask
        elif name in self.moment.seen:
            table = self.moment.seen[name][column]
        else:
            return low.nothing(expr.type)
        return low.at_keys(table, observation.axes, expr, keys)

    def _variable(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        name = expr.data
        variable = self.variables.get(name)
        if variable is None or variable.finite or name not in self.values:
            return super()._variable(low, expr, keys)
        return low.at_keys(self.known(low, name), variable.axes, expr, keys)

    def known(self, low: Tables, name: str) -> Named:
        """The values of a variable: what is observed, and else what was drawn."""
        table = self.values[name]
        if self.variables[name].finite:
            return table
        return given(low, self.variables[name], table)


def given(low: Tables, variable: RandomVariable, table: Named) -> Named:
    """The values of a variable: what is observed of it, and else those of a table."""
    moment = low.world.moment
    for observation in low.world.step.observations:
        if never_made(moment, observation):
            continue
        for branch in observation.branches:
            for i, value in enumerate(branch.values):
                if value.op != "rv" or value.data != variable.name:
                    continue
                masks = (seen(moment, observation), picked_out(low, variable, value))
                here = all_of([low.value(branch.condition), *masks])
                assert here is not None
                observed, type_ = observed_column(low, observation, i)
                observed = low.recode(observed, type_, variable.type)
                observed_here = apply(jnp.where, here, observed, table)
                # Data have an axis for a plate of one element, which a variable has not.
                alone = {
                    d: Named(jnp.asarray(0))
                    for d in observed_here.dims
                    if isinstance(d, Axis) and d not in variable.axes
                }
                table = pick_at(observed_here, alone)
    return table
