"""The literals of a clause body, as resolution meets them one after the other.

Their arguments are terms over the numbered variables of one clause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nesymm.errors import Span
from nesymm.ground.unify import shift
from nesymm.ir.expr import Expr
from nesymm.language.program import Choice, Draw, Pred


@dataclass(frozen=True, slots=True)
class CallLit:
    """`lag` 0: this step (or no time); k: k steps ago; -1: step 0."""

    pred: Pred
    args: tuple
    lag: int
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class BuiltinLit:
    """`hint` is the name of the last argument, if it is a variable."""

    name: str
    args: tuple
    span: Span | None
    site: str
    timed: bool
    hint: str = "I"


@dataclass(frozen=True, slots=True)
class NegLit:
    pred: Pred
    args: tuple
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class DisjLit:
    bodies: tuple[tuple[Lit, ...], ...]


@dataclass(frozen=True, slots=True)
class CollectLit:
    """Call `pred(outer…, groups…, template)` and gather the templates into `result`."""

    kind: str
    pred: Pred
    outer: tuple
    groups: tuple
    result: Any
    span: Span | None
    site: str
    timed: bool


@dataclass(frozen=True, slots=True)
class DrawLit:
    """Call the body predicate, then bind `drawn` to the random variable of clause `number`."""

    clause: Draw
    number: int
    pred: Pred
    keys: tuple
    params: tuple
    drawn: tuple
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class ChoiceLit:
    """Call the body predicate, then require option `option` of the choice `number`.

    `proved`: the derivation has been through the body already.
    """

    clause: Choice
    number: int
    option: int
    pred: Pred
    variables: tuple
    names: tuple[str, ...]
    probabilities: tuple
    span: Span | None
    site: str
    proved: bool = False


@dataclass(frozen=True, slots=True)
class GuardLit:
    condition: Expr


Lit = CallLit | BuiltinLit | NegLit | DisjLit | CollectLit | DrawLit | ChoiceLit | GuardLit


_TERMS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((CallLit, BuiltinLit, NegLit), ("args",)),
    CollectLit: ("outer", "groups", "result"),
    DrawLit: ("keys", "params", "drawn"),
    ChoiceLit: ("variables", "probabilities"),
    GuardLit: (),
}


def shift_literal(lit: Lit, offset: int) -> Lit:
    """The same literal in a larger frame: its variables start at `offset`."""
    if isinstance(lit, DisjLit):
        return DisjLit(tuple(tuple(shift_literal(x, offset) for x in b) for b in lit.bodies))
    return replace(lit, **{name: shift(getattr(lit, name), offset) for name in _TERMS[type(lit)]})
