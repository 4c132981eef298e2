"""Circuits: exact inference over finite variables, compiled once.

    formula = Formula([2, 3])
    root = formula.or_([formula.literal(0, 1), formula.literal(1, 2)])
    circuit = compile_formula(formula, [root])
    circuit.log_values(np.log([0.4, 0.6, 0.2, 0.3, 0.5]))

A circuit is a handful of integer arrays. It is compiled with PySDD, and saved, loaded and
evaluated without it: in NumPy, which is quick for single queries, or in JAX, for batches,
gradients and samples. Weights are logarithms, finite or `-inf`, one for each value of each
variable, in one row; leading dimensions are batches (quicker than `vmap`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.circuits.compiler import MAX_NODES, MAX_SECONDS, TooLarge, compile_graph
from nesymm.inference.circuits.formula import Formula
from nesymm.inference.circuits.graph import Graph
from nesymm.inference.circuits.layers import Tables, tables_of
from nesymm.inference.npz import read_npz

if TYPE_CHECKING:
    import jax

__all__ = ["Circuit", "TooLarge", "compile_formula"]

Array = Any


def compile_formula(
    formula: Formula,
    roots: Sequence[int],
    *,
    max_nodes: int = MAX_NODES,
    max_seconds: float = MAX_SECONDS,
) -> Circuit:
    """One circuit for several formulas. Raises `TooLarge` where that takes more than
    `max_nodes` or `max_seconds`."""
    return Circuit(compile_graph(formula, roots, max_nodes=max_nodes, max_seconds=max_seconds))


class Circuit:
    """Weighted model counts of formulas (its roots) over finite variables.

    The weight of an assignment is the product of the weights of its literals, over all
    variables. Methods take NumPy or JAX arrays and answer in kind; `xp` (`numpy` or
    `jax.numpy`) overrides that. Circuits are immutable, hashable and compare by content.
    """

    def __init__(self, graph: Graph):
        self._graph = graph

    # ------------------------------------------------------------ contents

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each variable has."""
        return tuple(self._graph.sizes.tolist())

    @property
    def roots(self) -> tuple[int, ...]:
        """The nodes of the graph that are roots."""
        return tuple(self._graph.roots.tolist())

    @cached_property
    def tables(self) -> Tables:
        """The tables of the layers; made when they are first needed."""
        return tables_of(self._graph)

    def __repr__(self) -> str:
        graph = self._graph
        return (
            f"Circuit({len(graph.sizes)} variables, {len(graph.roots)} roots, "
            f"{len(graph.scopes)} sums, {len(graph.primes)} products)"
        )

    def __eq__(self, other: object) -> bool:
        return self._graph == other._graph if isinstance(other, Circuit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._graph)

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> dict[str, np.ndarray]:
        return self._graph.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Circuit:
        return cls(Graph.from_arrays(arrays))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes an `.npz` file."""
        with open(path, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **self.to_arrays())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Circuit:
        try:
            return cls.from_arrays(read_npz(path))
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise NesymmError(f"`{path}` does not hold a circuit: {error}") from None

    # ------------------------------------------------------------ queries

    def log_values(self, log_weights: Array, xp: Any = None) -> Array:
        """The log weighted model count of each root; `-inf` where it is impossible.

        `log_weights` is of shape (..., sum(sizes)), the result of shape (..., roots).
        """
        xp, weights, batch = self._columns(log_weights, xp)
        values = _library(xp).log_values(self.tables, weights)
        return values.T.reshape(*batch, len(self._graph.roots))

    def marginals(self, log_weights: Array, root: int, xp: Any = None) -> Array:
        """The posterior probability of each literal given a root, of shape
        (..., sum(sizes)); zeros where the root is impossible."""
        xp, weights, batch = self._columns(log_weights, xp)
        found = _library(xp).marginals(self.tables, weights, self._root(root))
        return found.T.reshape(*batch, weights.shape[0])

    def most_probable(self, log_weights: Array, root: int, xp: Any = None) -> tuple[Array, Array]:
        """An assignment of the largest weight in which a root holds, of shape
        (..., variables), and its log weight; where the root is impossible, the log weight
        is `-inf` and the assignment ignores it."""
        xp, weights, batch = self._columns(log_weights, xp)
        best, weight = _library(xp).most_probable(self.tables, weights, self._root(root))
        return best.T.reshape(*batch, len(self._graph.sizes)), weight.reshape(batch)

    def sample(
        self, key: jax.Array, log_weights: Array, root: int, shape: tuple[int, ...] = ()
    ) -> jax.Array:
        """Assignments drawn jointly, given a root, of shape (*shape, ..., variables).
        Where the root is impossible, they ignore it. There is no gradient."""
        import jax
        import jax.numpy as jnp

        from nesymm.inference.circuits import compiled

        _, weights, batch = self._columns(log_weights, jnp)
        drawn = compiled.sample(
            key,
            self.tables,
            jax.lax.stop_gradient(weights),
            self._root(root),
            prod(shape),
            self._graph.scope_count,
        )
        return jnp.moveaxis(drawn, 1, 2).reshape(*shape, *batch, len(self._graph.sizes))

    # ------------------------------------------------------------ arguments

    def _columns(self, log_weights: Array, xp: Any) -> tuple[Any, Array, tuple[int, ...]]:
        """The array library to use, weights with the batch last, and the batch's shape."""
        if xp is None:
            xp = _namespace(log_weights)
        weights = xp.asarray(log_weights)
        if not xp.issubdtype(weights.dtype, xp.floating):
            weights = weights.astype(float)
        count = int(self._graph.sizes.sum())
        if weights.shape[-1:] != (count,):
            raise ValueError(
                f"the circuit needs {count} log weights in the last dimension, one for each "
                f"value of its {len(self._graph.sizes)} variables, but their shape is "
                f"{weights.shape}"
            )
        batch = weights.shape[:-1]
        return xp, weights.reshape(prod(batch), count).T, batch

    def _root(self, root: int) -> int:
        if not 0 <= root < len(self._graph.roots):
            raise IndexError(f"the circuit has {len(self._graph.roots)} roots, so no root {root}")
        return root


def _namespace(array: Array) -> Any:
    """`jax.numpy` for JAX's arrays, NumPy for all else. JAX is not imported for it."""
    jax = sys.modules.get("jax")
    return jax.numpy if jax is not None and isinstance(array, jax.Array) else np


def _library(xp: Any) -> Any:
    if xp is np:
        from nesymm.inference.circuits import interpreted

        return interpreted
    from nesymm.inference.circuits import compiled

    return compiled
