"""Aggregates, negations and sums in clauses that have a key of their own along a plate.

What is expected is counted by hand, from the text.
"""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, RaoBlackwellised

COINS = "0.3::s(I)@t :- between(0, 1, I). "
# What else is there, what is asked, and its probability.
PROGRAMS = {
    "a coin is counted once": (
        COINS + "m(I)@t :- between(0, 1, I), aggregate_all(count, s(I)@t, N), N >= 2.",
        "m(_)@t",
        0.0,
    ),
    "a choice for each that has one": (
        COINS + "0.5::m(I)@t :- between(0, 1, I), aggregate_all(count, s(I)@t, 1).",
        "m(_)@t",
        1 - 0.85**2,
    ),
    "up to its own number": (
        COINS + "m(I)@t :- between(0, 1, I), aggregate_all(count, (s(J)@t, J =< I), N), N >= 2.",
        "m(_)@t",
        0.09,
    ),
    "of the other": (
        COINS
        + """r(I, J) :- between(0, 1, I), J is 1 - I.
        m(I)@t :- between(0, 1, I), aggregate_all(count, (r(I, J), s(J)@t), N), N >= 1.""",
        "m(0)@t, m(1)@t",
        0.09,
    ),
    "of a relation of facts": (
        COINS
        + """r(0, 0). r(0, 1). r(1, 1). r(1, 0).
        m(I)@t :- between(0, 1, I), aggregate_all(count, (r(I, J), s(J)@t), N), N >= 2.""",
        "m(_)@t",
        0.09,
    ),
    "whose key is compared": (
        COINS + "m(I)@t :- between(0, 1, I), aggregate_all(count, s(I)@t, 1).",
        "m(I)@t, I > 0",
        0.3,
    ),
    "rows that are full": (
        """0.3::s(I, J)@t :- between(0, 1, I), between(0, 1, J).
        m(I)@t :- between(0, 1, I), aggregate_all(count, s(I, _)@t, 2).""",
        "m(_)@t",
        1 - (1 - 0.09) ** 2,
    ),
    "a sum of its own values": (
        """v(I, V)@t ~ uniform_int(1, 3) :- between(0, 1, I).
        m(I)@t :- between(0, 1, I), aggregate_all(sum(V), v(I, V)@t, S), S > 2.""",
        "m(_)@t",
        5 / 9,
    ),
    "a list of its own values": (
        """v(I, V)@t ~ uniform_int(1, 3) :- between(0, 1, I).
        m(I)@t :- between(0, 1, I), findall(V, v(I, V)@t, L), sum_list(L, S), S > 2.""",
        "m(_)@t",
        5 / 9,
    ),
    "a maximum of its own": (
        COINS
        + """r(I, I) :- between(0, 1, I).
        m(I)@t :- between(0, 1, I), aggregate_all(max(J), (r(I, J), s(J)@t), N), N > I.""",
        "m(_)@t",
        0.0,
    ),
    "how many have a value": (
        """v(I, V)@t ~ uniform_int(1, 3) :- between(1, 4, I).
        m(K, N)@t :- between(1, 3, K), aggregate_all(count, v(_, K)@t, N).""",
        "m(_, 2)@t",
        (36 + 18) / 81,  # 2 + 1 + 1 and 2 + 2 + 0
    ),
    "a value that nobody has": (
        """v(I, V)@t ~ uniform_int(0, 2) :- between(1, 4, I).
        m(K)@t :- between(0, 2, K), not v(_, K)@t.""",
        "m(_)@t",
        1 - 36 / 81,
    ),
    "a choice if there is one that nobody has": (
        """v(I, V)@t ~ uniform_int(0, 2) :- between(1, 4, I).
        m(K)@t :- between(0, 2, K), not v(_, K)@t.
        some@t :- m(_)@t. 0.5::x@t :- some@t.""",
        "x@t",
        (1 - 36 / 81) / 2,
    ),
    "how many values nobody has": (
        """v(I, V)@t ~ uniform_int(0, 2) :- between(1, 4, I).
        m(K)@t :- between(0, 2, K), not v(_, K)@t.""",
        "aggregate_all(count, m(_)@t, 1)",
        42 / 81,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_keys_of_the_clause_are_kept(name: str) -> None:
    text, asked, expected = PROGRAMS[name]
    model = nesymm.compile(f"{text} asked@t :- {asked}. query(asked@t).")
    for method in (ExactForward(), RaoBlackwellised(10)):
        found = model.filter({}, steps=1, method=method).filtered["asked@t"]
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=str(method))
    found = model.filter({}, steps=1, method=Bootstrap(4000)).filtered["asked@t"]
    error = 5 * np.sqrt(expected * (1 - expected) / 4000)
    np.testing.assert_allclose(found, expected, atol=error + 1e-6)


def test_it_may_be_observed() -> None:
    """Of four draws of three values two leave one out with 45 of 81; the first is 1 in a third."""
    model = nesymm.compile("""
        v(I, V)@t ~ uniform_int(1, 3) :- between(1, 4, I).
        free@t :- between(1, 3, K), not v(_, K)@t.
        observe(free@0, true). query(v(1, 1)@0).
    """)
    for method in (ExactForward(), RaoBlackwellised(10)):
        found = model.filter({}, steps=1, method=method)
        np.testing.assert_allclose(found.log_evidence, np.log(45 / 81), atol=1e-5)
        np.testing.assert_allclose(found.final["v(1,1)@0"], 1 / 3, atol=1e-5)


def test_what_follows_by_recursion_is_observed_to_be_false() -> None:
    model = nesymm.compile(r"""
        e(1). e(2). 0.7::b(E)@t :- e(E).
        ill(E)@t :- b(E)@t.
        0.7::ill(E)@t :- e(E), ill(F)@t, E \= F.
        observe(ill(1)@t, false).
    """)
    for method in (ExactForward(), RaoBlackwellised(10)):
        found = model.filter({}, steps=2, method=method).log_evidence
        np.testing.assert_allclose(found, 2 * np.log(0.3 * (0.3 + 0.7 * 0.3)), atol=1e-5)


# ---------------------------------------------------------------- arithmetic without a value

UNDEFINED = {
    "1 / X > 0.7": "a division by zero",
    "Y is 6 mod X, Y >= 0": "a division by zero",
    "Y is 6 // X, Y >= 0": "a division by zero",
    "Y is log(X), Y < 5": "a logarithm",
    "Y is 0 ** (X - 1), Y > 0.7": "a power",
    "Y is sqrt(X - 1), Y >= 0": "the root",
}


@pytest.mark.parametrize("body", UNDEFINED)
def test_what_has_no_value_stops_the_run(body: str) -> None:
    text = f"x(X){{t}} ~ uniform_int(0, 2). a{{t}} :- x(X){{t}}, {body}. query(a{{t}})."
    model = nesymm.compile(text.format(t="@t"))
    for method in (ExactForward(), RaoBlackwellised(10), Bootstrap(100)):
        with pytest.raises(nesymm.NesymmError, match=f"step 0: {UNDEFINED[body]}"):
            model.filter({}, steps=2, method=method)
    with pytest.raises(nesymm.NesymmError, match=UNDEFINED[body]):
        nesymm.compile(text.format(t="")).infer()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("X > 0, 1 / X > 0.7", 1 / 3),
        ("1 / (X + 1) > 0.4", 2 / 3),
        ("Y is sqrt((X - 1) * (X - 1)), Y > 0.5", 2 / 3),
        ("Y is (X - 1) ** 2, Z is sqrt(Y), Z > 0.5", 2 / 3),
        ("(X = 0 ; X > 0, 1 / X > 0.7)", 2 / 3),
    ],
)
def test_where_it_is_not_used_it_does_not_matter(body: str, expected: float) -> None:
    text = f"x(X){{t}} ~ uniform_int(0, 2). a{{t}} :- x(X){{t}}, {body}. query(a{{t}})."
    assert nesymm.compile(text.format(t="")).infer().queries["a"] == pytest.approx(expected)
    for method in (ExactForward(), RaoBlackwellised(10)):
        found = nesymm.compile(text.format(t="@t")).filter({}, steps=1, method=method)
        assert found.filtered["a@t"][0, 0] == pytest.approx(expected, abs=1e-5)


RECURSION = """
    x(X){{t}} ~ uniform_int(0, 2).
    e(1, 2). e(2, 1). e(2, 3).
    p(X, Y){{t}} :- e(X, Y), x(Z){{t}}, {body}.
    p(X, Z){{t}} :- e(X, Y), p(Y, Z){{t}}.
    {more}
    query(p({query}){{t}}).
"""


@pytest.mark.parametrize("query", ["1, 1", "1, 2", "1, 3", "2, 2"])
@pytest.mark.parametrize("body", ["1 / Z > 0.7", "Y is 6 mod Z, Y >= 0"])
def test_what_has_no_value_stops_recursions(query: str, body: str) -> None:
    """Each atom of the cycle rests on a division by zero where x is 0, whichever is asked."""
    text = RECURSION.format(body=body.replace("Y", "W"), query=query, more="")
    model = nesymm.compile(text.format(t="@t"))
    for method in (ExactForward(), RaoBlackwellised(10), Bootstrap(100)):
        with pytest.raises(nesymm.NesymmError, match="step 0: a division by zero"):
            model.filter({}, steps=2, method=method)
    with pytest.raises(nesymm.NesymmError, match="a division by zero"):
        nesymm.compile(text.format(t="")).infer()


@pytest.mark.parametrize(
    ("body", "more", "query", "expected"),
    [
        ("Z > 0, 1 / Z > 0.7", "", "1, 1", 1 / 3),
        # Another proof holds where the first has no value.
        ("1 / Z > 0.7", "p(X, Y){t} :- e(X, Y), x(0){t}.", "1, 1", 2 / 3),
        ("1 / Z > 0.7", "p(3, X){t} :- e(X, _), x(1){t}.", "3, 1", 1 / 3),
    ],
)
def test_recursions_that_do_not_need_it(body: str, more: str, query: str, expected: float) -> None:
    text = RECURSION.format(body=body, query=query, more=more)
    (found,) = nesymm.compile(text.format(t="")).infer().queries.values()
    assert found == pytest.approx(expected)
    for method in (ExactForward(), RaoBlackwellised(10)):
        found = nesymm.compile(text.format(t="@t")).filter({}, steps=1, method=method)
        np.testing.assert_allclose(list(found.filtered.values()), [[[expected]]], atol=1e-5)


# ---------------------------------------------------------------- over conditions on real numbers


def test_a_mean_of_those_who_win_is_one_of_finitely_many_numbers() -> None:
    """The mean is 1.5 where both win and 2 where only the second does: a quarter each."""
    model = nesymm.compile("""
        e(E) :- between(1, 2, E).
        x(E, X)@t ~ normal(0, 1) :- e(E).
        wins(E)@t :- x(E, X)@t, X > 0.
        mean(M)@t :- aggregate_all(avg(E), wins(E)@t, M).
        even@t :- mean(M)@t, M =:= 1.5.
        late@t :- mean(M)@(t-1), M =:= 2.
        query(even@t). query(late@t).
    """)
    particles = 4000
    found = model.filter({}, steps=2, method=Bootstrap(particles)).filtered
    error = 5 * np.sqrt(0.25 * 0.75 / particles)
    np.testing.assert_allclose(found["even@t"][0], 0.25, atol=error)
    np.testing.assert_allclose(found["late@t"][0, 1], 0.25, atol=error)
