"""Objectives: what is to be small, and metrics: what is watched. Sums of terms with weights.

A term maps the estimates of a batch to one number per sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.columns import split_missing
from nesymm.inference.estimates import Estimate
from nesymm.inference.options import KL


class Term(Protocol):
    """One number per sequence, [batch]; NaN where there is none to say."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The arrays of labels that it reads."""
        ...

    def __call__(self, found: Estimate, labels: Mapping[str, Any]) -> Any: ...


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

    def __call__(self, found: Estimate, labels: Mapping[str, Any]) -> Any:
        return -found.log_evidence


@dataclass(frozen=True)
class ELBO:
    """The negative evidence lower bound of one particle, for programs with guides.

    `kl` says how the divergence of a guide from its prior is found: `analytic`, by its formula
    where there is one and the prior has no finite parent, or `sampled`.
    """

    weight: float = 1.0
    kl: str = "analytic"

    def __post_init__(self) -> None:
        KL.check("kl", self.kl)

    @property
    def label_names(self) -> tuple[str, ...]:
        return ()

    def __call__(self, found: Estimate, labels: Mapping[str, Any]) -> Any:
        return -found.log_evidence


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

    def __call__(self, found: Estimate, labels: Mapping[str, Any]) -> Any:
        p = found.probability(self.query)
        label = labels[self.labels]
        known = ~jnp.isnan(label)
        # Away from 0 and 1, where rounding could make an impossible label of a rare one.
        tiny = float(np.finfo(p.dtype).eps)
        p = jnp.clip(p, tiny, 1 - tiny)
        chosen = jnp.where(label > 0.5, jnp.log(p), jnp.log1p(-p))
        return -jnp.where(known, chosen, 0.0)


@dataclass(frozen=True)
class Accuracy:
    """A metric: whether the more probable truth value of a query is its label."""

    query: str
    labels: str

    @property
    def label_names(self) -> tuple[str, ...]:
        return (self.labels,)

    def __call__(self, found: Estimate, labels: Mapping[str, Any]) -> Any:
        label = labels[self.labels]
        right = (found.probability(self.query) >= 0.5) == (label > 0.5)
        return jnp.where(jnp.isnan(label), jnp.nan, right)


Objective = LogEvidence | ELBO | QueryLoss


def total(terms: tuple[Objective, ...], found: Estimate, labels: Mapping[str, Any]) -> Any:
    """The loss of each sequence, [batch]."""
    result: Any = 0.0
    for term in terms:
        result = result + term.weight * term(found, labels)
    return result


def read_labels(name: str, value: Any, truth: bool = True) -> np.ndarray:
    """Labels as numbers, NaN where there is none. Those of queries, truths, are zeros and ones."""
    expected = "zeros and ones" if truth else "numbers"
    array, missing = split_missing(name, value)
    filled = array if missing is None else np.where(missing, 0, array)
    try:
        numbers = filled.astype(
            np.float64, casting="unsafe" if array.dtype == object else "same_kind"
        )
    except (TypeError, ValueError):
        raise NesymmError(f"labels {name}: expected {expected}, received {array.dtype}") from None
    wrong = numbers[~np.isin(numbers, (0, 1))]
    if truth and wrong.size:
        raise NesymmError(
            f"labels {name}: expected {expected}, NaN where there is none; received {wrong[0]:g}"
        )
    return numbers if missing is None else np.where(missing, np.nan, numbers)
