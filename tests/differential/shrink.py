"""Smaller cases that fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from differential import syntax as s


def shrink(case: s.Case, fails: Callable[[s.Case], bool], seconds: float = 60.0) -> s.Case:
    """Cuts as long as the case still fails, or until the time is over."""
    stop = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < stop:
        changed = False
        for smaller in candidates(case):
            if time.monotonic() > stop:
                break
            if fails(smaller):
                case, changed = smaller, True
                break
    return case


def candidates(case: s.Case) -> Iterator[s.Case]:
    """Cases with one thing less, the largest cuts first."""
    statements = case.statements
    n = len(statements)
    for size in (n // 2, n // 4):
        for start in range(0, n, size) if size > 1 else ():
            yield _with(case, statements[:start] + statements[start + size :])
    if len(case.lengths) > 1:
        for b in range(len(case.lengths)):
            yield _sequence(case, b)
    if case.steps > 1 and case.timed:
        yield _shorter(case)
    for i in reversed(range(n)):
        yield _with(case, statements[:i] + statements[i + 1 :])
    yield from _fewer_entities(case)
    if case.timed and any(k != case.steps for k in case.lengths):
        yield replace(case, lengths=(case.steps,) * len(case.lengths))
    for i, statement in enumerate(statements):
        for smaller in _statements(statement):
            yield _with(case, (*statements[:i], smaller, *statements[i + 1 :]))
    yield from _less_data(case)


def _with(case: s.Case, statements: tuple[Any, ...]) -> s.Case:
    read = {x.atom.name for x in statements if isinstance(x, s.Observe) and x.value is None}
    read |= {x.name for x in statements if isinstance(x, s.Input)}
    data = {n: v for n, v in case.data.items() if n in read}
    timed = any(h.when is not None for x in statements for h in s.heads(x))
    asked = any(isinstance(x, s.Query) for x in statements)
    if (case.timed and not timed) or (not case.timed and not asked):
        return replace(case, statements=())  # Another kind of program: it never counts.
    return replace(case, statements=statements, data=data)


def _sequence(case: s.Case, b: int) -> s.Case:
    data: dict[str, Any] = {}
    for name, values in case.data.items():
        if isinstance(values, dict):
            data[name] = {k: [v[b]] for k, v in values.items()}
        else:
            data[name] = [values[b]]
    return replace(case, data=data, lengths=(case.lengths[b],))


def _shorter(case: s.Case) -> s.Case:
    timed = {x.name: x.timed for x in case.statements if isinstance(x, s.Input)}
    for x in case.statements:
        if isinstance(x, s.Observe):
            timed[x.atom.name] = x.atom.when is not None

    def cut(rows: Any) -> Any:
        return [r[: case.steps - 1] for r in rows]

    data: dict[str, Any] = {}
    for name, values in case.data.items():
        if not timed.get(name, False):
            data[name] = values
        elif isinstance(values, dict):
            data[name] = {k: cut(v) for k, v in values.items()}
        else:
            data[name] = cut(values)
    last = case.steps - 1
    statements = tuple(
        replace(x, atom=replace(x.atom, when=last - 1))
        if isinstance(x, s.Query | s.Observe)
        and x.atom.when == last
        and not isinstance(last, bool)
        and isinstance(x.atom.when, int)
        else x
        for x in case.statements
    )
    lengths = tuple(min(k, case.steps - 1) for k in case.lengths)
    return replace(case, statements=statements, data=data, steps=case.steps - 1, lengths=lengths)


def _fewer_entities(case: s.Case) -> Iterator[s.Case]:
    sizes = {g.high for x in case.statements for g in getattr(x, "body", ())
             if isinstance(g, s.Between)}  # fmt: skip
    for n in sizes:
        if n < 1:
            continue

        def less(goal: Any, n: int = n) -> Any:
            return replace(goal, high=n - 1) if isinstance(goal, s.Between) else goal

        statements = tuple(
            replace(x, body=tuple(map(less, x.body))) if hasattr(x, "body") else x
            for x in case.statements
        )
        data = {
            name: {k: v for k, v in values.items() if k != (n,)}
            if isinstance(values, dict)
            else values
            for name, values in case.data.items()
        }
        yield replace(case, statements=statements, data=data)
    for i, x in enumerate(case.statements):
        if isinstance(x, s.Clause) and x.heads[0][1].name == "e" and not x.body:
            member = x.heads[0][1].args
            data = {
                name: {k: v for k, v in values.items() if k != member}
                if isinstance(values, dict)
                else values
                for name, values in case.data.items()
            }
            rest = case.statements[:i] + case.statements[i + 1 :]
            yield replace(case, statements=rest, data=data)


def _statements(statement: Any) -> Iterator[Any]:
    if isinstance(statement, s.Clause):
        if len(statement.heads) > 1:
            for i in range(len(statement.heads)):
                yield replace(statement, heads=statement.heads[:i] + statement.heads[i + 1 :])
        for i, (p, atom) in enumerate(statement.heads):
            if isinstance(p, tuple):
                heads = (*statement.heads[:i], (p[1], atom), *statement.heads[i + 1 :])
                yield replace(statement, heads=heads)
            elif isinstance(p, float) and p != 0.5 and len(statement.heads) == 1:
                yield replace(statement, heads=((0.5, atom),))
            if p is not None and len(statement.heads) == 1 and not isinstance(p, str):
                yield replace(statement, heads=((None, atom),))
    body = getattr(statement, "body", None)
    if body:
        for smaller in _bodies(body):
            yield replace(statement, body=smaller)


def _bodies(goals: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for i, goal in enumerate(goals):
        before, after = goals[:i], goals[i + 1 :]
        yield before + after
        match goal:
            case s.Not(inner):
                yield (*before, *inner, *after)
                for smaller in _bodies(inner):
                    if smaller:
                        yield (*before, s.Not(smaller), *after)
            case s.Aggregate():
                for smaller in _bodies(goal.goals):
                    if smaller:
                        yield (*before, replace(goal, goals=smaller), *after)
            case s.Either(options):
                for option in options:
                    yield (*before, *option, *after)
            case s.Forall(condition, inner):
                yield (*before, s.Not((*condition, s.Not(inner))), *after)
            case s.Atom(when="t-3" | "t-2"):
                yield (*before, replace(goal, when="t-1"), *after)
            case s.Atom(when="t-1" | 0):
                yield (*before, replace(goal, when="t"), *after)


def _less_data(case: s.Case) -> Iterator[s.Case]:
    def rows(values: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if isinstance(values, dict | list):
            items = values.items() if isinstance(values, dict) else enumerate(values)
            for k, v in items:
                yield from rows(v, (*path, k))
        elif values is not None:
            yield path

    observed = {x.atom.name for x in case.statements if isinstance(x, s.Observe)}
    for name, values in case.data.items():
        if name in observed:
            for path in rows(values, ()):
                yield replace(case, data={**case.data, name: _blank(values, path)})


def _blank(values: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return None
    if isinstance(values, dict):
        return {k: _blank(v, path[1:]) if k == path[0] else v for k, v in values.items()}
    return [_blank(v, path[1:]) if i == path[0] else v for i, v in enumerate(values)]
