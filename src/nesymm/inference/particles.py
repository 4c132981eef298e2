"""The particle filter: plans for both phases, and one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nesymm.inference.binding import bind
from nesymm.inference.elimination.factors import NAMINGS_OF_PARTICLES, Naming, by_some_naming
from nesymm.inference.loop import settle
from nesymm.inference.methods import Bootstrap, RaoBlackwellised
from nesymm.inference.plan import Plan, make_plan, reads, tested_variables, told_where
from nesymm.inference.proposals import find_proposals
from nesymm.inference.questions import questions
from nesymm.inference.resampling import SCHEMES
from nesymm.inference.state import Outcome, Settings, State
from nesymm.inference.step import ParticleStep
from nesymm.inference.world import Binding, Moment
from nesymm.ir.passes.phases import Phases, phases, use_observed
from nesymm.ir.step import StepProgram

# Static variables with at most this many joint values stay marginalised.
_BELIEF = 64


def plans(
    step: StepProgram, given: frozenset[str], solve: bool, resamples: bool = False
) -> tuple[Phases, Plan, Plan]:
    """How both phases are run. With `solve`, finite variables are solved exactly; with
    `resamples`, draws that later steps read are scored."""
    both = use_observed(phases(step, given), given)
    finite = (
        frozenset(v.name for p in both for v in p.variables if v.finite) if solve else frozenset()
    )
    beliefs = _beliefs(both) if solve else frozenset()
    tested = tested_variables(both)
    if resamples:
        tested |= _carried(both)
    first = make_plan(both.first, both.statics, finite, beliefs, tested, both.always, both.kept)
    later = make_plan(both.later, both.statics, finite, beliefs, tested, both.always, both.kept)
    return both, first, later


def _carried(both: Phases) -> frozenset[str]:
    """Infinite variables without a guide that later steps read.

    Evidence of later steps selects their values. The slope of that evidence along a draw grows
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
    used |= reads(e for p in both for e in told_where(p, both.kept))
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
    """Particles over a batch of sequences."""

    stepwise = False

    def __init__(
        self,
        step: StepProgram,
        method: RaoBlackwellised | Bootstrap,
        given: frozenset[str],
        real: Any,
        steps: int | None = None,
    ):
        self.method = method
        self.real = real
        self.phases, self.first, self.later = plans(
            step,
            given,
            isinstance(method, RaoBlackwellised),
            method.particles > 1 and method.threshold > 0,
        )
        self.questions = questions(self.phases, steps)
        # A bootstrap filter draws from the prior, and so does one particle: it bounds the evidence.
        refined = isinstance(method, RaoBlackwellised) and method.particles > 1
        self.proposals = [find_proposals(p) if refined else {} for p in (self.first, self.later)]

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        method = self.method
        return Settings(
            batch,
            method.particles,
            self.real,
            SCHEMES[method.resampling] if method.threshold > 0 else None,
            method.threshold,
            isinstance(method, RaoBlackwellised) and method.recursion == "paper",
            estimator,
            record,
        )

    # ------------------------------------------------------------ one step at a time

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
        last: bool = False,
    ) -> Outcome:
        """One step. `everything`: also answer the queries that are asked at the end."""
        plan = self.first if at_first else self.later
        ask = tuple(q for q in self.questions if everything or q.at_every_step)
        proposals = self.proposals[0 if at_first else 1]

        def attempt(naming: Naming) -> Outcome:
            own = replace(settings, naming=naming)
            step = ParticleStep(plan, own, self.phases.kept, self.questions, proposals)
            return step(state, moment, binding, key, ask, final)

        return by_some_naming(attempt, NAMINGS_OF_PARTICLES)

    # ------------------------------------------------------------ networks

    def bind(
        self, parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
    ) -> Binding:
        """Networks whose arguments have fewer values than there are calls are tabulated."""
        return bind((self.first, self.later), parameters, networks, calls)

    def steady(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        # Each particle is somewhere else: what networks see changes from step to step.
        return binding

    def settle(self, function: Callable[[State], State], state: State) -> State:
        return settle(function, state)


__all__ = ["ParticleFilter", "plans"]
