"""The belief stays a product of small tables where the evidence allows it."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import nesymm
from nesymm.filtering.data import prepare
from nesymm.filtering.dims import cells
from nesymm.filtering.loop import run, to_arrays
from nesymm.filtering.methods import ExactForward

RULES = Path(__file__).parents[2] / "examples" / "paper" / "discriminative.nsl"


def test_observed_hits_part_health_from_the_enemy() -> None:
    """docs/inference.md: ten steps on a 10×10 grid take 100 + 41 numbers."""
    model = nesymm.compile(RULES.read_text(), networks={"policy": lambda *_: jnp.zeros(8)})
    data = {
        "start": np.array([[3, 4]], np.int32),
        "action": np.zeros((1, 10), np.int32),
        "hit": np.zeros((1, 10), np.int32),
    }
    sequences = prepare(model.step, data)
    with jax.enable_x64(True):
        engine, _ = model._filter(ExactForward()).engine(sequences)
        _, state = run(
            engine,
            engine.settings(1),
            sequences,
            to_arrays(sequences),
            model.parameters,
            model.networks,
            jax.random.key(0),
            uniform=True,
        )
    assert sorted(cells(b.dims) for b in state.beliefs) == [41, 100]
