"""Grounding: how long compiling takes, and what it grows with.

1. Transitive closure over a random graph of 200 nodes and 600 uncertain edges, with
   10,000 unrelated facts beside it: one pair, one source, all pairs; right and left
   recursion; ProbLog's grounder beside it for the single pair and the single source.
2. The paper's discriminative rules on growing grids with growing numbers of enemies.

    python benchmarks/grounding.py [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import nesymm

EXAMPLES = Path(__file__).parent.parent / "examples" / "paper"
RIGHT = "path(X, Y) :- edge(X, Y).\npath(X, Y) :- edge(X, Z), path(Z, Y).\n"
LEFT = "path(X, Y) :- edge(X, Y).\npath(X, Y) :- path(X, Z), edge(Z, Y).\n"


def graph(seed: int, nodes: int = 200, edges: int = 600, unrelated: int = 10_000) -> str:
    rng = random.Random(seed)
    chosen: set[tuple[int, int]] = set()
    while len(chosen) < edges:
        chosen.add((rng.randrange(nodes), rng.randrange(nodes)))
    facts = [f"{rng.uniform(0.05, 0.95):.3f}::edge({a},{b})." for a, b in sorted(chosen)]
    facts += [f"unrelated({i},{i * i})." for i in range(unrelated)]
    return "\n".join(facts) + "\n"


def closure(seed: int) -> None:
    print("transitive closure, 200 nodes, 600 uncertain edges, 10,000 other facts")
    print(f"{'query':<14}{'recursion':<11}{'compile':>9}{'ProbLog':>9}")
    facts = graph(seed)
    for query in ("path(0,199)", "path(0,X)", "path(X,Y)"):
        for name, rules in (("right", RIGHT), ("left", LEFT)):
            source = facts + rules + f"query({query}).\n"
            start = time.perf_counter()
            nesymm.compile(source)
            seconds = time.perf_counter() - start
            peer = problog_seconds(source) if query != "path(X,Y)" else None
            shown = "–" if peer is None else f"{peer:.2f} s"
            print(f"{query:<14}{name:<11}{seconds:>7.2f} s{shown:>9}")


def problog_seconds(source: str) -> float | None:
    """ProbLog's parsing and grounding of the same text; None where it is not installed."""
    try:
        from problog.engine import DefaultEngine
        from problog.formula import LogicFormula
        from problog.program import PrologString
    except ImportError:
        return None
    start = time.perf_counter()
    LogicFormula.create_from(PrologString(source), engine=DefaultEngine())
    return time.perf_counter() - start


def rules() -> None:
    print("\nthe discriminative rules of the paper")
    print(f"{'grid':>10}{'enemies':>9}{'nodes':>8}{'compile':>12}")
    source = (EXAMPLES / "discriminative.nsl").read_text(encoding="utf-8")
    nesymm.compile(source)  # load the parser
    for n in (10, 100, 1000):
        for enemies in (1, 2, 20):
            start = time.perf_counter()
            model = nesymm.compile(source, constants={"n": n, "enemies": enemies})
            seconds = time.perf_counter() - start
            print(
                f"{f'{n}×{n}':>10}{enemies:>9}{len(model.step.nodes()):>8}{1000 * seconds:>9.0f} ms"
            )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    closure(options.parse_args().seed)
    rules()
