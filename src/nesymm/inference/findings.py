"""What a filter found, sequence by sequence: what tables and plots show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.inference.results import Filtered


@dataclass(frozen=True)
class Sequence:
    """What was found in one sequence; NaN where there is no answer.

    `filtered` has a row per query at every step, `final` one number per query about one
    step. From the step on at which a sequence fails, there are no answers.
    """

    steps: int
    log_evidence: float
    effective: np.ndarray
    filtered: dict[str, np.ndarray]
    final: dict[str, float]
    error: str | None
    name: Any = None  # what the data call it; None: it is numbered

    def as_json(self) -> dict[str, Any]:
        queries: dict[str, Any] = {n: _plain(row) for n, row in self.filtered.items()}
        queries |= {n: _number(p) for n, p in self.final.items()}
        return {
            **({} if self.name is None else {"sequence": plain_name(self.name)}),
            "log_evidence": _number(self.log_evidence),
            "effective_sample_size": _plain(self.effective),
            "queries": queries,
            "error": self.error,
        }


@dataclass(frozen=True)
class Findings:
    """What a filter found in the sequences of a file."""

    method: str
    reason: str
    sequences: list[Sequence]

    @property
    def exact(self) -> bool:
        """Whether there is a single particle, which stands for the whole belief."""
        return self.method == "exact forward"

    def as_json(self) -> dict[str, Any]:
        return {"method": self.method, "sequences": [s.as_json() for s in self.sequences]}

    def label(self, number: int) -> str:
        """What a sequence is called."""
        name = self.sequences[number].name
        return str(number if name is None else name)

    def failed(self) -> str | None:
        """A sentence about the sequences that failed."""
        wrong = [(self.label(i), s.error) for i, s in enumerate(self.sequences) if s.error]
        if not wrong:
            return None
        number, error = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        total = len(self.sequences)
        return f"{len(wrong)} of {total} failed: sequence {number}, {error}{more}"


def findings(found: Filtered) -> Findings:
    """What was found, sequence by sequence."""
    failures = {f.sequence: f for f in found.failures}
    sequences = []
    for b, number in enumerate(map(int, found.lengths)):
        failure = failures.get(b)
        sequences.append(
            Sequence(
                number,
                float(found.log_evidence[b]) if failure is None else math.nan,
                found.effective[b, :number],
                {n: rows[b, :number] for n, rows in found.filtered.items()},
                {n: float(p[b]) for n, p in found.final.items()},
                None if failure is None else f"step {failure.step}: {failure.message}",
                None if found.names is None else found.names[b],
            )
        )
    return Findings(found.method, found.reason, sequences)


def plain_name(name: Any) -> Any:
    """The name of a sequence as JSON has it."""
    return name if isinstance(name, int | str) else str(name)


def asked_step(query: str, steps: int) -> int | None:
    """The step that a query such as `rain@2` or `rain@T` is about; None: it has no time."""
    atom, _, when = query.rpartition("@")
    if not atom:
        return None
    if when.isdecimal():
        return int(when)
    return steps - 1 if when == "T" else None


def _number(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _plain(values: np.ndarray) -> list[float | None]:
    return [_number(v) for v in values]
