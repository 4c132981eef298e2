"""One step of a particle filter, for all sequences and particles at once.

From the previous state of each particle: draw what must be drawn ahead; weigh by the
evidence, the finite part summed out exactly; resample if due; draw the finite part
jointly from its exact posterior; compute the next state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice, choices
from nesymm.inference.elimination.factors import add, eliminate, logsumexp, pick_at
from nesymm.inference.estimators import average, marginal_scores
from nesymm.inference.evidence import ObservedWorld, evidence_factors
from nesymm.inference.named import Named, apply, expand, only, reduce
from nesymm.inference.proposals import draw as draw_normal
from nesymm.inference.proposals import proposal
from nesymm.inference.questions import Question
from nesymm.inference.solve import Problem
from nesymm.inference.state import (
    LANES,
    Info,
    Stage,
    State,
    checkpointed,
    effective_size,
    gather_ancestors,
    gradient_of,
    normalise,
    per_particle,
    slot_key,
    stop,
    subtract,
)
from nesymm.inference.step_model import StepModel
from nesymm.inference.tables import Tables
from nesymm.inference.weights import mass_at
from nesymm.inference.world import Binding, Moment
from nesymm.ir.step import RandomVariable


@dataclass(frozen=True)
class _Weighed:
    """The particles once they are weighed: what was drawn ahead, the finite part that is left,
    where sequences still run, and the log-weights (all that the evidence added is `gain`)."""

    values: dict[str, Named]
    problem: Problem
    alive: Named
    gain: Named
    log_weights: Any
    total: Any


class ParticleStep:
    """One step from a state, given what is known at a moment. Variables that are `kept` are part
    of the next state."""

    def __init__(
        self,
        model: StepModel,
        kept: tuple[str, ...],
        state: State,
        moment: Moment,
        binding: Binding,
        stage: Stage,
    ):
        self.model, self.plan, self.settings = model, model.plan, model.settings
        self.kept = kept
        self.state, self.moment, self.binding = state, moment, binding
        self.slots = {slot_key(k): v for k, v in state.slots.items()}
        # The surrogate takes gradients from the exact sum only at the end: before, the score of
        # what is drawn carries them (their sum is the same, and this is cheaper).
        self.fixed = self.settings.estimator == "surrogate" and not stage.may_end
        self.first = stage.first

    # ------------------------------------------------------------ the step

    def __call__(self, key: Any, ask: tuple[Question, ...]) -> tuple[State, Info]:
        settings, state = self.settings, self.state
        ahead_key, resample_key, solve_key = jax.random.split(key, 3)
        found = self._weigh(ahead_key)
        before, log_weights = state.log_weights, found.log_weights
        # The paper's recursion weighs neither the particles nor the answers.
        carried = _paper(before.array, log_weights) if settings.paper else log_weights
        answers = {
            q.key: average(q, found.problem.answer(q), carried, state.scores.array, settings)
            for q in ask
        }
        effective = effective_size(normalise(stop(carried)))
        # Before the first step all particles weigh the same.
        equal = self.first and PARTICLE not in found.gain.dims
        ancestors, after, resampled = self._resample(resample_key, carried, equal)
        new, values, flags = self._move(solve_key, found, ancestors, after)
        each = jnp.arange(settings.particles, dtype=np.int32)
        own = Named(jnp.broadcast_to(each, settings.shape(LANES)), LANES)
        info = Info(
            found.total - np.log(settings.particles),
            effective,
            resampled,
            answers,
            flags,
            ~jnp.isfinite(found.total),
            values if settings.record else {},
            (own if ancestors is None else ancestors) if settings.record else None,
        )
        return new, info

    def _weigh(self, key: Any) -> _Weighed:
        """Draw ahead, and weigh by the evidence; where `fixed`, without gradients."""
        state, moment, fixed = self.state, self.moment, self.fixed

        def ahead(values: dict[str, Named], draw: Any) -> Tables:
            return self._tables(self.slots, values, draw=draw)

        values = self.model.draw_ahead(state, ahead, key)
        known = stop if fixed else (lambda x: x)
        before = {k: known(v) for k, v in self.slots.items()}  # keys of a dict in a tree must sort
        low = self._tables(before, known(values), fixed=fixed)
        problem = self.model.problem(low, known(state.beliefs))
        gain = problem.gain()
        for part in (*self.model.weights_ahead(low), *self.model.invalid(low, problem)):
            gain = apply(jnp.add, gain, part)
        alive = apply(jnp.less_equal, Named(jnp.asarray(moment.time)), moment.last)
        gain = only(alive, gain)
        log_weights = checkpointed(
            per_particle(apply(jnp.add, state.log_weights, gain), self.settings).array
        )
        if self.settings.estimator not in (None, "surrogate"):
            log_weights = stop_gradient(log_weights)
        total = logsumexp(stop(log_weights) if fixed else log_weights, -1)
        return _Weighed(values, problem, alive, gain, log_weights, total)

    def _move(
        self, key: Any, found: _Weighed, ancestors: Named | None, after: Any
    ) -> tuple[State, dict[str, Named], Any]:
        """Draw the finite part for the particles that survive: the next state, the values of the
        variables, and the flags that are raised."""
        settings, plan, state = self.settings, self.plan, self.state
        draws = found.problem.draw(key, ancestors, settings)
        drawn = {d: checkpointed(index) for d, index in draws.items()}
        slots = {k: checkpointed(gather_ancestors(v, ancestors)) for k, v in self.slots.items()}
        values = {n: gather_ancestors(v, ancestors) for n, v in found.values.items()}
        values.update(self.model.values_of(drawn))
        self._redraw(values, slots, key)
        beliefs = [gather_ancestors(b, ancestors) for b in state.beliefs]
        scores = state.scores
        concrete = self._tables(slots, values, concrete=True)
        new_slots = self._next(concrete)
        if settings.estimator is not None or plan.beliefs:
            score, beliefs = self._score(concrete, drawn, beliefs)
            if settings.estimator is not None:
                # Where the gain has its gradient, the rest is that of what was drawn given it.
                gain = gather_ancestors(found.gain, ancestors)
                rest = score if self.fixed else apply(jnp.subtract, score, gain)
                gradient = apply(lambda a, x: jnp.where(a, gradient_of(x), 0.0), found.alive, rest)
                if settings.estimator == "surrogate":
                    after = after + expand(gradient, LANES)
                else:
                    scores = per_particle(
                        apply(jnp.add, gather_ancestors(scores, ancestors), gradient), settings
                    )
        if settings.estimator == "recursive_rloo":
            scores = marginal_scores(found.problem, new_slots, state.scores, settings)
        # Weights have mean one, so that their logarithms stay small however long it runs.
        mean = stop_gradient(logsumexp(after, -1)) - np.log(settings.particles)
        after = subtract(after, mean[:, None])
        wanted = values if settings.record else self.kept
        known = {n: concrete.world.known(concrete, n) for n in wanted if n in values}
        statics = {n: v for n, v in known.items() if n in self.kept and n not in plan.beliefs}
        origins = state.origins and gather_ancestors(state.origins, ancestors)
        new = State(new_slots, statics, beliefs, Named(after, LANES), scores, origins=origins)
        return new, known, self._flags(concrete, after)

    # ------------------------------------------------------------ worlds

    def _tables(
        self,
        slots: dict[Any, Named],
        values: dict[str, Named],
        concrete: bool = False,
        draw: Callable[[Tables, RandomVariable], Named] | None = None,
        fixed: bool = False,
    ) -> Tables:
        plan, moment, binding = self.plan, self.moment, self.binding
        if fixed:
            moment = replace(moment, query_weights=stop(dict(moment.query_weights)))
            binding = replace(binding, fixed=True)
        enumerated = plan.beliefs | self.model.summed if concrete or draw else plan.enumerated
        world = ObservedWorld(
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
        return Tables(world, settings.real, settings.capacity, naming=settings.naming, often=often)

    # ------------------------------------------------------------ after the evidence

    def _resample(self, key: Any, log_weights: Any, equal: bool) -> tuple[Named | None, Any, Any]:
        """Ancestors, log-weights after, and which sequences were resampled. Where all particles of
        a sequence are known to weigh the same, none is due below a threshold.

        The weights keep their mean, and their gradient: log w - stop(log w).
        """
        settings = self.settings
        scheme = None if equal and settings.threshold <= 1 else settings.resample
        if scheme is None or settings.particles == 1:
            return None, log_weights, jnp.zeros(settings.batch, bool)
        n = settings.particles
        stopped = stop_gradient(log_weights)
        weights = normalise(stopped)
        effective = effective_size(weights)
        alive = jnp.asarray(self.moment.time) < expand(self.moment.last, (BATCH,))
        due = (effective < settings.threshold * n) & alive
        chosen = jnp.asarray(scheme(key, weights), jnp.int32)
        own = jnp.arange(n, dtype=jnp.int32)
        due, ancestors = checkpointed((due, jnp.where(due[:, None], chosen, own)))
        mean = logsumexp(stopped, -1) - np.log(n)
        followed = jnp.take_along_axis(log_weights, ancestors, axis=-1)
        after = jnp.where(due[:, None], mean[:, None] + gradient_of(followed), log_weights)
        return Named(ancestors, LANES), after, due

    def _redraw(self, values: dict[str, Named], slots: dict[Any, Named], key: Any) -> None:
        """Draw variables anew given all the rest, one after the other."""
        for number, variable in enumerate(self.plan.ahead):
            found = self.model.proposals.get(variable.name)
            if found is None or found.given is None:
                continue
            low = self._tables(slots, values, concrete=True)
            mean, scale = proposal(low, variable, found.given)
            dims = (*variable.axes, *LANES)
            here = jax.random.fold_in(key, (1 << 20) + number)
            new = draw_normal(
                here, mean, scale, dims, self.settings.shape(dims), self.settings.real
            )
            values[variable.name] = stop(new)

    def _score(
        self, low: Tables, drawn: dict[Choice, Named], beliefs: list[Named]
    ) -> tuple[Named, list[Named]]:
        """The log-probability of all that was drawn and observed, and the new beliefs.

        Its gradient is all that the surrogate needs; what is marginalised is summed out.
        """
        factors = list(beliefs)
        folded = {f.variable.name for f in self.model.folded.values()}
        for variable in (*self.plan.fresh, *self.plan.solved):
            if variable.name in folded:
                continue
            dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
            known = mass_at(low, variable, drawn[dim]) if dim in drawn else None
            if known is not None:
                factors.append(known)
                continue
            for table in self.model.tables_of(low, variable):
                known_dims = {d: drawn[d] for d in choices(table.dims) if d in drawn}
                factors.append(pick_at(table, known_dims))
        for variable in self.plan.ahead:
            formula = self.model.divergence(low, variable)
            if formula is not None:
                factors.append(formula)
                continue
            if variable.guides or variable.name in self.plan.scored:
                factors.append(self.model.weight(low, variable))
        factors += evidence_factors(low, self.plan, self.model.folded)
        factors += self.model.query_weights(low)
        factors += [f for parts in low.factors for f in parts]
        eliminated = eliminate(
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
        table = add(rest)
        dims = choices(table.dims)
        norm = reduce(logsumexp, table, dims)
        score = apply(jnp.add, score, norm)
        return score, [apply(subtract, table, norm)]

    def _next(self, low: Tables) -> dict[str, Named]:
        out: dict[str, Named] = {}
        for slot in self.plan.step.slots:
            out |= self.model.next_fields(low, slot)
        for name, value in out.items():
            if choices(value.dims):
                raise AssertionError(f"{name} depends on what is marginalised")
        return out

    def _flags(self, low: Tables, log_weights: Any) -> Any:
        """Flags that some particle raises, if evidence has left it any weight."""
        out = []
        counts = Named(jnp.isfinite(log_weights), LANES)
        for flag in self.plan.step.flags:
            value = apply(jnp.logical_and, low.value(flag.condition), counts)
            array = jnp.broadcast_to(
                expand(
                    reduce(jnp.any, value, [d for d in value.dims if d != BATCH]),
                    (BATCH,),
                ),
                (self.settings.batch,),
            )
            out.append(array)
        return jnp.stack(out, -1) if out else jnp.zeros((self.settings.batch, 0), bool)


def _paper(before: Any, after: Any) -> Any:
    """The paper's recursion: evidence steers the draws but does not weigh the particles."""
    return jnp.where(jnp.isfinite(after), before, -jnp.inf)
