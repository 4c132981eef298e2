"""What is traced depends on program, method and layout alone: a resumed run is compiled to what
the uninterrupted one was, and ends bit for bit where that would have."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import nesymm
from nesymm.inference.data import prepare
from nesymm.inference.loop import to_arrays
from nesymm.inference.methods import Bootstrap, ExactForward, Method, RaoBlackwellised

# The first step knows that nobody is ill; later it is uncertain, and couples all three.
PROGRAM = """
ill(E)@t :- ill(E)@(t-1).
t(0.2)::ill(E)@t :- between(1, 3, E), start(E)@(t-1).
0.3::ill(E)@t :- ill(F)@(t-1), between(1, 3, E), E \\= F.
0.1::start(E)@t :- between(1, 3, E).
fever@t :- aggregate_all(count, ill(E)@t, N), N > 1.
x@t ~ normal(1, 1) :- fever@t.
x@t ~ normal(-1, 2) :- not fever@t.
observe(x@t).
query(fever@t).
"""
METHODS = (ExactForward(), RaoBlackwellised(particles=3), Bootstrap(particles=3))


def traces(method: Method, times: int) -> list[str]:
    """The gradient of the log-evidence, lowered as often, by the same engine."""
    model = nesymm.compile(PROGRAM)
    run = model._filter(method)
    sequences = prepare(model.step, {"x": np.zeros((2, 5))}, None)
    parameters = {n: np.float32(v) for n, v in model.parameters.items()}

    def lowered() -> str:
        def evidence(numbers, arrays, key):  # type: ignore[no-untyped-def]
            found = run.estimate_of(sequences, arrays, numbers, {}, key, "surrogate", True)
            return found.log_evidence.sum()

        arguments = (parameters, to_arrays(sequences), jax.random.key(0))
        return jax.jit(jax.grad(evidence)).lower(*arguments).as_text()

    return [lowered() for _ in range(times)]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_trace_does_not_depend_on_those_before_it(method: Method) -> None:
    first, second = traces(method, 2)
    assert first == second


@pytest.mark.compiled
def test_a_trace_does_not_depend_on_the_order_of_sets() -> None:
    own = "from inference.test_traces import *; print(traces(METHODS[0], 1)[0])"

    def in_process(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", own], env=env, capture_output=True, text=True, check=True
        )
        return run.stdout

    assert in_process("1") == in_process("2") != ""
