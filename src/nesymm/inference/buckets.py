"""Sequences of very different lengths go in buckets of similar ones.

All sequences of a batch go through as many steps as the longest. Where most of these would be
behind the ends of sequences, those of similar lengths go together, and their results are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import jax
import numpy as np

from nesymm.inference.answers import Answers
from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import Diagnostics
from nesymm.inference.options import Key, as_key
from nesymm.inference.results import Failure, Filtered, Smoothed
from nesymm.inference.sampling import Draws

# Each bucket is compiled apart: a step behind an end must cost more than the rest.
_WORTH = 2.0

R = TypeVar("R", Filtered, Smoothed, Draws)
Join = Callable[[Sequence[np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Buckets:
    """Which of the sequences go together, the shortest first, and how results of each bucket become
    those of all, in the order of the sequences."""

    sequences: Sequences
    rows: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, sequences: Sequences) -> Buckets:
        """Lengths in a bucket differ by a factor of two at most. One bucket if little would be
        gained by more."""
        lengths = np.asarray(sequences.last) + 1
        kinds = np.ceil(np.log2(lengths)).astype(int)
        found = tuple(np.flatnonzero(kinds == k) for k in np.unique(kinds))
        work = sum(len(rows) * lengths[rows].max() for rows in found)
        padded = sequences.batch * sequences.steps
        return cls.one(sequences) if padded < _WORTH * work else cls(sequences, found)

    @classmethod
    def one(cls, sequences: Sequences) -> Buckets:
        """All sequences together."""
        return cls(sequences, (np.arange(sequences.batch),))

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """How many steps each bucket goes through."""
        if len(self.rows) == 1:
            return (self.sequences.steps,)
        return tuple(int(self.sequences.last[own].max()) + 1 for own in self.rows)

    @cached_property
    def kinds(self) -> np.ndarray:
        """The number of the bucket that each sequence is in."""
        return self.each([np.full(len(own), i) for i, own in enumerate(self.rows)])

    def parts(self) -> Iterator[Sequences]:
        """The sequences of each bucket."""
        for own, steps in zip(self.rows, self.steps, strict=True):
            yield self.sequences.some(own, steps) if len(self.rows) > 1 else self.sequences

    def run(
        self,
        key: Key,
        run: Callable[[Sequences, Key], R],
        join: Callable[[Buckets, Sequence[R]], R],
    ) -> R:
        """The result of all sequences, whose buckets have random numbers of their own."""
        if len(self.rows) == 1:
            return run(self.sequences, key)
        keys = (jax.random.fold_in(as_key(key), i) for i in range(len(self.rows)))
        return join(self, [run(p, k) for p, k in zip(self.parts(), keys, strict=True)])

    # ------------------------------------------------------------ results

    def each(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Arrays [sequence, …] of all buckets as one."""
        out = np.zeros((self.sequences.batch, *arrays[0].shape[1:]), np.result_type(*arrays))
        for array, own in zip(arrays, self.rows, strict=True):
            out[own] = array
        return out

    def over_time(
        self, arrays: Sequence[np.ndarray | None], axis: int = 1, nothing: Any = None
    ) -> np.ndarray:
        """Arrays [sequence, …, step, …] as one. Where there is none it is blank: `nothing`, or
        NaN where there are real numbers and else 0."""
        known = [a for a in arrays if a is not None]
        dtype = np.result_type(*known)
        if nothing is None:
            nothing = np.nan if dtype.kind == "f" else 0
        shape = list(known[-1].shape)
        shape[0], shape[axis] = self.sequences.batch, self.sequences.steps
        out = np.full(shape, nothing, dtype)
        for array, own in zip(arrays, self.rows, strict=True):
            if array is not None:
                at: tuple[Any, ...] = (own, *[slice(None)] * (axis - 1), slice(array.shape[axis]))
                out[at] = array
        return out

    def answers(self, parts: Sequence[Answers], join: Join, zeros: Sequence[np.ndarray]) -> Answers:
        """What is possible in one bucket is listed, with zeros for those where it is not."""
        out = Answers()
        for name in dict.fromkeys(n for p in parts for n in (*p, *p.impossible)):
            found = zip(parts, zeros, strict=True)
            array = join([p.get(name, p.impossible.get(name, nothing)) for p, nothing in found])
            out.atoms[name] = next(p.atoms[name] for p in parts if name in p.atoms)
            if any(name in p for p in parts):
                out[name] = array
            else:
                out.impossible[name] = array
        return out

    def answers_over_time(self, parts: Sequence[Answers]) -> Answers:
        ends = [self.sequences.last[own][:, None] for own in self.rows]
        zeros = [
            np.where(np.arange(steps) <= end, 0.0, np.nan)
            for end, steps in zip(ends, self.steps, strict=True)
        ]
        return self.answers(parts, self.over_time, zeros)

    def failures(self, parts: Sequence[tuple[Failure, ...]]) -> tuple[Failure, ...]:
        found = [
            replace(f, sequence=int(own[f.sequence]))
            for failures, own in zip(parts, self.rows, strict=True)
            for f in failures
        ]
        return tuple(sorted(found, key=lambda f: f.sequence))

    def diagnostics(self, parts: Sequence[Diagnostics]) -> Diagnostics:
        """Where one bucket was small enough to be exact and another was not, all particles of the
        former are worth as much as they are many."""
        particles = max(d.particles for d in parts)
        worth = [particles / d.particles for d in parts]
        return Diagnostics(
            particles,
            self.each([d.smallest_effective * w for d, w in zip(parts, worth, strict=True)]),
            self.each([d.smallest_effective_step for d in parts]),
            self.each([d.resamplings for d in parts]),
            self.each([d.ancestors * int(w) for d, w in zip(parts, worth, strict=True)]),
        )


def filtered(buckets: Buckets, parts: Sequence[Filtered]) -> Filtered:
    """What was filtered in buckets."""
    return replace(
        parts[-1],
        log_evidence=buckets.each([p.log_evidence for p in parts]),
        log_gains=buckets.over_time([p.log_gains for p in parts]),
        effective=buckets.over_time([p.effective for p in parts]),
        resampled=buckets.over_time([p.resampled for p in parts]),
        filtered=buckets.answers_over_time([p.filtered for p in parts]),
        final=buckets.answers(
            [p.final for p in parts], buckets.each, [np.zeros(len(p.last)) for p in parts]
        ),
        failures=buckets.failures([p.failures for p in parts]),
        diagnostics=buckets.diagnostics([p.diagnostics for p in parts]),
        last=np.asarray(buckets.sequences.last),
    )


def smoothed(buckets: Buckets, parts: Sequence[Smoothed]) -> Smoothed:
    """What was smoothed in buckets."""
    return Smoothed(
        buckets.answers_over_time([p.answers for p in parts]),
        buckets.failures([p.failures for p in parts]),
        buckets.diagnostics([p.diagnostics for p in parts]),
    )


def drawn(buckets: Buckets, parts: Sequence[Draws]) -> Draws:
    """What was drawn in buckets."""

    def whole(arrays: Sequence[Mapping[Any, np.ndarray]]) -> dict[Any, np.ndarray]:
        # Those of one step lack what is drawn at later steps only.
        longer = [a for a, p in zip(arrays, parts, strict=True) if p.shape[2] > 1]
        names = [n for n in longer[-1] if all(n in a for a in longer)]
        return {n: buckets.over_time([a.get(n) for a in arrays], axis=2) for n in names}

    batch, steps = buckets.sequences.batch, buckets.sequences.steps
    return replace(
        parts[-1],
        shape=(batch, parts[-1].shape[1], steps),
        fields=whole([p.fields for p in parts]),
        variables=whole([p.variables for p in parts]),
        lengths=buckets.each([p.lengths for p in parts]),
        failures=buckets.failures([p.failures for p in parts]),
        diagnostics=buckets.diagnostics([p.diagnostics for p in parts]),
    )
