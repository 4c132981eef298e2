"""Where the tables of a step are too large, exact inference compiles all steps to a circuit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm.inference import unrolled
from nesymm.inference.elimination.capacity import Capacity, TooLarge
from nesymm.inference.elimination.choices import choices
from nesymm.inference.methods import ExactForward
from nesymm.inference.results import FilterError

# Thirty things that come and go, each for itself; at every step one hears whether any is there.
THINGS = 30
COMING = f"""
i(I) :- between(1, {THINGS}, I).
0.1::x(I)@0 :- i(I).
0.9::x(I)@t :- x(I)@(t-1).
0.05::x(I)@t :- i(I), not x(I)@(t-1).
some@t :- x(_)@t.
observe(some@t).
query(x(1)@t). query(x(2)@1). query(x(30)@T).
"""
# Eight things of twelve colours, all different: neither tables nor circuits are small.
COLOURS = """
colour(E, C)@t ~ uniform_int(1, 12) :- between(1, 8, E).
same@t :- colour(E, C)@t, colour(F, C)@t, E < F.
observe(same@0, false).
query(colour(1, C)@1).
"""


def heard(said: tuple[int | None, ...], about: int | None = None) -> float:
    """The probability of what is heard at each step (None: nothing), with one thing there at
    step `about`. By inclusion and exclusion: that none is there at some steps is a product."""
    paths = list(product((0, 1), repeat=len(said)))

    def chance(path: tuple[int, ...]) -> float:
        p = 0.1 if path[0] else 0.9
        for old, new in pairwise(path):
            there = 0.9 if old else 0.05
            p *= there if new else 1 - there
        return p

    silent = [t for t, s in enumerate(said) if s == 0]
    loud = [t for t, s in enumerate(said) if s == 1]
    total = 0.0
    for count in range(len(loud) + 1):
        for some in combinations(loud, count):
            none = [*silent, *some]
            away = [p for p in paths if not any(p[t] for t in none)]
            one = sum(map(chance, away))
            first = one if about is None else sum(chance(p) for p in away if p[about])
            total += (-1) ** count * first * one ** (THINGS - 1)
    return total


def test_many_things_heard_together() -> None:
    rows: list[tuple[int | None, ...]] = [(1, 1, 0, 1), (0, None, 1, 0), (1, 0)]
    data = np.full((3, 4), np.nan)
    for row, said in zip(data, rows, strict=True):
        row[: len(said)] = [np.nan if s is None else s for s in said]
    data[2, 2:] = 1  # past its end
    model = nesymm.compile(COMING)
    arguments: dict[str, Any] = {"steps": [4, 4, 2], "method": "exact"}
    found = model.filter({"some": data}, **arguments)
    assert found.method == "exact forward, by a circuit"
    assert "tables" in found.reason
    smoothed = model.smooth({"some": data}, **arguments)
    for b, said in enumerate(rows):
        whole = heard(said)
        last = len(said) - 1
        np.testing.assert_allclose(found.log_evidence[b], np.log(whole), atol=1e-6)
        np.testing.assert_allclose(found.final["x(30)@T"][b], heard(said, last) / whole, atol=1e-6)
        np.testing.assert_allclose(found.final["x(2)@1"][b], heard(said, 1) / whole, atol=1e-6)
        for t in range(len(said)):
            upto = said[: t + 1]
            filtered = heard(upto, t) / heard(upto)
            np.testing.assert_allclose(found.filtered["x(1)@t"][b, t], filtered, atol=1e-6)
            given_all = heard(said, t) / whole
            np.testing.assert_allclose(smoothed["x(1)@t"][b, t], given_all, atol=1e-6)
    assert np.isnan(found.filtered["x(1)@t"][2, 2:]).all()


# ---------------------------------------------------------------- beside tables

RELATIONS = """
e(E) :- between(1, 3, E).
0.6::s(E) :- e(E).
0.1::a(E)@0 :- e(E).
0.6::a(E)@t :- a(E)@(t-1).
0.1::a(E)@t :- e(E), not a(E)@(t-1).
0.6::b(E)@t :- e(E).
t(0.3, E)::b(E)@t :- a(E)@t, s(E).
f@t :- a(E)@t, b(F)@t, E < F.
g(M)@t :- aggregate_all(count, a(_)@t, M).
c(0)@0.  c(N)@t :- c(M)@(t-1), g(K)@t, N is min(4, M + K).
observe(f@2, false). observe(b(E)@t).
query(b(1)@2). query(a(1)@7). query(f@t). query(g(M)@T). query(c(N)@t). query(s(E)).
"""
# A place that is drawn is a key; names, an input that may be missing, a lag of two.
PLACES = """
:- input(push(P)@t, [north, south]).
at(I)@0 ~ uniform_int(1, 3).
at(I)@t ~ uniform_int(1, J) :- at(J)@(t-1), not push(north)@t.
at(I)@t :- at(J)@(t-1), push(north)@t, I is min(3, J + 1).
0.4::lit(I) :- between(1, 3, I).
0.3::seen(I)@t :- between(1, 3, I), at(I)@(t-1).
light@t :- at(I)@t, lit(I).
again@t :- at(I)@t, at(I)@(t-2), seen(I)@t.
kind(K)@t ~ categorical([0.2, 0.3, 0.5], [red, green, blue]) :- light@t.
kind(red)@t :- not light@t.
observe(kind@t). observe(again@(2:3), false).
query(at(I)@t). query(lit(I)). query(again@T). query(kind(K)@(0:1)).
"""
# What is measured depends on a mode.
MEASURED = """
0.3::up@0.  0.8::up@t :- up@(t-1).  0.2::up@t :- not up@(t-1).
z(Z)@t ~ normal(1, t(0.7)) :- up@t.
z(Z)@t ~ normal(-1, 2) :- not up@t.
n(N)@t ~ poisson(3) :- up@t.
n(N)@t ~ poisson(1) :- not up@t.
observe(z@t). observe(n@t).
query(up@t). query(up@0).
"""


def some_relations(rng: np.random.Generator) -> dict[str, Any]:
    b = (rng.random((3, 4, 3)) < 0.5).astype(float)
    b[0, 1, 2], b[1, 0] = np.nan, np.nan
    return {"b": b}


def some_places(rng: np.random.Generator) -> dict[str, Any]:
    push = [["north", "south", None, None], ["south", None, "north", "south"], [None] * 4]
    kind = [["red", "blue", "red", None], ["red", None, "green", "red"], ["blue", "red"] * 2]
    return {"push": push, "kind": kind}


def some_measures(rng: np.random.Generator) -> dict[str, Any]:
    z, n = rng.normal(size=(3, 4)), rng.integers(0, 4, (3, 4)).astype(float)
    z[0, 1], n[1, 0], z[2, 0] = np.nan, np.nan, np.nan
    return {"z": z, "n": n}


@pytest.fixture
def no_tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every table too large. A single number is no table."""

    def refuse(capacity: Capacity, dims: Any) -> None:
        if choices(tuple(dims)):
            raise TooLarge((), 1, capacity.advice)

    return lambda: monkeypatch.setattr(Capacity, "refuse", refuse)


@pytest.mark.parametrize(
    ("text", "make"),
    [(RELATIONS, some_relations), (PLACES, some_places), (MEASURED, some_measures)],
    ids=["relations", "places", "measured"],
)
def test_it_agrees_with_tables(
    text: str, make: Callable[[Any], dict[str, Any]], no_tables: Callable[[], None]
) -> None:
    data = make(np.random.default_rng(0))
    arguments: dict[str, Any] = {"steps": [4, 2, 3], "method": "exact"}
    model = nesymm.compile(text)
    right = model.filter(data, **arguments), model.smooth(data, **arguments)
    assert right[0].method == "exact forward"
    no_tables()
    model = nesymm.compile(text)
    found = model.filter(data, **arguments), model.smooth(data, **arguments)
    assert found[0].method == "exact forward, by a circuit"
    np.testing.assert_allclose(found[0].log_gains, right[0].log_gains, atol=1e-6)
    pairs = [
        (found[0].filtered, right[0].filtered),
        (found[0].final, right[0].final),
        (found[1], right[1]),
    ]
    for new, old in pairs:
        assert set(new) == set(old)
        for name, array in old.items():
            np.testing.assert_allclose(new[name], array, atol=1e-6, err_msg=name)


# ---------------------------------------------------------------- failures and refusals


def test_impossible_evidence_is_located(no_tables: Callable[[], None]) -> None:
    no_tables()
    model = nesymm.compile("0.5::a@t.  b@t :- a@t, a@(t-1).  observe(a@t). observe(b@t).")
    data = {"a": [[1, 1, 1], [1, 0, 1]], "b": [[0, 1, 1], [0, 0, 1]]}
    with pytest.raises(FilterError, match=r"the evidence is impossible"):
        model.filter(data, method="exact")
    found = model.filter(data, method="exact", errors="keep")
    assert found.method == "exact forward, by a circuit"
    assert [(f.sequence, f.step) for f in found.failures] == [(1, 2)]
    np.testing.assert_allclose(found.log_evidence, [3 * np.log(0.5), -np.inf], atol=1e-6)


def test_clauses_that_disagree_are_reported(no_tables: Callable[[], None]) -> None:
    text = """
    0.5::b@t.  d(V)@t ~ uniform_int(1, 2).  e(V)@t ~ uniform_int(1, 2).
    x(V)@t :- d(V)@t.  x(V)@t :- e(V)@t, b@(t-1).
    y@t :- x(V)@(t-1), V > 1.  query(y@t).
    """
    right = nesymm.compile(text).filter(steps=4, method="exact", errors="keep")
    no_tables()
    found = nesymm.compile(text).filter(steps=4, method="exact", errors="keep")
    assert found.method == "exact forward, by a circuit"
    assert found.failures == right.failures
    with pytest.raises(FilterError, match="x"):
        nesymm.compile(text).filter(steps=4, method="exact")


def test_a_refusal_says_that_a_circuit_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolled, "MAX_SECONDS", 0.0)
    wanted = r"a table of [\d,]+ cells.*\n.*a circuit was tried as well: no circuit within"
    with pytest.raises(TooLarge, match=wanted):
        nesymm.compile(COLOURS).filter(steps=2, method="exact")


def test_gradients_do_not_go_through_it() -> None:
    model = nesymm.compile(COMING)
    with pytest.raises(TooLarge, match="too many joint values"):
        model.estimate({"some": np.ones((1, 3))}, method=ExactForward())
