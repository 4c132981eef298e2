"""The particle filter: plans for both phases, and the loop over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from nesymm.compiler.expr import Expr, leaves
from nesymm.compiler.step import StepProgram
from nesymm.compiler.types import Int, is_finite, size
from nesymm.exact.families import log_masses
from nesymm.exact.named import Named, expand, union
from nesymm.filtering.data import Sequences, named_columns
from nesymm.filtering.dims import BATCH
from nesymm.filtering.methods import Bootstrap, RaoBlackwellised
from nesymm.filtering.phases import Phases, phases, use_observed
from nesymm.filtering.plan import Plan, make_plan, reads, tested_variables
from nesymm.filtering.questions import questions
from nesymm.filtering.resampling import SCHEMES
from nesymm.filtering.state import Outcome, Settings, State, save_draws
from nesymm.filtering.step import ParticleStep
from nesymm.filtering.world import Binding, Moment, call_network, lift_key

# Static variables with at most this many joint values stay marginalised.
_BELIEF = 64


def plans(step: StepProgram, given: frozenset[str], solve: bool) -> tuple[Phases, Plan, Plan]:
    """How both phases are run. With `solve`, finite variables are solved exactly."""
    both = use_observed(phases(step, given), given)
    finite = (
        frozenset(v.name for p in both for v in p.variables if v.finite) if solve else frozenset()
    )
    beliefs = _beliefs(both) if solve else frozenset()
    tested = tested_variables(both)
    first = make_plan(both.first, both.statics, finite, beliefs, tested, both.always, both.kept)
    later = make_plan(both.later, both.statics, finite, beliefs, tested, both.always, both.kept)
    return both, first, later


def _beliefs(both: Phases) -> frozenset[str]:
    """Small finite static variables that the state does not depend on."""
    used = reads(e for p in both for s in p.slots for e in (s.present, *s.values))
    used |= reads(f.condition for p in both for f in p.flags)
    chosen: list[str] = []
    total = 1
    for name in both.kept:
        variable = both.statics[name]
        if not variable.finite or variable.axes or name in used:
            continue
        if total * len(variable.outcomes) <= _BELIEF:
            total *= len(variable.outcomes)
            chosen.append(name)
    return frozenset(chosen)


class ParticleFilter:
    """Particles over a batch of sequences."""

    def __init__(
        self,
        step: StepProgram,
        method: RaoBlackwellised | Bootstrap,
        given: frozenset[str],
        real: Any,
        steps: int | None = None,
    ):
        self.method = method
        self.real = real
        self.phases, self.first, self.later = plans(
            step, given, isinstance(method, RaoBlackwellised)
        )
        self.questions = questions(self.phases, steps)

    def settings(self, batch: int, estimator: str | None = None, record: bool = False) -> Settings:
        method = self.method
        return Settings(
            batch,
            method.particles,
            self.real,
            SCHEMES[method.resampling] if method.threshold > 0 else None,
            method.threshold,
            isinstance(method, RaoBlackwellised) and method.recursion == "paper",
            estimator,
            record,
        )

    # ------------------------------------------------------------ one step at a time

    def step(
        self,
        settings: Settings,
        state: State,
        moment: Moment,
        binding: Binding,
        key: Any,
        at_first: bool,
        everything: bool,
        final: bool = True,
    ) -> Outcome:
        """One step. `everything`: also answer the queries that are asked at the end."""
        plan = self.first if at_first else self.later
        ask = tuple(q for q in self.questions if everything or q.at_every_step)
        return ParticleStep(plan, settings, self.phases.kept, self.questions)(
            state, moment, binding, key, ask, final
        )

    # ------------------------------------------------------------ networks

    def bind(
        self, parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
    ) -> Binding:
        """Networks whose arguments have fewer values than there are calls are tabulated."""
        return _bind((self.first, self.later), parameters, networks, calls)

    def steady(self, binding: Binding, settings: Settings, state: State, moment: Moment) -> Binding:
        # Each particle is somewhere else: what networks see changes from step to step.
        return binding

    def settle(self, function: Callable[[State], State], state: State) -> State:
        return settle(function, state)


def _bind(
    plans_: tuple[Plan, ...], parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
) -> Binding:
    lifted: dict[tuple, Named] = {}
    for plan in plans_:
        for node in leaves(everything(plan), "neural"):
            sizes = [size(a.type) for a in node.args]
            if not node.args or not all(is_finite(a.type) for a in node.args):
                continue
            total = 1.0
            for s in sizes:
                total *= s
            if total > calls or lift_key(node) in lifted:
                continue
            grids = []
            for i, arg in enumerate(node.args):
                low = int(arg.type.lo) if isinstance(arg.type, Int) else 0
                codes = jnp.arange(low, low + int(sizes[i]))
                grids.append(Named(codes, (("argument", i),)))
            lifted[lift_key(node)] = call_network(networks, node.data[0], tuple(grids))
    # What a network says of outcomes is normalised once, not for every particle.
    normalised: dict[tuple, Named] = {}
    for variable in (v for plan in plans_ for v in plan.variables.values()):
        if variable.family == "categorical" and variable.neural:
            called = variable.params[0]
            assert isinstance(called, Expr)
            if called.op != "neural" or lift_key(called) not in lifted:
                continue
            table, outcomes = lifted[lift_key(called)], variable.outcomes
            array = log_masses(jnp, "categorical", (table.array,), outcomes, True)
            normalised[lift_key(called), len(outcomes)] = Named(array, table.dims)
    plain = {k: Named(jnp.exp(v.array), v.dims) for k, v in normalised.items()}
    return Binding(parameters, networks, lifted, normalised, plain)


def everything(plan: Plan) -> list[Any]:
    roots = list(plan.step.roots())
    roots += [e for v in plan.variables.values() for e in v.expressions()]
    return roots


# ---------------------------------------------------------------- the loop over time


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
    steps = sequences.steps
    past = past_tensors(engine)
    binding = engine.bind(parameters, networks, settings.batch * settings.particles)

    def moment(time: Any, slices: Mapping[str, Any]) -> Moment:
        return _moment(sequences, arrays, slices, time, engine.real, past)

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
    )
    if only:
        state = outcome.state
        done = replace(outcome, state=state if settings.record else None)
        return _join([jax.tree.map(lambda x: x[None], done)]), state

    def later(state: State, time: Any, slices: Any, everything: bool, final: bool) -> Outcome:
        return engine.step(
            settings,
            state,
            moment(time, slices),
            _inside(binding, time),
            jax.random.fold_in(key, time),
            at_first=False,
            everything=everything,
            final=final,
        )

    state = engine.settle(
        lambda s: later(s, jnp.asarray(1), at(1), False, False).state, outcome.state
    )
    dims = _dims(state)
    binding = engine.steady(binding, settings, state, moment(jnp.asarray(1), at(1)))

    def body(state: State, xs: Any) -> tuple[State, Outcome]:
        time, slices = xs
        done = later(state, time, slices, not uniform, not uniform)
        new = _widen(done.state, dims)
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
        done = later(state, jnp.asarray(steps - 1), at(steps - 1), True, True)
        state = done.state
        pieces.append(jax.tree.map(lambda x: x[None], replace(done, state=None)))
    return _join(pieces), state


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


def _join(pieces: list[Outcome]) -> Outcome:
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


def _moment(
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
        inputs[name] = named_columns(columns, arrays["static"][name], real)
        if name in sequences.masks:
            masks[name] = Named(arrays["static"][f"{name} mask"], (BATCH,))
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
            lambda a, b: (union([a.dims, b.dims]), jnp.promote_types(a.array.dtype, b.array.dtype)),
            state,
            after,
            is_leaf=lambda x: isinstance(x, Named),
        )
        new = _widen(state, wanted, after)
        if _dims(new) == _dims(state):
            return new
        state = new


def _dims(state: State) -> Any:
    return jax.tree.map(
        lambda n: (n.dims, n.array.dtype, n.array.shape),
        state,
        is_leaf=lambda x: isinstance(x, Named),
    )


def _widen(state: State, wanted: Any, like: State | None = None) -> State:
    def one(value: Named, want: Any, *others: Named) -> Named:
        dims, dtype = want[0], want[1]
        sizes: dict[Any, int] = {}
        for v in (value, *others):
            sizes |= dict(zip(v.dims, v.array.shape, strict=False))
        if len(want) == 3:
            sizes |= dict(zip(dims, want[2], strict=False))
        array = expand(jnp, value, dims)
        shape = (*(sizes[d] for d in dims), *array.shape[len(dims) :])
        return Named(jnp.broadcast_to(array, shape).astype(dtype), dims)

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


__all__ = ["ParticleFilter", "run", "to_arrays"]
