"""Answers that leave variables open, for a caller to bind: `eq(X, X).` called with one of the two.

A predicate without time that is neither random nor carried may have them. Each use of such an
answer has variables of its own. What is asked, collected or chosen must be ground.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from nesymm.errors import fail
from nesymm.ground.clauses import Clauses, Resolvent
from nesymm.ground.tabling import Answer, State
from nesymm.ground.unify import Env, count_variables, number_variables, shift
from nesymm.ir.symbols import atoms_of, axes_of, is_ground
from nesymm.ir.terms import V
from nesymm.language.program import Pred


@dataclass(frozen=True, slots=True)
class Opening:
    """The clause that leaves a variable of its head open, and the variable's name."""

    rule: Resolvent
    name: str


# Where each predicate with open answers has the first of them from.
Openings = dict[Pred, Opening]


def left_open(
    clauses: Clauses, openings: Openings, listed: Pred | None, state: State, terms: tuple
) -> tuple:
    """An answer with its open variables numbered; refused where it has to be ground.

    Where all answers of a predicate are `listed`, its own have to be, and those of a recursion,
    which may have no end.
    """
    pred, rule = state.table.pred, state.rule
    position, leaf = next(
        (i, leaf) for i, term in enumerate(terms) for leaf in atoms_of(term) if type(leaf) is V
    )
    opening = _opening(clauses, openings, state, position, leaf)
    may = pred.kind == "program" and not rule.timed and not clauses.is_keyed(pred)
    if listed is not None:
        may = may and pred != listed and not state.table.recursive
    if not may or axes_of(terms):
        refuse_open(opening)
    openings.setdefault(pred, opening)
    return number_variables(terms)


def _opening(clauses: Clauses, openings: Openings, state: State, position: int, leaf: V) -> Opening:
    """The clause of a derivation, or the one that a variable of an answer to it comes from."""
    rule = state.rule
    if leaf.i >= rule.size + count_variables(state.table.args):
        found = (openings[p] for p in clauses.called_by(rule) if p in openings)
        return next(found, Opening(rule, "_"))
    original = rule.head[position]
    own = rule.names[leaf.i] if leaf.i < len(rule.names) else "_"
    named = type(original) is V and not rule.names[original.i].startswith("_")
    return Opening(rule, rule.names[original.i] if named else own)


def refuse_open(opening: Opening) -> NoReturn:
    name, rule = opening.name, opening.rule
    chosen = rule.pred.kind == "choice"
    what, code = ("a probabilistic clause", "E303") if chosen else ("a head", "E301")
    name = "a variable" if name.startswith("_") else f"the variable {name}"
    fail(
        code,
        f"{name} of {what} is not bound when the clause is used",
        rule.span,
        "bind it in the body, or call the predicate with that argument known",
    )


def refuse_open_answers(openings: Openings, pred: Pred, answers: Iterable[Answer]) -> None:
    """Raise if an answer that has to be ground is not."""
    if pred in openings and not all(is_ground(answer.terms) for answer in answers):
        refuse_open(openings[pred])


def placed(terms: tuple, env: Env) -> tuple:
    """An answer with its open variables at the end of a frame, which grows by them."""
    count = count_variables(terms)
    if not count:
        return terms
    moved: tuple[Any, ...] = tuple(shift(term, len(env)) for term in terms)
    env.extend([None] * count)
    return moved
