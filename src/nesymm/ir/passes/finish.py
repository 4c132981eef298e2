"""The last stage of grounding: tidy what the rounds found into a `StepProgram`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

from nesymm.errors import Span, fail
from nesymm.ir.expr import TRUE, Expr, drawn, postorder
from nesymm.ir.passes.cut_off import Kinds, cut_off, made_of
from nesymm.ir.reachability import reachable, strong_components
from nesymm.ir.step import Parameter, Part, QueryDecl, RandomVariable, StepProgram
from nesymm.ir.types import Int, Real, Tensor, is_finite, join_all
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
    _refuse_mixed_evidence(step)
    return step


# ---------------------------------------------------------------- what is needed


def _keep_reachable(step: StepProgram, keep_slots: bool) -> StepProgram:
    """Drop slots, variables and parameters that nothing asked for depends on."""
    parts: dict[tuple[str, str], Part] = {("slot", s.name): s for s in step.slots}
    parts |= {("rv", v.name): v for v in step.variables}

    def read(part: Part | None) -> list[tuple[str, str]]:
        nodes = postorder(part.expressions() if part else ())
        names = ((n.op, n.data[0] if n.op == "slot" else n.data) for n in nodes)
        return [name for name in names if name[0] in ("slot", "rv", "param")]

    asked: list[Part] = [*step.observations, *step.queries, *step.flags]
    starts = [name for part in asked for name in read(part)]
    starts += [("slot", s.name) for s in step.slots] if keep_slots else []
    used = reachable(starts, lambda name: read(parts.get(name)))
    return replace(
        step,
        slots=tuple(s for s in step.slots if ("slot", s.name) in used),
        variables=tuple(v for v in step.variables if ("rv", v.name) in used),
        parameters=tuple(p for p in step.parameters if ("param", p.name) in used),
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
    return {v.name: [n for n in drawn(v.expressions()) if n in names] for v in variables}


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
    return tuple(by_name[name] for (name,) in strong_components(by_name, parents.__getitem__))


def _mark_deterministic(step: StepProgram) -> StepProgram:
    """Slots that depend on inputs and on other such slots only."""
    random = _carriers(
        {slot.name: list(postorder(slot.expressions())) for slot in step.slots},
        {v.name for v in step.variables},
    )
    return replace(
        step, slots=tuple(replace(s, deterministic=s.name not in random) for s in step.slots)
    )


def _carriers(made_of: Mapping[str, Iterable[Expr]], variables: set[str]) -> dict[str, None]:
    """The slots that some variables get into, from what each slot is made of."""
    direct: list[str] = []
    readers: dict[str, list[str]] = {}
    for slot, nodes in made_of.items():
        for node in nodes:
            if node.op == "slot":
                readers.setdefault(node.data[0], []).append(slot)
            elif node.op == "rv" and node.data in variables:
                direct.append(slot)
    return reachable(direct, lambda slot: readers.get(slot, ()))


# ---------------------------------------------------------------- refusals


def _refuse_circular_guides(step: StepProgram) -> None:
    """A guide says what to draw its variable from before anything that depends on it is drawn."""
    parents = {v.name: drawn(v.expressions()) for v in step.variables}
    for variable in step.variables:
        for guide in variable.guides:
            if variable.name in reachable(drawn(guide.expressions()), parents.__getitem__):
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


def _refuse_mixed_evidence(step: StepProgram) -> None:
    """What data may be of an observation must have one type."""
    for observation in step.observations:
        columns = zip(*(b.values for b in observation.branches), strict=True)
        read = observation.value is None
        if read and any(join_all(v.type for v in column) is None for column in columns):
            fail(
                "E308",
                f"data of {observation.name} may be names or numbers, and the two are not mixed",
                observation.span,
                "draw names only, or numbers only, or observe each value by a rule: "
                "`is_a :- x(a).  observe(is_a).`",
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
            open_ = drawn([value]).keys() & infinite
            # Without time, what is observed has one value.
            if open_ - (frozenset() if step.temporal else observed):
                fail_open(query)
            if step.temporal and not isinstance(value.type, Int):
                fail(
                    "E317",
                    f"the query {query.name} asks for a real number; over time, only whole numbers "
                    "and names are listed",
                    query.span,
                    "ask for each value, for example `query(x(1.5)@t).`, or for a comparison",
                )


def fail_open(query: QueryDecl) -> NoReturn:
    fail(
        "E317",
        f"the query {query.name} asks for a value that is not one of finitely many",
        query.span,
        "ask for a comparison instead, for example `hot :- temperature > 20.`",
    )
