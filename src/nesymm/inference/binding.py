"""Networks and parameters for a run: what can be tabulated beforehand is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from nesymm.inference.densities import log_masses
from nesymm.inference.lifting import finite_arguments, on_grid, values
from nesymm.inference.named import Named
from nesymm.inference.networks import Networks
from nesymm.inference.plan import Plan
from nesymm.inference.world import Binding, call_network, lift_key
from nesymm.ir.expr import Expr, leaves


def bind(
    plans: tuple[Plan, ...], parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
) -> Binding:
    networks = Networks(plans[0].step, networks)
    lifted: dict[tuple, Named] = {}
    for plan in plans:
        for node in leaves(everything(plan), "neural"):
            finite = finite_arguments(node, {})
            if not finite or len(finite) < len(node.args) or lift_key(node) in lifted:
                continue
            if values(finite) <= calls:
                grid = on_grid(node.args, finite)
                lifted[lift_key(node)] = call_network(networks, node.data[0], grid)
    # What a network says of outcomes is normalised once, not for every particle.
    normalised: dict[tuple, Named] = {}
    for variable in (v for plan in plans for v in plan.variables.values()):
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
