"""The state of a filter and what a step reports, with small helpers on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from nesymm.inference.arrays import is_jax, stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.beliefs import Partition
from nesymm.inference.elimination.capacity import Capacity, Naming
from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice
from nesymm.inference.elimination.factors import Factor, pick_at
from nesymm.inference.named import Named, expand
from nesymm.ir.expr import Axis

jax.tree_util.register_pytree_node(
    Named, lambda n: ((n.array,), n.dims), lambda d, c: Named(c[0], d)
)

jax.tree_util.register_pytree_node(
    Factor, lambda f: ((f.array, f.plain), f.dims), lambda d, c: Factor(c[0], d, c[1])
)

LANES = (BATCH, PARTICLE)


@dataclass(frozen=True)
class Fixed:
    """Which tables the beliefs of a compiled loop have, at all steps alike: over which fields, and
    the names of the fields that are known at some steps only and are uncertain at all of them."""

    partition: Partition
    uncertain: frozenset[str]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """What one step leaves to the next, per particle.

    `slots` are the fields of fluents, `statics` the variables drawn once, `beliefs` the
    log-tables of those that are marginalised instead. The log-weights have mean one;
    `scores` are nothing, with the gradient of the log-probability of each particle's past. Of the
    finite fields that exact inference has beliefs about, some are `known`: their positions.
    `origins` are the particles of the first step that they descend from. In a compiled loop the
    tables are `fixed`.
    """

    slots: dict[str, Named]
    statics: dict[str, Named]
    beliefs: list[Named]
    log_weights: Named
    scores: Named
    known: dict[str, Named] = field(default_factory=dict)
    origins: Named | None = None
    fixed: Fixed | None = field(default=None, metadata={"static": True})


@dataclass(frozen=True)
class Settings:
    """What does not change from step to step.

    `estimator` says where gradients come from: None (there are none), surrogate, score, rloo
    or recursive_rloo. With `record`, every step reports what it drew. With `plain`, sums over
    finite variables are taken of plain numbers where that is possible, which is faster, and
    underflows where the evidence of one step is less probable than the smallest number. With
    `analytic`, the divergence of a guide from its prior is computed and not sampled, where
    there is a formula; this is for one particle. The tables of a step have at most `work` cells
    together.
    """

    batch: int
    particles: int
    real: Any
    resample: Callable[[Any, Any], Any] | None
    threshold: float
    paper: bool = False
    estimator: str | None = None
    record: bool = False
    plain: bool = True
    analytic: bool = False
    naming: Naming = Naming()
    work: float = math.inf

    def shape(self, dims: tuple) -> tuple[int, ...]:
        sizes = {BATCH: self.batch, PARTICLE: self.particles}
        return tuple(d.size if isinstance(d, Axis | Choice) else sizes[d] for d in dims)

    @property
    def capacity(self) -> Capacity:
        """How large the tables of a particle may be."""
        itemsize = jnp.dtype(self.real).itemsize
        return Capacity(
            bytes=self.naming.most,
            work=self.work,
            batch=self.batch,
            particles=self.particles,
            itemsize=itemsize,
        )


@dataclass(frozen=True)
class Stage:
    """Where a step is in its sequences.

    At the `first` step there is no state before it. Where sequences `may_end`, queries about the
    end are answered, and gradients are those of the whole. Where all of them `end`, nothing
    follows, and no belief over a next state is needed.
    """

    first: bool
    may_end: bool = True
    end: bool = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Info:
    """What a step reports besides the next state: numbers per sequence, and with
    `Settings.record` the values of the random variables and the ancestors of the particles."""

    log_gain: Any
    effective: Any
    resampled: Any
    answers: dict[str, Any]
    flags: Any
    dead: Any
    values: dict[str, Named] = field(default_factory=dict)
    ancestors: Named | None = None


def initial_state(settings: Settings) -> State:
    """The state before the first step: nothing is known, and all particles weigh the same."""
    nothing = Named(jnp.zeros(settings.shape(LANES), settings.real), LANES)
    own = jnp.arange(settings.particles, dtype=jnp.int32)
    origins = Named(jnp.broadcast_to(own, settings.shape(LANES)), LANES)
    return State({}, {}, [], nothing, nothing, origins=origins)


def slot_key(key: str) -> tuple[str, Any]:
    """The slot and the field that a name in `State.slots` stands for."""
    name, _, column = key.rpartition(".")
    return name, column if column == "present" else int(column)


def stop(tree: Any) -> Any:
    """The same values without their gradients."""
    return jax.tree.map(stop_gradient, tree)


_SAVED = "drawn"
# What is drawn and its weight are kept for the way back; the rest is computed again.
save_draws = jax.checkpoint_policies.save_only_these_names(_SAVED)


def checkpointed(tree: Any) -> Any:
    """Marks arrays that `save_draws` keeps."""
    return jax.tree.map(lambda x: checkpoint_name(x, _SAVED) if is_jax(x) else x, tree)  # type: ignore[no-untyped-call]


def gradient_of(x: Any) -> Any:
    """Nothing, with the gradient of x. Where x is not finite there is no gradient."""
    return _gradient_of(x) if is_jax(x) else np.zeros_like(x)


@jax.custom_jvp
def _gradient_of(x: Any) -> Any:
    # Not `zeros_like`: under `vmap` that has no batch, which its gradient has. XLA must see that
    # it is zero wherever it is: else x is computed where no gradient is asked for.
    return (jnp.isfinite(x) & False).astype(x.dtype)


@_gradient_of.defjvp
def _(primals: Any, tangents: Any) -> Any:
    # All that has to be known of x, and kept for the way back, is where it is finite.
    (x,), (gradient,) = primals, tangents
    return _gradient_of(x), jnp.where(checkpointed(jnp.isfinite(x)), gradient, 0.0)


def nan_of(x: Named) -> Named:
    """NaN where x is, and nothing elsewhere: what is drawn by NaN may not pass for an answer."""
    array = stop_gradient(x.array)
    return Named(jnp.where(jnp.isnan(array), array, 0.0), x.dims)


def subtract(a: Any, b: Any) -> Any:
    return a - jnp.where(jnp.isfinite(b), b, 0.0)


def per_particle(value: Named, settings: Settings) -> Named:
    """One number per particle."""
    array = jnp.broadcast_to(expand(value, LANES), settings.shape(LANES))
    return Named(array.astype(settings.real), LANES)


def normalise(log_weights: Any) -> Any:
    """Weights that sum to one; equal ones where all particles are dead."""
    top = jnp.max(stop_gradient(log_weights), -1, keepdims=True)
    weights = jnp.exp(log_weights - jnp.where(jnp.isfinite(top), top, 0.0))
    weights = jnp.where(jnp.isfinite(top), weights, 1.0)
    return weights / jnp.sum(weights, -1, keepdims=True)


def effective_size(weights: Any) -> Any:
    """How many particles of equal weight would be as good as these."""
    return 1.0 / jnp.maximum(jnp.sum(weights**2, -1), 1e-30)


def gather_ancestors(value: Named, ancestors: Named | None) -> Named:
    """The value of each particle's ancestor."""
    if ancestors is None or PARTICLE not in value.dims:
        return value
    return pick_at(value, {PARTICLE: ancestors})
