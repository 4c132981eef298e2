"""Small matrices in plain Python, for checks."""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def is_symmetric(matrix: Matrix) -> bool:
    return all(
        math.isclose(matrix[i][j], matrix[j][i], rel_tol=1e-9, abs_tol=1e-12)
        for i in range(len(matrix))
        for j in range(i)
    )


def cholesky(matrix: Matrix) -> list[list[float]] | None:
    """The lower triangle L with L Lᵀ = matrix; None where it is not positive definite."""
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        new: list[float] = []
        for j in range(i):
            rest = row[j] - sum(a * b for a, b in zip(new, lower[j], strict=False))
            new.append(rest / lower[j][j])
        rest = row[i] - sum(a * a for a in new)
        if rest <= 0:
            return None
        lower.append([*new, math.sqrt(rest)])
    return lower
