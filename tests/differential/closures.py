"""Walks along drawn edges: recursions in all their forms, called with all patterns of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.vocabulary import ENTITY, Pred

if TYPE_CHECKING:
    from differential.generator import Generator

LONGEST = 3


def walks(g: Generator) -> None:
    """`edge` between entities, drawn at each step or once, a recursion over it, and questions."""
    n = len(g.members)
    if n < 2 or not g.spend(n * (n - 1)):
        return
    edge = _edges(g)
    form = g.pick(("right", "left", "double", "mutual", "counted up", "counted down"))
    g.features.add(f"walks: {form}")
    walk = _counted(g, edge, form == "counted down") if "counted" in form else _walk(g, edge, form)
    for _ in range(g.pick((1, 2, 3))):
        _ask(g, walk)


def _edges(g: Generator) -> Pred:
    when = g.now if g.flip(0.8) else None
    pred = g.define("edge", (ENTITY, ENTITY), timed=when is not None)
    tests = [s.Compare("\\=", "X", "Y")]
    if g.numeric:
        tests += [s.Compare("=\\=", "X", "Y"), s.Compare("<", "X", "Y")]
    body = [g.everyone("X"), g.everyone("Y"), g.pick(tests)]
    g.clause(g.probability(), s.Atom(pred.name, ("X", "Y"), when), body)
    if not g.timed or when is None or g.flip():
        g.preds.append(pred)
        return pred
    # What is carried over, or a part of it.
    own = g.define("edge", (ENTITY, ENTITY))
    inner = s.Compare("\\=", g.pick("XY"), g.pick(g.members))
    lag = g.flip(0.4)
    read = s.Atom(pred.name, ("X", "Y"), "t-1" if lag else "t")
    g.clause(None, s.Atom(own.name, ("X", "Y"), "t"), [read, inner] if g.flip() else [read])
    if lag:
        g.features.add("walks along what was")
    g.preds += [pred, own]
    return own


def _walk(g: Generator, edge: Pred, form: str) -> Pred:
    pred = g.define("walk", (ENTITY, ENTITY))
    back = g.define("back", (ENTITY, ENTITY)) if form == "mutual" else pred
    when = "t" if edge.timed else None

    def step(p: Pred, x: str, y: str) -> s.Atom:
        return s.Atom(p.name, (x, y), when if p is edge else g.now)

    g.clause(None, step(pred, "X", "Y"), [step(edge, "X", "Y")])
    if g.flip(0.25):
        g.clause(None, step(pred, "X", "X"), [g.everyone("X")])
        g.features.add("walks: nowhere")
    first, second = (back, edge) if form == "left" else (edge, back)
    body: list[Any] = [step(back if form == "double" else first, "X", "Z"), step(second, "Z", "Y")]
    if g.flip(0.3):
        body.append(s.Compare("\\=", "X", "Y"))
    if g.flip(0.2):
        body.insert(0, g.everyone("Y"))
    few = len(g.members) == 2 and g.spend(8)
    g.clause(g.probability() if few and g.flip() else None, step(pred, "X", "Y"), body)
    if form == "mutual":
        g.clause(None, step(back, "X", "Y"), [step(edge, "X", "Z"), step(pred, "Z", "Y")])
        g.preds.append(back)
    g.preds.append(pred)
    return pred


def _counted(g: Generator, edge: Pred, down: bool) -> Pred:
    """Walks of a length, which is built up or counted down."""
    pred = g.define("walk", (ENTITY, ENTITY, tuple(range(1, LONGEST + 1))))
    if g.timed:
        g.add(s.Directive(f"fluent({pred.name}(key, key, key))"))
    when = "t" if edge.timed else None
    g.clause(None, s.Atom(pred.name, ("X", "Y", 1), g.now), [s.Atom(edge.name, ("X", "Y"), when)])
    along = s.Atom(edge.name, ("X", "Z"), when)
    rest = s.Atom(pred.name, ("Z", "Y", "M"), g.now)
    if down:
        shorter = s.Compare("is", "M", ("-", "N", 1))
        body: list[Any] = [along, shorter, rest] if g.flip() else [shorter, along, rest]
        body.insert(0, s.Between(2, LONGEST, "N"))
    else:
        body = [along, rest, s.Compare("<", "M", LONGEST), s.Compare("is", "N", ("+", "M", 1))]
        g.preds.append(pred)
    g.clause(None, s.Atom(pred.name, ("X", "Y", "N"), g.now), body)
    return pred


def _ask(g: Generator, walk: Pred) -> None:
    length = (g.pick(range(1, LONGEST + 1)),) if len(walk.domains) == 3 else ()
    a, b = g.pick(g.members), g.pick(g.members)

    def goal(x: Any, y: Any) -> s.Atom:
        return s.Atom(walk.name, (x, y, *length), g.now)

    form = g.pick(("both known", "from one", "to one", "round", "there and back", "not"))
    args: tuple[Any, ...] = ()
    match form:
        case "both known":
            body: list[Any] = [goal(a, b)]
        case "from one":
            args, body = ("Y",), [goal(a, "Y")]
        case "to one":
            args, body = ("X",), [goal("X", b)]
        case "round":
            args, body = ("X",), [goal("X", "X")]
        case "there and back":
            args, body = ("X",), [goal("X", "Y"), goal("Y", "X"), s.Compare("\\=", "X", "Y")]
        case _:
            args, body = ("X",), [g.everyone("X"), s.Not((goal("X", g.pick((b, "_"))),))]
    pred = g.define("ask", (ENTITY,) * len(args))
    g.clause(None, s.Atom(pred.name, args, g.now), body)
    g.preds.append(pred)
    g.features.add(f"walks: {form}")


def diagonals(g: Generator) -> None:
    """Clauses about an entity and itself, beside others about two."""
    n = len(g.members)
    if n < 2:
        return
    pred = g.define("pair", (ENTITY, ENTITY))
    sources = [p for p in g.preds if p.domains == (ENTITY,) and p.begun]
    for _ in range(g.pick((2, 2, 3))):
        args: tuple[Any, Any] = g.pick(
            (("X", "X"), ("X", "Y"), tuple(g.rng.choices(g.members, k=2)))
        )
        body: list[Any] = [g.everyone(x) for x in dict.fromkeys(args) if s.is_variable(x)]
        if body and sources and g.flip():
            source = g.pick(sources)
            body[0] = s.Atom(source.name, ("X",), "t" if source.timed else None)
        if args == ("X", "Y") and g.flip():
            body.append(s.Compare("\\=", "X", "Y"))
        cost = n ** len(body)
        chance = g.probability() if cost <= n * n and g.flip() and g.spend(cost) else None
        g.clause(chance, s.Atom(pred.name, args, g.now), body)
    g.preds.append(pred)
    g.features.add("diagonals")
    for _ in range(g.pick((1, 2))):
        _ask(g, pred)


PARTS = ((1.5, walks), (1, diagonals))
