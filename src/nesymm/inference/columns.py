"""One array of data: checked against what the program expects of it, and coded.

Terms become their positions in a list. What is missing is NaN, None, or masked (`numpy.ma`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import xp
from nesymm.ir.expr import Axis
from nesymm.ir.passes.phases import canonical_axes
from nesymm.ir.terms import show as show_term
from nesymm.ir.types import Bool, Enum, Int, Real, Tensor, Type


class DataError(NesymmError):
    """Data that do not fit the program."""


@dataclass(frozen=True)
class Column:
    """One column of an input or observation: values and where they are there."""

    values: np.ndarray
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Wanted:
    """What the program expects under a name."""

    name: str
    kind: str
    timed: bool
    types: tuple[Type, ...]
    axes: tuple[Axis, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def tensor(self) -> Tensor | None:
        """The type, where it is that of a tensor."""
        return self.types[0] if isinstance(self.types[0], Tensor) else None


def is_traced(value: Any) -> bool:
    """Whether JAX is tracing an array (by `jit`, `grad` or `vmap`), so that it has no values."""
    return isinstance(value, jax.core.Tracer)


def split_missing(name: str, value: Any) -> tuple[Any, np.ndarray | None]:
    """An array, and where its entries are missing: NaN, None or masked (None: nowhere).

    What JAX is tracing has no values yet: nothing of it is missing.
    """
    if is_traced(value):
        return value, None
    masked = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else None
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US" and not hasattr(value, "dtype"):
            # Beside texts, NumPy makes the text "nan" of NaN.
            array = np.asarray(value, dtype=object)
    except ValueError:
        raise DataError(
            f"{name}: the sequences differ in length; pad them to the longest and give `length`"
        ) from None
    missing = np.zeros(array.shape, bool)
    if array.dtype == object:
        missing = np.vectorize(is_missing, otypes=[bool])(array) if array.size else missing
    elif np.issubdtype(array.dtype, np.floating):
        missing = np.isnan(array)
    if masked is not None:
        missing = missing | masked
    return array, missing if missing.any() else None


def is_missing(value: Any) -> bool:
    """Whether an entry says nothing: None, NaN, or what pandas writes for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def code(
    want: Wanted,
    values: np.ndarray,
    missing: np.ndarray | None,
    lead: tuple[int, ...],
    last: np.ndarray | None,
    bits: int | None = None,
) -> tuple[tuple[Column, ...], np.ndarray | None]:
    """An array as columns, and where it is there (None: everywhere).

    `lead` are the sizes of the axes before those of the observation: none, batch, or batch and
    time. With `last`, the last step of each sequence, the results are time-major. `bits` are those
    of the numbers, as many as JAX has if it is not given.
    """
    bits = bits or jax.dtypes.canonicalize_dtype(np.float64).itemsize * 8
    shape = (*lead, *(a.size for a in want.axes))
    values, missing = _fit(want, values, missing, shape, len(lead))
    depth = len(shape)
    ignored = np.zeros(values.shape, bool) if missing is None else missing
    if last is not None:
        past = np.arange(lead[1])[None, :] > last[:, None]
        ignored = ignored | past.reshape(*past.shape, *(1,) * (values.ndim - 2))
        missing = (
            None
            if missing is None
            else missing & ~past.reshape(*past.shape, *(1,) * (values.ndim - 2))
        )
    mask: np.ndarray | None = None
    if missing is not None and missing.any():
        behind = tuple(range(depth, missing.ndim))
        gone = np.asarray(missing.any(axis=behind))
        _refuse_parts(want, gone & ~missing.all(axis=behind), len(lead))
        mask = ~gone
        if want.tensor and want.kind == "input":
            place = _place(tuple(int(i) for i in np.argwhere(gone)[0]), len(lead))
            raise DataError(f"{want}: the tensor{place} is missing, and a network cannot read it")
    several = len(want.types) > 1
    out = []
    for i, type_ in enumerate(want.types):
        at: Any = (..., i) if several else ...
        coded = _code(want, values[at], type_, ignored[at], len(lead), bits)
        aligned = coded if last is None else xp.moveaxis(coded, 1, 0)
        out.append(Column(aligned, canonical_axes(want.axes)))
    if mask is not None and last is not None:
        mask = np.moveaxis(mask, 1, 0)
    return tuple(out), mask


def _fit(
    want: Wanted,
    values: np.ndarray,
    missing: np.ndarray | None,
    shape: tuple[int, ...],
    lead: int,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The array in its expected shape; what is entirely missing may be one None."""
    depth, columns = len(shape), len(want.types)
    tail = (columns,) if columns > 1 else ()
    tensor = want.tensor
    if tensor is not None:
        inner = tensor.shape
        expected = f"{shape} and the shape of the tensor" if inner is None else f"{shape + inner}"
        fits = values.shape[:depth] == shape and inner in (None, values.shape[depth:])
    else:
        expected = f"{(*shape, *tail)}"
        fits = values.shape == (*shape, *tail)
        if 0 in shape[lead:] and values.shape[:depth] == shape:
            # Of no entity at all: nobody knows how many values each would have.
            return values.reshape(shape), None
    if fits:
        return values, missing
    if not tail and tensor is None and values.shape == (*shape, 1):
        return values[..., 0], None if missing is None else missing[..., 0]
    if missing is not None and missing.all() and values.shape == shape:
        # None where there would be several values, or a tensor: all of it is missing.
        inside = tail or (tensor.shape if tensor and tensor.shape else ())
        full = (*shape, *inside)
        return np.full(full, np.nan), np.ones(full, bool)
    axes = ("expected", "expected axes (batch, …) of", "expected axes (batch, time, …) of")[lead]
    raise DataError(f"{want}: {axes} shape {expected}, received {values.shape}")


def _place(where: tuple[int, ...], lead: int) -> str:
    """Where an entry stands, in words."""
    return "".join(
        f" at {n} {i}" if n == "sequence" else f", {n} {i}"
        for n, i in zip(("sequence", "step")[:lead], where[:lead], strict=True)
    )


def _refuse_parts(want: Wanted, partly: np.ndarray, lead: int) -> None:
    if not partly.any():
        return
    place = _place(tuple(int(i) for i in np.argwhere(partly)[0]), lead)
    parts = "entries" if want.tensor else f"{len(want.types)} values"
    raise DataError(
        f"{want}: some of the {parts}{place} are missing and others are not; give all or none"
    )


def _code(
    want: Wanted, column: np.ndarray, type_: Type, ignored: np.ndarray, lead: int, bits: int
) -> np.ndarray:
    """Values as arrays hold them; what is missing or past the end may be anything."""
    if not isinstance(type_, Enum) and column.dtype.kind not in "biufO":
        raise DataError(f"{want}: expected {type_}, received {column.dtype} values")
    if is_traced(column):
        return _traced(want, column, type_)
    match type_:
        case Tensor():
            return np.where(ignored, 0, column) if ignored.any() else column
        case Bool():
            filled = np.where(ignored, 0, column)
            ok = (
                np.isin(filled.astype(object), [0, 1])
                if column.dtype == object
                else ((filled == 0) | (filled == 1))
            )
            return _checked(want, filled, ok, type_, lead) != 0
        case Enum(values):
            return _positions(want, column, values, ignored, lead)
        case Int():
            return _whole(want, column, type_, ignored, lead, bits)
        case Real():
            filled = _numbers(want, _decimals(np.where(ignored, 0.0, column)), type_)
            largest = np.finfo(f"float{bits}").max
            reason = f"is not a number that {bits} bits hold"
            return _checked(want, filled, np.abs(filled) <= largest, type_, lead, reason)
    raise TypeError(type_)


def _traced(want: Wanted, column: Any, type_: Type) -> Any:
    """What JAX is tracing is taken at its word: NaN is a value, a term is its position."""
    if isinstance(type_, Bool):
        return column != 0
    if isinstance(type_, Real | Tensor):
        return jax.numpy.asarray(column, float if column.dtype.kind in "biu" else column.dtype)
    if column.dtype.kind not in ("iu" if isinstance(type_, Enum) else "biu"):
        raise DataError(f"{want}: expected {type_} as whole numbers, received {column.dtype}")
    return jax.numpy.asarray(column, int)


def _positions(
    want: Wanted, column: np.ndarray, values: tuple, ignored: np.ndarray, lead: int
) -> np.ndarray:
    """Terms as their positions among all terms; positions may be given, too. Truths are the names
    `true` and `false`."""
    known: dict[Any, int] = {i: i for i in range(len(values))}
    known |= {v: i for i, v in enumerate(values)} | {show_term(v): i for i, v in enumerate(values)}

    def position(value: Any) -> int:
        # True would be found as 1, and a list cannot be looked for.
        if isinstance(value, bool | np.bool_):
            value = str(value).lower()
        return known.get(value, -1) if isinstance(value, Hashable) else -1

    filled = np.where(ignored, 0, column) if column.dtype.kind in "iuf" else column.astype(object)
    if column.dtype.kind not in "iuf":
        filled[ignored] = 0
    unique, inverse = (
        (filled, None) if filled.dtype == object else np.unique(filled, return_inverse=True)
    )
    found = (
        np.vectorize(position, otypes=[np.int64])(unique)
        if unique.size
        else np.zeros(unique.shape, np.int64)
    )
    if inverse is not None:
        found = found[inverse.reshape(filled.shape)]
    _checked(want, filled, found >= 0, Enum(values), lead)
    return found


def _whole(
    want: Wanted,
    column: np.ndarray,
    type_: Int,
    ignored: np.ndarray,
    lead: int,
    bits: int,
) -> np.ndarray:
    lo, hi = type_.lo, type_.hi
    base = int(lo) if np.isfinite(lo) else (int(hi) if np.isfinite(hi) else 0)
    filled = np.where(ignored, base, column)
    if filled.dtype.kind not in "iu":
        filled = _numbers(want, filled, type_)
    inside = filled == np.floor(filled)
    if want.kind == "input":
        low, high = (int(b) if np.isfinite(b) else b for b in (lo, hi))
        inside = inside & (filled >= low) & (filled <= high)
    # An observed value that cannot be is impossible evidence, not a mistake in the data.
    _checked(want, filled, inside, type_, lead)
    limits = np.iinfo(f"int{bits}")
    # The float next to 2^63 is 2^63 itself.
    fits = (filled >= limits.min) & (filled <= limits.max) & (filled.astype(float) < 2.0**63)
    reason = f"does not fit the {bits} bits of whole numbers"
    return _checked(want, filled, fits, type_, lead, reason).astype(np.int64)


def _decimals(column: np.ndarray) -> np.ndarray:
    """Numbers of few bits as the shortest decimals that they stand for: 0.1 is one of [0.1, 0.2],
    and not the nearest number of 32 bits."""
    if column.dtype.kind != "f" or column.dtype.itemsize >= 8:
        return column
    wide = column.astype(np.float64)
    out, left = wide.copy(), np.ones(column.shape, bool)
    for places in range(9):
        shorter = np.round(wide, places)
        found = left & (shorter.astype(column.dtype) == column)
        out[found] = shorter[found]
        left &= ~found
    return out


def _numbers(want: Wanted, column: np.ndarray, type_: Type) -> np.ndarray:
    if column.dtype == object and any(isinstance(v, str) for v in column.ravel()):
        raise DataError(f"{want}: expected {type_}, received texts")
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{want}: expected {type_}, received {column.dtype} values") from None


def _checked(
    want: Wanted, column: np.ndarray, ok: np.ndarray, type_: Type, lead: int, reason: str = ""
) -> np.ndarray:
    if ok.all():
        return column
    where = tuple(int(i) for i in np.argwhere(~ok)[0])
    value = column[where]
    shown = f"{value:g}" if isinstance(value, np.floating) else repr(value)
    if isinstance(value, np.integer):
        shown = str(value)
    hint = ": write True and False, or 1 and 0" if isinstance(type_, Bool) else ""
    reason = reason or f"is outside its domain, {type_}{hint}"
    raise DataError(f"{want}: {shown}{_place(where, lead)} {reason}")
