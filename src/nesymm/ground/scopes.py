"""Which variables the parts of a clause mention, and which of them they bind."""

from __future__ import annotations

from typing import Any

from nesymm.language.program import (
    Body,
    Builtin,
    Call,
    Choice,
    Collect,
    Disjunction,
    Literal,
    terms_of,
)
from nesymm.language.terms import variables
from nesymm.language.values import heads


def names(node: Any) -> set[str]:
    """The variables of terms, atoms, literals, and tuples of them."""
    return {v.name for term in terms_of(node) for v in variables(term) if v.name != "_"}


def literal_names(literal: Literal) -> set[str]:
    groups = literal.groups if isinstance(literal, Collect) else ()
    return names(literal).union(groups)


def ordered_names(body: Body) -> list[str]:
    return list(dict.fromkeys(n for x in body for n in sorted(literal_names(x))))


def binding_names(body: Body, every: bool = True) -> list[str]:
    """The variables that a body binds; those inside negation and findall are not.

    Of a disjunction, what every alternative binds, or what any of them does.
    """
    found: dict[str, None] = {}
    for literal in body:
        match literal:
            case Call() | Builtin():
                bound = names(literal)
            case Disjunction(bodies):
                each = [set(binding_names(b, every)) for b in bodies]
                bound = set.intersection(*each) if every else set.union(*each)
            case Collect(result=result):
                bound = names(result)
            case _:
                bound = set()
        found.update(dict.fromkeys(sorted(bound)))
    return list(found)


def head_names(clause: Choice) -> set[str]:
    """The variables of the heads and probabilities of a clause."""
    return names((tuple(a.args for a in heads(clause)), tuple(p for p, _ in clause.options)))


def variable_names(clause: Choice) -> tuple[str, ...]:
    """All variables of a clause, head first; they tell its random choices apart."""
    return tuple(
        dict.fromkeys([*sorted(head_names(clause)), *binding_names(clause.body, every=False)])
    )
