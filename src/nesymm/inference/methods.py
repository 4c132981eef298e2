"""The methods of inference over time, as settings."""

from __future__ import annotations

from dataclasses import dataclass

from nesymm.errors import NesymmError
from nesymm.inference.options import Rule, is_real, whole
from nesymm.inference.resampling import SCHEMES

_THRESHOLD = Rule(
    "a number from 0 or 'always'",
    lambda v: v == "always" if isinstance(v, str) else is_real(v) and v >= 0,
)


@dataclass(frozen=True)
class _Particles:
    """`resample_below` is the fraction of the particles below which the effective sample
    size triggers resampling; 0 is never, `"always"` every step."""

    particles: int = 1000
    resampling: str = "systematic"
    resample_below: float | str = 0.5

    def __post_init__(self) -> None:
        whole(1).check("particles", self.particles)
        if self.resampling not in SCHEMES:
            raise NesymmError(
                f"there is no resampling scheme {self.resampling} (there are: {', '.join(SCHEMES)})"
            )
        _THRESHOLD.check("resample_below", self.resample_below)

    @property
    def threshold(self) -> float:
        return 2.0 if isinstance(self.resample_below, str) else self.resample_below


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


@dataclass(frozen=True)
class Bootstrap(_Particles):
    """Everything is drawn from the prior, and the evidence weighs it."""


@dataclass(frozen=True)
class ExactForward:
    """The belief over all states, exactly. Static infinite variables get `draws` draws."""

    draws: int = 100

    def __post_init__(self) -> None:
        whole(1).check("draws", self.draws)


@dataclass(frozen=True)
class Auto:
    """Exact where the state is finite and small enough, else Rao-Blackwellised; bootstrap where
    the finite part of a step is too large even given a particle."""

    particles: int = 1000
    budget: int = 1 << 16

    def __post_init__(self) -> None:
        whole(1).check("particles", self.particles)
        whole(0).check("budget", self.budget)


Method = RaoBlackwellised | Bootstrap | ExactForward | Auto
METHODS = (RaoBlackwellised, Bootstrap, ExactForward, Auto)


def parse_method(name: str, particles: int | None = None) -> Method:
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
