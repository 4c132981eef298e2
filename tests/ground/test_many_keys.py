"""Keys of the state that are found one by one, over many rounds of the compiler."""

import pytest

import nesymm
from nesymm.errors import ProgramError


def test_an_infection_on_a_long_path() -> None:
    path = " ".join(f"edge({i}, {i + 1})." for i in range(60))
    model = nesymm.compile(
        f"{path} inf(0)@0. 0.5::inf(Y)@t :- inf(X)@(t-1), edge(X, Y). query(inf(3)@T)."
    )
    assert model.filter({}, steps=4).final["inf(3)@T"] == pytest.approx(0.125)


@pytest.mark.parametrize("body", ["inf(X)@(t-1), edge(X, Y)", "edge(X, Y), inf(X)@(t-1)"])
@pytest.mark.parametrize("asked", ["299", "N"])
def test_hundreds_of_places_in_a_row(body: str, asked: str) -> None:
    path = " ".join(f"edge({i}, {i + 1})." for i in range(300))
    model = nesymm.compile(f"{path} inf(0)@0. 0.5::inf(Y)@t :- {body}. query(inf({asked})@T).")
    assert len(model.step.slots) >= 299


def test_keys_that_take_two_others() -> None:
    """A number needs an older one as well: the newest alone do not find it."""
    model = nesymm.compile("""
        :- fluent(v(key)).
        v(1)@0.
        v(2)@0.
        v(X)@t :- v(Y)@(t-1), v(Z)@(t-1), X is Y + Z, X < 40.
        query(v(X)@T).
    """)
    sets = {1, 2}
    for _ in range(6):
        sets = {y + z for y in sets for z in sets if y + z < 40}
    found = model.filter({}, steps=7).final
    assert {k for k, v in found.items() if v[0] > 0.5} == {f"v({x})@T" for x in sets}


def test_keys_that_an_older_one_excludes() -> None:
    """Followed alone, 5 has none before it; all at once, 1 is there in every step."""
    line = " ".join(f"next({i}, {i + 1})." for i in range(1, 9))
    model = nesymm.compile(f"""
        :- fluent(v(key)).
        {line}
        v(1)@t.
        v(Y)@t :- v(X)@(t-1), next(X, Y).
        v(100)@t :- v(5)@(t-1), \\+ v(1)@(t-1).
        v(Y)@t :- v(X)@(t-1), X >= 100, X < 110, Y is X + 1.
        query(v(9)@T). query(v(104)@T).
    """)
    found = model.filter({}, steps=21).final
    assert found["v(9)@T"] == pytest.approx(1)
    assert found["v(104)@T"] == pytest.approx(0)


def test_a_delay_line_of_many_predicates() -> None:
    line = " ".join(f"a{i}@t :- a{i + 1}@(t-1)." for i in range(50))
    model = nesymm.compile(f"query(a0@t). {line} 0.3::a50@t.")
    answers = model.filter({}, steps=52).filtered["a0@t"][0]
    assert answers[49:] == pytest.approx([0, 0.3, 0.3])


def test_keys_found_in_turns_in_two_orders() -> None:
    model = nesymm.compile("""
        :- fluent(v(key)).
        v(1)@0.
        v(X)@t :- v(Y)@(t-1), X is -Y.
        v(X)@t :- v(Y)@(t-1), Y < 3, X is Y + 1.
        query(v(2)@t). query(v(-3)@t).
    """)
    answers = model.filter({}, steps=5).filtered
    sets = [{1}]
    for _ in range(4):
        sets.append({-y for y in sets[-1]} | {y + 1 for y in sets[-1] if y < 3})
    for value in (2, -3):
        assert answers[f"v({value})@t"][0].tolist() == pytest.approx(
            [float(value in s) for s in sets]
        )


@pytest.mark.parametrize(
    "clauses",
    [
        "v(1)@0. v(X)@t :- v(Y)@(t-1), X is Y + 1.",
        "v(2)@0. v(X)@t :- v(Y)@(t-1), X is Y * Y.",
        "v(a)@0. v(f(X))@t :- v(X)@(t-1).",
    ],
)
def test_endless_keys_are_refused(clauses: str) -> None:
    with pytest.raises(ProgramError, match=r"E306.*the keys of v/1 were followed for \d+ steps"):
        nesymm.compile(f":- fluent(v(key)). {clauses} query(v(X)@T).")


def test_a_key_that_is_drawn_and_has_no_bound_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"E306.*argument 1 of v/1 is a key, and no bound"):
        nesymm.compile("""
            :- fluent(v(key)).
            v(1)@0.
            d(D)@t ~ uniform_int(-1, 1).
            v(X)@t :- v(Y)@(t-1), d(D)@t, X is Y + D.
            query(v(6)@T).
        """)
