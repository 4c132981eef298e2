"""Which keys of each fluent are read, and by which parts of the next state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nesymm.errors import Span
from nesymm.ground.clauses import Clauses
from nesymm.ground.state.blocks import Block
from nesymm.ir.symbols import key_of
from nesymm.language.program import Pred

# A fluent, and the keys that are asked for: None where any.
Part = tuple[Pred, tuple]


class Demands:
    """What a round reads of the state. `lags` are the steps back, -1 for step 0, and where."""

    def __init__(self, clauses: Clauses):
        self.clauses = clauses
        self.patterns: dict[Pred, dict[tuple, Span | None]] = {}
        self.lags: dict[Pred, dict[int, Span | None]] = {}
        self.readers: dict[Pred, dict[tuple, set[Part]]] = {}
        self._general: dict[Pred, list[tuple]] = {}
        self._seen: dict[Pred, set[tuple]] = {}

    def add(
        self, pred: Pred, lag: int, pattern: tuple, span: Span | None, reader: Part | None = None
    ) -> None:
        """Note that keys are read, for a part of the next state where that is known."""
        known = self.patterns.setdefault(pred, {})
        # Whether a key leaves its domain is seen where all of them are asked for.
        pattern = tuple(
            None if (pred, i) in self.clauses.domains else p
            for i, p in zip(self.clauses.key_positions(pred), pattern, strict=True)
        )
        if reader is not None:
            self.readers.setdefault(pred, {}).setdefault(pattern, set()).add(reader)
        lags = self.lags.setdefault(pred, {})
        if lags.get(lag) is None:
            lags[lag] = span
        if lag < 0:
            lags.setdefault(1, None)
        seen = self._seen.setdefault(pred, set())
        if pattern in seen:
            return
        seen.add(pattern)
        # Two patterns without a hole overlap only if they are the same.
        alike = known if None in pattern else self._general.get(pred, ())
        if any(_covers(general, pattern) for general in alike):
            return
        # Keys that are read in two ways are asked for in one: else the clauses would seem
        # to give such an atom twice.
        while met := [p for p in alike if _overlap(p, pattern)]:
            for other in met:
                del known[other]
                pattern = _join(other, pattern)
            alike = known
        known[pattern] = span
        if None in pattern:
            self._general[pred] = [p for p in known if None in p]

    def readers_of(self, pred: Pred, blocks: Iterable[Block]) -> Iterator[Part]:
        """The parts of the next state that read one of some blocks."""
        for pattern, readers in self.readers.get(pred, {}).items():
            if any(block.meets(pattern) for block in blocks):
                yield from readers


def _covers(general: tuple, pattern: tuple) -> bool:
    return all(
        g is None or (p is not None and key_of(g) == key_of(p))
        for g, p in zip(general, pattern, strict=True)
    )


def _overlap(a: tuple, b: tuple) -> bool:
    """Whether some keys fit both patterns."""
    return all(x is None or y is None or key_of(x) == key_of(y) for x, y in zip(a, b, strict=True))


def _join(a: tuple, b: tuple) -> tuple:
    """The most special pattern that covers two overlapping ones."""
    return tuple(None if y is None else x for x, y in zip(a, b, strict=True))
