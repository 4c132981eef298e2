"""Random choices that are asked for in parts: by a key that is known, by one that is drawn, for
all of their keys; and bodies whose alternatives bind different variables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.blocks import draw
from differential.vocabulary import ENTITY, Pred, numbers

if TYPE_CHECKING:
    from differential.generator import Generator


def marked(g: Generator) -> None:
    """`0.5::mark(X)@t :- v(_, X)@t.` with X as a key, and two that read it in different ways."""
    source = _drawn(g)
    if source is None or not g.spend(4):
        return
    when = "t" if source.timed else None
    values = source.domains[-1]
    keys = source.domains[:-1]
    names = tuple("EFG"[i] for i in range(len(keys)))
    kept = bool(keys) and g.flip(0.4)
    args = (*names, "X") if kept else ("X",)
    pred = g.define("mark", (*keys, values) if kept else (values,), begun=False)
    if g.flip(0.8):
        g.add(s.Directive(f"fluent({pred.name}({', '.join(['key'] * len(args))}))"))
        pred = replace(pred, begun=g.timed)
    drawn = s.Atom(source.name, (*names, "X"), when)
    body: list[Any] = [drawn]
    if g.flip(0.3):
        body.append(s.Either(((drawn,), (s.Compare("is", "X", g.pick(values)),))))
        if keys or not numbers(values):
            body = [drawn]
        else:
            body = body[1:]
            g.features.add("choice in parts: by a value or a number")
    g.clause(g.probability(), s.Atom(pred.name, args, g.now), body)
    g.preds.append(pred)
    g.features.add("choice in parts")
    sides = [_asked(g, pred, source) for _ in range(2)]
    together = g.define("both", ())
    second = s.Not((sides[1],)) if g.flip(0.6) else sides[1]
    g.clause(None, s.Atom(together.name, (), g.now), [sides[0], second])
    g.preds.append(together)


def _asked(g: Generator, pred: Pred, source: Pred) -> s.Atom:
    """One way to ask for some of a relation."""
    values = pred.domains[-1]
    keys = pred.domains[:-1]
    names = tuple(f"K{i}" for i in range(len(keys)))
    form = g.pick(("known", "some", "tested", "drawn", "known key"))
    body: list[Any]
    match form:
        case "known":
            body = [s.Atom(pred.name, (*names, g.pick(values)), g.now)]
        case "tested":
            body = [s.Atom(pred.name, (*names, "X"), g.now)]
            body.append(s.Compare("=\\=" if numbers(values) else "\\=", "X", g.pick(values)))
        case "drawn":
            wild = tuple("_" for _ in source.domains[:-1])
            body = [s.Atom(source.name, (*wild, "X"), "t" if source.timed else None)]
            body.append(s.Atom(pred.name, (*names, "X"), g.now))
        case "known key" if keys and g.members:
            body = [s.Atom(pred.name, (g.pick(g.members), *names[1:], "X"), g.now)]
        case _:
            body = [s.Atom(pred.name, (*names, "X"), g.now)]
    side = g.define("ask", ())
    g.clause(None, s.Atom(side.name, (), g.now), body)
    g.features.add(f"choice in parts: {form}")
    return s.Atom(side.name, (), g.now)


def _drawn(g: Generator) -> Pred | None:
    options = [p for p in g.preds if p.drawn and p.noisy and isinstance(p.domains[-1], tuple)]
    if options and g.flip():
        return g.pick(options)
    if not g.members:
        return g.pick(options) if options else None
    values = g.pick(((0, 1), (1, 2), (0, 1, 2)))
    if not g.spend(len(g.members) * (len(values) - 1)):
        return None
    when = g.now if g.flip(0.7) else None
    pred = g.define(
        "v", (ENTITY, values), valued=True, drawn=True, timed=when is not None,
        begun=when is None,
    )  # fmt: skip
    draw(g, pred, ("E",), values, when, [g.everyone("E")])
    g.preds.append(pred)
    return pred


def open_alternatives(g: Generator) -> None:
    """`0.5::u(E)@t :- e(E), (v(E, _)@(t-1) ; c(1)@t).`: not each alternative binds the same."""
    options = [p for p in g.preds if p.name != "e" and p.noisy]
    if not options or not g.spend(4):
        return
    keys = g.key()
    pred = g.define("u", keys)
    names, scope = g.head_scope(keys)
    alternatives = []
    for _ in range(g.pick((2, 2, 3))):
        part: list[Any] = []
        for _ in range(g.pick((1, 1, 2))):
            source = g.pick(options)
            atom = g.atom(source, pred.level, g.timed, dict(scope), True, [])
            part.append(s.Not((atom,)) if g.flip(0.2) else atom)
        alternatives.append(tuple(part))
    goal: Any = s.Either(tuple(alternatives))
    if g.flip(0.2):
        goal = s.Not((goal,))
        g.features.add("alternatives in a negation")
    body = [*g.domain_goals(keys, names), goal]
    g.clause(g.probability() if g.flip(0.8) else None, s.Atom(pred.name, names, g.now), body)
    g.features.add("alternatives that bind different variables")
    g.preds.append(replace(pred, begun=False))


def drawn_keys(g: Generator) -> None:
    """A drawn value as the key of the same variable: `k(E, V), k(V, W)`."""
    if not g.members or not g.numeric:
        return
    values = g.pick(((0, 1), (1, 2), (1, 2, 3)))
    if not g.spend(len(g.members) * (len(values) - 1)):
        return
    when = g.now if g.flip() else None
    link = g.define("k", (ENTITY, values), valued=True, drawn=True, timed=when is not None)
    draw(g, link, ("E",), values, when, [g.everyone("E")])
    end = g.define("f", (ENTITY,))
    second = s.Atom(link.name, ("V", g.pick(("V", g.pick(values), "_"))), when)
    last: s.Goal = s.Not((second,)) if g.flip(0.3) else second
    body = [g.everyone("E"), s.Atom(link.name, ("E", "V"), when), last]
    g.clause(g.probability() if g.flip(0.3) else None, s.Atom(end.name, ("E",), g.now), body)
    g.preds += [link, end]
    g.features.add("a drawn value as the key of its own variable")


def spread(g: Generator) -> None:
    """A recursion that starts at a drawn place."""
    sources = [p for p in g.preds if p.drawn and numbers(p.domains[-1])]
    if not g.members or not g.numeric or not sources or len(g.members) > 3:
        return
    if not g.spend(len(g.members) ** 2):
        return
    source = g.pick(sources)
    pred = g.define("ill", (ENTITY,))
    wild = tuple("_" for _ in source.domains[1:])
    start = s.Atom(source.name, (*wild, "E"), "t" if source.timed else None)
    inside = set(source.domains[-1]) <= set(g.members)
    first = [start] if inside and g.flip(0.7) else [g.everyone("E"), start]
    if g.timed and first == [start]:
        g.add(s.Directive(f"fluent({pred.name}(key))"))  # not one value, copied from the drawn one
    g.clause(None, s.Atom(pred.name, ("E",), g.now), first)
    body = [g.everyone("E"), s.Atom(pred.name, ("F",), g.now), s.Compare("\\=", "E", "F")]
    g.clause(g.probability(), s.Atom(pred.name, ("E",), g.now), body)
    g.preds.append(pred)
    g.features.add("recursion from a drawn place")


PARTS = ((3, marked), (3, open_alternatives), (1, drawn_keys), (1, spread))
