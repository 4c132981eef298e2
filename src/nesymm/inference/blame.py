"""What went wrong with which sequence, and what it is due to, found by trying again without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import Health
from nesymm.inference.elimination.capacity import TooLarge
from nesymm.inference.engine import Engine
from nesymm.inference.networks import gave_nan
from nesymm.inference.results import Failure
from nesymm.ir.step import StepProgram

Networks = Mapping[str, Callable[..., Any]]
# Whether some program still fails with some networks.
StillFails = Callable[[StepProgram, Networks], bool]

# How many observations are tried as the cause of a failure: each costs a compilation.
_SUSPECTS = 6


def network_to_blame(networks: Networks, fails: Callable[[Networks], bool]) -> str | None:
    """The first network whose NaN alone makes a run fail; None where NaN comes from elsewhere."""
    calm = {n: lambda *a, f=f: jnp.nan_to_num(f(*a)) for n, f in networks.items()}
    if not networks or fails(calm):
        return None
    for name in networks:
        if len(networks) == 1 or fails({**calm, name: networks[name]}):
            return name
    return None


def unexplained(engine: Engine) -> str:
    """The message about evidence that has no weight."""
    if engine.exact:
        return "the evidence is impossible"
    return (
        "no particle explains the evidence: it is impossible, or too rare for this many particles"
    )


def failures_of(sequences: Sequences, outcome: Any, engine: Engine) -> tuple[Failure, ...]:
    """The first thing that went wrong in each sequence."""
    out = []
    nan = np.isnan(outcome.log_gain)
    for b, t in first_of_each(outcome.flags.any(-1) | nan | outcome.dead, sequences):
        message = broken_rule(engine, outcome.flags[t, b])
        if message is None and nan[t, b]:
            message = "a network, a parameter or a computation gave NaN"
        out.append(Failure(b, t, message or unexplained(engine)))
    return tuple(out)


def broken_along(engine: Engine, health: Health, sequences: Sequences) -> tuple[Failure, ...]:
    """The sequences whose evidence nothing explains, or where a rule breaks, by how the filter
    fared on the way."""
    dead, flags = np.asarray(health.dead), np.asarray(health.flags)
    # Evidence that filtering explains fails here where plain numbers underflow.
    improbable = "the evidence of one step is too improbable for this many bits"
    return tuple(
        Failure(b, t, broken_rule(engine, flags[t, b]) or improbable)
        for b, t in first_of_each(dead | flags.any(-1), sequences)
    )


def first_of_each(wrong: np.ndarray, sequences: Sequences) -> Iterator[tuple[int, int]]:
    """The sequences of which a step is wrong, [step, batch], and the first such step."""
    wrong = wrong & (np.arange(sequences.steps)[:, None] <= sequences.last)
    for sequence in map(int, np.flatnonzero(wrong.any(0))):
        yield sequence, int(np.argmax(wrong[:, sequence]))


def broken_rule(engine: Engine, flags: np.ndarray) -> str | None:
    """What the first of the flags that are raised means; None if none is."""
    raised = np.flatnonzero(flags)
    return str(engine.phases.later.flags[raised[0]]) if raised.size else None


def explained(
    failure: Failure,
    step: StepProgram,
    parameters: Mapping[str, Any],
    networks: Networks,
    still_fails: StillFails,
) -> Failure:
    """The same failure, with the network, parameter or observation that it is due to."""
    if "NaN" in failure.message:
        for name, value in parameters.items():
            if not np.all(np.isfinite(np.asarray(value))):
                return replace(failure, message=f"the parameter {name} is not a number")
        guilty = network_to_blame(networks, lambda nets: still_fails(step, nets))
        if guilty is None:
            return failure
        message, details = gave_nan(step, guilty)
        return replace(failure, message=message, details=details)
    observations = step.observations
    if "evidence" not in failure.message or not observations:
        return failure
    if len(observations) == 1:
        return replace(failure, message=f"{failure.message} (observed: {observations[0].name})")
    for observation in observations if len(observations) <= _SUSPECTS else ():
        rest = tuple(o for o in observations if o is not observation)
        try:
            needed = not still_fails(replace(step, observations=rest), networks)
        except TooLarge:
            continue  # Without it, nobody knows.
        if needed:
            name = observation.name + (str(observation.when) if observation.when else "")
            return replace(failure, message=f"{failure.message} (without {name} it is not)")
    return failure
