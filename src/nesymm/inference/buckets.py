"""Sequences of very different lengths, filtered in buckets of similar ones.

All sequences of a batch go through as many steps as the longest. Where most of these would be
behind the ends of sequences, those of similar lengths go together, and their results are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nesymm.inference.answers import Answers
from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import Diagnostics
from nesymm.inference.results import Filtered

# Each bucket is compiled apart: a step behind an end must cost more than the rest.
_WORTH = 2.0


def buckets(sequences: Sequences) -> list[np.ndarray]:
    """The rows of the sequences that go together: their lengths differ by a factor of two at most.
    One bucket if little would be gained by more."""
    lengths = np.asarray(sequences.last) + 1
    kinds = np.ceil(np.log2(lengths)).astype(int)
    found = [np.flatnonzero(kinds == k) for k in np.unique(kinds)]
    work = sum(len(rows) * lengths[rows].max() for rows in found)
    if sequences.batch * sequences.steps < _WORTH * work:
        return [np.arange(sequences.batch)]
    return found


def picked(sequences: Sequences, rows: np.ndarray) -> Sequences:
    """Some of the sequences, with as many steps as the longest of them."""
    last = np.asarray(sequences.last)[rows]
    steps = int(last.max()) + 1
    timed, static = (slice(steps), rows), rows

    def cut(name: str, array: Any) -> Any:
        return array[timed[0]][:, rows] if name in sequences.timed else array[static]

    def columns(some: Mapping[str, Any]) -> dict[str, Any]:
        return {
            n: tuple(replace(c, values=cut(n, c.values)) for c in group)
            for n, group in some.items()
        }

    return replace(
        sequences,
        batch=len(rows),
        steps=steps,
        last=last,
        timed=columns(sequences.timed),
        static=columns(sequences.static),
        masks={n: cut(n, m) for n, m in sequences.masks.items()},
    )


def rejoined(
    sequences: Sequences, parts: Sequence[Filtered], rows: Sequence[np.ndarray]
) -> Filtered:
    """The results of buckets as one, in the order of the sequences."""
    shape = (sequences.batch, sequences.steps)

    def over_time(arrays: Sequence[np.ndarray], nothing: Any) -> np.ndarray:
        out = np.full(shape, nothing, arrays[0].dtype)
        for array, own in zip(arrays, rows, strict=True):
            out[own, : array.shape[1]] = array
        return out

    def each(arrays: Sequence[np.ndarray]) -> np.ndarray:
        out = np.zeros(sequences.batch, arrays[0].dtype)
        for array, own in zip(arrays, rows, strict=True):
            out[own] = array
        return out

    found = [p.diagnostics for p in parts]
    failures = [
        replace(f, sequence=int(own[f.sequence]))
        for p, own in zip(parts, rows, strict=True)
        for f in p.failures
    ]
    return replace(
        parts[-1],
        log_evidence=each([p.log_evidence for p in parts]),
        log_gains=over_time([p.log_gains for p in parts], np.nan),
        effective=over_time([p.effective for p in parts], np.nan),
        resampled=over_time([p.resampled for p in parts], False),
        filtered=_answers(
            [(p.filtered, np.where(np.isnan(p.log_gains), np.nan, 0.0)) for p in parts],
            lambda a: over_time(a, np.nan),
        ),
        final=_answers([(p.final, np.zeros(len(p.last))) for p in parts], each),
        failures=tuple(sorted(failures, key=lambda f: f.sequence)),
        diagnostics=Diagnostics(
            found[-1].particles,
            each([d.smallest_effective for d in found]),
            each([d.smallest_effective_step for d in found]),
            each([d.resamplings for d in found]),
            each([d.ancestors for d in found]),
        ),
        last=np.asarray(sequences.last),
    )


def _answers(parts: Sequence[tuple[Answers, np.ndarray]], join: Any) -> Answers:
    """What is possible in one bucket is listed, with zeros for those where it is not."""
    out = Answers()
    for name in dict.fromkeys(n for p, _ in parts for n in (*p, *p.impossible)):
        array = join([p.get(name, p.impossible.get(name, zeros)) for p, zeros in parts])
        out.atoms[name] = next(p.atoms[name] for p, _ in parts if name in p.atoms)
        if any(name in p for p, _ in parts):
            out[name] = array
        else:
            out.impossible[name] = array
    return out
