"""What the generator and its parts share: domains, predicates, numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENTITY = "entity"
NUMBER = (0, 1, 2)  # the result of an aggregate, which may be larger
LETTERS = ("orc", "elf", "imp", "ent")
SPLITS = {
    1: ([1.0],),
    2: ([0.5, 0.5], [0.3, 0.7], [0.6, 0.4]),
    3: ([0.2, 0.3, 0.5], [0.25, 0.5, 0.25], [0.6, 0.3, 0.1]),
    4: ([0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]),
    5: ([0.1, 0.3, 0.2, 0.25, 0.15],),
}


@dataclass(frozen=True)
class Pred:
    """A predicate: the domain of each argument (ENTITY, a tuple of constants), what it costs to
    know it (random ground atoms), and whether its last argument is a value."""

    name: str
    domains: tuple[Any, ...] = ()
    timed: bool = True
    level: int = 0
    valued: bool = False
    drawn: bool = False
    noisy: bool = True
    begun: bool = True  # some clause does not look back, so that others may


def numbers(domain: Any) -> bool:
    return isinstance(domain, tuple) and all(isinstance(v, int) for v in domain)
