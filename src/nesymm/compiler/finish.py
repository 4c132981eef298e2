"""The last stage of grounding: tidy what the rounds found into a `StepProgram`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nesymm.compiler.axes import rebuild
from nesymm.compiler.clusters import find_clusters
from nesymm.compiler.elements import divided, place, refuse_parts
from nesymm.compiler.evaluate import fail
from nesymm.compiler.expr import Expr, System, make, postorder, rewrite
from nesymm.compiler.identity import Along
from nesymm.compiler.random import Variables
from nesymm.compiler.step import (
    Branch,
    Flag,
    InputDecl,
    ObservationDecl,
    Parameter,
    QueryDecl,
    RandomVariable,
    Slot,
    StepProgram,
)
from nesymm.compiler.types import Int, Real, Tensor
from nesymm.errors import Span
from nesymm.language.program import CheckedProgram


def finish(
    program: CheckedProgram,
    *,
    inputs: tuple[InputDecl, ...],
    parameters: tuple[Parameter, ...],
    slots: list[Slot],
    variables: Variables,
    observations: tuple[ObservationDecl, ...],
    queries: tuple[QueryDecl, ...],
    flags: tuple[Flag, ...],
    equalities: dict[Expr, Span | None],
) -> StepProgram:
    draft = StepProgram(
        inputs=inputs,
        parameters=parameters,
        networks=tuple(program.networks.items()),
        slots=tuple(slots),
        variables=tuple(variables.declared.values()),
        observations=observations,
        queries=queries,
        flags=tuple(dict.fromkeys(flags)),
        temporal=program.temporal,
    )
    draft = _share_elements(draft, variables)
    draft = _keep_reachable(draft, keep_slots=not (program.observations or program.queries))
    draft = replace(draft, variables=_in_order(draft.variables))
    draft = _mark_deterministic(draft)
    _refuse_equalities(draft, equalities)
    _check_continuous_evidence(draft)
    return replace(draft, clusters=find_clusters(draft))


# ---------------------------------------------------------------- one variable, one name


def _share_elements(step: StepProgram, variables: Variables) -> StepProgram:
    """A variable referred to by a constant key is an element of the array that has it."""
    element = place(variables).elements
    for name in element:
        clause = variables.owner[name].clause
        if _has_derivations(variables, clause):
            fail(
                "E318",
                f"the random choice {name} is used both by itself and along an axis, and "
                "several derivations lead to it",
                variables.host.program.clauses[clause].span,
                "give each derivation a clause of its own",
            )
    for owner in divided(variables):
        refuse_parts(owner, variables.host.program)
    if not element:
        return step

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "rv" and node.data in element:
            array, index = element[node.data]
            keys = tuple(args[i.axis] if isinstance(i, Along) else i for i in index)
            return make("rv", keys, array, node.type)
        return rebuild(node, args)

    kept = tuple(v for v in step.variables if v.name not in element)
    return map_expressions(replace(step, variables=kept), rule)


def _has_derivations(variables: Variables, clause: int) -> bool:
    return any(o.clause == clause and o.derivation for o in variables.owner.values())


def map_expressions(
    step: StepProgram, rule: Callable[[Expr, tuple[Expr, ...]], Expr]
) -> StepProgram:
    """Rewrite every expression of a step program, least-fixpoint systems included."""
    memo: dict[int, Expr] = {}
    systems: dict[int, System] = {}

    def whole(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "lfp":
            return rule(node, args)
        system, index = node.data
        if id(system) not in systems:
            new = systems[id(system)] = System(system.names)
            new.definitions = tuple(rewrite(d, whole) for d in system.definitions)
        return make("lfp", (), (systems[id(system)], index))

    def change(expr: Expr) -> Expr:
        return rewrite(expr, whole, memo)

    def change_param(param: Any) -> Any:
        return tuple(map(change, param)) if isinstance(param, tuple) else change(param)

    return replace(
        step,
        variables=tuple(
            replace(v, guard=change(v.guard), params=tuple(map(change_param, v.params)))
            for v in step.variables
        ),
        observations=tuple(
            replace(
                o,
                holds=change(o.holds),
                branches=tuple(
                    Branch(change(b.condition), tuple(map(change, b.values))) for b in o.branches
                ),
            )
            for o in step.observations
        ),
        queries=tuple(
            replace(q, holds=change(q.holds), values=tuple(map(change, q.values)))
            for q in step.queries
        ),
        slots=tuple(
            replace(s, present=change(s.present), values=tuple(map(change, s.values)))
            for s in step.slots
        ),
        flags=tuple(replace(f, condition=change(f.condition)) for f in step.flags),
    )


# ---------------------------------------------------------------- what is needed


def _keep_reachable(step: StepProgram, keep_slots: bool) -> StepProgram:
    """Drop slots, variables and parameters that nothing asked for depends on."""
    slots = {s.name: s for s in step.slots}
    variables = {v.name: v for v in step.variables}
    used_slots: set[str] = set(slots) if keep_slots else set()
    used_variables: set[str] = set()
    used_parameters: set[str] = set()
    roots: list[Expr] = [e for o in step.observations for e in o.expressions()]
    roots += [e for q in step.queries for e in q.expressions()]
    roots += [f.condition for f in step.flags]
    roots += [e for s in used_slots for e in (slots[s].present, *slots[s].values)]
    seen: set[int] = set()
    while roots:
        fresh: list[Expr] = []
        for node in postorder(roots):
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.op == "slot" and node.data[0] not in used_slots:
                used_slots.add(node.data[0])
                slot = slots[node.data[0]]
                fresh += [slot.present, *slot.values]
            elif node.op == "rv" and node.data not in used_variables:
                used_variables.add(node.data)
                fresh += variables[node.data].expressions()
            elif node.op == "param":
                used_parameters.add(node.data)
        roots = fresh
    return replace(
        step,
        slots=tuple(s for s in step.slots if s.name in used_slots),
        variables=tuple(v for v in step.variables if v.name in used_variables),
        parameters=tuple(p for p in step.parameters if p.name in used_parameters),
    )


def _in_order(variables: tuple[RandomVariable, ...]) -> tuple[RandomVariable, ...]:
    """Parents first; otherwise in the order of the program."""
    by_name = {v.name: v for v in variables}
    parents = {
        v.name: [n.data for n in postorder(v.expressions()) if n.op == "rv" and n.data in by_name]
        for v in variables
    }
    ordered: list[RandomVariable] = []
    done: set[str] = set()
    for root in by_name:
        stack = [(root, False)]
        while stack:
            name, expanded = stack.pop()
            if name in done:
                continue
            if expanded:
                done.add(name)
                ordered.append(by_name[name])
            else:
                stack.append((name, True))
                stack.extend((p, False) for p in reversed(parents[name]) if p not in done)
    return tuple(ordered)


def _mark_deterministic(step: StepProgram) -> StepProgram:
    """Slots that depend on inputs and on other such slots only."""
    certain = {s.name for s in step.slots}
    needs: dict[str, set[str]] = {}
    for slot in step.slots:
        nodes = list(postorder((slot.present, *slot.values)))
        needs[slot.name] = {n.data[0] for n in nodes if n.op == "slot"}
        if any(n.op == "rv" for n in nodes):
            certain.discard(slot.name)
    changed = True
    while changed:
        changed = False
        for name in list(certain):
            if not needs[name] <= certain:
                certain.discard(name)
                changed = True
    return replace(
        step, slots=tuple(replace(s, deterministic=s.name in certain) for s in step.slots)
    )


# ---------------------------------------------------------------- refusals


def _refuse_equalities(step: StepProgram, equalities: dict[Expr, Span | None]) -> None:
    """A continuous value is never exactly equal to another: such a test is a mistake."""
    continuous = {
        v.name for v in step.variables if not v.finite and isinstance(v.type, Real | Tensor)
    }
    uncertain = {s.name for s in step.slots if not s.deterministic}
    for node in step.nodes():
        if node.op == "eq" and isinstance(node.args[0].type, Tensor):
            fail(
                "E311",
                "two tensors are tested for equality",
                equalities.get(node),
                "compare how far they are apart: `distance(P, Q, D), D < 0.1`",
            )
        if node.op != "eq" or not all(isinstance(a.type, Int | Real) for a in node.args):
            continue
        if not any(isinstance(a.type, Real) for a in node.args):
            continue
        for below in postorder(a for a in node.args if isinstance(a.type, Real)):
            random = below.op == "rv" and below.data in continuous
            carried = (
                below.op == "slot"
                and below.data[0] in uncertain
                and isinstance(below.type, Real | Tensor)
                and _carries_continuous(step, below.data[0], continuous)
            )
            if random or carried:
                fail(
                    "E311",
                    "a continuous value is tested for equality, which it never meets",
                    equalities.get(node),
                    "compare it with `<` or `>`, or observe it: `observe(x, 1.5).`",
                )


def _carries_continuous(step: StepProgram, slot: str, continuous: set[str]) -> bool:
    seen: set[str] = set()
    pending = [slot]
    by_name = {s.name: s for s in step.slots}
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in postorder(v for v in by_name[name].values if isinstance(v.type, Real | Tensor)):
            if node.op == "rv" and node.data in continuous:
                return True
            if node.op == "slot" and isinstance(node.type, Real | Tensor):
                pending.append(node.data[0])
    return False


def _check_continuous_evidence(step: StepProgram) -> None:
    """A value observation on a continuous value must name a random variable itself."""
    continuous = {v.name for v in step.variables if not v.finite}
    for observation in step.observations:
        for branch in observation.branches:
            for value in branch.values:
                if value.op == "rv":
                    continue
                if value.op == "item" or isinstance(value.type, Tensor):
                    fail(
                        "E311",
                        "the observed value is a part of a vector, or carried from an earlier "
                        "step, so it has no density of its own here",
                        observation.span,
                        "observe the vector itself where it is drawn, or draw the observed one "
                        "with `~`",
                    )
                below = [n for n in postorder((value,)) if n.op == "rv" and n.data in continuous]
                if below and not isinstance(value.type, Int):
                    fail(
                        "E311",
                        "the observed value is computed from a continuous variable, so "
                        "it has no density of its own here",
                        observation.span,
                        "observe the random variable itself, or draw the observed one with `~`",
                    )


__all__ = ["finish", "map_expressions"]
