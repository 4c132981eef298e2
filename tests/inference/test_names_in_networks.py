"""Networks read names as positions in the domain of the value, whatever else is known of it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import nesymm

FRUIT = """
    :- network(judge, 3).
    fruit(F)@t ~ categorical([0.2, 0.3, 0.5], [pear, fig, kiwi]).
    taste(V)@t ~ categorical(judge(F), [sweet, sour, flat]) :- fruit(F)@t.
    query(taste(V)@t).
"""
TASTES = ("sweet", "sour", "flat")
# The domain of the first step is another than that of the later ones, in another order.
NARROWER = """
    :- network(judge, 3).
    fruit(F)@0 ~ categorical([0.5, 0.5], [kiwi, fig]).
    fruit(F)@t ~ categorical([0.2, 0.3, 0.5], [pear, fig, kiwi]) :- fruit(_)@(t-1).
    taste(V)@t ~ categorical(judge(F), [sweet, sour, flat]) :- fruit(F)@t.
    query(taste(V)@t).
"""


def judge(position: Any) -> Any:
    return 3 * jax.nn.one_hot(position, 3)


def tastes(*fruit: float) -> np.ndarray:
    """The probabilities of the tastes for those of the fruits by position."""
    each = np.exp(3 * np.eye(3))
    return np.asarray(fruit) @ (each / each.sum(1, keepdims=True))


@pytest.mark.parametrize("method", ["enumerate", "circuit"])
def test_without_time(method: str) -> None:
    model = nesymm.compile(FRUIT.replace("@t", ""), networks={"judge": judge})
    found = model.infer(method=method)
    expected = tastes(0.2, 0.3, 0.5)
    assert [found.probability(f"taste({v})") for v in TASTES] == pytest.approx(expected)


def test_sampled_worlds_without_time() -> None:
    text = FRUIT.replace("@t", "") + "x ~ normal(0, 1).\ny ~ normal(x * x, 1).\nquery(y > 1)."
    text = text.replace("query(y > 1).", "high :- y > 1.\nquery(high).")
    found = nesymm.compile(text, networks={"judge": judge}).infer(samples=100)
    assert [found.probability(f"taste({v})") for v in TASTES] == pytest.approx(
        tastes(0.2, 0.3, 0.5)
    )


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
@pytest.mark.parametrize("program", [FRUIT, NARROWER], ids=["one domain", "two domains"])
def test_over_time(program: str, method: str) -> None:
    found = nesymm.compile(program, networks={"judge": judge}).filter(steps=2, method=method)
    # The state lists kiwi and fig first: positions are those of the domain of the state.
    later = tastes(0.2, 0.3, 0.5) if program == FRUIT else tastes(0.5, 0.3, 0.2)
    first = later if program == FRUIT else tastes(0.5, 0.5, 0)
    for i, taste in enumerate(TASTES):
        rows = found.filtered[f"taste({taste})@t"][0]
        # The fruit of the step before is drawn by particles, but decides nothing.
        assert rows == pytest.approx([first[i], later[i]], abs=1e-5)


def test_inputs_have_the_positions_of_their_declaration() -> None:
    program = FRUIT.replace(
        "fruit(F)@t ~ categorical([0.2, 0.3, 0.5], [pear, fig, kiwi]).",
        ":- input(fruit(F)@t, [kiwi, pear, fig]).",
    )
    data = {"fruit": np.array([["fig", "kiwi", "pear"]])}
    found = nesymm.compile(program, networks={"judge": judge}).filter(data)
    expected = np.array([tastes(0, 0, 1), tastes(1, 0, 0), tastes(0, 1, 0)])
    for i, taste in enumerate(TASTES):
        np.testing.assert_allclose(
            found.filtered[f"taste({taste})@t"][0], expected[:, i], atol=1e-5
        )
