"""Learning the same program by exact inference and by particles: what is reached, and when.

    python benchmarks/learning.py [--sequences 1000] [--epochs 20] [--particles 30] [--size 3]

An enemy walks around a ring by a hidden policy, a network; a hit has a hidden chance. Both
are learnt from hits alone. The table has the mean log-likelihood of unseen sequences, and the
seconds of training: those of the first epoch include compilation.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np
import optax

import nesymm
from nesymm import MLP, ExactForward, Method, RaoBlackwellised, fit

PROGRAM = """
:- const(n, 3).
:- input(agent(X)@t, 0..(n-1)).
:- network(policy, 3).
enemy(0)@0.
move(M)@t ~ categorical(policy(E), [0, 1, 2]) :- enemy(E)@(t-1).
enemy(N)@t :- enemy(E)@(t-1), move(M)@t, N is (E + M) mod n.
t(0.5)::hit@t :- enemy(E)@t, agent(E)@t.
observe(hit@t).
"""


def simulate(size: int, count: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    """Sequences of a true policy that depends on the place, and a hit chance of 0.8."""
    rng = np.random.default_rng(seed)
    logits = np.random.default_rng(0).normal(size=(size, 3))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    agent = rng.integers(0, size, size=(count, steps))
    enemy = np.zeros(count, int)
    hits = np.zeros((count, steps))
    for t in range(steps):
        if t:
            enemy = (enemy + [rng.choice(3, p=chances[e]) for e in enemy]) % size
        hits[:, t] = (enemy == agent[:, t]) & (rng.random(count) < 0.8)
    return {"agent": agent, "hit": hits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--particles", type=int, default=30)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    data = simulate(args.size, args.sequences, args.steps, seed=1)
    test = simulate(args.size, args.sequences, args.steps, seed=2)
    policy = MLP(1, 3, 32, 2, key=jax.random.key(0), scale=1 / args.size)
    model = nesymm.compile(PROGRAM, constants={"n": args.size}, networks={"policy": policy})

    def reached(trained: nesymm.Model) -> np.ndarray:
        return np.asarray(trained.log_evidence(test, method="exact"), float)

    start = reached(model)
    print(f"{'method':<36}{'test log-likelihood':>20}{'hit chance':>12}{'seconds':>10}")
    print(f"{'before':<36}{start.mean():>20.4f}{model.parameters['hit']:>12.3f}")
    methods: list[Method] = [ExactForward(), RaoBlackwellised(particles=args.particles)]
    found = []
    for method in methods:
        begin = time.perf_counter()
        fitted = fit(
            model, data, method=method, epochs=args.epochs, batch_size=100, progress=False,
            optimizer=optax.adam(1e-2),
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        found.append(reached(fitted.model))
        chance = fitted.model.parameters["hit"]
        print(f"{method!s:.34}".ljust(36), end="")
        print(f"{found[-1].mean():>20.4f}{chance:>12.3f}{seconds:>10.1f}")
    gap = found[1] - found[0]
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    print(f"particles - exact: {gap.mean():.4f} ± {error:.4f} (standard error, paired)")


if __name__ == "__main__":
    main()
