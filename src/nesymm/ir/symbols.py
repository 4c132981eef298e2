"""Terms while grounding: constants, symbols, variables of a frame; unification.

Ground constants are plain Python values: an atom is a `str`, a number an `int` or
`float`, a list a `tuple`; `Compound` and `Text` are the rest. A *symbol* is an `Expr`:
a value that is only known at run time. Unifying a symbol with something else does not
fail or succeed, it adds an equality to the condition of the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nesymm.ir.algebra import const, eq, item, not_, or_, vector
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr
from nesymm.ir.types import Int, Real, Tensor
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var


class V:
    """A variable: an index into the frame of a clause."""

    __slots__ = ("i",)

    def __init__(self, i: int):
        self.i = i

    def __repr__(self) -> str:
        return f"_{self.i}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, V) and other.i == self.i

    def __hash__(self) -> int:
        return hash(("V", self.i))


@dataclass(frozen=True, slots=True)
class Compound:
    functor: str
    args: tuple

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, slots=True)
class Text:
    value: str

    def __str__(self) -> str:
        return _escaped(self.value, '"')


@dataclass(frozen=True, slots=True)
class Cons:
    """`[a, b | Tail]` while the tail is not yet a list."""

    items: tuple
    tail: Any


class CondList:
    """A list whose items are there or not, each under its condition.

    What `findall` returns when answers are uncertain. Lengths, sums and extremes of it
    stay symbolic; any other use of it unfolds it into the lists it can be. Where it is not
    `ordered`, ProbLog may have the items in another order, so that no use may depend on it.
    An item may stand for many, one for each place along the axes in `own`; any other axis of an
    item belongs to the clause around the list.
    """

    __slots__ = ("items", "ordered", "own")

    def __init__(
        self,
        items: tuple[tuple[Any, Expr], ...],
        ordered: bool = True,
        own: frozenset[Axis] = frozenset(),
    ):
        self.items = items
        self.ordered = ordered
        self.own = own

    @property
    def given(self) -> frozenset[Axis]:
        """The axes of the clause around the list."""
        return frozenset(axes_of(x for pair in self.items for x in pair)) - self.own

    @property
    def certain(self) -> bool:
        return all(condition is TRUE for _, condition in self.items)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CondList)
            and self.items == other.items
            and self.ordered == other.ordered
        )

    def __hash__(self) -> int:
        return hash(self.items)


Env = list


def compile_term(term: Term, slots: dict[str, int], fresh: Callable[[], int]) -> Any:
    """A source term as a run-time term; every `_` is a variable of its own."""
    match term:
        case Var("_"):
            return V(fresh())
        case Var(name):
            if name not in slots:
                slots[name] = fresh()
            return V(slots[name])
        case Num(value):
            return settle(value)
        case Str(value):
            return Text(value)
        case Struct(functor, ()):
            return functor
        case Struct("," | ";" as functor, (first, *others)) if len(others) > 1:
            # `(a, b, c)` is flat as a body, and a pair of a and a pair as a term.
            rest = Struct(functor, tuple(others))
            pair = (compile_term(first, slots, fresh), compile_term(rest, slots, fresh))
            return Compound(functor, pair)
        case Struct("not", (goal,)) if term.span and term.span.text.startswith("\\+"):
            return Compound("\\+", (compile_term(goal, slots, fresh),))
        case Struct("-" | "+" as sign, args) if term.span and term.span.text.startswith(f"{sign}("):
            # In ProbLog, `-(a)` is not `-a`, and `-(a, b)` not `a - b`.
            return Compound(f"{sign}()", tuple(compile_term(a, slots, fresh) for a in args))
        case Struct(functor, args):
            return Compound(functor, tuple(compile_term(a, slots, fresh) for a in args))
        case ListTerm(items, tail):
            parts = tuple(compile_term(i, slots, fresh) for i in items)
            return parts if tail is None else Cons(parts, compile_term(tail, slots, fresh))
    raise TypeError(term)


def settle(value: Any) -> Any:
    """A number as ProbLog keeps it: with 15 decimals, so that 0.1 + 0.2 is 0.3.

    A tiny number would lose its digits by that; it keeps them.
    """
    if type(value) is not float or not math.isfinite(value):
        return value
    kept = round(value, 15)
    return kept if abs(kept - value) <= 1e-10 * abs(value) else value


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
    kind = type(term)
    if kind is tuple:
        return tuple([resolve(t, env) for t in term])
    if kind is Compound:
        return Compound(term.functor, tuple([resolve(t, env) for t in term.args]))
    if kind is Cons:
        items = tuple([resolve(t, env) for t in term.items])
        tail = resolve(term.tail, env)
        if type(tail) is tuple:
            return items + tail
        if type(tail) is Cons:
            return Cons(items + tail.items, tail.tail)
        return Cons(items, tail)
    return term


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


def is_ground(term: Any) -> bool:
    """Free of variables (it may hold symbols)."""
    return not any(type(leaf) is V for leaf in atoms_of(term))


def has_symbol(term: Any) -> bool:
    return any(isinstance(leaf, Expr) for leaf in atoms_of(term))


def symbols(term: Any) -> list[Expr]:
    return [leaf for leaf in atoms_of(term) if isinstance(leaf, Expr)]


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
    kind = type(term)
    if kind is tuple:
        return tuple(map_symbols(t, change) for t in term)
    if kind is Compound:
        return Compound(term.functor, tuple(map_symbols(t, change) for t in term.args))
    if kind is Cons:
        return Cons(
            tuple(map_symbols(t, change) for t in term.items), map_symbols(term.tail, change)
        )
    if kind is CondList:
        items = tuple((map_symbols(t, change), change(c)) for t, c in term.items)
        return CondList(items, term.ordered, term.own)
    return term


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
    kind = type(term)
    if kind is V:
        return V(term.i + offset)
    if kind in (str, int, float) or not parts(term):
        return term
    if kind is tuple:
        return tuple(shift(t, offset) for t in term)
    if kind is Compound:
        return Compound(term.functor, tuple(shift(t, offset) for t in term.args))
    if kind is Cons:
        return Cons(tuple(shift(t, offset) for t in term.items), shift(term.tail, offset))
    return term


def count_variables(args: tuple) -> int:
    return len({leaf.i for a in args for leaf in atoms_of(a) if type(leaf) is V})


def number_variables(args: tuple) -> tuple:
    """Number the unbound variables of a call by first appearance."""
    if not any(type(a) is V or parts(a) for a in args):
        return args
    numbers: dict[int, int] = {}

    def change(term: Any) -> Any:
        kind = type(term)
        if kind is V:
            return V(numbers.setdefault(term.i, len(numbers)))
        if kind is tuple:
            return tuple([change(t) for t in term])
        if not parts(term):
            return term
        if kind is Compound:
            return Compound(term.functor, tuple([change(t) for t in term.args]))
        if kind is Cons:
            return Cons(tuple([change(t) for t in term.items]), change(term.tail))
        return term

    return tuple([change(a) for a in args])


def inside(term: Any) -> Iterator[Any]:
    """A term and what it is made of; conditional lists are not looked into."""
    kind = type(term)
    yield term
    if kind is not CondList:
        for part in parts(term):
            yield from inside(part)


def replace_list(term: Any, value: CondList, items: tuple | CondList) -> Any:
    """The term with a conditional list replaced by one of the lists it can be."""
    kind = type(term)
    if kind is CondList:
        return items if term is value or term == value else term
    if kind is tuple:
        return tuple([replace_list(t, value, items) for t in term])
    if kind is Compound:
        return Compound(term.functor, tuple([replace_list(t, value, items) for t in term.args]))
    if kind is Cons:
        front = tuple([replace_list(t, value, items) for t in term.items])
        tail = replace_list(term.tail, value, items)
        return front + tail if type(tail) is tuple else Cons(front, tail)
    return term


_PLAIN = "abcdefghijklmnopqrstuvwxyz"
# Priorities as in Prolog: a smaller one binds tighter.
_INFIX = {"+": 500, "-": 500, "*": 400, "/": 400, "//": 400, "mod": 400, "rem": 400}
_INFIX |= {"**": 200, "^": 200, ":": 200, "=": 700, "<": 700, ">": 700, "=<": 700, ">=": 700}
_INFIX |= {"is": 700, "=:=": 700, "=\\=": 700, "\\=": 700, "==": 700, "\\==": 700}


def show(term: Any) -> str:
    """A term as ProbLog prints it."""
    kind = type(term)
    if kind is str:
        return quote(term)
    if kind is tuple:
        return "[" + ", ".join(show(t) for t in term) + "]"
    if kind is Cons:
        return "[" + ", ".join(show(t) for t in term.items) + " | " + show(term.tail) + "]"
    if kind is Compound:
        if is_operation(term) and len(term.args) == 2:
            own = _INFIX[term.functor]
            left, right = (
                f"({show(a)})" if _priority(a) > own - limit else show(a)
                for a, limit in zip(term.args, (0, 1), strict=True)
            )
            space = " " if term.functor.isalpha() else ""
            return f"{left}{space}{term.functor}{space}{right}"
        if is_operation(term):
            text = show(term.args[0])
            nested = _priority(term.args[0]) > 200 or text[0] in "+-"
            return f"{term.functor}({text})" if nested else f"{term.functor}{text}"
        if term.functor == ",":
            shown = (f"({show(a)})" if _is(a, ";") else show(a) for a in _spread(term))
            return f"({', '.join(shown)})"
        if term.functor == ";":
            return "; ".join(show(a) for a in _spread(term))
        if _is(term, "->"):
            left, right = (show(a) for a in term.args)
            return f"({left})->{right}" if _is(term.args[0], "->") else f"{left}->{right}"
        return f"{quote(bare(term.functor))}({','.join(show(a) for a in term.args)})"
    if kind is V:
        return "_"
    return str(term)


def _spread(term: Compound) -> list[Any]:
    """The parts of a conjunction or disjunction, pairs of pairs to the right undone."""
    *first, last = term.args
    if _is(last, term.functor):
        return first + _spread(last)
    return [*first, last]


def _is(term: Any, functor: str) -> bool:
    return type(term) is Compound and term.functor == functor and len(term.args) > 1


def is_operation(term: Compound) -> bool:
    """Whether a term is written with an operator."""
    if len(term.args) == 1:
        return term.functor in ("-", "+")
    return len(term.args) == 2 and term.functor in _INFIX


def _priority(term: Any) -> int:
    if type(term) is Compound and len(term.args) == 2:
        return _INFIX.get(term.functor, 0)
    return 0


def bare(functor: str) -> str:
    """The name of a term's functor: `-` for that of `-(a)`, which is not that of `-a`."""
    return functor[0] if functor in ("-()", "+()") else functor


def quote(name: str) -> str:
    plain = name[:1] in _PLAIN and name[:1] and all(c.isalnum() or c == "_" for c in name)
    symbolic = name and all(c in "+-*/\\^<>=~:.?@#&" for c in name)
    if plain or symbolic or name in ("[]", "!", ";", ","):
        return name
    return _escaped(name, "'")


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(text: str, mark: str) -> str:
    inside = "".join(_ESCAPES.get(char, char) for char in text).replace(mark, f"\\{mark}")
    return f"{mark}{inside}{mark}"


def atom_text(name: str, args: tuple) -> str:
    """An atom as ProbLog prints it; symbols are shown as expressions."""
    if not args:
        return quote(name)
    shown = (repr(a) if isinstance(a, Expr) else show(a) for a in args)
    return f"{quote(name)}({','.join(shown)})"
