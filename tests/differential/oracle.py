"""What a case must answer: evidence and every query, per sequence, by the table of worlds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from differential import syntax as s
from differential.values import Unsupported
from differential.worlds import Table


@dataclass
class Expected:
    """One sequence. `gains` are log p(evidence now | before) per step; `filtered` per query name
    one number per step (NaN where it is not asked), `final` given all evidence.

    `failed` is the step at which the evidence is impossible."""

    log_evidence: float = 0.0
    gains: list[float] = field(default_factory=list)
    filtered: dict[str, list[float]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    failed: int | None = None
    rows: int = 0


def expect(case: s.Case, parameters: Any = None) -> list[Expected]:
    return [expect_one(case, b, parameters) for b in range(len(case.lengths))]


def expect_one(case: s.Case, sequence: int, parameters: Any = None) -> Expected:
    """Evidence, filtered and final answers of one sequence."""
    table = Table(case, sequence, parameters)
    out = Expected()
    steps = table.last + 1
    before = 1.0
    for time in table.run():
        out.rows = max(out.rows, len(table.weight))
        now = table.evidence
        if time is None:
            if not case.timed or now <= 0:
                out.log_evidence = math.log(now) if now > 0 else -math.inf
                if now <= 0:
                    out.failed = 0
                    return out
            continue
        gain = now / before
        if gain <= 0:
            out.failed = time
            out.log_evidence = -math.inf
            return out
        out.gains.append(math.log(gain))
        before = now
        for query in table.queries:
            when = query.atom.when
            if when == "t" or isinstance(when, tuple):
                if not table._active(when, time):
                    continue
                for name, mass in table.answers(query, time).items():
                    row = out.filtered.setdefault(name, [math.nan] * steps)
                    row[time] = mass / now
    for name, row in out.filtered.items():
        # What is asked and has no world is 0.
        when = _when_of(table, name)
        out.filtered[name] = [
            0.0 if math.isnan(p) and table._active(when, t) else p for t, p in enumerate(row)
        ]
    if case.timed:
        out.log_evidence = sum(out.gains)
    now = table.evidence
    for query in table.queries:
        when = query.atom.when
        if when == "t" or isinstance(when, tuple):
            continue
        moment = table.last if when == "T" else when
        if moment is not None and moment > table.last:
            continue
        for name, mass in table.answers(query, moment).items():
            out.final[name] = mass / now
    return out


def _when_of(table: Table, name: str) -> Any:
    for query in table.queries:
        if name.startswith(query.atom.name) and name.endswith(s.at(query.atom.when)):
            return query.atom.when
    raise KeyError(name)


def smoothed(case: s.Case, sequence: int, names: list[str]) -> dict[str, list[float]]:
    """Queries at every step given all evidence: one run per query, keeping its atoms."""
    out: dict[str, list[float]] = {}
    plain = Table(case, sequence)
    for query in plain.queries:
        when = query.atom.when
        if not (when == "t" or isinstance(when, tuple)):
            continue
        for moment in range(plain.last + 1):
            if not plain._active(when, moment):
                continue
            table = Table(case, sequence)
            table.kept = [(query.atom, moment)]
            for _ in table.run():
                pass
            total = table.evidence
            for name, mass in table.answers(query, moment).items():
                row = out.setdefault(name, [math.nan] * (plain.last + 1))
                row[moment] = mass / total if total > 0 else math.nan
    for name, row in out.items():
        when = _when_of(plain, name)
        out[name] = [
            0.0 if math.isnan(p) and plain._active(when, t) else p for t, p in enumerate(row)
        ]
    return out


def learnables(case: s.Case) -> list[tuple[Any, ...]]:
    """Where the learnable numbers start and what they are indexed by, in the order of the text."""
    return [
        p[1:]
        for x in case.statements
        if isinstance(x, s.Clause)
        for p, _ in x.heads
        if isinstance(p, tuple) and p[0] == "t"
    ]


def joint(case: s.Case, sequence: int, most: int = 6) -> tuple[list[Any], dict[Any, float]]:
    """The joint distribution of a few answers, given all evidence: what they are (name and step,
    None for a query about one step), and the probability of each combination of truths."""
    plain = Table(case, sequence)
    table = Table(case, sequence)
    if table.walks:
        raise Unsupported("a random walk given later evidence")
    kept: list[tuple[s.Query, Any]] = []
    for query in plain.queries:
        when = query.atom.when
        if when == "t":
            kept += [(query, t) for t in range(plain.last + 1)]
        elif not isinstance(when, tuple) and when is not None:
            moment = plain.last if when == "T" else when
            if moment <= plain.last:
                kept.append((query, moment))
    kept = kept[:most]
    table.kept = [(q.atom, t) for q, t in kept]
    for _ in table.run():
        pass
    names: list[Any] = []
    columns: list[Any] = []
    for query, moment in kept:
        for name, column in sorted(table.truths(query, moment).items()):
            if len(names) < most:
                names.append((name, moment if query.atom.when == "t" else None))
                columns.append(column)
    if not names:
        return [], {}
    total = table.evidence
    out: dict[Any, float] = {}
    for row, weight in zip(zip(*columns, strict=True), table.weight, strict=True):
        key = tuple(bool(x) for x in row)
        out[key] = out.get(key, 0.0) + float(weight) / total
    return names, {k: p for k, p in out.items() if p > 0}
