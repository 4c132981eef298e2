"""NumPy for what is known, JAX for the rest, through one set of functions.

`xp` has the functions of `numpy`. A call goes to NumPy where all its arrays are NumPy's, and to
JAX as soon as one of them is JAX's. So whatever depends on neither data nor parameters is
computed once, while JAX traces; and a step whose data and parameters are NumPy arrays runs
without any compilation at all.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special


def is_jax(*values: Any) -> bool:
    """Whether any of some values (or of those in lists and tuples of them) is an array of JAX."""
    for value in values:
        if isinstance(value, jax.Array):
            return True
        if isinstance(value, list | tuple) and is_jax(*value):
            return True
    return False


class Arrays:
    """The functions of a module of NumPy's and its counterpart in JAX."""

    def __init__(self, known: Any, traced: Any, **more: Any):
        self._known = known
        self._traced = traced
        self.__dict__.update(more)

    def __getattr__(self, name: str) -> Any:
        known, traced = getattr(self._known, name), getattr(self._traced, name, None)
        found: Any
        if isinstance(known, ModuleType):
            found = Arrays(known, traced)
        elif isinstance(known, type) or not callable(known):
            found = known
        else:

            def found(*args: Any, **options: Any) -> Any:
                if is_jax(*args, *options.values()):
                    return traced(*args, **options)  # type: ignore[misc]
                # log 0 and the like mean something here; JAX says nothing of them either.
                with np.errstate(all="ignore"):
                    return known(*args, **options)

        self.__dict__[name] = found
        return found


def _take_along_axis(array: Any, indices: Any, axis: int, mode: str = "clip") -> Any:
    if is_jax(array, indices):
        return jnp.take_along_axis(array, indices, axis=axis, mode=mode)
    inside = np.clip(indices, 0, array.shape[axis] - 1)
    return np.take_along_axis(array, inside, axis=axis)


def _abs(x: Any) -> Any:
    """By the sign for whole numbers: some versions of XLA compile the absolute value of their
    differences wrongly for GPUs."""
    if is_jax(x):
        return x * jnp.sign(x) if jnp.issubdtype(x.dtype, jnp.integer) else jnp.abs(x)
    return np.abs(x)


xp = Arrays(
    np,
    jnp,
    abs=_abs,
    take_along_axis=_take_along_axis,
    special=Arrays(scipy.special, jax.scipy.special),
)


def stop_gradient(x: Any) -> Any:
    return jax.lax.stop_gradient(x) if is_jax(x) else x


def entries(array: Any, axis: int) -> list[Any]:
    """The entries along an axis, which they lose."""
    if is_jax(array):
        return [
            jax.lax.index_in_dim(array, i, axis, keepdims=False) for i in range(array.shape[axis])
        ]
    return list(np.moveaxis(array, axis, 0))


def scatter(shape: tuple[int, ...], at: Any, values: Any, how: str, start: float) -> Any:
    """An array of `start`, with values added to it (or, by `max`, kept if larger) at places."""
    if is_jax(values, at):
        target = jnp.full(shape, start, values.dtype).at[at]
        return target.max(values) if how == "max" else target.add(values)
    out = np.full(shape, start, values.dtype)
    (np.maximum if how == "max" else np.add).at(out, at, values)
    return out


def indexed(array: Any, index: Any) -> Any:
    """`array[index]`, where either may be NumPy's and the other JAX's; no index is negative."""
    if not is_jax(index):
        return array[index]
    return jnp.asarray(array).at[index].get(mode="clip", wrap_negative_indices=False)


def cast(array: Any, dtype: Any) -> Any:
    """An array of a type, or of the type that JAX has in its place."""
    return array.astype(jax.dtypes.canonicalize_dtype(dtype) if is_jax(array) else dtype)
