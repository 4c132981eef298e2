"""Programs of hundreds of variables: answers in closed form, sizes, and what is too large."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.static.solver import Intractable, Solver

LENGTHS = (50, 100, 200)


def noisy_or(causes: int) -> tuple[str, float]:
    """A program and the probability of its query."""
    rng = random.Random(causes)
    pairs = [(rng.randint(10, 200) / 1000, rng.randint(10, 200) / 1000) for _ in range(causes)]
    lines = [f"{p}::cause({i}).\n{q}::effect :- cause({i})." for i, (p, q) in enumerate(pairs)]
    return "\n".join([*lines, "query(effect)."]), 1 - math.prod(1 - p * q for p, q in pairs)


def chain(length: int) -> tuple[str, np.ndarray]:
    """Choices of three values, each by the one before it; the distribution of the last."""
    rng = np.random.default_rng(length)
    # Multiples of 1/64 are exact in decimals; one value is likely to be kept, so that the
    # last choice still depends on the first.
    first = np.array([40, 16, 8]) / 64
    tables = []
    for _ in range(length):
        moves = rng.integers(0, 2, (3, 3)) / 64
        np.fill_diagonal(moves, 0)
        tables.append(moves + np.diag(1 - moves.sum(axis=1)))
    lines = [_choice(0, first)]
    last = first
    for step, table in enumerate(tables, 1):
        for value, row in zip("abc", table, strict=True):
            lines.append(f"{_choice(step, row)[:-1]} :- state({step - 1}, {value}).")
        last = last @ table
    asked = [f"query(state({length}, {value}))." for value in "abc"]
    return "\n".join([*lines, *asked]), last


def _choice(step: int, row: np.ndarray) -> str:
    heads = [f"{p}::state({step}, {v})" for p, v in zip(row, "abc", strict=True) if p > 0]
    return "; ".join(heads) + "."


def products(solver: Solver) -> int:
    return len(solver.circuit.to_arrays()["primes"])


def is_linear(sizes: list[int]) -> bool:
    """Whether twice the length adds twice as much, give or take a tenth."""
    small, middle, large = sizes
    return abs((large - middle) / (middle - small) - 2) < 0.2


def test_noisy_or() -> None:
    sizes = []
    for causes in LENGTHS:
        source, expected = noisy_or(causes)
        model = nesymm.compile(source)
        answer = model.infer(method="circuit").probability("effect")
        assert answer == pytest.approx(expected, abs=1e-9)
        sizes.append(products(model.solver(method="circuit")))
    assert is_linear(sizes), sizes


def test_chain_of_exclusive_choices() -> None:
    sizes = []
    for length in LENGTHS:
        source, expected = chain(length)
        model = nesymm.compile(source)
        found = model.infer(method="circuit").queries
        for value, p in zip("abc", expected, strict=True):
            assert found[f"state({length},{value})"] == pytest.approx(p, abs=1e-9)
        sizes.append(products(model.solver(method="circuit")))
    assert is_linear(sizes), sizes


# ---------------------------------------------------------------- too large


def random_clauses(variables: int, clauses: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    lines = [f"0.5::x({i})." for i in range(variables)]
    for k in range(clauses):
        for i in rng.sample(range(variables), 3):
            lines.append(f"sat({k}) :- {rng.choice(['', 'not '])}x({i}).")
        lines.append(f"evidence(sat({k})).")
    # Independent of all the rest: this is not what is too large.
    lines += ["0.5::y.", "0.5::z.", "w :- y.", "w :- z.", "evidence(w).", "query(x(0))."]
    return "\n".join(lines)


def test_what_is_too_large_is_named() -> None:
    """In a process with a limit on its memory, which must be far from reached."""
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, (2 * 2**30, 2 * 2**30))
import nesymm
from nesymm.inference.static.solver import Intractable
try:
    nesymm.compile({random_clauses(160, 500)!r}).infer()
except Intractable as error:
    assert set(error.variables) == {{f"x({{i}})" for i in range(160)}}, error.variables
    assert set(error.variables.values()) == {{2}}
    print(error)
"""
    # Only a hang takes a minute; it is a few seconds.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("160 variables with about 10^48 joint states depend on each")
    assert re.search(r"= note: x\(\d+\) \(2 values\), x\(", done.stdout)
    assert "and 148 more" in done.stdout
    assert "= help: " in done.stdout


def test_too_large_for_circuits_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message for variables of several sizes, some of them in an array."""
    from nesymm.inference.circuits import circuit
    from nesymm.inference.circuits.compiler import TooLarge

    def refuse(*_: object) -> None:
        raise TooLarge("no circuit was found")

    monkeypatch.setattr(circuit, "compile_formula", refuse)
    source = """
        side(S) ~ uniform_int(1, 6).
        0.2::a; 0.3::b; 0.5::c.
        0.5::flip.
        won :- a, side(S), S > 3.
        won :- flip.
        query(won).
    """
    with pytest.raises(Intractable, match="3 variables with 36 joint states") as caught:
        nesymm.compile(source).infer(method="circuit")
    assert sorted(caught.value.variables.values()) == [2, 3, 6]
    assert "flip (2 values)" in str(caught.value)
    assert "no circuit was found" in str(caught.value)


def test_what_is_too_large_to_enumerate_is_named() -> None:
    source, _ = noisy_or(600)
    with pytest.raises(Intractable, match=r"enumerating needs about 10\^361 assignments") as caught:
        nesymm.compile(source).infer(method="enumerate")
    assert "cause(599) (2 values)" in str(caught.value)
    assert "use the circuit method" in str(caught.value)
    assert len(caught.value.variables) == 1200


# ---------------------------------------------------------------- circuits by themselves

ELSEWHERE = """
import sys
sys.modules["pysdd"] = sys.modules["lark"] = None
import numpy as np
from nesymm.inference.circuits.circuit import Circuit
circuit = Circuit.load(sys.argv[1])
weights = np.log(np.array([float(p) for p in sys.argv[2:]]))
_, evidence, *queries = circuit.log_values(weights)
print(*(repr(float(np.exp(q - evidence))) for q in queries))
"""

BURGLARY = """
P::burglary. Q::earthquake.
R::quiet; S::noisy.
alarm :- burglary, noisy. alarm :- earthquake.
evidence(alarm).
query(burglary). query(earthquake).
"""


def burglary(p: float, q: float, r: float) -> str:
    values = {"P": p, "Q": q, "R": r, "S": 1 - r}
    text = BURGLARY
    for name, value in values.items():
        text = text.replace(f"{name}::", f"{value}::")
    return text


def test_a_saved_circuit_needs_no_compiler(tmp_path: Path) -> None:
    """Compiled here with some probabilities, evaluated elsewhere with others."""
    solver = nesymm.compile(burglary(0.1, 0.2, 0.5)).solver(method="circuit")
    solver.circuit.save(tmp_path / "circuit.npz")

    p, q, r = 0.3, 0.05, 0.75
    facts = {"burglary": p, "earthquake": q}
    weights = []
    for name, value in solver.literals:
        if name in facts:
            weights.append(facts[name] if value else 1 - facts[name])
        else:
            weights.append((r, 1 - r)[value])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "circuit.npz"), *map(repr, weights)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = nesymm.compile(burglary(p, q, r)).infer(method="enumerate").queries
    assert [*map(float, done.stdout.split())] == pytest.approx([*expected.values()], abs=1e-12)


def test_weights_and_literals_of_a_solver() -> None:
    model = nesymm.compile(burglary(0.1, 0.2, 0.5))
    solver = model.solver(method="circuit")
    weights = solver.weights()
    assert weights.shape == (sum(solver.circuit.sizes),) == (len(solver.literals),)
    found = dict(zip(solver.literals, np.exp(weights), strict=True))
    assert found["burglary", True] == pytest.approx(0.1)
    _, evidence, *queries = solver.circuit.log_values(weights)
    assert np.exp(np.array(queries) - evidence) == pytest.approx(
        [*model.infer(method="enumerate").queries.values()]
    )


def test_only_the_circuit_method_has_a_circuit() -> None:
    solver = nesymm.compile(burglary(0.1, 0.2, 0.5)).solver(method="enumerate")
    with pytest.raises(NesymmError, match="the method is enumerate"):
        _ = solver.circuit


def last_of(lines: list[str], length: int) -> list[float]:
    """The distribution of the last of `x(0, V)`, `x(1, V)`, …"""
    asked = [f"x({length - 1}, {v})" for v in range(4)]
    text = "\n".join([*lines, *(f"query({atom})." for atom in asked)])
    posterior = nesymm.compile(text).infer()
    return [posterior.probability(atom) for atom in asked]


@pytest.mark.parametrize("length", [5, 150])
def test_many_draws_may_depend_one_on_the_other(length: int) -> None:
    """Each is drawn between the one before and 3, or, one time in ten, anywhere."""
    lines = ["x(0, V) ~ uniform_int(0, 3)."]
    for k in range(1, length):
        lines.append(f"0.1::again({k}).")
        lines.append(f"x({k}, W) ~ uniform_int(L, 3) :- low({k}, L).")
        lines.append(f"low({k}, L) :- x({k - 1}, V), not again({k}), L is min(3, max(0, V)).")
        lines.append(f"low({k}, 0) :- again({k}).")
    onwards = np.array([[(w >= v) / (4 - v) for w in range(4)] for v in range(4)])
    move = 0.9 * onwards + 0.1 * np.full((4, 4), 0.25)
    expected = np.full(4, 0.25) @ np.linalg.matrix_power(move, length - 1)
    assert last_of(lines, length) == pytest.approx(expected)


@pytest.mark.parametrize("length", [5, 300])
def test_a_value_may_be_computed_in_many_steps(length: int) -> None:
    lines = ["x(0, V) ~ uniform_int(0, 3)."]
    for k in range(1, length):
        lines.append(f"d({k}, D) ~ uniform_int(-1, 1).")
        lines.append(f"x({k}, W) :- x({k - 1}, V), d({k}, D), W is min(3, max(0, V + D)).")
    # The moves are symmetric, so the first distribution stays.
    assert last_of(lines, length) == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("family", ["binomial(1000000, 0.5)", "uniform_int(1, 1000000)"])
def test_values_that_cannot_be_told_apart_are_refused_at_once(family: str) -> None:
    model = nesymm.compile(f"x ~ {family}. p :- x > 500000. query(p).")
    with pytest.raises(nesymm.NesymmError, match=r"x has 1,000,00[01] values: .* at most 100,000"):
        model.infer()
