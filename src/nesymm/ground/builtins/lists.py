"""Lists: members, parts, lengths and summaries; distances between points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.builtins.results import Goal, Results, bind
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.summary import by_list, certain, fold, summarise
from nesymm.ground.unify import Env, NeedsUnfolding, resolve
from nesymm.ir.algebra import and_, not_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import substitute
from nesymm.ir.expr import FALSE, TRUE, Expr
from nesymm.ir.symbols import (
    CondList,
    as_expr,
    axes_of,
    entries_of,
    is_ground,
    key_of,
    map_symbols,
    plain,
)
from nesymm.ir.terms import Compound, Cons, V


def known_list(term: Any, span: Span | None, unfold: bool = True) -> tuple:
    term = entries_of(term)
    if type(term) is tuple:
        return term
    if type(term) is CondList and unfold:
        raise NeedsUnfolding(term)
    if type(term) is V or type(term) is Cons:
        fail("E302", "this list is not known yet", span, "bind it by a literal to the left")
    fail("E308", "a list is needed here", span, "write it in square brackets: `[a, b]`")


def member(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    items = resolve(lit.args[1], env)
    if type(items) is CondList:
        # Each use of the list looks at places of its own: `member(X, L), member(Y, L)`.
        here = ctx.axes.renamed(items.own, lit.site)
        for item, condition in items.items:
            term = map_symbols(item, lambda e: substitute(e, here))
            for new, extra in bind(env, (lit.args[0], term)):
                yield new, and_(substitute(condition, here), extra)
        return
    for item in known_list(items, lit.span):
        yield from bind(env, (lit.args[0], item))


def memberchk(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    """The first item that fits: a later one only where none before it does."""
    items = resolve(lit.args[1], env)
    if type(items) is not CondList:
        items = certain(known_list(items, lit.span))
    elif axes_of(x for pair in items.items for x in pair):
        # There is no first one along an axis.
        raise NeedsUnfolding(items)
    elif not items.ordered and not is_ground(resolve(lit.args[0], env)):
        raise NeedsUnfolding(items)
    before: list[Expr] = []
    for term, condition in items.items:
        for new, extra in bind(env, (lit.args[0], term)):
            fits = and_(condition, extra)
            first = and_(fits, *(not_(b) for b in before))
            if first is not FALSE:
                yield new, first
            before.append(fits)
        if before and before[-1] is TRUE:
            return


def append(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    a, b, c = (resolve(x, env) for x in lit.args)
    for x in (a, b, c):
        if type(x) is CondList:
            raise NeedsUnfolding(x)
    if type(a) is tuple and (type(b) is tuple or type(c) is not tuple):
        whole = a + b if type(b) is tuple else Cons(a, b)
        yield from bind(env, (c, whole if a else b))
        return
    items = known_list(c, lit.span)
    for i in range(len(items) + 1):
        yield from bind(env, (a, items[:i]), (b, items[i:]))


def concatenate(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    """`append(Lists, List)`: the lists one after the other."""
    parts, whole = (resolve(x, env) for x in lit.args)
    if type(whole) is CondList:
        raise NeedsUnfolding(whole)
    parts = known_list(parts, lit.span)
    for part in parts:
        if type(part) is CondList:
            raise NeedsUnfolding(part)
    if all(type(part) is tuple for part in parts):
        yield from bind(env, (lit.args[1], sum(parts, ())))
        return
    items = known_list(whole, lit.span)
    for lengths in _lengths(parts, len(items)):
        ends = list(accumulate(lengths, initial=0))
        pieces = (items[a:b] for a, b in pairwise(ends))
        yield from bind(env, *zip(parts, pieces, strict=True))


def _lengths(parts: tuple, total: int) -> Iterator[tuple[int, ...]]:
    """The lengths that lists can have which together have so many items."""
    if not parts:
        if not total:
            yield ()
        return
    first, *others = parts
    known = len(first) if type(first) is tuple else None
    for length in range(total + 1) if known is None else (known,):
        if length <= total:
            for rest in _lengths(tuple(others), total - length):
                yield (length, *rest)


def expect_list(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    """Refuse what can never be the list that `findall` gives."""
    term = resolve(lit.args[0], env)
    if type(term) is Cons:
        term = term.tail
    if type(term) not in (V, tuple, CondList) and not isinstance(term, Expr):
        fail(
            "E308",
            "the result of findall is a list, and this is none",
            lit.span,
            "collect into a variable, and compare that",
        )
    return ((env, TRUE),)


def nth(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    first = 0 if lit.name == "nth0" else 1
    items = known_list(resolve(lit.args[1], env), lit.span)
    for i, item in enumerate(items):
        yield from bind(env, (lit.args[0], i + first), (lit.args[2], item))


def length(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    items = resolve(lit.args[0], env)
    if type(items) is CondList:
        return bind(env, (lit.args[1], summarise("count", items.items, lit.span, items.given)[0]))
    if type(items) is V and type(resolve(lit.args[1], env)) is int:
        fail("E302", "the list is not known yet", lit.span, "bind it by a literal to the left")
    return bind(env, (lit.args[1], len(known_list(items, lit.span))))


def to_set(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    items = known_list(resolve(lit.args[0], env), lit.span)
    return bind(env, (lit.args[1], tuple({key_of(i): i for i in items}.values())))


def reverse(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    return bind(env, (lit.args[1], known_list(resolve(lit.args[0], env), lit.span)[::-1]))


def last(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    items = known_list(resolve(lit.args[0], env), lit.span)
    return bind(env, (lit.args[1], items[-1])) if items else ()


def select(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    items = known_list(resolve(lit.args[1], env), lit.span)
    for i, item in enumerate(items):
        yield from bind(env, (lit.args[0], item), (lit.args[2], items[:i] + items[i + 1 :]))


def summary(kind: str) -> Goal:
    def goal(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
        items = resolve(lit.args[0], env)
        given = items if type(items) is CondList else certain(known_list(items, lit.span))
        pairs = tuple((ctx.number(term, lit.span, lit.timed), c) for term, c in given.items)
        if not given.ordered and given.certain:
            if kind != "sum" and _ambiguous(given, pairs):
                raise NeedsUnfolding(given)
            items = tuple(term for term, _ in given.items)
        if type(items) is CondList:
            computed = kind != "sum" and any(type(term) is Compound for term, _ in items.items)
            if not lit.timed and (computed or by_list(kind, pairs)):
                raise NeedsUnfolding(items)
        elif pairs and all(type(number) in (int, float) for number, _ in pairs):
            numbers = [number for number, _ in pairs]
            at = fold(kind, numbers, last=True)
            # The extreme is the item itself, computed or not.
            value = at if kind == "sum" else items[at] if not lit.timed else numbers[at]
            yield from bind(env, (lit.args[1], value))
            return
        value, exists = summarise(kind, pairs, lit.span, given.given)
        if exists is FALSE:
            return
        for new, condition in bind(env, (lit.args[1], value)):
            yield new, and_(condition, exists)

    return goal


def _ambiguous(given: CondList, pairs: tuple) -> bool:
    """Whether numbers are equal that are written differently: 1 and 1.0."""
    written: dict[Any, Any] = {}
    for (term, _), (number, _) in zip(given.items, pairs, strict=True):
        if written.setdefault(number, key_of(term)) != key_of(term):
            return True
    return False


def distance(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    metric = resolve(lit.args[3], env) if len(lit.args) == 4 else "chebyshev"
    pair = [entries_of(resolve(x, env)) for x in lit.args[:2]]
    points = []
    for point in pair:
        if type(point) is CondList:
            raise NeedsUnfolding(point)
        items = point if type(point) is tuple else (point,)
        points.append([as_expr(ctx.number(i, lit.span, lit.timed)) for i in items])
    a, b = points
    if len(a) != len(b) or not a:
        fail(
            "E308",
            f"the points have {len(a)} and {len(b)} coordinates",
            lit.span,
            "distance/3 takes two numbers or two lists of the same length",
        )
    gaps = [arithmetic("abs", arithmetic("sub", x, y)) for x, y in zip(a, b, strict=True)]
    if metric == "euclidean":
        gaps = [arithmetic("mul", gap, gap) for gap in gaps]
    elif metric not in ("chebyshev", "manhattan"):
        fail(
            "E308", "this metric is not known", lit.span, "write chebyshev, manhattan or euclidean"
        )
    total = reduce(partial(arithmetic, "max" if metric == "chebyshev" else "add"), gaps)
    if metric == "euclidean":
        total = arithmetic("sqrt", total)
    return bind(env, (lit.args[2], plain(total)))
