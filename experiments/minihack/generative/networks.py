"""The networks. All look at a picture cell by cell: a room of NetHack is made of square tiles.

None is told which cell is which: the reader and the places of the canvas are learned.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class Reader(eqx.Module):
    """From a picture [3, height, width] to `outputs` numbers: each cell by itself, then all."""

    cells: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, side: int, pixels: int, outputs: int, width: int = 16, *, key: Any):
        first, second = jax.random.split(key)
        self.cells = eqx.nn.Conv2d(3, width, pixels, stride=pixels, key=first)
        self.head = eqx.nn.Linear(width * side * side, outputs, key=second)

    def __call__(self, picture: Any) -> Any:
        return self.head(jnp.ravel(jax.nn.relu(self.cells(picture))))


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
    """Features of every cell from two numbers: what is always there, and a few things that are
    somewhere; where, the numbers say."""

    whereabouts: eqx.nn.MLP
    always: jax.Array
    things: jax.Array

    def __init__(self, side: int, features: int, things: int = 2, *, key: Any):
        first, second, third = jax.random.split(key, 3)
        self.whereabouts = eqx.nn.MLP(2, things * side * side, 64, 2, key=first)
        self.always = 0.5 * jax.random.normal(second, (features, side, side))
        self.things = jax.random.normal(third, (features, things))

    def __call__(self, b1: Any, b2: Any) -> Any:
        side = self.always.shape[-1]
        logits = self.whereabouts(jnp.stack([b1, b2])).reshape(-1, side * side)
        maps = jax.nn.softmax(logits).reshape(-1, side, side)
        return self.always + jnp.einsum("fk,kyx->fyx", self.things, maps)


class Decoder(eqx.Module):
    """The picture of an agent in row `r` and column `c`, counted from `start`, in a scenery.

    Rows and columns are only names: which cells of the picture they are is learned.
    """

    rows: jax.Array
    columns: jax.Array
    sprite: jax.Array
    scenery: Scenery
    tiles: Tiles
    start: int = eqx.field(static=True)

    def __init__(
        self, rows: int, side: int, pixels: int, features: int = 16, start: int = 1, *, key: Any
    ):
        keys = jax.random.split(key, 5)
        self.rows = jax.random.normal(keys[0], (rows, side))
        self.columns = jax.random.normal(keys[1], (rows, side))
        self.sprite = jax.random.normal(keys[2], (features,))
        self.scenery = Scenery(side, features, key=keys[3])
        self.tiles = Tiles(features, pixels, key=keys[4])
        self.start = start

    def __call__(self, r: Any, c: Any, b1: Any, b2: Any) -> Any:
        row = jax.nn.softmax(self.rows[r - self.start])
        column = jax.nn.softmax(self.columns[c - self.start])
        place = jnp.outer(row, column)
        return self.tiles(self.scenery(b1, b2) + self.sprite[:, None, None] * place)
