"""The finite part of a step given the rest: its normaliser, draws and probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.compiler.expr import Axis
from nesymm.exact.named import Named, apply, union
from nesymm.filtering.densities import by_network
from nesymm.filtering.dims import BATCH, PARTICLE, TARGET, Choice, choices
from nesymm.filtering.disjunction import Tree
from nesymm.filtering.elimination import Eliminated, components, draw, eliminate
from nesymm.filtering.plan import Plan
from nesymm.filtering.questions import Question
from nesymm.filtering.state import LANES, Settings, nan_of, stop, subtract
from nesymm.filtering.world import Tables


class Problem:
    """The finite part of a step given the rest: priors, what ties them, and evidence."""

    def __init__(
        self,
        low: Tables,
        prior: list[Named],
        tied: list[Named],
        evidence: list[Named],
        plan: Plan,
        plain: bool = False,
        summed: frozenset[str] = frozenset(),
    ):
        self.low = low
        self.plain = plain
        self.prior = prior
        self.tied = tied
        self.evidence = evidence
        self.plan = plan
        # What is not drawn is summed out first, so that the rest is drawn without it.
        names = plan.beliefs | summed
        self.first = frozenset(d for f in prior for d in choices(f.dims) if d.name in names)
        self.factors = [*prior, *tied, *evidence]
        self.factors += definitions(low.factors, self.factors)
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
                jnp, inside, room=self.low.room, first=self.first, plain=self.plain
            )
            self._solved.append((matters, eliminated))
            if matters:
                total = apply(jnp, jnp.add, total, eliminated.total)
            elif self._by_network(inside):
                total = apply(jnp, jnp.add, total, nan_of(eliminated.total))
        for part in self.proposed():
            total = apply(jnp, subtract, total, part)
        return total

    def _by_network(self, factors: list[Named]) -> bool:
        names = {d.name for f in factors for d in choices(f.dims) if d.kind == "rv"}
        return any(by_network(self.plan.variables[name]) for name in names)

    def proposed(self) -> list[Named]:
        """The log-probability of what was drawn ahead, its finite parents summed out.

        It has no slope: it would be that of the score of what was drawn, and they cancel.
        """
        if not self.tied:
            return []
        factors = [*self.prior, *self.tied]
        factors += definitions(self.low.factors, factors)
        tied = {id(f) for f in self.tied}
        groups = [[factors[i] for i in group] for group in components(factors)]
        return [
            stop(eliminate(jnp, inside, room=self.low.room).total)
            for inside in groups
            if any(id(f) in tied for f in inside)
        ]

    def draw(self, key: Any, ancestors: Named | None, settings: Settings) -> dict[Choice, Named]:
        assert self._solved is not None
        out: dict[Choice, Named] = {}
        for number, (_, eliminated) in enumerate(self._solved):
            joined = [
                replace(e, table=stop(e.table)) if isinstance(e, Tree) else (e[0], stop(e[1]))
                for e in eliminated.joined
                if isinstance(e, Tree) or e[0] not in self.first
            ]
            out |= draw(
                jax,
                jax.random.fold_in(key, number),
                Eliminated(eliminated.total, [], joined, eliminated.plain),
                settings.shape,
                ancestors,
                LANES,
            )
        return out

    # ------------------------------------------------------------ queries

    def answer(self, question: Question) -> Named:
        """The probability of a query at this step, per particle."""
        condition = self.low.value(question.condition(self.plan.step.queries[question.number]))
        return self.probability(condition, question.axes)

    def probability(self, condition: Named, axes: tuple[Axis, ...]) -> Named:
        """P(condition | state, evidence), per particle."""
        real = self.low.real
        if not choices(condition.dims):
            return Named(condition.array.astype(real), condition.dims)
        group = self._about(condition)
        lanes = union([*(f.dims for f in group), condition.dims])
        tilt_dims = tuple(
            d
            for d in lanes
            if not isinstance(d, Choice) and (d in axes or d in (BATCH, PARTICLE, TARGET))
        )
        shape = tuple(
            next(f.array.shape[f.dims.index(d)] for f in (*group, condition) if d in f.dims)
            for d in tilt_dims
        )
        # The slope of the log-normaliser in a bonus for the condition is its probability.

        def normaliser(tilt: Any) -> Any:
            bonus = apply(
                jnp,
                lambda c, x: jnp.where(c, x, 0.0),
                condition,
                Named(tilt, tilt_dims),
            )
            total = eliminate(jnp, [*group, bonus], room=self.low.room).total.array
            return jnp.sum(jnp.where(jnp.isfinite(total), total, 0.0))

        return Named(jax.grad(normaliser)(jnp.zeros(shape, real)), tilt_dims)

    def possible(self, condition: Named) -> Named:
        """Whether P(condition | state, evidence) is positive, per particle; it has no slope."""
        if not choices(condition.dims):
            return condition
        only = apply(jnp, lambda c: jnp.where(c, 0.0, -jnp.inf).astype(self.low.real), condition)
        about = [only, *self._about(condition)]
        total = eliminate(jnp, about, room=self.low.room).total
        return Named(total.array > -jnp.inf, total.dims)

    def _about(self, condition: Named) -> list[Named]:
        """The factors that bear on a condition."""
        factors = [*self.prior, *self.tied, *self.evidence]
        factors += definitions(self.low.factors, [*factors, condition])
        return _connected(factors, set(choices(condition.dims)))


def definitions(named: list[Named], factors: list[Named]) -> list[Named]:
    """The definitions of the named conditions that factors mention, directly or not."""
    wanted = {d for f in factors for d in choices(f.dims) if d.kind == "aux"}
    out: list[Named] = []
    for number in range(len(named) - 1, -1, -1):
        # A condition is defined by conditions named before it.
        if any(d.name == number for d in wanted):
            out.append(named[number])
            wanted |= {d for d in choices(named[number].dims) if d.kind == "aux"}
    return out


def _connected(factors: list[Named], dims: set[Choice]) -> list[Named]:
    for group in components([*factors, Named(jnp.zeros([1] * len(dims)), tuple(dims))]):
        if len(factors) in group:
            return [factors[i] for i in group if i < len(factors)]
    return []
