"""Models in files: `save` writes one, `load` reads it back.

A file holds arrays and JSON (safetensors), never code: the text of the program, its constants,
all numbers, and how the networks of `nesymm` are built. A network of your own is code, so `load`
is given one to fill.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.ir.parameters import bound, check_parameters, free, plain
from nesymm.model import Model, compile
from nesymm.training import checkpoints
from nesymm.training.checkpoints import CheckpointError
from nesymm.training.networks import build


def save(model: Model, path: str | Path) -> None:
    """Write a model to a file: its program, constants, parameters and networks.

    Args:
        model: What to keep. Networks of `nesymm` (`MLP`, `ConvEncoder`, `ConvDecoder`) are kept
            with their sizes, those of your own with their arrays only.
        path: The file, by custom with the ending `.safetensors`. It is replaced in one move.

    Raises:
        NesymmError: The file cannot be written.

    Example:
        >>> nesymm.save(fitted.model, "robot.safetensors")
        >>> model = nesymm.load("robot.safetensors")
    """
    _refuse_others(path, "save(model, path)", model)
    write(model, {}, Path(path))


def write(model: Model, specifications: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write a model; `specifications` say how to build networks that do not say it themselves."""
    numbers = {"parameters": dict(model.parameters), "networks": dict(model.networks)}
    about = checkpoints.describe(model)
    about["networks"] |= specifications
    checkpoints.write(path, checkpoints.flatten(numbers, ""), about)


def load(
    path: str | Path,
    networks: Mapping[str, Any] | None = None,
    *,
    into: Model | None = None,
    check: bool = True,
) -> Model:
    """Read a model from a file that `save`, `nesymm train` or a run with checkpoints wrote.

    Args:
        path: The file. Of a checkpoint of a run, the best epoch is taken, or else the last.
        networks: Networks of your own by name, as they were made before training; their numbers
            are replaced by those of the file. Networks of `nesymm` need not be given.
        into: Take the numbers into this model instead of the program that the file holds.
        check: With `into`, refuse a file whose program or constants differ. `check=False` takes
            the numbers into any program that they fit: a larger grid, further rules.

    Raises:
        CheckpointError: The file is missing, damaged or does not fit.
        NesymmError: A network of your own is needed and not given.

    Example:
        >>> model = nesymm.load("robot.safetensors")
        >>> larger = model.with_constants(n=30)
    """
    _refuse_others(path, "load(path)")
    arrays, about = checkpoints.read(Path(path))
    if into is None:
        model = compile(about["program"], name=str(path), constants=about["constants"])
        model = model.with_networks(_networks(model, arrays, about, networks or {}, path))
    else:
        model = into.with_networks(networks)
        if check:
            checkpoints.check_fits(about, model, str(path))
    if "epoch" in about:
        return _from_run(model, arrays, about, path, check)
    like = {"parameters": model.parameters, "networks": dict(model.networks)}
    found = checkpoints.unflatten(like, arrays, "", str(path), check)
    return _with_numbers(model, found["parameters"], found["networks"], path)


def _networks(
    model: Model,
    arrays: Mapping[str, np.ndarray],
    about: Mapping[str, Any],
    given: Mapping[str, Any],
    path: str | Path,
) -> dict[str, Any]:
    """The networks that the file describes, and those that are given, with any numbers."""
    specifications = checked_specifications(about, path)
    kept = dict.fromkeys(
        name for array in arrays for name in re.findall(r"\['networks'\]\['([^']+)'\]", array)
    )
    made = {
        name: build(name, s, model.program.networks.get(name), jax.random.key(0))
        for name, s in specifications.items()
        if name not in given and name in model.program.networks and ":" not in s["kind"]
    }
    missing = [name for name in kept if name not in made and name not in given]
    if missing:
        written = ", ".join(f'"{name}": …' for name in missing)
        raise NesymmError(
            f"{path} holds the numbers of {_several(missing)}, but not how to make "
            f"{'them' if len(missing) > 1 else 'it'}: a file holds no code\n"
            f"  = help: make {'them' if len(missing) > 1 else 'it'} as before training: "
            f"`nesymm.load(path, networks={{{written}}})`"
        )
    return {**made, **given}


def checked_specifications(about: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """How the networks of a file are built, by name."""
    found = about.get("networks", {})
    parts = found.values() if isinstance(found, Mapping) else (found,)
    if not all(isinstance(s, Mapping) and isinstance(s.get("kind"), str) for s in parts):
        raise NesymmError(f"`{path}` is damaged: it does not say of which kind its networks are")
    return dict(found)


def _several(names: list[str]) -> str:
    return f"the network{'s' * (len(names) > 1)} {', '.join(names)}"


def _from_run(
    model: Model, arrays: dict[str, np.ndarray], about: Mapping[str, Any], path: Any, check: bool
) -> Model:
    """A checkpoint has unconstrained numbers: those of its best epoch, or else the last."""
    prefix = "variables" if about["best"] is None else "best"
    numbers = {n: jnp.asarray(v) for n, v in free(model.step, model.parameters).items()}
    like = {"parameters": numbers, "networks": dict(model.networks)}
    found = checkpoints.unflatten(like, arrays, prefix, str(path), check)
    parameters = plain(bound(model.step, found["parameters"]))
    return _with_numbers(model, parameters, found["networks"], path)


def _with_numbers(model: Model, parameters: Any, networks: Any, path: str | Path) -> Model:
    try:
        check_parameters(model.step, parameters)
    except NesymmError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    return replace(model, parameters=parameters, networks=networks)


def _refuse_others(path: Any, call: str, *models: Any) -> None:
    found = [("model", "a model", m, isinstance(m, Model)) for m in models]
    found += [("path", "a path", path, isinstance(path, str | os.PathLike))]
    for name, expected, value, fits in found:
        if not fits:
            raise NesymmError(
                f"{name}: expected {expected}, received {type(value).__name__}\n"
                f"  = help: `nesymm.{call}`"
            )
