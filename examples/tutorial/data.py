"""Simulate robots in a corridor: data for corridor.toml, written to out/.

python data.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

OUT = Path(__file__).parent / "out"


def drive(robots, cells, steps, seed):
    random = np.random.default_rng(seed)
    go = random.choice([-1, 1], (robots, steps), p=[0.2, 0.8])
    slips = random.random((robots, steps)) < 0.25
    at = np.ones((robots, steps), int)
    for t in range(1, steps):
        at[:, t] = np.clip(at[:, t - 1] + go[:, t] * ~slips[:, t], 1, cells)
    distance = abs(at % 6 - 3)
    light = random.normal(3 * np.exp(-distance), 0.1 + 0.1 * distance)
    return {"go": go, "light": light}, at


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, robots, seed in (("train", 200, 0), ("validation", 50, 1)):
        data, _ = drive(robots, 12, 12, seed)
        np.savez(OUT / f"{name}.npz", **data)
    # In the larger corridor we also note whether the robot was in cell 12: labels.
    data, at = drive(20, 30, 40, 2)
    np.savez(OUT / "larger.npz", **data, in_12=(at == 12).astype(float))
    # A plan: go right for 30 steps, with nothing known of the light.
    np.savez(OUT / "plan.npz", go=np.ones((1, 30), int), light=np.full((1, 30), np.nan))


if __name__ == "__main__":
    main()
