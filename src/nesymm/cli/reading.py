"""What the commands read: programs and constants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nesymm.errors import Diagnostic, NesymmError, ProgramError
from nesymm.ground.grounder import ground
from nesymm.inference.static.probabilities import probabilities
from nesymm.ir.passes.finish import refuse_open_queries
from nesymm.ir.step import StepProgram
from nesymm.language.check import check
from nesymm.language.loading import load
from nesymm.language.parser import parse, parse_term
from nesymm.language.program import CheckedProgram
from nesymm.language.terms import Program, Term, variables


def compile_files(
    files: Sequence[Path], const: Sequence[str]
) -> tuple[CheckedProgram, StepProgram]:
    constants: dict[str, Any] = dict(read_constants(const))
    first, *rest = files
    if is_model_file(first):
        from nesymm.training.checkpoints import read as read_model_file

        _, about = read_model_file(first)
        programs = [parse(about["program"], str(first)), *read_programs(rest)]
        constants = {**about["constants"], **constants}
    else:
        programs = read_programs(files)
    checked = check(programs, constants)
    step = ground(checked, probabilities)
    refuse_open_queries(step)
    return checked, step


def is_model_file(path: Path) -> bool:
    return path.suffix.lower() == ".safetensors"


def read_programs(files: Sequence[Path]) -> list[Program]:
    """Parse all files; report the mistakes of all of them."""
    programs: list[Program] = []
    mistakes: list[Diagnostic] = []
    for file in files:
        if is_model_file(file):
            raise NesymmError(
                f"`{file}` is a model file, which comes first; the programs that extend it follow"
            )
        try:
            programs.append(load(file))
        except ProgramError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise ProgramError(*mistakes)
    return programs


def read_constants(texts: Sequence[str]) -> dict[str, Term]:
    found: dict[str, Term] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and value and name.isidentifier()):
            raise NesymmError(
                f"`--const {text}` is not a constant: write --const NAME=VALUE, for example "
                "--const n=15, --const name=imp or --const xs=[1,2]"
            )
        if name in found:
            raise NesymmError(f"the constant {name} is given twice")
        found[name] = parse_term(value, f"--const {name}")
        unbound = next(variables(found[name]), None)
        if unbound is not None:
            raise NesymmError(
                f"`--const {text}`: {unbound.name} is a variable, and a constant has a value; "
                "names of things start with a small letter"
            )
    return found
