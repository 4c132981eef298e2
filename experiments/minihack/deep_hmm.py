"""The Deep-HMM of the paper's appendix D, as a program (`deep_hmm.nsl`) with three networks.

It knows health and damage, and nothing of how one moves or strikes. As in the paper, its rule of
damage is that of the other program: here each imp wounds on its own. Its networks name cells of
one grid, so it works on that grid alone; more enemies and longer sequences are possible.

It is trained on p(dead, hits) by the Rao-Blackwellised filter: the cells of the agent and the
enemies are too many for an exact belief.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import nesymm
from experiments.minihack.data import Dataset
from experiments.minihack.methods import Setting
from nesymm import LogEvidence, QueryLoss, RaoBlackwellised, fit

PROGRAM = Path(__file__).with_suffix(".nsl")
ACTIONS = 4

# ---------------------------------------------------------------- networks


class CellNetwork(eqx.Module):
    """A perceptron on cells, as row and column, and on other choices.

    `kinds` has `None` for an argument that is a cell, else the number of choices.
    """

    layers: eqx.nn.MLP
    kinds: tuple[int | None, ...] = eqx.field(static=True)
    side: int = eqx.field(static=True)

    def __init__(self, kinds: tuple[int | None, ...], outputs: int, side: int, key: Any):
        width = sum(2 * side if kind is None else kind for kind in kinds)
        first, second, last = jax.random.split(key, 3)
        layers = eqx.nn.MLP(width, outputs, 64, 2, key=first)
        # The hidden layers have 64 and 32 units, as in the paper.
        self.layers = eqx.tree_at(
            lambda mlp: mlp.layers[1:],
            layers,
            (eqx.nn.Linear(64, 32, key=second), eqx.nn.Linear(32, outputs, key=last)),
        )
        self.kinds = kinds
        self.side = side

    def __call__(self, *arguments: Any) -> Any:
        parts = []
        for argument, kind in zip(arguments, self.kinds, strict=True):
            if kind is None:
                parts += [jax.nn.one_hot(argument // self.side, self.side)]
                parts += [jax.nn.one_hot(argument % self.side, self.side)]
            else:
                parts += [jax.nn.one_hot(argument, kind)]
        return self.layers(jnp.concatenate(parts))


class Tabulated(eqx.Module):
    """A network of two cells, evaluated once for all pairs and then looked up.

    The filter asks it about every cell that the agent may go to, for each particle, which is
    more often than there are pairs.
    """

    network: CellNetwork

    def __call__(self, one: Any, other: Any) -> Any:
        cells = jnp.arange(self.network.side**2)
        over = jax.vmap(jax.vmap(self.network, (None, 0)), (0, None))
        return over(cells, cells)[one, other]


def networks(side: int, seed: int) -> dict[str, Any]:
    """Fresh networks for a grid with `side` cells along each axis, walls included."""
    agent, enemy, strike = jax.random.split(jax.random.key(seed), 3)
    return {
        "agent_moves": CellNetwork((None, ACTIONS), side**2, side, agent),
        "enemy_moves": CellNetwork((None, ACTIONS, None), side**2, side, enemy),
        "strikes": Tabulated(CellNetwork((None, None), 1, side, strike)),
    }


# ---------------------------------------------------------------- the method


def compile_model(grid: int, enemies: int, seed: int) -> nesymm.Model:
    side = grid + 2
    return nesymm.compile(
        PROGRAM.read_text(),
        name=PROGRAM.name,
        constants={"cells": side**2, "enemies": enemies},
        networks=networks(side, seed),
    )


def arrays(data: Dataset) -> dict[str, np.ndarray]:
    """The data as the program reads it."""
    row, column = data.start.astype(int).T
    # No action leads away from the last frame; what stands there is not read.
    actions = np.pad(data.actions.astype(int), ((0, 0), (0, 1)))
    return {"start": row * (data.grid + 2) + column, "action": actions, "hit": data.hits}


@dataclass(frozen=True)
class TrainedDeepHMM:
    """A fitted Deep-HMM, for the grid that it was fitted on."""

    model: nesymm.Model
    particles: int = 200
    history: tuple[dict[str, float], ...] = ()

    @property
    def parameters_count(self) -> int:
        leaves = jax.tree.leaves(eqx.filter(dict(self.model.networks), eqx.is_inexact_array))
        return sum(leaf.size for leaf in leaves)

    def roughly(self) -> TrainedDeepHMM:
        return self  # it has few particles

    def probabilities(self, data: Dataset, seed: int = 0) -> np.ndarray:
        cells = (data.grid + 2) ** 2
        if cells != self.model.constants["cells"]:
            side = int(self.model.constants["cells"] ** 0.5)
            raise ValueError(
                f"this Deep-HMM was fitted on a grid of {side - 2}, and cannot be used on one "
                f"of {data.grid}"
            )
        model = self.model.with_constants(enemies=data.enemies)
        method = RaoBlackwellised(particles=self.particles)
        given = arrays(data)
        chunks = []
        for start in range(0, len(data), 100):
            rows = {name: array[start : start + 100] for name, array in given.items()}
            chunks.append(model.filter(rows, method=method, key=seed + start).final["dead@T"])
        return np.concatenate(chunks)

    def save(self, path: str | Path) -> None:
        nesymm.save(self.model, path)


@dataclass(frozen=True)
class DeepHMM:
    """The method. `particles` are for training."""

    particles: int = 100
    epochs: int = 25
    batch_size: int = 50
    learning_rate: float = 5e-3  # at first; it falls along a cosine
    grid: int = 10

    def takes(self, setting: Setting) -> bool:
        return setting[0] == self.grid

    def fit(self, train: Dataset, validation: Dataset, seed: int, progress: bool) -> TrainedDeepHMM:
        """The epoch with the least validation loss is kept."""
        steps = self.epochs * (len(train) // self.batch_size)
        fitted = fit(
            compile_model(train.grid, train.enemies, seed),
            arrays(train) | {"dead": train.dead},
            objective=(LogEvidence(), QueryLoss("dead@T", "dead")),
            method=RaoBlackwellised(particles=self.particles),
            optimizer=optax.adam(optax.cosine_decay_schedule(self.learning_rate, steps, 0.05)),
            epochs=self.epochs,
            batch_size=self.batch_size,
            validation=arrays(validation) | {"dead": validation.dead},
            clip=1.0,
            key=seed,
            progress=progress,
        )
        return TrainedDeepHMM(fitted.model, history=tuple(fitted.history))

    def load(self, path: str | Path) -> TrainedDeepHMM:
        """What `TrainedDeepHMM.save` wrote."""
        return TrainedDeepHMM(nesymm.load(path, into=compile_model(self.grid, 1, 0)))
