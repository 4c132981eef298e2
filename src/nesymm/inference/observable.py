"""Which observations of continuous values a filter can weigh: the others are refused.

Weights add up probabilities with probabilities and densities with densities. A value that
is a point mass in one world and has a density in another would need both, and a value has its
density once: where it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from nesymm.errors import Diagnostic, ProgramError
from nesymm.inference.data import Sequences
from nesymm.ir.algebra import and_, conjuncts, is_const
from nesymm.ir.expr import FALSE, TRUE, Expr, postorder
from nesymm.ir.passes.phases import Phases, phases, use_observed
from nesymm.ir.step import ObservationDecl, StepProgram, active
from nesymm.ir.types import Int
from nesymm.language.program import At, During, Now


def check_observations(step: StepProgram, sequences: Sequences) -> None:
    """Refuse observations of infinite variables that have no meaning as weights."""
    infinite = {v.name: v for v in step.variables if not v.finite}
    observed = [o for o in step.observations if o.value is not None or o.name in sequences.observed]
    drawn = [o for o in observed if _drawn(o) & infinite.keys()]
    continuous = {n for n, v in infinite.items() if not isinstance(v.type, Int)}
    _refuse_late(replace(step, observations=tuple(observed)), continuous)
    if not drawn:
        return
    _refuse_repeated(replace(step, observations=tuple(drawn)), sequences)
    if any(len({_densities(b.values, continuous) for b in o.branches}) > 1 for o in drawn):
        _refuse_mixed(replace(step, observations=tuple(observed)), sequences.complete, continuous)


def _drawn(observation: ObservationDecl) -> set[str]:
    """The variables that an observation gives the values of."""
    return {v.data for b in observation.branches for v in b.values if v.op == "rv"}


# ---------------------------------------------------------------- observed too late


def _refuse_late(step: StepProgram, continuous: set[str]) -> None:
    """A value that was drawn at an earlier step, and not observed there, has met no density."""
    observed = {name for o in step.observations for name in _drawn(o)}
    for observation in step.observations:
        for value in (v for b in observation.branches for v in b.values):
            if value.op != "slot" or value.data[1] == "present":
                continue
            origins = _origins(step, value.data) & continuous
            if origins and not origins & observed:
                raise ProgramError(
                    Diagnostic(
                        "E311",
                        f"{observation.name} is a continuous value of an earlier step, which has "
                        "no density at this one",
                        observation.span,
                        f"observe {min(origins)} at the step where it is drawn",
                    )
                )


def _origins(step: StepProgram, field: tuple[str, int]) -> set[str]:
    """The variables that a field of the state is a copy of."""
    found: set[str] = set()
    seen = {field}
    pending = [field]
    while pending:
        name, column = pending.pop()
        for node in postorder([step.slot(name).values[column]]):
            if node.op == "rv":
                found.add(node.data)
            elif node.op == "slot" and node.data[1] != "present" and node.data not in seen:
                seen.add(node.data)
                pending.append(node.data)
    return found


# ---------------------------------------------------------------- observed twice


def _refuse_repeated(step: StepProgram, sequences: Sequences) -> None:
    infinite = {v.name for v in step.variables if not v.finite}
    static = {v.name for v in step.variables if v.static}
    # A stream has no last step; times behind all that the program mentions are alike.
    endless = sequences.steps > sequences.last.max() + 1
    steps = 2 + max(map(_latest, step.observations)) if endless else sequences.steps
    last = np.asarray([steps]) if endless else sequences.last
    made = {id(o): _made(o, steps, last) for o in step.observations}
    named = {
        id(o): [v for b in o.branches for v in b.values if v.op == "rv" and v.data in infinite]
        for o in step.observations
    }
    for observation in step.observations:
        once = [v.data for v in named[id(observation)] if v.data in static]
        if once and made[id(observation)][1:].any():
            _fail_repeated(once[0], observation)
    for one, other in combinations(step.observations, 2):
        if not (made[id(one)] & made[id(other)]).any():
            continue
        for a in named[id(one)]:
            if any(_may_be_same(a, b) for b in named[id(other)]):
                _fail_repeated(a.data, other)


def _latest(observation: ObservationDecl) -> int:
    """The last step that an observation mentions."""
    match observation.when:
        case At(index):
            return index
        case During(first, end):
            return first if end is None else end
    return 0


def _made(observation: ObservationDecl, steps: int, last: np.ndarray) -> np.ndarray:
    """At which steps of which sequences an observation can be made, [step, batch]."""
    time = np.arange(steps)[:, None]
    return np.asarray(active(observation.when, time, last) & (time <= last))


def _may_be_same(a: Expr, b: Expr) -> bool:
    """Whether two references can be to one variable: their keys are not known to differ."""
    return a.data == b.data and not any(
        is_const(x) and is_const(y) and x is not y for x, y in zip(a.args, b.args, strict=True)
    )


def _fail_repeated(name: str, observation: ObservationDecl) -> None:
    raise ProgramError(
        Diagnostic(
            "E311",
            f"{name} is observed more than once, and has one density only",
            observation.span,
            "observe the variable itself, once",
        )
    )


# ---------------------------------------------------------------- point masses and densities


def _refuse_mixed(step: StepProgram, complete: frozenset[str], continuous: set[str]) -> None:
    both = use_observed(phases(step, complete), complete)
    known = [_known(phase, complete) for phase in both]
    always = {e for o in both.first.observations if o.when is None for e in _says(o)}
    certain = _certain_slots(both, known)
    for phase, here in zip(both, known, strict=True):
        uncertain = partial(_varies, known=here | always, certain=certain)
        for observation in phase.observations:
            if _mixed(observation, continuous, uncertain):
                name = observation.name
                raise ProgramError(
                    Diagnostic(
                        "E320",
                        f"{name} is a fixed value in some worlds and drawn from a density in "
                        "others: over time the two are not weighed against each other",
                        observation.span,
                        f"draw {name} in all worlds, from a narrow density where it is fixed, "
                        "or observe at every step what tells these worlds apart",
                    )
                )


def _densities(values: tuple[Expr, ...], continuous: set[str]) -> int:
    return sum(v.op == "rv" and v.data in continuous for v in values)


def _mixed(
    observation: ObservationDecl, continuous: set[str], uncertain: Callable[[Expr], bool]
) -> bool:
    """Whether worlds at one step explain a value by different numbers of densities."""
    ways = [
        (
            _densities(branch.values, continuous),
            uncertain(branch.condition),
            and_(*(c for c in conjuncts(branch.condition) if not uncertain(c))),
        )
        for branch in observation.branches
        if branch.condition is not FALSE
    ]
    return any(
        count != other and (open_ or other_open) and and_(known, other_known) is not FALSE
        for (count, open_, known), (other, other_open, other_known) in combinations(ways, 2)
    )


def _varies(expr: Expr, known: set[Expr], certain: set[str]) -> bool:
    """Whether an expression can differ between worlds with the same data."""
    seen: set[int] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        if id(node) in seen or node in known:
            continue
        seen.add(id(node))
        if node.op == "rv" or (node.op == "slot" and node.data[0] not in certain):
            return True
        if node.op == "lfp":
            pending += node.data[0].definitions
        pending += node.args
    return False


def _certain_slots(both: Phases, known: list[set[Expr]]) -> set[str]:
    """Slots that follow from data: the same in all worlds."""
    certain = {s.name for s in both.later.slots}
    while True:
        fewer = {
            name
            for name in certain
            if not any(
                _varies(e, here, certain)
                for phase, here in zip(both, known, strict=True)
                for e in phase.slot(name).expressions()
            )
        }
        if fewer == certain:
            return certain
        certain = fewer


def _known(phase: StepProgram, complete: frozenset[str]) -> set[Expr]:
    """What data or the program say at every step of a phase."""
    return {
        expr
        for observation in phase.observations
        if observation.value is not None or observation.name in complete
        if observation.when in (Now(0), During(0, None))
        for expr in _says(observation)
    }


def _says(observation: ObservationDecl) -> tuple[Expr, ...]:
    """What has the same truth or value wherever an observation holds."""
    if not observation.is_value:
        return (observation.holds,)
    (branch, *others) = observation.branches
    return branch.values if branch.condition is TRUE and not others else ()
