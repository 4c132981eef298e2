"""The ready networks, and functions with parameters, in every place a network can stand."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.inference.methods import RaoBlackwellised
from nesymm.training import ELBO, ConvDecoder, ConvEncoder, fit

IMAGES = """
:- input(image@t).
:- network(encoder, 2).
:- network(decoder, [1, 4, 6]).
code(C) ~ normal(0, 1).
guide(code) ~ normal(encoder(image@0)).
image(I)@t ~ normal(decoder(C), 0.2) :- code(C).
observe(image@t).
"""


@pytest.mark.slow
def test_a_code_is_learnt_from_images() -> None:
    """Bright or dark: after learning the guide tells them apart, and the bound is higher."""
    keys = jax.random.split(jax.random.key(0))
    model = nesymm.compile(
        IMAGES,
        networks={
            "encoder": ConvEncoder((1, 4, 6), 2, channels=(3,), key=keys[0]),
            "decoder": ConvDecoder(1, (1, 4, 6), channels=(3,), key=keys[1]),
        },
    )
    rng = np.random.default_rng(0)
    bright = rng.random(80) < 0.5
    images = np.where(bright, 0.9, 0.1)[:, None, None, None, None] + rng.normal(
        0, 0.05, (80, 1, 1, 4, 6)
    )
    fitted = fit(
        model, {"image": images}, objective=ELBO(), epochs=60, batch_size=40, progress=False,
        optimizer=optax.adam(0.03),
    )  # fmt: skip
    losses = [row["loss"] for row in fitted.history]
    # Gaussian noise of 0.05 under a scale of 0.2, and at most a few nats for the code.
    likelihood = 24 * (0.5 * np.log(2 * np.pi * 0.04) + 0.0025 / (2 * 0.04))
    assert losses[-1] < likelihood + 8 < losses[0]
    codes = jax.vmap(fitted.model.networks["encoder"])(jnp.asarray(images[:, 0]))[:, 0]
    low, high = sorted((codes[bright], codes[~bright]), key=np.mean)
    assert low.max() < high.min()


EVERYWHERE = """
:- input(u(X)@t).
:- network(see, 1).
:- network(move, 2).
:- network(show, 2).
:- network(aim, 2).
seen@t ~ bernoulli(see(X)) :- u(X)@t.
x(Y)@t ~ normal(move(X)) :- u(X)@t.
guide(x(Y)@t) ~ normal(aim(X)) :- u(X)@t.
y(V)@t ~ normal(show(X)) :- x(X)@t.
0.9::o@t :- seen@t.
0.1::o@t :- \\+ seen@t.
observe(y@t).
observe(o@t).
"""


def linear(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return params["w"] * x + params["b"]


@pytest.mark.parametrize("particles", [1, 3])
def test_a_function_with_parameters_may_stand_anywhere(particles: int) -> None:
    """Perception, transition, likelihood and guide: each has its parameters, and all are moved."""
    sizes = {"see": 1, "move": 2, "show": 2, "aim": 2}
    networks = {
        name: nesymm.Function(linear, {"w": np.full(n, 0.3), "b": np.full(n, 0.1)})
        for name, n in sizes.items()
    }
    model = nesymm.compile(EVERYWHERE, networks=networks)
    u = np.random.default_rng(0).normal(size=(30, 1))
    data = {"u": u, "y": 2 * u, "o": u > 0}
    method = RaoBlackwellised(particles=particles)
    fitted = fit(model, data, method=method, epochs=2, batch_size=10, progress=False)
    for name in sizes:
        for a, b in zip(
            jax.tree.leaves(fitted.model.networks[name]), jax.tree.leaves(networks[name]),
            strict=True,
        ):  # fmt: skip
            assert np.isfinite(a).all() and not np.equal(a, b).any()


FRUIT = """
:- input(fruit(F)@t, [apple, pear, quince]).
:- network(ripe, 1).
ripe@t ~ bernoulli(ripe(F, 2)) :- fruit(F)@t.
query(ripe@t).
"""


def test_names_are_encoded_one_hot() -> None:
    """With no hidden layer the output is a weight of the name, one of the number, and the bias."""
    net = nesymm.MLP(4, 1, depth=0, key=0, scale=0.5, one_hot=[3, 0])
    model = nesymm.compile(FRUIT, networks={"ripe": net})
    layer = net.layers.layers[0]
    weights, bias = np.asarray(layer.weight, float)[0], float(layer.bias[0])
    logits = weights[:3] + weights[3] * 2 * 0.5 + bias
    expected = 1 / (1 + np.exp(-logits))
    found = model.filter({"fruit": [["pear", "quince", "apple"]]}).filtered["ripe@t"][0]
    np.testing.assert_allclose(found, expected[[1, 2, 0]], rtol=1e-6)


def test_names_stay_encoded_in_a_file(tmp_path: Path) -> None:
    net = nesymm.MLP(4, 1, width=3, depth=1, key=0, one_hot=[3, 0])
    model = nesymm.compile(FRUIT, networks={"ripe": net})
    nesymm.save(model, tmp_path / "model.safetensors")
    loaded = nesymm.load(tmp_path / "model.safetensors").networks["ripe"]
    np.testing.assert_array_equal(loaded(2, 2.0), net(2, 2.0))


def test_one_hot_has_an_entry_for_each_argument() -> None:
    net = nesymm.MLP(3, 1, key=0, one_hot=[3])
    model = nesymm.compile(FRUIT, networks={"ripe": net})
    with pytest.raises(nesymm.NesymmError, match="one_hot has 1 entries, and there are 2 argum"):
        model.filter({"fruit": [["pear"]]})
