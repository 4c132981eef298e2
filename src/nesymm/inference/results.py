"""What a filter found: evidence, probabilities per step, and what went wrong where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.html import table
from nesymm.inference.answers import Answers
from nesymm.inference.atoms import check_number
from nesymm.inference.diagnostics import Diagnostics
from nesymm.inference.frames import dataset, frame, rows_at_once, rows_over_time
from nesymm.inference.questions import Question
from nesymm.ir.step import active
from nesymm.language.program import At, Time


@dataclass(frozen=True)
class Failure:
    """What went wrong with one sequence; the others of its batch are not affected. `details` are
    the place in the program and the cure, where they are known."""

    sequence: int
    step: int
    message: str
    details: str = field(default="", compare=False, repr=False)
    name: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        sequence = self.sequence if self.name is None else self.name
        return f"sequence {sequence}, step {self.step}: {self.message}"


def with_names(failures: Sequence[Failure], names: Sequence[Any] | None) -> tuple[Failure, ...]:
    """The same with the names of their sequences, if these have names."""
    if names is None:
        return tuple(failures)
    return tuple(replace(f, name=names[f.sequence]) for f in failures)


class FilterError(NesymmError):
    """Some sequences have no answer. `result` holds those of the others."""

    def __init__(self, failures: Sequence[Failure], result: Filtered):
        self.failures = tuple(failures)
        self.result = result
        shown = "\n".join(str(f) for f in self.failures[:5])
        more = f"\n… and {len(self.failures) - 5} more" if len(self.failures) > 5 else ""
        details = next((f"\n{f.details}" for f in self.failures if f.details), "")
        super().__init__(shown + more + details)


@dataclass(frozen=True)
class Filtered:
    """The result of a filter over a batch of sequences.

    `log_evidence` is per sequence, `log_gains` and `effective` per sequence and step.
    `filtered` holds, per query that is asked at every step, an array [batch, step], NaN
    where it is not asked; `final` per query about one step, or the end, an array [batch].
    `last` is the last step of each sequence, `names` are what the data call them (None: they are
    numbered).
    `diagnostics` say how far to trust them.
    """

    method: str
    reason: str
    log_evidence: np.ndarray
    log_gains: np.ndarray
    effective: np.ndarray
    resampled: np.ndarray
    filtered: Answers
    final: Answers
    failures: tuple[Failure, ...]
    diagnostics: Diagnostics
    last: np.ndarray
    names: tuple[Any, ...] | None = None

    def probability(self, query: str, step: int | None = None) -> np.ndarray:
        """The probability of a query, as it is written in the program, in each sequence: [batch].

        Of a query that is asked at every step it is that of `step`, or else of the last step at
        which it is asked.
        """
        try:
            rows = self.final[query] if query in self.final else self.filtered[query]
        except KeyError:
            known = ", ".join([*self.final, *self.filtered]) or "none"
            message = f"{query} is not asked in the program (asked: {known})"
            raise NesymmError(message) from None
        if rows.ndim == 1:
            return rows
        if step is not None:
            check_number("step", step, rows.shape[1], "steps")
            return rows[:, step]
        asked = ~np.isnan(rows)
        last = np.where(asked.any(1), rows.shape[1] - 1 - np.argmax(asked[:, ::-1], axis=1), -1)
        return rows[np.arange(len(rows)), last]

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each sequence."""
        return self.last + 1

    def to_dataframe(self) -> Any:
        """The probabilities as a data frame of pandas: sequence, time, atom, predicate, arguments
        and probability. Atoms that are impossible throughout are not listed."""
        rows = [*rows_over_time(self.filtered), *rows_at_once(self.final, self.last)]
        return frame(rows, self.names)

    def to_xarray(self) -> Any:
        """The probabilities as a data set of xarray: an array for each predicate, over sequence,
        time (where it is asked at every step) and arguments."""
        return dataset(self.filtered, self.names, self.final)

    def __repr__(self) -> str:
        batch, steps = self.log_gains.shape
        return f"Filtered({batch} sequences, {steps} steps, {self.method})"

    def _repr_html_(self) -> str:
        """A row for each sequence, with the query probabilities at its end."""
        names = [*self.filtered, *self.final]
        columns = [self.lengths, self.log_evidence, *(self.probability(n) for n in names)]
        head = ["sequence", "steps", "log-evidence", *names]
        labels = self.names or range(len(self.last))
        return table(head, zip(labels, *columns, strict=True))


class Smoothed(dict[str, np.ndarray]):
    """Per query that is asked at every step, an array [batch, step] given all evidence.

    The rows of sequences that failed are NaN; `failures` says why.
    """

    def __init__(
        self,
        answers: Answers,
        failures: tuple[Failure, ...],
        diagnostics: Diagnostics,
        names: tuple[Any, ...] | None = None,
    ):
        super().__init__(answers)
        self.names = names
        self.answers = answers
        self.impossible = answers.impossible
        self.failures = failures
        self.diagnostics = diagnostics

    def __repr__(self) -> str:
        batch, steps = next(iter(self.values())).shape if self else (0, 0)
        return f"Smoothed({batch} sequences, {steps} steps; asked: {', '.join(self) or 'nothing'})"

    def _repr_html_(self) -> str:
        """A row for each sequence and query, with a column for each step."""
        steps = next(iter(self.values())).shape[1] if self else 0
        rows = (
            (self.names[i] if self.names else i, n, *row)
            for n, rows in self.items()
            for i, row in enumerate(rows)
        )
        return table(["sequence", "query", *map(str, range(steps))], rows)

    def to_dataframe(self) -> Any:
        """The probabilities as a data frame of pandas, as `Filtered.to_dataframe` has them."""
        return frame(rows_over_time(self.answers), self.names)

    def to_xarray(self) -> Any:
        """The probabilities as a data set of xarray, as `Filtered.to_xarray` has them."""
        return dataset(self.answers, self.names)

    def __missing__(self, query: str) -> np.ndarray:
        if query in self.impossible:
            return self.impossible[query]
        known = ", ".join(self) or "none"
        raise NesymmError(
            f"{query} is not asked at every step, so it has no smoothed probabilities (there are: "
            f"{known})"
        )


def check_errors(errors: str) -> None:
    """Refuse any other word for what is to be done about sequences that fail."""
    if errors not in ("raise", "keep"):
        raise NesymmError(f"errors: expected 'raise' or 'keep', received {errors!r}")


def collect(
    questions: Sequence[Question], answers: dict[str, Any], last: np.ndarray, steps: int
) -> tuple[Answers, Answers]:
    """What was answered at every step, and at the end."""
    filtered, final = Answers(), Answers()
    batch = np.arange(len(last))
    time, end = np.arange(steps), np.asarray(last)[:, None]
    for question in questions:
        query = question.query
        # Sums of rounded numbers may leave the unit interval by a hair.
        array = np.clip(np.asarray(answers[question.key], dtype=np.float64), 0.0, 1.0)
        if question.at_every_step:
            asked = active(query.when, time, end) & (time <= end)
            for one in question.groundings():
                at: tuple[Any, ...] = (slice(None), slice(None), *one.position)
                row = array[at].T
                filtered.add(question, one, np.where(asked, row, np.nan))
        else:
            # Answered at the end, when all evidence is in.
            at_end = array[-1] if len(array) == 1 else array[last, batch]
            after_end = _after_end(query.when, last)
            for one in question.groundings():
                here: tuple[Any, ...] = (slice(None), *one.position)
                final.add(question, one, np.where(after_end, np.nan, at_end[here]))
    return filtered, final


def _after_end(when: Time | None, last: np.ndarray) -> np.ndarray:
    """Where a query asks about a step that a sequence does not have."""
    return np.asarray(when.index > last if isinstance(when, At) else np.zeros(len(last), bool))
