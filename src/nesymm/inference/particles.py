"""The particle filter: plans for both phases, and one step at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nesymm.inference.binding import bind
from nesymm.inference.elimination.capacity import NAMINGS_OF_PARTICLES, Naming, by_some_naming
from nesymm.inference.engine import AS_ASKED
from nesymm.inference.loop import Run, fixed_shape
from nesymm.inference.particle_step import ParticleStep
from nesymm.inference.plan import (
    Plan,
    make_plan,
    observed_where,
    reads,
    tested_parameters,
    tested_variables,
)
from nesymm.inference.proposals import find_proposals
from nesymm.inference.questions import questions
from nesymm.inference.resampling import Scheme
from nesymm.inference.sampling import Traced, trace_ancestors
from nesymm.inference.state import Info, Settings, Stage, State, initial_state
from nesymm.inference.step_model import StepModel
from nesymm.inference.world import Binding, Moment
from nesymm.ir.passes.causes import merge_causes
from nesymm.ir.passes.phases import Phases, phases, use_observed
from nesymm.ir.step import StepProgram

# Static variables with at most this many joint values stay marginalised.
_BELIEF = 64


def plans(both: Phases, solve: bool, resamples: bool = False) -> tuple[Plan, Plan]:
    """How both phases are run. With `solve`, finite variables are solved exactly; with
    `resamples`, draws that later steps read are scored."""
    finite = (
        frozenset(v.name for p in both for v in p.variables if v.finite) if solve else frozenset()
    )
    beliefs = _beliefs(both) if solve else frozenset()
    tested = tested_variables(both)
    if resamples:
        tested |= _carried(both)
    first, later = (make_plan(both, p, finite, beliefs, tested) for p in both)
    return first, later


def _merged(both: Phases) -> Phases:
    """The same with one variable for many causes of one effect; `both` itself if there are none."""
    first, later = (merge_causes(p) for p in both)
    if first is both.first and later is both.later:
        return both
    return replace(both, first=first, later=later)


def _carried(both: Phases) -> frozenset[str]:
    """Infinite variables without a guide that later steps read.

    Evidence of later steps selects their values. The gradient of that evidence along a draw grows
    with every step that the draw is carried, and far exceeds that of the draw's own density: of
    the two unbiased estimates, the score is the one with less noise. A guide learns through its
    draws alone, so those stay reparameterised.
    """
    read = reads(e for p in both for s in p.slots for e in s.values) | set(both.kept)
    return frozenset(
        v.name
        for p in both
        for v in p.variables
        if v.name in read and not v.finite and not v.guides
    )


def _beliefs(both: Phases) -> frozenset[str]:
    """Small finite static variables that the state does not depend on."""
    used = reads(e for p in both for s in p.slots for e in s.expressions())
    used |= reads(f.condition for p in both for f in p.flags)
    used |= reads(e for p in both for e in observed_where(p, both.kept))
    chosen: list[str] = []
    total = 1
    for name in both.kept:
        variable = both.statics[name]
        if not variable.finite or variable.axes or name in used:
            continue
        if total * len(variable.outcomes) <= _BELIEF:
            total *= len(variable.outcomes)
            chosen.append(name)
    return frozenset(chosen)


class ParticleFilter:
    """Particles over a batch of sequences.

    With `solve`, the finite part of each step is solved exactly given a particle; else all is
    drawn from the prior. `resample` maps a key and weights to ancestors (None: never), whenever
    the effective sample size is below `threshold` times the number of particles. With `paper`,
    evidence steers the draws and does not weigh the particles. The tables of a step have at most
    `work` cells together.
    """

    exact = False
    steps_differ = False

    def __init__(
        self,
        step: StepProgram,
        given: frozenset[str],
        real: Any,
        steps: int | None,
        *,
        particles: int,
        solve: bool = False,
        resample: Scheme | None = None,
        threshold: float = 0.0,
        paper: bool = False,
        work: float = math.inf,
    ):
        self.reason = AS_ASKED
        self.real = real
        self.particles = particles
        self.solve = solve
        self.resample = resample if threshold > 0 else None
        self.resamples = particles > 1 and self.resample is not None
        self.threshold = threshold
        self.paper = paper
        self.work = work
        self.phases = use_observed(phases(step, given), given)
        self.first, self.later = self._plans = plans(self.phases, solve, self.resamples)
        # Causes need not be told apart before some trajectory is asked for them.
        merged = _merged(self.phases)
        self.merged = self._plans if merged is self.phases else plans(merged, solve, self.resamples)
        self.questions = questions(self.phases, steps)
        # A comparison has no gradient, and what is drawn from others can be scored; a parameter
        # cannot.
        self.untrainable = tested_parameters(self.phases)
        # A bootstrap filter draws from the prior, and so does one particle: it bounds the evidence.
        refined = solve and particles > 1
        self.proposals = {id(p): find_proposals(p) if refined else {} for p in self._all}

    @property
    def _all(self) -> tuple[Plan, ...]:
        return self._plans if self.merged is self._plans else (*self._plans, *self.merged)

    def describe(self) -> str:
        name = "Rao-Blackwellised" if self.solve else "bootstrap"
        paper = " (the paper's recursion)" if self.paper else ""
        return f"{name}{paper}, {self.particles:,} particles"

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        return Settings(
            batch,
            self.particles,
            self.real,
            self.resample,
            self.threshold,
            self.paper,
            estimator,
            record,
            work=self.work,
        )

    # ------------------------------------------------------------ one step at a time

    def init(self, settings: Settings) -> State:
        return initial_state(settings)

    def step(
        self,
        settings: Settings,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        stage: Stage,
    ) -> tuple[State, Info]:
        at_first, later = self.merged
        plan = at_first if stage.first else later
        ask = tuple(q for q in self.questions if stage.may_end or q.at_every_step)
        # The paper's estimators are about draws from the prior.
        prior = settings.paper or settings.estimator not in (None, "surrogate")
        proposals = {} if prior else self.proposals[id(plan)]

        def attempt(naming: Naming) -> tuple[State, Info]:
            model = StepModel(plan, replace(settings, naming=naming), self.questions, proposals)
            step = ParticleStep(model, self.phases.kept, state, moment, binding, stage)
            return step(key, ask)

        return by_some_naming(attempt, NAMINGS_OF_PARTICLES)

    def fixed_shape(self, function: Callable[[State], State], state: State) -> State:
        return fixed_shape(function, state)

    # ------------------------------------------------------------ networks

    def bind(
        self, parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
    ) -> Binding:
        """Networks whose arguments have fewer values than there are calls are tabulated."""
        return bind(self._all, parameters, networks, calls)

    def hoist(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        # Each particle is somewhere else: what networks see changes from step to step.
        return binding

    # ------------------------------------------------------------ trajectories

    def trajectories(self, run: Run, count: int) -> Traced:
        return trace_ancestors(self, run, count)
