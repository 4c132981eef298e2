"""The variational transformer: a code of the first picture, then attention over the actions.

The first picture is encoded as a normal distribution. A step asks what it should show: it attends
to the actions up to it (8 heads of 64), then to the code and itself (the same), and its embedding
is painted by the tiles of the other methods. The paper's transformer feeds its pictures back
into itself; here only the actions and the first picture tell steps apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from experiments.minihack.generative.networks import Reader, Scene, Tiles

HEADS, KEYS, WIDTH, CODE = 8, 64, 64, 32
LONGEST = 64  # steps that have a place of their own in the embedding


class Painter(eqx.Module):
    """All networks of the transformer."""

    encoder: Reader
    begin: eqx.nn.Linear
    actions: jax.Array
    times: jax.Array
    over_time: eqx.nn.MultiheadAttention
    across: eqx.nn.MultiheadAttention
    norms: list[eqx.nn.LayerNorm]
    mixing: eqx.nn.MLP
    cells: eqx.nn.Linear
    tiles: Tiles
    side: int = eqx.field(static=True)

    def __init__(self, scene: Scene, usual: Any, features: int = 16, *, key: Any):
        keys = jax.random.split(key, 9)
        heads = {"qk_size": KEYS, "vo_size": KEYS}
        self.encoder = Reader(scene, usual, 2 * CODE, width=32, key=keys[0])
        self.begin = eqx.nn.Linear(CODE, WIDTH, key=keys[1])
        self.actions = jax.random.normal(keys[2], (5, WIDTH))  # the fifth: none yet
        self.times = jax.random.normal(keys[3], (LONGEST, WIDTH))
        self.over_time = eqx.nn.MultiheadAttention(HEADS, WIDTH, **heads, key=keys[4])
        self.across = eqx.nn.MultiheadAttention(HEADS, WIDTH, **heads, key=keys[5])
        self.norms = [eqx.nn.LayerNorm(WIDTH) for _ in range(3)]
        self.mixing = eqx.nn.MLP(WIDTH, WIDTH, 128, 1, key=keys[6])
        self.cells = eqx.nn.Linear(WIDTH, features * scene.side**2, key=keys[7])
        self.tiles = Tiles(features, scene.pixels, key=keys[8])
        self.side = scene.side

    def encode(self, first: Any) -> tuple[Any, Any]:
        """Mean and scale of the code."""
        mean, scale = jnp.split(self.encoder(first), 2)
        return mean, jax.nn.softplus(scale - 3.0)

    def __call__(self, code: Any, actions: Any) -> Any:
        """Pictures [T, 3, size, size] for actions [T-1]."""
        frames = len(actions) + 1
        taken = jnp.concatenate([jnp.array([4]), actions])
        memory = self.begin(code)
        x = self.actions[taken] + self.times[:frames] + memory
        known = jnp.tril(jnp.ones((frames, frames), bool))
        y = jax.vmap(self.norms[0])(x)
        x = x + self.over_time(y, y, y, mask=known)
        y = jax.vmap(self.norms[1])(x)
        context = jnp.concatenate([memory[None], y])
        seen = jnp.concatenate([jnp.ones((frames, 1), bool), known], axis=1)
        x = x + self.across(y, context, context, mask=seen)
        x = x + jax.vmap(self.mixing)(jax.vmap(self.norms[2])(x))
        features = jax.vmap(self.cells)(x).reshape(frames, -1, self.side, self.side)
        return jax.vmap(self.tiles)(features)


@dataclass(frozen=True)
class Transformer:
    """The method."""

    scene: Scene
    noise: float = 0.1
    name: str = "transformer"

    def init(self, key: Any, usual: Any) -> Painter:
        return Painter(self.scene, usual, key=key)

    def loss(self, networks: Painter, images: Any, actions: Any, key: Any, progress: Any) -> Any:
        """The negative lower bound of sequences [n, T, 3, size, size], per pixel."""

        def one(pictures: Any, moves: Any, key: Any) -> Any:
            mean, scale = networks.encode(pictures[0])
            code = mean + scale * jax.random.normal(key, mean.shape)
            drawn = jax.scipy.stats.norm.logpdf(pictures, networks(code, moves), self.noise)
            return jnp.sum(drawn) - divergence(mean, scale)

        keys = jax.random.split(key, len(images))
        return -jnp.mean(jax.vmap(one)(images, actions.astype(int), keys)) / images[0].size

    def reconstruct(
        self, networks: Painter, first: np.ndarray, actions: np.ndarray, seed: int = 0
    ) -> np.ndarray:
        """Pictures [n, T, 3, size, size] from the first ones and actions [n, T-1]; no noise."""
        return np.asarray(_paint(networks, jnp.asarray(first), jnp.asarray(actions, int)))


@eqx.filter_jit
def _paint(networks: Painter, first: Any, actions: Any) -> Any:
    return jax.vmap(lambda f, a: networks(networks.encode(f)[0], a))(first, actions)


def divergence(mean: Any, scale: Any) -> Any:
    """KL of independent normals from standard ones."""
    return jnp.sum(0.5 * (mean**2 + scale**2 - 1) - jnp.log(scale))
