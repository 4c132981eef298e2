"""Unification: variables are bound, equalities on symbols collected.

Unifying a symbol with something else does not fail or succeed, it adds an equality to the
condition of the derivation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nesymm.ir.algebra import and_, eq, not_, or_
from nesymm.ir.expr import FALSE, TRUE, Expr
from nesymm.ir.symbols import CondList, as_expr, atoms_of, axes_of, entries_of, parts, rebuilt
from nesymm.ir.terms import Compound, Cons, V

Env = list


def deref(term: Any, env: Env) -> Any:
    """Follow a variable to what it is bound to; unbound variables stay."""
    while type(term) is V:
        bound = env[term.i]
        if bound is None:
            return term
        term = bound
    return term


def resolve(term: Any, env: Env) -> Any:
    """The term with all bound variables replaced."""
    term = deref(term, env)
    return rebuilt(term, lambda t: resolve(t, env)) if type(term) in _NESTED else term


_NESTED = frozenset((tuple, Compound, Cons))


class NeedsUnfolding(Exception):
    """A conditional list met something that needs to know its items."""

    def __init__(self, value: CondList):
        self.value = value


def unify(a: Any, b: Any, env: Env, conditions: list[Expr]) -> bool:
    """Bind variables in `env`, collect equalities on symbols; False if it cannot hold."""
    stack = [(a, b)]
    while stack:
        a, b = stack.pop()
        a, b = deref(a, env), deref(b, env)
        if a is b:
            continue
        ka, kb = type(a), type(b)
        if ka is V:
            if kb is V and a.i == b.i:
                continue
            env[a.i] = b
        elif kb is V:
            env[b.i] = a
        elif ka is Expr or kb is Expr:
            lists = _spelt_out(a, b)
            if lists is not None:
                stack.append(lists)
            elif not _unify_symbol(a, b, conditions):
                return False
        elif ka is CondList or kb is CondList:
            value, other = (a, b) if ka is CondList else (b, a)
            if other == () and not value.ordered and not axes_of(parts(value)):
                # Empty in any order.
                conditions.append(not_(or_(*(c for _, c in value.items))))
            elif a != b or not value.ordered:
                raise NeedsUnfolding(value)
        elif ka is Compound and kb is Compound:
            if a.functor != b.functor or len(a.args) != len(b.args):
                return False
            stack.extend(zip(a.args, b.args, strict=True))
        elif (ka is tuple or ka is Cons) and (kb is tuple or kb is Cons):
            pairs = _unify_lists(a, b)
            if pairs is None:
                return False
            stack.extend(pairs)
        elif ka is not kb or a != b:
            return False
    return True


def unify_all(pairs: Iterable[tuple[Any, Any]], env: Env, conditions: list[Expr]) -> bool:
    return all(unify(a, b, env, conditions) for a, b in pairs)


def meet(pairs: Iterable[tuple[Any, Any]], env: Env, given: Expr = TRUE) -> tuple[Env, Expr] | None:
    """The bindings under which pairs of terms are equal, and when they are, if `given` holds;
    None where they never are."""
    new, conditions = list(env), [given]
    if not unify_all(pairs, new, conditions):
        return None
    both = and_(*conditions)
    return None if both is FALSE else (new, both)


def _spelt_out(a: Any, b: Any) -> tuple[tuple, Any] | None:
    """A vector that meets a list: both as lists."""
    for symbol, other in ((a, b), (b, a)):
        if type(other) is tuple or type(other) is Cons:
            entries = entries_of(symbol)
            return (entries, other) if type(entries) is tuple else None
    return None


def _unify_symbol(a: Any, b: Any, conditions: list[Expr]) -> bool:
    x, y = as_expr(a), as_expr(b)
    condition = eq(x, y)
    if condition is FALSE:
        return False
    if condition is not TRUE:
        conditions.append(condition)
    return True


def _unify_lists(a: Any, b: Any) -> list[tuple[Any, Any]] | None:
    items_a, tail_a = (a, ()) if type(a) is tuple else (a.items, a.tail)
    items_b, tail_b = (b, ()) if type(b) is tuple else (b.items, b.tail)
    n = min(len(items_a), len(items_b))
    pairs = list(zip(items_a[:n], items_b[:n], strict=True))
    rest_a, rest_b = items_a[n:], items_b[n:]
    left = Cons(rest_a, tail_a) if rest_a and tail_a != () else rest_a or tail_a
    right = Cons(rest_b, tail_b) if rest_b and tail_b != () else rest_b or tail_b
    if left == () and right == ():
        return pairs
    if (left == () and rest_b) or (right == () and rest_a):
        return None
    pairs.append((left, right))
    return pairs


def shift(term: Any, offset: int) -> Any:
    """Move the variables of a call behind those of a clause."""
    if type(term) is V:
        return V(term.i + offset)
    return rebuilt(term, lambda t: shift(t, offset)) if type(term) in _NESTED else term


def count_variables(args: tuple) -> int:
    return len({leaf.i for a in args for leaf in atoms_of(a) if type(leaf) is V})


def number_variables(args: tuple) -> tuple:
    """Number the unbound variables of a call by first appearance."""
    if not any(type(a) is V or parts(a) for a in args):
        return args
    numbers: dict[int, int] = {}

    def change(term: Any) -> Any:
        if type(term) is V:
            return V(numbers.setdefault(term.i, len(numbers)))
        return rebuilt(term, change) if type(term) in _NESTED else term

    return tuple([change(a) for a in args])


def replace_list(term: Any, value: CondList, items: tuple | CondList) -> Any:
    """The term with a conditional list replaced by one of the lists it can be."""
    if type(term) is CondList:
        return items if term is value or term == value else term
    return rebuilt(term, lambda t: replace_list(t, value, items))
