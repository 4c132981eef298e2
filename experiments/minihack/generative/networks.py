"""The networks. All look at a picture cell by cell: a room of NetHack is made of square tiles.

None is told which cell is which: that is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

CONTRAST = 10.0  # the agent differs little from the floor


@dataclass(frozen=True)
class Scene:
    """A room of `grid` × `grid` cells with walls around it, drawn with `pixels` along a cell."""

    grid: int
    pixels: int

    @property
    def side(self) -> int:
        return self.grid + 2

    @property
    def size(self) -> int:
        return self.side * self.pixels

    @property
    def shape(self) -> tuple[int, int, int]:
        return (3, self.size, self.size)


def in_32_bits(networks: Any) -> Any:
    """Networks as they are kept, also where the rest is computed in 64 bits."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, networks)


class Reader(eqx.Module):
    """From a picture [3, size, size] to `outputs` numbers: each cell by itself, then all.

    It looks at what is different from `usual`, the mean of the first pictures.
    """

    usual: jax.Array
    cells: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, scene: Scene, usual: Any, outputs: int, width: int = 16, *, key: Any):
        first, second = jax.random.split(key)
        p = scene.pixels
        self.usual = jnp.asarray(usual)
        self.cells = eqx.nn.Conv2d(3, width, p, stride=p, key=first)
        self.head = eqx.nn.Linear(width * scene.side**2, outputs, key=second)

    def __call__(self, picture: Any) -> Any:
        picture = jnp.asarray(picture, self.usual.dtype)
        news = CONTRAST * (picture - jax.lax.stop_gradient(self.usual))
        return self.head(jnp.ravel(jax.nn.silu(self.cells(news))))


class Detector(eqx.Module):
    """How much speaks for each of `rows` × `rows` places, at first the same for all."""

    reader: Reader
    rows: int = eqx.field(static=True)

    def __init__(self, rows: int, scene: Scene, usual: Any, *, key: Any):
        reader = Reader(scene, usual, rows * rows, key=key)
        head = (reader.head.weight, reader.head.bias)
        self.reader = eqx.tree_at(
            lambda r: (r.head.weight, r.head.bias), reader, [jnp.zeros_like(x) for x in head]
        )
        self.rows = rows

    def __call__(self, picture: Any) -> Any:
        return self.reader(picture).reshape(self.rows, self.rows)


class Encoder(eqx.Module):
    """Mean and scale (before softplus) of number `k`, from 1, that describes a picture."""

    reader: Reader

    def __init__(self, scene: Scene, usual: Any, *, key: Any):
        reader = Reader(scene, usual, 4, width=32, key=key)
        # The scales begin small: what is drowned in noise is not learned to be read.
        self.reader = eqx.tree_at(
            lambda r: r.head.bias, reader, reader.head.bias - jnp.array([0, 0, 3, 3])
        )

    def __call__(self, picture: Any, k: int) -> Any:
        return self.reader(picture).reshape(2, 2)[:, k - 1]


class Tiles(eqx.Module):
    """From features of each cell [features, side, side] to a picture: every cell a tile."""

    paint: eqx.nn.Linear
    pixels: int = eqx.field(static=True)

    def __init__(self, features: int, pixels: int, *, key: Any):
        self.paint = eqx.nn.Linear(features, 3 * pixels * pixels, key=key)
        self.pixels = pixels

    def __call__(self, features: Any) -> Any:
        side, p = features.shape[-1], self.pixels
        colours = jnp.einsum("of,fyx->oyx", self.paint.weight, jax.nn.silu(features))
        tiles = (colours + self.paint.bias[:, None, None]).reshape(3, p, p, side, side)
        return jax.nn.sigmoid(tiles.transpose(0, 3, 1, 4, 2).reshape(3, side * p, side * p))


class Decoder(eqx.Module):
    """The picture of an agent in row `r` and column `c` of a room that `b1` and `b2` describe.

    Rows and columns, from `lowest` on, are only names: what they mean in the picture is learned.
    """

    rows: jax.Array
    columns: jax.Array
    scenery: eqx.nn.MLP
    tiles: Tiles
    lowest: int = eqx.field(static=True)

    def __init__(
        self, rows: int, lowest: int, scene: Scene, features: int = 16, width: int = 64, *, key: Any
    ):
        keys = jax.random.split(key, 4)
        shape = (features, scene.side, scene.side)
        self.rows = 0.1 * jax.random.normal(keys[0], (rows, *shape))
        self.columns = 0.1 * jax.random.normal(keys[1], (rows, *shape))
        self.scenery = eqx.nn.MLP(
            2, features * scene.side**2, width, 2, activation=jax.nn.silu, key=keys[2]
        )
        self.tiles = Tiles(features, scene.pixels, key=keys[3])
        self.lowest = lowest

    def __call__(self, r: Any, c: Any, b1: Any, b2: Any) -> Any:
        agent = self.rows[r - self.lowest] + self.columns[c - self.lowest]
        # The program may compute in 64 bits; drawing needs no more than the weights have.
        room = self.scenery(jnp.stack([b1, b2]).astype(agent.dtype)).reshape(agent.shape)
        return self.tiles(room + agent)


class Moves(eqx.Module):
    """Where the agent goes from row `r` and column `c` by an action; nothing is known of it."""

    layers: list[eqx.nn.Linear]
    rows: int = eqx.field(static=True)

    def __init__(self, rows: int, *, key: Any):
        sizes = (2 * rows + 4, 64, 32, rows * rows)
        keys = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes, sizes[1:], keys, strict=False)
        ]
        self.rows = rows

    def __call__(self, r: Any, c: Any, action: Any) -> Any:
        one_hot = jax.nn.one_hot
        x = jnp.concatenate([one_hot(r, self.rows), one_hot(c, self.rows), one_hot(action, 4)])
        for layer in self.layers[:-1]:
            x = jax.nn.silu(layer(x))
        return self.layers[-1](x).reshape(self.rows, self.rows)
