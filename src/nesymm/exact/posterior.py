"""Static inference: from a problem to a posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nesymm.errors import NesymmError
from nesymm.exact.problem import Problem
from nesymm.exact.propositional import Drawn
from nesymm.exact.weights import Given

# Tables up to this size are enumerated; beyond it a circuit is compiled.
ENUMERATE_UP_TO = 4096
ENUMERATE_AT_MOST = 2**22


# Positions among the roots of a problem; the queries follow.
PRIOR, EVIDENCE, FIRST_QUERY = 0, 1, 2


class Impossible(NesymmError):
    """The evidence has probability zero."""


class Backend(Protocol):
    def log_values(self, log_weights: Any, xp: Any = np) -> Any: ...

    def marginals(self, log_weights: Any, root: int) -> Any: ...

    def sample(self, key: Any, log_weights: Any, root: int, shape: tuple[int, ...] = ()) -> Any: ...

    def most_probable(self, log_weights: Any, root: int) -> tuple[Any, Any]: ...


def choose(problem: Problem, method: str) -> tuple[str, str]:
    """The backend to use, and why."""
    states = problem.states
    if method == "enumerate":
        if states > ENUMERATE_AT_MOST:
            names = ", ".join(sorted({n for n, _ in problem.encoding.elements})[:8])
            raise NesymmError(
                f"enumerating needs {states:.3g} assignments, the limit is "
                f"{ENUMERATE_AT_MOST:,}; the variables are {names}…\n  = help: use the circuit "
                "method"
            )
        return "enumerate", "as asked"
    if method == "circuit":
        return "circuit", "as asked"
    if method != "auto":
        raise NesymmError(
            f"there is no method called {method}; the methods are auto, enumerate and circuit"
        )
    if states <= ENUMERATE_UP_TO:
        return "enumerate", f"a table of {int(states):,} worlds is small"
    return "circuit", f"a table of {states:.3g} worlds would be large"


def build(problem: Problem, method: str, roots: Sequence[int]) -> Backend:
    if method == "enumerate":
        from nesymm.exact.enumerate import Enumeration

        return Enumeration(problem.encoding.formula, roots)
    from nesymm.exact.circuit import compile_formula

    return compile_formula(problem.encoding.formula, roots)


@dataclass
class Solver:
    """A compiled problem: evaluates for any parameters, networks and data."""

    problem: Problem
    method: str
    reason: str
    backends: list[Backend]

    @classmethod
    def compile(cls, problem: Problem, method: str = "auto") -> Solver:
        name, reason = choose(problem, method)
        return cls(problem, name, reason, [])

    def backend(self, rank: int) -> Backend:
        """The backend for the evidence of a given precedence."""
        while len(self.backends) <= rank:
            roots = self.problem.roots(self.problem.evidences[len(self.backends)])
            self.backends.append(build(self.problem, self.method, roots))
        return self.backends[rank]

    def log_values(self, given: Given, xp: Any = np, rank: int = 0, floor: bool = False) -> Any:
        """Log-values of the roots: prior, evidence, evidence and each query."""
        return self.backend(rank).log_values(self.problem.weights(given, xp, floor=floor), xp)


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
        self.queries: dict[str, float] = {}
        for asked, value in zip(solver.problem.queries, log_values[FIRST_QUERY:], strict=True):
            if value > -np.inf or not asked.possible:
                self.queries[asked.name] = math.exp(min(0.0, float(value - log_values[EVIDENCE])))
        self.stderr = dict(stderr or {})

    def probability(self, query: str) -> float:
        """The probability of a query, by the name under which it is listed."""
        from nesymm.compiler.runtime import atom_text
        from nesymm.exact.names import canonical

        name = canonical(query)
        if name in self.queries:
            return self.queries[name]
        known = ", ".join(list(self.queries)[:12]) or "none"
        raise NesymmError(
            f"{atom_text('query', (name,))} is not asked in the program; it asks: {known}"
        )

    def marginal(self, variable: str) -> dict[Any, float]:
        """The posterior distribution of a finite random variable."""
        backend = self._solver.backend(self._rank)
        literals = np.asarray(backend.marginals(self._weights(), EVIDENCE))
        start = 0
        sources = self._solver.problem.encoding.sources
        found: list[tuple[Drawn, np.ndarray]] = []
        for source in sources:
            size = len(source.variable.outcomes) if isinstance(source, Drawn) else 2
            if isinstance(source, Drawn) and source.variable.name == variable:
                found.append((source, literals[start : start + size]))
            start += size
        if len(found) != 1:
            names = sorted({s.variable.name for s in sources if isinstance(s, Drawn)})
            raise NesymmError(
                f"there is no single finite variable called {variable}; there are: "
                f"{', '.join(names[:12])}"
            )
        source, values = found[0]
        assert source.variable.support is not None
        return dict(zip(source.variable.support, map(float, values), strict=True))

    def sample(self, n: int, seed: int = 0) -> list[dict[str, Any]]:
        """Joint samples of the finite variables from the posterior."""
        import jax

        backend = self._solver.backend(self._rank)
        key = jax.random.key(seed)
        drawn = np.asarray(backend.sample(key, self._weights(), EVIDENCE, (n,)))
        return [self._assignment(row) for row in drawn]

    def most_probable(self) -> tuple[dict[str, Any], float]:
        """The most probable values of the finite variables, and their probability."""
        backend = self._solver.backend(self._rank)
        row, log_weight = backend.most_probable(self._weights(), EVIDENCE)
        log_values = self._solver.log_values(self._given, np, self._rank)
        return self._assignment(np.asarray(row)), math.exp(
            float(log_weight) - float(log_values[EVIDENCE])
        )

    def _weights(self) -> np.ndarray:
        return np.asarray(self._solver.problem.weights(self._given, np))

    def _assignment(self, row: np.ndarray) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for index, source in enumerate(self._solver.problem.encoding.sources):
            if isinstance(source, Drawn):
                assert source.variable.support is not None
                out[source.variable.name] = source.variable.support[int(row[index])]
        return out


def infer(solver: Solver, given: Given, samples: int = 10_000, seed: int = 0) -> Posterior:
    """The posterior of a compiled problem, exactly where it can be."""
    if solver.problem.sampled:
        from nesymm.exact.montecarlo import estimate

        return estimate(solver, given, samples, seed)
    for rank in range(len(solver.problem.evidences)):
        values = np.asarray(solver.log_values(given, np, rank))
        if values[EVIDENCE] > -np.inf:
            return Posterior(solver, given, rank, values)
    raise Impossible("the evidence is impossible: it has probability zero")
