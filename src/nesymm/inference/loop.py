"""The loop over time: a first step, then all later ones, whatever the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax

from nesymm.inference.arrays import cast
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.binding import everything
from nesymm.inference.data import Sequences, named_columns
from nesymm.inference.elimination.capacity import TooLarge
from nesymm.inference.elimination.choices import BATCH
from nesymm.inference.engine import Engine
from nesymm.inference.named import Named, deepen, expand, union
from nesymm.inference.state import Info, Settings, Stage, State, save_draws
from nesymm.inference.world import Binding, Moment
from nesymm.ir.expr import Expr, leaves
from nesymm.ir.types import TensorAt

# Sequences of at most so many steps may be compiled step by step.
_UNROLLED = 16


class Outcome(NamedTuple):
    """What all steps report, with a leading time axis, the last state, and, with
    `Settings.record`, the state after every step."""

    info: Info
    last: State
    states: State | None = None


class Step(NamedTuple):
    """One step of a run: the state before it, what is known of it, and what came of it."""

    before: State
    moment: Moment
    after: State
    info: Info


@dataclass(frozen=True)
class Run:
    """An engine on a batch of sequences, whose numbers are in `arrays`.

    `together`: all sequences end at the same step, so that queries about the end, and exact
    gradients, are needed at the last step only. Without a `key` nothing is drawn.
    """

    engine: Engine
    settings: Settings
    sequences: Sequences
    arrays: Mapping[str, Any]
    parameters: Mapping[str, Any]
    networks: Mapping[str, Any]
    key: Any
    together: bool

    def outcome(self) -> Outcome:
        """All steps; those that need other tables than the rest are compiled one by one."""
        apart = self.engine.steps_differ and self.sequences.steps <= _UNROLLED
        if not apart or self.settings.record:
            return self._scanned()
        try:
            return self._scanned()
        except TooLarge as error:
            # Step by step, what is not yet or no longer uncertain needs no table.
            try:
                return self.one_by_one()
            except TooLarge:
                raise error from None

    def one_by_one(self) -> Outcome:
        """All steps one by one: the time is known at each, and tables may differ.

        Where data and parameters are NumPy arrays, nothing is compiled.
        """
        pieces, last = [], None
        for step in self.steps():
            last = step.after
            pieces.append(jax.tree.map(lambda x: x[None], step.info))
        assert last is not None
        return Outcome(join(pieces), last)

    def steps(self) -> Iterator[Step]:
        """Step after step."""
        state, binding = self.engine.init(self.settings), self.binding
        for time in range(self.sequences.steps):
            moment = self.moment(time, self.slices(time))
            end = self.together and time == self.sequences.steps - 1
            stage = Stage(time == 0, end or not self.together, end)
            after, info = self._step(state, moment, binding, time, stage)
            yield Step(state, moment, after, info)
            state = after

    # ------------------------------------------------------------ what a step is given

    @cached_property
    def binding(self) -> Binding:
        calls = self.settings.batch * self.settings.particles
        return self.engine.bind(self.parameters, self.networks, calls)

    @cached_property
    def _past(self) -> frozenset[tuple[str, TensorAt]]:
        return past_tensors(self.engine)

    def slices(self, time: int) -> dict[str, Any]:
        """The data of one step."""
        return jax.tree.map(lambda x: x[time], self.arrays["timed"])

    def moment(self, time: Any, slices: Mapping[str, Any]) -> Moment:
        """What is known of a step."""
        return moment_of(self.sequences, self.arrays, slices, time, self.engine.real, self._past)

    def _step(
        self, state: State, moment: Moment, binding: Binding, time: Any, stage: Stage
    ) -> tuple[State, Info]:
        key = None if self.key is None else jax.random.fold_in(self.key, time)
        return self.engine.step(self.settings, state, moment, binding, key, stage)

    # ------------------------------------------------------------ compiled

    def _scanned(self) -> Outcome:
        """All steps, the later ones by one compiled loop."""
        # Data that are known now must not shape a loop that is to serve all steps.
        return replace(self, arrays=jax.tree.map(jax.numpy.asarray, self.arrays))._loop()

    def _loop(self) -> Outcome:
        steps, record = self.sequences.steps, self.settings.record
        only = steps == 1
        stage = Stage(True, only or not self.together, only and self.together and not record)
        start = self.engine.init(self.settings)
        state, info = self._step(start, self.moment(0, self.slices(0)), self.binding, 0, stage)
        if only:
            states = jax.tree.map(lambda x: x[None], state) if record else None
            return Outcome(join([_at_one_step(info)]), state, states)

        def later(state: State, xs: Any, stage: Stage) -> tuple[State, Info]:
            time, slices = xs
            bound = _inside(binding, time)
            return self._step(state, self.moment(time, slices), bound, time, stage)

        # Some later step, whichever it is: what is true of step 1 alone must not be seen.
        some = (jax.numpy.asarray(1), self.slices(1))
        middle = Stage(False, not self.together)
        binding = self.binding
        state = self.engine.fixed_shape(lambda s: later(s, some, Stage(False, False))[0], state)
        dims = dims_of(state)
        binding = self.engine.hoist(binding, self.settings, state, self.moment(*some))

        def body(state: State, xs: Any) -> tuple[State, Any]:
            after, info = later(state, xs, middle)
            after = broadcast(after, dims)
            return after, (info, after if record else None)

        end = steps - 1 if self.together else steps
        xs = (jnp.arange(1, end), jax.tree.map(lambda x: x[1:end], self.arrays["timed"]))
        step_body: Any = body
        if self.settings.estimator is not None:
            step_body = jax.checkpoint(body, prevent_cse=False, policy=save_draws)
        states = _at_one_step(state) if record else None
        state, (infos, more) = jax.lax.scan(step_body, state, xs)
        pieces = [_at_one_step(info), infos]
        if self.together:
            last = (jnp.asarray(steps - 1), self.slices(steps - 1))
            state, info = later(state, last, Stage(False, True, not record))
            pieces.append(_at_one_step(info))
        if record:
            parts = [more, *([_at_one_step(broadcast(state, dims))] if self.together else [])]
            states = jax.tree.map(lambda *ys: jnp.concatenate(ys), states, *parts)
        return Outcome(join(pieces), state, states)


def _at_one_step(tree: Any) -> Any:
    """The same with a leading time axis."""
    return jax.tree.map(lambda x: x[None], tree)


def _inside(binding: Binding, time: Any) -> Binding:
    """The same, with parameters that seem to depend on time.

    Else XLA computes what depends on them alone before the loop, for each particle: reading
    so many equal numbers at every step takes longer than computing them.
    """
    barrier: Any = jax.lax.optimization_barrier
    parameters, _ = barrier((dict(binding.parameters), time))
    return replace(binding, parameters=parameters)


def past_tensors(engine: Engine) -> frozenset[tuple[str, TensorAt]]:
    """Inputs that networks read at an earlier step, and which step that is."""
    first, later = (earlier_tensors(everything(p)) for p in (engine.first, engine.later))
    return first | later


def earlier_tensors(roots: Iterable[Expr]) -> frozenset[tuple[str, TensorAt]]:
    return frozenset(
        node.data
        for node in leaves(roots, "input")
        if isinstance(node.data[1], TensorAt) and not node.data[1].is_now
    )


def join(pieces: list[Info]) -> Info:
    """What several stretches of time report as one; answers given at the end only stay short.

    Values that are not drawn in all of them stay lists, with None where there are none.
    """
    out: dict[str, Any] = {}
    for name in ("log_gain", "effective", "resampled", "flags", "dead"):
        out[name] = jnp.concatenate([getattr(p, name) for p in pieces])
    answers: dict[str, Any] = {}
    for query in pieces[-1].answers:
        answers[query] = jnp.concatenate([p.answers[query] for p in pieces if query in p.answers])
    values: dict[str, Any] = {}
    for name in {n for p in pieces for n in p.values}:
        values[name] = [p.values.get(name) for p in pieces]
    ancestors: Any = None
    if pieces[0].ancestors is not None:
        ancestors = jax.tree.map(lambda *xs: jnp.concatenate(xs), *(p.ancestors for p in pieces))
    return Info(answers=answers, values=values, ancestors=ancestors, **out)


def moment_of(
    sequences: Sequences,
    arrays: Mapping[str, Any],
    slices: Mapping[str, Any],
    time: Any,
    real: Any,
    past: frozenset[tuple[str, TensorAt]] = frozenset(),
) -> Moment:
    inputs: dict[str, tuple[Named, ...]] = {}
    seen: dict[str, tuple[Named, ...]] = {}
    masks: dict[str, Named | None] = {}
    earlier: dict[tuple[str, TensorAt], Named] = {}
    for given, values in ((sequences.timed, slices), (sequences.static, arrays["static"])):
        for name, columns in given.items():
            named = named_columns(columns, values[name], real)
            (seen if name in sequences.observed else inputs)[name] = named
            if f"{name} mask" in values:
                masks[name] = Named(values[f"{name} mask"], (BATCH, *columns[0].axes))
    for name, when in past:
        at = 0 if when.first else jnp.maximum(time - when.lag, 0)
        earlier[name, when] = named_columns(
            sequences.timed[name], tuple(a[at] for a in arrays["timed"][name]), real
        )[0]
    query_weights = {
        k.removeprefix("weight of "): v for k, v in slices.items() if k.startswith("weight of ")
    }
    last = Named(arrays["last"], (BATCH,))
    return Moment(time, last, inputs, seen, masks, query_weights, earlier)


def to_arrays(sequences: Sequences) -> dict[str, Any]:
    """The numbers of a batch, as a tree of arrays."""
    timed: dict[str, Any] = {n: tuple(c.values for c in cs) for n, cs in sequences.timed.items()}
    static: dict[str, Any] = {n: tuple(c.values for c in cs) for n, cs in sequences.static.items()}
    for name, mask in sequences.masks.items():
        (timed if name in sequences.timed else static)[f"{name} mask"] = mask
    return {"timed": timed, "static": static, "last": sequences.last}


# ---------------------------------------------------------------- states of one shape


def fixed_shape(function: Callable[[State], State], state: State) -> State:
    """A state with the dimensions that a step does not change."""
    while True:
        wanted = each_array(_together, state, jax.eval_shape(function, state))
        before, state = dims_of(state), broadcast(state, wanted)
        if wanted == before:
            return state


def _together(a: Named, b: Named) -> tuple[Any, ...]:
    """The dimensions, type and shape that both arrays can be broadcast to."""
    dims = union([a.dims, b.dims])
    sizes = dict(zip((*a.dims, *b.dims), (*_named(a), *_named(b)), strict=True))
    behind = jnp.broadcast_shapes(*(x.array.shape[len(x.dims) :] for x in (a, b)))
    # What is known beforehand may be NumPy's, with more bits than JAX has.
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(a.array.dtype, b.array.dtype))
    return dims, dtype, (*(sizes[d] for d in dims), *behind)


def _named(value: Named) -> tuple[int, ...]:
    """The sizes of the named dimensions."""
    shape: tuple[int, ...] = value.array.shape
    return shape[: len(value.dims)]


def each_array(function: Callable[..., Any], state: Any, *others: Any) -> Any:
    """A function of each array of a state, or of a part of it."""
    return jax.tree.map(function, state, *others, is_leaf=lambda x: isinstance(x, Named))


def dims_of(state: State) -> Any:
    """The dimensions, types and shapes of all arrays of a state."""
    return each_array(lambda n: (n.dims, n.array.dtype, n.array.shape), state)


def broadcast(state: State, wanted: Any) -> State:
    """The state with the dimensions, types and shapes of another."""

    def one(value: Named, want: tuple[Any, ...]) -> Named:
        dims, dtype, shape = want
        array = deepen(expand(value, dims), len(shape))
        return Named(cast(jnp.broadcast_to(array, shape), dtype), dims)

    found: State = each_array(one, state, wanted)
    return found
