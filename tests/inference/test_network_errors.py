"""A network that cannot be used is refused with its name, its place in the program and a cure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm import NesymmError

PROGRAM = """:- input(u(X)@t).
:- network(net, 2).
x(Y)@t ~ categorical(net(X), [a, b]) :- u(X)@t.
0.9::o@t :- x(a)@t.
0.2::o@t :- x(b)@t.
observe(o@t).
query(x(a)@t).
"""
PLACE = """
 --> <program>:3:22
  |
3 | x(Y)@t ~ categorical(net(X), [a, b]) :- u(X)@t.
  |                      ^^^^^^
"""
DATA = {"u": np.full((2, 3), -1.0), "o": np.ones((2, 3))}
FIRST = {name: array[:, 0] for name, array in DATA.items()}


def decides(x: Any) -> Any:
    return jnp.array([1.0, 0.0]) if x > 0 else jnp.array([0.0, 1.0])


def by_numpy(x: Any) -> Any:
    return np.array([np.exp(x), 1.0])


def of_two(x: Any, y: Any) -> Any:
    return jnp.stack([x, y])


def raises(x: Any) -> Any:
    raise ValueError("my own mistake")


WRONG: list[tuple[Callable[..., Any], str, str]] = [
    (decides, "the network net failed: TracerBoolConversionError", "write `jnp.where(condition"),
    (by_numpy, "the network net failed: TracerArrayConversionError", "NumPy cannot compute with"),
    (
        of_two,
        "the network net failed: TypeError",
        "which is `of_two(x, y)`",
    ),
    (raises, "the network net failed: ValueError: my own mistake", "try it alone: `net(…)`"),
    (lambda x: jnp.zeros(3), r"gave outputs of shape \(3,\), 2 are needed", "let it give as many"),
    (lambda x: "wet", "the network net gave <U3, an array of real numbers", "return one array"),
    (lambda x: jnp.full(2, jnp.nan), "net gives NaN, whatever it is given", "look at its outputs"),
    (lambda x: jnp.log(jnp.stack([x, 1.0])), "the network net gave NaN", "look at its outputs"),
]
VERBS: dict[str, Callable[[nesymm.Model], Any]] = {
    "filter": lambda m: m.filter(DATA, method="exact"),
    "generate": lambda m: m.generate({"u": DATA["u"]}),
    "fit": lambda m: m.fit(DATA, epochs=1, progress=False, method="bootstrap"),
    "stream": lambda m: m.stream(method="exact", batch=2).update(FIRST),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("network", "cause", "cure"), WRONG)
@pytest.mark.filterwarnings("ignore::nesymm.NesymmWarning")
def test_a_network_that_fails_is_named_with_place_and_cure(
    network: Callable[..., Any], cause: str, cure: str, verb: str
) -> None:
    model = nesymm.compile(PROGRAM, networks={"net": network})
    with pytest.raises(NesymmError, match=f"{cause}(?s:.*)  = help: .*{re.escape(cure)}") as caught:
        VERBS[verb](model)
    assert PLACE in str(caught.value)


def test_a_network_that_is_missing_or_a_class_is_refused() -> None:
    with pytest.raises(NesymmError, match="the network net is not given") as caught:
        nesymm.compile(PROGRAM).filter(DATA)
    assert PLACE in str(caught.value)
    with pytest.raises(NesymmError, match=r"received the class MLP\n  = help: .*`MLP\(…\)`"):
        nesymm.compile(PROGRAM, networks={"net": nesymm.MLP})


def test_all_places_that_call_a_network_are_told() -> None:
    more = "z(Y)@t ~ categorical(net(X), [a, b]) :- u(X)@t, x(a)@t. query(z(a)@t).\n"
    model = nesymm.compile(PROGRAM + more, networks={"net": lambda x: jnp.zeros(3)})
    with pytest.raises(NesymmError, match="  = note: it is also called in line 8\n"):
        model.filter(DATA)
