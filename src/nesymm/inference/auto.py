"""The method that chooses another: the first that is exact, or fits into memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.data import Sequences
from nesymm.inference.elimination.capacity import MAX_WORK, TooLarge
from nesymm.inference.engine import Engine
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import Run, to_arrays
from nesymm.inference.options import whole
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.resampling import SCHEMES
from nesymm.ir.step import StepProgram

SMALL = "the belief over the state is small enough to be exact"


@dataclass(frozen=True)
class Auto:
    """Exact where the state is finite and small enough, else Rao-Blackwellised; bootstrap where
    the finite part of a step is too large even given a particle."""

    particles: int = 1000
    budget: int = 1 << 16

    def __post_init__(self) -> None:
        whole(1).check("particles", self.particles)
        whole(0).check("budget", self.budget)

    def resized(self, particles: int) -> Auto:
        return replace(self, particles=particles)

    def engine(self, program: StepProgram, sequences: Sequences, real: Any) -> Engine:
        about = (program, sequences.complete, real, sequences.steps)
        try:
            exact = ExactFilter(*about, limit=self.budget, work=MAX_WORK)
            if not exact.exact:
                raise NesymmError("a static variable has infinitely many values")
            shapes(program, exact, sequences)
            exact.reason = SMALL
            return exact
        except NesymmError as error:
            refused = error if isinstance(error, TooLarge) else None
            reason = f"exact inference does not apply: {refused.cause if refused else error}"
        for solve in (True, False):
            engine = ParticleFilter(
                *about,
                particles=self.particles,
                solve=solve,
                resample=SCHEMES["systematic"],
                threshold=0.5,
                work=MAX_WORK if solve else math.inf,
            )
            engine.reason = reason
            try:
                shapes(program, engine, sequences)
                return engine
            except TooLarge as error:
                refused = refused or error
                reason += f"; and given a particle: {error.cause}"
        assert refused is not None
        raise refused


def shapes(program: StepProgram, engine: Engine, sequences: Sequences) -> Any:
    """Trace a run without computing: tables that are too large show."""
    settings = engine.settings(sequences.batch)
    short = min(sequences.steps, 3)
    arrays = to_arrays(sequences)
    # A stream has one step of data, whatever the number of steps.
    cut = {
        **arrays,
        "timed": jax.tree.map(lambda x: x[np.arange(short) % len(x)], arrays["timed"]),
    }
    few = replace(sequences, steps=short)
    nets = _Zeros(program)
    params = {p.name: np.zeros([a.size for a in p.axes]) for p in program.parameters}
    return jax.eval_shape(
        lambda a, k: Run(engine, settings, few, a, params, nets, k, True).outcome().info,
        cut,
        jax.random.key(0),
    )


class _Zeros(dict):
    """Networks for shapes only: each gives zeros of its declared shape."""

    def __init__(self, program: StepProgram):
        super().__init__()
        for network in program.networks:
            self[network.name] = lambda *_, shape=network.outputs: jnp.zeros(shape or (1,))
