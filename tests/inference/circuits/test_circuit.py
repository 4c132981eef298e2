"""Circuits against enumeration; their sizes, gradients, samples and files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.circuits.circuit import Circuit, TooLarge, compile_formula
from nesymm.inference.circuits.formula import AND, ATOM, LITERAL, NOT, OR, TRUE, Formula
from nesymm.inference.densities import log_chance

Choose = Callable[[int], int]

# ---------------------------------------------------------------- random formulas


@dataclass
class Case:
    """A formula, its roots, and the systems of atoms in the order of their definition."""

    formula: Formula
    roots: list[int] = field(default_factory=list)
    systems: list[list[int]] = field(default_factory=list)


def random_case(choose: Choose) -> Case:
    """A formula of up to 2,000 assignments; `choose(n)` is a number below n."""
    sizes: list[int] = []
    for _ in range(3 + choose(8)):
        size = (2, 2, 2, 3, 3, 4, 1)[choose(7)]
        if np.prod(sizes) * size <= 2000:
            sizes.append(size)
    f = Formula(sizes)
    case = Case(f)
    literals = [f.literal(v, n) for v, size in enumerate(sizes) for n in range(size)]
    pool = [_gate(choose, f, literals, literals)]
    for _ in range(5 + choose(10)):
        kind = choose(6)
        if kind == 0:
            pool.append(f.not_(pool[-1 - choose(len(pool))]))
        elif kind == 1:
            pool += _system(choose, case, literals, pool)
        else:
            pool.append(_gate(choose, f, literals, pool))
    a, b, c, d = (pool[choose(len(pool))] for _ in range(4))
    mixed = f.or_([f.and_([a, f.not_(b)]), f.and_([b, c, f.not_(d)])])
    case.roots = [mixed, *(pool[choose(len(pool))] for _ in range(choose(3)))]
    return case


def _gate(choose: Choose, f: Formula, *pools: list[int]) -> int:
    args = [pool[-1 - choose(len(pool))] for pool in pools]
    args += [pools[-1][choose(len(pools[-1]))] for _ in range(choose(3))]
    return (f.and_ if choose(2) else f.or_)(args)


def _system(choose: Choose, case: Case, literals: list[int], pool: list[int]) -> list[int]:
    """Atoms that are true because of others, or of themselves, or of something else."""
    f = case.formula
    atoms = f.fixpoint(1 + choose(5))
    shared = [_gate(choose, f, literals, atoms) for _ in range(choose(3))]
    definitions = []
    for _ in atoms:
        reasons = [
            f.and_([literals[choose(len(literals))], atoms[choose(len(atoms))]])
            for _ in range(1 + choose(3))
        ]
        if choose(2):
            reasons.append(pool[choose(len(pool))])
        definitions.append(f.or_([*reasons, *shared[: choose(3)]]))
    # Definitions may come in several parts that mention each other.
    half = choose(len(atoms) + 1)
    f.define(atoms[:half], definitions[:half])
    f.define(atoms[half:], definitions[half:])
    case.systems.append(atoms)
    return [*shared, *atoms]


def seeded(seed: int) -> Choose:
    return random.Random(seed).randrange


# Seeds of formulas with recursion and larger circuits than most.
RICH = (37, 63, 81, 98, 107, 118)

cases = st.composite(lambda draw: random_case(lambda n: draw(st.integers(0, n - 1))))()


# ---------------------------------------------------------------- the oracle


def assignments(sizes: list[int]) -> np.ndarray:
    """All assignments, of shape (assignment, variable)."""
    return np.indices(sizes).reshape(len(sizes), -1).T


def truth(case: Case) -> np.ndarray:
    """Whether each root holds in each assignment: least fixpoints by iteration, system by
    system."""
    f = case.formula
    worlds = assignments(f.sizes)
    table = np.zeros((len(f), len(worlds)), bool)

    def evaluate() -> None:
        for node, (op, args) in enumerate(zip(f.ops, f.args, strict=True)):
            if op == LITERAL:
                table[node] = worlds[:, args[0]] == args[1]
            elif op in (AND, OR):
                table[node] = (np.all if op == AND else np.any)(table[list(args)], axis=0)
            elif op == NOT:
                table[node] = ~table[args[0]]
            elif op == TRUE:
                table[node] = True

    evaluate()
    for system in case.systems:
        while True:
            definitions = [f.args[atom][0] for atom in system]
            before = table[system].copy()
            table[system] = table[definitions]
            evaluate()
            if (table[system] == before).all():
                break
    assert all(op != ATOM or args for op, args in zip(f.ops, f.args, strict=True))
    return table[case.roots]


@dataclass
class Joint:
    """The joint table of a case under linear weights."""

    case: Case
    weights: np.ndarray

    def __post_init__(self) -> None:
        sizes = self.case.formula.sizes
        self.worlds = assignments(sizes)
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.literals = self.starts + self.worlds
        self.mass = self.weights[self.literals].prod(axis=1) * truth(self.case)

    def log_values(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.mass.sum(axis=1))

    def marginals(self, root: int) -> np.ndarray:
        result = np.zeros(len(self.weights))
        total = self.mass[root].sum()
        if total > 0:
            share = np.broadcast_to(self.mass[root][:, None] / total, self.literals.shape)
            np.add.at(result, self.literals, share)
        return result

    def derivatives(self, root: int) -> np.ndarray:
        """Of the log value with respect to linear weights: all but one factor."""
        result = np.zeros(len(self.weights))
        holds = truth(self.case)[root]
        factors = self.weights[self.literals]
        for v in range(factors.shape[1]):
            others = np.delete(factors, v, axis=1).prod(axis=1) * holds
            np.add.at(result, self.literals[:, v], others)
        return result / self.mass[root].sum()


def random_weights(case: Case, seed: int, zeros: float = 0.25) -> np.ndarray:
    """Weights of which some are 0 and some are 1."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 3.0, sum(case.formula.sizes))
    kind = rng.random(weights.shape)
    return np.where(kind < zeros, 0.0, np.where(kind < 1.5 * zeros, 1.0, weights))


def logs(weights: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(weights)


# ---------------------------------------------------------------- against enumeration


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(case=cases, seed=st.integers(0, 2**31), zeros=st.sampled_from([0.0, 0.1, 0.4]))
def test_queries_agree_with_enumeration(case: Case, seed: int, zeros: float) -> None:
    joint = Joint(case, random_weights(case, seed, zeros))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(joint.weights)

    np.testing.assert_allclose(circuit.log_values(w), joint.log_values(), rtol=0, atol=1e-9)
    for root in range(len(case.roots)):
        np.testing.assert_allclose(circuit.marginals(w, root), joint.marginals(root), atol=1e-9)
        best, log_weight = circuit.most_probable(w, root)
        np.testing.assert_allclose(log_weight, logs(joint.mass[root].max()), atol=1e-9)
        if joint.mass[root].max() > 0:
            world = np.flatnonzero((joint.worlds == best).all(axis=1))
            np.testing.assert_allclose(joint.mass[root, world], joint.mass[root].max())


@pytest.mark.parametrize("seed", RICH[:3])
def test_jax_agrees_with_numpy_and_enumeration(seed: int) -> None:
    case = random_case(seeded(seed))
    circuit = compile_formula(case.formula, case.roots)
    batch = np.stack([random_weights(case, s, zeros=0.2) for s in range(6)])
    joints = [Joint(case, weights) for weights in batch]
    w = logs(batch).reshape(2, 3, -1)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        values = circuit.log_values(jnp.asarray(w))
        assert values.shape == (2, 3, len(case.roots))
        np.testing.assert_allclose(values, circuit.log_values(w), atol=1e-12)
        np.testing.assert_allclose(
            values.reshape(6, -1), [joint.log_values() for joint in joints], atol=1e-9
        )
        found = circuit.marginals(jnp.asarray(w), 0)
        np.testing.assert_allclose(found, circuit.marginals(w, 0), atol=1e-12)
        best, log_weight = circuit.most_probable(jnp.asarray(w), 0)
        expected, expected_weight = circuit.most_probable(w, 0)
        np.testing.assert_array_equal(best, expected)
        np.testing.assert_allclose(log_weight, expected_weight, atol=1e-12)


def test_single_precision_stays_single() -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(random_weights(case, 0)).astype(np.float32)
    assert circuit.log_values(w).dtype == np.float32
    assert circuit.log_values(jnp.asarray(w)).dtype == jnp.float32
    np.testing.assert_allclose(circuit.log_values(jnp.asarray(w)), circuit.log_values(w), atol=1e-5)


def test_a_variable_that_is_not_mentioned_is_summed() -> None:
    f = Formula([2, 3])
    circuit = compile_formula(f, [f.literal(0, 1), f.true, f.false])
    values = circuit.log_values(np.log([0.25, 0.5, 1.0, 2.0, 3.0]))
    np.testing.assert_allclose(np.exp(values), [0.5 * 6, 0.75 * 6, 0.0])
    # If it has no possible value, nothing is possible.
    assert (circuit.log_values(logs(np.array([0.25, 0.5, 0, 0, 0]))) == -np.inf).all()


def test_formulas_without_variables() -> None:
    f = Formula([])
    (a,) = f.fixpoint(1)
    f.define([a], [a])
    circuit = compile_formula(f, [f.true, f.false, a])
    np.testing.assert_array_equal(circuit.log_values(np.zeros(0)), [0, -np.inf, -np.inf])
    np.testing.assert_array_equal(circuit.log_values(jnp.zeros((2, 0)))[1], [0, -np.inf, -np.inf])
    assert circuit.marginals(np.zeros(0), 0).shape == (0,)
    assert circuit.sample(jax.random.key(0), jnp.zeros(0), 0, (3,)).shape == (3, 0)


def test_large_batches_are_answered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(np.stack([random_weights(case, s) for s in range(150)]))
    whole = circuit.log_values(w), circuit.marginals(w, 0), *circuit.most_probable(w, 0)
    monkeypatch.setattr("nesymm.inference.circuits.interpreted._BLOCK", 1)
    blocks = circuit.log_values(w), circuit.marginals(w, 0), *circuit.most_probable(w, 0)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_array_equal(one, other)


def test_batches_in_jax_are_answered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(np.stack([random_weights(case, s) for s in range(101)]))

    def loss(w: jax.Array) -> jax.Array:
        values = circuit.log_values(w)
        return jnp.where(values > -jnp.inf, values, 0).sum()

    with jax.enable_x64(True):
        # No block is wider than this; nothing else has been compiled for such a batch.
        monkeypatch.setattr("nesymm.inference.circuits.compiled._CACHE", 1)
        found, gradients = circuit.log_values(jnp.asarray(w)), jax.grad(loss)(jnp.asarray(w))
        np.testing.assert_allclose(found, circuit.log_values(w), rtol=1e-12)
        np.testing.assert_allclose(gradients[:8], jax.grad(loss)(jnp.asarray(w[:8])), atol=1e-12)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiny_values_do_not_underflow(xp: Any, dtype: str) -> None:
    """What no number can hold has a logarithm; also next to rows that need no care."""
    count = 400
    f = Formula([2] * count)
    every = f.and_(f.literal(i, 1) for i in range(count))
    odd = f.and_(f.literal(i, 1) for i in range(1, count, 2))
    some = f.or_(f.literal(i, 1) for i in range(count))
    circuit = compile_formula(f, [every, odd, some, f.false])
    chances = np.array([1e-3, 0.5, 0.999, 0.0])
    with jax.enable_x64(dtype == "float64"):
        rows = np.tile(np.stack([logs(1 - chances), logs(chances)], axis=-1), (1, count))
        found = circuit.log_values(xp.asarray(rows, dtype))
        assert found.dtype == dtype
        p = logs(chances)
        with np.errstate(divide="ignore"):
            some_of = np.log(-np.expm1(count * np.log1p(-chances)))
        none = np.full(4, -np.inf)
        expected = np.stack([count * p, count / 2 * p, some_of, none], axis=-1)
        close = 3e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_impossible_values_are_quick_where_nothing_underflows() -> None:
    """A zero among moderate weights is a zero; the logarithms are not needed for it."""
    from nesymm.inference.circuits import numpy_passes, queries

    f = Formula([2, 2])
    circuit = compile_formula(f, [f.and_([f.literal(0, 1), f.literal(1, 1)])])
    columns = logs(np.array([[1.0], [0.0], [0.5], [0.5]]))
    values, trusted = queries.plainly(np, numpy_passes, circuit.tables, columns)
    assert trusted
    assert values[0, 0] == -np.inf


def test_variables_with_many_values() -> None:
    f = Formula([100, 100])
    less = f.or_(
        f.and_([f.literal(0, i), f.or_(f.literal(1, j) for j in range(i + 1, 100))])
        for i in range(100)
    )
    same = f.or_(f.and_([f.literal(0, i), f.literal(1, i)]) for i in range(100))
    circuit = compile_formula(f, [less, same])
    weights = np.random.default_rng(0).random(200)
    p, q = weights[:100], weights[100:]
    expected = [sum(p[i] * q[i + 1 :].sum() for i in range(100)), p @ q]
    np.testing.assert_allclose(np.exp(circuit.log_values(np.log(weights))), expected)
    assert len(circuit.to_arrays()["primes"]) < 1000


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("seed", RICH[:3])
def test_gradients_at_zero_and_one(seed: int) -> None:
    case = random_case(seeded(seed))
    circuit = compile_formula(case.formula, case.roots)
    with jax.enable_x64(True):

        def value(w: jax.Array) -> jax.Array:
            return circuit.log_values(w)[0]

        def value_of_linear(weights: jax.Array) -> jax.Array:
            return circuit.log_values(log_chance(weights))[0]

        gradient, linear = jax.jit(jax.grad(value)), jax.jit(jax.grad(value_of_linear))
        for s in range(4):
            joint = Joint(case, random_weights(case, s, zeros=0.3))
            # Where a weight is 0, its log has no influence.
            found = gradient(jnp.asarray(logs(joint.weights)))
            np.testing.assert_allclose(found, joint.marginals(0), atol=1e-9)
            if joint.mass[0].sum() > 0:
                # With respect to the weight itself, it has: the limit from above.
                found = linear(jnp.asarray(joint.weights))
                np.testing.assert_allclose(found, joint.derivatives(0), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", RICH[:3])
def test_gradients_agree_with_finite_differences(seed: int) -> None:
    case = random_case(seeded(seed))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(random_weights(case, seed, zeros=0.0))
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=len(case.roots))
    mix[circuit.log_values(w) == -np.inf] = 0
    direction = rng.normal(size=w.shape)

    def value(w: np.ndarray) -> float:
        values = circuit.log_values(w)
        return float(np.where(mix != 0, values, 0) @ mix)

    step = 1e-5
    numeric = (value(w + step * direction) - value(w - step * direction)) / (2 * step)
    with jax.enable_x64(True):
        found = jax.grad(lambda w: (jnp.where(mix != 0, circuit.log_values(w), 0) * mix).sum())(
            jnp.asarray(w)
        )
    np.testing.assert_allclose(np.asarray(found) @ direction, numeric, atol=1e-7)


def test_transformations_compose() -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    with jax.enable_x64(True):
        w = jnp.asarray(logs(np.stack([random_weights(case, s) for s in range(3)])))

        def value(row: jax.Array) -> jax.Array:
            return circuit.log_values(row)[0]

        found = jax.jit(jax.vmap(jax.value_and_grad(value)))(w)
        np.testing.assert_allclose(found[0], circuit.log_values(w)[:, 0], atol=1e-12)
        np.testing.assert_allclose(found[1], circuit.marginals(w, 0), atol=1e-12)
        # Second derivatives are the covariances of literals.
        second = jax.jit(jax.jacrev(jax.grad(value)))(w[0])
        mean = circuit.marginals(np.asarray(w[0]), 0)
        np.testing.assert_allclose(jnp.diag(second), mean - mean**2, atol=1e-9)
        assert jnp.isfinite(second).all()


def test_nothing_possible_gives_no_gradient() -> None:
    f = Formula([2, 2])
    both = f.and_([f.literal(0, 1), f.literal(1, 1)])
    circuit = compile_formula(f, [both])
    w = jnp.array([0.0, -jnp.inf, 0.0, 0.0])
    assert circuit.log_values(w)[0] == -jnp.inf
    gradient = jax.grad(lambda w: circuit.log_values(w)[0])(w)
    np.testing.assert_array_equal(gradient, jnp.zeros(4))


# ---------------------------------------------------------------- samples


@pytest.mark.parametrize("seed", RICH[3:5])
def test_samples_have_the_posterior_frequencies(seed: int) -> None:
    case = random_case(seeded(seed))
    circuit = compile_formula(case.formula, case.roots)
    joint = Joint(case, random_weights(case, seed, zeros=0.1))
    total = joint.mass[0].sum()
    assert total > 0
    count = 20_000
    drawn = circuit.sample(jax.random.key(seed), jnp.asarray(logs(joint.weights)), 0, (count,))
    assert drawn.shape == (count, len(circuit.sizes))
    index = np.ravel_multi_index(np.asarray(drawn).T, case.formula.sizes)
    frequency = np.bincount(index, minlength=len(joint.worlds)) / count
    p = joint.mass[0] / total
    assert (frequency[p == 0] == 0).all()
    _within_four_errors(frequency, p, count)
    # Pairs of literals, which also cover the rare assignments.
    hot = np.zeros((len(joint.worlds), len(joint.weights)))
    np.put_along_axis(hot, joint.literals, 1, axis=1)
    _within_four_errors(hot.T @ (frequency[:, None] * hot), hot.T @ (p[:, None] * hot), count)


def _within_four_errors(frequency: np.ndarray, p: np.ndarray, count: int) -> None:
    # Where few draws are expected, the normal approximation does not hold.
    often = p * count > 10
    error = np.sqrt(np.clip(p * (1 - p), 0, None) / count) + 1e-12
    assert (np.abs(frequency - p) <= 4 * error)[often].all()


def test_samples_of_a_batch() -> None:
    f = Formula([2, 3])
    root = f.or_([f.literal(0, 1), f.literal(1, 2)])
    circuit = compile_formula(f, [f.true, root])
    w = jnp.log(jnp.array([[0.5, 0.5, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0, 1.0]]))
    drawn = np.asarray(circuit.sample(jax.random.key(0), w, 1, (4000, 2)))
    assert drawn.shape == (4000, 2, 2, 2)
    assert ((drawn[..., 0] == 1) | (drawn[..., 1] == 2)).all()
    assert (drawn[:, :, 1] == [0, 2]).all()
    # 4 assignments of equal weight.
    first = drawn[:, :, 0].reshape(-1, 2)
    assert abs((first[:, 0] == 1).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 8000)
    # Without a condition that can hold, the draws are in range.
    impossible = jnp.log(jnp.array([1.0, 0.0, 1.0, 1.0, 0.0]))
    loose = np.asarray(circuit.sample(jax.random.key(1), impossible, 1, (50,)))
    assert (loose >= 0).all() and (loose < [2, 3]).all()


# ---------------------------------------------------------------- sizes


def noisy_or(count: int) -> Case:
    f = Formula([2] * (2 * count))
    pairs = (f.and_([f.literal(2 * i, 1), f.literal(2 * i + 1, 1)]) for i in range(count))
    return Case(f, [f.or_(pairs)])


def switches(count: int) -> Case:
    """A chain: each choice keeps the state, flips it or makes it false."""
    f = Formula([3] * count)
    states = [f.literal(0, 0)]
    for i in range(1, count):
        keep = f.and_([f.literal(i, 0), states[-1]])
        flip = f.and_([f.literal(i, 1), f.not_(states[-1])])
        states.append(f.or_([keep, flip]))
    return Case(f, states)


def reachability(count: int, edges: int, seed: int) -> Case:
    """Is the last node connected to the first, in a random graph of uncertain edges?"""
    rng = random.Random(seed)
    f = Formula()
    atoms = f.fixpoint(count)
    reasons: list[list[int]] = [[] for _ in atoms]
    pairs = [(i, j) for i in range(count) for j in range(i)]
    for i, j in rng.sample(pairs, edges):
        edge = f.literal(f.add_variable(2), 1)
        reasons[i].append(f.and_([atoms[j], edge]))
        reasons[j].append(f.and_([atoms[i], edge]))
    f.define(atoms, [f.true, *(f.or_(r) for r in reasons[1:])])
    return Case(f, [atoms[-1]], [atoms])


def layers(circuit: Circuit) -> int:
    return sum(len(section[0].scopes) for section in circuit.tables.sections)


def products(circuit: Circuit) -> int:
    return len(circuit.to_arrays()["primes"])


def test_noisy_or_is_small_and_right() -> None:
    case = noisy_or(200)
    circuit = compile_formula(case.formula, case.roots)
    assert products(circuit) < 4000
    assert layers(circuit) < 20
    p = np.random.default_rng(0).uniform(0, 0.2, 400)
    w = np.log(np.stack([1 - p, p], axis=1)).ravel()
    expected = 1 - np.prod(1 - p[::2] * p[1::2])
    np.testing.assert_allclose(np.exp(circuit.log_values(w)), [expected])


@pytest.mark.parametrize("all_roots", [False, True])
def test_chains_are_small_and_right(all_roots: bool) -> None:
    case = switches(200)
    roots = case.roots if all_roots else case.roots[-1:]
    circuit = compile_formula(case.formula, roots)
    assert products(circuit) < 8000
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    state = [weights[0, 0]]
    for keep, flip, _ in weights[1:]:
        state.append(keep * state[-1] + flip * (1 - state[-1]))
    found = np.exp(circuit.log_values(np.log(weights).ravel()))
    np.testing.assert_allclose(found, state if all_roots else state[-1:])


def test_tall_circuits_are_scanned() -> None:
    """Right-linear vtrees of hundreds of levels: the library's stack is deep enough, and
    the layers become one loop."""
    from nesymm.inference.circuits import compiler as sdd
    from nesymm.inference.circuits.diagrams import Budget, Plan
    from nesymm.inference.circuits.vtrees import Builder, right_linear

    case = switches(300)
    plan = Plan.of(case.formula, case.roots)
    build = Builder(case.formula.sizes)
    right_linear(plan.items(), build)
    graph = sdd._attempt(plan, build.tree, Budget(10**6, np.inf, np.inf))
    assert graph is not None
    circuit = Circuit(graph)
    assert layers(circuit) > 290
    assert len(circuit.tables.sections) < 30
    other = compile_formula(case.formula, case.roots)
    w = np.log(np.random.default_rng(0).random((2, 900)))
    np.testing.assert_allclose(circuit.log_values(w), other.log_values(w), atol=1e-9)
    with jax.enable_x64(True):
        found = circuit.log_values(jnp.asarray(w))
    np.testing.assert_allclose(found, other.log_values(w), atol=1e-9)


def test_cyclic_reachability_is_right() -> None:
    case = reachability(7, 10, seed=0)
    joint = Joint(case, random_weights(case, 0, zeros=0.0))
    circuit = compile_formula(case.formula, case.roots)
    np.testing.assert_allclose(circuit.log_values(logs(joint.weights)), joint.log_values())


def test_cyclic_reachability_stays_small() -> None:
    case = reachability(16, 32, seed=0)
    assert products(compile_formula(case.formula, case.roots)) < 20_000


def parities(count: int, seed: int) -> Case:
    """Parities of random halves of 40 variables, mixed: no vtree makes this small."""
    rng = random.Random(seed)
    f = Formula([2] * 40)
    parts = []
    for _ in range(count):
        node = f.false
        for v in rng.sample(range(40), 20):
            x = f.literal(v, 1)
            node = f.or_([f.and_([x, f.not_(node)]), f.and_([f.not_(x), node])])
        parts.append(node)
    return Case(f, [f.or_([f.and_(parts[i::3]) for i in range(3)])])


def test_hard_formulas_are_refused() -> None:
    case = parities(24, seed=0)
    message = r"no circuit within 3,000 nodes .* over 40 variables with 80 values"
    with pytest.raises(TooLarge, match=message) as caught:
        compile_formula(case.formula, case.roots, max_nodes=3000)
    assert isinstance(caught.value, NesymmError)
    with pytest.raises(TooLarge, match="no circuit within 0 seconds"):
        compile_formula(case.formula, case.roots, max_seconds=0)


def test_operations_on_large_diagrams_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = reachability(9, 14, seed=2)
    plain = compile_formula(case.formula, case.roots)
    monkeypatch.setattr("nesymm.inference.circuits.diagrams._LARGE", 0)
    monkeypatch.setattr("nesymm.inference.circuits.diagrams.Formula.__len__", lambda _: 0)
    assert compile_formula(case.formula, case.roots) == plain


# ---------------------------------------------------------------- files and imports


def test_circuits_load_and_run_without_pysdd(tmp_path: Path) -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    w = logs(random_weights(case, 1, zeros=0.1))
    circuit.save(tmp_path / "circuit.npz")
    np.save(tmp_path / "weights.npy", w)
    script = """
        import sys
        sys.modules["pysdd"] = None
        import numpy as np
        from nesymm.inference.circuits.circuit import Circuit
        circuit = Circuit.load("circuit.npz")
        w = np.load("weights.npy")
        np.savez("found.npz", values=circuit.log_values(w), marginals=circuit.marginals(w, 0))
        assert not {"jax", "lark"} & set(sys.modules)
        import jax.numpy as jnp
        assert circuit.log_values(jnp.asarray(w)).shape == (len(circuit.roots),)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(nesymm.__file__).parent.parent)},
        check=True,
    )
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["values"], circuit.log_values(w))
        np.testing.assert_array_equal(found["marginals"], circuit.marginals(w, 0))


def test_circuits_compare_by_content() -> None:
    case = random_case(seeded(RICH[0]))
    circuit = compile_formula(case.formula, case.roots)
    copy = Circuit.from_arrays(circuit.to_arrays())
    assert copy == circuit and hash(copy) == hash(circuit)
    other = compile_formula(case.formula, [case.formula.true])
    assert other != circuit
    assert circuit != "circuit"
    with pytest.raises(ValueError, match="read-only"):
        circuit.to_arrays()["roots"][0] = 0
    with pytest.raises(ValueError, match="was saved in format 99, not 1"):
        Circuit.from_arrays({**circuit.to_arrays(), "version": np.array(99)})


def test_circuits_say_how_large_they_are() -> None:
    f = Formula([2, 2])
    circuit = compile_formula(f, [f.or_([f.literal(0, 1), f.literal(1, 1)])])
    assert repr(circuit) == "Circuit(2 variables, 1 roots, 1 sums, 2 products)"


def test_wrong_arguments_are_named() -> None:
    f = Formula([2, 3])
    circuit = compile_formula(f, [f.literal(0, 1)])
    with pytest.raises(ValueError, match=r"needs 5 log weights .* 2 variables.* \(2, 4\)"):
        circuit.log_values(np.zeros((2, 4)))
    with pytest.raises(IndexError, match="1 roots, so no root 1"):
        circuit.marginals(np.zeros(5), 1)
