"""The standard order of terms, and sorting by it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cmp_to_key
from typing import Any

from nesymm.errors import fail
from nesymm.ground.builtins.lists import known_list
from nesymm.ground.builtins.results import Results, bind
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, NeedsUnfolding, resolve
from nesymm.ir.algebra import and_
from nesymm.ir.expr import Expr
from nesymm.ir.symbols import CondList, atoms_of, each_value, inside, key_of, ways
from nesymm.ir.terms import Compound, Text, V, bare, is_operation, quote


def _compare_terms(a: Any, b: Any, by_text: bool) -> int:
    """The standard order as ProbLog has it: numbers, texts, then by arity and name.

    ProbLog compares numbers that differ as they are written, so that 10 is before 9.
    """
    ranks = [_rank(x) for x in (a, b)]
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if ranks[0] == 1 and a == b:
        return (type(a) is int) - (type(b) is int)
    if ranks[0] == 1 and not by_text:
        return -1 if a < b else 1
    if ranks[0] < 3:
        return -1 if str(a) < str(b) else 1 if str(a) > str(b) else 0
    (left, below), (right, beside) = _shape(a), _shape(b)
    if left != right:
        return -1 if left < right else 1
    for x, y in zip(below, beside, strict=True):
        found = _compare_terms(x, y, by_text)
        if found:
            return found
    return 0


def _rank(term: Any) -> int:
    return 1 if type(term) in (int, float) else 2 if type(term) is Text else 3


def _shape(term: Any) -> tuple[tuple[int, str], tuple]:
    """What a term is compared by, and its arguments. A list is a pair of head and tail."""
    if type(term) is tuple and term:
        return (2, "."), (term[0], term[1:])
    if type(term) is Compound:
        name = f"'{term.functor}'" if is_operation(term) else quote(bare(term.functor))
        return (len(term.args), name), term.args
    return (0, "[]" if term == () else quote(term)), ()


def _sorted(items: tuple, by_text: bool) -> list[Any]:
    return sorted(items, key=cmp_to_key(lambda a, b: _compare_terms(a, b, by_text)))


_MAX_VALUES = 1_000
_ORDERS = {"@<": (-1,), "@>": (1,), "@=<": (-1, 0), "@>=": (0, 1)}


def precedes(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    """`@<` and its like: the standard order of terms."""
    for found, condition in _compared(lit, lit.args, env):
        if found in _ORDERS[lit.name]:
            yield env, condition


def order(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    """`compare(Order, X, Y)`."""
    known = resolve(lit.args[0], env)
    if type(known) is not V and known not in ("<", "=", ">"):
        fail("E308", "an order is <, = or >", lit.span, "write `compare(Order, X, Y)`")
    for found, condition in _compared(lit, lit.args[1:], env):
        for new, extra in bind(env, (lit.args[0], "=><"[found])):
            yield new, and_(condition, extra)


def _compared(lit: BuiltinLit, pair: tuple, env: Env) -> Iterator[tuple[int, Expr]]:
    """How two terms compare, -1, 0 or 1, and when: a symbol may have any of its values."""
    terms = tuple(resolve(x, env) for x in pair)
    for leaf in (leaf for term in terms for leaf in inside(term)):
        if type(leaf) is CondList:
            raise NeedsUnfolding(leaf)
        if type(leaf) is V:
            fail("E302", "a term in this comparison is not known yet", lit.span, "bind it before")
    if ways(terms) > _MAX_VALUES:
        fail(
            "E308",
            "these values are only known at run time, and they are too many to compare as terms",
            lit.span,
            "compare numbers by `<` and `=<`",
        )
    for (a, b), condition in each_value(terms):
        found = _compare_terms(a, b, by_text=False)
        if not lit.timed and found != _compare_terms(a, b, by_text=True):
            fail(
                "E308",
                "ProbLog compares these numbers as they are written, 10 before 9",
                lit.span,
                "compare numbers by `<` and `=<`",
            )
        yield found, condition


def sort(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    term = resolve(lit.args[0], env)
    if type(term) is CondList and term.certain:
        given = tuple(item for item, _ in term.items)
    else:
        given = known_list(term, lit.span)
    for leaf in (leaf for item in given for leaf in atoms_of(item)):
        if isinstance(leaf, Expr):
            fail(
                "E308",
                "values that are only known at run time cannot be sorted",
                lit.span,
                "take their minimum or maximum: `min_list(L, M)`",
            )
        if type(leaf) is V:
            fail("E302", "an item of this list is not known yet", lit.span, "bind it to the left")
    if lit.name == "sort":
        given = tuple({key_of(i): i for i in given}.values())
    items = _sorted(given, by_text=False)
    if lit.name == "sort" and not lit.timed and items != _sorted(given, by_text=True):
        fail(
            "E308",
            "ProbLog sorts these numbers as they are written, 10 before 9",
            lit.span,
            "sort by value with `msort(L, S)`; `list_to_set(L, S)` removes duplicates",
        )
    return bind(env, (lit.args[1], tuple(items)))
