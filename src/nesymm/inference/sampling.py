"""Whole trajectories from the posterior: drawn, or the most probable one.

Exactly: forward with the belief at every step kept, then backward, each step's choices
drawn given the state after it. With particles: a particle is chosen by its weight, and
its ancestors are traced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import Diagnostics, Health, health_of
from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice, choices
from nesymm.inference.elimination.factors import draw, eliminate, pick_at
from nesymm.inference.exact_step import ExactStep, draw_all
from nesymm.inference.forward import ExactFilter
from nesymm.inference.loop import moment_of, past_tensors, run
from nesymm.inference.named import Named, apply, expand
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.plan import Plan
from nesymm.inference.results import Failure
from nesymm.inference.state import LANES, Settings, State, normalise
from nesymm.inference.step import ParticleStep
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis
from nesymm.ir.passes.phases import Phases
from nesymm.ir.types import Bool, Enum, domain


@dataclass(frozen=True)
class Draws:
    """What was drawn of a batch of sequences, in arrays [batch, trajectory, step, axes…].

    `fields` are those of the state, by slot and column (a number, or "present"), `variables` the
    random variables. Axes of one value are left out. `undrawn` names the variables that are not
    drawn at step 0, and at later steps: their values there are blanks. `lengths` is 0 for the
    sequences in `failures`, which have no trajectories. `shape` is (batch, trajectory, step).
    """

    shape: tuple[int, int, int]
    fields: dict[tuple[str, Any], np.ndarray]
    variables: dict[str, np.ndarray]
    undrawn: tuple[frozenset[str], frozenset[str]]
    lengths: np.ndarray
    failures: tuple[Failure, ...]
    diagnostics: Diagnostics


def undrawn(both: Phases) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that are only drawn at later steps, and those only at step 0."""
    first, later = (frozenset(v.name for v in p.variables) for p in both)
    return later - first, first - later - frozenset(both.statics)


# ---------------------------------------------------------------- exactly


def exact_trajectories(
    engine: ExactFilter,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    count: int,
) -> tuple[dict[str, Any], Health]:
    """Values of everything along trajectories, [step, axes…, batch, trajectory], and how the
    filter fared."""
    if engine.draws > 1:
        raise NesymmError(
            "a static variable has infinitely many values: trajectories need particles"
        )
    settings = engine.settings(sequences.batch, record=True)
    outcome, last_state = run(
        engine, settings, sequences, arrays, parameters, networks, key, uniform=False
    )
    states = outcome.state
    lanes = replace(settings, particles=count)
    binding = engine.bind(parameters, networks, 1 << 20)
    past = past_tensors(engine)
    last = Named(arrays["last"], (BATCH,))
    key = jax.random.fold_in(key, 1 << 20)
    fields = _fields(states.beliefs)

    def moment(time: Any, slices: Any) -> Any:
        return moment_of(sequences, arrays, slices, time, engine.real, past)

    def end_here(above: list[Any], state: State, time: Any) -> dict[Choice, Named]:
        """The state after a step: from above, or drawn afresh where the sequence ends."""
        fresh = draw_all(state.beliefs, jax.random.fold_in(key, 2 * time), lanes, engine)
        over = apply(jnp, jnp.less_equal, last, Named(jnp.asarray(time)))
        drawn = {
            d: wide_index(apply(jnp, jnp.where, over, fresh[d], Named(a, LANES)), lanes)
            for d, a in zip(fields, above, strict=True)
        }
        known = {
            d: wide_index(state.known[repr(d)], lanes)
            for d in engine.fields()
            if repr(d) in state.known
        }
        return {**drawn, **known}

    def backward(
        plan: Plan, before: State, moment: Any, after: dict[Choice, Named], number: Any
    ) -> dict[Choice, Named]:
        here = jax.random.fold_in(key, number)
        return engine.backward(plan, lanes, before, moment, binding, after, here, lanes)

    def report(plan: Plan, after: dict[Choice, Named], drawn: dict[Choice, Named]) -> Any:
        return values_of(engine, plan, lanes, after, drawn)

    def body(above: list[Any], xs: Any) -> tuple[list[Any], Any]:
        time, slices, before, here = xs
        after = end_here(above, here, time)
        drawn = backward(engine.later, before, moment(time, slices), after, 2 * time + 1)
        held = {**after, **drawn}
        return [held[d].array for d in fields], report(engine.later, after, drawn)

    steps = sequences.steps
    nothing = [jnp.zeros(lanes.shape(LANES), jnp.int32) for _ in fields]
    above = nothing
    pieces: list[Any] = []
    if steps > 1:
        before = jax.tree.map(lambda x: x[:-1], states)
        here = jax.tree.map(lambda x: x[1:], states)
        slices = jax.tree.map(lambda x: x[1:], arrays["timed"])
        times = jnp.arange(1, steps)
        above, later = jax.lax.scan(body, above, (times, slices, before, here), reverse=True)
        pieces.append(later)
    first_state = jax.tree.map(lambda x: x[0], states)
    after = end_here(above, first_state, jnp.asarray(0))
    slices = jax.tree.map(lambda x: x[0], arrays["timed"])
    drawn = backward(engine.first, settings.start(), moment(0, slices), after, 1)
    first = jax.tree.map(lambda x: x[None], report(engine.first, {**after}, drawn))
    out: dict[str, Any] = {}
    for name in {n for p in (first, *pieces) for n in p}:
        out[name] = [p.get(name) for p in (first, *pieces)]
    for name, value in states.slots.items():
        # Fields that depend on inputs only are the same in every trajectory.
        out[name] = [value]
    return out, health_of(outcome, last_state)


def _fields(beliefs: list[Named]) -> list[Choice]:
    return sorted({d for b in beliefs for d in choices(b.dims)}, key=repr)


def wide_index(value: Named, lanes: Settings) -> Named:
    array = jnp.broadcast_to(expand(jnp, value, LANES), lanes.shape(LANES))
    return Named(array.astype(jnp.int32), LANES)


def values_of(
    engine: ExactFilter,
    plan: Plan,
    lanes: Settings,
    after: Mapping[Choice, Named],
    drawn: Mapping[Choice, Named],
) -> dict[str, Named]:
    """What holds at a step: the fields of the state after it, and its random variables."""
    variables = {d: i for d, i in drawn.items() if d.kind == "rv"}
    values = ExactStep(plan, lanes, engine)._assemble(variables)
    return {**_slot_values(engine, after, lanes), **values}


def _slot_values(
    engine: ExactFilter, after: Mapping[Choice, Named], lanes: Settings
) -> dict[str, Named]:
    """Fields of the state from their positions."""
    out: dict[str, Named] = {}
    for slot in engine.phases.later.slots:
        for column in ("present", *range(len(slot.fields))):
            values = engine.domains.get((slot.name, column))
            if values is None:
                continue
            size = len(values)
            type_ = Bool() if column == "present" else slot.fields[column]
            codes = jnp.asarray(
                [domain(type_).index(v) if isinstance(type_, Enum) else v for v in values]
            )
            elements = [
                codes[after[Choice("slot", (slot.name, column), key, size)].array]
                for key in places(slot.axes)
            ]
            sizes = tuple(a.size for a in slot.axes)
            stacked = jnp.stack(elements).reshape((*sizes, *lanes.shape(LANES)))
            out[f"{slot.name}.{column}"] = Named(stacked, (*slot.axes, *LANES))
    return out


# ---------------------------------------------------------------- with particles


def particle_trajectories(
    engine: ParticleFilter,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    count: int,
) -> tuple[dict[str, Any], Health]:
    """Values along the ancestors of particles chosen by weight, as the exact ones are."""
    settings = engine.settings(sequences.batch, record=True)
    outcome, state = run(
        engine, settings, sequences, arrays, parameters, networks, key, uniform=False
    )
    weights = normalise(state.log_weights.array)
    pick_key = jax.random.fold_in(key, 1 << 20)
    chosen = jax.vmap(lambda k, w: jax.random.choice(k, w.shape[0], (count,), p=w), in_axes=(0, 0))(
        jax.random.split(pick_key, sequences.batch), weights
    )
    chosen = chosen.astype(jnp.int32)
    histories: Any = outcome.history
    ancestors = jnp.concatenate([a.array for a in histories["ancestors"]])

    def up(index: Any, parents: Any) -> tuple[Any, Any]:
        return jnp.take_along_axis(parents, index, axis=1), index

    _, path = jax.lax.scan(up, chosen, ancestors, reverse=True)  # [step, batch, trajectory]
    out: dict[str, Any] = {}
    for name, pieces in histories.items():
        if name == "ancestors":
            continue
        start = 0
        traced = []
        for piece, number in zip(pieces, _lengths(histories["ancestors"]), strict=True):
            here = path[start : start + number]
            start += number
            traced.append(jax.vmap(_trace)(piece, here) if piece is not None else None)
        out[name.removeprefix("slot ")] = traced
    out |= _settled(engine, state.beliefs, chosen, replace(settings, particles=count), pick_key)
    return out, health_of(outcome, state)


def _settled(
    engine: ParticleFilter, beliefs: list[Named], chosen: Any, lanes: Settings, key: Any
) -> dict[str, Any]:
    """Static variables that the particles have beliefs about: drawn once per trajectory."""
    if not beliefs:
        return {}
    picked = [_trace(b, chosen) for b in beliefs]
    here = jax.random.fold_in(key, 1)
    drawn = draw(jax, here, eliminate(jnp, picked), lanes.shape, None, LANES)
    values = ParticleStep(engine.first, lanes, engine.phases.kept)._assemble(drawn)
    return {n: [Named(v.array[None], v.dims), None] for n, v in values.items()}


def _lengths(pieces: list[Named]) -> list[int]:
    return [p.array.shape[0] for p in pieces]


def _trace(value: Named, index: Any) -> Named:
    if PARTICLE not in value.dims:
        return value
    return pick_at(jnp, value, {PARTICLE: Named(index, LANES)})


# ---------------------------------------------------------------- to arrays


def arrange(
    both: Phases,
    pieces: Mapping[str, list[Any]],
    sequences: Sequences,
    count: int,
    failures: tuple[Failure, ...],
    diagnostics: Diagnostics,
) -> Draws:
    """Everything as [batch, trajectory, step, axes…]; blank where a sequence failed."""
    shape = (sequences.batch, count, sequences.steps)
    fields: dict[tuple[str, Any], np.ndarray] = {}
    for slot in both.later.slots:
        for column in ("present", *range(len(slot.fields))):
            parts = pieces.get(f"{slot.name}.{column}")
            if parts is not None:
                fields[slot.name, column] = _joined(parts, slot.axes, sequences, count)
            elif column == "present" and slot.name in both.always:
                sizes = [a.size for a in slot.axes]
                fields[slot.name, column] = np.ones((*shape, *sizes), bool)
    variables = {
        v.name: _joined(pieces[v.name], v.axes, sequences, count)
        for v in {v.name: v for p in both for v in p.variables}.values()
        if v.name in pieces
    }
    failed = [f.sequence for f in failures]
    for array in (*fields.values(), *variables.values()):
        array[failed] = np.nan if np.issubdtype(array.dtype, np.floating) else 0
    lengths = np.asarray(sequences.last) + 1
    lengths[failed] = 0
    return Draws(shape, fields, variables, undrawn(both), lengths, failures, diagnostics)


def _joined(
    parts: list[Any], axes: tuple[Axis, ...], sequences: Sequences, count: int
) -> np.ndarray:
    """The pieces of something over time; blank, or as before, where there is none."""
    sizes = (sequences.batch, count, *(a.size for a in axes))
    done = []
    for part in parts:
        if part is None:
            continue
        # The time axis comes first and has no name.
        named = Named(np.moveaxis(np.asarray(part.array), 0, len(part.dims)), part.dims)
        full = expand(np, named, (BATCH, PARTICLE, *axes))
        full = np.broadcast_to(full, (*sizes, *full.shape[len(sizes) :]))
        done.append(np.moveaxis(full, len(sizes), 2))
    if parts[0] is None and done:
        # Drawn at later steps only.
        blank = np.zeros((*done[0].shape[:2], 1, *done[0].shape[3:]), done[0].dtype)
        done.insert(0, blank)
    elif parts[-1] is None and len(parts) > 1:
        missing = sequences.steps - sum(d.shape[2] for d in done)
        done.append(np.repeat(done[-1][:, :, -1:], missing, axis=2))
    return np.concatenate(done, axis=2)
