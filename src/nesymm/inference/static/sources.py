"""What the variables of a formula stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nesymm.errors import NesymmError
from nesymm.ir.expr import Axis, Expr
from nesymm.ir.step import Param, RandomVariable
from nesymm.ir.terms import atom_text

Values = dict[Any, int]  # value -> formula
Place = Mapping[Axis, Any]

# How many combinations of finite values one comparison or parameter may run through.
BUDGET = 200_000


class TooManyCombinations(NesymmError):
    """An expression runs through too many combinations of finite values."""


@dataclass(frozen=True)
class Drawn:
    """The weights of a formula variable: a finite random variable and its parameters.

    An `optional` one has one more value after its outcomes: not drawn.
    """

    variable: RandomVariable
    key: tuple
    params: tuple[Param, ...]
    optional: bool = False

    @property
    def name(self) -> str:
        """As users write it: with its keys, if it has any."""
        return atom_text(self.variable.name, self.key) if self.key else self.variable.name


@dataclass(frozen=True)
class Leaf:
    """A truth value known at run time."""

    condition: Expr


@dataclass(frozen=True)
class Weight:
    """A factor that counts where its literal is true: the density of an observed value."""

    variable: RandomVariable
    params: tuple[Param, ...]
    value: Expr


Source = Drawn | Leaf | Weight
