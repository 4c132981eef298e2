"""The pictures of the discriminative experiment can be drawn from what is shipped."""

from __future__ import annotations

from experiments.minihack import plots, results
from experiments.minihack.rules import Rules


def test_every_method_on_record_is_drawn() -> None:
    records = results.read_all()
    figure = plots.accuracy(records, "test_large")
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {*records, *(f"{name} (paper)" for name in results.PAPER)}


def test_the_policy_is_drawn_around_the_agent() -> None:
    (axes, _) = plots.policy(Rules().load()).axes
    (agent,) = axes.lines
    assert agent.get_xydata().tolist() == [[0, 0]]
