"""Filters written by hand in JAX, for two programs: what nesymm is measured against.

Each is the estimator that nesymm uses, with the program worked into it: nothing here is
generic. Log-evidences carry the gradients of the same surrogate.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SIDE, HEALTH = 10, 12
# up, right, down, left, up_right, down_right, down_left, up_left
DX = np.asarray([0, 1, 0, -1, 1, 1, -1, -1], np.int32)
DY = np.asarray([1, 0, -1, 0, 1, -1, -1, 1], np.int32)


def _stop(x: Any) -> Any:
    return jax.lax.stop_gradient(x)


def _gradient(x: Any) -> Any:
    """Nothing, with the gradient of x. A particle that is dead has none."""
    finite = jnp.where(jnp.isfinite(x), x, 0.0)
    return finite - _stop(finite)


def _log_sum(x: Any, axis: int) -> Any:
    """log Σ exp, -inf without a gradient where all is -inf."""
    top = _stop(jnp.max(x, axis=axis, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.sum(jnp.exp(x - top), axis=axis)
    log = jnp.log(jnp.where(total > 0, total, 1.0)) + jnp.squeeze(top, axis)
    return jnp.where(total > 0, log, -jnp.inf)


def _log_mean(x: Any) -> Any:
    return _log_sum(x, -1) - np.log(x.shape[-1])


def systematic(key: Any, weights: Any) -> Any:
    """Ancestors by one uniform number per sequence. Weights need not be normalised."""
    batch, n = weights.shape
    below = jnp.cumsum(weights, axis=-1)
    noise = jax.random.uniform(key, (batch, 1))
    count = jnp.clip(jnp.ceil(below / below[:, -1:] * n - noise), 0, n).astype(jnp.int32)
    starts = jnp.zeros((batch, n + 1), jnp.int32)
    starts = starts.at[jnp.arange(batch)[:, None], count].add(1)
    return jnp.minimum(jnp.cumsum(starts, axis=-1)[:, :n], n - 1)


def resample(key: Any, log_weights: Any, below: float = 0.5) -> tuple[Any, Any]:
    """Ancestors and log-weights after resampling the sequences that need it."""
    n = log_weights.shape[-1]
    fixed = _stop(log_weights)
    weights = jnp.exp(fixed - jnp.max(fixed, axis=-1, keepdims=True))
    effective = jnp.sum(weights, -1) ** 2 / jnp.sum(weights**2, -1)
    due = (effective < below * n)[:, None]
    ancestors = jnp.where(due, systematic(key, weights), jnp.arange(n, dtype=jnp.int32))
    kept = jnp.take_along_axis(_gradient(log_weights), ancestors, axis=-1)
    after = jnp.where(due, _log_mean(fixed)[:, None] + kept, log_weights)
    return ancestors, after


def _pick(key: Any, log_p: Any) -> Any:
    """A draw along the first dimension."""
    top = jnp.max(log_p, axis=0)
    below = jnp.cumsum(jnp.exp(log_p - jnp.where(jnp.isfinite(top), top, 0.0)), axis=0)
    noise = jax.random.uniform(key, log_p.shape[1:]) * below[-1]
    return jnp.minimum(jnp.sum(below <= noise, axis=0, dtype=jnp.int32), log_p.shape[0] - 1)


# ---------------------------------------------------------------- the agent and its enemy


def _move(x: Any, d: Any) -> Any:
    return jnp.clip(x + d, 0, SIDE - 1)


def _log_hit(agent: Any, x: Any, y: Any, hit: Any, chance: Any) -> Any:
    """log p(hit observation | positions)."""
    near = jnp.maximum(jnp.abs(agent[0] - x), jnp.abs(agent[1] - y)) == 1
    seen = jnp.where(hit, jnp.log(chance), jnp.log1p(-chance))
    return jnp.where(near, seen, jnp.where(hit, -jnp.inf, 0.0))


def discriminative(
    network: Any, chance: Any, start: Any, actions: Any, hits: Any, particles: int, key: Any
) -> tuple[Any, Any]:
    """Log-evidence and P(dead at the end), per sequence.

    `start` is [batch, 2], counted from 0; `actions` and `hits` are [steps, batch]. Health
    depends on the enemy by way of the observed hits only: damage is drawn beside it.
    """
    batch, steps = start.shape[0], actions.shape[0]
    lanes = (batch, particles)
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(SIDE)] * 4, indexing="ij"), -1).reshape(-1, 4)
    logits = jax.vmap(network)(*(grid.T + 1))
    table = jax.nn.log_softmax(logits).reshape(SIDE**4, 8)

    # The start: all cells of the grid are weighed exactly.
    cells = np.arange(SIDE * SIDE, dtype=np.int32)
    first = (start[:, 0, None], start[:, 1, None])
    weighed = _log_hit(first, cells // SIDE, cells % SIDE, hits[0, :, None], chance)
    gain = _log_mean(weighed)
    below = jnp.cumsum(jax.nn.softmax(_stop(weighed)), axis=-1)
    noise = jax.random.uniform(jax.random.fold_in(key, 0), lanes) * below[:, -1:]
    cell = jax.vmap(lambda b, u: jnp.searchsorted(b, u, side="right"))(below, noise)
    cell = jnp.minimum(cell, SIDE * SIDE - 1).astype(jnp.int32)
    x, y = cell // SIDE, cell % SIDE
    gradient = _log_hit(first, x, y, hits[0, :, None], chance)
    log_weights = _gradient(gradient)

    def weigh(x: Any, y: Any, agent: Any, action: Any, hit: Any, table: Any, chance: Any) -> Any:
        """log p(move, hit | x) of all moves, [moves, batch, particles]."""
        row = ((agent[0] * SIDE + agent[1])[:, None] * SIDE + x) * SIDE + y
        moves = jnp.moveaxis(table[row], -1, 0)
        after = (_move(agent[0], jnp.asarray(DX)[action]), _move(agent[1], jnp.asarray(DY)[action]))
        wide = (after[0][:, None], after[1][:, None])
        nx, ny = _move(x, DX[:, None, None]), _move(y, DY[:, None, None])
        return row, after, wide, moves + _log_hit(wide, nx, ny, hit[:, None], chance)

    def body(carry: Any, given: Any) -> tuple[Any, Any]:
        x, y, agent, health, log_weights = carry
        action, hit, key = given
        ahead, pick_key, damage_key = jax.random.split(key, 3)
        row, agent, wide, joint = weigh(x, y, agent, action, hit, _stop(table), _stop(chance))
        log_weights = log_weights + _log_sum(joint, 0)
        gain = _log_mean(_stop(log_weights))
        ancestors, log_weights = resample(ahead, log_weights)
        move = _pick(pick_key, jnp.take_along_axis(joint, ancestors[None], axis=-1))

        def follow(value: Any) -> Any:
            return jnp.take_along_axis(value, ancestors, axis=-1)

        damage = jax.random.randint(damage_key, lanes, 1, 5, jnp.int32)
        health = follow(health) - jnp.where(hit[:, None], damage, 0)
        x = _move(follow(x), jnp.asarray(DX)[move])
        y = _move(follow(y), jnp.asarray(DY)[move])
        # log p(move, hit | x): its gradient is that of the evidence and of the draw given it.
        score = table[follow(row), move] + _log_hit(wide, x, y, hit[:, None], chance)
        log_weights = log_weights + _gradient(score) - gain[:, None]
        return (x, y, agent, health, log_weights), gain

    keys = jax.random.split(jax.random.fold_in(key, 1), steps - 1)
    health = jnp.full(lanes, HEALTH, jnp.int32)
    carry = (x, y, (start[:, 0], start[:, 1]), health, log_weights)
    given = (actions[: steps - 2], hits[1 : steps - 1], keys[:-1])
    (x, y, agent, health, log_weights), gains = jax.lax.scan(body, carry, given)

    # The end: no draw is needed, and the evidence has its exact gradient.
    *_, joint = weigh(x, y, agent, actions[steps - 2], hits[steps - 1], table, chance)
    log_weights = log_weights + _log_sum(joint, 0)
    last = _log_mean(log_weights)
    weights = jax.nn.softmax(log_weights, axis=-1)
    chances = (health[None] - jnp.arange(1, 5)[:, None, None] <= 0).mean(0)
    dead = jnp.where(hits[steps - 1, :, None], chances, health <= 0)
    evidence = _stop(gain) + _stop(gains).sum(0) + last
    return evidence, jnp.sum(weights * dead, -1)


# ---------------------------------------------------------------- stochastic volatility


def volatility(mean: Any, keep: Any, spread: Any, ys: Any, particles: int, key: Any) -> Any:
    """Log-evidence by a bootstrap filter; `ys` is [steps]."""
    steps = ys.shape[0]
    noise_key, resample_key = jax.random.split(key)
    still = spread / jnp.sqrt(1 - keep**2)
    x = mean + still * jax.random.normal(jax.random.fold_in(noise_key, 0), (1, particles))

    def seen(x: Any, y: Any) -> Any:
        return -0.5 * y**2 * jnp.exp(-x) - 0.5 * x - 0.5 * np.log(2 * np.pi)

    log_weights = seen(x, ys[0])

    def body(carry: Any, given: Any) -> tuple[Any, Any]:
        x, log_weights = carry
        y, time = given
        gain = _log_mean(log_weights)
        ancestors, log_weights = resample(
            jax.random.fold_in(resample_key, time), log_weights - gain[:, None]
        )
        before = jnp.take_along_axis(x, ancestors, axis=-1)
        noise = jax.random.normal(jax.random.fold_in(noise_key, time), x.shape)
        x = mean + keep * (before - mean) + spread * noise
        return (x, log_weights + seen(x, y)), gain[0]

    (_, log_weights), gains = jax.lax.scan(body, (x, log_weights), (ys[1:], jnp.arange(1, steps)))
    return gains.sum() + _log_mean(log_weights)[0]
