"""The weights of a formula's literals, from parameters, networks and data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.densities import (
    by_logit,
    constrain,
    interval_mass,
    log_density,
    log_masses,
    sound,
)
from nesymm.inference.lower import Lowering
from nesymm.inference.named import Named
from nesymm.inference.networks import call
from nesymm.inference.static.propositional import Drawn, Leaf, Source, Weight
from nesymm.ir.algebra import is_const
from nesymm.ir.expr import Expr, leaves
from nesymm.ir.step import Param, RandomVariable
from nesymm.language.families import FAMILIES


@dataclass(frozen=True)
class Given:
    """What is known at run time: leaves read their values here.

    An input is a tensor, the tuple of its columns, or None where it is missing.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    networks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    drawn: Mapping[str, Any] = field(default_factory=dict)
    # The shapes of what networks must give, where they are declared.
    outputs: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)

    def leaf(self, low: Lowering, expr: Expr, keys: tuple[Named, ...]) -> Named:
        match expr.op:
            case "param":
                value = low.xp.asarray(self._get("parameter", self.parameters, expr.data))
                if not keys:
                    return Named(value)
                raise NesymmError(f"the parameter {expr.data} is indexed by a run-time value")
            case "neural":
                network = self._get("network", self.networks, expr.data[0])
                result = call(low.xp, expr.data[0], network, tuple(k.array for k in keys))
                return Named(self.network_output(low.xp, expr, result))
            case "input":
                name, column = expr.data
                value = self._get("input", self.inputs, name)
                if value is None:  # Missing: what reads it is never used.
                    return low.nothing(expr.type)
                if isinstance(value, tuple):
                    return Named(low.xp.asarray(value[column]))
                if isinstance(column, str) or (np.ndim(value) == 0 and column == 0):
                    return Named(low.xp.asarray(value))
                return Named(low.xp.asarray(value)[..., column])
            case "given":
                return Named(low.xp.asarray(self.inputs.get(expr.data) is not None))
            case "rv":
                return Named(low.xp.asarray(self._get("value of", self.drawn, expr.data)))
            case "mass":
                family, ends = expr.data
                arrays = [k.array for k in keys]
                first, last = (arrays.pop(0) if end else None for end in ends)
                params = sound(low.xp, family, tuple(arrays))
                return Named(interval_mass(low.xp, family, params, first, last))
        raise TypeError(f"no value for `{expr.op}`")

    def network_output(self, xp: Any, expr: Expr, result: Any, batch: tuple[int, ...] = ()) -> Any:
        """What a network gave for a `neural` expression: one output, or all of them, behind
        the dimensions of a batch."""
        net, output = expr.data
        if xp.issubdtype(result.dtype, xp.inexact) and known(xp.isnan(result).any()):
            raise _gave_nan(net)
        shape, needed = result.shape[len(batch) :], self.outputs.get(net)
        # JAX would take the last output where there are too few.
        if needed and shape[-1:] != needed[-1:] and math.prod(shape) != math.prod(needed):
            wanted = "x".join(map(str, needed))
            raise NesymmError(
                f"the network {net} gave outputs of shape {tuple(shape)}, {wanted} are needed"
            )
        return result if output is None else result.reshape(*batch, -1)[..., output]

    def _get(self, kind: str, table: Mapping[str, Any], name: str) -> Any:
        if name not in table:
            raise NesymmError(
                f"the {kind} {name} is not given (given: {', '.join(table) or 'none'})"
            )
        return table[name]


def _gave_nan(net: str) -> NesymmError:
    return NesymmError(f"the network {net} gave NaN, which is not a number")


def known(truth: Any, unless: bool = False) -> bool:
    """Whether something holds; `unless` where it is known only when a function that JAX
    compiles runs, which cannot raise."""
    if isinstance(truth, np.bool_):
        return bool(truth)
    import jax

    try:
        return bool(truth)
    except jax.errors.ConcretizationTypeError:
        return unless


class Weights:
    """Log-weights of all literals; constant ones are computed once."""

    def __init__(self, sources: Sequence[Source], outputs: Mapping[str, tuple[int, ...] | None]):
        self.outputs = outputs
        parts: list[np.ndarray] = []
        self.moving: list[tuple[int, int, Source]] = []
        start = 0
        for source in sources:
            size = _size(source)
            if all(is_const(e) for e in _expressions(source)):
                parts.append(_constant(source))
            else:
                parts.append(np.zeros(size))
                self.moving.append((start, size, source))
            start += size
        self.constant = np.concatenate(parts) if parts else np.zeros(0)

    def __call__(self, given: Given, xp: Any = np, real: Any = np.float64) -> Any:
        return self._row(Lowering(xp, replace(given, outputs=self.outputs), real))

    def with_slopes(self, given: Given, xp: Any, real: Any = np.float64) -> tuple[Any, Any]:
        """The weights, and weights to differentiate: those are off zero, so not exact."""
        low = Lowering(xp, replace(given, outputs=self.outputs), real)
        return self._row(low), self._row(low, floor=True)

    def refuse_nan(self, rows: np.ndarray) -> None:
        """Raise if a network, called inside a function that JAX maps, gave NaN."""
        for start, size, source in self.moving:
            for node in leaves(_expressions(source), "neural"):
                if np.isnan(rows[..., start : start + size]).any():
                    raise _gave_nan(node.data[0])

    def _row(self, low: Lowering, floor: bool = False) -> Any:
        if not self.moving:
            return low.xp.asarray(self.constant)
        pieces = []
        done = 0
        for start, size, source in self.moving:
            pieces.append(low.xp.asarray(self.constant[done:start]))
            pieces.append(_log_weights(low, source, floor))
            done = start + size
        pieces.append(low.xp.asarray(self.constant[done:]))
        return low.xp.concatenate(pieces)


def _size(source: Source) -> int:
    if isinstance(source, Drawn):
        return len(source.variable.outcomes) + source.optional
    return 2


def _expressions(source: Source) -> list[Expr]:
    match source:
        case Leaf(condition):
            return [condition]
        case Weight(params=params, value=value):
            return [value, *_flat(params)]
        case Drawn(params=params):
            return _flat(params)
    raise TypeError(source)


def _flat(params: tuple[Param, ...]) -> list[Expr]:
    return [e for p in params for e in (p if isinstance(p, tuple) else (p,))]


def _constant(source: Source) -> np.ndarray:
    """Log-weights without parameters, networks or data."""
    if isinstance(source, Drawn) and source.variable.family == "bernoulli" and not source.optional:
        # Nearly all sources of a program are facts; arrays of one number would be slow.
        (p,) = source.params
        if isinstance(p, Expr) and 0 < p.data < 1:
            return np.array([math.log(1 - p.data), math.log(p.data)])
    return np.asarray(_log_weights(Lowering(np, Given()), source))


def _log_weights(low: Lowering, source: Source, floor: bool = False) -> Any:
    xp = low.xp
    match source:
        case Leaf(condition):
            holds = low.value(condition).array
            return xp.where(xp.stack([~holds, holds]), 0.0, -xp.inf)
        case Weight(variable, params, value):
            log_p = density_of(low, variable, params, low.value(value).array)
            return xp.stack([xp.zeros_like(log_p), log_p])
        case Drawn(variable, _, params, optional):
            masses = _finite(low, variable, params, floor)
            return xp.concatenate([masses, xp.zeros(1)]) if optional else masses
    raise TypeError(source)


def _finite(low: Lowering, variable: RandomVariable, params: tuple[Param, ...], floor: bool) -> Any:
    if variable.family == "categorical":
        params = params[:1]
    logits = by_logit(variable.family, params)
    params = logits or params
    arrays: tuple[Any, ...] = tuple(
        tuple(low.value(e).array for e in p) if isinstance(p, tuple) else low.value(p).array
        for p in params
    )
    if variable.family == "bernoulli" and variable.neural:
        arrays = (arrays[0].reshape(()),)
    network = f"the network {params[0].data[0]}" if variable.neural else ""  # type: ignore[union-attr]
    family, outcomes = variable.family, variable.outcomes
    neural = variable.neural or logits is not None
    return log_masses(low.xp, family, arrays, outcomes, neural, floor, network)


def density_of(low: Lowering, variable: RandomVariable, params: tuple[Param, ...], x: Any) -> Any:
    """The log-density of an infinite variable at a value (summed over a tensor)."""
    family, arrays = variable.family, scalar_parameters(low, variable, params)
    logits = params if variable.neural else by_logit(family, params)
    if family == "geometric" and logits:
        family, arrays = "geometric by logit", (low.value(logits[0]).array.reshape(()),)  # type: ignore[arg-type]
    result = log_density(low.xp, family, arrays, x)
    return low.xp.sum(result)


def scalar_parameters(
    low: Lowering, variable: RandomVariable, params: tuple[Param, ...]
) -> tuple[Any, ...]:
    """The parameters of an infinite family, networks mapped to their constraints."""
    family = FAMILIES[variable.family]
    if not variable.neural:
        known = tuple(low.value(p).array for p in params if isinstance(p, Expr))
        return sound(low.xp, variable.family, known)
    whole = low.value(params[0]).array  # type: ignore[arg-type]
    columns = low.xp.split(whole, len(family.params), axis=-1)
    return tuple(
        constrain(low.xp, c, column[..., 0] if column.shape[-1:] == (1,) else column)
        for c, column in zip(family.constraints, columns, strict=True)
    )


__all__ = ["Given", "Weights", "density_of", "scalar_parameters"]
