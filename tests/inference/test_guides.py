"""Guides: where they apply, what they may read, and that they never change the answer.

The oracles are closed forms: a Kalman filter, mixtures of normals, and divergences by hand.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm

import nesymm
from nesymm.inference.data import prepare
from nesymm.inference.loop import to_arrays
from nesymm.inference.methods import Bootstrap, Method, RaoBlackwellised

WALK = """
:- input(u(Z)@t).
p(X)@0 ~ normal(0, 1).
p(X)@t ~ normal(Y, 1) :- p(Y)@(t-1).
z(Z)@t ~ normal(X, 0.05) :- p(X)@t.
observe(z@t).
up@t :- p(X)@t, X > 0.
query(up@t).
"""
BY_INPUT = """
guide(p@t) ~ normal(Z, 0.06) :- u(Z)@t.
guide(p@t) ~ normal(Y, 1) :- not u(_)@t, p(Y)@(t-1).
"""
BY_OBSERVATION = "guide(p@t) ~ normal(Z, 0.06) :- z(Z)@t."


def kalman(seen: np.ndarray) -> float:
    """log p(z) of the walk; what is NaN is missing."""
    mean, variance, total = 0.0, 1.0, 0.0
    for t, z in enumerate(seen):
        variance += 1.0 if t else 0.0
        if not np.isnan(z):
            total += norm.logpdf(z, mean, np.sqrt(variance + 0.05**2))
            gain = variance / (variance + 0.05**2)
            mean, variance = mean + gain * (z - mean), (1 - gain) * variance
    return total


def walk(steps: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    seen = np.cumsum(rng.normal(size=steps)) + 0.05 * rng.normal(size=steps)
    seen[rng.random(steps) < 0.3] = np.nan
    return seen


def agrees(found: np.ndarray, exact: float) -> None:
    """The evidence itself is estimated without bias."""
    ratios = np.exp(np.asarray(found, np.float64) - exact)
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.parametrize("guides", [BY_INPUT, BY_OBSERVATION], ids=["input", "observation"])
def test_bodies_decide_where_guides_apply(guides: str) -> None:
    """With 30 % missing, and at step 0, where the second guide does not apply."""
    seen = np.repeat(walk()[None], 30, 0)
    assert 0.2 < np.isnan(seen[0]).mean() < 0.4
    model = nesymm.compile(WALK + guides)
    found = model.filter({"z": seen, "u": seen}, method=Bootstrap(particles=1000)).log_evidence
    agrees(found, kalman(seen[0]))
    assert found.std() < 0.2  # Without guides it is past 0.4: they are used.


def test_the_time_of_a_guide_may_stand_outside() -> None:
    inside = nesymm.compile(WALK + BY_OBSERVATION)
    outside = nesymm.compile(WALK + BY_OBSERVATION.replace("guide(p@t)", "guide(p)@t"))
    assert str(inside.step) == str(outside.step)
    assert "guide normal(observed z, 0.06) if observed z?" in str(inside.step)
    with pytest.raises(nesymm.ProgramError, match="this guide has two times"):
        nesymm.compile(WALK + "guide(p@t)@t ~ normal(0, 1).")
    with pytest.raises(nesymm.ProgramError, match="x/1 has no time; this mention of it has one"):
        nesymm.compile("x(X) ~ normal(0, 1). guide(x)@t ~ normal(0, 1). a@t :- x(X), X > 0.")


def test_a_guide_cannot_read_what_is_drawn_from_its_variable() -> None:
    program = """
    p(X)@t ~ normal(0, 1).
    z(Z)@t ~ normal(X, 1) :- p(X)@t.
    w(W)@t ~ normal(Z, 1) :- z(Z)@t.
    observe(w@t).
    guide(p@t) ~ normal(Z, 0.06) :- z(Z)@t.
    """
    with pytest.raises(nesymm.ProgramError) as caught:
        nesymm.compile(program)
    assert "E312" in str(caught.value)
    assert "this guide of p depends on what is drawn from p" in str(caught.value)
    assert "6 |     guide(p@t) ~ normal(Z, 0.06) :- z(Z)@t." in str(caught.value)


def test_guides_that_apply_at_once_must_agree() -> None:
    base = """
    :- input(u(V)@t).
    p(X)@t ~ normal(0, 1).
    z(Z)@t ~ normal(X, 1) :- p(X)@t.
    observe(z@t).
    """
    with pytest.raises(nesymm.ProgramError, match=r"E307.*two guides of p apply at the same time"):
        nesymm.compile(base + "guide(p@t) ~ normal(0, 1). guide(p@t) ~ normal(1, 1).")
    nesymm.compile(base + "guide(p@t) ~ normal(0, 2). guide(p@t) ~ normal(0, 2).")
    model = nesymm.compile(
        base + "guide(p@t) ~ normal(V, 1) :- u(V)@t. guide(p@t) ~ normal(0, 2) :- u(V)@t, V > 0.\n"
    )
    data = {"z": np.zeros((2, 2)), "u": np.array([[-1.0, -2.0], [-1.0, 2.0]])}
    found = model.filter(data, method=Bootstrap(particles=10), errors="keep")
    (failure,) = found.failures
    assert (failure.sequence, failure.step) == (1, 1)
    assert "two guides of p apply at once and differ" in failure.message


def test_what_a_guide_cannot_mean() -> None:
    plate = """
    p(X)@t ~ normal(0, 1).
    z(E, Z)@t ~ normal(X, 1) :- between(1, 2, E), p(X)@t.
    observe(z(E)@t).
    guide(p@t) ~ normal(Z, 1) :- z(E, Z)@t.
    """
    with pytest.raises(nesymm.ProgramError, match="depend on E, which its keys do not determine"):
        nesymm.compile(plate)
    finite = """
    k(K)@t ~ categorical([0.5, 0.5], [a, b]).
    guide(k@t) ~ categorical([0.1, 0.9], [a, b]).
    query(k(K)@t).
    """
    with pytest.raises(nesymm.ProgramError, match="k has finitely many values: it is summed out"):
        nesymm.compile(finite)


# p is a mixture: drawn by two clauses in different worlds, or by one whose mean differs.
IN_SOME_WORLDS = """
p(X)@t ~ normal(0, 1) :- m@t.
p(X)@t ~ normal(2, 1) :- not m@t.
"""
BY_ITS_MEAN = """
mu(0)@t :- m@t.
mu(2)@t :- not m@t.
p(X)@t ~ normal(M, 1) :- mu(M)@t.
"""


@pytest.mark.parametrize("drawn", [IN_SOME_WORLDS, BY_ITS_MEAN], ids=["worlds", "mean"])
@pytest.mark.parametrize(
    "guides",
    [
        "guide(p@t) ~ normal(Z, 0.4) :- z(Z)@t.",
        "guide(p@t) ~ normal(1.5, 1.5) :- not z(_)@t.",
        "guide(p@t) ~ normal(0.5, 1.5) :- m@t, z(_)@t. guide(p@t) ~ normal(1, 1.5) :- not m@t.",
    ],
    ids=["narrow", "where missing", "by world"],
)
def test_guides_of_mixtures(drawn: str, guides: str) -> None:
    """The guide may be narrower than the prior, and may depend on what is summed out."""
    model = nesymm.compile(
        f"0.4::m@t. {drawn} z(Z)@t ~ normal(X, 0.3) :- p(X)@t. observe(z@t). {guides}"
    )
    seen = np.array([0.4, np.nan, 1.9, -0.5])
    sd = np.sqrt(1 + 0.3**2)
    there = seen[~np.isnan(seen)]
    each = np.log(0.4 * norm.pdf(there, 0, sd) + 0.6 * norm.pdf(there, 2, sd))
    method = RaoBlackwellised(particles=500)
    found = model.filter({"z": np.repeat(seen[None], 50, 0)}, method=method).log_evidence
    agrees(found, each.sum())
    assert found.std() < 0.3


PLATE = "p(E, X)@t ~ normal(0, 1) :- between(1, 2, E)."

NAMES = "e(a). e(b). p(E, X)@t ~ normal(0, 1) :- e(E)."


@pytest.mark.filterwarnings("ignore:low effective sample size")
@pytest.mark.parametrize(
    ("drawn", "guides"),
    [
        (PLATE, "guide(p(E)@t) ~ normal(Z, 0.6) :- z(E, Z)@t."),
        (PLATE, "guide(p(1)@t) ~ normal(Z, 0.6) :- z(1, Z)@t. guide(p(2)@t) ~ normal(0.5, 1)."),
        (PLATE, "guide(p(E)@t) ~ normal(Z, 0.6) :- between(1, 2, E), F is 3 - E, z(F, Z)@t."),
        (NAMES, "guide(p(E)@t) ~ normal(Z, 0.6) :- z(E, Z)@t."),
    ],
    ids=["along", "by key", "crossed", "names"],
)  # fmt: skip
def test_guides_of_plates(drawn: str, guides: str) -> None:
    """Elements are guided by what is observed of them, some of which is missing."""
    model = nesymm.compile(
        f"{drawn} z(E, Z)@t ~ normal(X, 0.5) :- p(E, X)@t. observe(z(E)@t). {guides}"
    )
    seen = np.array([[0.4, -1.0], [np.nan, 0.3], [1.2, np.nan]])
    data = {"z": np.repeat(seen[None], 40, 0)}
    if drawn is NAMES:
        data = {f"z({k})": data["z"][..., i] for i, k in enumerate("ab")}
    found = model.filter(data, method=RaoBlackwellised(particles=1000)).log_evidence
    agrees(found, np.nansum(norm.logpdf(seen, 0, np.sqrt(1.25))))


@pytest.mark.parametrize("method", [RaoBlackwellised(particles=1000), Bootstrap(particles=1000)])
def test_truths_and_fixed_values_that_are_observed(method: Method) -> None:
    model = nesymm.compile("""
    p(X)@t ~ normal(0, 1).
    big@t :- p(X)@t, X > 1.
    observe(big@t).
    guide(p@t) ~ normal(2, 1) :- big@t.
    guide(p@t) ~ normal(-0.5, 1) :- not big@t.
    q(X)@t ~ normal(0, 1).
    y(Y)@t ~ normal(X, 0.5) :- q(X)@t.
    observe(y@1, 1.5).
    observe(y@3, -1.0).
    guide(q@t) ~ normal(Y, 0.7) :- y(Y)@t.
    """)
    data = {"big": np.repeat([[True, False, False, True]], 40, 0)}
    exact = 2 * norm.logsf(1) + 2 * norm.logcdf(1)
    exact += norm.logpdf(1.5, 0, np.sqrt(1.25)) + norm.logpdf(-1, 0, np.sqrt(1.25))
    agrees(model.filter(data, method=method).log_evidence, exact)


@pytest.mark.filterwarnings("ignore:low effective sample size")
def test_a_guide_may_read_a_state_that_nothing_else_reads() -> None:
    model = nesymm.compile("""
    p(X)@t ~ normal(0, 1).
    z(Z)@t ~ normal(X, 1) :- p(X)@t.
    observe(z@t).
    guide(p@t) ~ normal(X, 1.5) :- p(X)@(t-1).
    """)
    seen = np.array([0.5, -0.3, 0.1])
    method = RaoBlackwellised(particles=1000)
    found = model.filter({"z": np.repeat(seen[None], 40, 0)}, method=method).log_evidence
    agrees(found, norm.logpdf(seen, 0, np.sqrt(2)).sum())


def test_generated_values_come_from_the_prior() -> None:
    """What only an observation reads, and is missing, is drawn when it is asked for."""
    model = nesymm.compile("""
    x(X)@t ~ normal(1, 0.5).
    observe(x@t).
    guide(x@t) ~ normal(-5, 0.1).
    """)
    found = model.generate(steps=2, count=4000, method=Bootstrap(particles=4000))
    drawn = np.asarray(found["x"]).ravel()
    assert abs(drawn.mean() - 1) < 4 * 0.5 / np.sqrt(drawn.size)


def test_the_bound_of_one_particle_is_that_of_the_guide_where_it_applies() -> None:
    """-KL(q || p) + E_q log p(y | c) where the input is there, E_p log p(y | c) elsewhere."""
    model = nesymm.compile("""
    :- input(u(V)@t).
    c(C)@t ~ normal(0, 1).
    guide(c@t) ~ normal(V, 0.5) :- u(V)@t.
    y(Y)@t ~ normal(C, 1) :- c(C)@t.
    observe(y@t).
    """)
    y, u = np.array([0.7, -0.2]), np.array([0.6, np.nan])

    def expected(at: float, mean: float, sd: float) -> float:
        """The mean of log p(y | c) under a normal c."""
        return -0.5 * np.log(2 * np.pi) - 0.5 * ((at - mean) ** 2 + sd**2)

    divergence = np.log(1 / 0.5) + (0.5**2 + 0.6**2) / 2 - 0.5
    exact = -divergence + expected(y[0], 0.6, 0.5) + expected(y[1], 0.0, 1.0)
    data = {"y": np.repeat(y[None], 4000, 0), "u": np.repeat(u[None], 4000, 0)}
    for kl in ("analytic", "sampled"):
        found = bounds(model, data, kl)
        assert abs(found.mean() - exact) < 4 * found.std() / np.sqrt(len(found))


def bounds(model: nesymm.Model, data: dict[str, np.ndarray], kl: str) -> np.ndarray:
    """The bound of each sequence, by one particle."""
    layout = prepare(model.step, data)
    filter_ = model._filter(RaoBlackwellised(particles=1))
    found = filter_.estimate_of(
        layout, to_arrays(layout), {}, {}, jax.random.key(0), "surrogate", True, kl == "analytic"
    )
    return np.asarray(found.log_evidence, np.float64)
