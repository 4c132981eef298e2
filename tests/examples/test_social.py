"""Smokers in groups of friends: simulated, learnt, and believed, against sums written out."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from examples.social import baseline, run
from examples.social.simulator import ASKED, TRUTH, simulate, strain

FOLDER = Path(run.__file__).parent


def next_chances(state: np.ndarray, friend: np.ndarray, stress: np.ndarray) -> np.ndarray:
    """The chance that each person smokes, by who did before (None: it is the first week), with
    stress summed out."""
    quiet = 1 - TRUTH["stress"] * stress
    if state is None:
        return 1 - (1 - TRUTH["start"]) * quiet
    friends = (friend & state).sum(-1)
    return 1 - quiet * (1 - TRUTH["habit"] * state) * (1 - TRUTH["friend"]) ** friends


def forward(data: dict[str, np.ndarray], group: int) -> np.ndarray:
    """The chance that each person smokes in each week, by all states of a small group."""
    people = int(data["person"][group].sum())
    friend = data["friend"][group, :people, :people]
    chance = strain(data["features"][group, :people])
    states = np.array(list(product([0, 1], repeat=people)), bool)
    belief, out = None, []
    for week in range(data["smokes"].shape[1]):
        told = data["stress"][group, week, :people]
        stress = np.where(np.isnan(told), chance, told)
        if belief is None:
            belief = _likely(next_chances(None, friend, stress), states)
        else:
            rows = [_likely(next_chances(s, friend, stress), states) for s in states]
            belief = belief @ np.array(rows)
        seen = data["smokes"][group, week, :people]
        fits = (np.isnan(seen) | (states == (seen == 1))).all(-1)
        belief = belief * fits / (belief * fits).sum()
        out.append(belief @ states)
    return np.array(out)


def _likely(chance: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.where(states, chance, 1 - chance).prod(-1)


def small() -> dict[str, np.ndarray]:
    return simulate(np.random.default_rng(4), 3, 3, 4, 5, room=4).data


def test_beliefs_are_those_of_sums_over_all_states() -> None:
    data = small()
    particles = 4000
    belief = run.beliefs(run.true_model(), data, particles)
    model = run.true_model().with_constants(n=4)
    result = model.filter(data, method=nesymm.RaoBlackwellised(particles), key=1)
    for group in range(3):
        expected = forward(data, group)
        people = expected.shape[1]
        # Effective particles of all weeks have gone into a belief.
        error = 4 * 0.5 / np.sqrt(float(result.effective[group].min()))
        np.testing.assert_allclose(belief[group][:, :people], expected, atol=error)
        assert not belief[group][:, people:].any()


def test_the_true_network_is_that_of_the_simulator() -> None:
    features = np.random.default_rng(0).normal(size=(5, 4, 3))
    found = run.learnt_strain(run.true_model(), jnp.asarray(features))
    np.testing.assert_allclose(found, strain(features), rtol=1e-4)


@pytest.mark.slow
def test_gradients_are_those_of_the_likelihood() -> None:
    """Everybody is asked about everything, nobody has friends: each chance is counted by itself."""
    groups = simulate(np.random.default_rng(3), 40, 4, 4, 3, room=4)
    rng = np.random.default_rng(4)
    stress, smokes = rng.random((2, 40, 3, 4)) < 0.5
    for week in (1, 2):
        smokes[:, week] &= smokes[:, week - 1] | stress[:, week]  # there is no other reason
    data = {**groups.data, "stress": stress * 1.0, "smokes": smokes * 1.0}
    data["friend"] = np.zeros((40, 4, 4), bool)
    model = run.untrained(0).with_parameters(**{run.NAMES[n]: value for n, value in TRUTH.items()})
    found = run.gradients(model.with_constants(n=4), data, 200)
    # Log-likelihoods of smoking in the later weeks: gradients of log(1 - quiet), or of log(quiet).
    before, now, strained = smokes[:, :-1], smokes[:, 1:], stress[:, 1:]
    habit, cause = TRUTH["habit"], TRUTH["stress"]
    start, first = TRUTH["start"], smokes[:, 0]
    rows = np.zeros((40, 3))
    for week in range(2):
        a, b, y = before[:, week], strained[:, week], now[:, week]
        quiet = (1 - habit * a) * (1 - cause * b)
        slope = np.where(y, 1 / (1 - quiet).clip(1e-9), -1 / quiet)
        rows[:, 1] += (slope * a * (1 - cause * b)).sum(-1)
        rows[:, 2] += (slope * b * (1 - habit * a)).sum(-1)
    quiet = (1 - start) * (1 - cause * stress[:, 0])
    slope = np.where(first, 1 / (1 - quiet), -1 / quiet)
    rows[:, 0] = (slope * (1 - cause * stress[:, 0])).sum(-1)
    rows[:, 2] += (slope * stress[:, 0] * (1 - start)).sum(-1)
    # Particles draw which cause it was, and average the gradients of twelve draws: each has a
    # standard deviation of at most (1 / p + 1 / (1 - p)) / 2, which is 3.2 here.
    error = 4 * 3.2 * np.sqrt(12 / 200)
    np.testing.assert_allclose(found[:, :3], rows, atol=error)
    np.testing.assert_allclose(found[:, :3].mean(0), rows.mean(0), atol=error / np.sqrt(40))
    assert not found[:, 3].any()


def test_the_names_of_the_chances() -> None:
    """Each clause has the chance that the page says: with one of them at 1, the others at 0."""
    off = dict.fromkeys(run.NAMES.values(), 0.0)
    data = small()
    data = {**data, "smokes": np.full_like(data["smokes"], np.nan)}
    data["stress"] = np.where(np.isnan(data["stress"]), 0.0, data["stress"])
    model = run.true_model()
    for name, weeks in (("start", [0]), ("stress", None)):
        one = model.with_parameters(**{**off, run.NAMES[name]: 1.0})
        belief = run.beliefs(one, data, 2)
        if weeks:
            right = np.zeros_like(belief, bool)
            right[:, weeks] = data["person"][:, None]
        else:
            right = (data["stress"] == 1) & data["person"][:, None]
        np.testing.assert_allclose(belief, right, atol=1e-6)


def test_groups_are_as_they_should_be() -> None:
    groups = simulate(np.random.default_rng(1), 300, 5, 10, 6, room=12)
    data = groups.data
    sizes = data["person"].sum(-1)
    assert set(sizes) == set(range(5, 11))
    assert (data["friend"] == data["friend"].transpose(0, 2, 1)).all()
    assert not (data["friend"] & ~data["person"][:, None]).any()
    assert not groups.smokes[~np.broadcast_to(data["person"][:, None], groups.smokes.shape)].any()
    seen = ~np.isnan(data["smokes"])
    assert (groups.smokes[seen] == (data["smokes"][seen] == 1)).all()
    asked = 6 * sizes.sum()
    assert abs(seen.sum() - ASKED * asked) < 4 * np.sqrt(ASKED * (1 - ASKED) * asked)


def test_the_network_sees_no_answer_that_it_is_to_guess() -> None:
    data = simulate(np.random.default_rng(1), 2, 5, 5, 4, room=5).data
    changed = {**data, "smokes": data["smokes"].copy()}
    changed["smokes"][:, 2] = 1 - changed["smokes"][:, 2]
    before, after = baseline.views(data), baseline.views(changed)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (before[:, 3] != after[:, 3]).any()


@pytest.mark.filterwarnings("ignore::nesymm.NesymmWarning")
def test_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BATCH", 2)
    monkeypatch.setattr(run, "WEEKS", 3)
    arguments = ["--groups", "2", "--test-groups", "2", "--people", "12", "--epochs", "1"]
    arguments += ["--particles", "4", "--test-particles", "20", "--out", str(tmp_path), "--quiet"]
    run.main(arguments)
    record = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert run.tables(record) in capsys.readouterr().out
    assert (tmp_path / "smokers.png").stat().st_size > 1000
    assert nesymm.load(tmp_path / "model.safetensors").parameters


def test_the_page_shows_what_was_recorded() -> None:
    record = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(table in page for table in run.tables(record).split("\n\n"))
    assert f"{record['strain']:.3f}" in page and f"{record['particles']:.4f}" in page
    program = (FOLDER / "smokers.nsl").read_text(encoding="utf-8")
    assert f"```prolog\n{program}```" in page
