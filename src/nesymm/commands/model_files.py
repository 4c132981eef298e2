"""Models in files: `nesymm train` writes them, `nesymm evaluate` and `nesymm generate` read them.

Such a file holds arrays and JSON: program text, constants, the specification of the networks
and all numbers. Nothing else is needed to use the model, but for networks that the user's own
code makes, whose module must be importable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nesymm.answers import guarded, load_networks, refuse_unbound
from nesymm.commands.networks import build_networks
from nesymm.commands.reading import read_constants, read_programs
from nesymm.errors import NesymmError
from nesymm.model import Model, compile
from nesymm.training import checkpoints

SUFFIX = ".safetensors"
SPECIFICATIONS = "networks"


def save(model: Model, specifications: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write a model and how its networks are built."""
    arrays = checkpoints.flatten(
        {"parameters": model.parameters, "networks": dict(model.networks)}, ""
    )
    about = {**checkpoints.describe(model), SPECIFICATIONS: specifications}
    checkpoints.write(path, arrays, about)


def load(path: Path) -> Model:
    """The model of a file that `save` wrote."""
    _, about = checkpoints.read(path)
    if SPECIFICATIONS not in about:
        raise NesymmError(
            f"`{path}` holds numbers but not the networks they belong to\n"
            "  = help: give the model file that `nesymm train` writes, model.safetensors"
        )
    model = compile(about["program"], name=str(path), constants=about["constants"])
    networks = build_networks(about[SPECIFICATIONS], model.program.networks, seed=0)
    return checkpoints.load_model(replace(model, networks=networks), path)


def open_model(
    path: Path, const: Sequence[str], extend: Sequence[Path], networks: str | None
) -> Model:
    """A model file or a program, with other constants and further rules."""
    constants = read_constants(const)
    if path.suffix.lower() != SUFFIX:
        programs = read_programs([path, *extend])
        model = compile(programs, constants=constants, networks=load_networks(networks))
    elif networks is not None:
        raise NesymmError(f"`--networks` is for programs; `{path}` brings its networks along")
    else:
        model = load(path)
        for program in read_programs(extend):
            assert program.source is not None
            model = model.extend(program.source.text, program.source.name)
        if constants:
            model = model.with_constants(**constants)
    refuse_unbound(model)
    return replace(model, networks={n: guarded(n, f) for n, f in model.networks.items()})
