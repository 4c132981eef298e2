"""Many independent causes of one effect, as one variable: noisy-or.

`0.1::smokes(P)@t :- friend(P, Q), smokes(Q)@(t-1).` draws once for each pair of people. Where all
that is read of these draws is whether any of them comes up for P, that itself is a truth with a
known probability,

    1 - Π_Q (1 - p(P, Q)), over those Q for which the body holds,

and a variable with an axis less. It is sound where, besides the draw, only inputs, parameters and
the state before the step decide what counts: given these, the draws are independent. Variables with
a single axis stay as they are, since their elements can be enumerated side by side (see `plates`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nesymm.ir.algebra import and_, axis_value, const, is_const, lt, not_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import any_, case, rebuild, reduce_, substitute
from nesymm.ir.expr import TRUE, Axis, Expr, drawn, make, postorder
from nesymm.ir.step import Causes, RandomVariable, StepProgram
from nesymm.ir.types import Int, Real

# A state of more causes, each of as many effects, is too large for tables, merged or not.
_MANY = 10


@dataclass(frozen=True)
class _Reader:
    """An `any` along the axis at `position` of the arguments of a draw, and what else it asks."""

    node: Expr
    draw: Expr
    position: int
    condition: Expr

    @property
    def bound(self) -> Axis:
        axis: Axis = self.node.data
        return axis


def merge_causes(step: StepProgram, large: bool = False) -> StepProgram:
    """The program with a variable for each effect in the place of one for each cause.

    Where the state is enumerated, an effect then depends on all causes at once. With `large`, it is
    done only where no table could hold the state in any case: many effects that may each depend on
    all of many causes, since an input says who meets whom.
    """
    merged = True
    while merged:
        merged = False
        for variable in filter(_is_simple, step.variables):
            new = _merged(step, variable, large)
            if new is not None:
                step, merged = new, True
                break
    return step


def _is_simple(variable: RandomVariable) -> bool:
    """Whether it is a truth that is drawn for each of several pairs, by what is known before."""
    return (
        variable.family == "bernoulli"
        and len(variable.axes) > 1
        and variable.support == (False, True)
        and not (variable.static or variable.neural or variable.guides)
        and not drawn(variable.expressions())
        and not any(n.op == "lfp" for n in postorder(variable.expressions()))
        and isinstance(variable.params[0], Expr)
        and isinstance(variable.params[0].type, Int | Real)
        and not (is_const(variable.params[0]) and variable.params[0].data >= 1)
    )


def _merged(step: StepProgram, variable: RandomVariable, large: bool) -> StepProgram | None:
    """The program without the draws of a variable one by one, if nothing needs them."""
    readers = _readers(step, variable)
    if not readers or (large and not _is_large(variable, readers[0])):
        return None
    whole = next((r for r in readers if _is_general(r, variable)), None)
    if whole is None or any(r.position != whole.position for r in readers):
        return None
    # All of them must ask the same, each at keys of its own.
    general = {
        a.data: axis_value(axis)
        for i, (a, axis) in enumerate(zip(whole.draw.args, variable.axes, strict=True))
        if i != whole.position
    }
    asked = substitute(whole.node, general)
    position = whole.position
    for reader in readers:
        at = {
            axis: arg
            for i, (arg, axis) in enumerate(zip(reader.draw.args, variable.axes, strict=True))
            if i != position
        }
        if substitute(asked, at) is not reader.node:
            return None
    axes = tuple(a for i, a in enumerate(variable.axes) if i != position)
    new = _one(variable, whole, general, axes)
    nodes = {id(r.node): r for r in readers}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        reader = nodes.get(id(node))
        if reader is None:
            return rebuild(node, args)
        keys = tuple(a for i, a in enumerate(reader.draw.args) if i != position)
        return make("rv", keys, new.name, reader.draw.type)

    changed = step.rewrite(rule)
    variables = tuple(new if v.name == variable.name else v for v in changed.variables)
    return replace(changed, variables=variables)


def _is_large(variable: RandomVariable, reader: _Reader) -> bool:
    """Whether a table over all causes and effects is needed, and too large."""
    causes = variable.axes[reader.position].size
    effects = math.prod(a.size for a in variable.axes) // causes
    sparse = any(n.op == "lookup" for n in postorder([variable.guard, reader.condition]))
    return min(causes, effects) > _MANY and not sparse


def _is_general(reader: _Reader, variable: RandomVariable) -> bool:
    """Whether it stands for all keys: an axis for each, and no other."""
    others = [a for i, a in enumerate(reader.draw.args) if i != reader.position]
    if not all(a.op == "axis" for a in others) or len({a.data for a in others}) < len(others):
        return False
    types = [a.type for i, a in enumerate(variable.axes) if i != reader.position]
    if [a.data.type for a in others] != types:
        return False
    same = reader.bound.type == variable.axes[reader.position].type
    return same and reader.node.axes <= {a.data for a in others}


def _one(
    variable: RandomVariable, reader: _Reader, general: dict[Axis, Expr], axes: tuple[Axis, ...]
) -> RandomVariable:
    """Whether any of the draws along an axis comes up where it counts, as a variable."""
    (chance,) = variable.params
    assert isinstance(chance, Expr)
    # Reductions bind an axis of their own, so that none in the guard captures it.
    along = Axis("cause", reader.bound.type)
    own = axis_value(along)
    here = {variable.axes[reader.position]: own}
    chance, guard = substitute(chance, here), substitute(variable.guard, here)
    counts = and_(guard, substitute(reader.condition, {**general, reader.bound: own}))
    # A cause that is certain has no logarithm of failing.
    certain = not_(lt(chance, const(1.0)))
    fails = case([(certain, const(1.0)), (TRUE, arithmetic("sub", const(1.0), chance))])
    total = reduce_("sum", along, counts, arithmetic("log", fails))
    # 1 - exp(s) = 2 u / (1 + u) with u = tanh(-s / 2), which keeps the digits of small numbers.
    u = arithmetic("tanh", arithmetic("mul", const(-0.5), total))
    some = arithmetic("div", arithmetic("mul", const(2.0), u), arithmetic("add", const(1.0), u))
    sure = any_(along, and_(counts, certain))
    merged = case([(sure, const(1.0)), (TRUE, some)])
    name = f"{variable.name}:any"
    causes = _causes(variable, reader, general)
    return replace(variable, name=name, guard=TRUE, params=(merged,), axes=axes, causes=causes)


def _causes(variable: RandomVariable, reader: _Reader, general: dict[Axis, Expr]) -> Causes:
    own = axis_value(variable.axes[reader.position])
    asked = substitute(reader.condition, {**general, reader.bound: own})
    return Causes(variable, reader.position, and_(variable.guard, asked))


# ---------------------------------------------------------------- who reads a variable


def _readers(step: StepProgram, variable: RandomVariable) -> list[_Reader]:
    """The places that ask whether any element of a variable comes up, if there are no others."""
    parents: dict[int, list[Expr]] = {}
    nodes = step.nodes()
    for node in nodes:
        for arg in node.args:
            parents.setdefault(id(arg), []).append(node)
    roots = {id(e) for e in step.roots()}
    found: list[_Reader] = []
    for draw in nodes:
        if draw.op != "rv" or draw.data != variable.name:
            continue
        ways = list(_ways(draw, parents, roots))
        if None in ways:
            return []
        found += [w for w in ways if w is not None]
    return found


def _ways(draw: Expr, parents: dict[int, list[Expr]], roots: set[int]) -> Iterator[_Reader | None]:
    """How a draw is read: by an `any` along one of its arguments, or in another way (None)."""
    if id(draw) in roots:
        yield None
    for parent in parents.get(id(draw), ()):
        if parent.op == "any":
            yield _reader(parent, draw, TRUE)
            continue
        others = [a for a in parent.args if a is not draw]
        if parent.op != "and" or id(parent) in roots or drawn(others):
            yield None
            continue
        for above in parents.get(id(parent), ()):
            yield _reader(above, draw, and_(*others)) if above.op == "any" else None


def _reader(node: Expr, draw: Expr, condition: Expr) -> _Reader | None:
    at = [i for i, a in enumerate(draw.args) if node.data in a.axes]
    plain = len(at) == 1 and draw.args[at[0]].op == "axis"
    recursive = any(n.op == "lfp" for n in postorder([condition]))
    return _Reader(node, draw, at[0], condition) if plain and not recursive else None
