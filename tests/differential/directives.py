"""What directives declare: constants, and domains of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.vocabulary import LETTERS

if TYPE_CHECKING:
    from differential.generator import Generator

NAMES = {*LETTERS, "red", "r", "g", "y", "up", "down", "calm", "hall", "yard"}


def constants(g: Generator) -> None:
    """Some of the numbers and names of a program become constants."""
    found: list[Any] = []

    def note(value: Any) -> Any:
        if not isinstance(value, bool | s.Named) and (
            isinstance(value, int | float) or value in NAMES or value in ("t-1", "t-2")
        ):
            found.append((type(value), value))
        return value

    for statement in g.statements:
        s.mapped(statement, note)
    for _ in range(g.pick((1, 1, 2, 3))):
        if not found:
            return
        kind, value = g.pick(found)
        label = g.name("const")
        share = g.pick((0.3, 1.0))

        def put(
            x: Any, kind: Any = kind, value: Any = value, label: str = label, share: float = share
        ) -> Any:
            if type(x) is not kind or x != value or not g.flip(share):
                return x
            if isinstance(x, str) and x.startswith("t-"):
                return s.named(x, f"t-{label}")
            return s.named(x, label)

        g.statements = [_put(x, put) for x in g.statements]
        lag = isinstance(value, str) and value.startswith("t-")
        text = value[2:] if lag else s.show(value).strip("()")
        g.statements.insert(0, s.Directive(f"const({label}, {text})"))
        kinds = {int: "number", float: "number", str: "name"}
        g.features.add(f"constant: {'lag' if lag else kinds[kind]}")


def _put(statement: Any, put: Any) -> Any:
    """Not where a learnable number starts: what it is called goes by that."""
    if isinstance(statement, s.Clause) and any(isinstance(p, tuple) for p, _ in statement.heads):
        heads = tuple((p, s.mapped(a, put)) for p, a in statement.heads)
        return s.Clause(heads, s.mapped(statement.body, put), statement.tilde)
    return s.mapped(statement, put)


def counter(g: Generator) -> None:
    """A value that only a declared domain bounds."""
    keys = g.key()
    if not g.timed or not g.spend(2 * g.count(keys)):
        return
    low, high = g.pick(((0, 1), (-1, 1), (0, 2)))
    first = g.pick((0, 1))
    bottom, top = first + low * g.steps, first + high * g.steps
    values = tuple(range(bottom, top + 1))
    pred = g.define("n", (*keys, values), valued=True)
    names, scope = g.head_scope(keys)
    domain = g.domain_goals(keys, names)
    slack = g.pick((0, 0, 1))
    place = len(keys) + 1
    g.add(s.Directive(f"domain({pred.name}/{place}, {place}, {bottom}..{top + slack})"))
    g.clause(None, s.Atom(pred.name, (*names, first), 0), domain)
    old = s.Atom(pred.name, (*names, "W"), "t-1")
    new = s.Atom(pred.name, (*names, ("+", "W", "D")), "t")
    if g.flip():
        drift = s.Atom(g.name("d"), (*names, "D"), "t")
        g.add(s.Draw(drift, "categorical", ([0.4, 0.6], [low, high]), tuple(domain)))
        g.clause(None, new, [old, drift])
    else:
        condition = tuple(g.body(pred.level, dict(scope), 1, past=False, fresh=False))
        condition = condition or (s.Compare(">", "t", 1),)
        up = s.Atom(pred.name, (*names, ("+", "W", high)), "t")
        g.clause(None, up, [old, *condition])
        g.clause(None, s.Atom(pred.name, (*names, "W"), "t"), [old, s.Not(condition)])
    g.preds.append(pred)
    g.features.add("declared domain")


def declared(g: Generator) -> None:
    """A domain for what is drawn, which needs none."""
    drawn = [p for p in g.preds if p.drawn and not any(isinstance(v, str) and v in LETTERS
                                                      for v in p.domains[-1])]  # fmt: skip
    if not drawn:
        return
    pred = g.pick(drawn)
    values = pred.domains[-1]
    n = len(pred.domains)
    shown = s.show(list(values))
    if all(isinstance(v, int) for v in values):
        shown = f"{min(values)}..{max(values) + g.pick((0, 0, 1))}"
    text = f"domain({pred.name}/{n}, {n}, {shown})"
    if any(isinstance(x, s.Directive) and f"({pred.name}/" in x.text for x in g.statements):
        return
    g.add(s.Directive(text), "declared domain of a draw")


def growing_key(g: Generator) -> None:
    """A set of places that grows by what is drawn, until a test, facts or the horizon end it."""
    if not g.timed or g.steps > 4:
        return
    rises = g.pick(((0, 1), (1, 2), (-1, 1), (0, 2)))
    first = g.pick((0, 1))
    bottom, top = first + min(rises[0], 0) * g.steps, first + rises[1] * g.steps
    bound = g.pick(("none", "test", "test before", "between", "between before", "facts"))
    limit = g.pick((first + 1, first + 2, top))
    cells = tuple(range(bottom, (top if bound == "none" else min(top, limit)) + 1))
    if bound == "test before":
        cells = tuple(range(bottom, min(top, limit + rises[1]) + 1))
    if not g.spend(2 * len(cells)):
        return
    pred = g.define("r", (cells,))
    drift = s.Atom(g.name("d"), ("D",), "t")
    g.add(s.Directive(f"fluent({pred.name}(key))"))
    # Nothing else may be a bound, and then the horizon keeps it inside.
    if bound == "none" or rises[0] < 0 or g.flip(0.3):
        slack = g.pick((0, 0, 1))
        g.add(s.Directive(f"domain({pred.name}/1, 1, {bottom - slack}..{max(cells) + slack})"))
        g.features.add("declared domain of a key")
    g.add(s.Draw(drift, "categorical", ([0.4, 0.6], list(rises)), ()))
    g.clause(None, s.Atom(pred.name, (first,), 0))
    goals: list[s.Goal] = [
        s.Atom(pred.name, ("Y",), "t-1"), drift, s.Compare("is", "X", ("+", "Y", "D"))
    ]  # fmt: skip
    if bound == "test":
        goals.append(s.Compare("=<", "X", limit))
    elif bound == "test before":
        goals.insert(1, s.Compare("=<", "Y", limit))
    elif bound == "between":
        goals.append(s.Between(bottom, limit, "X"))
    elif bound == "between before":
        goals.insert(0, s.Between(bottom, limit, "X"))
        goals[-1] = s.Compare("=:=", "X", ("+", "Y", "D"))
    elif bound == "facts":
        cell = g.name("cell")
        for i in range(bottom, limit + 1):
            g.add(s.Clause(((None, s.Atom(cell, (i,))),)))
        goals.append(s.Atom(cell, ("X",)))
    head = s.Atom(pred.name, ("X",), "t")
    g.clause(g.probability() if g.flip(0.3) else None, head, goals)
    if g.flip(0.5):
        g.clause(None, head, [s.Atom(pred.name, ("X",), "t-1")])
    g.preds.append(pred)
    g.features.add(f"growing key bounded by {bound}")


PARTS = ((2, growing_key), (2, counter), (1, declared))
