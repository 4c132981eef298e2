"""Builtins about lists: written out, with drawn items, or collected by findall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.consequences import proved_once
from differential.vocabulary import ENTITY, NUMBER, Pred, numbers

if TYPE_CHECKING:
    from differential.generator import Generator


def _values(g: Generator) -> list[Pred]:
    """What has whole numbers in the last place."""
    return [
        p
        for p in g.preds
        if p.domains and numbers(p.domains[-1]) and p.domains[-1] is not NUMBER and p.noisy
    ]


def _atom(g: Generator, pred: Pred, variable: str) -> s.Atom:
    wild = tuple("_" for _ in pred.domains[:-1])
    return s.Atom(pred.name, (*wild, variable), "t" if pred.timed else None)


def written(g: Generator) -> None:
    """A list in the text: an item of it by a drawn place, a sum of drawn items."""
    sources = _values(g)
    if not sources:
        return
    one, two = g.pick(sources), g.pick(sources)
    first, second = _atom(g, one, "X"), _atom(g, two, "Y")
    size = g.pick((2, 3))
    names = g.rng.sample(("ink", "oak", "tin", "rye"), size)
    op = g.pick(
        ("nth0", "nth1", "sum_list", "max_list", "min_list", "member", "not member", "last")
    )
    g.features.add(f"list: {op}")
    low = min(*one.domains[-1], *two.domains[-1])
    high = max(*one.domains[-1], *two.domains[-1])
    head: Any = "Z"
    values: tuple[Any, ...] = tuple(range(low, high + 1))
    body: list[Any] = [first]
    match op:
        case "nth0" | "nth1":
            items: tuple[Any, ...] = tuple(names)
            if g.flip():
                items = tuple(g.rng.sample(range(5), size))
            body.append(s.Listing(op, items, "Z", "X"))
            values = tuple(items)
        case "member" | "not member":
            some = tuple(g.rng.sample(range(low, high + 2), min(size, high + 2 - low)))
            goal = s.Listing("member", some, "X")
            if op == "not member":
                body.append(s.Not((goal,)))
            elif g.flip():
                body.append(goal)
            else:
                body = [goal, first]
            head, values = "X", one.domains[-1]
        case "last":
            body = [first, second, s.Listing("last", ("X", "Y"), "Z")]
            values = two.domains[-1]
        case "sum_list":
            body = [first, second, s.Listing(op, ("X", "Y", 1), "Z")]
            values = tuple(range(2 * low + 1, 2 * high + 2))
        case _:
            body = [first, second, s.Listing(op, ("X", "Y"), "Z")]
    keep = g.flip(0.6)
    pred = g.define("item", (values,) if keep else (), begun=False)
    if not keep and head == "Z" and numbers(values):
        body.append(s.Compare(g.pick((">", "<", "=:=")), "Z", g.pick(values)))
    g.clause(None, s.Atom(pred.name, (head,) if keep else (), g.now), body)
    g.preds.append(pred)


def found(g: Generator) -> None:
    """A list that findall collects: of what is uncertain, or of facts in their order."""
    if g.flip(0.3):
        _of_facts(g)
        return
    sources = [p for p in g.preds if p.domains and p.name != "e" and p.noisy]
    sources = [p for p in sources if g.timed or proved_once(g, p)]
    sources = [p for p in sources if numbers(p.domains[-1]) or (p.domains[-1] == ENTITY)]
    sources = [p for p in sources if p.domains[-1] != ENTITY or g.numeric]
    if not sources:
        return
    source = g.pick(sources)
    kind = g.pick(("sum_list", "max_list", "min_list", "member", "length"))
    if proved_once(g, source) and g.flip(0.4):
        # Of what one clause draws for each entity the order is plain: that of the entities.
        kind = g.pick(("nth1 1", "nth1 1", "nth1 2", "nth1 3"))
    goals: tuple[Any, ...] = (_atom(g, source, "C"),)
    some = tuple(g.rng.sample(range(4), 3))
    if g.timed and g.flip(0.3):
        goals = (s.Listing("member", some, "C"), *goals) if g.flip() else (
            *goals, s.Listing("member", some, "C"))  # fmt: skip
        g.features.add("list: member inside findall")
    goal = s.Aggregate(kind, "C", goals, "M")
    g.features.add(f"list of findall: {kind}")
    if g.timed and g.flip(0.3):
        _of_a_key(g, source, kind)
    elif g.timed and " " not in kind and g.flip(0.3):
        _read_twice(g, goals)
    elif g.flip(0.3) or not g.timed:
        pred = g.define("li", (), begun=False)
        test = s.Compare(g.pick((">", "<", "=:=")), "M", g.pick((1, 2)))
        g.clause(None, s.Atom(pred.name, (), g.now), [goal, test])
        g.preds.append(pred)
    else:
        pred = g.define("li", (NUMBER,), valued=True, noisy=False, begun=False)
        g.clause(None, s.Atom(pred.name, ("M",), g.now), [goal])
        g.preds.append(pred)


def _of_a_key(g: Generator, source: Pred, kind: str) -> None:
    """A list for each entity: `li(E) :- e(E), findall(C, v(E, C), L), …`"""
    if not g.members or not source.domains or source.domains[0] != ENTITY:
        return
    names, _ = g.head_scope((ENTITY,))
    own = _atom(g, source, "C")
    args = (names[0], *own.args[1:]) if len(own.args) > 1 else own.args
    goal = s.Aggregate(kind, "C", (s.Atom(own.name, args, own.when),), "M")
    right = names[0] if g.numeric and g.flip() else g.pick((1, 2))
    test = s.Compare(g.pick((">", "<", "=:=", "=<")), "M", right)
    pred = g.define("li", (ENTITY,), begun=False)
    g.clause(None, s.Atom(pred.name, names, g.now), [*g.domain_goals((ENTITY,), names), goal, test])
    g.preds.append(pred)
    g.features.add("list of findall for each entity")


def _read_twice(g: Generator, goals: tuple[Any, ...]) -> None:
    """Two items of one list, or an item and a summary of it."""
    one = s.Aggregate("member", "C", goals, "M")
    other = g.pick(("member", "member", "length", "max_list", "min_list", "sum_list"))
    two = s.Aggregate(other, "C", goals, "N", again="M")
    test = s.Compare(g.pick(("<", ">", "=\\=", "=:=")), "M", "N")
    pred = g.define("li", (), begun=False)
    g.clause(None, s.Atom(pred.name, (), g.now), [one, two, test])
    g.preds.append(pred)
    g.features.add("list read twice")


def _of_facts(g: Generator) -> None:
    sources = _values(g)
    if not sources:
        return
    source = g.pick(sources)
    table = g.name("fact")
    for value in g.rng.sample(range(4), g.pick((1, 2, 3))):
        g.clause(None, s.Atom(table, (value,)))
    kind = g.pick(("nth1 1", "nth1 2", "max_list", "min_list", "sum_list", "member", "length"))
    goal = s.Aggregate(kind, "C", (s.Atom(table, ("C",)),), "M")
    pred = g.define("li", (), begun=False)
    test = s.Compare(g.pick((">", "<", "=:=", "=\\=")), "X", "M")
    body = [goal, _atom(g, source, "X"), test] if g.flip() else [_atom(g, source, "X"), goal, test]
    g.clause(None, s.Atom(pred.name, (), g.now), body)
    g.preds.append(pred)
    g.features.add(f"list of facts: {kind}")


PARTS = ((4, written), (3, found))
