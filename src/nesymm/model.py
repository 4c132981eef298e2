"""`compile` and `Model`: a program with its networks and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nesymm.errors import NesymmError
from nesymm.inference.networks import check_networks
from nesymm.inference.options import check_seed
from nesymm.ir.parameters import check_parameters, initial_values
from nesymm.ir.step import StepProgram

if TYPE_CHECKING:
    from nesymm.inference.explanation import Firing
    from nesymm.inference.filter import Filter, Slopes
    from nesymm.inference.methods import Method
    from nesymm.inference.results import Filtered, Smoothed
    from nesymm.inference.static.posterior import Posterior
    from nesymm.inference.static.solver import Solver
    from nesymm.inference.static.weights import Given
    from nesymm.inference.stream import Stream
    from nesymm.inference.trajectories import Trajectories
    from nesymm.language.program import CheckedProgram
    from nesymm.language.terms import Program
    from nesymm.training.fit import Fitted

Network = Callable[..., Any]

# How many names of a kind are shown of a model.
_SHOWN = 8


@dataclass(repr=False)
class Model:
    """A compiled program. `parameters` are the values of its learnable `t(_)`s."""

    program: CheckedProgram
    step: StepProgram
    networks: Mapping[str, Network]
    parameters: dict[str, Any]
    sources: tuple[Program, ...] = field(default=(), repr=False)
    constants: Mapping[str, Any] = field(default_factory=dict)
    _solvers: dict[Any, Solver] = field(default_factory=dict, repr=False)
    _filters: dict[Any, Filter] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Model({'; '.join(f'{title}: {what}' for title, what in self._summary())})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self._summary())
        return f"<table>{''.join(rows)}</table>"

    def _summary(self) -> list[tuple[str, str]]:
        """What it reads, has and answers, in a few words each."""
        step = self.step
        parts = {
            "inputs": [i.name for i in step.inputs],
            "observes": [o.name for o in step.observations],
            "asks": [q.name for q in step.queries],
            "parameters": [f"{n}={_short(v)}" for n, v in self.parameters.items()],
            "networks": [n if n in self.networks else f"{n} (not given)" for n, _ in step.networks],
            "constants": [f"{n}={v}" for n, v in self.constants.items()],
        }
        time = "one step after another" if step.temporal else "none"
        return [("time", time), *((n, _listed(p)) for n, p in parts.items() if p)]

    # ------------------------------------------------------------ adaptation

    def with_parameters(self, **parameters: Any) -> Model:
        """The same model with other values for some of its parameters."""
        check_parameters(self.step, parameters)
        return replace(self, parameters={**self.parameters, **parameters})

    @property
    def text(self) -> str:
        """The text of the program, all its parts."""
        return "\n".join(p.source.text for p in self.sources if p.source is not None)

    def with_constants(self, **constants: Any) -> Model:
        """The same program with other constants (a larger grid, more enemies).

        It keeps networks and parameters.
        """
        return self._again(self.sources, {**self.constants, **constants})

    def extend(self, text: str, name: str = "<extension>") -> Model:
        """The same program with further clauses, observations and queries.

        Nothing is taken back, and networks and parameters stay.
        """
        from nesymm.language.parser import parse

        return self._again((*self.sources, parse(text, name)), self.constants)

    def _again(self, sources: tuple[Program, ...], constants: Mapping[str, Any]) -> Model:
        new = compile(list(sources), constants=constants)
        parameters = {n: _kept(v, self.parameters.get(n)) for n, v in new.parameters.items()}
        networks = {n: f for n, f in self.networks.items() if n in new.program.networks}
        return replace(new, networks=networks, parameters=parameters)

    # ------------------------------------------------------------ inference

    def infer(
        self,
        data: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        method: str = "auto",
        samples: int = 10_000,
        seed: int = 0,
    ) -> Posterior:
        """The posterior of the queries given the evidence.

        `data` holds what `observe/1` reads, `inputs` what `:- input` declares; None and NaN are
        missing. `method` is auto, enumerate or circuit; `samples` counts where something must
        be sampled.
        """
        from nesymm.inference.static.infer import infer

        check_seed(seed)
        given, observed = self._given(data, inputs, bits=64)
        return infer(self.solver(observed, method), given, samples, seed)

    def solver(self, observed: frozenset[str] = frozenset(), method: str = "auto") -> Solver:
        """The compiled problem behind `infer`, for these observations."""
        from nesymm.inference.static.problem import Problem
        from nesymm.inference.static.solver import Solver

        self._refuse_time()
        if (observed, method) not in self._solvers:
            problem = Problem(self.step, observed)
            self._solvers[observed, method] = Solver.compile(problem, method)
        return self._solvers[observed, method]

    def log_probability(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        networks: Mapping[str, Network] | None = None,
        method: str = "auto",
    ) -> Any:
        """log P(query | evidence) as a JAX number: differentiable in parameters and networks.

        Impossible evidence raises `Impossible`. While JAX compiles or vectorises (`jit`,
        `vmap`), the values are not known yet: then the result is not a number (NaN) where
        the evidence is impossible.
        """
        from nesymm.inference.static.names import canonical
        from nesymm.inference.static.solver import EVIDENCE, FIRST_QUERY, refuse_impossible

        given, observed = self._given(data, inputs, parameters, networks)
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

    def filter(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        errors: str = "raise",
    ) -> Filtered:
        """Filter a batch of sequences: log-evidence and the probabilities of the queries.

        `data` holds arrays with a leading batch axis under the names of inputs and
        observations; what is missing is NaN, None or masked. `length` is the number of steps
        of each sequence, `horizon` the last step where no array says it. A sequence that
        fails raises `FilterError`, or with `errors="keep"` is listed in `failures`.
        """
        check_seed(seed)
        return self._filter(method)(
            data,
            parameters=self.parameters,
            networks=self.networks,
            horizon=horizon,
            length=length,
            seed=seed,
            errors=errors,
        )

    def log_evidence(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        networks: Mapping[str, Network] | None = None,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        key: Any = None,
    ) -> Any:
        """log p(evidence) of each sequence as JAX numbers: differentiable in parameters and
        networks, exactly or (for particles, which need a `key`) by the surrogate."""
        return self.slopes(
            data,
            parameters=parameters,
            networks=networks,
            method=method,
            horizon=horizon,
            length=length,
            key=key,
        ).log_evidence

    def fit(self, data: Mapping[str, Any], **options: Any) -> Fitted:
        """Learn networks and parameters: see `nesymm.training.fit`."""
        from nesymm.training.fit import fit

        return fit(self, data, **options)

    def slopes(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        networks: Mapping[str, Network] | None = None,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        key: Any = None,
        estimator: str = "surrogate",
    ) -> Slopes:
        """Differentiable log-evidence and answers; `estimator` is surrogate, rloo,
        recursive_rloo or score."""
        import jax

        from nesymm.inference.data import prepare

        return self._filter(method).slopes(
            prepare(self.step, data or {}, horizon, length),
            self._with(parameters),
            self._networks_with(networks),
            jax.random.key(0) if key is None else key,
            estimator,
        )

    def smooth(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        errors: str = "raise",
    ) -> Smoothed:
        """The probability of every query asked at every step, given all evidence.

        A sequence that fails raises `FilterError`, or with `errors="keep"` is NaN and listed
        in `failures`.
        """
        check_seed(seed)
        return self._filter(method).smooth(
            data,
            parameters=self.parameters,
            networks=self.networks,
            horizon=horizon,
            length=length,
            seed=seed,
            errors=errors,
        )

    def trajectories(
        self,
        data: Mapping[str, Any] | None = None,
        count: int = 1,
        *,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        best: bool = False,
        errors: str = "raise",
    ) -> Trajectories:
        """Trajectories from the posterior given all evidence; with `best` the most probable.

        A sequence that fails raises `FilterError`, or with `errors="keep"` has length 0 and is
        listed in `failures`.
        """
        from nesymm.inference.trajectories import Trajectories

        check_seed(seed)
        drawn = self._filter(method).trajectories(
            data,
            count,
            parameters=self.parameters,
            networks=self.networks,
            horizon=horizon,
            length=length,
            seed=seed,
            best=best,
            errors=errors,
        )
        return Trajectories(self, drawn, data or {})

    def generate(
        self,
        data: Mapping[str, Any] | None = None,
        count: int = 1,
        *,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
    ) -> Trajectories:
        """Draw whole trajectories, given what `data` and the program say of any step.

        They come from the exact posterior where inference is exact: evidence in the future is
        obeyed without rejection. Observations that are not given are generated too.
        """
        from nesymm.inference.generation import generate

        check_seed(seed)
        return generate(self, self._filter(method), data, count, horizon, length, seed)

    def explain(self, found: Trajectories, sequence: int = 0, trajectory: int = 0) -> list[Firing]:
        """The rules that fired along a trajectory, and why."""
        return found.explain(sequence, trajectory)

    def stream(
        self,
        *,
        method: Method | str = "auto",
        inputs: Mapping[str, Any] | None = None,
        batch: int = 1,
        seed: int = 0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Stream:
        """A filter that is fed one step at a time; `inputs` are those of whole sequences,
        `shapes` those of tensors that come at each step."""
        from nesymm.inference.stream import Stream

        check_seed(seed)
        filter_ = self._filter(method)
        return Stream(filter_, self.parameters, self.networks, inputs, batch, seed, shapes)

    def _filter(self, method: Method | str) -> Filter:
        from nesymm.inference.filter import Filter
        from nesymm.inference.methods import METHODS, parse_method

        if not self.step.temporal:
            raise NesymmError("this program has no time; use `infer`")
        chosen = parse_method(method) if isinstance(method, str) else method
        if not isinstance(chosen, METHODS):
            raise NesymmError(
                "method: expected Auto(), ExactForward(), RaoBlackwellised(), Bootstrap() or the "
                f"name of one, received {method!r}"
            )
        if chosen not in self._filters:
            self._filters[chosen] = Filter(self.step, chosen)
        return self._filters[chosen]

    def _given(
        self,
        data: Mapping[str, Any] | None,
        inputs: Mapping[str, Any] | None,
        parameters: Mapping[str, Any] | None = None,
        networks: Mapping[str, Network] | None = None,
        bits: int | None = None,
    ) -> tuple[Given, frozenset[str]]:
        """What is known of a program without time, and the names of what is observed; `bits` are
        those of numbers, if not those that JAX has."""
        from nesymm.inference.static.weights import Given

        self._refuse_time()
        values: dict[str, Any] = {}
        if data or inputs or self.step.inputs:
            from nesymm.inference.data import prepare_single

            values = prepare_single(self.step, inputs or {}, data or {}, bits)
        observed = frozenset(n for n in data or {} if values[n] is not None)
        given = Given(self._with(parameters), self._networks_with(networks), values)
        return given, observed

    def _with(self, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        """The parameters, some of them given anew."""
        given = {} if parameters is None else parameters
        check_parameters(self.step, given)
        return {**self.parameters, **given}

    def _networks_with(self, networks: Mapping[str, Network] | None) -> dict[str, Network]:
        given = {} if networks is None else networks
        check_networks(self.program.networks, given)
        return {**self.networks, **given}

    def _refuse_time(self) -> None:
        if self.step.temporal:
            raise NesymmError("this program has time; static inference does not apply to it")


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
    from nesymm.ir.passes.finish import refuse_open_queries
    from nesymm.language.check import check
    from nesymm.language.parser import parse, read

    parsed: Program | list[Program]
    if isinstance(source, Path):
        parsed = read(source)
    else:
        parsed = parse(source, name) if isinstance(source, str) else source
    sources = tuple(parsed) if isinstance(parsed, list) else (parsed,)
    checked = check(parsed, constants)
    step = ground(checked)
    refuse_open_queries(step)
    check_parameters(step, {} if parameters is None else parameters)
    check_networks(checked.networks, {} if networks is None else networks)
    values = initial_values(step) | {n: _real(v) for n, v in (parameters or {}).items()}
    return Model(checked, step, dict(networks or {}), values, sources, dict(constants or {}))


def _short(value: Any) -> str:
    shape = getattr(value, "shape", ())
    return f"array{list(shape)}" if shape else f"{float(value):.4g}"


def _listed(names: list[str]) -> str:
    """The first few, each once."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:_SHOWN]) + (f", … ({len(names)})" if len(names) > _SHOWN else "")


def _real(value: Any) -> Any:
    """Whole numbers would stay whole when they are learnt and read from a file."""
    return float(value) if isinstance(value, int) else value


def _kept(fresh: Any, old: Any) -> Any:
    """A learnt value for a parameter that may have more elements than before."""
    import numpy as np

    if old is None:
        return fresh
    if np.shape(fresh) == np.shape(old):
        return old
    out = np.array(fresh)
    both = tuple(slice(0, min(a, b)) for a, b in zip(out.shape, np.shape(old), strict=True))
    out[both] = np.asarray(old)[both]
    return out
