"""The types of step-program expressions, and interval arithmetic on them.

Whole and real numbers carry bounds, which may be infinite. An `Enum` ranges over a
finite tuple of ground terms (atoms, mostly). A `Tensor` is passed to networks and
distributions, carried and observed; it is never compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nesymm.ir.terms import show

INF = math.inf


@dataclass(frozen=True, slots=True)
class Bool:
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class Int:
    lo: float = -INF
    hi: float = INF

    @property
    def size(self) -> float:
        return self.hi - self.lo + 1

    def __str__(self) -> str:
        if self.lo == -INF and self.hi == INF:
            return "int"
        return f"int {_bound(self.lo)}..{_bound(self.hi)}"


@dataclass(frozen=True, slots=True)
class Real:
    lo: float = -INF
    hi: float = INF

    def __str__(self) -> str:
        if self.lo == -INF and self.hi == INF:
            return "real"
        return f"real {_bound(self.lo)}..{_bound(self.hi)}"


@dataclass(frozen=True, slots=True)
class Enum:
    values: tuple

    @property
    def size(self) -> float:
        return len(self.values)

    def __str__(self) -> str:
        shown = ", ".join(show(v) for v in self.values[:8])
        return "{" + shown + (", …}" if len(self.values) > 8 else "}")


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return "tensor" if self.shape is None else f"tensor{list(self.shape)}"


Type = Bool | Int | Real | Enum | Tensor
Number = Int | Real

BOOL = Bool()


def numbers(whole: bool, low: float, high: float) -> Number:
    """The type of the numbers within some bounds."""
    return Int(low, high) if whole else Real(low, high)


def _bound(x: float) -> str:
    if x == INF:
        return "∞"
    if x == -INF:
        return "-∞"
    return str(x)


def is_finite(type_: Type) -> bool:
    """Whether a value of this type can be enumerated."""
    return size(type_) < INF


def domain(type_: Type) -> list:
    """All the values of a finite type, in order."""
    match type_:
        case Bool():
            return [False, True]
        case Enum(values):
            return list(values)
        case Int(lo, hi) if lo > -INF and hi < INF:
            return list(range(int(lo), int(hi) + 1))
    raise ValueError(f"{type_} is not finite")


def size(type_: Type) -> float:
    match type_:
        case Bool():
            return 2
        case Enum() | Int():
            return type_.size
        case _:
            return INF


def join(a: Type, b: Type) -> Type | None:
    """The least type that holds both, or None where there is none."""
    if a == b:
        return a
    match a, b:
        case (Int(), Int()):
            return Int(min(a.lo, b.lo), max(a.hi, b.hi))
        case (Int() | Real(), Int() | Real()):
            return Real(min(a.lo, b.lo), max(a.hi, b.hi))
        case (Enum(), Enum()):
            extra = tuple(v for v in b.values if v not in a.values)
            return Enum(a.values + extra)
        case (Tensor(), Tensor()):
            return Tensor(a.shape if a.shape == b.shape else None)
        case _:
            return None


def join_all(types: Iterable[Type]) -> Type | None:
    """The least type that holds them all, or None where there is none."""
    first, *others = types
    joined: Type | None = first
    for other in others:
        joined = join(joined, other) if joined is not None else None
    return joined


def contains(outer: Type, inner: Type) -> bool:
    return join(outer, inner) == outer


def like(a: Type, b: Type, lo: float, hi: float) -> Number:
    """The numeric type of an operation on `a` and `b` with result bounds lo..hi."""
    if isinstance(a, Int) and isinstance(b, Int):
        return Int(lo, hi)
    return Real(lo, hi)


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def product_bounds(a: Number, b: Number) -> tuple[float, float]:
    corners = [_times(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(corners), max(corners)


def quotient_bounds(a: Number, b: Number) -> tuple[float, float]:
    if b.lo <= 0 <= b.hi:
        return -INF, INF
    corners = []
    for x in (a.lo, a.hi):
        for y in (b.lo, b.hi):
            if math.isinf(x) and math.isinf(y):
                return -INF, INF
            corners.append(x / y)
    return min(corners), max(corners)


@dataclass(frozen=True, slots=True)
class TensorAt:
    """The step whose tensor a network reads: so many before this one, or the first."""

    lag: int = 0
    first: bool = False

    @property
    def is_now(self) -> bool:
        return not (self.lag or self.first)

    def __str__(self) -> str:
        return "0" if self.first else f"t-{self.lag}" if self.lag else "t"
