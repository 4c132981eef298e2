"""The location classifier: reads where the agent is from a picture. It is trained by itself on the
true positions, only to score pictures; no method ever sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.minihack.generative.data import Dataset, render, shrink
from experiments.minihack.generative.files import read, write
from experiments.minihack.generative.networks import Reader, Scene, in_32_bits
from experiments.minihack.generative.training import usual_picture


@dataclass(frozen=True)
class Classifier:
    """A trained classifier of the (N + 2)² cells."""

    reader: Reader
    side: int

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """Rows and columns [..., 2] of pictures [..., 3, size, size]."""
        flat = frames.reshape(-1, *frames.shape[-3:])
        parts = [flat[k : k + 500] for k in range(0, len(flat), 500)]
        cells = np.concatenate([np.asarray(_best(self.reader, jnp.asarray(p))) for p in parts])
        places = np.stack([cells // self.side, cells % self.side], axis=-1)
        return places.reshape(*frames.shape[:-3], 2)

    def save(self, path: Path) -> None:
        write(path, {"reader": self.reader}, {"side": self.side})


@eqx.filter_jit
def _best(reader: Reader, pictures: Any) -> Any:
    return jnp.argmax(jax.vmap(reader)(pictures), axis=-1)


def _reader(scene: Scene, usual: Any, seed: int) -> Reader:
    return in_32_bits(Reader(scene, usual, scene.side**2, key=jax.random.key(seed)))


def train_classifier(
    data: Dataset, scene: Scene, steps: int = 600, batch: int = 64, seed: int = 0
) -> Classifier:
    reader = _reader(scene, usual_picture(data, scene.pixels), seed)
    tiles = jnp.asarray(shrink(data.tiles, scene.pixels))
    cells = jnp.asarray(data.cells.reshape(-1, scene.side, scene.side))
    truth = jnp.asarray(data.agent.reshape(-1, 2).astype(int) @ np.array([scene.side, 1]))
    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def loss(reader: Reader, pictures: Any, places: Any) -> Any:
        logits = jax.vmap(reader)(pictures)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, places))

    @eqx.filter_jit
    def update(reader: Reader, state: Any, key: Any) -> Any:
        rows = jax.random.randint(key, (batch,), 0, len(cells))
        gradients = eqx.filter_grad(loss)(reader, render(cells[rows], tiles, jnp), truth[rows])
        updates, state = optimizer.update(gradients, state)
        return eqx.apply_updates(reader, updates), state

    state = optimizer.init(eqx.filter(reader, eqx.is_inexact_array))
    for number in range(steps):
        reader, state = update(reader, state, jax.random.fold_in(jax.random.key(seed), number))
    return Classifier(reader, scene.side)


def load_classifier(path: Path, scene: Scene) -> Classifier:
    trees, _ = read(path, {"reader": _reader(scene, np.zeros(scene.shape, np.float32), 0)})
    return Classifier(trees["reader"], scene.side)
