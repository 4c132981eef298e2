"""Small networks, ready to use: a first program needs no network code.

A network is a function of one example; batches, particles and grids are mapped over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class Function(eqx.Module):
    """Any function `apply(params, *args)` with its parameters, a tree of arrays.

    This is what Flax, Haiku and hand-written networks look like.
    """

    params: Any
    apply: Callable[..., Any] = eqx.field(static=True)

    def __init__(self, apply: Callable[..., Any], params: Any):
        self.apply = apply
        self.params = jax.tree.map(jnp.asarray, params)

    def __call__(self, *args: Any) -> Any:
        return self.apply(self.params, *args)


class MLP(eqx.Module):
    """A perceptron on numbers, which it first scales by `scale`."""

    layers: eqx.nn.MLP
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 64,
        depth: int = 2,
        *,
        key: Any,
        scale: float = 1.0,
    ):
        self.layers = eqx.nn.MLP(inputs, outputs, width, depth, key=key)
        self.scale = scale

    def __call__(self, *numbers: Any) -> Any:
        flat = [jnp.ravel(jnp.asarray(n, dtype=jnp.result_type(float))) for n in numbers]
        return self.layers(jnp.concatenate(flat) * self.scale)


class ConvEncoder(eqx.Module):
    """From an image [channels, height, width] to outputs, halving the size at each stage."""

    convolutions: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        channels: Sequence[int] = (16, 32),
        *,
        key: Any,
    ):
        keys = jax.random.split(key, len(channels) + 1)
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


class ConvDecoder(eqx.Module):
    """From numbers to an image [channels, height, width] in [0, 1], doubling the size."""

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
        key: Any,
    ):
        keys = jax.random.split(key, len(channels) + 1)
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
        flat = [jnp.ravel(jnp.asarray(n, dtype=jnp.result_type(float))) for n in numbers]
        x = jax.nn.relu(self.start(jnp.concatenate(flat))).reshape(self.small)
        for i, convolution in enumerate(self.convolutions):
            x = convolution(x)
            if i + 1 < len(self.convolutions):
                x = jax.nn.relu(x)
        return jax.nn.sigmoid(x[:, : self.shape[1], : self.shape[2]])
