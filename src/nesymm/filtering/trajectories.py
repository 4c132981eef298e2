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

from nesymm.compiler.runtime import atom_text
from nesymm.compiler.step import StepProgram
from nesymm.compiler.types import Bool, Enum, Int, Real, Type, domain
from nesymm.errors import NesymmError
from nesymm.exact.named import Named, apply, expand
from nesymm.filtering.data import Sequences
from nesymm.filtering.dims import BATCH, PARTICLE, Choice, choices
from nesymm.filtering.elimination import draw, eliminate, pick_at
from nesymm.filtering.forward import ExactFilter, ExactStep, draw_all
from nesymm.filtering.loop import moment_of, past_tensors, run
from nesymm.filtering.particles import ParticleFilter
from nesymm.filtering.plan import places
from nesymm.filtering.result import Failure
from nesymm.filtering.state import LANES, Settings, normalise
from nesymm.filtering.step import ParticleStep


@dataclass(frozen=True)
class Trajectories:
    """Trajectories of a batch of sequences, several of each.

    `values` holds arrays [batch, trajectory, step, axes…]: fields of fluents under
    `name.present` and `name.0`, `name.1`, …; random variables under their names. Terms are
    positions in their domain; the entries of a tensor come behind. `lengths` is the
    number of steps of each sequence. A sequence in `failures` has no trajectories: its
    length is 0, its numbers are NaN, and its terms and truths mean nothing.
    """

    step: StepProgram
    values: dict[str, np.ndarray]
    lengths: np.ndarray
    failures: tuple[Failure, ...] = ()

    def atoms(self, sequence: int, trajectory: int, step: int) -> list[str]:
        """The fluents that hold at a step, as ground atoms."""
        for failure in self.failures:
            if failure.sequence == sequence:
                raise NesymmError(f"there is no trajectory of {failure}")
        out = []
        for slot in self.step.slots:
            for position, key in enumerate(places(slot.axes)):
                index = np.unravel_index(position, [a.size for a in slot.axes] or [1])
                at: Any = (sequence, trajectory, step, *(index if slot.axes else ()))
                present = self.values.get(f"{slot.name}.present")
                if present is not None and not present[at]:
                    continue
                fields = [
                    decode(type_, self.values[f"{slot.name}.{i}"][at])
                    for i, type_ in enumerate(slot.fields)
                ]
                out.append(atom_text(slot.name, (*key, *fields)) + f"@{step}")
        return out


def decode(type_: Type, code: Any) -> Any:
    """The term that a number in an array stands for; a tensor is a list."""
    match type_:
        case Enum():
            return domain(type_)[int(code)]
        case Bool():
            return bool(code)
        case Int():
            return int(code)
        case Real():
            return float(code)
    return _listed(np.asarray(code).tolist())


def _listed(entries: Any) -> Any:
    return tuple(map(_listed, entries)) if isinstance(entries, list) else entries


# ---------------------------------------------------------------- exactly


def exact_trajectories(
    engine: ExactFilter,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    count: int,
) -> tuple[dict[str, Any], Any]:
    """Values of everything along trajectories, [step, axes…, batch, trajectory], and where
    nothing explains the evidence, [step, batch], or a rule breaks, [step, batch, flag]."""
    if engine.draws > 1:
        raise NesymmError(
            "a static variable has infinitely many values: trajectories need particles"
        )
    settings = engine.settings(sequences.batch, record=True)
    outcome, _ = run(engine, settings, sequences, arrays, parameters, networks, key, uniform=False)
    states = outcome.state
    lanes = replace(settings, particles=count)
    binding = engine.bind(parameters, networks, 1 << 20)
    past = past_tensors(engine)
    last = Named(arrays["last"], (BATCH,))
    key = jax.random.fold_in(key, 1 << 20)
    fields = _fields(engine, states.beliefs)

    def moment(time: Any, slices: Any) -> Any:
        return moment_of(sequences, arrays, slices, time, engine.real, past)

    def end_here(above: list[Any], beliefs: list[Named], time: Any) -> dict[Choice, Named]:
        """The state after a step: from above, or drawn afresh where the sequence ends."""
        fresh = draw_all(beliefs, jax.random.fold_in(key, 2 * time), lanes, engine)
        over = apply(jnp, jnp.less_equal, last, Named(jnp.asarray(time)))
        return {
            d: wide_index(apply(jnp, jnp.where, over, fresh[d], Named(a, LANES)), lanes)
            for d, a in zip(fields, above, strict=True)
        }

    def report(step: ExactStep, after: dict[Choice, Named], drawn: dict[Choice, Named]) -> Any:
        plan = replace(step.plan, split=step.plan.split)
        values = ExactStep(plan, lanes, engine)._assemble(
            {d: i for d, i in drawn.items() if d.kind == "rv"}
        )
        return {**_slot_values(engine, after, lanes), **values}

    def body(above: list[Any], xs: Any) -> tuple[list[Any], Any]:
        time, slices, before, here = xs
        after = end_here(above, here.beliefs, time)
        step = ExactStep(engine.later, lanes, engine)
        drawn = step.backward(
            before,
            moment(time, slices),
            binding,
            after,
            jax.random.fold_in(key, 2 * time + 1),
            lanes,
        )
        held = {**after, **drawn}
        return [held[d].array for d in fields], report(step, after, drawn)

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
    after = end_here(above, first_state.beliefs, jnp.asarray(0))
    step = ExactStep(engine.first, lanes, engine)
    slices = jax.tree.map(lambda x: x[0], arrays["timed"])
    drawn = step.backward(
        settings.start(), moment(0, slices), binding, after, jax.random.fold_in(key, 1), lanes
    )
    first = jax.tree.map(lambda x: x[None], report(step, {**after}, drawn))
    out: dict[str, Any] = {}
    for name in {n for p in (first, *pieces) for n in p}:
        out[name] = [p.get(name) for p in (first, *pieces)]
    for name, value in states.slots.items():
        # Fields that depend on inputs only are the same in every trajectory.
        out[name] = [value]
    return out, (outcome.dead, outcome.flags)


def _fields(engine: ExactFilter, beliefs: list[Named]) -> list[Choice]:
    return sorted({d for b in beliefs for d in choices(b.dims)}, key=repr)


def wide_index(value: Named, lanes: Settings) -> Named:
    array = jnp.broadcast_to(expand(jnp, value, LANES), lanes.shape(LANES))
    return Named(array.astype(jnp.int32), LANES)


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
            stacked = jnp.stack(elements).reshape(*sizes, *lanes.shape(LANES))
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
) -> tuple[dict[str, Any], Any]:
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
    return out, (outcome.dead, outcome.flags)


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
    step: StepProgram,
    pieces: Mapping[str, list[Any]],
    sequences: Sequences,
    count: int,
    first: StepProgram,
    failures: tuple[Failure, ...] = (),
) -> Trajectories:
    """Everything as [batch, trajectory, step, axes…]; blank where a sequence failed."""
    axes_of = {v.name: v.axes for v in (*first.variables, *step.variables)}
    for slot in step.slots:
        for column in ("present", *range(len(slot.fields))):
            axes_of[f"{slot.name}.{column}"] = slot.axes
    values: dict[str, np.ndarray] = {}
    for name, parts in pieces.items():
        axes = axes_of[name]
        done = []
        for part in parts:
            if part is None:
                continue
            # The time axis comes first and has no name.
            lead = np.asarray(part.array)
            named = Named(np.moveaxis(lead, 0, len(part.dims)), part.dims)
            full = expand(np, named, (BATCH, PARTICLE, *axes))
            sizes = (sequences.batch, count, *(a.size for a in axes))
            full = np.broadcast_to(full, (*sizes, *full.shape[len(sizes) :]))
            done.append(np.moveaxis(full, len(sizes), 2))
        if parts[0] is None and done:
            # Drawn at later steps only.
            blank = np.zeros((*done[0].shape[:2], 1, *done[0].shape[3:]), done[0].dtype)
            done.insert(0, blank)
        elif parts[-1] is None and len(parts) > 1:
            missing = sequences.steps - sum(d.shape[2] for d in done)
            last = done[-1][:, :, -1:]
            done.append(np.repeat(last, missing, axis=2))
        values[name] = np.concatenate(done, axis=2)
    failed = [f.sequence for f in failures]
    for array in values.values():
        array[failed] = np.nan if np.issubdtype(array.dtype, np.floating) else 0
    lengths = np.asarray(sequences.last) + 1
    lengths[failed] = 0
    return Trajectories(step, values, lengths, failures)
