"""Cells of tables: what people write for truth, numbers and what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesymm.inference.columns import DataError, is_missing
from nesymm.ir.types import Bool, Int, Real, Type

_TRUTHS = {"true": True, "false": False}


def cell(value: Any, type_: Type, what: str) -> Any:
    """A cell as the program holds it, None where it is missing. `what` names its fact.

    Terms stay as they are: whether the program has them is seen where they get their positions.
    """
    if is_missing(value):
        return None
    if isinstance(type_, Bool):
        return _truth(value, what)
    if isinstance(type_, Int | Real):
        try:
            return float(value) if isinstance(value, str | np.floating) else _number(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{what}: expected {type_}, received {value!r}") from None
    return value


def _truth(value: Any, what: str) -> bool:
    if isinstance(value, str) and value.lower() in _TRUTHS:
        return _TRUTHS[value.lower()]
    if isinstance(value, bool | int | float | np.bool_ | np.number) and value in (0, 1):
        return bool(value)
    raise DataError(
        f"{what}: expected a truth value, received {value!r}\n"
        "  = help: write true and false, or 1 and 0"
    )


def _number(value: Any) -> Any:
    """A number as it is, if an array of reals can hold it."""
    float(value)
    return value


__all__ = ["cell"]
