"""The enumerating backend: the table of all assignments.

The oracle of the circuit backend, and faster than it while the table is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from nesymm.inference.circuits.formula import AND, ATOM, FALSE, LITERAL, NOT, TRUE, Formula
from nesymm.inference.densities import log_sum_exp


class Enumeration:
    """All assignments of the variables of a formula, and which roots hold in each.

    Roots are named by their position, as in a circuit.
    """

    def __init__(self, formula: Formula, roots: Sequence[int]):
        self.sizes = tuple(formula.sizes)
        count = prod(self.sizes)
        columns = np.indices(self.sizes).reshape(len(self.sizes), count)
        self.assignments = np.ascontiguousarray(columns.T)
        offsets = np.cumsum((0, *self.sizes), dtype=np.int64)[:-1]
        self.literals = self.assignments + offsets
        self.truth = np.stack([truth(formula, r, columns, count) for r in roots], axis=-1)

    @property
    def states(self) -> int:
        return len(self.assignments)

    def _totals(self, log_weights: Any, xp: Any) -> Any:
        """The log-weight of every assignment."""
        return xp.sum(log_weights[..., self.literals], axis=-1)

    def log_values(self, log_weights: Any, xp: Any = np) -> Any:
        """The log of the weighted count of each root."""
        totals = self._totals(log_weights, xp)[..., :, None]
        masked = xp.where(self.truth, totals, -xp.inf)
        return log_sum_exp(xp, masked, axis=-2)

    def _log_posterior(self, log_weights: Any, root: int, xp: Any) -> Any:
        column = self.truth[:, root]
        masked = xp.where(column, self._totals(log_weights, xp), -xp.inf)
        return masked - log_sum_exp(xp, masked, axis=-1)[..., None]

    def marginals(self, log_weights: Any, root: int, xp: Any = np) -> Any:
        """The posterior probability of each literal, given a root."""
        posterior = xp.exp(self._log_posterior(log_weights, root, xp))
        one_hot = np.zeros((self.states, sum(self.sizes)))
        np.put_along_axis(one_hot, self.literals, 1.0, axis=-1)
        return posterior @ one_hot

    def sample(self, key: Any, log_weights: Any, root: int, shape: tuple[int, ...] = ()) -> Any:
        """Joint samples given a root: values of all variables."""
        import jax

        posterior = self._log_posterior(jax.numpy.asarray(log_weights), root, jax.numpy)
        size = (*shape, *posterior.shape[:-1])
        index = jax.random.categorical(key, posterior, shape=size)
        return jax.numpy.asarray(self.assignments)[index]

    def most_probable(self, log_weights: Any, root: int, xp: Any = np) -> tuple[Any, Any]:
        """The assignment of largest weight given a root, and its log-weight."""
        column = self.truth[:, root]
        masked = xp.where(column, self._totals(log_weights, xp), -xp.inf)
        best = xp.argmax(masked, axis=-1)
        return xp.asarray(self.assignments)[best], xp.max(masked, axis=-1)


Columns = Mapping[int, np.ndarray] | np.ndarray


def truth(formula: Formula, root: int, columns: Columns, count: int) -> np.ndarray:
    """The truth of one node in `count` assignments; cycles by least fixpoint.

    `columns` has the values of each variable in all of them.
    """
    known: dict[int, np.ndarray] = {}
    for component in formula.components([root]):
        if len(component) > 1 or formula.ops[component[0]] == ATOM:
            for node in component:
                known[node] = np.zeros(count, dtype=bool)
            while True:
                before = {n: known[n] for n in component}
                for node in component:
                    known[node] = _node(formula, node, known, columns, count)
                if all(np.array_equal(before[n], known[n]) for n in component):
                    break
        else:
            known[component[0]] = _node(formula, component[0], known, columns, count)
    return known[root]


# Assignments of more than these are not looked at one by one.
_LOOKED_AT = 4096


def can_hold(formula: Formula, root: int) -> bool:
    """Whether some assignment makes a node true; yes if there are too many to look at."""
    variables = sorted(formula.variable_order([root]))
    shape = [formula.sizes[v] for v in variables]
    count = prod(shape)
    if not variables or count > _LOOKED_AT:
        return root != formula.false
    columns = dict(zip(variables, np.unravel_index(np.arange(count), shape), strict=True))
    return bool(truth(formula, root, columns, count).any())


def _node(
    formula: Formula, node: int, known: dict[int, np.ndarray], columns: Columns, count: int
) -> np.ndarray:
    op, args = formula.ops[node], formula.args[node]
    if op in (TRUE, FALSE):
        return np.full(count, op == TRUE)
    if op == LITERAL:
        return columns[args[0]] == args[1]
    below = [known[a] for a in args]
    if op == NOT:
        return ~below[0]
    if op == ATOM:
        return below[0]
    return np.logical_and.reduce(below) if op == AND else np.logical_or.reduce(below)
