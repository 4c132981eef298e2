"""Relational neurosymbolic Markov models: rules and networks over time."""

from __future__ import annotations

from typing import Any

from nesymm.xla import avoid_crashing_fusions

avoid_crashing_fusions()

__version__ = "0.1.0"
__all__ = ["Function", "Model", "NesymmError", "ProgramError", "compile"]

# Loaded when first used, so that `import nesymm` is quick and imports neither JAX nor Lark.
_HOMES = {
    "compile": "nesymm.model",
    "Model": "nesymm.model",
    "Function": "nesymm.training.networks",
    "NesymmError": "nesymm.errors",
    "ProgramError": "nesymm.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'nesymm' has no attribute {name!r}")
