"""Trajectories: posterior draws and generated sequences, in the words of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.html import table
from nesymm.inference.atoms import SHOWN, check_number, check_place, decode, elements, fluents, word
from nesymm.inference.data import sequences_of
from nesymm.inference.diagnostics import Diagnostics
from nesymm.inference.explanation import Explainer, Firing
from nesymm.inference.frames import arrays_dataset, frame
from nesymm.inference.results import Failure
from nesymm.inference.sampling import Draws
from nesymm.ir.expr import TRUE
from nesymm.ir.step import RandomVariable, Slot
from nesymm.ir.terms import show
from nesymm.ir.types import BOOL, Enum, Tensor, domain
from nesymm.language.values import value_positions

if TYPE_CHECKING:
    from nesymm.model import Model


@dataclass(frozen=True)
class Trajectories:
    """Trajectories of a batch of sequences, several of each.

    All arrays are [batch, trajectory, step, axes…]; terms are positions in their domain, the
    entries of a tensor come behind. A sequence in `failures` has no trajectories: its length is
    0, its numbers are NaN, and its terms and truths mean nothing.

    Generated ones also have `observed`: what `observe/1` reads, as `filter` takes it (without
    the step axis where it has no time), given or generated, NaN where there is none; and `asked`:
    the truth of the queries (without the step axis where a query is about one step). `given` are
    the data that they were drawn for.
    """

    model: Model
    drawn: Draws
    given: Mapping[str, Any]
    observed: dict[str, np.ndarray] = field(default_factory=dict)
    asked: dict[str, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:
        batch, count, steps = self.drawn.shape
        return f"Trajectories({batch} sequences, {count} of each, {steps} steps)"

    def _repr_html_(self) -> str:
        """The first trajectory, step by step: what holds, and what else was drawn."""
        types = {v.name: v.type for v in self.model.step.variables}
        places = len(self.drawn.shape)
        drawn = {n: v[0, 0] for n, v in self.values.items() if n in types and v.ndim == places}
        for slot in self._fluents:
            drawn.pop(slot.name, None)
        rows = (
            (str(step), atoms, *(word(decode(types[n], v[step])) for n, v in drawn.items()))
            for step, atoms in self._rows(0, 0)
        )
        return table(("step", "sequence 0, trajectory 0", *drawn), rows)

    @property
    def count(self) -> int:
        """How many trajectories there are of each sequence."""
        return self.drawn.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each sequence."""
        return self.drawn.lengths

    @property
    def failures(self) -> tuple[Failure, ...]:
        return self.drawn.failures

    @property
    def diagnostics(self) -> Diagnostics:
        return self.drawn.diagnostics

    # ------------------------------------------------------------ arrays

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The value of everything over time, by its name in the program.

        A fluent has its truth, or its value (NaN or anything where it is absent, see `present`),
        several values side by side in an axis behind the others. A random variable that is no
        fluent has what was drawn, unless that is the choice of one clause among several, or of one
        whose body may fail: see `draws`.
        """
        clauses = Counter(name.partition(":")[0] for name in self.drawn.variables)
        found = {
            v.name: self.drawn.variables[v.name]
            for v in self.model.step.variables
            if v.name in self.drawn.variables
            and clauses[v.name.partition(":")[0]] == 1
            and (v.guard is TRUE or v.type != BOOL)
        }
        for slot in self._fluents:
            columns = self._columns(slot)
            shapes = {c.shape for c in columns}
            if not columns:
                found[slot.name] = self._present(slot)
            elif len(columns) == 1:
                found[slot.name] = columns[0]
            elif len(shapes) == 1:
                axes = sum(a.size > 1 for a in slot.axes)
                found[slot.name] = np.stack(columns, axis=len(self.drawn.shape) + axes)
            else:
                found |= {f"{slot.name} value {i + 1}": c for i, c in enumerate(columns)}
        return found

    @cached_property
    def present(self) -> dict[str, np.ndarray]:
        """Where the fluents that carry values are there at all."""
        return {s.name: self._present(s) for s in self._fluents if s.fields}

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """What was drawn for each random variable, by its name in the printed model.

        Other than in `values`, a fluent has here what its clause drew. For a probabilistic clause
        that is the choice, which is made whether its body holds or not.
        """
        return self.drawn.variables

    def __iter__(self) -> Iterator[str]:
        """The names of what was drawn."""
        return iter(dict.fromkeys((*self.observed, *self.asked, *self.values)))

    def __getitem__(self, name: str) -> np.ndarray:
        for arrays in (self.observed, self.asked, self.values):
            if name in arrays:
                return arrays[name]
        known = ", ".join((*self.observed, *self.asked, *self.values))
        raise NesymmError(f"nothing called {name} was generated (there is: {known})")

    def to_dataframe(self) -> Any:
        """What holds as a data frame of pandas: sequence, trajectory, time, and the atom in the
        words of the program."""
        return frame((
            {"sequence": b, "trajectory": k, "time": t, "atom": atom}
            for b, length in enumerate(self.lengths)
            for k in range(self.count)
            for t in range(int(length))
            for atom in self.atoms(b, k, t)
        ), self.names)  # fmt: skip

    def to_xarray(self) -> Any:
        """The arrays of `values` as a data set of xarray, over sequence, trajectory, time and
        keys. Terms have their names, and None stands for what is absent."""
        batch, count, steps = self.drawn.shape
        lead = {
            "sequence": list(self.names or range(batch)),
            "trajectory": list(range(count)),
            "time": list(range(steps)),
        }
        found = {n: (a, self._keys(n)) for n, a in self._worded().items()}
        return arrays_dataset(found, lead)

    @property
    def names(self) -> tuple[Any, ...] | None:
        """What the data call the sequences; None: they are numbered."""
        return sequences_of(self.given)

    def _worded(self) -> dict[str, np.ndarray]:
        """The values, terms by their names where all of them are terms of one kind."""
        out = dict(self.values)
        for name, part in self._parts.items():
            types = part.fields if isinstance(part, Slot) else (part.type,)
            if name not in out or len(set(types)) != 1 or not isinstance(types[0], Enum):
                continue
            terms = np.array([*map(show, domain(types[0])), None], object)
            array = out[name]
            codes = np.clip(array.astype(int), 0, len(terms) - 2)
            there = self.present.get(name) if isinstance(part, Slot) else None
            if there is not None:
                behind = array.ndim - there.ndim
                there = there.reshape(*there.shape, *(1,) * behind)
                codes = np.where(there, codes, len(terms) - 1)
            out[name] = terms[codes]
        return out

    def _keys(self, name: str) -> list[list[Any]]:
        """The keys along the axes of a value; an axis of one key is none."""
        part = self._parts.get(name)
        return [domain(a.type) for a in part.axes if a.size > 1] if part else []

    @cached_property
    def _parts(self) -> dict[str, Slot | RandomVariable]:
        """What the values are those of: a fluent goes before a variable of its name."""
        variables = {v.name: v for v in self.model.step.variables}
        return {**variables, **{s.name: s for s in self._fluents}}

    def data(self, trajectory: int = 0) -> dict[str, np.ndarray]:
        """One trajectory of each sequence as data for `filter` and `fit`."""
        check_number("trajectory", trajectory, self.count, "trajectories of each sequence")
        observed = {n: a[:, trajectory] for n, a in self.observed.items()}
        return {**{n: np.asanyarray(v) for n, v in self.given.items()}, **observed}

    @property
    def _fluents(self) -> list[Slot]:
        """The fluents whose values are known: those that the filter carries along."""
        known = self.drawn.fields
        slots = self.model.step.slots
        return [s for s in slots if s.atom is not None and (s.name, "present") in known]

    def _present(self, slot: Slot) -> np.ndarray:
        return self.drawn.fields[slot.name, "present"].astype(bool)

    def _columns(self, slot: Slot) -> list[np.ndarray]:
        """The values of a fluent, numbers that are absent being NaN."""
        columns = [self.drawn.fields[slot.name, i] for i in range(len(slot.fields))]
        absent = ~self._present(slot)
        return [_without(c, absent) if c.dtype.kind == "f" else c for c in columns]

    # ------------------------------------------------------------ words

    def atoms(self, sequence: int, trajectory: int, step: int) -> list[str]:
        """What holds at a step, as ground atoms: fluents, observations, answers."""
        self._check(sequence, trajectory, step)
        at = (sequence, trajectory, step)
        state = fluents(self.model.step, self.drawn.fields, at)
        found = [*state, *self._observed_atoms(at), *self._answers(at)]
        return list(dict.fromkeys(f"{atom}@{step}" for atom in found))

    def table(self, sequence: int = 0, trajectory: int = 0) -> str:
        """A trajectory as text: one line per step."""
        self._check(sequence, trajectory, 0)
        rows = self._rows(sequence, trajectory)
        return "\n".join(f"{step:4d}  {atoms}" for step, atoms in rows)

    def _rows(self, sequence: int, trajectory: int) -> Iterator[tuple[int, str]]:
        for step in range(int(self.lengths[sequence])):
            atoms = (a.rsplit("@", 1)[0] for a in self.atoms(sequence, trajectory, step))
            yield step, ", ".join(atoms) or "-"

    def explain(self, sequence: int = 0, trajectory: int = 0) -> list[Firing]:
        """The clauses that fired along a trajectory, step by step, and why."""
        self._check(sequence, trajectory, 0)
        return self._explainer.firings(sequence, trajectory)

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(self.model, self.drawn, self.given)

    def _check(self, sequence: int, trajectory: int, step: int) -> None:
        for failure in self.failures:
            if failure.sequence == sequence:
                raise NesymmError(f"there is no trajectory of {failure}")
        check_place(self.lengths, self.count, sequence, trajectory, step)

    def _observed_atoms(self, at: tuple[int, ...]) -> Iterator[str]:
        for observation in self.model.step.observations:
            if observation.name not in self.observed or observation.value is not None:
                continue
            if observation.when is None and at[-1] > 0:
                continue  # Without time; it is listed once.
            here = at[:-1] if observation.when is None else at
            array = self.observed[observation.name]
            types = observation.types
            tensor = isinstance(types[0], Tensor)
            for index, key in elements(observation.axes):
                found = array[(*here, *index)]
                if np.isnan(found.astype(float)).any() or (tensor and found.size > SHOWN):
                    continue
                if observation.is_value:
                    columns = [found] if tensor else np.atleast_1d(found)
                    terms = [decode(t, v) for t, v in zip(types, columns, strict=True)]
                    yield _atom(observation.name, key, terms, self._positions)
                elif found:
                    yield _atom(observation.name, key, [], self._positions)

    def _answers(self, at: tuple[int, ...]) -> Iterator[str]:
        for name, array in self.asked.items():
            if name.endswith("@t") and array[at]:
                yield name.removesuffix("@t")

    @cached_property
    def _positions(self) -> dict[str, frozenset[int]]:
        """Per predicate the arguments that are values; the others are keys."""
        program = self.model.program
        found = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
        return {pred.name: positions for pred, positions in found.items()}


def as_trajectories(given: Any) -> Trajectories:
    """What was given, if it is trajectories: nothing else can be explained."""
    if not isinstance(given, Trajectories):
        name = type(given).__name__
        raise NesymmError(f"explain takes what trajectories or generate gives, received {name}")
    return given


def _without(column: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Numbers with NaN where they are absent."""
    behind = column.ndim - absent.ndim
    return np.where(absent.reshape(*absent.shape, *(1,) * behind), np.nan, column)


def _atom(name: str, key: tuple, found: list, positions: Mapping[str, frozenset[int]]) -> str:
    """An atom from its keys (fixed ones stand in the name) and its values."""
    base, _, fixed = name.partition("(")
    keys = ([fixed.removesuffix(")")] if fixed else []) + [show(k) for k in key]
    values = [word(v) for v in found]
    out: list[str] = []
    while keys or values:
        due = len(out) in positions.get(base, frozenset()) or not keys
        out.append(values.pop(0) if values and due else keys.pop(0))
    return f"{base}({','.join(out)})" if out else base
