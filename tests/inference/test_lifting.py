"""Networks are called once for each value of their arguments, and not once for each cause of it.

Speed is the number of calls; the numbers are those of programs that name the values themselves,
and of sums that are written out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm import ExactForward, RaoBlackwellised
from nesymm.inference import world

pytestmark = pytest.mark.compiled

WALK = """
:- const(n, 3).
:- input(first).
:- network(detector, [n, n]).
:- network(encoder, 2).
:- network(draw, [20]).
cells(Cells) :- findall([R, C], (between(1, n, R), between(1, n, C)), Cells).
way(0, 1, 0). way(1, 0, 1). way(2, -1, 0). way(3, 0, -1).
action(A)@t ~ categorical([0.25, 0.25, 0.25, 0.25], [0, 1, 2, 3]).
agent(R, C)@0 ~ categorical(detector(first), Cells) :- cells(Cells).
agent(R, C)@t :- aim(R, C)@t, inside(R), inside(C).
agent(R, C)@t :- agent(R, C)@(t-1), aim(R1, C1)@t, not (inside(R1), inside(C1)).
inside(X) :- X >= 1, X =< n.
aim(R, C)@t :- agent(R0, C0)@(t-1), action(A)@t, way(A, DR, DC), R is R0 + DR, C is C0 + DC.
:- domain(agent/2, 1, 1..n).
:- domain(agent/2, 2, 1..n).
b(B) ~ normal(0, 1).
guide(b) ~ normal(encoder(first)).
"""
DIRECT = (
    WALK
    + """
image@t ~ normal(draw(R, C, B), 0.7) :- agent(R, C)@t, b(B).
observe(action@t). observe(image@t).
query(agent(n, n)@T).
"""
)
# The same with the values named: rows and columns are drawn, and observed to be right.
NAMED = (
    WALK
    + """
row(R)@t ~ uniform_int(1, n).
column(C)@t ~ uniform_int(1, n).
right@t :- row(R)@t, column(C)@t, agent(R, C)@t.
image@t ~ normal(draw(R, C, B), 0.7) :- row(R)@t, column(C)@t, b(B).
observe(right@(0:T), true).
observe(action@t). observe(image@t).
query(agent(n, n)@T).
"""
)
N, BATCH, STEPS = 3, 2, 6
WEIGHTS = np.random.default_rng(7).normal(size=(20, 3))
MOVES = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])


def draw(r: Any, c: Any, b: Any) -> Any:
    return jnp.tanh(jnp.asarray(WEIGHTS) @ jnp.stack([r - 2.0, c - 2.0, b]))


def networks(drawing: Callable[..., Any] = draw) -> dict[str, Any]:
    return {
        "detector": lambda first: first.reshape(N, N),
        "encoder": lambda first: jnp.stack([first.sum() * 0.1, -12.0]),  # a narrow guide
        "draw": drawing,
    }


def data(steps: int = STEPS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "first": rng.normal(size=(BATCH, N * N)),
        "action": rng.integers(0, 4, (BATCH, steps)),
        "image": rng.normal(size=(BATCH, steps, 20)),
    }


class Counted:
    """A network that counts its calls: inside `vmap` an argument does not show its batch."""

    def __init__(self, network: Callable[..., Any]):
        self.network = network
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        jax.debug.callback(self._note, args[0])
        return self.network(*args)

    def _note(self, first: Any) -> None:
        self.calls += np.size(first)


def counted(source: str, method: Any, steps: int) -> tuple[nesymm.Filtered, int]:
    network = Counted(draw)
    model = nesymm.compile(source, networks=networks(network))
    found = model.filter(data(steps), method=method)
    jax.effects_barrier()
    return found, network.calls


@pytest.mark.parametrize("steps", [2, STEPS])
def test_the_program_says_it_plainly_at_the_same_cost(steps: int) -> None:
    """Nine places: nine calls a sequence at the first step, and nine for all others."""
    plain, calls = counted(DIRECT, ExactForward(draws=1), steps)
    named, before = counted(NAMED, ExactForward(draws=1), steps)
    assert calls == before == 2 * N * N * BATCH
    evidence = named.log_evidence + steps * np.log(N * N)
    np.testing.assert_allclose(plain.log_evidence, evidence, rtol=1e-5)
    for query, row in plain.final.items():
        np.testing.assert_allclose(row, named.final[query], rtol=1e-4, atol=1e-6)


def test_the_evidence_is_the_sum_over_all_starts() -> None:
    given = data()
    with jax.enable_x64(True):
        model = nesymm.compile(DIRECT, networks=networks())
        found = model.filter(given, method=ExactForward(draws=1)).log_evidence
        for n in range(BATCH):
            b = 0.1 * given["first"][n].sum()
            starts = np.asarray(jax.nn.log_softmax(given["first"][n]))
            walks = []
            for start, (r, c) in enumerate(itertools.product(range(1, N + 1), repeat=2)):
                cell, log = np.array([r, c]), starts[start]
                for t in range(STEPS):
                    aim = cell + MOVES[given["action"][n, t]]
                    if t and (aim >= 1).all() and (aim <= N).all():
                        cell = aim
                    z = (given["image"][n, t] - np.asarray(draw(*cell, b))) / 0.7
                    log += np.sum(-0.5 * z**2 - np.log(0.7) - 0.5 * np.log(2 * np.pi)) - np.log(4)
                walks.append(log)
            # Of b, prior over guide at the draw: it is some narrow scales from the mean.
            sd = np.log1p(np.exp(-12.0))
            weight = found[n] - np.logaddexp.reduce(walks) + 0.5 * b**2 - np.log(sd)
            assert -1e-3 < weight < 0.5 * 6**2


def test_gradients_go_through_the_table() -> None:
    def loss(source: str) -> Any:
        model = nesymm.compile(source, networks=networks())

        def of(scale: Any) -> Any:
            scaled = model.with_networks(draw=lambda r, c, b: scale * draw(r, c, b))
            return scaled.log_evidence(data(3), method=ExactForward(draws=1)).sum()

        return jax.grad(of)(jnp.asarray(1.0))

    np.testing.assert_allclose(loss(DIRECT), loss(NAMED), rtol=1e-4)


# ---------------------------------------------------------------- particles

SCORED = """
:- const(n, 4).
:- input(picture).
:- network(score, 1).
place(X)@0 ~ uniform_int(1, n).
step(D)@t ~ uniform_int(-1, 1).
place(X)@t :- place(Y)@(t-1), step(D)@t, X is max(1, min(n, Y + D)).
value(V)@t ~ normal(S, 0.5) :- place(X)@t, S is score(X, picture).
observe(value@t).
query(place(n)@T).
"""
PARTICLES = 50


def score(x: Any, picture: Any) -> Any:
    return jnp.sin(x * picture.sum())


def scored(monkeypatch: pytest.MonkeyPatch, lifts: bool) -> tuple[nesymm.Filtered, int]:
    network = Counted(score)
    if not lifts:
        monkeypatch.setattr(world, "fewer_values", lambda *_: {})
    rng = np.random.default_rng(2)
    given = {"picture": rng.normal(size=(BATCH, 3)), "value": rng.normal(size=(BATCH, STEPS))}
    model = nesymm.compile(SCORED, networks={"score": network})
    found = model.filter(given, method=RaoBlackwellised(particles=PARTICLES), key=5)
    jax.effects_barrier()
    return found, network.calls


def test_particles_share_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four places and a picture of each sequence: four calls a sequence and step, not fifty."""
    lifted, few = scored(monkeypatch, lifts=True)
    whole, many = scored(monkeypatch, lifts=False)
    assert few <= 2 * 4 * BATCH * STEPS < PARTICLES * BATCH * STEPS <= many
    np.testing.assert_allclose(lifted.log_evidence, whole.log_evidence, rtol=1e-5)
    np.testing.assert_allclose(
        lifted.final["place(4)@T"], whole.final["place(4)@T"], rtol=1e-4, atol=1e-6
    )


DICE = """
:- input(first).
:- network(draw, [20]).
a(A)@t ~ uniform_int(1, 6).
b(B)@t ~ uniform_int(1, 6).
image@t ~ normal(draw(S, first), 0.7) :- a(A)@t, b(B)@t, S is A + B.
observe(image@t).
query(a(6)@t).
"""


def test_causes_of_one_value_are_summed_together() -> None:
    """Eleven sums of two dice, not 36 pairs. Nothing is drawn that matters: particles are exact."""
    given = {n: v for n, v in data().items() if n in ("first", "image")}
    found = []
    for method in (ExactForward(), RaoBlackwellised(particles=2)):
        network = Counted(lambda s, first: jnp.tanh(jnp.asarray(WEIGHTS) @ first[:3] * (s - 7.0)))
        model = nesymm.compile(DICE, networks={"draw": network})
        found.append(model.filter(given, method=method))
        jax.effects_barrier()
        # Of particles, the draws are weighed besides, each by itself.
        assert (
            network.calls <= (11 + (0 if isinstance(method, ExactForward) else 2)) * BATCH * STEPS
        )
    exact, particles = found
    np.testing.assert_allclose(particles.log_evidence, exact.log_evidence, rtol=1e-5)
    np.testing.assert_allclose(
        particles.filtered["a(6)@t"], exact.filtered["a(6)@t"], rtol=1e-4, atol=1e-6
    )
    centre = np.asarray(given["first"])[:, :3] @ WEIGHTS.T
    sums = np.arange(2, 13)
    means = np.tanh(centre[:, None, None] * (sums[:, None] - 7.0))
    z = (np.asarray(given["image"])[:, :, None] - means) / 0.7
    logs = np.sum(-0.5 * z**2 - np.log(0.7) - 0.5 * np.log(2 * np.pi), -1)
    chances = (6 - abs(sums - 7)) / 36
    expected = np.logaddexp.reduce(logs + np.log(chances), -1).sum(1)
    np.testing.assert_allclose(exact.log_evidence, expected, rtol=1e-5)
