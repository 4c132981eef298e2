"""One step of exact inference: from the belief over the state before it to that after it.

Everything finite is summed out by `summation`: for the evidence and the next state together,
and once more for each query. Elements of plates are told apart throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.beliefs import merge, partition, regroup
from nesymm.inference.elimination.choices import Choice, choices
from nesymm.inference.elimination.factors import add, components, draw, eliminate, logsumexp
from nesymm.inference.elimination.summation import Target, point, product_along_axes, sum_out
from nesymm.inference.estimators import average
from nesymm.inference.evidence import ObservedWorld
from nesymm.inference.named import Named, apply, expand, only, reduce, union
from nesymm.inference.plan import Plan
from nesymm.inference.questions import Question
from nesymm.inference.solve import Problem, defined, definitions, position_in, truth
from nesymm.inference.state import (
    LANES,
    Fixed,
    Info,
    Settings,
    Stage,
    State,
    effective_size,
    normalise,
    per_particle,
    slot_key,
    subtract,
)
from nesymm.inference.step_model import StepModel, elements_of
from nesymm.inference.tables import Tables, log_truth
from nesymm.inference.world import Binding, Moment
from nesymm.ir.axes import at_place, places
from nesymm.ir.expr import Expr
from nesymm.ir.step import flat

if TYPE_CHECKING:
    from nesymm.inference.forward import ExactFilter


class ExactStep:
    """One step of the exact forward pass, from a state, given what is known at a moment."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        engine: ExactFilter,
        state: State,
        moment: Moment,
        binding: Binding,
    ):
        self.plan = plan
        self.settings = settings
        self.state, self.moment, self.binding = state, moment, binding
        self.kept = engine.phases.kept
        self.engine = engine
        self.model = StepModel(plan, settings, engine.questions)
        self.capacity = replace(engine.capacity(settings.batch), bytes=settings.naming.most)

    def __call__(self, key: Any, ask: tuple[Question, ...], stage: Stage) -> tuple[State, Info]:
        settings, state = self.settings, self.state
        values = self.model.draw_ahead(state, self.tables, key)
        low = self.tables(values)
        problem = self.model.problem(low, state.beliefs)
        before = state.log_weights
        gain, beliefs, known = self._forward(low, problem, state.fixed, stage.end)
        for part in self.model.weights_ahead(low):
            gain = apply(jnp.add, gain, part)
        for part in problem.proposed():
            gain = apply(subtract, gain, part)
        gain = only(self._alive(), gain)
        log_weights = per_particle(apply(jnp.add, before, gain), settings).array
        total = logsumexp(log_weights, -1)
        answers = {
            q.key: average(q, problem.answer(q), log_weights, before.array, settings) for q in ask
        }
        mean = stop_gradient(total) - jnp.log(1.0 * settings.particles)
        after = log_weights - jnp.where(jnp.isfinite(mean), mean, 0.0)[:, None]
        statics = {n: self._known_static(low, n) for n in values if n in self.kept}
        carried = self._next_carried(low)
        new = State(
            carried, statics, beliefs, Named(after, LANES), state.scores, known, fixed=state.fixed
        )
        info = Info(
            total - jnp.log(1.0 * settings.particles),
            effective_size(normalise(log_weights)),
            jnp.zeros(settings.batch, bool),
            answers,
            self._possible_flags(low, problem),
            ~jnp.isfinite(total),
            dict(values) if settings.record else {},
        )
        return new, info

    def tables(self, values: dict[str, Named], draw: Any = None) -> Tables:
        """The expressions of the step, over the belief about the state before it."""
        plan, state = self.plan, self.state
        first = plan is self.engine.first
        world = ObservedWorld(
            plan.step,
            self.moment,
            self.binding,
            {slot_key(k): v for k, v in state.slots.items()},
            dict(values),
            frozenset() if draw else plan.enumerated,
            plan.split,
            draw,
            plan.variables,
            {} if first else self.engine.domains,
            state.known,
        )
        shared, naming = self.engine.shared[first], self.settings.naming
        edges = self.settings.estimator is not None
        return Tables(world, self.settings.real, self.capacity, shared, naming, edges=edges)

    def _alive(self) -> Named:
        """Which sequences have this step."""
        return apply(jnp.less_equal, Named(jnp.asarray(self.moment.time)), self.moment.last)

    def _known_static(self, low: Tables, name: str) -> Named:
        value = low.world.known(low, name)
        if choices(value.dims):
            raise NesymmError(
                f"{name} is observed only in some worlds, and later steps read it: the state has "
                "no exact belief; use particles"
            )
        return value

    # ------------------------------------------------------------ previous to next

    def _forward(
        self, low: Tables, problem: Problem, fixed: Fixed | None, last: bool
    ) -> tuple[Named, list[Named], dict[str, Named]]:
        """The log-probability of the evidence, and the belief over the next state: log-tables
        of what is uncertain, and the positions of what is not."""
        targets, known = ([], {}) if last else self._targets(low, fixed)
        factors = [*problem.prior, *problem.tied, *problem.evidence]
        more, inner = defined(low, [*factors, *(t.index for t in targets)])
        factors += more
        keep = frozenset(
            d for f in factors for d in choices(f.dims) if d.name in self.plan.beliefs and not last
        )
        total, rest = sum_out(factors, targets, keep, self.capacity, self.engine.sum, inner)
        if not rest:
            return total, [], known
        parts = [Named(f.array, tuple(map(_as_slot, f.dims))) for f in rest]
        if fixed is None:
            return *self._normalised(total, parts), known
        joined = []
        for members in components(parts):
            together = [parts[i] for i in members]
            self.capacity.refuse(union(f.dims for f in together))
            joined.append(add(together))
        merged = merge(fixed.partition, partition(joined))
        joined = regroup(joined, merged, self.capacity)
        total, beliefs = self._normalised(total, joined)
        return total, sorted(beliefs, key=lambda b: sorted(map(repr, choices(b.dims)))), known

    def _normalised(self, total: Named, parts: list[Named]) -> tuple[Named, list[Named]]:
        """Log-tables whose product sums to one, and the total with what they summed to."""
        out = []
        for members in components(parts):
            first, *others = (parts[i] for i in members)
            norm, _ = sum_out([first, *others], (), frozenset(), self.capacity, self.engine.sum)
            total = apply(jnp.add, total, norm)
            out += [apply(subtract, first, norm), *others]
        return total, out

    # ------------------------------------------------------------ next to previous

    def smooth(
        self, ask: tuple[Question, ...], after: list[Named]
    ) -> tuple[dict[str, Named], list[Named]]:
        """The probabilities of queries given all evidence, and the likelihood of the evidence
        from this step on, as log-tables over the state before it. `after` is that likelihood of
        the steps that follow, over the state after this one."""
        low = self.tables({})
        problem = self.model.problem(low, [])
        later = [Named(f.array, tuple(map(_as_next, f.dims))) for f in after]
        mentioned = {d for f in later for d in choices(f.dims)}
        later += [point(Target(d, i)) for d, i in self._fields(low) if d in mentioned]
        problem = replace(problem, evidence=[*problem.evidence, *later])
        known = replace(problem, prior=[*problem.prior, *self.state.beliefs])
        answers = {q.key: known.answer(q) for q in ask}
        factors = [*problem.prior, *problem.evidence]
        more, inner = defined(low, factors)
        factors += more
        keep = frozenset(
            d
            for f in (*factors, *(t.index for t in inner))
            for d in choices(f.dims)
            if d.kind == "slot" or (d.name in self.plan.beliefs and self.plan is self.engine.later)
        )
        _, rest = sum_out(factors, (), keep, self.capacity, inner=inner)
        alive = self._alive()
        before = []
        for factor in rest:
            # Only ratios matter, and logarithms should stay small.
            scaled = Named(factor.array - _largest(factor), factor.dims)
            before.append(only(alive, scaled))
        return answers, before

    def backward(
        self,
        after: Mapping[Choice, Named],
        key: Any,
        lanes: Settings,
        rows: Named | None = None,
    ) -> dict[Choice, Named]:
        """The choices of this step and of the state before it, given the state after it.

        They are drawn from their exact posterior or, in a filter for the best, are the best.
        With `rows`, trajectory i has the state `rows[i]` of those in `after`.
        """
        low = self.tables({})
        problem = self.model.problem(low, self.state.beliefs)
        factors = [*problem.prior, *problem.evidence]
        for target in self._targets(low, self.state.fixed)[0]:
            goal = after[_as_slot(target.new)]
            factors.append(log_truth(apply(jnp.equal, target.index, goal), low.real))
        for dim in {d for f in factors for d in choices(f.dims) if d in after}:
            if dim.name in self.plan.beliefs:
                here = Named(jnp.arange(dim.size), (dim,))
                factors.append(log_truth(apply(jnp.equal, here, after[dim]), low.real))
        factors += definitions(low, factors)
        return draw_all([product_along_axes(f) for f in factors], key, lanes, self.engine, rows)

    def _targets(self, low: Tables, fixed: Fixed | None) -> tuple[list[Target], dict[str, Named]]:
        """The fields of the next state: those that depend on choices, and the positions of the
        others."""
        targets: list[Target] = []
        known: dict[str, Named] = {}
        uncertain = fixed.uncertain if fixed is not None else frozenset()
        for dim, index in self._fields(low):
            name = repr(_as_slot(dim))
            if choices(index.dims) or name in uncertain:
                targets.append(Target(dim, index))
            else:
                known[name] = index
        return targets, known

    def _fields(self, low: Tables) -> Iterator[tuple[Choice, Named]]:
        """Per field of the next state, its choice and the position of its value."""
        domains = self.engine.domains
        for slot in self.plan.step.slots:
            for key in places(slot.axes):
                present = at_place(slot.present, slot.axes, key)
                there = None if slot.name in self.plan.always else low.value(present)
                if (slot.name, "present") in domains:
                    assert there is not None
                    new = Choice("next", (slot.name, "present"), key, 2)
                    yield new, Named(there.array.astype(jnp.int32), there.dims)
                for i, value in enumerate(slot.values):
                    if (slot.name, i) not in domains:
                        continue
                    type_ = self.engine.types[slot.name, i]
                    index = position_in(low, at_place(value, slot.axes, key), type_)
                    if there is not None:
                        index = apply(lambda h, x: jnp.where(h, x, 0), there, index)
                    yield Choice("next", (slot.name, i), key, len(domains[slot.name, i])), index

    def _next_carried(self, low: Tables) -> dict[str, Named]:
        """The slots that there are no beliefs about."""
        believed = {name for name, _ in self.engine.domains}
        slots = [s for s in self.plan.step.slots if s.name not in believed]
        return {k: v for s in slots for k, v in self.model.next_fields(low, s).items()}

    def _possible_flags(self, low: Tables, problem: Problem) -> Any:
        """Flags that are raised with positive probability."""
        out = []
        for number, flag in enumerate(self.plan.step.flags):
            raising = truth(low, flag.condition, Choice("answer", ("flag", number), (), 2))
            if choices(raising.index.dims):
                joint = problem.marginal([raising])
                raised = Named(joint.array[1] > 0, joint.dims[1:])
            else:
                raised = Named(raising.index.array > 0, raising.index.dims)
            array = jnp.broadcast_to(expand(raised, LANES), self.settings.shape(LANES))
            out.append(jnp.any(array, -1))
        return jnp.stack(out, -1) if out else jnp.zeros((self.settings.batch, 0), bool)


def grounded_roots(plan: Plan) -> list[Expr]:
    """All expressions that a step evaluates, element by element."""
    roots: list[Expr] = [f.condition for f in plan.step.flags]
    for variable in plan.variables.values():
        for _, element in elements_of(variable):
            roots += [element.guard, *flat(element.params)]
    owners: list[Any] = [*plan.step.observations, *plan.step.queries, *plan.step.slots]
    for owner in owners:
        for key in places(owner.axes):
            roots += [at_place(e, owner.axes, key) for e in owner.expressions()]
    return roots


def draw_all(
    factors: list[Named],
    key: Any,
    lanes: Settings,
    engine: ExactFilter,
    rows: Named | None = None,
) -> dict[Choice, Named]:
    """All choices that factors mention, jointly: drawn, or the best."""
    out: dict[Choice, Named] = {}
    for number, group in enumerate(components(factors)):
        inside = [factors[i] for i in group]
        eliminated = eliminate(
            inside,
            sum_=engine.sum,
            capacity=engine.capacity(lanes.batch),
        )
        known = isinstance(key, np.random.Generator)
        here = key if known else jax.random.fold_in(key, number)
        out |= draw(here, eliminated, lanes.shape, rows, LANES, engine.best)
    return out


def _largest(factor: Named) -> Any:
    """The largest number of a log-table, per sequence."""
    dims = choices(factor.dims)
    top = reduce(jnp.max, factor, dims)
    array = jnp.where(jnp.isfinite(top.array), top.array, 0.0)
    return expand(Named(array, top.dims), factor.dims)


def _as_next(dim: Any) -> Any:
    return replace(dim, kind="next") if isinstance(dim, Choice) and dim.kind == "slot" else dim


def _as_slot(dim: Any) -> Any:
    return replace(dim, kind="slot") if isinstance(dim, Choice) and dim.kind == "next" else dim
