"""The pictures of the discriminative experiment, from what is shipped and in the demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.minihack import demo, plots, results
from experiments.minihack.rules import Rules


def test_every_method_on_record_is_drawn() -> None:
    records = results.read_all()
    figure = plots.accuracy(records, "test_large")
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {*records, *(f"{name} (paper)" for name in results.PAPER)}


def test_the_losses_of_every_seed_are_drawn() -> None:
    told = {"0": {"validation": [3.0, 1.0, 2.0]}, "1": {"validation": [2.0, 3.0]}}
    figure = plots.training({"nesymm": {"seeds": told}, "transformer": {"seeds": told}})
    first, second, nothing = figure.axes
    assert [first.get_title(), second.get_title()] == ["nesymm", "transformer"]
    assert [line.get_ydata().tolist() for line in first.lines] == [[3, 1, 2], [1], [2, 3], [2]]
    assert first.lines[1].get_xdata().tolist() == [2]  # the best is the second epoch
    assert not nothing.axison


def test_the_policy_is_drawn_around_the_agent() -> None:
    (axes, _) = plots.policy(Rules().load()).axes
    (agent,) = axes.lines
    assert agent.get_xydata().tolist() == [[0, 0]]


@pytest.mark.slow
def test_the_demo_prints_a_table_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = replace(demo.SHORT, epochs=1, particles=20, test_particles=20, sequences=1000)
    monkeypatch.setattr(demo, "SHORT", few)
    demo.show(tmp_path)
    told = capsys.readouterr().out
    assert "5,000 games in a room of 10 × 10 cells" in told
    assert "75.7 %" in told and "0.61" in told  # the paper's best in the first setting
    # There are no larger sets in the demo.
    assert {path.name for path in tmp_path.iterdir()} == {
        "accuracy.png",
        "policy.png",
        "belief.gif",
    }
