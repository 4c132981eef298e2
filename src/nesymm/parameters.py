"""Learnable numbers: where they start, and how they move without leaving their range.

A program's `t(_)` are kept as what they mean (a probability, a scale). Optimisers move
free numbers: `free` and `bound` translate. Probabilities of one choice that must add up
move together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesymm.compiler.algebra import is_const
from nesymm.compiler.step import Parameter, StepProgram
from nesymm.errors import NesymmError


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


# ---------------------------------------------------------------- free numbers


def free(step: StepProgram, values: Mapping[str, Any]) -> dict[str, Any]:
    """Unconstrained numbers for the parameters of a program."""
    import jax.numpy as jnp

    out: dict[str, Any] = {}
    grouped: set[str] = set()
    for group in groups(step):
        shares = [jnp.asarray(values[n]) / group.mass for n in group.names]
        # Relative to the slack, or to the first where there is none.
        base = 1.0 - sum(shares) if group.slack else shares[0]
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
        for name, share in zip(group.names, shares, strict=False):
            out[name] = share
    for parameter in step.parameters:
        if parameter.name not in out:
            out[parameter.name] = _bound(parameter, jnp.asarray(numbers[parameter.name]))
    return out


def _free(parameter: Parameter, value: Any) -> Any:
    import jax.numpy as jnp

    match parameter.constraint:
        case "unit" | "simplex":
            return jnp.log(value) - jnp.log1p(-value)
        case "positive":
            # The inverse of softplus, without overflow.
            return value + jnp.log(-jnp.expm1(-value))
    return value


def _bound(parameter: Parameter, number: Any) -> Any:
    import jax

    match parameter.constraint:
        case "unit" | "simplex":
            return jax.nn.sigmoid(number)
        case "positive":
            return jax.nn.softplus(number)
    return number
