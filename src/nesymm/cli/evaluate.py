"""`nesymm evaluate`: log-evidence, answers, and how well they predict labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import typer

from nesymm.cli.data import read_data
from nesymm.cli.model_files import open_over_time
from nesymm.cli.output import print_json, print_parts, reporting, text
from nesymm.cli.scores import Scores, score
from nesymm.cli.sequence_tables import summary, table
from nesymm.cli.sequences import conclude, filter_arrays
from nesymm.errors import NesymmError
from nesymm.inference.findings import Findings, asked_step
from nesymm.inference.methods import parse_method


def evaluate(
    model_file: Path,
    data: Path,
    const: Sequence[str],
    extend: Sequence[Path],
    labels: Sequence[str],
    json: bool,
    method: str,
    particles: int | None,
    seed: int,
    steps: int | None,
    networks: str | None,
) -> None:
    with reporting(json):
        asked = _asked(labels)
        chosen = parse_method(method, particles)
        files = [model_file, *extend]
        model = open_over_time(files, const, networks, "; `nesymm query` answers it")
        every = {name: _is_asked_at_every_step(query) for name, query in asked.items()}
        arrays, truths = read_data(model, data, every)
        found = filter_arrays(model, arrays, data, chosen, seed, steps)
        scores = {name: _score(found, asked[name], truths[name], name) for name in asked}
        if json:
            rows = {name: {"query": asked[name], **s.as_json()} for name, s in scores.items()}
            print_json(found.as_json() | {"labels": rows})
        else:
            print_parts(*summary(found))
            _print_scores(asked, scores)
            typer.echo(f"({found.method}: {found.reason})", err=True)
        conclude(found)


def _asked(labels: Sequence[str]) -> dict[str, str]:
    """Queries by the names of their labels."""
    found: dict[str, str] = {}
    for label in labels:
        name, equals, query = (part.strip() for part in label.partition("="))
        if not (name and equals and query):
            raise NesymmError(
                f"`--labels {label}`: write NAME=QUERY, for example --labels died=agent_dead@T"
            )
        if name in found:
            raise NesymmError(f"the labels {name} are given twice")
        found[name] = query.replace(" ", "")
    return found


def _is_asked_at_every_step(query: str) -> bool:
    return "@" in query and asked_step(query, 1) is None


def _score(found: Findings, query: str, labels: np.ndarray, name: str) -> Scores:
    probabilities = _probabilities(found, query)
    if labels.shape != probabilities.shape:
        expected = " × ".join(map(str, probabilities.shape))
        raise NesymmError(
            f"labels {name} for {query}: expected {expected} of them, received "
            f"{' × '.join(map(str, labels.shape))}"
        )
    return score(probabilities, labels)


def _probabilities(found: Findings, query: str) -> np.ndarray:
    """[sequence] for a query about one step, [sequence, step] for one at every step.

    Some groundings of a query may be impossible in all sequences; those are not listed.
    """
    first = found.sequences[0]
    if query in first.final:
        return np.asarray([s.final[query] for s in found.sequences])
    if query not in first.filtered:
        known = ", ".join([*first.final, *first.filtered]) or "none"
        raise NesymmError(f"the program does not ask {query} (it asks: {known})")
    steps = max(s.steps for s in found.sequences)
    out = np.full((len(found.sequences), steps), math.nan)
    for row, sequence in zip(out, found.sequences, strict=True):
        row[: sequence.steps] = sequence.filtered[query]
    return out


def _print_scores(asked: Mapping[str, str], scores: Mapping[str, Scores]) -> None:
    if not scores:
        return
    heads = ["labels", "query", "known", "accuracy", "balanced", "F1", "log loss"]
    rows = [
        [
            name,
            asked[name],
            str(s.known),
            *map(_number, (s.accuracy, s.balanced_accuracy, s.f1, s.log_loss)),
        ]
        for name, s in scores.items()
    ]
    print_parts("", text("labels", "bold"), table(heads, rows))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"
