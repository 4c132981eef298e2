"""`nesymm query` for programs with time: up to which step to look, and how sure the answers are.

Particle methods share their particles out among independent runs. The runs are weighed by
how well they explain the evidence; how much they differ gives the standard errors.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.data import prepare, wanted
from nesymm.inference.filter import Filter, Request
from nesymm.inference.methods import BuiltIn, RaoBlackwellised, parse_method
from nesymm.inference.results import Failure, Filtered
from nesymm.ir.expr import leaves
from nesymm.ir.step import ObservationDecl, QueryDecl, StepProgram, active
from nesymm.language.program import steps_of
from nesymm.model import Model

Declared = QueryDecl | ObservationDecl

RUNS = 8
# Fewer particles than this are one run, which has no standard errors.
WORTH_SPLITTING = 10 * RUNS


def answer_over_time(
    model: Model, method: str, particles: int | None, seed: int, steps: int | None
) -> dict[str, Any]:
    """The answers as JSON has them, and the `reason` for the method."""
    refuse_data(model.step)
    steps = number_of_steps(model.step, steps)
    with jax.enable_x64(True):
        run, runs, reason = _choose(model.step, parse_method(method, particles), steps)
        lengths = np.full(runs, steps)
        found = run.filter(Request({}, model.parameters, model.networks, lengths, seed, "keep"))
    refuse_failures(model.step, found, steps - 1)
    paper = isinstance(run.method, RaoBlackwellised) and run.method.recursion == "paper"
    queries, stderr = _answers(found, plain=paper)
    return {
        "queries": queries,
        "stderr": stderr,
        "log_evidence": float(np.logaddexp.reduce(found.log_evidence) - math.log(runs)),
        "method": found.method + (f" in each of {runs} runs" if runs > 1 else ""),
        "reason": reason,
    }


def refuse_data(step: StepProgram) -> None:
    """A program that reads data cannot be answered without them."""
    used = {node.data[0] for node in leaves(step.roots(), "input")}
    used |= {node.data for node in leaves(step.roots(), "given")}
    read = [n for n, want in wanted(step).items() if want.kind == "observation" or n in used]
    if read:
        raise NesymmError(
            f"the program reads {', '.join(read)} from data, and `nesymm query` reads none\n"
            "  = help: give them with `nesymm filter FILE --data DATA`"
        )


# ---------------------------------------------------------------- how many steps


def number_of_steps(step: StepProgram, steps: int | None) -> int:
    """How many steps to look at: as given, else those that the program speaks of."""
    declared: list[Declared] = [*step.queries, *step.observations]
    if steps is None:
        for decl in declared:
            if steps_of(decl.when)[1] is None:
                raise NesymmError(
                    f"how many steps are there? {_dated(decl)} does not say\n"
                    "  = help: give their number: `--steps 10`"
                )
        return 1 + max((steps_of(decl.when)[1] or 0 for decl in declared), default=0)
    for decl in declared:
        first, _ = steps_of(decl.when)
        if first >= steps:
            raise NesymmError(
                f"{_dated(decl)} is about a step after the last one, {steps - 1}\n"
                f"  = help: `--steps {first + 1}` or more"
            )
    return steps


def _dated(decl: Declared) -> str:
    when = "" if decl.when is None or decl.name.endswith(str(decl.when)) else decl.when
    return f"`{decl.name}{when}`"


# ---------------------------------------------------------------- running


def _choose(step: StepProgram, method: BuiltIn, steps: int) -> tuple[Filter, int, str]:
    """A filter, how often it is to run, and why it was chosen."""
    whole = Filter(step, method)
    engine = whole.engines.choose(prepare(step, {}, steps))
    number = engine.particles
    if number < WORTH_SPLITTING:
        return whole, 1, engine.reason
    return Filter(step, method.resized(math.ceil(number / RUNS))), RUNS, engine.reason


def refuse_failures(step: StepProgram, found: Filtered, last: int) -> None:
    """A run in which no particle survives has no weight. If that happens to all, or if
    something else goes wrong in any, there is no answer."""
    wrong = [f for f in found.failures if not _died(found, f)]
    if not wrong and len(found.failures) < len(found.log_evidence):
        return
    failure = (wrong or sorted(found.failures, key=lambda f: -f.step))[0]
    message = f"step {failure.step}: {failure.message}"
    if not wrong:
        spans = [o.span for o in step.observations if active(o.when, failure.step, last)]
        places = dict.fromkeys(f"{s.source.name}:{s.line}:{s.column}" for s in spans if s)
        message += f"\n  = note: see {', '.join(places)}" if places else ""
    raise NesymmError(message)


def _died(found: Filtered, failure: Failure) -> bool:
    return bool(np.isneginf(found.log_gains[failure.sequence, failure.step]))


# ---------------------------------------------------------------- answers


def _answers(found: Filtered, plain: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Probabilities and standard errors. A query at every step has an entry per step."""
    evidence = np.cumsum(np.nan_to_num(found.log_gains, nan=-np.inf, neginf=-np.inf), axis=1)
    runs, steps = evidence.shape
    queries: dict[str, float] = {}
    stderr: dict[str, float] = {}

    def add(name: str, probabilities: np.ndarray, step: int) -> None:
        weights = _weights(evidence[:, step], plain)
        alive = weights > 0
        mean = float(np.sum(weights[alive] * probabilities[alive]))
        queries[name] = min(max(mean, 0.0), 1.0)
        if runs > 1:
            apart = weights[alive] * (probabilities[alive] - mean)
            error = math.sqrt(float(np.sum(apart**2)) * runs / (runs - 1))
            stderr[name] = error if error > 1e-12 else 0.0

    for name, rows in found.filtered.items():
        for step in range(steps):
            if not np.isnan(rows[:, step]).all():
                add(at_step(name, step), rows[:, step], step)
    # What is asked for a fixed step is given all evidence: it stands where both are asked.
    for name, column in found.final.items():
        add(name, column, steps - 1)
    return queries, stderr


def _weights(log_evidence: np.ndarray, plain: bool) -> np.ndarray:
    """How much each run counts. `plain`: all that are alive count the same."""
    if plain:
        alive = np.isfinite(log_evidence)
        return alive / alive.sum()
    weights = np.exp(log_evidence - log_evidence.max())
    return np.asarray(weights / weights.sum())


def at_step(name: str, step: int) -> str:
    """`rain@t` or `rain@(1:T)` at one step: `rain@2`."""
    return f"{name.rpartition('@')[0]}@{step}"
