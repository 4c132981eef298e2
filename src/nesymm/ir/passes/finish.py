"""The last stage of grounding: tidy what the rounds found into a `StepProgram`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

from nesymm.errors import Span, fail
from nesymm.ir.expr import TRUE, Expr, leaves, postorder
from nesymm.ir.passes.cut_off import Kinds, cut_off, made_of
from nesymm.ir.step import (
    Parameter,
    Part,
    QueryDecl,
    RandomVariable,
    StepProgram,
)
from nesymm.ir.types import Int, Real, Tensor, is_finite
from nesymm.language.families import FAMILIES

# What starts within these bounds can be kept there.
_WITHIN = {"positive": (math.ulp(0.0), math.inf), "unit": (0.0, 1.0)}


def finish(
    draft: StepProgram, keep_slots: bool, equalities: Mapping[Expr, Span | None]
) -> StepProgram:
    """Keep what is asked for, put random variables in the order in which they can be drawn, and
    refuse what has no meaning. `equalities` say where an equality stands."""
    step = _keep_reachable(draft, keep_slots)
    _refuse_circular_guides(step)
    step = replace(step, variables=_in_order(_without_cycles(step.variables)))
    step = cut_off(_mark_deterministic(_constrained(step)))
    _refuse_equalities(step, equalities)
    _check_continuous_evidence(step)
    return step


# ---------------------------------------------------------------- what is needed


def _keep_reachable(step: StepProgram, keep_slots: bool) -> StepProgram:
    """Drop slots, variables and parameters that nothing asked for depends on."""
    slots = {s.name: s for s in step.slots}
    variables = {v.name: v for v in step.variables}
    used_slots: set[str] = set(slots) if keep_slots else set()
    used_variables: set[str] = set()
    used_parameters: set[str] = set()
    asked: list[Part] = [*step.observations, *step.queries, *step.flags]
    asked += [slots[s] for s in used_slots]
    roots = [e for part in asked for e in part.expressions()]
    seen: set[int] = set()
    while roots:
        fresh: list[Expr] = []
        for node in postorder(roots):
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.op == "slot" and node.data[0] not in used_slots:
                used_slots.add(node.data[0])
                fresh += slots[node.data[0]].expressions()
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


def _constrained(step: StepProgram) -> StepProgram:
    """A learnable number that is a parameter of a family is kept in that parameter's range, also
    where it comes by a name: `normal(0, S) :- S is t(0.2)`."""
    needed: dict[str, str] = {}
    for variable in step.variables:
        kinds = FAMILIES[variable.family].constraints if variable.family in FAMILIES else ()
        for param, kind in zip(variable.params, kinds, strict=False):
            if isinstance(param, Expr) and param.op == "param" and kind in _WITHIN:
                needed[param.data] = kind

    def kept(parameter: Parameter) -> Parameter:
        kind = needed.get(parameter.name)
        if parameter.constraint != "real" or kind is None:
            return parameter
        low, high = _WITHIN[kind]
        fits = parameter.initial is None or low <= parameter.initial <= high
        return replace(parameter, constraint=kind) if fits else parameter

    return replace(step, parameters=tuple(map(kept, step.parameters)))


def _parents(variables: tuple[RandomVariable, ...]) -> dict[str, list[str]]:
    names = {v.name for v in variables}
    return {
        v.name: [n.data for n in postorder(v.expressions()) if n.op == "rv" and n.data in names]
        for v in variables
    }


def _without_cycles(variables: tuple[RandomVariable, ...]) -> tuple[RandomVariable, ...]:
    """Choices of a recursion do not wait for what follows from them.

    Whether a choice matters may depend on the choices of the same recursion, its own elements
    among them. Each is made in any case, as in ProbLog, and read where it matters.
    """
    while True:
        try:
            TopologicalSorter(_parents(variables)).prepare()
        except CycleError as error:
            cycle = set(error.args[1])
            guarded = {v.name for v in variables if v.name in cycle and v.guard is not TRUE}
            if not guarded:
                named = ", ".join(sorted(cycle))
                fail("E305", f"random variables depend on each other in a circle: {named}", None)
            variables = tuple(replace(v, guard=TRUE) if v.name in guarded else v for v in variables)
        else:
            return variables


def _in_order(variables: tuple[RandomVariable, ...]) -> tuple[RandomVariable, ...]:
    """Parents first; otherwise in the order of the program."""
    by_name = {v.name: v for v in variables}
    parents = _parents(variables)
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
        nodes = list(postorder(slot.expressions()))
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


def _refuse_circular_guides(step: StepProgram) -> None:
    """A guide says what to draw its variable from before anything that depends on it is drawn."""
    parents = {v.name: {n.data for n in leaves(v.expressions(), "rv")} for v in step.variables}
    for variable in step.variables:
        for guide in variable.guides:
            seen: set[str] = set()
            pending = {n.data for n in leaves(guide.expressions(), "rv")}
            while pending:
                name = pending.pop()
                seen.add(name)
                pending |= parents.get(name, set()) - seen
            if variable.name in seen:
                fail(
                    "E312",
                    f"this guide of {variable.name} depends on what is drawn from {variable.name}",
                    guide.span,
                    "let it read what is known before: inputs, the previous state, and what is "
                    "observed, by an atom of the observed predicate in its body",
                )


def _refuse_equalities(step: StepProgram, equalities: Mapping[Expr, Span | None]) -> None:
    """A continuous value is never exactly equal to another: such a test is a mistake."""
    kinds = Kinds(step)
    for node in step.nodes():
        if node.op == "eq" and isinstance(node.args[0].type, Tensor):
            fail(
                "E311",
                "two tensors are tested for equality",
                equalities.get(node),
                "compare how far they are apart: `distance(P, Q, D), D < 0.1`",
            )
        if not kinds.is_equality_of_continuous(node):
            continue
        if any(n.op in ("max", "min") for n in made_of(node.args)):
            fail(
                "E311",
                "a continuous value that max or min cuts off is tested for equality",
                equalities.get(node),
                "compare what is cut off: `X =< 0` in place of `Y is max(X, 0), Y =:= 0`",
            )
        fail(
            "E311",
            "a continuous value is tested for equality, which it never meets",
            equalities.get(node),
            "compare it with `<` or `>`, or observe it: `observe(x, 1.5).`",
        )


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
                below = [n for n in made_of((value,), Int | Real) if n.op == "rv"]
                if not isinstance(value.type, Int) and any(n.data in continuous for n in below):
                    fail(
                        "E311",
                        "the observed value is computed from a continuous variable, so "
                        "it has no density of its own here",
                        observation.span,
                        "observe the random variable itself, or draw the observed one with `~`",
                    )


def refuse_open_queries(step: StepProgram) -> None:
    """A query cannot list the values of a variable that has infinitely many."""
    infinite = {v.name for v in step.variables if not v.finite}
    observed = {
        v.data for o in step.observations for b in o.branches for v in b.values if v.op == "rv"
    }
    for query in step.queries:
        for value in query.values:
            if is_finite(value.type):
                continue
            drawn = {n.data for n in postorder((value,)) if n.op == "rv"} & infinite
            real = step.temporal and not isinstance(value.type, Int)
            # Without time, what is observed has one value.
            if real or drawn - (frozenset() if step.temporal else observed):
                fail_open(query)


def fail_open(query: QueryDecl) -> NoReturn:
    fail(
        "E317",
        f"the query {query.name} asks for a value that is not one of finitely many",
        query.span,
        "ask for a comparison instead, for example `hot :- temperature > 20.`",
    )
