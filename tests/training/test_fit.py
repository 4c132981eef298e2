"""Learning recovers what is known, by every method, and stops cleanly when it cannot."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.inference.methods import ExactForward, RaoBlackwellised
from nesymm.ir.parameters import bound, free, groups
from nesymm.training import Accuracy, LogEvidence, QueryLoss, TrainingError, fit, fit_many
from nesymm.training.state import better, is_stuck

HMM = """
t(0.4)::x@0.
t(0.7)::x@t :- x@(t-1).
t(0.3)::x@t :- \\+ x@(t-1).
t(0.7)::o@t :- x@t.
t(0.3)::o@t :- \\+ x@t.
observe(o@t).
query(x@T).
"""
# Where the evidence is computed matters little: one step, quick to compile.
COIN = """
t(0.4)::x@t.
t(0.7)::o@t :- x@t.
t(0.3)::o@t :- \\+ x@t.
observe(o@t).
query(x@T).
"""
TRUE = {"x": 0.8, "x.2": 0.9, "x.3": 0.1, "o": 0.95, "o.2": 0.1}


def simulate(n: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random(n) < TRUE["x"]
    seen = []
    for t in range(steps):
        if t:
            x = rng.random(n) < np.where(x, TRUE["x.2"], TRUE["x.3"])
        seen.append(rng.random(n) < np.where(x, TRUE["o"], TRUE["o.2"]))
    return {"o": np.stack(seen, 1).astype(float), "last": x.astype(float)}


def per_sequence(model: nesymm.Model, data: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(model.log_evidence(data, method="exact"), dtype=float)


def paired(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The mean difference of two models on the same sequences, and its standard error."""
    return float(np.mean(a - b)), float(np.std(a - b, ddof=1) / np.sqrt(len(a)))


@pytest.mark.slow
def test_both_engines_learn_the_same() -> None:
    data = simulate(400, 10, seed=0)
    test = {"o": simulate(400, 10, seed=1)["o"]}
    model = nesymm.compile(HMM)
    reached = []
    for method in (ExactForward(), RaoBlackwellised(particles=30)):
        fitted = fit(
            model, {"o": data["o"]}, method=method, epochs=15, optimizer=optax.adam(0.05),
            progress=False,
        )  # fmt: skip
        reached.append(per_sequence(fitted.model, test))
    exact, particles = reached
    true = per_sequence(nesymm.compile(HMM, parameters=TRUE), test)
    gap, error = paired(true, per_sequence(model, test))
    assert gap > 4 * error
    for one, other in ((exact, true), (particles, exact)):
        gap, error = paired(one, other)
        assert abs(gap) < 4 * error
        # Five parameters learnt from 400 sequences cost about 5 / (2 · 400) each.
        assert abs(gap) < 4 * 5 / (2 * 400)


def test_a_query_loss_learns_from_labels_where_there_are_some() -> None:
    data = simulate(300, 1, seed=2)
    data["last"][::2] = np.nan
    model = nesymm.compile(COIN)
    terms = (LogEvidence(weight=0.1), QueryLoss("x@T", "last"))
    fitted = fit(
        model, data, objective=terms, method="exact", epochs=10, optimizer=optax.adam(0.05),
        progress=False,
    )  # fmt: skip
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"]
    test = simulate(300, 1, seed=3)

    def losses(m: nesymm.Model) -> np.ndarray:
        p = m.filter({"o": test["o"]}, method="exact").final["x@T"]
        return -np.log(np.where(test["last"] > 0.5, p, 1 - p))

    gap, error = paired(losses(model), losses(fitted.model))
    assert gap > 4 * error


def test_sequences_of_different_lengths_are_learnt_from_up_to_their_end() -> None:
    """What lies behind the end of a sequence changes nothing, in validation neither."""
    length = np.array([2, 5] * 20)
    seen = simulate(40, 5, seed=6)["o"]
    other = np.where(np.arange(5)[None] < length[:, None], seen, 1 - seen)
    runs = [
        fit(
            nesymm.compile(HMM), {"o": o, "length": length}, method="exact", epochs=2,
            batch_size=20, validation={"o": o, "length": length}, progress=False,
        )
        for o in (seen, other)
    ]  # fmt: skip
    assert runs[0].history == runs[1].history
    assert runs[0].model.parameters == runs[1].model.parameters


def test_early_stopping_returns_the_best() -> None:
    data = {"o": simulate(60, 1, seed=4)["o"]}
    held_out = {"o": simulate(60, 1, seed=5)["o"]}
    fitted = fit(
        nesymm.compile(COIN), data, method="exact", validation=held_out, patience=2, epochs=60,
        batch_size=20, optimizer=optax.adam(0.3), progress=False,
    )  # fmt: skip
    losses = [row["validation"] for row in fitted.history]
    assert fitted.stopped.startswith("no better") and len(losses) < 60
    again = -float(fitted.model.log_evidence(held_out, method="exact").mean())
    assert again == pytest.approx(min(losses), abs=1e-4)


def test_a_loss_that_is_not_finite_stops_with_the_last_good_model() -> None:
    def net(x: jax.Array) -> jax.Array:
        return jnp.where(x > 3, jnp.nan, 0.0)[None]

    program = ":- input(u(X)@t).\n:- network(net, 1).\nx@t ~ bernoulli(net(X)) :- u(X)@t.\n"
    program += "t(0.7)::o@t :- x@t.\nt(0.2)::o@t :- \\+ x@t.\nobserve(o@t).\n"
    model = nesymm.compile(program, networks={"net": net})
    u = np.zeros((40, 2))
    u[7] = 5.0
    with pytest.raises(TrainingError, match=r"epoch 0, batch \d.*network net gave NaN") as caught:
        fit(model, {"u": u, "o": np.ones((40, 2))}, method="exact", batch_size=10, progress=False)
    assert all(np.isfinite(v) for v in caught.value.model.parameters.values())
    same = str(caught.value)
    with pytest.raises(TrainingError, match=r"the loss of key 0 is nan.*net gave NaN") as caught:
        fit_many(
            model, {"u": u, "o": np.ones((40, 2))}, [0, 1], method="exact", batch_size=10,
            progress=False,
        )  # fmt: skip
    assert str(caught.value) == same.replace("the loss", "the loss of key 0")
    assert all(np.isfinite(v) for v in caught.value.model.parameters.values())


def test_impossible_evidence_is_named() -> None:
    model = nesymm.compile("t(0.4)::x@t.\ny@t :- x@t.\nobserve(x@t).\nobserve(y@t).\nquery(x@T).")
    data = {"x": np.ones((10, 2)), "y": np.ones((10, 2))}
    data["y"][3, 1] = 0
    with pytest.raises(TrainingError, match=r"sequence 3, step 1: the evidence is impossible"):
        fit(model, data, method="exact", progress=False)


def test_metrics_are_watched_and_labels_may_be_missing() -> None:
    data = simulate(200, 1, seed=7)
    test = simulate(200, 1, seed=8)
    known = np.arange(200) % 3 != 0
    test["last"][~known] = np.nan
    fitted = fit(
        nesymm.compile(COIN), data, objective=QueryLoss("x@T", "last"), method="exact", epochs=3,
        metrics={"accuracy": Accuracy("x@T", "last")}, validation=test, progress=False,
        optimizer=optax.adam(0.05),
    )  # fmt: skip
    best = min(fitted.history, key=lambda row: row["validation"])
    p = fitted.model.filter({"o": test["o"]}, method="exact").final["x@T"]
    right = (p > 0.5) == (test["last"] > 0.5)
    assert best["accuracy"] == pytest.approx(right[known].mean())
    losses = -np.log(np.where(test["last"] > 0.5, p, 1 - p))
    # A sequence without a label adds nothing to the loss.
    assert best["validation"] == pytest.approx(losses[known].sum() / 200, abs=1e-4)
    lines = fitted.table().splitlines()
    assert lines[0].split() == ["epoch", "loss", "validation", "accuracy"] and len(lines) == 4
    with pytest.raises(nesymm.NesymmError, match="cannot be called loss"):
        fit(nesymm.compile(HMM), data, metrics={"loss": Accuracy("x@T", "last")})
    with pytest.raises(nesymm.NesymmError, match="labels other are not given"):
        fit(nesymm.compile(HMM), data, metrics={"accuracy": Accuracy("x@T", "other")})


NEURAL = """
:- input(u(X)@t).
:- network(net, 1).
x@t ~ bernoulli(net(X)) :- u(X)@t.
t(0.7)::o@t :- x@t.
t(0.2)::o@t :- \\+ x@t.
observe(o@t).
"""


def neural_data(seed: int, n: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1))
    return {"u": u, "o": (u > 0) ^ (rng.random(u.shape) < 0.1)}


# A value that is drawn: each seed has its own draws.
DRAWN = """
:- input(u(X)@t).
:- network(net, 1).
z(Z)@t ~ normal(0, t(1.0)).
0.9::o@t :- z(Z)@t, Z > 0.
x@t ~ bernoulli(net(X)) :- u(X)@t.
0.2::o@t :- x@t.
observe(o@t).
"""


def network(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return (jnp.tanh(params["w"] * x + params["b"]) @ params["v"])[None]


def weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=4) for n in ("w", "b", "v")}


def test_any_function_with_parameters_is_a_network() -> None:
    model = nesymm.compile(NEURAL, networks={"net": nesymm.Function(network, weights(0))})
    fitted = fit(model, neural_data(0), method="exact", epochs=8, batch_size=20, progress=False,
                 optimizer=optax.adam(0.1))  # fmt: skip
    before, after = (per_sequence(m, neural_data(1, 400)) for m in (model, fitted.model))
    gap, error = paired(after, before)
    assert gap > 4 * error
    assert set(fitted.model.networks["net"].params) == {"w", "b", "v"}


@pytest.mark.compiled
def test_several_seeds_at_once_are_the_single_runs() -> None:
    """Shuffling, particles, networks and early stopping are each seed's own."""
    data, held_out = neural_data(2), neural_data(3)
    options = {
        "method": RaoBlackwellised(particles=3), "epochs": 6, "batch_size": 20, "patience": 1,
        "validation": held_out, "optimizer": optax.adam(0.3), "progress": False,
    }  # fmt: skip

    def networks(seed: int) -> dict[str, nesymm.Function]:
        return {"net": nesymm.Function(network, weights(seed))}

    together = fit_many(
        nesymm.compile(DRAWN, networks=networks(0)), data, [0, 5], networks=networks, **options
    )
    assert together[0].history[0] != together[1].history[0]
    for seed, many in zip([0, 5], together, strict=True):
        model = nesymm.compile(DRAWN, networks=networks(seed))
        single = fit(model, data, key=seed, **options)
        assert many.stopped == single.stopped and len(many.history) == len(single.history)
        for a, b in zip(many.history, single.history, strict=True):
            assert a == pytest.approx(b, rel=2e-4)
        for a, b in zip(
            jax.tree.leaves((many.model.parameters, dict(many.model.networks))),
            jax.tree.leaves((single.model.parameters, dict(single.model.networks))),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def test_parameters_stay_in_their_range_and_add_up() -> None:
    model = nesymm.compile(
        "t(_)::a(1); t(_)::a(2); t(0.2)::a(3).\n"
        "x@t ~ categorical([t(_), 0.2, t(_)], [u, v, w]).\n"
        "y@t ~ normal(t(_), t(1.5)).\nobserve(y@t).\nquery(x@t). query(a(1)).\n"
    )
    assert model.parameters["x"] == pytest.approx(0.4)
    assert {g.slack for g in groups(model.step)} == {True, False}
    numbers = free(model.step, model.parameters)
    back = bound(model.step, numbers)
    for name, value in model.parameters.items():
        assert float(back[name]) == pytest.approx(value, abs=1e-6)
    moved = bound(model.step, {n: v + 3.0 * (i - 2) for i, (n, v) in enumerate(numbers.items())})
    assert float(moved["x"] + moved["x.2"]) == pytest.approx(0.8, abs=1e-6)
    assert float(moved["a"] + moved["a.2"] + moved["a.3"]) < 1
    assert float(moved["y.2"]) > 0


def test_a_model_grows_without_losing_what_it_learnt() -> None:
    model = nesymm.compile(
        ":- const(n, 2).\nt(0.3, E)::p(E)@t :- between(1, n, E).\nquery(p(E)@t)."
    )
    model.parameters["p"] = np.array([0.1, 0.9])
    larger = model.with_constants(n=3)
    np.testing.assert_allclose(larger.parameters["p"], [0.1, 0.9, 0.3])
    ruled = model.extend("observe(p(1)@0, true).")
    assert ruled.filter({}, steps=1).final == {} and ruled.parameters is not model.parameters
    assert ruled.filter({}, steps=1).filtered["p(1)@t"][0, 0] == pytest.approx(1.0)


def test_the_history_goes_to_tensorboard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, folder: str):
            assert folder == str(tmp_path)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append(("closed", 0.0, 0))

    data = {"o": simulate(20, 1, seed=9)["o"]}
    options = {"method": "exact", "epochs": 2, "log": tmp_path}
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    fitted = fit(nesymm.compile(COIN), data, progress=True, **options)
    losses = [("loss", row["loss"], int(row["epoch"])) for row in fitted.history]
    assert written == [*losses, ("closed", 0.0, 0)]
    assert "loss" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(nesymm.NesymmError, match="pip install tensorboardX"):
        fit(nesymm.compile(COIN), data, **options)


def test_a_validation_loss_that_is_not_a_number_is_no_best() -> None:
    """Neither the best epoch nor early stopping is misled by it."""
    losses = [2.0, np.nan, 1.0, np.nan, 1.5]
    history: list[dict[str, float]] = []
    best = None
    stuck = []
    for number, loss in enumerate(losses):
        history.append({"validation": loss})
        best = better(best, history[-1], number)
        stuck.append(is_stuck(history, 2))
    assert best == (1.0, 2)
    assert stuck == [False, False, False, False, True]


def test_a_program_without_time_has_no_sequences_to_learn_from() -> None:
    model = nesymm.compile("t(0.5)::a. observe(a).")
    for options in ({}, {"steps": 1}):
        with pytest.raises(nesymm.NesymmError, match=r"has no time.*\n.*model\.log_probability"):
            model.fit({"a": [1, 0]}, progress=False, **options)
