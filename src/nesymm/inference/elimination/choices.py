"""The dimensions of arrays in a filter.

Program axes come first, after the dimensions along which finite things are enumerated;
sequences and particles come last, so that every operation runs along particles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nesymm.ir.expr import Axis


@dataclass(frozen=True, slots=True)
class Lane:
    """Sequences, or the particles of a sequence."""

    name: str
    rank: int

    def __repr__(self) -> str:
        return self.name


BATCH = Lane("batch", 1)
PARTICLE = Lane("particle", 2)
# Particles again, as the goals of transitions.
TARGET = Lane("target", 3)


@dataclass(frozen=True, slots=True)
class Choice:
    """A dimension that runs through the values of something finite.

    `kind` is rv, slot (a field of the previous state) or aux (the truth of a condition that
    was given a name). `key` holds, per axis of the thing, a value, or the axis itself where
    all its elements are treated alike, side by side.
    """

    kind: str
    name: Any
    key: tuple
    size: int

    @property
    def rank(self) -> int:
        return -1

    @property
    def plates(self) -> tuple[Axis, ...]:
        return tuple(k for k in self.key if isinstance(k, Axis))

    @property
    def label(self) -> str:
        """What it is called in messages: by the name of the variable or slot, and its keys."""
        name = self.name if isinstance(self.name, str) else str(self.name[0])
        key = [str(k) for k in self.key if not isinstance(k, Axis)]
        return f"{name}[{','.join(key)}]" if key else name

    def __repr__(self) -> str:
        key = f"[{', '.join(map(str, self.key))}]" if self.key else ""
        return f"{self.kind} {self.name}{key}"


def choices(dims: tuple) -> list[Choice]:
    return [d for d in dims if isinstance(d, Choice)]


def cells(dims: tuple) -> int:
    """How many combinations of finite values an array holds."""
    total = 1
    for dim in choices(dims):
        total *= dim.size
    return total
