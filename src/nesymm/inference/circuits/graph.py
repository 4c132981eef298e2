"""The arrays that a circuit consists of.

Nodes are numbered: `false`, `true`, the literals (variable by variable), then the sums,
children first. Sum `i` adds the products `primes[e] * subs[e]` for `e` in
`starts[i]..starts[i + 1]`. The products of a sum exclude each other and their two factors
share no variables, so weighted model counting is one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, chain

import numpy as np

FALSE_NODE = 0
TRUE_NODE = 1
FIRST_LITERAL = 2

# No sum has more products, so that sums fit into tables without much padding.
FAN_IN = 8

VERSION = 1


@dataclass(frozen=True, eq=False)
class Graph:
    """`sizes` of the variables, sums as described above, and the nodes that are `roots`.

    `scopes[i]` numbers the place of sum `i` in the vtree: of two sums with the same scope,
    at most one takes part in any one assignment. Samplers draw one number per scope.
    """

    sizes: np.ndarray
    starts: np.ndarray
    primes: np.ndarray
    subs: np.ndarray
    scopes: np.ndarray
    roots: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            getattr(self, field.name).setflags(write=False)

    @classmethod
    def build(
        cls,
        sizes: Sequence[int],
        sums: Sequence[Sequence[tuple[int, int]]],
        scopes: Sequence[int],
        roots: Sequence[int],
    ) -> Graph:
        pairs = np.array(list(chain.from_iterable(sums)), np.int32).reshape(-1, 2)
        return cls(
            np.array(sizes, np.int32),
            np.array(list(accumulate((len(s) for s in sums), initial=0)), np.int32),
            np.ascontiguousarray(pairs[:, 0]),
            np.ascontiguousarray(pairs[:, 1]),
            np.array(scopes, np.int32),
            np.array(roots, np.int32),
        )

    @cached_property
    def first_sum(self) -> int:
        return FIRST_LITERAL + int(self.sizes.sum())

    @property
    def scope_count(self) -> int:
        return int(self.scopes.max(initial=-1)) + 1

    @cached_property
    def depths(self) -> np.ndarray:
        """For every sum, one more than the deepest sum below it; the lowest have 0."""
        depth = np.full(self.first_sum + len(self.scopes), -1, np.int32)
        below = [*zip(self.primes.tolist(), self.subs.tolist(), strict=True)]
        starts = self.starts.tolist()
        found: list[int] = depth.tolist()
        for i in range(len(self.scopes)):
            deepest = -1
            for prime, sub in below[starts[i] : starts[i + 1]]:
                deepest = max(deepest, found[prime], found[sub])
            found[self.first_sum + i] = deepest + 1
        return np.array(found[self.first_sum :], np.int32)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "version": np.array(VERSION),
            **{f.name: getattr(self, f.name) for f in fields(self)},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Graph:
        if (version := int(arrays["version"])) != VERSION:
            raise ValueError(f"this circuit was saved in format {version}, not {VERSION}")
        return cls(*(np.asarray(arrays[f.name], np.int32) for f in fields(cls)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name).tobytes() for f in fields(self)))
