"""Which arguments of a predicate are values, which are keys.

A value argument is one that some clause draws, computes or copies from a value; the
others are keys. It is a property of the predicate, found as a fixpoint over all its
clauses, and `:- fluent(visited(key, key)).` overrides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nesymm.language.builtins import FUNCTIONS
from nesymm.language.program import (
    Atom,
    Body,
    Builtin,
    Call,
    Choice,
    Clause,
    Collect,
    Disjunction,
    Draw,
    Input,
    Literal,
    Negation,
    Pred,
    Rule,
)
from nesymm.language.terms import ListTerm, Struct, Term, Var, variables

Values = dict[Pred, frozenset[int]]

# Builtins that compute some of their arguments from the others.
_COMPUTED = {
    "is": (0,),
    "length": (1,),
    "sum_list": (1,),
    "sumlist": (1,),
    "max_list": (1,),
    "min_list": (1,),
    "plus": (0, 1, 2),
    "succ": (0, 1),
}


def value_positions(
    clauses: Iterable[Clause],
    inputs: Mapping[Pred, Input],
    fluents: Mapping[Pred, tuple[bool, ...]],
    timed: frozenset[Pred],
) -> Values:
    clauses = list(clauses)
    values: dict[Pred, set[int]] = {
        p: set(range(p.arity)) for p, i in inputs.items() if not i.tensor
    }
    for pred, flags in fluents.items():
        values[pred] = {i for i, is_value in enumerate(flags) if is_value}
    changed = True
    while changed:
        changed = False
        for clause in clauses:
            bound = valued_variables(clause.body, values)
            for head in heads(clause):
                if head.pred in fluents:
                    continue
                found = {
                    i
                    for i, arg in enumerate(head.args)
                    if _is_value(arg, bound, head.pred in timed)
                }
                if isinstance(clause, Draw):
                    found |= set(clause.drawn)
                known = values.setdefault(head.pred, set())
                if not found <= known:
                    known |= found
                    changed = True
    return {pred: frozenset(positions) for pred, positions in values.items()}


def heads(clause: Clause) -> tuple[Atom, ...]:
    match clause:
        case Rule(head=head) | Draw(head=head):
            return (head,)
        case Choice(options=options):
            return tuple(atom for _, atom in options)


def _is_value(arg: Term, bound: set[str], timed: bool) -> bool:
    match arg:
        case Var(name):
            return name in bound
        case Struct(functor, args) if timed and (functor, len(args)) in FUNCTIONS:
            return True
        case Struct() | ListTerm():
            return any(v.name in bound for v in variables(arg))
    return False


def valued_variables(body: Body, values: Mapping[Pred, Iterable[int]]) -> set[str]:
    """The variables of a body that some literal binds to a value."""
    bound: set[str] = set()
    before = -1
    while len(bound) != before:
        before = len(bound)
        for literal in body:
            _collect(literal, values, bound)
    return bound


def _collect(literal: Literal, values: Mapping[Pred, Iterable[int]], bound: set[str]) -> None:
    match literal:
        case Call(atom):
            for position in values.get(atom.pred, ()):
                if position < len(atom.args):
                    bound.update(v.name for v in variables(atom.args[position]))
        case Builtin("=", (left, right)):
            for one, other in ((left, right), (right, left)):
                if any(v.name in bound for v in variables(one)):
                    bound.update(v.name for v in variables(other))
        case Builtin("member" | "memberchk", (item, items)):
            if any(v.name in bound for v in variables(items)):
                bound.update(v.name for v in variables(item))
        case Builtin("distance", args):
            bound.update(v.name for v in variables(args[2]))
        case Builtin(name, args) if name in _COMPUTED:
            for position in _COMPUTED[name]:
                bound.update(v.name for v in variables(args[position]))
        case Disjunction(bodies):
            for body in bodies:
                bound |= valued_variables(body, values)
        case Collect(result=result):
            bound.update(v.name for v in variables(result))
        case Negation() | Builtin():
            pass
