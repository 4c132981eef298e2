"""Vectors that are carried from step to step, against Kalman filters and closed forms.

Particle estimates are random: a sequence is filtered many times in one batch, and the mean
must lie within four standard errors of the truth.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import infer
from scipy.stats import multivariate_normal, norm
from typer.testing import CliRunner

import nesymm
from nesymm.cli.main import app
from nesymm.errors import ProgramError
from nesymm.inference.columns import DataError
from nesymm.inference.methods import Bootstrap, ExactForward, Method, RaoBlackwellised

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dynamax.linear_gaussian_ssm import lgssm_filter
    from dynamax.linear_gaussian_ssm.inference import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
    )

A = np.asarray([[0.9, 0.3], [-0.2, 0.8]])
START, START_COVARIANCE = np.asarray([1.0, 0.0]), np.asarray([[0.8, 0.2], [0.2, 0.5]])
Q = np.asarray([[0.3, 0.1], [0.1, 0.2]])
R = np.asarray([[0.5, -0.1], [-0.1, 0.4]])
NOTHING = [np.nan, np.nan]
SEEN = np.asarray(
    [
        [[1.4, 0.1], [0.6, -0.9], [1.5, -0.2], [0.3, 0.6], [-0.4, 0.8]],
        [[1.9, -0.7], NOTHING, [0.1, -0.5], [0.2, 0.4], NOTHING],
        [[0.2, 0.9], [0.9, 0.4], [0.8, 1.1], NOTHING, NOTHING],
    ]
)
LENGTHS = np.asarray([5, 5, 3])
REPEATS = 40


def rows(matrix: np.ndarray) -> str:
    return str(matrix.tolist())


BEGIN = f"pos(P)@0 ~ multivariate_normal({rows(START)}, {rows(START_COVARIANCE)}).\n"
LOOK = f"""
    seen(Y)@t ~ multivariate_normal(P, {rows(R)}) :- pos(P)@t.
    observe(seen@t).
    right@t :- pos([X, _])@t, X > 0.5.
    query(right@t).
"""
# The same model three times: a network reads the vector, a rule takes it apart, and the
# head of a clause draws its entries.
NETWORK = f"""
    :- network(move, 2).
    {BEGIN}
    pos(P)@t ~ multivariate_normal(move(P0), {rows(Q)}) :- pos(P0)@(t-1).
    {LOOK}
"""
ENTRIES = f"""
    {BEGIN}
    pos(P)@t ~ multivariate_normal([0.9 * X + 0.3 * Y, 0.8 * Y - 0.2 * X], {rows(Q)}) :-
        pos([X, Y])@(t-1).
    {LOOK}
"""
DRAWN_APART = f"""
    pos(X, Y)@0 ~ multivariate_normal({rows(START)}, {rows(START_COVARIANCE)}).
    pos(X, Y)@t ~ multivariate_normal([0.9 * A + 0.3 * B, 0.8 * B - 0.2 * A], {rows(Q)}) :-
        pos(A, B)@(t-1).
    seen(U, V)@t ~ multivariate_normal([X, Y], {rows(R)}) :- pos(X, Y)@t.
    observe(seen@t).
    right@t :- pos(X, _)@t, X > 0.5.
    query(right@t).
"""


def linear(matrix: Any) -> nesymm.Function:
    return nesymm.Function(lambda m, p: m @ p, jnp.asarray(matrix, jnp.float32))


@pytest.fixture(scope="module")
def moved() -> Any:
    return nesymm.compile(NETWORK, networks={"move": linear(A)})


@pytest.fixture(scope="module")
def entries() -> Any:
    return nesymm.compile(ENTRIES)


def kalman(
    seen: np.ndarray, moves: list[tuple[np.ndarray, np.ndarray]] | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, and means and covariances given what is seen so far.

    `moves` has the matrix and the noise of each step after the first.
    """
    mean, covariance, total = START, START_COVARIANCE, 0.0
    means, covariances = [], []
    for t, y in enumerate(seen):
        if t:
            matrix, noise = moves[t - 1] if moves is not None else (A, Q)
            mean, covariance = matrix @ mean, matrix @ covariance @ matrix.T + noise
        if not np.isnan(y).any():
            total += multivariate_normal.logpdf(y, mean, covariance + R)
            gain = covariance @ np.linalg.inv(covariance + R)
            mean = mean + gain @ (y - mean)
            covariance = covariance - gain @ covariance
        means.append(mean)
        covariances.append(covariance)
    return float(total), np.asarray(means), np.asarray(covariances)


def repeated(seen: np.ndarray) -> np.ndarray:
    return np.repeat(seen, REPEATS, axis=0)


def agree(estimates: Any, truth: Any) -> None:
    """The mean of independent estimates, along the first axis, is the truth."""
    estimates = np.asarray(estimates, float)
    error = estimates.std(0, ddof=1) / np.sqrt(len(estimates))
    off = abs(estimates.mean(0) - truth)
    assert (off <= 4 * error + 1e-6).all(), f"{estimates.mean(0)} is not {truth} ± {error}"


def agree_on_evidence(found: Any, truth: float, precision: float = 0.1) -> None:
    ratios = np.exp(np.asarray(found) - truth)
    assert ratios.std() / np.sqrt(len(ratios)) < precision
    agree(ratios, 1.0)


# ---------------------------------------------------------------- linear Gaussian models


def test_the_oracle_agrees_with_dynamax() -> None:
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nothing = jnp.zeros((2, 0))
        parameters = ParamsLGSSM(
            initial=ParamsLGSSMInitial(mean=jnp.asarray(START), cov=jnp.asarray(START_COVARIANCE)),
            dynamics=ParamsLGSSMDynamics(
                weights=jnp.asarray(A), bias=jnp.zeros(2), input_weights=nothing, cov=jnp.asarray(Q)
            ),
            emissions=ParamsLGSSMEmissions(
                weights=jnp.eye(2), bias=jnp.zeros(2), input_weights=nothing, cov=jnp.asarray(R)
            ),
        )
        expected = lgssm_filter(parameters, jnp.asarray(SEEN[0]))
        evidence, means, covariances = kalman(SEEN[0])
        assert evidence == pytest.approx(float(expected.marginal_loglik), abs=1e-6)
        np.testing.assert_allclose(means, expected.filtered_means, atol=1e-6)
        np.testing.assert_allclose(covariances, expected.filtered_covariances, atol=1e-6)


@pytest.mark.parametrize(
    ("program", "method"),
    [
        (NETWORK, RaoBlackwellised(particles=500)),
        pytest.param(
            ENTRIES,
            Bootstrap(particles=500, resample_below="always", resampling="multinomial"),
            marks=pytest.mark.slow,
        ),
        (DRAWN_APART, Bootstrap(particles=500, resample_below=0)),
    ],
)
def test_the_filter_agrees_with_kalman(program: str, method: Method) -> None:
    """A whole sequence, one with steps that are not seen, and a short one, in one batch."""
    networks = {"move": linear(A)} if program is NETWORK else None
    model = nesymm.compile(program, networks=networks)
    found = model.filter({"seen": repeated(SEEN)}, method=method, steps=np.repeat(LENGTHS, REPEATS))
    for i, length in enumerate(LENGTHS):
        mine = slice(i * REPEATS, (i + 1) * REPEATS)
        evidence, means, covariances = kalman(SEEN[i, :length])
        agree_on_evidence(found.log_evidence[mine], evidence)
        above = norm.sf(0.5, means[:, 0], np.sqrt(covariances[:, 0, 0]))
        agree(found.filtered["right@t"][mine, :length], above)


# ---------------------------------------------------------------- lags, statics, entities

WALK = np.minimum.outer(np.arange(4), np.arange(4))
EVERY_OTHER = np.where(np.add.outer(np.arange(4), np.arange(4)) % 2 == 0, WALK // 2, 0)
SAME_PARITY = np.add.outer(np.arange(4), np.arange(4)) % 2 == 0
UNIT = "[[1, 0], [0, 1]]"
Y = np.asarray([[0.4, -0.2], [1.1, 0.3], [-0.5, 0.9], [0.2, 1.6]])
# Vectors of two independent coordinates, with the covariance over time of each coordinate.
WALKS = {
    "free": (
        f"""free(P)@0 ~ multivariate_normal([0, 0], {UNIT}).
            free(P)@t ~ normal(P0, 1) :- free(P0)@(t-1).""",
        WALK + 1,
    ),
    "tied": (
        f"tied([0, 0])@0.  tied(P)@t ~ multivariate_normal(P0, {UNIT}) :- tied(P0)@(t-1).",
        WALK,
    ),
}
BY_OTHER_STEPS = {
    "two_back": (
        f"""two_back(P)@0 ~ multivariate_normal([0, 0], {UNIT}).
            two_back(P)@1 ~ multivariate_normal([0, 0], {UNIT}).
            two_back(P)@t ~ multivariate_normal(P0, {UNIT}) :- two_back(P0)@(t-2).""",
        EVERY_OTHER + SAME_PARITY,
    ),
    "steady": (
        f"home(H) ~ multivariate_normal([0, 0], {UNIT}).  steady(H)@t :- home(H).",
        np.ones((4, 4)),
    ),
    "from_first": (
        f"""origin(P)@0 ~ multivariate_normal([0, 0], {UNIT}).
            from_first(P)@t ~ multivariate_normal(P0, {UNIT}) :- origin(P0)@0.""",
        np.ones((4, 4)) + np.eye(4),
    ),
}


def evidence_of(covariance: np.ndarray) -> float:
    noisy = covariance + 0.5 * np.eye(4)
    return float(sum(multivariate_normal.logpdf(y, np.zeros(4), noisy) for y in Y.T))


@pytest.mark.parametrize(
    "forms",
    [
        pytest.param(WALKS, id="walks", marks=pytest.mark.slow),
        pytest.param(BY_OTHER_STEPS, id="by other steps"),
    ],
)
def test_how_a_vector_comes_about(forms: dict[str, Any]) -> None:
    text, data, truth = "", {}, 0.0
    for name, (clauses, covariance) in forms.items():
        text += f"""
            {clauses}
            see_{name}(Y)@t ~ multivariate_normal(P, [[0.5, 0], [0, 0.5]]) :- {name}(P)@t.
            observe(see_{name}@t).
        """
        data[f"see_{name}"] = repeated(Y[None])
        truth += evidence_of(covariance)
    found = nesymm.compile(text).filter(data, method=Bootstrap(particles=1000))
    agree_on_evidence(found.log_evidence, truth)


def test_several_entities_have_a_vector_each() -> None:
    """One of two is seen at one step, as the program says, the other at all steps."""
    model = nesymm.compile(f"""
        pos(B, P)@0 ~ multivariate_normal([0, 0], {UNIT}) :- between(1, 2, B).
        pos(B, P)@t ~ normal(P0, 1) :- pos(B, P0)@(t-1).
        seen(B, Y)@t ~ multivariate_normal(P, [[0.5, 0], [0, 0.5]]) :- pos(B, P)@t.
        observe(seen(B, _)@t).
        observe(pos(1)@1, [0.5, -2]).
    """)
    seen = np.stack([np.full_like(Y, np.nan), Y], axis=1)
    found = model.filter(
        {"seen": np.repeat(seen[None], REPEATS, axis=0)}, method=RaoBlackwellised(particles=500)
    )
    fixed = multivariate_normal.logpdf([0.5, -2], np.zeros(2), 2 * np.eye(2))
    agree_on_evidence(found.log_evidence, float(fixed) + evidence_of(WALK + 1))


# ---------------------------------------------------------------- hybrid states

CALM, WILD = 0.1 * np.eye(2), np.asarray([[1.5, 0.4], [0.4, 1.0]])
MODES = """
    mode(M)@0 ~ categorical([0.5, 0.5], [calm, wild]).
    mode(M)@t ~ categorical([0.8, 0.2], [calm, wild]) :- mode(calm)@(t-1).
    mode(M)@t ~ categorical([0.3, 0.7], [calm, wild]) :- mode(wild)@(t-1).
    query(mode(_)@t).
"""
BY_CLAUSE = f"""
    pos(P)@t ~ multivariate_normal(P0, {rows(CALM)}) :- pos(P0)@(t-1), mode(calm)@t.
    pos(P)@t ~ multivariate_normal(P0, {rows(WILD)}) :- pos(P0)@(t-1), mode(wild)@t.
"""
BY_TABLE = """
    noise(calm, 0.1, 0, 0.1).  noise(wild, 1.5, 0.4, 1.0).
    pos(P)@t ~ multivariate_normal(P0, [[S, C], [C, V]]) :-
        pos(P0)@(t-1), mode(M)@t, noise(M, S, C, V).
"""


def switching(seen: np.ndarray) -> tuple[float, np.ndarray]:
    """Evidence, and the probability of calm at each step given what is seen so far: one
    Kalman filter for every sequence of modes."""
    to = np.asarray([[0.8, 0.2], [0.3, 0.7]])
    calm = []
    for end in range(1, len(seen) + 1):
        weights = np.zeros(2)
        for modes in product((0, 1), repeat=end):
            prior = 0.5 * np.prod([to[a, b] for a, b in pairwise(modes)])
            moves = [(np.eye(2), (CALM, WILD)[m]) for m in modes[1:]]
            weights[modes[-1]] += prior * np.exp(kalman(seen[:end], moves)[0])
        calm.append(weights[0] / weights.sum())
    return float(np.log(weights.sum())), np.asarray(calm)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "clauses"),
    [
        (Bootstrap(particles=400), BY_TABLE),
        (RaoBlackwellised(particles=400), BY_CLAUSE),
    ],
)
def test_a_mode_switches_the_noise(method: Method, clauses: str) -> None:
    model = nesymm.compile(BEGIN + MODES + clauses + LOOK)
    found = model.filter({"seen": repeated(SEEN[:1])}, method=method)
    evidence, calm = switching(SEEN[0])
    agree_on_evidence(found.log_evidence, evidence)
    agree(found.filtered["mode(calm)@t"], calm)


@pytest.mark.parametrize(
    "clauses",
    [
        pytest.param(BY_CLAUSE, id="by clause", marks=pytest.mark.slow),
        pytest.param(BY_TABLE, id="by table"),
    ],
)
def test_the_finite_part_is_exact_given_the_vectors(clauses: str) -> None:
    """The vectors are seen and the modes forgotten: one particle gives the exact answer."""
    model = nesymm.compile(
        BEGIN
        + "mode(M)@t ~ categorical([0.8, 0.2], [calm, wild]).  query(mode(_)@t)."
        + clauses
        + "observe(pos@t)."
    )
    found = model.filter({"pos": SEEN[:1]}, method=RaoBlackwellised(particles=1))
    path = SEEN[0]
    total, calm = multivariate_normal.logpdf(path[0], START, START_COVARIANCE), [0.8]
    for before, now in pairwise(path):
        joint = [p * multivariate_normal.pdf(now, before, c) for p, c in ((0.8, CALM), (0.2, WILD))]
        total += np.log(sum(joint))
        calm.append(joint[0] / sum(joint))
    assert found.log_evidence[0] == pytest.approx(total, abs=1e-4)
    np.testing.assert_allclose(found.filtered["mode(calm)@t"][0], calm, atol=1e-5)


ONLY_SEEN = (
    MODES
    + f"""
    seen(Y)@t ~ multivariate_normal([0, 1], {rows(CALM)}) :- mode(calm)@t.
    seen(Y)@t ~ multivariate_normal([0, 0], {rows(WILD)}) :- mode(wild)@t.
    observe(seen@t).
    """
)


@pytest.mark.slow
def test_vectors_that_are_only_seen_are_exact() -> None:
    """No vector is hidden: exact inference and the reference interpreter agree."""
    model = nesymm.compile(ONLY_SEEN)
    with jax.enable_x64(True):
        found = model.filter({"seen": SEEN[:1]}, method=ExactForward())
    expected = infer(model.step, 4, {"seen": [list(y) for y in SEEN[0]]})
    assert found.log_evidence[0] == pytest.approx(np.log(expected.evidence), abs=1e-9)
    np.testing.assert_allclose(
        found.filtered["mode(calm)@t"][0], expected.filtered["mode(calm)@t"], atol=1e-9
    )


# ---------------------------------------------------------------- gradients


def test_slopes_in_the_weights_of_a_network(moved: Any) -> None:
    """The gradient of the evidence is right on average: draws are functions of the network."""
    seen, method = SEEN[0, :3], RaoBlackwellised(particles=100)

    def evidence(matrix: Any) -> Any:
        mean, covariance, total = jnp.asarray(START), jnp.asarray(START_COVARIANCE), 0.0
        for t, y in enumerate(seen):
            if t:
                mean, covariance = matrix @ mean, matrix @ covariance @ matrix.T + Q
            apart, seen_covariance = y - mean, covariance + R
            solved = jnp.linalg.solve(seen_covariance, apart)
            total -= 0.5 * (apart @ solved + jnp.linalg.slogdet(2 * jnp.pi * seen_covariance)[1])
            gain = covariance @ jnp.linalg.inv(seen_covariance)
            mean, covariance = mean + gain @ apart, covariance - gain @ covariance
        return jnp.exp(total)

    data = {"seen": np.repeat(seen[None], 200, axis=0)}

    @jax.jit
    def estimate(matrix: Any, key: Any) -> Any:
        def mean(m: Any) -> Any:
            logs = moved.with_networks({"move": linear(m)}).log_evidence(
                data, method=method, key=key
            )
            return jnp.mean(jnp.exp(logs))

        return jax.grad(mean)(matrix)

    start = jnp.asarray(A, jnp.float32)
    gradients = [np.asarray(estimate(start, jax.random.key(i))) for i in range(20)]
    truth = np.asarray(jax.jit(jax.grad(evidence))(start))
    error = np.std(gradients, axis=0, ddof=1) / np.sqrt(len(gradients))
    assert (error < 0.1 * abs(truth).max()).all()
    agree(gradients, truth)


# ---------------------------------------------------------------- streams


def test_a_stream_goes_on_from_a_saved_state(moved: Any, tmp_path: Path) -> None:
    stream = moved.stream(method=RaoBlackwellised(particles=400), batch=REPEATS)
    many = repeated(SEEN[1:2])
    gains = [stream.update({"seen": many[:, t]}).log_gain for t in range(3)]
    stream.save(tmp_path / "state.npz")
    rest = [stream.update({"seen": many[:, t]}) for t in (3, 4)]
    agree_on_evidence(sum(gains) + sum(u.log_gain for u in rest), kalman(SEEN[1])[0])
    stream.restore(tmp_path / "state.npz")
    again = [stream.update({"seen": many[:, t]}) for t in (3, 4)]
    for a, b in zip(rest, again, strict=True):
        np.testing.assert_array_equal(a.log_gain, b.log_gain)
        np.testing.assert_array_equal(a.probabilities["right@t"], b.probabilities["right@t"])


# ---------------------------------------------------------------- generation


@pytest.mark.slow
def test_generated_vectors_have_the_distribution_of_the_program(entries: Any) -> None:
    generated = entries.generate(steps=3, count=2000, method=Bootstrap(particles=2000))
    pos, seen = generated.values["pos"][0], generated.observed["seen"][0]
    assert pos.shape == seen.shape == (2000, 3, 2)
    for drawn, covariance in (
        (pos[:, 0] - START, START_COVARIANCE),
        (pos[:, 1] - pos[:, 0] @ A.T, Q),
        (pos[:, 2] - pos[:, 1] @ A.T, Q),
        (seen[:, 2] - pos[:, 2], R),
    ):
        agree(drawn, 0.0)
        agree(drawn[:, :, None] * drawn[:, None, :], covariance)


def test_generation_keeps_what_is_given_and_can_be_explained(entries: Any) -> None:
    """What is not given follows the posterior: the last two steps are not seen."""
    given, count = np.concatenate([SEEN[0, :3], [NOTHING] * 2]), 20
    generated = entries.generate(
        {"seen": repeated(given[None])}, count=count, method=Bootstrap(particles=500)
    )
    pos, seen = generated.values["pos"], generated.observed["seen"]
    assert pos.shape == seen.shape == (REPEATS, count, 5, 2)
    np.testing.assert_allclose(seen[0, 0, :3], given[:3], rtol=1e-6)
    _, means, covariances = kalman(given)
    for drawn, noise in ((pos[:, :, -1], 0.0), (seen[:, :, -1], R)):
        agree(drawn.mean(1), means[-1])
        squares = np.einsum("rci,rcj->rij", drawn, drawn) / count
        agree(squares, covariances[-1] + noise + np.outer(means[-1], means[-1]))
    atoms = generated.atoms(0, 0, 0)
    x, y = pos[0, 0, 0].tolist()
    assert atoms[0] == f"pos([{x:.6g},{y:.6g}])@0"
    assert "seen([1.4,0.1])@0" in atoms
    first = entries.explain(generated)[0]
    assert str(first).startswith(f"pos([{x:.6g}, {y:.6g}])@0")


# ---------------------------------------------------------------- without time


def test_a_vector_in_a_program_without_time() -> None:
    """What is seen of it updates it; the finite parent of another is weighed by its density."""
    model = nesymm.compile(f"""
        m(M) ~ categorical([0.4, 0.6], [a, b]).
        x(V) ~ multivariate_normal([0, 0], {rows(WILD)}) :- m(a).
        x(V) ~ multivariate_normal([2, 1], {rows(WILD)}) :- m(b).
        y(V) ~ multivariate_normal(X, {rows(R)}) :- x(X).
        observe(y, [1.0, 0.5]).
        query(m(_)).
    """)
    answers = [model.infer(samples=2000, key=i).probability("m(a)") for i in range(10)]
    weights = [
        p * multivariate_normal.pdf([1.0, 0.5], mean, WILD + R)
        for p, mean in ((0.4, [0, 0]), (0.6, [2, 1]))
    ]
    agree(answers, weights[0] / sum(weights))


# ---------------------------------------------------------------- mistakes

CARRIED = f"pos(P)@0 ~ multivariate_normal([0, 0], {UNIT}).\n"
MISTAKES = {
    "P > 3": ("E308", "bad@t :- pos(P)@t, P > 3.", "P > 3", "V = [X, Y]"),
    "P =:= 3": ("E308", "bad@t :- pos(P)@t, P =:= 3.", "P =:= 3", "V = [X, Y]"),
    "P + 1": ("E308", "far(X)@t :- pos(P)@t, X is P + 1.", "X is P + 1", "V = [X, Y]"),
    "P = Q": ("E311", "bad@t :- pos(P)@t, pos(Q)@(t-1), P = Q.", "P = Q", "distance(P, Q, D)"),
    "P \\= Q": ("E311", "bad@t :- pos(P)@t, pos(Q)@(t-1), P \\= Q.", "P \\= Q", "distance"),
    "P twice": ("E311", "bad@t :- pos(P)@t, pos(P)@(t-1).", "pos(P)@(t-1)", "distance(P, Q, D)"),
    "a part is seen": ("E311", "half(X)@t :- pos([X, _])@t.", "observe(half@t)", "vector itself"),
    "an old one is seen": ("E311", "old(P)@t :- pos(P)@(t-1).", "observe(old@t)", "with `~`"),
    "other length": ("E313", "pos([0, 0, 0])@1.", CARRIED[:8], "the same shape"),
    "as a key": ("E306", ":- fluent(in(key)). in(P)@t :- pos(P)@t.", "in(P)@t", "domain"),
    "as a scale": ("E308", "n(X)@t ~ normal(0, P) :- pos(P)@t.", "n(X)@t", "V = [X, Y]"),
    "too many numbers": ("E308", "", "observe(pos@1, [1, 2, 3])", "for each entry"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_vector_cannot_do(name: str) -> None:
    code, clause, marked, cure = MISTAKES[name]
    text = CARRIED + f"pos(P)@t ~ multivariate_normal(P0, {UNIT}) :- pos(P0)@(t-1).\n{clause}\n"
    head = clause.split("(")[0].split("@")[0]
    if marked.startswith("observe"):
        text += f"{marked}.\n"
    elif name == "as a key":
        text += "b@t :- in(_)@(t-1).\nquery(b@t).\n"
    elif name == "other length":
        text += "query(pos([0, 0])@t).\n"
    else:
        text += f"query({head}{'(_)' if '(X)' in clause.split(':-')[0] else ''}@t).\n"
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(text)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.span is not None
    assert marked in found.span.text or found.span.text in marked
    assert cure in (found.cure or "")


@pytest.mark.parametrize(
    ("parameters", "code", "message"),
    [
        ("[0, 0], [[1, 0], [0, -1]]", "E111", "not positive definite"),
        ("[0, 0], [[1, 0.5], [0, 1]]", "E111", "not symmetric"),
        ("[0, 0, 0], [[1, 0], [0, 1]]", "E110", "the mean is tensor[3]"),
        ("0, [[1, 0], [0, 1]]", "E110", "the mean of multivariate_normal is a vector"),
        ("[0, 0], [1, 1]", "E110", "is a list of rows"),
    ],
)
def test_parameters_that_do_not_fit(parameters: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(f"p(X)@t ~ multivariate_normal({parameters}).\nobserve(p@t).")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert message in found.message


def test_a_shape_that_is_not_known_cannot_be_carried() -> None:
    with pytest.raises(ProgramError, match=r"E313.*shape is not known"):
        nesymm.compile(
            ":- network(f).\np(P)@t ~ normal(f(t), 1).\n"
            "q(P)@t ~ normal(P0, 1) :- p(P0)@(t-1).\nobserve(q@t)."
        )


def test_data_of_another_shape(entries: Any) -> None:
    with pytest.raises(DataError, match=r"seen: .*shape \(1, 4, 2\), received \(1, 4, 3\)"):
        entries.filter({"seen": np.zeros((1, 4, 3))})


# ---------------------------------------------------------------- the command line


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Any]:
    def run(name: str, program: str, *options: str) -> Any:
        path = tmp_path / "program.nsl"
        path.write_text(program, encoding="utf-8")
        return CliRunner().invoke(app, [name, str(path), *options])

    return run


def test_the_command_filter(command: Callable[..., Any], tmp_path: Path) -> None:
    """No vector is hidden: the answer is exact, that of the reference interpreter."""
    np.savez(tmp_path / "data.npz", seen=SEEN[:1])
    done = command(
        "filter", ONLY_SEEN, "--data", str(tmp_path / "data.npz"), "--method", "exact", "--json"
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.output)["sequences"]
    step = nesymm.compile(ONLY_SEEN).step
    expected = infer(step, 4, {"seen": [list(y) for y in SEEN[0]]})
    assert found["log_evidence"] == pytest.approx(np.log(expected.evidence), abs=1e-4)
    calm = found["queries"]["mode(calm)@t"]
    np.testing.assert_allclose(calm, expected.filtered["mode(calm)@t"], atol=1e-5)


def test_the_command_query(command: Callable[..., Any]) -> None:
    program = ENTRIES.replace("observe(seen@t).", "observe(seen@1, [0.6, -0.9]).")
    program = program.replace("query(right@t).", "query(right@1).")
    done = command("query", program, "--particles", "8000")
    assert done.exit_code == 0, done.output
    _, means, covariances = kalman(np.asarray([NOTHING, SEEN[0, 1]]))
    truth = norm.sf(0.5, means[1, 0], np.sqrt(covariances[1, 0, 0]))
    shown, error = done.output.splitlines()[0].removeprefix("right@1:").split("±")
    assert abs(float(shown) - truth) < 4 * float(error)


def test_the_command_reports_mistakes(command: Callable[..., Any]) -> None:
    done = command("query", CARRIED + "bad@t :- pos(P)@t, P > 3.\nquery(bad@0).")
    assert done.exit_code == 2
    assert "E308" in done.output
