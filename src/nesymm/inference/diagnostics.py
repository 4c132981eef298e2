"""How far the numbers of a particle filter can be trusted, and warnings where that is not far.

`docs/inference.md` says what the thresholds mean and why they are where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmWarning, warn
from nesymm.inference.state import Info, State

if TYPE_CHECKING:
    from nesymm.inference.results import Failure

# Of fewer draws than this, a probability of a half has a standard error of more than 0.22.
FEW = 5
# Few particles are a choice: with less than fifty, none of this is reported.
SHARE = 0.02


@dataclass(frozen=True)
class Diagnostics:
    """Per sequence: the smallest effective sample size and its step, how often it was resampled,
    and how many particles of the first step those of the last descend from.

    NaN, and step -1, where a sequence failed at once. `particles` is 1 where inference is exact.
    """

    particles: int
    smallest_effective: np.ndarray
    smallest_effective_step: np.ndarray
    resamplings: np.ndarray
    ancestors: np.ndarray

    def overall(self) -> dict[str, float]:
        """The worst over all sequences, and which sequence it is."""
        known = np.nan_to_num(self.smallest_effective, nan=np.inf)
        worst = int(np.argmin(known))
        return {
            "particles": self.particles,
            "smallest_effective": float(self.smallest_effective[worst]),
            "sequence": worst,
            "step": int(self.smallest_effective_step[worst]),
            "resamplings": int(self.resamplings.max()),
            "ancestors": int(self.ancestors.min()),
        }


class Health(NamedTuple):
    """How a filter fared: [step, batch] where nothing explains the evidence, [step, batch, flag]
    where a rule breaks, [step, batch] effective sample sizes and where it was resampled, and
    [batch] distinct ancestors at the first step."""

    dead: Any
    flags: Any
    effective: Any
    resampled: Any
    ancestors: Any


def health_of(info: Info, last: State | None = None) -> Health:
    """From what all steps report, and from the last state, where there are particles."""
    if last is None or last.origins is None:
        ancestors = jnp.ones(info.dead.shape[1], jnp.int32)
    else:
        origins = last.origins.array
        batch = jnp.arange(origins.shape[0])[:, None]
        ancestors = jnp.zeros(origins.shape, jnp.int32).at[batch, origins].set(1).sum(-1)
    return Health(info.dead, info.flags, info.effective, info.resampled, ancestors)


def diagnose(
    particles: int, found: Health, lengths: np.ndarray, failures: Sequence[Failure]
) -> Diagnostics:
    """The numbers per sequence, of its own steps, up to where it failed."""
    ends = np.array(lengths)
    for failure in failures:
        ends[failure.sequence] = failure.step
    own = np.arange(len(found.effective)) < ends[:, None]
    effective = np.where(own, np.asarray(found.effective, np.float64).T, np.inf)
    smallest = effective.min(1)
    known = np.isfinite(smallest)
    return Diagnostics(
        particles,
        np.where(known, smallest, np.nan),
        np.where(known, effective.argmin(1), -1),
        (np.asarray(found.resampled).T & own).sum(1),
        np.asarray(found.ancestors),
    )


def too_few(number: Any, particles: int) -> Any:
    """Whether an average over so many of the particles is worth little."""
    return number < min(FEW, SHARE * particles)


def warn_of_filtering(found: Diagnostics) -> None:
    """Warn where few particles carry the weight."""
    low = too_few(np.nan_to_num(found.smallest_effective, nan=np.inf), found.particles)
    if not low.any():
        return
    worst = found.overall()
    where = f"at step {worst['step']} of sequence {worst['sequence']}"
    smallest = worst["smallest_effective"]
    _warn_of_few(where, smallest, found.particles, _others(low))


def warn_of_step(effective: np.ndarray, step: int, particles: int) -> bool:
    """The same for one step of a stream; whether there was something to warn of."""
    low = too_few(effective, particles)
    if low.any():
        worst = int(np.nanargmin(effective))
        where = f"at step {step} of sequence {worst}"
        _warn_of_few(where, effective[worst], particles, _others(low))
    return bool(low.any())


def warn_of_batch(effective: np.ndarray, particles: int) -> None:
    """The same for a batch that is learnt from, by the smallest number of each sequence."""
    low = too_few(effective, particles)
    if low.any():
        smallest = effective.min()
        _warn_of_few("in the first batch", smallest, particles, _others(low))


def _warn_of_few(where: str, smallest: float, particles: int, others: str) -> None:
    warn(
        NesymmWarning(
            "low effective sample size",
            f"{where} the evidence leaves an effective sample size of {smallest:.1f} of "
            f"{particles:,} particles{others}",
            "log-evidence, probabilities and gradients from there on rest on few particles",
            f"take more particles (`particles={10 * particles:_}`), or draw closer to the "
            "evidence with a guide: `guide(x@t) ~ normal(…).`",
        )
    )


def warn_of_ancestors(found: Diagnostics, what: str) -> None:
    """Warn where results about early steps rest on few particles."""
    low = too_few(found.ancestors, found.particles)
    if not low.any():
        warn_of_filtering(found)
        return
    worst = int(np.argmin(found.ancestors))
    number = int(found.ancestors[worst])
    warn(
        NesymmWarning(
            "few distinct ancestors",
            f"all {found.particles:,} particles at the end of sequence {worst} descend from "
            f"{number} at step 0{_others(low)}",
            f"{what} of early steps are those of few particles, whatever their number",
            f"take more particles (`particles={10 * found.particles:_}`), resample less often "
            "(`resample_below=0.1`), or use exact inference where the state is finite",
        )
    )


def _others(low: np.ndarray) -> str:
    return f" ({int(low.sum())} of {len(low)} sequences are affected)" if len(low) > 1 else ""
