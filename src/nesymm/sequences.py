"""`nesymm filter`: sequences read from a file, and what a filter finds in them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from nesymm.answers import load_networks, refuse_unbound
from nesymm.compiler.types import Enum
from nesymm.errors import NesymmError
from nesymm.filtering.data import DataError, wanted
from nesymm.filtering.methods import Method, parse_method
from nesymm.filtering.result import Filtered
from nesymm.language.terms import Program
from nesymm.model import Model, compile

# A program may read an array of this name itself; then the sequences all have one length.
LENGTH = "length"


@dataclass(frozen=True)
class Sequence:
    """What was found in one sequence; NaN where there is no answer.

    `filtered` has a row per query at every step, `final` one number per query about one
    step. From the step on at which a sequence fails, there are no answers.
    """

    steps: int
    log_evidence: float
    effective: np.ndarray
    filtered: dict[str, np.ndarray]
    final: dict[str, float]
    error: str | None

    def as_json(self) -> dict[str, Any]:
        queries: dict[str, Any] = {n: _plain(row) for n, row in self.filtered.items()}
        queries |= {n: _number(p) for n, p in self.final.items()}
        return {
            "log_evidence": _number(self.log_evidence),
            "effective_sample_size": _plain(self.effective),
            "queries": queries,
            "error": self.error,
        }


@dataclass(frozen=True)
class Findings:
    """What a filter found in the sequences of a file."""

    method: str
    reason: str
    sequences: list[Sequence]

    @property
    def exact(self) -> bool:
        """Whether there is a single particle, which stands for the whole belief."""
        return self.method == "exact forward"

    def as_json(self) -> dict[str, Any]:
        return {"method": self.method, "sequences": [s.as_json() for s in self.sequences]}

    def failed(self) -> str | None:
        """A sentence about the sequences that failed."""
        wrong = [(i, s.error) for i, s in enumerate(self.sequences) if s.error is not None]
        if not wrong:
            return None
        number, error = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        total = len(self.sequences)
        return f"{len(wrong)} of {total} failed: sequence {number}, {error}{more}"


def filter_file(
    programs: list[Program],
    constants: Mapping[str, Any],
    networks: str | None,
    data: Path,
    method: str,
    particles: int | None,
    seed: int,
    horizon: int | None,
) -> Findings:
    """Filter the sequences of a file."""
    chosen = parse_method(method, particles)
    model = compile(programs, constants=constants, networks=load_networks(networks))
    if not model.step.temporal:
        raise NesymmError("this program has no time; `nesymm query` answers it")
    refuse_unbound(model)
    return filter_arrays(model, read_arrays(data), data, chosen, seed, horizon)


def filter_arrays(
    model: Model,
    arrays: dict[str, np.ndarray],
    data: Path,
    method: Method,
    seed: int,
    horizon: int | None,
) -> Findings:
    """Filter the arrays of a file."""
    length = take_length(model, arrays, data)
    refuse_unfit(model, arrays, data)
    try:
        found = model.filter(
            arrays, method=method, horizon=horizon, length=length, seed=seed, errors="keep"
        )
    except DataError as error:
        raise DataError(f"`{data}`: {error}") from None
    return findings(found, length)


def take_length(model: Model, arrays: dict[str, np.ndarray], data: Path) -> np.ndarray | None:
    """Take the lengths of the sequences out of the arrays."""
    if LENGTH in wanted(model.step) or LENGTH not in arrays:
        return None
    length = arrays.pop(LENGTH)
    if length.ndim != 1:
        raise NesymmError(
            f"`{data}`: {LENGTH}: expected one number per sequence, received shape {length.shape}"
        )
    return length


def refuse_unfit(model: Model, arrays: Mapping[str, np.ndarray], data: Path) -> None:
    """All that the program reads must be there, and be numbers or names."""
    expected = wanted(model.step)
    for name, want in expected.items():
        if name not in arrays:
            raise NesymmError(
                f"`{data}` has no array for the {want.kind} {name} "
                f"(it has: {', '.join(arrays) or 'none'})\n"
                "  = help: an array of NaN says that nothing is known"
            )
    for name, array in arrays.items():
        if array.size == 0:
            raise NesymmError(f"`{data}`: {name} is empty, its shape is {array.shape}")
        names = name in expected and all(isinstance(t, Enum) for t in expected[name].types)
        if array.dtype.kind not in ("biufU" if names else "biuf"):
            raise NesymmError(
                f"`{data}`: {name}: expected numbers or {'names' if names else 'truth values'}, "
                f"received an array of {array.dtype}"
            )


# ---------------------------------------------------------------- reading


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file. Python objects are not read, since they can be programs."""
    try:
        with path.open("rb") as file:
            try:
                loaded = np.load(file, allow_pickle=False)
            except (ValueError, EOFError, BadZipFile):
                raise _not_npz(path) from None
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise _not_npz(path)
            with loaded:
                return {name: _array(path, loaded, name) for name in loaded.files}
    except OSError as error:
        raise NesymmError(f"cannot read `{path}`: {error.strerror or error}") from None


def _array(path: Path, loaded: Any, name: str) -> np.ndarray:
    try:
        array = loaded[name]
    except (ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        objects = "it holds Python objects; save numbers, truth values or texts"
        why = objects if "allow_pickle" in str(error) else str(error)
        raise NesymmError(f"`{path}`: cannot read the array {name}: {why}") from None
    if not isinstance(array, np.ndarray):
        raise NesymmError(f"`{path}`: {name} is not an array")
    return array


def _not_npz(path: Path) -> NesymmError:
    return NesymmError(
        f"`{path}` is not an .npz file\n  = help: write one with `numpy.savez(file, name=array, …)`"
    )


# ---------------------------------------------------------------- findings


def findings(found: Filtered, length: Any = None) -> Findings:
    """What was found, sequence by sequence."""
    batch, steps = found.log_gains.shape
    lengths = np.full(batch, steps) if length is None else np.asarray(length)
    failures = {f.sequence: f for f in found.failures}
    sequences = []
    for b in range(batch):
        number = int(lengths[b])
        failure = failures.get(b)
        sound = np.arange(number) < (number if failure is None else failure.step)
        sequences.append(
            Sequence(
                number,
                float(found.log_evidence[b]) if failure is None else math.nan,
                np.where(sound, found.effective[b, :number], np.nan),
                {
                    n: np.where(sound, np.clip(r[b, :number], 0, 1), np.nan)
                    for n, r in found.filtered.items()
                },
                {
                    n: float(np.clip(p[b], 0, 1))
                    if failure is None and _happens(n, number)
                    else math.nan
                    for n, p in found.final.items()
                },
                None if failure is None else f"step {failure.step}: {failure.message}",
            )
        )
    return Findings(found.method, found.reason, sequences)


def asked_step(query: str, steps: int) -> int | None:
    """The step that a query such as `rain@2` or `rain@T` is about; None: it has no time."""
    atom, _, when = query.rpartition("@")
    if not atom:
        return None
    if when.isdecimal():
        return int(when)
    return steps - 1 if when == "T" else None


def _happens(query: str, steps: int) -> bool:
    step = asked_step(query, steps)
    return step is None or step < steps


def _number(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _plain(values: np.ndarray) -> list[float | None]:
    return [_number(v) for v in values]
