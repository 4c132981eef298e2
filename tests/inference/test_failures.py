"""What cannot be explained is said by everything that looks at evidence."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import infer

import nesymm
from nesymm.inference import unrolled
from nesymm.inference.methods import Bootstrap
from nesymm.inference.results import FilterError

STAYS = "0.5::x@0. x@t :- x@(t-1). 0.5::w@t. observe(x@t). observe(w@t). query(x@t)."
DATA = {"x": np.array([[1, 1, 1], [1, 0, 0]]), "w": np.ones((2, 3))}
METHODS = ("exact", "rao-blackwellised", pytest.param("bootstrap", marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def stays() -> Any:
    """With one observation: nothing is compiled to find the one to blame."""
    return nesymm.compile("0.5::x@0. x@t :- x@(t-1). observe(x@t). query(x@t).")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("verb", ["filter", "smooth", "trajectories"])
def test_impossible_evidence_is_never_answered(stays: Any, verb: str, method: str) -> None:
    with pytest.raises(FilterError, match=r"sequence 1, step 1: .*observed: x\)") as caught:
        getattr(stays, verb)({"x": DATA["x"]}, method=method)
    assert caught.value.result.log_evidence[0] > -np.inf


@pytest.mark.parametrize("method", ["exact", pytest.param("bootstrap", marks=pytest.mark.slow)])
def test_the_observation_to_blame_is_named(method: str) -> None:
    with pytest.raises(FilterError, match=r"sequence 1, step 1: .*without x@t"):
        nesymm.compile(STAYS).filter(DATA, method=method)


def test_a_misspelt_choice_is_refused() -> None:
    with pytest.raises(nesymm.NesymmError, match="expected 'raise' or 'keep', received 'kepp'"):
        nesymm.compile(STAYS).filter(DATA, errors="kepp")


def test_one_sequence_without_a_batch_axis_gets_the_cure() -> None:
    with pytest.raises(nesymm.NesymmError, match=r"x\[None\]"):
        nesymm.compile(STAYS).filter({"x": np.ones(3), "w": np.ones(3)})


# --- rules that break --------------------------------------------------------------------

RISES = """
:- domain(level/1, 1, 0..2).
level(0)@0.
level(L + D)@t :- level(L)@(t-1), rise(D)@t.
rise(D)@t ~ uniform_int(0, 1).
0.5::z@t :- level(2)@t.
0.2::z@t.
observe(z@t).
query(level(2)@t).
"""


@pytest.fixture(scope="module")
def rises() -> Any:
    return nesymm.compile(RISES)


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_where_a_rule_breaks_there_is_no_log_evidence_to_learn_from(
    rises: Any, method: str
) -> None:
    data, length = {"z": np.ones((2, 5))}, np.array([5, 3])  # three rises need three steps

    @jax.jit
    def log_evidence(key: Any) -> Any:
        return rises.log_evidence(data, method=method, steps=length, key=key)

    told = log_evidence(jax.random.key(0))
    assert np.isnan(told[0])
    short = np.log(infer(rises.step, 2, {"z": [True] * 3}).evidence)
    np.testing.assert_allclose(told[1], short, atol=1e-5 if method == "exact" else 0.3)


@pytest.mark.parametrize(
    ("verb", "method"),
    [
        ("smooth", "exact"),
        pytest.param("smooth", "bootstrap", marks=pytest.mark.slow),
        ("trajectories", "exact"),
        pytest.param("trajectories", "rao-blackwellised", marks=pytest.mark.slow),
        ("generate", "exact"),
    ],
)
def test_a_broken_rule_is_never_answered(rises: Any, verb: str, method: str) -> None:
    with pytest.raises(
        FilterError, match=r"sequence 0, step 3: level/1 leaves its domain int 0\.\.2"
    ):
        getattr(rises, verb)({"z": np.ones((1, 5))}, method=method)


def test_a_stream_stops_where_a_rule_breaks(rises: Any) -> None:
    stream = rises.stream(method="exact")
    for _ in range(3):
        stream.update({"z": [1]})
    with pytest.raises(FilterError, match="sequence 0, step 3: level/1 leaves its domain"):
        stream.update({"z": [1]})


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore:low effective sample size")  # which is what this is about
@pytest.mark.parametrize("resample_below", [0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_particle_without_weight_breaks_no_rule(resample_below: float) -> None:
    """That the level stays inside is observed: what a bootstrap filter drew beside it is void."""
    over = "over@t :- level(L)@(t-1), rise(D)@t, L + D > 2.  observe(over@t, false)."
    model = nesymm.compile(RISES + over)
    data = {"z": np.ones((1, 6))}
    n = 4000
    method = Bootstrap(particles=n, resample_below=resample_below)
    exact = model.filter(data, method="exact").filtered["level(2)@t"]
    found = model.filter(data, method=method)
    error = np.sqrt(exact * (1 - exact) / found.effective)
    np.testing.assert_array_less(np.abs(found.filtered["level(2)@t"] - exact), 5 * error + 1e-6)


# --- networks and numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "clause"),
    [
        (2, "x(V)@t ~ normal(f(image@t))."),
        (1, "x@t ~ bernoulli(f(image@t))."),
        (3, "x(V)@t ~ categorical(f(image@t), [1, 2, 3])."),
    ],
)
def test_a_network_gives_as_many_outputs_as_declared(outputs: int, clause: str) -> None:
    program = f":- network(f, {outputs}). :- input(image@t). {clause} observe(x@t)."
    model = nesymm.compile(program, networks={"f": lambda image: jnp.zeros(4)})
    wanted = rf"the network f gave outputs of shape \(4,\), {outputs} are needed"
    with pytest.raises(nesymm.NesymmError, match=wanted):
        model.filter({"image": np.ones((1, 2, 3)), "x": np.ones((1, 2))})


def test_at_least_one_trajectory() -> None:
    with pytest.raises(nesymm.NesymmError, match="count: expected at least 1, received -1"):
        nesymm.compile(STAYS).trajectories({"x": np.ones((1, 3))}, -1)


def test_a_refusal_names_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight things, any two of which may have the same colour: that is 12 to the power of 8."""
    monkeypatch.setattr(unrolled, "MAX_SECONDS", 0.0)
    model = nesymm.compile("""
        thing(E) :- between(1, 8, E).
        colour(E, C)@t ~ uniform_int(1, 12) :- thing(E).
        same@t :- colour(E, C)@t, colour(F, C)@t, E < F.
        observe(same@t).
        query(same@T).
    """)
    with pytest.raises(
        nesymm.NesymmError, match=r"depend on each other .*: .*colour\[\d\] \(\d+\), colour"
    ):
        model.filter({"same": np.ones((1, 3))}, method="exact")
