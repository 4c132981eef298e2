"""What the machine has, and whether its compiler can be trusted with whole numbers.

Some versions of XLA for GPUs compute distances on a grid of 32-bit whole numbers wrongly
once they are compiled, if they are written with `abs` (seen with jax 0.11.2 on an H200).
The library writes them otherwise; still, a wrong answer must not be silent, so the arithmetic
of every device is checked once, in the form that programs are compiled to.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import xp


@cache
def trust(platform: str, whole: Any) -> None:
    """Raise if compiled code measures distances on a grid differently from NumPy."""
    places = np.stack([np.arange(50) % 10, np.arange(50) * 7 % 10], axis=-1).astype(whole)
    # Also while something else is being traced, this one is computed.
    with jax.ensure_compile_time_eval():
        compiled = np.asarray(jax.jit(_distances)(places))
    if not np.array_equal(compiled, _distances(places)):
        raise NesymmError(
            f"the compiler for this {platform} computes with whole numbers wrongly\n"
            "  = help: run with 64-bit numbers (JAX_ENABLE_X64=1) or on the CPU "
            "(JAX_PLATFORMS=cpu), or try another version of jax"
        )


def _distances(places: Any) -> Any:
    cells = np.arange(10, dtype=places.dtype)
    rows = xp.abs(places[:, 0, None, None] - cells[:, None])
    columns = xp.abs(places[:, 1, None, None] - cells[None, :])
    return xp.maximum(rows, columns)


def check_device(real: Any) -> None:
    """Ask the device that computations run on by default."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    platform = device.platform if hasattr(device, "platform") else jax.default_backend()
    trust(platform, np.int64 if real == np.float64 else np.int32)


def memory() -> int:
    """The bytes of this machine, where it reports them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 40
