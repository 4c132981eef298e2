"""One answer per atom, for what is asked.

Answers with values that are drawn may speak of the same atom: of `mark(X)@t :- v(_, X)@t.`
there is one for each entity, with the value that this one has. Clauses that read them take
any of them; who asks how likely an atom is wants them all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nesymm.ground.tabling import Answer
from nesymm.ground.unify import NeedsUnfolding, meet
from nesymm.ir.algebra import and_, or_
from nesymm.ir.axes import anywhere
from nesymm.ir.expr import FALSE
from nesymm.ir.symbols import CondList, each_value, has_symbol, inside, key_of, ways

# Up to so many atoms are written out.
_MOST_ATOMS = 10_000


def apart(answers: list[Answer]) -> list[Answer]:
    """Answers of which no two speak of the same atom: those that may are written out atom by
    atom, each with all of its derivations.

    Where the values are not known to be finitely many, they stay as they are.
    """
    out: list[Answer] = []
    for group in _meeting(answers):
        out += _by_atom(group) if len(group) > 1 else group
    return out


def _meeting(answers: list[Answer]) -> Iterator[list[Answer]]:
    """Answers in groups: those that may speak of the same atoms, directly or by way of others."""
    width = len(answers[0].terms) if answers else 0
    fixed = [i for i in range(width) if not any(has_symbol(a.terms[i]) for a in answers)]
    alike: dict[Any, list[list[Answer]]] = {}
    for answer in answers:
        key = key_of(tuple(answer.terms[i] for i in fixed))
        joined, others = [answer], []
        for group in alike.get(key, []):
            if any(_meet(answer, other) for other in group):
                joined = group + joined
            else:
                others.append(group)
        alike[key] = [*others, joined]
    for groups in alike.values():
        yield from groups


def _meet(a: Answer, b: Answer) -> bool:
    try:
        return meet([(a.terms, b.terms)], []) is not None
    except NeedsUnfolding:
        return False


def _by_atom(group: list[Answer]) -> list[Answer]:
    found: dict[Any, Answer] = {}
    for answer in group:
        lists = any(type(term) is CondList for term in inside(answer.terms))
        if lists or ways(answer.terms) > _MOST_ATOMS:
            return group
        for terms, where in each_value(answer.terms):
            condition = and_(answer.condition, where)
            known = found.setdefault(key_of(terms), Answer(terms, FALSE, answer.span))
            known.condition = or_(known.condition, anywhere(condition))
    return [answer for answer in found.values() if answer.condition is not FALSE]
