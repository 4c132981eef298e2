"""Trajectories are told in atoms of the program: its predicates, its order of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm.errors import NesymmError

# The value comes first in `pos`, last in `size`, in the middle in `at`.
PROGRAM = """
    :- domain(pos/2, 1, 0..9).
    who(orc). who(elf).
    pos(2, W)@0 :- who(W).
    pos(X + 1, W)@t :- pos(X, W)@(t-1).
    at(orc, X, 7)@t :- pos(X, orc)@t.
    was(X)@t :- at(orc, X, 7)@(t-1).
    old(X)@t :- pos(X, elf)@(t-2).
    born(X)@t :- pos(X, elf)@0.
    cell(C)@0 :- between(1, 3, C), C > 1.
    cell(C)@t :- cell(C)@(t-1).
    pair([X, k(X)])@t :- pos(X, elf)@t.
    seen(P)@t :- pair(P)@(t-1).
    0.5::lit@t.
    dark@t :- lit@(t-1).
    observe(lit@t).
    query(was(X)@t). query(old(X)@t). query(born(X)@t). query(seen(P)@t). query(dark@1).
    query(cell(C)@t).
"""


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_atoms_are_those_of_the_program(method: str) -> None:
    model = nesymm.compile(PROGRAM)
    found = model.trajectories({"lit": np.array([[1, 0, 1]])}, 2, method=method)
    for trajectory in range(2):
        for step in range(3):
            x = 2 + step
            expected = {f"pos({x},orc)", f"pos({x},elf)", f"at(orc,{x},7)", "cell(2)", "cell(3)"}
            expected |= {f"pair([{x}, k({x})])"} | ({"lit"} if step != 1 else set())
            atoms = found.atoms(0, trajectory, step)
            assert sorted(atoms) == sorted(f"{a}@{step}" for a in expected)


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised"])
def test_there_are_no_atoms_past_the_end_of_a_sequence(method: str) -> None:
    model = nesymm.compile(PROGRAM)
    found = model.trajectories({"lit": np.ones((2, 4))}, steps=[2, 4], method=method)
    assert "pos(3,orc)@1" in found.atoms(0, 0, 1) and "pos(5,orc)@3" in found.atoms(1, 0, 3)
    with pytest.raises(NesymmError, match=r"step: .* below 2, .* of sequence 0, received 2"):
        found.atoms(0, 0, 2)
    with pytest.raises(NesymmError, match=r"trajectory: .* below 1, .*, received 1"):
        found.atoms(0, 1, 0)
    with pytest.raises(NesymmError, match=r"sequence: .* below 2, .* sequences, received -1"):
        found.atoms(-1, 0, 0)


def test_generated_trajectories_name_the_same_fluents() -> None:
    model = nesymm.compile(PROGRAM)
    data = {"lit": np.array([[1, 0, 1]])}
    drawn, made = model.trajectories(data), model.generate(data)
    assert set(drawn.atoms(0, 0, 1)) <= set(made.atoms(0, 0, 1))


def test_one_entity_is_named_like_several() -> None:
    model = nesymm.compile("""
        :- const(n, 1).
        who(W) :- between(1, n, W).
        pos(2, W)@0 :- who(W).
        pos(X + 1, W)@t :- pos(X, W)@(t-1).
        query(pos(X, W)@t).
    """)
    assert model.trajectories(steps=2).atoms(0, 0, 1) == ["pos(3,1)@1"]
    two = model.with_constants(n=2).trajectories(steps=2)
    assert two.atoms(0, 0, 1) == ["pos(3,1)@1", "pos(3,2)@1"]


@pytest.mark.parametrize("method", ["bootstrap", "rao-blackwellised"])
def test_values_have_the_names_of_the_program(method: str) -> None:
    """The value over time, and not what was drawn at step 0 for the clause of that name."""
    model = nesymm.compile("""
        who(W) :- between(1, 2, W).
        vel(x)@0 ~ normal(0, 1).
        vel(x)@t ~ normal(vel(x)@(t-1) + 5, 0.1).
        0.5::up@t.
        high@t :- up@t.
        high@t :- high@(t-1).
        place(W, A, B)@0 :- who(W), A is 1, B is 2.
        place(W, B, A + 1)@t :- place(W, A, B)@(t-1), high@t.
        seen@t ~ normal(vel(x)@t, 1).
        observe(seen@t).
        somewhere(W)@t :- place(W, A, B)@t, A < B.
        query(somewhere(W)@t).
        query(high@t).
    """)
    data = {"seen": np.array([[0.0, 5.0, 10.0]])}
    for found in (
        model.trajectories(data, 4, method=method),
        model.generate(data, 4, method=method),
    ):
        velocity = found.values["vel(x)"]
        assert velocity.shape == (1, 4, 3)
        np.testing.assert_allclose(np.diff(velocity[0]), 5, atol=1)
        assert found.values["high"].dtype == bool
        assert (np.diff(found.values["high"].astype(int)) >= 0).all()
        place, there = found.values["place"], found.present["place"]
        assert place.shape == (1, 4, 3, 2, 2) and there.shape == (1, 4, 3, 2)
        assert (place[:, :, 0] == [1, 2]).all() and there[:, :, 0].all()
        both = found.values["high"][:, :, 1:, None] & there[:, :, :-1]
        np.testing.assert_array_equal(there[:, :, 1:], both)
        moved = place[:, :, :-1, :, ::-1] + [0, 1]
        np.testing.assert_array_equal(place[:, :, 1:][both], moved[both])


def test_numbers_that_are_absent_are_nan() -> None:
    model = nesymm.compile("""
        0.5::on@t.
        x(X)@t ~ normal(0, 1) :- on@t.
        z@t :- x(X)@(t-1), X > 0.
        query(z@t).
    """)
    found = model.generate(count=20, steps=3)
    there = found.present["x"]
    np.testing.assert_array_equal(there, found.draws["on"])
    np.testing.assert_array_equal(np.isnan(found.values["x"]), ~there)


def test_what_is_drawn_at_the_start_alone_is_said_to_be() -> None:
    model = nesymm.compile("""
        vel(x)@0 ~ normal(0, 1).
        vel(x)@t ~ normal(vel(x)@(t-1), 1).
        seen@t ~ normal(vel(x)@t, 1).
        observe(seen@t).
    """)
    with pytest.raises(NesymmError, match=r"vel.* is normal and drawn at step 0: "):
        model.filter({"seen": np.zeros((1, 2))}, method="exact")


def test_values_are_those_of_atoms_and_not_of_clauses() -> None:
    model = nesymm.compile("""
        owner(W) ~ categorical([0.5, 0.5], [ann, bob]).
        on(V)@0 ~ uniform_int(0, 2).
        on(V)@t ~ uniform_int(0, W) :- on(W)@(t-1), owner(ann).
        on(V)@t ~ uniform_int(0, 1) :- on(_)@(t-1), owner(bob).
        0.8::lit@t :- on(V)@t, V > 0.
        0.1::seen@t.
        query(lit@t). query(seen@t).
    """)
    found = model.trajectories(count=3, steps=3, method="exact")
    # The choice of the clause for `lit` is made whether the body holds or not: it is no truth.
    assert {*found.values} == {"owner", "on", "seen"}
    assert {*found.draws} == {"owner", "on", "on:2", "on:3", "lit", "seen"}


@pytest.mark.parametrize("number", [2, -1, 7, 0.5, "0", True])
def test_data_of_a_trajectory_that_there_is_not(number: Any) -> None:
    model = nesymm.compile("0.5::a@t. observe(a@t). query(a@t).")
    data = {"a": [[1, 0]]}
    for found in (model.trajectories(data, 2), model.generate(data, 2)):
        assert found.data(1)["a"].tolist() == [[1, 0]]
        expected = f"trajectory: expected a whole number .* below 2, .* received {number!r}"
        with pytest.raises(NesymmError, match=expected):
            found.data(number)
