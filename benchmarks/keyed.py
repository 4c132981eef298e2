"""A map for each sequence, beside one map for all of them that is written as facts.

A robot is somewhere in a room, knows of its own moves and of the bumps it hears, and filters
where it is. The room is data (`:- input(wall(key, key), 1..n, 1..n).`), another one for each
sequence, or it is the same one for all, as facts of the program. Both are timed in turns in one
run, from arrays in Python to results in Python, and the best of all turns counts, so that other
work on the machine disturbs both alike. Times are for compiled functions in 32 bits; compiling
has a column of its own. A ratio above 1 means that maps as data are slower.

    python benchmarks/keyed.py [--sequences 1000] [--side 15] [--steps 10] [--repeat 10]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import nesymm
from nesymm import Bootstrap, ExactForward, RaoBlackwellised

INPUT = ":- input(wall(key, key), 1..n, 1..n).\n"
RULES = """
:- const(n, 15).
:- input(go(D)@t, [north, east, south, west]).
column(X)@0 ~ uniform_int(1, n).
row(Y)@0 ~ uniform_int(1, n).
ahead(north, 0, 1). ahead(east, 1, 0). ahead(south, 0, -1). ahead(west, -1, 0).
0.9::moves@t.
at(X, Y)@0 :- column(X)@0, row(Y)@0.
at(X, Y)@t :- at(A, B)@(t-1), go(D)@t, ahead(D, U, V), moves@t,
    X is max(1, min(n, A + U)), Y is max(1, min(n, B + V)), not wall(X, Y).
at(A, B)@t :- at(A, B)@(t-1), go(D)@t, ahead(D, U, V), not moves@t.
at(A, B)@t :- at(A, B)@(t-1), go(D)@t, ahead(D, U, V), moves@t,
    X is max(1, min(n, A + U)), Y is max(1, min(n, B + V)), wall(X, Y).
0.9::bump@t :- at(X, Y)@t, wall(X, min(n, Y + 1)).
0.1::bump@t.
observe(bump@t).
query(at(8, 8)@t).
"""
PARTICLES = 100
# Exact inference goes through all places at each step, and takes much longer.
METHODS: dict[str, tuple[nesymm.Method, int]] = {
    "exact forward": (ExactForward(), 3),
    "Rao-Blackwellised": (RaoBlackwellised(particles=PARTICLES), 1),
    "bootstrap": (Bootstrap(particles=PARTICLES), 1),
}


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_turns(actions: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """The shortest time of each action, all of them run in every round."""
    rounds = [[timed(a) for a in actions] for _ in range(repeat)]
    return [min(times) for times in zip(*rounds, strict=True)]


def filters(args: argparse.Namespace) -> tuple[Callable[[nesymm.Method], Any], ...]:
    """The filter with one map as facts, and with a map for each sequence; the first sequence has
    the same map in both."""
    random = np.random.default_rng(0)
    shape = (args.sequences, args.steps)
    walls = random.random((args.sequences, args.side, args.side)) < 0.25
    data = {"go": random.integers(0, 4, shape), "bump": random.random(shape) < 0.3}
    facts = "\n".join(f"wall({x + 1}, {y + 1})." for x, y in np.argwhere(walls[0]))
    size = {"n": args.side}
    shared = nesymm.compile(facts + "\n" + RULES, constants=size)
    keyed = nesymm.compile(INPUT + RULES, constants=size)

    def with_facts(method: nesymm.Method) -> Any:
        return shared.filter(data, method=method, errors="keep")

    def with_maps(method: nesymm.Method) -> Any:
        return keyed.filter({**data, "wall": walls}, method=method, errors="keep")

    return with_facts, with_maps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--side", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=10)
    args = parser.parse_args()
    # How well so few particles do is not the question.
    warnings.simplefilter("ignore", nesymm.NesymmWarning)
    print(f"{args.sequences} sequences of {args.steps} steps, {args.side} x {args.side} places")
    print(f"{'':20}{'compiling (s)':>22}{'filtering (ms)':>22}{'ratio':>8}")
    print(f"{'':20}{'facts':>11}{'maps':>11}{'facts':>11}{'maps':>11}")
    both = filters(args)
    for name, (method, slower) in METHODS.items():
        actions = [partial(f, method) for f in both]
        compiling = [timed(a) for a in actions]
        # The first sequence has the same map in both.
        one, other = (a().log_evidence[0] for a in actions)
        same = np.isclose(one, other, rtol=1e-4, equal_nan=True)
        facts, maps = in_turns(actions, max(1, args.repeat // slower))
        print(
            f"{name:20}{compiling[0]:11.1f}{compiling[1]:11.1f}{1e3 * facts:11.1f}"
            f"{1e3 * maps:11.1f}{maps / facts:8.2f}{'' if same else '  log-evidence: DIFFER'}"
        )


if __name__ == "__main__":
    main()
