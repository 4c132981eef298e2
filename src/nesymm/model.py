"""`compile` and `Model`: a program with its networks and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.html import table
from nesymm.inference.networks import check_networks
from nesymm.inference.options import Key, check_key
from nesymm.ir.parameters import check_parameters, initial_values
from nesymm.ir.step import StepProgram

if TYPE_CHECKING:
    from nesymm.inference.data_files import AnyData
    from nesymm.inference.estimates import Estimate
    from nesymm.inference.explanation import Firing
    from nesymm.inference.filter import Filter, Request
    from nesymm.inference.methods import Method
    from nesymm.inference.results import Filtered, Smoothed
    from nesymm.inference.static.posterior import Posterior
    from nesymm.inference.static.solver import Solver
    from nesymm.inference.static.weights import Given
    from nesymm.inference.stream import Stream
    from nesymm.inference.trajectories import Trajectories
    from nesymm.language.program import CheckedProgram
    from nesymm.language.terms import Program
    from nesymm.training.results import Fitted

Network = Callable[..., Any]

_PARAMETERS = "parameters: expected a dictionary of numbers by name"

# How many names of a kind are shown of a model.
_SHOWN = 8


@dataclass(frozen=True, eq=False, repr=False)
class Compiled:
    """A program as it was written, checked and compiled, and what was prepared to answer it.

    Two are the same only if they are one object, so that JAX compiles once for each.
    """

    program: CheckedProgram
    step: StepProgram
    sources: tuple[Program, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    solvers: dict[Any, Solver] = field(default_factory=dict)
    filters: dict[Any, Filter] = field(default_factory=dict)


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A compiled program, the values of its learnable `t(_)`s, and its networks.

    A model does not change: `with_parameters`, `with_networks`, `with_constants` and `extend` give
    another one. It is a pytree, whose leaves are the parameters and the arrays of the networks:
    `jax.grad`, `jax.vmap` and `equinox.filter_jit` take models.
    """

    compiled: Compiled
    parameters: Mapping[str, Any]
    networks: Mapping[str, Network]
    # What a model that JAX made was made of. Its leaves may be anything, and its structure must not
    # depend on them.
    _flat: tuple[tuple[Any, Any], Any] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"Model({'; '.join(f'{title}: {what}' for title, what in self._summary())})"

    def _repr_html_(self) -> str:
        return table((), self._summary())

    def _summary(self) -> list[tuple[str, str]]:
        """What it reads, has and answers, in a few words each."""
        step = self.step
        declared = [p.name for p in step.parameters if p.name in self.parameters]
        names = [n.name for n in step.networks]
        parts = {
            "inputs": [i.name for i in step.inputs],
            "observes": [o.name for o in step.observations],
            "asks": [q.name for q in step.queries],
            "parameters": [f"{n}={_short(self.parameters[n])}" for n in declared],
            "networks": [n if n in self.networks else f"{n} (not given)" for n in names],
            "constants": [f"{n}={v}" for n, v in self.constants.items()],
        }
        time = "one step after another" if step.temporal else "none"
        return [("time", time), *((n, _listed(p)) for n, p in parts.items() if p)]

    # ------------------------------------------------------------ a pytree

    def tree_flatten_with_keys(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        if self._flat is None:
            leaves, tree = jax.tree.flatten(dict(self.networks))
            arrays = [x if _is_array(x) else None for x in leaves]
            # A network may hold functions and settings besides: they are no leaves of a model.
            rest = tuple(None if _is_array(x) else x for x in leaves)
            parts = dict(self.parameters), jax.tree.unflatten(tree, arrays)
            about: Any = (self.compiled, tree, rest)
        else:
            parts, about = self._flat
        names = ("parameters", "networks")
        keys = (jax.tree_util.GetAttrKey(name) for name in names)
        return tuple(zip(keys, parts, strict=True)), about

    @classmethod
    def tree_unflatten(cls, kept: tuple[Any, ...], children: tuple[Any, ...]) -> Model:
        compiled, tree, rest = kept
        parameters, networks = children
        try:
            leaves = tree.flatten_up_to(networks)
        except (ValueError, TypeError):
            pass  # a skeleton that JAX makes
        else:
            whole = [a if r is None else r for a, r in zip(leaves, rest, strict=True)]
            networks = jax.tree.unflatten(tree, whole)
        model = cls(compiled, parameters, networks)
        object.__setattr__(model, "_flat", (children, kept))
        return model

    # ------------------------------------------------------------ what it is made of

    @property
    def program(self) -> CheckedProgram:
        """The program as it was checked."""
        return self.compiled.program

    @property
    def step(self) -> StepProgram:
        """The compiled transition."""
        return self.compiled.step

    @property
    def constants(self) -> Mapping[str, Any]:
        """The constants that were given, which replace those of the program."""
        return self.compiled.constants

    @property
    def text(self) -> str:
        """The text of the program, all its parts."""
        return "\n".join(p.text for p in self.compiled.sources if p.source is not None)

    # ------------------------------------------------------------ adaptation

    def with_parameters(self, parameters: Mapping[str, Any] | None = None, /, **more: Any) -> Model:
        """The same model with other values for some of its parameters."""
        given = _merged(parameters, more, _PARAMETERS)
        check_parameters(self.step, given)
        return replace(self, parameters={**self.parameters, **given})

    def with_networks(self, networks: Mapping[str, Any] | None = None, /, **more: Any) -> Model:
        """The same model with some of its networks, or others for them."""
        given = _merged(networks, more, "networks: expected a dictionary of functions by name")
        check_networks(self.program.networks, given)
        return replace(self, networks={**self.networks, **given})

    def with_constants(self, **constants: Any) -> Model:
        """The same program with other constants (a larger grid, more enemies).

        It keeps networks and parameters.
        """
        return self._again(self.compiled.sources, {**self.constants, **constants})

    def extend(self, text: str | Path, name: str = "<extension>") -> Model:
        """The same program with further clauses, observations and queries, a text or a file.

        Nothing is taken back, and networks and parameters stay.
        """
        from nesymm.language.loading import parse_source

        return self._again((*self.compiled.sources, parse_source(text, name)), self.constants)

    def _again(self, sources: tuple[Program, ...], constants: Mapping[str, Any]) -> Model:
        new = compile(list(sources), constants=constants)
        parameters = {n: _kept(v, self.parameters.get(n)) for n, v in new.parameters.items()}
        networks = {n: f for n, f in self.networks.items() if n in new.program.networks}
        return replace(new, networks=networks, parameters=parameters)

    # ------------------------------------------------------------ without time

    def infer(
        self,
        data: AnyData | None = None,
        *,
        method: str = "auto",
        samples: int = 10_000,
        key: Key = 0,
    ) -> Posterior:
        """The posterior of the queries given the evidence, for a program without time.

        `data` holds what `:- input` declares and what `observe/1` reads; None and NaN are missing.
        `method` is auto, enumerate or circuit; `samples` counts where something must be sampled.
        """
        from nesymm.inference.static.infer import infer

        key = check_key(key)
        given, observed = self._given(data, bits=64)
        return infer(self.solver(observed, method), given, samples, key)

    def log_probability(self, query: str, data: AnyData | None = None, method: str = "auto") -> Any:
        """log P(query | evidence) as a JAX number: differentiable in parameters and networks.

        Impossible evidence raises `Impossible`. While JAX compiles or vectorises (`jit`,
        `vmap`), the values are not known yet: then the result is not a number (NaN) where
        the evidence is impossible.
        """
        from nesymm.inference.static.names import canonical
        from nesymm.inference.static.solver import EVIDENCE, FIRST_QUERY, refuse_impossible

        given, observed = self._given(data)
        solver = self.solver(observed, method)
        if solver.problem.sampled:
            raise NesymmError("the query needs sampling; its gradient is not exact")
        names = [a.name for a in solver.problem.queries]
        name = canonical(query)
        if name not in names:
            raise NesymmError(f"{query} is not asked in the program; it asks: {', '.join(names)}")
        at = FIRST_QUERY + names.index(name)
        values = solver.differentiable_log_values(given)
        refuse_impossible(solver.problem, values[EVIDENCE])
        return values[at] - values[EVIDENCE]

    def solver(self, observed: frozenset[str] = frozenset(), method: str = "auto") -> Solver:
        """The compiled problem behind `infer`, for these observations."""
        from nesymm.inference.static.problem import Problem
        from nesymm.inference.static.solver import Solver

        self._refuse_time()
        solvers = self.compiled.solvers
        if (observed, method) not in solvers:
            problem = Problem(self.step, observed)
            solvers[observed, method] = Solver.compile(problem, method)
        return solvers[observed, method]

    def _given(self, data: AnyData | None, bits: int | None = None) -> tuple[Given, frozenset[str]]:
        """What is known of a program without time, and the names of what is observed; `bits` are
        those of numbers, if not those that JAX has."""
        from nesymm.inference.data import prepare_single
        from nesymm.inference.data_files import world_of
        from nesymm.inference.static.weights import Given

        self._refuse_time()
        arrays = {} if data is None else world_of(self.step, data)
        values, masks = prepare_single(self.step, arrays, bits)
        observes = {o.name for o in self.step.observations}
        observed = frozenset(n for n in values if n in observes and values[n] is not None)
        return Given(dict(self.parameters), dict(self.networks), values, masks), observed

    def _refuse_time(self) -> None:
        if self.step.temporal:
            raise NesymmError(
                "this program has time; `infer` is for programs without\n  = help: use `filter`"
            )

    # ------------------------------------------------------------ over time

    def filter(
        self,
        data: AnyData | None = None,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
        errors: str = "raise",
    ) -> Filtered:
        """Filter a batch of sequences: log-evidence and the probabilities of the queries.

        `data` holds arrays with a leading batch axis under the names of inputs and observations;
        what is missing is NaN, None or masked. `steps` is the number of steps of all sequences or
        of each (which may also stand in `data`, as `length`); it is read off the arrays otherwise.
        `key` is a key of JAX or the seed of one. A sequence that fails raises `FilterError`, or
        with `errors="keep"` is listed in `failures`.
        """
        return self._filter(method).filter(self._request(data, steps, key, errors))

    def smooth(
        self,
        data: AnyData | None = None,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
        errors: str = "raise",
    ) -> Smoothed:
        """The probability of every query asked at every step, given all evidence.

        The options are those of `filter`. The rows of a sequence that fails are NaN.
        """
        return self._filter(method).smooth(self._request(data, steps, key, errors))

    def trajectories(
        self,
        data: AnyData | None = None,
        count: int = 1,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
        best: bool = False,
        errors: str = "raise",
    ) -> Trajectories:
        """Trajectories from the posterior given all evidence; with `best` the most probable.

        The options are those of `filter`. A sequence that fails has length 0.
        """
        from nesymm.inference.data import Arrays, wanted, without_lengths
        from nesymm.inference.trajectories import Trajectories

        request = self._request(data, steps, key, errors)
        drawn = self._filter(method).trajectories(request, count, best)
        given = Arrays(without_lengths(wanted(self.step), request.data), request.names)
        return Trajectories(self, drawn, given)

    def generate(
        self,
        data: AnyData | None = None,
        count: int = 1,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
    ) -> Trajectories:
        """Draw whole trajectories, given what `data` and the program say of any step.

        They come from the exact posterior where inference is exact: evidence in the future is
        obeyed without rejection. Observations that are not given are generated too.
        """
        from nesymm.inference.generation import generate

        return generate(self, self._filter(method), self._request(data, steps, key), count)

    def explain(self, found: Trajectories, sequence: int = 0, trajectory: int = 0) -> list[Firing]:
        """The rules that fired along a trajectory, and why."""
        from nesymm.inference.trajectories import as_trajectories

        return as_trajectories(found).explain(sequence, trajectory)

    def estimate(
        self,
        data: AnyData | None = None,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
        estimator: str = "surrogate",
        kl: str = "sampled",
    ) -> Estimate:
        """Log-evidence and query probabilities that JAX can differentiate in the model: exactly, or
        for particles by an estimator: surrogate, rloo, recursive_rloo or score. The divergence of a
        guide from its prior is `sampled`, or with `kl="analytic"` computed as in `ELBO`.

        JAX may be tracing the arrays of `data` too (in a training loop of your own, compiled as a
        whole). Of these only the shapes are checked: nothing is missing in them, and terms are
        given by their positions.
        """
        return self._filter(method).estimate(self._request(data, steps, key), estimator, kl)

    def log_evidence(
        self,
        data: AnyData | None = None,
        *,
        method: Method | str = "auto",
        steps: Any = None,
        key: Key = 0,
    ) -> Any:
        """log p(evidence) of each sequence, as `estimate` has it:
        `jax.grad(lambda m: m.log_evidence(data).sum())(model)` is a model of gradients."""
        return self.estimate(data, method=method, steps=steps, key=key).log_evidence

    def stream(
        self,
        data: AnyData | None = None,
        *,
        method: Method | str = "auto",
        batch: int = 1,
        key: Key = 0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Stream:
        """A filter that is fed one step at a time; `data` are those of whole sequences,
        `shapes` those of tensors that come at each step."""
        from nesymm.inference.data_files import arrays_of
        from nesymm.inference.stream import Stream

        key = check_key(key)
        filter_ = self._filter(method)
        given = None if data is None else arrays_of(self.step, data)
        return Stream(filter_, self.parameters, self.networks, given, batch, key, shapes)

    def fit(self, data: AnyData, **options: Any) -> Fitted:
        """Learn networks and parameters: see `nesymm.fit`."""
        from nesymm.training.fit import fit

        return fit(self, data, **options)

    def _request(
        self, data: AnyData | None, steps: Any, key: Key, errors: str = "raise"
    ) -> Request:
        from nesymm.inference.data_files import arrays_of
        from nesymm.inference.filter import Request

        given = {} if data is None else arrays_of(self.step, data)
        return Request(given, self.parameters, self.networks, steps, check_key(key), errors)

    def _filter(self, method: Method | str) -> Filter:
        from nesymm.inference.filter import Filter
        from nesymm.inference.methods import Method, parse_method

        if not self.step.temporal:
            raise NesymmError("this program has no time; use `infer`")
        chosen = parse_method(method) if isinstance(method, str) else method
        if isinstance(chosen, type) or not isinstance(chosen, Method):
            raise NesymmError(
                "method: expected Auto(), ExactForward(), RaoBlackwellised(), Bootstrap() or the "
                f"name of one, received {method!r}"
            )
        filters = self.compiled.filters
        if chosen not in filters:
            filters[chosen] = Filter(self.step, chosen)
        return filters[chosen]


def compile(
    source: str | Path | Program | list[Program],
    *,
    name: str = "<program>",
    constants: Mapping[str, Any] | None = None,
    networks: Mapping[str, Network] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Model:
    """Compile a program text, the file at a path, or parsed programs to a model."""
    from nesymm.ground.grounder import ground
    from nesymm.inference.static.probabilities import probabilities
    from nesymm.ir.passes.finish import refuse_open_queries
    from nesymm.language.check import check
    from nesymm.language.loading import parse_source
    from nesymm.language.terms import Program as Parsed

    parsed = source if isinstance(source, Parsed | list) else parse_source(source, name)
    sources = tuple(parsed) if isinstance(parsed, list) else (parsed,)
    checked = check(parsed, constants)
    step = ground(checked, probabilities)
    refuse_open_queries(step)
    compiled = Compiled(checked, step, sources, dict(constants or {}))
    model = Model(compiled, initial_values(step), {})
    given = {n: _real(v) for n, v in _merged(parameters, {}, _PARAMETERS).items()}
    return model.with_parameters(given).with_networks({} if networks is None else networks)


def _merged(given: Any, more: Mapping[str, Any], expected: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise NesymmError(f"{expected}, received {type(given).__name__}")
    return {**(given or {}), **more}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _short(value: Any) -> str:
    shape = getattr(value, "shape", ())
    if shape or isinstance(value, jax.core.Tracer):
        return f"array{list(shape)}"
    return f"{float(value):.4g}" if hasattr(value, "__float__") else type(value).__name__


def _listed(names: list[str]) -> str:
    """The first few, each once."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:_SHOWN]) + (f", … ({len(names)})" if len(names) > _SHOWN else "")


def _real(value: Any) -> Any:
    """Whole numbers would stay whole when they are learnt and read from a file."""
    return float(value) if isinstance(value, int) else value


def _kept(fresh: Any, old: Any) -> Any:
    """A learnt value for a parameter that may have more elements than before."""
    if old is None:
        return fresh
    if np.shape(fresh) == np.shape(old):
        return old
    out = np.array(fresh)
    both = tuple(slice(0, min(a, b)) for a, b in zip(out.shape, np.shape(old), strict=True))
    out[both] = np.asarray(old)[both]
    return out
