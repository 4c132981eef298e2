"""The methods of inference over time that come with the library, as settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from nesymm.errors import NesymmError
from nesymm.inference.auto import Auto
from nesymm.inference.data import Sequences
from nesymm.inference.engine import Method
from nesymm.inference.forward import ExactFilter
from nesymm.inference.options import Rule, is_real, whole
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.resampling import SCHEMES, Scheme
from nesymm.ir.step import StepProgram

_THRESHOLD = Rule(
    "a number from 0 or 'always'",
    lambda v: v == "always" if isinstance(v, str) else is_real(v) and v >= 0,
)


@dataclass(frozen=True)
class _Particles:
    """`resampling` is the name of a scheme, or a function of a key and weights
    [batch, particles] that gives the ancestor of each particle. `resample_below` is the fraction
    of the particles below which the effective sample size triggers it; 0 is never, `"always"`
    every step."""

    particles: int = 1000
    resampling: str | Scheme = "systematic"
    resample_below: float | str = 0.5

    def __post_init__(self) -> None:
        whole(1).check("particles", self.particles)
        if not callable(self.resampling) and self.resampling not in SCHEMES:
            raise NesymmError(
                f"there is no resampling scheme {self.resampling} (there are: {', '.join(SCHEMES)})"
            )
        _THRESHOLD.check("resample_below", self.resample_below)

    @property
    def threshold(self) -> float:
        return 2.0 if isinstance(self.resample_below, str) else self.resample_below

    def resized(self, particles: int) -> Self:
        return replace(self, particles=particles)

    def _engine(
        self, program: StepProgram, sequences: Sequences, real: Any, **options: Any
    ) -> ParticleFilter:
        scheme = self.resampling
        return ParticleFilter(
            program,
            sequences.complete,
            real,
            sequences.steps,
            particles=self.particles,
            resample=SCHEMES[scheme] if isinstance(scheme, str) else scheme,
            threshold=self.threshold,
            **options,
        )


@dataclass(frozen=True)
class RaoBlackwellised(_Particles):
    """Particles for the state; the finite part of each step is solved exactly given it.

    `recursion="paper"` leaves out the weight p(evidence | previous state), as the paper does.
    """

    recursion: str = "correct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recursion not in ("correct", "paper"):
            raise NesymmError(
                f"recursion: expected 'correct' or 'paper', received {self.recursion!r}"
            )

    def engine(self, program: StepProgram, sequences: Sequences, real: Any) -> ParticleFilter:
        paper = self.recursion == "paper"
        return self._engine(program, sequences, real, solve=True, paper=paper)


@dataclass(frozen=True)
class Bootstrap(_Particles):
    """Everything is drawn from the prior, and the evidence weighs it."""

    def engine(self, program: StepProgram, sequences: Sequences, real: Any) -> ParticleFilter:
        return self._engine(program, sequences, real)


@dataclass(frozen=True)
class ExactForward:
    """The belief over all states, exactly. Static infinite variables get `draws` draws."""

    draws: int = 100

    def __post_init__(self) -> None:
        whole(1).check("draws", self.draws)

    def resized(self, particles: int) -> ExactForward:
        return ExactForward(draws=particles)

    def engine(self, program: StepProgram, sequences: Sequences, real: Any) -> ExactFilter:
        return ExactFilter(program, sequences.complete, real, sequences.steps, draws=self.draws)


BuiltIn = RaoBlackwellised | Bootstrap | ExactForward | Auto


def parse_method(name: str, particles: int | None = None) -> BuiltIn:
    """A method by its name on the command line."""
    n = 1000 if particles is None else particles
    match name:
        case "auto":
            return Auto(particles=n)
        case "exact":
            return ExactForward(draws=100 if particles is None else particles)
        case "rb" | "rao-blackwellised":
            return RaoBlackwellised(particles=n)
        case "paper":
            return RaoBlackwellised(particles=n, recursion="paper")
        case "bootstrap":
            return Bootstrap(particles=n)
    raise NesymmError(
        f"there is no method {name} (there are: auto, exact, rao-blackwellised, bootstrap, paper)"
    )


__all__ = [
    "Auto", "Bootstrap", "BuiltIn", "ExactForward", "Method", "RaoBlackwellised", "parse_method"
]  # fmt: skip
