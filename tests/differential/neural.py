"""Small fixed networks that give probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from differential import syntax as s
from differential.vocabulary import ENTITY, NUMBER, numbers

if TYPE_CHECKING:
    from differential.generator import Generator


def network(g: Generator) -> None:
    """A value or a truth whose probabilities a network gives: of a tensor, an entity, a value."""
    name = g.name("net")
    keys: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    body: list[Any] = []
    sources = [
        p for p in g.preds if len(p.domains) in (1, 2) and numbers(p.domains[-1])
        and p.domains[-1] is not NUMBER and p.valued and p.domains[:-1] in ((), (ENTITY,))
    ]  # fmt: skip
    options = ["tensor"]
    if g.members and g.numeric:
        options.append("entity")
    if sources:
        options += ["value", "value"]
    of = g.pick(options)
    arg: Any = 0
    tensor = ""
    timed = g.timed
    if of == "tensor":
        timed = g.timed and g.flip(0.7)
        source = g.name("u")

        def entry() -> list[float]:
            return [round(g.rng.uniform(-1, 1), 2) for _ in range(2)]

        g.add(s.Input(source, (), timed))
        g.data[source] = [
            [entry() for _ in range(g.steps)] if timed else entry() for _ in range(g.batch)
        ]
        tensor = f"{source}@t" if timed else source
    elif of == "entity":
        keys, names, arg = (ENTITY,), ("E",), "E"
        body = [g.everyone("E")]
    else:
        read = g.pick(sources)
        keys, names = read.domains[:-1], ("E",) * (len(read.domains) - 1)
        arg = "W"
        body = [s.Atom(read.name, (*names, "W"), "t" if read.timed else None)]
    values = g.pick((("r", "g"), (0, 1, 2), (1, 2)))
    form = g.pick(("categorical", "categorical", "bernoulli", "nn"))
    if form == "nn" and of == "tensor":
        form = "bernoulli"
    if not g.spend(g.count(keys) * (len(values) - 1 if form == "categorical" else 1)):
        return
    if form == "categorical":
        g.add(s.Directive(f"network({name}, {len(values)})"))
        pred = g.define("c", (*keys, values), valued=True, drawn=True)
        net = s.Net(name, arg, len(values), tensor)
        atom = s.Atom(pred.name, (*names, "V"), g.now)
        g.add(s.Draw(atom, "categorical", (net, list(values)), tuple(body)))
    else:
        net = s.Net(name, arg, 1, tensor)
        pred = g.define("h", keys)
        if form == "bernoulli":
            g.add(s.Directive(f"network({name}, 1)"))
        head = s.Atom(pred.name, names, g.now)
        g.add(s.Clause(((net, head),), tuple(body), tilde=form == "bernoulli"))
    g.features.add(f"network of {'an' if of == 'entity' else 'a'} {of}")
    g.features.add(f"network in {form}")
    g.preds.append(pred)


PARTS = ((2, network),)
