"""Diagnostics say how far to trust particles, and warnings say what to do where that is not far."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import nesymm
from nesymm import NesymmWarning
from nesymm.cli.main import app
from nesymm.inference.methods import Bootstrap, RaoBlackwellised
from nesymm.training.noise import measure

# A walk that is seen with little noise: what is seen at the second step is far off.
WALK = """
    x(X)@0 ~ normal(0, t(1.0)).
    x(Y)@t ~ normal(X, 1) :- x(X)@(t-1).
    y(Y)@t ~ normal(X, 0.5) :- x(X)@t.
    observe(y@t).
    up@t :- x(X)@t, X > 0.
    query(up@t).
"""
CALM = {"y": np.zeros((1, 3))}
FAR = {"y": np.array([[0.0, 0.0, 0.0], [0.0, 4.5, 4.5]])}


def test_the_numbers_are_those_of_the_particles() -> None:
    model = nesymm.compile(WALK)
    result = model.filter(CALM, method=Bootstrap(particles=500, resample_below="always"))
    found = result.diagnostics
    assert found.particles == 500 and found.resamplings.tolist() == [2]
    assert found.smallest_effective[0] == pytest.approx(result.effective[0].min())
    assert found.smallest_effective_step[0] == result.effective[0].argmin()
    # Systematic resampling leaves all that have more than the mean weight, and no more than all.
    assert 10 < found.ancestors[0] < 500
    assert found.overall() == {
        "particles": 500,
        "smallest_effective": pytest.approx(result.effective.min()),
        "sequence": 0,
        "step": int(result.effective[0].argmin()),
        "resamplings": 2,
        "ancestors": int(found.ancestors[0]),
    }


def test_ancestors_are_those_that_tracing_finds() -> None:
    method = Bootstrap(particles=400, resample_below="always")
    model = nesymm.compile(WALK)
    # Nothing is seen at the end, so that every particle is drawn sooner or later.
    data = {"y": np.array([[0, 0, 0, 0, 0, np.nan]])}
    many = model.trajectories(data, 20_000, method=method)
    assert len(np.unique(many.values["x"][0, :, 0])) == many.diagnostics.ancestors[0]
    assert 10 < model.smooth(data, method=method).diagnostics.ancestors[0] < 400


def test_without_resampling_all_are_their_own_ancestors() -> None:
    found = nesymm.compile(WALK).filter(CALM, method=Bootstrap(particles=50, resample_below=0))
    assert found.diagnostics.ancestors.tolist() == [50]
    assert found.diagnostics.resamplings.tolist() == [0]


def test_numbers_past_the_end_of_a_sequence_do_not_count() -> None:
    data = {"y": np.array([[0.0, 0.0, 9.0], [0.0, 0.0, 0.5]])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nesymm.compile(WALK).filter(data, steps=[2, 3], method=Bootstrap(particles=1000))
    assert found.diagnostics.smallest_effective_step[0] < 2


def test_exact_inference_has_nothing_to_warn_of() -> None:
    model = nesymm.compile("0.3::a@0. 0.9::a@t :- a@(t-1). 0.9::o@t :- a@t. observe(o@t).")
    found = model.filter({"o": np.ones((2, 4))}).diagnostics
    assert found.particles == 1 and found.overall()["smallest_effective"] == 1


@pytest.mark.compiled
def test_a_low_effective_sample_size_is_warned_of_once() -> None:
    with pytest.warns(NesymmWarning) as caught:
        result = nesymm.compile(WALK).filter(FAR, method=Bootstrap(particles=1000))
    (warning,) = caught
    step = int(result.effective[1].argmin())
    size = result.effective[1].min()
    assert str(warning.message) == (
        f"low effective sample size: at step {step} of sequence 1 the evidence leaves an effective "
        f"sample size of {size:.1f} of 1,000 particles (1 of 2 sequences are affected)\n"
        "  = note: log-evidence, probabilities and gradients from there on rest on few particles\n"
        "  = help: take more particles (`particles=10_000`), or draw closer to the evidence with a "
        "guide: `guide(x@t) ~ normal(…).`"
    )
    assert warning.filename == __file__


def test_few_ancestors_are_warned_of() -> None:
    model = nesymm.compile(WALK)
    # Lines of descent of 200 particles meet after some 200 steps.
    data = {"y": np.zeros((1, 400))}
    method = Bootstrap(particles=200, resample_below="always")
    model.filter(data, method=method)  # What is filtered does not depend on old ancestors.
    with pytest.warns(NesymmWarning, match="few distinct ancestors: all 200 particles at the end"):
        found = model.smooth(data, method=method)
    assert found.diagnostics.ancestors[0] < 10
    with pytest.warns(NesymmWarning, match="the trajectories of early steps are those of few"):
        model.trajectories(data, 10, method=method)


@pytest.mark.parametrize("particles", [1, 5, 19])
def test_with_very_few_particles_nothing_is_said(particles: int) -> None:
    nesymm.compile(WALK).filter(FAR, method=Bootstrap(particles=particles))


@pytest.mark.compiled
def test_the_command_line_prints_a_note(tmp_path: Path) -> None:
    program, data = tmp_path / "walk.nsl", tmp_path / "data.npz"
    program.write_text(WALK)
    np.savez(data, **FAR)
    args = ["filter", str(program), "--data", str(data), "--method", "bootstrap"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0
    assert result.stderr.count("note: low effective sample size: at step") == 1
    assert "= help: take more particles (`particles=10_000`)" in result.stderr


# ---------------------------------------------------------------- gradients


def test_signal_and_noise_of_known_gradients() -> None:
    rng = np.random.default_rng(0)
    mean, spread = np.array([3.0, -4.0]), 0.5
    found = measure(
        {"parameters": {"a": mean + spread * rng.normal(size=2)}, "networks": {"n": np.ones(3)}}
        for _ in range(4000)
    )
    expected = 5 / (spread * np.sqrt(2))
    # The variance of 4,000 draws has a relative standard error of √(2 / 8,000) or so.
    assert found.by_name["a"] == pytest.approx(expected, rel=4 * np.sqrt(2 / 8000))
    assert found.by_name["network n"] == np.inf
    assert found.signal_to_noise == pytest.approx(
        np.sqrt(25 + 3) / (spread * np.sqrt(2)), rel=4 * np.sqrt(2 / 8000)
    )


def test_pure_noise_has_no_signal() -> None:
    rng = np.random.default_rng(0)
    found = measure({"parameters": {"a": rng.normal(size=1)}, "networks": {}} for _ in range(4000))
    assert found.signal_to_noise < 4 / np.sqrt(4000)


def test_fit_measures_the_noise_of_its_gradients() -> None:
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(40, 4)).cumsum(1) * np.array([3.0, 1, 1, 1])
    data = {"y": steps + 0.5 * rng.normal(size=(40, 4))}
    options = {"epochs": 1, "progress": False}
    fitted = nesymm.compile(WALK).fit(data, method=RaoBlackwellised(particles=200), **options)
    found = fitted.diagnostics
    assert found.signal_to_noise > 1 and set(found.by_name) == {"x"}
    exact = nesymm.compile("t(0.3)::a@t. observe(a@t).").fit({"a": np.ones((5, 2))}, **options)
    assert exact.diagnostics.signal_to_noise == np.inf


@pytest.mark.compiled
def test_fit_warns_of_noisy_gradients() -> None:
    # By symmetry the gradient is 0: there is no signal.
    model = nesymm.compile("""
        x(X)@0 ~ normal(t(0.0), 1).
        x(Y)@t ~ normal(X, 1) :- x(X)@(t-1).
        y(Y)@t ~ normal(X, 0.1) :- x(X)@t.
        observe(y@t).
    """)
    data = {"y": np.array([[1.0, 1.0], [-1.0, -1.0]])}
    with pytest.warns(NesymmWarning, match="noisy gradients: the gradient of the first batch"):
        fitted = model.fit(data, method=Bootstrap(particles=20), epochs=1, key=1, progress=False)
    assert fitted.diagnostics.signal_to_noise < 0.3


CUBED = nesymm.compile("""
    x(X)@0 ~ normal(0, t(1.0)).
    x(Y)@t ~ normal(X, 1) :- x(X)@(t-1).
    z(Z)@t ~ normal(C, 0.0005) :- x(X)@t, C is X * X * X.
    observe(z@t).
""")


def test_fit_warns_of_few_particles_that_carry_the_weight() -> None:
    data = {"z": np.array([[0.3, -0.4, 2.0, 0.5]])}
    told = "low effective sample size: in the first batch .* of 1[.].* of 1,000 particles\n"
    for debias in (True, False):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "noisy gradients")
            with pytest.warns(NesymmWarning, match=told):
                fitted = CUBED.fit(
                    data, method="bootstrap", epochs=1, progress=False, debias=debias
                )
        assert 1 <= fitted.diagnostics.smallest_effective < 5


def test_a_stream_warns_once() -> None:
    stream = CUBED.stream(method="bootstrap")
    told = "low effective sample size: at step 0 of sequence 0 .* of 1,000 particles"
    with pytest.warns(NesymmWarning, match=told):
        assert stream.update({"z": np.array([0.3])}).effective[0] < 5
    stream.update({"z": np.array([0.31])})


def test_the_numbers_do_not_change_what_is_learnt() -> None:
    model = nesymm.compile(WALK)
    data = {"y": np.zeros((4, 3))}
    options = {"method": RaoBlackwellised(particles=50), "epochs": 2, "progress": False}
    first, second = (model.fit(data, **options).model.parameters["x"] for _ in range(2))
    assert first == second and isinstance(jax.device_get(first), float)
