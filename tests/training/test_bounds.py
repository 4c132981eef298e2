"""Bounds from guides: their values and gradients against closed forms of linear Gaussian models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.inference.data import prepare
from nesymm.inference.loop import to_arrays
from nesymm.inference.methods import ExactForward, Method, RaoBlackwellised
from nesymm.training import ELBO, LogEvidence, fit

# Two codes with one prior, a static one, and a walk; the guides are wrong on purpose.
PROGRAM = """
:- const(k, 2).
:- network(look, 2).
:- network(begin, 2).
code(E, C) ~ normal(t(0.2), 1) :- between(1, k, E).
guide(code(E, C)) ~ normal(look(0)) :- between(1, k, E).
x(X)@0 ~ normal(0, 1).
x(Y)@t ~ normal(X, 0.5) :- x(X)@(t-1).
guide(x(X)@0) ~ normal(begin(0)).
guide(x(Y)@t) ~ normal(0.4, 0.6) :- x(_)@(t-1).
y(E, V)@t ~ normal(M, 1) :- between(1, k, E), x(X)@t, code(E, A), M is X + A.
observe(y(E)@t).
"""
ONE_CODE = """
:- network(look, 2).
c(C) ~ normal(0, 1).
guide(c(C)) ~ normal(look(0)).
y(V)@t ~ normal(C, 1) :- c(C).
observe(y@t).
"""
SEEN = np.array([[1.0, 0.5, 1.5]])
PAIRS = np.stack([SEEN, SEEN + 0.3], axis=-1)
# The prior's mean, and what the networks give: means, and scales before softplus.
NUMBERS = np.array([0.2, 0.5, 0.3, 0.3, 0.4])


def constant(params: jax.Array, _: jax.Array) -> jax.Array:
    return params


def networks(numbers: jax.Array) -> dict[str, nesymm.Function]:
    return {
        "look": nesymm.Function(constant, numbers[1:3]),
        "begin": nesymm.Function(constant, numbers[3:5]),
    }


def model() -> nesymm.Model:
    return nesymm.compile(PROGRAM, networks=networks(NUMBERS))


def kl(m: jax.Array, s: jax.Array, m0: jax.Array, s0: float) -> jax.Array:
    return jnp.log(s0 / s) + (s**2 + (m - m0) ** 2) / (2 * s0**2) - 0.5


def bound(numbers: jax.Array) -> jax.Array:
    """The ELBO in closed form, by Gaussian means and variances."""
    prior, mean, start = numbers[0], numbers[1], numbers[3]
    sd, first = jax.nn.softplus(numbers[2]), jax.nn.softplus(numbers[4])
    means, variances = [start, 0.4, 0.4], [first**2, 0.36, 0.36]
    divergence = 2 * kl(mean, sd, prior, 1.0) + kl(start, first, jnp.asarray(0.0), 1.0)
    for t in (1, 2):
        # The prior's mean is drawn: its variance adds to the squared distance.
        divergence += kl(jnp.asarray(0.4), jnp.asarray(0.6), means[t - 1], 0.5)
        divergence += variances[t - 1] / (2 * 0.25)
    likelihood = 0.0
    for t in range(3):
        for e in range(2):
            distance = (PAIRS[0, t, e] - means[t] - mean) ** 2 + variances[t] + sd**2
            likelihood = likelihood - 0.5 * jnp.log(2 * jnp.pi) - distance / 2
    return likelihood - divergence


def estimates(analytic: bool, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values [draw] and gradients [draw, number] of the bound for one particle."""
    built = model()
    layout = prepare(built.step, {"y": PAIRS})
    filter_ = built._filter(RaoBlackwellised(particles=1))

    def one(numbers: jax.Array, key: jax.Array) -> jax.Array:
        gradients = filter_.estimate_of(
            layout, to_arrays(layout), {"code": numbers[0]}, networks(numbers), key, "surrogate",
            True, analytic,
        )  # fmt: skip
        return gradients.log_evidence[0]

    keys = jax.random.split(jax.random.key(1), count)
    both = jax.jit(jax.vmap(jax.value_and_grad(one), (None, 0)))
    values, gradients = both(jnp.asarray(NUMBERS, jnp.float32), keys)
    return np.asarray(values, float), np.asarray(gradients, float)


def test_sampled_and_analytic_bounds_have_the_same_means_and_the_formula_less_noise() -> None:
    numbers = jnp.asarray(NUMBERS, jnp.float32)
    value, gradient = float(bound(numbers)), np.asarray(jax.grad(bound)(numbers))
    noise = {}
    for analytic in (False, True):
        values, gradients = estimates(analytic, 4000)
        noise[analytic] = gradients.var(axis=0)
        assert abs(values.mean() - value) < 4 * values.std() / np.sqrt(len(values))
        errors = gradients.std(axis=0) / np.sqrt(len(gradients))
        np.testing.assert_array_less(abs(gradients.mean(axis=0) - gradient), 4 * errors + 1e-5)
    # The gradient of the prior's mean is then known exactly.
    assert noise[True][0] < 1e-9 < noise[False][0]
    assert noise[True].sum() < 0.8 * noise[False].sum()


@pytest.mark.slow
def test_more_particles_give_a_tighter_bound() -> None:
    """With one particle the mean is the ELBO; with more it rises, but not past the evidence."""
    built = nesymm.compile(ONE_CODE, networks={"look": nesymm.Function(constant, np.zeros(2))})
    evidence = jax.scipy.stats.multivariate_normal.logpdf(SEEN[0], jnp.zeros(3), jnp.eye(3) + 1)
    scale = float(jax.nn.softplus(0.0))
    distances = SEEN[0] ** 2 + scale**2
    elbo = -1.5 * np.log(2 * np.pi) - distances.sum() / 2
    elbo -= float(kl(jnp.asarray(0.0), jnp.asarray(scale), jnp.asarray(0.0), 1.0))
    # Many copies of one sequence are many draws.
    data = {"y": np.repeat(SEEN, 4000, 0)}
    means, errors = [], []
    for particles in (1, 8):
        method = RaoBlackwellised(particles=particles)
        found = np.asarray(built.log_evidence(data, method=method), float)
        means.append(found.mean())
        errors.append(found.std() / np.sqrt(len(found)))
    assert abs(means[0] - elbo) < 4 * errors[0]
    assert means[1] - means[0] > 4 * np.hypot(*errors)
    assert means[1] < float(evidence) + 4 * errors[1]


def ratios_to(value: jax.Array, built: nesymm.Model, name: str, method: Method) -> tuple:
    """Estimates of the evidence, relative to its value, and their gradients, for many keys."""

    def one(number: jax.Array, key: jax.Array) -> jax.Array:
        found = built.with_parameters({name: number}).log_evidence(
            {"y": SEEN}, method=method, key=key
        )
        return jnp.exp(found[0] - value)

    keys = jax.random.split(jax.random.key(0), 200)
    return jax.jit(jax.vmap(jax.value_and_grad(one), (None, 0)))(0.5, keys)


@pytest.mark.parametrize(
    "guide",
    [pytest.param("", marks=pytest.mark.slow), "guide(c(C)) ~ normal(0.8, 0.9)."],
)
def test_a_guide_weighs_the_draws_of_static_variables_in_every_method(guide: str) -> None:
    """log p(y) of a normal mean with a normal prior, whatever the guide; and its gradient."""
    program = """
    low ~ bernoulli(0.4).
    c(C) ~ normal(t(0.5), 1) :- not low.
    c(C) ~ normal(-1, 1) :- low.
    {guide}
    y(V)@t ~ normal(C, 1) :- c(C).
    observe(y@t).
    """
    seen = SEEN[0]
    covariance = np.eye(3) + 1

    def density(mean: jax.Array) -> jax.Array:
        return jax.scipy.stats.multivariate_normal.logpdf(seen, jnp.full(3, mean), covariance)

    def exact(mean: jax.Array) -> jax.Array:
        return jnp.logaddexp(jnp.log(0.6) + density(mean), jnp.log(0.4) + density(-1.0))

    value, gradient = jax.value_and_grad(exact)(0.5)
    built = nesymm.compile(program.format(guide=guide))
    (name,) = built.parameters
    for method in (ExactForward(draws=500), RaoBlackwellised(particles=500)):
        ratios, gradients = ratios_to(value, built, name, method)
        # The evidence itself is estimated without bias, and so is its gradient.
        for found, true in ((ratios, 1.0), (gradients, float(gradient))):
            error = float(np.std(found)) / np.sqrt(len(found))
            assert abs(float(np.mean(found)) - true) < 4 * error


def test_the_bound_is_learnt_to_the_evidence() -> None:
    """A guide that can be the posterior becomes it, and the bound is tight."""
    start = {"look": nesymm.Function(constant, np.zeros(2))}
    built = nesymm.compile(ONE_CODE, networks=start)
    fitted = fit(
        built, {"y": np.repeat(SEEN, 50, 0)}, objective=ELBO(), epochs=300, progress=False,
        optimizer=optax.adam(optax.cosine_decay_schedule(0.1, 300)),
    )  # fmt: skip
    mean, scale = np.asarray(fitted.model.networks["look"].params)
    assert mean == pytest.approx(SEEN.sum() / 4, abs=0.03)
    assert jax.nn.softplus(scale) == pytest.approx(0.5, abs=0.03)
    evidence = jax.scipy.stats.multivariate_normal.logpdf(SEEN[0], jnp.zeros(3), jnp.eye(3) + 1)
    # The likelihood is still sampled: the end of the history tells how far it spreads.
    losses = np.array([row["loss"] for row in fitted.history[-60:]])
    assert abs(losses.mean() + float(evidence)) < 4 * losses.std() / np.sqrt(60) + 0.01


def test_the_elbo_is_for_one_particle() -> None:
    with pytest.raises(nesymm.NesymmError, match="needs one particle"):
        fit(model(), {"y": PAIRS}, objective=ELBO(), method=RaoBlackwellised(particles=5))
    with pytest.raises(nesymm.NesymmError, match="kl: expected"):
        ELBO(kl="exact")
    loose = fit(
        model(), {"y": PAIRS}, objective=LogEvidence(), method=RaoBlackwellised(particles=50),
        epochs=1, progress=False,
    ).history[0]["loss"]  # fmt: skip
    assert loose < -float(bound(jnp.asarray(NUMBERS)))
