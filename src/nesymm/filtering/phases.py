"""The two phases of a program over time: its first step, and every later one.

Both are specialisations of the one step program. At the first step nothing came before;
at later steps `t = 0` is false, and a fluent that is always there needs no presence bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nesymm.compiler.algebra import and_, axis_value, const, is_const, or_
from nesymm.compiler.arithmetic import arithmetic
from nesymm.compiler.axes import case, rebuild, substitute
from nesymm.compiler.expr import FALSE, TRUE, Axis, Expr, make, postorder, rewrite
from nesymm.compiler.finish import map_expressions
from nesymm.compiler.step import (
    ObservationDecl,
    RandomVariable,
    Slot,
    StepProgram,
)
from nesymm.compiler.types import BOOL, Int, domain
from nesymm.language.program import At, During, Now

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
    step = _canonical(_drop_unit_axes(step))
    present = frozenset(s.name for s in step.slots)
    while True:
        first, later = _first(step, given), _later(step, given, present)
        always = frozenset(
            s.name
            for s, n in zip(first.slots, later.slots, strict=True)
            if s.name in present and s.present is TRUE and n.present is TRUE
        )
        if always == present:
            break
        present = always
    first = replace(first, observations=tuple(o for o in first.observations if _at_first(o)))
    later = replace(later, observations=tuple(o for o in later.observations if _at_later(o)))
    static = {v.name for v in step.variables if v.static}
    read = {n.data for n in postorder(_needed(later)) if n.op == "rv"}
    kept = tuple(v.name for v in step.variables if v.name in static & read)
    start = _prune(first, set(kept))
    statics = {v.name: v for v in start.variables if v.static}
    return Phases(start, _prune(later, set(), static), kept, present, statics)


def _at_first(observation: ObservationDecl) -> bool:
    match observation.when:
        case At(index):
            return index == 0
        case During(start, _):
            return start == 0
    return True


def _at_later(observation: ObservationDecl) -> bool:
    match observation.when:
        case None | At(0):
            return False
        case During(_, end):
            return end is None or end > 0
    return True


def _first(step: StepProgram, given: frozenset[str]) -> StepProgram:
    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "time":
            return const(0)
        if node.op == "slot" and node.data[1] == "present":
            return FALSE
        return _known(node, args, given)

    return map_expressions(step, rule)


def _later(step: StepProgram, given: frozenset[str], present: frozenset[str]) -> StepProgram:
    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "time":
            return _LATER
        if node.op == "slot" and node.data[1] == "present" and node.data[0] in present:
            return TRUE
        return _known(node, args, given)

    return map_expressions(step, rule)


def _known(node: Expr, args: tuple[Expr, ...], given: frozenset[str]) -> Expr:
    if node.op == "given" and node.data in given:
        return TRUE
    return rebuild(node, args)


# ---------------------------------------------------------------- what a phase needs


def _needed(step: StepProgram) -> list[Expr]:
    """What a step is run for: everything else is there for its sake."""
    roots = [e for o in step.observations for e in o.expressions()]
    roots += [e for q in step.queries for e in q.expressions()]
    roots += [f.condition for f in step.flags if f.condition is not FALSE]
    roots += [e for s in step.slots for e in (s.present, *s.values)]
    used: set[str] = set()
    variables = {v.name: v for v in step.variables}
    fresh = list(roots)
    while fresh:
        found = [
            n.data
            for n in postorder(fresh)
            if n.op == "rv" and n.data in variables and n.data not in used
        ]
        used |= set(found)
        fresh = [e for name in dict.fromkeys(found) for e in variables[name].expressions()]
        roots += fresh
    return roots


def _prune(
    step: StepProgram, keep: set[str], known: set[str] | frozenset[str] = frozenset()
) -> StepProgram:
    """Only the variables that are drawn in this phase."""
    read = {n.data for n in postorder(_needed(step)) if n.op == "rv"} | keep
    read &= {v.name for v in step.variables}
    # What a kept variable depends on is needed too.
    variables = {v.name: v for v in step.variables}
    stack = list(read)
    while stack:
        for node in postorder(list(variables[stack.pop()].expressions())):
            if node.op == "rv" and node.data not in read:
                read.add(node.data)
                stack.append(node.data)
    drawn = tuple(
        v for v in step.variables if v.name in read and v.name not in known and v.guard is not FALSE
    )
    return replace(step, variables=drawn)


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
            return _only(node, args)
        if node.op in wide_axes:
            keep = wide_axes[node.op][node.data[0] if node.op == "slot" else node.data]
            args = tuple(a for a, k in zip(args, keep, strict=True) if k)
            return make(node.op, args, node.data, node.type)
        return rebuild(node, args)

    def wide(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(a for a in axes if a.size > 1)

    new = map_expressions(step, rule)
    return replace(
        new,
        variables=tuple(replace(v, axes=wide(v.axes)) for v in new.variables),
        slots=tuple(replace(s, axes=wide(s.axes)) for s in new.slots),
    )


def _only(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """A reduction along an axis with one value."""
    if node.op == "any":
        return args[0]
    if node.op == "sum":
        return case([(args[0], args[1]), (TRUE, const(0))])
    return args[1]


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

    def names(axes: tuple[Axis, ...]) -> dict[Axis, Axis]:
        return dict(zip(axes, canonical_axes(axes), strict=True))

    def moved(expr: Expr, mapping: dict[Axis, Axis]) -> Expr:
        return substitute(expr, {a: axis_value(b) for a, b in mapping.items()})

    def variable(v: RandomVariable) -> RandomVariable:
        m = names(v.axes)

        def param(p):  # type: ignore[no-untyped-def]
            return tuple(moved(e, m) for e in p) if isinstance(p, tuple) else moved(p, m)

        guide = v.guide
        if guide is not None:
            guide = (guide[0], tuple(map(param, guide[1])), guide[2])
        return replace(
            v,
            axes=tuple(m.values()),
            guard=moved(v.guard, m),
            params=tuple(map(param, v.params)),
            guide=guide,
        )

    def slot(s: Slot) -> Slot:
        m = names(s.axes)
        return replace(
            s,
            axes=tuple(m.values()),
            present=moved(s.present, m),
            values=tuple(moved(e, m) for e in s.values),
        )

    def observation(o: ObservationDecl) -> ObservationDecl:
        m = names(o.axes)
        branches = tuple(
            replace(b, condition=moved(b.condition, m), values=tuple(moved(e, m) for e in b.values))
            for b in o.branches
        )
        return replace(o, axes=tuple(m.values()), holds=moved(o.holds, m), branches=branches)

    def query(q):  # type: ignore[no-untyped-def]
        m = names(q.axes)
        return replace(
            q,
            axes=tuple(m.values()),
            holds=moved(q.holds, m),
            values=tuple(moved(e, m) for e in q.values),
        )

    return replace(
        step,
        variables=tuple(map(variable, step.variables)),
        slots=tuple(map(slot, step.slots)),
        observations=tuple(map(observation, step.observations)),
        queries=tuple(map(query, step.queries)),
    )


# ---------------------------------------------------------------- what is observed


def use_observed(both: Phases, complete: frozenset[str]) -> Phases:
    """Read a condition that is observed at every step from the data.

    What follows from it then no longer depends on how it came about: health depends on the
    observed hits, not on where the enemy stands.
    """
    return replace(
        both, first=_use_observed(both.first, complete), later=_use_observed(both.later, complete)
    )


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
            told: list[Expr] = []
            for holds, leaf in known.items():
                if holds.op == "and" and set(holds.args) <= set(parts):
                    parts = [p for p in parts if p not in holds.args]
                    told.append(leaf)
            if told:
                return and_(*told, *(rewrite(p, rule) for p in parts))
        return rebuild(node, args)

    def read(expr: Expr) -> Expr:
        return rewrite(expr, rule)

    return replace(
        step,
        slots=tuple(
            replace(s, present=read(s.present), values=tuple(map(read, s.values)))
            for s in step.slots
        ),
        queries=tuple(
            replace(q, holds=read(q.holds), values=tuple(map(read, q.values))) for q in step.queries
        ),
    )


def unroll(expr: Expr, names: set[str]) -> Expr:
    """Write reductions out whose elements belong to things in `names`."""
    if not names:
        return expr

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if not isinstance(node.data, Axis) or node.op == "axis":
            return rebuild(node, args)
        if not any(mentions(a, names, node.data) for a in args):
            return rebuild(node, args)
        places = [const(v) for v in domain(node.data.type)]
        parts = [tuple(substitute(a, {node.data: p}) for a in args) for p in places]
        if node.op == "any":
            return or_(*(p[0] for p in parts))
        if node.op == "sum":
            total = const(0)
            for condition, value in parts:
                total = arithmetic("add", total, case([(condition, value), (TRUE, const(0))]))
            return total
        if node.op == "pick":
            return case([*((c, v) for c, v in parts[:-1]), (TRUE, parts[-1][1])])
        return rebuild(node, args)

    return rewrite(expr, rule)


def mentions(expr: Expr, names: set[str], axis: Axis | None = None) -> bool:
    """Whether an expression reads one of some things (at keys that vary along an axis)."""
    for node in postorder([expr]):
        if node.op in ("rv", "slot"):
            name = node.data if node.op == "rv" else f"slot {node.data[0]}"
            if name in names and (axis is None or any(axis in a.axes for a in node.args)):
                return True
    return False


__all__ = ["Phases", "canonical_axes", "mentions", "phases", "unroll", "use_observed"]
