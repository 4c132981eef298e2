"""The loop over time: a first step, then all later ones, whatever the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax

from nesymm.inference.arrays import cast
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.binding import everything
from nesymm.inference.data import Sequences, named_columns
from nesymm.inference.elimination.choices import BATCH
from nesymm.inference.elimination.factors import TooLarge
from nesymm.inference.named import Named, deepen, expand, union
from nesymm.inference.state import Outcome, Settings, State, save_draws
from nesymm.inference.world import Binding, Moment
from nesymm.ir.expr import leaves

# Sequences of at most so many steps may be compiled step by step.
_UNROLLED = 16


def run(
    engine: Any,
    settings: Settings,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    uniform: bool,
) -> tuple[Outcome, State]:
    """All steps: outcomes with a leading time axis, and the last state.

    `uniform`: all sequences end together, so that queries about the end, and exact slopes,
    are needed at the last step only.
    """
    args = (engine, settings, sequences, arrays, parameters, networks, key, uniform)
    if not engine.stepwise or sequences.steps > _UNROLLED or settings.record:
        return _scanned(*args)
    try:
        return _scanned(*args)
    except TooLarge as error:
        # Step by step, what is not yet or no longer uncertain needs no table.
        try:
            return unrolled(*args)
        except TooLarge:
            raise error from None


def unrolled(
    engine: Any,
    settings: Settings,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    uniform: bool,
) -> tuple[Outcome, State]:
    """All steps one by one: the time is known at each, and tables may differ from step to step.

    Where data and parameters are NumPy arrays, nothing is compiled.
    """
    state, pieces = settings.start(), []
    for _, _, outcome in walk(
        engine, settings, sequences, arrays, parameters, networks, key, uniform
    ):
        state = outcome.state
        pieces.append(jax.tree.map(lambda x: x[None], replace(outcome, state=None)))
    return join(pieces), state


def walk(
    engine: Any,
    settings: Settings,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    uniform: bool,
) -> Iterator[tuple[State, Moment, Outcome]]:
    """Step after step: the state before it, what is known of it, and what it reports."""
    engine.forget()
    binding = engine.bind(parameters, networks, settings.batch * settings.particles)
    past = past_tensors(engine)
    state = settings.start()
    for time in range(sequences.steps):
        slices = jax.tree.map(lambda x, time=time: x[time], arrays["timed"])
        moment = moment_of(sequences, arrays, slices, time, engine.real, past)
        last = uniform and time == sequences.steps - 1
        outcome = engine.step(
            settings,
            state,
            moment,
            binding,
            None if key is None else jax.random.fold_in(key, time),
            at_first=time == 0,
            everything=last or not uniform,
            final=last or not uniform,
            last=last,
        )
        yield state, moment, outcome
        state = outcome.state


def _scanned(
    engine: Any,
    settings: Settings,
    sequences: Sequences,
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    networks: Mapping[str, Any],
    key: Any,
    uniform: bool,
) -> tuple[Outcome, State]:
    """All steps, the later ones by one compiled loop."""
    # Data that are known now must not shape a loop that is to serve all steps.
    arrays = jax.tree.map(jax.numpy.asarray, arrays)
    steps = sequences.steps
    past = past_tensors(engine)
    binding = engine.bind(parameters, networks, settings.batch * settings.particles)

    def moment(time: Any, slices: Mapping[str, Any]) -> Moment:
        return moment_of(sequences, arrays, slices, time, engine.real, past)

    def at(time: int) -> dict[str, Any]:
        return jax.tree.map(lambda x: x[time], arrays["timed"])

    only = steps == 1
    outcome = engine.step(
        settings,
        settings.start(),
        moment(0, at(0)),
        binding,
        jax.random.fold_in(key, 0),
        at_first=True,
        everything=only or not uniform,
        final=only or not uniform,
        last=only and uniform and not settings.record,
    )
    if only:
        state = outcome.state
        done = replace(outcome, state=state if settings.record else None)
        return join([jax.tree.map(lambda x: x[None], done)]), state

    def later(
        state: State, time: Any, slices: Any, everything: bool, final: bool, last: bool = False
    ) -> Outcome:
        return engine.step(
            settings,
            state,
            moment(time, slices),
            _inside(binding, time),
            jax.random.fold_in(key, time),
            at_first=False,
            everything=everything,
            final=final,
            last=last,
        )

    # Some later step, whichever it is: what is true of step 1 alone must not be seen.
    some = jax.numpy.asarray(1)
    state = engine.settle(lambda s: later(s, some, at(1), False, False).state, outcome.state)
    dims = dims_of(state)
    binding = engine.steady(binding, settings, state, moment(some, at(1)))

    def body(state: State, xs: Any) -> tuple[State, Outcome]:
        time, slices = xs
        done = later(state, time, slices, not uniform, not uniform)
        new = widen(done.state, dims)
        return new, replace(done, state=new if settings.record else None)

    end = steps - 1 if uniform else steps
    times = jnp.arange(1, end)
    middle = jax.tree.map(lambda x: x[1:end], arrays["timed"])
    step_body: Any = body
    if settings.estimator is not None:
        step_body = jax.checkpoint(body, prevent_cse=False, policy=save_draws)
    first = replace(outcome, state=state if settings.record else None)
    first = jax.tree.map(lambda x: x[None], first)
    state, outs = jax.lax.scan(step_body, state, (times, middle))
    pieces = [first, outs]
    if uniform:
        done = later(state, jnp.asarray(steps - 1), at(steps - 1), True, True, True)
        state = done.state
        pieces.append(jax.tree.map(lambda x: x[None], replace(done, state=None)))
    return join(pieces), state


def _inside(binding: Binding, time: Any) -> Binding:
    """The same, with parameters that seem to depend on time.

    Else XLA computes what depends on them alone before the loop, for each particle: reading
    so many equal numbers at every step takes longer than computing them.
    """
    barrier: Any = jax.lax.optimization_barrier
    parameters, _ = barrier((dict(binding.parameters), time))
    return replace(binding, parameters=parameters)


def past_tensors(engine: Any) -> frozenset[tuple[str, str]]:
    """Inputs that networks read at an earlier step, and which step that is."""
    return frozenset(
        node.data
        for plan in (engine.first, engine.later)
        for node in leaves(everything(plan), "input")
        if isinstance(node.data[1], str) and node.data[1] != "now"
    )


def join(pieces: list[Outcome]) -> Outcome:
    """Outcomes of several stretches of time as one; answers given at the end only stay short."""
    out: dict[str, Any] = {}
    for name in ("log_gain", "effective", "resampled", "flags", "dead"):
        out[name] = jnp.concatenate([getattr(p, name) for p in pieces])
    answers: dict[str, Any] = {}
    for query in pieces[-1].answers:
        answers[query] = jnp.concatenate([p.answers[query] for p in pieces if query in p.answers])
    history: dict[str, Any] = {}
    for name in {n for p in pieces for n in p.history}:
        history[name] = [p.history.get(name) for p in pieces]
    states: Any = None
    if all(p.state is not None for p in pieces):
        states = jax.tree.map(lambda *xs: jnp.concatenate(xs), *(p.state for p in pieces))
    return Outcome(state=states, answers=answers, history=history, **out)


def moment_of(
    sequences: Sequences,
    arrays: Mapping[str, Any],
    slices: Mapping[str, Any],
    time: Any,
    real: Any,
    past: frozenset[tuple[str, str]] = frozenset(),
) -> Moment:
    inputs: dict[str, tuple[Named, ...]] = {}
    seen: dict[str, tuple[Named, ...]] = {}
    masks: dict[str, Named | None] = {}
    for name, columns in sequences.timed.items():
        named = named_columns(columns, slices[name], real)
        (seen if name in sequences.observed else inputs)[name] = named
        if f"{name} mask" in slices:
            masks[name] = Named(slices[f"{name} mask"], (BATCH, *columns[0].axes))
    for name, columns in sequences.static.items():
        named = named_columns(columns, arrays["static"][name], real)
        (seen if name in sequences.observed else inputs)[name] = named
        if name in sequences.masks:
            masks[name] = Named(arrays["static"][f"{name} mask"], (BATCH, *columns[0].axes))
    for name, column in past:
        # Tensors of earlier steps, for networks.
        lag = 0 if column == "first" else int(column.removeprefix("lag"))
        at = 0 if column == "first" else jnp.maximum(time - lag, 0)
        inputs[f"{name}@{column}"] = named_columns(
            sequences.timed[name], tuple(a[at] for a in arrays["timed"][name]), real
        )
    tilts = {k.removeprefix("tilt "): v for k, v in slices.items() if k.startswith("tilt ")}
    return Moment(time, Named(arrays["last"], (BATCH,)), inputs, seen, masks, tilts)


def to_arrays(sequences: Sequences) -> dict[str, Any]:
    """The numbers of a batch, as a tree of arrays."""
    timed: dict[str, Any] = {n: tuple(c.values for c in cs) for n, cs in sequences.timed.items()}
    static: dict[str, Any] = {n: tuple(c.values for c in cs) for n, cs in sequences.static.items()}
    for name, mask in sequences.masks.items():
        (timed if name in sequences.timed else static)[f"{name} mask"] = mask
    return {"timed": timed, "static": static, "last": sequences.last}


# ---------------------------------------------------------------- states of one shape


def settle(function: Callable[[State], State], state: State) -> State:
    """Give a state the dimensions that it will have: those that a step does not change."""
    while True:
        after = jax.eval_shape(function, state)
        wanted = jax.tree.map(
            # What is known beforehand may be NumPy's, with more bits than JAX has.
            lambda a, b: (
                union([a.dims, b.dims]),
                jax.dtypes.canonicalize_dtype(jnp.promote_types(a.array.dtype, b.array.dtype)),
            ),
            state,
            after,
            is_leaf=lambda x: isinstance(x, Named),
        )
        new = widen(state, wanted, after)
        if dims_of(new) == dims_of(state):
            return new
        state = new


def dims_of(state: State) -> Any:
    return jax.tree.map(
        lambda n: (n.dims, n.array.dtype, n.array.shape),
        state,
        is_leaf=lambda x: isinstance(x, Named),
    )


def widen(state: State, wanted: Any, like: State | None = None) -> State:
    def one(value: Named, want: Any, *others: Named) -> Named:
        dims, dtype = want[0], want[1]
        sizes: dict[Any, int] = {}
        for v in (value, *others):
            sizes |= dict(zip(v.dims, v.array.shape, strict=False))
        if len(want) == 3:
            sizes |= dict(zip(dims, want[2], strict=False))
        behind = [v.array.shape[len(v.dims) :] for v in (value, *others)]
        inner = jnp.broadcast_shapes(*behind, *(want[2][len(dims) :] for _ in want[2:]))
        array = deepen(jnp, expand(jnp, value, dims), len(dims) + len(inner))
        shape = (*(sizes[d] for d in dims), *inner)
        return Named(cast(jnp.broadcast_to(array, shape), dtype), dims)

    tree: Any
    leaves_, tree = jax.tree.flatten(state, is_leaf=lambda x: isinstance(x, Named))
    wants = tree.flatten_up_to(wanted)
    others = tree.flatten_up_to(like) if like is not None else None
    return tree.unflatten(
        [
            one(v, w, *(() if others is None else (others[i],)))
            for i, (v, w) in enumerate(zip(leaves_, wants, strict=True))
        ]
    )
