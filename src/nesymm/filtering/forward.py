"""Exact inference over time: the belief over all states, step by step.

The belief is a product of tables over the fields of the state; fields that share no
cause stay in separate tables. A step multiplies the tables with the priors of the step's
variables and its evidence, and moves the mass from previous to next fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.compiler.expr import Expr, leaves, postorder
from nesymm.compiler.step import Slot, StepProgram
from nesymm.compiler.types import BOOL, Enum, Int
from nesymm.errors import NesymmError
from nesymm.exact.named import Named, apply, expand, reduce, union
from nesymm.filtering.beliefs import Partition, maximum, merge, partition, regroup, scatter
from nesymm.filtering.binding import bind, everything
from nesymm.filtering.bounds import Field, field_domain, field_types
from nesymm.filtering.dims import Choice, choices
from nesymm.filtering.elimination import (
    MAX_CELLS,
    Room,
    add,
    components,
    draw,
    eliminate,
    logsumexp,
)
from nesymm.filtering.estimators import average
from nesymm.filtering.evidence import Told
from nesymm.filtering.loop import settle
from nesymm.filtering.methods import ExactForward
from nesymm.filtering.phases import phases, unroll, use_observed
from nesymm.filtering.plan import (
    Plan,
    at_place,
    emitted_variables,
    make_plan,
    places,
    reads,
    tested_variables,
)
from nesymm.filtering.questions import Question, questions
from nesymm.filtering.solve import Problem, definitions
from nesymm.filtering.state import (
    LANES,
    Outcome,
    Settings,
    State,
    normalise,
    slot_key,
    subtract,
    wide,
)
from nesymm.filtering.step import ParticleStep
from nesymm.filtering.world import Binding, Moment, Tables, call_network, lift_key, log_truth


class ExactFilter:
    """The exact forward pass over a batch of sequences.

    With `best` it follows, in place of the sum over all pasts, the most probable one.
    """

    def __init__(
        self,
        step: StepProgram,
        method: ExactForward,
        given: frozenset[str],
        real: Any,
        steps: int,
        limit: int = MAX_CELLS,
        best: bool = False,
    ):
        self.best = best
        self.method = method
        self.real = real
        self.limit = limit
        both = use_observed(phases(step, given), given)
        self.phases = both
        infinite = {
            v.name
            for p in both
            for v in p.variables
            if not v.finite and v.name not in emitted_variables(p, both.kept)
        }
        for program in both:
            for variable in program.variables:
                if variable.name in infinite and not variable.static:
                    raise NesymmError(
                        f"{variable.name} is {variable.family} and drawn anew at every step: the "
                        "state has no exact belief; use particles"
                    )
        self.draws = method.draws if infinite else 1
        carried = _carried(both, infinite)
        self.types = field_types(both, steps)
        self.domains: dict[Field, tuple] = {}
        for slot in both.later.slots:
            if slot.name in carried:
                continue
            if slot.name not in both.always:
                self.domains[slot.name, "present"] = (False, True)
            for i in range(len(slot.fields)):
                name = f"{slot.name} (value {i + 1})" if len(slot.fields) > 1 else slot.name
                self.domains[slot.name, i] = field_domain(name, self.types[slot.name, i])
        finite = frozenset(v.name for p in both for v in p.variables if v.finite)
        self.beliefs = frozenset(n for n in both.kept if both.statics[n].finite)
        tested = tested_variables(both)
        self.slot_names = {f"slot {s}" for s, _ in self.domains}
        self.plans = tuple(
            self._split(
                make_plan(p, both.statics, finite, self.beliefs, tested, both.always, both.kept)
            )
            for p in both
        )
        self.first, self.later = self.plans
        self.partition: Partition | None = None
        self.questions = questions(both, steps)

    def _split(self, plan: Plan) -> Plan:
        """Elements are told apart throughout: any of them may come to depend on another."""
        names = plan.enumerated | self.slot_names
        variables = {}
        for name, variable in plan.variables.items():
            params = tuple(
                tuple(unroll(e, set(names)) for e in p)
                if isinstance(p, tuple)
                else unroll(p, set(names))
                for p in variable.params
            )
            variables[name] = replace(
                variable, guard=unroll(variable.guard, set(names)), params=params
            )

        def read(expr: Expr) -> Expr:
            return unroll(expr, set(names))

        step = plan.step
        step = replace(
            step,
            slots=tuple(
                replace(s, present=read(s.present), values=tuple(map(read, s.values)))
                for s in step.slots
            ),
            observations=tuple(
                replace(
                    o,
                    holds=read(o.holds),
                    branches=tuple(
                        replace(b, condition=read(b.condition), values=tuple(map(read, b.values)))
                        for b in o.branches
                    ),
                )
                for o in step.observations
            ),
            queries=tuple(
                replace(q, holds=read(q.holds), values=tuple(map(read, q.values)))
                for q in step.queries
            ),
        )
        return replace(
            plan,
            step=step,
            variables=variables,
            solved=tuple(variables[v.name] for v in plan.solved),
            ahead=tuple(variables[v.name] for v in plan.ahead),
            fresh=tuple(variables[v.name] for v in plan.fresh),
            split=frozenset(n for n in plan.enumerated if plan.variables[n].axes),
        )

    @property
    def sum(self) -> Any:
        return maximum if self.best else logsumexp

    # ------------------------------------------------------------ the interface of a filter

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        # Slopes are exact: there is nothing to estimate.
        exact = "surrogate" if estimator is not None else None
        return Settings(batch, self.draws, self.real, None, 0.0, False, exact, record)

    def bind(self, parameters: Any, networks: Any, calls: int) -> Binding:
        return bind((self.first, self.later), parameters, networks, 1 << 20)

    def steady(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        """Evaluate the networks that see nothing but enumerated and static things: a decoder
        that draws a frame for each place is called once for each, however long the sequence."""
        low = ExactStep(self.later, settings, self)._tables(
            {slot_key(k): v for k, v in state.slots.items()}, state.statics, moment, binding
        )
        fixed = {s for s, _ in self.domains} | set(state.statics) | self.later.enumerated
        known: dict[tuple, Named] = {}
        for call in leaves(everything(self.later), "neural"):
            key = (call.data[0], call.args)
            if key in known or lift_key(call) in binding.lifted:
                continue
            if _is_steady(call, fixed):
                args = tuple(low.value(a) for a in call.args)
                known[key] = call_network(binding.networks, call.data[0], args)
        return replace(binding, steady=known)

    def step(
        self,
        settings: Settings,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        at_first: bool,
        everything: bool,
        final: bool = True,
    ) -> Outcome:
        plan = self.first if at_first else self.later
        ask = tuple(q for q in self.questions if everything or q.at_every_step)
        return ExactStep(plan, settings, self)(state, moment, binding, key, ask)

    def room(self, batch: int) -> Room:
        """How large the tables of so many sequences may be."""
        advice = (
            "give them fewer values, take fewer sequences at once, or use particles "
            "(--method rao-blackwellised)"
        )
        return Room(self.limit, batch, self.draws, jnp.dtype(self.real).itemsize, advice)

    def settle(self, function: Callable[[State], State], state: State) -> State:
        """Join the tables that will have to be joined, so that all steps look alike."""
        self.partition = partition(state.beliefs)
        while True:
            after = jax.eval_shape(function, state)
            merged = merge(self.partition, partition(after.beliefs))
            if merged == self.partition:
                break
            self.partition = merged
            room = self.room(state.log_weights.array.shape[0])
            state = replace(state, beliefs=regroup(state.beliefs, merged, room))
        return settle(function, state)


def _is_steady(call: Expr, fixed: set[str]) -> bool:
    """Whether a network sees only things in `fixed`."""
    for node in postorder(list(call.args)):
        if node.op in ("time", "input", "given", "neural", "lfp"):
            return False
        if node.op == "slot" and node.data[0] not in fixed:
            return False
        if node.op == "rv" and node.data not in fixed:
            return False
    return bool(call.args)


def _carried(both: Any, infinite: set[str]) -> set[str]:
    """Slots that depend on inputs and on drawn static variables only."""
    names = {s.name for s in both.later.slots}
    while True:
        kept = set()
        for name in names:
            exprs = []
            for program in both:
                slot = program.slot(name)
                exprs += [slot.present, *slot.values]
            inside = [n.data[0] for n in postorder(exprs) if n.op == "slot"]
            if set(inside) <= names and reads(exprs) <= infinite:
                kept.add(name)
        if kept == names:
            return names
        names = kept


class ExactStep(ParticleStep):
    """One step of the exact forward pass."""

    def __init__(self, plan: Plan, settings: Settings, engine: ExactFilter):
        super().__init__(plan, settings, engine.phases.kept, engine.questions)
        self.engine = engine
        self.room = engine.room(settings.batch)

    def __call__(
        self,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        ask: tuple[Question, ...],
        final: bool = True,
    ) -> Outcome:
        settings = self.settings
        slots = {slot_key(k): v for k, v in state.slots.items()}
        values = self._draw_ahead(state, slots, moment, binding, key)
        low = self._tables(slots, values, moment, binding)
        problem = self._problem(low, state.beliefs, moment)
        before = state.log_weights
        gain, beliefs = self._forward(low, problem)
        for part in self._drawn_ahead(low):
            gain = apply(jnp, jnp.add, gain, part)
        for part in problem.proposed():
            gain = apply(jnp, subtract, gain, part)
        alive = apply(jnp, jnp.less_equal, Named(jnp.asarray(moment.time)), moment.last)
        gain = apply(jnp, lambda a, g: jnp.where(a, g, 0.0), alive, gain)
        log_weights = wide(apply(jnp, jnp.add, before, gain), settings).array
        total = logsumexp(jnp, log_weights, -1)
        weights = normalise(log_weights)
        answers = {
            q.key: average(q, problem.answer(q), log_weights, before.array, settings) for q in ask
        }
        mean = jax.lax.stop_gradient(total) - jnp.log(1.0 * settings.particles)
        after = log_weights - jnp.where(jnp.isfinite(mean), mean, 0.0)[:, None]
        statics = {n: self._known_static(low, n) for n in values if n in self.kept}
        carried = self._next_carried(low)
        return Outcome(
            State(carried, statics, beliefs, Named(after, LANES), state.scores),
            total - jnp.log(1.0 * settings.particles),
            1.0 / jnp.maximum(jnp.sum(weights**2, -1), 1e-30),
            jnp.zeros(settings.batch, bool),
            answers,
            self._possible_flags(low, problem),
            ~jnp.isfinite(total),
            {n: v for n, v in values.items()} if settings.record else {},
        )

    def _tables(
        self,
        slots: dict[Any, Named],
        values: dict[str, Named],
        moment: Moment,
        binding: Binding,
        concrete: bool = False,
        draw: Any = None,
    ) -> Tables:
        plan = self.plan
        world = Told(
            plan.step,
            moment,
            binding,
            slots,
            dict(values),
            frozenset() if draw else plan.enumerated,
            plan.split,
            draw,
            plan.variables,
            {} if plan is self.engine.first else self.engine.domains,
        )
        return Tables(world, self.settings.real, self.room)

    def _known_static(self, low: Tables, name: str) -> Named:
        value = low.world.known(low, name)
        if choices(value.dims):
            raise NesymmError(
                f"{name} is observed only in some worlds, and later steps read it: the state has "
                "no exact belief; use particles"
            )
        return value

    # ------------------------------------------------------------ previous to next

    def _forward(self, low: Tables, problem: Problem) -> tuple[Named, list[Named]]:
        """The log-probability of the evidence, and the belief over the next state."""
        targets = [t for s in self.plan.step.slots for t in self._targets(low, s)]
        factors = [*problem.factors]
        keep = {d for _, index in targets for d in choices(index.dims)}
        keep |= {d for f in factors for d in choices(f.dims) if d.name in self.plan.beliefs}
        # What only the next state mentions was named while it was computed.
        factors = [*problem.prior, *problem.tied, *problem.evidence]
        factors += definitions(low.factors, [*factors, *(i for _, i in targets)])
        done = eliminate(jnp, factors, frozenset(keep), self.engine.sum, self.room)
        live = done.rest
        total = done.total
        groups = self._together(targets)
        for number, group in enumerate(groups):
            later = {d for g in groups[number + 1 :] for _, i in g for d in choices(i.dims)}
            inside = {d: None for _, i in group for d in choices(i.dims)}
            gone = [d for d in inside if d not in later and d.name not in self.plan.beliefs]
            mine = [f for f in live if set(gone) & set(choices(f.dims))]
            live = [f for f in live if not set(gone) & set(choices(f.dims))]
            table = add(jnp, mine) if mine else Named(jnp.zeros((), low.real))
            dims = union([table.dims, *(i.dims for _, i in group)])
            self.room.refuse(dims)
            table = Named(expand(jnp, table, dims), dims)
            if gone:
                live.append(scatter(table, group, gone, self.room, self.engine.best))
            else:
                live += [_point(low, index, new) for new, index in group]
        final = [Named(f.array, tuple(_as_slot(d) for d in f.dims)) for f in live]
        parts = []
        for members in components(final):
            together = [final[i] for i in members]
            self.room.refuse(union(f.dims for f in together))
            parts.append(add(jnp, together))
        beliefs = [p for p in parts if choices(p.dims)]
        for lone in parts:
            if not choices(lone.dims):
                total = apply(jnp, jnp.add, total, lone)
        if self.engine.partition is not None:
            merged = merge(self.engine.partition, partition(beliefs))
            beliefs = regroup(beliefs, merged, self.room)
        out = []
        for table in beliefs:
            norm = reduce(
                jnp, lambda a, axis: self.engine.sum(jnp, a, axis), table, choices(table.dims)
            )
            total = apply(jnp, jnp.add, total, norm)
            out.append(apply(jnp, lambda t, n: t - jnp.where(jnp.isfinite(n), n, 0.0), table, norm))
        return total, sorted(out, key=lambda b: sorted(map(repr, choices(b.dims))))

    # ------------------------------------------------------------ next to previous

    def backward(
        self,
        state: State,
        moment: Moment,
        binding: Binding,
        after: dict[Choice, Named],
        key: Any,
        lanes: Settings,
    ) -> dict[Choice, Named]:
        """The choices of this step and of the state before it, given the state after it.

        They are drawn from their exact posterior or, in a filter for the best, are the best.
        """
        slots = {slot_key(k): v for k, v in state.slots.items()}
        low = self._tables(slots, {}, moment, binding)
        problem = self._problem(low, state.beliefs, moment)
        factors = [*problem.prior, *problem.evidence]
        for slot in self.plan.step.slots:
            for new, index in self._targets(low, slot):
                goal = after[_as_slot(new)]
                factors.append(log_truth(apply(jnp, jnp.equal, index, goal), low.real))
        for dim in {d for f in factors for d in choices(f.dims) if d in after}:
            if dim.name in self.plan.beliefs:
                here = Named(jnp.arange(dim.size), (dim,))
                factors.append(log_truth(apply(jnp, jnp.equal, here, after[dim]), low.real))
        factors += definitions(low.factors, factors)
        return draw_all(factors, key, lanes, self.engine)

    def _together(self, targets: list[tuple[Choice, Named]]) -> list[list[tuple[Choice, Named]]]:
        """Fields of the next state that depend on the same choices, side by side: their mass
        is moved at once."""
        groups: list[tuple[set[Choice], list[tuple[Choice, Named]]]] = []
        for target in targets:
            dims = {d for d in choices(target[1].dims) if d.name not in self.plan.beliefs}
            mine = [target]
            apart = []
            for known, inside in groups:
                if known & dims:
                    dims |= known
                    mine = inside + mine
                else:
                    apart.append((known, inside))
            groups = [*apart, (dims, mine)]
        return [inside for _, inside in groups]

    def _targets(self, low: Tables, slot: Slot) -> list[tuple[Choice, Named]]:
        """Per field of the next state, its choice and the position of its value."""
        out = []
        domains = self.engine.domains
        for key in places(slot.axes):
            present = at_place(slot.present, slot.axes, key)
            there = None if slot.name in self.plan.always else low.value(present)
            if (slot.name, "present") in domains:
                new = Choice("next", (slot.name, "present"), key, 2)
                assert there is not None
                out.append((new, Named(there.array.astype(jnp.int32), there.dims)))
            for i, value in enumerate(slot.values):
                if (slot.name, i) not in domains:
                    continue
                index = self._position(low, slot, i, at_place(value, slot.axes, key))
                if there is not None:
                    index = apply(jnp, lambda h, x: jnp.where(h, x, 0), there, index)
                size = len(domains[slot.name, i])
                out.append((Choice("next", (slot.name, i), key, size), index))
        return out

    def _position(self, low: Tables, slot: Slot, i: int, expr: Expr) -> Named:
        value = low.value(expr)
        type_ = self.engine.types[slot.name, i]
        if isinstance(type_, Enum):
            value = low.recode(value, expr.type, type_)
            return Named(value.array.astype(jnp.int32), value.dims)
        if type_ == BOOL:
            return Named(value.array.astype(jnp.int32), value.dims)
        assert isinstance(type_, Int)
        shifted = value.array.astype(jnp.int32) - int(type_.lo)
        return Named(jnp.clip(shifted, 0, int(type_.size) - 1), value.dims)

    def _next_carried(self, low: Tables) -> dict[str, Named]:
        out: dict[str, Named] = {}
        for slot in self.plan.step.slots:
            if (slot.name, "present") in self.engine.domains or any(
                (slot.name, i) in self.engine.domains for i in range(len(slot.values))
            ):
                continue
            if slot.name not in self.plan.always:
                out[f"{slot.name}.present"] = low.value(slot.present)
            for i, value in enumerate(slot.values):
                out[f"{slot.name}.{i}"] = low.recode(low.value(value), value.type, slot.fields[i])
        return out

    def _possible_flags(self, low: Tables, problem: Problem) -> Any:
        """Flags that are raised with positive probability."""
        out = []
        for flag in self.plan.step.flags:
            condition = low.value(
                unroll(flag.condition, set(self.plan.enumerated | self.engine.slot_names))
            )
            raised = expand(jnp, problem.possible(condition), LANES)
            out.append(jnp.any(jnp.broadcast_to(raised, self.settings.shape(LANES)), -1))
        return jnp.stack(out, -1) if out else jnp.zeros((self.settings.batch, 0), bool)


def draw_all(
    factors: list[Named], key: Any, lanes: Settings, engine: ExactFilter
) -> dict[Choice, Named]:
    """All choices that factors mention, jointly: drawn, or the best."""
    out: dict[Choice, Named] = {}
    for number, group in enumerate(components(factors)):
        inside = [factors[i] for i in group]
        eliminated = eliminate(jnp, inside, sum_=engine.sum, room=engine.room(lanes.batch))
        here = jax.random.fold_in(key, number)
        out |= draw(jax, here, eliminated, lanes.shape, None, LANES, engine.best)
    return out


def _as_slot(dim: Any) -> Any:
    return replace(dim, kind="slot") if isinstance(dim, Choice) and dim.kind == "next" else dim


def _point(low: Tables, index: Named, new: Choice) -> Named:
    """A value that is known, given what is kept."""
    here = apply(jnp, jnp.equal, Named(jnp.arange(new.size), (new,)), index)
    return Named(jnp.where(here.array, 0.0, -jnp.inf).astype(low.real), here.dims)


__all__ = ["ExactFilter", "ExactStep", "draw_all"]
