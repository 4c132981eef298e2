"""The queries in NumPy: the counterpart of `compiled`."""

from __future__ import annotations

from functools import partial

import numpy as np

from nesymm.exact.circuits import numpy_passes, queries
from nesymm.exact.layers import Tables


def log_values(tables: Tables, weights: np.ndarray) -> np.ndarray:
    """The log weighted model counts of the roots, of shape (root, batch)."""
    return queries.evaluate(np, numpy_passes, tables, weights, "sum")[0]


marginals = partial(queries.marginals, np, numpy_passes)
most_probable = partial(queries.most_probable, np, numpy_passes)
