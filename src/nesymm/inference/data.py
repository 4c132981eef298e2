"""Data for a program over time: checked, coded, with masks for what is missing.

Arrays have a leading batch axis, then time for what has time, then the axes of the
observation, then columns where there are several. What is missing is NaN, None, or
masked (`numpy.ma`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmWarning, warn
from nesymm.inference.columns import Column, DataError, Wanted, code, is_traced, split_missing
from nesymm.inference.devices import memory
from nesymm.inference.elimination.choices import BATCH
from nesymm.inference.named import Named
from nesymm.ir.expr import leaves
from nesymm.ir.step import StepProgram
from nesymm.ir.types import BOOL, Tensor, Type
from nesymm.language.program import At


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

    def layout(self) -> Sequences:
        """The same without the values: what compiled code may keep, also of traced arrays."""
        return replace(
            self,
            timed={n: tuple(map(_blank, columns)) for n, columns in self.timed.items()},
            static={n: tuple(map(_blank, columns)) for n, columns in self.static.items()},
        )

    def some(self, rows: Any, steps: int | None = None) -> Sequences:
        """Some of the sequences, by their numbers or a slice, and only so many steps of them."""
        last, time = self.last[rows], slice(steps)

        def cut(name: str, array: Any) -> Any:
            return array[time][:, rows] if name in self.timed else array[rows]

        def columns(some: Mapping[str, Any]) -> dict[str, Any]:
            return {
                n: tuple(replace(c, values=cut(n, c.values)) for c in group)
                for n, group in some.items()
            }

        return replace(
            self,
            batch=len(last),
            steps=self.steps if steps is None else steps,
            last=last,
            timed=columns(self.timed),
            static=columns(self.static),
            masks={n: cut(n, m) for n, m in self.masks.items()},
        )

    def first(self, count: int) -> Sequences:
        """The first so many sequences."""
        return self.some(slice(count))


def _blank(column: Column) -> Column:
    """A column of zeros, which take no memory."""
    zero = np.zeros((), column.values.dtype)
    return replace(column, values=np.broadcast_to(zero, column.values.shape))


def wanted(step: StepProgram) -> dict[str, Wanted]:
    """The arrays that a program reads."""
    out: dict[str, Wanted] = {}
    for given in step.inputs:
        types: tuple[Type, ...] = (Tensor(),) if given.tensor else given.fields or (BOOL,)
        _add(out, Wanted(given.name, "input", given.timed, types, given.axes))
    for observation in step.observations:
        if observation.value is None:
            timed = observation.when is not None
            name, axes = observation.name, observation.axes
            _add(out, Wanted(name, "observation", timed, observation.types, axes))
    return out


def _add(out: dict[str, Wanted], want: Wanted) -> None:
    other = out.setdefault(want.name, want)
    if (other.kind, other.timed, other.types) != (want.kind, want.timed, want.types) or [
        a.type for a in other.axes
    ] != [a.type for a in want.axes]:
        raise DataError(
            f"two different arrays would be called {want.name}: {_described(other)}, and "
            f"{_described(want)}\n  = help: rename one of the predicates"
        )


def _described(want: Wanted) -> str:
    per = "step" if want.timed else "sequence"
    shape = f" of shape {tuple(a.size for a in want.axes)}" if want.axes else ""
    return f"the {want.kind} of {', '.join(map(str, want.types))}{shape} per {per}"


class Arrays(dict[str, Any]):
    """Arrays by name; `sequences` are the names of their rows, None where these are numbers."""

    def __init__(
        self,
        arrays: Mapping[str, Any] = MappingProxyType({}),
        sequences: tuple[Any, ...] | None = None,
    ):
        super().__init__(arrays)
        self.sequences = sequences


def sequences_of(data: Any) -> tuple[Any, ...] | None:
    """The names of the sequences of some data, if they have names."""
    return data.sequences if isinstance(data, Arrays) else None


# The array of data that says how many steps each sequence has. A program may read an array of
# this name itself; then `steps` says it.
LENGTH = "length"


def prepare(
    step: StepProgram,
    data: Mapping[str, Any],
    steps: Any = None,
    *,
    ends: bool = True,
    traced: bool = False,
) -> Sequences:
    """Check and code data.

    `steps` is the number of steps of all sequences, or of each of them; it may stand in `data` as
    `length`, and is read off the arrays otherwise. A stream does not end there. With `traced`, JAX
    may be tracing the arrays: then their shapes are checked.
    """
    expected = wanted(step)
    if not traced:
        _refuse_traced(data)
    data, steps, lengths = _take_lengths(data, expected, steps)
    refuse_names(step, expected, data)
    arrays = {n: split_missing(n, v) for n, v in data.items()}
    batch = _batch(arrays, lengths)
    number = _steps(arrays, expected, steps, lengths, batch)
    last = _last(lengths, batch, number)
    if ends:
        _warn_of_evidence_after_the_end(step, last)
    timed: dict[str, tuple[Column, ...]] = {}
    static: dict[str, tuple[Column, ...]] = {}
    masks: dict[str, np.ndarray] = {}
    for name, (values, missing) in arrays.items():
        want = expected[name]
        lead = (batch, number) if want.timed else (batch,)
        columns, mask = code(want, values, missing, lead, last if want.timed else None)
        (timed if want.timed else static)[name] = columns
        if mask is not None:
            masks[name] = mask
    observed = frozenset(n for n in data if expected[n].kind == "observation")
    return Sequences(batch, number, last, timed, static, masks, observed)


def _take_lengths(
    data: Mapping[str, Any], expected: Mapping[str, Wanted], steps: Any
) -> tuple[Mapping[str, Any], Any, np.ndarray | None]:
    """The data without `length`, the number of steps of all sequences if it was given, and that
    of each."""
    _refuse_no_mapping(data)
    within = data.get(LENGTH) if LENGTH not in expected else None
    data = without_lengths(expected, data)
    if not isinstance(steps, list | tuple) and not getattr(steps, "ndim", 0):
        return data, steps, None if within is None else _lengths(LENGTH, within)
    if within is not None:
        raise DataError("steps: the data have the number of steps of each sequence, as `length`")
    return data, None, _lengths("steps", steps)


def without_lengths(expected: Mapping[str, Wanted], data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arrays that the program reads."""
    return {n: v for n, v in data.items() if n != LENGTH or n in expected}


def _refuse_traced(data: Mapping[str, Any]) -> None:
    for name, value in data.items() if isinstance(data, Mapping) else ():
        if is_traced(value):
            raise DataError(
                f"{name}: JAX is tracing this array (by `jit`, `grad` or `vmap`): it has no values "
                "yet\n  = help: `model.estimate` and `model.log_evidence` can be traced"
            )


def _refuse_no_mapping(data: Any) -> None:
    if not isinstance(data, Mapping):
        raise DataError(
            f"data: expected a dictionary of arrays by name, received {type(data).__name__}"
        )


def _warn_of_evidence_after_the_end(step: StepProgram, last: np.ndarray) -> None:
    end = int(last.max())
    for observation in step.observations:
        when = observation.when
        if isinstance(when, At) and when.index > end and observation.value is not None:
            warn(
                NesymmWarning(
                    "evidence after the end",
                    f"the program observes {observation.name} at step {when.index}, and the last "
                    f"step of all sequences is {end}",
                    "this evidence has no effect",
                    f"give at least {when.index + 1} steps, or observe at an earlier step",
                )
            )


def prepare_single(
    step: StepProgram, data: Mapping[str, Any], bits: int | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Check and code data for a program without time: per name its columns, or the tensor, and
    masks of what is there for some keys.

    None stands for what is missing. What JAX is tracing has no value yet and stays as it is.
    """
    expected = wanted(step)
    refuse_names(step, expected, data)
    out: dict[str, Any] = {}
    masks: dict[str, np.ndarray] = {}
    for name, value in data.items():
        if is_traced(value):
            out[name] = value
            continue
        want = expected[name]
        columns, mask = code(want, *split_missing(name, value), (), None, bits)
        arrays = tuple(c.values for c in columns)
        if mask is not None and want.axes:
            masks[name] = mask
            mask = None
        out[name] = None if mask is not None else arrays[0] if want.tensor else arrays
    return out, masks


def refuse_names(
    step: StepProgram, expected: Mapping[str, Wanted], data: Mapping[str, Any]
) -> None:
    """Raise if data have a name that the program does not read, or lack one that it needs."""
    _refuse_no_mapping(data)
    for name in data:
        if name not in expected:
            known = ", ".join(expected) or "none"
            raise DataError(f"the program reads no data called {name} (it reads: {known})")
    used = {n.data[0] for n in leaves(step.roots(), "input")}
    used |= {n.data for n in leaves(step.roots(), "given")}
    for name, want in expected.items():
        if want.kind == "input" and name in used and name not in data:
            raise DataError(f"the input {name} is not given (given: {', '.join(data) or 'none'})")


def _batch(arrays: Mapping[str, tuple[np.ndarray, Any]], lengths: np.ndarray | None) -> int:
    sizes = {n: a.shape[0] for n, (a, _) in arrays.items() if a.ndim}
    for name, (array, _) in arrays.items():
        if array.ndim == 0:
            raise DataError(
                f"{name}: expected an array with a leading batch axis, received a scalar"
            )
    if lengths is not None:
        sizes["length"] = len(lengths)
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
    steps: Any,
    lengths: np.ndarray | None,
    batch: int,
) -> int:
    counts: dict[str, int] = {}
    for name, (array, _) in arrays.items():
        if expected[name].timed:
            if array.ndim < 2:
                raise DataError(
                    f"{name}: expected axes (batch, time, …), received shape {array.shape}\n"
                    f"  = help: one sequence is a batch of one: `{name}[None]`; what is known of "
                    "one step only has NaN at the others"
                )
            counts[name] = array.shape[1]
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n} {c}" for n, c in counts.items())
        raise DataError(f"the time axes differ: {shown}")
    here = next(iter(counts.values()), None)
    if steps is not None:
        whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool)
        if not whole or steps < 1:
            raise DataError(f"steps: expected a number of steps, 1 or more, received {steps!r:.80}")
        if here is not None and here != steps:
            raise DataError(f"steps: {next(iter(counts))} has {here}, received {steps}")
        _refuse_endless(int(steps), batch)
        return int(steps)
    if here == 0:
        raise DataError(f"{next(iter(counts))}: there is no step in it")
    if here is not None:
        return here
    if lengths is None:
        raise DataError(
            "no data has a time axis, so that the number of steps is not known\n"
            "  = help: give it: `steps=10`, or `--steps 10` on the command line"
        )
    longest = max(1, int(np.max(lengths)))
    _refuse_endless(longest, batch)
    return longest


def _refuse_endless(steps: int, batch: int) -> None:
    """Raise where the results of so many steps, some numbers for each, fit into no memory."""
    if not fits_into_memory(steps, batch * _BYTES_OF_RESULTS):
        raise DataError(
            f"steps: expected a number of steps whose results fit into memory, received {steps:,} "
            f"steps of {batch:,} sequences"
        )


def fits_into_memory(steps: int, bytes_: int) -> bool:
    """Whether this machine could hold so many steps of so many bytes each."""
    return steps < 2**31 and steps * bytes_ <= memory()


# At each step of a sequence: gains, effective sample sizes, times and masks.
_BYTES_OF_RESULTS = 64


def _lengths(name: str, length: Any) -> np.ndarray:
    if np.ma.is_masked(length):
        raise DataError(
            f"{name}: expected a number for each sequence, received an array with masked entries"
        )
    try:
        lengths = np.asarray(length)
    except ValueError:
        lengths = np.asarray(length, dtype=object)
    if lengths.ndim != 1 or not lengths.size:
        raise DataError(f"{name}: expected one number per sequence, received shape {lengths.shape}")
    if not np.issubdtype(lengths.dtype, np.integer):
        raise DataError(f"{name}: expected whole numbers, received {lengths.dtype}")
    return lengths


def _last(lengths: np.ndarray | None, batch: int, steps: int) -> np.ndarray:
    if lengths is None:
        return np.full(batch, steps - 1)
    bad = np.flatnonzero((lengths < 1) | (lengths > steps))
    if bad.size:
        b = int(bad[0])
        raise DataError(
            f"length of sequence {b} is {lengths[b]}; the data have {steps} steps, so it must lie "
            f"in 1..{steps}"
        )
    return np.asarray(lengths - 1)


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
