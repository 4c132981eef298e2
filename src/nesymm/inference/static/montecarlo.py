"""What has no closed form is sampled; the finite part stays exact given each sample.

With I the sampled variables and F the finite ones, P(q, e) is the mean over I of
P(q, e | I). Where the distribution of I depends on F, so does what I says about F:
the density p(I | F) enters as a weight, normalised by its own sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nesymm.inference.densities import constrain, draw_vectors, log_masses, sound
from nesymm.inference.lower import Lowering
from nesymm.inference.named import Named, deepen, expand
from nesymm.inference.networks import call
from nesymm.inference.options import Key, as_key
from nesymm.inference.static.posterior import Posterior
from nesymm.inference.static.solver import Solver, impossible
from nesymm.inference.static.weights import Given
from nesymm.ir.expr import Expr
from nesymm.ir.step import RandomVariable
from nesymm.language.families import FAMILIES

_PARTICLE = "particle"


class _Sampler:
    """Draws all variables ancestrally; a `Leaves` over the particle dimension."""

    def __init__(self, given: Given, variables: dict[str, RandomVariable], n: int, key: Any):
        self.given = given
        self.variables = variables
        self.n = n
        self.key = key
        self.drawn: dict[str, Named] = {}

    def leaf(self, low: Lowering, expr: Expr, keys: tuple[Named, ...]) -> Named:
        if expr.op == "rv":
            if expr.data not in self.drawn:
                self.drawn[expr.data] = self._draw(low, self.variables[expr.data])
            return self.drawn[expr.data]
        if expr.op == "neural" and any(k.dims for k in keys):
            import jax

            name = expr.data[0]
            network = self.given.networks[name]

            def one(*args: Any) -> Any:
                return call(jax.numpy, name, network, args)

            mapped = jax.vmap(one, in_axes=[0 if k.dims else None for k in keys])
            result = mapped(*(k.array for k in keys))
            return Named(self.given.network_output(low.xp, expr, result, (self.n,)), (_PARTICLE,))
        return self.given.leaf(low, expr, keys)

    def _draw(self, low: Lowering, variable: RandomVariable) -> Named:
        import jax

        self.key, key = jax.random.split(self.key)
        if variable.finite:
            return self._draw_finite(low, variable, key)
        import numpyro.distributions as dist

        params = self._parameters(low, variable)
        if variable.family == "multivariate_normal":
            noise = jax.random.normal(key, (self.n, params[0].shape[-1]), low.real)
            return Named(draw_vectors(low.xp, noise, *params), (_PARTICLE,))
        made = make_distribution(dist, variable.family, params)
        return Named(made.sample(key, (self.n,) if not made.batch_shape else ()), (_PARTICLE,))

    def _parameters(self, low: Lowering, variable: RandomVariable) -> list[Any]:
        jnp = low.xp
        family = FAMILIES[variable.family]
        if variable.neural:
            whole = low.value(variable.params[0])  # type: ignore[arg-type]
            flat = whole.array.reshape(*whole.array.shape[: len(whole.dims)], -1)
            columns = [flat[..., i] for i in range(len(family.params))]
            values = [
                constrain(jnp, c, x) for c, x in zip(family.constraints, columns, strict=True)
            ]
            return [jnp.broadcast_to(v, (self.n,)) for v in values]
        given = [low.value(p) for p in variable.params if isinstance(p, Expr)]
        known = sound(jnp, variable.family, tuple(expand(jnp, v, (_PARTICLE,)) for v in given))
        if variable.family == "multivariate_normal":
            return list(known)
        depth = max(v.ndim for v in known)
        wide = [deepen(jnp, v, depth) for v in known]
        shape = jnp.broadcast_shapes(*(v.shape for v in wide), (self.n, *(1,) * (depth - 1)))
        return [jnp.broadcast_to(v, shape) for v in wide]

    def _draw_finite(self, low: Lowering, variable: RandomVariable, key: Any) -> Named:
        import jax

        params = variable.params[:1] if variable.family == "categorical" else variable.params

        def spread(e: Expr) -> Any:
            return low.xp.broadcast_to(expand(low.xp, low.value(e), (_PARTICLE,)), (self.n,))

        if variable.neural:
            assert isinstance(params[0], Expr)
            arrays: tuple = (low.value(params[0]).array,)
            if variable.family == "bernoulli":
                arrays = (arrays[0].reshape(-1),)
        else:
            arrays = tuple(
                tuple(spread(e) for e in p) if isinstance(p, tuple) else spread(p) for p in params
            )
        if variable.family in ("uniform_int", "binomial"):
            arrays = tuple(a[:, None] for a in arrays)
        logits = log_masses(low.xp, variable.family, arrays, variable.outcomes, variable.neural)
        index = jax.random.categorical(key, low.xp.broadcast_to(logits, (self.n, logits.shape[-1])))
        codes = [_code(variable, v) for v in variable.outcomes]
        return Named(low.xp.asarray(codes)[index], (_PARTICLE,))


def _code(variable: RandomVariable, value: Any) -> Any:
    from nesymm.ir.types import Enum

    return variable.type.values.index(value) if isinstance(variable.type, Enum) else value


def make_distribution(dist: Any, family: str, params: list[Any]) -> Any:
    """A NumPyro distribution for an infinite family."""
    names = {
        "normal": dist.Normal,
        "uniform": dist.Uniform,
        "exponential": dist.Exponential,
        "gamma": dist.Gamma,
        "beta": dist.Beta,
        "poisson": dist.Poisson,
        "geometric": dist.Geometric,
        "laplace": dist.Laplace,
        "lognormal": dist.LogNormal,
        "student_t": dist.StudentT,
    }
    # Where a variable is not drawn, its parameters may be none.
    return names[family](*params, validate_args=False)


def estimate(solver: Solver, given: Given, samples: int, key: Key) -> Posterior:
    """Probabilities with standard errors, from samples of the infinite variables."""
    import jax
    import jax.numpy as jnp

    problem = solver.problem
    with jax.enable_x64(True):
        variables = {v.name: v for v in problem.step.variables}
        given = replace(given, outputs=problem.weights.outputs)
        sampler = _Sampler(given, variables, samples, as_key(key))
        low = Lowering(jnp, sampler)
        for variable in problem.sampled:
            if variable.name not in sampler.drawn:
                sampler.drawn[variable.name] = sampler._draw(low, variable)
        drawn = {v.name: sampler.drawn[v.name].array for v in problem.sampled}

        def one(values: dict[str, Any]) -> Any:
            here = Given(given.parameters, given.networks, given.inputs, values)
            return problem.weights(here, jnp)

        log_weights = jax.vmap(one)(drawn)
        problem.weights.refuse_nan(np.asarray(log_weights))
        for rank in range(len(problem.evidences)):
            values = np.asarray(solver.backend(rank).log_values(log_weights, jnp))
            relative = values - values[:, :1]
            if np.any(relative[:, 1] > -np.inf):
                solver.refuse_faults(log_weights, rank, jnp)
                break
        else:
            raise impossible(
                problem,
                f"none of {samples:,} samples explains the evidence: it is impossible, or too "
                "rare for this many samples",
            )
    top = relative[:, 1].max()
    evidence = np.exp(relative[:, 1] - top)
    with np.errstate(divide="ignore"):  # a query may hold in no sample
        logs = np.log(np.mean(np.exp(relative[:, 1:] - top), axis=0)) + top
    log_values = np.concatenate([[0.0], logs])
    errors = {}
    for i, asked in enumerate(problem.queries):
        both = np.exp(relative[:, 2 + i] - top)
        p = both.mean() / evidence.mean()
        residual = (both - p * evidence) / evidence.mean()
        errors[asked.name] = float(residual.std(ddof=1) / np.sqrt(samples))
    posterior = Posterior(solver, given, rank, log_values, errors)
    posterior.method = f"{solver.method}, {samples:,} samples of " + ", ".join(
        v.name for v in problem.sampled
    )
    return posterior
