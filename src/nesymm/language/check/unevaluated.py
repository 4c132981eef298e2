"""Arithmetic where nothing evaluates it: `wall(X + 1)` in a body is a term, equal to no number.

In the heads of clauses with a time arithmetic is evaluated, so one may expect it in bodies too. It
is refused where nothing could ever match: where no clause puts such a term at that argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from nesymm.errors import Diagnostic
from nesymm.language.builtins import FUNCTIONS
from nesymm.language.printer import pprint
from nesymm.language.program import (
    Atom,
    Body,
    Builtin,
    Call,
    Clause,
    Draw,
    Guide,
    Input,
    Observation,
    Pred,
    Query,
)
from nesymm.language.terms import Struct, Term, Var, subterms
from nesymm.language.values import heads

Place = tuple[Pred, int]


def unevaluated(
    clauses: Iterable[Clause],
    guides: Iterable[Guide],
    goals: Iterable[Observation | Query],
    inputs: Mapping[Pred, Input],
    timed: frozenset[Pred],
) -> Iterator[Diagnostic]:
    """The atoms of a program with time that no answer matches, since an argument is arithmetic."""
    clauses = list(clauses)
    written = [x.body for x in clauses if any(h.pred in timed for h in heads(x))]
    mentions = [*_atoms((*written, *(g.body for g in guides)))]
    mentions += [a for g in goals for a in _atoms((g.atom, g.body)) if g.atom.pred in timed]
    if not any(_is_sum(arg) for atom in mentions for arg in atom.args):
        return
    open_places = _places_of_sums(clauses, inputs, timed)
    for atom in mentions:
        for i, arg in enumerate(atom.args):
            if _is_sum(arg) and (atom.pred, i) not in open_places:
                text = arg.span.text if arg.span else pprint(arg)
                shown = ", ".join("Value" if k == i else "…" for k in range(atom.pred.arity))
                time = atom.time or ""
                yield Diagnostic(
                    "E308",
                    f"`{text}` is not evaluated here: as an argument it is a term, and "
                    f"{atom.pred} has numbers or names there",
                    arg.span or atom.span,
                    f"compute it in a body: `Value is {text}, {atom.pred.name}({shown}){time}`",
                )


def _is_sum(term: Term) -> bool:
    return isinstance(term, Struct) and (term.functor, len(term.args)) in FUNCTIONS


def _atoms(node: Any) -> Iterator[Atom]:
    """All atoms in goals, those within negations and aggregates too."""
    if isinstance(node, Atom):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _atoms(part)
    elif is_dataclass(node) and not isinstance(node, Term):
        for f in fields(node):
            yield from _atoms(getattr(node, f.name))


def _places_of_sums(
    clauses: list[Clause], inputs: Mapping[Pred, Input], timed: frozenset[Pred]
) -> set[Place]:
    """Arguments that may hold a term like `1 - 2`: the least set that the clauses allow."""
    found = {
        (pred, i)
        for pred, given in inputs.items()
        for i, domain in enumerate(given.domains)
        if domain is not None and _lists_sums(domain)
    }
    before = -1
    while len(found) != before:
        before = len(found)
        for clause in clauses:
            for head in heads(clause):
                found |= {
                    (head.pred, i)
                    for i, arg in enumerate(head.args)
                    if _may_be_sum(arg, i, clause, head.pred in timed, found)
                }
    return found


def _lists_sums(domain: Term) -> bool:
    return any(_is_sum(t) and any(map(_is_name, subterms(t))) for t in subterms(domain))


def _is_name(term: Term) -> bool:
    return isinstance(term, Struct) and not term.args


def _may_be_sum(arg: Term, place: int, clause: Clause, timed: bool, found: set[Place]) -> bool:
    if isinstance(clause, Draw) and place in clause.drawn:
        return any(map(_is_sum, (t for p in clause.params for t in subterms(p))))
    if isinstance(arg, Var):
        return not _is_plain(arg.name, clause.body, found)
    return _is_sum(arg) and not timed


def _is_plain(name: str, body: Body, found: set[Place]) -> bool:
    """Whether some goal binds a variable to what is certainly no arithmetic term."""
    for literal in body:
        match literal:
            case Call(atom):
                for i, arg in enumerate(atom.args):
                    if isinstance(arg, Var) and arg.name == name and (atom.pred, i) not in found:
                        return True
            case Builtin("is", (Var(bound), _)) | Builtin("between", (_, _, Var(bound))):
                if bound == name:
                    return True
    return False


__all__ = ["unevaluated"]
