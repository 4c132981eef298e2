"""Settings of inference: each is checked where it is given, and told by its name."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm import NesymmError
from nesymm.inference import data
from nesymm.inference.methods import (
    Auto,
    Bootstrap,
    ExactForward,
    RaoBlackwellised,
    parse_method,
)
from nesymm.training import fit_many

RAIN = nesymm.compile("""
    t(0.3)::rain@0. 0.7::rain@t :- rain@(t-1).
    0.9::umbrella@t :- rain@t. 0.2::umbrella@t :- \\+ rain@t.
    observe(umbrella@t). query(rain@t).
""")
COIN = nesymm.compile("0.5::coin. query(coin).")
DATA = {"umbrella": np.array([[1, 1, 0], [0, 1, 1.0]])}


@pytest.mark.parametrize("seed", [-1, 2**32, None, 1.5, "x", True])
def test_a_seed_is_a_whole_number_of_32_bits(seed: Any) -> None:
    calls = [
        lambda: COIN.infer(key=seed),
        lambda: COIN.infer().sample(1, seed),
        lambda: RAIN.filter(DATA, key=seed),
        lambda: RAIN.smooth(DATA, key=seed),
        lambda: RAIN.trajectories(DATA, key=seed),
        lambda: RAIN.generate(DATA, key=seed),
        lambda: RAIN.stream(key=seed),
        lambda: RAIN.fit(DATA, key=seed, progress=False),
        lambda: fit_many(RAIN, DATA, [0, seed], progress=False),
    ]
    for call in calls:
        with pytest.raises(NesymmError, match=f"keys?: expected .* JAX, received {seed!r}"):
            call()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: RaoBlackwellised(particles=1.5), "particles: expected a whole .* received 1.5"),
        (lambda: RaoBlackwellised(particles="8"), "particles: expected a whole .* received '8'"),
        (lambda: Bootstrap(resample_below=None), "resample_below: .*'always', received None"),
        (lambda: Bootstrap(resample_below=np.nan), "resample_below: .*'always', received nan"),
        (lambda: Bootstrap(resample_below=-1), "resample_below: .*from 0 or 'always', received -1"),
        (lambda: Bootstrap(resample_below="often"), "resample_below: .* received 'often'"),
        (lambda: Auto(particles=0), "particles: expected a whole number from 1, received 0"),
        (lambda: Auto(budget=-1), "budget: expected a whole number from 0, received -1"),
        (lambda: ExactForward(draws=-1), "draws: expected a whole number from 1, received -1"),
        (lambda: parse_method("bootstrap", 0), "particles: expected a whole number from 1, rec"),
        (lambda: RAIN.filter(DATA, method=3), r"method: expected Auto\(\), .*received 3"),
        (lambda: RAIN.filter(DATA, method=Auto), "method: expected .* or the name of one, rec"),
    ],
)
def test_a_method_has_settings_that_make_sense(make: Any, told: str) -> None:
    with pytest.raises(NesymmError, match=told):
        make()


def test_lengths_are_numbers_of_steps_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NesymmError, match=r"steps: .* received an array with masked entries"):
        RAIN.filter(DATA, steps=np.ma.array([3, 1], mask=[0, 1]))
    told = "fit into memory, received 1,099,511,627,776 steps of 1 seq"
    with pytest.raises(NesymmError, match=f"steps: expected a number of steps .* {told}"):
        RAIN.filter({}, steps=[2**40])
    with pytest.raises(NesymmError, match=f"steps: expected a number of steps .* {told}"):
        RAIN.filter({}, steps=2**40)
    monkeypatch.setattr(data, "memory", lambda: 1 << 30)
    with pytest.raises(NesymmError, match=r"steps: .* received 2,147,483,646 steps of 1 seq"):
        RAIN.filter({}, steps=2**31 - 3 + 1)
    whole = RAIN.filter(DATA, steps=np.ma.array([3, 1], mask=[0, 0]))
    assert np.isfinite(whole.log_evidence).all()


def test_files_and_models_have_their_order(tmp_path: Any) -> None:
    path = tmp_path / "none" / "model.safetensors"
    with pytest.raises(NesymmError, match=f"cannot write `{path}`: No such file or directory"):
        nesymm.save(RAIN, path)
    with pytest.raises(
        NesymmError, match=r"path: expected a path, received Model\n.*load\(path\)`"
    ):
        nesymm.load(RAIN, path)  # type: ignore[arg-type]
    with pytest.raises(NesymmError, match=r"path: expected a path, received int\n.*save\("):
        nesymm.save(RAIN, 3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- networks

OVER_TIME = """
    :- network(net, 1). :- input(u(X)@t).
    x@t ~ bernoulli(net(X)) :- u(X)@t.
    observe(x@t). query(x@t).
"""
STATIC = ":- network(net, 1). x ~ bernoulli(net(0.5)). query(x)."
SAMPLED = ":- network(net, 2). z ~ normal(0, 1). x ~ normal(net(z)). a :- x > z. query(a)."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"net": None}, "the network net: expected a function, received None"),
        ([jnp.sin], "networks: expected a dictionary of functions by name, received list"),
        ({"other": jnp.sin}, r"the program has no network other \(it has: net\)"),
    ],
)
def test_networks_are_functions_by_name(given: Any, told: str) -> None:
    with pytest.raises(NesymmError, match=told):
        nesymm.compile(STATIC, networks=given)
    with pytest.raises(NesymmError, match=told):
        nesymm.compile(STATIC).with_networks(given).log_probability("x")
    with pytest.raises(NesymmError, match=told):
        nesymm.compile(OVER_TIME).with_networks(given).log_evidence({"u": np.ones((1, 2))})
    with pytest.raises(NesymmError, match=told):
        fit_many(
            nesymm.compile(OVER_TIME), {"u": np.ones((1, 2)), "x": np.ones((1, 2))}, [0],
            networks=lambda _: given, progress=False,
        )  # fmt: skip


WRONG: list[tuple[Any, str]] = [
    (lambda: jnp.zeros(1), "the network net failed: TypeError: .*takes 0 positional arguments"),
    (lambda _: None, "the network net gave NoneType, an array of real numbers is needed"),
    (
        lambda _: jnp.ones(1) * 1j,
        "the network net gave complex.*, an array of real numbers",
    ),
    (lambda _: "wet", "the network net failed: |the network net gave .*, an array of real"),
]


@pytest.mark.parametrize(("network", "told"), WRONG)
def test_what_a_network_does_is_told_with_its_name(network: Any, told: str) -> None:
    with pytest.raises(NesymmError, match=told) as static:
        nesymm.compile(STATIC, networks={"net": network}).infer()
    with pytest.raises(NesymmError, match=told) as timed:
        nesymm.compile(OVER_TIME, networks={"net": network}).filter({"u": np.ones((1, 2))})
    for caught in (static, timed):
        assert "it was called with float" in str(caught.value)
        assert "it is a function of one example" in str(caught.value)


def test_a_network_that_cannot_be_traced_gets_the_cure() -> None:
    told = r"the network net failed: Conc(?s:.*)called with float.*\[\](?s:.*) jax.numpy alone"
    for program, given in ((OVER_TIME, {"u": np.ones((1, 2))}), (SAMPLED, None)):
        width = 2 if program == SAMPLED else 1
        model = nesymm.compile(program, networks={"net": lambda x, w=width: np.full(w, float(x))})
        with pytest.raises(NesymmError, match=told):
            model.infer(samples=10) if given is None else model.filter(given)


def test_a_step_that_there_is_not() -> None:
    found = nesymm.compile("0.3::rain@t. query(rain@t). query(rain@T).").filter(steps=3)
    assert found.probability("rain@t", step=2) == pytest.approx([0.3])
    assert found.probability("rain@T") == pytest.approx([0.3])
    for step in (3, -1, 1.5):
        with pytest.raises(NesymmError, match="step: expected a whole number from 0 and below 3"):
            found.probability("rain@t", step=step)  # type: ignore[arg-type]
    with pytest.raises(NesymmError, match=r"snow@t is not asked in the program \(asked: rain@T, "):
        found.probability("snow@t")
