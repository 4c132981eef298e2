"""Whole trajectories from the posterior: drawn, or the most probable one.

Exactly: forward with the belief at every step kept, then backward, each step's choices
drawn given the state after it. With particles: a particle is chosen by its weight, and
its ancestors are traced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import is_jax, xp
from nesymm.inference.causes import causes_apart
from nesymm.inference.data import Sequences
from nesymm.inference.diagnostics import Diagnostics, Health, health_of
from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice, choices
from nesymm.inference.elimination.factors import pick_at
from nesymm.inference.exact_step import draw_all
from nesymm.inference.loop import Run
from nesymm.inference.named import Named, apply, expand
from nesymm.inference.plan import Plan, reads
from nesymm.inference.results import Failure
from nesymm.inference.state import LANES, Settings, State, normalise
from nesymm.inference.step_model import StepModel
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis
from nesymm.ir.passes.phases import Phases
from nesymm.ir.types import Bool, Enum, domain

if TYPE_CHECKING:
    from nesymm.inference.forward import ExactFilter
    from nesymm.inference.particles import ParticleFilter


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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Traced:
    """Values of everything along trajectories, in pieces [step, axes…, batch, trajectory], None
    where a thing has no value, and how the filter fared.

    `fields` are those of the state, by the names that `State.slots` has, `variables` the random
    variables.
    """

    fields: dict[str, list[Named | None]]
    variables: dict[str, list[Named | None]]
    health: Health


# ---------------------------------------------------------------- exactly


def draw_backward(engine: ExactFilter, run: Run, count: int) -> Traced:
    """Trajectories from the exact posterior: forward with all beliefs, then back."""
    if engine.particles > 1 or _read_going_back(engine, run.sequences):
        raise NesymmError(
            "a static variable has infinitely many values: trajectories need particles"
        )
    outcome = run.outcome()
    assert outcome.states is not None
    fields, variables = _Backward(engine, run, outcome.states, count).pieces()
    for name, value in outcome.states.slots.items():
        # Fields that depend on inputs only are the same in every trajectory.
        fields[name] = [value]
    return Traced(fields, variables, health_of(outcome.info, outcome.last))


def _read_going_back(engine: ExactFilter, sequences: Sequences) -> bool:
    """Whether the state or the evidence depends on an infinite static variable. If not, one draw
    of it, which `generate` makes, is all that a trajectory needs."""
    infinite = {n for n, v in engine.phases.statics.items() if not v.finite}
    for program in engine.phases:
        evidence = (
            o for o in program.observations if o.value is not None or o.name in sequences.observed
        )
        read = reads(e for part in (*program.slots, *evidence) for e in part.expressions())
        for variable in reversed(program.variables):
            if variable.finite or variable.name in read:
                read |= reads(variable.expressions())
        if infinite & read:
            return True
    return False


class _Backward:
    """The way back from the last step, with the states after each step."""

    def __init__(self, engine: ExactFilter, run: Run, states: State, count: int):
        self.engine = engine
        self.run = run
        self.states = states
        self.lanes = replace(run.settings, particles=count)
        self.binding = engine.bind(run.parameters, run.networks, 1 << 20)
        self.last = run.arrays["last"]
        self.key = jax.random.fold_in(run.key, 1 << 20)
        beliefs = states.beliefs
        self.uncertain = sorted({d for b in beliefs for d in choices(b.dims)}, key=repr)

    def pieces(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields and variables: the first step, then all later ones."""
        steps, run = self.run.sequences.steps, self.run
        above = [jnp.zeros(self.lanes.shape(LANES), jnp.int32) for _ in self.uncertain]
        pieces: list[Any] = []
        if steps > 1:
            before = jax.tree.map(lambda x: x[:-1], self.states)
            after = jax.tree.map(lambda x: x[1:], self.states)
            slices = jax.tree.map(lambda x: x[1:], run.arrays["timed"])
            xs = (jnp.arange(1, steps), slices, before, after)
            above, later = jax.lax.scan(self._later, above, xs, reverse=True)
            pieces.append(later)
        state = jax.tree.map(lambda x: x[0], self.states)
        after = self._after(above, state, jnp.asarray(0))
        start, moment = self.engine.init(run.settings), run.moment(0, run.slices(0))
        drawn = self._drawn(self.engine.first, start, moment, after, 1)
        first = values_of(self.engine, self.engine.first, self.lanes, after, drawn)
        pieces.insert(0, jax.tree.map(lambda x: x[None], first))
        fields, variables = (
            {n: [p[i].get(n) for p in pieces] for n in {n for p in pieces for n in p[i]}}
            for i in range(2)
        )
        return fields, variables

    def _later(self, above: list[Any], xs: Any) -> tuple[list[Any], Any]:
        time, slices, before, here = xs
        plan, moment = self.engine.later, self.run.moment(time, slices)
        after = self._after(above, here, time)
        drawn = self._drawn(plan, before, moment, after, 2 * time + 1)
        held = {**after, **drawn}
        found = values_of(self.engine, plan, self.lanes, after, drawn)
        return [held[d].array for d in self.uncertain], found

    def _after(self, above: list[Any], state: State, time: Any) -> dict[Choice, Named]:
        here = jax.random.fold_in(self.key, 2 * time)
        over = Named(self.last <= time, (BATCH,))
        next_ = {d: Named(a, LANES) for d, a in zip(self.uncertain, above, strict=True)}
        return state_after(self.engine, state, next_, over, here, self.lanes)

    def _drawn(
        self, plan: Plan, before: State, moment: Any, after: dict[Choice, Named], number: Any
    ) -> dict[Choice, Named]:
        here, lanes = jax.random.fold_in(self.key, number), self.lanes
        given = (before, moment, self.binding)
        return self.engine.backward(plan, lanes, given, after, here, lanes)


def state_after(
    engine: ExactFilter,
    state: State,
    above: Mapping[Choice, Named],
    over: Named,
    key: Any,
    lanes: Settings,
) -> dict[Choice, Named]:
    """The state after a step: from above, or drawn afresh where the sequence is over."""
    drawn = {d: above[d] for b in state.beliefs for d in choices(b.dims) if d in above}
    if is_jax(over.array) or over.array.any():
        fresh = draw_all(state.beliefs, key, lanes, engine)
        drawn = {d: apply(xp.where, over, i, drawn.get(d, i)) for d, i in fresh.items()}
    known = {d: state.known[repr(d)] for d in engine.fields() if repr(d) in state.known}
    shape = lanes.shape(LANES)
    spread = {d: xp.broadcast_to(expand(i, LANES), shape) for d, i in (drawn | known).items()}
    return {d: Named(array.astype(np.int32), LANES) for d, array in spread.items()}


def values_of(
    engine: ExactFilter,
    plan: Plan,
    lanes: Settings,
    after: Mapping[Choice, Named],
    drawn: Mapping[Choice, Named],
) -> tuple[dict[str, Named], dict[str, Named]]:
    """What holds at a step: the fields of the state after it, and its random variables."""
    variables = {d: i for d, i in drawn.items() if d.kind == "rv"}
    return _slot_values(engine, after, lanes), StepModel(plan, lanes).values_of(variables)


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


def trace_ancestors(engine: ParticleFilter, run: Run, count: int) -> Traced:
    """Values along the ancestors of particles that are chosen by their weights."""
    outcome = run.outcome()
    info, state = outcome.info, outcome.last
    assert outcome.states is not None and info.ancestors is not None
    weights = normalise(state.log_weights.array)
    pick_key = jax.random.fold_in(run.key, 1 << 20)
    keys = jax.random.split(pick_key, run.sequences.batch)
    chosen = jax.vmap(lambda k, w: jax.random.choice(k, w.shape[0], (count,), p=w))(keys, weights)
    chosen = chosen.astype(jnp.int32)

    def up(index: Any, parents: Any) -> tuple[Any, Any]:
        return jnp.take_along_axis(parents, index, axis=1), index

    _, path = jax.lax.scan(up, chosen, info.ancestors.array, reverse=True)  # [step, batch, count]

    def traced(pieces: Any) -> list[Named | None]:
        # The first step has a piece of its own, which some things are missing from.
        steps = [path] if len(pieces) == 1 else [path[:1], path[1:]]
        return [
            None if piece is None else jax.vmap(_trace)(piece, here)
            for piece, here in zip(pieces, steps, strict=True)
        ]

    fields = {n: traced([v]) for n, v in outcome.states.slots.items()}
    variables = {n: traced(pieces) for n, pieces in info.values.items()}
    lanes = replace(run.settings, particles=count)
    variables = causes_apart(engine.merged, run, lanes, fields, variables)
    variables |= _static_values(engine, state.beliefs, chosen, lanes, pick_key)
    return Traced(fields, variables, health_of(info, state))


def _static_values(
    engine: ParticleFilter, beliefs: list[Named], chosen: Any, lanes: Settings, key: Any
) -> dict[str, Any]:
    """Static variables that the particles have beliefs about: drawn once per trajectory."""
    if not beliefs:
        return {}
    picked = [_trace(b, chosen) for b in beliefs]
    values = StepModel(engine.first, lanes).draw_jointly(picked, jax.random.fold_in(key, 1))
    return {n: [Named(v.array[None], v.dims), None] for n, v in values.items()}


def _trace(value: Named, index: Any) -> Named:
    if PARTICLE not in value.dims:
        return value
    return pick_at(value, {PARTICLE: Named(index, LANES)})


# ---------------------------------------------------------------- to arrays


def arrange(
    both: Phases,
    traced: Traced,
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
            parts = traced.fields.get(f"{slot.name}.{column}")
            if parts is not None:
                fields[slot.name, column] = _joined(parts, slot.axes, sequences, count)
            elif column == "present" and slot.name in both.always:
                sizes = [a.size for a in slot.axes]
                fields[slot.name, column] = np.ones((*shape, *sizes), bool)
    variables = {
        v.name: _joined(traced.variables[v.name], v.axes, sequences, count)
        for v in {v.name: v for p in both for v in p.variables}.values()
        if v.name in traced.variables
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
        full = expand(named, (BATCH, PARTICLE, *axes))
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
