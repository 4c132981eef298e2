"""Small networks, ready to use: a first program needs no network code.

A network is a function of one example; batches, particles and grids are mapped over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from nesymm.errors import NesymmError
from nesymm.inference.options import Key, as_key, check_key

KINDS = ("mlp", "conv-encoder", "conv-decoder")


class Function(eqx.Module):
    """Any function `apply(params, *args)` with its parameters, a tree of arrays.

    This is what Flax, Haiku and hand-written networks look like.

    Example:
        >>> net = nesymm.Function(lambda p, x: (p["w"] * x + p["b"])[None], {"w": 1.0, "b": 0.0})
    """

    params: Any
    apply: Callable[..., Any] = eqx.field(static=True)

    def __init__(self, apply: Callable[..., Any], params: Any):
        self.apply = apply
        self.params = jax.tree.map(jnp.asarray, params)

    def __call__(self, *args: Any) -> Any:
        return self.apply(self.params, *args)


def _joined(numbers: Sequence[Any]) -> Any:
    return jnp.concatenate([jnp.ravel(jnp.asarray(n, jnp.result_type(float))) for n in numbers])


class MLP(eqx.Module):
    """A multilayer perceptron with ReLU between its layers.

    Args:
        inputs: How many numbers its arguments have together; several arguments are joined.
        outputs: How many numbers it gives, as the program declares it.
        width: Units of each hidden layer.
        depth: Hidden layers.
        key: A key of JAX, or the seed of one.
        scale: What the inputs are multiplied by.
        one_hot: For each argument, how many names it may take, or 0 if it is no name. A name
            becomes that many numbers, all 0 but the one at its position; `inputs` counts them.

    Example:
        >>> nesymm.compile(program, networks={"lamp": nesymm.MLP(1, 2, width=16, key=0)})
    """

    layers: eqx.nn.MLP
    scale: float = eqx.field(static=True)
    one_hot: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 64,
        depth: int = 2,
        *,
        key: Key,
        scale: float = 1.0,
        one_hot: Sequence[int] = (),
    ):
        self.layers = eqx.nn.MLP(inputs, outputs, width, depth, key=as_key(check_key(key)))
        self.scale = scale
        self.one_hot = tuple(one_hot)

    @property
    def specification(self) -> dict[str, Any]:
        layers = self.layers
        sizes = {"inputs": layers.in_size, "width": layers.width_size, "depth": layers.depth}
        return {"kind": "mlp", **sizes, "scale": self.scale, "one_hot": list(self.one_hot)}

    def __call__(self, *arguments: Any) -> Any:
        sizes = self.one_hot or (0,) * len(arguments)
        if len(sizes) != len(arguments):
            raise ValueError(
                f"one_hot has {len(sizes)} entries, and there are {len(arguments)} arguments"
            )
        encoded = [
            jax.nn.one_hot(argument, size) if size else _joined([argument]) * self.scale
            for argument, size in zip(arguments, sizes, strict=True)
        ]
        return self.layers(_joined(encoded))


class ConvEncoder(eqx.Module):
    """From an image [channels, height, width] to numbers, halving the size at each stage.

    Args:
        shape: Channels, height and width of the image.
        outputs: How many numbers it gives.
        channels: Channels after each stage.
        key: A key of JAX, or the seed of one.

    Example:
        >>> encoder = nesymm.ConvEncoder((1, 28, 28), 4, key=0)
    """

    convolutions: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        channels: Sequence[int] = (16, 32),
        *,
        key: Key,
    ):
        keys = jax.random.split(as_key(check_key(key)), len(channels) + 1)
        self.shape = shape
        before, height, width = shape
        self.convolutions = []
        for k, after in zip(keys, channels, strict=False):
            self.convolutions.append(eqx.nn.Conv2d(before, after, 3, stride=2, padding=1, key=k))
            before, height, width = after, -(-height // 2), -(-width // 2)
        self.head = eqx.nn.Linear(before * height * width, outputs, key=keys[-1])

    def __call__(self, image: Any) -> Any:
        x = image
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        return self.head(jnp.ravel(x))

    @property
    def specification(self) -> dict[str, Any]:
        channels = [c.out_channels for c in self.convolutions]
        return {"kind": "conv-encoder", "shape": list(self.shape), "channels": channels}


class ConvDecoder(eqx.Module):
    """From numbers to an image [channels, height, width] in [0, 1], doubling the size.

    Args:
        inputs: How many numbers its arguments have together.
        shape: Channels, height and width of the image.
        channels: Channels before each stage.
        key: A key of JAX, or the seed of one.

    Example:
        >>> decoder = nesymm.ConvDecoder(2, (1, 28, 28), key=0)
    """

    start: eqx.nn.Linear
    convolutions: list[eqx.nn.ConvTranspose2d]
    shape: tuple[int, int, int] = eqx.field(static=True)
    small: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        shape: tuple[int, int, int],
        channels: Sequence[int] = (32, 16),
        *,
        key: Key,
    ):
        keys = jax.random.split(as_key(check_key(key)), len(channels) + 1)
        factor = 2 ** len(channels)
        self.shape = shape
        self.small = (channels[0], -(-shape[1] // factor), -(-shape[2] // factor))
        size = self.small[0] * self.small[1] * self.small[2]
        self.start = eqx.nn.Linear(inputs, size, key=keys[0])
        outs = [*channels[1:], shape[0]]
        self.convolutions = [
            eqx.nn.ConvTranspose2d(a, b, 4, stride=2, padding=1, key=k)
            for a, b, k in zip(channels, outs, keys[1:], strict=True)
        ]

    def __call__(self, *numbers: Any) -> Any:
        x = jax.nn.relu(self.start(_joined(numbers))).reshape(self.small)
        for i, convolution in enumerate(self.convolutions):
            x = convolution(x)
            if i + 1 < len(self.convolutions):
                x = jax.nn.relu(x)
        return jax.nn.sigmoid(x[:, : self.shape[1], : self.shape[2]])

    @property
    def specification(self) -> dict[str, Any]:
        channels = [c.in_channels for c in self.convolutions]
        return {"kind": "conv-decoder", "inputs": self.start.in_features, "channels": channels}


# ---------------------------------------------------------------- by specification


def specifications(networks: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """How to build the networks of this module again: kinds and settings, as JSON has them.

    The number of outputs is not among them: the program declares it.
    """
    ready = MLP | ConvEncoder | ConvDecoder
    return {name: f.specification for name, f in networks.items() if isinstance(f, ready)}


def build(
    name: str, specification: Mapping[str, Any], declared: tuple[int, ...] | None, key: Key
) -> Callable[..., Any]:
    """A network with fresh numbers, for a program that declares these outputs."""
    settings = dict(specification)
    kind = settings.pop("kind")
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
    kind: str, settings: dict[str, Any], declared: tuple[int, ...], key: Key
) -> Callable[..., Any]:
    match kind:
        case "mlp":
            return MLP(outputs=declared[0], key=key, **settings)
        case "conv-encoder":
            return ConvEncoder(tuple(settings.pop("shape")), declared[0], key=key, **settings)
        case "conv-decoder":
            return ConvDecoder(settings.pop("inputs"), declared, key=key, **settings)  # type: ignore[arg-type]
    raise ValueError(f"there is no such kind (there are: {', '.join(KINDS)})")
