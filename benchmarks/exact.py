"""Exact inference beside ProbLog, in one run.

For each program: the first query, from text to answers in a process that has imported what
it needs, and the compiled model evaluated on 1,000 weight vectors, as time per vector.
ProbLog's SDD and d-DNNF pipelines are timed on the same text; its compiled model is
evaluated one by one, since it has no other way. Both compute in 64 bits; a row shows nesymm
in 32 bits. What is compared is timed in turns, and the best of all turns counts, so that
other work on the machine disturbs all alike. Ratios above 1 mean that nesymm is faster.

Compiling the batched evaluation to machine code happens once per model and is not part of
the time per vector; the last column shows it.

    python benchmarks/exact.py [--seed 0] [--repeat 5]
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from problog import get_evaluatable
from problog.errors import ProbLogError
from problog.program import PrologString

import nesymm

VECTORS = 1000
ROW = 4
OURS, SINGLE = "nesymm", "nesymm 32 bits"
PEERS = {"ProbLog SDD": "sdd", "ProbLog d-DNNF": "ddnnf"}


def smokers(rng: random.Random, people: int = 14, friends: int = 24) -> str:
    pairs = set()
    while len(pairs) < friends:
        a, b = rng.sample(range(people), 2)
        pairs.add((a, b))
    facts = "\n".join(f"friend({a},{b})." for a, b in sorted(pairs))
    return (
        "".join(f"person({i}).\n" for i in range(people))
        + facts
        + """
0.3::stress(X) :- person(X).
0.2::influences(X, Y) :- friend(X, Y).
smokes(X) :- stress(X).
smokes(X) :- influences(X, Y), smokes(Y).
0.4::asthma(X) :- smokes(X).
evidence(smokes(1)).
query(asthma(0)). query(smokes(2)).
"""
    )


def network(rng: random.Random, nodes: int = 12, edges: int = 30) -> str:
    """A ring, so that everything is reachable, with random links across."""
    chosen = {(i, (i + 1) % nodes) for i in range(nodes)}
    while len(chosen) < edges:
        a, b = rng.sample(range(nodes), 2)
        chosen.add((a, b))
    facts = "\n".join(f"{rng.uniform(0.2, 0.9):.2f}::edge({a},{b})." for a, b in sorted(chosen))
    return (
        facts
        + f"""
path(X, Y) :- edge(X, Y).
path(X, Y) :- edge(X, Z), path(Z, Y).
query(path(0, {nodes - 1})).
"""
    )


def cards(rng: random.Random) -> str:
    """Two cards of six for each of two players, with replacement; the higher sum wins."""
    deals = "\n".join(
        "; ".join(f"1/6::card({player},{i},{v})" for v in range(1, 7)) + "."
        for player in ("a", "b")
        for i in (1, 2)
    )
    return (
        deals
        + """
hand(P, S) :- card(P, 1, X), card(P, 2, Y), S is X + Y.
wins :- hand(a, S), hand(b, T), S > T.
pair(P) :- card(P, 1, X), card(P, 2, X).
query(wins). query(pair(a)).
"""
    )


def noisy_or(rng: random.Random, causes: int = 200) -> str:
    lines = [f"{rng.uniform(0.01, 0.2):.3f}::cause({i})." for i in range(causes)]
    lines += [f"{rng.uniform(0.01, 0.2):.3f}::effect :- cause({i})." for i in range(causes)]
    return "\n".join([*lines, "query(effect)."])


def in_turns(actions: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The shortest time of each action, all of them run in every round.

    An action runs a few times in a row, so that it does not pay for the caches that the
    others have filled.
    """
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(repeat):
        for name, action in actions.items():
            for _ in range(ROW):
                start = time.perf_counter()
                action()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def batched(solver: Any, dtype: str) -> tuple[Callable[[], object], float]:
    """The evaluation of all vectors, and how long its first run took."""
    weights = solver.problem.weights.constant
    noise = np.random.default_rng(0).normal(0, 0.1, (VECTORS, len(weights)))
    batch = jnp.asarray(weights + noise, dtype)
    compiled = jax.jit(lambda w: solver.circuit.log_values(w, jnp))

    def run() -> object:
        return jax.block_until_ready(compiled(batch))

    start = time.perf_counter()
    run()
    return run, time.perf_counter() - start


def compare(name: str, source: str, repeat: int) -> None:
    def ask() -> dict[str, float]:
        return nesymm.compile(source).infer(method="circuit").queries

    def ask_peer(method: str) -> dict[str, float]:
        found = get_evaluatable(method).create_from(PrologString(source)).evaluate()
        return {str(k): float(v) for k, v in found.items()}

    answers = ask()
    solver = nesymm.compile(source).solver(method="circuit")
    first: dict[str, Callable[[], object]] = {OURS: ask}
    each: dict[str, Callable[[], object]] = {}
    each[OURS], jit = batched(solver, "float64")
    each[SINGLE], jit_single = batched(solver, "float32")
    failed = {}
    for label, method in PEERS.items():
        try:
            for query, p in ask_peer(method).items():
                assert abs(answers[query] - p) < 1e-6, (name, query, answers[query], p)
            first[label] = partial(ask_peer, method)
            each[label] = get_evaluatable(method).create_from(PrologString(source)).evaluate
        except (ProbLogError, OSError) as error:
            failed[label] = f"does not run here: {type(error).__name__}"
    queried = in_turns(first, repeat)
    evaluated = in_turns(each, repeat)
    for ours in (OURS, SINGLE):
        evaluated[ours] /= VECTORS

    time_of, each_of = queried[OURS], evaluated[OURS]
    print(
        f"{name:<10}{OURS:<16}{1e3 * time_of:>10.1f} ms{'':>8}{1e6 * each_of:>12.2f} µs"
        f"{'':>9}{jit:>8.1f} s"
    )
    print(
        f"{'':<10}{SINGLE:<16}{'':>13}{'':>8}{1e6 * evaluated[SINGLE]:>12.2f} µs"
        f"{'':>9}{jit_single:>8.1f} s"
    )
    for label in PEERS:
        if label in failed:
            print(f"{'':<10}{label:<16}  {failed[label]}")
            continue
        print(
            f"{'':<10}{label:<16}{1e3 * queried[label]:>10.1f} ms{queried[label] / time_of:>8.1f}"
            f"{1e6 * evaluated[label]:>12.2f} µs{evaluated[label] / each_of:>9.0f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--repeat", type=int, default=5)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    programs = {"smokers": smokers, "graph": network, "cards": cards, "noisy-or": noisy_or}
    print(f"seed {given.seed}, best of {given.repeat} turns of {ROW}; {VECTORS} vectors at once")
    print(
        f"{'program':<10}{'system':<16}{'first query':>13}{'ratio':>8}"
        f"{'per vector':>15}{'ratio':>9}{'compiling':>10}"
    )
    for name, make in programs.items():
        compare(name, make(random.Random(given.seed)), given.repeat)


if __name__ == "__main__":
    main()
