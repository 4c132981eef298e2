"""Networks are code of the user: they are checked when they are given, and when they are called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from traceback import extract_tb
from typing import Any

import numpy as np

from nesymm.errors import NesymmError, located
from nesymm.inference.arrays import xp as either
from nesymm.ir.step import Network, StepProgram

_NAN = (
    "look at its outputs: logarithms of negative numbers, 0 / 0 and too large a step of the "
    "optimizer give NaN"
)


def check_networks(declared: Collection[str], given: Mapping[str, Any]) -> None:
    """Refuse what is not a dictionary of functions for networks that the program declares."""
    if not isinstance(given, Mapping):
        raise NesymmError(
            f"networks: expected a dictionary of functions by name, received {type(given).__name__}"
        )
    for name, network in given.items():
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise NesymmError(f"the program has no network {name} (it has: {known})")
        if isinstance(network, type):
            raise NesymmError(
                f"the network {name}: expected a function, received the class {network.__name__}\n"
                f"  = help: make a network of the class first: `{network.__name__}(…)`"
            )
        if not callable(network):
            raise NesymmError(f"the network {name}: expected a function, received {network!r:.80}")


class Networks(dict[str, Callable[..., Any]]):
    """The networks of a program by their names. Each gives an array of `xp` of the shape that is
    declared, or an error that says where the program calls it."""

    def __init__(self, step: StepProgram, given: Mapping[str, Any], xp: Any = either):
        self.declared = {n.name: n for n in step.networks}
        super().__init__({n: self._checked(n, f, xp) for n, f in given.items()})

    def __missing__(self, name: str) -> Callable[..., Any]:
        given = ", ".join(self) or "none"
        raise _refusal(
            self.declared.get(name, Network(name)),
            f"is not given (given: {given})",
            f"`nesymm.compile(…, networks={{{name!r}: f}})` or `model.with_networks({name}=f)`, "
            "where `f` is a function of one example",
        )

    def _checked(self, name: str, function: Callable[..., Any], xp: Any) -> Callable[..., Any]:
        import jax

        network = self.declared.get(name, Network(name))

        def call(*args: Any) -> Any:
            found = _array(network, function, args, xp)
            needed = network.outputs
            if needed is not None and math.prod(found.shape) != math.prod(needed):
                wanted = "x".join(map(str, needed)) or "1"
                raise _refusal(
                    network,
                    f"gave outputs of shape {found.shape}, {wanted} are needed",
                    "let it give as many numbers as the program declares or has values for them",
                )
            if isinstance(found, jax.core.Tracer):
                _refuse_constant_nan(network, function, args)
            return found

        return call


def _refusal(network: Network, what: str, cure: str, *notes: str) -> NesymmError:
    """The error of a network: where the program calls it, notes and a cure."""
    first, *others = network.calls or (None,)
    lines = [located(f"the network {network.name} {what}", first)]
    if others:
        also = ", ".join(str(span.line) for span in network.calls[1:])
        notes = (*notes, f"it is also called in line {also}")
    return NesymmError("\n".join([*lines, *(f"  = note: {n}" for n in notes), f"  = help: {cure}"]))


def gave_nan(step: StepProgram, name: str) -> tuple[str, str]:
    """The message about a network that gave NaN for some examples, and the details."""
    network = next((n for n in step.networks if n.name == name), Network(name))
    message, _, details = str(_refusal(network, "gave NaN", _NAN)).partition("\n")
    return message, details


def _array(network: Network, function: Callable[..., Any], args: tuple[Any, ...], xp: Any) -> Any:
    """What a network gives, as an array of real numbers."""
    import jax

    try:
        result = function(*args)
        array = None if result is None else xp.asarray(result)
    except NesymmError:
        raise
    except Exception as error:  # it can go wrong in any way
        cure = _cure(network, function, args, error)
        raise _refusal(network, f"failed: {_told(error)}", cure, _called(args)) from error
    kinds = (jax.numpy.floating, jax.numpy.integer, jax.numpy.bool_)
    if array is None or not any(jax.numpy.issubdtype(array.dtype, kind) for kind in kinds):
        received = type(result).__name__ if array is None else f"{array.dtype}"
        raise _refusal(
            network,
            f"gave {received}, an array of real numbers is needed",
            "let it return one array, of jax.numpy",
            _called(args),
        )
    return array


def _refuse_constant_nan(
    network: Network, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Refuse a function that gives NaN whatever it is given: compiled, what is computed from such
    a constant need not be NaN."""
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Literal

    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(function)):
        return  # It depends on its own numbers.
    traced = jax.make_jaxpr(function)(*args)
    if traced.effects:
        return  # It may count its calls.
    consts = zip(traced.jaxpr.constvars, traced.consts, strict=True)
    varying = {*traced.jaxpr.invars, *(v for v, c in consts if isinstance(c, jax.core.Tracer))}
    for equation in traced.eqns:
        if any(not isinstance(v, Literal) and v in varying for v in equation.invars):
            varying.update(equation.outvars)
    if any(not isinstance(v, Literal) and v in varying for v in traced.jaxpr.outvars):
        return
    with jax.ensure_compile_time_eval():
        found = function(*(jnp.zeros(a.shape, a.dtype) for a in args))
    if np.isnan(found).any():
        raise _refusal(network, "gives NaN, whatever it is given", _NAN)


def _cure(
    network: Network, function: Callable[..., Any], args: tuple[Any, ...], error: Exception
) -> str:
    import jax

    match error:
        case jax.errors.TracerArrayConversionError():
            return (
                "JAX traces networks, and NumPy cannot compute with what is traced: compute with "
                "jax.numpy alone"
            )
        case jax.errors.ConcretizationTypeError():
            return (
                "JAX traces networks, so that `if`, `while` and `int` cannot see their numbers: "
                "write `jnp.where(condition, a, b)` or `jax.lax.cond`, and compute with jax.numpy "
                "alone"
            )
        case jax.errors.JAXTypeError():
            return "JAX traces networks; compute with jax.numpy alone"
        case TypeError() if not _fits(function, args):
            return (
                f"the program calls it with {len(args)} argument{'' if len(args) == 1 else 's'}: "
                f"change the call or the function, which is `{_signature(function)}`"
            )
    return f"try it alone: `{network.name}(…)` on one example with these shapes"


def _signature(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__).replace("<lambda>", "f")
    return f"{name}({', '.join(inspect.signature(function).parameters)})"


def _fits(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether a function takes so many arguments, as far as is known."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _called(args: tuple[Any, ...]) -> str:
    shown = ", ".join(f"{a.dtype}{list(a.shape)}" for a in args) or "no arguments"
    return f"it was called with {shown}; it is a function of one example that gives an array"


def _told(error: Exception) -> str:
    """The kind of an error, its first line (JAX explains its errors at length), and its place."""
    message = next(iter(str(error).splitlines()), "")
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    # Of the places on the way to the error the first is our own, and the user's code is of more
    # interest than the library that it calls.
    places = extract_tb(error.__traceback__)[1:]
    own = [p for p in places if "site-packages" not in p.filename] or places
    return text + (f" ({own[-1].filename}, line {own[-1].lineno})" if own else "")
