"""Generation: whole trajectories from the posterior, with everything that happens along them.

Inference draws the state and the random variables given all evidence, also that of later
steps. What it leaves out has no influence on the evidence: values that could have been
observed but were not given, and answers to queries. Here each step is run once more with
what was drawn, and these are filled in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.inference.buckets import Buckets
from nesymm.inference.data import Arrays, Sequences, prepare, wanted, without_lengths
from nesymm.inference.densities import make_distribution
from nesymm.inference.engines import Engines
from nesymm.inference.evidence import ObservedWorld, given, observed_column, seen
from nesymm.inference.filter import Filter, Request
from nesymm.inference.loop import moment_of, past_tensors, to_arrays
from nesymm.inference.named import Named, apply, expand
from nesymm.inference.options import as_key
from nesymm.inference.particles import ParticleFilter
from nesymm.inference.sampling import Draws, undrawn
from nesymm.inference.state import LANES
from nesymm.inference.step_model import StepModel
from nesymm.inference.tables import Tables
from nesymm.inference.trajectories import Trajectories
from nesymm.inference.weights import draw_infinite, family_params, spread
from nesymm.inference.world import Binding, Moment, World
from nesymm.ir.expr import TRUE, Axis, Expr
from nesymm.ir.step import ObservationDecl, RandomVariable, StepProgram
from nesymm.ir.types import Tensor
from nesymm.language.program import At

if TYPE_CHECKING:
    from nesymm.model import Model


def generate(model: Model, filter_: Filter, request: Request, count: int) -> Trajectories:
    """Draw `count` trajectories of each sequence, given all that data and program say."""
    drawn = filter_.trajectories(request, count)
    sequences = prepare(model.step, request.data, request.steps)
    buckets = filter_.buckets(sequences, drawn=True)
    key = jax.random.fold_in(as_key(request.key), 1)
    parts = []
    for i, (own, part) in enumerate(zip(buckets.rows, buckets.parts(), strict=True)):
        replay = _replay(filter_.engines, part, count)
        here = jax.random.fold_in(key, i) if i else key
        parts.append(replay(model, part, _cut(drawn, own, part.steps), here))
    names = wanted(model.step)
    values, observed, asked = (list(p) for p in zip(*parts, strict=True))
    timed = {n for n, want in names.items() if want.timed}
    timed |= {n for p in asked for n, a in p.items() if a.ndim == len(drawn.shape)}
    variables = {**drawn.variables, **_together(buckets, values)}
    whole = replace(drawn, variables=variables, undrawn=undrawn(replay.engine.phases))
    given = Arrays(without_lengths(names, request.data), request.names)
    rest = (_together(buckets, some, timed) for some in (observed, asked))
    return Trajectories(model, whole, given, *rest)


def _cut(drawn: Draws, rows: np.ndarray, steps: int) -> Draws:
    """What was drawn of some of the sequences."""
    fields = {n: a[rows, :, :steps] for n, a in drawn.fields.items()}
    variables = {n: a[rows, :, :steps] for n, a in drawn.variables.items()}
    return replace(drawn, fields=fields, variables=variables)


def _together(
    buckets: Buckets, parts: list[dict[str, np.ndarray]], timed: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """What was found in buckets of sequences, over time (None: all of it) or once for each."""
    out = {}
    for name in dict.fromkeys(n for p in parts for n in p):
        arrays = [p.get(name) for p in parts]
        if timed is None or name in timed:
            out[name] = buckets.over_time(arrays, axis=2)
        else:
            out[name] = buckets.each([a for a in arrays if a is not None])
    return out


def _replay(engines: Engines, sequences: Sequences, count: int) -> _Replay:
    """One for all data of the same form: what it compiles is kept."""
    real = jnp.zeros(()).dtype
    shape = (sequences.batch, sequences.steps, frozenset(sequences.masks), count)
    form = ("replay", sequences.complete, sequences.observed, real, *shape)
    return engines.kept(
        form, lambda: _Replay(engines.program(sequences.steps), sequences, count, real)
    )


class _Replay:
    """Runs all steps again with what was drawn, trajectories in the place of particles."""

    def __init__(self, step: StepProgram, form: Sequences, count: int, real: Any):
        self.form = form  # of its numbers, none is used
        self.engine = ParticleFilter(step, form.complete, real, form.steps, particles=count)
        self.settings = self.engine.settings(form.batch)
        self.count = count
        self.first, self.later = (eqx.filter_jit(partial(self._step, x)) for x in (True, False))

    def __call__(
        self, model: Model, sequences: Sequences, drawn: Draws, key: Any
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
        arrays = to_arrays(sequences)
        whole = jax.tree.map(jnp.asarray, arrays)  # moved to the device once, not at each step
        networks = dict(model.networks)
        statics: dict[str, Any] = {}
        steps = []
        for time in range(sequences.steps):
            slices = jax.tree.map(lambda x, t=time: x[t], arrays["timed"])
            before = [a[:, :, time - 1] for a in drawn.fields.values()] if time else []
            now = {n: v[:, :, time] for n, v in drawn.variables.items()} | statics
            run = self.first if time == 0 else self.later
            here = jax.random.fold_in(key, time)
            # A number of Python's would be compiled in, and every step compiled anew.
            index = jnp.asarray(time)
            bound = (model.parameters, networks)
            found = run(bound, whole, slices, tuple(drawn.fields), before, now, index, here)
            steps.append(jax.tree.map(np.asarray, found))
            statics |= {n: v for n, v in found[0].items() if n in self.engine.phases.statics}
        values, observed, asked = (_stack([s[i] for s in steps]) for i in range(3))
        static = {o.name for o in self.engine.phases.first.observations if o.when is None}
        observed = {n: a[:, :, 0] if n in static else a for n, a in observed.items()}
        return values, observed, self._answers(asked, sequences.last)

    def _answers(self, asked: dict[str, np.ndarray], last: np.ndarray) -> dict[str, np.ndarray]:
        """Queries by the names of their groundings; those about one step at the end only."""
        out: dict[str, np.ndarray] = {}
        batch = np.arange(self.form.batch)
        for question in self.engine.questions:
            array = asked[question.key]
            if isinstance(question.query.when, At):
                step = question.query.when.index
                array = array[:, :, min(step, self.form.steps - 1)].copy()
                array[step > last] = False  # such sequences end before
            elif not question.at_every_step:
                array = array[batch, :, last]
            for position, name, *_ in question.groundings():
                at: Any = (..., *position)
                # An atom that is remembered may be reached by its key and by its value.
                out[name] = array[at] | out.get(name, False)
        return out

    # ------------------------------------------------------------ one step

    def _step(
        self,
        at_first: bool,
        bound: tuple[Mapping[str, Any], Mapping[str, Any]],
        arrays: Mapping[str, Any],
        slices: Mapping[str, Any],
        columns: tuple[tuple[str, Any], ...],
        before: list[Any],
        now: Mapping[str, Any],
        time: Any,
        key: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        engine = self.engine
        plan = engine.first if at_first else engine.later
        program = engine.phases.first if at_first else engine.phases.later
        past = past_tensors(engine)
        moment = moment_of(self.form, arrays, slices, time, engine.real, past)
        binding = engine.bind(*bound, self.form.batch * self.count)
        axes = {s.name: s.axes for s in program.slots}
        slots = {c: _lined(a, axes[c[0]]) for c, a in zip(columns, before, strict=bool(before))}
        known = {
            n: _lined(a, plan.variables[n].axes)
            for n, a in now.items()
            if n in plan.variables and n not in plan.emitted
        }
        world = _Step(StepModel(plan, self.settings), moment, binding, key)
        low = world.open(slots, known)
        emitted = {n: world.emit(low, plan.variables[n]) for n in sorted(plan.emitted)}
        observed = {
            o.name: self._arranged(*self._observed(low, o))
            for o in program.observations
            if o.value is None
        }
        asked = {
            q.key: self._arranged(low.value(q.condition(program.queries[q.number])), q.axes)
            for q in engine.questions
        }
        new = {**low.world.values, **emitted}
        values = {n: self._arranged(v, plan.variables[n].axes) for n, v in new.items()}
        return values, observed, asked

    def _observed(
        self, low: Tables, observation: ObservationDecl
    ) -> tuple[Named, tuple[Axis, ...]]:
        """What an observation says or would say; columns come behind."""
        moment = low.world.moment
        mask = seen(moment, observation)
        if not observation.is_value:
            value = low.value(observation.holds)
            if observation.name in moment.seen:
                value = _where(mask, moment.seen[observation.name][0], value)
            return value, observation.axes
        columns = []
        for i in range(len(observation.branches[0].values)):
            type_ = observation.column_type(i)
            result: Named | None = None
            for branch in reversed(observation.branches):
                value = low.recode(low.value(branch.values[i]), branch.values[i].type, type_)
                holds = None if branch.condition is TRUE else low.value(branch.condition)
                if result is None and holds is not None:
                    result = Named(jnp.full((), jnp.nan, low.real))
                result = value if holds is None else _where(holds, value, result)
            assert result is not None
            if observation.name in moment.seen:
                result = _where(mask, observed_column(low, observation, i)[0], result)
            columns.append(result)
        if len(columns) == 1:
            return columns[0], observation.axes
        dims = (*observation.axes, *LANES)
        full = [self._spread(c, dims) for c in columns]
        return Named(jnp.stack(full, axis=-1), dims), observation.axes

    def _spread(self, value: Named, dims: tuple) -> Any:
        array = expand(value, dims)
        return jnp.broadcast_to(array, (*self.settings.shape(dims), *array.shape[len(dims) :]))

    def _arranged(self, value: Named, axes: tuple[Axis, ...]) -> Any:
        """[batch, trajectory, axes…]."""
        return self._spread(value, (*LANES, *axes))


class _GeneratedWorld(ObservedWorld):
    """A world in which emitted variables have their final values."""

    def _variable(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        home = World if expr.data in self.final else ObservedWorld
        return home._variable(self, low, expr, keys)

    final: frozenset[str] = frozenset()


@dataclass
class _Step:
    """One step in which some variables are known; others are drawn when they are read."""

    model: StepModel
    moment: Moment
    binding: Binding
    key: Any
    drawn: int = 0

    def open(self, slots: dict[Any, Named], known: dict[str, Named]) -> Tables:
        plan = self.model.plan
        nothing: frozenset[str] = frozenset()
        world = _GeneratedWorld(
            plan.step, self.moment, self.binding, slots, dict(known), nothing, plan.split,
            self._draw, plan.variables,
        )  # fmt: skip
        world.final = plan.emitted
        return Tables(world, self.model.settings.real)

    def _draw(self, low: Tables, variable: RandomVariable) -> Named:
        self.drawn += 1
        key = jax.random.fold_in(self.key, self.drawn)
        dims = (*variable.axes, *LANES)
        if variable.finite:
            return self.model.draw_finite(low, variable, key, dims)
        shape = self.model.settings.shape(dims)
        if isinstance(variable.type, Tensor) and variable.family != "multivariate_normal":
            return _mean(low, variable, dims, shape)
        return draw_infinite(low, variable, key, dims, shape)

    def emit(self, low: Tables, variable: RandomVariable) -> Named:
        """A variable that only an observation reads: as given, else drawn."""
        value = given(low, variable, self._draw(low, variable))
        low.world.values[variable.name] = value
        return value


def _mean(low: Tables, variable: RandomVariable, dims: tuple, shape: tuple[int, ...]) -> Named:
    """The mean of a picture: noise in every pixel would only hide it."""
    params = family_params(low, variable.prior, variable.guard is not TRUE)
    full = spread(low, params, dims, shape)
    return Named(make_distribution(variable.family, full).mean, dims)


# ---------------------------------------------------------------- arrays


def _where(mask: Named | None, a: Named, b: Named | None) -> Named:
    """a where the mask holds (None: everywhere), else b."""
    if mask is None or b is None:
        return a
    return apply(jnp.where, mask, a, b)


def _lined(array: Any, axes: tuple[Axis, ...]) -> Named:
    """[batch, trajectory, axes…] with names."""
    return Named(jnp.asarray(array), (*LANES, *axes))


def _stack(steps: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Per name one array over all steps, NaN or nothing where a step does not have it."""
    out = {}
    for name in dict.fromkeys(n for s in steps for n in s):
        like = next(s[name] for s in steps if name in s)
        blank = np.full_like(like, np.nan if like.dtype.kind == "f" else 0)
        out[name] = np.stack([s.get(name, blank) for s in steps], axis=2)
    return out
