"""The queries in NumPy: the counterpart of `compiled`.

A large batch is answered in blocks that fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nesymm.inference.circuits import numpy_passes, queries
from nesymm.inference.circuits.graph import FIRST_LITERAL
from nesymm.inference.circuits.layers import Tables

# The numbers in a block: one for every place and row of the batch.
_BLOCK = 2_000_000


def log_values(tables: Tables, weights: np.ndarray) -> np.ndarray:
    """The log weighted model counts of the roots, of shape (root, batch)."""
    blocks = [_log_values(tables, block) for block in _blocks(tables, weights)]
    return np.concatenate(blocks, axis=-1)


def _log_values(tables: Tables, weights: np.ndarray) -> np.ndarray:
    plain, trusted = queries.plainly(np, numpy_passes, tables, weights)
    if trusted:
        return plain
    return queries.evaluate(np, numpy_passes, tables, weights, "sum")[0]


def marginals(tables: Tables, weights: np.ndarray, root: int) -> np.ndarray:
    blocks = [
        queries.marginals(np, numpy_passes, tables, block, root)
        for block in _blocks(tables, weights)
    ]
    return np.concatenate(blocks, axis=-1)


def most_probable(tables: Tables, weights: np.ndarray, root: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = [
        queries.most_probable(np, numpy_passes, tables, block, root)
        for block in _blocks(tables, weights)
    ]
    best, log_weight = zip(*blocks, strict=True)
    return np.concatenate(best, axis=-1), np.concatenate(log_weight, axis=-1)


def _blocks(tables: Tables, weights: np.ndarray) -> Iterator[np.ndarray]:
    sums = sum(lane.scopes.size for section in tables.sections for lane in section)
    width = max(64, _BLOCK // (FIRST_LITERAL + len(weights) + sums))
    for start in range(0, max(1, weights.shape[1]), width):
        yield np.ascontiguousarray(weights[:, start : start + width])
