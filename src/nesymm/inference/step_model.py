"""What one step says, as factors, and draws from it: what all engines have in common.

Variables that are drawn ahead get a value per particle from their prior, a guide or a proposal, and
a weight. The priors of the others, their ties to what was drawn, and the evidence are the factors
of a `Problem`, which sums the others out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import jax

from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import BATCH, Choice
from nesymm.inference.elimination.factors import alike, draw, eliminate, pick, pick_at
from nesymm.inference.evidence import evidence_factors, never_made, picked_out, seen
from nesymm.inference.named import Named, all_of, apply, expand, only, reduce, union
from nesymm.inference.plan import Folded, Plan, reads
from nesymm.inference.proposals import Proposals, proposal
from nesymm.inference.proposals import draw as draw_normal
from nesymm.inference.proposals import log_density as log_normal
from nesymm.inference.questions import Question
from nesymm.inference.solve import Problem
from nesymm.inference.state import LANES, Settings, State, gradient_of, stop
from nesymm.inference.tables import Tables
from nesymm.inference.weights import (
    divergence as divergence_of,
)
from nesymm.inference.weights import (
    invalid_parameters,
    log_probability_at,
    masses,
    proposal_density,
    propose,
)
from nesymm.inference.world import coded
from nesymm.ir.axes import at_place, places, position_along
from nesymm.ir.expr import TRUE, Axis, postorder
from nesymm.ir.step import RandomVariable, Slot

# Opens the expressions of a step: `draw` gives values to variables when they are first read.
Open = Callable[[dict[str, Named], Callable[[Tables, RandomVariable], Named]], Tables]


@dataclass(frozen=True)
class StepModel:
    """The distributions of a phase with its plan. Variables in `proposals` are drawn from those."""

    plan: Plan
    settings: Settings
    questions: tuple[Question, ...] = ()
    proposals: Proposals = field(default_factory=lambda: MappingProxyType({}))

    @property
    def summed(self) -> frozenset[str]:
        """Variables that are not drawn, unless what is drawn is to be reported."""
        return frozenset() if self.settings.record else self.plan.unread

    @property
    def folded(self) -> Mapping[str, Folded]:
        """Variables that are summed out inside the observation that reads them."""
        return {} if self.settings.record else self.plan.folded

    # ------------------------------------------------------------ drawing ahead

    def draw_ahead(self, state: State, open_: Open, key: Any) -> dict[str, Named]:
        """Values of the variables drawn ahead; finite parents are drawn and forgotten."""
        counter = iter(range(1 << 30))
        forgotten: dict[str, Named] = {}

        def one(low: Tables, variable: RandomVariable) -> Named:
            dims = (*variable.axes, *LANES)
            here = jax.random.fold_in(key, next(counter))
            if variable.name in self.plan.beliefs and state.beliefs:
                if not forgotten:
                    forgotten.update(self.draw_jointly(state.beliefs, here))
                return forgotten[variable.name]
            if variable.name in self.proposals:
                mean, scale = proposal(low, variable, self.proposals[variable.name].before)
                return draw_normal(
                    here, mean, scale, dims, self.settings.shape(dims), self.settings.real
                )
            if not variable.finite:
                return propose(low, variable, here, dims, self.settings.shape(dims))
            return self.draw_finite(low, variable, here, dims)

        values = dict(state.statics)
        low = open_(values, one)
        world = low.world
        for variable in self.plan.ahead:
            if variable.name not in world.values:
                world.values[variable.name] = one(low, variable)
            value = world.values[variable.name]
            if variable.name in self.plan.scored:
                value = Named(stop_gradient(value.array), value.dims)
            world.values[variable.name] = value
            values[variable.name] = value
        return values

    def _free(self, low: Tables, variable: RandomVariable) -> Named | None:
        """Where a variable is not observed; None: everywhere."""
        moment = low.world.moment
        free: list[Named] = []
        for observation in self.plan.step.observations:
            if never_made(moment, observation) or len(observation.branches) != 1:
                continue
            (branch,) = observation.branches
            for value in branch.values if branch.condition is TRUE else ():
                if value.op != "rv" or value.data != variable.name:
                    continue
                masks = (seen(moment, observation), picked_out(low, variable, value))
                observed = all_of(masks) or Named(jnp.asarray(True))
                free.append(apply(jnp.logical_not, observed))
        return all_of(free)

    def _where_free(self, low: Tables, variable: RandomVariable, log_p: Named) -> Named:
        """What the draw of a variable weighs: nothing where the variable is observed."""
        free = self._free(low, variable)
        return log_p if free is None else only(free, log_p)

    def draw_finite(self, low: Tables, variable: RandomVariable, key: Any, dims: tuple) -> Named:
        dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
        table = masses(low, variable, dim, variable.guard, variable.params)
        logits = expand(table, (dim, *dims))
        noise = jax.random.uniform(key, self.settings.shape(dims), dtype=self.settings.real)
        index = pick(logits, noise)
        return Named(coded(variable, index), dims)

    def draw_jointly(self, beliefs: list[Named], key: Any) -> dict[str, Named]:
        """Values of the variables that some tables are about."""
        eliminated = eliminate(beliefs)
        drawn = draw(key, eliminated, self.settings.shape, None, LANES)
        return self.values_of(drawn)

    def weights_ahead(self, low: Tables) -> list[Named]:
        """What drawing ahead adds to the log-weights.

        From a guide q it is log p - log q; from the prior it is nothing, with the gradient of
        log p where the draw is scored. What depends on solved variables is part of the problem.
        """
        out = []
        for variable in self.plan.ahead:
            if self._inside(variable):
                continue
            part = self.divergence(low, variable)
            if part is None and self._weighs(variable):
                part = self.weight(low, variable)
            if part is not None:
                out.append(reduce(jnp.sum, part, variable.axes))
        return out

    def invalid(self, low: Tables, problem: Problem) -> list[Named]:
        """NaN for particles in which a network gave NaN to draw ahead by."""
        out = []
        for variable in self.plan.ahead:
            found = invalid_parameters(low, variable)
            if found is not None:
                where, nan = found
                ever = problem.possible(reduce(jnp.any, where, variable.axes))
                out.append(apply(lambda w, n=nan: jnp.where(w, n, 0.0), ever))
        return out

    def _inside(self, variable: RandomVariable) -> bool:
        """Whether what a variable was drawn from, or that it is drawn at all, depends on what is
        summed out: what it weighs is then part of the sum."""
        return variable.name in self.plan.tied or bool(
            self.plan.enumerated & reads([variable.guard])
        )

    def _weighs(self, variable: RandomVariable) -> bool:
        """Whether drawing a variable ahead adds to the log-weights, or to their gradient."""
        scored = variable.name in self.plan.scored and self.settings.estimator == "surrogate"
        proposed = bool(variable.guides) or variable.name in self.proposals
        return scored or proposed or variable.name in self.plan.tied

    def weight(self, low: Tables, variable: RandomVariable) -> Named:
        """What the draw of a variable weighs: log p - log q, or log p where it is tied, for what
        it was drawn from is then summed out by itself.

        In worlds in which the variable is not drawn nobody reads it. There its prior may be any
        density: it is what the value was drawn from, which then weighs nothing.
        """
        name = variable.name
        value, tied = low.world.values[name], name in self.plan.tied
        log_p = log_probability_at(low, variable, value, unguarded=tied)
        if not variable.finite:
            log_q = log_p
            if variable.guides:
                log_q = proposal_density(low, variable, value, unguarded=tied)
            elif name in self.proposals:
                log_q = log_normal(value, *proposal(low, variable, self.proposals[name].before))
                log_q = only(low.value(variable.guard), log_q)
            if name in self.plan.scored:
                log_q = stop(log_q)
            if tied:
                log_p = apply(jnp.where, low.value(variable.guard), log_p, log_q)
            else:
                log_p = apply(jnp.subtract, log_p, log_q)
        elif not tied:
            log_p = Named(gradient_of(log_p.array), log_p.dims)
        return self._where_free(low, variable, log_p)

    @property
    def _mentioned(self) -> set[str]:
        """Variables that observations mention."""
        return reads(e for o in self.plan.step.observations for e in o.expressions())

    def divergence(self, low: Tables, variable: RandomVariable) -> Named | None:
        """In place of log p - log q its mean under q, where there is a formula for it."""
        if not self.settings.analytic or not variable.guides:
            return None
        if variable.name in self.plan.scored or self._inside(variable):
            return None
        if variable.name in self._mentioned:
            return None
        found = divergence_of(low, variable)
        return None if found is None else Named(-found.array, found.dims)

    # ------------------------------------------------------------ the exact part

    def problem(self, low: Tables, beliefs: list[Named]) -> Problem:
        folded = {f.variable.name for f in self.folded.values()}
        drawn = (*self.plan.fresh, *(v for v in self.plan.solved if v.name not in folded))
        prior = [f for v in drawn for f in self.tables_of(low, v)]
        tied: list[Named] = []
        guided: list[Named] = []
        evidence = evidence_factors(low, self.plan, self.folded)
        evidence += self.query_weights(low)
        for variable in self.plan.ahead:
            if not self._inside(variable) or not self._weighs(variable):
                continue
            weight = self.weight(low, variable)
            if variable.name in self.plan.tied and not variable.guides:
                tied.append(weight)
                continue
            evidence.append(weight)
            if variable.name in self.plan.tied:
                value = low.world.values[variable.name]
                log_q = proposal_density(low, variable, value, unguarded=True)
                guided.append(self._where_free(low, variable, log_q))
        return Problem(
            low,
            [*prior, *beliefs],
            tied,
            evidence,
            self.plan,
            self.settings.plain,
            self.summed,
            guided,
        )

    def query_weights(self, low: Tables) -> list[Named]:
        """Bonuses for queries: nothing, whose gradient is how likely the query is."""
        out = []
        given = low.world.moment.query_weights
        for question in self.questions:
            if question.key not in given:
                continue
            query = self.plan.step.queries[question.number]
            condition = question.condition(query)
            bonus = Named(given[question.key], (BATCH, *question.axes))
            if not self.plan.grounded:
                out.append(only(low.value(condition), bonus))
                continue
            for key in places(query.axes):
                here = pick_at(bonus, _positions(query.axes, key))
                out.append(only(low.value(at_place(condition, query.axes, key)), here))
        return out

    def tables_of(self, low: Tables, variable: RandomVariable) -> list[Named]:
        """The probabilities of the outcomes of a variable: one table, or one per element where
        those are told apart."""
        axes, size = variable.axes, len(variable.outcomes)
        whole = Choice("rv", variable.name, axes, size)
        if not axes or not (self.plan.grounded or variable.name in self.plan.split):
            return [masses(low, variable, whole, variable.guard, variable.params)]
        if not self._elements_differ(variable):
            table = masses(low, variable, whole, variable.guard, variable.params)
            return [_element(table, whole, axes, key) for key in places(axes)]
        return [
            masses(low, variable, Choice("rv", variable.name, key, size), at.guard, at.params)
            for key, at in elements_of(variable)
        ]

    def _elements_differ(self, variable: RandomVariable) -> bool:
        """Whether elements may read what is known of some elements only."""
        if self.plan.grounded:
            return any(n.op in ("rv", "slot") for n in postorder(list(variable.expressions())))
        return bool(self.plan.split & reads(variable.expressions()))

    def next_fields(self, low: Tables, slot: Slot) -> dict[str, Named]:
        """The values of a slot after the step, by the names that `State.slots` has."""
        out: dict[str, Named] = {}
        if slot.name not in self.plan.always:
            out[f"{slot.name}.present"] = low.value(slot.present)
        for i, value in enumerate(slot.values):
            out[f"{slot.name}.{i}"] = low.recode(low.value(value), value.type, slot.fields[i])
        return out

    # ------------------------------------------------------------ values of what was drawn

    def values_of(self, drawn: dict[Choice, Named]) -> dict[str, Named]:
        """Values of variables from the positions of their choices."""
        out: dict[str, Named] = {}
        by_name: dict[str, dict[tuple, Named]] = {}
        for dim, index in drawn.items():
            if dim.kind == "rv":
                by_name.setdefault(dim.name, {})[dim.key] = index
        for name, elements in by_name.items():
            variable = self.plan.variables[name]
            if name not in self.plan.split or not variable.axes:
                (index,) = elements.values()
                out[name] = Named(coded(variable, index.array), index.dims)
                continue
            lanes = union(i.dims for i in elements.values())
            shape = self.settings.shape(lanes)
            stacked = jnp.stack(
                [jnp.broadcast_to(expand(elements[k], lanes), shape) for k in places(variable.axes)]
            )
            sizes = tuple(a.size for a in variable.axes)
            out[name] = Named(
                coded(variable, stacked.reshape((*sizes, *stacked.shape[1:]))),
                (*variable.axes, *lanes),
            )
        return out


def elements_of(variable: RandomVariable) -> Iterator[tuple[tuple, RandomVariable]]:
    """The keys of a variable, and how it is drawn there."""
    for key in places(variable.axes):
        yield key, variable.map(partial(at_place, axes=variable.axes, key=key))


def _element(whole: Named, dim: Choice, axes: tuple[Axis, ...], key: tuple) -> Named:
    own = Choice("rv", dim.name, key, dim.size)
    index = {a: i for a, i in _positions(axes, key).items() if a in whole.dims}
    return alike(whole, lambda f: pick_at(f.rename({dim: own}), index))


def _positions(axes: tuple[Axis, ...], key: tuple) -> dict[Axis, Named]:
    return {a: Named(jnp.asarray(position_along(a, k))) for a, k in zip(axes, key, strict=True)}
