"""`compile` and `Model`: a program with its networks and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nesymm.compiler.step import StepProgram
from nesymm.errors import NesymmError
from nesymm.parameters import initial_values

if TYPE_CHECKING:
    from nesymm.exact.posterior import Posterior, Solver
    from nesymm.explanation import Firing
    from nesymm.filtering.filter import Filter, Slopes
    from nesymm.filtering.methods import Method
    from nesymm.filtering.result import Filtered, Smoothed
    from nesymm.filtering.stream import Stream
    from nesymm.filtering.trajectories import Trajectories
    from nesymm.generation import Generated
    from nesymm.language.program import CheckedProgram
    from nesymm.language.terms import Program
    from nesymm.training.fit import Fitted

Network = Callable[..., Any]


@dataclass
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
    _firings: list[StepProgram] = field(default_factory=list, repr=False)

    # ------------------------------------------------------------ adaptation

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

        `data` holds what `observe/1` reads, `inputs` what `:- input` declares. `method` is
        auto, enumerate or circuit; `samples` counts where something must be sampled.
        """
        from nesymm.exact.posterior import infer

        solver = self.solver(frozenset(data or ()), method)
        return infer(solver, self._given(data, inputs), samples, seed)

    def solver(self, observed: frozenset[str] = frozenset(), method: str = "auto") -> Solver:
        """The compiled problem behind `infer`, for these observations."""
        from nesymm.exact.posterior import Solver
        from nesymm.exact.problem import Problem

        if self.step.temporal:
            raise NesymmError("this program has time; static inference does not apply to it")
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
        from nesymm.exact.names import canonical
        from nesymm.exact.posterior import EVIDENCE, FIRST_QUERY, refuse_impossible
        from nesymm.exact.weights import Given

        solver = self.solver(frozenset(data or ()), method)
        if solver.problem.sampled:
            raise NesymmError("the query needs sampling; its gradient is not exact")
        names = [a.name for a in solver.problem.queries]
        name = canonical(query)
        if name not in names:
            raise NesymmError(f"{query} is not asked in the program; it asks: {', '.join(names)}")
        given = Given(
            {**self.parameters, **(parameters or {})},
            {**self.networks, **(networks or {})},
            {**(inputs or {}), **(data or {})},
        )
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

        from nesymm.filtering.data import prepare

        return self._filter(method).slopes(
            prepare(self.step, data or {}, horizon, length),
            {**self.parameters, **(parameters or {})},
            {**self.networks, **(networks or {})},
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
        return self._filter(method).trajectories(
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

    def generate(
        self,
        data: Mapping[str, Any] | None = None,
        count: int = 1,
        *,
        method: Method | str = "auto",
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
    ) -> Generated:
        """Draw whole trajectories, given what `data` and the program say of any step.

        They come from the exact posterior where inference is exact: evidence in the future is
        obeyed without rejection. Observations that are not given are generated too.
        """
        from nesymm.generation import generate

        return generate(self, self._filter(method), data, count, horizon, length, seed)

    def explain(self, generated: Generated, sequence: int = 0, trajectory: int = 0) -> list[Firing]:
        """The rules that fired along a generated trajectory, and why."""
        from nesymm.explanation import explain

        return explain(generated, sequence, trajectory)

    def stream(
        self,
        *,
        method: Method | str = "rao-blackwellised",
        inputs: Mapping[str, Any] | None = None,
        batch: int = 1,
        seed: int = 0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Stream:
        """A filter that is fed one step at a time; `inputs` are those of whole sequences,
        `shapes` those of tensors that come at each step."""
        from nesymm.filtering.stream import Stream

        filter_ = self._filter(method)
        return Stream(filter_, self.parameters, self.networks, inputs, batch, seed, shapes)

    def _filter(self, method: Method | str) -> Filter:
        from nesymm.filtering.filter import Filter
        from nesymm.filtering.methods import parse_method

        if not self.step.temporal:
            raise NesymmError("this program has no time; use `infer`")
        chosen = parse_method(method) if isinstance(method, str) else method
        if chosen not in self._filters:
            self._filters[chosen] = Filter(self.step, chosen)
        return self._filters[chosen]

    def _given(self, data: Mapping[str, Any] | None, inputs: Mapping[str, Any] | None) -> Any:
        from nesymm.exact.weights import Given

        return Given(self.parameters, self.networks, {**(inputs or {}), **(data or {})})


def compile(
    source: str | Program | list[Program],
    *,
    name: str = "<program>",
    constants: Mapping[str, Any] | None = None,
    networks: Mapping[str, Network] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Model:
    """Compile a program text (or parsed programs) to a model."""
    from nesymm.compiler.ground import ground
    from nesymm.language.check import check
    from nesymm.language.parser import parse

    parsed = parse(source, name) if isinstance(source, str) else source
    sources = tuple(parsed) if isinstance(parsed, list) else (parsed,)
    checked = check(parsed, constants)
    step = ground(checked)
    known = {p.name: p for p in step.parameters}
    for given in parameters or {}:
        if given not in known:
            raise NesymmError(
                f"the program has no parameter {given} (it has: {', '.join(known) or 'none'})"
            )
    for given in networks or {}:
        if given not in checked.networks:
            declared = ", ".join(checked.networks) or "none"
            raise NesymmError(f"the program has no network {given} (it has: {declared})")
    values = initial_values(step) | dict(parameters or {})
    return Model(checked, step, dict(networks or {}), values, sources, dict(constants or {}))


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
