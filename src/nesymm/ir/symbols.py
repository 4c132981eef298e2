"""Symbols: values in terms that are only known at run time, as expressions.

A term may hold an `Expr` wherever it may hold a constant. A list whose items are there or not is a
`CondList`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from nesymm.ir.algebra import and_, const, eq, item, vector
from nesymm.ir.expr import TRUE, Axis, Expr
from nesymm.ir.terms import Compound, Cons, V
from nesymm.ir.types import Int, Real, Tensor, domain, size


@dataclass(frozen=True, slots=True)
class CondList:
    """A list whose items are there or not, each under its condition.

    What `findall` returns when answers are uncertain. Lengths, sums and extremes of it
    stay symbolic; any other use of it unfolds it into the lists it can be. Where it is not
    `ordered`, ProbLog may have the items in another order, so that no use may depend on it.
    An item may stand for many, one for each place along the axes in `own`; any other axis of an
    item belongs to the clause around the list.
    """

    items: tuple[tuple[Any, Expr], ...]
    ordered: bool = True
    own: frozenset[Axis] = field(default=frozenset(), compare=False)

    @property
    def given(self) -> frozenset[Axis]:
        """The axes of the clause around the list."""
        return frozenset(axes_of(x for pair in self.items for x in pair)) - self.own

    @property
    def certain(self) -> bool:
        return all(condition is TRUE for _, condition in self.items)


def parts(term: Any) -> tuple:
    kind = type(term)
    if kind is tuple:
        return term
    if kind is Compound:
        return term.args
    if kind is Cons:
        return (*term.items, term.tail)
    if kind is CondList:
        return tuple(x for pair in term.items for x in pair)
    return ()


def rebuilt(term: Any, change: Callable[[Any], Any]) -> Any:
    """The term with its parts changed. Conditional lists are left as they are."""
    kind = type(term)
    if kind is tuple:
        return tuple([change(t) for t in term])
    if kind is Compound:
        return Compound(term.functor, tuple([change(t) for t in term.args]))
    if kind is Cons:
        return join_list(tuple([change(t) for t in term.items]), change(term.tail))
    return term


def join_list(items: tuple, tail: Any) -> Any:
    """`[a, b | Tail]`, plain if the tail is known."""
    if type(tail) is tuple:
        return items + tail
    return Cons(items + tail.items, tail.tail) if type(tail) is Cons else Cons(items, tail)


def atoms_of(term: Any) -> Iterator[Any]:
    """The leaves of a term: constants, symbols and variables."""
    kind = type(term)
    if kind is str or kind is int or kind is Expr or kind is V:
        yield term
        return
    stack = [term]
    while stack:
        current = stack.pop()
        below = parts(current)
        if below:
            stack.extend(reversed(below))
        else:
            yield current


def inside(term: Any) -> Iterator[Any]:
    """A term and what it is made of; conditional lists are not looked into."""
    kind = type(term)
    yield term
    if kind is not CondList:
        for part in parts(term):
            yield from inside(part)


def is_ground(term: Any) -> bool:
    """Free of variables (it may hold symbols)."""
    return not any(type(leaf) is V for leaf in atoms_of(term))


def has_symbol(term: Any) -> bool:
    return any(isinstance(leaf, Expr) for leaf in atoms_of(term))


def symbols(term: Any) -> list[Expr]:
    return [leaf for leaf in atoms_of(term) if isinstance(leaf, Expr)]


def axis_of(term: Any) -> Axis | None:
    """The axis that a term is the value of, if it is one."""
    return term.data if type(term) is Expr and term.op == "axis" else None


def axes_of(terms: Iterable[Any]) -> set[Axis]:
    found: set[Axis] = set()
    for term in terms:
        kind = type(term)
        if kind is str or kind is int:
            continue
        if kind is Expr:
            found |= term.axes
        elif parts(term):
            for leaf in symbols(term):
                found |= leaf.axes
    return found


def map_symbols(term: Any, change: Callable[[Expr], Any]) -> Any:
    if isinstance(term, Expr):
        return change(term)
    if type(term) is CondList:
        items = tuple((map_symbols(t, change), change(c)) for t, c in term.items)
        return CondList(items, term.ordered, term.own)
    return rebuilt(term, lambda t: map_symbols(t, change))


def ways(term: Any) -> float:
    """How many values the symbols of a term can have together."""
    return math.prod(size(symbol.type) for symbol in set(symbols(term)))


def each_value(term: Any) -> Iterator[tuple[Any, Expr]]:
    """The term for each of the finitely many values of its symbols, and when they have these."""
    found = list(dict.fromkeys(symbols(term)))
    for values in product(*(domain(symbol.type) for symbol in found)):
        here = dict(zip(found, values, strict=True))
        where = and_(*(eq(symbol, const(value)) for symbol, value in here.items()))
        yield map_symbols(term, here.__getitem__), where


def key_of(term: Any) -> Any:
    """A dictionary key: unlike in Python, 1 and 1.0 are different terms."""
    kind = type(term)
    if kind is float:
        return ("float", term)
    if kind is tuple:
        return tuple([key_of(t) for t in term])
    if kind is Compound:
        return (term.functor, "/", tuple([key_of(t) for t in term.args]))
    return term


def as_expr(term: Any) -> Expr:
    """A ground constant or a symbol as an expression."""
    return term if isinstance(term, Expr) else const(term)


def plain(value: Any) -> Any:
    """The value of a constant; other symbols and terms as they are."""
    return value.data if isinstance(value, Expr) and value.op == "const" else value


def entries_of(term: Any) -> Any:
    """A tensor of known shape as the list of its entries; other terms as they are."""
    if not isinstance(term, Expr) or not isinstance(term.type, Tensor) or not term.type.shape:
        return term
    return tuple(item(term, i) for i in range(term.type.shape[0]))


def as_tensor(term: Any) -> Any:
    """A list of numbers as one tensor; other terms as they are."""
    if type(term) is not tuple or not term:
        return term
    entries = [as_expr(as_tensor(t)) for t in term]
    types = {type(e.type) for e in entries}
    shapes = {e.type.shape for e in entries if isinstance(e.type, Tensor)}
    numbers = types <= {Int, Real} or (types == {Tensor} and len(shapes) == 1)
    return vector(entries) if numbers else term
