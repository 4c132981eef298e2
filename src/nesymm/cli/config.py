"""What `nesymm train` reads: a program, its networks, data, objectives and how to train.

Paths are relative to the file. `docs/tutorial.md` shows one, `nesymm train --help` all keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesymm.cli.networks import read_specification
from nesymm.cli.toml_tables import REQUIRED, Table, TomlFile
from nesymm.inference.options import TRAINING

METHODS = ("auto", "exact", "rao-blackwellised", "bootstrap", "paper")
SCHEDULES = ("constant", "linear", "cosine")
OBJECTIVES = ("log-evidence", "query")


@dataclass(frozen=True)
class Optimizer:
    """An optimiser of Optax by its name; `schedule` is how the learning rate falls to zero."""

    name: str
    learning_rate: float
    schedule: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Term:
    """A term of the loss."""

    kind: str
    weight: float
    query: str | None
    labels: str | None


@dataclass(frozen=True)
class Config:
    """A configuration in which every key is known and of the right type."""

    programs: tuple[Path, ...]
    constants: Mapping[str, Any]
    networks: Mapping[str, Mapping[str, Any]]
    train: Path
    validation: Path | None
    terms: tuple[Term, ...]
    optimizer: Optimizer
    method: str
    particles: int | None
    epochs: int
    batch_size: int
    patience: int | None
    clip: float | None
    average: float
    steps: int | None
    seed: int
    out: Path
    checkpoints: Path | None
    every: int | None
    keep: int


def read_config(path: Path) -> Config:
    """Read a configuration; all its mistakes are reported at once."""
    file = TomlFile(path)
    root = file.root
    program = root.table("program", required=True)
    networks = root.table("networks")
    data = root.table("data", required=True)
    objectives = root.tables("objective")
    training = root.table("training")
    optimizer = training.table("optimizer")
    constants = program.table("constants")
    config = Config(
        programs=_programs(program),
        constants={
            name: constants.take(name, _CONSTANT, _is_constant) for name in constants.content
        },
        networks={name: read_specification(networks.table(name)) for name in networks.content},
        train=data.existing("train"),
        validation=data.existing("validation", None),
        terms=tuple(map(_term, objectives)) or (Term("log-evidence", 1.0, None, None),),
        optimizer=_optimizer(optimizer),
        method=training.choice("method", METHODS, "auto"),
        particles=training.integer("particles", None, least=1),
        epochs=training.option("epochs", TRAINING["epochs"], 10),
        batch_size=training.option("batch_size", TRAINING["batch_size"], 50),
        patience=training.option("patience", TRAINING["patience"], None),
        clip=training.option("clip", TRAINING["clip"], None),
        average=training.option("average", TRAINING["average"], 0.0),
        steps=training.integer("steps", None),
        seed=training.option("seed", TRAINING["seed"], 0),
        out=training.path("out", path.parent / f"{path.stem}-out"),
        checkpoints=training.path("checkpoints", None),
        every=training.option("every", TRAINING["every"], None),
        keep=training.option("keep", TRAINING["keep"], 3),
    )
    if config.patience is not None and "validation" not in data.content:
        training.wrong("patience", "needs [data] validation, whose loss it watches")
    if config.average and "validation" in data.content:
        training.wrong("average", "with [data] validation the best epoch is kept, not a mean")
    for table in (program, data, training, root):
        table.done()
    file.finish()
    return config


def _programs(program: Table) -> tuple[Path, ...]:
    first = program.existing("file")
    more = program.take(
        "extensions",
        "a list of files",
        lambda v: isinstance(v, list) and all(isinstance(f, str) and f for f in v),
        [],
    )
    found = [first]
    for name in more or []:
        path = program.file.path.parent / name
        if not path.is_file():
            program.wrong("extensions", f"expected files, but `{path}` does not exist")
        found.append(path)
    return tuple(found)


_CONSTANT = "a number, a text or a list of these"


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | str)


def _term(table: Table) -> Term:
    kind = table.choice("kind", OBJECTIVES)
    weight = table.number("weight", 1.0, above=0)
    asks = kind == "query"
    query = table.text("query") if asks else None
    labels = table.text("labels") if asks else None
    if kind is not None:
        table.done()
    return Term(kind, weight, query, labels)


def _optimizer(table: Table) -> Optimizer:
    """Further keys are options of the optimiser, such as weight_decay or momentum."""
    known = optimizers()
    name = table.choice("name", tuple(known), "adam")
    rate = table.number("learning_rate", 0.01, above=0)
    schedule = table.choice("schedule", SCHEDULES, "constant")
    options = {}
    if name is not None:
        for key, parameter in known[name].items():
            required = parameter.default is inspect.Parameter.empty
            value = table.take(
                key, "a number or true or false", _is_option, REQUIRED if required else None
            )
            if value is not None:
                options[key] = value
        table.done()
    return Optimizer(name, rate, schedule, options)


def _is_option(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def optimizers() -> dict[str, dict[str, inspect.Parameter]]:
    """The optimisers of Optax that have a learning rate, and their settings that are numbers."""
    import optax

    found = {}
    for name in sorted(dir(optax)):
        made = getattr(optax, name)
        # Those that search along a line need the loss itself, not its gradient alone.
        if name.startswith(("_", "scale_by")) or name == "lbfgs" or not inspect.isfunction(made):
            continue
        settings = inspect.signature(made).parameters
        if "learning_rate" in settings:
            found[name] = {n: p for n, p in settings.items() if _is_plain(n, p)}
    return found


def _is_plain(name: str, parameter: inspect.Parameter) -> bool:
    if name == "learning_rate" or "dtype" in name or "mask" in name:
        return False
    return parameter.default in (None, inspect.Parameter.empty) or _is_option(parameter.default)
