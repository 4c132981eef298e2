"""One step of the filter, for all sequences and particles at once.

From the previous state of each particle: draw what must be drawn ahead; weigh by the
evidence, the finite part summed out exactly; resample if due; draw the finite part
jointly from its exact posterior; compute the next state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import BATCH, Choice, choices
from nesymm.inference.elimination.factors import (
    add,
    alike,
    draw,
    eliminate,
    logsumexp,
    pick,
    pick_at,
)
from nesymm.inference.estimators import average, marginal_scores
from nesymm.inference.evidence import Told, evidence_factors, never_made, picked_out, seen
from nesymm.inference.named import Named, apply, expand, reduce, union
from nesymm.inference.plan import Folded, Plan, reads
from nesymm.inference.proposals import Proposals, proposal
from nesymm.inference.proposals import draw as draw_normal
from nesymm.inference.proposals import log_density as log_normal
from nesymm.inference.questions import Question
from nesymm.inference.solve import Problem
from nesymm.inference.state import (
    LANES,
    Outcome,
    Settings,
    State,
    follow,
    normalise,
    saved,
    slope_of,
    slot_key,
    stop,
    wide,
)
from nesymm.inference.weights import (
    divergence,
    log_probability_at,
    mass_at,
    masses,
    proposal_density,
    propose,
    spoiled,
)
from nesymm.inference.world import Binding, Moment, Tables, coded
from nesymm.ir.axes import at_place, places
from nesymm.ir.expr import TRUE, Axis, Expr
from nesymm.ir.step import RandomVariable
from nesymm.ir.types import Int


class ParticleStep:
    """A phase with its plan, as a function of state and data."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        kept: tuple[str, ...],
        questions: tuple[Question, ...] = (),
        proposals: Proposals = MappingProxyType({}),
    ):
        self.plan = plan
        # The paper's estimators are about draws from the prior.
        given = settings.paper or settings.estimator not in (None, "surrogate")
        self.proposals = {} if given else proposals
        self.settings = settings
        self.kept = kept
        self.questions = questions

    @property
    def summed(self) -> frozenset[str]:
        """Variables that are not drawn, unless what is drawn is to be reported."""
        return frozenset() if self.settings.record else self.plan.unread

    @property
    def folded(self) -> Mapping[str, Folded]:
        """Variables that are summed out inside the observation that reads them."""
        return {} if self.settings.record else self.plan.folded

    # ------------------------------------------------------------ the step

    def __call__(
        self,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        ask: tuple[Question, ...],
        final: bool,
    ) -> Outcome:
        settings, plan = self.settings, self.plan
        ahead_key, resample_key, solve_key = jax.random.split(key, 3)
        slots = {slot_key(k): v for k, v in state.slots.items()}

        values = self._draw_ahead(state, slots, moment, binding, ahead_key)
        # The surrogate takes slopes from the exact sum only at the end: before, the score of
        # what is drawn carries them (their sum is the same, and this is cheaper).
        scored = settings.estimator is not None
        surrogate = settings.estimator == "surrogate"
        fixed = surrogate and not final
        known = stop if fixed else (lambda x: x)
        given = replace(moment, tilts=known(dict(moment.tilts)))
        before_ = {k: known(v) for k, v in slots.items()}  # keys of a dict in a tree must sort
        low = self._tables(before_, known(values), given, replace(binding, fixed=fixed))
        problem = self._problem(low, known(state.beliefs), given)
        gain = problem.gain()
        for part in (*self._drawn_ahead(low), *self._spoiled(low, problem)):
            gain = apply(jnp, jnp.add, gain, part)
        alive = apply(jnp, jnp.less_equal, Named(jnp.asarray(moment.time)), moment.last)
        gain = apply(jnp, lambda a, g: jnp.where(a, g, 0.0), alive, gain)
        before = state.log_weights
        log_weights = saved(wide(apply(jnp, jnp.add, before, gain), settings).array)
        if scored and not surrogate:
            log_weights = stop_gradient(log_weights)
        total = logsumexp(jnp, stop(log_weights) if fixed else log_weights, -1)
        # The paper's recursion weighs neither the particles nor the answers.
        carried = _paper(before.array, log_weights) if settings.paper else log_weights
        answers = {
            q.key: average(q, problem.answer(q), carried, state.scores.array, settings) for q in ask
        }
        effective = 1.0 / jnp.maximum(jnp.sum(normalise(stop(carried)) ** 2, -1), 1e-30)
        ancestors, after, resampled = self._resample(resample_key, carried, moment)
        draws = problem.draw(solve_key, ancestors, settings)
        drawn = {d: saved(index) for d, index in draws.items()}

        slots_ = {k: saved(follow(v, ancestors)) for k, v in slots.items()}
        values_ = {n: follow(v, ancestors) for n, v in values.items()}
        values_.update(self._assemble(drawn))
        self._redraw(values_, slots_, moment, binding, solve_key)
        beliefs = [follow(b, ancestors) for b in state.beliefs]
        scores = state.scores
        concrete = self._tables(slots_, values_, moment, binding, concrete=True)
        new_slots = self._next(concrete)
        if scored or plan.beliefs:
            score, beliefs = self._score(concrete, drawn, beliefs, moment)
            if scored:
                # Where the gain has its slope, the rest is that of what was drawn given it.
                rest = score if fixed else apply(jnp, jnp.subtract, score, follow(gain, ancestors))
                slope = apply(jnp, lambda a, x: jnp.where(a, slope_of(x), 0.0), alive, rest)
                if surrogate:
                    after = after + expand(jnp, slope, LANES)
                else:
                    scores = wide(apply(jnp, jnp.add, follow(scores, ancestors), slope), settings)
        # Weights have mean one, so that their logarithms stay small however long it runs.
        mean = stop_gradient(logsumexp(jnp, after, -1)) - np.log(settings.particles)
        after = after - jnp.where(jnp.isfinite(mean), mean, 0.0)[:, None]
        wanted = values_ if settings.record else self.kept
        seen_values = {n: concrete.world.known(concrete, n) for n in wanted if n in values_}
        statics = {n: v for n, v in seen_values.items() if n in self.kept and n not in plan.beliefs}
        if settings.estimator == "recursive_rloo":
            scores = marginal_scores(problem, new_slots, state.scores, settings)
        origins = state.origins and follow(state.origins, ancestors)
        new = State(new_slots, statics, beliefs, Named(after, LANES), scores, origins=origins)
        history = {}
        if settings.record:
            own = Named(
                jnp.broadcast_to(jnp.arange(settings.particles), settings.shape(LANES)), LANES
            )
            history = {**seen_values, **{f"slot {k}": v for k, v in new_slots.items()}}
            history["ancestors"] = ancestors if ancestors is not None else own
        return Outcome(
            new,
            total - np.log(settings.particles),
            effective,
            resampled,
            answers,
            self._flags(concrete, after),
            ~jnp.isfinite(total),
            history,
        )

    # ------------------------------------------------------------ worlds

    def _tables(
        self,
        slots: dict[Any, Named],
        values: dict[str, Named],
        moment: Moment,
        binding: Binding,
        concrete: bool = False,
        draw: Callable[[Tables, RandomVariable], Named] | None = None,
    ) -> Tables:
        plan = self.plan
        enumerated = plan.beliefs | self.summed if concrete or draw else plan.enumerated
        world = Told(
            plan.step,
            moment,
            binding,
            slots,
            dict(values),
            frozenset() if draw else enumerated,
            plan.split,
            draw,
            plan.variables,
        )
        often = frozenset() if concrete or draw else plan.shared
        settings = self.settings
        return Tables(world, settings.real, settings.room, naming=settings.naming, often=often)

    # ------------------------------------------------------------ before the evidence

    def _draw_ahead(
        self,
        state: State,
        slots: dict[Any, Named],
        moment: Moment,
        binding: Binding,
        key: Any,
    ) -> dict[str, Named]:
        """Values of the variables drawn ahead; finite parents are drawn and forgotten."""
        counter = iter(range(1 << 30))
        forgotten: dict[str, Named] = {}

        def one(low: Tables, variable: RandomVariable) -> Named:
            dims = (*variable.axes, *LANES)
            here = jax.random.fold_in(key, next(counter))
            if variable.name in self.plan.beliefs and state.beliefs:
                if not forgotten:
                    forgotten.update(self._draw_beliefs(state.beliefs, here))
                return forgotten[variable.name]
            if variable.name in self.proposals:
                mean, scale = proposal(low, variable, self.proposals[variable.name].before)
                return draw_normal(
                    here, mean, scale, dims, self.settings.shape(dims), self.settings.real
                )
            if not variable.finite:
                return propose(low, variable, here, dims, self.settings.shape(dims))
            return self._draw_finite(low, variable, here, dims)

        values = dict(state.statics)
        low = self._tables(slots, values, moment, binding, draw=one)
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

    def _free(self, low: Tables, variable: RandomVariable, moment: Moment) -> Named | None:
        """Where a variable is not observed; None: everywhere."""
        free: Named | None = None
        for observation in self.plan.step.observations:
            if never_made(moment, observation) or len(observation.branches) != 1:
                continue
            (branch,) = observation.branches
            for value in branch.values if branch.condition is TRUE else ():
                if value.op != "rv" or value.data != variable.name:
                    continue
                told = Named(jnp.asarray(True))
                for mask in (seen(moment, observation), picked_out(low, variable, value)):
                    if mask is not None:
                        told = apply(jnp, jnp.logical_and, told, mask)
                other = apply(jnp, jnp.logical_not, told)
                free = other if free is None else apply(jnp, jnp.logical_and, free, other)
        return free

    def _where_free(self, low: Tables, variable: RandomVariable, log_p: Named) -> Named:
        """What the draw of a variable weighs: nothing where the variable is observed."""
        free = self._free(low, variable, low.world.moment)
        if free is None:
            return log_p
        return apply(jnp, lambda m, x: jnp.where(m, x, 0.0), free, log_p)

    def _draw_finite(self, low: Tables, variable: RandomVariable, key: Any, dims: tuple) -> Named:
        dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
        table = masses(low, variable, dim, variable.guard, variable.params)
        logits = expand(jnp, table, (dim, *dims))
        noise = jax.random.uniform(key, self.settings.shape(dims), dtype=self.settings.real)
        index = pick(jnp, logits, noise)
        return Named(coded(variable, index), dims)

    def _draw_beliefs(self, beliefs: list[Named], key: Any) -> dict[str, Named]:
        eliminated = eliminate(jnp, beliefs)
        drawn = draw(jax, key, eliminated, self.settings.shape, None, LANES)
        return self._assemble(drawn)

    def _drawn_ahead(self, low: Tables) -> list[Named]:
        """What drawing ahead adds to the log-weights.

        From a guide q it is log p - log q; from the prior it is nothing, with the slope of
        log p where the draw is scored. What depends on solved variables is part of the problem.
        """
        out = []
        for variable in self.plan.ahead:
            if self._inside(variable):
                continue
            part = self._divergence(low, variable)
            if part is None and self._weighs(variable):
                part = self._weight(low, variable)
            if part is not None:
                out.append(reduce(jnp, jnp.sum, part, variable.axes))
        return out

    def _spoiled(self, low: Tables, problem: Problem) -> list[Named]:
        """NaN for particles in which a network gave NaN to draw ahead by."""
        out = []
        for variable in self.plan.ahead:
            found = spoiled(low, variable)
            if found is not None:
                where, nan = found
                ever = problem.possible(reduce(jnp, jnp.any, where, variable.axes))
                out.append(apply(jnp, lambda w, n=nan: jnp.where(w, n, 0.0), ever))
        return out

    def _inside(self, variable: RandomVariable) -> bool:
        """Whether what a variable was drawn from, or that it is drawn at all, depends on what is
        summed out: what it weighs is then part of the sum."""
        return variable.name in self.plan.tied or bool(
            self.plan.enumerated & reads([variable.guard])
        )

    def _weighs(self, variable: RandomVariable) -> bool:
        """Whether drawing a variable ahead adds to the log-weights, or to their slope."""
        scored = variable.name in self.plan.scored and self.settings.estimator == "surrogate"
        proposed = bool(variable.guides) or variable.name in self.proposals
        return scored or proposed or variable.name in self.plan.tied

    def _weight(self, low: Tables, variable: RandomVariable) -> Named:
        """What the draw of a variable weighs: log p - log q, or log p where it is tied, for what
        it was drawn from is then summed out by itself.

        In worlds in which the variable is not drawn nobody reads it. There its prior may be any
        density: it is what the value was drawn from, which then weighs nothing.
        """
        name = variable.name
        value, tied = low.world.values[name], name in self.plan.tied
        log_p = log_probability_at(low, variable, value, anyway=tied)
        if not variable.finite:
            log_q = log_p
            if variable.guides:
                log_q = proposal_density(low, variable, value, anyway=tied)
            elif name in self.proposals:
                log_q = log_normal(value, *proposal(low, variable, self.proposals[name].before))
                drawn = low.value(variable.guard)
                log_q = apply(jnp, lambda g, q: jnp.where(g, q, 0.0), drawn, log_q)
            if name in self.plan.scored:
                log_q = stop(log_q)
            if tied:
                log_p = apply(jnp, jnp.where, low.value(variable.guard), log_p, log_q)
            else:
                log_p = apply(jnp, jnp.subtract, log_p, log_q)
        elif not tied:
            log_p = Named(slope_of(log_p.array), log_p.dims)
        return self._where_free(low, variable, log_p)

    @property
    def _mentioned(self) -> set[str]:
        """Variables that observations mention."""
        return reads(e for o in self.plan.step.observations for e in o.expressions())

    def _divergence(self, low: Tables, variable: RandomVariable) -> Named | None:
        """In place of log p - log q its mean under q, where there is a formula for it."""
        if not self.settings.analytic or not variable.guides:
            return None
        if variable.name in self.plan.scored or self._inside(variable):
            return None
        if variable.name in self._mentioned:
            return None
        found = divergence(low, variable)
        return None if found is None else Named(-found.array, found.dims)

    # ------------------------------------------------------------ the exact part

    def _problem(self, low: Tables, beliefs: list[Named], moment: Moment) -> Problem:
        folded = {f.variable.name for f in self.folded.values()}
        drawn = (*self.plan.fresh, *(v for v in self.plan.solved if v.name not in folded))
        prior = [f for v in drawn for f in self._masses(low, v)]
        tied: list[Named] = []
        guided: list[Named] = []
        evidence = evidence_factors(low, self.plan, moment, self.folded)
        evidence += self._tilts(low, moment)
        for variable in self.plan.ahead:
            if not self._inside(variable) or not self._weighs(variable):
                continue
            weight = self._weight(low, variable)
            if variable.name in self.plan.tied and not variable.guides:
                tied.append(weight)
                continue
            evidence.append(weight)
            if variable.name in self.plan.tied:
                value = low.world.values[variable.name]
                log_q = proposal_density(low, variable, value, anyway=True)
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

    def _tilts(self, low: Tables, moment: Moment) -> list[Named]:
        """Bonuses for queries: nothing, whose slope tells how likely the query is."""
        out = []
        for question in self.questions:
            if question.key in moment.tilts:
                condition = low.value(question.condition(self.plan.step.queries[question.number]))
                bonus = Named(moment.tilts[question.key], (BATCH, *question.axes))
                out.append(apply(jnp, lambda c, x: jnp.where(c, x, 0.0), condition, bonus))
        return out

    def _masses(self, low: Tables, variable: RandomVariable) -> list[Named]:
        dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
        if variable.name not in self.plan.split or not variable.axes:
            return [masses(low, variable, dim, variable.guard, variable.params)]
        if not self.plan.split & reads(variable.expressions()):
            whole = masses(low, variable, dim, variable.guard, variable.params)
            return [self._element(whole, dim, variable, key) for key in places(variable.axes)]
        out = []
        for key in places(variable.axes):
            own = Choice("rv", variable.name, key, dim.size)
            params = tuple(
                tuple(at_place(e, variable.axes, key) for e in p)
                if isinstance(p, tuple)
                else at_place(p, variable.axes, key)
                for p in variable.params
            )
            guard = at_place(variable.guard, variable.axes, key)
            out.append(masses(low, variable, own, guard, params))
        return out

    def _element(self, whole: Named, dim: Choice, variable: RandomVariable, key: tuple) -> Named:
        index = {
            a: Named(jnp.asarray(place_of(a, k)))
            for a, k in zip(variable.axes, key, strict=True)
            if a in whole.dims
        }
        own = Choice("rv", variable.name, key, dim.size)
        return alike(whole, lambda f: pick_at(jnp, f.rename({dim: own}), index))

    # ------------------------------------------------------------ after the evidence

    def _resample(
        self, key: Any, log_weights: Any, moment: Moment
    ) -> tuple[Named | None, Any, Any]:
        """Ancestors, log-weights after, and which sequences were resampled.

        The weights keep their mean, and their slope: log w - stop(log w).
        """
        settings = self.settings
        if settings.resample is None or settings.particles == 1:
            return None, log_weights, jnp.zeros(settings.batch, bool)
        n = settings.particles
        stopped = stop_gradient(log_weights)
        weights = normalise(stopped)
        effective = 1.0 / jnp.maximum(jnp.sum(weights**2, -1), 1e-30)
        alive = jnp.asarray(moment.time) < expand(jnp, moment.last, (BATCH,))
        due = (effective < settings.threshold * n) & alive
        chosen = settings.resample(key, weights)
        own = jnp.arange(n, dtype=chosen.dtype)
        due, ancestors = saved((due, jnp.where(due[:, None], chosen, own)))
        mean = logsumexp(jnp, stopped, -1) - np.log(n)
        followed = jnp.take_along_axis(log_weights, ancestors, axis=-1)
        after = jnp.where(due[:, None], mean[:, None] + slope_of(followed), log_weights)
        return Named(ancestors, LANES), after, due

    def _redraw(
        self,
        values: dict[str, Named],
        slots: dict[Any, Named],
        moment: Moment,
        binding: Binding,
        key: Any,
    ) -> None:
        """Draw variables anew given all the rest, one after the other."""
        for number, variable in enumerate(self.plan.ahead):
            found = self.proposals.get(variable.name)
            if found is None or found.given is None:
                continue
            low = self._tables(slots, values, moment, binding, concrete=True)
            mean, scale = proposal(low, variable, found.given)
            dims = (*variable.axes, *LANES)
            here = jax.random.fold_in(key, (1 << 20) + number)
            new = draw_normal(
                here, mean, scale, dims, self.settings.shape(dims), self.settings.real
            )
            values[variable.name] = stop(new)

    def _assemble(self, drawn: dict[Choice, Named]) -> dict[str, Named]:
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
                [
                    jnp.broadcast_to(expand(jnp, elements[k], lanes), shape)
                    for k in places(variable.axes)
                ]
            )
            sizes = tuple(a.size for a in variable.axes)
            out[name] = Named(
                coded(variable, stacked.reshape((*sizes, *stacked.shape[1:]))),
                (*variable.axes, *lanes),
            )
        return out

    def _score(
        self,
        low: Tables,
        drawn: dict[Choice, Named],
        beliefs: list[Named],
        moment: Moment,
    ) -> tuple[Named, list[Named]]:
        """The log-probability of all that was drawn and observed, and the new beliefs.

        Its slope is all that the surrogate needs; what is marginalised is summed out.
        """
        factors = list(beliefs)
        folded = {f.variable.name for f in self.folded.values()}
        for variable in (*self.plan.fresh, *self.plan.solved):
            if variable.name in folded:
                continue
            dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
            known = mass_at(low, variable, drawn[dim]) if dim in drawn else None
            if known is not None:
                factors.append(known)
                continue
            for table in self._masses(low, variable):
                known_dims = {d: drawn[d] for d in choices(table.dims) if d in drawn}
                factors.append(pick_at(jnp, table, known_dims))
        for variable in self.plan.ahead:
            formula = self._divergence(low, variable)
            if formula is not None:
                factors.append(formula)
                continue
            if variable.guides or variable.name in self.plan.scored:
                factors.append(self._weight(low, variable))
        factors += evidence_factors(low, self.plan, moment, self.folded)
        factors += self._tilts(low, moment)
        factors += [f for parts in low.factors for f in parts]
        eliminated = eliminate(
            jnp,
            factors,
            keep=frozenset(
                d for f in factors for d in choices(f.dims) if d.name in self.plan.beliefs
            ),
            plain=self.settings.plain,
        )
        score = eliminated.total
        rest = eliminated.rest
        if not rest:
            return score, []
        table = add(jnp, rest)
        dims = choices(table.dims)
        norm = reduce(jnp, lambda a, axis: logsumexp(jnp, a, axis), table, dims)
        score = apply(jnp, jnp.add, score, norm)
        safe = apply(
            jnp,
            lambda t, n: t - jnp.where(jnp.isfinite(n), n, 0.0),
            table,
            norm,
        )
        return score, [safe]

    def _next(self, low: Tables) -> dict[str, Named]:
        out: dict[str, Named] = {}
        for slot in self.plan.step.slots:
            fields: list[tuple[Any, Expr]] = [*enumerate(slot.values)]
            if slot.name not in self.plan.always:
                fields.insert(0, ("present", slot.present))
            for column, expr in fields:
                value = low.value(expr)
                if column != "present":
                    value = low.recode(value, expr.type, slot.fields[column])
                if choices(value.dims):
                    raise AssertionError(f"{slot.name} depends on what is marginalised")
                out[f"{slot.name}.{column}"] = value
        return out

    def _flags(self, low: Tables, log_weights: Any) -> Any:
        """Flags that some particle raises, if evidence has left it any weight."""
        out = []
        counts = Named(jnp.isfinite(log_weights), LANES)
        for flag in self.plan.step.flags:
            value = apply(jnp, jnp.logical_and, low.value(flag.condition), counts)
            array = jnp.broadcast_to(
                expand(
                    jnp,
                    reduce(jnp, jnp.any, value, [d for d in value.dims if d != BATCH]),
                    (BATCH,),
                ),
                (self.settings.batch,),
            )
            out.append(array)
        return jnp.stack(out, -1) if out else jnp.zeros((self.settings.batch, 0), bool)


def place_of(axis: Axis, value: Any) -> int:
    """The position of a value along an axis."""
    if isinstance(axis.type, Int):
        return int(value - axis.type.lo)
    return axis.type.values.index(value)


def _paper(before: Any, after: Any) -> Any:
    """The paper's recursion: evidence steers the draws but does not weigh the particles."""
    return jnp.where(jnp.isfinite(after), before, -jnp.inf)
