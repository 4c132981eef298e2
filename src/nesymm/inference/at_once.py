"""Exact inference at once: step by step in NumPy, without compiling anything.

Going forward, each step has just the tables that it needs. Queries about a fixed step are
answered going back, so that no answer has to be carried along until all evidence is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import health_of
from nesymm.inference.elimination.choices import BATCH, Choice
from nesymm.inference.estimators import average
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import Run, Step, join, to_arrays
from nesymm.inference.named import Named
from nesymm.inference.options import Key, seed_of
from nesymm.inference.questions import Question
from nesymm.inference.sampling import Traced, state_after, values_of
from nesymm.inference.state import LANES, Info, Settings, State
from nesymm.language.program import At

Ask = Callable[[int], tuple[Question, ...]]


def run_at_once(
    engine: ExactFilter,
    sequences: Sequences,
    parameters: Mapping[str, Any],
    together: bool,
    record: bool = False,
) -> Run:
    """A run in NumPy, in which nothing is drawn."""
    settings = engine.settings(sequences.batch, record=record)
    arrays = to_arrays(sequences)
    return Run(engine, settings, sequences, arrays, parameters, {}, None, together)


def filter_at_once(
    engine: ExactFilter, sequences: Sequences, parameters: Mapping[str, Any], together: bool
) -> tuple[Info, State]:
    """What all steps of all sequences report, and the last state."""
    run = run_at_once(engine, sequences, parameters, together)
    steps = list(run.steps())
    whole, last = _whole(steps)
    asked = engine.asked_back
    if not asked:
        return whole, last
    found = _back(engine, run, steps, lambda time: _about(asked, time))
    answers = dict(whole.answers)
    for question in asked:
        axes = tuple(a.size for a in question.axes)
        # About a step that there is not, nothing is known.
        nothing = np.zeros((sequences.batch, *axes))
        answers[question.key] = found.get((question.key, _step(question)), nothing)[None]
    return replace(whole, answers=answers), last


def smooth_at_once(
    engine: ExactFilter, sequences: Sequences, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], Info, State]:
    """The probabilities of queries given all evidence, [step, batch, axes…], and what filtering
    says of all steps."""
    asked = tuple(q for q in engine.questions if q.at_every_step)
    run = run_at_once(engine, sequences, parameters, together=True)
    steps = list(run.steps())
    found = _back(engine, run, steps, lambda time: asked)
    answers = {q.key: np.stack([found[q.key, time] for time in range(len(steps))]) for q in asked}
    return answers, *_whole(steps)


def trajectories_at_once(
    engine: ExactFilter,
    sequences: Sequences,
    parameters: Mapping[str, Any],
    count: int,
    key: Key,
) -> Traced:
    """Values of everything along trajectories, drawn going back."""
    run = run_at_once(engine, sequences, parameters, together=False, record=True)
    steps = list(run.steps())
    lanes = replace(run.settings, particles=count)
    rng = np.random.default_rng(seed_of(key))
    found: list[tuple[dict[str, Named], dict[str, Named]]] = []
    above: dict[Choice, Named] = {}
    for time in range(len(steps) - 1, -1, -1):
        before, moment, state, _ = steps[time]
        plan = engine.later if time else engine.first
        over = Named(np.asarray(sequences.last) <= time, (BATCH,))
        after = state_after(engine, state, above, over, rng, lanes)
        different, rows = _different(after, lanes)
        few = replace(run.settings, particles=rows.array.max() + 1)
        given = (before, moment, run.binding)
        drawn = engine.backward(plan, few, given, different, rng, lanes, rows)
        above = {**after, **drawn}
        fields, variables = values_of(engine, plan, lanes, after, drawn)
        found.append(({**fields, **state.slots}, variables))
    pieces = [_by_name([values[i] for values in reversed(found)]) for i in range(2)]
    return Traced(pieces[0], pieces[1], health_of(*_whole(steps)))


def _by_name(steps: list[dict[str, Named]]) -> dict[str, list[Named | None]]:
    """Per name its values at each step, with a leading axis for the step."""
    names = {n for values in steps for n in values}
    return {
        n: [Named(v[n].array[None], v[n].dims) if n in v else None for v in steps] for n in names
    }


def _different(after: Mapping[Choice, Named], lanes: Settings) -> tuple[dict[Choice, Named], Named]:
    """The states that differ, side by side, and which of them each trajectory is in: many
    trajectories share a few."""
    rows = np.zeros((lanes.batch, lanes.particles), np.int32)
    if not after:
        return {}, Named(rows, LANES)
    table = np.stack([index.array for index in after.values()])
    found = []
    for b, row in enumerate(rows):
        states, row[:] = np.unique(table[:, b], axis=1, return_inverse=True)
        found.append(states)
    width = max(states.shape[1] for states in found)
    padded = [np.pad(s, ((0, 0), (0, width - s.shape[1])), mode="edge") for s in found]
    together = np.stack(padded, axis=1)
    return {d: Named(together[i], LANES) for i, d in enumerate(after)}, Named(rows, LANES)


def _whole(steps: list[Step]) -> tuple[Info, State]:
    infos = [jax.tree.map(lambda x: np.asarray(x)[None], step.info) for step in steps]
    return join(infos), steps[-1].after


def _back(engine: ExactFilter, run: Run, steps: list[Step], ask: Ask) -> dict[tuple[str, int], Any]:
    """The probabilities of queries given all evidence, by query and step."""
    settings = run.settings
    even = np.zeros((settings.batch, settings.particles))
    found: dict[tuple[str, int], Any] = {}
    after: list[Named] = []
    for time in range(len(steps) - 1, -1, -1):
        plan = engine.later if time else engine.first
        given, asked = (steps[time].before, steps[time].moment, run.binding), ask(time)
        answers, after = engine.smooth(plan, settings, given, asked, after)
        for question in asked:
            answer = average(question, answers[question.key], even, even, settings)
            found[question.key, time] = answer
    return found


def _about(asked: tuple[Question, ...], time: int) -> tuple[Question, ...]:
    return tuple(q for q in asked if _step(q) == time)


def _step(question: Question) -> int:
    assert isinstance(question.query.when, At)
    return question.query.when.index
