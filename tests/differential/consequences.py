"""What follows from what is drawn: rules, aggregates, recursion, lookups by a value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.blocks import draw
from differential.vocabulary import ENTITY, NUMBER, SPLITS, Pred, numbers

if TYPE_CHECKING:
    from differential.generator import Generator


def rule(g: Generator) -> None:
    """A derived relation: joins, negations, tests."""
    keys = g.pick(((), (), (ENTITY,), (ENTITY, ENTITY))) if g.members else ()
    pred = g.define("f", keys)
    names, _ = g.head_scope(keys)
    made = False
    for _ in range(g.pick((1, 1, 2))):
        scope = dict(zip(names, keys, strict=True))
        body = g.domain_goals(keys, names)
        body += g.body(pred.level, scope, g.pick((1, 2, 2, 3)))
        entities = sum(1 for d in scope.values() if d == ENTITY)
        g.features.add(f"join of {entities} entities")
        if len(body) > len(keys):
            made = True
            g.clause(None, s.Atom(pred.name, names, g.now), body)
    if made:
        begun = any(
            a.name == pred.name and not looks_back(x) for x in g.statements for a in s.heads(x)
        )
        g.preds.append(replace(pred, begun=begun))


def looks_back(clause: Any) -> bool:
    return any(s.lag(a.when) for a in s.atoms(clause.body))


def aggregate(g: Generator) -> None:
    kind = g.pick(("count", "count", "sum", "min", "max", "avg", "length"))
    options = [p for p in g.preds if p.domains and p.name != "e" and p.noisy]
    if not g.timed:
        options = [p for p in options if proved_once(g, p)]
    if not options:
        return
    source = g.pick(options)
    # One value for all, or one for each entity: `g(E, M) :- e(E), aggregate_all(count, …E…, M).`
    keys = (ENTITY,) if g.members and g.flip(0.5) else ()
    names, scope = g.head_scope(keys)
    own: list[str] = []
    args = [g.term(d, scope, False, own) for d in source.domains]
    open_ = [v for v in own if (scope[v] == ENTITY and g.numeric) or numbers(scope[v])]
    if kind not in ("count", "length") and not open_:
        kind = "count"
    when = g.pick(("t", "t", "t", "t-1" if source.begun else "t")) if source.timed else None
    goals: tuple[Any, ...] = (s.Atom(source.name, tuple(args), when),)
    others = [v for v in own if scope[v] == ENTITY]
    if keys and others and g.flip(0.4):
        test = g.pick(("=<", "<", "=\\=")) if g.numeric else "\\="
        goals = (*goals, s.Compare(test, g.pick(others), names[0]))
        g.features.add("aggregate compared with its key")
    if g.timed and g.flip(0.3):
        level = 1 + max(p.level for p in g.preds)
        goals = (*goals, *g.body(level, scope, 1, past=False, fresh=False))
        g.features.add("aggregate over a conjunction")
    template = g.pick(open_) if open_ else "x"
    if kind == "length" and not open_:
        template = "x"
    pred = g.define("g", (*keys, NUMBER), valued=True, noisy=False)
    body = [*g.domain_goals(keys, names), s.Aggregate(kind, template, goals, "M")]
    g.features.add(f"aggregate {kind}")
    if keys:
        g.features.add("aggregate with a key")
    if _causes(g, source) > 1:
        g.features.add("aggregate over several causes")
    if kind == "avg" or g.flip(0.4):
        test = s.Compare(g.pick((">", "<", "=:=", ">=")), "M", g.pick((1, 2)))
        pred = Pred(pred.name, keys, g.timed, pred.level)
        g.clause(None, s.Atom(pred.name, names, g.now), [*body, test])
    else:
        g.clause(None, s.Atom(pred.name, (*names, "M"), g.now), body)
    g.preds.append(replace(pred, begun=not looks_back(g.statements[-1])))


def vacancy(g: Generator) -> None:
    """A value that nobody has: `free(K) :- between(0, 2, K), not v(_, K).`"""
    sources = [p for p in g.preds if len(p.domains) > 1 and numbers(p.domains[-1]) and p.noisy]
    if not sources:
        return
    source = g.pick(sources)
    values = source.domains[-1]
    keyed = g.flip(0.4)
    pred = g.define("free", (values,) if keyed else ())
    gone = s.Atom(source.name, (*("_" for _ in source.domains[1:]), "K"),
                  "t" if source.timed else None)  # fmt: skip
    body = [s.Between(min(values), max(values), "K"), s.Not((gone,))]
    g.clause(None, s.Atom(pred.name, ("K",) if keyed else (), g.now), body)
    g.preds.append(pred)
    g.features.add("a value that nobody has")


def _causes(g: Generator, pred: Pred) -> int:
    return sum(1 for x in g.statements for a in s.heads(x) if a.name == pred.name)


def proved_once(g: Generator, pred: Pred) -> bool:
    """Without a time, aggregates count proofs: only what has one is counted there."""
    clauses = [x for x in g.statements if any(a.name == pred.name for a in s.heads(x))]
    if len(clauses) != 1:
        return False
    keys = {arg for atom in s.heads(clauses[0]) for arg in atom.args}
    return all(
        isinstance(goal, s.Between)
        or (isinstance(goal, s.Atom) and goal.name == "e" and keys.issuperset(goal.args))
        for goal in clauses[0].body
    )


def best(g: Generator) -> None:
    """An aggregate in a head: `best(E, max<V>) :- body.`"""
    sources = [p for p in g.preds if p.domains and p.name != "e" and p.noisy]
    sources = [p for p in sources if g.timed or proved_once(g, p)]
    sources = [
        p for p in sources if numbers(p.domains[-1]) or (p.domains[-1] == ENTITY and g.numeric)
    ]
    if not sources:
        return
    source = g.pick(sources)
    keyed = len(source.domains) > 1 and g.flip(0.6)
    args = [f"K{i}" for i in range(len(source.domains) - 1)]
    if not keyed:
        args = ["_" for _ in args]
    kind = g.pick(("min", "max", "sum", "count"))
    when = "t" if source.timed else None
    body = [s.Atom(source.name, (*args, "C"), when)]
    keys = tuple(source.domains[:-1]) if keyed else ()
    pred = g.define("best", (*keys, NUMBER), valued=True, noisy=False)
    head = s.Atom(pred.name, (*(args if keyed else ()), "C"), g.now)
    g.add(s.Best(head, kind, tuple(body)), f"aggregate in a head: {kind}")
    g.preds.append(pred)


def relation_of_names(g: Generator) -> None:
    names = ("hall", "yard", "cave", "loft", "well")[: g.pick((3, 4, 5))]
    if not g.spend(2 * (len(names) - 1)):
        return
    table = g.name("door")
    edges = {(g.pick(names), g.pick(names)) for _ in range(len(names))}
    for a, b in sorted(edges):
        g.clause(None, s.Atom(table, (a, b)))
    first = g.define("w", (names,), valued=True, drawn=True)
    when = g.now
    split = list(g.pick(SPLITS[len(names)]))
    g.add(s.Draw(s.Atom(first.name, ("Q",), when), "categorical", (split, list(names))))
    g.preds.append(first)
    if g.flip() and g.timed:
        other, back = first, "t-1"
    else:
        other, back = g.define("u", (names,), valued=True, drawn=True), when
        g.add(s.Draw(s.Atom(other.name, ("Q",), when), "uniform_names", ()))
        g.statements[-1] = s.Draw(
            s.Atom(other.name, ("Q",), when), "categorical",
            ([round(1 / len(names), 4)] * (len(names) - 1)
             + [round(1 - round(1 / len(names), 4) * (len(names) - 1), 4)], list(names)),
        )  # fmt: skip
        g.preds.append(other)
    ok = g.define("ok", ())
    body = [s.Atom(first.name, ("Q",), when), s.Atom(other.name, ("R",), back)]
    link = s.Atom(table, ("Q", "R"))
    if g.flip(0.3):
        body.append(s.Not((link,)))
    else:
        body.append(link)
    g.clause(None, s.Atom(ok.name, (), when), body)
    g.preds.append(ok)
    g.features.add("partial relation of names")


def gather(g: Generator) -> None:
    if not g.members or not g.numeric:
        return
    targets = [p for p in g.preds if p.domains == (ENTITY,) and p.name != "e"]
    if not targets or not g.spend(2):
        return
    place = g.define("at", (tuple(g.members),), valued=True, drawn=True)
    draw(g, place, (), tuple(g.members), g.now, [])
    g.preds.append(place)
    target = g.pick(targets)
    ok = g.define("hit", ())
    there = s.Atom(target.name, ("X",), "t" if target.timed else None)
    goal = s.Not((there,)) if g.flip(0.3) else there
    g.clause(None, s.Atom(ok.name, (), g.now), [s.Atom(place.name, ("X",), g.now), goal])
    g.preds.append(ok)
    g.features.add("gather")


def scatter(g: Generator) -> None:
    sources = [p for p in g.preds if p.valued and p.timed and numbers(p.domains[-1])]
    if not sources or not g.timed:
        return
    source = g.pick(sources)
    pred = g.define("mark", (source.domains[-1],))
    g.add(s.Directive(f"fluent({pred.name}(key))"))
    wild = tuple("_" for _ in source.domains[:-1])
    g.clause(None, s.Atom(pred.name, ("X",), "t"), [s.Atom(source.name, (*wild, "X"), "t")])
    if g.flip():
        g.clause(None, s.Atom(pred.name, ("X",), "t"), [s.Atom(pred.name, ("X",), "t-1")])
    g.preds.append(pred)
    g.features.add("scatter")


def recursion(g: Generator) -> None:
    n = len(g.members)
    if n < 2 or not g.spend(n):
        return
    if g.flip():
        sources = [p for p in g.preds if p.domains == (ENTITY,) and p.name != "e"]
        if not sources:
            return
        source = g.pick(sources)
        pred = g.define("ill", (ENTITY,))
        # What is copied from a value is one, unless it is said to be a key.
        if g.timed and (source.valued or source.name.startswith("row") or g.flip(0.3)):
            g.add(s.Directive(f"fluent({pred.name}(key))"))
        when = "t" if source.timed else None
        g.clause(None, s.Atom(pred.name, ("E",), g.now), [s.Atom(source.name, ("E",), when)])
        body = [
            s.Atom("e", ("E",)),
            s.Atom(pred.name, ("F",), g.now),
            s.Compare("\\=", "E", "F"),
        ]
        p = g.probability() if n < 3 or g.flip(0.3) else None
        g.clause(p, s.Atom(pred.name, ("E",), g.now), body)
    else:
        sources = [p for p in g.preds if p.domains == (ENTITY, ENTITY)]
        if not sources:
            return
        source = g.pick(sources)
        when = "t" if source.timed else None
        pred = g.define("path", (ENTITY, ENTITY))
        step = s.Atom(source.name, ("X", "Y"), when)
        g.clause(None, s.Atom(pred.name, ("X", "Y"), g.now), [step])
        g.clause(None, s.Atom(pred.name, ("X", "Z"), g.now),
                    [step, s.Atom(pred.name, ("Y", "Z"), g.now)])  # fmt: skip
    g.preds.append(pred)
    g.features.add("positive recursion")


def latch(g: Generator) -> None:
    sources = [p for p in g.preds if p.timed and p.noisy]
    if not sources or not g.timed:
        return
    source = g.pick(sources)
    pred = g.define("ever", ())
    wild = tuple("_" for _ in source.domains)
    g.clause(None, s.Atom(pred.name, (), "t"), [s.Atom(source.name, wild, "t")])
    g.clause(None, s.Atom(pred.name, (), "t"), [s.Atom(pred.name, (), "t-1")])
    g.preds.append(pred)
    g.features.add("latch")


def moments(g: Generator) -> None:
    if not g.timed or not g.spend(1):
        return
    pred = g.define("m", ())
    when = g.pick((1, (0, 1), (1, "T"), 2))
    g.clause(g.probability(), s.Atom(pred.name, (), when))
    if g.flip():
        g.clause(None, s.Atom(pred.name, (), "t"), [s.Atom(pred.name, (), "t-1")])
        if when in (1, 2) or (when == (1, "T")):
            g.clause(g.probability(), s.Atom(pred.name, (), 0))
    g.preds.append(pred)
    g.features.add("heads at given steps")


# How often each comes.
PARTS = (
    (12, rule), (6, aggregate), (1, relation_of_names), (2, gather), (1, scatter), (1, recursion),
    (1, latch), (1, moments), (1, best),
)  # fmt: skip
