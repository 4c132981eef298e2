"""How large tables may be, and what is done where one would be larger: names, or a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nesymm.errors import NesymmError
from nesymm.inference.devices import memory
from nesymm.inference.elimination.choices import (
    BATCH,
    PARTICLE,
    TARGET,
    Choice,
    Lane,
    cells,
    choices,
)
from nesymm.inference.elimination.order import MAX_CELLS

# Nor may it have more bytes than this for all elements, sequences and particles together: a step
# needs several tables at once.
MAX_BYTES = min(1 << 33, memory() // 16)
# Where there is another way, the tables of one attempt at a step may have no more cells than this
# together, each of them small enough: about a second's work. A count does not depend on how busy
# the machine is.
MAX_WORK = 1 << 26


class TooLarge(NesymmError):
    """Finite variables that depend on each other have too many joint values."""

    def __init__(self, dims: Sequence[Choice], size: int, advice: str):
        self.dims = tuple(dims)
        sizes: dict[str, int] = {}
        for dim in self.dims:
            # The fields of a slot are one thing; conditions that tie things together have no name.
            if dim.kind != "aux":
                sizes[dim.label] = sizes.get(dim.label, 1) * dim.size
        shown = ", ".join(f"{label} ({size:,})" for label, size in [*sizes.items()][:12])
        more = f" and {len(sizes) - 12} more" if len(sizes) > 12 else ""
        between = sum(dim.kind == "aux" for dim in self.dims)
        if between:
            more += (
                f", with {between} conditions between them" if sizes else f"{between} conditions"
            )
        self.cause = (
            f"these finite variables depend on each other and have too many joint values: "
            f"{shown}{more}; that is a table of {cells(self.dims):,} cells, "
            f"{size / 1e9:,.3g} GB in all"
        )
        super().__init__(f"{self.cause}; {advice}")


class TooMuchWork(TooLarge):
    """Each table is small enough, and all of them together are not."""

    def __init__(self, work: float, advice: str):
        self.dims = ()
        self.cause = f"the tables of a step have more than {work:,} cells together"
        NesymmError.__init__(self, f"{self.cause}; {advice}")


@dataclass(frozen=True)
class Naming:
    """When a condition or a value gets a name, and so becomes a variable that is summed out.

    Names keep tables small, but each is a variable more: many names of a few variables tie more
    together than the variables do.
    """

    above: int = 64  # Where it depends on more joint values than this,
    shared: bool = True  # or, in exact inference, wherever several others read it.
    values: bool = True  # Whether values get names, and not conditions and sums alone.
    most: int = MAX_BYTES  # What is not named must fit into so many bytes, many times over.


# Tried one after the other, where tables become too large.
NAMINGS = (
    Naming(),
    Naming(1 << 12, shared=False, most=1 << 26),
    Naming(1 << 16, shared=False, most=1 << 26),
    Naming(1 << 20, shared=False, most=1 << 26),
)
# Given a particle, tables are small as a rule, and computed faster than names are summed out.
# A quarter of a gigabyte is enough for one of many tables, if there is another way.
_ENOUGH = 1 << 28
NAMINGS_OF_PARTICLES = (
    Naming(values=False, most=_ENOUGH),
    replace(NAMINGS[0], most=_ENOUGH),
    *NAMINGS[1:],
    Naming(values=False),
    NAMINGS[0],
)


def by_some_naming(attempt: Callable[[Naming], Any], namings: Iterable[Naming] = NAMINGS) -> Any:
    """What an attempt gives, by the first naming whose tables are small enough."""
    refused: TooLarge | None = None
    for naming in namings:
        try:
            return attempt(naming)
        except TooLarge as error:
            refused = refused or error
    assert refused is not None
    raise refused


@dataclass(frozen=True)
class Capacity:
    """How large a table may be: in cells, and in bytes for so many sequences and particles; and
    how many cells all tables may have together, of which those in `made` are there."""

    cells: int = MAX_CELLS
    bytes: int = MAX_BYTES
    work: float = math.inf
    batch: int = 1
    particles: int = 1
    itemsize: int = 4
    advice: str = (
        "give them fewer values, take fewer particles or sequences at once, or use "
        "--method bootstrap"
    )
    made: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)

    def refuse(self, dims: Sequence[Any]) -> None:
        """Say what makes a table too large, before it is made."""
        lanes = {BATCH: self.batch, PARTICLE: self.particles, TARGET: self.particles}
        size = self.itemsize
        for dim in dims:
            size *= lanes[dim] if isinstance(dim, Lane) else getattr(dim, "size", 1)
        count = cells(tuple(dims))
        if count > self.cells or size > self.bytes:
            raise TooLarge(choices(tuple(dims)), size, self.advice)
        self.made[0] += count
        if self.made[0] > self.work:
            raise TooMuchWork(self.work, self.advice)


CAPACITY = Capacity()
