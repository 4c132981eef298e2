"""How much the estimators of gradients vary: mean and standard deviation per parameter.

Gradients of the probability of a query at the last step, in every parameter, on two programs
whose evidence comes first. `python benchmarks/gradients.py [--particles 32]`
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import nesymm
from nesymm import ExactForward, Method, RaoBlackwellised

WEATHER = """
    t(0.3)::rain@0.
    t(0.7)::rain@t :- rain@(t-1).
    t(0.2)::rain@t :- not rain@(t-1).
    0.9::umbrella@t :- rain@t.
    t(0.25)::umbrella@t :- not rain@t.
    observe(umbrella@0, true).
    query(rain@T).
"""
WALK = """
    at(X)@0 ~ uniform_int(0, 2).
    t(0.6)::right@t.
    t(0.1)::jump@t :- at(2)@(t-1).
    at(Y)@t :- at(X)@(t-1), right@t, not jump@t, Y is min(X + 1, 4).
    at(Y)@t :- at(X)@(t-1), not right@t, not jump@t, Y is max(X - 1, 0).
    at(0)@t :- at(X)@(t-1), jump@t.
    t(0.8)::warm@t :- at(X)@t, X < 2.
    0.3::warm@t :- at(X)@t, X >= 2.
    observe(warm@0, true).
    goal@t :- at(4)@t.
    query(goal@T).
"""
PROGRAMS = {"weather": (WEATHER, "rain@T"), "walk": (WALK, "goal@T")}


def gradients(
    name: str, method: Method, estimator: str, horizon: int, batch: int, seed: int
) -> dict[str, np.ndarray]:
    """Independent estimates of the gradient of a query's probability, per parameter."""
    text, query = PROGRAMS[name]
    model = nesymm.compile(text)
    at = {k: jnp.asarray(v, jnp.result_type(float)) for k, v in model.parameters.items()}
    length = np.full(batch, horizon + 1)

    @jax.jit
    def along(direction: dict[str, Any], key: Any) -> Any:
        def answer(parameters: dict[str, Any]) -> Any:
            return (
                model.with_parameters(parameters)
                .estimate(
                    method=method,
                    steps=length,
                    key=key,
                    estimator=estimator,
                )
                .probability(query)
            )

        return jax.jvp(answer, (at,), (direction,))[1]

    return {
        n: np.asarray(along({m: jnp.float32(m == n) for m in at}, jax.random.key(seed))) for n in at
    }


def table(name: str, particles: int, horizon: int, batch: int, seed: int) -> Table:
    method = RaoBlackwellised(particles=particles, resample_below=0.0, recursion="paper")
    rows: dict[str, tuple[Method, str, int]] = {
        "exact": (ExactForward(), "surrogate", 2),
        "surrogate": (RaoBlackwellised(particles=particles), "surrogate", batch),
        "RLOO": (method, "rloo", batch),
        "recursive RLOO": (method, "recursive_rloo", batch),
        "score": (method, "score", batch),
    }
    title = f"{name}: horizon {horizon}, {particles} particles, {batch} estimates"
    out = Table(title=title, title_justify="left")
    out.add_column("estimator")
    for i, (label, (how, estimator, count)) in enumerate(rows.items()):
        found = gradients(name, how, estimator, horizon, count, seed)
        if i == 0:
            for parameter in found:
                out.add_column(parameter, justify="right")
        out.add_row(label, *(f"{x.mean():+.4f} ± {x.std():.4f}" for x in found.values()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--horizon", type=int, default=5)
    parser.add_argument("--estimates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console(width=120)
    start = time.perf_counter()
    for name in PROGRAMS:
        console.print(
            table(name, options.particles, options.horizon, options.estimates, options.seed)
        )
    console.print(f"mean ± standard deviation of one estimate; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
