"""What `nesymm train` reads: a program, its networks, data, objectives and how to train.

Paths are relative to the file. `docs/tutorial.md` shows one, `nesymm train --help` all keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optax

from nesymm.cli.networks import read_specification
from nesymm.cli.toml_tables import POSITIVE, REQUIRED, TEXT, Table, TomlFile
from nesymm.inference.options import TRAINING, Rule, whole
from nesymm.training import LogEvidence, QueryLoss

METHODS = ("auto", "exact", "rao-blackwellised", "bootstrap", "paper")
SCHEDULES: Mapping[str, Callable[[float, int], Any]] = {
    "constant": lambda rate, steps: rate,
    "linear": lambda rate, steps: optax.linear_schedule(rate, 0.0, steps),
    "cosine": optax.cosine_decay_schedule,
}
OBJECTIVES = ("log-evidence", "query")
# The options that `fit` has under the same names, and what they are by default.
OPTIONS = {
    "epochs": 10,
    "batch_size": 50,
    "patience": None,
    "clip": None,
    "average": 0.0,
    "every": None,
    "keep": 3,
}


@dataclass(frozen=True)
class Config:
    """A configuration in which every key is known and of the right type.

    `optimizer` makes an optimizer for so many updates.
    """

    programs: tuple[Path, ...]
    constants: Mapping[str, Any]
    networks: Mapping[str, Mapping[str, Any]]
    train: Path
    validation: Path | None
    terms: tuple[LogEvidence | QueryLoss, ...]
    optimizer: Callable[[int], optax.GradientTransformation]
    method: str
    particles: int | None
    options: Mapping[str, Any]
    seed: int
    out: Path
    checkpoints: Path | None


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
        constants={name: constants.take(name, _CONSTANT) for name in constants.content},
        networks={name: read_specification(networks.table(name)) for name in networks.content},
        train=data.existing("train"),
        validation=data.existing("validation", None),
        terms=tuple(map(_term, objectives)) or (LogEvidence(),),
        optimizer=_optimizer(optimizer),
        method=training.choice("method", METHODS, "auto"),
        particles=training.take("particles", whole(1), None),
        options={
            **{name: training.take(name, TRAINING[name], usual) for name, usual in OPTIONS.items()},
            "steps": training.take("steps", whole(0), None),
        },
        seed=training.take("seed", TRAINING["seed"], 0),
        out=training.path("out", path.parent / f"{path.stem}-out"),
        checkpoints=training.path("checkpoints", None),
    )
    if config.options["patience"] is not None and "validation" not in data.content:
        training.wrong("patience", "needs [data] validation, whose loss it watches")
    if config.options["average"] and "validation" in data.content:
        training.wrong("average", "with [data] validation the best epoch is kept, not a mean")
    for table in (program, data, training, root):
        table.done()
    file.finish()
    return config


_FILES = Rule(
    "a list of files",
    lambda v: isinstance(v, list) and all(isinstance(f, str) and f for f in v),
)


def _programs(program: Table) -> tuple[Path, ...]:
    found = [program.existing("file")]
    for name in program.take("extensions", _FILES, []) or []:
        path = program.file.path.parent / name
        if not path.is_file():
            program.wrong("extensions", f"expected files, but `{path}` does not exist")
        found.append(path)
    return tuple(found)


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | str)


_CONSTANT = Rule("a number, a text or a list of these", _is_constant)


def _term(table: Table) -> LogEvidence | QueryLoss:
    kind = table.choice("kind", OBJECTIVES)
    weight = table.number("weight", 1.0, POSITIVE)
    term: LogEvidence | QueryLoss = LogEvidence(weight)
    if kind == "query":
        term = QueryLoss(table.take("query", TEXT), table.take("labels", TEXT), weight)
    if kind is not None:
        table.done()
    return term


def _is_setting(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _optimizer(table: Table) -> Callable[[int], optax.GradientTransformation]:
    """Further keys are options of the optimiser, such as weight_decay or momentum."""
    known = optimizers()
    name = table.choice("name", tuple(known), "adam")
    rate = table.number("learning_rate", 0.01, POSITIVE)
    schedule = table.choice("schedule", tuple(SCHEDULES), "constant")
    options = {}
    if name is not None:
        rule = Rule("a number or true or false", _is_setting)
        for key, parameter in known[name].items():
            required = parameter.default is inspect.Parameter.empty
            value = table.take(key, rule, REQUIRED if required else None)
            if value is not None:
                options[key] = value
        table.done()

    def made(steps: int) -> optax.GradientTransformation:
        falling = SCHEDULES[schedule](rate, steps)
        return getattr(optax, name)(learning_rate=falling, **options)

    return made


def optimizers() -> dict[str, dict[str, inspect.Parameter]]:
    """The optimisers of Optax that have a learning rate, and their settings that are numbers."""
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
    return parameter.default in (None, inspect.Parameter.empty) or _is_setting(parameter.default)
