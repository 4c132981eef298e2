"""Steps in which the entities of a plate meet: right, by every engine, and not refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import unrolled

import nesymm
from nesymm.inference.engines import Engines
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised

MET = """
e(E) :- between(1, {n}, E).
0.5::s(E) :- e(E).
0.5::a(E)@0 :- between(1, {n}, E).
0.5::a(E)@t :- a(E)@(t-1).
0.8::a(E)@t :- e(E), not a(E)@(t-1).
0.5::b(E)@t :- between(1, {n}, E).
0.8::b(E)@t :- a(E)@t.
"""
# name: program, horizon
PROGRAMS = {
    "the first of those that are on": (
        """0.6::on(E)@t :- between(1, 3, E).
        first(E)@t :- on(E)@t, not (on(F)@t, F < E).
        query(first(E)@T).""",
        0,
    ),
    "those that are on alone": (
        """0.6::on(E)@t :- between(1, 3, E).
        alone(E)@t :- on(E)@t, not (on(F)@t, F =\\= E).
        observe(alone(2)@0, false).
        query(alone(E)@T). query(on(E)@T).""",
        1,
    ),
    "one entity": (
        """0.6::on(E)@t :- between(1, 1, E).
        first(E)@t :- on(E)@t, not (on(F)@t, F < E).
        query(first(E)@T).""",
        0,
    ),
    "no entity": (
        """0.6::on(E)@t :- between(1, 0, E).
        0.5::x@t.
        some@t :- on(_)@t.
        some@t :- x@t.
        query(some@T).""",
        1,
    ),
    "the largest of several causes": (
        """0.4::on(E)@t :- between(1, 3, E).
        0.3::on(E)@t :- between(1, 3, E).
        mx(M)@t :- aggregate_all(max(E), on(E)@t, M).
        query(mx(M)@T).""",
        0,
    ),
    "the smallest is observed": (
        """0.4::on(E)@t :- between(1, 3, E).
        0.3::on(E)@t :- between(1, 3, E).
        mn(M)@t :- aggregate_all(min(E), on(E)@t, M).
        late@t :- mn(M)@t, M > 1.
        observe(late@0, true).
        query(mn(M)@T). query(on(E)@0).""",
        1,
    ),
    "the smallest value": (
        """v(E, V)@t ~ uniform_int(1, 4) :- between(1, 3, E).
        low(M)@t :- aggregate_all(min(V), v(_, V)@t, M).
        tie@t :- v(E, V)@t, v(F, V)@t, E < F.
        observe(tie@0, false).
        query(low(M)@T). query(low(M)@0).""",
        1,
    ),
    "two entities, evidence at the end": (
        MET.format(n=2)
        + """f1@t :- b(E)@t, b(F)@t, E < F.
        g(M)@t :- aggregate_all(min(E), b(E)@t, M).
        query(b(1)@2). query(b(2)@2). query(f1@2). query(g(1)@2). query(g(2)@2).
        observe(f1@2, false).""",
        2,
    ),
    "three entities": (
        MET.format(n=3)
        + """f1@t :- a(E)@t, b(F)@t, E < F.
        g(M)@t :- aggregate_all(count, a(_)@t, M).
        query(b(1)@2). query(b(2)@2). query(b(3)@2). query(a(1)@2). query(f1@2). query(g(1)@2).
        observe(f1@2, false). observe(b(1)@2, true).""",
        2,
    ),
    "rooms in a graph": (
        """d(o, h). d(h, k). d(h, l). d(h, g).
        w(Q)@t ~ categorical([0.2, 0.2, 0.2, 0.2, 0.2], [o, h, k, l, g]).
        v(R)@t ~ categorical([0.1, 0.2, 0.3, 0.2, 0.2], [o, h, k, l, g]).
        ok@t :- w(Q)@t, v(R)@t, d(Q, R).
        observe(ok@0, true).
        query(ok@T). query(w(Q)@0).""",
        1,
    ),
    "a chain of negations": (
        """0.5::a(E)@t :- between(1, 3, E).
        0.6::b(E)@t :- between(1, 3, E).
        safe(E)@t :- between(1, 3, E), not (a(F)@t, F >= E, not (b(G)@t, G < F)).
        observe(safe(1)@0, true).
        query(safe(E)@T). query(a(E)@0).""",
        1,
    ),
}

# What ProbLog has no aggregates for, said without them.
PLAIN = {
    "mx(M)@t :- aggregate_all(max(E), on(E)@t, M).": ("mx(M)@t :- on(M)@t, not (on(F)@t, F > M)."),
    "mn(M)@t :- aggregate_all(min(E), on(E)@t, M).": ("mn(M)@t :- on(M)@t, not (on(F)@t, F < M)."),
    "low(M)@t :- aggregate_all(min(V), v(_, V)@t, M).": (
        "low(M)@t :- v(_, M)@t, not (v(_, V)@t, V < M)."
    ),
    "g(M)@t :- aggregate_all(min(E), b(E)@t, M).": "g(M)@t :- b(M)@t, not (b(F)@t, F < M).",
    "g(M)@t :- aggregate_all(count, a(_)@t, M).": ("g(1)@t :- a(E)@t, not (a(F)@t, F =\\= E)."),
}


def expected_answers(source: str, horizon: int) -> dict[str, float]:
    for aggregate, plain in PLAIN.items():
        source = source.replace(aggregate, plain)
    return unrolled(source, horizon)


def answers(source: str, horizon: int, method: object, seed: int = 0) -> dict[str, float]:
    found = nesymm.compile(source).filter({}, steps=horizon + 1, method=method, key=seed)
    return {name: float(values[0]) for name, values in found.final.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact(name: str) -> None:
    source, horizon = PROGRAMS[name]
    expected = expected_answers(source, horizon)
    found = answers(source, horizon, ExactForward())
    for query in expected.keys() | found.keys():
        assert found.get(query, 0.0) == pytest.approx(expected.get(query, 0.0), abs=1e-9), query


@pytest.mark.parametrize(
    "method", [RaoBlackwellised(4000), Bootstrap(4000)], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize(
    "name",
    [
        "the first of those that are on",
        "the largest of several causes",
        "the smallest is observed",
        "two entities, evidence at the end",
    ],
)
def test_particles(name: str, method: RaoBlackwellised | Bootstrap) -> None:
    """Each of 4,000 particles that evidence leaves says at most one bit: five standard errors."""
    source, horizon = PROGRAMS[name]
    expected = expected_answers(source, horizon)
    found = nesymm.compile(source).filter({}, steps=horizon + 1, method=method)
    left = float(found.effective.min())
    for query, values in found.final.items():
        p = expected.get(query, 0.0)
        error = 5 * np.sqrt(p * (1 - p) / left) + 1e-3
        assert float(values[0]) == pytest.approx(p, abs=error), query


def test_auto_is_exact_where_entities_meet() -> None:
    source, horizon = PROGRAMS["three entities"]
    found = nesymm.compile(source).filter({}, steps=horizon + 1)
    assert found.method == "exact forward"


FIVE = (
    MET.format(n=4)
    + """
c(E, V)@0 ~ uniform_int(0, 2) :- e(E).
c(E, V)@t :- c(E, W)@(t-1), a(E)@t, V is (W + 1) mod 3.
c(E, W)@t :- c(E, W)@(t-1), not a(E)@t.
f@t :- a(E)@t, b(F)@t, s(G), E < F, F < G.
alike@t :- c(E, V)@t, c(F, V)@t, E < F.
n(M)@t :- aggregate_all(count, b(_)@t, M).
observe(f@t).
query(alike@t). query(n(M)@t). query(a(E)@2). query(s(E)).
"""
)


def test_four_entities_over_five_steps() -> None:
    """A belief over 2^4 x 2^4 x 3^4 states; ProbLog does not come to an end here, so the compiled
    loop and the steps one by one judge each other."""
    model = nesymm.compile(FIVE)
    seen = {"f": np.array([[1, 0, 1, 0, 1], [0, 0, np.nan, 1, 0]])}
    found = model.filter(seen)
    assert found.method == "exact forward"
    draws = model.filter(seen, method=Bootstrap(20_000))
    left = np.maximum(draws.effective, 1)
    for name, values in found.filtered.items():
        error = 6 * np.sqrt(values * (1 - values) / left) + 5e-3
        assert (np.abs(values - draws.filtered[name]) < error).all(), name


@pytest.mark.compiled
def test_compiled_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy step by step, and a loop that JAX compiles: the same tables."""
    source, horizon = PROGRAMS["three entities"]
    model = nesymm.compile(source + " query(f1@t). query(a(E)@t).")
    quick = model.filter({}, steps=horizon + 1, method="exact")
    smooth = model.smooth({}, steps=horizon + 1, method="exact")
    monkeypatch.setattr(Engines, "at_once", lambda self, sequences: None)
    slow = model.filter({}, steps=horizon + 1, method="exact")
    again = model.smooth({}, steps=horizon + 1, method="exact")
    np.testing.assert_allclose(quick.log_evidence, slow.log_evidence, atol=1e-5)
    for name, values in quick.final.items():
        np.testing.assert_allclose(values, slow.final[name], atol=1e-5)
    for name in quick.filtered:
        np.testing.assert_allclose(smooth[name], again[name], atol=1e-5)


def test_an_average_of_nothing_at_the_first_step() -> None:
    """Where there is nothing to average, there is no average; at step 0 that is certain."""
    source = """
        e(1). e(2).
        0.5::f(E)@t :- e(E).
        g(M)@t :- aggregate_all(avg(E), f(E)@(t-1), M).
        high@t :- g(M)@t, M > 1.
        query(high@t).
    """
    found = nesymm.compile(source).filter({}, steps=2).filtered["high@t"]
    np.testing.assert_allclose(found, [[0.0, 0.5]], atol=1e-9)  # {2}, {1, 2} of four sets


def test_elements_that_are_all_alike_are_multiplied() -> None:
    """Nothing is observed, so the evidence is 1, however many elements the plate has."""
    source = """
        v(V)@0 ~ uniform_int(0, 2).
        0.5::b(E)@t :- between(1, 2, E), v(W)@t, W =\\= 1.
        o@t :- v(2)@t.
        observe(o@t). query(b(E)@t).
    """
    found = nesymm.compile(source).filter({"o": [[np.nan]]}, method=RaoBlackwellised(10))
    np.testing.assert_allclose(found.log_evidence, 0.0, atol=1e-5)


def test_a_relation_of_values_over_a_plate() -> None:
    """Some of two has the value: 1 - 0.4², 1 - 0.6²."""
    source = """
        v(E, V)@0 ~ categorical([0.6, 0.4], [0, 1]) :- between(1, 2, E).
        mark(X)@t :- v(_, X)@t.
        query(mark(X)@t).
    """
    facts = source.replace("between(1, 2, E)", "e(E)") + " e(1). e(2)."
    for text, method in product((source, facts), (ExactForward(), RaoBlackwellised(10))):
        model = nesymm.compile(text)
        found = model.filter({}, steps=1, method=method).filtered
        assert found["mark(0)@t"][0, 0] == pytest.approx(0.84, abs=1e-5)
        assert found["mark(1)@t"][0, 0] == pytest.approx(0.64, abs=1e-5)
        update = model.stream(method=method).update({})
        assert update.probabilities["mark(0)@t"][0] == pytest.approx(0.84, abs=1e-5)


def test_an_atom_that_is_reached_by_a_value_and_by_name() -> None:
    """mark(1) follows from either of two values, mark(2) from one of them or from h."""
    source = """
        e(a). e(b). 0.3::h@t.
        v(E, V)@t ~ categorical([0.6, 0.4], [0, 1]) :- e(E).
        mark(X)@t :- v(_, X)@t.
        mark(1)@t :- h@t.
        mark(5)@t :- h@t.
        query(mark(X)@1).
    """
    found = nesymm.compile(source).filter({}, steps=3).final
    expected = {"mark(0)@1": 0.84, "mark(1)@1": 1 - 0.36 * 0.7, "mark(5)@1": 0.3}
    assert found.keys() == expected.keys()
    for name, probability in expected.items():
        assert found[name][0] == pytest.approx(probability, abs=1e-9)


def test_a_static_that_a_whole_plate_reads_is_summed_and_the_plate_drawn() -> None:
    """Nothing is observed at step 0; at step 1 both are: s holds, 1/2 · (1/4)²."""
    source = """
        0.5::s(E) :- between(1, 2, E).
        0.5::b(E)@t :- between(1, 2, E), s(1).
        0.5::o(E)@t :- b(E)@t.
        observe(o(E)@t).
    """
    seen = np.asarray([[[np.nan, np.nan], [1, 1]]])
    # Of what is drawn at step 0, P(s | b) is left: 1/5 for 5 of 8, else 1. Its standard deviation
    # is 0.387 around 1/2, so that of log-evidence is 0.775 / √2000 = 0.0173.
    for method, error in ((ExactForward(), 1e-6), (RaoBlackwellised(2000), 4 * 0.0173)):
        found = nesymm.compile(source).filter({"o": seen}, method=method)
        np.testing.assert_allclose(found.log_evidence, np.log(1 / 32), atol=error)


def test_a_minimum_over_one_element_that_nothing_asks_for() -> None:
    source = """
        a(E)@0 :- between(1, 1, E).
        g(M)@t :- aggregate_all(min(E), a(E)@t, M).
    """
    assert nesymm.compile(source).filter({}, steps=2).log_evidence[0] == 0.0


def test_a_maximum_along_an_axis_of_named_conditions() -> None:
    """The largest of four values, through two relations whose join is too large for one table."""
    source = """
        v(E, V)@t ~ uniform_int(0, 3) :- between(1, 4, E).
        one(X)@t :- v(_, X)@t.
        two(X, Y)@t :- v(E, X)@t, v(E, Y)@t.
        best(max<Y>)@t :- two(_, Y)@t, one(Y)@t.
        query(best(M)@T).
    """
    found = nesymm.compile(source).filter({}, method=ExactForward(), steps=1).final
    for m in range(4):
        expected = ((m + 1) ** 4 - m**4) / 4**4
        assert found[f"best({m})@T"][0] == pytest.approx(expected, abs=1e-6)


def test_elements_that_no_entity_has_are_not_read() -> None:
    """`v(V, 0)` asks for keys 0 to 2, and there are entities 1 and 2 only."""
    model = nesymm.compile("""
        e(E) :- between(1, 2, E).
        v(E, V)@0 ~ uniform_int(0, 2) :- e(E).
        v(E, V)@t ~ categorical([P, Q], [0, 2]) :- v(E, W)@(t-1), P is (W + 1) / 4, Q is 1 - P.
        g@t :- v(_, V)@t, v(V, 0)@t.
        query(g@t).
    """)
    found = model.filter(steps=3, method="exact")
    assert found.log_evidence[0] == pytest.approx(0, abs=1e-9)
    # One of them says 1 or 2, and that one has 0.
    pairs = [(a, b) for a in range(3) for b in range(3)]
    holds = [any(v in (1, 2) and (a, b)[v - 1] == 0 for v in (a, b)) for a, b in pairs]
    assert found.filtered["g@t"][0, 0] == pytest.approx(sum(holds) / 9)
