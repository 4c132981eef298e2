"""Checkpoints: arrays and JSON in one safetensors file, written atomically.

A file holds everything that a run needs to resume as if it had never stopped: parameters,
networks, the optimiser's state, the best so far, the history; and what it belongs to:
program, constants, seed, versions.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nesymm.errors import NesymmError, NesymmWarning, warn
from nesymm.inference.options import SEED, Rule, whole
from nesymm.training.networks import specifications

if TYPE_CHECKING:
    from nesymm.model import Model

FORMAT = 1


class CheckpointError(NesymmError):
    """A checkpoint that cannot be read, or belongs to something else."""


def write(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """All or nothing: another file is written in full, and then takes the name."""
    data = save(arrays, metadata={"nesymm": json.dumps(about)})
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise NesymmError(f"cannot write `{path}`: {error.strerror or error}") from None


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NesymmError(f"cannot make the folder `{folder}`: {error.strerror or error}") from None


def read(path: Path, of_run: bool = False) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the JSON of a file, which has all that files have; with `of_run`, also all
    that a run needs to resume."""
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {}).get("nesymm", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"there is no file {path}") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{path} is not a whole checkpoint: {error}") from None
    except RecursionError:
        raise CheckpointError(f"{path} is not a whole checkpoint: its JSON is too deep") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of nesymm")
    for key, rule in (_OF_ALL | _OF_RUNS if of_run or "epoch" in about else _OF_ALL).items():
        if key not in about:
            raise CheckpointError(f"{path} is damaged: it has no {key}")
        if not rule.fits(about[key]):
            raise CheckpointError(
                f"{path} is damaged: {key}: expected {rule.expected}, received {about[key]!r:.80}"
            )
    for many, one in (("losses", "batch"), ("history", "epoch")):
        if one in about and len(about[many]) != about[one]:
            raise CheckpointError(
                f"{path} is damaged: {one} is {about[one]}, {many} has {len(about[many])} entries"
            )
    return arrays, about


def _is_score(value: Any) -> bool:
    """A loss or a metric, which may be infinite or not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and "loss" in value and all(map(_is_score, value.values()))


# What the JSON of every file has, and what that of a checkpoint of a run has besides.
_OF_ALL = {
    "program": Rule("a text", lambda v: isinstance(v, str)),
    "constants": Rule("constants by name", lambda v: isinstance(v, dict)),
}
_OF_RUNS = {
    "seed": SEED,
    "batch_size": whole(1),
    "epoch": whole(0),
    "batch": whole(0),
    "losses": Rule("a list of numbers", lambda v: isinstance(v, list) and all(map(_is_score, v))),
    "history": Rule(
        "a list of rows of numbers", lambda v: isinstance(v, list) and all(map(_is_row, v))
    ),
    "best": Rule("a number or null", lambda v: v is None or _is_score(v)),
}


# ---------------------------------------------------------------- trees


def flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a tree under readable names."""
    arrays = eqx.filter(tree, eqx.is_array_like)
    leaves, _ = jax.tree_util.tree_flatten_with_path(arrays)
    return {f"{prefix}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def unflatten(
    like: Any, arrays: dict[str, np.ndarray], prefix: str, where: str, all_of_them: bool = True
) -> Any:
    """A tree like another, with other numbers: by default with all that the file has."""
    dynamic, static = eqx.partition(like, eqx.is_array_like)
    leaves, treedef = jax.tree_util.tree_flatten_with_path(dynamic)
    named = {f"{prefix}{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves}
    spare = [n for n in arrays if n.startswith(f"{prefix}[") and n not in named]
    _check_arrays(named, arrays, spare if all_of_them else [], where)
    new: list[Any] = []
    for name, leaf in named.items():
        value = arrays[name]
        if isinstance(leaf, jax.Array):
            new.append(jnp.asarray(value))
        else:
            new.append(value if isinstance(leaf, np.ndarray) else type(leaf)(value))
    return eqx.combine(jax.tree_util.tree_unflatten(treedef, new), static)


def _check_arrays(
    needed: dict[str, Any], arrays: dict[str, np.ndarray], spare: list[str], where: str
) -> None:
    """Refuse arrays that are not those of the model, and name all of them."""
    problems = [f"it has no {name}" for name in needed if name not in arrays]
    problems += [f"it has {name}, the model does not" for name in spare]
    problems += [
        f"{name} has shape {arrays[name].shape}, the model needs {np.shape(leaf)}"
        for name, leaf in needed.items()
        if name in arrays and arrays[name].shape != np.shape(leaf)
    ]
    if problems:
        listed = "".join(f"\n  {p}" for p in problems)
        raise CheckpointError(f"{where} does not fit; the networks or the program differ:{listed}")


# ---------------------------------------------------------------- models


def describe(model: Model) -> dict[str, Any]:
    """What a checkpoint belongs to, as JSON has it."""
    about = {
        "format": FORMAT,
        "program": model.text,
        "constants": dict(model.constants),
        "networks": specifications(model.networks),
        "versions": {p: version(p) for p in ("nesymm", "jax", "equinox", "optax")},
    }
    plain: dict[str, Any] = json.loads(json.dumps(about, default=str))
    return plain


def check_fits(about: dict[str, Any], model: Model, where: str) -> None:
    """Refuse a checkpoint of another program, and say what differs."""
    now = describe(model)
    if about["program"] != now["program"]:
        old, new = about["program"].splitlines(), now["program"].splitlines()
        first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
        at = min(len(old), len(new)) if first is None else first
        before = old[at] if at < len(old) else "(nothing)"
        after = new[at] if at < len(new) else "(nothing)"
        raise CheckpointError(
            f"{where} belongs to another program; line {at + 1} was\n  {before}\nand is\n  {after}"
        )
    was, is_now = about["constants"], now["constants"]
    if was != is_now:
        names = sorted(n for n in {**was, **is_now} if was.get(n) != is_now.get(n))
        default = "what the program says"
        listed = ", ".join(
            f"{n} was {was.get(n, default)}, is {is_now.get(n, default)}" for n in names
        )
        raise CheckpointError(f"{where} was trained with other constants: {listed}")


class Checkpoints:
    """The checkpoints of a run: the last few, and the best."""

    def __init__(self, folder: Path, model: Model, seed: int, keep: int, batch_size: int):
        self.folder = folder
        self.model = model
        self.seed = seed
        self.keep = keep
        self.batch_size = batch_size
        make_folder(folder)
        # What a killed process was writing.
        for partial in folder.glob(".*.safetensors.*.partial"):
            partial.unlink()

    def refuse_earlier(self) -> None:
        """A new run would mix its files with those of another."""
        if files := self._files():
            raise CheckpointError(
                f"{self.folder} has checkpoints of an earlier run, up to {files[-1].name}\n"
                "  = help: `resume=True` resumes from there; a new run needs an empty folder"
            )

    def save(self, state: Any, best: tuple[float, Any] | None) -> None:
        arrays = flatten(state.variables, "variables")
        arrays |= flatten(state.optimizer, "optimizer")
        if state.runs.size:
            arrays |= flatten({"kept": state.runs}, "runs")
        if best is not None:
            arrays |= flatten(best[1], "best")
        about = {
            **describe(self.model),
            "seed": self.seed,
            "batch_size": self.batch_size,
            "epoch": state.epoch,
            "batch": state.batch,
            "losses": list(state.losses),
            "history": state.history,
            "best": None if best is None else best[0],
        }
        name = f"epoch-{state.epoch:06d}"
        if state.batch:
            name += f"-batch-{state.batch:06d}"
        write(self.folder / f"{name}.safetensors", arrays, about)
        ended = state.batch == 0 and bool(state.history)
        if best is not None and ended and state.history[-1].get("validation") == best[0]:
            write(self.folder / "best.safetensors", arrays, about)
        for old in self._files()[: -self.keep]:
            old.unlink()

    def _files(self) -> list[Path]:
        """From the first to the last."""
        return sorted(self.folder.glob("epoch-*.safetensors"), key=_progress)

    def restore(
        self, like: Any, until: tuple[int, int] | None = None
    ) -> tuple[Any, tuple[float, Any] | None]:
        """The last whole checkpoint (`until` a batch of an epoch), or a fresh start where there
        is none."""
        files = [f for f in self._files() if until is None or (*_progress(f), 0)[:2] <= until]
        if not files:
            return like, None
        path, arrays, about = _last_whole(files)
        check_fits(about, self.model, str(path))
        if about["seed"] != self.seed:
            raise CheckpointError(
                f"{path} belongs to a run with seed {about['seed']}, this one has {self.seed}"
            )
        if about["batch"] and about["batch_size"] != self.batch_size:
            raise CheckpointError(
                f"{path} is within an epoch with batch_size {about['batch_size']}, "
                f"this run has {self.batch_size}"
            )
        state = replace(
            like,
            variables=unflatten(like.variables, arrays, "variables", str(path)),
            optimizer=unflatten(like.optimizer, arrays, "optimizer", str(path)),
            runs=unflatten({"kept": like.runs}, arrays, "runs", str(path))["kept"]
            if like.runs.size
            else like.runs,
            epoch=about["epoch"],
            batch=about["batch"],
            losses=tuple(about["losses"]),
            history=about["history"],
        )
        best = None
        if about["best"] is not None:
            best = (about["best"], unflatten(like.variables, arrays, "best", str(path)))
        return state, best


def _progress(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.stem))


def _last_whole(files: list[Path]) -> tuple[Path, dict[str, np.ndarray], dict[str, Any]]:
    """The last checkpoint that can be read; those behind it are named in a warning."""
    problem: CheckpointError | None = None
    for path in reversed(files):
        try:
            arrays, about = read(path, of_run=True)
        except CheckpointError as error:
            problem = error
            warn(
                NesymmWarning(
                    "damaged checkpoint",
                    str(error),
                    "training resumes from the one before it",
                    "nothing need be done; where this happens again, look at the disk",
                )
            )
            continue
        return path, arrays, about
    assert problem is not None
    raise CheckpointError(f"no checkpoint in {files[0].parent} can be read: {problem}")
