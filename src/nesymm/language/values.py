"""Which arguments of a predicate are values, which are keys.

A value argument is one that some clause draws, computes or copies from a value; the
others are keys. It is a property of the predicate, found as a fixpoint over all its
clauses, and `:- fluent(visited(key, key)).` overrides it.

A variable that a key binds stays one: in `near(E) :- enemy(E), at(E)@t.` the enemies are
compared with a place that is drawn, and several can be near.
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
    "subquery": (1,),
}


def value_positions(
    clauses: Iterable[Clause],
    inputs: Mapping[Pred, Input],
    fluents: Mapping[Pred, tuple[bool, ...]],
    timed: frozenset[Pred],
) -> Values:
    clauses = list(clauses)
    values: dict[Pred, set[int]] = {
        p: set(range(p.arity)) - set(i.keys) for p, i in inputs.items() if not i.tensor
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
    """The variables of a body that some literal binds to a value, before any binds them as keys."""
    bound: set[str] = set()
    before = -1
    while len(bound) != before:
        before = len(bound)
        keys: set[str] = set()
        for literal in body:
            _collect(literal, values, bound, keys)
    return bound


def _collect(
    literal: Literal, values: Mapping[Pred, Iterable[int]], bound: set[str], keys: set[str]
) -> None:
    match literal:
        case Call(atom):
            known = frozenset(values.get(atom.pred, ()))
            for valued in (False, True):
                for position, arg in enumerate(atom.args):
                    if (position in known) is not valued:
                        continue
                    if valued:
                        bound |= _names(arg) - keys
                    else:
                        keys |= _names(arg) - bound
        case Builtin("=", (left, right)):
            for one, other in ((left, right), (right, left)):
                if not bound.isdisjoint(_names(one)):
                    bound |= _names(other) - keys
        case Builtin("member" | "memberchk", (item, items)):
            if not bound.isdisjoint(_names(items)):
                bound |= _names(item) - keys
            else:
                keys |= _names(item) - bound
        case Builtin("between", (_, _, item)):
            keys |= _names(item) - bound
        case Builtin("distance", args):
            bound |= _names(args[2]) - keys
        case Builtin(name, args) if name in _COMPUTED:
            for position in _COMPUTED[name]:
                bound |= _names(args[position]) - keys
        case Disjunction(bodies):
            for body in bodies:
                bound |= valued_variables(body, values) - keys
        case Collect(result=result):
            bound |= _names(result) - keys
        case Negation() | Builtin():
            pass


def _names(term: Term) -> set[str]:
    return {v.name for v in variables(term)}
