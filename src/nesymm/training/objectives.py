"""What is learnt from: terms of a loss, one number per sequence.

Several terms are added up, each with its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from nesymm.filtering.filter import Slopes


@dataclass(frozen=True)
class LogEvidence:
    """-log p(evidence).

    Where the program has guides this is the bound that they give: with one particle the ELBO,
    with more the importance-weighted one.
    """

    weight: float = 1.0

    @property
    def label_names(self) -> tuple[str, ...]:
        return ()

    def __call__(self, slopes: Slopes, labels: Mapping[str, Any]) -> Any:
        return -slopes.log_evidence


@dataclass(frozen=True)
class QueryLoss:
    """-log p(query = label | evidence) for a query with a truth value at the end.

    `labels` names an array [batch] of zeros and ones; NaN where a sequence has no label.
    """

    query: str
    labels: str
    weight: float = 1.0

    @property
    def label_names(self) -> tuple[str, ...]:
        return (self.labels,)

    def __call__(self, slopes: Slopes, labels: Mapping[str, Any]) -> Any:
        p = slopes.probability(self.query)
        told = labels[self.labels]
        known = ~jnp.isnan(told)
        # Away from 0 and 1, where rounding could make an impossible label of a rare one.
        tiny = float(np.finfo(p.dtype).eps)
        p = jnp.clip(p, tiny, 1 - tiny)
        chosen = jnp.where(told > 0.5, jnp.log(p), jnp.log1p(-p))
        return -jnp.where(known, chosen, 0.0)


Objective = LogEvidence | QueryLoss


def total(terms: tuple[Objective, ...], slopes: Slopes, labels: Mapping[str, Any]) -> Any:
    """The loss of each sequence, [batch]."""
    result: Any = 0.0
    for term in terms:
        result = result + term.weight * term(slopes, labels)
    return result
