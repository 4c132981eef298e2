"""Relations of drawn values: `mark(X)@t :- v(_, X)@t.`, and what is asked about them.

Two derivations may reach the same atom, and only the draws decide whether they do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.blocks import draw
from differential.consequences import proved_once
from differential.vocabulary import ENTITY, NUMBER, Pred, numbers

if TYPE_CHECKING:
    from differential.generator import Generator

SMALL = ((0, 1), (1, 2), (0, 1, 2))


def relation(g: Generator) -> None:
    """Clauses that reach the same atoms by different values."""
    source = _source(g)
    if source is None:
        return
    when = "t" if source.timed else None
    values = source.domains[-1]
    keys = source.domains[:-1]
    wild = tuple("_" for _ in keys)
    other = g.pick([p for p in _sources(g) if p.domains[:-1] == keys])
    options = ["projected"] * 3
    if keys:
        options += ["kept", "turned", "two values", "two values"]
        if len(keys) == 1 and numbers(values):
            options.append("summed")
    if numbers(values):
        options.append("computed")
    form = g.pick(options)
    names = tuple("EFG"[i] for i in range(len(keys)))
    body: list[Any] = [s.Atom(source.name, (*names, "X"), when)]
    match form:
        case "projected":
            args: tuple[Any, ...] = ("X",)
            domains: tuple[Any, ...] = (values,)
            body = [s.Atom(source.name, (*wild, "X"), when)]
        case "kept":
            args, domains = (*names, "X"), (*keys, values)
        case "turned":
            args, domains = ("X", *names), (values, *keys)
        case "two values":
            body.append(s.Atom(other.name, (*names, "Y"), "t" if other.timed else None))
            args, domains = ("X", "Y"), (values, other.domains[-1])
        case "summed":
            body += [s.Atom(source.name, ("F", "Y"), when), s.Compare("\\=", "E", "F")]
            args = ("Z",)
            body.append(s.Compare("is", "Z", ("+", "X", "Y")))
            domains = (tuple(range(2 * min(values), 2 * max(values) + 1)),)
        case _:
            body = [s.Atom(source.name, (*wild, "X"), when)]
            top = max(values)
            term = g.pick((("mod", "X", 2), ("abs", ("-", "X", 1)), ("min", "X", 1)))
            body.append(s.Compare("is", "Z", term))
            args, domains = ("Z",), (tuple(range(max(2, top + 1))),)
    g.features.add(f"relation of drawn values: {form}")
    pred = g.define("mark", domains, begun=False)
    if g.timed and g.flip(0.2):
        g.add(s.Directive(f"fluent({pred.name}({', '.join(['key'] * len(domains))}))"))
        g.features.add("relation of drawn values as a fluent")
        pred = replace(pred, begun=True)
    head = s.Atom(pred.name, args, g.now)
    g.clause(_chance(g), head, body)
    for _ in range(g.pick((0, 0, 1, 1, 2))):
        _another(g, pred, other)
    g.preds.append(pred)
    for _ in range(g.pick((1, 1, 2))):
        read_relation(g, pred)


def _chance(g: Generator) -> Any:
    return g.probability() if g.flip(0.15) and g.spend(3) else None


def _sources(g: Generator) -> list[Pred]:
    """What has drawn values in the last place."""
    return [
        p
        for p in g.preds
        if p.domains and p.domains[-1] != ENTITY and p.domains[-1] is not NUMBER and p.noisy
    ]


def _source(g: Generator) -> Pred | None:
    options = _sources(g)
    keyed = [p for p in options if len(p.domains) > 1]
    if (not keyed or g.flip(0.3)) and g.members:
        values = g.pick(SMALL)
        if g.spend(len(g.members) * (len(values) - 1)):
            when = g.now if g.flip(0.8) else None
            pred = g.define(
                "v", (ENTITY, values), valued=True, drawn=True, timed=when is not None,
                begun=when is None or g.flip(0.5),
            )  # fmt: skip
            draw(g, pred, ("E",), values, when, [g.everyone("E")])
            g.features.add("values drawn anew at each step")
            g.preds.append(pred)
            return pred
    return g.pick(keyed or options) if options else None


def _another(g: Generator, pred: Pred, other: Pred) -> None:
    """A further clause for the same atoms."""
    scope: dict[str, Any] = {}
    body: list[Any] = []
    args: list[Any] = []
    for i, domain in enumerate(pred.domains):
        known = tuple(g.members) if domain == ENTITY else domain
        if other.domains[-1] == domain and g.flip():
            name = f"Y{i}"
            wild = tuple("_" for _ in other.domains[:-1])
            body.append(s.Atom(other.name, (*wild, name), "t" if other.timed else None))
            args.append(name)
        elif g.flip(0.6) and known:
            args.append(g.pick(known))
            g.features.add("relation of drawn values: a clause with constants")
        elif domain == ENTITY:
            args.append(f"E{i}")
            body.append(g.everyone(f"E{i}"))
        else:
            table = g.name("fact")
            for value in sorted({g.pick(known) for _ in range(2)}):
                g.clause(None, s.Atom(table, (value,)))
            args.append(f"Y{i}")
            body.append(s.Atom(table, (f"Y{i}",)))
            g.features.add("relation of drawn values: a clause with facts")
    scope = {a: d for a, d in zip(args, pred.domains, strict=True) if s.is_variable(a)}
    if g.flip(0.7) or not body:
        body += g.body(pred.level, scope, 1, past=False, fresh=g.flip(0.3))
    g.clause(_chance(g), s.Atom(pred.name, tuple(args), g.now), body)
    g.features.add("relation of drawn values: several clauses")


def read_relation(g: Generator, pred: Pred | None = None) -> None:
    """What follows from such a relation."""
    marks = [p for p in g.preds if p.name.startswith("mark")]
    if pred is None:
        if not marks:
            return
        pred = g.pick(marks)
    names = tuple(f"X{i}" for i in range(len(pred.domains)))
    scope = dict(zip(names, pred.domains, strict=True))
    atom = s.Atom(pred.name, names, g.now)
    last = pred.domains[-1]
    summable = numbers(last) or (last == ENTITY and g.numeric)
    options = ["join", "negation", "cause", "observed"]
    if g.timed or proved_once(g, pred):
        options += ["aggregate", "aggregate", "head", "head"]
    form = g.pick(options)
    match form:
        case "aggregate":
            kind = g.pick(("count", "sum", "min", "max", "length")) if summable else "count"
            goals: list[Any] = [atom]
            if g.flip(0.4):
                level = 1 + max(p.level for p in g.preds)
                goals += g.body(level, dict(scope), 1, past=False, fresh=g.flip(0.3))
            defined = _aggregated(g, kind, names[-1], tuple(goals))
        case "head":
            kind = g.pick(("sum", "count", "min", "max")) if summable else "count"
            keyed = len(names) > 1 and g.flip(0.6)
            keys, domains = (names[:-1], pred.domains[:-1]) if keyed else ((), ())
            goals = [atom]
            if g.flip(0.3):
                others = [
                    p for p in g.preds if p.domains[-1:] == (last,) and p.name != "e" and g.timed
                ]
                if others:
                    more = g.pick(others)
                    wild = tuple(f"W{i}" for i in range(len(more.domains) - 1))
                    again = s.Atom(more.name, (*wild, names[-1]), "t" if more.timed else None)
                    goals.append(again)
                    g.features.add("aggregate in a head over a conjunction")
            defined = g.define("best", (*domains, NUMBER), valued=True, noisy=False, begun=False)
            head = s.Atom(defined.name, (*keys, names[-1]), g.now)
            g.add(s.Best(head, kind, tuple(goals)), f"aggregate in a head: {kind}")
            if keyed:
                g.features.add("aggregate in a head by a drawn key")
        case "join":
            others = [p for p in g.preds if p.domains[-1:] == (last,)]
            more = g.pick(others)
            wild = tuple("_" for _ in more.domains[:-1])
            again = s.Atom(more.name, (*wild, names[-1]), "t" if more.timed else None)
            goal = s.Not((again,)) if g.flip(0.3) else again
            keys = names[: g.pick((0, 0, len(names)))]
            defined = g.define("f", pred.domains[: len(keys)], begun=False)
            g.clause(None, s.Atom(defined.name, keys, g.now), [atom, goal])
        case "negation":
            fixed = tuple(
                "_" if g.flip(0.3) or g._constant(d) is None else g._constant(d)
                for d in pred.domains
            )
            inner: tuple[Any, ...] = (s.Atom(pred.name, fixed, g.now),)
            if g.flip():
                inner = (atom,)
                test = g.test(scope)
                if test:
                    inner = (atom, test)
            defined = g.define("f", ())
            g.clause(None, s.Atom(defined.name, (), g.now), [s.Not(inner)])
        case "cause":
            if not g.spend(3):
                return
            defined = g.define("b", ())
            g.clause(g.probability(), s.Atom(defined.name, (), g.now), [atom])
        case _:
            fixed = tuple(g._constant(d) for d in pred.domains)
            if None in fixed:
                return
            moment: Any = None
            if g.timed:
                moment = g.pick(("T", g.rng.randrange(g.steps), (0, "T"), (1, "T")))
            g.add(s.Observe(s.Atom(pred.name, fixed, moment), g.flip(0.7)))
            g.features.add("relation of drawn values: observed")
            return
    g.features.add(f"relation of drawn values: read by {form}")
    g.preds.append(defined)


def _aggregated(g: Generator, kind: str, template: str, goals: tuple[Any, ...]) -> Pred:
    goal = s.Aggregate(kind, template, goals, "M")
    if g.flip(0.3):
        pred = g.define("g", ())
        g.clause(None, s.Atom(pred.name, (), g.now),
                 [goal, s.Compare(g.pick((">", "<", "=:=")), "M", g.pick((1, 2)))])  # fmt: skip
    else:
        pred = g.define("g", (NUMBER,), valued=True, noisy=False)
        g.clause(None, s.Atom(pred.name, ("M",), g.now), [goal])
    return pred


PARTS = ((3, relation), (1, read_relation))
