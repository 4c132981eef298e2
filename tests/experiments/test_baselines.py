"""The Transformer and the Deep-HMM: causality, learning, files, and agreement with brute force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.minihack.data import Dataset
from experiments.minihack.deep_hmm import (
    ACTIONS,
    DeepHMM,
    TrainedDeepHMM,
    arrays,
    compile_model,
)
from experiments.minihack.methods import SETTINGS
from experiments.minihack.transformer import (
    VARIANTS,
    Decoder,
    TrainedTransformer,
    Transformer,
    dead_by_frame,
    inputs,
)
from nesymm.inference.methods import RaoBlackwellised


def counted(n: int, frames: int, seed: int, grid: int = 10, enemies: int = 1) -> Dataset:
    """A task that can be learned fully: the third hit kills."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n, frames)) < 0.4
    hits[:, 0] = False
    hits &= hits.cumsum(axis=1) <= 3
    return Dataset(
        actions=rng.integers(0, 4, (n, frames - 1)).astype(np.uint8),
        start=rng.integers(1, grid + 1, (n, 2)).astype(np.uint8),
        hits=hits.astype(np.uint8),
        dead=(hits.sum(axis=1) == 3).astype(np.uint8),
        grid=grid,
        enemies=enemies,
    )


# ---------------------------------------------------------------- Transformer


def embeddings(variant: str, data: Dataset) -> np.ndarray:
    network = Decoder(VARIANTS[variant], jax.random.key(0))
    given = inputs(data, network.options)
    return np.asarray(jax.jit(jax.vmap(network.embeddings))(*given))


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_embedding_depends_on_its_frame_and_those_before(variant: str) -> None:
    data = counted(5, 6, seed=0)
    actions, hits = data.actions.copy(), data.hits.copy()
    actions[:, 3:] = (actions[:, 3:] + 1) % 4  # leads to frame 4
    hits[:, 4:] = 1 - hits[:, 4:]
    before = embeddings(variant, data)
    after = embeddings(variant, replace(data, actions=actions, hits=hits))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert (np.abs(before[:, 4:] - after[:, 4:]).max(axis=-1) > 1e-3).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_prefix_has_the_same_embeddings_as_the_whole(variant: str) -> None:
    data = counted(4, 8, seed=1)
    prefix = replace(data, actions=data.actions[:, :4], hits=data.hits[:, :5])
    whole = embeddings(variant, data)
    np.testing.assert_allclose(embeddings(variant, prefix), whole[:, :5], atol=1e-5)
    moved = replace(data, start=data.start % 10 + 1)
    assert np.abs(embeddings(variant, moved) - whole)[:, -1].max() > 1e-3


def test_the_paper_starts_from_the_location_and_zeros() -> None:
    data = counted(3, 4, seed=2)
    first = embeddings("paper", data)[:, 0]
    np.testing.assert_allclose(first[:, :2] * 10, data.start, rtol=1e-6)
    assert (first[:, 2:] == 0).all()


def test_an_agent_is_dead_from_its_last_hit_on() -> None:
    data = counted(3, 5, seed=0)
    data = replace(
        data,
        hits=np.array([[0, 1, 0, 1, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]], np.uint8),
        dead=np.array([1, 0, 1], np.uint8),
    )
    expected = [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(dead_by_frame(data), expected)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "variant",
    [pytest.param(v, marks=() if v == "strong" else pytest.mark.slow) for v in VARIANTS],
)
def test_it_learns_to_count_and_comes_back_from_a_file(variant: str, tmp_path: Path) -> None:
    options = replace(VARIANTS[variant], epochs=15, batch_size=50)
    method = Transformer(variant, options)
    trained = method.fit(counted(600, 6, seed=3), counted(100, 6, seed=4), seed=0, progress=False)
    test = counted(200, 6, seed=5)
    found = trained.probabilities(test)
    assert ((found > 0.5) == test.dead).mean() > 0.95
    trained.save(tmp_path / "weights")
    loaded = method.load(tmp_path / "weights")
    assert loaded.parameters_count == trained.parameters_count
    np.testing.assert_array_equal(loaded.probabilities(test), found)
    longer = loaded.probabilities(counted(7, 12, seed=6, grid=15, enemies=2))
    assert longer.shape == (7,)
    assert ((longer >= 0) & (longer <= 1)).all()


def test_probabilities_are_those_of_each_trajectory_alone() -> None:
    trained = TrainedTransformer(Decoder(VARIANTS["strong"], jax.random.key(1)))
    data = counted(3, 5, seed=7)
    one = replace(
        data,
        actions=data.actions[1:2],
        start=data.start[1:2],
        hits=data.hits[1:2],
        dead=1 - data.dead[1:2],
    )
    np.testing.assert_allclose(
        trained.probabilities(data)[1:2], trained.probabilities(one), rtol=1e-5
    )


# ---------------------------------------------------------------- Deep-HMM

HEALTH = 12
UNEXPLAINED = 0.002  # the chance of a hit that nobody struck


def vivid(grid: int, enemies: int, seed: int) -> TrainedDeepHMM:
    """A Deep-HMM whose networks are far from uniform."""
    model = compile_model(grid, enemies, seed)
    strong = jax.tree.map(lambda x: 2 * x if isinstance(x, jax.Array) else x, model.networks)
    return TrainedDeepHMM(replace(model, networks=strong), particles=200)


def brute_force(trained: TrainedDeepHMM, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """log p(hits) and p(dead | hits), by the joint table of everything."""
    networks, cells = trained.model.networks, np.arange((data.grid + 2) ** 2)
    acts = np.arange(ACTIONS)

    def table(name: str, *axes: np.ndarray) -> np.ndarray:
        grids = [g.ravel() for g in np.meshgrid(*axes, indexing="ij")]
        out = np.asarray(jax.vmap(networks[name])(*map(jnp.asarray, grids)), dtype=np.float64)
        return out.reshape(*map(len, axes), -1)

    def softmax(x: np.ndarray) -> np.ndarray:
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    agent = softmax(table("agent_moves", cells, acts))
    enemy = softmax(table("enemy_moves", cells, acts, cells))
    struck = 1 / (1 + np.exp(-table("strikes", cells, cells)[..., 0]))
    # [agent's new cell, enemy's old cell, wound of 0 to 4]; a second enemy may be harmless.
    first = np.stack([1 - struck, *[struck / 4] * 4], axis=-1)
    second = first if data.enemies == 2 else np.broadcast_to(np.eye(5)[0], first.shape)
    health = np.arange(HEALTH + 1)
    left = np.zeros((HEALTH + 1, 5, 5, HEALTH + 1))  # [before, one wound, another, after]
    for before, one, other in np.ndindex(left.shape[:-1]):
        left[before, one, other, max(0, before - one - other)] = 1
    change = np.einsum("beu,bfv,huvi->befhi", first, second, left, optimize=True)
    fell = health[:, None] > health  # [before, after]
    seen = {1: np.where(fell, 1, UNEXPLAINED), 0: np.where(fell, 0, 1 - UNEXPLAINED)}

    evidence, dead = [], []
    for n in range(len(data)):
        belief = np.zeros((len(cells), len(cells), len(cells), HEALTH + 1))
        belief[arrays(data)["start"][n], :, :, HEALTH] = 1 / len(cells) ** 2
        total = 0.0
        for action, hit in zip(data.actions[n], data.hits[n, 1:], strict=True):
            belief = np.einsum(
                "aefh,ab,befhi,aeg,afk->bgki",
                belief, agent[:, action], change * seen[int(hit)],
                enemy[:, action], enemy[:, action],
                optimize=True,
            )  # fmt: skip
            total += np.log(belief.sum())
            belief /= belief.sum()
        evidence.append(total)
        dead.append(belief[..., 0].sum())
    return np.array(evidence), np.array(dead)


def beaten(n: int, frames: int, seed: int) -> Dataset:
    """Hits as they are in the game: many, then perhaps none."""
    data = counted(n, frames, seed, grid=1, enemies=2)
    hits = np.arange(frames) < np.random.default_rng(seed).integers(4, frames + 1, n)[:, None]
    hits[:, 0] = False
    return replace(data, hits=hits.astype(np.uint8), start=np.ones_like(data.start))


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("enemies", [1, 2])
def test_the_deep_hmm_agrees_with_brute_force(enemies: int) -> None:
    data = replace(beaten(4, 7, seed=0), enemies=enemies)
    trained = vivid(grid=1, enemies=enemies, seed=0)
    evidence, dead = brute_force(trained, data)
    assert ((dead > 0.05) & (dead < 0.95)).any()
    repeats = 6
    given = {name: np.repeat(x, repeats, axis=0) for name, x in arrays(data).items()}
    result = trained.model.filter(given, method=RaoBlackwellised(particles=trained.particles))
    found = np.exp(result.log_evidence.reshape(-1, repeats) - evidence[:, None])
    error = found.std(axis=1, ddof=1) / np.sqrt(repeats)
    assert (np.abs(found.mean(axis=1) - 1) < 5 * error + 1e-3).all(), (found, error)
    found = result.final["dead@T"].reshape(-1, repeats)
    error = found.std(axis=1, ddof=1) / np.sqrt(repeats)
    assert (np.abs(found.mean(axis=1) - dead) < 5 * error + 2 / trained.particles).all()


@pytest.mark.compiled
@pytest.mark.slow
def test_the_deep_hmm_learns_and_comes_back_from_a_file(tmp_path: Path) -> None:
    method = DeepHMM(particles=5, epochs=4, batch_size=10, learning_rate=1e-2, grid=1)
    train = replace(beaten(40, 5, seed=1), enemies=1)
    trained = method.fit(train, train, seed=0, progress=False)
    losses = [row["validation"] for row in trained.history]
    assert min(losses) < losses[0]
    trained.save(tmp_path / "weights.safetensors")
    loaded = method.load(tmp_path / "weights.safetensors")
    few = replace(trained, particles=10), replace(loaded, particles=10)
    a, b = (each.probabilities(train) for each in few)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="fitted on a grid of 1, and cannot be used on one of 10"):
        loaded.probabilities(counted(2, 5, seed=0))


def test_the_deep_hmm_is_for_one_grid_and_the_transformer_for_all() -> None:
    assert [s for s in SETTINGS if DeepHMM().takes(s)] == [s for s in SETTINGS if s[0] == 10]
    assert all(Transformer().takes(s) for s in SETTINGS)
