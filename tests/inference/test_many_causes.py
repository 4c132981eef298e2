"""Causes by the pair, of which only whether any comes up matters: one variable for each effect.

All are ill or not at step 0, which is observed. Step 1 then is a product over people, and particles
have no noise there: evidence and queries have a closed form.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest

import nesymm
from nesymm import Bootstrap, RaoBlackwellised
from nesymm.ir.passes.causes import merge_causes
from nesymm.ir.passes.phases import phases

N = 4

WORLD = """
:- const(n, 4).
:- input(near(key, key), 1..n, 1..n).
:- input(trust(key, key, W), 1..n, 1..n, real).
:- input(old(key), 1..n).
0.5::ill(P)@0 :- between(1, n, P).
0.6::ill(P)@t :- ill(P)@(t-1).
observe(ill(P)@t).
query(ill(P)@t).
"""


def data(batch: int = 6) -> dict[str, Any]:
    """Groups of four, of whom two are observed at step 1."""
    random = np.random.default_rng(3)
    ill = np.full((batch, 2, N), np.nan)
    ill[:, 0] = random.random((batch, N)) < 0.6
    ill[:, 1, :2] = random.random((batch, 2)) < 0.5
    trust = random.random((batch, N, N))
    trust[random.random(trust.shape) < 0.3] = np.nan
    trust[:, 0, 1] = 1.0
    trust[:, 2, 3] = 0.0
    return {
        "near": random.random((batch, N, N)) < 0.5,
        "trust": trust,
        "old": random.random((batch, N)) < 0.5,
        "ill": ill,
    }


def none_comes_up(given: dict[str, Any], chance: np.ndarray) -> np.ndarray:
    """The probability that nobody is made ill: `chance` is that by pairs, [batch, P, Q]."""
    before = given["ill"][:, 0]
    return np.prod(1 - np.nan_to_num(chance) * before[:, None], -1) * (1 - 0.6 * before)


def variables(clauses: str) -> dict[str, int]:
    """The variables of later steps, and how many axes they have, causes merged."""
    later = phases(nesymm.compile(WORLD + clauses).step).later
    return {v.name: len(v.axes) for v in merge_causes(later).variables}


CASES = {
    "a constant": (
        "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1).",
        lambda d: 0.3 * d["near"],
    ),
    "one that is learnt, and is certain": (
        "t(1.0)::ill(P)@t :- near(P, Q), ill(Q)@(t-1).",
        lambda d: 1.0 * d["near"],
    ),
    "a number for each pair": (
        "W::ill(P)@t :- trust(P, Q, W), ill(Q)@(t-1).",
        lambda d: d["trust"],
    ),
    "a number for each person": (
        "t(0.2, Q)::ill(P)@t :- near(P, Q), ill(Q)@(t-1).",
        lambda d: 0.2 * d["near"],
    ),
    "conditions on either": (
        "0.3::ill(P)@t :- near(P, Q), old(P), P \\= 3, ill(Q)@(t-1), old(Q).",
        lambda d: (
            0.3
            * d["near"]
            * d["old"][:, :, None]
            * d["old"][:, None]
            * (np.arange(N) != 2)[:, None]
        ),
    ),
    "two rules": (
        "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1).\n0.2::ill(P)@t :- near(Q, P), ill(Q)@(t-1).",
        lambda d: 1 - (1 - 0.3 * d["near"]) * (1 - 0.2 * d["near"].transpose(0, 2, 1)),
    ),
    "somebody between": (
        "0.3::ill(P)@t :- near(P, R), near(R, Q), ill(Q)@(t-1).",
        lambda d: 1 - (1 - 0.3) ** np.einsum("bpr,brq->bpq", d["near"] * 1, d["near"] * 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_effect_has_one_variable_and_its_probability(case: str) -> None:
    clauses, chance = CASES[case]
    assert max(variables(clauses).values()) == 1
    given = data()
    found = nesymm.compile(WORLD + clauses).filter(given, method=RaoBlackwellised(8), errors="keep")
    ill = 1 - none_comes_up(given, chance(given))
    seen = given["ill"][:, 1]
    weighed = np.where(np.isnan(seen), 1, np.where(seen == 1, ill, 1 - ill))
    with np.errstate(divide="ignore"):
        expected = np.log(weighed.prod(-1)) + N * np.log(0.5)
    np.testing.assert_allclose(found.log_evidence, expected, rtol=2e-5)
    for person in range(N):
        right = np.where(np.isnan(seen[:, person]), ill[:, person], seen[:, person])
        possible = np.isfinite(expected)
        name = f"ill({person + 1})@t"
        np.testing.assert_allclose(found.filtered[name][possible, 1], right[possible], atol=1e-5)


def test_draws_from_the_prior_are_as_many() -> None:
    clauses, chance = CASES["a number for each pair"]
    given = {**data(), "ill": np.full((6, 2, N), np.nan)}
    given["ill"][:, 0] = data()["ill"][:, 0]
    found = nesymm.compile(WORLD + clauses).filter(given, method=Bootstrap(20_000), key=1)
    right = 1 - none_comes_up(given, chance(given))
    for person in range(N):
        error = 4 * np.sqrt(right[:, person] * (1 - right[:, person]) / 20_000) + 1e-6
        assert (abs(found.filtered[f"ill({person + 1})@t"][:, 1] - right[:, person]) < error).all()


def test_gradients_are_those_of_the_closed_form() -> None:
    import jax

    given = {k: v[:1] for k, v in data().items()}
    given["near"] = ~np.eye(N, dtype=bool)[None]
    given["ill"] = np.array([[[1, 1, 0, 1], [1, 0, np.nan, np.nan]]], float)
    model = nesymm.compile(WORLD + "t(0.3)::ill(P)@t :- near(P, Q), ill(Q)@(t-1).")
    found = jax.grad(lambda m: m.log_evidence(given, method=RaoBlackwellised(8)).sum())(model)
    # Both have two neighbours who are ill: log(1 - 0.4 (1 - p)^2) + log(0.4 (1 - p)^2).
    expected = 0.4 * 2 * 0.7 / (1 - 0.4 * 0.49) - 2 / 0.7
    assert found.parameters["ill"] == pytest.approx(expected, rel=1e-4)


def test_keys_that_are_known() -> None:
    """Observed and asked of one person only."""
    clauses = "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1)."
    world = WORLD.replace("observe(ill(P)@t).", "observe(ill(P)@0).\nobserve(ill(2)@1).")
    merged = merge_causes(nesymm.compile(world + clauses).step)
    assert max(len(v.axes) for v in merged.variables) == 1


APART = {
    "their number counts": """
        0.3::nudges(P, Q)@t :- near(P, Q), ill(Q)@(t-1).
        many(N)@t :- aggregate_all(count, nudges(1, _)@t, N).
        query(many(N)@t).
        ill(P)@t :- nudges(P, _)@t.""",
    "each is read by itself": """
        0.3::nudges(P, Q)@t :- near(P, Q), ill(Q)@(t-1).
        ill(P)@t :- nudges(P, _)@t.
        query(nudges(P, Q)@t).""",
    "two rules need different ones": """
        0.3::nudges(P, Q)@t :- near(P, Q), ill(Q)@(t-1).
        ill(P)@t :- nudges(P, _)@t.
        glad(P)@t :- nudges(P, Q)@t, old(Q).
        query(glad(P)@t).""",
    "another draw has a say": """
        0.5::goes(Q)@t :- between(1, n, Q).
        0.3::ill(P)@t :- near(P, Q), goes(Q)@t, ill(Q)@(t-1).""",
    "they are drawn once": """
        0.3::close(P, Q) :- near(P, Q).
        ill(P)@t :- close(P, Q), ill(Q)@(t-1).""",
    "either end reads it": """
        0.3::nudges(P, Q)@t :- near(P, Q), ill(Q)@(t-1).
        ill(P)@t :- nudges(P, _)@t.
        glad(Q)@t :- nudges(_, Q)@t.
        query(glad(P)@t).""",
}


@pytest.mark.parametrize("case", APART)
def test_causes_that_are_needed_one_by_one_stay(case: str) -> None:
    assert max(variables(APART[case]).values(), default=0) == 2 or case == "they are drawn once"


def test_two_effects_of_one_cause_stay_tied() -> None:
    """If a nudge is read from either end, both ends are ill together: enumerated by hand."""
    clauses = """
        0.3::nudges(P, Q)@t :- near(P, Q), P < 3, Q < 3, ill(Q)@(t-1).
        sad(P)@t :- nudges(P, _)@t.
        glad(Q)@t :- nudges(_, Q)@t.
        both@t :- sad(1)@t, glad(2)@t.
        query(both@t).
    """
    given = {k: v[:1] for k, v in data().items()}
    given["near"] = np.ones((1, N, N), bool)
    given["ill"] = np.array([[[1, 1, 0, 0], [np.nan] * 4]], float)
    found = nesymm.compile(WORLD + clauses).filter(given, method=RaoBlackwellised(4))
    pairs = [(p, q) for p in (1, 2) for q in (1, 2)]
    expected = 0.0
    for world in product([False, True], repeat=4):
        on = {pair for pair, up in zip(pairs, world, strict=True) if up}
        weight = np.prod([0.3 if up else 0.7 for up in world])
        if any(p == 1 for p, _ in on) and any(q == 2 for _, q in on):
            expected += weight
    assert found.filtered["both@t"][0, 1] == pytest.approx(expected, abs=1e-5)


def test_trajectories_tell_the_causes_apart() -> None:
    clauses = "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1)."
    given = {k: v[:1] for k, v in data().items()}
    given["ill"][:, 1] = np.nan
    paths = nesymm.compile(WORLD + clauses).trajectories(given, 20, method=RaoBlackwellised(20))
    (name,) = [n for n, v in paths.draws.items() if v.shape[-2:] == (N, N)]
    assert paths.draws[name].shape == (1, 20, 2, N, N)


@pytest.mark.parametrize("method", ["rao-blackwellised", "bootstrap"])
@pytest.mark.parametrize("generated", [False, True])
def test_causes_are_told_apart_along_trajectories(method: str, generated: bool) -> None:
    """A cause that counts, and comes up, makes its effect certain: P(cause | effect) is the chance
    of the cause over that of the effect."""
    chosen = RaoBlackwellised(4000) if method == "rao-blackwellised" else Bootstrap(40_000)
    model = nesymm.compile(WORLD + "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1).")
    d = data(2)
    given = {n: d[n] for n in ("near", "trust", "old")}
    ill = d["ill"].copy()
    if method == "bootstrap":
        ill[:, 1, 1:] = np.nan  # Few particles would meet more evidence.
    draw = model.generate if generated else model.trajectories
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nesymm.NesymmWarning)
        found = draw({**given, "ill": ill}, 4000, method=chosen, key=1)
    pairs, habit = (found.draws[n][:, :, 1].astype(bool) for n in ("ill:3", "ill:2"))
    before, after = found["ill"][:, :, 0].astype(bool), found["ill"][:, :, 1].astype(bool)
    counts = d["near"][:, None] & before[:, :, None, :]
    right = (habit & before) | (pairs & counts).any(-1)
    np.testing.assert_array_equal(after, right)
    now = ill[:, 0]  # known of all
    meets = d["near"] * now[:, None]
    none = np.prod(1 - 0.3 * meets, -1) * (1 - 0.6 * now)
    seen = ill[:, 1][..., None]
    told = np.where(seen == 1, 0.3 / np.maximum(1 - none, 1e-9)[..., None], 0.0)
    chance = np.where((meets == 1) & ~np.isnan(seen), told, 0.3)
    # Four standard errors of a half of 4,000 draws, which share particles.
    np.testing.assert_allclose(pairs.mean(1), chance, atol=0.05)


def test_causes_along_two_axes_are_told_apart() -> None:
    model = nesymm.compile(WORLD + "0.3::ill(P)@t :- near(P, Q), near(Q, R), ill(R)@(t-1).")
    d = data(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nesymm.NesymmWarning)
        found = model.trajectories(d, 100, method=RaoBlackwellised(100))
    threes, habit = (found.draws[n][:, :, 1].astype(bool) for n in ("ill:3", "ill:2"))
    before, after = found["ill"][:, :, 0].astype(bool), found["ill"][:, :, 1].astype(bool)
    near = d["near"][:, None]
    counts = near[..., None] & near[:, :, None] & before[:, :, None, None, :]
    np.testing.assert_array_equal(after, (habit & before) | (threes & counts).any((-1, -2)))


def test_explanations_name_causes_that_were_merged() -> None:
    model = nesymm.compile(WORLD + "0.3::ill(P)@t :- near(P, Q), ill(Q)@(t-1).")
    near = np.zeros((1, N, N), bool)
    near[0, 0, 1] = True
    ill = np.full((1, 2, N), np.nan)
    ill[0, 0] = [0, 1, 0, 0]
    ill[0, 1, 0] = 1
    given = {**{n: a[:1] for n, a in data().items()}, "near": near, "ill": ill}
    found = model.trajectories(given, method=RaoBlackwellised(100))
    fired = [f for f in found.explain() if f.step == 1 and f.head == "ill(1)@1"]
    assert len(fired) == 1
    assert "ill(2)@0" in fired[0].because
