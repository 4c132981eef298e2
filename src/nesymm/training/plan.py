"""What is to be learnt from what: the options of `fit`, and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from nesymm.errors import NesymmError, NesymmWarning, warn
from nesymm.inference.buckets import Buckets
from nesymm.inference.columns import DataError
from nesymm.inference.data import Sequences, prepare
from nesymm.inference.data_files import AnyData, arrays_of
from nesymm.inference.loop import to_arrays
from nesymm.inference.methods import Auto, Bootstrap, ExactForward, Method, RaoBlackwellised
from nesymm.inference.options import check_training
from nesymm.training.averaging import averaged
from nesymm.training.objectives import (
    ELBO,
    Accuracy,
    LogEvidence,
    Objective,
    QueryLoss,
    Term,
    read_labels,
)

if TYPE_CHECKING:
    from nesymm.model import Model


# Makes what a program reads, and the labels, of the arrays of a batch and the number of updates.
Transform = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]


class Batch(NamedTuple):
    """The numbers of some sequences, their labels, and how many steps they go through. Where the
    data are raw: their arrays, and the number of the update."""

    arrays: Any
    labels: Any
    steps: int


@dataclass(frozen=True)
class Data:
    """A data set, prepared once: its layout, its numbers, its labels.

    With `coded`, the arrays are raw: `coded` makes numbers and labels of those of a batch.
    """

    layout: Sequences
    arrays: Mapping[str, Any]
    labels: Mapping[str, np.ndarray]
    coded: Callable[[Mapping[str, Any], Any], tuple[Any, Any]] | None = None

    @property
    def size(self) -> int:
        return self.layout.batch

    @cached_property
    def uniform(self) -> bool:
        """Whether all sequences end together."""
        return bool(np.all(self.layout.last == self.layout.steps - 1))

    @cached_property
    def _buckets(self) -> Buckets:
        # Nothing is known of raw arrays before they are coded, batch by batch.
        return Buckets.of(self.layout) if self.coded is None else Buckets.one(self.layout)

    @property
    def kinds(self) -> np.ndarray:
        """The number of the bucket that each sequence is in."""
        return self._buckets.kinds

    def steps(self, rows: Sequence[np.ndarray]) -> int:
        """How many steps batches go through that run side by side."""
        return self._buckets.steps[max(int(self.kinds[r].max()) for r in rows)]

    def rows(self, index: np.ndarray, update: int, steps: int | None = None) -> Batch:
        """Some sequences for an update, as `read` takes them."""
        steps = steps or self.steps([index])
        if self.coded is not None:
            return Batch({n: v[index] for n, v in self.arrays.items()}, np.int32(update), steps)
        timed = jax.tree.map(lambda x: x[:steps, index], self.arrays["timed"])
        static = jax.tree.map(lambda x: x[index], self.arrays["static"])
        arrays = {"timed": timed, "static": static, "last": self.arrays["last"][index]}
        return Batch(arrays, {n: v[index] for n, v in self.labels.items()}, steps)

    def read(self, batch: Batch) -> tuple[Any, Any]:
        """Numbers and labels, inside compiled code."""
        given = batch.arrays, batch.labels
        return given if self.coded is None else self.coded(*given)


def load(
    model: Model,
    data: Mapping[str, Any],
    terms: Sequence[Term],
    steps: int | None = None,
    transform: Transform | None = None,
) -> Data:
    """Split a dictionary of arrays into what the program reads and the labels."""
    if not isinstance(data, Mapping):
        raise DataError(
            f"data: expected a dictionary of arrays by name, received {type(data).__name__}"
        )
    names = {n for t in terms for n in t.label_names}
    if transform is not None:
        return _raw(model, data, names, steps, transform)
    labels = {}
    for name in names:
        if name not in data:
            raise NesymmError(f"the labels {name} are not given (given: {', '.join(data)})")
        truth = any(isinstance(t, QueryLoss | Accuracy) and t.labels == name for t in terms)
        labels[name] = read_labels(name, data[name], truth)
    layout = prepare(model.step, {n: v for n, v in data.items() if n not in names}, steps)
    for name, label in labels.items():
        if label.shape != (layout.batch,):
            raise NesymmError(
                f"labels {name}: expected shape ({layout.batch},), received {label.shape}"
            )
    return Data(layout, to_arrays(layout), labels)


def _raw(
    model: Model,
    data: Mapping[str, Any],
    names: set[str],
    steps: int | None,
    transform: Transform,
) -> Data:
    """Arrays of which only those of a batch become what the program reads."""
    arrays = {n: np.asarray(v) for n, v in data.items()}
    lengths = {n: len(a) if a.ndim else 0 for n, a in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        shown = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
        raise DataError(f"data: expected arrays with one leading batch axis, received {shown}")

    def prepared(raw: Mapping[str, Any], update: Any) -> tuple[Sequences, dict[str, Any]]:
        found = transform(raw, update)
        if not isinstance(found, Mapping):
            raise NesymmError(
                "transform: expected a function that returns a dictionary of arrays by name, "
                f"received {type(found).__name__}"
            )
        if missing := names - found.keys():
            raise NesymmError(f"transform: it gives no labels {', '.join(sorted(missing))}")
        rest = {n: v for n, v in found.items() if n not in names}
        labels = {n: jnp.asarray(found[n], float) for n in names}
        return prepare(model.step, rest, steps, traced=True), labels

    def coded(raw: Mapping[str, Any], update: Any) -> tuple[Any, Any]:
        sequences, labels = prepared(raw, update)
        return to_arrays(sequences), labels

    found: list[Sequences] = []
    jax.eval_shape(lambda *a: found.append(prepared(*a)[0].layout()), arrays, np.int32(0))
    (layout,) = found
    return Data(layout, arrays, {}, coded)


@dataclass(frozen=True)
class Options:
    """What `fit` and `fit_many` are asked for: their parameters, which `fit` explains."""

    objective: Objective | Sequence[Objective] | None
    metrics: Mapping[str, Term] | None
    method: Method | str
    optimizer: optax.GradientTransformation | None
    epochs: int
    batch_size: int
    validation: AnyData | None
    patience: int | None
    clip: float | None
    average: float
    steps: int | None
    transform: Transform | None
    debias: bool
    progress: bool
    checkpoints: str | Path | None
    every: int | None
    keep: int
    resume: bool

    def __post_init__(self) -> None:
        check_training(
            epochs=self.epochs, batch_size=self.batch_size, patience=self.patience, clip=self.clip,
            average=self.average, every=self.every, keep=self.keep,
        )  # fmt: skip
        if self.patience is not None and self.validation is None:
            raise NesymmError("patience: needs `validation` data, whose loss it watches")
        if self.average and self.validation is not None:
            raise NesymmError(
                "average: with validation data the best epoch is returned, not a mean"
            )
        if self.checkpoints is None:
            for name, given in (("every", self.every is not None), ("resume", self.resume)):
                if given:
                    raise NesymmError(f"{name}: needs `checkpoints`, the folder that they are in")


@dataclass(frozen=True)
class Plan:
    """What is to be done, from the options of `fit`."""

    terms: tuple[Objective, ...]
    metrics: Mapping[str, Term]
    tool: optax.GradientTransformation
    batch_size: int
    # What the user gave, and how it was read.
    data: Mapping[str, Any]
    transform: Transform | None
    steps: int | None
    training: Data
    held_out: Data | None
    # Whether the loss of the data held out says anything.
    judged: bool

    @property
    def batches(self) -> int:
        return self.training.size // self.batch_size


def make_plan(model: Model, data: AnyData, options: Options) -> Plan:
    terms = _terms(options.objective)
    metrics = dict(options.metrics or {})
    for name in ("epoch", "loss", "validation"):
        if name in metrics:
            raise NesymmError(f"a metric cannot be called {name}: the history has a column for it")

    def arrays(given: AnyData) -> Any:
        # A program may read an array that is a label as well.
        names = {n: False for t in (*terms, *metrics.values()) for n in t.label_names}
        return given if options.transform is not None else arrays_of(model.step, given, names)

    def loaded(given: Mapping[str, Any]) -> Data:
        read = (*terms, *metrics.values())
        return load(model, given, read, options.steps, options.transform)

    optimizer = _optimizer(options.optimizer)
    data = arrays(data)
    training = loaded(data)
    held_out = None if options.validation is None else loaded(arrays(options.validation))
    judged = held_out is not None and _informs(held_out, terms, model)
    if not _informs(training, terms, model):
        _warn_of_no_evidence()
    elif held_out is not None and not judged:
        _warn_of_no_judgement()
    batch_size = min(options.batch_size, training.size)
    chain = [optax.clip_by_global_norm(options.clip)] if options.clip is not None else []
    tool = optax.chain(*chain, optimizer)
    if options.average:
        updates = options.epochs * (training.size // batch_size)
        tool = averaged(tool, round((1 - options.average) * updates))
    return Plan(
        terms, metrics, tool, batch_size, data, options.transform, options.steps, training,
        held_out, judged,
    )  # fmt: skip


def _optimizer(given: optax.GradientTransformation | None) -> optax.GradientTransformation:
    if given is None:
        return optax.adam(1e-2)
    if not callable(getattr(given, "update", None)):
        raise NesymmError(
            "optimizer: expected an optimiser of Optax, such as `optax.adam(0.01)`, received "
            f"{given!r}"
        )
    return given


def _terms(objective: Objective | Sequence[Objective] | None) -> tuple[Objective, ...]:
    if objective is None:
        return (LogEvidence(),)
    several = isinstance(objective, Sequence) and not isinstance(objective, str)
    terms: tuple[Any, ...] = tuple(objective) if several else (objective,)  # type: ignore[arg-type]
    for term in terms:
        if not isinstance(term, Objective):
            raise NesymmError(
                "objective: expected LogEvidence(), ELBO(), QueryLoss(query, labels) or several of "
                f"them, received {term!r}"
            )
    if not terms:
        raise NesymmError("objective: expected at least one term, received none")
    return terms


def _informs(data: Data, terms: Sequence[Objective], model: Model) -> bool:
    """Whether any term has something to say: an observation or a label with an entry."""
    return any(t.weight and _reads(t, data, model) for t in terms)


def _reads(term: Objective, data: Data, model: Model) -> bool:
    if isinstance(term, QueryLoss):
        return data.coded is not None or not np.isnan(data.labels[term.labels]).all()
    fixed = any(o.value is not None for o in model.step.observations)
    return fixed or any(_has_entry(data.layout, n) for n in data.layout.observed)


def _has_entry(layout: Sequences, name: str) -> bool:
    if name not in layout.masks:
        return True
    mask = layout.masks[name]  # true after the end, too
    own = np.arange(layout.steps)[:, None] <= layout.last
    return bool(mask[own].any() if name in layout.timed else mask.any())


def _warn_of_no_evidence() -> None:
    warn(
        NesymmWarning(
            "nothing to learn from",
            "the data have no entry for any observation of the program or label of the objective",
            "the loss is the same whatever the parameters are",
            "give arrays under the names that the program observes (`observe(…)`), or labels and a "
            "`QueryLoss`; a term with weight 0 does not count",
        )
    )


def _warn_of_no_judgement() -> None:
    warn(
        NesymmWarning(
            "nothing to validate by",
            "the validation data have no entry for any observation or label",
            "their loss says nothing, so it is left out: the last epoch is returned, and training "
            "does not stop early",
            "give in `validation` what `data` have, for other sequences; or leave it out",
        )
    )


def method_for(terms: Sequence[Objective], method: Method | str) -> Method | str:
    """The ELBO is a bound for one particle, or one draw of what exact inference cannot sum."""
    if not any(isinstance(t, ELBO) for t in terms):
        return method
    if method == "auto" or isinstance(method, Auto):
        return RaoBlackwellised(particles=1)
    if isinstance(method, RaoBlackwellised | Bootstrap) and method.particles == 1:
        return method
    if isinstance(method, ExactForward) and method.draws == 1:
        return method
    raise NesymmError(
        f"method: the ELBO needs one particle, received {method}\n"
        "  = help: `method=RaoBlackwellised(particles=1)` or `ExactForward(draws=1)`; with more "
        "particles, `LogEvidence()` is the importance-weighted bound"
    )
