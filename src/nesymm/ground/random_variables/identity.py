"""Which random variable is meant: by its clause and its keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nesymm.ir.expr import Axis, Expr, in_order
from nesymm.ir.symbols import axes_of, has_symbol
from nesymm.language.program import Pred


@dataclass(frozen=True, slots=True)
class KeyAxis:
    """A key that runs along an axis of its variable: the number of that axis."""

    axis: int


@dataclass
class Identity:
    """Which random variable: its keys (constants, or `KeyAxis` an axis), and the axes."""

    keys: tuple
    axes: tuple[Axis, ...]
    names: tuple[str, ...]


@dataclass(eq=False)
class Owner:
    """Where a random variable comes from: its clause, and what the clause is bound to there.

    `terms` are all bindings over the variable's own axes, those that the keys determine among
    them. `calls` are the calls of the body that found it; None where that was in a cycle.
    """

    pred: Pred
    body: Pred
    clause: int
    keys: tuple
    axes: tuple[Axis, ...]
    terms: tuple
    calls: set[Any]

    @property
    def constant(self) -> bool:
        return not has_symbol(self.terms)


class Whole(Exception):
    """A random clause is used with some keys known and others not, and only if all its
    groundings are found together can it be seen which of them are the same."""

    def __init__(self, owner: Owner):
        self.owner = owner


def distinct(names: Iterable[str]) -> list[str]:
    """The same names, numbered where one comes back. Axes that are alike then have the
    same name in all variables and slots, and what is computed along them is shared."""
    out: list[str] = []
    for name in names:
        out.append(name if name not in out else f"{name}{len(out)}")
    return out


def identify(bindings: Iterable[Any], names: Iterable[str]) -> Identity:
    """The identity that bindings give: constants and axes count, other symbols are
    determined by them and do not."""
    keys: list[Any] = []
    axes: list[Axis] = []
    axis_names: list[str] = []

    def number(axis: Axis, name: str) -> int:
        if axis not in axes:
            axes.append(axis)
            axis_names.append(name)
        return axes.index(axis)

    for name, term in zip(names, bindings, strict=True):
        if isinstance(term, Expr):
            if term.op == "axis":
                keys.append(KeyAxis(number(term.data, name)))
        elif not has_symbol(term):
            keys.append(term)
        else:
            for axis in in_order(axes_of((term,))):
                number(axis, name)
    return Identity(tuple(keys), tuple(axes), tuple(axis_names))
