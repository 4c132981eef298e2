"""Networks by specification: a few words and sizes, kept with a model to build it again.

A specification is a dictionary with `kind` and the settings of that kind. The number of
outputs is not in it: the program declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nesymm.cli.answers import load_object
from nesymm.cli.toml_tables import Table
from nesymm.errors import NesymmError

KINDS = ("mlp", "conv-encoder", "conv-decoder")
KIND = "mlp, conv-encoder, conv-decoder or module:object"


def read_specification(table: Table) -> dict[str, Any]:
    """A section [networks.NAME], checked."""
    kind = table.text("kind")
    settings: dict[str, Any] = {}
    match kind:
        case None:
            return {}
        case "mlp":
            settings["inputs"] = table.integer("inputs", least=1)
            settings["width"] = table.integer("width", 64, least=1)
            settings["depth"] = table.integer("depth", 2)
            settings["scale"] = table.number("scale", 1.0)
        case "conv-encoder":
            settings["shape"] = table.integers("shape", length=3)
            settings["channels"] = table.integers("channels", (16, 32))
        case "conv-decoder":
            settings["inputs"] = table.integer("inputs", least=1)
            settings["channels"] = table.integers("channels", (32, 16))
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
        name: _build(name, specifications[name], outputs[name], key)
        for name, key in zip(sorted(specifications), keys, strict=False)
    }


def _build(
    name: str, specification: Mapping[str, Any], declared: tuple[int, ...] | None, key: Any
) -> Callable[..., Any]:
    settings = dict(specification)
    kind = settings.pop("kind")
    if kind not in KINDS:
        return _made_by_user(name, kind, key)
    rank = 3 if kind == "conv-decoder" else 1
    if declared is None or len(declared) != rank:
        written = "[1, 28, 28]" if rank == 3 else "4"
        raise NesymmError(
            f"the network {name}: a {kind} needs to know its outputs, a "
            f"{'shape [channels, height, width]' if rank == 3 else 'number'}; the program "
            f"declares {'none' if declared is None else list(declared)}\n"
            f"  = help: `:- network({name}, {written}).`"
        )
    try:
        return _built(kind, settings, declared, key)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        # Configurations are checked; in a model file may stand anything.
        raise NesymmError(f"the network {name}: a {kind} cannot be built: {error}") from None


def _built(
    kind: str, settings: dict[str, Any], declared: tuple[int, ...], key: Any
) -> Callable[..., Any]:
    from nesymm.training.networks import MLP, ConvDecoder, ConvEncoder

    match kind:
        case "mlp":
            return MLP(outputs=declared[0], key=key, **settings)
        case "conv-encoder":
            return ConvEncoder(tuple(settings.pop("shape")), declared[0], key=key, **settings)
    return ConvDecoder(settings.pop("inputs"), declared, key=key, **settings)  # type: ignore[arg-type]


def _made_by_user(name: str, place: str, key: Any) -> Callable[..., Any]:
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
