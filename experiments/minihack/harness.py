"""Fits methods and scores them, all in the same way: one process for each method and seed.

A process of its own makes the peak memory that of one method.
"""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

from experiments.minihack import results
from experiments.minihack.data import load
from experiments.minihack.methods import Method, Program, Setting, Trained
from experiments.minihack.metrics import score
from experiments.minihack.thresholds import THRESHOLDS, death_rate, moved
from nesymm import NesymmError

WEIGHTS = Path(__file__).parent / "weights"

# By name: where the class is, and what it is made with.
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nesymm": ("experiments.minihack.rules", "Rules", {}),
    "nesymm-exact": ("experiments.minihack.rules", "ExactRules", {}),
    "transformer": ("experiments.minihack.transformer", "Transformer", {}),
    "transformer-weighted": (
        "experiments.minihack.transformer",
        "Transformer",
        {"variant": "weighted"},
    ),
    "transformer-paper": (
        "experiments.minihack.transformer",
        "Transformer",
        {"variant": "paper"},
    ),
    "deep-hmm": ("experiments.minihack.deep_hmm", "DeepHMM", {}),
}
# These know how often agents die before they see one, and are scored with other thresholds too.
PROGRAMS = ("nesymm", "deep-hmm")


@dataclass(frozen=True)
class Job:
    """One method with one seed: what to do, and where to leave it."""

    method: str
    seed: int
    epochs: int | None = None
    parts: tuple[str, ...] = tuple(results.PARTS)
    folder: Path = results.FOLDER
    weights: Path = WEIGHTS
    progress: bool = True
    fit_on: str | None = None  # a kind of device; the default one answers then

    @property
    def command(self) -> str:
        epochs = f" --epochs {self.epochs}" if self.epochs is not None else ""
        fit_on = f" --fit-on {self.fit_on}" if self.fit_on is not None else ""
        return (
            "python -m experiments.minihack.discriminative run "
            f"--methods {self.method} --seeds {self.seed}{epochs}{fit_on}"
        )


def weights_beside(records: Path) -> Path:
    """Where weights go if nobody says it: what ships is not written over by other runs."""
    return WEIGHTS if records == results.FOLDER else records / "weights"


def make(name: str, epochs: int | None = None) -> Method:
    """A method by its name; `epochs` instead of its own number."""
    module, kind, options = METHODS[name]
    method = getattr(importlib.import_module(module), kind)(**options)
    if epochs is not None:
        if not is_dataclass(method) or "epochs" not in {f.name for f in fields(method)}:
            raise NesymmError(f"the method {name} has no number of epochs to set")
        if epochs < 1:
            raise NesymmError(f"expected at least one epoch, received {epochs}")
        method = replace(cast(Any, method), epochs=epochs)
    return cast(Method, method)


def run(job: Job) -> None:
    """Fits (or reads what was fitted before), scores what is not scored yet, writes the record.

    All scores of a record are of the same weights: where it is fitted again, all that was scored
    before is scored again.
    """
    method = make(job.method, job.epochs)
    before = results.seeds(job.method, job.folder).get(job.seed)
    path = job.weights / f"{job.method}-{job.seed}.safetensors"
    known: set[str] = set()
    if before is None:
        trained, record = fit(method, job, path)
    elif path.exists():
        trained, record, known = method.load(path), before, known_scores(job)
    else:
        trained, record = fit(method, job, path)
        scored = set(before["scores"])
        lost = [p for p in results.PARTS if scored & names_of(method, p)]
        job = replace(job, parts=tuple(dict.fromkeys((*job.parts, *lost))))
    for name, scores in evaluate(method, trained, job, known).items():
        results.add(name, job.seed, {**record, "scores": scores}, job.folder, keep=record is before)


def fit(method: Method, job: Job, path: Path) -> tuple[Trained, dict[str, Any]]:
    """Fits, keeps the weights, and says what it took."""
    import jax

    started = time.perf_counter()
    with placed(job.fit_on):
        trained = method.fit(load("N10T10E1train"), load("N10T10E1valid"), job.seed, job.progress)
    seconds = time.perf_counter() - started
    path.parent.mkdir(parents=True, exist_ok=True)
    trained.save(path)
    record = {
        "command": job.command,
        "fit_seconds": seconds,
        **memory(job.fit_on),
        "parameters": trained.parameters_count,
        "device": jax.devices(job.fit_on)[0].device_kind,
        "validation": [round(row["validation"], 5) for row in trained.history],
    }
    chance = getattr(trained, "hit_chance", None)
    return trained, record if chance is None else {**record, "hit_chance": chance}


def placed(kind: str | None) -> AbstractContextManager[Any]:
    """Where to compute: on a kind of device, in 32 bits, or as JAX would have it."""
    import jax

    places = ExitStack()
    if kind is not None:
        places.enter_context(jax.enable_x64(False))
        places.enter_context(jax.default_device(jax.devices(kind)[0]))
    return places


def evaluate(
    method: Method, trained: Trained, job: Job, known: set[str]
) -> dict[str, dict[str, Any]]:
    """The scores on every test set that the method can be used on, save the known ones.

    Those of a program are also given for other thresholds, and with the deaths that it expected.
    """
    import jax

    device = jax.devices()[0].device_kind
    found: dict[str, dict[str, Any]] = {name: {} for name in versions(job.method)}
    rates: dict[Setting, float] = {}
    for part in job.parts:
        for setting in settings_of(method, part):
            name = results.set_name(setting, part)
            if name in known:
                continue
            data = load(name)
            probabilities = trained.probabilities(data, job.seed)
            if job.method in PROGRAMS and setting not in rates:
                rates[setting] = death_rate(cast(Program, trained), setting)
            for version, way in versions(job.method).items():
                answers = moved(probabilities, rates[setting], way) if way else probabilities
                scores = score(answers, data.dead)
                expected = {"expected": rates[setting]} if setting in rates else {}
                found[version][name] = {**scores.to_json(), **expected, "device": device}
                if job.progress:
                    text = f"{scores.balanced_accuracy:.2f} %, F1 {scores.f1:.3f}"
                    print(f"{version}, seed {job.seed}, {name}: {text}", flush=True)
    return found


def versions(method: str) -> dict[str, float]:
    """The names a method's scores have, and how far the threshold is moved."""
    if method not in PROGRAMS:
        return {method: 0.0}
    return {f"{method}-{name}" if way else method: way for name, way in THRESHOLDS.items()}


def known_scores(job: Job) -> set[str]:
    """The data sets on record in all versions."""
    known = (results.scored(name, job.seed, job.folder) for name in versions(job.method))
    return set.intersection(*known)


def finished(job: Job) -> bool:
    """Whether all that is asked for is on record."""
    record = results.seeds(job.method, job.folder).get(job.seed)
    if record is None:
        return False
    epochs = record["command"].partition(" --epochs ")[2].split(" ")[0]  # empty: the method's own
    if epochs != str(job.epochs or ""):
        raise NesymmError(
            f"{job.method}, seed {job.seed} is on record with another number of epochs "
            f"({record['command']}); use another folder for --results"
        )
    method = make(job.method, job.epochs)
    wanted = set().union(*(names_of(method, part) for part in job.parts))
    return wanted <= known_scores(job)


def names_of(method: Method, part: str) -> set[str]:
    """The test sets of a part that a method can be used on."""
    return {results.set_name(setting, part) for setting in settings_of(method, part)}


def settings_of(method: Method, part: str) -> tuple[Setting, ...]:
    """The settings of a part that a method can be used on."""
    return tuple(setting for setting in results.settings_of(part) if method.takes(setting))


def memory(kind: str | None = None) -> dict[str, float]:
    """The most that was used so far, in megabytes: by this process, and on an accelerator."""
    import jax

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used = {"peak_memory_mb": peak / 2**20 if sys.platform == "darwin" else peak / 2**10}
    device = (jax.devices(kind)[0].memory_stats() or {}).get("peak_bytes_in_use")
    return used if device is None else {**used, "device_memory_mb": device / 2**20}


def run_all(jobs: Iterable[Job], tell: Callable[[str], None] = print) -> bool:
    """Runs what is not finished yet, each in its own process. True if all went well."""
    well = True
    context = multiprocessing.get_context("spawn")
    for job in jobs:
        if finished(job):
            tell(f"{job.method}, seed {job.seed}: finished before")
            continue
        process = context.Process(target=run, args=(job,))
        process.start()
        process.join()
        if process.exitcode:
            tell(f"{job.method}, seed {job.seed}: failed")
            well = False
    return well
