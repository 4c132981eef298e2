"""Random programs: every way to answer them against oracles that share no code with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import jax
import numpy as np
import numpy_backend
import pytest

from differential import generator, oracle, routes, unrolled
from differential import syntax as s
from differential.shrink import shrink
from differential.work import at_most

FEW, MANY, BLOCK = 150, 3000, 50
LONG = 600  # seconds for one program


@pytest.fixture(autouse=True)
def numpy_runs_the_traces() -> Iterator[None]:
    with jax.enable_x64(True), numpy_backend.interpreted():
        yield


def judge(seeds: range) -> None:
    failures = []
    kinds: Counter[str] = Counter()
    for seed in seeds:
        case = generator.generate(seed)
        # Where there is a limit, ProbLog has a small part of it; large programs would take minutes.
        with at_most(LONG):
            verdicts = [
                routes.confirmed(case, found)
                for found in routes.assess(case, routes.names_for(case))
            ]
        for verdict in verdicts:
            kinds[verdict.kind] += 1
            if verdict.bad:
                failures.append(f"{case}{verdict.route} {verdict.kind}: {verdict.text}\n")
    jax.clear_caches()
    assert not failures, "\n".join(failures)
    assert kinds["agreed"] > len(seeds) / 2


@pytest.mark.parametrize("block", range(FEW // BLOCK))
def test_programs(block: int) -> None:
    judge(range(block * BLOCK, (block + 1) * BLOCK))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(FEW // BLOCK, MANY // BLOCK))
def test_many_programs(block: int) -> None:
    judge(range(block * BLOCK, (block + 1) * BLOCK))


# ---------------------------------------------------------------- the fuzzer itself


def test_the_same_seed_gives_the_same_program() -> None:
    assert str(generator.generate(7)) == str(generator.generate(7))
    assert generator.generate(7).data == generator.generate(7).data


def test_most_answers_are_neither_certain_nor_impossible() -> None:
    answers = []
    for seed in range(100):
        try:
            expected = oracle.expect(generator.generate(seed))
        except (routes.TooManyWorlds, routes.Unsupported, routes.Conflict):
            continue
        for right in expected:
            answers += right.final.values()
            answers += [p for row in right.filtered.values() for p in row if not math.isnan(p)]
    assert np.mean([0.001 < p < 0.999 for p in answers]) > 0.6


def test_the_oracle_knows_a_closed_form() -> None:
    """Three flips of 0.6, and which is the first that holds."""
    on = s.Atom("on", ("E",), "t")
    first = s.Clause(
        ((None, s.Atom("first", ("E",), "t")),),
        (on, s.Not((s.Atom("on", ("F",), "t"), s.Compare("<", "F", "E")))),
    )
    flips = s.Clause(((0.6, on),), (s.Between(1, 3, "E"),))
    case = s.Case((flips, first, s.Query(s.Atom("first", ("E",), "T"))), 1, (1,))
    assert oracle.expect(case)[0].final == pytest.approx(
        {"first(1)@T": 0.6, "first(2)@T": 0.24, "first(3)@T": 0.096}
    )
    assert unrolled.disagreement(case) == ""


def test_the_oracle_weighs_by_densities() -> None:
    """x ~ normal(0, 1), z ~ normal(x, 1) seen at 1: x is normal(0.5, sqrt(0.5)) then."""
    hidden = s.Atom("x", ("X",), "t")
    case = s.Case(
        (
            s.Draw(hidden, "normal", (0, 1)),
            s.Draw(s.Atom("z", ("Z",), "t"), "normal", ("X", 1), (hidden,)),
            s.Clause(((None, s.Atom("up", (), "t")),), (hidden, s.Compare(">", "X", 0))),
            s.Observe(s.Atom("z", (), "t")),
            s.Query(s.Atom("up", (), "T")),
        ),
        1,
        (1,),
        {"z": {(): [[1.0]]}},
    )
    right = oracle.expect(case)[0]
    up = 0.5 * (1 + math.erf(0.5 / math.sqrt(0.5) / math.sqrt(2)))
    assert right.final["up@T"] == pytest.approx(up)
    density = math.exp(-0.25) / math.sqrt(4 * math.pi)
    assert right.log_evidence == pytest.approx(math.log(density))


def test_a_failure_is_shrunk_to_what_matters() -> None:
    cases = map(generator.generate, range(1000))
    # Without time, a query has to remain.
    case = next(c for c in cases if "disjunction" in c.features and c.timed)

    def has_a_disjunction(smaller: s.Case) -> bool:
        return any(isinstance(x, s.Clause) and len(x.heads) > 1 for x in smaller.statements)

    small = shrink(case, has_a_disjunction)
    assert len(small.statements) == 1
    assert len(small.lengths) == 1
    assert not small.data


def test_numpy_runs_traces_as_xla_does() -> None:
    def whole(x: jax.Array, key: jax.Array) -> tuple[jax.Array, ...]:
        def step(carry: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.numpy.tanh(carry + y), carry.at[y.astype(int) % 3].add(y)

        last, rows = jax.lax.scan(step, x[0], x[:, 0])
        picked = x[jax.numpy.array([2, 0]), :]
        order = jax.numpy.sort(x, axis=1), jax.numpy.searchsorted(x[0], x[1])
        draws = jax.random.uniform(jax.random.fold_in(key, 1), (1000,))
        return last, rows, picked, *order, jax.scipy.special.logsumexp(x, 0), draws.mean()

    x = jax.numpy.arange(12.0).reshape(4, 3) / 7
    by_numpy = jax.jit(lambda x, k: whole(x, k))(x, jax.random.key(0))
    with numpy_backend.compiled():
        by_xla = jax.jit(lambda x, k: whole(x, k))(x, jax.random.key(0))
    *exact, mean = (np.asarray(a) for a in by_numpy)
    *others, _ = (np.asarray(a) for a in by_xla)
    for a, b in zip(exact, others, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    assert abs(mean - 0.5) < 6 / math.sqrt(12 * 1000)
