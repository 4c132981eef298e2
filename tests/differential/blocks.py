"""What random programs draw: statics, fluents, values, choices. Each part adds clauses and says
what it defined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.vocabulary import ENTITY, NUMBER, SPLITS, Pred, numbers

if TYPE_CHECKING:
    from differential.generator import Generator


def static_boolean(g: Generator) -> None:
    keys = g.key()
    if not g.spend(g.count(keys)):
        return
    pred = g.define("s", keys, timed=False)
    names, scope = g.head_scope(keys)
    g.clause(g.probability(), s.Atom(pred.name, names), g.domain_goals(keys, names))
    if g.flip(0.3):
        body = g.domain_goals(keys, names)
        body += _static_body(g, pred, scope)
        g.clause(g.probability(), s.Atom(pred.name, names), body)
        g.features.add("several causes of a static")
    g.features.add("static truth")
    g.preds.append(pred)


def _static_body(g: Generator, pred: Pred, scope: dict[str, Any]) -> list[Any]:
    kept, timed = g.preds, g.timed
    g.preds, g.timed = [p for p in kept if not p.timed], False
    body = g.body(pred.level, scope, 1, past=False)
    g.preds, g.timed = kept, timed
    return body


def static_value(g: Generator) -> None:
    keys = g.key()
    values = g.pick(((0, 1), (0, 1, 2), ("red", "e"), (1, 2)))
    if not g.spend(g.count(keys) * (len(values) - 1)):
        return
    pred = g.define("k", (*keys, values), timed=False, valued=True, drawn=True)
    names, _ = g.head_scope(keys)
    draw(g, pred, names, values, None, g.domain_goals(keys, names))
    g.features.add("static value")
    g.preds.append(pred)


def draw(g: Generator, pred: Pred, names: Any, values: Any, when: Any, body: list[Any]) -> None:
    atom = s.Atom(pred.name, (*names, "V"), when)
    ints = numbers(values)
    if ints and values == tuple(range(values[0], values[-1] + 1)) and g.flip(0.4):
        g.features.add("uniform_int")
        g.add(s.Draw(atom, "uniform_int", (values[0], values[-1]), tuple(body)))
    elif values == (0, 1) and g.flip(0.3):
        g.features.add("bernoulli with a value")
        g.add(s.Draw(atom, "bernoulli", (g.pick((0.3, 0.6)),), tuple(body)))
    elif values == (0, 1, 2) and g.flip(0.3):
        g.features.add("binomial")
        g.add(s.Draw(atom, "binomial", (2, g.pick((0.3, 0.6))), tuple(body)))
    else:
        g.features.add("categorical")
        split = list(g.pick(SPLITS[len(values)]))
        g.add(s.Draw(atom, "categorical", (split, list(values)), tuple(body)))


def static_pair(g: Generator) -> None:
    if not g.members or not g.spend(len(g.members) ** 2):
        return
    pred = g.define("st", (ENTITY, ENTITY), timed=False)
    body: list[Any] = [g.everyone("E"), g.everyone("F")]
    if g.flip(0.5):
        body.append(s.Compare("<" if g.numeric and g.flip() else "\\=", "E", "F"))
    g.clause(g.probability(), s.Atom(pred.name, ("E", "F")), body)
    g.features.add("static with two keys")
    g.preds.append(pred)


def boolean_fluent(g: Generator) -> None:
    if not g.timed:
        static_boolean(g)
        return
    keys = g.key()
    if not g.spend(2 * g.count(keys)):
        return
    pred = g.define("a", keys)
    names, scope = g.head_scope(keys)
    head = s.Atom(pred.name, names, "t")
    domain = g.domain_goals(keys, names)
    start = s.Atom(pred.name, names, 0)
    g.clause(g.probability(), start, domain)
    g.preds.append(pred)
    back = g.pick(("t-1", "t-1", "t-1", "t-2", "t-3"))
    g.features.add(f"fluent with lag {back}")
    if back != "t-1" and g.flip(0.7):
        g.clause(g.probability(), s.Atom(pred.name, names, 1), domain)
    old = s.Atom(pred.name, names, back)
    stays = g.probability() if g.flip(0.7) else None
    extra = g.body(pred.level, scope, 1, fresh=False) if g.flip(0.4) or not stays else []
    g.clause(stays, head, [old, *extra])
    if g.flip(0.7):
        g.clause(g.probability(), head, [*g.domain_goals(keys, names), s.Not((old,))])
    if g.flip(0.3):
        scope = dict(zip(names, keys, strict=True))
        body = [*g.domain_goals(keys, names), *g.body(pred.level, scope, 1)]
        g.clause(g.probability(), head, body)
        g.features.add("three causes")


def noise(g: Generator) -> None:
    """A relation drawn anew at each step, from several causes."""
    keys = g.key()
    if not g.spend(g.count(keys)):
        return
    pred = g.define("b", keys)
    names, _ = g.head_scope(keys)
    for i in range(g.pick((1, 2, 2, 3))):
        scope = dict(zip(names, keys, strict=True))
        body = g.domain_goals(keys, names)
        if i:
            body += g.body(pred.level, scope, g.pick((1, 1, 2)))
            g.features.add("several causes")
        g.clause(g.probability(), s.Atom(pred.name, names, g.now), body)
    g.preds.append(pred)


def computed(g: Generator) -> None:
    """A probability that is computed from a value or an entity."""
    sources = [p for p in g.preds if p.valued and numbers(p.domains[-1])]
    sources = [p for p in sources if p.domains[-1] is not NUMBER]
    if g.members and g.numeric and g.flip(0.4):
        if not g.spend(len(g.members)):
            return
        pred = g.define("pe", (ENTITY,))
        body = [g.everyone("E"), s.Compare("is", "P", ("/", 1, ("+", "E", 1)))]
        g.clause("P", s.Atom(pred.name, ("E",), g.now), body)
    elif sources and g.spend(2):
        source = g.pick(sources)
        pred = g.define("pv", ())
        scope: dict[str, Any] = {}
        args = tuple(g.term(d, scope, False, []) for d in source.domains[:-1])
        when = ("t" if g.flip() else "t-1") if source.timed else None
        top = max(source.domains[-1]) + 2
        body = [
            s.Atom(source.name, (*args, "W"), when),
            s.Compare("is", "P", ("/", ("+", "W", 1), top)),
        ]
        if min(source.domains[-1]) < 0:
            return
        g.clause("P", s.Atom(pred.name, (), g.now), body)
        pred = replace(pred, begun=when != "t-1")
    else:
        return
    g.features.add("computed probability")
    g.preds.append(pred)


def value_fluent(g: Generator) -> None:
    if not g.timed:
        static_value(g)
        return
    keys = g.key()
    top = g.pick((1, 2, 2, 3))
    values = tuple(range(top + 1))
    if not g.spend(2 * g.count(keys)):
        return
    pred = g.define("v", (*keys, values), valued=True)
    names, scope = g.head_scope(keys)
    domain = g.domain_goals(keys, names)
    if g.flip(0.7):
        draw(g, pred, names, values, 0, domain)
    else:
        g.clause(None, s.Atom(pred.name, (*names, g.pick(values)), 0), domain)
    old = s.Atom(pred.name, (*names, "W"), "t-1")

    def new(value: Any) -> s.Atom:
        return s.Atom(pred.name, (*names, value), "t")

    condition = tuple(g.body(pred.level, dict(scope), 1, fresh=False))
    condition = condition or (s.Compare(">", "t", 1),)
    form = g.pick(("step", "clip", "redraw", "reset", "mod", "keep", "table", "computed", "lag"))
    g.features.add(f"value fluent: {form}")
    match form:
        case "step":
            low = s.Compare("<", "W", top)
            g.clause(None, new(("+", "W", 1)), [old, low, *condition])
            g.clause(None, new("W"), [old, s.Not((low, *condition))])
        case "clip":
            step = g.name("d")
            drift = s.Atom(step, (*names, "D"), "t")
            g.add(s.Draw(drift, "categorical", ([0.3, 0.3, 0.4], [-1, 0, 1]), tuple(domain)))
            value = ("max", 0, ("min", top, ("+", "W", "D")))
            if g.flip():
                g.clause(None, new(value), [old, drift])
            else:
                g.clause(None, new("M"), [old, drift, s.Compare("is", "M", value)])
        case "redraw":
            draw(g, pred, names, values, "t", [old, s.Compare(">", "W", 0)])
            draw(g, pred, names, values, "t", [old, s.Compare("=<", "W", 0)])
            pred = Pred(**{**pred.__dict__, "drawn": True})
        case "reset":
            g.clause(None, new("W"), [old, s.Not(condition)])
            g.clause(None, new(0), [old, *condition])
        case "mod":
            g.clause(None, new(("mod", ("+", "W", 1), top + 1)), [old, *condition])
            g.clause(None, new("W"), [old, s.Not(condition)])
        case "keep":
            g.clause(None, new("W"), [old, *condition])
        case "table":
            table = g.name("next")
            for v in values:
                g.clause(None, s.Atom(table, (v, (v * 2 + 1) % (top + 1))))
            g.clause(None, new("X"), [old, s.Atom(table, ("W", "X"))])
        case "computed":
            body = (old, s.Compare("is", "P", ("/", ("+", "W", 1), top + 2)),
                    s.Compare("is", "Q", ("-", 1, "P")))  # fmt: skip
            g.add(s.Draw(new("V"), "categorical", (["P", "Q"], [0, top]), body))
        case "lag":
            g.clause(None, s.Atom(pred.name, (*names, g.pick(values)), 1), domain)
            older = s.Atom(pred.name, (*names, "W"), "t-2")
            g.clause(None, new("W"), [older, *condition])
            g.clause(None, new(("-", top, "W")), [older, s.Not(condition)])
    g.preds.append(pred)


def choice(g: Generator) -> None:
    keys = g.key()
    values = g.pick((("r", "g"), ("r", "g", "y"), (1, 2)))
    if not g.spend(g.count(keys) * len(values)):
        return
    pred = g.define("c", (*keys, values))
    names, scope = g.head_scope(keys)
    split = g.pick(((0.3, 0.5, 0.1), (0.2, 0.2, 0.6), (0.4, 0.6, 0.0)))[: len(values)]
    body = [*g.domain_goals(keys, names)]
    if g.flip():
        body += g.body(pred.level, scope, 1, fresh=g.flip(0.3))
    heads = tuple((p, s.Atom(pred.name, (*names, v), g.now))
                  for p, v in zip(split, values, strict=True) if p)  # fmt: skip
    g.add(s.Clause(heads, tuple(body)), "disjunction")
    g.preds.append(pred)


def pairs(g: Generator) -> None:
    n = len(g.members)
    if not n or not g.spend(n * n):
        return
    pred = g.define("near", (ENTITY, ENTITY))
    body: list[Any] = [g.everyone("E"), g.everyone("F")]
    if g.flip():
        body.append(s.Compare("<" if g.numeric else "\\=", "E", "F"))
    g.clause(g.probability(), s.Atom(pred.name, ("E", "F"), g.now), body)
    g.preds.append(pred)
    if g.timed and g.flip():
        old = s.Atom(pred.name, g.pick((("E", "F"), ("F", "E"))), "t-1")
        g.clause(g.probability(), s.Atom(pred.name, ("E", "F"), "t"), [old])
    g.features.add("relation over two entities")


def own_value(g: Generator) -> None:
    """A variable that is its own value: `mood@t ~ categorical(…)`, `mood@t =:= calm`."""
    keys = g.key()
    values = g.pick((("calm", "pi"), (0, 1, 2), (1, 2)))
    if not g.spend(g.count(keys) * (len(values) - 1)):
        return
    name = g.name("y")
    names, _ = g.head_scope(keys)
    domain = g.domain_goals(keys, names)
    split = list(g.pick(SPLITS[len(values)]))
    atom = s.Atom(name, (*names, "V"), g.now)
    g.add(s.Draw(atom, "categorical", (split, list(values)), tuple(domain), own=True))
    pred = g.define("is", keys)
    op = g.pick(("=:=", "=\\=", ">", "<")) if numbers(values) else g.pick(("=:=", "=\\="))
    test = s.Own(op, s.Atom(name, names, g.now), g.pick(values))
    g.clause(None, s.Atom(pred.name, names, g.now), [*g.domain_goals(keys, names), test])
    if g.flip(0.3) and keys:
        other = g.define("is", ())
        g.clause(None, s.Atom(other.name, (), g.now), [g.everyone("E"), s.Not((test,))])
        g.preds.append(other)
    g.preds.append(pred)
    g.features.add("variable that is its own value")


# How often each comes.
PARTS = (
    (3, static_boolean), (2, static_value), (1, static_pair), (6, boolean_fluent), (5, noise),
    (4, value_fluent), (2, choice), (2, pairs), (1, computed), (1, own_value),
)  # fmt: skip
