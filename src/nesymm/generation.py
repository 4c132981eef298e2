"""Generation: whole trajectories from the posterior, with everything that happens along them.

Inference draws the state and the random variables given all evidence, also that of later
steps. What it leaves out has no influence on the evidence: values that could have been
observed but were not given, and answers to queries. Here each step is run once more with
what was drawn, and these are filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.compiler.expr import TRUE, Axis, Expr
from nesymm.compiler.runtime import show
from nesymm.compiler.step import ObservationDecl, RandomVariable, StepProgram
from nesymm.compiler.types import Bool, Tensor, Type
from nesymm.errors import NesymmError
from nesymm.exact.montecarlo import make_distribution
from nesymm.exact.named import Named, apply, expand
from nesymm.filtering.data import Sequences, prepare
from nesymm.filtering.densities import draw_infinite, family_params
from nesymm.filtering.evidence import Told, observed_type, seen, told
from nesymm.filtering.filter import Filter
from nesymm.filtering.loop import moment_of, past_tensors, to_arrays
from nesymm.filtering.methods import Bootstrap
from nesymm.filtering.particles import ParticleFilter
from nesymm.filtering.plan import places
from nesymm.filtering.questions import Question
from nesymm.filtering.state import LANES
from nesymm.filtering.step import ParticleStep
from nesymm.filtering.trajectories import decode
from nesymm.filtering.world import Binding, Moment, Tables, World

if TYPE_CHECKING:
    from nesymm.model import Model


# Tensors with at most this many entries are written out as lists.
_SHOWN = 16


@dataclass(frozen=True)
class Generated:
    """Trajectories of a batch of sequences, several of each.

    All arrays are [batch, trajectory, step, axes…]. `values` holds the state (fields of fluents
    under `name.present` and `name.0`, `name.1`, …) and the random variables under their names;
    terms are positions in their domain, the entries of a tensor come behind. `observed` holds
    what `observe/1` reads, as `filter` takes it: given or generated, NaN where there is none.
    `asked` holds the truth of the queries (without the step axis where a query is about one
    step). `lengths` counts the steps of each sequence. `undrawn` names the variables that nothing
    reads at step 0, and at later steps: their values there are blanks.
    """

    model: Model = field(repr=False)
    values: dict[str, np.ndarray]
    observed: dict[str, np.ndarray]
    asked: dict[str, np.ndarray]
    lengths: np.ndarray
    given: Mapping[str, Any] = field(repr=False)
    undrawn: tuple[frozenset[str], frozenset[str]] = field(repr=False)

    @property
    def count(self) -> int:
        """How many trajectories there are of each sequence."""
        return next(iter((self.values | self.observed | self.asked).values())).shape[1]

    def __getitem__(self, name: str) -> np.ndarray:
        for table in (self.observed, self.asked, self.values):
            if name in table:
                return table[name]
        known = ", ".join([*self.observed, *self.asked, *self.values])
        raise NesymmError(f"nothing called {name} was generated (there is: {known})")

    def data(self, trajectory: int = 0) -> dict[str, np.ndarray]:
        """One trajectory of each sequence as data for `filter` and `fit`."""
        observed = {n: a[:, trajectory] for n, a in self.observed.items()}
        return {**{n: np.asanyarray(v) for n, v in self.given.items()}, **observed}

    def atoms(self, sequence: int, trajectory: int, step: int) -> list[str]:
        """What holds at a step, as ground atoms: fluents, observations, answers."""
        self._check(sequence, trajectory, step)
        at = (sequence, trajectory, step)
        found = [*self._fluents(at), *self._seen(at), *self._answers(at)]
        return list(dict.fromkeys(f"{atom}@{step}" for atom in found))

    def table(self, sequence: int = 0, trajectory: int = 0) -> str:
        """A trajectory as text: one line per step."""
        self._check(sequence, trajectory, 0)
        lines = []
        for step in range(int(self.lengths[sequence])):
            atoms = (a.rsplit("@", 1)[0] for a in self.atoms(sequence, trajectory, step))
            lines.append(f"{step:4d}  {', '.join(atoms) or '-'}")
        return "\n".join(lines)

    def _check(self, sequence: int, trajectory: int, step: int) -> None:
        for what, number, size in (
            ("sequence", sequence, len(self.lengths)),
            ("trajectory", trajectory, self.count),
        ):
            if not 0 <= number < size:
                raise NesymmError(f"{what} {number} does not exist: there are {size}")
        if not 0 <= step < self.lengths[sequence]:
            size = self.lengths[sequence]
            raise NesymmError(f"step {step} does not exist: sequence {sequence} has {size} steps")

    def _fluents(self, at: tuple[int, ...]) -> Iterator[str]:
        step = self.model.step
        positions = _value_positions(self.model)
        for slot in step.slots:
            name, _, lag = slot.name.partition("@")
            if lag:
                continue  # An older value of a fluent, kept for later.
            present = self.values.get(f"{slot.name}.present")
            for index, key in _elements(slot.axes):
                here = (*at, *(i for i, a in zip(index, slot.axes, strict=True) if a.size > 1))
                if present is not None and not present[here]:
                    continue
                found = [
                    decode(t, self.values[f"{slot.name}.{i}"][here])
                    for i, t in enumerate(slot.fields)
                ]
                yield _atom(name, key, found, positions)

    def _seen(self, at: tuple[int, ...]) -> Iterator[str]:
        positions = _value_positions(self.model)
        for observation in self.model.step.observations:
            if observation.name not in self.observed or observation.value is not None:
                continue
            array = self.observed[observation.name]
            types = _types(observation)
            if any(isinstance(t, Tensor) for t in types):
                yield from self._seen_tensors(observation, at)
                continue
            for index, key in _elements(observation.axes):
                found = np.atleast_1d(array[(*at, *index)])
                if np.isnan(found.astype(float)).any():
                    continue
                if observation.is_value:
                    terms = [decode(t, v) for t, v in zip(types, found, strict=True)]
                    yield _atom(observation.name, key, terms, positions)
                elif found[0]:
                    yield _atom(observation.name, key, [], positions)

    def _seen_tensors(self, observation: ObservationDecl, at: tuple[int, ...]) -> Iterator[str]:
        (type_,) = _types(observation)
        for index, key in _elements(observation.axes):
            found = self.observed[observation.name][(*at, *index)]
            if found.size <= _SHOWN and not np.isnan(found).any():
                terms = [decode(type_, found)]
                yield _atom(observation.name, key, terms, _value_positions(self.model))

    def _answers(self, at: tuple[int, ...]) -> Iterator[str]:
        for name, array in self.asked.items():
            if name.endswith("@t") and array[at]:
                yield name.removesuffix("@t")


def generate(
    model: Model,
    filter_: Filter,
    data: Mapping[str, Any] | None,
    count: int,
    horizon: int | None,
    length: Any,
    seed: int,
) -> Generated:
    """Draw `count` trajectories of each sequence, given all that `data` and program say."""
    if count < 1:
        raise NesymmError(f"count: expected at least 1, received {count}")
    data = data or {}
    sequences = prepare(model.step, data, horizon, length)
    drawn = filter_.trajectories(
        data,
        count,
        parameters=model.parameters,
        networks=model.networks,
        horizon=horizon,
        length=length,
        seed=seed,
    )
    replay = _replay(model, filter_, sequences, count)
    key = jax.random.fold_in(jax.random.key(seed), 1)
    values, observed, asked = replay(model, sequences, drawn.values, key)
    given = {n: v for n, v in data.items() if n not in sequences.observed}
    values = {**drawn.values, **values}
    return Generated(model, values, observed, asked, drawn.lengths, given, replay.undrawn)


def _replay(model: Model, filter_: Filter, sequences: Sequences, count: int) -> _Replay:
    """One for all data of the same form: what it compiles is kept."""
    real = jnp.zeros(()).dtype
    shape = (sequences.batch, sequences.steps, frozenset(sequences.masks), count)
    form = ("replay", sequences.complete, sequences.observed, real, *shape)
    return filter_.kept(form, lambda: _Replay(model.step, sequences, count, real))


class _Replay:
    """Runs all steps again with what was drawn, trajectories in the place of particles."""

    def __init__(self, step: StepProgram, form: Sequences, count: int, real: Any):
        self.form = form  # of its numbers, none is used
        self.engine = ParticleFilter(
            step, Bootstrap(particles=count), form.complete, real, form.steps
        )
        self.settings = self.engine.settings(form.batch)
        self.count = count

    def __call__(
        self, model: Model, sequences: Sequences, drawn: Mapping[str, np.ndarray], key: Any
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
        arrays = to_arrays(sequences)
        whole = jax.tree.map(jnp.asarray, arrays)  # moved to the device once, not at each step
        networks = dict(model.networks)
        statics: dict[str, Any] = {}
        steps = []
        for time in range(sequences.steps):
            slices = jax.tree.map(lambda x, t=time: x[t], arrays["timed"])
            before = {
                n: v[:, :, time - 1] for n, v in drawn.items() if time and _is_field(n, self.slots)
            }
            now = {n: v[:, :, time] for n, v in drawn.items() if not _is_field(n, self.slots)}
            now |= statics
            run = self.first if time == 0 else self.later
            here = jax.random.fold_in(key, time)
            # A number of Python's would be compiled in, and every step compiled anew.
            index = jnp.asarray(time)
            found = run(model.parameters, networks, whole, slices, before, now, index, here)
            steps.append(jax.tree.map(np.asarray, found))
            statics |= {n: v for n, v in found[0].items() if n in self.engine.phases.statics}
        values, observed, asked = (_stack([s[i] for s in steps]) for i in range(3))
        return values, observed, self._answers(asked, sequences.last)

    @property
    def undrawn(self) -> tuple[frozenset[str], frozenset[str]]:
        both = self.engine.phases
        first, later = (frozenset(v.name for v in p.variables) for p in both)
        return later - first, first - later - frozenset(both.statics)

    @property
    def slots(self) -> set[str]:
        return {s.name for s in self.engine.phases.later.slots}

    @property
    def first(self) -> Any:
        return self._compiled("_first", True)

    @property
    def later(self) -> Any:
        return self._compiled("_later", False)

    def _compiled(self, name: str, at_first: bool) -> Any:
        if name not in self.__dict__:
            self.__dict__[name] = eqx.filter_jit(lambda *a: self._step(at_first, *a))
        return self.__dict__[name]

    def _answers(self, asked: dict[str, np.ndarray], last: np.ndarray) -> dict[str, np.ndarray]:
        """Queries by the names of their groundings; those about one step at the end only."""
        out: dict[str, np.ndarray] = {}
        batch = np.arange(self.form.batch)
        for question in self.engine.questions:
            array = asked[question.key]
            if not question.at_every_step:
                array = array[batch, :, last]
            for position, name in question.groundings():
                at: Any = (..., *position)
                out[name] = array[at]
        return out

    # ------------------------------------------------------------ one step

    def _step(
        self,
        at_first: bool,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        arrays: Mapping[str, Any],
        slices: Mapping[str, Any],
        before: Mapping[str, Any],
        now: Mapping[str, Any],
        time: Any,
        key: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        engine = self.engine
        plan = engine.first if at_first else engine.later
        program = engine.phases.first if at_first else engine.phases.later
        past = past_tensors(engine)
        moment = moment_of(self.form, arrays, slices, time, engine.real, past)
        binding = engine.bind(parameters, networks, self.form.batch * self.count)
        axes = {s.name: s.axes for s in program.slots}
        slots = {}
        for name, array in before.items():
            slot, _, column = name.rpartition(".")
            slots[slot, column if column == "present" else int(column)] = _lined(array, axes[slot])
        known = {
            n: _lined(a, plan.variables[n].axes)
            for n, a in now.items()
            if n in plan.variables and n not in plan.emitted
        }
        world = _Step(ParticleStep(plan, self.settings, engine.phases.kept), moment, binding, key)
        low = world.open(slots, known)
        emitted = {n: world.emit(low, plan.variables[n]) for n in sorted(plan.emitted)}
        observed = {
            o.name: self._arranged(*self._observed(low, moment, o))
            for o in program.observations
            if o.value is None
        }
        asked = {
            q.key: self._arranged(low.value(self._condition(q, program)), q.axes)
            for q in engine.questions
        }
        new = {**low.world.values, **emitted}
        values = {n: self._arranged(v, plan.variables[n].axes) for n, v in new.items()}
        return values, observed, asked

    def _condition(self, question: Question, program: StepProgram) -> Any:
        return question.condition(program.queries[question.number])

    def _observed(
        self, low: Tables, moment: Moment, observation: ObservationDecl
    ) -> tuple[Named, tuple[Axis, ...]]:
        """What an observation says or would say; columns come behind."""
        mask = seen(moment, observation)
        if not observation.is_value:
            value = low.value(observation.holds)
            if observation.name in moment.seen:
                value = _where(mask, moment.seen[observation.name][0], value)
            return value, observation.axes
        columns = []
        for i in range(len(observation.branches[0].values)):
            type_ = observed_type(observation, i)
            result: Named | None = None
            for branch in reversed(observation.branches):
                value = low.recode(low.value(branch.values[i]), branch.values[i].type, type_)
                holds = None if branch.condition is TRUE else low.value(branch.condition)
                if result is None and holds is not None:
                    result = Named(jnp.full((), jnp.nan, low.real))
                result = value if holds is None else _where(holds, value, result)
            assert result is not None
            if observation.name in moment.seen:
                result = _where(mask, told(low, moment, observation, i)[0], result)
            columns.append(result)
        if len(columns) == 1:
            return columns[0], observation.axes
        dims = (*observation.axes, *LANES)
        wide = [self._wide(c, dims) for c in columns]
        return Named(jnp.stack(wide, axis=-1), dims), observation.axes

    def _wide(self, value: Named, dims: tuple) -> Any:
        array = expand(jnp, value, dims)
        return jnp.broadcast_to(array, (*self.settings.shape(dims), *array.shape[len(dims) :]))

    def _arranged(self, value: Named, axes: tuple[Axis, ...]) -> Any:
        """[batch, trajectory, axes…]."""
        return self._wide(value, (*LANES, *axes))


class _Settled(Told):
    """A world in which emitted variables have their final values."""

    def _variable(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        home = World if expr.data in self.final else Told
        return home._variable(self, low, expr, keys)

    final: frozenset[str] = frozenset()


@dataclass
class _Step:
    """One step in which some variables are known; others are drawn when they are read."""

    step: ParticleStep
    moment: Moment
    binding: Binding
    key: Any
    drawn: int = 0

    def open(self, slots: dict[Any, Named], known: dict[str, Named]) -> Tables:
        plan = self.step.plan
        nothing: frozenset[str] = frozenset()
        world = _Settled(
            plan.step, self.moment, self.binding, slots, dict(known), nothing, plan.split,
            self._draw, plan.variables,
        )  # fmt: skip
        world.final = plan.emitted
        return Tables(world, self.step.settings.real)

    def _draw(self, low: Tables, variable: RandomVariable) -> Named:
        self.drawn += 1
        key = jax.random.fold_in(self.key, self.drawn)
        dims = (*variable.axes, *LANES)
        if variable.finite:
            return self.step._draw_finite(low, variable, key, dims)
        shape = self.step.settings.shape(dims)
        if isinstance(variable.type, Tensor) and variable.family != "multivariate_normal":
            return _mean(low, variable, dims, shape)
        return draw_infinite(low, variable, key, dims, shape)

    def emit(self, low: Tables, variable: RandomVariable) -> Named:
        """A variable that only an observation reads: as given, else drawn."""
        value = self._draw(low, variable)
        for observation in self.step.plan.step.observations:
            for branch in observation.branches:
                for i, expr in enumerate(branch.values):
                    if expr.op != "rv" or expr.data != variable.name:
                        continue
                    mask = seen(self.moment, observation)
                    if observation.value is None and observation.name not in self.moment.seen:
                        continue
                    said, type_ = told(low, self.moment, observation, i)
                    said = low.recode(said, type_, variable.type)
                    value = _where(mask, said, value)
        low.world.values[variable.name] = value
        return value


def _mean(low: Tables, variable: RandomVariable, dims: tuple, shape: tuple[int, ...]) -> Named:
    """The mean of a picture: noise in every pixel would only hide it."""
    import numpyro.distributions as dist

    params, family = family_params(
        low, variable, variable.params, variable.guard is not TRUE, variable.family, variable.neural
    )
    lined = [expand(jnp, p, dims) for p in params]
    event = jnp.broadcast_shapes(*(a.shape[len(dims) :] for a in lined))
    wide = [
        jnp.broadcast_to(
            a.reshape(*a.shape, *(1,) * (len(event) - (a.ndim - len(dims)))), (*shape, *event)
        )
        for a in lined
    ]
    return Named(make_distribution(dist, family, wide).mean, dims)


# ---------------------------------------------------------------- arrays


def _where(mask: Named | None, a: Named, b: Named | None) -> Named:
    """a where the mask holds (None: everywhere), else b."""
    if mask is None or b is None:
        return a
    return apply(jnp, jnp.where, mask, a, b)


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


def _is_field(name: str, slots: set[str]) -> bool:
    slot, _, column = name.rpartition(".")
    return slot in slots and (column == "present" or column.isdigit())


# ---------------------------------------------------------------- words


def _types(observation: ObservationDecl) -> tuple[Type, ...]:
    if not observation.is_value:
        return (Bool(),)
    return tuple(observed_type(observation, i) for i in range(len(observation.branches[0].values)))


def _elements(axes: tuple[Axis, ...]) -> Iterator[tuple[tuple[int, ...], tuple]]:
    """Positions along axes, and the keys there."""
    yield from zip(product(*(range(a.size) for a in axes)), places(axes), strict=True)


def _value_positions(model: Model) -> dict[str, frozenset[int]]:
    """Per predicate the arguments that are values; the others are keys."""
    from nesymm.language.values import value_positions

    program = model.program
    found = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
    return {pred.name: positions for pred, positions in found.items()}


def _atom(name: str, key: tuple, found: list, positions: Mapping[str, frozenset[int]]) -> str:
    """An atom from its keys (fixed ones stand in the name) and its values."""
    base, _, fixed = name.partition("(")
    keys = ([fixed.removesuffix(")")] if fixed else []) + [show(k) for k in key]
    values = [_word(v) for v in found]
    out: list[str] = []
    while keys or values:
        due = len(out) in positions.get(base, frozenset()) or not keys
        out.append(values.pop(0) if values and due else keys.pop(0))
    return f"{base}({','.join(out)})" if out else base


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and value and isinstance(value[0], float | tuple):
        shape = np.shape(value)
        if np.prod(shape) > _SHOWN:
            return f"tensor{list(shape)}"
        return f"[{','.join(map(_word, value))}]"
    return show(value)


__all__ = ["Generated", "decode", "generate"]
