"""The Transformer of the paper's appendix D, as a baseline, and a stronger one.

Both read the start, the actions and the hits of a trajectory, keep one embedding per frame, and
say from it whether the agent is dead. Embedding `t` depends on frames up to `t` alone.

`variant="paper"` is the paper's: the embedding of the first frame is the start location and
zeros; each further one comes from all before it by dropout, causal self-attention, and
cross-attention on the incoming action and hit (with residuals and layer norm, as usual in such
decoders); the last one is classified.

`variant="strong"`, the default, has more: see `STRONG`. `variant="weighted"` is the same with a
loss in which a death counts as much as five survivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.minihack.data import Dataset
from experiments.minihack.methods import Setting

EMBEDDING = 32
HEADS = 8
KEY_SIZE = 64
SCALE = 10.0  # coordinates are divided by it: the grid of the training set


@dataclass(frozen=True)
class Options:
    """What tells the variants apart, and how they are trained."""

    walls: bool = False  # the distances to the far walls are given beside the start
    recency: bool = False  # attention fades with distance in time, at its own rate per head
    feed_forward: bool = False  # a perceptron after the attentions
    every_frame: bool = False  # learn whether the agent is dead at each frame, not only the last
    death_weight: float = 1.0  # how much a death counts in the loss
    dropout: float = 0.1
    learning_rate: float = 1e-3
    warm_up: int = 0  # epochs; the rate then falls along a cosine. 0: a constant rate
    weight_decay: float = 0.0
    batch_size: int = 50
    epochs: int = 50


PAPER = Options()
STRONG = Options(
    walls=True,
    recency=True,
    feed_forward=True,
    every_frame=True,
    learning_rate=2e-3,
    warm_up=1,
    weight_decay=1e-2,
    batch_size=100,
    epochs=40,
)
# In the training set five survive for each who dies. Where a death counts five times, both
# classes count the same in the last frame, which is what balanced accuracy asks for.
WEIGHTED = replace(STRONG, death_weight=5.0)
VARIANTS = {"paper": PAPER, "strong": STRONG, "weighted": WEIGHTED}


# ---------------------------------------------------------------- network


class Attention(eqx.Module):
    """Attention of one query on several items."""

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    output: eqx.nn.Linear

    def __init__(self, key: Any):
        size = HEADS * KEY_SIZE
        keys = jax.random.split(key, 4)
        self.query, self.key, self.value = (eqx.nn.Linear(EMBEDDING, size, key=k) for k in keys[:3])
        self.output = eqx.nn.Linear(size, EMBEDDING, key=keys[3])

    def remember(self, item: Any) -> tuple[Any, Any]:
        """The key and the value of an item, each [head, key]."""
        return self.key(item).reshape(HEADS, KEY_SIZE), self.value(item).reshape(HEADS, KEY_SIZE)

    def __call__(self, asks: Any, keys: Any, values: Any, bias: Any, drop: Callable) -> Any:
        """`keys` and `values` are [item, head, key], `bias` is [head, item]."""
        query = self.query(asks).reshape(HEADS, KEY_SIZE)
        scores = jnp.einsum("hk,ihk->hi", query, keys) / np.sqrt(KEY_SIZE) + bias
        weights = drop(jax.nn.softmax(scores, axis=-1))
        return self.output(jnp.einsum("hi,ihk->hk", weights, values).reshape(-1))


class Decoder(eqx.Module):
    """One embedding per frame, each from those before it; and the classifier."""

    self_attention: Attention
    cross_attention: Attention
    perceptron: eqx.nn.MLP | None
    norms: list[eqx.nn.LayerNorm]
    action: eqx.nn.Embedding
    hit: eqx.nn.Embedding
    classifier: list[eqx.nn.Linear]
    options: Options = eqx.field(static=True)

    def __init__(self, options: Options, key: Any):
        keys = jax.random.split(key, 8)
        self.self_attention = Attention(keys[0])
        self.cross_attention = Attention(keys[1])
        width = 2 * EMBEDDING
        self.perceptron = (
            eqx.nn.MLP(EMBEDDING, EMBEDDING, width, 1, key=keys[2])
            if options.feed_forward
            else None
        )
        self.norms = [eqx.nn.LayerNorm(EMBEDDING) for _ in range(3)]
        self.action = eqx.nn.Embedding(4, EMBEDDING, key=keys[3])
        self.hit = eqx.nn.Embedding(2, EMBEDDING, key=keys[4])
        sizes = [EMBEDDING, 64, 32, 1]
        self.classifier = [
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes, sizes[1:], keys[5:], strict=False)
        ]
        self.options = options

    def embeddings(self, start: Any, actions: Any, hits: Any, key: Any = None) -> Any:
        """[frame, embedding] of one trajectory. With a key, dropout is on.

        `start` is [2] or, with the distances to the far walls, [4].
        """
        frames = hits.shape[0]
        fading = 0.5 ** np.arange(1, HEADS + 1) * self.options.recency
        first = jnp.zeros(EMBEDDING).at[: start.shape[0]].set(start)
        memory = jnp.zeros((frames, HEADS, KEY_SIZE))

        def next_embedding(carry: Any, given: Any) -> tuple[Any, Any]:
            embedding, keys, values = carry
            now, action, hit = given
            drop = Dropout(
                self.options.dropout, None if key is None else jax.random.fold_in(key, now)
            )
            seen = drop(embedding)
            k, v = self.self_attention.remember(seen)
            keys, values = keys.at[now].set(k), values.at[now].set(v)
            ago = now - jnp.arange(frames)
            bias = jnp.where(ago >= 0, -fading[:, None] * ago, -jnp.inf)
            x = self.norms[0](seen + self.self_attention(seen, keys, values, bias, drop))
            context = [self.action(action), self.hit(hit)]
            k, v = (
                jnp.stack(a) for a in zip(*map(self.cross_attention.remember, context), strict=True)
            )
            x = self.norms[1](x + self.cross_attention(x, k, v, jnp.zeros((HEADS, 1)), drop))
            if self.perceptron is not None:
                x = self.norms[2](x + drop(self.perceptron(x)))
            return (x, keys, values), x

        given = (jnp.arange(frames - 1), actions, hits[1:])
        _, later = jax.lax.scan(next_embedding, (first, memory, memory), given)
        return jnp.concatenate([first[None], later])

    def logits(self, start: Any, actions: Any, hits: Any, key: Any = None) -> Any:
        """[frame]: the log-odds that the agent is dead, given the frames so far."""

        def classify(x: Any) -> Any:
            for layer in self.classifier[:-1]:
                x = jax.nn.relu(layer(x))
            return self.classifier[-1](x)[0]

        return jax.vmap(classify)(self.embeddings(start, actions, hits, key))


class Dropout:
    """Zeroes at random, other numbers at each call; does nothing without a key."""

    def __init__(self, rate: float, key: Any):
        self.rate = rate
        self.key = key

    def __call__(self, x: Any) -> Any:
        if self.key is None:
            return x
        self.key, key = jax.random.split(self.key)
        kept = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), 0.0)


# ---------------------------------------------------------------- data

Arrays = tuple[Any, Any, Any]


def inputs(data: Dataset, options: Options) -> Arrays:
    """What the network reads: start [n, 2 or 4], actions [n, T - 1], hits [n, T]."""
    start = data.start.astype(np.float32)
    if options.walls:
        start = np.concatenate([start, data.grid + 1 - start], axis=1)
    return start / SCALE, data.actions.astype(np.int32), data.hits.astype(np.int32)


def dead_by_frame(data: Dataset) -> np.ndarray:
    """[n, T]: whether the agent is dead at each frame. A dead agent died of its last hit."""
    last_hit = (np.arange(data.frames) * data.hits).max(axis=1)
    after = np.arange(data.frames) >= last_hit[:, None]
    return (after & (data.dead == 1)[:, None]).astype(np.float32)


# ---------------------------------------------------------------- training


@dataclass(frozen=True)
class TrainedTransformer:
    """A fitted Transformer, for any grid, length and number of enemies."""

    network: Decoder
    history: tuple[dict[str, float], ...] = ()

    @property
    def parameters_count(self) -> int:
        return sum(x.size for x in jax.tree.leaves(eqx.filter(self.network, eqx.is_inexact_array)))

    def probabilities(self, data: Dataset, seed: int = 0) -> np.ndarray:
        chunks = [
            np.asarray(_final_logits(self.network, chunk))
            for chunk in _batches(inputs(data, self.network.options), np.arange(len(data)), 1000)
        ]
        return np.asarray(jax.nn.sigmoid(np.concatenate(chunks)))

    def save(self, path: str | Path) -> None:
        with Path(path).open("wb") as file:
            eqx.tree_serialise_leaves(file, self.network)


@eqx.filter_jit
def _final_logits(network: Decoder, arrays: Arrays) -> Any:
    return jax.vmap(network.logits)(*arrays)[:, -1]


def _batches(arrays: Any, order: np.ndarray, size: int) -> Iterator[Any]:
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        yield jax.tree.map(lambda x, rows=rows: x[rows], arrays)


@dataclass(frozen=True)
class Transformer:
    """The method: a variant, and changes to its options."""

    variant: str = "strong"
    options: Options | None = None

    @property
    def name(self) -> str:
        return "transformer" if self.variant == "strong" else f"transformer-{self.variant}"

    def takes(self, setting: Setting) -> bool:
        return True

    def _options(self) -> Options:
        return self.options or VARIANTS[self.variant]

    def fit(
        self, train: Dataset, validation: Dataset, seed: int, progress: bool
    ) -> TrainedTransformer:
        """The epoch with the least validation loss of the last frame is kept."""
        options = self._options()
        start_key, train_key = jax.random.split(jax.random.key(seed))
        network = Decoder(options, start_key)
        batches = len(train) // options.batch_size
        tool = optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adamw(_schedule(options, batches), weight_decay=options.weight_decay),
        )
        state = tool.init(eqx.filter(network, eqx.is_inexact_array))
        loss = _loss(options)

        @eqx.filter_jit
        def update(network: Decoder, state: Any, arrays: Arrays, dead: Any, key: Any) -> Any:
            value, gradients = eqx.filter_value_and_grad(loss)(network, arrays, dead, key)  # type: ignore[no-untyped-call]
            updates, state = tool.update(
                gradients, state, eqx.filter(network, eqx.is_inexact_array)
            )
            return eqx.apply_updates(network, updates), state, value

        arrays = (inputs(train, options), dead_by_frame(train))
        held_out = (inputs(validation, options), dead_by_frame(validation))
        final_loss = eqx.filter_jit(_loss(replace(options, every_frame=False)))
        rng = np.random.default_rng(seed)
        history: list[dict[str, float]] = []
        best, best_loss = network, np.inf
        for epoch in range(options.epochs):
            losses = []
            order = rng.permutation(len(train))[: batches * options.batch_size]
            for given, dead in _batches(arrays, order, options.batch_size):
                train_key, key = jax.random.split(train_key)
                network, state, value = update(network, state, given, dead, key)
                losses.append(value)
            validated = float(final_loss(network, *held_out, None))
            history.append(
                {"epoch": epoch, "loss": float(np.mean(losses)), "validation": validated}
            )
            if progress:
                reached = f"loss {history[-1]['loss']:.4f}, validation {validated:.4f}"
                print(f"{self.name}: epoch {epoch}, {reached}", flush=True)
            if validated < best_loss:
                best, best_loss = network, validated
        return TrainedTransformer(best, tuple(history))

    def load(self, path: str | Path) -> TrainedTransformer:
        """What `TrainedTransformer.save` wrote."""
        like = Decoder(self._options(), jax.random.key(0))
        with Path(path).open("rb") as file:
            return TrainedTransformer(eqx.tree_deserialise_leaves(file, like))


def _schedule(options: Options, batches: int) -> Any:
    if options.warm_up == 0:
        return options.learning_rate
    return optax.warmup_cosine_decay_schedule(
        0.0, options.learning_rate, options.warm_up * batches, options.epochs * batches
    )


def _loss(options: Options) -> Callable[[Decoder, Arrays, Any, Any], Any]:
    def loss(network: Decoder, arrays: Arrays, dead: Any, key: Any) -> Any:
        if key is None:
            logits = jax.vmap(network.logits)(*arrays)
        else:
            logits = jax.vmap(network.logits)(*arrays, jax.random.split(key, len(dead)))
        if not options.every_frame:
            logits, dead = logits[:, -1], dead[:, -1]
        weights = jnp.where(dead == 1, options.death_weight, 1.0)
        losses = optax.sigmoid_binary_cross_entropy(logits, dead)
        return jnp.sum(weights * losses) / jnp.sum(weights)

    return loss
