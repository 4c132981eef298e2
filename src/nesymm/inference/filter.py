"""`Filter`: a program over time with a method, run on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference import buckets
from nesymm.inference.at_once import filter_at_once, smooth_at_once, trajectories_at_once
from nesymm.inference.blame import broken_along, explained, failures_of
from nesymm.inference.buckets import Buckets
from nesymm.inference.data import Sequences, prepare, sequences_of, wanted
from nesymm.inference.diagnostics import (
    Diagnostics,
    Health,
    diagnose,
    health_of,
    warn_of_ancestors,
    warn_of_filtering,
)
from nesymm.inference.elimination.capacity import TooLarge
from nesymm.inference.engine import Engine, Method
from nesymm.inference.engines import Engines
from nesymm.inference.estimates import Estimate
from nesymm.inference.estimators import check_estimator, no_gradient_at_edges
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import Run, to_arrays
from nesymm.inference.methods import ExactForward
from nesymm.inference.options import KL, Key, as_key
from nesymm.inference.results import (
    Failure,
    Filtered,
    FilterError,
    Smoothed,
    check_errors,
    collect,
    with_names,
)
from nesymm.inference.sampling import Draws, Traced, arrange
from nesymm.inference.state import Info, gradient_of
from nesymm.ir.step import StepProgram

E = TypeVar("E", bound=Engine)
R = TypeVar("R")

_BY_CIRCUIT = "as asked; tables over the values of a step would be too large"


@dataclass(frozen=True)
class Request:
    """What a filter is run on: data, parameters and networks, and a key for what is random.

    With `errors` "keep", sequences that fail are reported; else they raise.
    """

    data: Mapping[str, Any]
    parameters: Mapping[str, Any]
    networks: Mapping[str, Any]
    steps: Any = None
    key: Key = 0
    errors: str = "raise"

    def __post_init__(self) -> None:
        check_errors(self.errors)

    @property
    def names(self) -> tuple[Any, ...] | None:
        """What the data call the sequences, if they have names."""
        return sequences_of(self.data)


@dataclass
class Filter:
    """Runs a program over sequences by one method."""

    step: StepProgram
    method: Method
    engines: Engines = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.engines = Engines(self.step, self.method)

    # ------------------------------------------------------------ filtering

    def filter(self, request: Request) -> Filtered:
        """Log-evidence and the probabilities of the queries given the evidence so far."""
        result = self._filtered(request)
        if result.failures and request.errors == "raise":
            raise FilterError(result.failures, result)
        warn_of_filtering(result.diagnostics)
        return result

    def failures(self, request: Request) -> tuple[Failure, ...]:
        """What goes wrong with which sequence, and what it is due to."""
        return self._filtered(request).failures

    def _filtered(self, request: Request) -> Filtered:
        sequences = prepare(self.step, request.data, request.steps)
        run = _with_keys(self._run, request)
        result = self.buckets(sequences).run(request.key, run, buckets.filtered)
        # Of failures of one kind the first is looked into.
        first = {f.message: f for f in reversed(result.failures)}
        failures = tuple(
            self._explained(f, sequences, request) if f is first[f.message] else f
            for f in result.failures
        )
        failures = with_names(failures, request.names)
        return replace(result, failures=failures, names=request.names)

    def buckets(self, sequences: Sequences, best: bool = False, drawn: bool = False) -> Buckets:
        """Sequences of similar lengths together, if lengths differ so much that it is worth it."""
        found = Buckets.of(sequences)
        if len(found.rows) > 1 and self.engines.at_once(sequences, best, drawn) is not None:
            return Buckets.one(sequences)  # Nothing is compiled, and what is over costs little.
        return found

    def _explained(self, failure: Failure, sequences: Sequences, request: Request) -> Failure:
        """The same failure, with what it is due to."""

        def still_fails(step: StepProgram, networks: Mapping[str, Any]) -> bool:
            read = wanted(step)
            b = failure.sequence
            one = {n: np.asanyarray(v)[b : b + 1] for n, v in request.data.items() if n in read}
            timed = any(read[n].timed for n in one)
            length = int(sequences.last[b] + 1)
            alone = prepare(step, one, np.asarray([length]) if timed else length)
            result = Filter(step, self.method)._run(alone, replace(request, networks=networks))
            return any(f.step <= failure.step for f in result.failures)

        return explained(failure, self.step, request.parameters, request.networks, still_fails)

    def _run(self, sequences: Sequences, request: Request) -> Filtered:
        engine, outcome, health = self._outcome(sequences, request)
        failures = failures_of(sequences, outcome, engine)
        filtered, final = collect(
            engine.questions, outcome.answers, sequences.last, sequences.steps
        )
        times = np.arange(sequences.steps)[None, :]
        alive = times <= sequences.last[:, None]
        gains = np.where(alive, outcome.log_gain.T.astype(np.float64), np.nan)
        evidence = np.nansum(gains, axis=1)
        effective = np.where(alive, outcome.effective.T, np.nan)
        for failure in failures:
            # Nothing that a sequence says after it failed is worth anything.
            b, t = failure.sequence, failure.step
            evidence[b] = -np.inf if gains[b, t] == -np.inf else np.nan
            effective[b, t:] = np.nan
            for row in filtered.values():
                row[b, t:] = np.nan
            for column in final.values():
                column[b] = np.nan
        return Filtered(
            engine.describe(),
            engine.reason,
            evidence,
            gains,
            effective,
            outcome.resampled.T & alive,
            filtered,
            final,
            failures,
            _diagnosed(engine, health, sequences, failures),
            np.asarray(sequences.last),
        )

    def _outcome(self, sequences: Sequences, request: Request) -> tuple[Engine, Info, Health]:
        """All steps of all sequences, by the engine that was chosen."""
        at_once = self.engines.at_once(sequences)
        if at_once is not None:
            known, together = _numbers(request.parameters), _end_together(sequences)
            try:
                info, last = filter_at_once(at_once, sequences, known, together)
                return at_once, info, health_of(info, last)
            except TooLarge:
                pass
        engine = self.engines.choose(sequences)
        bound = _bound(sequences, request)
        try:
            info, health = jax.tree.map(np.asarray, self._compiled(engine, sequences)(*bound))
        except TooLarge as error:
            return self._by_circuit(at_once, sequences, request, error)
        if info.dead.any() and engine.settings(sequences.batch).plain:
            # Before evidence is called impossible, it is weighed by logarithms.
            info, health = jax.tree.map(
                np.asarray, self._compiled(engine, sequences, False)(*bound)
            )
        return engine, info, health

    def _compiled(self, engine: Engine, sequences: Sequences, plain: bool = True) -> Any:
        together = _end_together(sequences)

        def make() -> Any:
            settings = engine.settings(sequences.batch)
            settings = replace(settings, plain=plain and settings.plain)

            def whole(arrays: Any, parameters: Any, networks: Any, rng: Any) -> Any:
                run = Run(engine, settings, sequences, arrays, parameters, networks, rng, together)
                outcome = run.outcome()
                return outcome.info, health_of(outcome.info, outcome.last)

            return eqx.filter_jit(whole)

        return self.engines.kept((id(engine), *_form(sequences), together, plain), make)

    def _by_circuit(
        self,
        at_once: ExactFilter | None,
        sequences: Sequences,
        request: Request,
        error: TooLarge,
        smooth: bool = False,
    ) -> tuple[Engine, Info, Health]:
        """The same by a circuit, after `error`; raises that, if there is no small circuit."""
        if at_once is None or not isinstance(self.method, ExactForward):
            raise error
        from nesymm.inference.unrolled import solve_by_circuit

        try:
            known = _numbers(request.parameters)
            outcome = solve_by_circuit(at_once, self.step, sequences, known, smooth)
        except NesymmError as why:
            error.args = (f"{error}\n  = note: a circuit was tried as well: {why}",)
            raise error from why
        engine = copy(at_once)
        engine.by_circuit = True
        engine.reason = _BY_CIRCUIT
        return engine, outcome, health_of(outcome)

    # ------------------------------------------------------------ differentiating

    def estimate(
        self, request: Request, estimator: str = "surrogate", kl: str = "sampled"
    ) -> Estimate:
        """Log-evidence and answers that JAX can differentiate in parameters and networks, and in
        data that are numbers."""
        check_estimator(estimator)
        KL.check("kl", kl)
        analytic = kl == "analytic"
        sequences = prepare(self.step, request.data, request.steps, traced=True)
        layout = sequences.layout()
        engine = self.engines.choose(layout)
        self._refuse_compared_parameters(engine)
        together = _end_together(sequences)

        def make() -> Any:
            def whole(arrays: Any, parameters: Any, networks: Any, key: Any) -> tuple[Any, ...]:
                found = self.estimate_of(
                    layout, arrays, parameters, networks, key, estimator, together, analytic
                )
                return found.log_evidence, found.answers, found.effective

            # Who differentiates this without compiling it should not wait for each operation.
            return eqx.filter_jit(whole)

        about = (id(engine), *_form(sequences), together, estimator, analytic)
        compiled = self.engines.kept(about, make)
        arrays = to_arrays(sequences)
        bound = (_arrays(request.parameters), dict(request.networks), as_key(request.key))
        evidence, answers, effective = compiled(arrays, *bound)
        return Estimate(evidence, answers, engine.questions, arrays["last"], effective)

    def estimate_of(
        self,
        sequences: Sequences,
        arrays: Mapping[str, Any],
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        key: Any,
        estimator: str,
        together: bool,
        analytic: bool = False,
    ) -> Estimate:
        """The same for the numbers in `arrays`; `sequences` only says how they are laid out.

        With `analytic`, divergences of guides are computed and not sampled where they can be.
        """
        engine = self.engines.choose(sequences)
        self._refuse_compared_parameters(engine)
        settings = replace(engine.settings(sequences.batch, estimator), analytic=analytic)
        run = Run(engine, settings, sequences, arrays, parameters, networks, key, together)
        info = run.outcome().info
        gains = info.log_gain
        # The weights carry the gradients of all steps, so the last gain has that of the whole.
        value = jnp.sum(jax.lax.stop_gradient(gains), axis=0) + gradient_of(gains[-1])
        alive = jnp.arange(sequences.steps)[:, None] <= arrays["last"]
        if info.flags.shape[-1]:
            # Where a rule breaks, a number would mean nothing.
            broken = jnp.any(info.flags & alive[..., None], axis=(0, 2))
            value = jnp.where(broken, jnp.nan, value)
        answers = info.answers
        if not isinstance(engine, ExactFilter):
            unknown = no_gradient_at_edges(self.step, parameters)
            value = value + unknown
            answers = {key: answer + unknown for key, answer in answers.items()}
        effective = jnp.where(alive, jax.lax.stop_gradient(info.effective), jnp.inf)
        smallest = jnp.min(effective, axis=0)
        return Estimate(value, answers, engine.questions, arrays["last"], smallest)

    def _refuse_compared_parameters(self, engine: Engine) -> None:
        compared = engine.untrainable & {p.name for p in self.step.parameters}
        if compared:
            raise NesymmError(
                f"the parameter {', '.join(sorted(compared))} is compared with what is drawn; "
                "particles have no gradient for that: learn the parameters of distributions instead"
            )

    # ------------------------------------------------------------ smoothing

    def smooth(self, request: Request) -> Smoothed:
        """The probability of every query at every step given all evidence, [batch, step].

        It is the gradient of the log-evidence in a weight for the query at that step: exact for
        exact inference, and what tracing the ancestors of particles gives otherwise.
        """
        sequences = prepare(self.step, request.data, request.steps)
        run = _with_keys(self._smooth, request)
        found = self.buckets(sequences).run(request.key, run, buckets.smoothed)
        failures = self._causes(found.failures, request)
        warn_of_ancestors(found.diagnostics, "the probabilities")
        return Smoothed(found.answers, failures, found.diagnostics, request.names)

    def _smooth(self, sequences: Sequences, request: Request) -> Smoothed:
        engine, answers, health = self._smoothed(sequences, request)
        failures = broken_along(engine, health, sequences)
        for array in answers.values():
            array[:, [f.sequence for f in failures]] = np.nan
        asked = [q for q in engine.questions if q.at_every_step]
        smoothed, _ = collect(asked, answers, sequences.last, sequences.steps)
        return Smoothed(smoothed, failures, _diagnosed(engine, health, sequences, failures))

    def _smoothed(
        self, sequences: Sequences, request: Request
    ) -> tuple[Engine, dict[str, Any], Health]:
        """The probabilities of queries given all evidence, and how the filter fared."""
        at_once = self.engines.at_once(sequences)
        if at_once is not None:
            try:
                known = _numbers(request.parameters)
                answers, info, last = smooth_at_once(at_once, sequences, known)
                return at_once, answers, health_of(info, last)
            except TooLarge:
                pass
        engine = self.engines.choose(sequences)
        asked = tuple(q for q in engine.questions if q.at_every_step)
        lead = (sequences.steps, sequences.batch)
        weights = {
            f"weight of {q.key}": jnp.zeros((*lead, *(a.size for a in q.axes)), engine.real)
            for q in asked
        }
        bound = _bound(sequences, request)
        try:
            found, health = self._smoothing(engine, sequences)(weights, *bound)
        except TooLarge as error:
            engine, info, health = self._by_circuit(at_once, sequences, request, error, smooth=True)
            return engine, info.answers, health
        answers = {k.removeprefix("weight of "): np.array(v) for k, v in found.items()}
        return engine, answers, health

    def _smoothing(self, engine: Engine, sequences: Sequences) -> Any:
        """The gradient of the log-evidence in the weights of queries, compiled."""
        together = _end_together(sequences)

        def make() -> Any:
            settings = engine.settings(sequences.batch, "surrogate")

            def evidence(weights: Any, arrays: Any, parameters: Any, nets: Any, key: Any) -> Any:
                weighted = {**arrays, "timed": {**arrays["timed"], **weights}}
                run = Run(engine, settings, sequences, weighted, parameters, nets, key, together)
                info, last, _ = run.outcome()
                return jnp.sum(info.log_gain[-1]), health_of(info, last)

            return eqx.filter_jit(jax.grad(evidence, has_aux=True))

        return self.engines.kept((id(engine), *_form(sequences), together, "smooth"), make)

    # ------------------------------------------------------------ trajectories

    def trajectories(self, request: Request, count: int = 1, best: bool = False) -> Draws:
        """Trajectories from the posterior given all evidence; with `best` the most probable."""
        if not isinstance(count, int | np.integer) or count < 1:
            raise NesymmError(f"count: expected at least 1, received {count}")
        sequences = prepare(self.step, request.data, request.steps)
        run = _with_keys(partial(self._draw, count=count, best=best), request)
        found = self.buckets(sequences, best, drawn=True)
        drawn = found.run(request.key, run, buckets.drawn)
        failures = self._causes(drawn.failures, request)
        if count > 1:
            warn_of_ancestors(drawn.diagnostics, "the trajectories")
        else:
            warn_of_filtering(drawn.diagnostics)
        return replace(drawn, failures=failures)

    def _draw(self, sequences: Sequences, request: Request, count: int, best: bool) -> Draws:
        engine = self.engines.choose(sequences, drawn=True)
        if best and not engine.exact:
            raise NesymmError("the most probable trajectory needs exact inference")
        engine, traced = self._traced(engine, sequences, count, request, best)
        failures = broken_along(engine, traced.health, sequences)
        found = _diagnosed(engine, traced.health, sequences, failures)
        return arrange(engine.phases, traced, sequences, count, failures, found)

    def _traced(
        self, engine: Engine, sequences: Sequences, count: int, request: Request, best: bool
    ) -> tuple[Engine, Traced]:
        """Values of everything along trajectories, and by which engine they were drawn."""
        if isinstance(engine, ExactFilter):
            # Nobody asks queries here, so that nothing has to be remembered for them.
            at_once = self.engines.at_once(sequences, best, drawn=True)
            if at_once is not None:
                at_once = _silent(at_once)
                try:
                    known = _numbers(request.parameters)
                    drawn = trajectories_at_once(at_once, sequences, known, count, request.key)
                    return at_once, drawn
                except TooLarge:
                    pass
            engine = engine.for_trajectories(self.engines.program(sequences.steps), sequences, best)
        return engine, self._drawing(engine, sequences, count, best)(*_bound(sequences, request))

    def _drawing(self, engine: Engine, sequences: Sequences, count: int, best: bool) -> Any:
        def make() -> Any:
            silent = _silent(engine)
            settings = silent.settings(sequences.batch, record=True)

            def whole(arrays: Any, parameters: Any, networks: Any, rng: Any) -> Traced:
                run = Run(silent, settings, sequences, arrays, parameters, networks, rng, False)
                return silent.trajectories(run, count)

            return eqx.filter_jit(whole)

        form = (sequences.complete, sequences.observed, engine.real, *_form(sequences))
        return self.engines.kept(("draw", *form, count, best), make)

    def _causes(self, failures: tuple[Failure, ...], request: Request) -> tuple[Failure, ...]:
        """The sequences that failed: raised or returned as filtering does, which also says why."""
        if not failures:
            return ()
        filtered = self._filtered(request)
        causes = {f.sequence: f for f in filtered.failures}
        # Where filtering drew other particles, it may not have met a rule that breaks.
        named = with_names([causes.get(f.sequence, f) for f in failures], request.names)
        if request.errors == "raise":
            raise FilterError(named, filtered)
        return named


def _with_keys(
    run: Callable[[Sequences, Request], R], request: Request
) -> Callable[[Sequences, Key], R]:
    """A request with other random numbers."""
    return lambda some, key: run(some, replace(request, key=key))


def _diagnosed(
    engine: Engine, health: Health, sequences: Sequences, failures: Sequence[Failure]
) -> Diagnostics:
    particles = engine.settings(sequences.batch).particles
    return diagnose(particles, health, sequences.last + 1, failures)


def _silent(engine: E) -> E:
    """The same engine, which is asked nothing."""
    silent = copy(engine)
    silent.questions = ()
    return silent


def _form(sequences: Sequences) -> tuple[Any, ...]:
    """What compiled code depends on."""
    return sequences.batch, sequences.steps, frozenset(sequences.masks)


def _end_together(sequences: Sequences) -> bool:
    """Whether all sequences end together."""
    return bool(np.all(sequences.last == sequences.steps - 1))


def _bound(sequences: Sequences, request: Request) -> tuple[Any, ...]:
    """What compiled code is called with."""
    parameters, networks = _numbers(request.parameters), dict(request.networks)
    return to_arrays(sequences), parameters, networks, as_key(request.key)


def _numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as arrays: plain numbers would be compiled in, and others compiled anew."""
    return {name: np.asarray(value, float) for name, value in parameters.items()}


def _arrays(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same, where JAX may be tracing them."""
    return {name: jnp.asarray(value, float) for name, value in parameters.items()}
