"""A network that gives NaN is named, whatever is drawn from it and whatever is asked."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import Bootstrap, Method, RaoBlackwellised
from nesymm.inference.results import FilterError

SEEN = """
0.7::y@t :- x(1)@t.
0.2::y@t :- x(1)@(t-1).
0.1::y@t.
observe(y@t). query(x(1)@t).
"""
# What is hidden, and the outputs of the network.
HIDDEN = {
    "categorical": (2, "x(V)@t ~ categorical(f(image@t), [0, 1])."),
    "guarded": (2, "0.5::g@t. x(V)@t ~ categorical(f(image@t), [0, 1]) :- g@t."),
    "bernoulli": (1, "c@t ~ bernoulli(f(image@t)). x(1)@t :- c@t."),
    "guarded bernoulli": (1, "0.5::g@t. c@t ~ bernoulli(f(image@t)) :- g@t. x(1)@t :- c@t."),
    "binomial": (1, "x(V)@t ~ binomial(2, f(image@t))."),
    "static": (2, "s(V) ~ categorical(f(image), [0, 1]). 0.5::c@t. x(1)@t :- s(1), c@t."),
}
GOOD, BAD = [[2.0, 1.5]] * 3, [[2.0, 1.5], [-1.0, 1.0], [2.0, 1.5]]


def _model(name: str) -> nesymm.Model:
    outputs, clause = HIDDEN[name]
    image = "image" if name == "static" else "image@t"
    source = f":- network(f, {outputs}). :- input({image}). {clause} {SEEN}"
    # A probability for the binomial; NaN where an image is negative.
    return nesymm.compile(source, networks={"f": lambda i: jnp.log(i[:outputs])})


def _data(name: str, *rows: Any) -> dict[str, np.ndarray]:
    images = np.array(rows)
    return {
        "image": images[:, 1] if name == "static" else images,
        "y": np.array([[0, 1, 1.0]] * len(rows)),
    }


QUICK = ("guarded bernoulli",)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in HIDDEN]
)
def test_it_is_named_and_the_others_keep_their_results(name: str) -> None:
    model = _model(name)
    found = model.filter(_data(name, GOOD, BAD, GOOD), method="exact", errors="keep")
    (failure,) = found.failures
    step = 0 if name == "static" else 1
    assert str(failure) == f"sequence 1, step {step}: the network f gave NaN"
    assert np.isnan(found.log_evidence[1])
    assert np.isnan(found.filtered["x(1)@t"][1, step:]).all()
    alone = model.filter(_data(name, GOOD), method="exact")
    for sequence in (0, 2):
        np.testing.assert_allclose(found.log_gains[sequence], alone.log_gains[0], rtol=1e-5)
        np.testing.assert_allclose(
            found.filtered["x(1)@t"][sequence], alone.filtered["x(1)@t"][0], rtol=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["categorical", "guarded bernoulli"])
@pytest.mark.parametrize("verb", ["smooth", "trajectories"])
def test_it_is_named_whatever_is_asked(verb: str, name: str) -> None:
    with pytest.raises(FilterError, match="sequence 1, step 1: the network f gave NaN"):
        getattr(_model(name), verb)(_data(name, GOOD, BAD), method="exact")


@pytest.mark.parametrize("name", ["categorical", "guarded bernoulli"])
def test_its_log_evidence_is_no_number(name: str) -> None:
    model = _model(name)

    @jax.jit
    def log_evidence(key: Any) -> Any:
        return model.log_evidence(_data(name, GOOD, BAD), method="exact", key=key)

    told = log_evidence(jax.random.key(0))
    assert np.isfinite(told[0])
    assert np.isnan(told[1])


def test_a_stream_names_it() -> None:
    stream = _model("categorical").stream(method="exact", batch=2, shapes={"image": (2,)})
    data = _data("categorical", GOOD, BAD)
    stream.update({n: v[:, 0] for n, v in data.items()})
    with pytest.raises(FilterError, match="sequence 1, step 1: the network f gave NaN"):
        stream.update({n: v[:, 1] for n, v in data.items()})


@pytest.mark.slow
def test_training_names_it() -> None:
    from nesymm.training import LogEvidence, fit

    with pytest.raises(nesymm.NesymmError, match="step 1: the network f gave NaN"):
        fit(
            _model("guarded bernoulli"),
            _data("guarded bernoulli", GOOD, BAD),
            objective=LogEvidence(),
            epochs=1,
            batch_size=2,
            method="exact",
        )


@pytest.mark.slow
def test_of_two_networks_the_right_one_is_named() -> None:
    source = """
    :- network(f, 1). :- network(g, 1). :- input(image@t).
    c@t ~ bernoulli(f(image@t)).
    x(1)@t :- c@t, d@t.
    d@t ~ bernoulli(g(image@t)).
    """
    model = nesymm.compile(
        source + SEEN, networks={"f": lambda i: i[:1], "g": lambda i: jnp.log(i[:1])}
    )
    with pytest.raises(FilterError, match=re.escape("step 1: the network g gave NaN")):
        model.filter(_data("categorical", GOOD, BAD), method="exact")


# What no evidence depends on: `on` says when it is drawn.
ASIDE = {
    "finite": "x(V)@t ~ binomial(2, f(image@t)) :- on(yes)@t.",
    "carried": "n(V)@t ~ binomial(2, f(image@t)) :- on(yes)@t. x(0)@0. x(V)@t :- n(V)@(t-1).",
    "infinite": "n(V)@t ~ poisson(f(image@t)) :- on(yes)@t. x(1)@t :- n(V)@t, V > 0.",
}


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(RaoBlackwellised(20), id="rb"),
        pytest.param(Bootstrap(20), id="bootstrap", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "name", ["finite", pytest.param("carried", marks=pytest.mark.slow), "infinite"]
)
def test_what_is_drawn_by_it_is_no_answer_though_nothing_seen_depends_on_it(
    name: str, method: Method
) -> None:
    source = f"""
    :- network(f, 1).
    :- input(image@t).
    :- input(on(B)@t, [no, yes]).
    {ASIDE[name]}
    0.5::y@t.
    observe(y@t).
    query(x(1)@t).
    """
    model = nesymm.compile(source, networks={"f": lambda i: 0.1 + jnp.log(i[:1]) / 3})
    data = {
        "image": np.array([GOOD, BAD, BAD]),
        "on": np.array([["yes"] * 3, ["yes"] * 3, ["yes", "no", "yes"]], object),
        "y": np.ones((3, 3), bool),
    }
    found = model.filter(data, method=method, errors="keep")
    assert [str(f) for f in found.failures] == ["sequence 1, step 1: the network f gave NaN"]
    assert np.isfinite(found.log_evidence[[0, 2]]).all()
