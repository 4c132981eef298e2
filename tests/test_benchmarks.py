"""Benchmarks run, that of filters also where the environment asks for 64 bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALL = "BATCH, STEPS, PARTICLES, CHECKS, LONG = 3, 3, 50, 2, 10"


@pytest.mark.slow
def test_maps_as_data_are_timed() -> None:
    small = ["--sequences", "3", "--side", "4", "--steps", "2", "--repeat", "1"]
    done = subprocess.run(
        [sys.executable, "keyed.py", *small], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "exact forward" in done.stdout and "DIFFER" not in done.stdout


@pytest.mark.slow
def test_groups_in_larger_programs_are_timed() -> None:
    small = ["--groups", "2", "--people", "2", "--room", "3", "--steps", "2", "--repeat", "1"]
    done = subprocess.run(
        [sys.executable, "groups.py", *small], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "exact forward" in done.stdout and "DIFFER" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("wide", ["0", "1"])
def test_filters_are_timed(wide: str) -> None:
    code = f"import filtering as f; f.{SMALL.replace(', ', ', f.', 4)}; f.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--discriminative", "--volatility", "--repeat", "1"],
        cwd=FOLDER,
        env={**os.environ, "JAX_ENABLE_X64": wide},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "log-evidence: agree" in done.stdout or "log-evidence: DIFFER" in done.stdout
    assert "stochastic volatility" in done.stdout
