"""Predicates of ProbLog's libraries that are written in the language itself.

A program that uses one and does not define it gets its clauses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from nesymm.language.parser import parse
from nesymm.language.terms import Struct, Term, subterms

# Which predicates are defined by which text.
_SELECT = """
% Whether the first of some items is taken, given that none before it was.
P::'first·taken'(Id, [Weight | Weights], Items) :-
    sum_list([Weight | Weights], Total), P is Weight / Total.

'select·weighted'(_, [_], [Item], Item, []).
'select·weighted'(Id, Weights, [Item, Next | Items], Item, [Next | Items]) :-
    'first·taken'(Id, Weights, [Item, Next | Items]).
'select·weighted'(Id, [Weight | Weights], [First, Next | Items], Item, [First | Rest]) :-
    \\+ 'first·taken'(Id, [Weight | Weights], [First, Next | Items]),
    'select·weighted'(Id, Weights, [Next | Items], Item, Rest).

select_weighted(Id, Weights, Items, Item, Rest) :-
    sum_list(Weights, Total), Total > 0,
    'select·weighted'(Id, Weights, Items, Item, Rest).

'weights·items'([], [], []).
'weights·items'([(Weight, Item) | Pairs], [Weight | Weights], [Item | Items]) :-
    'weights·items'(Pairs, Weights, Items).

select_weighted(Id, Pairs, Item, Rest) :-
    'weights·items'(Pairs, Weights, Items),
    select_weighted(Id, Weights, Items, Item, Rest).

'weights·alike'([], _, []).
'weights·alike'([_ | Items], Weight, [Weight | Weights]) :-
    'weights·alike'(Items, Weight, Weights).

select_uniform(Id, Items, Item, Rest) :-
    length(Items, Count), Count > 0, Weight is 1 / Count,
    'weights·alike'(Items, Weight, Weights),
    select_weighted(Id, Weights, Items, Item, Rest).
"""
_TEXTS = {
    ("select_weighted", 5): _SELECT,
    ("select_weighted", 4): _SELECT,
    ("select_uniform", 4): _SELECT,
}


_WITH_GOALS = frozenset((":-", "query", "evidence"))


def library_clauses(statements: Iterable[Term], defined: set[tuple[str, int]]) -> tuple[Term, ...]:
    """The clauses of what is used of the libraries and not `defined`."""
    used = {
        (part.functor, part.arity)
        for statement in statements
        if isinstance(statement, Struct) and statement.functor in _WITH_GOALS
        for part in subterms(statement)
        if isinstance(part, Struct) and (part.functor, part.arity) in _TEXTS
    }
    texts = dict.fromkeys(_TEXTS[name] for name in sorted(used - defined))
    return tuple(clause for text in texts for clause in _clauses(text))


@cache
def _clauses(text: str) -> tuple[Term, ...]:
    return parse(text, "library(lists)").statements
