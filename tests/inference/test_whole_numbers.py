"""Whole numbers that do not fit are refused, and never wrap around."""

from __future__ import annotations

from fractions import Fraction

import jax
import numpy as np
import pytest

import nesymm
from nesymm.errors import NesymmError, ProgramError
from nesymm.inference.columns import DataError
from nesymm.inference.engines import Engines
from nesymm.inference.results import FilterError
from nesymm.model import Model

METHODS = ["exact", "rao-blackwellised", "bootstrap"]


def drawn(test: str, low: int = 1, high: int = 3) -> str:
    return f"x(X)@t ~ uniform_int({low}, {high}). big@t :- x(X)@t, {test}. query(big@t)."


TOO_LARGE = {
    "power": drawn("Y is X ** 40, Y > 5"),
    "product": drawn("Y is X * 1000000000, Z is Y - 2000000000, Z > 0"),
    "negative product": drawn("Y is X * -1000000000, Z is Y + 2000000000, Z < 0"),
    "sum": drawn("Y is X + 2147483646, Z is Y mod 7, Z < 3"),
    "constant": drawn("Y is X + 3000000000, Z is Y mod 7, Z < 3"),
    "remainder": drawn("Y is X ** 40, Z is Y mod 7, Z =:= 2"),
    "absolute value": drawn("Y is abs(X * 2000000000), Z is Y mod 7, Z < 3"),
    "total": """
        e(E) :- between(1, 4, E).
        x(E, X)@t ~ uniform_int(1000000000, 1000000001) :- e(E).
        s(S)@t :- aggregate_all(sum(X), x(_, X)@t, S).
        big@t :- s(S)@t, S > 5.
        query(big@t).
    """,
}


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small exact problems are answered by NumPy with 64 bits: here JAX has to."""
    monkeypatch.setattr(Engines, "at_once", lambda self, sequences: None)
    monkeypatch.setattr(Engines, "stepwise", lambda self, engine, sequences: None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_number_that_does_not_fit(kind: str, method: str) -> None:
    model = nesymm.compile(TOO_LARGE[kind])
    message = r"step 0: a whole number in the query big@t does not fit 32 bits; `jax_enable_x64`"
    with pytest.raises(FilterError, match=message):
        model.filter(steps=1, method=method)


@pytest.mark.parametrize("kind", [k for k in TOO_LARGE if k not in ("power", "remainder", "total")])
def test_64_bits_are_enough_for_some(kind: str) -> None:
    """Without time, Python computes the same with numbers of any size."""
    text = TOO_LARGE[kind]
    expected = nesymm.compile(text.replace("@t", "")).infer().probability("big")
    with jax.enable_x64(True):
        found = nesymm.compile(text).filter(steps=1, method="exact").filtered["big@t"]
    assert found == pytest.approx(expected)
    assert Fraction(expected).limit_denominator(3).denominator in (1, 3)


@pytest.mark.parametrize("method", METHODS)
def test_64_bits_do_not_wrap_either(method: str) -> None:
    with jax.enable_x64(True), pytest.raises(FilterError, match="does not fit 64 bits"):
        nesymm.compile(TOO_LARGE["power"]).filter(steps=1, method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A number is only too large where something depends on it.
        (drawn("X < 3, Y is X ** 25, Y > 5", 1, 30), 1 / 30),
        (drawn("(X < 3, Y is X ** 25, Y > 5 ; X > 29)", 1, 30), 2 / 30),
        (drawn("not (X < 3 ; Y is X ** 25, X < 2, Y > 5)", 1, 30), 28 / 30),
        # Whatever fits lies below such a constant.
        (drawn("X < 3000000000"), 1),
        (drawn("Y is X + X, Y > -3000000000"), 1),
        (drawn("X =:= 3000000000"), 0),
        # The largest that fit.
        (drawn("X > 2147483646", 2147483646, 2147483647), 0.5),
        # A negative power is a real number.
        ("x(X)@t ~ uniform_int(-1, 1). b@t :- x(X)@t, Y is 2 ** X, Y < 1. query(b@t).", 1 / 3),
    ],
)
def test_right_answers_next_to_large_numbers(text: str, expected: float, method: str) -> None:
    result = nesymm.compile(text).filter(steps=1, method=method)
    (found,) = result.filtered.values()
    error = 4 * np.sqrt(expected * (1 - expected) / 1000) if method == "bootstrap" else 0
    assert found == pytest.approx(expected, abs=1e-5 + error)


def test_a_draw_of_unbounded_numbers() -> None:
    text = "n(N)@t ~ poisson(100000). big@t :- n(N)@t, Y is N * N, Y > 5. query(big@t)."
    with pytest.raises(FilterError, match="does not fit 32 bits"):
        nesymm.compile(text).filter(steps=1, method="bootstrap")
    with jax.enable_x64(True):
        found = nesymm.compile(text).filter(steps=1, method="bootstrap").filtered
    assert found["big@t"] == pytest.approx(1)
    static = "n(N) ~ poisson(10000). big :- n(N), {}, Y is N ** 40, Y > 5. query(big)."
    with pytest.raises(NesymmError, match="a whole number in the query big does not fit 64 bits"):
        nesymm.compile(static.format("N > 0")).infer()
    assert nesymm.compile(static.format("N < 100")).infer().probability("big") == 0


GROWING = {
    "X * 10": 10,
    "X * X + 1": 6,
    "X + 1000000000": 3,
    "X - 1000000000": 3,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("growth", GROWING)
def test_a_state_that_grows(growth: str, method: str) -> None:
    model = nesymm.compile(
        f"x(1)@0. x(Y)@t :- x(X)@(t-1), Y is {growth}. big@t :- x(X)@t, abs(X) > 5. query(big@t)."
    )
    values = [1]
    for _ in range(GROWING[growth] - 1):
        values.append(eval(growth, {"X": values[-1]}))
    within = model.filter(steps=len(values), method=method).filtered["big@t"]
    assert within[0].tolist() == [abs(v) > 5 for v in values]
    with pytest.raises(FilterError, match=f"step {len(values)}: a whole number in x does not fit"):
        model.filter(steps=len(values) + 1, method=method)


@pytest.mark.parametrize("method", ["auto", "rao-blackwellised", "bootstrap"])
def test_a_state_that_is_a_large_constant(method: str) -> None:
    model = nesymm.compile("""
        :- fluent(y(value)).
        x(X)@t ~ uniform_int(1, 3).
        y(3000000000)@t :- x(X)@t, X > 1.
        y(1)@t :- x(1)@t.
        old@t :- y(Y)@(t-1), Y > 3.
        query(old@t).
    """)
    with pytest.raises(FilterError, match="step 0: a whole number in y does not fit 32 bits"):
        model.filter(steps=3, method=method)
    with jax.enable_x64(True):
        found = model.filter(steps=2, method="rao-blackwellised").filtered["old@t"]
    assert found == pytest.approx(np.array([[0, 2 / 3]]), abs=0.06)


def test_counters_are_not_watched_where_the_horizon_bounds_them() -> None:
    model = nesymm.compile("c(0)@0. c(N+1)@t :- c(N)@(t-1). b@t :- c(N)@t, N > 2. query(b@t).")
    assert model.filter(steps=5).filtered["b@t"].tolist() == [[0, 0, 0, 1, 1]]
    filter_ = model._filter("exact")
    assert filter_.engines.program(10_000).flags == () == filter_.engines.program(1 << 30).flags
    assert filter_.engines.program(1 << 31).flags != ()


def test_growth_that_is_not_steady_has_no_bound() -> None:
    """Doubled at every step, a number is much larger after 30 steps than 24 steps suggest."""
    model = nesymm.compile("""
        0.5::go@t.
        x(1)@0.
        x(Y)@t :- x(X)@(t-1), go@t, Y is X * 2.
        x(X)@t :- x(X)@(t-1), not go@t.
        big@t :- x(X)@t, X > 1000000.
        query(big@t).
    """)
    with pytest.raises(NesymmError, match=r"x is int .*: (it has infinitely|an exact belief has)"):
        model.filter(steps=29, method="exact")
    found = model.filter(steps=29, method="auto")
    assert found.method.startswith("Rao-Blackwellised")
    assert 0 < found.filtered["big@t"][0, -1] < 0.2


# ---------------------------------------------------------------- data and domains


@pytest.fixture(scope="module")
def reads() -> Model:
    return nesymm.compile(
        ":- input(k(X)@t, int). :- input(r(X)@t). a@t :- k(X)@t, Y is X * 1000, Y > 5. "
        "b@t :- r(X)@t, X > 5. query(a@t). query(b@t)."
    )


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("k", 2**31, "2147483648"),
        ("k", -(2**40), "-1099511627776"),
        ("k", 1e300, "1e+300"),
        ("k", np.uint64(2**64 - 1), "18446744073709551615"),
    ],
)
def test_data_that_do_not_fit(reads: Model, name: str, value: int, shown: str) -> None:
    data = {"k": [[1, 1]], "r": [[1.0, 1.0]]}
    data[name] = np.array([[1, value]], dtype=getattr(value, "dtype", None))
    text = rf"input k: {shown.replace('+', '[+]')} at sequence 0, step 1 does not fit the 32 bits"
    with pytest.raises(DataError, match=text):
        reads.filter(data)
    with pytest.raises(FilterError, match="a whole number in the query a@t does not fit 32 bits"):
        reads.filter({**data, "k": [[1, 3000000]]})
    assert reads.filter({**data, "k": [[1, 2000000]]}).filtered["a@t"].tolist() == [[1, 1]]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_real_numbers_that_do_not_fit(reads: Model, value: float) -> None:
    with pytest.raises(
        DataError, match=r"input r: .* at sequence 0, step 0 is not a number that 32"
    ):
        reads.filter({"k": [[1, 1]], "r": [[value, 1.0]]})


@pytest.mark.parametrize("method", METHODS)
def test_a_domain_that_does_not_fit(method: str) -> None:
    text = drawn("X > 2147483647", 2147483646, 2147483648)
    with pytest.raises(
        NesymmError, match=r"values of x do not fit 32 bits: one is 2147483648\n.*64"
    ):
        nesymm.compile(text).filter(steps=1, method=method)
    with jax.enable_x64(True):
        found = nesymm.compile(text).filter(steps=1, method="exact").filtered["big@t"]
    assert found == pytest.approx(1 / 3)
    assert nesymm.compile(text.replace("@t", "")).infer().probability("big") == pytest.approx(1 / 3)


# ---------------------------------------------------------------- too many values


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_a_state_with_a_billion_values(method: str) -> None:
    moves = "s(7)@0. s(Y)@t :- s(X)@(t-1), Y is (X * 2 + 1) mod 1000000007."
    model = nesymm.compile(f"{moves} even@t :- s(X)@t, X mod 2 =:= 0. query(even@t).")
    assert not model.filter(steps=4, method=method).filtered["even@t"].any()
    with pytest.raises(
        NesymmError, match=r"the query s\(_\)@t asks for one of 1,000,000,007 values.*\n --> "
    ):
        nesymm.compile(f"{moves} query(s(X)@t).").filter(steps=4, method=method)


def test_an_uncertain_state_with_a_billion_values() -> None:
    model = nesymm.compile("""
        0.5::go@t.
        s(7)@0.
        s(Y)@t :- s(X)@(t-1), go@t, Y is (X * 2 + 1) mod 1000000007.
        s(X)@t :- s(X)@(t-1), not go@t.
        moved@t :- s(X)@t, X > 7.
        query(moved@t).
    """)
    with pytest.raises(NesymmError, match=r"s is int 0\.\.1000000006: an exact belief has at most"):
        model.filter(steps=3, method="exact")
    found = model.filter(steps=3).filtered["moved@t"]
    assert found == pytest.approx(np.array([[0, 0.5, 0.75]]), abs=0.06)


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_a_query_for_too_many_values(method: str) -> None:
    model = nesymm.compile("x(1)@0. x(X*1000)@t :- x(X)@(t-1). query(x(X)@t).")
    with pytest.raises(NesymmError, match=r"asks for one of [0-9,]+ values, and an answer lists"):
        model.filter(steps=7, method=method)


@pytest.mark.parametrize(
    "text",
    [
        "p(X)@t ~ normal(0, 1). query(p(X)@t).",
        "p(X)@t ~ normal(0, 1). query(p(X)@1).",
        "n(N)@t ~ poisson(3). query(n(N)@t).",
        "p(X) ~ normal(0, 1). query(p(X)).",
        "p(X)@0 ~ normal(0, 1). p(X)@t :- p(X)@(t-1). query(p(X)@t).",
    ],
)
def test_a_query_for_infinitely_many_values_is_not_compiled(text: str) -> None:
    with pytest.raises(ProgramError, match=r"E317.*not one of finitely many\n --> .*:1:"):
        nesymm.compile(text)


def test_a_query_for_each_of_some_real_numbers_says_what_can_be_asked() -> None:
    text = "x(X)@t ~ categorical([0.25, 0.75], [0.5, 1.5]). query(x({})@t)."
    with pytest.raises(
        ProgramError, match=r"E317.*asks for a real number; over time.*\n --> .*:1:"
    ):
        nesymm.compile(text.format("X"))
    found = nesymm.compile(text.format("1.5")).filter(steps=1)
    assert found.probability("x(1.5)@t") == pytest.approx(0.75)


def test_a_chance_of_zero_is_flagged_where_it_is_waited_for() -> None:
    text = """
    p(P)@t ~ categorical([{}, 1.0], [0.0, 0.5]).
    n(N)@t ~ geometric(P) :- p(P)@t.
    few@t :- n(N)@t, N < 2.
    query(few@t).
    """
    assert nesymm.compile(text.format("0.0")).filter(steps=1).probability("few@t") == pytest.approx(
        1 - 0.5**2
    )
    with pytest.raises(NesymmError, match="the p of geometric is not positive"):
        nesymm.compile(text.format("0.5").replace("1.0]", "0.5]")).filter(steps=1)


def test_queries_for_what_is_known() -> None:
    text = "p(X) ~ normal(0, 1). observe(p, 1.5). query(p(X))."
    assert nesymm.compile(text).infer().queries == {"p(1.5)": 1.0}
    text = "p(X) ~ categorical([0.25, 0.75], [0.5, 1.5]). query(p(X))."
    assert nesymm.compile(text).infer().queries == pytest.approx({"p(0.5)": 0.25, "p(1.5)": 0.75})


# ---------------------------------------------------------------- numbers of steps


@pytest.mark.parametrize("steps", [0, -5, 1.5, True, "3", 10**12])
@pytest.mark.parametrize("verb", ["filter", "smooth", "trajectories", "generate", "log_evidence"])
def test_a_number_of_steps_that_is_none(verb: str, steps: int) -> None:
    model = nesymm.compile("0.5::a@t. query(a@t).")
    reason = f"1 or more, received {steps!r}"
    if steps == 10**12:
        reason = "whose results fit into memory, received 1,000,000,000,000 steps of 1 sequences"
    with pytest.raises(DataError, match=f"steps: expected a number of steps,? {reason}"):
        getattr(model, verb)(steps=steps)


@pytest.mark.parametrize("length", [[], [[1]], [1.5], ["a"], [[1], [1, 2]]])
def test_lengths_that_are_none(length: list) -> None:
    with pytest.raises(DataError, match="steps: expected"):
        nesymm.compile("0.5::a@t. query(a@t).").filter(steps=length)
