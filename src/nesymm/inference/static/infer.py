"""Static inference: from a problem to a posterior."""

from __future__ import annotations

import numpy as np

from nesymm.inference.options import Key
from nesymm.inference.static.montecarlo import estimate
from nesymm.inference.static.posterior import Posterior
from nesymm.inference.static.solver import EVIDENCE, PROBABILITY_ZERO, Solver, impossible
from nesymm.inference.static.weights import Given


def infer(solver: Solver, given: Given, samples: int, key: Key) -> Posterior:
    """The posterior of a compiled problem, exactly where it can be."""
    solver.refuse_parameters(given)
    if solver.problem.sampled:
        return estimate(solver, given, samples, key)
    weights = solver.weights(given)
    for rank in range(len(solver.problem.evidences)):
        values = np.asarray(solver.backend(rank).log_values(weights, np))
        if values[EVIDENCE] > -np.inf:
            solver.refuse_faults(weights, rank)
            return Posterior(solver, given, rank, values)
    raise impossible(solver.problem, PROBABILITY_ZERO)
