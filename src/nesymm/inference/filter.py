"""`Filter`: a model over time with a method, ready for data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.at_once import filter_at_once, smooth_at_once, trajectories_at_once
from nesymm.inference.blame import network_to_blame
from nesymm.inference.data import Sequences, prepare, wanted
from nesymm.inference.devices import check_device
from nesymm.inference.diagnostics import (
    Diagnostics,
    Health,
    diagnose,
    health_of,
    warn_of_ancestors,
    warn_of_filtering,
)
from nesymm.inference.elimination.factors import TooLarge
from nesymm.inference.estimators import ESTIMATORS
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import run, to_arrays
from nesymm.inference.methods import Auto, Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.inference.observable import check_observations
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.plan import tested_parameters
from nesymm.inference.questions import Question
from nesymm.inference.results import (
    Failure,
    Filtered,
    FilterError,
    Smoothed,
    check_errors,
    collect,
)
from nesymm.inference.sampling import (
    Draws,
    arrange,
    exact_trajectories,
    particle_trajectories,
)
from nesymm.inference.state import slope_of
from nesymm.ir.passes.bounds import watched
from nesymm.ir.step import StepProgram

Engine = ExactFilter | ParticleFilter
E = TypeVar("E", bound=Engine)
T = TypeVar("T")

# Exact inference over at most so many steps of so many sequences, with tables of at most so many
# cells for all sequences together, is done at once: compiling would take longer.
_AT_ONCE = 1 << 12
_STEPS_AT_ONCE = 128
_CELLS_AT_ONCE = 1 << 21
_BY_CIRCUIT = "as asked; tables over the values of a step would be too large"
# How many observations are tried as the cause of a failure.
_SUSPECTS = 6


@dataclass(frozen=True)
class Slopes:
    """Estimates with slopes: log-evidence [batch] and the answers to the queries; without,
    `effective`: the smallest effective sample size of each sequence, [batch]."""

    log_evidence: Any
    answers: Mapping[str, Any]
    questions: tuple[Question, ...]
    last: Any
    effective: Any

    def probability(self, query: str) -> Any:
        """The probability of a query at the end of each sequence, [batch]."""
        for question in self.questions:
            for position, name in question.groundings():
                if name == query:
                    array = self.answers[question.key]
                    batch = jnp.arange(len(self.last))
                    at_end = array[0] if len(array) == 1 else array[self.last, batch]
                    return at_end[(slice(None), *position)]
        known = ", ".join(q.query.name for q in self.questions) or "none"
        raise NesymmError(f"{query} is not asked in the program (asked: {known})")


@dataclass
class Filter:
    """Runs a program over sequences by one method."""

    step: StepProgram
    method: Method
    _engines: dict[Any, tuple[Engine, str]] = field(default_factory=dict, repr=False)
    _compiled: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __call__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        errors: str = "raise",
    ) -> Filtered:
        result = self._filtered(data, parameters, networks, horizon, length, seed, errors)
        warn_of_filtering(result.diagnostics)
        return result

    def _filtered(
        self,
        data: Mapping[str, Any] | None,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        horizon: int | None,
        length: Any,
        seed: int,
        errors: str,
    ) -> Filtered:
        check_errors(errors)
        sequences = prepare(self.step, data or {}, horizon, length)
        result = self._run(sequences, parameters, networks, seed)
        if not result.failures:
            return result
        # Of failures of one kind the first is looked into.
        first = {f.message: f for f in reversed(result.failures)}
        failures = tuple(
            self._blamed(f, data or {}, sequences, parameters, networks, seed)
            if f is first[f.message]
            else f
            for f in result.failures
        )
        result = replace(result, failures=failures)
        if errors == "raise":
            raise FilterError(result.failures, result)
        return result

    def _run(
        self,
        sequences: Sequences,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
    ) -> Filtered:
        engine, reason, outcome, health = self._outcome(sequences, parameters, networks, seed)
        failures = _failures(sequences, outcome, engine)
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
            describe(engine),
            reason,
            evidence,
            gains,
            effective,
            outcome.resampled.T & alive,
            filtered,
            final,
            failures,
            self._diagnosed(engine, health, sequences, failures),
        )

    def _outcome(
        self,
        sequences: Sequences,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
    ) -> tuple[Engine, str, Any, Health]:
        """All steps of all sequences, by the engine that was chosen and why it was."""
        at_once = self._at_once(sequences)
        if at_once is not None:
            known, uniform = _numbers(parameters), _uniform(sequences)
            try:
                outcome, last = filter_at_once(at_once, sequences, known, uniform)
                return at_once, self._reason(at_once), outcome, health_of(outcome, last)
            except TooLarge:
                pass
        engine, reason = self.engine(sequences)
        bound = (to_arrays(sequences), parameters, dict(networks), jax.random.key(seed))
        try:
            outcome, health = jax.tree.map(np.asarray, self._compile(engine, sequences)(*bound))
        except TooLarge as error:
            engine, outcome, health = self._by_circuit(at_once, sequences, parameters, error)
            return engine, _BY_CIRCUIT, outcome, health
        if outcome.dead.any() and isinstance(engine, ParticleFilter):
            # Before evidence is called impossible, it is weighed by logarithms.
            outcome, health = jax.tree.map(
                np.asarray, self._compile(engine, sequences, False)(*bound)
            )
        return engine, reason, outcome, health

    def _by_circuit(
        self,
        at_once: ExactFilter | None,
        sequences: Sequences,
        parameters: Mapping[str, Any],
        error: TooLarge,
        smooth: bool = False,
    ) -> tuple[Engine, Any, Health]:
        """The same by a circuit, after `error`; raises that, if there is no small circuit."""
        if at_once is None or not isinstance(self.method, ExactForward):
            raise error
        from nesymm.inference.circuits import solve_by_circuit

        try:
            known = _numbers(parameters)
            outcome = solve_by_circuit(at_once, self.step, sequences, known, smooth)
        except NesymmError as why:
            error.args = (f"{error}\n  = note: a circuit was tried as well: {why}",)
            raise error from why
        engine = copy(at_once)
        engine.by_circuit = True
        ancestors = np.ones(sequences.batch, int)
        health = Health(
            outcome.dead, outcome.flags, outcome.effective, outcome.resampled, ancestors
        )
        return engine, outcome, health

    def _reason(self, engine: Engine) -> str:
        return next(reason for known, reason in self._engines.values() if known is engine)

    def _diagnosed(
        self, engine: Engine, health: Health, sequences: Sequences, failures: Sequence[Failure]
    ) -> Diagnostics:
        particles = engine.settings(sequences.batch).particles
        return diagnose(particles, health, sequences.last + 1, failures)

    def slopes(
        self,
        sequences: Sequences,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        key: Any,
        estimator: str = "surrogate",
    ) -> Slopes:
        """Log-evidence and answers that JAX can differentiate in parameters and networks."""
        if estimator not in ESTIMATORS:
            raise NesymmError(
                f"there is no estimator {estimator} (there are: {', '.join(ESTIMATORS)})"
            )
        uniform = _uniform(sequences)
        arrays = to_arrays(sequences)
        return self.estimate(sequences, arrays, parameters, networks, key, estimator, uniform)

    def estimate(
        self,
        sequences: Sequences,
        arrays: Mapping[str, Any],
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        key: Any,
        estimator: str,
        uniform: bool,
        analytic: bool = False,
    ) -> Slopes:
        """The same for the numbers in `arrays`; `sequences` only says how they are laid out.

        With `analytic`, divergences of guides are computed and not sampled where they can be.
        """
        engine, _ = self.engine(sequences)
        compared = tested_parameters(engine.phases) & {p.name for p in self.step.parameters}
        if compared and isinstance(engine, ParticleFilter):
            raise NesymmError(
                f"the parameter {', '.join(sorted(compared))} is compared with what is drawn; "
                "particles have no slope for that: learn the parameters of distributions instead"
            )
        settings = replace(engine.settings(sequences.batch, estimator), analytic=analytic)
        outcome, _ = run(engine, settings, sequences, arrays, parameters, networks, key, uniform)
        gains = outcome.log_gain
        # The weights carry the slopes of all steps, so the last gain has that of the whole.
        value = jnp.sum(jax.lax.stop_gradient(gains), axis=0) + slope_of(gains[-1])
        alive = jnp.arange(sequences.steps)[:, None] <= arrays["last"]
        if outcome.flags.shape[-1]:
            # Where a rule breaks, a number would mean nothing.
            broken = jnp.any(outcome.flags & alive[..., None], axis=(0, 2))
            value = jnp.where(broken, jnp.nan, value)
        effective = jnp.where(alive, jax.lax.stop_gradient(outcome.effective), jnp.inf)
        smallest = jnp.min(effective, axis=0)
        return Slopes(value, outcome.answers, engine.questions, arrays["last"], smallest)

    def smooth(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        errors: str = "raise",
    ) -> Smoothed:
        """The probability of every query at every step given all evidence, [batch, step].

        It is the slope of the log-evidence in a bonus for the query at that step: exact for
        exact inference, and what tracing the ancestors of particles gives otherwise.
        """
        check_errors(errors)
        sequences = prepare(self.step, data or {}, horizon, length)
        engine, answers, health = self._smoothed(sequences, parameters, networks, seed)
        failures = self._failures_of(
            engine, health, sequences, data, parameters, networks, seed, errors
        )
        found = self._diagnosed(engine, health, sequences, failures)
        warn_of_ancestors(found, "the probabilities")
        for array in answers.values():
            array[:, [f.sequence for f in failures]] = np.nan
        asked = [q for q in engine.questions if q.at_every_step]
        smoothed, _ = collect(asked, answers, sequences.last, sequences.steps)
        return Smoothed(smoothed, failures, found)

    def _smoothed(
        self,
        sequences: Sequences,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
    ) -> tuple[Engine, dict[str, Any], Health]:
        """The probabilities of queries given all evidence, and how the filter fared."""
        at_once = self._at_once(sequences)
        if at_once is not None:
            try:
                known = _numbers(parameters)
                answers, outcome, last = smooth_at_once(at_once, sequences, known)
                return at_once, answers, health_of(outcome, last)
            except TooLarge:
                pass
        engine, _ = self.engine(sequences)
        settings = engine.settings(sequences.batch, "surrogate")
        arrays, uniform = to_arrays(sequences), _uniform(sequences)
        asked = tuple(q for q in engine.questions if q.at_every_step)
        lead = (sequences.steps, sequences.batch)
        tilts = {
            f"tilt {q.key}": jnp.zeros((*lead, *(a.size for a in q.axes)), engine.real)
            for q in asked
        }

        def evidence(tilts: Any, parameters: Any, networks: Any, key: Any) -> Any:
            tilted = {**arrays, "timed": {**arrays["timed"], **tilts}}
            outcome, last = run(
                engine, settings, sequences, tilted, parameters, networks, key, uniform
            )
            return jnp.sum(outcome.log_gain[-1]), health_of(outcome, last)

        try:
            slopes, health = eqx.filter_jit(jax.grad(evidence, has_aux=True))(
                tilts, parameters, dict(networks), jax.random.key(seed)
            )
        except TooLarge as error:
            engine, outcome, health = self._by_circuit(
                at_once, sequences, parameters, error, smooth=True
            )
            return engine, outcome.answers, health
        answers = {k.removeprefix("tilt "): np.array(v) for k, v in slopes.items()}
        return engine, answers, health

    def trajectories(
        self,
        data: Mapping[str, Any] | None = None,
        count: int = 1,
        *,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        horizon: int | None = None,
        length: Any = None,
        seed: int = 0,
        best: bool = False,
        errors: str = "raise",
    ) -> Draws:
        """Trajectories from the posterior given all evidence; with `best` the most probable."""
        check_errors(errors)
        if not isinstance(count, int | np.integer) or count < 1:
            raise NesymmError(f"count: expected at least 1, received {count}")
        sequences = prepare(self.step, data or {}, horizon, length)
        engine, _ = self.engine(sequences)
        if best and not isinstance(engine, ExactFilter):
            raise NesymmError("the most probable trajectory needs exact inference")
        engine, pieces, health = self._traced(
            engine, sequences, count, parameters, networks, seed, best
        )
        failures = self._failures_of(
            engine, health, sequences, data, parameters, networks, seed, errors
        )
        found = self._diagnosed(engine, health, sequences, failures)
        if count > 1:
            warn_of_ancestors(found, "the trajectories")
        else:
            warn_of_filtering(found)
        return arrange(engine.phases, pieces, sequences, count, failures, found)

    def _traced(
        self,
        engine: Engine,
        sequences: Sequences,
        count: int,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
        best: bool,
    ) -> tuple[Engine, Any, Health]:
        """Trajectories as arrays, how the filter fared, and which engine drew them."""
        if isinstance(engine, ExactFilter):
            # Nobody asks the queries here, so that nothing has to be remembered for them.
            at_once = self._at_once(sequences, best)
            if at_once is not None:
                at_once = _silent(at_once)
                try:
                    known = _numbers(parameters)
                    return at_once, *trajectories_at_once(at_once, sequences, known, count, seed)
                except TooLarge:
                    pass
            engine = ExactFilter(
                self.program(sequences.steps),
                engine.method,
                sequences.complete,
                engine.real,
                sequences.steps,
                best=best,
                latches=False,
            )
        pieces, health = self._drawing(engine, sequences, count, best)(
            to_arrays(sequences), parameters, dict(networks), jax.random.key(seed)
        )
        return engine, pieces, health

    def kept(self, form: Any, make: Callable[[], T]) -> T:
        """What was made for a form of data, or what `make` makes now."""
        if form not in self._compiled:
            self._compiled[form] = make()
        found: T = self._compiled[form]
        return found

    def _drawing(self, engine: Engine, sequences: Sequences, count: int, best: bool) -> Any:
        shape = (sequences.batch, sequences.steps, frozenset(sequences.masks), count, best)
        key = ("draw", sequences.complete, sequences.observed, engine.real, *shape)
        if key not in self._compiled:
            draw = exact_trajectories if isinstance(engine, ExactFilter) else particle_trajectories
            silent = _silent(engine)

            def whole(arrays: Any, parameters: Any, networks: Any, rng: Any) -> Any:
                return draw(silent, sequences, arrays, parameters, networks, rng, count)  # type: ignore

            self._compiled[key] = eqx.filter_jit(whole)
        return self._compiled[key]

    def _failures_of(
        self,
        engine: Engine,
        health: Health,
        sequences: Sequences,
        data: Mapping[str, Any] | None,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
        errors: str,
    ) -> tuple[Failure, ...]:
        """The sequences whose evidence nothing explains, or where a rule breaks: raised or
        returned as filtering does, which also says why."""
        alive = np.arange(sequences.steps)[:, None] <= sequences.last
        dead, flags = np.asarray(health.dead), np.asarray(health.flags)
        broken = flags & alive[..., None]
        wrong = (dead & alive) | broken.any(-1)
        if not wrong.any():
            return ()
        filtered = self._filtered(
            data,
            parameters,
            networks,
            None if any(sequences.timed) else sequences.steps - 1,
            sequences.last + 1,
            seed,
            "keep",
        )
        causes = {f.sequence: f for f in filtered.failures}
        failures = []
        for sequence in map(int, np.flatnonzero(wrong.any(0))):
            step = int(np.argmax(wrong[:, sequence]))
            if broken[step, sequence].any():
                # Where filtering drew other particles, it may not have met this.
                message = str(engine.phases.later.flags[int(np.argmax(broken[step, sequence]))])
            else:
                # Plain numbers underflowed where logarithms do not.
                message = "the evidence of one step is too improbable for this many bits"
            failures.append(causes.get(sequence, Failure(sequence, step, message)))
        if errors == "raise":
            raise FilterError(failures, filtered)
        return tuple(failures)

    def _blamed(
        self,
        failure: Failure,
        data: Mapping[str, Any],
        sequences: Sequences,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        seed: int,
    ) -> Failure:
        """The same failure, with the network or the observation that it is due to."""

        def still_fails(step: StepProgram, networks: Mapping[str, Any]) -> bool:
            read = wanted(step)
            b = failure.sequence
            one = {n: np.asanyarray(v)[b : b + 1] for n, v in data.items() if n in read}
            alone = prepare(
                step,
                one,
                None if any(read[n].timed for n in one) else sequences.steps - 1,
                np.asarray([sequences.last[b] + 1]),
            )
            result = Filter(step, self.method)._run(alone, parameters, networks, seed)
            return any(f.step <= failure.step for f in result.failures)

        if "NaN" in failure.message:
            for name, value in parameters.items():
                if not np.all(np.isfinite(np.asarray(value))):
                    return replace(failure, message=f"the parameter {name} is not a number")
            guilty = network_to_blame(networks, lambda nets: still_fails(self.step, nets))
            return replace(failure, message=f"the network {guilty} gave NaN") if guilty else failure
        observations = self.step.observations
        if "evidence" not in failure.message or not observations:
            return failure
        if len(observations) == 1:
            return replace(failure, message=f"{failure.message} (observed: {observations[0].name})")
        # Each candidate costs a compilation: with many of them, nobody is blamed.
        for observation in observations if len(observations) <= _SUSPECTS else ():
            rest = tuple(o for o in observations if o is not observation)
            try:
                needed = not still_fails(replace(self.step, observations=rest), networks)
            except TooLarge:
                continue  # Without it, nobody knows.
            if needed:
                name = observation.name + (str(observation.when) if observation.when else "")
                return replace(failure, message=f"{failure.message} (without {name} it is not)")
        return failure

    # ------------------------------------------------------------ engines

    def engine(self, sequences: Sequences) -> tuple[Engine, str]:
        """The machinery for data like these, and why it was chosen."""
        real = jnp.zeros(()).dtype
        check_device(real)
        check_observations(self.step, sequences)
        key: tuple = (sequences.complete, sequences.observed, sequences.steps, real)
        if isinstance(self.method, Auto):
            # A batch may be so large that its tables are too large together.
            key += (sequences.batch,)
        if key not in self._engines:
            self._engines[key] = self._choose(sequences, real)
        return self._engines[key]

    def _at_once(self, sequences: Sequences, best: bool = False) -> ExactFilter | None:
        """Exact inference by NumPy, for where that is quicker than compiling; else None."""
        size = sequences.batch * sequences.steps
        if not isinstance(self.method, ExactForward | Auto) or self.step.networks:
            return None
        if size > _AT_ONCE or sequences.steps > _STEPS_AT_ONCE:
            return None
        check_observations(self.step, sequences)
        return self._by_numpy(sequences, latches=False, best=best)

    def stepwise(self, engine: Engine, sequences: Sequences) -> ExactFilter | None:
        """The same engine by NumPy, for a stream of steps that are small enough; else None."""
        if not isinstance(engine, ExactFilter) or self.step.networks or sequences.batch > _AT_ONCE:
            return None
        return self._by_numpy(replace(sequences, steps=1 << 30), latches=True)

    def _by_numpy(
        self, sequences: Sequences, latches: bool, best: bool = False
    ) -> ExactFilter | None:
        given, steps = sequences.complete, sequences.steps
        limit = _CELLS_AT_ONCE // sequences.batch
        key = ("by numpy", given, sequences.observed, steps, limit, latches, best)
        if key not in self._engines:
            program, real = self.program(steps, 64), np.dtype(float)
            try:
                engine = ExactFilter(
                    program, ExactForward(), given, real, steps, limit, best, latches
                )
            except NesymmError:
                return None
            small = "the belief over the state is small enough to be exact"
            self._engines[key] = engine, small if isinstance(self.method, Auto) else "as asked"
        engine = cast(ExactFilter, self._engines[key][0])
        return None if engine.draws > 1 else engine

    def program(self, steps: int, bits: int | None = None) -> StepProgram:
        """The program for so many steps, which says where numbers grow too large for their bits
        (those of JAX, unless they are said)."""
        bits = bits or jnp.zeros((), int).dtype.itemsize * 8
        return self.kept(("program", bits, steps), lambda: watched(self.step, bits, steps))

    def _choose(self, sequences: Sequences, real: Any) -> tuple[Engine, str]:
        given, step = sequences.complete, self.program(sequences.steps)
        match self.method:
            case ExactForward():
                return ExactFilter(step, self.method, given, real, sequences.steps), "as asked"
            case RaoBlackwellised() | Bootstrap():
                return (
                    ParticleFilter(step, self.method, given, real, sequences.steps),
                    "as asked",
                )
        assert isinstance(self.method, Auto)
        try:
            engine = ExactFilter(
                step, ExactForward(), given, real, sequences.steps, self.method.budget
            )
            if engine.draws > 1:
                raise NesymmError("a static variable has infinitely many values")
            self._shapes(engine, sequences)
            return engine, "the belief over the state is small enough to be exact"
        except NesymmError as error:
            return self._with_particles(sequences, real, error)

    def _with_particles(
        self, sequences: Sequences, real: Any, inexact: NesymmError
    ) -> tuple[ParticleFilter, str]:
        """Rao-Blackwellised, unless its tables are too large even given a particle."""
        assert isinstance(self.method, Auto)
        count, given = self.method.particles, sequences.complete
        step = self.program(sequences.steps)
        refused = inexact if isinstance(inexact, TooLarge) else None
        reason = f"exact inference does not apply: {refused.cause if refused else inexact}"
        for method in (RaoBlackwellised(particles=count), Bootstrap(particles=count)):
            engine = ParticleFilter(step, method, given, real, sequences.steps)
            try:
                self._shapes(engine, sequences)
                return engine, reason
            except TooLarge as error:
                refused = refused or error
                reason += f"; and given a particle: {error.cause}"
        assert refused is not None
        raise refused

    def _shapes(self, engine: Engine, sequences: Sequences) -> Any:
        """Trace without computing: tables that are too large show."""
        settings = engine.settings(sequences.batch)
        short = min(sequences.steps, 3)
        arrays = to_arrays(sequences)
        # A stream has one step of data, whatever the number of steps.
        cut = {
            **arrays,
            "timed": jax.tree.map(lambda x: x[np.arange(short) % len(x)], arrays["timed"]),
        }
        few = replace(sequences, steps=short)
        nets = _Anything(self.step)
        params = {p.name: np.zeros([a.size for a in p.axes]) for p in self.step.parameters}
        return jax.eval_shape(
            lambda a, k: run(engine, settings, few, a, params, nets, k, True)[0],
            cut,
            jax.random.key(0),
        )

    def _compile(self, engine: Engine, sequences: Sequences, plain: bool = True) -> Any:
        uniform = _uniform(sequences)
        shape = (sequences.batch, sequences.steps, frozenset(sequences.masks), uniform)
        key = (id(engine), *shape, plain)
        if key not in self._compiled:
            settings = replace(engine.settings(sequences.batch), plain=plain)

            def whole(arrays: Any, parameters: Any, networks: Any, rng: Any) -> Any:
                outcome, last = run(
                    engine, settings, sequences, arrays, parameters, networks, rng, uniform
                )
                return outcome, health_of(outcome, last)

            self._compiled[key] = eqx.filter_jit(whole)
        return self._compiled[key]


def _silent(engine: E) -> E:
    """The same engine, which is asked nothing."""
    silent = copy(engine)
    silent.questions = ()
    return silent


def _uniform(sequences: Sequences) -> bool:
    """Whether all sequences end together."""
    return bool(np.all(sequences.last == sequences.steps - 1))


def _numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value, float) for name, value in parameters.items()}


class _Anything(dict):
    """Networks for shapes only: each gives zeros of its declared shape."""

    def __init__(self, step: StepProgram):
        super().__init__()
        for name, shape in step.networks:
            self[name] = lambda *_, shape=shape: jnp.zeros(shape or (1,))


def describe(engine: Engine) -> str:
    if isinstance(engine, ExactFilter):
        extra = f", {engine.draws} draws of static variables" if engine.draws > 1 else ""
        return "exact forward" + (", by a circuit" if engine.by_circuit else extra)
    method = engine.method
    name = "bootstrap"
    if isinstance(method, RaoBlackwellised):
        paper = method.recursion == "paper"
        name = "Rao-Blackwellised (the paper's recursion)" if paper else "Rao-Blackwellised"
    return f"{name}, {method.particles:,} particles"


def unexplained(engine: Engine) -> str:
    """What is said of evidence that has no weight."""
    if isinstance(engine, ExactFilter) and engine.draws == 1:
        return "the evidence is impossible"
    return (
        "no particle explains the evidence: it is impossible, or too rare for this many particles"
    )


def _failures(sequences: Sequences, outcome: Any, engine: Engine) -> tuple[Failure, ...]:
    out = []
    for b in range(sequences.batch):
        for t in range(int(sequences.last[b]) + 1):
            raised = outcome.flags[t, b]
            if raised.any():
                flags = engine.phases.later.flags
                out.append(Failure(b, t, str(flags[int(np.argmax(raised))])))
            elif np.isnan(outcome.log_gain[t, b]):
                out.append(Failure(b, t, "a network, a parameter or a computation gave NaN"))
            elif outcome.dead[t, b]:
                out.append(Failure(b, t, unexplained(engine)))
            else:
                continue
            break
    return tuple(out)
