"""The probabilities of what a program asks while it is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from nesymm.ir.step import StepProgram


def probabilities(step: StepProgram) -> Mapping[str, float]:
    """Those of the queries, for a program without time, parameters, inputs and densities."""
    from nesymm.inference.static.infer import infer
    from nesymm.inference.static.problem import Problem
    from nesymm.inference.static.solver import Solver
    from nesymm.inference.static.weights import Given

    solver = Solver.compile(Problem(step, frozenset()))
    return infer(solver, Given(), samples=1, key=0).queries
