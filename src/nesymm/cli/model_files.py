"""Models in files: `nesymm train` writes them, `nesymm evaluate` and `nesymm generate` read them.

Such a file holds arrays and JSON: program text, constants, the specification of the networks
and all numbers. Nothing else is needed to use the model, but for networks that the user's own
code makes: a file never runs code, so the user has to name their module as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nesymm.cli.answers import load_networks, refuse_unbound
from nesymm.cli.networks import KINDS, build_networks
from nesymm.cli.reading import read_constants, read_programs
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


def load(path: Path, modules: str | None = None) -> Model:
    """The model of a file that `save` wrote.

    `modules` are the modules, with commas between them, from which it may take networks.
    """
    _, about = checkpoints.read(path)
    if SPECIFICATIONS not in about:
        raise NesymmError(
            f"`{path}` holds numbers but not the networks they belong to\n"
            "  = help: give the model file that `nesymm train` writes, model.safetensors"
        )
    _refuse_modules(path, about[SPECIFICATIONS], modules)
    model = compile(about["program"], name=str(path), constants=about["constants"])
    networks = build_networks(about[SPECIFICATIONS], model.program.networks, seed=0)
    return checkpoints.load_model(replace(model, networks=networks), path)


def _refuse_modules(path: Path, specifications: Any, modules: str | None) -> None:
    """Importing a module runs it. Only the user can say that this is meant, not the file."""
    kinds = specifications.values() if isinstance(specifications, Mapping) else (specifications,)
    if not all(isinstance(s, Mapping) and isinstance(s.get("kind"), str) for s in kinds):
        raise NesymmError(f"`{path}` is damaged: it does not say of which kind its networks are")
    named = {part.partition(":")[0].strip() for part in (modules or "").split(",")} - {""}
    places = [s["kind"] for s in kinds if s["kind"] not in KINDS]
    needed = sorted({place.partition(":")[0] for place in places})
    if not set(needed) <= named:
        raise NesymmError(
            f"`{path}` takes networks from {', '.join(places)}; a model file does not run code "
            f"by itself\n  = help: if you trust this code, say `--networks {','.join(needed)}`"
        )
    if named - set(needed):
        odd = ", ".join(sorted(named - set(needed)))
        raise NesymmError(f"`--networks {modules}`: `{path}` takes no networks from {odd}")


def open_model(
    path: Path, const: Sequence[str], extend: Sequence[Path], networks: str | None
) -> Model:
    """A model file or a program, with other constants and further rules."""
    constants = read_constants(const)
    if path.suffix.lower() != SUFFIX:
        programs = read_programs([path, *extend])
        model = compile(programs, constants=constants, networks=load_networks(networks))
    else:
        model = load(path, networks)
        for program in read_programs(extend):
            assert program.source is not None
            model = model.extend(program.source.text, program.source.name)
        if constants:
            model = model.with_constants(**constants)
    refuse_unbound(model)
    return model
