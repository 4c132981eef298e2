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
from nesymm.ir.expr import leaves
from nesymm.model import Model

SAMPLES = 10_000


def answer(
    model: Model,
    method: str,
    samples: int | None,
    particles: int | None,
    seed: int,
    steps: int | None,
) -> dict[str, Any]:
    """The answers as JSON has them, and the `reason` for the method."""
    if model.step.temporal:
        from nesymm.cli.answers_over_time import answer_over_time

        if samples is not None:
            raise NesymmError(
                "`--samples` is for programs without time; this one has `--particles`"
            )
        refuse_unbound(model)
        return answer_over_time(model, method, particles, seed, steps)
    for option, value in (("--steps", steps), ("--particles", particles)):
        if value is not None:
            raise NesymmError(f"this program has no time, so `{option}` does not apply to it")
    missing = [o.name for o in model.step.observations if o.value is None]
    if missing:
        raise NesymmError(
            f"the program observes {', '.join(missing)} in data, and `nesymm query` reads none\n"
            f"  = help: fix the value in the program: `observe({missing[0]}, true).`"
        )
    refuse_unbound(model)
    posterior = model.infer(method=method, samples=samples or SAMPLES, key=seed)
    return {
        "queries": posterior.queries,
        "stderr": posterior.stderr,
        "log_evidence": posterior.log_evidence,
        "method": posterior.method,
        "reason": posterior.reason,
    }


def refuse_unbound(model: Model) -> None:
    """Every network that the program uses must be given."""
    used = {node.data[0] for node in leaves(model.step.roots(), "neural")}
    unbound = sorted(used - set(model.networks))
    if unbound:
        raise NesymmError(
            f"the networks {', '.join(unbound)} are not given\n"
            "  = help: name a Python object that maps their names to functions: "
            "`--networks module:object`"
        )


def load_networks(place: str | None) -> dict[str, Callable[..., Any]]:
    """The networks in the dictionary that `module:object` names."""
    if place is None:
        return {}
    found = load_object(place, f"`--networks {place}`")
    if not isinstance(found, Mapping) or not all(callable(f) for f in found.values()):
        raise NesymmError(
            f"`--networks {place}`: expected a dictionary from network names to functions, "
            f"received {type(found).__name__}"
        )
    return dict(found)


def load_object(place: str, where: str) -> Any:
    """The object that `module:object` names, found from the current folder too.

    `where` says in messages who asked for it.
    """
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise NesymmError(f"{where}: write module:object, for example nets:networks")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # the module is not ours, and can go wrong in any way
        raise NesymmError(f"{where}: {_what_went_wrong(error)}") from None
    if not hasattr(module, attribute):
        raise NesymmError(f"{where}: {module_name} has no object called {attribute}")
    return getattr(module, attribute)


def _what_went_wrong(error: Exception) -> str:
    """An error while a module is imported, with the line of the module where it arose."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)  # says where
    last = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def rows(result: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Queries and probabilities as text, with standard errors where they are estimates."""
    out = []
    for name, probability in sorted(result["queries"].items(), key=lambda q: _by_step(q[0])):
        text = f"{probability:.8g}"
        error = result["stderr"].get(name)
        if error is not None and not math.isnan(error):
            text += f" ± {error:.2g}"
        out.append((name, text))
    return out


def _by_step(name: str) -> tuple[str, int]:
    """`rain@10` comes after `rain@2`."""
    atom, _, step = name.rpartition("@")
    return (atom, int(step)) if atom and step.isdecimal() else (name, -1)
