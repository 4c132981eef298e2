"""How one phase of a program is run: what is solved exactly, what is drawn ahead.

Finite variables are *solved*: their joint posterior is computed and drawn from. Infinite
ones, and finite ones that cannot be solved, are drawn *ahead*, from their prior or guide,
and the evidence then weighs them. A variable that is observed and read nowhere else is
*emitted*: it only contributes its density.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nesymm.compiler.algebra import axis_value, const
from nesymm.compiler.axes import rebuild, substitute
from nesymm.compiler.expr import Axis, Expr, make, postorder, rewrite
from nesymm.compiler.step import ObservationDecl, Param, QueryDecl, RandomVariable, StepProgram
from nesymm.compiler.types import domain
from nesymm.filtering.densities import REPARAMETERISED
from nesymm.filtering.phases import unroll

# Variables with at most so many outcomes are folded into what is observed of them.
_FEW = 4


@dataclass(frozen=True)
class Folded:
    """A variable that only one observation reads, and what is observed for each outcome."""

    variable: RandomVariable
    holds: tuple[Expr, ...]


@dataclass(frozen=True)
class Plan:
    """One phase, prepared.

    `split` are enumerated variables whose elements are told apart; `tied` those drawn ahead
    whose parameters depend on solved ones; `scored` those whose slope is a score. `beliefs`
    are static variables that stay marginalised; those in `fresh` are first met here. Solved
    variables in `unread` matter to the evidence alone: they are summed out and never drawn.
    Those that one observation alone reads are `folded` into it, by the observation's name.
    """

    step: StepProgram
    variables: Mapping[str, RandomVariable]
    solved: tuple[RandomVariable, ...]
    ahead: tuple[RandomVariable, ...]
    emitted: frozenset[str]
    beliefs: frozenset[str]
    split: frozenset[str]
    tied: frozenset[str]
    scored: frozenset[str]
    always: frozenset[str]
    fresh: tuple[RandomVariable, ...]
    unread: frozenset[str]
    folded: Mapping[str, Folded]

    @property
    def enumerated(self) -> frozenset[str]:
        return frozenset(v.name for v in self.solved) | self.beliefs


def make_plan(
    step: StepProgram,
    statics: Mapping[str, RandomVariable],
    solve: frozenset[str],
    beliefs: frozenset[str],
    tested: frozenset[str],
    always: frozenset[str],
    kept: tuple[str, ...] = (),
) -> Plan:
    """Sort the variables of a phase. `solve` names those that may be enumerated."""
    emitted = emitted_variables(step, kept)
    solved = tuple(
        v
        for v in step.variables
        if v.finite and v.name in solve and v.name not in emitted and v.name not in beliefs
    )
    names = frozenset(v.name for v in solved) | beliefs
    ahead = tuple(v for v in step.variables if v.name not in names and v.name not in emitted)
    variables = {**statics, **{v.name: v for v in step.variables}}
    step, variables = _plated(step, variables, names)
    split = split_variables(step, variables, names)
    step, variables = _mapped(step, variables, lambda e: unroll(e, set(split)))
    # An infinite variable is drawn whether or not its guard holds: only parameters tie it.
    tied = frozenset(
        v.name for v in ahead if names & reads(v.expressions() if v.finite else parameters_of(v))
    )
    scored = frozenset(
        v.name
        for v in ahead
        if v.finite or v.name in tied or v.name in tested or v.family not in REPARAMETERISED
    )
    unread = _unread(step, solved, kept)
    return Plan(
        step,
        variables,
        tuple(variables[v.name] for v in solved),
        tuple(variables[v.name] for v in ahead),
        emitted,
        beliefs,
        split,
        tied,
        scored,
        always,
        tuple(variables[v.name] for v in step.variables if v.name in beliefs),
        unread,
        _folded(step, [variables[v.name] for v in solved if v.name in unread]),
    )


def _unread(
    step: StepProgram, solved: tuple[RandomVariable, ...], kept: tuple[str, ...]
) -> frozenset[str]:
    """Solved variables that neither the next state nor another variable depends on."""
    read = reads(e for s in step.slots for e in (s.present, *s.values))
    read |= reads(f.condition for f in step.flags)
    read |= reads(e for v in step.variables for e in v.expressions())
    read |= reads(told_where(step, kept))
    return frozenset(v.name for v in solved if v.name not in read and v.name not in kept)


def told_where(step: StepProgram, kept: Iterable[str]) -> Iterator[Expr]:
    """Where an observation gives an infinite variable that is drawn another value: what depends
    on the variable depends on that."""
    emitted = emitted_variables(step, kept)
    drawn = {v.name for v in step.variables if not v.finite and v.name not in emitted}
    for observation in step.observations:
        for branch in observation.branches:
            if any(v.op == "rv" and v.data in drawn for v in branch.values):
                yield branch.condition


def _folded(step: StepProgram, unread: list[RandomVariable]) -> dict[str, Folded]:
    """Unread variables with few outcomes that stand in one condition that is observed."""
    asked = reads(e for q in step.queries for e in q.expressions())
    counts = Counter(n for o in step.observations for n in reads(o.expressions()))
    out: dict[str, Folded] = {}
    for variable in unread:
        name = variable.name
        if variable.axes or len(variable.outcomes) > _FEW or name in asked or counts[name] != 1:
            continue
        (observation,) = [o for o in step.observations if name in reads(o.expressions())]
        if observation.is_value or observation.axes or observation.name in out:
            continue
        out[observation.name] = Folded(
            variable, tuple(_with(observation.holds, name, v) for v in variable.outcomes)
        )
    return out


def _with(expr: Expr, name: str, value: object) -> Expr:
    """An expression in which a variable has a value."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "rv" and node.data == name:
            return const(value)
        return rebuild(node, args)

    return rewrite(expr, rule)


def parameters_of(variable: RandomVariable) -> list[Expr]:
    return [e for p in variable.params for e in (p if isinstance(p, tuple) else (p,))]


def reads(exprs: Iterable[Expr]) -> set[str]:
    """The random variables that expressions mention."""
    return {n.data for n in postorder(list(exprs)) if n.op == "rv"}


def emitted_variables(step: StepProgram, kept: Iterable[str] = ()) -> frozenset[str]:
    """Variables that an observation gives the value of, and that nothing else reads: nor do
    later steps, which read those that are `kept`."""
    direct: dict[str, int] = {}
    rest: list[Expr] = []
    for observation in step.observations:
        found: set[str] = set()
        rest.append(observation.holds)
        for branch in observation.branches:
            rest.append(branch.condition)
            for value in branch.values:
                if value.op == "rv" and _at_own_place(value, observation.axes):
                    found.add(value.data)
                    rest += value.args
                else:
                    rest.append(value)
        for name in found:
            direct[name] = direct.get(name, 0) + 1
    rest += [e for v in step.variables for e in v.expressions()]
    rest += [e for q in step.queries for e in q.expressions()]
    rest += [e for s in step.slots for e in (s.present, *s.values)]
    rest += [f.condition for f in step.flags]
    elsewhere = reads(rest) | set(kept)
    # An infinite variable is observed once at a time (`check_observations`), a finite one may be
    # told twice.
    return frozenset(
        v.name
        for v in step.variables
        if v.name not in elsewhere and v.name in direct and (not v.finite or direct[v.name] == 1)
    )


def _at_own_place(value: Expr, axes: tuple[Axis, ...]) -> bool:
    keys = [a.data for a in value.args if a.op == "axis"]
    return len(keys) == len(value.args) == len(set(keys)) and set(keys) <= set(axes)


# ---------------------------------------------------------------- elements told apart


def split_variables(
    step: StepProgram, variables: Mapping[str, RandomVariable], names: frozenset[str]
) -> frozenset[str]:
    """Enumerated variables whose elements some condition ties together, or picks out."""
    groups: list[set[str]] = []
    split: set[str] = set()
    sources: list[tuple[set[str], list[Expr]]] = [
        *(({v.name}, list(v.expressions())) for v in variables.values() if v.name in names),
        *((set(), list(v.expressions())) for v in variables.values() if v.name not in names),
        *((set(), list(o.expressions())) for o in step.observations),
        *((set(), list(q.expressions())) for q in step.queries),
    ]
    for own, exprs in sources:
        found = {n for n in own if variables[n].axes}
        for node in postorder(exprs):
            if node.op == "rv" and node.data in names and node.args:
                found.add(node.data)
                keys = tuple(a.data if a.op == "axis" else None for a in node.args)
                if keys != variables[node.data].axes:
                    split.add(node.data)
        groups.append(found)
    changed = True
    while changed:
        changed = False
        for group in groups:
            if group & split and not group <= split:
                split |= group
                changed = True
    return frozenset(split)


def _map_observation(
    observation: ObservationDecl, change: Callable[[Expr], Expr]
) -> ObservationDecl:
    branches = tuple(
        replace(b, condition=change(b.condition), values=tuple(map(change, b.values)))
        for b in observation.branches
    )
    return replace(observation, holds=change(observation.holds), branches=branches)


def _map_query(query: QueryDecl, change: Callable[[Expr], Expr]) -> QueryDecl:
    return replace(query, holds=change(query.holds), values=tuple(map(change, query.values)))


def _map_variable(variable: RandomVariable, change: Callable[[Expr], Expr]) -> RandomVariable:
    def one(param: Param) -> Param:
        return tuple(map(change, param)) if isinstance(param, tuple) else change(param)

    return replace(variable, guard=change(variable.guard), params=tuple(map(one, variable.params)))


def _mapped(
    step: StepProgram, variables: Mapping[str, RandomVariable], change: Callable[[Expr], Expr]
) -> tuple[StepProgram, dict[str, RandomVariable]]:
    """Change what a step weighs and answers, and how its variables are drawn."""
    step = replace(
        step,
        observations=tuple(_map_observation(o, change) for o in step.observations),
        queries=tuple(_map_query(q, change) for q in step.queries),
    )
    return step, {n: _map_variable(v, change) for n, v in variables.items()}


# ---------------------------------------------------------------- disjunctions along a plate


def _plated(
    step: StepProgram, variables: Mapping[str, RandomVariable], names: frozenset[str]
) -> tuple[StepProgram, dict[str, RandomVariable]]:
    """Let `any` run along the axis of the variables it is about, which then stay side by side.

    That is possible where it reads them at its own axis and reads no others.
    """

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "any":
            return rebuild(node, args)
        (operand,), axis = args, node.data
        inner = postorder([operand])
        read = [n for n in inner if n.op == "rv" and n.data in names and variables[n.data].axes]
        own = {variables[n.data].axes for n in read}
        alike = all(len(n.args) == 1 and n.args[0] is axis_value(axis) for n in read)
        if len(own) != 1 or not alike:
            return rebuild(node, args)
        (plate,) = next(iter(own))
        taken = any(plate in (n.data, *n.axes) for n in inner)
        if plate != axis and (taken or plate.type != axis.type):
            return rebuild(node, args)
        return make("any", (substitute(operand, {axis: axis_value(plate)}),), plate, node.type)

    return _mapped(step, variables, lambda e: rewrite(e, rule))


def places(axes: tuple[Axis, ...]) -> Iterator[tuple]:
    from itertools import product

    return product(*(domain(a.type) for a in axes))


def at_place(expr: Expr, axes: tuple[Axis, ...], key: tuple) -> Expr:
    return substitute(expr, {a: const(k) for a, k in zip(axes, key, strict=True)})


# ---------------------------------------------------------------- what must be scored


_TESTS = {
    "eq", "lt", "le", "floor", "ceiling", "round", "truncate", "sign", "lookup", "idiv", "mod"
}  # fmt: skip


def tested_variables(programs: Iterable[StepProgram]) -> frozenset[str]:
    """Variables whose values reach a comparison, at once or by way of the state.

    A comparison has no slope: where a draw reaches one, its distribution is scored. The bounds
    of a uniform density that weighs something are comparisons too.
    """
    return _tested(tuple(programs))[0]


def tested_parameters(programs: Iterable[StepProgram]) -> frozenset[str]:
    """Learnable numbers that reach a comparison, where particles give them no slope."""
    return _tested(tuple(programs))[1]


def _tested(programs: tuple[StepProgram, ...]) -> tuple[frozenset[str], frozenset[str]]:
    observed = reads(e for p in programs for o in p.observations for e in o.expressions())
    finite = {v.name for p in programs for v in p.variables if v.finite}
    found: set[str] = set()
    slots: set[tuple[str, object]] = set()
    parameters: set[str] = set()

    def mark(exprs: Iterable[Expr]) -> bool:
        size = len(found) + len(slots)
        for node in postorder(list(exprs)):
            if node.op == "rv":
                found.add(node.data)
            elif node.op == "slot" and node.data[1] != "present":
                slots.add(node.data)
            elif node.op == "param":
                parameters.add(node.data)
        return len(found) + len(slots) > size

    for program in programs:
        # Flags only say what must not happen: nothing depends on them.
        for node in replace(program, flags=()).nodes():
            if node.op in _TESTS or node.op in ("slot", "rv", "param"):
                mark(node.args)
    changed = True
    while changed:
        changed = False
        for program in programs:
            for slot in program.slots:
                for i, value in enumerate(slot.values):
                    if (slot.name, i) in slots:
                        changed |= mark([value])
            for variable in program.variables:
                weighs = variable.name in found | observed or variable.guide is not None
                if variable.family == "uniform" and (
                    weighs or finite & reads(variable.expressions())
                ):
                    changed |= mark(variable.expressions())
    return frozenset(found), frozenset(parameters)
