"""What the commands read: a model file or programs, with other constants and further rules.

Networks that the user's own code makes stand in a model file by name only: a file never runs code,
so the user has to name their module as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax

from nesymm.cli.answers import load_networks, refuse_unbound
from nesymm.cli.networks import made_by_user
from nesymm.cli.reading import is_model_file, read_constants, read_programs
from nesymm.errors import NesymmError
from nesymm.files import checked_specifications
from nesymm.files import load as load_file
from nesymm.model import Model, compile
from nesymm.training import checkpoints
from nesymm.training.networks import KINDS


def load(path: Path, modules: str | None = None) -> Model:
    """The model of a file.

    `modules` are the modules, with commas between them, from which it may take networks.
    """
    _, about = checkpoints.read(path)
    specifications = checked_specifications(about, path)
    places = {name: s["kind"] for name, s in specifications.items() if s["kind"] not in KINDS}
    _refuse_modules(path, list(places.values()), modules)
    key = jax.random.key(0)
    return load_file(path, {name: made_by_user(name, place, key) for name, place in places.items()})


def _refuse_modules(path: Path, places: Sequence[str], modules: str | None) -> None:
    """Importing a module runs it. Only the user can say that this is meant, not the file."""
    named = {part.partition(":")[0].strip() for part in (modules or "").split(",")} - {""}
    needed = sorted({place.partition(":")[0] for place in places})
    if not set(needed) <= named:
        raise NesymmError(
            f"`{path}` takes networks from {', '.join(places)}; a model file does not run code "
            f"by itself\n  = help: if you trust this code, say `--networks {','.join(needed)}`"
        )
    if named - set(needed):
        odd = ", ".join(sorted(named - set(needed)))
        raise NesymmError(f"`--networks {modules}`: `{path}` takes no networks from {odd}")


def open_model(files: Sequence[Path], const: Sequence[str], networks: str | None) -> Model:
    """A model file or a program, and the programs that extend it."""
    constants = read_constants(const)
    first, *rest = files
    if not is_model_file(first):
        model = compile(read_programs(files), constants=constants, networks=load_networks(networks))
    else:
        model = load(first, networks)
        for program in read_programs(rest):
            assert program.source is not None
            model = model.extend(program.source.text, program.source.name)
        if constants:
            model = model.with_constants(**constants)
    return model


def open_over_time(
    files: Sequence[Path], const: Sequence[str], networks: str | None, otherwise: str
) -> Model:
    """A model whose networks are all given. Of one without time, `otherwise` says what to do."""
    model = open_model(files, const, networks)
    refuse_unbound(model)
    if not model.step.temporal:
        raise NesymmError(f"this program has no time{otherwise}")
    return model
