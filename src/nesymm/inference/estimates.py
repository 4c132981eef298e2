"""Estimates that JAX can differentiate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from nesymm.errors import NesymmError
from nesymm.inference.questions import Question


@dataclass(frozen=True)
class Estimate:
    """Log-evidence [batch] and the query probabilities, differentiable in parameters and
    networks; and `effective`, the smallest effective sample size of each sequence, [batch]."""

    log_evidence: Any
    answers: Mapping[str, Any]
    questions: tuple[Question, ...]
    last: Any
    effective: Any

    def __repr__(self) -> str:
        asked = [name for q in self.questions for _, name, *_ in q.groundings()]
        return f"Estimate({len(self.last)} sequences, asked: {', '.join(asked) or 'nothing'})"

    def probability(self, query: str) -> Any:
        """The probability of a query at the end of each sequence, [batch]."""
        for question in self.questions:
            for position, name, *_ in question.groundings():
                if name == query:
                    array = self.answers[question.key]
                    batch = jnp.arange(len(self.last))
                    at_end = array[0] if len(array) == 1 else array[self.last, batch]
                    return at_end[(slice(None), *position)]
        known = ", ".join(q.query.name for q in self.questions) or "none"
        raise NesymmError(f"{query} is not asked in the program (asked: {known})")
