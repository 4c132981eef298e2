"""Real numbers: continuous variables, alone and measured, and numbers of a list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.values import value_of
from differential.vocabulary import SPLITS

if TYPE_CHECKING:
    from differential.generator import Generator


def continuous(g: Generator) -> None:
    keys = g.key()
    if not g.spend(2 * g.count(keys)):
        return
    static = g.timed and g.flip(0.2)
    when = None if static else g.now
    var = g.name("x")
    names, scope = g.head_scope(keys)
    domain = g.domain_goals(keys, names)
    family, params, cuts = g.pick((
        ("normal", (0, 1), (-0.5, 0.5, 1)), ("normal", (1.5, 2), (0, 1, 3)),
        ("uniform", (0, 2), (0.5, 1.2)), ("exponential", (1.5,), (0.3, 1)),
        ("laplace", (0, 1), (-1, 0.5)), ("beta", (2, 3), (0.3, 0.6)),
        ("gamma", (2, 1.5), (0.7, 2)), ("lognormal", (0, 0.5), (0.8, 1.5)),
        ("poisson", (1.5,), (1, 2)), ("geometric", (0.4,), (1, 2)),
    ))  # fmt: skip
    g.features.add(f"family {family}")
    condition = []
    options = [p for p in g.preds if not p.timed] if static else g.preds
    if g.flip(0.4) and options:
        kept, timed = g.preds, g.timed
        g.preds, g.timed = options, timed and not static
        condition = g.body(10**6, dict(scope), 1, past=False, fresh=False)
        g.preds, g.timed = kept, timed
    atom = s.Atom(var, (*names, "X"), when)
    g.add(s.Draw(atom, family, params, (*domain, *condition)))
    if condition and g.flip() and family in ("normal", "laplace"):
        shifted = (params[0] + 1, params[1])
        g.add(s.Draw(atom, family, shifted, (*domain, s.Not(tuple(condition)))))
        g.features.add("continuous variable with two clauses")
    whole = family in ("poisson", "geometric")
    for _ in range(g.pick((1, 1, 2))):
        pred = g.define("big", keys)
        op = g.pick((">", "<", ">=")) if not whole else g.pick((">", "<", "=:="))
        cut: Any = g.pick(cuts)
        left: Any = "X"
        if not whole and g.flip(0.3):
            left, cut = ("+", ("*", 2, "X"), 1), 2 * cut + 1
            g.features.add("affine comparison")
        goal = s.Atom(var, (*names, "X"), when)
        body: list[Any] = [*domain, goal, s.Compare(op, left, cut)]
        if g.flip(0.3):
            body = [*domain, s.Not((goal, s.Compare(op, left, cut)))]
        g.clause(None, s.Atom(pred.name, names, g.now), body)
        g.preds.append(pred)
    g.features.add("continuous static" if static else "continuous")


def measured(g: Generator) -> None:
    """A hidden normal with a normal measurement that is observed, and guides for it."""
    keys = g.key()
    if not g.timed or not g.spend(2 * g.count(keys)):
        return
    x, z = g.name("x"), g.name("z")
    names, scope = g.head_scope(keys)
    domain = tuple(g.domain_goals(keys, names))
    hidden = s.Atom(x, (*names, "X"), "t")
    level = 1 + max((p.level for p in g.preds), default=0)
    condition = tuple(g.body(level, dict(scope), 1, past=False, fresh=False))
    if condition and g.flip():
        g.add(s.Draw(hidden, "normal", (0, 1), (*domain, *condition)))
        g.add(s.Draw(hidden, "normal", (1, 0.7), (*domain, s.Not(condition))))
    else:
        g.add(s.Draw(hidden, "normal", (0.5, 1), domain))
    g.add(s.Draw(s.Atom(z, (*names, "Z"), "t"), "normal", ("X", 0.8), (hidden,)))
    pred = g.define("big", keys)
    g.clause(None, s.Atom(pred.name, names, "t"), [hidden, s.Compare(">", "X", g.pick((0, 0.6)))])
    g.preds.append(pred)
    g.observe_data(z, keys, lambda: round(g.rng.gauss(0.5, 1.2), 2))
    g.features.add("hidden normal, measured")
    if g.flip(0.6):
        g.features.add("guide")
        target = s.Atom(x, (*names, "X"), "t")
        if condition and g.flip():
            g.add(s.Draw(target, "normal", (0.3, 1.2), (*domain, *condition), guide=True))
            g.add(s.Draw(target, "normal", (0, 1.5), (*domain, s.Not(condition)), guide=True))
            g.features.add("guides with bodies")
        else:
            g.add(s.Draw(target, "normal", (0.4, 1.3), domain, guide=True))


def contest(g: Generator) -> None:
    """Two normals compared with each other."""
    keys = g.key()
    if not g.flip(0.5) or not g.spend(g.count(keys)):
        return
    names, scope = g.head_scope(keys)
    pred = g.define("wins", keys)
    body = tuple(g.domain_goals(keys, names))
    held = tuple(g.body(pred.level, scope, 1, past=False, fresh=False)) if g.flip(0.3) else ()
    shapes = ((0, 1), (0.5, 2), (1, 0.7))
    g.add(
        s.Contest(
            s.Atom(pred.name, names, g.now), (g.name("x"), g.name("y")), g.pick(shapes),
            g.pick(shapes), g.pick((1, 1, 2, 0.5)), g.pick((0, 0, 1, -0.5)), body, held,
        ),
        "two continuous values compared",
    )  # fmt: skip
    g.preds.append(pred)


def walk(g: Generator) -> None:
    """A random walk that is measured: Kalman's filter knows the evidence."""
    if not g.timed or not g.flip(0.5) or any(isinstance(x, s.Walk) for x in g.statements):
        return
    made = s.Walk(
        g.name("x"), g.name("z"), g.name("up"), g.pick(((0, 1), (0.5, 2))), g.pick((1, 0.8)),
        g.pick((0.5, 1)), g.pick((0.7, 1.5)), g.pick((-0.5, 0, 1)),
    )  # fmt: skip
    g.add(made, "random walk, measured")
    g.observe_data(made.z, (), lambda: round(g.rng.gauss(0, 1.2), 2))
    g.add(s.Query(s.Atom(made.up, (), g.pick(("t", "T")))))


def tenths(g: Generator) -> None:
    """Real numbers of a list: compared with each other, added up, asked for, as a probability."""
    keys = g.key()
    static = g.timed and g.flip(0.4)
    when = None if static else g.now
    values = g.pick(((0.1, 0.7), (0.2, 0.9), (0.1, 0.2, 0.7), (0.25, 0.5)))
    others = g.pick(((0.1, 0.7), (0.2, 0.6), (0.05, 0.3, 0.35)))
    if not g.spend((len(values) + len(others) - 2) * g.count(keys)):
        return
    names, _ = g.head_scope(keys)
    domain = tuple(g.domain_goals(keys, names))
    drawn = []
    for choice, step in ((values, when), (others, g.now)):
        atom = s.Atom(g.name("r"), (*names, "XYZ"[len(drawn)]), step)
        shares = g.pick(SPLITS[len(choice)])
        g.add(s.Draw(atom, "categorical", (list(shares), list(choice)), domain))
        drawn.append(atom)
    first, second = drawn
    op = g.pick(("+", "+", "-", "*"))
    result = s.Atom(g.name("z"), (*names, "Z"), g.now)
    cuts = [round(value_of((op, x, y), {}, None), 15) for x in values for y in others]
    g.clause(None, result, [first, second, s.Compare("is", "Z", (op, "X", "Y"))])
    body = g.pick((
        [first, second, s.Compare(g.pick((">", ">=", "=:=")), "X", "Y")],
        [result, s.Compare(g.pick((">", ">=", "=:=", "<")), "Z", g.pick(cuts))],
        [replace(first, args=(*names, g.pick(values)))],
    ))  # fmt: skip
    pred = g.define("big", keys)
    g.clause(None, s.Atom(pred.name, names, g.now), [*domain, *body])
    g.preds.append(pred)
    if g.flip():
        pred = g.define("heads", keys)
        g.clause("X", s.Atom(pred.name, names, g.now), [*domain, first])
        g.preds.append(pred)
    if not keys:
        g.add(s.Query(replace(first, args=(g.pick(values),), when=when and "t")))
        if g.timed and g.flip(0.4):
            g.observe_data(second.name, (), lambda: g.pick(others))
    g.features.add("real numbers of a list, static" if static else "real numbers of a list")


PARTS = ((1, continuous), (1, measured), (0.7, contest), (0.7, walk), (1, tenths))
