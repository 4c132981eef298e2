"""Relational neurosymbolic Markov models: rules and networks over time.

`compile` makes a `Model` of a program. A model filters, smooths, draws trajectories, generates,
learns (`fit`) and explains; `save` and `load` keep it in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nesymm.xla import avoid_crashing_fusions

if TYPE_CHECKING:
    from nesymm.errors import NesymmError, NesymmWarning, ProgramError
    from nesymm.files import load, save
    from nesymm.inference.columns import DataError
    from nesymm.inference.densities import Density, add_family
    from nesymm.inference.methods import Auto, Bootstrap, ExactForward, Method, RaoBlackwellised
    from nesymm.inference.results import Filtered, FilterError, Smoothed
    from nesymm.inference.static.posterior import Posterior
    from nesymm.inference.static.solver import Forbidden, Impossible, Intractable
    from nesymm.inference.stream import Stream
    from nesymm.inference.trajectories import Trajectories
    from nesymm.language.families import Family, Numbers
    from nesymm.model import Model, compile
    from nesymm.plots import plot
    from nesymm.training.checkpoints import CheckpointError
    from nesymm.training.fit import fit, fit_many
    from nesymm.training.networks import MLP, ConvDecoder, ConvEncoder, Function
    from nesymm.training.objectives import ELBO, Accuracy, LogEvidence, QueryLoss
    from nesymm.training.results import Fitted, TrainingError

avoid_crashing_fusions()

__version__ = "0.1.0"

# Loaded when first used, so that `import nesymm` is quick and imports neither JAX nor Lark.
_HOMES = {
    "nesymm.errors": ("NesymmError", "NesymmWarning", "ProgramError"),
    "nesymm.files": ("load", "save"),
    "nesymm.inference.columns": ("DataError",),
    "nesymm.inference.densities": ("Density", "add_family"),
    "nesymm.inference.methods": ("Auto", "Bootstrap", "ExactForward", "Method", "RaoBlackwellised"),
    "nesymm.inference.results": ("FilterError", "Filtered", "Smoothed"),
    "nesymm.inference.static.posterior": ("Posterior",),
    "nesymm.inference.static.solver": ("Forbidden", "Impossible", "Intractable"),
    "nesymm.inference.stream": ("Stream",),
    "nesymm.inference.trajectories": ("Trajectories",),
    "nesymm.language.families": ("Family", "Numbers"),
    "nesymm.model": ("Model", "compile"),
    "nesymm.plots": ("plot",),
    "nesymm.training.checkpoints": ("CheckpointError",),
    "nesymm.training.fit": ("fit", "fit_many"),
    "nesymm.training.results": ("Fitted", "TrainingError"),
    "nesymm.training.networks": ("MLP", "ConvDecoder", "ConvEncoder", "Function"),
    "nesymm.training.objectives": ("ELBO", "Accuracy", "LogEvidence", "QueryLoss"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 (by what one meets first)
    "compile", "Model",
    "Auto", "ExactForward", "RaoBlackwellised", "Bootstrap", "Method",
    "Posterior", "Filtered", "Smoothed", "Trajectories", "Stream", "plot",
    "fit", "fit_many", "Fitted", "LogEvidence", "QueryLoss", "ELBO", "Accuracy",
    "MLP", "ConvEncoder", "ConvDecoder", "Function",
    "save", "load",
    "add_family", "Family", "Numbers", "Density",
    "NesymmError", "ProgramError", "DataError", "FilterError", "Impossible", "Forbidden",
    "Intractable", "TrainingError", "CheckpointError", "NesymmWarning",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nesymm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
