"""`nesymm query`: answer the queries of a program and print them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any

from nesymm.errors import NesymmError
from nesymm.language.terms import Program
from nesymm.model import compile


def answer(
    programs: list[Program],
    constants: Mapping[str, Any],
    networks: str | None,
    method: str,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """The answers as JSON has them, and the `reason` for the method."""
    model = compile(programs, constants=constants, networks=load_networks(networks))
    if model.step.temporal:
        raise NesymmError(
            "this program has time; `nesymm query` answers programs without time so far"
        )
    missing = [o.name for o in model.step.observations if o.value is None]
    if missing:
        raise NesymmError(
            f"the program observes {', '.join(missing)} in data, and `nesymm query` reads none\n"
            f"  = help: fix the value in the program: `observe({missing[0]}, true).`"
        )
    unbound = [n for n in _used_networks(model.step) if n not in model.networks]
    if unbound:
        raise NesymmError(
            f"the networks {', '.join(unbound)} are not given\n"
            "  = help: name a Python object that maps their names to functions: "
            "`--networks module:object`"
        )
    posterior = model.infer(method=method, samples=samples, seed=seed)
    return {
        "queries": posterior.queries,
        "stderr": posterior.stderr,
        "log_evidence": posterior.log_evidence,
        "method": posterior.method,
        "reason": posterior.reason,
    }


def _used_networks(step: Any) -> list[str]:
    from nesymm.compiler.expr import leaves

    return sorted({node.data[0] for node in leaves(step.roots(), "neural")})


def load_networks(place: str | None) -> dict[str, Callable[..., Any]]:
    """The object that `module:object` names, found from the current folder too."""
    if place is None:
        return {}
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise NesymmError(f"`--networks {place}`: write module:object, for example nets:networks")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # the module is not ours, and can go wrong in any way
        raise NesymmError(f"`--networks {place}`: {_what_went_wrong(error)}") from None
    if not hasattr(module, attribute):
        raise NesymmError(f"`--networks {place}`: {module_name} has no object called {attribute}")
    found = getattr(module, attribute)
    if not isinstance(found, Mapping) or not all(callable(f) for f in found.values()):
        raise NesymmError(
            f"`--networks {place}`: expected a dictionary from network names to functions, "
            f"received {type(found).__name__}"
        )
    return dict(found)


def _what_went_wrong(error: Exception) -> str:
    """An error while a module is imported, with the line of the module where it arose."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)  # says where
    last = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def rows(result: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Queries and probabilities as text, with standard errors where they are estimates."""
    out = []
    for name, probability in sorted(result["queries"].items()):
        text = f"{probability:.8g}"
        error = result["stderr"].get(name)
        if error is not None and not math.isnan(error):
            text += f" ± {error:.2g}"
        out.append((name, text))
    return out
