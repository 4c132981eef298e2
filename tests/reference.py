"""Exact inference by enumerating every world: the oracle.

Finite programs only. The belief over states is a dictionary, so the cost is the number
of states times the number of worlds of a step; nothing is clever, on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from interpreter import Key, State, World

from nesymm.errors import NesymmError
from nesymm.ir.step import QueryDecl, RandomVariable, StepProgram, active
from nesymm.language.program import At, Time


class Impossible(NesymmError):
    """The evidence has probability zero."""


def masses(variable: RandomVariable, params: tuple) -> list[tuple[Any, float]]:
    """The values of a finite variable with their probabilities."""
    support = variable.support
    if support is None:
        raise NesymmError(
            f"{variable.name} is {variable.family}: it has infinitely many values, which the "
            "reference interpreter cannot enumerate"
        )
    match variable.family:
        case "bernoulli":
            p = _sigmoid(params[0]) if variable.neural else params[0]
            weights = [1 - p, p]
        case "choice":
            weights = list(params[0])
            if len(weights) < len(support):
                weights.append(max(0.0, 1 - sum(weights)))
        case "categorical":
            weights = _softmax(params[0]) if variable.neural else list(params[0])
        case "uniform_int":
            low, high = params
            weights = [float(low <= v <= high) / (high - low + 1) for v in support]
        case "binomial":
            n, p = params
            weights = [
                math.comb(n, v) * p**v * (1 - p) ** (n - v) if v <= n else 0.0 for v in support
            ]
        case _:
            raise NesymmError(f"the reference interpreter does not know {variable.family}")
    return [(v, w) for v, w in zip(variable.outcomes, weights, strict=True) if w > 0]


def _softmax(logits: Any) -> list[float]:
    values = [float(x) for x in logits]
    top = max(values)
    weights = [math.exp(x - top) for x in values]
    return [w / sum(weights) for w in weights]


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def worlds(
    run: Callable[[Callable[[RandomVariable, Key, tuple], Any]], Any],
) -> Iterator[tuple[float, Any]]:
    """Run `run(choose)` once for every combination of draws that it asks for."""
    script: list[tuple[list[tuple[Any, float]], int]] = []
    while True:
        position = 0
        weight = 1.0

        def choose(variable: RandomVariable, key: Key, params: tuple) -> Any:
            nonlocal position, weight
            if position == len(script):
                script.append((masses(variable, params), 0))
            options, taken = script[position]
            position += 1
            value, probability = options[taken]
            weight *= probability
            return value

        result = run(choose)
        yield weight, result
        del script[position:]
        while script and script[-1][1] + 1 == len(script[-1][0]):
            script.pop()
        if not script:
            return
        options, taken = script[-1]
        script[-1] = (options, taken + 1)


class Result:
    """Probabilities of all queries, per step for those asked at every step."""

    def __init__(self) -> None:
        self.queries: dict[str, float] = {}
        self.filtered: dict[str, list[float]] = {}
        self.evidence = 0.0


def infer(
    step: StepProgram,
    horizon: int = 0,
    data: Mapping[str, Sequence[Any]] | None = None,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    networks: Mapping[str, Callable[..., Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Result:
    """Posterior probabilities of the queries, by enumeration.

    `data` and `inputs` give, per name, one value per step (or a single value for what has
    no time); None is a missing one. `horizon` is the last step.
    """
    data, inputs = data or {}, inputs or {}
    timed_inputs = {i.name for i in step.inputs if i.timed}
    belief: dict[tuple, tuple[State, float]] = {State().frozen(): (State(), 1.0)}
    result = Result()
    times: dict[str, Time | None] = {}
    for time in range(horizon + 1):
        now = {n: _at(v, time) if n in timed_inputs else v for n, v in inputs.items()}
        seen = {n: _at(v, time) for n, v in data.items()}
        following: dict[tuple, tuple[State, float]] = {}
        scores: dict[str, float] = {}
        for state, mass in belief.values():

            def run(
                choose: Any,
                state: State = state,
                time: int = time,
                now: Mapping = now,
                seen: Mapping = seen,
            ) -> Any:
                world = World(
                    step, time, horizon, state, now, choose, networks or {}, parameters or {}
                )
                weight = 1.0
                for observation in step.observations:
                    weight *= world.observed(observation, seen)
                    if weight == 0:
                        return 0.0, None, {}
                world.check_flags()
                answers: dict[str, bool] = {}
                for query in step.queries:
                    if _asked_now(query, time, horizon):
                        for name, holds in world.asked(query):
                            answers[name] = answers.get(name, False) or holds
                            times[name] = query.when
                return weight, world.next_state(), answers

            for probability, (weight, new, answers) in worlds(run):
                total = mass * probability * weight
                if total == 0:
                    continue
                key = new.frozen()
                known = following.get(key)
                following[key] = (new, total + (known[1] if known else 0.0))
                for name, holds in answers.items():
                    scores[name] = scores.get(name, 0.0) + (total if holds else 0.0)
        evidence = sum(mass for _, mass in following.values())
        if evidence == 0:
            raise Impossible(f"the evidence is impossible at step {time}")
        for name in {**dict.fromkeys(result.filtered), **scores}:
            if name not in scores and not active(times[name], time, horizon):
                continue
            steps = result.filtered.setdefault(name, [])
            # Impossible at the steps before at which it was asked.
            asked_before = sum(active(times[name], t, horizon) for t in range(time))
            steps.extend([0.0] * (asked_before - len(steps)))
            steps.append(scores.get(name, 0.0) / evidence)
            result.queries[name] = steps[-1]
        belief = following
        result.evidence = evidence
    for query in step.queries:
        if not query.axes and not query.values:
            result.queries.setdefault(query.name, 0.0)
    return result


def _asked_now(query: QueryDecl, time: int, horizon: int) -> bool:
    """Queries about one step are answered at the end, by when all evidence is in."""
    if query.when is None or isinstance(query.when, At):
        return time == horizon
    return active(query.when, time, horizon)


def _at(values: Any, time: int) -> Any:
    if isinstance(values, list):
        return values[time] if time < len(values) else None
    return values


__all__ = ["Impossible", "Result", "infer", "masses", "worlds"]
