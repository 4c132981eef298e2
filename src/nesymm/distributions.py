"""The families of distributions that a program can name.

This module holds what the compiler needs to know of a family: its parameters and the
type of what it draws. Densities and samplers are attached where inference needs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nesymm.compiler.types import INF, Int, Real, Type


@dataclass(frozen=True, slots=True)
class Family:
    """`params` are the names of the parameters; `value` is the type of a draw, or None
    where it depends on the parameters. `constraints` say what a network's outputs are
    mapped to: real, positive, unit (0..1) or simplex; what is fixed, and a covariance, cannot
    come from a network."""

    name: str
    params: tuple[str, ...]
    value: Type | None
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
    Family("bernoulli", ("p",), Int(0, 1), ("unit",), "bernoulli(0.3)"),
    Family(
        "categorical",
        ("probabilities", "values"),
        None,
        ("simplex", "fixed"),
        "categorical([0.3, 0.7], [a, b])",
    ),
    Family("uniform_int", ("low", "high"), None, ("fixed", "fixed"), "uniform_int(1, 6)"),
    Family("binomial", ("n", "p"), None, ("fixed", "unit"), "binomial(10, 0.3)"),
    Family("poisson", ("rate",), Int(0), ("positive",), "poisson(2.5)"),
    Family("geometric", ("p",), Int(0), ("unit",), "geometric(0.2)"),
    Family("normal", ("mean", "sd"), Real(), ("real", "positive"), "normal(0, 1)"),
    Family("uniform", ("low", "high"), Real(), ("real", "real"), "uniform(0, 1)"),
    Family("exponential", ("rate",), Real(0, INF), ("positive",), "exponential(1)"),
    Family("gamma", ("shape", "rate"), Real(0, INF), ("positive", "positive"), "gamma(2, 1)"),
    Family("beta", ("a", "b"), Real(0, 1), ("positive", "positive"), "beta(2, 2)"),
    Family("laplace", ("mean", "scale"), Real(), ("real", "positive"), "laplace(0, 1)"),
    Family("lognormal", ("mean", "sd"), Real(0, INF), ("real", "positive"), "lognormal(0, 1)"),
    Family(
        "student_t",
        ("df", "mean", "scale"),
        Real(),
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
