"""A filter that is fed one step at a time.

Its memory does not grow and nothing is compiled anew after the first two steps. Its state
can be saved and restored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nesymm.compiler.step import StepProgram
from nesymm.compiler.types import Tensor
from nesymm.errors import NesymmError
from nesymm.filtering.blame import network_to_blame
from nesymm.filtering.data import DataError, Wanted, prepare, wanted
from nesymm.filtering.filter import Filter
from nesymm.filtering.loop import dims_of, moment_of, past_tensors, widen
from nesymm.filtering.result import Failure, FilterError
from nesymm.filtering.state import Outcome, State
from nesymm.language.program import AtLast


@dataclass(frozen=True)
class Update:
    """What one step brought: per sequence its log-probability given the past, the effective
    sample size, and the probabilities of the queries now."""

    time: int
    log_gain: np.ndarray
    effective: np.ndarray
    probabilities: dict[str, np.ndarray]


class Stream:
    """A filter over sequences that go on."""

    def __init__(
        self,
        filter_: Filter,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        batch: int = 1,
        seed: int = 0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ):
        step = filter_.step
        for observation in step.observations:
            if isinstance(observation.when, AtLast):
                raise NesymmError(
                    f"{observation.name}@T is observed at the end, which a stream does not know"
                )
        self.step = step
        self.batch = batch
        self.wanted = wanted(step)
        self.parameters, self.networks = dict(parameters), dict(networks)
        static = {n: np.asarray(v) for n, v in (inputs or {}).items()}
        blank = {
            n: _blank(w, batch, (shapes or {}).get(n)) for n, w in self.wanted.items() if w.timed
        }
        self.layout = prepare(step, {**static, **blank}, 0)
        # Any observation may be missing at any step, and inputs never are.
        masks = {n: np.ones((1, *_shape(w, batch)), bool) for n, w in self._observed().items()}
        self.layout = replace(self.layout, masks=masks)
        self.engine, self.reason = filter_.engine(replace(self.layout, steps=1 << 30))
        for name, when in past_tensors(self.engine):
            raise NesymmError(
                f"a network reads {name} at an earlier step ({when}); streams keep none"
            )
        self.settings = self.engine.settings(batch)
        self.time = 0
        self.state: State | None = None
        self._key = jax.random.key(seed)
        self._static = {n: tuple(c.values for c in cs) for n, cs in self.layout.static.items()}
        self._dims: Any = None
        self._first = eqx.filter_jit(self._step(at_first=True))
        self._later = eqx.filter_jit(self._step(at_first=False))

    def _observed(self) -> dict[str, Wanted]:
        return {n: w for n, w in self.wanted.items() if w.kind == "observation"}

    def _step(self, at_first: bool) -> Any:
        def step(state: State, slices: Any, static: Any, time: Any, key: Any, bound: Any) -> Any:
            parameters, networks = bound
            arrays = {
                "timed": {},
                "static": static,
                "last": jnp.full(self.batch, 2**31 - 1),
            }
            moment = moment_of(self.layout, arrays, slices, time, self.engine.real)
            calls = self.settings.batch * self.settings.particles
            binding = self.engine.bind(parameters, networks, calls)
            return self.engine.step(
                self.settings, state, moment, binding, key, at_first=at_first, everything=True
            )

        return step

    # ------------------------------------------------------------ feeding

    def update(self, data: Mapping[str, Any] | None = None) -> Update:
        """One step: arrays [batch, …] of inputs and observations; what is left out is missing."""
        slices = self._slices(data or {})
        time = jnp.asarray(self.time)
        key = jax.random.fold_in(self._key, self.time)

        def advance(networks: Any) -> Outcome:
            bound = (self.parameters, networks)
            if self.state is None:
                return self._first(self.settings.start(), slices, self._static, 0, key, bound)
            return self._later(self.state, slices, self._static, time, key, bound)

        outcome = advance(self.networks)
        broken = [
            Failure(int(b), self.time, str(self.engine.phases.later.flags[i]))
            for b, i in np.argwhere(np.asarray(outcome.flags))
        ]
        dead = np.flatnonzero(np.asarray(outcome.dead))
        failed = broken or [self._failure(int(b), outcome, advance) for b in dead]
        if failed:
            raise FilterError(failed, None)  # type: ignore[arg-type]
        if self.state is None:
            self.state = self._settle(outcome.state, slices, (self.parameters, self.networks))
        else:
            self.state = widen(outcome.state, self._dims)
        self.time += 1
        probabilities: dict[str, np.ndarray] = {}
        for question in self.engine.questions:
            array = np.asarray(outcome.answers[question.key])
            for position, name in question.groundings():
                at: Any = (slice(None), *position)
                column = array[at]
                if not question.axes or column.sum() > 0:
                    probabilities[name] = column
        return Update(
            self.time - 1,
            np.asarray(outcome.log_gain),
            np.asarray(outcome.effective),
            probabilities,
        )

    def _failure(self, sequence: int, outcome: Outcome, advance: Callable[[Any], Any]) -> Failure:
        """Why a sequence died at this step."""
        if not np.isnan(outcome.log_gain[sequence]):
            return Failure(sequence, self.time, "nothing explains the evidence")
        guilty = network_to_blame(
            self.networks, lambda nets: bool(np.isnan(advance(nets).log_gain[sequence]))
        )
        source = f"the network {guilty}" if guilty else "a network or parameter"
        return Failure(sequence, self.time, f"{source} gave NaN")

    def _settle(self, state: State, slices: Any, bound: Any) -> State:
        """Give the state the shape that it keeps."""

        def following(state: State) -> State:
            key = jax.random.key(0)
            step = self._step(at_first=False)
            return step(state, slices, self._static, jnp.asarray(1), key, bound).state

        state = self.engine.settle(following, state)
        self._dims = dims_of(state)
        return state

    def _slices(self, data: Mapping[str, Any]) -> dict[str, Any]:
        known = {n for n, w in self.wanted.items() if w.timed}
        for name in data:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise DataError(f"the program reads no {name} at each step (it reads: {listed})")
        full: dict[str, Any] = {}
        for name in known:
            want = self.wanted[name]
            if name in data:
                # `prepare` wants a time axis; missing values are found there too.
                full[name] = np.expand_dims(np.asanyarray(data[name]), 1)
            elif want.kind == "input":
                raise DataError(f"the input {name} is not given at step {self.time}")
        coded = prepare(self.step, {**self._given_static(), **full}, 0)
        slices: dict[str, Any] = {}
        for name in known:
            want = self.wanted[name]
            if name in coded.timed:
                slices[name] = tuple(c.values[0] for c in coded.timed[name])
            else:
                slices[name] = tuple(c.values[0] for c in self.layout.timed[name])
            if want.kind == "observation":
                there = name in coded.timed
                mask = coded.masks.get(name)
                shape = _shape(want, self.batch)
                slices[f"{name} mask"] = (
                    np.full(shape, there) if mask is None else np.broadcast_to(mask[0], shape)
                )
        return slices

    def _given_static(self) -> dict[str, Any]:
        return {
            n: np.stack([c.values for c in cs], -1) if len(cs) > 1 else cs[0].values
            for n, cs in self.layout.static.items()
        }

    # ------------------------------------------------------------ keeping

    def save(self, path: str | Path) -> None:
        """Write the state: arrays and a few words of JSON."""
        leaves = jax.tree.leaves(self.state)
        about = {"time": self.time, "program": _fingerprint(self.step), "leaves": len(leaves)}
        arrays = {f"leaf{i}": np.asarray(x) for i, x in enumerate(leaves)}
        arrays["key"] = np.asarray(jax.random.key_data(self._key))
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        with partial.open("wb") as file:
            np.savez(file, about=np.asarray(json.dumps(about)), **arrays)  # type: ignore[arg-type]
        partial.replace(target)

    def restore(self, path: str | Path) -> None:
        """Go on from a saved state of the same program and method."""
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about["program"] != _fingerprint(self.step):
                raise NesymmError(f"{path} was saved by another program")
            leaves = [file[f"leaf{i}"] for i in range(about["leaves"])]
            key = file["key"]
        self._key = jax.random.wrap_key_data(jnp.asarray(key))
        self.time = about["time"]
        if self.time == 0:
            self.state = None
            return
        like = self._shape_of_state()
        flat, tree = jax.tree.flatten(like)
        if len(flat) != len(leaves) or any(
            a.shape != b.shape for a, b in zip(flat, leaves, strict=True)
        ):
            raise NesymmError(f"{path} was saved with another method, batch or number of particles")
        self.state = jax.tree.unflatten(tree, [jnp.asarray(x) for x in leaves])

    def _shape_of_state(self) -> State:
        slices = {n: tuple(c.values[0] for c in cs) for n, cs in self.layout.timed.items()}
        for name, want in self._observed().items():
            slices[f"{name} mask"] = np.ones(_shape(want, self.batch), bool)  # type: ignore[assignment]
        bound = (self.parameters, self.networks)
        outcome = self._first(
            self.settings.start(), slices, self._static, 0, jax.random.key(0), bound
        )
        return self._settle(outcome.state, slices, bound)


def _shape(want: Wanted, batch: int) -> tuple[int, ...]:
    return (batch, *(a.size for a in want.axes))


def _blank(want: Wanted, batch: int, tensor: tuple[int, ...] | None) -> Any:
    """Data in which everything is missing, to learn the layout from."""
    if isinstance(want.types[0], Tensor):
        tensor = tensor or want.types[0].shape
        if tensor is not None:
            return np.zeros((batch, 1, *(a.size for a in want.axes), *tensor), np.float32)
        raise NesymmError(
            f"{want.name} is a tensor: give the shape of one, as `shapes={{{want.name!r}: …}}`"
        )
    tail = (len(want.types),) if len(want.types) > 1 else ()
    shape = (batch, 1, *(a.size for a in want.axes), *tail)
    return np.full(shape, np.nan)


def _fingerprint(step: StepProgram) -> str:
    import hashlib

    return hashlib.sha256(str(step).encode()).hexdigest()
