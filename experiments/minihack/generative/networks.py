"""The networks. All look at a picture cell by cell: a room of NetHack is made of square tiles.

None is told which cell is which: the reader and the places of the canvas are learned.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


USUAL=[0]
class Reader(eqx.Module):
    """From a picture [3, height, width] to `outputs` numbers: each cell by itself, then all."""

    cells: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, side: int, pixels: int, outputs: int, width: int = 16, *, key: Any):
        first, second = jax.random.split(key)
        self.cells = eqx.nn.Conv2d(3, width, pixels, stride=pixels, key=first)
        self.head = eqx.nn.Linear(width * side * side, outputs, key=second)

    def __call__(self, picture: Any) -> Any:
        return self.head(jnp.ravel(jax.nn.relu(self.cells(10*(picture-USUAL[0])))))


class Detector(eqx.Module):
    """How much speaks for each of `rows` × `rows` places in a picture."""

    reader: Reader
    rows: int = eqx.field(static=True)

    def __init__(self, rows: int, side: int, pixels: int, *, key: Any):
        self.reader = Reader(side, pixels, rows * rows, key=key)
        self.rows = rows

    def __call__(self, picture: Any) -> Any:
        return self.reader(picture).reshape(self.rows, self.rows)


class Encoder(eqx.Module):
    """Mean and scale (before softplus) of number `k`, from 1, that describes a picture."""

    reader: Reader
    sharpness: float = eqx.field(static=True)

    def __init__(self, side: int, pixels: int, sharpness: float = 3.0, *, key: Any):
        self.reader = Reader(side, pixels, 4, width=32, key=key)
        self.sharpness = sharpness  # guides begin narrow, else the code says nothing at first

    def __call__(self, picture: Any, k: int) -> Any:
        mean, scale = self.reader(picture).reshape(2, 2)[:, k - 1]
        return jnp.stack([mean, scale - self.sharpness])


class Tiles(eqx.Module):
    """From features of each cell [features, side, side] to a picture: every cell a tile."""

    paint: eqx.nn.Linear
    pixels: int = eqx.field(static=True)

    def __init__(self, features: int, pixels: int, *, key: Any):
        self.paint = eqx.nn.Linear(features, 3 * pixels * pixels, key=key)
        self.pixels = pixels

    def __call__(self, features: Any) -> Any:
        side, p = features.shape[-1], self.pixels
        colours = jnp.einsum("of,fyx->oyx", self.paint.weight, jax.nn.relu(features))
        tiles = (colours + self.paint.bias[:, None, None]).reshape(3, p, p, side, side)
        return jax.nn.sigmoid(tiles.transpose(0, 3, 1, 4, 2).reshape(3, side * p, side * p))


class Scenery(eqx.Module):
    """Features of every cell, [features, side, side], from two numbers."""

    layers: eqx.nn.MLP
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(self, side: int, features: int, *, key: Any):
        self.layers = eqx.nn.MLP(2, features * side * side, 64, 2, key=key)
        self.shape = (features, side, side)

    def __call__(self, b1: Any, b2: Any) -> Any:
        return self.layers(jnp.stack([b1, b2])).reshape(self.shape)


class Decoder(eqx.Module):
    """The picture of an agent in row `r` and column `c`, counted from `start`, in a scenery.

    Rows and columns are only names: which cells of the picture they are is learned.
    """

    rows: jax.Array
    columns: jax.Array
    scenery: Scenery
    tiles: Tiles
    start: int = eqx.field(static=True)

    def __init__(
        self, rows: int, side: int, pixels: int, features: int = 16, start: int = 1, *, key: Any
    ):
        keys = jax.random.split(key, 4)
        self.rows = 0.1 * jax.random.normal(keys[0], (rows, features, side, side))
        self.columns = 0.1 * jax.random.normal(keys[1], (rows, features, side, side))
        self.scenery = Scenery(side, features, key=keys[2])
        self.tiles = Tiles(features, pixels, key=keys[3])
        self.start = start

    def __call__(self, r: Any, c: Any, b1: Any, b2: Any) -> Any:
        agent = self.rows[r - self.start] + self.columns[c - self.start]
        return self.tiles(self.scenery(b1, b2) + agent)
