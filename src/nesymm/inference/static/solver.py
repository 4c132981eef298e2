"""Static inference: a compiled problem, by enumeration or by a circuit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nesymm.errors import NesymmError, located
from nesymm.inference.densities import with_gradient_of
from nesymm.inference.static.problem import Problem
from nesymm.inference.static.sources import Drawn, Weight
from nesymm.inference.static.weights import Given, known

if TYPE_CHECKING:
    from nesymm.inference.circuits.circuit import Circuit
    from nesymm.inference.circuits.enumerate import Enumeration

# Tables up to this size are enumerated; beyond it a circuit is compiled.
ENUMERATE_UP_TO = 4096
ENUMERATE_AT_MOST = 2**22
# For the most probable world a circuit is the alternative, whoever asked for what.
ENUMERATE_WORLDS = 2**16


# Positions among the roots of a problem; the queries follow.
PRIOR, EVIDENCE, FIRST_QUERY = 0, 1, 2


# How many variables the message about a problem that is too large spells out.
_SPELLED_OUT = 12


PROBABILITY_ZERO = "the evidence is impossible: it has probability zero"


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
        raise impossible(problem, PROBABILITY_ZERO)


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


Backend: TypeAlias = "Enumeration | Circuit"


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
        from nesymm.inference.circuits.enumerate import Enumeration

        return Enumeration(problem.encoding.formula, roots)
    from nesymm.inference.circuits.circuit import TooLarge, compile_formula

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
                cure = f"\n  = help: {flag.cure}" if flag.cure else ""
                raise Forbidden(located(flag.message, flag.span) + cure)

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
        weights = self.problem.worlds.weights(given)
        for rank in range(len(self.problem.worlds.evidences)):
            row, log_weight = self.worlds(rank).most_probable(weights, 0)
            if log_weight > -np.inf:
                return np.asarray(row), float(log_weight)
        raise impossible(self.problem, PROBABILITY_ZERO)

    @property
    def circuit(self) -> Circuit:
        """The circuit, compiled when it is first needed.

        It evaluates the log-weights that `weights` gives, or others of the same shape, to
        log-values of the roots: what always holds, the evidence, then the evidence with each
        query. It can be saved, and evaluated where there is neither the program nor its
        compiler.
        """
        from nesymm.inference.circuits.circuit import Circuit

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
        return self.problem.weights(given or Given())

    def differentiable_log_values(self, given: Given) -> Any:
        """Log-values of the roots in JAX, with gradients that are right where weights are
        zero, too: while JAX differentiates, such a query has the logarithm of a tiny number."""
        import jax
        import jax.numpy as jnp

        self.refuse_parameters(given)
        # Values from the weights as they are, gradients from weights kept off zero: one pass.
        exact, off = self.problem.weights.with_gradients(given)
        weights = jnp.stack([jax.lax.stop_gradient(exact), off])
        found, impossible = None, True
        for rank in reversed(range(len(self.problem.evidences))):
            values, off = self.backend(rank).log_values(weights, jnp)
            here = with_gradient_of(values, off)
            if known(values[EVIDENCE] > -jnp.inf):
                self.refuse_faults(jax.lax.stop_gradient(exact), rank, jnp)
            found = here if found is None else jnp.where(values[EVIDENCE] > -jnp.inf, here, found)
            impossible = impossible & (values[EVIDENCE] == -jnp.inf)
        assert found is not None
        return jnp.where(impossible, -jnp.inf, found)
