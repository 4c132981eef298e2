"""The particle filter: plans for both phases, and one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nesymm.compiler.step import StepProgram
from nesymm.filtering.binding import bind
from nesymm.filtering.loop import settle
from nesymm.filtering.methods import Bootstrap, RaoBlackwellised
from nesymm.filtering.phases import Phases, phases, use_observed
from nesymm.filtering.plan import Plan, make_plan, reads, tested_variables, told_where
from nesymm.filtering.questions import questions
from nesymm.filtering.resampling import SCHEMES
from nesymm.filtering.state import Outcome, Settings, State
from nesymm.filtering.step import ParticleStep
from nesymm.filtering.world import Binding, Moment

# Static variables with at most this many joint values stay marginalised.
_BELIEF = 64


def plans(step: StepProgram, given: frozenset[str], solve: bool) -> tuple[Phases, Plan, Plan]:
    """How both phases are run. With `solve`, finite variables are solved exactly."""
    both = use_observed(phases(step, given), given)
    finite = (
        frozenset(v.name for p in both for v in p.variables if v.finite) if solve else frozenset()
    )
    beliefs = _beliefs(both) if solve else frozenset()
    tested = tested_variables(both)
    first = make_plan(both.first, both.statics, finite, beliefs, tested, both.always, both.kept)
    later = make_plan(both.later, both.statics, finite, beliefs, tested, both.always, both.kept)
    return both, first, later


def _beliefs(both: Phases) -> frozenset[str]:
    """Small finite static variables that the state does not depend on."""
    used = reads(e for p in both for s in p.slots for e in (s.present, *s.values))
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
            step, given, isinstance(method, RaoBlackwellised)
        )
        self.questions = questions(self.phases, steps)

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
    ) -> Outcome:
        """One step. `everything`: also answer the queries that are asked at the end."""
        plan = self.first if at_first else self.later
        ask = tuple(q for q in self.questions if everything or q.at_every_step)
        return ParticleStep(plan, settings, self.phases.kept, self.questions)(
            state, moment, binding, key, ask, final
        )

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
