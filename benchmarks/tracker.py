"""Learning the noise of a tracker: what `fit` reaches beside the maximum of the exact likelihood.

    python benchmarks/tracker.py [--seeds 3] [--epochs 60] [--particles 1000]

A target moves in two dimensions with a velocity that changes by random accelerations, small ones
while it cruises and large ones while it turns. Positions are seen with noise, a fifth is missing.
The exact likelihood sums over the paths of modes, with a Kalman filter for each; paths that agree
in their last six modes are merged by their moments, which changes the log-likelihood of a sequence
by about 0.001.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import optax
from scipy.optimize import minimize

import nesymm
from nesymm import RaoBlackwellised

PROGRAM = """
dim(x). dim(y).
mode(cruise)@0.
t(0.2)::switch@t.
mode(M)@t :- mode(M)@(t-1), not switch@t.
mode(turn)@t :- mode(cruise)@(t-1), switch@t.
mode(cruise)@t :- mode(turn)@(t-1), switch@t.
acc(D, A)@t ~ normal(0, t(0.2)) :- dim(D), mode(cruise)@t.
acc(D, A)@t ~ normal(0, t(0.6)) :- dim(D), mode(turn)@t.
pos(D, 0.0)@0 :- dim(D).
vel(D, V)@0 ~ normal(0, 1) :- dim(D).
vel(D, V + A)@t :- vel(D, V)@(t-1), acc(D, A)@t.
pos(D, X + V)@t :- pos(D, X)@(t-1), vel(D, V)@t.
z(D, Z)@t ~ normal(X, 0.5) :- pos(D, X)@t.
observe(z(D)@t).
query(mode(M)@t).
"""
TRUTH = {"acc": 0.05, "acc.2": 1.0, "switch": 0.1}
SEEN = 0.5


def simulate(count: int, steps: int, seed: int, missing: float = 0.2) -> np.ndarray:
    """Positions as they are seen, [sequence, step, dimension], NaN where they are not."""
    rng = np.random.default_rng(seed)
    turning = np.zeros(count, bool)
    pos, vel = np.zeros((count, 2)), rng.normal(size=(count, 2))
    seen = np.empty((count, steps, 2))
    for t in range(steps):
        if t:
            turning ^= rng.random(count) < TRUTH["switch"]
            scale = np.where(turning, TRUTH["acc.2"], TRUTH["acc"])
            vel = vel + scale[:, None] * rng.normal(size=(count, 2))
            pos = pos + vel
        seen[:, t] = pos + SEEN * rng.normal(size=(count, 2))
    seen[rng.random(seen.shape) < missing] = np.nan
    return seen


def as_data(seen: np.ndarray) -> dict[str, np.ndarray]:
    return {"z(x)": seen[:, :, 0], "z(y)": seen[:, :, 1]}


def log_likelihood(
    seen: np.ndarray, cruise: float, turn: float, switch: float, depth: int = 6
) -> np.ndarray:
    """log p of each sequence: all paths of modes, those with equal last `depth` modes merged.

    Path number i has the bits of its switches, the latest one last.
    """
    count = len(seen)
    noise = np.array([cruise, turn]) ** 2
    log_w, mode = np.zeros((count, 1)), np.zeros(1, int)
    mean = np.zeros((count, 1, 2, 2))  # sequence, path, dimension, (position, velocity)
    cov = np.zeros((count, 1, 2, 2, 2))
    cov[..., 1, 1] = 1.0
    for t in range(seen.shape[1]):
        if t:
            log_w = (log_w[:, :, None] + np.log([1 - switch, switch])).reshape(count, -1)
            mode = np.stack([mode, 1 - mode], 1).ravel()
            mean, cov = np.repeat(mean, 2, 1), np.repeat(cov, 2, 1)
            vel = cov[..., 1, 1] + noise[mode][None, :, None]
            both = cov[..., 0, 1] + vel
            pos = cov[..., 0, 0] + 2 * cov[..., 0, 1] + vel
            cov = np.stack([np.stack([pos, both], -1), np.stack([both, vel], -1)], -2)
            mean = np.stack([mean[..., 0] + mean[..., 1], mean[..., 1]], -1)
        here = seen[:, None, t]
        known = ~np.isnan(here)
        spread = cov[..., 0, 0] + SEEN**2
        miss = np.where(known, here - mean[..., 0], 0.0)
        log_p = -0.5 * (miss**2 / spread + np.log(2 * np.pi * spread))
        log_w = log_w + np.where(known, log_p, 0.0).sum(-1)
        gain = np.where(known[..., None], cov[..., 0, :] / spread[..., None], 0.0)
        mean = mean + gain * miss[..., None]
        cov = cov - gain[..., :, None] * cov[..., 0, None, :]
        if len(mode) > 2**depth:
            log_w, mean, cov, mode = _merged(log_w, mean, cov, mode)
    return np.logaddexp.reduce(log_w, 1)


def _merged(log_w: np.ndarray, mean: np.ndarray, cov: np.ndarray, mode: np.ndarray) -> tuple:
    half = len(mode) // 2
    # Another first switch and another second one lead to the same modes from then on.
    pairs = np.arange(half), half + (np.arange(half) ^ (half >> 1))
    log_ws = [log_w[:, i] for i in pairs]
    total = np.logaddexp(*log_ws)
    shares = [np.exp(w - total)[..., None, None] for w in log_ws]
    new = sum(s * mean[:, i] for s, i in zip(shares, pairs, strict=True))
    spread = 0.0
    for s, i in zip(shares, pairs, strict=True):
        off = mean[:, i] - new
        spread = spread + s[..., None] * (cov[:, i] + off[..., :, None] * off[..., None, :])
    return total, new, spread, mode[pairs[0]]


def free_numbers(values: Sequence[float]) -> np.ndarray:
    cruise, turn, switch = values
    return np.array([np.log(cruise), np.log(turn), np.log(switch / (1 - switch))])


def parameters(free: np.ndarray) -> np.ndarray:
    return np.array([np.exp(free[0]), np.exp(free[1]), 1 / (1 + np.exp(-free[2]))])


def maximum_likelihood(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the exact likelihood is highest, and standard errors from its curvature there."""

    def loss(free: np.ndarray) -> float:
        return -float(log_likelihood(seen, *parameters(free)).sum())

    start = free_numbers(list(TRUTH.values()))
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-2}).x
    h = 1e-2 * np.eye(3)
    curvature = [
        [
            loss(found + a + b) - loss(found + a - b) - loss(found - a + b) + loss(found - a - b)
            for b in h
        ]
        for a in h
    ]
    errors = np.sqrt(np.diag(np.linalg.inv(np.array(curvature) / 4e-4)))
    values = parameters(found)
    return values, errors * np.array([values[0], values[1], values[2] * (1 - values[2])])


def learn(
    seen: np.ndarray, epochs: int, particles: int, batch_size: int = 20, rate: float = 0.1
) -> nesymm.Model:
    """The program with what `fit` finds.

    Adam soon forgets how steep it was at the start (`b2`), and the last iterates are averaged.
    """
    updates = epochs * (len(seen) // batch_size)
    fitted = nesymm.compile(PROGRAM).fit(
        as_data(seen),
        method=RaoBlackwellised(particles=particles),
        optimizer=optax.adam(optax.cosine_decay_schedule(rate, updates), b2=0.95),
        epochs=epochs,
        batch_size=batch_size,
        average=0.5,
        progress=False,
    )
    return fitted.model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sequences", type=int, default=60)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--particles", type=int, default=1000)
    args = parser.parse_args()
    print("data  what      cruise   turn     switching  log-likelihood")
    for seed in range(args.seeds):
        seen = simulate(args.sequences, args.steps, seed)
        best, errors = maximum_likelihood(seen)
        start = time.perf_counter()
        model = learn(seen, args.epochs, args.particles)
        seconds = time.perf_counter() - start
        learnt = np.array([model.parameters[n] for n in TRUTH])
        truth = np.array(list(TRUTH.values()))
        for name, row in (("truth", truth), ("exact", best), ("learnt", learnt)):
            height = log_likelihood(seen, *row).mean()
            print(f"{seed:4d}  {name:8s}  " + "  ".join(f"{x:7.4f}" for x in (*row, height)))
        print(f"{seed:4d}  error     " + "  ".join(f"{x:7.4f}" for x in errors))
        away = (learnt - truth) / errors
        print(
            f"{seed:4d}  learnt - truth, in standard errors: " + "  ".join(f"{x:.2f}" for x in away)
        )
        print(f"{seed:4d}  {seconds:.0f} s")


if __name__ == "__main__":
    main()
