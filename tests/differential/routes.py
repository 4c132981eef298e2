"""Each way to answer a case, and whether its answers are right."""

from __future__ import annotations

import math
import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import numpy_backend

import nesymm
from differential import keyed, oracle, unrolled
from differential import syntax as s
from differential.values import INFINITE, Unsupported
from differential.worlds import Conflict, TooManyWorlds
from nesymm.errors import NesymmError
from nesymm.inference.data import wanted
from nesymm.inference.methods import Auto, Bootstrap, ExactForward, RaoBlackwellised

TOLERANCE = 1e-6
TOLERANCE_32 = 1e-4


def tolerance() -> float:
    """How far numbers may be from the oracle's, with the bits that JAX has at present."""
    return TOLERANCE if jax.config.jax_enable_x64 else TOLERANCE_32


@dataclass(frozen=True)
class Verdict:
    """`kind` is agreed, refused, skipped (by the oracle), wrong or crashed; `text` says why."""

    route: str
    kind: str
    text: str = ""

    @property
    def bad(self) -> bool:
        return self.kind in ("wrong", "crashed")


class Timeout(BaseException):
    """The time for one case is over. No handler of errors may take it for one."""


class Wrong(Exception):
    """An answer that differs from the oracle's."""


# ---------------------------------------------------------------- data


def arrays(case: s.Case, model: Any, rows: Any = None) -> dict[str, Any]:
    """The data as the library wants them: one array per name, an axis for entities or not."""
    out: dict[str, Any] = {}
    expected = wanted(model.step)
    rows = range(len(case.lengths)) if rows is None else rows
    inputs = {x.name for x in case.statements if isinstance(x, s.Input)}
    observed = {
        x.atom.name: x for x in case.statements if isinstance(x, s.Observe) and x.value is None
    }
    for name, values in case.data.items():
        if name in inputs:
            out[name] = _array([values[b] for b in rows])
        elif name in observed:
            timed = observed[name].atom.when is not None
            own = {f"{name}({','.join(map(str, k))})" if k else name: v for k, v in values.items()}
            if any(label in expected for label in own):
                for label, series in own.items():
                    if label in expected:
                        out[label] = _array([series[b] for b in rows])
            else:
                axis = 2 if timed else 1
                parts = [_array([series[b] for b in rows]) for series in values.values()]
                if parts:
                    out[name] = np.stack(parts, axis=axis)
                else:
                    shape = (len(list(rows)), case.steps, 0) if timed else (len(list(rows)), 0)
                    out[name] = np.zeros(shape)
    return out


def _array(values: Any) -> np.ndarray:
    flat = np.array(values, dtype=object)
    present = [v for v in flat.ravel() if v is not None]
    if any(isinstance(v, str) for v in present):
        return flat
    return np.array([np.nan if v is None else float(v) for v in flat.ravel()], dtype=float).reshape(
        flat.shape
    )


def networks(case: s.Case, shifts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The networks of a case in JAX, the first output of each moved by a number."""
    import jax.numpy as jnp

    def function(net: s.Net) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            out = net.raw(jnp.asarray(x, float), (shifts or {}).get(net.name, 0.0))
            return jnp.stack(out) if net.outputs > 1 else out[0]

        return run

    return {n.name: function(n) for x in case.statements for n in s.nets(x)}


# ---------------------------------------------------------------- comparing


def near(found: float, right: float) -> bool:
    return math.isfinite(found) and abs(found - right) <= tolerance() * max(1.0, abs(right))


def check_series(
    what: str, found: Mapping[str, Any], right: Mapping[str, list[float]], b: int, steps: int
) -> None:
    for name in sorted({*right, *found}):
        row = found[name][b] if name in found else np.zeros(steps)
        expected = right.get(name)
        for t in range(steps):
            p = float(row[t])
            if expected is None:
                if not math.isnan(p) and abs(p) > tolerance():
                    raise Wrong(f"{what} {name}, sequence {b}, step {t}: {p:.6g} (expected 0)")
                continue
            q = expected[t]
            if math.isnan(q) or (name not in found and q <= tolerance()):
                continue
            if name not in found:
                p = 0.0
            if not near(p, q):
                raise Wrong(f"{what} {name}, sequence {b}, step {t}: {p:.6g} (expected {q:.6g})")


def check_final(found: Mapping[str, Any], right: Mapping[str, float], b: int) -> None:
    for name in sorted({*right, *found}):
        p = float(found[name][b]) if name in found else 0.0
        if name in right:
            if not near(p, right[name]):
                raise Wrong(f"{name}, sequence {b}: {p:.6g} (expected {right[name]:.6g})")
        elif not math.isnan(p) and abs(p) > tolerance():
            raise Wrong(f"{name}, sequence {b}: {p:.6g} (expected 0)")


def check_exact(case: s.Case, result: Any, expected: list[oracle.Expected]) -> None:
    failed = {f.sequence: f for f in result.failures}
    for b, right in enumerate(expected):
        if right.failed is not None:
            if b not in failed:
                raise Wrong(f"sequence {b} is impossible at step {right.failed}, and was answered")
            if failed[b].step != right.failed:
                raise Wrong(f"sequence {b} fails at {failed[b].step} (expected {right.failed})")
            continue
        if b in failed:
            raise Wrong(f"failed: {failed[b]} (expected log-evidence {right.log_evidence:.6g})")
        if not near(float(result.log_evidence[b]), right.log_evidence):
            raise Wrong(
                f"log-evidence of sequence {b}: {float(result.log_evidence[b]):.6g} "
                f"(expected {right.log_evidence:.6g})"
            )
        check_series("filtered", result.filtered, right.filtered, b, case.lengths[b])
        check_final(result.final, right.final, b)


# ---------------------------------------------------------------- routes


@dataclass
class Subject:
    """A case being judged: the compiled model and the right answers."""

    case: s.Case
    model: Any
    expected: list[oracle.Expected]
    # The facts of the program that are inputs of the model.
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    def arrays(self, rows: Any = None) -> dict[str, Any]:
        """The data as the model wants them."""
        if not self.given:
            return arrays(self.case, self.model, rows)
        data = keyed.with_entities(self.model, arrays(self.case, self.model), self.case)
        data |= self.given
        return data if rows is None else {n: a[np.asarray(rows)] for n, a in data.items()}

    @property
    def horizon(self) -> int:
        return self.case.steps - 1

    def options(self) -> dict[str, Any]:
        return {"steps": np.array(self.case.lengths)}

    @property
    def drawn_once(self) -> bool:
        """Whether a static variable has infinitely many values: exact forward draws it."""
        return any(
            isinstance(x, s.Draw) and x.family in INFINITE and x.atom.when is None
            for x in self.case.statements
        )


def exact(subject: Subject) -> None:
    if subject.drawn_once:
        particles(lambda n: ExactForward(draws=n))(subject)
        return
    data = subject.arrays()
    result = subject.model.filter(data, method=ExactForward(), errors="keep", **subject.options())
    check_exact(subject.case, result, subject.expected)


def facts_as_data(subject: Subject) -> None:
    """The facts of the program are inputs with keys, other ones in each sequence."""
    own = keyed.some_left_out(subject.case)
    expected = [oracle.expect_one(c, b) for b, c in enumerate(own)]
    whole = _keyed(subject, own, expected)
    if not subject.case.timed:
        static(whole, whole.given)
    elif subject.case.seed // 3 % 3 == 0:
        particles(lambda n: RaoBlackwellised(particles=n))(whole)
    elif subject.case.seed // 3 % 3 == 1:
        particles(lambda n: Bootstrap(particles=n))(whole)
    else:
        exact(whole)


def facts_as_data_otherwise(subject: Subject) -> None:
    """The facts of the program are inputs with keys: what other methods say of it stays."""
    if not subject.case.timed:
        return
    ways = (exact, smooth, stream, generate, gradients, trace)
    ways[subject.case.seed // 3 % len(ways)](_keyed(subject, None, subject.expected))


def _keyed(subject: Subject, own: list[s.Case] | None, expected: list[oracle.Expected]) -> Subject:
    case, given = keyed.as_data(subject.case, own)
    if not given:
        raise Unsupported("no facts")
    model = nesymm.compile(case.text, networks=networks(case))
    return Subject(subject.case, model, expected, given)


def auto(subject: Subject) -> None:
    data = subject.arrays()
    result = subject.model.filter(data, method=Auto(), errors="keep", **subject.options())
    if result.method.startswith("exact") and not subject.drawn_once:
        check_exact(subject.case, result, subject.expected)


def static(subject: Subject, more: Mapping[str, Any] = MappingProxyType({})) -> None:
    """`infer`, for programs without time."""
    case = subject.case
    for b, right in enumerate(subject.expected):
        given = {x.name: case.data[x.name][b] for x in case.statements if isinstance(x, s.Input)}
        given |= {name: array[b] for name, array in more.items()}
        try:
            found = subject.model.infer(given, samples=4000, key=1)
        except NesymmError as error:
            if "impossible" not in str(error):
                raise
            if right.failed is None:
                raise Wrong(f"sequence {b} is possible, and was called impossible") from error
            continue
        if right.failed is not None:
            raise Wrong(f"sequence {b} is impossible, and was answered")
        for name in sorted({*right.final, *found.queries}):
            p, q = found.queries.get(name, 0.0), right.final.get(name, 0.0)
            error = found.stderr.get(name, 0.0)
            if found.stderr:
                error = max(error, math.sqrt(q * (1 - q) / 1000), 1e-4)
            if abs(p - q) > tolerance() + 7 * error:
                raise Wrong(f"{name}, sequence {b}: {p:.6g} (expected {q:.6g})")
        if not found.stderr and not near(found.log_evidence, right.log_evidence):
            raise Wrong(
                f"log-evidence: {found.log_evidence:.6g} (expected {right.log_evidence:.6g})"
            )


# ---------------------------------------------------------------- estimates

RUNS = 6
SIGMAS = 6.0


def particles(method: Callable[[int], Any]) -> Callable[[Subject], None]:
    """Estimates of several runs side by side; what is off is tried again with more."""

    def run(subject: Subject) -> None:
        try:
            _estimate(subject, method, 100, RUNS, seed=1)
        except Wrong:
            try:
                _estimate(subject, method, 1000, 4 * RUNS, seed=2)
            except Wrong:
                _estimate(subject, method, 4000, 6 * RUNS, seed=3)

    return run


def _estimate(subject: Subject, method: Any, count: int, runs: int, seed: int) -> None:
    case = subject.case
    rows = [b for b in range(len(case.lengths)) for _ in range(runs)]
    result = subject.model.filter(
        subject.arrays(rows),
        method=method(count),
        errors="keep",
        steps=np.array([case.lengths[b] for b in rows]),
        key=seed,
    )
    check_estimates(case, result, subject.expected, runs, count)


def check_estimates(
    case: s.Case, result: Any, expected: list[oracle.Expected], runs: int, count: int
) -> None:
    """Means over runs against the truth, by their own spread and what draws must spread."""
    dead = {f.sequence: f for f in result.failures}
    for b, right in enumerate(expected):
        mine = np.arange(b * runs, (b + 1) * runs)
        alive = np.array([i not in dead for i in mine])
        for i in mine:
            if (
                i in dead
                and "explain" not in dead[i].message
                and "impossible" not in dead[i].message
            ):
                raise Wrong(f"failed: {dead[i]}")
        if right.failed is not None:
            if alive.any():
                raise Wrong(f"sequence {b} is impossible at step {right.failed}, and was answered")
            continue
        if alive.mean() < 0.5:
            continue
        steps = case.lengths[b]
        gains = np.cumsum(
            np.where(np.isnan(result.log_gains[mine]), -np.inf, result.log_gains[mine]), 1
        )
        gains = gains[:, :steps]
        truth = np.cumsum(right.gains)
        effective = result.effective[mine][:, :steps]
        worst = max(1.0, float(np.nanmin(np.where(alive[:, None], effective, np.nan))))
        total = worst * runs
        for t in range(steps):
            ratio = np.exp(gains[:, t] - truth[t])
            spread = ratio.std(ddof=1) / math.sqrt(runs)
            margin = SIGMAS * math.hypot(spread, 1 / math.sqrt(total)) + tolerance()
            if abs(ratio.mean() - 1) > margin:
                found = math.log(max(ratio.mean(), 1e-300)) + truth[t]
                raise Wrong(
                    f"log-evidence up to step {t}, sequence {b}: {found:.4g} "
                    f"(expected {truth[t]:.4g})"
                )
        ends = [np.exp(gains[:, t] - truth[t]) for t in range(steps)]
        for name in sorted({*right.filtered, *result.filtered}):
            expected_row = right.filtered.get(name, [0.0] * steps)
            for t in range(steps):
                if math.isnan(expected_row[t]):
                    continue
                column = (
                    result.filtered[name][mine, t] if name in result.filtered else np.zeros(runs)
                )
                _check_mean(
                    f"filtered {name}, step {t}", column, ends[t], expected_row[t], total, b
                )
        for name in sorted({*right.final, *result.final}):
            column = result.final[name][mine] if name in result.final else np.zeros(runs)
            if name in right.final:
                _check_mean(name, column, ends[-1], right.final[name], total, b)


def _check_mean(what: str, column: Any, weights: Any, right: float, total: float, b: int) -> None:
    ok = ~np.isnan(column) & (weights > 0)
    if ok.sum() < 2:
        return
    w = weights[ok] / weights[ok].sum()
    mean = float((w * column[ok]).sum())
    spread = math.sqrt(float(((w * (column[ok] - mean)) ** 2).sum()))
    floor = math.sqrt(max(right * (1 - right), 1 / total) / total)
    if abs(mean - right) > SIGMAS * math.hypot(spread, floor) + tolerance():
        raise Wrong(f"{what}, sequence {b}: {mean:.4g} (expected {right:.4g})")


# ---------------------------------------------------------------- one step at a time


def _exact_only(subject: Subject) -> None:
    if subject.drawn_once:
        raise Unsupported("an estimate")


def stream(subject: Subject) -> None:
    _exact_only(subject)
    case = subject.case
    if any(isinstance(x, s.Observe) and x.atom.when == "T" for x in case.statements):
        return
    rows = [b for b, n in enumerate(case.lengths) if n == case.steps]
    rows = [b for b in rows if subject.expected[b].failed is None]
    if not rows:
        return
    data = subject.arrays(rows)
    expected = wanted(subject.model.step)
    fixed = {n: v for n, v in data.items() if not expected[n].timed}
    moving = {n: v for n, v in data.items() if expected[n].timed}
    shapes = {
        x.name: (2,) for x in case.statements if isinstance(x, s.Input) and not x.domains
    }  # fmt: skip
    method = Auto() if case.seed // 10 % 2 else ExactForward()
    live = subject.model.stream(method=method, data=fixed, batch=len(rows), shapes=shapes or None)
    if "does not apply" in live.reason:
        return  # Particles: estimates, which other routes judge.
    for t in range(case.steps):
        now = {n: v[:, t] for n, v in moving.items()}
        # What is missing everywhere may be left out.
        now = {n: v for n, v in now.items() if not _all_missing(v) or (len(n) + t) % 2}
        update = live.update(now)
        for i, b in enumerate(rows):
            right = subject.expected[b]
            if not near(float(update.log_gain[i]), right.gains[t]):
                raise Wrong(
                    f"log-gain of sequence {b}, step {t}: {float(update.log_gain[i]):.6g} "
                    f"(expected {right.gains[t]:.6g})"
                )
            for name, row in right.filtered.items():
                unasked = math.isnan(row[t])
                absent = math.nan if unasked else 0.0
                p = float(update.probabilities.get(name, {i: absent})[i])
                if not (math.isnan(p) if unasked else near(p, row[t])):
                    raise Wrong(f"{name}, sequence {b}, step {t}: {p:.6g} (expected {row[t]:.6g})")


def _all_missing(values: Any) -> bool:
    return all(v is None or v != v for v in np.ravel(values))


# ---------------------------------------------------------------- given all evidence


def smooth(subject: Subject) -> None:
    _exact_only(subject)
    case = subject.case
    data = subject.arrays()
    found = subject.model.smooth(data, method=ExactForward(), errors="keep", **subject.options())
    for b, right in enumerate(subject.expected):
        if right.failed is None:
            answers = oracle.smoothed(case, b, list(right.filtered))
            check_series("smoothed", found, answers, b, case.lengths[b])


def generate(subject: Subject) -> None:
    _exact_only(subject)
    _generated(subject, ExactForward())


def trace(subject: Subject) -> None:
    """Trajectories of particles. Few of many, since they share ancestors."""
    if any(r.failed is not None for r in subject.expected):
        return
    data = subject.arrays()
    for particles_, seed in ((2000, 1), (10_000, 2), (30_000, 3)):
        engine = RaoBlackwellised if subject.case.seed // 10 % 2 else Bootstrap
        method = engine(particles=particles_)
        found = subject.model.filter(data, method=method, errors="keep", **subject.options())
        count = 0 if found.failures else int(np.nanmin(found.effective) / 8)
        if count < 10:
            raise Unsupported("too few particles survive")
        try:
            _compare_joint(subject, method, min(count, 200), seed)
            return
        except Wrong as wrong:
            last = wrong
    raise last


def _generated(subject: Subject, method: Any) -> None:
    """The joint distribution of a few answers along trajectories, by a G-test."""
    if any(r.failed is not None for r in subject.expected):
        return
    for count, seed in ((300, 1), (1500, 2), (4000, 3)):
        try:
            _compare_joint(subject, method, count, seed)
            return
        except Wrong as wrong:
            last = wrong
    raise last


def _compare_joint(subject: Subject, method: Any, count: int, seed: int) -> None:
    from scipy import stats

    case = subject.case
    data = subject.arrays()
    drawn = subject.model.generate(data, count, method=method, key=seed, **subject.options())
    for b in range(len(case.lengths)):
        names, worlds = oracle.joint(case, b)
        if not names:
            continue
        columns = []
        for name, t in names:
            array = drawn.asked.get(name)
            if array is None:
                columns.append(np.zeros(count, bool))
            else:
                columns.append(np.asarray(array[b, :, t] if t is not None else array[b], bool))
        seen: dict[tuple[bool, ...], int] = {}
        for row in zip(*columns, strict=True):
            key = tuple(bool(x) for x in row)
            seen[key] = seen.get(key, 0) + 1
        for key, n in seen.items():
            if worlds.get(key, 0.0) < 1e-9:
                shown = ", ".join(f"{m}[{t}]={v}" for (m, t), v in zip(names, key, strict=True))
                raise Wrong(f"sequence {b}: {n} of {count} trajectories are impossible: {shown}")
        statistic = 2 * sum(n * math.log(n / (count * worlds[k])) for k, n in seen.items())
        cells = sum(1 for p in worlds.values() if p * count > 0.2)
        if cells > 1 and stats.chi2.sf(statistic, max(1, cells - 1)) < 1e-9:
            worst = max(worlds, key=lambda k: abs(seen.get(k, 0) / count - worlds[k]))
            shown = ", ".join(f"{m}[{t}]={v}" for (m, t), v in zip(names, worst, strict=True))
            raise Wrong(
                f"sequence {b}: {shown}: {seen.get(worst, 0) / count:.4g} of the trajectories "
                f"(expected {worlds[worst]:.4g})"
            )


# ---------------------------------------------------------------- gradients


def gradients(subject: Subject) -> None:
    """Gradients of the log-evidence in learnable numbers against differences of the oracle's."""
    _exact_only(subject)

    case, model = subject.case, subject.model
    starts = oracle.learnables(case)
    names = list(networks(case))
    if not (starts or names) or any(r.failed is not None for r in subject.expected):
        return
    data = subject.arrays()

    def total(parameters: Any, shifts: Any = None) -> Any:
        return model.with_parameters(parameters).with_networks(networks(case, shifts)).log_evidence(
            data, method=ExactForward(), **subject.options(),
        ).sum()  # fmt: skip

    found = jax.grad(total)({n: jax.numpy.asarray(v, float) for n, v in model.parameters.items()})
    step = 1e-5
    for number, (start, *index) in enumerate(starts):
        names = [n for n, v in model.parameters.items() if np.allclose(v, start, atol=1e-9)]
        bases = {n.split("[")[0] for n in names}
        if [x[0] for x in starts].count(start) > 1 or len(bases) > 1:
            continue
        slopes = {n: np.asarray(found[n]) for n in names}
        compared = {number: sum(float(v.sum()) for v in slopes.values())}
        # By the keys of inputs it is an array, whose places are not those of the facts.
        if len(index) == 1 and not subject.given:
            compared |= {(number, k): v for k, v in _by_key(slopes).items()}
        for which, slope in compared.items():
            ends = [
                sum(r.log_evidence for r in oracle.expect(case, {which: start + d}))
                for d in (-step, step)
            ]
            right = (ends[1] - ends[0]) / (2 * step)
            if not (math.isfinite(slope) and abs(slope - right) < 1e-3 * max(1.0, abs(right))):
                at = f" at {which[1]}" if isinstance(which, tuple) else ""
                raise Wrong(
                    f"gradient in the learnable {start}{at}: {slope:.6g} (expected {right:.6g})"
                )

    if names:
        moved = jax.grad(lambda shifts: total({}, shifts))(dict.fromkeys(names, 0.0))
        for name, slope in moved.items():
            low, high = (
                sum(r.log_evidence for r in oracle.expect(case, {name: d})) for d in (-step, step)
            )
            right = (high - low) / (2 * step)
            if not abs(float(slope) - right) < 1e-3 * max(1.0, abs(right)):
                raise Wrong(
                    f"gradient in the network {name}: {float(slope):.6g} (expected {right:.6g})"
                )


def _by_key(slopes: Mapping[str, Any]) -> dict[Any, float]:
    """The slopes of a parameter with one index: names in brackets, or an array along 1, 2, …"""
    out: dict[Any, float] = {}
    for name, values in slopes.items():
        if "[" in name and not values.ndim:
            key = name.split("[")[1].rstrip("]")
            out[int(key) if key.lstrip("-").isdigit() else key] = float(values)
        elif values.ndim == 1:
            out |= {i + 1: float(v) for i, v in enumerate(values)}
    return out


PROBLOG_SECONDS = 10


@contextmanager
def _shorter(seconds: float) -> Iterator[None]:
    """Where there is a limit of time, a tighter one; afterwards what is left of the first."""
    left, _ = signal.getitimer(signal.ITIMER_PROF)
    began = time.process_time()
    if left:
        signal.setitimer(signal.ITIMER_PROF, min(left, seconds), 5)
    try:
        yield
    finally:
        if left:
            rest = max(0.1, left - (time.process_time() - began))
            signal.setitimer(signal.ITIMER_PROF, rest, 5)


def problog(subject: Subject) -> None:
    """Not a way to answer: whether the two oracles agree."""
    from problog.errors import ProbLogError

    if max(r.rows for r in subject.expected) > 600:
        raise TooManyWorlds
    try:
        with _shorter(PROBLOG_SECONDS):
            found = unrolled.disagreement(subject.case)
    except (ProbLogError, AssertionError, RecursionError):
        raise Unsupported("ProbLog breaks down") from None
    if found:
        raise Wrong(f"the oracles disagree: {found}")


ROUTES: dict[str, Callable[[Subject], None]] = {
    "exact": exact,
    "auto": auto,
    "static": static,
    "facts as data": facts_as_data,
    "facts otherwise": facts_as_data_otherwise,
    "rao-blackwellised": particles(lambda n: RaoBlackwellised(particles=n)),
    "bootstrap": particles(lambda n: Bootstrap(particles=n)),
    "stream": stream,
    "smooth": smooth,
    "generate": generate,
    "trace": trace,
    "gradients": gradients,
    "problog": problog,
}
# Those that every program takes, and those that take turns.
ALWAYS = ("exact",)
TURNS = (
    "rao-blackwellised", "stream", "bootstrap", "smooth", "rao-blackwellised", "generate",
    "gradients", "stream", "auto", "trace",
)  # fmt: skip


def judge(route: str, subject: Subject) -> Verdict:
    """One route's verdict on a case."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ROUTES[route](subject)
    except Wrong as wrong:
        return Verdict(route, "wrong", str(wrong))
    except (TooManyWorlds, Unsupported) as error:
        return Verdict(route, "skipped", f"the oracle: {type(error).__name__}")
    except NesymmError as error:
        return Verdict(route, "refused", str(error))
    except Timeout:
        kind = "skipped" if route == "problog" else "crashed"
        return Verdict(route, kind, "took too long")
    except Exception as error:
        return Verdict(route, "crashed", _place(error))
    return Verdict(route, "agreed")


def assess(case: s.Case, names: Any) -> list[Verdict]:
    """The verdicts of several routes; of the compiler alone if it does not get further."""
    try:
        expected = oracle.expect(case)
    except (TooManyWorlds, Unsupported, Conflict) as error:
        return [Verdict("oracle", "skipped", type(error).__name__)]
    except Timeout:
        return [Verdict("oracle", "skipped", "took too long")]
    except Exception as error:
        return [Verdict("oracle", "crashed", _place(error, "differential"))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = nesymm.compile(case.text, networks=networks(case))
    except NesymmError as error:
        return [Verdict("compile", "refused", str(error))]
    except Timeout:
        return [Verdict("compile", "crashed", "took too long")]
    except Exception as error:
        return [Verdict("compile", "crashed", _place(error))]
    subject = Subject(case, model, expected)
    with jax.enable_x64(case.seed % 3 != 0):
        return [judge(name, subject) for name in names]


def confirmed(case: s.Case, verdict: Verdict) -> Verdict:
    """What fails when NumPy runs the trace counts if it fails compiled, too."""
    if not verdict.bad or verdict.route in ("compile", "oracle", "problog"):
        return verdict
    with numpy_backend.compiled():
        again = assess(case, [verdict.route])[0]
    if again.bad or again.kind == "refused":
        return again
    return Verdict(verdict.route, "skipped", f"XLA agrees, unlike NumPy: {signature(verdict)[2]}")


def names_for(case: s.Case) -> list[str]:
    """The routes of a case: all take the first, the rest take turns."""
    oracles = ["problog"] if case.seed % 4 == 0 else []
    if keyed.tables(case) and case.seed % 3 == 0:
        oracles += ["facts as data", "facts otherwise"]
    if not case.timed:
        return ["static", *oracles]
    if any(isinstance(x, s.Walk) for x in case.statements):
        return ["bootstrap", "rao-blackwellised"]
    return [*ALWAYS, TURNS[case.seed % len(TURNS)], *oracles]


def _place(error: BaseException, where: str = "nesymm") -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"/{where}/" in f.filename] or frames
    name = own[-1].filename.split("/")[-1]
    return f"{type(error).__name__}: {error} [{name}:{own[-1].name}]"


def signature(verdict: Verdict) -> tuple[str, ...]:
    """What two failures of one cause have in common."""
    if verdict.kind == "crashed":
        return verdict.route, verdict.kind, verdict.text.split(":")[0], verdict.text[-40:]
    if verdict.kind == "refused":
        return verdict.route, verdict.kind, reason(verdict.text)
    first = re.split(r"[ ,:]", verdict.text)[0]
    known = ("log-evidence", "log-gain", "filtered", "smoothed", "failed", "gradient", "sequence")
    return verdict.route, verdict.kind, first if first in known else "answer"


def reason(text: str) -> str:
    """Why something was refused, names and numbers left out."""
    lines = [x for x in text.splitlines() if x.strip()]
    first = lines[0] if lines else ""
    first = re.sub(r"\b[a-z]+\d+\b(\([^)]*\))?(:\d+)?(\[[^\]]*\])?( \(\d+\),?)*", "p", first)
    first = re.sub(r"(p[, ]+(and )?)+", "p ", first)
    return re.sub(r"\d[\d,.]*", "n", first)[:110]
