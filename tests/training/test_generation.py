"""Generated trajectories obey rules and evidence, and come from the exact posterior.

The oracle walks through all sequences of moves in plain Python; it knows nothing of the
library.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import nesymm
from nesymm.errors import NesymmError
from nesymm.inference.methods import ExactForward, RaoBlackwellised
from nesymm.inference.trajectories import Trajectories

SIZE = 3
WALL, LAVA, KEY, HOME = (2, 2), (3, 1), (1, 3), (3, 3)
CHANCES = {"up": 0.2, "down": 0.4, "right": 0.1, "left": 0.3}
STEPS = {"up": (0, 1), "down": (0, -1), "right": (1, 0), "left": (-1, 0)}

GRID = """
:- const(n, 3).
wall(2, 2).
delta(up, 0, 1). delta(down, 0, -1). delta(right, 1, 0). delta(left, -1, 0).
move(M)@t ~ categorical([0.2, 0.4, 0.1, 0.3], [up, down, right, left]).
agent(1, 1)@0.
agent(X, Y)@t :- target(X, Y)@t, not wall(X, Y).
agent(X, Y)@t :- agent(X, Y)@(t-1), blocked@t.
target(min(max(X+DX, 1), n), min(max(Y+DY, 1), n))@t :-
    agent(X, Y)@(t-1), move(M)@t, delta(M, DX, DY).
blocked@t :- target(X, Y)@t, wall(X, Y).
has_key@t :- agent(1, 3)@t.
has_key@t :- has_key@(t-1).
in_lava@t :- agent(3, 1)@t.
0.7::sees@t :- agent(X, Y)@t, Y >= 3.
0.1::sees@t :- agent(X, Y)@t, Y < 3.
observe(in_lava@(0:T), false).
observe(sees@t).
query(agent(3, 3)@T).
query(blocked@t).
"""
# There is one way home past the key, four moves long.
FUTURE = "home@t :- agent(3, 3)@t, has_key@t.\nobserve(home@T, true)."

Path = tuple[tuple[int, int], ...]


@cache
def walk(moves: tuple[str, ...]) -> Path:
    """Where the agent goes: step 0 is the start, the move of step t leads to step t."""
    path = [(1, 1)]
    for move in moves:
        x, y = path[-1]
        dx, dy = STEPS[move]
        aim = (min(max(x + dx, 1), SIZE), min(max(y + dy, 1), SIZE))
        path.append((x, y) if aim == WALL else aim)
    return tuple(path)


def safe(path: Path) -> bool:
    return LAVA not in path


def arrives(path: Path) -> bool:
    return KEY in path and path[-1] == HOME


def weights(horizon: int, future: bool, sees: dict[int, bool]) -> Counter[tuple[str, ...]]:
    """The probability of each sequence of moves with all evidence, by walking them all."""
    out: Counter[tuple[str, ...]] = Counter()
    for moves in product(CHANCES, repeat=horizon):
        path = walk(moves)
        if not safe(path) or (future and not arrives(path)):
            continue
        weight = float(np.prod([CHANCES[m] for m in moves]))
        for step, seen in sees.items():
            chance = 0.7 if path[step][1] >= 3 else 0.1
            weight *= chance if seen else 1 - chance
        out[moves] = weight
    return out


def generated_moves(result: Trajectories) -> list[tuple[str, ...]]:
    names = list(CHANCES)
    return [tuple(names[m] for m in row[1:]) for row in result["move"][0]]


COUNT = 10_000


@pytest.mark.parametrize(
    ("method", "future"), [("exact", False), ("exact", True), ("rao-blackwellised", True)]
)
def test_trajectories_obey_the_rules_and_have_the_right_frequencies(
    method: str, future: bool
) -> None:
    horizon = 5
    sees = {2: True, 4: False}
    data = np.full((1, horizon + 1), np.nan)
    for step, value in sees.items():
        data[0, step] = value
    model = nesymm.compile(GRID)
    if future:
        model = model.extend(FUTURE)
    exact = weights(horizon, future, sees)
    evidence = sum(exact.values())
    if future:
        assert evidence < 1e-3
    if method == "rao-blackwellised":
        # Particles only approximate: many of them, and few drawn from them.
        result = model.generate({"sees": data}, 500, method=RaoBlackwellised(particles=30_000))
    else:
        result = model.generate({"sees": data}, COUNT, method=method)
    count = result.count
    found = generated_moves(result)
    xs, ys = np.moveaxis(result["agent"][0], -1, 0)
    for number, moves in enumerate(found):
        path = walk(moves)
        assert path == tuple(zip(xs[number].tolist(), ys[number].tolist(), strict=True))
        assert safe(path) and (arrives(path) or not future)
    assert (result["sees"][0, :, 2] == 1).all() and (result["sees"][0, :, 4] == 0).all()
    frequencies = Counter(found)
    if method == "exact":
        assert set(frequencies) <= set(exact)
        expected = {moves: count * weight / evidence for moves, weight in exact.items()}
        # Rare sequences of moves count together.
        common = [moves for moves, mean in expected.items() if mean >= 5]
        seen = np.array([frequencies[moves] for moves in common])
        means = np.array([expected[moves] for moves in common])
        if count - means.sum() > 1:
            seen, means = (np.append(x, count - x.sum()) for x in (seen, means))
        assert stats.chisquare(seen, means).pvalue > 1e-6
    for step in range(1, horizon + 1):
        for cell in product(range(1, SIZE + 1), repeat=2):
            p = sum(w for m, w in exact.items() if walk(m)[step] == cell) / evidence
            share = np.mean((xs[:, step] == cell[0]) & (ys[:, step] == cell[1]))
            if p == 0:
                assert share == 0
            assert abs(share - p) <= 4 * np.sqrt(p * (1 - p) / count) + 1e-12


def test_what_is_not_given_is_generated_with_its_chances() -> None:
    result = nesymm.compile(GRID).generate(count=COUNT, steps=4, method="exact")
    high = result["agent"][0, ..., 1] >= 3
    sees = result["sees"][0]
    for where, chance in ((high, 0.7), (~high, 0.1)):
        error = np.sqrt(chance * (1 - chance) / where.sum())
        assert abs(sees[where].mean() - chance) < 4 * error
    # The answers to the queries follow from the state.
    x, y = np.moveaxis(result["agent"][0], -1, 0)
    for number, moves in enumerate(generated_moves(result)[:500]):
        path = walk(moves)
        aims = [(x + STEPS[m][0], y + STEPS[m][1]) for (x, y), m in zip(path, moves, strict=False)]
        assert result["blocked@t"][0, number, 1:].tolist() == [aim == WALL for aim in aims]
    np.testing.assert_array_equal(result["agent(3,3)@T"][0], (x[:, -1] == 3) & (y[:, -1] == 3))


def test_a_trajectory_is_told_in_atoms() -> None:
    model = nesymm.compile(GRID).extend("observe(agent(1, 2)@1, true).")
    result = model.generate(count=1, steps=2, method="exact")
    atoms = result.atoms(0, 0, 1)
    assert "agent(1,2)@1" in atoms and "has_key@1" not in atoms
    assert result.table().splitlines()[0].replace(",", " ").split()[:3] == ["0", "agent(1", "1)"]
    with pytest.raises(NesymmError, match=r"trajectory: .* received 1"):
        result.atoms(0, 1, 0)
    with pytest.raises(NesymmError, match=r"step: .* received 2"):
        result.atoms(0, 0, 2)
    with pytest.raises(NesymmError, match="nothing called lava"):
        result["lava"]
    with pytest.raises(NesymmError, match="count"):
        model.generate(count=0, steps=2)
    data = result.data()
    np.testing.assert_array_equal(data["sees"], result["sees"][:, 0])
    assert np.isfinite(model.filter(data, method="exact").log_evidence).all()


IMAGES = """
:- network(decoder, [2, 3]).
code(C) ~ normal(0, 1).
0.3::noisy.
lit@0.
0.8::lit@t :- lit@(t-1).
image@t ~ normal(decoder(C), 0.1) :- code(C), lit@t.
level(V)@t ~ normal(C, 0.5) :- code(C).
kind(K)@t ~ categorical([0.9, 0.1], [plain, odd]) :- not noisy.
kind(K)@t ~ categorical([0.2, 0.8], [plain, odd]) :- noisy.
observe(image@t).
observe(level@t).
observe(kind@t).
query(noisy).
"""


def test_images_are_the_means_of_their_decoder_and_absent_values_are_nan() -> None:
    picture = jnp.arange(6.0).reshape(2, 3)
    model = nesymm.compile(IMAGES, networks={"decoder": lambda c: c * picture})
    result = model.generate(count=400, steps=5)
    image, code, lit = result["image"], result["code"], result["lit"]
    assert image.shape == (1, 400, 5, 2, 3)
    assert np.isnan(image[~lit]).all()
    expected = np.asarray(code)[..., None, None] * np.asarray(picture)
    np.testing.assert_allclose(image[lit], expected[lit], rtol=1e-5)
    # One code for a whole trajectory, and one truth of what has no time.
    assert (np.ptp(code, axis=2) == 0).all()
    noisy = result["noisy"][0]
    odd = result["kind"][0] == 1
    for where, chance in ((noisy, 0.8), (~noisy, 0.1)):
        draws = odd[where].size
        assert abs(odd[where].mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / draws)
    level = result["level"] - code
    assert abs(level.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * level.size)


def test_what_is_given_is_kept_and_what_is_missing_filled_in() -> None:
    model = nesymm.compile(IMAGES, networks={"decoder": lambda c: jnp.full((2, 3), c)})
    images = np.full((1, 3, 2, 3), 0.5)
    images[0, 2] = np.nan
    kinds = np.array([["odd", None, "plain"]], dtype=object)
    result = model.generate({"image": images, "kind": kinds}, 20)
    assert (result["image"][0, :, :2] == 0.5).all()
    filled = result["image"][0, :, 2]
    assert ((abs(filled - 0.5) < 0.4) | np.isnan(filled)).all()
    assert (result["kind"][0, :, 0] == 1).all() and (result["kind"][0, :, 2] == 0).all()
    assert "lit@1" in result.atoms(0, 0, 1) and "kind(odd)@0" in result.atoms(0, 0, 0)


@pytest.mark.parametrize("method", ["bootstrap", "rao-blackwellised"])
@pytest.mark.parametrize("entities", ["between(1, 1, E)", "between(1, 2, E)"])
def test_what_is_given_of_a_plate_is_kept(method: str, entities: str) -> None:
    model = nesymm.compile(f"""
        x(E, X)@t ~ normal(0, 1) :- {entities}.
        z(E, Z)@t ~ normal(X, 0.8) :- x(E, X)@t.
        observe(z(E)@t).
    """)
    seen = np.full((1, 3, 2 if "2" in entities else 1), 0.5)
    seen[0, 1] = np.nan
    result = model.generate({"z": seen}, 5, method=method)
    assert result["z"].shape == (1, 5, *seen.shape[1:])
    assert (result["z"][0, :, [0, 2]] == 0.5).all() and np.isfinite(result["z"]).all()


def test_pictures_are_drawn_above_their_steps() -> None:
    from nesymm.plots.trajectories import draw

    model = nesymm.compile(
        """
        :- network(paint, [3, 6, 6]).
        x(K)@t ~ categorical([0.5, 0.5], [0, 1]).
        picture@t ~ normal(paint(K), 0.1) :- x(K)@t.
        observe(picture@t).
        """,
        networks={"paint": lambda k: jnp.full((3, 6, 6), 0.25 + 0.5 * k)},
    )
    found = model.generate(steps=30, key=0)
    strip, *_ = draw(found, "pictures").axes
    assert strip.get_ylabel() == "picture"
    steps = [round(np.mean(image.get_extent()[:2])) for image in strip.images]
    assert steps == list(range(0, 30, 3))  # some of thirty
    for step, image in zip(steps, strip.images, strict=True):
        drawn = np.moveaxis(found["picture"][0, 0, step], 0, -1)
        np.testing.assert_allclose(image.get_array(), drawn, atol=1e-6)


def test_numbers_are_drawn_under_the_names_of_the_program() -> None:
    from nesymm.plots.trajectories import draw

    model = nesymm.compile("""
        vel(x)@0 ~ normal(0, 1).
        vel(x)@t ~ normal(vel(x)@(t-1), 0.1).
        at(W, 1)@0 :- between(1, 2, W).
        at(W, X + 1)@t :- at(W, X)@(t-1).
        far(W)@t :- at(W, X)@t, X > 2.
        observe(vel(x)@t).
        query(far(W)@t).
    """)
    *numbers, shares = draw(model.generate(steps=4, key=0), "numbers").axes[:-1]
    assert {axes.get_ylabel() for axes in numbers} == {"vel(x)", "at(1)", "at(2)"}
    assert {label.get_text() for label in shares.get_yticklabels()} == {"far(1)", "far(2)"}


AGAIN = """
:- input(drift(D)).
:- network(shift, 1).
x@t ~ normal(shift(D), t(1.0)) :- drift(D).
0.5::flag@t.
y@t :- flag@t, x@t > 0.
observe(flag@t).
observe(x@t).
query(y@t).
"""


def test_what_was_compiled_for_other_data_serves_again() -> None:
    """The same form of data, other numbers, lengths, seeds, networks and parameters."""

    def model(factor: float, scale: float) -> nesymm.Model:
        network = nesymm.Function(lambda params, d: params * d, jnp.asarray(factor))
        made = nesymm.compile(AGAIN, networks={"shift": network})
        return replace(made, parameters={name: jnp.asarray(scale) for name in made.parameters})

    def data(drift: float, flag: bool) -> dict[str, np.ndarray]:
        return {"drift": np.array([drift, -drift]), "flag": np.array([[flag] * 3, [not flag] * 3])}

    used = model(2.0, 1.0)
    used.generate(data(3.0, True), 4, key=1)
    other = replace(used, networks=model(5.0, 1.0).networks, parameters=model(1, 0.1).parameters)
    for given, seed, length in ((data(1.0, False), 2, [2, 3]), (data(1.5, True), 1, [3, 1])):
        found = other.generate(given, 4, key=seed, steps=length)
        fresh = model(5.0, 0.1).generate(given, 4, key=seed, steps=length)
        for name, expected in fresh.observed.items():
            np.testing.assert_array_equal(found[name], expected)
        for name, expected in fresh.asked.items():
            np.testing.assert_array_equal(found[name], expected)


STATIC = """
level(L) ~ normal(0, 1).
on@0.
on@t :- on@(t-1).
seen(X)@t ~ normal(L, 0.1) :- on@t, level(L).
observe(seen@t).
"""


def test_one_draw_of_a_static_variable_serves_a_whole_sequence() -> None:
    """Without evidence the level is standard normal; within a sequence only the noise differs."""
    model = nesymm.compile(STATIC)
    count = 400
    drawn = model.generate(steps=[3] * count, method=ExactForward(draws=1), key=0)["seen"][:, 0]
    spread = np.sqrt(1.01)
    assert abs(drawn[:, 0].mean()) < 5 * spread / np.sqrt(count)
    assert abs(drawn[:, 0].std() - spread) < 5 * spread / np.sqrt(2 * count)
    noise = np.sqrt(2) * 0.1
    assert abs((drawn[:, 2] - drawn[:, 0]).std() - noise) < 5 * noise / np.sqrt(2 * count)


@pytest.mark.parametrize(
    ("clause", "data", "draws"),
    [
        ("", {}, 2),
        ("", {"seen": np.full((1, 3), 0.5)}, 1),
        ("P::off@t :- level(L), P is 1 / (1 + exp(-L)). query(off@t).", {}, 1),
    ],
)
def test_static_variables_that_matter_going_back_need_particles(
    clause: str, data: dict[str, np.ndarray], draws: int
) -> None:
    model = nesymm.compile(STATIC + clause)
    steps = None if data else 3
    with pytest.raises(nesymm.NesymmError, match=r"infinitely many values: .* need particles"):
        model.generate(data, steps=steps, method=ExactForward(draws=draws))
