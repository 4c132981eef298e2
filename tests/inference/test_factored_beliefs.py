"""The belief stays a product of small tables where the evidence allows it."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.data import prepare
from nesymm.inference.elimination.choices import cells
from nesymm.inference.loop import Run, to_arrays
from nesymm.inference.methods import ExactForward

RULES = Path(__file__).parents[2] / "examples" / "paper" / "discriminative.nsl"


@pytest.mark.slow
def test_observed_hits_part_health_from_the_enemy() -> None:
    """Eleven hits on a 10×10 grid take tables of 100 places and of 45 levels, and not of both."""
    model = nesymm.compile(RULES.read_text(), networks={"policy": lambda *_: jnp.zeros(8)})
    data = {
        "start": np.array([[3, 4]], np.int32),
        "action": np.zeros((1, 11), np.int32),
        "hit": np.ones((1, 11), np.int32),
    }
    sequences = prepare(model.step, data)
    with jax.enable_x64(True):
        engine = model._filter(ExactForward()).engines.choose(sequences)
        run = Run(
            engine,
            engine.settings(1),
            sequences,
            to_arrays(sequences),
            model.parameters,
            model.networks,
            jax.random.key(0),
            together=True,
        )
        *_, last = run.steps()
    # Nothing is carried past the end.
    assert {cells(b.dims) for b in last.before.beliefs} == {45, 100}


def test_what_is_very_unlikely_now_may_be_all_that_is_left() -> None:
    """In 32 bits, e^-100 is nothing beside 1; the only way on must not be lost for that."""
    source = """
    x(X)@0 ~ uniform_int(0, 1).
    x(X)@t :- x(X)@(t-1).
    y(Y)@t ~ normal(X, 0.05) :- x(X)@t.
    observe(y@t).
    one@t :- x(1)@t.
    query(one@t).
    """
    seen = np.array([[0.0, 1.0, 1.0, 1.0]])
    found = nesymm.compile(source).filter({"y": seen}, method=ExactForward())
    one, zero = -0.5 * 1 / 0.05**2, -0.5 * 3 / 0.05**2
    constant = -4 * (np.log(0.05) + 0.5 * np.log(2 * np.pi)) - np.log(2)
    assert found.log_evidence[0] == pytest.approx(np.logaddexp(one, zero) + constant, rel=1e-5)
    assert found.probability("one@t", 3)[0] == pytest.approx(1.0)
