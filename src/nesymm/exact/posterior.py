"""Static inference: from a problem to a posterior."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nesymm.errors import NesymmError, located
from nesymm.exact.formula import LITERAL
from nesymm.exact.problem import Problem
from nesymm.exact.propositional import Drawn, Weight
from nesymm.exact.weights import Given, known

if TYPE_CHECKING:
    from nesymm.exact.circuit import Circuit

# Tables up to this size are enumerated; beyond it a circuit is compiled.
ENUMERATE_UP_TO = 4096
ENUMERATE_AT_MOST = 2**22
# For the most probable world a circuit is the alternative, whoever asked for what.
ENUMERATE_WORLDS = 2**16


# Positions among the roots of a problem; the queries follow.
PRIOR, EVIDENCE, FIRST_QUERY = 0, 1, 2


# How many variables the message about a problem that is too large spells out.
_SPELLED_OUT = 12


_PROBABILITY_ZERO = "the evidence is impossible: it has probability zero"


class Impossible(NesymmError):
    """The evidence has probability zero."""


def impossible(problem: Problem, message: str) -> Impossible:
    """The error that says where the evidence is written."""
    spans = [o.span for o in problem.step.observations if o.span is not None]
    places = list(dict.fromkeys(f"{s.source.name}:{s.line}:{s.column}" for s in spans))
    if len(places) > _SPELLED_OUT:
        places[_SPELLED_OUT:] = [f"{len(places) - _SPELLED_OUT:,} more places"]
    return Impossible(message + (f"\n  = note: see {', '.join(places)}" if places else ""))


def refuse_impossible(problem: Problem, log_evidence: Any) -> None:
    """Raise if the log-evidence, a JAX number, is known to be that of no world."""
    if known(log_evidence == -np.inf):
        raise impossible(problem, _PROBABILITY_ZERO)


class Forbidden(NesymmError):
    """Something that must not happen is possible given the evidence: clauses that disagree
    about a value, a probability above 1."""


class Intractable(NesymmError):
    """Too many variables depend on each other for any exact method.

    `variables` maps the names of all of them to the numbers of their values.
    """

    def __init__(self, message: str, variables: Mapping[str, int]):
        super().__init__(message)
        self.variables = dict(variables)


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
            variables = problem.named(range(len(problem.encoding.sources)))
            raise Intractable(
                f"enumerating needs {_power(problem.encoding.formula.sizes)} assignments, the "
                f"limit is {ENUMERATE_AT_MOST:,}\n  = note: {_spelled_out(variables)}\n"
                "  = help: use the circuit method",
                variables,
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
    from nesymm.exact.circuit import TooLarge, compile_formula

    try:
        return compile_formula(problem.encoding.formula, roots)
    except TooLarge as error:
        raise _intractable(problem, roots, str(error)) from error


def _intractable(problem: Problem, roots: Sequence[int], reason: str) -> Intractable:
    cluster = problem.largest_cluster(roots)
    return Intractable(
        f"{len(cluster):,} variables with {_power(cluster.values())} joint states depend on each "
        f"other: too many for exact inference\n  = note: {_spelled_out(cluster)}\n"
        f"  = note: {reason}\n  = help: ask for fewer queries at once, fix some of these "
        "variables by evidence, or leave some out",
        cluster,
    )


def _power(sizes: Iterable[int]) -> str:
    """The product of sizes, which may be beyond all numbers."""
    digits = sum(map(math.log10, sizes))
    return f"{10**digits:,.0f}" if digits < 6 else f"about 10^{digits:.0f}"


def _spelled_out(variables: Mapping[str, int]) -> str:
    named = [f"{name} ({size} values)" for name, size in variables.items()]
    if len(named) > _SPELLED_OUT:
        named[_SPELLED_OUT:] = [f"and {len(named) - _SPELLED_OUT:,} more"]
    return ", ".join(named)


@dataclass
class Solver:
    """A compiled problem: evaluates for any parameters, networks and data."""

    problem: Problem
    method: str
    reason: str
    backends: list[Backend]
    _worlds: dict[int, Backend] = field(default_factory=dict, repr=False)
    _faults: dict[int, Backend] = field(default_factory=dict, repr=False)

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

    def refuse_parameters(self, given: Given) -> None:
        """Raise if a learnable parameter has a value that it cannot have."""
        for parameter in self.problem.step.parameters:
            value = given.parameters.get(parameter.name)
            if value is None or parameter.constraint == "real":
                continue
            number = value if hasattr(value, "shape") else np.asarray(value)
            if parameter.constraint == "positive":
                inside, must = number > 0, "be positive"
            else:
                inside, must = (number >= 0) & (number <= 1), "lie between 0 and 1"
            if not known(inside.all(), unless=True):
                message = f"the parameter {parameter.name} must {must}, it is {value}"
                raise Forbidden(located(message, parameter.span))

    def refuse_faults(self, log_weights: Any, rank: int, xp: Any = np) -> None:
        """Raise if what must not happen is possible, given the evidence of a precedence."""
        faults, formula = self.problem.faults, self.problem.encoding.formula
        if not faults:
            return
        if rank not in self._faults:
            evidence = self.problem.evidences[rank]
            roots = [formula.and_([evidence, fault]) for _, fault in faults]
            self._faults[rank] = build(self.problem, self.method, roots)
        possible = self._faults[rank].log_values(log_weights, xp) > -np.inf
        for i, (flag, _) in enumerate(faults):
            if known(possible[..., i].any()):
                raise Forbidden(located(flag.message, flag.span))

    @cached_property
    def groundings(self) -> frozenset[str]:
        """The answers to queries with variables that can hold if there is no evidence.

        Evidence that rules one out gives it the probability zero. What cannot be decided is
        taken not to hold.
        """
        formula = self.problem.encoding.formula
        asked = [q for q in self.problem.queries if q.possible]
        try:
            backend = build(self.problem, self.method, [q.formula for q in asked])
        except Intractable:
            return frozenset()
        models = np.asarray(backend.log_values(np.zeros(sum(formula.sizes))))
        return frozenset(q.name for q, count in zip(asked, models, strict=True) if count > -np.inf)

    def worlds(self, rank: int) -> Backend:
        """The backend for the worlds in which the evidence of a precedence holds.

        Where the table of assignments is too large, a circuit is compiled instead.
        """
        if rank not in self._worlds:
            problem = self.problem.worlds
            small = problem.states <= ENUMERATE_WORLDS
            method = "enumerate" if self.method == "enumerate" and small else "circuit"
            root = problem.encoding.formula.and_([problem.evidences[rank], problem.rules])
            self._worlds[rank] = build(problem, method, [root])
        return self._worlds[rank]

    def most_probable(self, given: Given) -> tuple[np.ndarray, float]:
        """The most probable assignment of `problem.worlds` and its log-weight."""
        weights = np.asarray(self.problem.worlds.weights(given))
        for rank in range(len(self.problem.worlds.evidences)):
            row, log_weight = self.worlds(rank).most_probable(weights, 0)
            if log_weight > -np.inf:
                return np.asarray(row), float(log_weight)
        raise impossible(self.problem, _PROBABILITY_ZERO)

    @property
    def circuit(self) -> Circuit:
        """The circuit, compiled when it is first needed.

        It evaluates the log-weights that `weights` gives, or others of the same shape, to
        log-values of the roots: what always holds, the evidence, then the evidence with each
        query. It can be saved, and evaluated where there is neither the program nor its
        compiler.
        """
        from nesymm.exact.circuit import Circuit

        if len(self.problem.evidences) > 1:
            raise NesymmError(
                "the observations mix point masses and densities, which takes several circuits; "
                "`backend` gives each"
            )
        found = self.backend(0)
        if not isinstance(found, Circuit):
            raise NesymmError(
                f"the method is {self.method}; `solver(method='circuit')` has a circuit"
            )
        return found

    @property
    def literals(self) -> list[tuple[str, Any]]:
        """What each of `weights` belongs to: a variable and one of its values.

        A variable whose parameters depend on others is listed once for every combination of
        their values. Densities and conditions that data decides count as Boolean.
        """
        found: list[tuple[str, Any]] = []
        for source in self.problem.encoding.sources:
            match source:
                case Drawn():
                    found += [(source.name, value) for value in source.variable.outcomes]
                case Weight():
                    name = f"density of {source.variable.name}"
                    found += [(name, False), (name, True)]
                case _:
                    found += [(str(source.condition), False), (str(source.condition), True)]
        return found

    def weights(self, given: Given | None = None) -> np.ndarray:
        """The log-weights of the circuit's literals for given parameters, networks and data."""
        return np.asarray(self.problem.weights(given or Given()))

    def differentiable_log_values(self, given: Given) -> Any:
        """Log-values of the roots in JAX, with gradients that are right where weights are
        zero, too."""
        import jax
        import jax.numpy as jnp

        self.refuse_parameters(given)
        # Values from the weights as they are, slopes from weights kept off zero: one pass.
        real = jnp.result_type(float)  # float64 only if JAX may use it
        exact, floored = self.problem.weights.with_slopes(given, jnp, real)
        weights = jnp.stack([jax.lax.stop_gradient(exact), floored])
        found = None
        for rank in reversed(range(len(self.problem.evidences))):
            values, slopes = self.backend(rank).log_values(weights, jnp)
            # What is impossible has no slope, and -inf minus -inf is not a number.
            slopes = jnp.where(jnp.isfinite(slopes), slopes, 0.0)
            here = jax.lax.stop_gradient(values) + slopes - jax.lax.stop_gradient(slopes)
            if known(values[EVIDENCE] > -jnp.inf):
                self.refuse_faults(jax.lax.stop_gradient(exact), rank, jnp)
            found = here if found is None else jnp.where(values[EVIDENCE] > -jnp.inf, here, found)
        return found


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

    def sample(self, n: int, seed: int = 0) -> list[dict[str, Any]]:
        """Worlds from the posterior: joint samples of the finite variables.

        As in `most_probable`, a variable that is not drawn in a world is not in it.
        """
        import jax

        self._refuse_samples()
        weights = np.asarray(self._solver.problem.worlds.weights(self._given, np))
        backend = self._solver.worlds(self._rank)
        rows = np.asarray(backend.sample(jax.random.key(seed), weights, 0, (n,)))
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
        return np.asarray(self._solver.problem.weights(self._given, np))

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


def infer(solver: Solver, given: Given, samples: int = 10_000, seed: int = 0) -> Posterior:
    """The posterior of a compiled problem, exactly where it can be."""
    solver.refuse_parameters(given)
    if solver.problem.sampled:
        from nesymm.exact.montecarlo import estimate

        return estimate(solver, given, samples, seed)
    weights = solver.weights(given)
    for rank in range(len(solver.problem.evidences)):
        values = np.asarray(solver.backend(rank).log_values(weights, np))
        if values[EVIDENCE] > -np.inf:
            solver.refuse_faults(weights, rank)
            return Posterior(solver, given, rank, values)
    raise impossible(solver.problem, _PROBABILITY_ZERO)
