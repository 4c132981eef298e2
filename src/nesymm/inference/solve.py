"""The finite part of a step given the rest: its normaliser, draws and probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any

import jax

from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import BATCH, PARTICLE, TARGET, Choice, choices
from nesymm.inference.elimination.disjunction import Tree
from nesymm.inference.elimination.factors import (
    Eliminated,
    add,
    components,
    draw,
    eliminate,
    logsumexp,
)
from nesymm.inference.elimination.summation import Target, point, sum_out
from nesymm.inference.named import Named, apply, expand, only, reduce, union
from nesymm.inference.plan import Plan, reads
from nesymm.inference.questions import Question
from nesymm.inference.state import LANES, Settings, nan_of, stop, subtract
from nesymm.inference.tables import Tables
from nesymm.inference.weights import by_network
from nesymm.ir.axes import at_place, places
from nesymm.ir.expr import Axis, Expr
from nesymm.ir.step import QueryDecl
from nesymm.ir.types import Enum, Int, Type

# Queries with at most so many elements are asked by one sum that has them side by side.
_ASKED_AT_ONCE = 16


@dataclass
class Problem:
    """The finite part of a step given the rest: priors, what ties them, and evidence."""

    low: Tables
    prior: list[Named]
    tied: list[Named]
    evidence: list[Named]
    plan: Plan
    plain: bool = False
    summed: frozenset[str] = frozenset()
    guided: Sequence[Named] = ()

    def __post_init__(self) -> None:
        # What was drawn ahead was drawn from these: priors that are tied, and guides.
        self.proposals = [*self.tied, *self.guided]
        # What is not drawn is summed out first, so that the rest is drawn without it.
        names = self.plan.beliefs | self.summed
        self.first = frozenset(d for f in self.prior for d in choices(f.dims) if d.name in names)
        self.factors = [*self.prior, *self.tied, *self.evidence]
        self.factors += definitions(self.low, self.factors)
        self._solved: list[tuple[bool, Eliminated]] | None = None

    def gain(self) -> Named:
        """log p(evidence | state), the finite part summed out."""
        total = Named(jnp.zeros((), self.low.real))
        weighed = {id(f) for f in (*self.tied, *self.evidence)}
        self._solved = []
        for group in components(self.factors):
            inside = [self.factors[i] for i in group]
            matters = any(id(f) in weighed for f in inside)
            eliminated = eliminate(
                inside, capacity=self.low.capacity, first=self.first, plain=self.plain
            )
            self._solved.append((matters, eliminated))
            if matters:
                total = apply(jnp.add, total, eliminated.total)
            elif self._by_network(inside):
                total = apply(jnp.add, total, nan_of(eliminated.total))
        for part in self.proposed():
            total = apply(subtract, total, part)
        return total

    def _by_network(self, factors: list[Named]) -> bool:
        names = {d.name for f in factors for d in choices(f.dims) if d.kind == "rv"}
        return any(by_network(self.plan.variables[name]) for name in names)

    def proposed(self) -> list[Named]:
        """The log-probability of what was drawn ahead, its finite parents summed out.

        It has no gradient: it would be that of the score of what was drawn, and they cancel.
        """
        if not self.proposals:
            return []
        factors = [*self.prior, *self.proposals]
        factors += definitions(self.low, factors)
        tied = {id(f) for f in self.proposals}
        groups = [[factors[i] for i in group] for group in components(factors)]
        return [
            stop(eliminate(inside, capacity=self.low.capacity).total)
            for inside in groups
            if any(id(f) in tied for f in inside)
        ]

    def draw(self, key: Any, ancestors: Named | None, settings: Settings) -> dict[Choice, Named]:
        assert self._solved is not None
        out: dict[Choice, Named] = {}
        for number, (_, eliminated) in enumerate(self._solved):
            # What was summed out before anything else is not needed to draw the rest. It may have
            # come later, where the rest is in a plate: then it is drawn along, and not kept.
            kept = dropwhile(
                lambda e: not isinstance(e, Tree) and e[0] in self.first, eliminated.joined
            )
            joined = [
                replace(e, table=stop(e.table)) if isinstance(e, Tree) else (e[0], stop(e[1]))
                for e in kept
            ]
            out |= draw(
                jax.random.fold_in(key, number),
                Eliminated(eliminated.total, [], joined, eliminated.plain),
                settings.shape,
                ancestors,
                LANES,
            )
        return {dim: value for dim, value in out.items() if dim not in self.first}

    # ------------------------------------------------------------ queries

    def answer(self, question: Question) -> Named:
        """The probability of a query at this step, per particle."""
        query = self.plan.step.queries[question.number]
        apart = query.axes and self.plan.split & reads(query.expressions())
        if self.plan.grounded or apart:
            return self._by_element(question, query)
        return self.probability(self.low.value(question.condition(query)), question.axes)

    def _by_element(self, question: Question, query: QueryDecl) -> Named:
        """The same, with a sum of its own for each element that is told apart."""
        low = self.low
        opened = [a for a in question.value_axes if a is not None]
        found = []
        for number, key in enumerate(places(query.axes)):
            holds = at_place(query.holds, query.axes, key)
            values = [
                (axis, at_place(value, query.axes, key))
                for value, axis in zip(query.values, question.value_axes, strict=True)
                if axis is not None
            ]
            label = (question.key, number)
            targets = [truth(low, holds, Choice("answer", label, (), 2))]
            for i, (axis, value) in enumerate(values):
                index = position_in(low, value, axis.type)
                targets.append(Target(Choice("answer", (*label, i), (), axis.size), index))
            joint = self.marginal(targets)
            found.append(Named(joint.array[1], (*opened, *joint.dims[len(targets) :])))
        dims = union(f.dims for f in found)
        dims = (*opened, *(d for d in dims if d not in opened))
        array = jnp.stack(jnp.broadcast_arrays(*(expand(f, dims) for f in found)))
        sizes = tuple(a.size for a in query.axes)
        return Named(array.reshape((*sizes, *array.shape[1:])), (*query.axes, *dims))

    def probability(self, condition: Named, axes: tuple[Axis, ...]) -> Named:
        """P(condition | state, evidence), per particle."""
        real = self.low.real
        if not choices(condition.dims):
            return Named(condition.array.astype(real), condition.dims)
        group = self._about(condition)
        sizes = [d.size for d in condition.dims if isinstance(d, Axis)]
        plated = any(d.plates for f in group for d in choices(f.dims))
        if not plated and math.prod(sizes) <= _ASKED_AT_ONCE:
            position = Named(condition.array.astype(jnp.int32), condition.dims)
            joint = self.marginal([Target(Choice("answer", "holds", (), 2), position)])
            return Named(joint.array[1], joint.dims[1:])
        # An element of a plate is asked about at its own index, also where all are alike.
        plates = [a for d in choices(condition.dims) for a in d.plates if a in axes]
        lanes = union([*(f.dims for f in group), condition.dims, plates])
        weight_dims = tuple(
            d
            for d in lanes
            if not isinstance(d, Choice) and (d in axes or d in (BATCH, PARTICLE, TARGET))
        )
        shape = tuple(
            d.size
            if isinstance(d, Axis)
            else next(f.array.shape[f.dims.index(d)] for f in (*group, condition) if d in f.dims)
            for d in weight_dims
        )
        # The gradient of the log-normaliser in a bonus for the condition is its probability.

        def normaliser(weight: Any) -> Any:
            bonus = only(condition, Named(weight, weight_dims))
            total = eliminate([*group, bonus], capacity=self.low.capacity).total.array
            return jnp.sum(jnp.where(jnp.isfinite(total), total, 0.0))

        return Named(jax.grad(normaliser)(jnp.zeros(shape, real)), weight_dims)

    def marginal(self, targets: list[Target]) -> Named:
        """The joint probability of some targets given the evidence; they are its first dims."""
        news = tuple(t.new for t in targets)
        about = {d for t in targets for d in choices(t.index.dims)}
        factors = [*self.prior, *self.tied, *self.evidence]
        more, inner = defined(self.low, [*factors, *(t.index for t in targets)])
        scopes = [Named(None, (t.new, *choices(t.index.dims))) for t in inner]
        near = connected([*factors, *more, *scopes], about)
        bearing = [t for t, s in zip(inner, scopes, strict=True) if any(s is f for f in near)]
        near = [f for f in near if f.array is not None]
        _, rest = sum_out(near, targets, frozenset(), self.low.capacity, inner=bearing)
        joint = add(rest)
        norm = reduce(logsumexp, joint, news)
        share = apply(lambda x, n: jnp.exp(subtract(x, n)), joint, norm)
        dims = (*news, *(d for d in share.dims if d not in news))
        return Named(expand(share, dims), dims)

    def possible(self, condition: Named) -> Named:
        """Whether P(condition | state, evidence) is positive, per particle; it has no gradient."""
        if not choices(condition.dims):
            return condition
        only = apply(lambda c: jnp.where(c, 0.0, -jnp.inf).astype(self.low.real), condition)
        about = [only, *self._about(condition)]
        total = eliminate(about, capacity=self.low.capacity).total
        return Named(total.array > -jnp.inf, total.dims)

    def _about(self, condition: Named) -> list[Named]:
        """The factors that bear on a condition."""
        factors = [*self.prior, *self.tied, *self.evidence]
        factors += definitions(self.low, [*factors, condition])
        return connected(factors, set(choices(condition.dims)))


def truth(low: Tables, condition: Expr, new: Choice) -> Target:
    holds = low.value(condition)
    return Target(new, Named(holds.array.astype(jnp.int32), holds.dims))


def position_in(low: Tables, expr: Expr, type_: Type) -> Named:
    """The position of a value in a finite type."""
    value = low.recode(low.value(expr), expr.type, type_)
    index = low.index(value, type_ if isinstance(type_, Int | Enum) else Int(0, 1))
    return Named(index.array.astype(jnp.int32), index.dims)


def definitions(low: Tables, factors: Iterable[Named]) -> list[Named]:
    """The definitions of the named conditions that factors mention, directly or not."""
    parts, targets = defined(low, factors)
    return [*parts, *map(point, targets)]


def defined(low: Tables, factors: Iterable[Named]) -> tuple[list[Named], list[Target]]:
    """The same, with those apart that are positions."""
    wanted = {d.name: d for f in factors for d in choices(f.dims) if d.kind == "aux"}
    out: list[Named] = []
    targets: list[Target] = []
    for number in range(len(low.factors) - 1, -1, -1):
        # A condition is defined by conditions named before it.
        if number not in wanted:
            continue
        parts = low.factors[number]
        out += parts
        if number in low.positions:
            index = low.positions[number]
            targets.append(Target(wanted[number], index))
            parts = (index,)
        wanted |= {d.name: d for f in parts for d in choices(f.dims) if d.kind == "aux"}
    return out, targets


def connected(factors: list[Named], dims: set[Choice]) -> list[Named]:
    """The factors that bear on some choices, directly or not."""
    for group in components([*factors, Named(None, tuple(dims))]):
        if len(factors) in group:
            return [factors[i] for i in group if i < len(factors)]
    return []
