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
    assert run.tables(record) in page
    assert f"{record['strain']:.3f}" in page and f"{record['particles']:.4f}" in page
    program = (FOLDER / "smokers.nsl").read_text(encoding="utf-8")
    assert f"```prolog\n{program}```" in page
