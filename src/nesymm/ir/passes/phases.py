"""The two phases of a program over time: its first step, and every later one.

Both are specialisations of the one step program. At the first step nothing came before;
at later steps `t = 0` is false, and a fluent that is always there needs no presence bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from nesymm.ir.algebra import and_, axis_value, const, is_const
from nesymm.ir.axes import rebuild, replacing, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, drawn, make, rewrite
from nesymm.ir.passes.plates import joined
from nesymm.ir.reachability import reachable
from nesymm.ir.step import (
    ObservationDecl,
    Part,
    QueryDecl,
    RandomVariable,
    Slot,
    StepProgram,
)
from nesymm.ir.types import BOOL, Int, domain
from nesymm.language.program import Now, steps_of

_Placed = TypeVar("_Placed", RandomVariable, Slot, ObservationDecl, QueryDecl)

_Part = TypeVar("_Part", bound=Part)

_LATER = make("time", type_=Int(1))


@dataclass(frozen=True)
class Phases:
    """A program, its first step and its later steps.

    `kept` are the static variables that later steps read; the slots in `always` are always
    present. `statics` are all variables that are drawn once.
    """

    first: StepProgram
    later: StepProgram
    kept: tuple[str, ...]
    always: frozenset[str]
    statics: dict[str, RandomVariable]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter((self.first, self.later))


def phases(step: StepProgram, given: frozenset[str] = frozenset()) -> Phases:
    """Specialise a program; the inputs in `given` are known to be there at every step."""
    step = replace(step, observations=tuple(o for o in step.observations if not o.of_nothing))
    step = _canonical(_drop_unit_axes(step))
    present = frozenset(s.name for s in step.slots)
    while True:
        first = _without_idle_guides(at_first(step, given))
        later = _without_idle_guides(at_later(step, given, present))
        always = frozenset(
            s.name
            for s, n in zip(first.slots, later.slots, strict=True)
            if s.name in present and s.present is TRUE and n.present is TRUE
        )
        if always == present:
            break
        present = always
    starting = tuple(o for o in first.observations if steps_of(o.when)[0] == 0)
    continued = tuple(o for o in later.observations if steps_of(o.when)[1] != 0)
    first, later = replace(first, observations=starting), replace(later, observations=continued)
    static = {v.name for v in step.variables if v.static}
    read = _needed(later)
    kept = tuple(v.name for v in step.variables if v.static and v.name in read)
    start = prune(first, kept)
    statics = {v.name: v for v in start.variables if v.static}
    return Phases(start, prune(later, (), static), kept, present, statics)


def at_first(part: _Part, given: frozenset[str] = frozenset()) -> _Part:
    """What is left of a program, or of a part of it, at the first step: no slot is filled."""
    return _specialised(part, const(0), given, lambda slot: FALSE)


def at_later(
    part: _Part,
    given: frozenset[str] = frozenset(),
    present: frozenset[str] = frozenset(),
) -> _Part:
    """What is left of it at later steps; the slots in `present` are always there."""
    return _specialised(part, _LATER, given, lambda slot: TRUE if slot in present else None)


def _specialised(
    part: _Part, time: Expr, given: frozenset[str], present: Callable[[str], Expr | None]
) -> _Part:
    def known(node: Expr) -> Expr | None:
        if node.op == "time":
            return time
        if node.op == "given" and node.data in given:
            return TRUE
        return present(node.data[0]) if node.op == "slot" and node.data[1] == "present" else None

    return part.rewrite(replacing(known))


def _without_idle_guides(step: StepProgram) -> StepProgram:
    """Guides that never apply in this phase must not keep alive what they read."""

    def used(variable: RandomVariable) -> RandomVariable:
        guides = tuple(g for g in variable.guides if g.condition is not FALSE)
        return variable if guides == variable.guides else replace(variable, guides=guides)

    return replace(step, variables=tuple(map(used, step.variables)))


# ---------------------------------------------------------------- what a phase needs


def _needed(step: StepProgram, keep: Iterable[str] = ()) -> dict[str, None]:
    """The variables that a step is run for: all that is not a variable reads them, or they are to
    be kept; and what these depend on."""
    parents = {v.name: drawn(v.expressions()) for v in step.variables}
    read = drawn(replace(step, variables=()).roots())
    return reachable([*read, *keep], lambda name: parents.get(name, ()))


def prune(
    step: StepProgram, keep: Iterable[str], known: set[str] | frozenset[str] = frozenset()
) -> StepProgram:
    """Only the variables that are drawn in this phase."""
    needed = _needed(step, keep).keys() - known
    variables = (v for v in step.variables if v.name in needed and v.guard is not FALSE)
    return replace(step, variables=tuple(variables))


def without_latches(both: Phases) -> Phases:
    """The same without the answers to queries about a fixed step in the state."""
    first, later = (replace(p, slots=tuple(s for s in p.slots if not s.latch)) for p in both)
    return replace(both, first=first, later=later)


# ---------------------------------------------------------------- axes


def _drop_unit_axes(step: StepProgram) -> StepProgram:
    """Axes with one value are no axes: one enemy is the enemy."""
    wide_axes = {
        "rv": {v.name: [a.size > 1 for a in v.axes] for v in step.variables},
        "slot": {s.name: [a.size > 1 for a in s.axes] for s in step.slots},
    }

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "axis" and node.data.size == 1:
            return const(domain(node.data.type)[0])
        if isinstance(node.data, Axis) and node.data.size == 1 and node.op != "axis":
            return joined(node.op, [args])
        if node.op in wide_axes:
            keep = wide_axes[node.op][node.data[0] if node.op == "slot" else node.data]
            args = tuple(a for a, k in zip(args, keep, strict=True) if k)
            return make(node.op, args, node.data, node.type)
        return rebuild(node, args)

    def longer(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(a for a in axes if a.size > 1)

    new = step.rewrite(rule)
    return replace(
        new,
        variables=tuple(replace(v, axes=longer(v.axes)) for v in new.variables),
        slots=tuple(replace(s, axes=longer(s.axes)) for s in new.slots),
    )


def canonical_axes(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The same axes, named by their types: those of data and programs then match."""
    count: dict[object, int] = {}
    out = []
    for axis in axes:
        count[axis.type] = count.get(axis.type, 0) + 1
        out.append(Axis(f"#{count[axis.type]} {axis.type}", axis.type))
    return tuple(out)


def _canonical(step: StepProgram) -> StepProgram:
    """Name free axes by their type, so that equal places have equal names."""

    def renamed(part: _Placed) -> _Placed:
        axes = canonical_axes(part.axes)
        names = {a: axis_value(b) for a, b in zip(part.axes, axes, strict=True)}
        return replace(part.map(lambda e: substitute(e, names)), axes=axes)

    return replace(
        step,
        variables=tuple(map(renamed, step.variables)),
        slots=tuple(map(renamed, step.slots)),
        observations=tuple(map(renamed, step.observations)),
        queries=tuple(map(renamed, step.queries)),
    )


# ---------------------------------------------------------------- what is observed


def use_observed(both: Phases, complete: frozenset[str]) -> Phases:
    """Read from the data what is observed at every step: conditions, and finite variables.

    What follows from a condition then no longer depends on how it came about: health depends on
    the observed hits, not on where the enemy stands. And what follows from an observed action is
    no longer summed over all actions.
    """
    first, later = (_use_observed(_use_values(p, complete), complete) for p in both)
    return replace(both, first=first, later=later)


def _use_values(step: StepProgram, complete: frozenset[str]) -> StepProgram:
    drawn = {
        v.name
        for v in step.variables
        if v.finite and not v.axes and not v.static and v.guard is TRUE
    }
    known: dict[Expr, Expr] = {}
    kept: set[int] = set()  # the observations that tie a variable to its value
    for observation in step.observations:
        if observation.value is not None or observation.axes or observation.when != Now(0):
            continue
        if observation.name not in complete or len(observation.branches) != 1:
            continue
        (branch,) = observation.branches
        for i, value in enumerate(branch.values if branch.condition is TRUE else ()):
            if value.op == "rv" and value.data in drawn and value not in known:
                known[value] = make("input", (), (observation.name, i), value.type)
                kept.add(id(observation))
    if not known:
        return step

    def read(expr: Expr) -> Expr:
        return rewrite(expr, replacing(known.get))

    observations = (o if id(o) in kept else o.map(read) for o in step.observations)
    return replace(step.map(read), observations=tuple(observations))


def _use_observed(step: StepProgram, complete: frozenset[str]) -> StepProgram:
    known = {
        o.holds: make("input", (), (o.name, 0), BOOL)
        for o in step.observations
        if o.value is None
        and not o.is_value
        and not o.axes
        and o.when == Now(0)
        and o.name in complete
        and not is_const(o.holds)
    }
    if not known:
        return step

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node in known:
            return known[node]
        if node.op == "and":
            parts = list(node.args)
            leaves: list[Expr] = []
            for holds, leaf in known.items():
                if holds.op == "and" and set(holds.args) <= set(parts):
                    parts = [p for p in parts if p not in holds.args]
                    leaves.append(leaf)
            if leaves:
                return and_(*leaves, *(rewrite(p, rule) for p in parts))
        return rebuild(node, args)

    def read(expr: Expr) -> Expr:
        return rewrite(expr, rule)

    return replace(
        step,
        slots=tuple(s.map(read) for s in step.slots),
        queries=tuple(q.map(read) for q in step.queries),
    )
