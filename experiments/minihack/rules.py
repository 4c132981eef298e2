"""The model of rules and a network: `discriminative.nsl`, fitted and asked.

The rules are given. Where the imps go is a small network of the way to the agent, so that what
it learns holds on any grid; how well they aim is a number that the program learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import nesymm
from experiments.minihack.data import Dataset
from experiments.minihack.game import LARGEST_GRID
from experiments.minihack.methods import Setting
from nesymm import (
    ExactForward,
    LogEvidence,
    QueryLoss,
    RaoBlackwellised,
    fit,
)
from nesymm import Method as Inference

PROGRAM = Path(__file__).with_name("discriminative.nsl")
WEIGHTS = Path(__file__).with_name("weights") / "nesymm-0.safetensors"
FURTHEST = 9  # the largest difference of rows or columns in training
QUERY = "dead@T"
ROUGH_PARTICLES = 400
MOST_BYTES = 4 * 2**30


class Policy(eqx.Module):
    """Where an imp goes, of eight directions, given the way from it to the agent."""

    layers: list[eqx.nn.Linear]

    def __init__(self, key: Any):
        sizes = (2, 64, 32, 8)
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = [
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes, sizes[1:], keys, strict=False)
        ]

    def __call__(self, rows: Any, columns: Any) -> Any:
        # Further away than in training it does what it does at the furthest.
        way = jnp.stack([jnp.asarray(rows, float), jnp.asarray(columns, float)])
        x = jnp.clip(way, -FURTHEST, FURTHEST) / 3
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def compile_model(grid: int = 10, enemies: int = 1, seed: int = 0) -> nesymm.Model:
    """The program with a fresh network."""
    return nesymm.compile(
        PROGRAM.read_text(),
        name=PROGRAM.name,
        constants={"n": grid, "enemies": enemies},
        networks={"policy": Policy(jax.random.key(seed))},
    )


def arrays(data: Dataset, rows: slice | np.ndarray = slice(None)) -> dict[str, np.ndarray]:
    """What the program reads. The last frame has no action that matters."""
    actions = np.pad(data.actions[rows].astype(np.int64), ((0, 0), (0, 1)))
    return {
        "start": data.start[rows].astype(np.int64),
        "action": actions,
        "hit": data.hits[rows],
    }


def after_the_first(hits: np.ndarray) -> np.ndarray:
    """Hits without the first, which says nothing, since it is always 0.

    Games without any evidence then look the same, and need not be compiled anew.
    """
    later = hits.astype(float)
    later[:, 0] = np.nan
    return later


@dataclass(frozen=True)
class TrainedRules:
    """A fitted model, and how it is asked: `batch` sequences at a time."""

    model: nesymm.Model
    inference: Inference
    batch: int = 100
    history: tuple[dict[str, float], ...] = ()
    rooms: dict[tuple[int, int], nesymm.Model] = field(
        default_factory=dict, compare=False, repr=False
    )  # so that each is compiled once

    @property
    def parameters_count(self) -> int:
        learned = (self.model.parameters, eqx.filter(dict(self.model.networks), eqx.is_array))
        return sum(np.size(leaf) for leaf in jax.tree.leaves(learned))

    @property
    def hit_chance(self) -> float:
        return float(self.model.parameters["strikes"])

    def on(self, data: Dataset) -> nesymm.Model:
        """The same model in another room with other enemies."""
        room = data.grid, data.enemies
        if room not in self.rooms:
            self.rooms[room] = self.model.with_constants(n=data.grid, enemies=data.enemies)
        return self.rooms[room]

    def roughly(self) -> TrainedRules:
        return replace(self, inference=RaoBlackwellised(ROUGH_PARTICLES))

    def probabilities(
        self, data: Dataset, seed: int = 0, tell: Callable[[int], None] = lambda done: None
    ) -> np.ndarray:
        """p(dead) per trajectory; 0.5 for one that the rules cannot explain.

        `tell` is called with how many have been answered so far.
        """
        model, batch = self.on(data), self._batch(data)
        found = []
        for start in range(0, len(data), batch):
            # The last batch is filled up, since another size would be compiled anew.
            rows = np.minimum(np.arange(start, start + batch), len(data) - 1)
            given = {**arrays(data, rows), "hit": after_the_first(data.hits[rows])}
            result = model.filter(given, method=self.inference, key=seed + start, errors="keep")
            found.append(np.asarray(result.final[QUERY]))
            tell(min(start + batch, len(data)))
        answers = np.concatenate(found)[: len(data)]
        return np.where(np.isfinite(answers), answers, 0.5)

    def _batch(self, data: Dataset) -> int:
        """How many sequences at a time: where the imps begin takes a table for each of them."""
        particles = getattr(self.inference, "particles", 1)
        table = 4 * particles * data.enemies * data.grid**2  # bytes
        return max(1, min(self.batch, len(data), MOST_BYTES // table))

    def save(self, path: str | Path) -> None:
        nesymm.save(self.model, path)


@dataclass(frozen=True)
class Rules:
    """Fits by the likelihood of the hits and of the label given the hits."""

    particles: int = 500  # in training
    test_particles: int = 3000
    epochs: int = 25
    batch: int = 100
    rate: float = 2e-2
    sequences: int | None = None  # train on the first so many

    @property
    def inference(self) -> Inference:
        """In training."""
        return RaoBlackwellised(particles=self.particles)

    def takes(self, setting: Setting) -> bool:
        return True

    def model(self, train: Dataset, seed: int) -> nesymm.Model:
        """What is fitted."""
        return compile_model(train.grid, train.enemies, seed)

    def fit(self, train: Dataset, validation: Dataset, seed: int, progress: bool) -> TrainedRules:
        used = slice(self.sequences)
        steps = self.epochs * (len(train.dead[used]) // self.batch)
        fitted = fit(
            self.model(train, seed),
            {**arrays(train, used), "dead": train.dead[used].astype(float)},
            validation={**arrays(validation), "dead": validation.dead.astype(float)},
            objective=(LogEvidence(), QueryLoss(QUERY, "dead")),
            method=self.inference,
            optimizer=optax.adam(optax.cosine_decay_schedule(self.rate, steps, 0.05)),
            clip=10.0,
            epochs=self.epochs,
            batch_size=self.batch,
            key=seed,
            progress=progress,
        )
        return replace(self.trained(fitted.model), history=tuple(fitted.history))

    def load(self, path: str | Path = WEIGHTS) -> TrainedRules:
        """What was fitted before."""
        # Unchecked: another comment in the program would make it another program.
        return self.trained(nesymm.load(path, into=compile_model(), check=False))

    def trained(self, model: nesymm.Model) -> TrainedRules:
        """How a fitted model is asked."""
        return TrainedRules(model, RaoBlackwellised(self.test_particles))


@dataclass(frozen=True)
class ExactRules(Rules):
    """The same with exact inference, also in training.

    With collisions the agent's path is uncertain, and the belief over agent, imp, turn and
    health is too large. Without, it is one over the imp and the health. For one imp only, and
    for rooms that fit on NetHack's map.
    """

    epochs: int = 10

    @property
    def inference(self) -> Inference:
        return ExactForward()

    def takes(self, setting: Setting) -> bool:
        grid, _, enemies = setting
        return enemies == 1 and grid <= LARGEST_GRID

    def model(self, train: Dataset, seed: int) -> nesymm.Model:
        return super().model(train, seed).with_constants(collisions=0)

    def trained(self, model: nesymm.Model) -> TrainedRules:
        return TrainedRules(model.with_constants(collisions=0), ExactForward(), batch=50)
