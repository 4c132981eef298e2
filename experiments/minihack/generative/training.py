"""Training: all seeds side by side, many steps a call, pictures rendered on the device.

A run leaves one file from which it resumes, so it may be spread over several sittings. The batches
of a step depend on the seed and the number of the step alone: a run that was stopped ends as one
that was not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.minihack.generative.data import Dataset, render, shrink
from experiments.minihack.generative.files import read, write
from experiments.minihack.generative.networks import Scene, in_32_bits
from nesymm import NesymmError

# Where the agent is and what it looks like is learned more slowly than the rest: what is common to
# many walks is to decide, not what a few batches happen to show.
SLOW = ("['detector']", "['decoder'].agent", "['decoder'].tiles")


class Method(Protocol):
    """What is trained: networks for one scene, and what is to be small."""

    @property
    def name(self) -> str: ...

    @property
    def scene(self) -> Scene: ...

    def init(self, key: Any, usual: Any) -> Any:
        """Fresh networks; `usual` is the mean of the first pictures."""
        ...

    def loss(self, networks: Any, images: Any, actions: Any, key: Any, progress: Any) -> Any:
        """One number for a batch, differentiable in the networks.

        `progress` goes from 0 to 1 while the run cools, and stays there.
        """
        ...

    def reconstruct(
        self, networks: Any, first: np.ndarray, actions: np.ndarray, seed: int = 0
    ) -> np.ndarray:
        """All pictures [n, T, …] from the first ones and the actions [n, T-1]."""
        ...


@dataclass(frozen=True)
class Plan:
    """How long and how fast."""

    seeds: tuple[int, ...] = (0,)
    steps: int = 1500
    batch: int = 16
    rate: float = 0.01
    slow: float = 0.3  # the rate of `SLOW`, as a part of that of the rest
    chunk: int = 50  # steps a call

    @property
    def cooling(self) -> float:
        """Steps in which what is learned first settles; a longer run does not need more."""
        return min(0.7 * self.steps, 2100)


@dataclass
class Run:
    """Where a run stands; all arrays of `networks` and `optimizer` have a leading axis of seeds."""

    networks: Any
    optimizer: Any
    step: int = 0
    seconds: float = 0.0
    losses: list[list[float]] = field(default_factory=list)  # per chunk, of each seed


def usual_picture(data: Dataset, pixels: int) -> np.ndarray:
    """The mean of the first pictures."""
    frequency = np.stack([(data.cells[:, 0] == k).mean(axis=0) for k in range(len(data.tiles))])
    rows, columns = frequency.shape[1:]
    mixed = np.einsum("kyx,kcij->cyixj", frequency, shrink(data.tiles, pixels))
    return mixed.reshape(3, rows * pixels, columns * pixels).astype(np.float32)


def optimizer_of(plan: Plan) -> optax.GradientTransformation:
    def labels(tree: Any) -> Any:
        def label(path: Any, _: Any) -> str:
            name = jax.tree_util.keystr(path)
            return "slow" if any(part in name for part in SLOW) else "fast"

        return jax.tree_util.tree_map_with_path(label, tree)

    def adam(factor: float) -> optax.GradientTransformation:
        half = plan.steps // 2
        constant = optax.constant_schedule(factor * plan.rate)
        falling = optax.cosine_decay_schedule(factor * plan.rate, max(1, plan.steps - half))
        return optax.adam(optax.join_schedules([constant, falling], [half]))

    return optax.multi_transform({"fast": adam(1.0), "slow": adam(plan.slow)}, labels)


def train(
    method: Method,
    data: Dataset,
    plan: Plan,
    checkpoint: Path | None = None,
    minutes: float = float("inf"),
    tell: Callable[[str], None] = print,
) -> Run:
    """Trains until all steps are done or the minutes are over; resumes from `checkpoint`."""
    pixels = method.scene.pixels
    usual = usual_picture(data, pixels)
    optimizer = optimizer_of(plan)
    run = start(method, plan, usual, optimizer)
    about = {"method": method.name, "scene": asdict(method.scene)}
    about["plan"] = json.loads(json.dumps(asdict(plan)))
    if checkpoint is not None and checkpoint.exists():
        run = resume(checkpoint, run, about)
        tell(f"{method.name}: resumes from step {run.step} of {plan.steps}")
    tiles = jnp.asarray(shrink(data.tiles, pixels))
    cells, actions = jnp.asarray(data.cells), jnp.asarray(data.actions)

    def update(carry: Any, number: Any, seed: Any) -> Any:
        networks, state = carry
        key = jax.random.fold_in(jax.random.key(seed), number)
        rows = jax.random.randint(key, (plan.batch,), 0, len(data))
        images = render(cells[rows], tiles, jnp)
        progress = jnp.minimum(1.0, number / plan.cooling)
        loss, gradients = eqx.filter_value_and_grad(method.loss)(
            networks, images, actions[rows], jax.random.fold_in(key, 1), progress
        )
        updates, state = optimizer.update(gradients, state)
        return (eqx.apply_updates(networks, updates), state), loss

    def steps(networks: Any, state: Any, seed: Any, numbers: Any) -> Any:
        arrays, rest = eqx.partition(networks, eqx.is_array)

        def body(carry: Any, number: Any) -> Any:
            (now, state), loss = update((eqx.combine(carry[0], rest), carry[1]), number, seed)
            return (eqx.filter(now, eqx.is_array), state), loss

        (arrays, state), losses = jax.lax.scan(body, (arrays, state), numbers)
        return eqx.combine(arrays, rest), state, losses

    many = eqx.filter_jit(eqx.filter_vmap(steps, in_axes=(eqx.if_array(0), 0, 0, None)))
    seeds, ends = jnp.asarray(plan.seeds), time.perf_counter() + 60 * minutes
    while run.step < plan.steps and time.perf_counter() < ends:
        begun = time.perf_counter()
        numbers = jnp.arange(run.step, min(run.step + plan.chunk, plan.steps))
        run.networks, run.optimizer, losses = many(run.networks, run.optimizer, seeds, numbers)
        mean = np.asarray(losses).mean(axis=1)
        if not np.isfinite(mean).all():
            raise NesymmError(f"{method.name}: the loss is not finite after step {run.step}")
        run.step += len(numbers)
        run.losses.append([float(x) for x in mean])
        run.seconds += time.perf_counter() - begun
        if checkpoint is not None:
            save(checkpoint, run, about)
        shown = " ".join(f"{x:.5f}" for x in mean)
        tell(f"{method.name}, step {run.step} of {plan.steps}, {run.seconds:.0f} s: {shown}")
    return run


def start(
    method: Method, plan: Plan, usual: np.ndarray, optimizer: optax.GradientTransformation
) -> Run:
    """Fresh networks of all seeds."""
    made = [in_32_bits(method.init(jax.random.key(seed), usual)) for seed in plan.seeds]
    states = [optimizer.init(eqx.filter(n, eqx.is_inexact_array)) for n in made]
    return Run(_stack(made), _stack(states))


def networks_of(run: Run, index: int) -> Any:
    """The networks of one seed, by its place among the seeds."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, run.networks)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *xs: jnp.stack(xs) if eqx.is_array(xs[0]) else xs[0], *trees)


# ---------------------------------------------------------------- files


def save(path: Path, run: Run, about: dict[str, Any]) -> None:
    place = {"step": run.step, "seconds": run.seconds, "losses": run.losses}
    write(path, {"networks": run.networks, "optimizer": run.optimizer}, about | place)


def resume(path: Path, like: Run, about: dict[str, Any]) -> Run:
    """What `save` left, if it belongs to the same run."""
    trees, found = read(path, {"networks": like.networks, "optimizer": like.optimizer})
    for name, value in about.items():
        if found.get(name) != value:
            raise NesymmError(
                f"{path} is of another run: {name} was {found.get(name)}, not {value}"
            )
    return Run(**trees, **{name: found[name] for name in ("step", "seconds", "losses")})


def save_networks(path: Path, method: Method, networks: Any) -> None:
    """The networks of one seed alone."""
    about = {"method": method.name, "scene": asdict(method.scene)}
    write(path, {"networks": networks}, about)


def load_networks(path: Path, method: Method) -> Any:
    """What `save_networks` wrote."""
    blank = np.zeros(method.scene.shape, np.float32)
    # Their shapes alone: to draw numbers takes seconds of compilation.
    shapes = eqx.filter_eval_shape(lambda k: in_32_bits(method.init(k, blank)), jax.random.key(0))
    trees, about = read(path, {"networks": shapes})
    belongs = (about.get("method"), about.get("scene"))
    if belongs != (method.name, asdict(method.scene)):
        raise NesymmError(f"{path} is of {belongs}, not {method.name} for {method.scene}")
    return trees["networks"]
