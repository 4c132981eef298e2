"""Data for a program over time: checked, coded, with masks for what is missing.

Arrays have a leading batch axis, then time for what has time, then the axes of the
observation, then columns where there are several. What is missing is NaN, None, or
masked (`numpy.ma`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from nesymm.compiler.expr import Axis, leaves
from nesymm.compiler.runtime import show as show_term
from nesymm.compiler.step import ObservationDecl, StepProgram
from nesymm.compiler.types import BOOL, Bool, Enum, Int, Real, Tensor, Type
from nesymm.errors import NesymmError
from nesymm.exact.named import Named
from nesymm.filtering.dims import BATCH
from nesymm.filtering.evidence import observed_type
from nesymm.filtering.phases import canonical_axes


class DataError(NesymmError):
    """Data that do not fit the program."""


@dataclass(frozen=True)
class Column:
    """One column of an input or observation: values and where they are there."""

    values: np.ndarray
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Sequences:
    """A batch of sequences. Arrays of what has time are time-major.

    `steps` counts the steps of the longest sequence; `last` is each one's last step.
    """

    batch: int
    steps: int
    last: np.ndarray
    timed: Mapping[str, tuple[Column, ...]]
    static: Mapping[str, tuple[Column, ...]]
    masks: Mapping[str, np.ndarray]
    observed: frozenset[str]

    @property
    def complete(self) -> frozenset[str]:
        """Names of inputs that are never missing."""
        return frozenset(n for n in (*self.timed, *self.static) if n not in self.masks)

    def first(self, count: int) -> Sequences:
        """The first so many sequences."""
        rows = np.s_[:count]
        return replace(
            self,
            batch=count,
            last=self.last[rows],
            timed={n: _cut(columns, np.s_[:, rows]) for n, columns in self.timed.items()},
            static={n: _cut(columns, rows) for n, columns in self.static.items()},
            masks={
                n: m[np.s_[:, rows] if n in self.timed else rows] for n, m in self.masks.items()
            },
        )


def _cut(columns: tuple[Column, ...], index: Any) -> tuple[Column, ...]:
    return tuple(replace(c, values=c.values[index]) for c in columns)


@dataclass(frozen=True)
class Wanted:
    """What the program expects under a name."""

    name: str
    kind: str
    timed: bool
    types: tuple[Type, ...]
    axes: tuple[Axis, ...] = ()


def wanted(step: StepProgram) -> dict[str, Wanted]:
    """The arrays that a program reads."""
    out: dict[str, Wanted] = {}
    for given in step.inputs:
        types: tuple[Type, ...] = (Tensor(),) if given.tensor else given.fields or (BOOL,)
        out[given.name] = Wanted(given.name, "input", given.timed, types)
    for observation in step.observations:
        if observation.value is None:
            out[observation.name] = Wanted(
                observation.name, "observation", True, _types(observation), observation.axes
            )
    return out


def _types(observation: ObservationDecl) -> tuple[Type, ...]:
    if not observation.is_value:
        return (BOOL,)
    return tuple(observed_type(observation, i) for i in range(len(observation.branches[0].values)))


def prepare(
    step: StepProgram,
    data: Mapping[str, Any],
    horizon: int | None = None,
    length: Any = None,
) -> Sequences:
    """Check and code data. `horizon` is the last step; `length` the number of steps of each."""
    expected = wanted(step)
    for name in data:
        if name not in expected:
            known = ", ".join(expected) or "none"
            raise DataError(f"the program reads no data called {name} (it reads: {known})")
    used = {n.data[0] for n in leaves(step.roots(), "input")}
    used |= {n.data for n in leaves(step.roots(), "given")}
    for name, want in expected.items():
        if want.kind == "input" and name in used and name not in data:
            raise DataError(f"the input {name} is not given (given: {', '.join(data) or 'none'})")
    arrays = {n: _split_missing(n, v) for n, v in data.items()}
    batch = _batch(arrays, length)
    steps = _steps(arrays, expected, horizon, length)
    last = _last(length, batch, steps)
    timed: dict[str, tuple[Column, ...]] = {}
    static: dict[str, tuple[Column, ...]] = {}
    masks: dict[str, np.ndarray] = {}
    for name, (values, missing) in arrays.items():
        want = expected[name]
        columns, mask = _columns(want, values, missing, batch, steps, last)
        (timed if want.timed else static)[name] = columns
        if mask is not None:
            masks[name] = mask
    observed = frozenset(n for n in data if expected[n].kind == "observation")
    return Sequences(batch, steps, last, timed, static, masks, observed)


def _split_missing(name: str, value: Any) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(value, np.ma.MaskedArray):
        return np.asarray(value.data), np.broadcast_to(np.asarray(value.mask), value.shape)
    try:
        array = np.asarray(value)
    except ValueError:
        raise DataError(
            f"{name}: the sequences differ in length; pad them to the longest and give `length`"
        ) from None
    if array.dtype == object:
        missing = np.equal(array, None)  # type: ignore[call-overload]
        return array, missing if missing.any() else None
    if np.issubdtype(array.dtype, np.floating):
        missing = np.isnan(array)
        return array, missing if missing.any() else None
    return array, None


def _batch(arrays: Mapping[str, tuple[np.ndarray, Any]], length: Any) -> int:
    sizes = {n: a.shape[0] for n, (a, _) in arrays.items() if a.ndim}
    for name, (array, _) in arrays.items():
        if array.ndim == 0:
            raise DataError(
                f"{name}: expected an array with a leading batch axis, received a scalar"
            )
    if length is not None and np.ndim(length) == 1:
        sizes["length"] = len(length)
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{n} {s}" for n, s in sizes.items())
        raise DataError(f"the batch axes differ: {shown}")
    batch = next(iter(sizes.values()), 1)
    if batch == 0:
        raise DataError("there is no sequence in the data")
    return batch


def _steps(
    arrays: Mapping[str, tuple[np.ndarray, Any]],
    expected: Mapping[str, Wanted],
    horizon: int | None,
    length: Any,
) -> int:
    counts: dict[str, int] = {}
    for name, (array, _) in arrays.items():
        if expected[name].timed:
            if array.ndim < 2:
                raise DataError(
                    f"{name}: expected axes (batch, time, …), received shape {array.shape}\n"
                    f"  = help: one sequence is a batch of one: `{name}[None]`"
                )
            counts[name] = array.shape[1]
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n} {c}" for n, c in counts.items())
        raise DataError(f"the time axes differ: {shown}")
    steps = next(iter(counts.values()), None)
    if horizon is not None:
        if steps is not None and steps != horizon + 1:
            raise DataError(
                f"{next(iter(counts))} has {steps} steps, the horizon {horizon} needs {horizon + 1}"
            )
        return horizon + 1
    if steps is None:
        if length is not None:
            return int(np.max(length))
        raise DataError("no data has a time axis: give the horizon (the last step)")
    if steps == 0:
        raise DataError(f"{next(iter(counts))}: there is no step in it")
    return steps


def _last(length: Any, batch: int, steps: int) -> np.ndarray:
    if length is None:
        return np.full(batch, steps - 1)
    lengths = np.asarray(length)
    if lengths.shape not in ((), (batch,)):
        raise DataError(f"length: expected shape ({batch},), received {lengths.shape}")
    lengths = np.broadcast_to(lengths, (batch,))
    if not np.issubdtype(lengths.dtype, np.integer):
        raise DataError(f"length: expected whole numbers, received {lengths.dtype}")
    bad = np.flatnonzero((lengths < 1) | (lengths > steps))
    if bad.size:
        b = int(bad[0])
        raise DataError(
            f"length of sequence {b} is {lengths[b]}; the data have {steps} steps, so it must lie "
            f"in 1..{steps}"
        )
    return np.asarray(lengths - 1)


def _columns(
    want: Wanted,
    values: np.ndarray,
    missing: np.ndarray | None,
    batch: int,
    steps: int,
    last: np.ndarray,
) -> tuple[tuple[Column, ...], np.ndarray | None]:
    lead = (batch, steps) if want.timed else (batch,)
    places = tuple(a.size for a in want.axes)
    tensor = isinstance(want.types[0], Tensor)
    shape = (*lead, *places)
    several = len(want.types) > 1
    fits = values.shape == shape
    inner = want.types[0].shape if isinstance(want.types[0], Tensor) else ()
    if tensor:
        fits = values.shape[: len(shape)] == shape and inner in (None, values.shape[len(shape) :])
    if several:
        fits = values.shape == (*shape, len(want.types))
    elif values.shape == (*shape, 1) and not tensor:
        values = values[..., 0]
        missing = missing[..., 0] if missing is not None else None
        fits = True
    if not fits:
        tail = (len(want.types),) if several else ()
        axes = "(batch, time, …)" if want.timed else "(batch, …)"
        expected = f"{(*shape, *tail, *(inner or ()))}"
        if inner is None:
            expected = f"{shape} and the shape of the tensor"
        raise DataError(
            f"{want.kind} {want.name}: expected axes {axes} of shape {expected}, "
            f"received {values.shape}"
        )
    mask: np.ndarray | None = None
    if missing is not None:
        behind = tuple(range(len(shape), missing.ndim))
        gone: np.ndarray = np.asarray(missing.any(axis=behind) if behind else missing)
        # What lies after the end of a sequence is not missing: it is not looked at.
        inside = ~gone
        if want.timed:
            past = np.arange(steps)[None, :] > last[:, None]
            inside = inside | past.reshape(*past.shape, *(1,) * (inside.ndim - 2))
        if not inside.all():
            mask = inside
    out = []
    for i, type_ in enumerate(want.types):
        column = values[..., i] if several else values
        coded = _code(
            want,
            column,
            type_,
            missing[..., i] if several and missing is not None else missing,
            last,
        )
        lined = np.moveaxis(coded, 1, 0) if want.timed else coded
        out.append(Column(lined, canonical_axes(want.axes)))
    if mask is not None and want.timed:
        mask = np.moveaxis(mask, 1, 0)
    return tuple(out), mask


def _code(
    want: Wanted, column: np.ndarray, type_: Type, missing: np.ndarray | None, last: np.ndarray
) -> np.ndarray:
    """Values as arrays hold them; what is missing or past the end may be anything."""
    ignore = np.zeros(column.shape, bool) if missing is None else missing.copy()
    if want.timed:
        past = np.arange(column.shape[1])[None, :] > last[:, None]
        ignore = ignore | past.reshape(*past.shape, *(1,) * (column.ndim - 2))
    if not isinstance(type_, Enum) and column.dtype.kind not in "biufO":
        raise DataError(
            f"{want.kind} {want.name}: expected {type_}, received {column.dtype} values"
        )
    match type_:
        case Tensor():
            return np.where(ignore, 0, column) if missing is not None else column
        case Bool():
            filled = np.where(ignore, 0, column)
            return _checked(want, filled, np.isin(filled.astype(object), [0, 1]), type_) != 0
        case Enum(values):
            filled = np.where(ignore, 0 if column.dtype.kind in "iuf" else values[0], column)
            if column.dtype.kind in "iuf":
                ok = (filled >= 0) & (filled < len(values)) & (filled == np.floor(filled))
                return _checked(want, filled, ok, type_).astype(np.int64)
            names = {v: i for i, v in enumerate(values)} | {
                show_term(v): i for i, v in enumerate(values)
            }
            ok = np.vectorize(lambda v: v in names, otypes=[bool])(filled)
            _checked(want, filled, ok, type_)
            return np.vectorize(lambda v: names[v], otypes=[np.int64])(filled)
        case Int(lo, hi):
            base = int(lo) if np.isfinite(lo) else (int(hi) if np.isfinite(hi) else 0)
            filled = _numbers(want, np.where(ignore, base, column), type_)
            ok = (filled == np.floor(filled)) & (filled >= lo) & (filled <= hi)
            if want.kind == "observation":
                # A value that cannot be is impossible evidence, not a mistake in the data.
                ok = filled == np.floor(filled)
            return _checked(want, filled, ok, type_).astype(np.int64)
        case Real():
            return _numbers(want, np.where(ignore, 0.0, column), type_).astype(np.float64)
    raise TypeError(type_)


def _numbers(want: Wanted, column: np.ndarray, type_: Type) -> np.ndarray:
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{want.kind} {want.name}: expected {type_}, received {column.dtype} values"
        ) from None


def _checked(want: Wanted, column: np.ndarray, ok: np.ndarray, type_: Type) -> np.ndarray:
    if ok.all():
        return column
    where = tuple(int(i) for i in np.argwhere(~ok)[0])
    place = f"sequence {where[0]}" + (f", step {where[1]}" if want.timed else "")
    value = column[where]
    shown = f"{value:g}" if isinstance(value, np.number) else repr(value)
    raise DataError(f"{want.kind} {want.name}: {shown} at {place} is outside its domain, {type_}")


# ---------------------------------------------------------------- for the filter


def named_columns(
    columns: tuple[Column, ...], arrays: tuple[Any, ...], real: Any
) -> tuple[Named, ...]:
    """The columns of one step (or of a sequence) over named dimensions."""
    out = []
    for column, array in zip(columns, arrays, strict=True):
        if jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(real)
        out.append(Named(array, (BATCH, *column.axes)))
    return tuple(out)
