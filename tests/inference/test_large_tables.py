"""Tables that are too large are refused before they are made, and Auto goes around them."""

from __future__ import annotations

import math
import tracemalloc
from itertools import combinations

import numpy as np
import pytest

import nesymm
from nesymm.inference import auto, engines, unrolled
from nesymm.inference.auto import shapes
from nesymm.inference.data import prepare
from nesymm.inference.elimination import summation
from nesymm.inference.elimination.capacity import Capacity, TooLarge
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.filter import Filter
from nesymm.inference.methods import Auto, ExactForward, RaoBlackwellised
from nesymm.inference.named import Named

# Each of eight things may have the colour of any other.
COLOURS = """
colour(E, C)@t ~ uniform_int(1, 12) :- between(1, 8, E).
same@t :- colour(E, C)@t, colour(F, C)@t, E < F.
observe(same@0, false).
query(colour(1, C)@1).
"""
# The same beside a state that has no exact belief in any case.
WALK = """
p(X)@0 ~ normal(0, 1).  p(X)@t ~ normal(Y, 1) :- p(Y)@(t-1).
v(I, V)@t ~ uniform_int(0, 9) :- between(1, 8, I).
alike@t :- v(I, V)@t, v(J, W)@t, I < J, (V + W * W) mod 53 =:= 7.
up@t :- p(X)@t, X > 0, alike@t.
observe(alike@t). query(up@t).
"""
PAIR = """
x(V)@0 ~ uniform_int(0, 15).  x(V)@t ~ uniform_int(0, W) :- x(W)@(t-1).
z(V) ~ uniform_int(0, 15).
0.5::y@t :- x(V)@t, z(V).
0.1::y@t.
observe(y@t). query(y@t).
"""


@pytest.mark.parametrize(
    ("method", "cure"), [("exact", "rao-blackwellised"), ("rao-blackwellised", "bootstrap")]
)
def test_a_refusal_says_how_large_and_what_to_do(
    method: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrolled, "MAX_SECONDS", 0.0)
    wanted = rf"colour\[\d\] \(12\), .* a table of [\d,]+ cells, [\d.]+ GB in all; .*fewer .*{cure}"
    with pytest.raises(TooLarge, match=wanted):
        nesymm.compile(COLOURS).filter(steps=2, method=method)


# Each table of this is small, and there are many.
DENSE = """
v(X) :- between(1, 5, X).
0.5::e(X, Y)@t :- v(X), v(Y), X =\\= Y.
path(X, Y)@t :- e(X, Y)@t.
path(X, Y)@t :- e(X, Z)@t, path(Z, Y)@t.
query(path(1, 5)@t).
"""


def test_auto_does_not_work_too_long_on_many_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nesymm.compile(DENSE)
    exact = model.filter(steps=1, method="exact")
    assert nesymm.compile(DENSE).filter(steps=1).method == "exact forward"
    for module in (auto, engines):
        monkeypatch.setattr(module, "MAX_WORK", 1 << 7)
    found = nesymm.compile(DENSE).filter(steps=1)
    assert found.method == "bootstrap, 1,000 particles"
    assert "the tables of a step have more than 128 cells together" in found.reason
    for f, error in ((found, 0.06), (exact, 1e-6)):
        assert f.probability("path(1,5)@t")[0] == pytest.approx(_connected(5), abs=error)
    # Who asks for exact inference gets it, however long it takes.
    assert nesymm.compile(DENSE).filter(steps=1, method="exact").method == "exact forward"


def _connected(nodes: int) -> float:
    """How probably the last node can be reached from the first, each edge being there with 0.5:
    by the sets that a search from the first node reaches, layer by layer."""
    others = frozenset(range(1, nodes))

    def reach(layer: int, left: frozenset[int]) -> float:
        """The same where `layer` nodes were just reached, and those in `left` never."""
        total = 0.0
        for size in range(1, len(left) + 1):
            for new in combinations(sorted(left), size):
                p = (1 - 0.5**layer) ** size * 0.5 ** (layer * (len(left) - size))
                total += p * (1.0 if nodes - 1 in new else reach(size, left - frozenset(new)))
        return total

    return reach(1, others)


def test_auto_goes_around_them() -> None:
    found = nesymm.compile(COLOURS).filter(steps=2)
    assert found.method == "bootstrap, 1,000 particles"
    assert "exact inference does not apply" in found.reason
    assert "given a particle: these finite variables" in found.reason
    # Eight different colours of twelve.
    p = math.perm(12, 8) / 12**8
    error = np.sqrt((1 - p) / (p * 1000))
    np.testing.assert_allclose(found.log_evidence, np.log(p), atol=4 * error)


def test_auto_goes_around_those_given_a_particle() -> None:
    step = nesymm.compile(WALK).step
    engine = Filter(step, Auto()).engines.choose(prepare(step, {"alike": [[0, 0]]}))
    assert engine.describe() == "bootstrap, 1,000 particles"
    assert "p is normal" in engine.reason
    assert "given a particle: these finite variables" in engine.reason


def test_a_batch_counts() -> None:
    """A table that is small for one sequence is not so for millions: nothing is computed here."""
    step = nesymm.compile(PAIR).step
    few, many = (prepare(step, {"y": np.ones((n, 2))}) for n in (2, 3_000_000))
    auto = Filter(step, Auto())
    assert auto.engines.choose(few).describe() == "exact forward"
    wanted = r"x \(\d+\), z \(16\).* cells, [\d.]+ GB in all; .* fewer sequences at once"
    with pytest.raises(TooLarge, match=wanted):  # particles would need even more
        auto.engines.choose(many)
    exact = Filter(step, ExactForward())
    with pytest.raises(TooLarge, match=wanted):
        shapes(step, exact.engines.choose(many), many)


def test_particles_name_values_where_their_tables_are_too_large() -> None:
    """Which of four values any of four things has, listed: all of it would be one table."""
    model = nesymm.compile("""
        e(1). e(2). e(3). e(4).
        v(E, 3)@0 :- e(E).
        v(E, V)@t ~ uniform_int(0, 3) :- v(E, W)@(t-1), W > 0.
        v(E, V)@t ~ categorical([0.1, 0.2, 0.3, 0.4], [0, 1, 2, 3]) :- v(E, 0)@(t-1).
        0.5::mark(X)@t :- v(_, X)@t.
        least@t :- findall(C, mark(C)@t, L), min_list(L, M), M < 1.
        query(least@t).
    """)
    # At step 1 some thing has the value 0, and marks it: each for itself.
    right = 1 - (1 - 0.25 * 0.5) ** 4
    found = model.filter(steps=2, method=RaoBlackwellised(particles=10))
    assert found.filtered["least@t"][0, 1] == pytest.approx(right)


def test_conditions_alone_are_counted() -> None:
    dims = [Choice("aux", i, (), 2) for i in range(3)]
    assert "have too many joint values: 3 conditions; that is a table of 8 cells" in str(
        TooLarge(dims, 64, "take fewer")
    )


def test_many_causes_of_what_is_observed() -> None:
    """Sixteen causes each of two observed atoms, summed out pair by pair: all of them in one table
    would have 2^32 cells."""
    model = nesymm.compile("""
        e(1). e(2). e(3). e(4).
        0.7::b@t.
        f(E, F)@t :- e(E), e(F), b@t, b@(t-1).
        0.05::o@t :- f(_, _)@t.
        0.1::o@t :- not f(_, _)@t.
        observe(o@t).
        0.1::q@t :- f(_, _)@t.
        0.6::q@t :- not f(_, _)@t.
        observe(q@t).
        query(b@0).
    """)
    seen = {"o": np.array([[0, 0]]), "q": np.array([[1, 0]])}
    nothing, all_ = 0.9 * 0.4, 0.95**16 * 0.9**16
    later = 0.49 * all_ + 0.51 * nothing
    found = model.filter(seen, method="exact")
    assert found.log_evidence[0] == pytest.approx(np.log(0.9 * 0.6 * later), abs=1e-9)
    at_first = 0.7 * (0.7 * all_ + 0.3 * nothing) / later
    assert found.final["b@0"][0] == pytest.approx(at_first, abs=1e-9)
    tracemalloc.start()
    try:
        found = model.filter(seen, method=RaoBlackwellised(200))
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    # A particle has drawn b@0, and weighs what the second step says of it.
    spread = np.sqrt(0.7 * 0.3) * abs(nothing - (0.7 * all_ + 0.3 * nothing)) / later
    error = 5 * spread / np.sqrt(200)
    assert found.log_evidence[0] == pytest.approx(np.log(0.9 * 0.6 * later), abs=error)
    assert found.final["b@0"][0] == pytest.approx(at_first, abs=5 / np.sqrt(4 * 200))


def test_tables_are_refused_before_any_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of these truths stand in a circle: they are refused together, behind the first."""
    a, b, c, d = (Choice("rv", n, (), 2) for n in "abcd")
    pairs = [(a, b), (b, c), (c, d), (d, b)]
    factors = [Named(np.zeros((2, 2)), dims) for dims in pairs]
    computed: list[tuple] = []
    add = summation.add

    def counted(tables: list[Named]) -> Named:
        computed.append(tuple(t.dims for t in tables))
        return add(tables)

    monkeypatch.setattr(summation, "add", counted)
    with pytest.raises(TooLarge, match="a table of 8 cells"):
        summation.sum_out(factors, capacity=Capacity(cells=4))
    assert not computed
    total, _ = summation.sum_out(factors, capacity=Capacity(cells=8))
    assert computed and total.array == pytest.approx(np.log(2**4))
