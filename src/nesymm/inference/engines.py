"""The engines of a program, each made once for data of one form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.auto import SMALL, Auto
from nesymm.inference.data import Sequences
from nesymm.inference.devices import check_device
from nesymm.inference.elimination.capacity import MAX_WORK
from nesymm.inference.engine import AS_ASKED, Engine, Method
from nesymm.inference.forward import ExactFilter
from nesymm.inference.intervals import eliminate
from nesymm.inference.methods import Bootstrap, ExactForward
from nesymm.inference.observable import check_observations
from nesymm.ir.passes.bounds import watched
from nesymm.ir.passes.causes import merge_causes
from nesymm.ir.step import StepProgram

T = TypeVar("T")

# Exact inference over at most so many steps of so many sequences, with tables of at most so many
# cells for all sequences together, is done at once: compiling would take longer.
_AT_ONCE = 1 << 12
_STEPS_AT_ONCE = 128
_CELLS_AT_ONCE = 1 << 21


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

    def program(self, steps: int, bits: int | None = None, drawn: bool = True) -> StepProgram:
        """The program for so many steps, which says where numbers grow too large for their bits
        (those of JAX, unless they are given). Where nobody asks what was `drawn`, variables that
        are only compared are the numbers of their intervals, and many causes are merged."""
        bits = bits or jnp.zeros((), int).dtype.itemsize * 8

        def make() -> StepProgram:
            step = self.step if drawn else merge_causes(eliminate(self.step), large=True)
            return watched(step, bits, steps)

        return self.kept(("program", bits, steps, drawn), make)

    def choose(self, sequences: Sequences, drawn: bool = False) -> Engine:
        """The engine for data like these; `drawn` where it is asked for what it draws."""
        real = jnp.zeros(()).dtype
        check_device(real)
        check_observations(self.step, sequences)
        # A bootstrap filter draws everything.
        drawn = drawn or isinstance(self.method, Bootstrap)
        key: tuple = (sequences.complete, sequences.observed, sequences.steps, real, drawn)
        if isinstance(self.method, Auto):
            # A batch may be so large that its tables are too large together.
            key += (sequences.batch,)

        def make() -> Engine:
            program = self.program(sequences.steps, drawn=drawn)
            return self.method.engine(program, sequences, real)

        return self.kept(("engine", *key), make)

    # ------------------------------------------------------------ by NumPy

    def at_once(
        self, sequences: Sequences, best: bool = False, drawn: bool = False
    ) -> ExactFilter | None:
        """Exact inference by NumPy, for where that is quicker than compiling; else None."""
        size = sequences.batch * sequences.steps
        if not isinstance(self.method, ExactForward | Auto) or self.step.networks:
            return None
        if size > _AT_ONCE or sequences.steps > _STEPS_AT_ONCE:
            return None
        check_observations(self.step, sequences)
        return self._by_numpy(sequences, latches=False, best=best, drawn=drawn)

    def stepwise(self, engine: Engine, sequences: Sequences) -> ExactFilter | None:
        """The same engine by NumPy, for a stream of steps that are small enough; else None."""
        if not isinstance(engine, ExactFilter) or self.step.networks or sequences.batch > _AT_ONCE:
            return None
        return self._by_numpy(replace(sequences, steps=1 << 30), latches=True)

    def _by_numpy(
        self, sequences: Sequences, latches: bool, best: bool = False, drawn: bool = False
    ) -> ExactFilter | None:
        given, steps = sequences.complete, sequences.steps
        limit = _CELLS_AT_ONCE // sequences.batch
        key = ("by numpy", given, sequences.observed, steps, limit, latches, best, drawn)

        def make() -> ExactFilter:
            program, real = self.program(steps, 64, drawn), np.dtype(float)
            auto = isinstance(self.method, Auto)
            made = ExactFilter(
                program,
                given,
                real,
                steps,
                limit=limit,
                work=MAX_WORK if auto else math.inf,
                best=best,
                latches=latches,
            )
            made.reason = SMALL if auto else AS_ASKED
            return made

        try:
            engine = self.kept(key, make)
        except NesymmError:
            return None
        return engine if engine.exact else None
