"""What the processes of the fuzzer do: judge a program, shrink a failure."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CASE_SECONDS = 60
PROGRAMS_PER_CACHE = 10
SHRINK_SECONDS = 60
SHRINK_CASE_SECONDS = 20


def prepare() -> None:
    """Once per process: NumPy runs what JAX traces."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpy_backend

    numpy_backend.install()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises `Timeout` after so many seconds of computing, however busy the machine is.

    It comes again, since callbacks swallow it."""

    def stop(*_: Any) -> None:
        from differential.routes import Timeout

        raise Timeout

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def one(seed: int, routes_wanted: tuple[str, ...]) -> dict[str, Any]:
    """Generates a program and judges it."""
    import jax

    from differential import generator, routes

    if seed % PROGRAMS_PER_CACHE == 0:
        jax.clear_caches()  # Traces are kept, and take gigabytes after a few hundred programs.
    case = generator.generate(seed)
    wanted = routes.names_for(case)
    if routes_wanted and case.timed:
        wanted = list(routes_wanted)
    try:
        with at_most(CASE_SECONDS):
            verdicts = routes.assess(case, wanted)
        with at_most(5 * CASE_SECONDS):
            verdicts = [_confirmed(case, v) for v in verdicts]
    except routes.Timeout:
        verdicts = [routes.Verdict("process", "crashed", "took too long")]
    return {
        "seed": seed,
        "features": case.features,
        "verdicts": [(v.route, v.kind, v.text, routes.signature(v)) for v in verdicts],
    }


# How often each kind of failure was confirmed by XLA in this process: that is slow.
_confirmations: Counter[tuple[str, ...]] = Counter()


def _confirmed(case: Any, verdict: Any) -> Any:
    from differential import routes

    if verdict.bad:
        mark = routes.signature(verdict)
        _confirmations[mark] += 1
        if _confirmations[mark] <= 3:
            return routes.confirmed(case, verdict)
    return verdict


def smaller(seed: int, route: str, mark: tuple[str, ...]) -> dict[str, Any]:
    """Shrinks a failure, then has it confirmed by the real compiler."""
    import numpy_backend

    from differential import generator, reference, routes
    from differential.shrink import shrink

    def fails(case: Any) -> Any:
        if not case.statements:
            return None
        try:
            with at_most(SHRINK_CASE_SECONDS):
                for verdict in routes.assess(case, [route]):
                    if routes.signature(verdict) == mark:
                        return verdict
        except (Exception, routes.Timeout):
            return None
        return None

    case = shrink(generator.generate(seed), lambda c: fails(c) is not None, SHRINK_SECONDS)
    verdict = fails(case)
    confirmed = "not tried"
    if verdict is not None and verdict.bad:
        with numpy_backend.compiled():
            again = [v for v in routes.assess(case, [route]) if v.bad]
            confirmed = again[0].text if again else "no: XLA agrees with the oracle"
    return {
        "seed": seed, "case": str(case), "text": verdict.text if verdict else "(not again)",
        "confirmed": confirmed, "blame": reference.blame(case), "route": route, "mark": mark,
        "kind": verdict.kind if verdict else "",
    }  # fmt: skip
