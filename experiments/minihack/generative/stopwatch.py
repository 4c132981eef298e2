"""How long something takes, and how much of that JAX spends on compiling."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

COMPILING = "/jax/core/compile/"  # tracing, lowering, compiling: JAX reports each by itself


@dataclass(frozen=True)
class Took:
    """Seconds in all, and those of them that went into compiling."""

    seconds: float
    compiling: float


def clock(work: Callable[[], Any]) -> Took:
    """Does the work once."""
    reported: list[float] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith(COMPILING):
            reported.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        begun = time.perf_counter()
        work()
        return Took(time.perf_counter() - begun, sum(reported))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
