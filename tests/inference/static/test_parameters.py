"""Parameters from outside: names, shapes and ranges are checked wherever they are given."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import nesymm
from nesymm import NesymmError

STATIC = nesymm.compile("t(0.3)::rain. t(0.2)::a; t(0.5)::b. query(rain). query(a).")
OVER_TIME = nesymm.compile("""
    t(0.3)::rain@t.
    y@t ~ normal(0, t(1.0)).
    observe(rain@t). observe(y@t).
""")
TABLE = nesymm.compile("k(K)@t ~ categorical([0.5, 0.5], [1, 2]). t(_, K)::p@t :- k(K)@t.")
DATA = {"rain": np.ones((1, 2)), "y": np.zeros((1, 2))}

WRONG: list[tuple[Any, str]] = [
    ({"snow": 0.5}, r"the program has no parameter snow \(it has: rain"),
    ({"rain": 2.0}, "parameter rain: expected a number from 0 to 1, received 2\n --> <program>"),
    ({"rain": -1}, "parameter rain: expected a number from 0 to 1, received -1"),
    ({"rain": None}, "parameter rain: expected a number, received None"),
    ({"rain": "wet"}, "parameter rain: expected a number, received 'wet'"),
    ({"rain": [0.1, 0.2]}, r"parameter rain: expected a number, received shape \(2,\)"),
    ({"rain": [[1], [1, 2]]}, "parameter rain: expected a number, received lists of different"),
    ([0.5], "parameters: expected a dictionary of numbers by name, received list"),
]


@pytest.mark.parametrize(("given", "told"), WRONG)
def test_wrong_parameters_are_refused_at_every_entry(given: Any, told: str) -> None:
    with pytest.raises(NesymmError, match=told):
        STATIC.with_parameters(given).log_probability("rain")
    with pytest.raises(NesymmError, match=told):
        OVER_TIME.with_parameters(given).log_evidence(DATA)
    with pytest.raises(NesymmError, match=told):
        OVER_TIME.with_parameters(given).estimate(DATA)
    with pytest.raises(NesymmError, match=told):
        nesymm.compile("t(0.3)::rain. query(rain).", parameters=given)


def test_every_kind_of_parameter_has_its_range() -> None:
    (scale,) = set(OVER_TIME.parameters) - {"rain"}
    with pytest.raises(NesymmError, match=f"parameter {scale}: .* a number above 0, received 0"):
        OVER_TIME.with_parameters({scale: 0.0}).log_evidence(DATA)
    with pytest.raises(NesymmError, match=r"a, b: .* add up to at most 1, received 1.3"):
        STATIC.with_parameters({"a": 0.6, "b": 0.7}).log_probability("rain")
    (table,) = TABLE.parameters
    with pytest.raises(NesymmError, match=r"expected numbers of shape \(2,\), received shape \(3"):
        TABLE.with_parameters({table: [0.1, 0.2, 0.3]}).log_evidence(steps=2)
    told = r"expected numbers of shape \(2,\) from 0 to 1, received 1.5"
    with pytest.raises(NesymmError, match=told):
        TABLE.with_parameters({table: [0.1, 1.5]}).log_evidence(steps=2)


def test_traced_parameters_have_a_name_and_a_shape() -> None:
    def evidence(name: str, value: Any) -> Any:
        return STATIC.with_parameters({name: value}).log_probability("rain")

    assert jax.jit(lambda p: evidence("rain", p))(0.5) == pytest.approx(np.log(0.5))
    with pytest.raises(NesymmError, match="no parameter snow"):
        jax.jit(lambda p: evidence("snow", p))(0.5)
    with pytest.raises(NesymmError, match=r"expected a number, received shape \(2,\)"):
        jax.jit(lambda p: evidence("rain", p))(np.ones(2))
