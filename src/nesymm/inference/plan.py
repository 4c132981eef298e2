"""How one phase of a program is run: what is solved exactly, what is drawn ahead.

Finite variables are *solved*: their joint posterior is computed and drawn from. Infinite
ones, and finite ones that cannot be solved, are drawn *ahead*, from their prior or guide,
and the evidence then weighs them. A variable that is observed and read nowhere else is
*emitted*: it only contributes its density.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from nesymm.inference.densities import DENSITIES
from nesymm.ir.algebra import const
from nesymm.ir.axes import replacing
from nesymm.ir.expr import TRUE, Axis, Expr, postorder, rewrite
from nesymm.ir.passes.phases import Phases
from nesymm.ir.passes.plates import lift
from nesymm.ir.step import RandomVariable, StepProgram

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
    whose parameters depend on solved ones; `scored` those whose gradient is a score. `beliefs`
    are static variables that stay marginalised; those in `fresh` are first met here. Solved
    variables in `unread` matter to the evidence alone: they are summed out and never drawn.
    Those that one observation alone reads are `folded` into it, by the observation's name.
    Where it is `grounded`, the elements of all things are told apart.
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
    grounded: bool = False

    @cached_property
    def shared(self) -> frozenset[int]:
        """The nodes that several others read."""
        roots = [*self.step.roots()]
        for variable in self.variables.values():
            roots += variable.expressions()
        for folded in self.folded.values():
            roots += folded.holds
        return shared_nodes(dict.fromkeys(roots))

    @property
    def enumerated(self) -> frozenset[str]:
        return frozenset(v.name for v in self.solved) | self.beliefs


def make_plan(
    both: Phases,
    step: StepProgram,
    solve: frozenset[str],
    beliefs: frozenset[str],
    tested: frozenset[str],
) -> Plan:
    """Sort the variables of one phase of two. `solve` names those that may be enumerated."""
    kept = both.kept
    emitted = emitted_variables(step, kept)
    solved = tuple(
        v
        for v in step.variables
        if v.finite and v.name in solve and v.name not in emitted and v.name not in beliefs
    )
    names = frozenset(v.name for v in solved) | beliefs
    ahead = tuple(v for v in step.variables if v.name not in names and v.name not in emitted)
    variables = {**both.statics, **{v.name: v for v in step.variables}}
    step, variables, split = lift(step, variables, names)
    # An infinite variable is drawn whether or not its guard holds: only what it is drawn from
    # ties it.
    tied = frozenset(
        v.name
        for v in ahead
        if names & reads(replace(v, guard=TRUE).expressions() if not v.finite else v.expressions())
    )
    scored = frozenset(
        v.name
        for v in ahead
        if v.finite or v.name in tied or v.name in tested or not DENSITIES[v.family].reparameterised
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
        both.always,
        tuple(variables[v.name] for v in step.variables if v.name in beliefs),
        unread,
        _folded(step, [variables[v.name] for v in solved if v.name in unread]),
    )


def _unread(
    step: StepProgram, solved: tuple[RandomVariable, ...], kept: tuple[str, ...]
) -> frozenset[str]:
    """Solved variables that neither the next state nor another variable depends on."""
    read = reads(replace(step, observations=(), queries=()).roots())
    read |= reads(observed_where(step, kept))
    return frozenset(v.name for v in solved if v.name not in read and v.name not in kept)


def observed_where(step: StepProgram, kept: Iterable[str]) -> Iterator[Expr]:
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
        if any(n.op == "lfp" for n in postorder([observation.holds], systems=False)):
            continue  # the definitions of a recursion may read the variable, too
        out[observation.name] = Folded(
            variable, tuple(with_value(observation.holds, name, v) for v in variable.outcomes)
        )
    return out


def with_value(expr: Expr, name: str, value: object) -> Expr:
    """An expression in which a variable has a value."""

    here = const(value)
    return rewrite(expr, replacing(lambda n: here if n.op == "rv" and n.data == name else None))


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
    rest += replace(step, observations=()).roots()
    elsewhere = reads(rest) | set(kept)
    # An infinite variable is observed once at a time (`check_observations`), a finite one may be
    # observed twice.
    return frozenset(
        v.name
        for v in step.variables
        if v.name not in elsewhere and v.name in direct and (not v.finite or direct[v.name] == 1)
    )


def _at_own_place(value: Expr, axes: tuple[Axis, ...]) -> bool:
    keys = [a.data for a in value.args if a.op == "axis"]
    return len(keys) == len(value.args) == len(set(keys)) and set(keys) <= set(axes)


# ---------------------------------------------------------------- what must be scored


_TESTS = {
    "eq", "lt", "le", "floor", "ceiling", "round", "truncate", "sign", "lookup", "idiv", "mod"
}  # fmt: skip


def tested_variables(programs: Iterable[StepProgram]) -> frozenset[str]:
    """Variables whose values reach a comparison, at once or by way of the state.

    A comparison has no gradient: where a draw reaches one, its distribution is scored. The bounds
    of a uniform density that weighs something are comparisons too.
    """
    return _tested(tuple(programs))[0]


def tested_parameters(programs: Iterable[StepProgram]) -> frozenset[str]:
    """Learnable numbers that reach a comparison, where particles give them no gradient."""
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
                weighs = variable.name in found | observed or variable.guides
                if variable.family == "uniform" and (
                    weighs or finite & reads(variable.expressions())
                ):
                    changed |= mark(variable.expressions())
    return frozenset(found), frozenset(parameters)


def shared_nodes(roots: Iterable[Expr]) -> frozenset[int]:
    """The conditions and values that more than one other expression reads."""
    roots = list(roots)
    readers: Counter[int] = Counter(id(root) for root in roots)
    nodes = list(postorder(roots))
    for node in nodes:
        readers.update(id(arg) for arg in node.args)
    return frozenset(id(n) for n in nodes if n.args and readers[id(n)] > 1)
