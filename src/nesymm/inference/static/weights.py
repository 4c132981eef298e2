"""The weights of a formula's literals, from parameters, networks and data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.named import Named, expand, union
from nesymm.inference.networks import Networks, gave_nan
from nesymm.inference.static.sources import Drawn, Leaf, Source, Weight
from nesymm.inference.tables import Tables
from nesymm.inference.weights import law_density, marked, masses
from nesymm.inference.world import Binding, Moment, World
from nesymm.ir.algebra import is_const
from nesymm.ir.expr import TRUE, Axis, Expr
from nesymm.ir.passes.phases import canonical_axes
from nesymm.ir.step import Param, Proposal, RandomVariable, StepProgram, flat
from nesymm.ir.types import TensorAt


@dataclass(frozen=True)
class Given:
    """What is known at run time.

    An input is a tensor, the tuple of its columns, or None where it is missing; `masks` say for
    which keys it is there, if not for all.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    networks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    masks: Mapping[str, np.ndarray] = field(default_factory=dict)


def known(truth: Any, unless: bool = False) -> bool:
    """Whether something holds; `unless` where it is known only when a function that JAX
    compiles runs, which cannot raise."""
    if isinstance(truth, np.bool_):
        return bool(truth)
    try:
        return bool(truth)
    except jax.errors.ConcretizationTypeError:
        return unless


class Leaves(World):
    """The leaves of the expressions of a program without time.

    All arrays are those of `xp`: NumPy's, or JAX's where there are gradients. Variables
    without a closed form have a value per sample, drawn by `draw` when they are first read.
    """

    def __init__(
        self,
        step: StepProgram,
        given: Given,
        xp: Any = np,
        draw: Callable[[Tables, RandomVariable], Named] | None = None,
    ):
        self.given = given
        self.xp = xp
        networks = Networks(step, given.networks, xp)
        parameters = {n: xp.asarray(value) for n, value in given.parameters.items()}
        there: dict[str, Any] = {n: () for n, v in given.inputs.items() if v is not None}
        axes = {i.name: canonical_axes(i.axes) for i in step.inputs}
        masks = {n: Named(mask, axes[n]) for n, mask in given.masks.items()}
        moment = Moment(0, 0, there, {}, masks)
        super().__init__(step, moment, Binding(parameters, networks), {}, {}, draw=draw)

    def leaf(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        match expr.op:
            case "input":
                axes = self.input_axes.get(expr.data[0], ())
                return low.at_keys(self._column(low, expr, axes), axes, expr, keys)
            case "param" if expr.data not in self.given.parameters:
                has = ", ".join(self.given.parameters) or "none"
                raise NesymmError(f"the parameter {expr.data} is not given (given: {has})")
        found = super().leaf(low, expr, keys)
        if expr.op == "neural" and known(jnp.isnan(found.array).any()):
            raise NesymmError("\n".join(gave_nan(self.step, expr.data[0])))
        return found

    def _column(self, low: Tables, expr: Expr, axes: tuple[Axis, ...]) -> Named:
        name, column = expr.data
        if name not in self.given.inputs:
            has = ", ".join(self.given.inputs) or "none"
            raise NesymmError(f"the input {name} is not given (given: {has})")
        value = self.given.inputs[name]
        if value is None:  # Missing: what reads it is never used.
            return low.nothing(expr.type)
        if isinstance(value, tuple):
            return Named(self.xp.asarray(value[column]), axes)
        array = self.xp.asarray(value)
        whole = isinstance(column, TensorAt) or (array.ndim == len(axes) and column == 0)
        return Named(array if whole else array[..., column], axes)


class Weights:
    """Log-weights of all literals; constant ones are computed once."""

    def __init__(self, sources: Sequence[Source], step: StepProgram):
        self.step = step
        low = Tables(Leaves(step, Given()), np.float64)
        parts: list[np.ndarray] = []
        self.moving: list[tuple[int, Source]] = []
        start = 0
        for source in sources:
            if all(is_const(e) for e in _expressions(source)):
                parts.append(_constant(low, source))
            else:
                parts.append(np.zeros(_size(source)))
                self.moving.append((start, source))
            start += len(parts[-1])
        self.constant = np.concatenate(parts) if parts else np.zeros(0)

    def __call__(self, given: Given) -> np.ndarray:
        """The weights in NumPy."""
        return np.asarray(self.row(Tables(Leaves(self.step, given), np.float64)).array)

    def with_gradients(self, given: Given) -> tuple[Any, Any]:
        """The weights in JAX, and weights to differentiate: while that is done, off zero."""
        real = jax.numpy.result_type(float)  # float64 only if JAX may use it
        leaves = Leaves(self.step, given, jax.numpy)
        exact, off = (
            jax.numpy.asarray(self.row(Tables(leaves, real, edges=edges)).array)
            for edges in (False, True)
        )
        return exact, off

    def row(self, low: Tables) -> Named:
        """The weights of all literals, behind the samples that they depend on."""
        pieces: list[Named] = []
        done = 0
        for start, source in self.moving:
            weights = _log_weights(low, source)
            pieces += [Named(self.constant[done:start].astype(low.real)), weights]
            done = start + _size(source)
        pieces.append(Named(self.constant[done:].astype(low.real)))
        dims = union(p.dims for p in pieces)
        arrays = [expand(p, dims) for p in pieces]
        lead = jnp.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        full = [jnp.broadcast_to(a, (*lead, a.shape[-1])) for a in arrays]
        return Named(jnp.concatenate(full, axis=-1), dims)


def _size(source: Source) -> int:
    if isinstance(source, Drawn):
        return len(source.variable.outcomes) + source.optional
    return 2


def _expressions(source: Source) -> list[Expr]:
    match source:
        case Leaf(condition):
            return [condition]
        case Weight(params=params, value=value):
            return [value, *flat(params)]
        case Drawn(params=params):
            return list(flat(params))
    raise TypeError(source)


def _constant(low: Tables, source: Source) -> np.ndarray:
    """Log-weights without parameters, networks or data."""
    if isinstance(source, Drawn) and source.variable.family == "bernoulli" and not source.optional:
        # Nearly all sources of a program are facts; arrays of one number would be slow.
        (p,) = source.params
        if isinstance(p, Expr) and 0 < p.data < 1:
            return np.array([math.log(1 - p.data), math.log(p.data)])
    return np.asarray(_log_weights(low, source).array)


def _log_weights(low: Tables, source: Source) -> Named:
    match source:
        case Leaf(condition):
            holds = low.value(condition)
            both = jnp.stack([~holds.array, holds.array], axis=-1)
            return Named(jnp.where(both, 0.0, -jnp.inf), holds.dims)
        case Weight(variable, params, value):
            # Its parameters may make no sense where it is not drawn.
            law = Proposal(TRUE, variable.family, params, variable.neural)
            found = marked(low, law, law_density(low, law, low.value(value), guarded=True))
            both = jnp.stack([jnp.zeros_like(found.array), found.array], axis=-1)
            return Named(both, found.dims)
        case Drawn(variable, _, params, optional):
            table = log_masses_of(low, variable, params)
            if not optional:
                return table
            nothing = jnp.zeros((*table.array.shape[:-1], 1))
            return Named(jnp.concatenate([table.array, nothing], axis=-1), table.dims)
    raise TypeError(source)


def log_masses_of(low: Tables, variable: RandomVariable, params: tuple[Param, ...]) -> Named:
    """Log-probabilities of the outcomes of a finite variable, behind the named dimensions."""
    dim = Choice("rv", variable.name, (), len(variable.outcomes))
    table = masses(low, variable, dim, TRUE, params)
    return Named(table.array, table.dims[:-1])
