"""From a checked program to a `StepProgram`: one transition, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nesymm.ir.step import StepProgram


def compile_step(
    source: str, name: str = "<program>", constants: Mapping[str, Any] | None = None
) -> StepProgram:
    """Parse, check and ground a program text."""
    from nesymm.ground.grounder import ground
    from nesymm.language.check import check
    from nesymm.language.parser import parse

    return ground(check(parse(source, name), constants))


__all__ = ["StepProgram", "compile_step"]
