"""`StepProgram`: one transition of a model, as data.

Everything that inference needs and nothing else: inputs, the slots of the state with
their next values, random variables in the order in which they can be drawn,
observations, queries. It is immutable, prints as readable text (`show`) and runs, slowly
and obviously, in `interpret`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nesymm.compiler.expr import Axis, Expr, postorder
from nesymm.compiler.runtime import as_expr, as_tensor, settle, show
from nesymm.compiler.types import Int, Tensor, Type
from nesymm.errors import Span
from nesymm.language.program import Time

# The name of a predicate, before its arguments and its time.
_NAME = re.compile(r"'(?:[^'\\]|\\.)*'|[^(@]+")


def _span() -> Any:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InputDecl:
    """Data that must be given: `fields` are the types of its columns."""

    name: str
    timed: bool
    fields: tuple[Type, ...]
    tensor: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A learnable number, or one per value of its axes.

    `constraint`: unit (a probability), simplex (one of several that sum to at most 1),
    positive or real.
    """

    name: str
    initial: float | None
    constraint: str
    axes: tuple[Axis, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of the state: whether it is present, and its values, per value of its axes.

    `present` and `values` are the *next* state. A slot is deterministic if it depends
    only on inputs and on other such slots.
    """

    name: str
    axes: tuple[Axis, ...]
    fields: tuple[Type, ...]
    present: Expr
    values: tuple[Expr, ...]
    deterministic: bool
    static_key: tuple = ()


Param = Expr | tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RandomVariable:
    """One family of independent draws, one per value of its axes.

    It is drawn where `guard` holds. A static variable is drawn once, at step 0. `support`
    lists the values of a finite variable. Where `neural`, the only parameter is a network
    whose outputs are mapped to the parameters of the family.
    """

    name: str
    family: str
    params: tuple[Param, ...]
    axes: tuple[Axis, ...]
    guard: Expr
    type: Type
    support: tuple | None
    static: bool
    neural: bool
    label: str
    guide: tuple[str, tuple[Param, ...], bool] | None = None

    @property
    def finite(self) -> bool:
        return self.support is not None

    @property
    def outcomes(self) -> tuple:
        """The values that a reference to a finite variable takes, in order of its weights.

        Where the listed values have no common type, they are their positions in the list.
        """
        assert self.support is not None
        positions = self.type == Int(0, len(self.support) - 1) and not all(
            isinstance(v, int) for v in self.support
        )
        return tuple(range(len(self.support))) if positions else self.support

    def expressions(self) -> Iterator[Expr]:
        yield self.guard
        for param in self.params:
            yield from param if isinstance(param, tuple) else (param,)
        if self.guide is not None:
            for param in self.guide[1]:
                yield from param if isinstance(param, tuple) else (param,)


@dataclass(frozen=True, slots=True)
class Branch:
    """One way a value comes about: where `condition` holds it is `values`."""

    condition: Expr
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ObservationDecl:
    """Evidence. Either a truth (`holds`, compared with a truth value) or a value
    (`branches`). `value` is None where it is read from the data array `name`."""

    name: str
    when: Time | None
    axes: tuple[Axis, ...]
    holds: Expr
    branches: tuple[Branch, ...]
    value: Any
    span: Span | None = _span()

    @property
    def is_value(self) -> bool:
        return bool(self.branches)

    def said(self, i: int) -> Expr:
        """The constant that is observed in column i; of a vector, a list is said."""
        value = self.value[i]
        vector = isinstance(self.branches[0].values[i].type, Tensor)
        return as_expr(as_tensor(value) if vector else value)

    def expressions(self) -> Iterator[Expr]:
        yield self.holds
        for branch in self.branches:
            yield branch.condition
            yield from branch.values


@dataclass(frozen=True, slots=True)
class QueryDecl:
    """A question. `values` are what the query leaves open, in the order of `template`."""

    name: str
    when: Time | None
    axes: tuple[Axis, ...]
    holds: Expr
    values: tuple[Expr, ...]
    template: Any
    span: Span | None = _span()

    def answer(self, terms: tuple) -> str:
        """The name of an answer, its values filled in."""
        name = _NAME.match(self.name)
        assert name is not None
        shown = ",".join(show(settle(t) if self.when is None else t) for t in terms)
        return f"{name[0]}({shown})" if terms else name[0]

    def expressions(self) -> Iterator[Expr]:
        yield self.holds
        yield from self.values


@dataclass(frozen=True, slots=True)
class Flag:
    """A condition that must never hold at run time, and what it means if it does."""

    message: str
    condition: Expr
    span: Span | None = _span()

    def __str__(self) -> str:
        if self.span is None:
            return self.message
        return f"{self.message} ({self.span.source.name}:{self.span.line}:{self.span.column})"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Finite variables that must be solved together.

    Where a cluster is `coupled` along an axis, its members at different values of that
    axis belong together too; otherwise there is one such cluster per value.
    """

    variables: tuple[str, ...]
    coupled: tuple[str, ...]
    factors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepProgram:
    inputs: tuple[InputDecl, ...]
    parameters: tuple[Parameter, ...]
    networks: tuple[tuple[str, tuple[int, ...] | None], ...]
    slots: tuple[Slot, ...]
    variables: tuple[RandomVariable, ...]
    observations: tuple[ObservationDecl, ...]
    queries: tuple[QueryDecl, ...]
    flags: tuple[Flag, ...]
    temporal: bool
    clusters: tuple[Cluster, ...] = ()

    def roots(self) -> Iterator[Expr]:
        for variable in self.variables:
            yield from variable.expressions()
        for observation in self.observations:
            yield from observation.expressions()
        for query in self.queries:
            yield from query.expressions()
        for slot in self.slots:
            yield slot.present
            yield from slot.values
        for flag in self.flags:
            yield flag.condition

    def nodes(self) -> list[Expr]:
        """Every expression of the program, arguments first."""
        return list(postorder(self.roots()))

    def variable(self, name: str) -> RandomVariable:
        return next(v for v in self.variables if v.name == name)

    def slot(self, name: str) -> Slot:
        return next(s for s in self.slots if s.name == name)

    def __str__(self) -> str:
        from nesymm.compiler.show import show

        return show(self)
