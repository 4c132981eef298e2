"""Networks by specification: a few words and sizes, kept with a model to build it again.

A specification is a dictionary with `kind` and the settings of that kind. The number of
outputs is not in it: the program declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nesymm.cli.answers import load_object
from nesymm.cli.toml_tables import TEXT, Table, whole_numbers
from nesymm.errors import NesymmError
from nesymm.inference.options import whole
from nesymm.training.networks import KINDS, build

KIND = "mlp, conv-encoder, conv-decoder or module:object"


def read_specification(table: Table) -> dict[str, Any]:
    """A section [networks.NAME], checked."""
    kind = table.take("kind", TEXT)
    settings: dict[str, Any] = {}
    match kind:
        case None:
            return {}
        case "mlp":
            settings["inputs"] = table.take("inputs", whole(1))
            settings["width"] = table.take("width", whole(1), 64)
            settings["depth"] = table.take("depth", whole(0), 2)
            settings["scale"] = table.number("scale", 1.0)
            settings["one_hot"] = table.integers("one_hot", whole_numbers(least=0), ())
        case "conv-encoder":
            settings["shape"] = table.integers("shape", whole_numbers(3))
            settings["channels"] = table.integers("channels", whole_numbers(), (16, 32))
        case "conv-decoder":
            settings["inputs"] = table.take("inputs", whole(1))
            settings["channels"] = table.integers("channels", whole_numbers(), (32, 16))
        case _ if ":" not in kind:
            table.wrong("kind", f'expected {KIND}, received "{kind}"', kind, KINDS)
            return {}
    table.done()
    return {"kind": kind, **settings}


def build_networks(
    specifications: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, tuple[int, ...] | None],
    seed: int,
) -> dict[str, Callable[..., Any]]:
    """Fresh networks for a program that declares these outputs."""
    import jax

    for name in specifications:
        if name not in outputs:
            declared = ", ".join(outputs) or "none"
            raise NesymmError(
                f"[networks.{name}]: the program has no such network (it has: {declared})"
            )
    keys = jax.random.split(jax.random.key(seed), max(1, len(specifications)))
    return {
        name: made_by_user(name, kind, key)
        if (kind := specifications[name]["kind"]) not in KINDS
        else build(name, specifications[name], outputs[name], key)
        for name, key in zip(sorted(specifications), keys, strict=False)
    }


def made_by_user(name: str, place: str, key: Any) -> Callable[..., Any]:
    """What a factory of the user makes from a key."""
    where = f'[networks.{name}] kind = "{place}"'
    factory = load_object(place, where)
    if not callable(factory):
        raise NesymmError(
            f"{where}: expected a function of a key that makes a network, "
            f"received {type(factory).__name__}"
        )
    try:
        made = factory(key)
    except Exception as error:  # the factory is not ours, and can go wrong in any way
        raise NesymmError(f"{where} failed: {type(error).__name__}: {error}") from None
    if not callable(made):
        raise NesymmError(
            f"{where}: expected a network, which is a function, received {type(made).__name__}"
        )
    return made
