"""What static inference finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.html import table
from nesymm.inference.circuits.formula import LITERAL
from nesymm.inference.options import Key, as_key, check_key
from nesymm.inference.static.solver import EVIDENCE, FIRST_QUERY, PRIOR, Solver, build
from nesymm.inference.static.sources import Drawn
from nesymm.inference.static.weights import Given

# How many answers are shown.
_SHOWN = 8


class Posterior:
    """The answer to a program: probabilities of its queries given its evidence."""

    def __init__(
        self,
        solver: Solver,
        given: Given,
        rank: int,
        log_values: np.ndarray,
        stderr: Mapping[str, float] | None = None,
    ):
        self._solver = solver
        self._given = given
        self._rank = rank
        self.method = solver.method
        self.reason = solver.reason
        self.log_evidence = float(log_values[EVIDENCE] - log_values[PRIOR])
        posterior = log_values[FIRST_QUERY:] - log_values[EVIDENCE]
        self.queries = {
            asked.name: math.exp(min(0.0, float(value)))
            for asked, value in zip(solver.problem.queries, posterior, strict=True)
            if value > -np.inf or not asked.possible or asked.name in solver.groundings
        }
        self.stderr = dict(stderr or {})

    def __repr__(self) -> str:
        shown = [f"{name}: {p:.6g}" for name, p in self.queries.items()]
        more = f", … ({len(shown)})" if len(shown) > _SHOWN else ""
        return f"Posterior({', '.join(shown[:_SHOWN])}{more}; {self.method})"

    def _repr_html_(self) -> str:
        return table(["query", "probability"], self.queries.items())

    def probability(self, query: str) -> float:
        """The probability of a query, by the name under which it is listed."""
        from nesymm.inference.static.names import canonical
        from nesymm.ir.terms import atom_text

        name = canonical(query)
        if name in self.queries:
            return self.queries[name]
        known = ", ".join(list(self.queries)[:12]) or "none"
        raise NesymmError(
            f"{atom_text('query', (name,))} is not asked in the program; it asks: {known}"
        )

    def marginal(self, variable: str) -> dict[Any, float]:
        """The posterior distribution of a finite random variable, by its name in `nesymm show`.

        A variable with keys has one for each: `p(2)`. In worlds where it is not drawn, it
        counts by its probabilities all the same.
        """
        elements = self._elements()
        if variable not in elements:
            raise NesymmError(
                f"there is no finite variable called {variable}; there are: "
                f"{', '.join(sorted(elements)[:12]) or 'none'}"
            )
        problem = self._solver.problem
        formula, values = problem.encoding.formula, elements[variable]
        weights = self._weights()
        if all(formula.ops[f] == LITERAL for f in values.values()):
            literals = self._solver.backend(self._rank).marginals(weights, EVIDENCE)
            starts = np.cumsum([0, *formula.sizes])
            places = [starts[v] + i for v, i in (formula.args[f] for f in values.values())]
            found = np.asarray(literals)[places]
        else:
            # Its distribution depends on other variables: no literal stands for a value.
            evidence = problem.evidences[self._rank]
            roots = [evidence, *(formula.and_([evidence, f]) for f in values.values())]
            logs = np.asarray(build(problem, self.method, roots).log_values(weights, np))
            found = np.exp(logs[1:] - logs[0])
        return dict(zip(values, map(float, found), strict=True))

    def sample(self, n: int, key: Key = 0) -> list[dict[str, Any]]:
        """Worlds from the posterior: joint samples of the finite variables.

        As in `most_probable`, a variable that is not drawn in a world is not in it.
        """

        key = check_key(key)
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise NesymmError(f"n: expected a whole number from 0, received {n!r}")
        self._refuse_samples()
        weights = self._solver.problem.worlds.weights(self._given)
        backend = self._solver.worlds(self._rank)
        rows = np.asarray(backend.sample(as_key(key), weights, 0, (n,)))
        return [self._world(row) for row in rows]

    def most_probable(self) -> tuple[dict[str, Any], float]:
        """The most probable world given the evidence, and its probability given the evidence.

        A world is an assignment of the finite variables that are drawn in it: of those that
        the evidence and the queries can depend on, the ones whose conditions hold (the body
        of `0.8::a :- b.`, for example). It lists no others. What is maximised is the joint
        probability of the world and the evidence: the product of the probabilities of all
        listed values, each given those that its distribution depends on, and of the
        densities of observed values; worlds that contradict the evidence have none. Since
        worlds differ in what is drawn, a world that needs fewer draws is at an advantage.

        Continuous variables that are only compared with thresholds are listed by the number
        of the interval that they fall into. Of several most probable worlds, one is found.
        """
        self._refuse_samples()
        row, log_weight = self._solver.most_probable(self._given)
        # Rounding must not make a world that is certain more than that.
        return self._world(row), math.exp(min(0.0, log_weight - self.log_evidence))

    def _world(self, row: np.ndarray) -> dict[str, Any]:
        """What an assignment of `problem.worlds` means: the variables that are drawn."""
        world: dict[str, Any] = {}
        for source, index in zip(self._solver.problem.worlds.encoding.sources, row, strict=True):
            # One choice at most of all those that stand for a variable is drawn.
            if isinstance(source, Drawn) and index < len(source.variable.outcomes):
                assert source.variable.support is not None
                world[source.name] = source.variable.support[index]
        return world

    def _weights(self) -> np.ndarray:
        self._refuse_samples()
        return self._solver.problem.weights(self._given)

    def _refuse_samples(self) -> None:
        if self._solver.problem.sampled:
            raise NesymmError(
                "this program needs sampling, and its posterior only answers its queries"
            )

    def _elements(self) -> dict[str, dict[Any, int]]:
        """The finite variables, one for each key: the formula of each of their values."""
        encoding = self._solver.problem.encoding
        out: dict[str, dict[Any, int]] = {}
        for source in encoding.sources:
            if isinstance(source, Drawn):
                variable = source.variable
                assert variable.support is not None
                written = dict(zip(variable.outcomes, variable.support, strict=True))
                values = encoding.elements[variable.name, source.key]
                out[source.name] = {written[v]: f for v, f in values.items()}
        return out
