"""The error of the correct recursion and of the paper's, against the exact answer.

    python benchmarks/recursions.py [--out docs/images/recursions.png]

A machine that wears out, and is seen through a noisy alarm: evidence that tells much about
the state *before* the step. Seed 0; every point is the root mean square over 64 runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import matplotlib
import numpy as np

import nesymm
from nesymm import ExactForward, RaoBlackwellised

matplotlib.use("Agg")

PROGRAM = """
0.1::worn@0.
worn@t :- worn@(t-1).
0.1::worn@t :- \\+ worn@(t-1).
0.7::alarm@t :- worn@t.
0.05::alarm@t :- \\+ worn@t.
observe(alarm@t).
query(worn@t).
"""
ALARMS = [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0]
PARTICLES = [16, 64, 256, 1024, 4096, 16384]
RUNS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images/recursions.png"))
    out = parser.parse_args().out
    model = nesymm.compile(PROGRAM)
    one = {"alarm": np.asarray([ALARMS])}
    many = {"alarm": np.repeat(one["alarm"], RUNS, axis=0)}
    with jax.enable_x64(True):
        exact = model.filter(one, method=ExactForward())
    truth = exact.filtered["worn@t"][0]
    errors: dict[str, list[float]] = {"correct": [], "paper": []}
    for recursion, row in errors.items():
        for n in PARTICLES:
            result = model.filter(many, method=RaoBlackwellised(particles=n, recursion=recursion))
            gap = result.filtered["worn@t"] - truth
            row.append(float(np.sqrt(np.mean(gap**2))))
    print(f"{'particles':>10} {'correct':>10} {'paper':>10}")
    for i, n in enumerate(PARTICLES):
        print(f"{n:>10} {errors['correct'][i]:>10.4f} {errors['paper'][i]:>10.4f}")
    plot(errors, truth, model, many, out)
    print(f"wrote {out}")


def plot(errors: dict, truth: np.ndarray, model: nesymm.Model, many: dict, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    styles = {"correct": ("C0", "o", "with the weight"), "paper": ("C1", "s", "the paper's")}
    for name, row in errors.items():
        color, marker, label = styles[name]
        left.loglog(PARTICLES, row, color=color, marker=marker, label=label)
    guide = [errors["correct"][0] * (n / PARTICLES[0]) ** -0.5 for n in PARTICLES]
    left.loglog(PARTICLES, guide, color="0.6", linestyle=":", label="1/√N")
    left.set_xlabel("particles")
    left.set_ylabel("error of P(worn), root mean square")
    left.legend(frameon=False)
    right.plot(truth, color="k", linewidth=2.5, alpha=0.35, label="exact")
    for name, (color, marker, label) in styles.items():
        method = RaoBlackwellised(particles=PARTICLES[-1], recursion=name)
        mean = model.filter(many, method=method).filtered["worn@t"].mean(0)
        right.plot(mean, color=color, marker=marker, markersize=4, label=label)
    for t, alarm in enumerate(ALARMS):
        if alarm:
            right.axvline(t, color="0.85", zorder=0)
    right.set_xlabel("step (bars: alarms)")
    right.set_ylabel("P(worn | evidence so far)")
    right.set_ylim(0, 1)
    right.legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    main()
