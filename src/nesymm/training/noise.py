"""How much of a gradient is noise of the particles: measured at the start of a run.

The gradient of one batch is estimated several times with other particles. Its mean is signal, the
spread around it noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmWarning, warn

# So often is a gradient estimated.
REPEATS = 10
# Below this, it takes 1 / 0.3² = 11 updates to see where the gradient of one points.
LOW = 0.3


@dataclass(frozen=True)
class Noise:
    """Signal-to-noise ratios of the gradient at the start of a run: of all numbers together, and
    of each parameter and network; and the smallest effective sample size of the first batch, the
    median of several runs. Infinite where inference is exact."""

    signal_to_noise: float = float("inf")
    by_name: Mapping[str, float] = field(default_factory=dict)
    smallest_effective: float = float("inf")


def measure(gradients: Iterable[Mapping[str, Any]]) -> Noise:
    """From several estimates of one gradient, per kind and name a tree of arrays."""
    flat: dict[str, list[np.ndarray]] = {}
    for gradient in gradients:
        for kind, prefix in (("parameters", ""), ("networks", "network ")):
            for name, tree in gradient[kind].items():
                leaves = [np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(tree)]
                if leaves:
                    flat.setdefault(prefix + name, []).append(np.concatenate(leaves))
    with np.errstate(all="ignore"):  # a gradient that is not finite is reported elsewhere
        powers = {name: _powers(np.stack(found)) for name, found in flat.items()}
        total = np.sum(list(powers.values()), axis=0) if powers else (1.0, 0.0)
        return Noise(_ratio(*total), {name: _ratio(*p) for name, p in powers.items()})


def _powers(found: np.ndarray) -> tuple[float, float]:
    """The squared lengths of signal and noise; that of the mean has some of the noise in it."""
    noise = float(found.var(0, ddof=1).sum())
    return max(float((found.mean(0) ** 2).sum()) - noise / len(found), 0.0), noise


def _ratio(signal: float, noise: float) -> float:
    return float(np.sqrt(signal / noise)) if noise > 0 else float("inf")


def warn_of_noise(found: Noise, particles: int) -> None:
    """Warn where the gradient is mostly noise."""
    if not found.signal_to_noise < LOW:
        return
    low = sorted((n for n, r in found.by_name.items() if r < LOW), key=found.by_name.__getitem__)
    shown = ", ".join(f"{n} {found.by_name[n]:.2f}" for n in low[:4])
    more = "" if len(low) <= 4 else f" and {len(low) - 4} more"
    warn(
        NesymmWarning(
            "noisy gradients",
            f"the gradient of the first batch has a signal-to-noise ratio of "
            f"{found.signal_to_noise:.2f} with {particles:,} particles"
            + (f" ({shown}{more})" if low else ""),
            "learning may wander, or end elsewhere than where the evidence is highest; or it "
            "starts at an optimum, where there is no signal",
            f"take more particles (`particles={10 * particles:_}`), larger batches or a smaller "
            "learning rate, or draw closer to the evidence with a guide",
        )
    )
