"""What is scored, what is written down, and that the pages say what is on record."""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import nesymm
from experiments.minihack import data, discriminative, harness, results
from experiments.minihack.data import Dataset, load
from experiments.minihack.methods import SETTINGS
from experiments.minihack.metrics import balanced_accuracy, balanced_error, score
from experiments.minihack.options import seeds
from experiments.minihack.thresholds import moved

PAGE = Path(data.__file__).with_name("README.md")

# ---------------------------------------------------------------- scores


def test_scores_by_hand() -> None:
    # Two of three deaths found, three of four survivors.
    p = np.array([0.9, 0.8, 0.2, 0.1, 0.3, 0.6, 0.0])
    dead = np.array([1, 1, 1, 0, 0, 0, 0])
    found = score(p, dead)
    assert found.balanced_accuracy == pytest.approx(100 * (2 / 3 + 3 / 4) / 2)
    assert found.f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert found.n == 7 and found.deaths == pytest.approx(3 / 7)
    assert found.predicted == pytest.approx(p.mean())
    assert score(np.array([0.1]), np.array([0])).balanced_accuracy == 100
    assert score(np.array([0.1]), np.array([1])).balanced_accuracy == 0
    found = score(np.array([0.9, 0.1, 0.1]), np.array([1, 1, 1]))
    assert found.balanced_accuracy == pytest.approx(100 / 3)


def test_half_is_not_dead() -> None:
    assert score(np.array([0.5, 0.5]), np.array([0, 1])).balanced_accuracy == 50


def test_the_loss_and_the_error_over_games() -> None:
    p, dead = np.array([0.9, 0.8, 0.3, 0.1, 0.6]), np.array([1, 1, 1, 0, 0])
    found = score(p, dead)
    assert found.loss == pytest.approx(-np.log([0.9, 0.8, 0.3, 0.9, 0.4]).mean())
    # Two of three deaths and one of two survivors are found.
    assert found.error == pytest.approx(50 * np.sqrt(2 / 9 / 3 + 1 / 4 / 2))


def test_the_error_is_how_far_other_games_move_the_accuracy() -> None:
    rng = np.random.default_rng(0)
    dead = np.arange(400) < 100
    chances = np.where(dead, 0.7, 0.2)
    others = [balanced_accuracy(rng.random(400) < chances, dead) for _ in range(2000)]
    typical = np.where(dead, np.arange(400) < 70, np.arange(400) < 160)  # 70 of 100, 60 of 300
    # A standard deviation of 2,000 numbers is known to one part in sqrt(4,000).
    assert balanced_error(typical, dead) == pytest.approx(np.std(others), rel=4 / np.sqrt(4000))


@pytest.mark.parametrize("seed", range(5))
def test_the_ranking_is_that_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(6, size=40) / 5  # many ties
    dead = rng.integers(2, size=40)
    pairs = [*itertools.product(p[dead == 1], p[dead == 0])]
    won = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs)
    assert score(p, dead).ranking == pytest.approx(100 * won / len(pairs))


def test_a_class_that_does_not_occur_cannot_be_ranked_wrongly() -> None:
    assert score(np.array([0.1, 0.9]), np.array([1, 1])).ranking == 100


def test_a_bar_comes_to_lie_at_a_half() -> None:
    p = (np.arange(100) + 0.5) / 100  # none is on a threshold
    for rate in (0.1, 0.5, 0.96):
        assert moved(p, rate, 0.0) == pytest.approx(p)
        assert ((moved(p, rate, 1.0) > 0.5) == (p > rate)).all()
        assert ((moved(p, rate, 0.5) > 0.5) == (p > (0.5 + rate) / 2)).all()
        # All the way: the odds over those beforehand, as Bayes' rule has them.
        odds = p / (1 - p) * (1 - rate) / rate
        assert moved(p, rate, 1.0) == pytest.approx(odds / (1 + odds))
        assert np.all(np.diff(moved(p, rate, 1.0)) > 0)


def test_the_own_threshold_is_the_mean_of_the_probabilities() -> None:
    # The mean is 0.7: above it are one of three deaths and one of two survivors. At 0.5 all die.
    found = score(np.array([0.9, 0.8, 0.6, 0.55, 0.65]), np.array([1, 0, 0, 1, 1]))
    assert found.balanced_accuracy == 50
    assert found.own_threshold == pytest.approx(100 * (1 / 3 + 1 / 2) / 2)


# ---------------------------------------------------------------- the harness


class Coin:
    """A method that says the death rate of the training set."""

    def takes(self, setting: tuple[int, int, int]) -> bool:
        return setting in SETTINGS[:2]

    def fit(self, train: Dataset, validation: Dataset, seed: int, progress: bool) -> Any:
        return FittedCoin(float(train.dead.mean()))

    def load(self, path: str | Path) -> Any:
        return FittedCoin(float(Path(path).read_text()))


class FittedCoin:
    parameters_count = 1
    history = ({"validation": 0.7}, {"validation": 0.5})

    def __init__(self, rate: float):
        self.rate = rate

    def probabilities(self, data: Dataset, seed: int = 0) -> np.ndarray:
        return np.full(len(data), self.rate)

    def roughly(self) -> FittedCoin:
        return self

    def save(self, path: str | Path) -> None:
        Path(path).write_text(str(self.rate))


@pytest.fixture
def coin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(harness.METHODS, "coin", (__name__, "Coin", {}))


def job(folder: Path, part: str = "test", seed: int = 0) -> harness.Job:
    return harness.Job("coin", seed, None, (part,), folder, folder, progress=False)


@pytest.mark.usefixtures("coin")
def test_a_run_leaves_a_record_and_is_not_repeated(tmp_path: Path) -> None:
    jobs = [job(tmp_path, seed=seed) for seed in (0, 1)]
    for each in jobs:
        harness.run(each)
    record = json.loads((tmp_path / "coin.json").read_text())
    assert list(record["seeds"]) == ["0", "1"]
    first = record["seeds"]["0"]
    assert set(first["scores"]) == {"N10T10E1test", "N10T10E2test"}
    assert first["scores"]["N10T10E1test"]["balanced_accuracy"] == 50  # everybody survives
    assert first["scores"]["N10T10E1test"]["ranking"] == 50  # all are given the same
    assert first["peak_memory_mb"] > 1 and first["fit_seconds"] >= 0
    assert first["validation"] == [0.7, 0.5]
    assert first["scores"]["N10T10E1test"]["device"] == jax.devices()[0].device_kind
    assert "--methods coin --seeds 0" in first["command"]
    told: list[str] = []
    assert harness.run_all(jobs, told.append)
    assert told == ["coin, seed 0: finished before", "coin, seed 1: finished before"]
    text = results.tables(results.read_all(tmp_path))
    assert "| 10 | 10 | 1 | 75.72 | 59.88 | 64.45 | 50.00 ± 0.00 |" in text


def test_the_table_of_losses_by_hand() -> None:
    losses = {"0": [3.0, 1.0, 2.0], "1": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]}
    runs = {seed: {"validation": told, "scores": {}} for seed, told in losses.items()}
    for run in runs.values():
        run |= {"parameters": 1, "device": "cpu"}
    text = results.tables({"coin": {"seeds": runs}, "coin-even": {"seeds": runs}})
    # The best are 1 and 2; the last five have the means 2 and 5.
    assert text.count("| coin | 3 to 6 | 1 to 2 | 1.5000 ± 0.5000 | 3.5000 ± 1.5000 |") == 1
    assert "coin-even" not in text


@pytest.mark.usefixtures("coin")
def test_a_program_is_scored_with_three_thresholds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "PROGRAMS", ("coin",))
    harness.run(job(tmp_path))
    found = results.read_all(tmp_path)
    assert list(found) == ["coin", "coin-half", "coin-even"]
    rate = load("N10T10E1train").dead.mean()
    # It says the same before and after: all the way, its odds are even.
    for name, expected in (("coin", rate), ("coin-even", 0.5)):
        scores = found[name]["seeds"]["0"]["scores"]["N10T10E1test"]
        assert scores["expected"] == pytest.approx(rate)
        assert scores["predicted"] == pytest.approx(expected)
    assert harness.finished(job(tmp_path))
    (tmp_path / "coin-half.json").unlink()
    assert not harness.finished(job(tmp_path))


@pytest.mark.usefixtures("coin")
def test_scores_are_added_while_the_weights_are_there(tmp_path: Path) -> None:
    harness.run(job(tmp_path, "test"))
    before = results.seeds("coin", tmp_path)[0]
    (tmp_path / "coin-0.safetensors").write_text("0.9")  # so the weights are seen to be read
    harness.run(job(tmp_path, "test_large"))
    after = results.seeds("coin", tmp_path)[0]
    assert set(after["scores"]) == {
        f"N10T10E{e}{p}" for e in (1, 2) for p in ("test", "test_large")
    }
    assert after["scores"]["N10T10E1test"] == before["scores"]["N10T10E1test"]
    assert after["scores"]["N10T10E1test_large"]["predicted"] == pytest.approx(0.9)
    assert after["fit_seconds"] == before["fit_seconds"]


@pytest.mark.usefixtures("coin")
def test_scores_of_weights_that_are_gone_are_made_again(tmp_path: Path) -> None:
    harness.run(job(tmp_path, "test"))
    record = json.loads((tmp_path / "coin.json").read_text())
    record["seeds"]["0"]["scores"]["N10T10E1test"]["f1"] = 0.123
    (tmp_path / "coin.json").write_text(json.dumps(record))
    (tmp_path / "coin-0.safetensors").unlink()
    harness.run(job(tmp_path, "test_large"))
    found = results.seeds("coin", tmp_path)[0]["scores"]
    assert set(found) == {f"N10T10E{e}{part}" for e in (1, 2) for part in ("test", "test_large")}
    assert found["N10T10E1test"]["f1"] == 0  # nobody is said to die


def test_memory_is_told_apart_by_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(told: dict[str, int] | None) -> None:
        fake = SimpleNamespace(memory_stats=lambda: told)
        monkeypatch.setattr(jax, "devices", lambda kind=None: [fake])

    device(None)  # a processor has no memory of its own
    assert set(harness.memory()) == {"peak_memory_mb"}
    device({"peak_bytes_in_use": 3 * 2**20})
    found = harness.memory("gpu")
    assert found["device_memory_mb"] == 3
    assert found["peak_memory_mb"] > 3


def test_a_record_says_the_command_that_made_it() -> None:
    made = harness.Job("nesymm", 3, epochs=2, fit_on="cpu").command
    program, _, rest = made.partition(" run ")
    assert program == discriminative.PROGRAM_NAME
    options = discriminative.command_line().parse_args(["run", *rest.split()])
    assert (options.methods, options.seeds) == (["nesymm"], (3,))
    assert (options.epochs, options.fit_on) == (2, "cpu")


@pytest.mark.usefixtures("coin")
def test_other_epochs_than_those_on_record_are_refused(tmp_path: Path) -> None:
    harness.run(job(tmp_path))
    other = replace(job(tmp_path), epochs=3)
    with pytest.raises(nesymm.NesymmError, match="seed 0 is on record with another number of epoc"):
        harness.run_all([other])


def test_other_records_have_their_own_weights(tmp_path: Path) -> None:
    assert harness.weights_beside(results.FOLDER) == harness.WEIGHTS
    assert harness.weights_beside(tmp_path) == tmp_path / "weights"


@pytest.mark.parametrize(
    ("text", "told"), [("{", "is not JSON"), ("[]", "has no seeds"), ("{}", "has no seeds")]
)
def test_a_file_that_is_not_a_record_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(nesymm.NesymmError, match=f"broken.json .*{told}"):
        results.read_all(tmp_path)


@pytest.mark.usefixtures("coin")
def test_mistaken_epochs_are_named() -> None:
    with pytest.raises(nesymm.NesymmError, match="coin has no number of epochs"):
        harness.make("coin", epochs=3)
    with pytest.raises(nesymm.NesymmError, match="expected at least one epoch, received 0"):
        harness.make("nesymm", epochs=0)
    assert harness.make("nesymm", epochs=3).epochs == 3  # type: ignore[attr-defined]


def test_seeds_are_a_range_or_a_list() -> None:
    assert seeds("0-4") == (0, 1, 2, 3, 4)
    assert seeds("0,2,3") == (0, 2, 3)
    assert seeds("7") == (7,)
    with pytest.raises(argparse.ArgumentTypeError, match="received 4-0"):
        seeds("4-0")
    with pytest.raises(argparse.ArgumentTypeError, match="as in 0-4 or 0,2,3, received x"):
        seeds("x")


def test_the_error_of_the_mean() -> None:
    mean, error = results.mean_and_error(np.array([1.0, 2.0, 3.0]))
    assert (mean, error) == (2.0, pytest.approx(1 / np.sqrt(3)))
    assert np.isnan(results.mean_and_error(np.array([1.0]))[1])


# ---------------------------------------------------------------- what is on record

RECORDS = results.read_all()


def on_record(method: str, setting: tuple[int, int, int], part: str) -> list[float]:
    """The means over seeds of balanced accuracy and F1; empty if there are none."""
    name = results.set_name(setting, part)
    found = [results.over_seeds(RECORDS[method], name, metric) for metric in results.IN_PAPER]
    return [float(values.mean()) for values in found if len(values)]


def best_of_the_paper(setting: tuple[int, int, int]) -> list[float]:
    papers = [told[setting] for told in results.PAPER.values() if setting in told]
    return [max(numbers) for numbers in zip(*papers, strict=True)]


@pytest.mark.parametrize("part", ["test", "test_large"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["nesymm", "nesymm-half"])
def test_the_rules_beat_the_best_of_the_paper(
    setting: tuple[int, int, int], part: str, method: str
) -> None:
    assert all(np.array(on_record(method, setting, part)) > best_of_the_paper(setting))
    assert len(results.over_seeds(RECORDS[method], results.set_name(setting, part), "f1")) == 5


def test_the_shipped_tables_are_those_of_the_records() -> None:
    assert (results.FOLDER / "tables.md").read_text() == results.tables(RECORDS)


def rows_of_the_page(column: str) -> list[dict[str, str]]:
    """The rows of the page's tables that have such a column, by column."""
    tables: list[list[list[str]]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif tables[-1]:
            tables.append([])
    wanted = [table for table in tables if table and column in table[0]]
    return [dict(zip(t[0], row, strict=True)) for t in wanted for row in t[2:]]


ON_THE_PAGE = {
    **dict.fromkeys(SETTINGS, "test_large"),
    **dict.fromkeys(data.FURTHER, results.FURTHER),
    **dict.fromkeys(data.SIMULATED, results.SIMULATED),
}


@pytest.mark.parametrize("column", ["nesymm", "nesymm-half"])
def test_the_page_says_what_is_on_record(column: str) -> None:
    rows = rows_of_the_page(column)
    settings = [(int(row["N"]), int(row["T"]), int(row["E"])) for row in rows]
    assert settings == [*ON_THE_PAGE]
    for row, setting in zip(rows, settings, strict=True):
        if "best in the paper" in row:
            assert row["best in the paper"] == "{:.2f} / {:.2f}".format(*best_of_the_paper(setting))
        for method in RECORDS.keys() & row.keys():
            found = on_record(method, setting, ON_THE_PAGE[setting])
            assert row[method] == ("{:.2f} / {:.3f}".format(*found) if found else "–")


def test_the_page_says_what_bars_of_their_own_do() -> None:
    rows = rows_of_the_page("nesymm, own threshold")
    assert [(int(row["N"]), int(row["T"]), int(row["E"])) for row in rows] == [*SETTINGS]
    for row, setting in zip(rows, SETTINGS, strict=True):
        name = results.set_name(setting, "test_large")
        for column in row.keys() - {"N", "T", "E"}:
            record = RECORDS[column.removesuffix(", own threshold")]
            own, ranking = (
                results.over_seeds(record, name, m) for m in ("own_threshold", "ranking")
            )
            found = f"{own.mean():.2f} / {ranking.mean():.2f}" if len(own) else "–"
            assert row[column] == found


TRAINED_ON = (10, 10, 1)
OTHERS = [name for name in RECORDS if not name.startswith("nesymm")]
BASELINES = ["transformer", "transformer-paper", "deep-hmm"]
# Every baseline in every setting that it can be used in.
COMPARISONS = [
    (part, setting, baseline)
    for part in results.PARTS
    for baseline in BASELINES
    for setting in harness.settings_of(harness.make(baseline), part)
]


@pytest.mark.parametrize("name", RECORDS)
def test_every_method_has_five_seeds_of_everything(name: str) -> None:
    method = harness.make(results.version_of(name)[0])
    wanted = set().union(*(harness.names_of(method, part) for part in results.PARTS))
    assert {int(seed): set(run["scores"]) for seed, run in RECORDS[name]["seeds"].items()} == (
        dict.fromkeys(range(5), wanted)
    )


@pytest.mark.parametrize(("part", "setting", "baseline"), COMPARISONS)
def test_the_rules_beat_our_baselines(
    part: str, setting: tuple[int, int, int], baseline: str
) -> None:
    """At 0.5, in both measures."""
    ours, theirs = (np.array(on_record(m, setting, part)) for m in ("nesymm", baseline))
    assert (ours > theirs).all()


# The exceptions: the setting of training, and one in which 78 of 1,000 die.
@pytest.mark.parametrize(
    ("part", "setting"),
    [
        (part, setting)
        for part in ("test", "test_large")
        for setting in SETTINGS
        if setting != TRAINED_ON and (part, setting) != ("test", (15, 10, 1))
    ],
)
def test_with_even_odds_the_rules_have_the_best_balanced_accuracy(
    part: str, setting: tuple[int, int, int]
) -> None:
    theirs = [found for name in OTHERS if (found := on_record(name, setting, part))]
    assert on_record("nesymm-even", setting, part)[0] > max(found[0] for found in theirs)


@pytest.mark.parametrize("part", ["test", "test_large"])
@pytest.mark.parametrize("setting", [s for s in SETTINGS if s != TRAINED_ON])
def test_no_version_of_another_method_has_a_better_f1(
    part: str, setting: tuple[int, int, int]
) -> None:
    theirs = [found for name in OTHERS if (found := on_record(name, setting, part))]
    assert on_record("nesymm", setting, part)[1] > max(found[1] for found in theirs)


@pytest.mark.parametrize(("part", "setting", "baseline"), COMPARISONS)
def test_half_way_the_rules_beat_our_baselines_too(
    part: str, setting: tuple[int, int, int], baseline: str
) -> None:
    ours, theirs = (np.array(on_record(m, setting, part)) for m in ("nesymm-half", baseline))
    behind = (setting, baseline) == ((10, 20, 1), "deep-hmm")  # in F1
    assert (ours > theirs)[: 1 if behind else 2].all()


# Where training was, three methods have the same balanced accuracy with their own thresholds.
@pytest.mark.parametrize("part", ["test", "test_large"])
@pytest.mark.parametrize(
    ("setting", "metric"),
    [
        (s, m)
        for s in SETTINGS
        for m in ("own_threshold", "ranking")
        if (s, m) != (TRAINED_ON, "own_threshold")
    ],
)
def test_the_rules_rank_best(setting: tuple[int, int, int], part: str, metric: str) -> None:
    """Where the threshold is not in the way, no other method is better."""
    name = results.set_name(setting, part)
    found = {m: results.over_seeds(r, name, metric) for m, r in RECORDS.items()}
    others = [v.mean() for m, v in found.items() if len(v) and not m.startswith("nesymm")]
    assert found["nesymm"].mean() > max(others)
