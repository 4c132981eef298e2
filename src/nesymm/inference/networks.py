"""Networks are code of the user: they are checked when they are given, and when they are called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from traceback import extract_tb
from typing import Any

from nesymm.errors import NesymmError


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
        if not callable(network):
            raise NesymmError(f"the network {name}: expected a function, received {network!r:.80}")


def call(xp: Any, name: str, network: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a network gives, as an array; errors say its name and what it was called with."""
    import jax

    try:
        result = network(*args)
        array = None if result is None else xp.asarray(result)
    except NesymmError:
        raise
    except Exception as error:  # it can go wrong in any way
        traced = isinstance(error, jax.errors.JAXTypeError)
        help_ = "\n  = help: JAX traces networks; compute with jax.numpy alone" if traced else ""
        raise NesymmError(
            f"the network {name} failed: {_told(error)}\n  = note: {_called(args)}{help_}"
        ) from error
    real = any(
        array is not None and jax.numpy.issubdtype(array.dtype, kind)
        for kind in (jax.numpy.floating, jax.numpy.integer, jax.numpy.bool_)
    )
    if not real:
        received = type(result).__name__ if array is None else f"{array.dtype}"
        raise NesymmError(
            f"the network {name}: expected an array of real numbers, received {received}"
            f"\n  = note: {_called(args)}"
        )
    return array


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
