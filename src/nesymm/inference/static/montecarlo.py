"""What has no closed form is sampled; the finite part stays exact given each sample.

With I the sampled variables and F the finite ones, P(q, e) is the mean over I of
P(q, e | I). Where the distribution of I depends on F, so does what I says about F:
the density p(I | F) enters as a weight, normalised by its own sum.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.inference.elimination.choices import PARTICLE
from nesymm.inference.named import Named, expand
from nesymm.inference.options import Key, as_key
from nesymm.inference.static.posterior import Posterior
from nesymm.inference.static.solver import Solver, impossible
from nesymm.inference.static.weights import Given, Leaves, log_masses_of
from nesymm.inference.tables import Tables
from nesymm.inference.weights import draw_infinite
from nesymm.inference.world import coded
from nesymm.ir.expr import FALSE
from nesymm.ir.step import RandomVariable

_DIMS = (PARTICLE,)


class _Sampler:
    """Draws variables ancestrally, each when it is first read."""

    def __init__(self, samples: int, key: Key):
        self.samples = samples
        self.key = as_key(key)

    def __call__(self, low: Tables, variable: RandomVariable) -> Named:
        self.key, key = jax.random.split(self.key)
        if variable.finite:
            table = log_masses_of(low, variable, variable.params)
            logits = expand(table, _DIMS)
            shape = (self.samples, logits.shape[-1])
            index = jax.random.categorical(key, jnp.broadcast_to(logits, shape))
            return Named(coded(variable, index), _DIMS)
        # It is drawn whether or not its guard holds, so its parameters must be kept valid.
        guarded = replace(variable, guard=FALSE)
        return draw_infinite(low, guarded, key, _DIMS, (self.samples,))


def estimate(solver: Solver, given: Given, samples: int, key: Key) -> Posterior:
    """Probabilities with standard errors, from samples of the infinite variables."""
    problem = solver.problem
    with jax.enable_x64(True):
        leaves = Leaves(problem.step, given, jnp, _Sampler(samples, key))
        low = Tables(leaves, np.float64)
        for variable in problem.sampled:
            if variable.name not in leaves.values:
                leaves.values[variable.name] = leaves.draw(low, variable)  # type: ignore[misc]
        drawn = {v.name: leaves.values[v.name] for v in problem.sampled}
        # What is finite is not sampled, but summed over given these draws.
        known = Leaves(problem.step, given, jnp)
        known.values = drawn
        row = expand(problem.weights.row(Tables(known, np.float64)), _DIMS)
        log_weights = jnp.broadcast_to(row, (samples, row.shape[-1]))
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
    return _posterior(solver, given, rank, relative, samples)


def _posterior(
    solver: Solver, given: Given, rank: int, relative: np.ndarray, samples: int
) -> Posterior:
    """Means over samples: `relative` are log-values of the roots, less what always holds."""
    top = relative[:, 1].max()
    evidence = np.exp(relative[:, 1] - top)
    with np.errstate(divide="ignore"):  # a query may hold in no sample
        logs = np.log(np.mean(np.exp(relative[:, 1:] - top), axis=0)) + top
    errors = {}
    for i, asked in enumerate(solver.problem.queries):
        both = np.exp(relative[:, 2 + i] - top)
        p = both.mean() / evidence.mean()
        residual = (both - p * evidence) / evidence.mean()
        errors[asked.name] = float(residual.std(ddof=1) / np.sqrt(samples))
    posterior = Posterior(solver, given, rank, np.concatenate([[0.0], logs]), errors)
    sampled = ", ".join(v.name for v in solver.problem.sampled)
    posterior.method = f"{solver.method}, {samples:,} samples of {sampled}"
    return posterior
