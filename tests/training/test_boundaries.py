"""Learnable probabilities that start at the ends of their range."""

from __future__ import annotations

import numpy as np
import optax
import pytest

import nesymm
from nesymm.ir.parameters import EDGE, bound, free, initial_values
from nesymm.training import fit

DISJUNCTION = """
t(0.2)::a@t; t(0.3)::b@t; t(0.5)::c@t.
observe(a@t). observe(b@t). observe(c@t).
"""


def learnt(program: str, data: dict[str, np.ndarray]) -> dict[str, float]:
    schedule = optax.cosine_decay_schedule(0.5, 200)
    fitted = fit(
        nesymm.compile(program), data, epochs=200, progress=False, optimizer=optax.adam(schedule)
    )
    return {n: float(v) for n, v in fitted.model.parameters.items()}


def heads(chances: list[float]) -> dict[str, np.ndarray]:
    which = np.random.default_rng(0).choice(len(chances), p=chances, size=(100, 4))
    return {name: which == i for i, name in enumerate("abc")}


@pytest.mark.parametrize("chances", [[0.4, 0.4, 0.2], [0.2, 0.3, 0.2, 0.3]], ids=["one", "none"])
def test_a_disjunction_whose_starts_add_up_to_one(chances: list[float]) -> None:
    """The estimate of most likelihood is the frequency of each head; with data in which none
    holds, that is learnt too."""
    data = heads(chances)
    found = learnt(DISJUNCTION, data)
    for name in "abc":
        assert found[name] == pytest.approx(data[name].mean(), abs=0.01)


@pytest.mark.parametrize("start", ["0.0", "1.0"])
@pytest.mark.parametrize("part", [0.0, 0.7, 1.0])
def test_a_probability_that_starts_at_an_end(start: str, part: float) -> None:
    seen = np.arange(400).reshape(100, 4) < 400 * part
    found = learnt(f"t({start})::a@t. observe(a@t).", {"a": seen})
    assert found["a"] == pytest.approx(part, abs=0.01)


def test_starts_are_kept_as_closely_as_can_be() -> None:
    step = nesymm.compile(
        DISJUNCTION + "t(1.0)::d@t. t(0.0)::e@t. t(0.0)::f@t; 1.0::g@t. t(0.001)::h@t. "
        "observe(d@t). observe(e@t). observe(f@t). observe(h@t)."
    ).step
    starts = initial_values(step)
    found = bound(step, free(step, starts))
    for name, start in starts.items():
        assert abs(float(found[name]) - start) <= 2 * EDGE, name
    assert float(found["e"]) > 0
    assert float(found["d"]) < 1
    # However far the free number goes, the probability does not become certain for good.
    far = bound(step, {**free(step, starts), "d": 60.0})
    assert float(far["d"]) < 1


def test_a_scale_cannot_start_at_zero() -> None:
    with pytest.raises(nesymm.ProgramError, match="must be positive, and starts at 0"):
        nesymm.compile("x(X)@t ~ normal(0, t(0.0)). observe(x@t).")


@pytest.mark.parametrize(
    "goal, constraint",
    [
        ("S is t(0.2)", "positive"),
        ("S is t(_)", "positive"),
        ("S is t(-0.2)", "real"),  # it starts outside: then it is a number like any other
        ("S is t(0.2) + 1", "real"),
    ],
)
def test_a_scale_that_comes_by_a_name_is_kept_positive(goal: str, constraint: str) -> None:
    model = nesymm.compile(f"x(X)@t ~ normal(0, S) :- {goal}. observe(x@t).")
    (parameter,) = model.step.parameters
    assert parameter.constraint == constraint
