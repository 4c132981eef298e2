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

from nesymm.errors import NesymmError
from nesymm.inference.answers import Answers
from nesymm.inference.blame import network_to_blame, unexplained
from nesymm.inference.columns import DataError, Wanted, code, split_missing
from nesymm.inference.data import prepare, wanted
from nesymm.inference.diagnostics import warn_of_step
from nesymm.inference.filter import Filter
from nesymm.inference.loop import broadcast, dims_of, each_array, moment_of, past_tensors, to_arrays
from nesymm.inference.named import Named
from nesymm.inference.networks import gave_nan
from nesymm.inference.npz import read_npz
from nesymm.inference.options import Key, as_key
from nesymm.inference.results import Failure, FilterError, check_errors
from nesymm.inference.state import Info, Stage, State
from nesymm.ir.step import StepProgram
from nesymm.language.program import At, AtLast, During, Time


@dataclass(frozen=True)
class Update:
    """What one step brought: per sequence its log-probability given the past, the effective
    sample size, and the probabilities of the queries now, of all answers that there may be.

    `failures` are those of all sequences that failed until now; their numbers are NaN.
    """

    time: int
    log_gain: np.ndarray
    effective: np.ndarray
    probabilities: dict[str, np.ndarray]
    failures: tuple[Failure, ...] = ()


class Stream:
    """A filter over sequences without an end."""

    def __init__(
        self,
        filter_: Filter,
        parameters: Mapping[str, Any],
        networks: Mapping[str, Any],
        data: Mapping[str, Any] | None = None,
        batch: int = 1,
        key: Key = 0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ):
        step = filter_.step
        for observation in step.observations:
            if isinstance(observation.when, AtLast):
                raise NesymmError(
                    f"{observation.name}@T is observed at the end, which a stream does not know"
                )
        if batch < 1:
            raise NesymmError(f"batch: expected at least 1 sequence, received {batch}")
        self.step = step
        self.batch = batch
        self.wanted = wanted(step)
        self.parameters, self.networks = dict(parameters), dict(networks)
        timed = {n: w for n, w in self.wanted.items() if w.timed}
        blank = {n: _blank(w, batch, (shapes or {}).get(n)) for n, w in timed.items()}
        for name in data or {}:
            if name in timed:
                raise DataError(f"{name} has time: give it to `update`, one step after the other")
        self.layout = prepare(step, {**(data or {}), **blank}, 1, ends=False)
        # Whatever has time may be missing at any step; but for tensors, which networks read.
        masks = {
            n: np.ones((1, *_shape(w, batch)), bool)
            for n, w in timed.items()
            if not _must_be_given(w)
        }
        self.layout = replace(self.layout, masks={**self.layout.masks, **masks})
        self.engine = filter_.engines.choose(replace(self.layout, steps=1 << 30))
        for name, when in past_tensors(self.engine):
            raise NesymmError(
                f"a network reads {name}@({when}), of an earlier step; streams keep none"
            )
        # Small exact steps are taken by NumPy: nothing is compiled, and tables may differ.
        self.at_once = filter_.engines.stepwise(self.engine, self.layout)
        self.engine = self.at_once or self.engine
        self.settings = self.engine.settings(batch)
        self.time = 0
        self.state: State | None = None
        self.failures: dict[int, Failure] = {}
        self._warned = False
        self._key = as_key(key)
        self._static = to_arrays(self.layout)["static"]
        self._dims: Any = None
        self._first, self._later = self._step(at_first=True), self._step(at_first=False)
        if self.at_once is not None:
            self.parameters = {n: np.asarray(v, float) for n, v in self.parameters.items()}
        else:
            self._first, self._later = eqx.filter_jit(self._first), eqx.filter_jit(self._later)

    def __repr__(self) -> str:
        return f"Stream({self.batch} sequences, {self.time} steps so far, {self.method})"

    @property
    def method(self) -> str:
        """What the steps are computed by."""
        return self.engine.describe()

    @property
    def reason(self) -> str:
        """Why it is that method."""
        return self.engine.reason

    def _step(self, at_first: bool) -> Any:
        def step(
            state: State, slices: Any, static: Any, time: Any, key: Any, bound: Any
        ) -> tuple[State, Info]:
            parameters, networks = bound
            arrays = {
                "timed": {},
                "static": static,
                "last": np.full(self.batch, 2**31 - 1),
            }
            moment = moment_of(self.layout, arrays, slices, time, self.engine.real)
            calls = self.settings.batch * self.settings.particles
            binding = self.engine.bind(parameters, networks, calls)
            return self.engine.step(self.settings, state, moment, binding, key, Stage(at_first))

        return step

    # ------------------------------------------------------------ feeding

    def update(self, data: Mapping[str, Any] | None = None, errors: str = "raise") -> Update:
        """One step: arrays [batch, …] of inputs and observations; what is left out is missing.

        A sequence that fails raises `FilterError`, and the stream stays where it was. With
        `errors="keep"` the others continue; of those that failed all is NaN from then on.
        """
        check_errors(errors)
        given = self._slices({} if data is None else data)
        time = jnp.asarray(self.time) if self.at_once is None else self.time
        key = None if self.at_once is not None else jax.random.fold_in(self._key, self.time)

        def advance(networks: Any, slices: Any = given) -> tuple[State, Info]:
            bound = (self.parameters, networks)
            if self.state is None:
                start = self.engine.init(self.settings)
                return self._first(start, slices, self._static, 0, key, bound)
            return self._later(self.state, slices, self._static, time, key, bound)

        state, info = advance(self.networks)
        failures = dict(self.failures)
        for b, i in np.argwhere(np.asarray(info.flags)):
            message = str(self.engine.phases.later.flags[i])
            failures.setdefault(int(b), Failure(int(b), self.time, message))
        for b in map(int, np.flatnonzero(np.asarray(info.dead))):
            if b not in failures:
                failures[b] = self._failure(b, info, given, advance)
        new = [f for b, f in sorted(failures.items()) if b not in self.failures]
        if new and errors == "raise":
            raise FilterError(new, None)  # type: ignore[arg-type]
        if self.at_once is not None:
            self.state = state
        elif self.state is None:
            self.state = self._shaped(state, given, (self.parameters, self.networks))
        else:
            self.state = broadcast(state, self._dims)
        self.time += 1
        self.failures = failures
        failed = sorted(failures)

        effective = _without(info.effective, failed)
        if not self._warned:
            particles = self.settings.particles
            self._warned = warn_of_step(effective, self.time - 1, particles)
        return Update(
            self.time - 1,
            _without(info.log_gain, failed),
            effective,
            self._answers(info, failed),
            tuple(failures[b] for b in failed),
        )

    def _answers(self, info: Info, failed: list[int]) -> Answers:
        """The query probabilities of the last step, without those of sequences that failed."""
        probabilities = Answers()
        for question in self.engine.questions:
            array = _without(info.answers[question.key], failed)
            if not _asked(question.query.when, self.time - 1):
                array = np.full(array.shape, np.nan)
            for one in question.groundings():
                at: Any = (slice(None), *one.position)
                probabilities.add(question, one, array[at])
        # What is impossible now may be possible at another step.
        probabilities.list_all()
        return probabilities

    def _failure(
        self,
        sequence: int,
        info: Info,
        given: Mapping[str, Any],
        advance: Callable[..., tuple[State, Info]],
    ) -> Failure:
        """Why a sequence died at this step."""
        if np.isnan(info.log_gain[sequence]):
            guilty = network_to_blame(
                self.networks, lambda nets: bool(np.isnan(advance(nets)[1].log_gain[sequence]))
            )
            if guilty is None:
                return Failure(sequence, self.time, "a network or parameter gave NaN")
            return Failure(sequence, self.time, *gave_nan(self.step, guilty))
        message = unexplained(self.engine)
        observations = self.step.observations
        if len(observations) == 1:
            message = f"{message} (observed: {observations[0].name})"
        else:
            for observation in observations:
                mask = given.get(f"{observation.name} mask")
                if mask is None or not np.any(mask[sequence]):
                    continue
                without = {**given, f"{observation.name} mask": np.zeros_like(mask)}
                if not np.asarray(advance(self.networks, without)[1].dead)[sequence]:
                    name = observation.name + (str(observation.when) if observation.when else "")
                    message = f"{message} (without {name} it is not)"
                    break
        return Failure(sequence, self.time, message)

    def _shaped(self, state: State, slices: Any, bound: Any) -> State:
        """Give the state the shape that it keeps."""

        def following(state: State) -> State:
            # As it is compiled: no number that is given now makes a table smaller.
            key = jax.random.key(0)
            following: State = self._later(state, slices, self._static, jnp.asarray(1), key, bound)[
                0
            ]
            return following

        state = self.engine.fixed_shape(following, state)
        self._dims = dims_of(state)
        return state

    def _slices(self, data: Mapping[str, Any]) -> dict[str, Any]:
        known = {n for n, w in self.wanted.items() if w.timed}
        if not isinstance(data, Mapping):
            raise DataError(
                "update: expected a dictionary with an array of one step for each name, received "
                f"{type(data).__name__}"
            )
        for name in data:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise DataError(f"the program reads no {name} at each step (it reads: {listed})")
        slices = self._nothing()
        for name in sorted(known):
            want = self.wanted[name]
            if name not in data:
                if _must_be_given(want):
                    raise DataError(f"the tensor {name} is not given at step {self.time}")
                continue
            # Of one step, without an axis for time.
            columns, mask = code(want, *split_missing(name, data[name]), (self.batch,), None)
            expected, received = slices[name][0].shape, columns[0].values.shape
            if expected != received:
                raise DataError(f"{want}: expected shape {expected}, received {received}")
            slices[name] = tuple(c.values for c in columns)
            if not _must_be_given(want):
                shape = _shape(want, self.batch)
                slices[f"{name} mask"] = np.ones(shape, bool) if mask is None else mask
        return slices

    def _nothing(self) -> dict[str, Any]:
        """A step at which everything is missing."""
        slices: dict[str, Any] = {
            n: tuple(c.values[0] for c in cs) for n, cs in self.layout.timed.items()
        }
        for name, mask in self.layout.masks.items():
            if name in slices:
                slices[f"{name} mask"] = np.zeros(mask.shape[1:], bool)
        return slices

    # ------------------------------------------------------------ keeping

    def save(self, path: str | Path) -> None:
        """Write the state: arrays and a few words of JSON."""
        leaves = jax.tree.leaves(self.state)
        about = {"time": self.time, "program": _fingerprint(self.step), "leaves": len(leaves)}
        if self.failures:
            about["failures"] = [[f.sequence, f.step, f.message] for f in self.failures.values()]
        if self.at_once is not None:
            about["tables"] = layout_of(self.state)
        arrays = {f"leaf{i}": np.asarray(x) for i, x in enumerate(leaves)}
        arrays["key"] = np.asarray(jax.random.key_data(self._key))
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        with partial.open("wb") as file:
            np.savez(file, about=np.asarray(json.dumps(about)), **arrays)  # type: ignore[arg-type]
        partial.replace(target)

    def restore(self, path: str | Path) -> None:
        """Continue from a saved state of the same program and method."""
        arrays = read_npz(path)
        try:
            about = json.loads(str(arrays["about"]))
            program, time = about["program"], about["time"]
            leaves = [arrays[f"leaf{i}"] for i in range(about["leaves"])]
            key = arrays["key"]
            failures = {
                int(b): Failure(int(b), int(t), str(m)) for b, t, m in about.get("failures", [])
            }
        except (KeyError, TypeError, ValueError):
            raise NesymmError(
                f"`{path}` is not the state of a stream, as `stream.save` writes it"
            ) from None
        if program != _fingerprint(self.step):
            raise NesymmError(f"`{path}` was saved by another program")
        own = jax.random.key_data(self._key)
        if key.shape != own.shape or key.dtype != own.dtype or type(time) is not int or time < 0:
            raise NesymmError(f"`{path}` is damaged: its time or its key is not one")
        state = self._restored(path, leaves, about.get("tables")) if time else None
        self._key = jax.random.wrap_key_data(jnp.asarray(key))
        self.time, self.state, self.failures = time, state, failures

    def _restored(self, path: str | Path, leaves: list[np.ndarray], tables: Any) -> State:
        try:
            like = self._shape_of_state() if self.at_once is None else self._laid_out(tables)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise NesymmError(
                f"`{path}` was saved with another method or number of bits, or is damaged"
            ) from None
        flat, tree = jax.tree.flatten(like)
        if len(flat) != len(leaves) or any(
            (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(flat, leaves, strict=True)
        ):
            raise NesymmError(
                f"`{path}` was saved with another method, batch, number of particles or of bits"
            )
        asarray = jnp.asarray if self.at_once is None else np.asarray
        state: State = jax.tree.unflatten(tree, [asarray(x) for x in leaves])
        return state

    def _laid_out(self, tables: Mapping[str, Any]) -> State:
        """A state with the tables that were saved, empty."""
        assert self.at_once is not None
        names = self.at_once.dims_by_name()

        def empty(about: tuple[list[str], str]) -> Named:
            own = tuple(names[d] for d in about[0])
            return Named(np.empty(self.settings.shape(own), np.dtype(about[1])), own)

        def is_table(found: Any) -> bool:
            return isinstance(found, list) and len(found) == 2 and isinstance(found[1], str)

        return State(**{n: jax.tree.map(empty, t, is_leaf=is_table) for n, t in tables.items()})

    def _shape_of_state(self) -> State:
        slices = self._nothing()
        bound = (self.parameters, self.networks)
        start, key = self.engine.init(self.settings), jax.random.key(0)
        state, _ = self._first(start, slices, self._static, 0, key, bound)
        return self._shaped(state, slices, bound)


def layout_of(state: State | None) -> dict[str, Any] | None:
    """The dimensions and types of the tables of a state, as text."""

    def about(value: Named) -> tuple[list[str], str]:
        return [repr(d) for d in value.dims], str(np.asarray(value.array).dtype)

    if state is None:
        return None
    parts = ("slots", "statics", "beliefs", "log_weights", "scores", "known")
    return {n: each_array(about, getattr(state, n)) for n in parts}


def _must_be_given(want: Wanted) -> bool:
    """Networks read it: it cannot be missing."""
    return want.tensor is not None and want.kind == "input"


def _shape(want: Wanted, batch: int) -> tuple[int, ...]:
    return (batch, *(a.size for a in want.axes))


def _blank(want: Wanted, batch: int, tensor: tuple[int, ...] | None) -> Any:
    """Data in which everything is missing, to learn the layout from."""
    if want.tensor is not None:
        tensor = tensor or want.tensor.shape
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


def _without(array: Any, failed: list[int]) -> np.ndarray:
    """An array [batch, …], NaN for the sequences that failed."""
    found = np.asarray(array)
    if failed:
        found = found.astype(np.result_type(found, np.float32))
        found[failed] = np.nan
    return found


def _asked(when: Time | None, time: int) -> bool:
    """Whether a query has an answer yet, or at this step."""
    match when:
        case At(index):
            return index <= time
        case During(first, end):
            return first <= time and (end is None or time <= end)
    return True
