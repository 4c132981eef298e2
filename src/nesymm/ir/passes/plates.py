"""Which plates stay lifted: one array for all their elements.

**The rule.** A plated variable v with axes A stays lifted iff every expression of the phase
that is summed over (priors, guards, observations, queries) reads it as v[A], at its own index:

1. A is free there (the axes of the variable, observation or query that owns the expression), or
2. its one axis is bound by an `any` that reads every plated variable inside at that same index,
   and inside which no other axis occurs free.

Anything else *tells its elements apart*: a constant key (`v(1)`), a second index (`v(F), F < E`),
a key that is a value, and a reduction without a rule of its own (sum, min, max, pick). The
variables that share an expression with one whose elements are told apart follow it.

**Why it is sound.** In case 1 the factor is one table per element of the plate, over choices of
that element and of things outside the plate. The joint weight is the product over elements, and
Σ_{v_1…v_n} Π_i f_i(v_i, x) = Π_i Σ_{v_i} f_i(v_i, x): summing the choices of the plate first, side
by side, and multiplying along the axis afterwards is exact. In case 2 the truth of the `any` is a
variable outside the plate, whose table is the product of the elements' tables under "or"
(`disjunction`), again exact because given what is outside, elements are independent. A reference
at another index would tie two elements in one factor, for which neither identity holds. A plate
of size 1 is no plate (`phases`), and one of size 0 has no factors: the empty product.

`Tables` relies on it when it evaluates. A condition that it gives a name has one choice for each
place of its free axes, lifted like the choices of a plate: where a reduction but `any` runs along
such an axis, it is written out place by place, and so are the names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from nesymm.ir.algebra import and_, axis_value, const, is_const, or_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import case, rebuild, substitute
from nesymm.ir.expr import TRUE, Axis, Expr, make, postorder, rewrite
from nesymm.ir.reachability import reachable
from nesymm.ir.step import RandomVariable, StepProgram, rewriting
from nesymm.ir.types import domain

Variables = Mapping[str, RandomVariable]
# A variable ("rv") or a slot, by its name.
Thing = tuple[str, str]


def lift(
    step: StepProgram, variables: Variables, names: frozenset[str]
) -> tuple[StepProgram, dict[str, RandomVariable], frozenset[str]]:
    """Prepare the variables in `names` for enumeration: those that cannot stay lifted, and the
    program with reductions over these written out."""
    step, variables = _mapped(step, variables, lambda e: _along_plates(e, variables, names))
    apart = _told_apart(step, variables, names)
    step, variables = _mapped(step, variables, unrolling({("rv", n) for n in apart}))
    return step, variables, apart


def _along_plates(expr: Expr, variables: Variables, names: frozenset[str]) -> Expr:
    """Let an `any` run along the axis of the variables that it is about: case 2 of the rule."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "any":
            return rebuild(node, args)
        (operand,), axis = args, node.data
        inner = list(postorder([operand]))
        read = [n for n in inner if n.op == "rv" and n.data in names and variables[n.data].axes]
        own = {variables[n.data].axes for n in read}
        aligned = all(len(n.args) == 1 and n.args[0] is axis_value(axis) for n in read)
        # At another free index the same elements would be read once more.
        if len(own) != 1 or not aligned or operand.axes != {axis}:
            return rebuild(node, args)
        (plate,) = next(iter(own))
        taken = any(plate == n.data or plate in n.axes for n in inner)
        if plate != axis and (taken or plate.type != axis.type):
            return rebuild(node, args)
        return make("any", (substitute(operand, {axis: axis_value(plate)}),), plate, node.type)

    return rewrite(expr, rule)


def _told_apart(step: StepProgram, variables: Variables, names: frozenset[str]) -> frozenset[str]:
    """Variables that some expression reads at another index than their own."""
    apart: set[str] = set()
    together: list[set[str]] = []
    owners = [
        *(({v.name} & names, list(v.expressions())) for v in variables.values()),
        *((set(), list(o.expressions())) for o in step.observations),
        *((set(), list(q.expressions())) for q in step.queries),
    ]
    for own, exprs in owners:
        group = {n for n in own if variables[n].axes}
        for node in postorder(exprs):
            if node.op == "rv" and node.data in names and node.args:
                group.add(node.data)
                keys = tuple(a.data if a.op == "axis" else None for a in node.args)
                if keys != variables[node.data].axes:
                    apart.add(node.data)
        together.append(group)
    return frozenset(
        reachable(apart, lambda name: (n for group in together if name in group for n in group))
    )


# ---------------------------------------------------------------- reductions written out


def unrolling(apart: Collection[Thing], all_of_them: bool = False) -> Callable[[Expr], Expr]:
    """A function that writes reductions out whose elements belong to variables or slots in `apart`.

    A reduction that reads them at keys of their own may stay, if it is an `any`: its conditions
    along the axis depend on the same things, and given those each stands for itself. With
    `all_of_them` none stays.
    """
    if not apart:
        return lambda expr: expr

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if not isinstance(node.data, Axis) or node.op == "axis":
            return rebuild(node, args)
        along = node.data if node.op == "any" and not all_of_them else None
        if not any(mentions(a, apart, along) for a in args):
            return rebuild(node, args)
        return written_out(node.op, node.data, args)

    return rewriting(rule)


def written_out(op: str, axis: Axis, args: tuple[Expr, ...]) -> Expr:
    """A reduction without its axis, place by place."""
    places = [const(v) for v in domain(axis.type)]
    return joined(op, [tuple(substitute(a, {axis: p}) for a in args) for p in places])


def mentions(expr: Expr, things: Collection[Thing], axis: Axis | None = None) -> bool:
    """Whether an expression reads one of some variables and slots (at keys that vary along an
    axis)."""
    for node in postorder([expr]):
        if node.op in ("rv", "slot"):
            name = node.data if node.op == "rv" else node.data[0]
            if (node.op, name) in things and (
                axis is None or any(axis in a.axes for a in node.args)
            ):
                return True
    return False


Parts = list[tuple[Expr, ...]]


def _sum(parts: Parts) -> Expr:
    total = const(0)
    for condition, value in parts:
        total = arithmetic("add", total, case([(condition, value), (TRUE, const(0))]))
    return total


def _pick(parts: Parts) -> Expr:
    return case([*((c, v) for c, v in parts[:-1]), (TRUE, parts[-1][1])])


def _extreme(op: str) -> Callable[[Parts], Expr]:
    """min or max; like all reductions without meaning where no condition holds."""

    def write(parts: Parts) -> Expr:
        if all(is_const(value) for _, value in parts):
            # Of known values the first in order that is there.
            return _pick(sorted(parts, key=lambda p: p[1].data, reverse=op == "max"))
        condition, value = parts[0]
        for other, candidate in parts[1:]:
            best = arithmetic(op, value, candidate)
            value = case([(and_(condition, other), best), (condition, value), (TRUE, candidate)])
            condition = or_(condition, other)
        return value

    return write


_REDUCTIONS: dict[str, Callable[[Parts], Expr]] = {
    "any": lambda parts: or_(*(condition for (condition,) in parts)),
    "sum": _sum,
    "pick": _pick,
    "min": _extreme("min"),
    "max": _extreme("max"),
}


def joined(op: str, parts: Parts) -> Expr:
    """A reduction, from what stands at each place."""
    return _REDUCTIONS[op](parts)


# ---------------------------------------------------------------- changing what is weighed


def _mapped(
    step: StepProgram, variables: Variables, change: Callable[[Expr], Expr]
) -> tuple[StepProgram, dict[str, RandomVariable]]:
    """Change what a step weighs and answers, and how its variables are drawn."""
    step = replace(
        step,
        observations=tuple(o.map(change) for o in step.observations),
        queries=tuple(q.map(change) for q in step.queries),
    )
    return step, {n: v.map(change) for n, v in variables.items()}
