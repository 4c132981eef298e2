"""Learnable numbers: where they start, and how they move without leaving their range.

A program's `t(_)` are kept as what they mean (a probability, a scale). Optimisers move
free numbers: `free` and `bound` translate. Probabilities of one choice that must add up
move together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.errors import NesymmError, located
from nesymm.ir.algebra import is_const
from nesymm.ir.step import Parameter, StepProgram


@dataclass(frozen=True)
class Group:
    """Probabilities of one choice. They add up to `mass`, or with `slack` to at most that."""

    names: tuple[str, ...]
    mass: float
    slack: bool


def groups(step: StepProgram) -> tuple[Group, ...]:
    """The choices whose probabilities are learnt."""
    out: dict[tuple[str, ...], Group] = {}
    for variable in step.variables:
        if variable.family not in ("choice", "categorical") or variable.neural:
            continue
        weights = variable.params[0]
        if not isinstance(weights, tuple):
            continue
        names = tuple(dict.fromkeys(w.data for w in weights if w.op == "param"))
        if not names:
            continue
        known = sum(float(w.data) for w in weights if is_const(w))
        assert variable.support is not None
        slack = len(weights) < len(variable.support)
        out.setdefault(names, Group(names, 1.0 - known, slack))
    return tuple(out.values())


def initial_values(step: StepProgram) -> dict[str, Any]:
    """Where learning starts: as written, else in the middle."""
    grouped = {name: group for group in groups(step) for name in group.names}
    written = {p.name: p.initial for p in step.parameters}
    out: dict[str, Any] = {}
    for parameter in step.parameters:
        start = parameter.initial
        if start is None:
            group = grouped.get(parameter.name)
            start = _share(group, written) if group else _MIDDLE[parameter.constraint]
        shape = [a.size for a in parameter.axes]
        out[parameter.name] = np.full(shape, float(start)) if shape else float(start)
    return out


_MIDDLE = {"unit": 0.5, "simplex": 0.25, "positive": 1.0, "real": 0.0}


def _share(group: Group, written: Mapping[str, float | None]) -> float:
    """An equal share of what the written probabilities of a choice leave over."""
    given = [written[n] for n in group.names]
    left = group.mass - sum(g for g in given if g is not None)
    takers = sum(g is None for g in given) + group.slack
    if left <= 0:
        raise NesymmError(
            f"the probabilities of {', '.join(group.names)} leave nothing for those without a value"
        )
    return left / takers


# ---------------------------------------------------------------- parameters from outside

_RANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "unit": ("from 0 to 1", lambda v: (v >= 0) & (v <= 1)),
    "simplex": ("from 0 to 1", lambda v: (v >= 0) & (v <= 1)),
    "positive": ("above 0", lambda v: (v > 0) & np.isfinite(v)),
    "real": ("that is finite", np.isfinite),
}
# Probabilities of one choice may add up to so much more than they should: sums are rounded, and
# gradients are found by small differences.
_EXCESS = 1e-2


def check_parameters(step: StepProgram, given: Mapping[str, Any]) -> None:
    """Refuse numbers that are not those of the program's parameters.

    What JAX traces has a shape and no value yet.
    """
    if not isinstance(given, Mapping):
        raise NesymmError(
            f"parameters: expected a dictionary of numbers by name, received {type(given).__name__}"
        )
    declared = {p.name: p for p in step.parameters}
    values = {n: _checked(declared, n, v) for n, v in given.items()}
    for group in groups(step):
        known = [v for n in group.names if (v := values.get(n)) is not None]
        total = float(np.max(np.sum(known, axis=0))) if known else 0.0
        if total > group.mass + _EXCESS:
            raise NesymmError(
                f"parameters {', '.join(group.names)}: expected probabilities that add up "
                f"to at most {group.mass:g}, received {total:g}"
            )


def _checked(declared: Mapping[str, Parameter], name: str, value: Any) -> np.ndarray | None:
    """The value of a parameter; None where JAX traces it."""
    import jax

    if name not in declared:
        known = ", ".join(declared) or "none"
        raise NesymmError(f"the program has no parameter {name} (it has: {known})")
    parameter = declared[name]
    shape = tuple(a.size for a in parameter.axes)
    words, fits = _RANGES[parameter.constraint]
    expected = f"numbers of shape {shape}" if shape else "a number"
    needed = f"parameter {name}: expected {expected}"
    traced = isinstance(value, jax.core.Tracer)
    try:
        array = value if traced else np.asarray(value)
    except ValueError:
        raise NesymmError(f"{needed}, received lists of different lengths") from None
    if not any(jax.numpy.issubdtype(array.dtype, kind) for kind in (np.floating, np.integer)):
        raise NesymmError(f"{needed}, received {value!r:.80}")
    if array.shape != shape:
        raise NesymmError(f"{needed}, received shape {array.shape}")
    if traced:
        return None
    array = array.astype(float)
    if not np.all(fits(array)):
        wrong = array[~fits(array)].flat[0]
        raise NesymmError(located(f"{needed} {words}, received {wrong:g}", parameter.span))
    return array


# ---------------------------------------------------------------- free numbers

# Probabilities that start at 0 or 1, and what a disjunction leaves over where its starts add up
# to 1, start this far inside: at the boundary itself no free number stands for them. It is as
# little as sums of 32-bit numbers can tell from nothing, so that it can still be learnt.
EDGE = 2.0**-22


def free(step: StepProgram, values: Mapping[str, Any]) -> dict[str, Any]:
    """Unconstrained numbers for the parameters of a program."""
    import jax.numpy as jnp

    out: dict[str, Any] = {}
    grouped: set[str] = set()
    for group in groups(step):
        written = [jnp.asarray(values[n]) / max(group.mass, EDGE) for n in group.names]
        shares = [jnp.where(s > 0, s, EDGE) for s in written]
        # Relative to the slack, or to the first where there is none.
        base = jnp.maximum(1.0 - sum(written), EDGE) if group.slack else shares[0]
        for name, share in zip(group.names, shares, strict=True):
            out[name] = jnp.log(share) - jnp.log(base)
            grouped.add(name)
    for parameter in step.parameters:
        if parameter.name not in grouped:
            out[parameter.name] = _free(parameter, jnp.asarray(values[parameter.name]))
    return out


def bound(step: StepProgram, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that free numbers stand for."""
    import jax
    import jax.numpy as jnp

    out: dict[str, Any] = {}
    for group in groups(step):
        logits = [jnp.asarray(numbers[n]) for n in group.names]
        if group.slack:
            logits = [*logits, jnp.zeros_like(logits[0])]
        shares = jax.nn.softmax(jnp.stack(jnp.broadcast_arrays(*logits)), axis=0) * group.mass
        if group.slack:
            # Rounding must not take away what is left over.
            total = jax.lax.stop_gradient(jnp.sum(shares[:-1], axis=0))
            shares = shares * jnp.minimum(1.0, (1.0 - EDGE) * group.mass / jnp.maximum(total, EDGE))
        for name, share in zip(group.names, shares, strict=False):
            out[name] = share
    for parameter in step.parameters:
        if parameter.name not in out:
            out[parameter.name] = _bound(parameter, jnp.asarray(numbers[parameter.name]))
    return out


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as Python and NumPy have them."""
    return {n: np.asarray(v) if np.ndim(v) else float(v) for n, v in values.items()}


def _free(parameter: Parameter, value: Any) -> Any:
    import jax.numpy as jnp

    match parameter.constraint:
        case "unit" | "simplex":
            inside = jnp.where(value <= 0, EDGE, jnp.where(value >= 1, 1 - EDGE, value))
            return jnp.log(inside) - jnp.log1p(-inside)
        case "positive":
            # The inverse of softplus, without overflow.
            return value + jnp.log(-jnp.expm1(-value))
    return value


def _bound(parameter: Parameter, number: Any) -> Any:
    import jax
    import jax.numpy as jnp

    match parameter.constraint:
        case "unit" | "simplex":
            # A value that rounds to 1 would be certain for good: it keeps a gradient, and is less.
            value = jax.nn.sigmoid(number)
            return value - jax.lax.stop_gradient(jnp.maximum(value - (1 - EDGE), 0.0))
        case "positive":
            return jax.nn.softplus(number)
    return number
