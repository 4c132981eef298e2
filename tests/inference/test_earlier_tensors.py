"""Networks that read a tensor of an earlier step, or of the first."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm

PROGRAM = """
:- input(image@t).
:- network(now, 1).
:- network(before, 1).
:- network(first, 1).
a@t ~ bernoulli(now(image@t)).
b@t ~ bernoulli(before(image@(t-2))) :- t >= 2.
c@t ~ bernoulli(first(image@0)).
query(a@t).
query(b@t).
query(c@t).
"""


def net(image: Any) -> Any:
    return jnp.sum(image)[None]


def test_each_reads_its_own_step() -> None:
    model = nesymm.compile(PROGRAM, networks=dict.fromkeys(("now", "before", "first"), net))
    images = np.random.default_rng(0).normal(0.0, 0.5, (2, 5, 3))
    chance = 1 / (1 + np.exp(-images.sum(-1)))
    found = model.filter({"image": images}, method=nesymm.ExactForward())
    np.testing.assert_allclose(found.filtered["a@t"], chance, rtol=1e-5)
    np.testing.assert_allclose(found.filtered["c@t"], chance[:, :1].repeat(5, 1), rtol=1e-5)
    np.testing.assert_allclose(found.filtered["b@t"][:, 2:], chance[:, :3], rtol=1e-5)


def test_the_program_is_printed_with_the_step() -> None:
    text = str(nesymm.compile(PROGRAM).step)
    for call in ("now(image@t)", "before(image@(t-2))", "first(image@0)"):
        assert call in text


def test_a_stream_keeps_no_earlier_tensors() -> None:
    model = nesymm.compile(PROGRAM, networks=dict.fromkeys(("now", "before", "first"), net))
    with pytest.raises(nesymm.NesymmError, match=r"reads image@\((t-2|0)\), of an earlier step"):
        model.stream(shapes={"image": (3,)})
