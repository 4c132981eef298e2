"""What is given with the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.vocabulary import ENTITY, Pred

if TYPE_CHECKING:
    from differential.generator import Generator


def given(g: Generator) -> None:
    name = g.name("u")
    timed = g.timed and g.flip(0.7)
    domain, values, value = g.pick((
        (["up", "down"], ("up", "down"), lambda: g.pick(("up", "down"))),
        ((0, 2), (0, 1, 2), lambda: g.rng.randint(0, 2)),
        ("real", None, lambda: round(g.rng.uniform(-1, 1), 2)),
        ("bool", None, lambda: g.flip()),
    ))  # fmt: skip
    p = g.pick((0, 0.3))
    if p:
        g.features.add("missing input" if timed else "missing static input")
    g.add(s.Input(name, (domain,), timed))
    if timed:
        g.data[name] = g.series(value, p)
    else:
        g.data[name] = [g.missing(value, p) for _ in range(g.batch)]
    when = "t" if timed else None
    kind = domain if isinstance(domain, str) else "names" if isinstance(domain, list) else "whole"
    g.features.add(f"input {kind}{'' if timed else ', static'}")
    level = 1 + max((q.level for q in g.preds), default=0)
    if domain == "bool":
        g.preds.append(Pred(name, (), timed, level))
    elif domain == "real":
        pred = g.define("warm", ())
        body = [s.Atom(name, ("X",), when), s.Compare(">", "X", g.pick((-0.3, 0.2)))]
        p2 = None if g.flip() or not g.spend(1) else g.probability()
        g.clause(p2, s.Atom(pred.name, (), g.now), body)
        g.preds.append(pred)
    else:
        g.preds.append(Pred(name, (values,), timed, level, valued=True))


def table(g: Generator) -> None:
    """An input with several columns; a row is there or missing as a whole."""
    timed = g.timed and g.flip(0.7)
    options: list[tuple[Any, Any, Any]] = [
        (["up", "down"], ("up", "down"), lambda: g.pick(("up", "down"))),
        ((0, 2), (0, 1, 2), lambda: g.rng.randint(0, 2)),
        ((1, 2), (1, 2), lambda: g.rng.randint(1, 2)),
        ("real", None, lambda: round(g.rng.uniform(-1, 1), 2)),
    ]
    if g.members and g.numeric:
        n = len(g.members)
        options += [((1, n), ENTITY, lambda: g.rng.randint(1, n))] * 3
    columns = [g.pick(options) for _ in range(g.pick((2, 2, 3)))]
    name = g.name("u")
    p = g.pick((0, 0.3))

    def row() -> list[Any]:
        there = not g.flip(p)
        return [value() if there else None for _, _, value in columns]

    g.add(s.Input(name, tuple(d for d, _, _ in columns), timed))
    g.data[name] = [
        [row() for _ in range(g.steps)] if timed else row() for _ in range(g.batch)
    ]  # fmt: skip
    g.features.add("input of several columns" + ("" if timed else ", static"))
    if p:
        g.features.add("missing row of an input")
    when = "t" if timed else None
    args = tuple(f"X{i}" for i in range(len(columns)))
    atom = s.Atom(name, args, when)
    tests = [s.Compare(g.pick((">", "<")), a, g.pick((-0.3, 0.2)))
             for a, (d, _, _) in zip(args, columns, strict=True) if d == "real"]  # fmt: skip
    if not tests:
        level = 1 + max((q.level for q in g.preds), default=0)
        g.preds.append(Pred(name, tuple(v for _, v, _ in columns), timed, level))
    scope = {a: v for a, (_, v, _) in zip(args, columns, strict=True) if v is not None}
    test = g.test(scope)
    keep = [a for a in scope if g.flip(0.4)][:1]
    pred = g.define("row", tuple(scope[a] for a in keep), begun=False)
    chance = None if keep or g.flip() or not g.spend(2) else g.probability()
    body: list[Any] = [atom, *tests, *([test] if test and g.flip() else [])]
    if g.flip(0.3):
        body += g.body(pred.level, scope, 1, past=False, fresh=False)
    g.clause(chance, s.Atom(pred.name, tuple(keep), g.now), body)
    g.preds.append(pred)
    if g.flip(0.3):
        none = g.define("none", ())
        wild = s.Atom(name, tuple("_" for _ in columns), when)
        g.clause(None, s.Atom(none.name, (), g.now), [s.Not((wild,))])
        g.preds.append(none)


PARTS = ((2, given), (2, table))
