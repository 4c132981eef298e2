"""Exact inference over time: the belief over all states, step by step.

The belief is a product of tables over the fields of the state; fields that share no
cause stay in separate tables. A step multiplies the tables with the priors of the step's
variables and its evidence, and moves the mass from previous to next fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.binding import bind, everything
from nesymm.inference.data import Sequences
from nesymm.inference.elimination.beliefs import merge, partition, regroup
from nesymm.inference.elimination.capacity import MAX_BYTES, Capacity, by_some_naming
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.elimination.factors import logsumexp
from nesymm.inference.elimination.order import MAX_CELLS
from nesymm.inference.elimination.summation import Target, point
from nesymm.inference.engine import AS_ASKED
from nesymm.inference.exact_step import ExactStep, grounded_roots
from nesymm.inference.lifting import causes, finite_arguments, is_static, on_grid, values
from nesymm.inference.loop import Run, fixed_shape
from nesymm.inference.named import Named
from nesymm.inference.plan import (
    Folded,
    Plan,
    emitted_variables,
    make_plan,
    reads,
    shared_nodes,
    tested_variables,
)
from nesymm.inference.questions import questions
from nesymm.inference.sampling import Traced, draw_backward
from nesymm.inference.state import LANES, Fixed, Info, Settings, Stage, State, initial_state
from nesymm.inference.world import Binding, Moment, call_network, lift_key
from nesymm.ir.axes import places
from nesymm.ir.expr import leaves, postorder
from nesymm.ir.passes.bounds import Field, field_domain, field_types
from nesymm.ir.passes.phases import Phases, phases, use_observed, without_latches
from nesymm.ir.passes.plates import unrolling
from nesymm.ir.step import StepProgram
from nesymm.ir.types import Type
from nesymm.language.program import At

# What a step goes from.
Given = tuple[State, Moment, Binding]


class ExactFilter:
    """The exact forward pass over a batch of sequences.

    Static infinite variables get `draws` draws. Tables have at most `limit` cells each, and `work`
    together in a step. With `best` it follows, in place of the sum over all pasts, the most
    probable one. Without `latches` the state does not remember the answers to queries about a
    fixed step.
    """

    steps_differ = True
    resamples = False
    untrainable: frozenset[str] = frozenset()
    # Whether a circuit stands in for the tables.
    by_circuit = False

    def __init__(
        self,
        step: StepProgram,
        given: frozenset[str],
        real: Any,
        steps: int,
        *,
        draws: int = 1,
        limit: int = MAX_CELLS,
        work: float = math.inf,
        best: bool = False,
        latches: bool = True,
    ):
        self.reason = AS_ASKED
        self.best = best
        self.draws = draws
        self.real = real
        self.limit = limit
        self.work = work
        both = use_observed(phases(step, given), given)
        if not latches:
            both = without_latches(both)
        self.phases = both
        infinite = _drawn(both)
        self.particles = draws if infinite else 1
        self.exact = not infinite
        self.types = field_types(both, steps)
        self.domains = _domains(both, self.types, _carried(both, infinite))
        finite = frozenset(v.name for p in both for v in p.variables if v.finite)
        self.beliefs = frozenset(n for n in both.kept if both.statics[n].finite)
        tested = tested_variables(both)
        self.first, self.later = (
            self._split(make_plan(both, p, finite, self.beliefs, tested)) for p in both
        )
        self.questions = questions(both, steps)
        # What was true at a fixed step is asked going back, where it is not carried along.
        self.asked_back = tuple(
            q for q in self.questions if not latches and isinstance(q.query.when, At)
        )
        self._kept_alive = [grounded_roots(plan) for plan in (self.first, self.later)]
        self.shared = dict(zip((True, False), map(shared_nodes, self._kept_alive), strict=True))

    def _split(self, plan: Plan) -> Plan:
        """Elements are told apart throughout: any of them may come to depend on another."""
        apart = {("rv", n) for n in plan.enumerated} | {("slot", s) for s, _ in self.domains}
        # A table has no axes: what is named stands in no plate.
        read = unrolling(apart, all_of_them=True)
        variables = {n: v.map(read) for n, v in plan.variables.items()}
        return replace(
            plan,
            step=plan.step.map(read),
            variables=variables,
            solved=tuple(variables[v.name] for v in plan.solved),
            ahead=tuple(variables[v.name] for v in plan.ahead),
            fresh=tuple(variables[v.name] for v in plan.fresh),
            folded={
                n: Folded(variables[f.variable.name], tuple(map(read, f.holds)))
                for n, f in plan.folded.items()
            },
            split=frozenset(n for n in plan.enumerated if plan.variables[n].axes),
            grounded=True,
        )

    @property
    def sum(self) -> Any:
        return jnp.max if self.best else logsumexp

    # ------------------------------------------------------------ the protocol of engines

    def describe(self) -> str:
        draws = f", {self.particles} draws of static variables" if self.particles > 1 else ""
        return "exact forward" + (", by a circuit" if self.by_circuit else draws)

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        # Gradients are exact: there is nothing to estimate.
        exact = "surrogate" if estimator is not None else None
        return Settings(
            batch, self.particles, self.real, None, 0.0, estimator=exact, record=record, plain=False
        )

    def init(self, settings: Settings) -> State:
        return initial_state(settings)

    def trajectories(self, run: Run, count: int) -> Traced:
        return draw_backward(self, run, count)

    def for_trajectories(
        self, program: StepProgram, sequences: Sequences, best: bool
    ) -> ExactFilter:
        """The same over a state that remembers no answers, for draws or for the best."""
        about = (program, sequences.complete, self.real, sequences.steps)
        return ExactFilter(*about, draws=self.draws, best=best, latches=False)

    def bind(self, parameters: Any, networks: Any, calls: int) -> Binding:
        return bind((self.first, self.later), parameters, networks, 1 << 20)

    def hoist(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        """Evaluate the networks that see nothing but finite and static things, once for each value
        of the finite ones, however long the sequence."""
        step = ExactStep(self.later, settings, self, replace(state, known={}), moment, binding)
        low = step.tables(dict(state.statics))
        known: dict[tuple, Named] = {}
        for call in leaves(everything(self.later), "neural"):
            key = (call.data[0], call.args)
            finite = finite_arguments(call, low.world.types)
            rest = [a for i, a in enumerate(call.args) if i not in finite]
            if key in known or lift_key(call) in binding.lifted or not finite:
                continue
            if not all(is_static(a, state.statics) for a in rest):
                continue
            args = [low.value(a) for a in call.args]
            if values(finite) <= causes(args, finite):
                known[key] = call_network(binding.networks, call.data[0], on_grid(args, finite))
        return replace(binding, steady=known)

    def step(
        self,
        settings: Settings,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        stage: Stage,
    ) -> tuple[State, Info]:
        plan = self.first if stage.first else self.later
        ask = tuple(
            q
            for q in self.questions
            if (stage.may_end or q.at_every_step) and q not in self.asked_back
        )
        given = (state, moment, binding)
        return self._solved(plan, settings, given, lambda s: s(key, ask, stage))

    def smooth(
        self, plan: Plan, settings: Settings, given: Given, *args: Any
    ) -> tuple[dict[str, Named], list[Named]]:
        """Going back from step to step: see `ExactStep.smooth`."""
        return self._solved(plan, settings, given, lambda s: s.smooth(*args))

    def backward(
        self, plan: Plan, settings: Settings, given: Given, *args: Any
    ) -> dict[Choice, Named]:
        """Drawing from step to step, going back: see `ExactStep.backward`."""
        return self._solved(plan, settings, given, lambda s: s.backward(*args))

    def _solved(
        self, plan: Plan, settings: Settings, given: Given, solve: Callable[[ExactStep], Any]
    ) -> Any:
        with np.errstate(all="ignore"):
            return by_some_naming(
                lambda naming: solve(
                    ExactStep(plan, replace(settings, naming=naming), self, *given)
                )
            )

    def capacity(self, batch: int) -> Capacity:
        """How large the tables of so many sequences may be."""
        advice = (
            "give them fewer values, take fewer sequences at once, or use particles "
            "(--method rao-blackwellised)"
        )
        itemsize = jnp.dtype(self.real).itemsize
        return Capacity(self.limit, MAX_BYTES, self.work, batch, self.particles, itemsize, advice)

    def fixed_shape(self, function: Callable[[State], State], state: State) -> State:
        """Join the tables that will have to be joined, so that all steps look alike."""
        capacity = self.capacity(state.log_weights.array.shape[0])
        fixed = Fixed(merge(partition(state.beliefs), ()), frozenset())
        while True:
            state = self._uncertain(state, fixed.uncertain)
            beliefs = regroup(state.beliefs, fixed.partition, capacity)
            state = replace(state, beliefs=beliefs, fixed=fixed)
            after = jax.eval_shape(function, state)
            wanted = Fixed(
                merge(fixed.partition, partition(after.beliefs)),
                # What is known at some steps only is a belief at all of them.
                fixed.uncertain | (set(state.known) ^ set(after.known)),
            )
            if wanted == fixed:
                return fixed_shape(function, state)
            fixed = wanted

    def _uncertain(self, state: State, uncertain: frozenset[str]) -> State:
        """Fields that are known now and will not be later, as beliefs."""
        known = dict(state.known)
        beliefs = list(state.beliefs)
        for dim in self.fields():
            if repr(dim) in known and repr(dim) in uncertain:
                index = known.pop(repr(dim))
                table = point(Target(dim, index))
                beliefs.append(Named(table.array.astype(self.real), table.dims))
        return replace(state, known=known, beliefs=beliefs)

    def fields(self) -> Iterator[Choice]:
        """The finite fields of the state."""
        for slot in self.later.step.slots:
            for key in places(slot.axes):
                for column in ("present", *range(len(slot.values))):
                    values = self.domains.get((slot.name, column))
                    if values is not None:
                        yield Choice("slot", (slot.name, column), key, len(values))

    def dims_by_name(self) -> dict[str, Any]:
        """The dimensions that arrays of a state may have, by what they are called in files."""
        found: list[Any] = [*LANES, *self.fields()]
        found += [a for s in self.later.step.slots for a in s.axes]
        for name in self.phases.kept:
            variable = self.later.variables[name]
            found += variable.axes
            if variable.finite:
                size = len(variable.outcomes)
                found += [Choice("rv", name, key, size) for key in places(variable.axes)]
        return {repr(d): d for d in found}


def _drawn(both: Phases) -> set[str]:
    """The static infinite variables that are drawn; others are refused."""
    infinite = {
        v.name
        for p in both
        for v in p.variables
        if not v.finite and v.name not in emitted_variables(p, both.kept)
    }
    later = {v.name for v in both.later.variables}
    for program in both:
        for variable in program.variables:
            if variable.name in infinite and not variable.static:
                when = "anew at every step" if variable.name in later else "at step 0"
                raise NesymmError(
                    f"{variable.name} is {variable.family} and drawn {when}: the state has no "
                    "exact belief; use particles"
                )
    return infinite


def _domains(both: Phases, types: Mapping[Field, Type], carried: set[str]) -> dict[Field, tuple]:
    """The values of the finite fields of the state that there are beliefs about."""
    domains: dict[Field, tuple] = {}
    for slot in both.later.slots:
        if slot.name in carried:
            continue
        if slot.name not in both.always:
            domains[slot.name, "present"] = (False, True)
        for i in range(len(slot.fields)):
            name = f"{slot.name} (value {i + 1})" if len(slot.fields) > 1 else slot.name
            domains[slot.name, i] = field_domain(name, types[slot.name, i])
    return domains


def _carried(both: Any, infinite: set[str]) -> set[str]:
    """Slots that depend on inputs and on drawn static variables only."""
    names = {s.name for s in both.later.slots}
    while True:
        kept = set()
        for name in names:
            exprs = []
            for program in both:
                slot = program.slot(name)
                exprs += slot.expressions()
            inside = [n.data[0] for n in postorder(exprs) if n.op == "slot"]
            if set(inside) <= names and reads(exprs) <= infinite:
                kept.add(name)
        if kept == names:
            return names
        names = kept
