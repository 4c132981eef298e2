"""Declared domains of keys, of what nothing carries, and keys that tests bound."""

import random

import pytest

import nesymm
from nesymm.errors import ProgramError
from nesymm.inference.results import FilterError

METHODS = ("exact", "rao-blackwellised", "bootstrap")

SEEN = """
:- fluent(seen(key)).
:- domain(seen/1, 1, 1..2).
at(X)@t ~ uniform_int(1, 4).
seen(X)@t :- at(X)@t.
seen(X)@t :- seen(X)@(t-1).
"""
GROWS = """
:- fluent(v(key)).
v(1)@0.
d(D)@t ~ uniform_int(1, 2).
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("asked", ["seen(4)@T", "seen(1)@T", "seen(X)@T"])
def test_a_drawn_key_that_leaves_its_domain(asked: str, method: str) -> None:
    model = nesymm.compile(f"{SEEN} query({asked}).")
    with pytest.raises(FilterError, match=r"step 0: seen/1 leaves its domain int 1\.\.2"):
        model.filter({}, steps=2, method=method, key=1)


@pytest.mark.parametrize("method", METHODS)
def test_a_key_that_grows_out_of_its_domain(method: str) -> None:
    clauses = f"{GROWS} v(X)@t :- v(Y)@(t-1), d(D)@t, X is Y + D, X < 8. query(v(6)@T)."
    narrow = nesymm.compile(f":- domain(v/1, 1, 1..3). {clauses}")
    with pytest.raises(FilterError, match="v/1 leaves its domain"):
        narrow.filter({}, steps=6, method=method)
    wide = nesymm.compile(f":- domain(v/1, 1, 1..7). {clauses}")
    assert wide.filter({}, steps=6, method="exact").final["v(6)@T"] == pytest.approx(1 / 32)


@pytest.mark.parametrize("method", METHODS)
def test_constant_keys_that_grow_out_of_their_domain(method: str) -> None:
    model = nesymm.compile("""
        :- fluent(v(key)).
        :- domain(v/1, 1, 1..3).
        v(1)@0.
        v(X)@t :- v(Y)@(t-1), X is Y + 1.
        query(v(3)@t).
    """)
    inside = model.filter({}, steps=3, method=method).filtered["v(3)@t"][0]
    assert inside.tolist() == pytest.approx([0, 0, 1])
    with pytest.raises(FilterError, match=r"step 3: v/1 leaves its domain int 1\.\.3"):
        model.filter({}, steps=4, method=method)


def test_a_key_that_is_no_number_leaves_a_domain_of_numbers() -> None:
    model = nesymm.compile("""
        :- fluent(v(key)).
        :- domain(v/1, 1, 1..3).
        0.5::v(a)@t. 0.5::v(1)@t.
        late@t :- v(1)@(t-1).
        query(late@t).
    """)
    with pytest.raises(FilterError, match="v/1 leaves its domain"):
        model.filter({}, steps=2, method="exact")


@pytest.mark.parametrize("clause", ["v(9)@0. v(X)@t :- v(X)@(t-1).", "v(9)@t.", "v(2)@t. v(4)@t."])
def test_what_certainly_leaves_its_domain_is_refused(clause: str) -> None:
    with pytest.raises(ProgramError, match=r"E321.*v/1 leaves its domain int 1\.\.3: v\([49]\)"):
        nesymm.compile(f":- fluent(v(key)). :- domain(v/1, 1, 1..3). {clause} query(v(2)@t).")


# ---------------------------------------------------------------- what nothing carries


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "clauses",
    [
        "v(X)@t ~ uniform_int(1, 4).",
        "v(X)@t :- d(D)@t, X is 2 * D. d(D)@t ~ uniform_int(0, 2).",
        "0.5::v(K)@t :- k(K). k(2). k(4).",
    ],
)
def test_what_nothing_carries_is_checked(clauses: str, method: str) -> None:
    model = nesymm.compile(f":- domain(v/1, 1, 0..3). {clauses} query(v(2)@t).")
    with pytest.raises(FilterError, match=r"v/1 leaves its domain int 0\.\.3"):
        model.filter({}, steps=3, method=method)


def test_without_time_it_is_checked_given_the_evidence() -> None:
    clauses = ":- domain(v/1, 1, 0..3). v(X) ~ uniform_int(1, 4). big :- v(X), X > 3. query(v(2))."
    with pytest.raises(nesymm.NesymmError, match=r"v/1 leaves its domain int 0\.\.3"):
        nesymm.compile(clauses).infer()
    found = nesymm.compile(f"{clauses} evidence(\\+ big).").infer().queries
    assert found["v(2)"] == pytest.approx(1 / 3)


def test_facts_are_checked() -> None:
    with pytest.raises(ProgramError, match=r"E321.*size/2 leaves its domain int 1\.\.3: size\(b"):
        nesymm.compile(":- domain(size/2, 2, 1..3). size(a, 1). size(b, 5). query(size(a, 1)).")


def test_what_needs_a_caller_cannot_be_checked() -> None:
    with pytest.raises(ProgramError, match=r"E321.*argument 2 of next/2 cannot be checked"):
        nesymm.compile("""
            :- domain(next/2, 2, 1..3).
            next(X, Y) :- Y is X + 1.
            query(next(1, Y)).
        """)


# ---------------------------------------------------------------- bounds that are found


@pytest.mark.parametrize(
    "body",
    [
        "X is Y + D, X < 8",
        "X is Y + D, between(1, 7, X)",
        "between(1, 7, X), X is Y + D",
        "Y < 6, X is Y + D",
        "X is Y + D, cell(X)",
        "cell(X), X is Y + D",
        "X is Y + D, place(X)",
        "X is Y + D, few(X)",
        "X is Y + D, (X < 5 ; X =:= 5 ; X = 6 ; X = 7)",
        "X is min(7, Y + D)",
        "X is Y + D, X < 300",
    ],
)
def test_keys_that_tests_bound(body: str) -> None:
    cells = " ".join(f"cell({i})." for i in range(1, 8))
    model = nesymm.compile(f"""
        {GROWS} {cells}
        place(X) :- cell(X), X > 0.
        few(X) :- X < 5.
        few(5). few(6).
        v(X)@t :- v(Y)@(t-1), d(D)@t, {body}.
        query(v(6)@T).
    """)
    assert model.filter({}, steps=6, method="exact").final["v(6)@T"] == pytest.approx(1 / 32)


def test_keys_that_three_facts_bound() -> None:
    model = nesymm.compile(f"""
        {GROWS} c(1). c(2). c(3).
        v(X)@t :- v(Y)@(t-1), d(D)@t, X is Y + D, c(X).
        query(v(3)@t).
    """)
    found = model.filter({}, steps=3, method="exact").filtered["v(3)@t"][0]
    assert found.tolist() == pytest.approx([0, 0.5, 0.25])


@pytest.mark.parametrize("seed", range(25))
def test_a_domain_is_left_where_some_world_leaves_it(seed: int) -> None:
    rng = random.Random(seed)
    rises = rng.choice([(0, 1), (1, 2), (-1, 1), (-2, 0)])
    low, high, limit = rng.choice((-2, 0)), rng.choice((1, 2, 3)), rng.choice((1, 2, 5))
    stays = rng.random() < 0.5
    test = rng.choice(["X =< {}", "between(-9, {}, X)"]).format(limit)
    model = nesymm.compile(f"""
        :- fluent(v(key)).
        :- domain(v/1, 1, {low}..{high}).
        v(0)@0.
        d(D)@t ~ categorical([0.5, 0.5], [{rises[0]}, {rises[1]}]).
        v(X)@t :- v(Y)@(t-1), d(D)@t, X is Y + D, {test}.
        {"v(X)@t :- v(X)@(t-1)." if stays else ""}
        query(v({rng.choice((0, 1))})@t).
    """)
    reached, left = {0}, None
    for step in range(1, 4):
        following = {x + r for x in reached for r in rises if x + r <= limit}
        reached = following | (reached if stays else set())
        if left is None and not all(low <= x <= high for x in reached):
            left = step
    if left is None:
        model.filter({}, steps=4, method="exact")
    else:
        with pytest.raises(FilterError, match=f"step {left}: v/1 leaves its domain"):
            model.filter({}, steps=4, method="exact")
