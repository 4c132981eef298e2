"""The facts of a program as data: inputs with keys, over domains with a value that no fact has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from differential import syntax as s
from nesymm.inference.data import wanted
from nesymm.ir.types import domain

# A name that no program uses.
NOBODY = "nobody"


def tables(case: s.Case) -> dict[str, list[tuple[Any, ...]]]:
    """The predicates that consist of ground facts, with their rows."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    others: set[str] = set()
    for x in case.statements:
        match x:
            case s.Clause(((None, s.Atom(name, args, None)),), ()) if args and all(map(_key, args)):
                rows.setdefault(name, []).append(args)
            case s.Clause(heads):
                others |= {atom.name for _, atom in heads}
            case s.Draw(atom) | s.Best(atom):
                others.add(atom.name)
    plain = {
        name: found
        for name, found in rows.items()
        if name not in others and len({tuple(map(type, r)) for r in found}) == 1
    }
    if not any("nth" in feature for feature in case.features):
        return plain
    # A list of inputs has the order of their keys, one of facts that of the facts.
    return {
        name: found for name, found in plain.items() if _places(found) == sorted(_places(found))
    }


def _places(rows: list[tuple[Any, ...]]) -> list[tuple[int, ...]]:
    """Where rows stand in the domains of their columns."""
    columns = [_domain(list(column)) for column in zip(*rows, strict=True)]
    return [tuple(c.index(k) for c, k in zip(columns, row, strict=True)) for row in rows]


def _key(term: Any) -> bool:
    whole = isinstance(term, int) and not isinstance(term, bool)
    name = isinstance(term, str) and not s.is_variable(term)
    return (whole or name) and not isinstance(term, s.Named)


def some_left_out(case: s.Case) -> list[s.Case]:
    """For each sequence the case with some of its facts left out, others for each. The keys of what
    is observed stay, since who is not there cannot be observed."""
    found = tables(case)
    observed = {
        x.atom.name for x in case.statements if isinstance(x, s.Observe) and x.value is None
    }
    if any(isinstance(keys, dict) and any(keys) for n, keys in case.data.items() if n in observed):
        return [case for _ in case.lengths]
    out = []
    for b in range(len(case.lengths)):
        random = np.random.default_rng([case.seed, b])
        gone = {
            (name, row) for name, rows in found.items() for row in rows if random.random() < 0.3
        }
        kept = tuple(
            x
            for x in case.statements
            if not (isinstance(x, s.Clause) and not x.body and _fact(x) in gone)
        )
        out.append(replace(case, statements=kept))
    return out


def _fact(clause: s.Clause) -> tuple[str, tuple[Any, ...]] | None:
    if len(clause.heads) != 1 or clause.heads[0][0] is not None:
        return None
    atom = clause.heads[0][1]
    return (atom.name, atom.args) if atom.when is None else None


def as_data(case: s.Case, own: list[s.Case] | None = None) -> tuple[s.Case, dict[str, np.ndarray]]:
    """The case with inputs in the place of its facts, and the arrays of these: for each sequence
    the facts of its own case, where these are given."""
    arrays: dict[str, np.ndarray] = {}
    directives = []
    found = tables(case)
    for name, rows in found.items():
        columns = [_domain([row[i] for row in rows]) for i in range(len(rows[0]))]
        array = np.zeros((len(case.lengths), *map(len, columns)), bool)
        for b in range(len(case.lengths)):
            here = rows if own is None else tables(own[b]).get(name, [])
            for row, place in zip(rows, _places(rows), strict=True):
                array[(b, *place)] |= row in here
        arrays[name] = array
        keys = ", ".join(["key"] * len(columns))
        domains = ", ".join(map(_shown, columns))
        directives.append(s.Directive(f"input({name}({keys}), {domains})"))
    kept = tuple(
        x for x in case.statements if not (isinstance(x, s.Clause) and x.heads[0][1].name in found)
    )
    return replace(case, statements=(*directives, *kept)), arrays


def _domain(values: list[Any]) -> list[Any]:
    """All values in the order of their first appearance (whole numbers: all between), and one."""
    if isinstance(values[0], int):
        return list(range(min(values), max(values) + 2))
    return [*dict.fromkeys(values), NOBODY]


def _shown(column: list[Any]) -> str:
    if isinstance(column[0], int):
        return f"{column[0]}..{column[-1]}"
    return s.show(column)


def with_entities(model: Any, data: dict[str, Any], case: s.Case) -> dict[str, Any]:
    """Observations along an axis of all entities; those of no entity are missing."""
    out = dict(data)
    for name, want in wanted(model.step).items():
        if want.kind != "observation" or not want.axes:
            continue
        shape = tuple(a.size for a in want.axes)
        series = case.data[name]
        lead = (len(case.lengths), *((case.steps,) if want.timed else ()))
        array = np.full((*lead, *shape), None, object)
        places = [domain(a.type) for a in want.axes]
        for key, values in series.items():
            at = tuple(p.index(k) for p, k in zip(places, key, strict=True))
            array[(..., *at)] = np.array(values, dtype=object)
        present = [v for v in array.ravel() if v is not None]
        if not any(isinstance(v, str) for v in present):
            array = np.where(array == None, np.nan, array).astype(float)  # noqa: E711
        out[name] = array
    return out
