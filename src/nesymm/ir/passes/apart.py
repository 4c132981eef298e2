"""Continuous variables with keys, as one variable for each element.

Without time, a key that is drawn itself (`at(K), size(K, X)`) reads from an array of variables.
Here each element is a variable of its own, and what reads it by a key that is not known is a case
for each element. So elements are independent, and each can be observed, or have a closed form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nesymm.ir.algebra import and_, const, eq, is_const
from nesymm.ir.axes import at_place, case, places, rebuild
from nesymm.ir.expr import FALSE, TRUE, Expr, make
from nesymm.ir.passes.plates import unrolling
from nesymm.ir.step import Branch, RandomVariable, StepProgram
from nesymm.ir.terms import show

Arrays = Mapping[str, RandomVariable]


def elements_apart(step: StepProgram) -> StepProgram:
    """The same program, whose continuous variables have no axes."""
    arrays = {v.name: v for v in step.variables if v.axes and not v.finite}
    if not arrays:
        return step
    step = step.map(unrolling({("rv", name) for name in arrays}, all_of_them=True))
    observations = tuple(
        replace(o, branches=tuple(b for old in o.branches for b in _by_element(old, arrays)))
        for o in step.observations
    )
    step = replace(step, observations=observations)
    variables = tuple(e for v in step.variables for e in _elements(v, arrays))

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "rv" or node.data not in arrays:
            return rebuild(node, args)
        ways = _ways(args, arrays[node.data])
        return case([(same, _element(node, key)) for same, key in ways])

    return replace(step, variables=variables).rewrite(rule)


def _elements(variable: RandomVariable, arrays: Arrays) -> Iterator[RandomVariable]:
    if variable.name not in arrays:
        yield variable
        return
    axes = variable.axes
    for key in places(axes):
        there = variable.map(lambda e, k=key: at_place(e, axes, k))  # type: ignore[misc]
        yield replace(there, name=_name(variable.name, key), axes=())


def _by_element(branch: Branch, arrays: Arrays) -> Iterator[Branch]:
    """A branch for each element that the values of one may name."""
    for i, value in enumerate(branch.values):
        if value.op == "rv" and value.data in arrays and not all(map(is_const, value.args)):
            for same, key in _ways(value.args, arrays[value.data]):
                there = make("rv", tuple(map(const, key)), value.data, value.type)
                values = (*branch.values[:i], there, *branch.values[i + 1 :])
                yield from _by_element(Branch(and_(branch.condition, same), values), arrays)
            return
    yield branch


def _ways(keys: tuple[Expr, ...], variable: RandomVariable) -> list[tuple[Expr, tuple]]:
    """The elements that a reference may mean, each with the condition that it does."""
    found = []
    for place in places(variable.axes):
        same = and_(*(eq(k, const(p)) for k, p in zip(keys, place, strict=True)))
        if same is not FALSE:
            found.append((same, place))
    # As everywhere, a key that is out of range picks the first element: nobody reads it.
    return found or [(TRUE, next(places(variable.axes)))]


def _element(node: Expr, key: tuple) -> Expr:
    return make("rv", (), _name(node.data, key), node.type)


def _name(name: str, key: tuple) -> str:
    return f"{name}({', '.join(map(show, key))})"
