"""Small groups in a program for large ones, beside the program for small ones.

People infect each other in groups; who belongs to a group is data (`:- input(person(key), 1..n).`).
A program that is compiled for more people than a group has goes through all places, taken or not.
The same groups are filtered by the program for their size and by those for larger ones; both are
timed in turns, compiled, from arrays in Python to results in Python, and the best of all turns
counts. Compiling has a column of its own.

    python benchmarks/groups.py [--groups 100] [--people 5] [--room 10 50] [--steps 12] [--repeat 5]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import nesymm
from nesymm import Bootstrap, ExactForward, RaoBlackwellised

PROGRAM = """
:- const(n, 5).
:- input(person(key), 1..n).
:- input(friend(key, key), 1..n, 1..n).
0.3::ill(P)@0 :- person(P).
0.7::ill(P)@t :- ill(P)@(t-1).
0.05::ill(P)@t :- person(P).
0.1::ill(P)@t :- friend(P, Q), ill(Q)@(t-1).
0.8::fever(P)@t :- ill(P)@t.
0.1::fever(P)@t :- person(P).
observe(fever(P)@t).
query(ill(P)@t) :- person(P).
"""
METHODS: dict[str, nesymm.Method] = {
    "Rao-Blackwellised": RaoBlackwellised(particles=100),
    "bootstrap": Bootstrap(particles=100),
    "exact forward": ExactForward(),
}


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def groups(args: argparse.Namespace, room: int) -> dict[str, np.ndarray]:
    """The groups in arrays with a place for so many people; one person in three is asked."""
    random = np.random.default_rng(0)
    count, people = args.groups, args.people
    friend = np.zeros((count, room, room), bool)
    friend[:, :people, :people] = random.random((count, people, people)) < 0.4
    fever = np.full((count, args.steps, room), np.nan)
    asked = random.random((count, args.steps, people)) < 0.3
    answers = random.random((count, args.steps, people)) < 0.3
    fever[:, :, :people] = np.where(asked, answers, np.nan)
    person = np.broadcast_to(np.arange(room) < people, (count, room))
    return {"person": person, "friend": friend, "fever": fever}


def measured(args: argparse.Namespace, name: str) -> None:
    """A row for each size of the program that the method can do."""
    actions: dict[int, Callable[[], nesymm.Filtered]] = {}
    compiling: dict[int, float] = {}
    small = nesymm.compile(PROGRAM, constants={"n": args.people})
    for room in (args.people, *args.room):
        model = small.with_constants(n=room)
        action = partial(model.filter, groups(args, room), method=METHODS[name], errors="keep")
        try:
            compiling[room] = timed(action)
        except nesymm.NesymmError:
            print(f"{name:20}{room:8}   refused: the tables are too large")
            continue
        actions[room] = action
    rounds = [[timed(a) for a in actions.values()] for _ in range(args.repeat)]
    best = dict(zip(actions, map(min, zip(*rounds, strict=True)), strict=True))
    right = actions[args.people]().log_evidence
    for room, seconds in best.items():
        ratio = seconds / best[args.people]
        exact = isinstance(METHODS[name], ExactForward)
        same = not exact or np.allclose(actions[room]().log_evidence, right, rtol=1e-4)
        print(
            f"{name:20}{room:8}{compiling[room]:16.1f}{1e3 * seconds:16.1f}{ratio:8.1f}"
            f"{'' if same else '  log-evidence: DIFFER'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--people", type=int, default=5)
    parser.add_argument("--room", type=int, nargs="*", default=[10, 50])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    # How well so few particles do is not the question.
    warnings.simplefilter("ignore", nesymm.NesymmWarning)
    print(f"{args.groups} groups of {args.people} people, {args.steps} steps")
    print(f"{'':20}{'room for':>8}{'compiling (s)':>16}{'filtering (ms)':>16}{'ratio':>8}")
    for name in METHODS:
        measured(args, name)


if __name__ == "__main__":
    main()
