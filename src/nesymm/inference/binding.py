"""Networks and parameters for a run: what can be tabulated beforehand is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from nesymm.inference.densities import log_masses
from nesymm.inference.named import Named
from nesymm.inference.networks import Networks
from nesymm.inference.plan import Plan
from nesymm.inference.world import Binding, call_network, lift_key
from nesymm.ir.expr import Expr, leaves
from nesymm.ir.types import Int, is_finite, size


def bind(
    plans: tuple[Plan, ...], parameters: Mapping[str, Any], networks: Mapping[str, Any], calls: int
) -> Binding:
    networks = Networks(plans[0].step, networks)
    lifted: dict[tuple, Named] = {}
    for plan in plans:
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
