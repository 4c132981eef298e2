"""Which engine runs a program over some data, and why: as asked, or the first that `Auto` can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.data import Sequences
from nesymm.inference.devices import check_device
from nesymm.inference.elimination.factors import TooLarge
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import run, to_arrays
from nesymm.inference.methods import Auto, Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.inference.observable import check_observations
from nesymm.inference.particles import ParticleFilter
from nesymm.ir.passes.bounds import watched
from nesymm.ir.step import StepProgram

Engine = ExactFilter | ParticleFilter
T = TypeVar("T")

# Exact inference over at most so many steps of so many sequences, with tables of at most so many
# cells for all sequences together, is done at once: compiling would take longer.
_AT_ONCE = 1 << 12
_STEPS_AT_ONCE = 128
_CELLS_AT_ONCE = 1 << 21
_SMALL = "the belief over the state is small enough to be exact"


@dataclass
class Engines:
    """The engines of a program by one method, each made once for data of one form."""

    step: StepProgram
    method: Method
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    def kept(self, form: Any, make: Callable[[], T]) -> T:
        """What was made for a form of data, or what `make` makes now."""
        if form not in self._made:
            self._made[form] = make()
        found: T = self._made[form]
        return found

    def program(self, steps: int, bits: int | None = None) -> StepProgram:
        """The program for so many steps, which says where numbers grow too large for their bits
        (those of JAX, unless they are given)."""
        bits = bits or jnp.zeros((), int).dtype.itemsize * 8
        return self.kept(("program", bits, steps), lambda: watched(self.step, bits, steps))

    def choose(self, sequences: Sequences) -> tuple[Engine, str]:
        """The engine for data like these, and why it was chosen."""
        real = jnp.zeros(()).dtype
        check_device(real)
        check_observations(self.step, sequences)
        key: tuple = (sequences.complete, sequences.observed, sequences.steps, real)
        if isinstance(self.method, Auto):
            # A batch may be so large that its tables are too large together.
            key += (sequences.batch,)
        return self.kept(("engine", *key), lambda: self._choose(sequences, real))

    # ------------------------------------------------------------ by NumPy

    def at_once(self, sequences: Sequences, best: bool = False) -> ExactFilter | None:
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

    def why_at_once(self) -> str:
        return _SMALL if isinstance(self.method, Auto) else "as asked"

    def _by_numpy(
        self, sequences: Sequences, latches: bool, best: bool = False
    ) -> ExactFilter | None:
        given, steps = sequences.complete, sequences.steps
        limit = _CELLS_AT_ONCE // sequences.batch
        key = ("by numpy", given, sequences.observed, steps, limit, latches, best)

        def make() -> ExactFilter:
            program, real = self.program(steps, 64), np.dtype(float)
            return ExactFilter(program, ExactForward(), given, real, steps, limit, best, latches)

        try:
            engine = self.kept(key, make)
        except NesymmError:
            return None
        return None if engine.draws > 1 else engine

    # ------------------------------------------------------------ by JAX

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
        method = self.method
        try:
            engine = ExactFilter(step, ExactForward(), given, real, sequences.steps, method.budget)
            if engine.draws > 1:
                raise NesymmError("a static variable has infinitely many values")
            shapes(step, engine, sequences)
            return engine, _SMALL
        except NesymmError as error:
            return self._with_particles(method, sequences, real, error)

    def _with_particles(
        self, auto: Auto, sequences: Sequences, real: Any, inexact: NesymmError
    ) -> tuple[ParticleFilter, str]:
        """Rao-Blackwellised, unless its tables are too large even given a particle."""
        count, given = auto.particles, sequences.complete
        step = self.program(sequences.steps)
        refused = inexact if isinstance(inexact, TooLarge) else None
        reason = f"exact inference does not apply: {refused.cause if refused else inexact}"
        for method in (RaoBlackwellised(particles=count), Bootstrap(particles=count)):
            engine = ParticleFilter(step, method, given, real, sequences.steps)
            try:
                shapes(step, engine, sequences)
                return engine, reason
            except TooLarge as error:
                refused = refused or error
                reason += f"; and given a particle: {error.cause}"
        assert refused is not None
        raise refused


def shapes(step: StepProgram, engine: Engine, sequences: Sequences) -> Any:
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
    nets = _Zeros(step)
    params = {p.name: np.zeros([a.size for a in p.axes]) for p in step.parameters}
    return jax.eval_shape(
        lambda a, k: run(engine, settings, few, a, params, nets, k, True)[0],
        cut,
        jax.random.key(0),
    )


class _Zeros(dict):
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
