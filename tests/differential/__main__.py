"""`python -m differential --seconds 60 --seed 0`: random programs against the oracles."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from differential.work import one, prepare, smaller

PROGRAMS_PER_PROCESS = 150
EXAMPLES_OF_A_KIND = 2
OUT = Path("out/fuzz")


class Report:
    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self.features: Counter[str] = Counter()
        self.marks: Counter[tuple[str, ...]] = Counter()
        self.first: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self.programs = 0
        self.began = time.monotonic()

    def add(self, done: dict[str, Any]) -> list[tuple[int, str, tuple[str, ...]]]:
        """Counts; returns the failures that should be shrunk."""
        self.programs += 1
        self.features.update(done["features"])
        out = []
        for route, kind, text, mark in done["verdicts"]:
            self.counts[route][kind] += 1
            if kind == "refused":
                self.reasons[route][mark[-1]] += 1
            if kind == "skipped":
                self.reasons[route][text] += 1
            fault = kind in ("wrong", "crashed") or (kind == "refused" and large(mark[-1]))
            if fault or (kind == "refused" and route == "compile"):
                self.marks[mark] += 1
                self.first[mark].append(done["seed"])
                if self.marks[mark] <= EXAMPLES_OF_A_KIND:
                    out.append((done["seed"], route, mark))
        return out

    @property
    def bad(self) -> int:
        return sum(c["wrong"] + c["crashed"] for c in self.counts.values())

    def line(self) -> str:
        spent = time.monotonic() - self.began
        return (
            f"{self.programs} programs, {spent:.0f} s, {spent / max(1, self.programs):.2f} s each, "
            f"{self.bad} wrong or crashed"
        )

    def text(self) -> str:
        kinds = ("agreed", "refused", "skipped", "wrong", "crashed")
        lines = [self.line(), "", f"{'route':20}" + "".join(f"{k:>10}" for k in kinds)]
        for route in sorted(self.counts):
            row = self.counts[route]
            lines.append(f"{route:20}" + "".join(f"{row[k]:>10}" for k in kinds))
        lines += ["", "refused or skipped:"]
        for route in sorted(self.reasons):
            for why, n in self.reasons[route].most_common(12):
                fault = "   <- a fault: the program is small" if large(why) else ""
                lines.append(f"  {n:6} {route}: {why}{fault}")
        lines += ["", "kinds of failure, with seeds:"]
        for mark, n in self.marks.most_common():
            lines.append(f"  {n:6} {' | '.join(mark)}   {self.first[mark][:6]}")
        lines += ["", "features, share of programs:"]
        for name, n in sorted(self.features.items()):
            lines.append(f"  {n / max(1, self.programs):6.1%} {name}")
        return "\n".join(lines) + "\n"


def large(why: str) -> bool:
    return any(
        word in why for word in ("too many joint values", "too large", "a table of", "more than")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=10**9)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--routes", default="", help="comma-separated; all programs take these")
    parser.add_argument("--feature", default="", help="only programs with a feature named so")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    chosen = tuple(r for r in options.routes.split(",") if r)
    options.out.mkdir(parents=True, exist_ok=True)
    report = Report()
    stop = time.monotonic() + options.seconds
    seeds = iter(range(options.seed, options.seed + options.programs))
    if options.feature:
        seeds = filter(lambda seed: _has(seed, options.feature), seeds)
    shrunk: list[tuple[int, str, tuple[str, ...]]] = []
    shown = 0.0
    pool = _pool(options.workers)
    running: dict[Any, tuple[str, Any]] = {}
    while True:
        while len(running) < 2 * options.workers:
            if time.monotonic() < stop and (seed := next(seeds, None)) is not None:
                running[pool.submit(one, seed, chosen)] = ("one", seed)
            elif shrunk and not options.no_shrink:
                task = shrunk.pop(0)
                running[pool.submit(smaller, *task)] = ("smaller", task)
            else:
                break
        if not running:
            break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            kind, about = running.pop(future)
            try:
                found = future.result()
            except BrokenProcessPool:
                print(f"\na process died; seeds {[a for _, a in running.values()]} {about}")
                report.counts["process"]["crashed"] += 1
                pool, running = _pool(options.workers), {}
                break
            except Exception as error:
                print(f"\n{kind} {about}: {type(error).__name__}: {error}")
                report.counts["process"]["crashed"] += 1
                continue
            if kind == "one":
                shrunk += report.add(found)
            else:
                _write(options.out, found)
        if time.monotonic() - shown > 5:
            (options.out / "report.txt").write_text(report.text(), encoding="utf-8")
            shown = time.monotonic()
            waiting = f", {len(shrunk)} to shrink" if shrunk else ""
            print(f"\r{report.line()}{waiting}   ", end="", flush=True)
    pool.shutdown()
    print("\r" + report.text())
    (options.out / "report.txt").write_text(report.text(), encoding="utf-8")
    return 1 if report.bad else 0


def _has(seed: int, feature: str) -> bool:
    from differential.generator import generate

    return any(feature in name for name in generate(seed).features)


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=prepare,
        max_tasks_per_child=PROGRAMS_PER_PROCESS,
    )


def _write(out: Path, found: dict[str, Any]) -> None:
    words = "-".join(found["mark"][:2]).replace(" ", "-")
    path = out / f"{found['seed']:06d}-{words}.txt"
    path.write_text(
        f"{found['case']}\n% route: {found['route']}\n% {found['kind']}: {found['text']}\n"
        f"% by XLA: {found['confirmed']}\n% {found['blame']}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    # Workers inherit these; nothing that a fuzzer runs is worth optimising.
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
