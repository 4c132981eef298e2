"""What options may be, in one place for functions, configurations and files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nesymm.errors import NesymmError

# A seed, or a key of JAX: an array, perhaps one that is being traced.
Key = int | Any


@dataclass(frozen=True)
class Rule:
    """What is expected of a value, in words and as a test."""

    expected: str
    fits: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        if not self.fits(value):
            raise NesymmError(f"{name}: expected {self.expected}, received {value!r}")


def is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and _is_scalar(value)


def is_real(value: Any) -> bool:
    """Whether a value is a finite number."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__") or not _is_scalar(value):
        return False
    return math.isfinite(value)


def _is_scalar(value: Any) -> bool:
    """Not an array: those of one element pass for numbers, too."""
    return getattr(value, "shape", ()) == () and str(getattr(value, "dtype", "")) != "bool"


def whole(least: int) -> Rule:
    return Rule(f"a whole number from {least}", lambda v: is_whole(v) and v >= least)


SEED = Rule("a whole number from 0 to 4294967295", lambda v: is_whole(v) and 0 <= v < 2**32)

# How the divergence of a guide from its prior is found.
KL = Rule("'analytic' or 'sampled'", lambda v: v in ("analytic", "sampled"))

# The options of training that `fit` and its configuration have in common.
TRAINING = {
    "epochs": whole(1),
    "batch_size": whole(1),
    "patience": whole(1),
    "clip": Rule("a number above 0", lambda v: is_real(v) and v > 0),
    "average": Rule("a share from 0 to 1", lambda v: is_real(v) and 0 <= v <= 1),
    "every": whole(1),
    "keep": whole(1),
    "seed": SEED,
}
_MAY_BE_NONE = ("patience", "clip", "every")


def check_training(**options: Any) -> None:
    for name, value in options.items():
        if value is not None or name not in _MAY_BE_NONE:
            TRAINING[name].check(name, value)


def check_key(key: Any, name: str = "key") -> Key:
    """What random numbers are drawn from: a whole number, the seed of a key, or a key of JAX.

    JAX takes 32 bits of a seed, and two seeds must not be one.
    """
    if _is_key(key):
        return key
    if not SEED.fits(key):
        raise NesymmError(f"{name}: expected {SEED.expected} or a key of JAX, received {key!r:.80}")
    return int(key)


def as_key(key: Key) -> Any:
    """The key of JAX that a key or its seed stands for."""
    import jax

    return jax.random.key(key) if isinstance(key, int) else key


def seed_of(key: Key) -> int:
    """The seed of a key; of one that was not made from a seed, a number drawn from it."""
    import jax

    if isinstance(key, int):
        return key
    words = jax.random.key_data(key).ravel().tolist()
    if str(jax.random.key_impl(key)) == "threefry2x32" and words[0] == 0:
        return int(words[1])
    return int(jax.random.bits(key))


def _is_key(key: Any) -> bool:
    import sys

    if "jax" not in sys.modules:  # without it there are no keys
        return False
    import jax

    is_array = isinstance(key, jax.Array) and key.shape == ()
    return is_array and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
