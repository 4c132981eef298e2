"""`nesymm train`: from a configuration to a model file."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import typer

from nesymm import files
from nesymm.cli.answers import refuse_unbound
from nesymm.cli.config import Config, read_config
from nesymm.cli.data import read_data
from nesymm.cli.history import draw_losses, plain, write_history
from nesymm.cli.networks import build_networks
from nesymm.cli.output import print_json, reporting
from nesymm.cli.reading import read_programs
from nesymm.cli.sequences import refuse_unfit
from nesymm.errors import NesymmError
from nesymm.inference.columns import DataError
from nesymm.inference.methods import parse_method
from nesymm.model import Model, compile
from nesymm.training import Fitted, QueryLoss, TrainingError, fit
from nesymm.training.checkpoints import make_folder

INTERRUPTED = 130
FAILED = 3


def train(path: Path, resume: bool, seed: int | None, out: Path | None, json: bool) -> None:
    with reporting(json):
        config = _settled(read_config(path), seed, out)
        # Networks of the user are looked for beside the configuration.
        sys.path.insert(0, str(path.parent.resolve()))
        run = _Run(config, path)
        run.refuse_earlier(resume)
        try:
            fitted = run.fit(resume, progress=not json)
        except KeyboardInterrupt:
            typer.echo(f"\ninterrupted; {run.how_to_resume(seed, out)}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except TrainingError as error:
            run.keep_last_good(error)
            typer.echo(f"error: {error}\nthe numbers before it are in {run.last_good}", err=True)
            raise typer.Exit(FAILED) from None
        run.write(fitted)
        if json:
            print_json(run.summary(fitted))
        else:
            typer.echo(run.words(fitted))


def _settled(config: Config, seed: int | None, out: Path | None) -> Config:
    """The command line goes before the file."""
    config = replace(config, out=config.out if out is None else out)
    checkpoints = config.checkpoints
    if checkpoints is None or out is not None:
        checkpoints = config.out / "checkpoints"
    return replace(config, seed=config.seed if seed is None else seed, checkpoints=checkpoints)


class _Run:
    """One training run and its files."""

    def __init__(self, config: Config, path: Path):
        assert config.checkpoints is not None
        self.config = config
        self.path = path
        self.checkpoints = config.checkpoints
        self.model_file = config.out / "model.safetensors"
        self.last_good = config.out / "last-good.safetensors"
        model = compile(read_programs(config.programs), constants=config.constants)
        networks = build_networks(config.networks, model.program.networks, config.seed)
        self.model = replace(model, networks=networks)
        _refuse_without_section(self.model, path)
        self.method = parse_method(config.method, config.particles)
        self.terms = config.terms
        self.data = self._read(config.train)
        self.validation = None if config.validation is None else self._read(config.validation)
        self._try()

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        names = {n: False for term in self.terms for n in term.label_names}
        arrays, labels = read_data(self.model, path, names)
        refuse_unfit(self.model, arrays, path)
        return {**arrays, **labels}

    def _try(self) -> None:
        """Compute the loss once, without numbers: a network of a wrong size or a query that the
        program does not ask are clear messages then."""
        labels = {n for term in self.terms for n in term.label_names}
        first = {n: a[:1] for n, a in self.data.items() if n not in labels}

        def losses() -> Any:
            found = self.model.estimate(
                first, method=self.method, steps=self.config.options["steps"]
            )
            asked = [t.query for t in self.terms if isinstance(t, QueryLoss)]
            return found.log_evidence, [found.probability(query) for query in asked]

        try:
            jax.eval_shape(losses)
        except DataError as error:
            raise DataError(f"`{self.config.train}`: {error}") from None

    # ------------------------------------------------------------ training

    def fit(self, resume: bool, progress: bool) -> Fitted:
        config = self.config
        make_folder(self.config.out)
        return fit(
            self.model,
            self.data,
            objective=self.terms,
            method=self.method,
            optimizer=config.optimizer(config.options["epochs"] * self._batches()),
            validation=self.validation,
            key=config.seed,
            progress=progress,
            checkpoints=self.checkpoints,
            resume=resume,
            **config.options,
        )

    def _batches(self) -> int:
        size = len(next(iter(self.data.values())))
        return max(1, size // min(size, self.config.options["batch_size"]))

    # ------------------------------------------------------------ earlier runs

    def _epochs_kept(self) -> list[int]:
        files = self.checkpoints.glob("epoch-*.safetensors")
        return sorted(int(file.stem.split("-")[1]) for file in files)

    def refuse_earlier(self, resume: bool) -> None:
        """Two runs in one folder would take each other's checkpoints."""
        kept = self._epochs_kept()
        if resume and not kept:
            typer.echo(f"no checkpoints in {self.checkpoints} yet: starting afresh", err=True)
        if kept and not resume:
            raise NesymmError(
                f"`{self.checkpoints}` has checkpoints of an earlier run, up to epoch {kept[-1]}\n"
                "  = help: resume it by `--resume`, or name another folder: `--out DIR`"
            )

    def how_to_resume(self, seed: int | None, out: Path | None) -> str:
        kept = self._epochs_kept()
        if not kept:
            return "no epoch was finished, so nothing is kept"
        command = ["nesymm", "train", str(self.path), "--resume"]
        command += [] if seed is None else ["--seed", str(seed)]
        command += [] if out is None else ["--out", str(out)]
        return f"{kept[-1]} epochs are kept; resume with: {shlex.join(command)}"

    # ------------------------------------------------------------ what is written

    def write(self, fitted: Fitted) -> None:
        files.write(fitted.model, self.config.networks, self.model_file)
        write_history(fitted.history, self.config.out)
        draw_losses(fitted.history, self.path.stem).savefig(self.config.out / "loss.png")

    def keep_last_good(self, error: TrainingError) -> None:
        files.write(error.model, self.config.networks, self.last_good)
        write_history(error.history, self.config.out)

    def summary(self, fitted: Fitted) -> dict[str, Any]:
        return {
            "model": str(self.model_file),
            "stopped": fitted.stopped,
            "seed": self.config.seed,
            "parameters": {n: np.asarray(v).tolist() for n, v in fitted.model.parameters.items()},
            "history": plain(fitted.history),
        }

    def words(self, fitted: Fitted) -> str:
        rows = fitted.history
        summary = f"{len(rows)} epochs ({fitted.stopped}): loss {rows[0]['loss']:.4f}"
        summary += f" at first, {rows[-1]['loss']:.4f} at the end"
        scores = [row["validation"] for row in rows if "validation" in row]
        if scores:
            summary += f"; best validation loss {min(scores):.4f}"
        return f"{summary}\nwrote {self.model_file}, history.csv, history.json and loss.png"


def _refuse_without_section(model: Model, path: Path) -> None:
    try:
        refuse_unbound(model)
    except NesymmError as error:
        first = str(error).splitlines()[0]
        raise NesymmError(
            f"`{path}`: {first}\n  = help: add a section [networks.NAME] for each"
        ) from None
