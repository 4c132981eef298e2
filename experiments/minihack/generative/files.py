"""Trees of arrays, and JSON that says what they are, in safetensors files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from nesymm import NesymmError


def write(path: Path, trees: dict[str, Any], about: dict[str, Any]) -> None:
    """The arrays of each tree under its name; another file takes the place of the old one."""
    arrays = {name: np.asarray(leaf) for name, leaf in _named(trees).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    save_file(arrays, partial, metadata={"nesymm": json.dumps(about)})
    partial.replace(path)


def read(path: Path, like: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Trees like others, of which the shapes are enough, with the numbers of a file; and its
    JSON."""
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {})["nesymm"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise NesymmError(f"{path} is not a file of weights: {error}") from None
    names = _named(like)
    wrong = [n for n, leaf in names.items() if n not in arrays or arrays[n].shape != leaf.shape]
    if wrong or len(arrays) != len(names):
        raise NesymmError(f"{path} holds other networks; look at: {', '.join(wrong) or 'all'}")
    dynamic, static = eqx.partition(like, _is_array)
    leaves = [jnp.asarray(arrays[n]) for n in names]
    filled = jax.tree.unflatten(jax.tree.structure(dynamic), leaves)
    return eqx.combine(filled, static), about


def _named(trees: dict[str, Any]) -> dict[str, Any]:
    return {
        name + jax.tree_util.keystr(path): leaf
        for name, tree in sorted(trees.items())
        for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    }


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)
