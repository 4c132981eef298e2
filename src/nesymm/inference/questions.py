"""The queries of a program as conditions with axes.

A query that leaves values open has one more axis per such value; along it run all the
values that it can take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from nesymm.errors import NesymmError, located
from nesymm.ir.algebra import and_, axis_value, eq
from nesymm.ir.expr import Axis, Expr
from nesymm.ir.passes.bounds import retyped
from nesymm.ir.passes.finish import fail_open
from nesymm.ir.passes.phases import Phases
from nesymm.ir.step import QueryDecl
from nesymm.ir.symbols import map_symbols
from nesymm.ir.terms import atom_text
from nesymm.ir.types import Bool, Enum, Int, Type, domain, is_finite, join, size
from nesymm.language.program import During, Now

# The most values of a query that are listed, each with its probability at each step.
_LISTED = 100_000


class Grounding(NamedTuple):
    """An atom that a query asks for: its position along the axes of the question, its name, its
    predicate and its arguments."""

    position: tuple[int, ...]
    name: str
    predicate: str
    terms: tuple


@dataclass(frozen=True)
class Question:
    """One query: its number in the program, and an axis per value that it leaves open
    (None where the value is an axis of the query)."""

    number: int
    query: QueryDecl
    value_axes: tuple[Axis | None, ...]

    @property
    def key(self) -> str:
        return f"{self.number} {self.query.name}"

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.query.axes, *(a for a in self.value_axes if a is not None))

    @property
    def at_every_step(self) -> bool:
        return isinstance(self.query.when, Now | During)

    def condition(self, query: QueryDecl) -> Expr:
        """What is asked, in terms of one phase of the program."""
        parts = [query.holds]
        for value, axis in zip(query.values, self.value_axes, strict=True):
            if axis is not None:
                parts.append(eq(value, axis_value(axis)))
        return and_(*parts)

    def groundings(self) -> Iterator[Grounding]:
        """The atoms that are asked for."""
        query = self.query
        base = query.name.split("(")[0].split("@")[0]
        suffix = str(query.when) if query.when is not None else ""
        if not self.axes:
            yield Grounding((), query.name, base, query.template)
            return
        domains = [domain(a.type) for a in self.axes]
        for position in product(*(range(a.size) for a in self.axes)):
            place = {a: d[i] for a, d, i in zip(self.axes, domains, position, strict=True)}
            filled = iter(
                place[axis if axis is not None else value.data]
                for value, axis in zip(query.values, self.value_axes, strict=True)
            )
            terms = map_symbols(query.template, lambda _: next(filled))  # noqa: B023
            yield Grounding(position, atom_text(base, terms) + suffix, base, terms)


def questions(both: Phases, steps: int | None) -> tuple[Question, ...]:
    """The queries of a program. A number that is bounded by the horizon only needs `steps`."""
    later = retyped(both, steps) if steps is not None else {}
    out = []
    for number, (first, query) in enumerate(
        zip(both.first.queries, both.later.queries, strict=True)
    ):
        axes: list[Axis | None] = []
        for i, value in enumerate(query.values):
            if value.op == "axis" and value.data in query.axes:
                axes.append(None)
                continue
            type_ = join(first.values[i].type, later.get(value, value).type)
            if type_ is None or not is_finite(type_):
                fail_open(query)
            if size(type_) > _LISTED:
                raise NesymmError(
                    located(
                        f"the query {query.name} asks for one of {size(type_):,} values, and an "
                        f"answer lists at most {_LISTED:,}; ask for a comparison instead",
                        query.span,
                    )
                )
            axes.append(Axis(f"value {i} of {query.name}", _along(type_)))
        out.append(Question(number, query, tuple(axes)))
    return tuple(out)


def _along(type_: Type) -> Int | Enum:
    if isinstance(type_, Bool):
        return Int(0, 1)
    assert isinstance(type_, Int | Enum)
    return type_
