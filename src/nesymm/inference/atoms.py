"""What holds along a trajectory, as ground atoms in the words of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis
from nesymm.ir.step import StepProgram
from nesymm.ir.terms import quote, show
from nesymm.ir.types import Bool, Enum, Int, Real, Type, domain

# Tensors with at most this many entries are written out as lists.
SHOWN = 16


def fluents(
    step: StepProgram, columns: Mapping[tuple[str, Any], np.ndarray], at: tuple[int, ...]
) -> Iterator[str]:
    """The fluents that hold at [sequence, trajectory, step], without their time.

    `columns` are the fields of the state, [batch, trajectory, step, axes…] without axes of one
    value, by slot and field.
    """
    for slot in step.slots:
        if slot.atom is None:
            continue
        present = columns.get((slot.name, "present"))
        for index, keys in elements(slot.axes):
            here = (*at, *(i for i, a in zip(index, slot.axes, strict=True) if a.size > 1))
            if present is not None and not present[here]:
                continue
            fields = [decode(t, columns[slot.name, i][here]) for i, t in enumerate(slot.fields)]
            words = [word(a) for a in slot.arguments(keys, fields)]
            name = quote(slot.atom[0])
            yield f"{name}({','.join(words)})" if words else name


def check_place(lengths: np.ndarray, count: int, sequence: int, trajectory: int, step: int) -> None:
    """Refuse a place that no trajectory has."""
    check_number("sequence", sequence, len(lengths), "sequences")
    check_number("trajectory", trajectory, count, "trajectories of each sequence")
    check_number("step", step, int(lengths[sequence]), f"steps of sequence {sequence}")


def check_number(name: str, number: int, size: int, of: str) -> None:
    """Refuse what is not the number of one of `size` things."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or not 0 <= number < size:
        raise NesymmError(
            f"{name}: expected a whole number from 0 and below {size}, the number of {of}, "
            f"received {number!r}"
        )


def elements(axes: tuple[Axis, ...]) -> Iterator[tuple[tuple[int, ...], tuple]]:
    """Positions along axes, and the keys there."""
    yield from zip(product(*(range(a.size) for a in axes)), places(axes), strict=True)


def decode(type_: Type, code: Any) -> Any:
    """The term that a number in an array stands for; a tensor is a list."""
    match type_:
        case Enum():
            return domain(type_)[int(code)]
        case Bool():
            return bool(code)
        case Int():
            return int(code)
        case Real():
            return float(code)
    return _listed(np.asarray(code).tolist())


def _listed(entries: Any) -> Any:
    return tuple(map(_listed, entries)) if isinstance(entries, list) else entries


def word(value: Any) -> str:
    """A term as text: real numbers with six digits, large tensors by their shape."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and value and isinstance(value[0], float | tuple):
        shape = np.shape(value)
        if np.prod(shape) > SHOWN:
            return f"tensor{list(shape)}"
        return f"[{','.join(map(word, value))}]"
    return show(value)
