"""Clusters: finite variables of a step that must be solved together.

Unobserved finite variables that share a factor belong together: an observation's
condition, a density, a parameter or guard of another variable. Along an axis, a factor
either treats each element by itself (`E` stays free) or ties them together (some `E` …).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nesymm.compiler.expr import Expr, postorder
from nesymm.compiler.step import Cluster, StepProgram
from nesymm.language.program import During, Now


def factors(step: StepProgram) -> Iterator[tuple[str, list[Expr], set[str]]]:
    """Name, expressions and further variables of every factor of a step."""
    for observation in step.observations:
        observed = observed_variables(step)
        exprs = [e for e in observation.expressions() if not (e.op == "rv" and e.data in observed)]
        yield f"observe {observation.name}", exprs, set()
    for variable in step.variables:
        yield variable.name, list(variable.expressions()), {variable.name}


def observed_variables(step: StepProgram) -> set[str]:
    """Variables whose value is given by an observation at every step.

    Where data is missing such a variable is free after all; inference looks at the data.
    """
    found: set[str] = set()
    for observation in step.observations:
        always = observation.when in (None, Now(0), During(0, None))
        if always and len(observation.branches) == 1:
            found |= {v.data for v in observation.branches[0].values if v.op == "rv"}
    return found


def find_clusters(step: StepProgram) -> tuple[Cluster, ...]:
    finite = {v.name: v for v in step.variables if v.finite}
    observed = observed_variables(step)
    members = [n for n in finite if n not in observed]
    parent = {n: n for n in members}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    coupled: dict[str, set[str]] = {n: set() for n in members}
    named: dict[str, list[str]] = {n: [] for n in members}
    for factor, exprs, own in factors(step):
        references = list(_references(exprs))
        inside = [n for n in dict.fromkeys([*own, *(r.data for r in references)]) if n in parent]
        for other in inside[1:]:
            parent[find(other)] = find(inside[0])
        for reference in references:
            if reference.data not in parent:
                continue
            for axis, key in zip(finite[reference.data].axes, reference.args, strict=True):
                if key.op != "axis" or key.data.name.startswith("∃"):
                    coupled[reference.data].add(axis.name)
        for name in inside:
            if factor not in named[name] and factor != name:
                named[name].append(factor)
    groups: dict[str, list[str]] = {}
    for name in members:
        groups.setdefault(find(name), []).append(name)
    return tuple(
        Cluster(
            tuple(group),
            tuple(sorted({a for n in group for a in coupled[n]})),
            tuple(dict.fromkeys(f for n in group for f in named[n])),
        )
        for group in groups.values()
    )


def _references(exprs: Iterable[Expr]) -> Iterator[Expr]:
    return (node for node in postorder(exprs) if node.op == "rv")
