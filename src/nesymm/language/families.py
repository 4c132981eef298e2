"""The families of distributions that a program can name.

This table holds what a program may say of a family, and what it draws. Their densities are in
`nesymm.inference.densities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple


class Numbers(NamedTuple):
    """The numbers from `low` to `high`, or the whole ones among them."""

    whole: bool
    low: float = -inf
    high: float = inf


REALS, POSITIVE, COUNTS = Numbers(False), Numbers(False, 0), Numbers(True, 0)


@dataclass(frozen=True, slots=True)
class Family:
    """`params` are the names of the parameters; `values` are those that it draws, or None
    where they depend on the parameters. `constraints` say what a network's outputs are
    mapped to: real, positive, unit (0..1) or simplex; what is fixed, and a covariance, cannot
    come from a network."""

    name: str
    params: tuple[str, ...]
    values: Numbers | None
    constraints: tuple[str, ...]
    example: str

    @property
    def finite(self) -> bool:
        return self.name in ("bernoulli", "categorical", "uniform_int", "binomial")

    @property
    def from_network(self) -> bool:
        """Whether one network can give all parameters."""
        return not {"fixed", "covariance"} & {*self.constraints}


_ALL = [
    Family("bernoulli", ("p",), Numbers(True, 0, 1), ("unit",), "bernoulli(0.3)"),
    Family(
        "categorical",
        ("probabilities", "values"),
        None,
        ("simplex", "fixed"),
        "categorical([0.3, 0.7], [a, b])",
    ),
    Family("uniform_int", ("low", "high"), None, ("fixed", "fixed"), "uniform_int(1, 6)"),
    Family("binomial", ("n", "p"), None, ("fixed", "unit"), "binomial(10, 0.3)"),
    Family("poisson", ("rate",), COUNTS, ("positive",), "poisson(2.5)"),
    Family("geometric", ("p",), COUNTS, ("unit",), "geometric(0.2)"),
    Family("normal", ("mean", "sd"), REALS, ("real", "positive"), "normal(0, 1)"),
    Family("uniform", ("low", "high"), REALS, ("real", "real"), "uniform(0, 1)"),
    Family("exponential", ("rate",), POSITIVE, ("positive",), "exponential(1)"),
    Family("gamma", ("shape", "rate"), POSITIVE, ("positive", "positive"), "gamma(2, 1)"),
    Family("beta", ("a", "b"), Numbers(False, 0, 1), ("positive", "positive"), "beta(2, 2)"),
    Family("laplace", ("mean", "scale"), REALS, ("real", "positive"), "laplace(0, 1)"),
    Family("lognormal", ("mean", "sd"), POSITIVE, ("real", "positive"), "lognormal(0, 1)"),
    Family(
        "student_t",
        ("df", "mean", "scale"),
        REALS,
        ("positive", "real", "positive"),
        "student_t(3, 0, 1)",
    ),
    Family(
        "multivariate_normal",
        ("mean", "covariance"),
        None,
        ("real", "covariance"),
        "multivariate_normal([0, 0], [[1, 0], [0, 1]])",
    ),
]

FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
