"""Filters over time beside filters written by hand, in one run.

- `--discriminative`: the paper's discriminative program, forward and backward, by nesymm's
  Rao-Blackwellised filter and by the same estimator written in JAX for this program alone.
- `--volatility`: a bootstrap filter for a stochastic volatility model, beside one written
  in JAX and the package `particles` (where it is installed).
- `--growth`: time against the horizon, the number of particles, and the number of enemies
  that one observed hit couples, with the exponent of the best fitting power.

Without a flag, all of them. What is compared is timed in turns, and the best of all turns
counts, so that other work on the machine disturbs all alike. Times are for compiled
functions in 32 bits; compiling has a column of its own. A ratio above 1 means that nesymm
is slower.

    python benchmarks/filtering.py [--discriminative] [--volatility] [--growth] [--repeat 10]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import handwritten
import jax
import jax.numpy as jnp
import numpy as np

import nesymm
from nesymm import Bootstrap, RaoBlackwellised

PROGRAM = Path(__file__).parent.parent / "examples/paper/discriminative.nsl"
ACTIONS = ["up", "right", "down", "left"]
BATCH, STEPS, PARTICLES = 50, 10, 1000
ROW = 2
CHECKS = 20
CHANCE = 0.5
OURS, HAND = "nesymm", "by hand"


class Policy(eqx.Module):
    """Where the enemy goes, given where the agent and it stand."""

    layers: eqx.nn.MLP

    def __init__(self, key: Any):
        self.layers = eqx.nn.MLP(4, 8, 32, 2, key=key)

    def __call__(self, *places: Any) -> Any:
        return self.layers(jnp.stack(places).astype(jnp.float32) / handwritten.SIDE)


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(action())
    return time.perf_counter() - start


def in_turns(actions: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The shortest time of each action, all of them run in every round."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(repeat):
        for name, action in actions.items():
            for _ in range(ROW):
                best[name] = min(best[name], timed(action))
    return best


def exponent(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


# ---------------------------------------------------------------- the paper's program


def walks(rng: np.random.Generator, network: Any, batch: int, steps: int, enemies: int = 1) -> Any:
    """Starts, actions and hits of simulated sequences, counted from 0."""
    side = handwritten.SIDE
    agent = rng.integers(0, side, (batch, 2))
    enemy = rng.integers(0, side, (batch, enemies, 2))
    start, actions, hits = agent, [], []
    logits = jax.jit(jax.vmap(jax.vmap(network)))
    for _ in range(steps + 1):
        near = np.abs(agent[:, None] - enemy).max(-1) == 1
        hits.append((near & (rng.random(near.shape) < CHANCE)).any(-1))
        action = rng.integers(0, 4, batch)
        actions.append(action)
        both = np.concatenate([np.broadcast_to(agent[:, None], enemy.shape), enemy], -1) + 1
        noise = rng.gumbel(size=(batch, enemies, 8))
        move = (np.asarray(logits(*np.moveaxis(both, -1, 0))) + noise).argmax(-1)
        directions = np.stack([handwritten.DX, handwritten.DY], -1)
        enemy = np.clip(enemy + directions[move], 0, side - 1)
        agent = np.clip(agent + directions[action], 0, side - 1)
    return start, np.stack(actions), np.stack(hits)


def as_data(start: Any, actions: Any, hits: Any) -> dict[str, Any]:
    words = np.asarray(ACTIONS, object)[actions.T]
    return {"start": start + 1, "action": words, "hit": hits.T}


def agreement(functions: dict[str, Any], learnt: Any) -> None:
    """Log-evidence and its gradients by both, with standard errors over keys."""
    found = {}
    for name, function in functions.items():
        losses, gradients, norms = [], [], []
        for i in range(CHECKS):
            (loss, _), (chance, network) = function(learnt, jax.random.key(1000 + i))
            losses.append(float(loss))
            gradients.append(float(chance))
            arrays = jax.tree.leaves(eqx.filter(network, eqx.is_array))
            norms.append(np.concatenate([np.ravel(a) for a in arrays]))
        found[name] = [np.asarray(losses), np.asarray(gradients), np.stack(norms)]
    root = np.sqrt(CHECKS)
    print(f"\nagreement over {CHECKS} keys: mean ± standard error")
    print(
        f"{'':<12}{'-log-evidence':>22}"
        f"{'gradient in the chance':>24}{'gradient in the network':>24}"
    )
    for name, (loss, gradient, network) in found.items():
        mean, error = network.mean(0), np.linalg.norm(network.std(0, ddof=1)) / root
        print(
            f"{name:<12}{loss.mean():>13.4f} ± {loss.std(ddof=1) / root:.4f}"
            f"{gradient.mean():>15.4f} ± {gradient.std(ddof=1) / root:.4f}"
            f"{np.linalg.norm(mean):>15.4f} ± {error:.4f}"
        )
    ours, hand = found[OURS], found[HAND]
    for k, what in enumerate(("log-evidence", "gradient in the chance", "gradient in the network")):
        apart = np.linalg.norm(ours[k].mean(0) - hand[k].mean(0))
        spread = np.sqrt(sum(np.sum(f[k].var(0, ddof=1)) / CHECKS for f in (ours, hand)))
        verdict = "agree" if apart < 4 * spread else "DIFFER"
        print(f"{what}: {verdict} (apart {apart:.2g}, standard error {spread:.2g})")


def discriminative(repeat: int) -> None:
    network = Policy(jax.random.key(0))
    start, actions, hits = walks(np.random.default_rng(0), network, BATCH, STEPS)
    model = nesymm.compile(PROGRAM.read_text(), networks={"policy": network})
    method = RaoBlackwellised(particles=PARTICLES)
    data = as_data(start, actions, hits)

    def ours(learnt: Any, key: Any) -> Any:
        now = model.with_parameters(hit=learnt[0]).with_networks(policy=learnt[1])
        found = now.estimate(data, method=method, key=key)
        return -jnp.mean(found.log_evidence), found.probability("agent_dead@T")

    fixed = (start.astype(np.int32), actions.astype(np.int32), hits)

    def hand(learnt: Any, key: Any) -> Any:
        evidence, dead = handwritten.discriminative(learnt[1], learnt[0], *fixed, PARTICLES, key)
        return -jnp.mean(evidence), dead

    learnt = (jnp.asarray(CHANCE, jnp.float32), network)
    forward = {OURS: eqx.filter_jit(ours), HAND: eqx.filter_jit(hand)}
    both = {
        OURS: eqx.filter_jit(eqx.filter_value_and_grad(ours, has_aux=True)),
        HAND: eqx.filter_jit(eqx.filter_value_and_grad(hand, has_aux=True)),
    }
    key = jax.random.key(1)
    compiling = {name: timed(partial(f, learnt, key)) for name, f in both.items()}
    for function in forward.values():
        timed(partial(function, learnt, key))
    actions_: dict[str, Callable[[], object]] = {}
    for name in (OURS, HAND):
        actions_[f"forward {name}"] = partial(forward[name], learnt, key)
        actions_[f"both {name}"] = partial(both[name], learnt, key)
    best = in_turns(actions_, repeat)

    print(
        f"\ndiscriminative program, {handwritten.SIDE}×{handwritten.SIDE}, one enemy, {STEPS} "
        f"steps after the start, {BATCH} sequences, {PARTICLES:,} particles, lifted network"
    )
    print(f"{'':<12}{'forward':>12}{'ratio':>8}{'and backward':>16}{'ratio':>8}{'compiling':>12}")
    for name in (OURS, HAND):
        ahead, whole = best[f"forward {name}"], best[f"both {name}"]
        ratios = (
            f"{ahead / best[f'forward {HAND}']:.2f}",
            f"{whole / best[f'both {HAND}']:.2f}",
        )
        print(
            f"{name:<12}{1e3 * ahead:>9.1f} ms{ratios[0]:>8}{1e3 * whole:>13.1f} ms{ratios[1]:>8}"
            f"{compiling[name]:>10.1f} s"
        )
    agreement(both, learnt)


# ---------------------------------------------------------------- stochastic volatility

MEAN, KEEP, SPREAD = -1.0, 0.95, 0.25
STILL = SPREAD / np.sqrt(1 - KEEP**2)
VOLATILITY = f"""
x(X)@0 ~ normal({MEAN}, {STILL}).
x(X)@t ~ normal(M, {SPREAD}) :- x(A)@(t-1), M is {MEAN} + {KEEP} * (A - ({MEAN})).
y(Y)@t ~ normal(0, S) :- x(X)@t, S is exp(X / 2).
observe(y@t).
"""
LONG = 1000


def volatility(repeat: int) -> None:
    rng = np.random.default_rng(0)
    xs = [rng.normal(MEAN, STILL)]
    while len(xs) < LONG:
        xs.append(rng.normal(MEAN + KEEP * (xs[-1] - MEAN), SPREAD))
    ys = rng.normal(0, np.exp(np.asarray(xs) / 2))
    model = nesymm.compile(VOLATILITY)
    method = Bootstrap(particles=PARTICLES)
    hand = jax.jit(partial(handwritten.volatility, particles=PARTICLES))
    numbers = (jnp.float32(MEAN), jnp.float32(KEEP), jnp.float32(SPREAD), ys.astype(np.float32))

    ours = jax.jit(lambda key: model.log_evidence({"y": ys[None]}, method=method, key=key)[0])
    systems: dict[str, Callable[[int], Any]] = {
        OURS: lambda seed: ours(jax.random.key(seed)),
        HAND: lambda seed: hand(*numbers, key=jax.random.key(seed)),
    }
    try:
        import particles
        from particles import state_space_models as models

        def peer(seed: int) -> float:
            np.random.seed(seed)
            ssm = models.StochVol(mu=MEAN, rho=KEEP, sigma=SPREAD)
            feynman_kac = models.Bootstrap(ssm=ssm, data=ys)
            smc = particles.SMC(fk=feynman_kac, N=PARTICLES, resampling="systematic", ESSrmin=0.5)
            smc.run()
            return float(smc.logLt)

        systems["particles"] = peer
    except ImportError:
        pass
    compiling = {name: timed(partial(f, 0)) for name, f in systems.items()}
    best = in_turns({name: partial(f, 1) for name, f in systems.items()}, repeat)
    print(
        f"\nstochastic volatility, bootstrap filter, {LONG:,} steps, {PARTICLES:,} particles, "
        "one sequence"
    )
    print(f"{'':<12}{'time':>12}{'nesymm / it':>14}{'first call':>13}{'log-evidence':>22}")
    for name, function in systems.items():
        values = np.asarray([float(function(10 + i)) for i in range(CHECKS)])
        error = values.std(ddof=1) / np.sqrt(CHECKS)
        print(
            f"{name:<12}{1e3 * best[name]:>9.1f} ms{best[OURS] / best[name]:>14.2f}"
            f"{compiling[name]:>11.1f} s{values.mean():>14.2f} ± {error:.2f}"
        )
    if "particles" not in systems:
        print("particles     not installed")


# ---------------------------------------------------------------- how costs grow


def once(enemies: int, steps: int, particles: int, repeat: int) -> tuple[float, float]:
    """The time of one sequence, forward, and how long the first call took."""
    network = Policy(jax.random.key(0))
    walk = walks(np.random.default_rng(0), network, 1, steps, enemies)
    constants = {"enemies": enemies}
    model = nesymm.compile(PROGRAM.read_text(), constants=constants, networks={"policy": network})
    method = RaoBlackwellised(particles=particles)
    data = as_data(*walk)
    # What is timed is `Model.filter`, with its checks of the data and its answers.
    first = timed(lambda: model.filter(data, method=method, errors="keep").log_evidence)
    best = min(
        timed(lambda: model.filter(data, method=method, errors="keep").log_evidence)
        for _ in range(repeat)
    )
    return best, first


def growth(repeat: int, enemies: list[int]) -> None:
    series: list[tuple[str, list[int], Callable[[int], tuple[int, int, int]]]] = [
        ("steps", [100, 1000, 10_000], lambda n: (1, n, 100)),
        ("particles", [1000, 10_000, 100_000], lambda n: (1, STEPS, n)),
        ("enemies", enemies, lambda n: (n, STEPS, PARTICLES)),
    ]
    fixed = {
        "steps": "one enemy, 100 particles",
        "particles": f"one enemy, {STEPS} steps",
        "enemies": f"{STEPS} steps, {PARTICLES:,} particles",
    }
    print("\ndiscriminative program, one sequence, forward")
    print(f"{'grows':<12}{'size':>9}{'time':>13}{'first call':>14}")
    for name, sizes, make in series:
        times = []
        for n in sizes:
            best, first = once(*make(n), repeat=repeat)
            times.append(best)
            print(f"{name:<12}{n:>9,}{1e3 * best:>10.1f} ms{first:>12.1f} s", flush=True)
        last = (times[-1] / times[-2], sizes[-1] / sizes[-2])
        print(
            f"{'':<12}exponent {exponent(sizes, times):.2f} over all, "
            f"{np.log(last[0]) / np.log(last[1]):.2f} at the end ({fixed[name]})"
        )


def main() -> None:
    jax.config.update("jax_enable_x64", False)  # also where the environment asks for 64 bits
    options = argparse.ArgumentParser(description=__doc__)
    for part in ("discriminative", "volatility", "growth"):
        options.add_argument(f"--{part}", action="store_true")
    options.add_argument("--repeat", type=int, default=10)
    options.add_argument("--enemies", type=int, nargs="+", default=[1, 2, 4, 8, 20])
    given = options.parse_args()
    warnings.simplefilter("ignore")
    print(f"best of {given.repeat} turns of {ROW}; {jax.default_backend()}, 32 bits")
    every = not (given.discriminative or given.volatility or given.growth)
    if given.discriminative or every:
        discriminative(given.repeat)
    if given.volatility or every:
        volatility(given.repeat)
    if given.growth or every:
        growth(min(given.repeat, 5), given.enemies)


if __name__ == "__main__":
    main()
