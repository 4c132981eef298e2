"""The networks. All look at a picture cell by cell: a room of NetHack is made of square tiles.

None knows in advance which cell is which: that is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

CONTRAST = 10.0  # the agent differs little from the floor
SHARP = 4
# Of the codes. While pictures are noisy, what they say of a room is worth less than it costs to
# say; a code that were free to say nothing would do so, and a decoder that has learned to do
# without it never asks again.
SCALES = (0.01, 0.1)


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


def watch(scene: Scene) -> int:
    """How many pixels along a cell are looked at; more would tell no more."""
    return min(scene.pixels, SHARP)


def news(picture: Any, usual: jax.Array, scene: Scene) -> jax.Array:
    """What of a picture [3, size, size] is different from `usual`, the mean of the first pictures.

    No closer than `watch` says: a step of learning would change the description of a cell by as
    many times more.
    """
    different = CONTRAST * (jnp.asarray(picture, usual.dtype) - jax.lax.stop_gradient(usual))
    size, blur = scene.side * watch(scene), scene.pixels // watch(scene)
    return different.reshape(3, size, blur, size, blur).mean(axis=(2, 4))


class Reader(eqx.Module):
    """From a picture [3, size, size] to `outputs` numbers: each cell by itself, then all."""

    usual: jax.Array
    cells: eqx.nn.Conv2d
    head: eqx.nn.Linear
    scene: Scene = eqx.field(static=True)

    def __init__(
        self,
        scene: Scene,
        usual: Any,
        outputs: int,
        width: int = 16,
        bias: bool = True,
        *,
        key: Any,
    ):
        first, second = jax.random.split(key)
        p = watch(scene)
        self.usual = jnp.asarray(usual)
        self.cells = eqx.nn.Conv2d(3, width, p, stride=p, use_bias=bias, key=first)
        self.head = eqx.nn.Linear(width * scene.side**2, outputs, key=second)
        self.scene = scene

    def __call__(self, picture: Any) -> Any:
        seen = self.cells(news(picture, self.usual, self.scene))
        return self.head(jnp.ravel(jax.nn.silu(seen)))


class Detector(eqx.Module):
    """How much speaks for each of `rows` × `rows` places, at first the same for all."""

    reader: Reader
    rows: int = eqx.field(static=True)

    def __init__(self, rows: int, scene: Scene, usual: Any, *, key: Any):
        reader = Reader(scene, usual, rows * rows, bias=False, key=key)
        head = (reader.head.weight, reader.head.bias)
        self.reader = eqx.tree_at(
            lambda r: (r.head.weight, r.head.bias), reader, [jnp.zeros_like(x) for x in head]
        )
        self.rows = rows

    def __call__(self, picture: Any) -> Any:
        return self.reader(picture).reshape(self.rows, self.rows)


class Encoder(eqx.Module):
    """Mean and scale (before softplus) of number `k`, from 1, that describes a picture.

    It says where things are: each of `width` filters looks at all cells, and its place is the mean
    of their places, weighted by how much it finds there. So a thing that is moved by a cell moves
    the numbers by a little, and a decoder can learn of many rooms from a few.
    """

    usual: jax.Array
    cells: eqx.nn.Conv2d
    head: eqx.nn.Linear
    scene: Scene = eqx.field(static=True)

    def __init__(self, scene: Scene, usual: Any, width: int = 32, *, key: Any):
        first, second = jax.random.split(key)
        p = watch(scene)
        self.usual = jnp.asarray(usual)
        # Without a bias: where nothing is new, nothing is found, and nothing is learned.
        self.cells = eqx.nn.Conv2d(3, width, p, stride=p, use_bias=False, key=first)
        # The means begin far apart: what is drowned in noise is not learned to be read.
        head = eqx.nn.Linear(2 * width, 4, key=second)
        larger = jnp.array([3, 3, 1, 1])[:, None]
        self.head = eqx.tree_at(lambda h: h.weight, head, head.weight * larger)
        self.scene = scene

    def __call__(self, picture: Any, k: int) -> Any:
        found = self.cells(news(picture, self.usual, self.scene))
        share = jax.nn.softmax(found.reshape(len(found), -1)).reshape(found.shape)
        place = places(self.scene.side, found.dtype)
        where = jnp.concatenate([share.sum(axis=2) @ place, share.sum(axis=1) @ place])
        mean, scale = self.head(where).reshape(2, 2)[:, k - 1]
        return jnp.stack([mean, _inverse_softplus(_between(scale, *SCALES))])


def places(side: int, dtype: Any) -> jax.Array:
    """Rows, or columns, of a picture from its middle, about as far apart as codes are."""
    return jnp.linspace(-1.7, 1.7, side, dtype=dtype)


def _between(x: Any, least: float, most: float) -> Any:
    return least * (most / least) ** jax.nn.sigmoid(x)


def _inverse_softplus(x: Any) -> Any:
    return jnp.log(jnp.expm1(x))


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

    The agent looks the same wherever it is: what it adds to the features of a cell depends on how
    far the cell is from row `r` and column `c`, counted from a corner of the picture. How it
    looks, and how far from the corner row 1 and column 1 are, is learned.

    The code enters twice: of all cells at once, which makes a room of walls soon, and
    of each cell by where it is, which can put one thing anywhere: the stairs.
    """

    agent: jax.Array  # features by distance, in rows and columns
    scenery: eqx.nn.MLP  # features of all cells
    things: eqx.nn.MLP  # features of a cell by the code and its place
    tiles: Tiles
    rows: int = eqx.field(static=True)

    def __init__(self, rows: int, scene: Scene, features: int = 16, width: int = 64, *, key: Any):
        keys = jax.random.split(key, 4)
        reach = scene.side + rows - 1
        # Small: what walks have in common is to decide where the agent is, not chance.
        self.agent = 0.01 * jax.random.normal(keys[0], (features, reach, reach))
        self.scenery = eqx.nn.MLP(
            2, features * scene.side**2, width, 2, activation=jax.nn.silu, key=keys[1]
        )
        things = eqx.nn.MLP(4, features, width, 2, activation=jax.nn.silu, key=keys[3])
        self.things = eqx.tree_at(
            lambda mlp: mlp.layers[-1], things, replace_fn=partial(jax.tree.map, lambda x: 0.01 * x)
        )
        self.tiles = Tiles(features, scene.pixels, key=keys[2])
        self.rows = rows

    def __call__(self, r: Any, c: Any, b1: Any, b2: Any) -> Any:
        features, reach, _ = self.agent.shape
        side = reach - self.rows + 1
        corner = (0, self.rows - r, self.rows - c)
        agent = jax.lax.dynamic_slice(self.agent, corner, (features, side, side))
        # The program may compute in 64 bits; drawing needs no more than the weights have.
        code = jnp.stack([b1, b2]).astype(agent.dtype)
        place = places(side, agent.dtype)

        def thing(y: Any, x: Any) -> Any:
            return self.things(jnp.stack([*code, y, x]))

        things = jax.vmap(jax.vmap(thing, (None, 0), -1), (0, None), -2)(place, place)
        return self.tiles(self.scenery(code).reshape(agent.shape) + things + agent)


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
        x = jnp.concatenate(
            [one_hot(r - 1, self.rows), one_hot(c - 1, self.rows), one_hot(action, 4)]
        )
        for layer in self.layers[:-1]:
            x = jax.nn.silu(layer(x))
        return self.layers[-1](x).reshape(self.rows, self.rows)
