"""The builtin predicates, over constants and symbols alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from nesymm.errors import Span, fail
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.summary import by_list, certain, fold, summarise
from nesymm.ground.unify import Env, NeedsUnfolding, resolve, unify
from nesymm.ir.algebra import and_, axis_value, const, eq, le, lt, not_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr
from nesymm.ir.symbols import (
    CondList,
    as_expr,
    atoms_of,
    axes_of,
    entries_of,
    is_ground,
    key_of,
    map_symbols,
)
from nesymm.ir.terms import Compound, Cons, Text, V, bare, is_operation, quote, rounded
from nesymm.ir.types import INF, Int, Real, Tensor

if TYPE_CHECKING:
    from nesymm.ground.grounder import Grounder

MAX_RANGE = 1_000_000

Results = Iterable[tuple[Env, Expr]]


def run(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    return _GOALS[lit.name](host, lit, env)


def _bind(env: Env, *pairs: tuple[Any, Any]) -> Iterator[tuple[Env, Expr]]:
    """Unify pairs of terms: one result or none."""
    new = list(env)
    conditions: list[Expr] = []
    if all(unify(a, b, new, conditions) for a, b in pairs):
        yield new, and_(*conditions)


def _if(env: Env, condition: Expr | bool) -> Iterator[tuple[Env, Expr]]:
    condition = const(condition) if isinstance(condition, bool) else condition
    if condition is not FALSE:
        yield env, condition


# ---------------------------------------------------------------- comparison


def _compare(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    terms = []
    for arg in lit.args:
        term = resolve(arg, env)
        if type(term) is V:
            fail(
                "E302",
                "a variable in this comparison has no value yet",
                lit.span,
                "bind it by a literal to the left",
            )
        terms.append(host.evaluator.value(term, lit.span, lit.timed))
    a, b = terms
    terms_only = not any(isinstance(x, Expr) and isinstance(x.type, Tensor) for x in terms)
    if lit.name in ("=:=", "=\\=") and terms_only and (_is_term(a) or _is_term(b)):
        same = eq(as_expr(a), as_expr(b))
        return _if(env, same if lit.name == "=:=" else not_(same))
    x = as_expr(host.evaluator.number(a, lit.span, lit.timed))
    y = as_expr(host.evaluator.number(b, lit.span, lit.timed))
    match lit.name:
        case "<":
            return _if(env, lt(x, y))
        case ">":
            return _if(env, lt(y, x))
        case "=<":
            return _if(env, le(x, y))
        case ">=":
            return _if(env, le(y, x))
        case "=:=":
            return _if(env, eq(x, y))
        case _:
            return _if(env, not_(eq(x, y)))


def _is_term(value: Any) -> bool:
    """An atom, or a symbol over atoms: compared as a term, not as a number."""
    if isinstance(value, Expr):
        return not isinstance(value.type, Int | Real)
    return isinstance(value, str)


def _unify(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    return _bind(env, lit.args)


def _not_unify(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    new = list(env)
    conditions: list[Expr] = []
    if not unify(lit.args[0], lit.args[1], new, conditions):
        return _if(env, TRUE)
    return _if(env, not_(and_(*conditions)))


def _identical(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    a, b = (resolve(x, env) for x in lit.args)
    if not (is_ground(a) and is_ground(b)):
        same = key_of(a) == key_of(b)
        return _if(env, same == (lit.name == "=="))
    return _unify(host, lit, env) if lit.name == "==" else _not_unify(host, lit, env)


def _is(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    value = host.evaluator.value(resolve(lit.args[1], env), lit.span, lit.timed)
    if not (isinstance(value, Expr) or type(value) in (int, float, tuple)):
        value = host.evaluator.number(value, lit.span, lit.timed)
    if type(value) is tuple and type(resolve(lit.args[1], env)) is not Compound:
        value = host.evaluator.number(value, lit.span, lit.timed)
    return _bind(env, (lit.args[0], value if lit.timed else rounded(value)))


# ---------------------------------------------------------------- whole numbers


def _between(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    low = host.evaluator.number(resolve(lit.args[0], env), lit.span, lit.timed)
    high_term = resolve(lit.args[1], env)
    if high_term in ("inf", "infinite"):
        high: Any = INF
    else:
        high = host.evaluator.number(high_term, lit.span, lit.timed)
    item = resolve(lit.args[2], env)
    if type(item) is float:
        return
    if type(item) is not V:
        x = as_expr(host.evaluator.number(item, lit.span, lit.timed))
        upper = TRUE if high is INF else le(x, as_expr(high))
        yield from _if(env, and_(le(as_expr(low), x), upper))
        return
    for bound in (low, high):
        whole = isinstance(bound.type, Int) if isinstance(bound, Expr) else type(bound) is int
        if not whole and bound is not INF:
            fail(
                "E308",
                "between/3 counts whole numbers, and its bounds are not",
                lit.span,
                "round them first: `L is ceiling(X), H is floor(Y), between(L, H, N)`",
            )
    lo, hi = _bounds(low)[0], (INF if high is INF else _bounds(high)[1])
    if lo == -INF or hi == INF:
        fail(
            "E305",
            "between/3 would count without end here",
            lit.span,
            "give it bounds that are known, or declare their domain",
        )
    if hi < lo:
        return
    if hi - lo > MAX_RANGE:
        fail(
            "E305",
            f"between/3 would count over {hi - lo + 1:.0f} numbers here",
            lit.span,
            f"count over at most {MAX_RANGE}, or compare: `X >= {lo:.0f}, X =< {hi:.0f}`",
        )
    symbolic = isinstance(low, Expr) or isinstance(high, Expr)
    if host.vectorises(lit.site) and not symbolic:
        axis = host.axis(Axis(lit.hint, Int(int(lo), int(hi)), lit.site), [lit.site])
        yield from _bind(env, (item, axis_value(axis)))
        return
    for value in range(int(lo), int(hi) + 1):
        x = const(value)
        condition = and_(le(as_expr(low), x), le(x, as_expr(high))) if symbolic else TRUE
        if condition is not FALSE:
            for new, extra in _bind(env, (item, value)):
                yield new, and_(condition, extra)


def _bounds(value: Any) -> tuple[float, float]:
    if isinstance(value, Expr):
        assert isinstance(value.type, Int | Real)
        return value.type.lo, value.type.hi
    return value, value


def _succ(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    a, b = (resolve(x, env) for x in lit.args)
    if type(a) is not V:
        value = arithmetic("add", as_expr(host.evaluator.number(a, lit.span)), const(1))
        return _bind(env, (b, _plain(value)))
    value = arithmetic("sub", as_expr(host.evaluator.number(b, lit.span)), const(1))
    return _bind(env, (a, _plain(value)))


def _plus(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    a, b, c = (resolve(x, env) for x in lit.args)

    def number(term: Any) -> Expr:
        return as_expr(host.evaluator.number(term, lit.span))

    if type(c) is V:
        return _bind(env, (c, _plain(arithmetic("add", number(a), number(b)))))
    if type(b) is V:
        return _bind(env, (b, _plain(arithmetic("sub", number(c), number(a)))))
    return _bind(env, (a, _plain(arithmetic("sub", number(c), number(b)))))


def _plain(value: Expr) -> Any:
    return value.data if value.op == "const" else value


# ---------------------------------------------------------------- lists


def _list(term: Any, span: Span | None, unfold: bool = True) -> tuple:
    term = entries_of(term)
    if type(term) is tuple:
        return term
    if type(term) is CondList and unfold:
        raise NeedsUnfolding(term)
    if type(term) is V or type(term) is Cons:
        fail("E302", "this list is not known yet", span, "bind it by a literal to the left")
    fail("E308", "a list is needed here", span, "write it in square brackets: `[a, b]`")


def _member(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    items = resolve(lit.args[1], env)
    if type(items) is CondList:
        # Each use of the list looks at places of its own: `member(X, L), member(Y, L)`.
        here = host.renamed_axes(items.own, lit.site)
        for item, condition in items.items:
            term = map_symbols(item, lambda e: substitute(e, here))
            for new, extra in _bind(env, (lit.args[0], term)):
                yield new, and_(substitute(condition, here), extra)
        return
    for item in _list(items, lit.span):
        yield from _bind(env, (lit.args[0], item))


def _memberchk(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    """The first item that fits: a later one only where none before it does."""
    items = resolve(lit.args[1], env)
    if type(items) is not CondList:
        items = certain(_list(items, lit.span))
    elif axes_of(x for pair in items.items for x in pair):
        # There is no first one along an axis.
        raise NeedsUnfolding(items)
    elif not items.ordered and not is_ground(resolve(lit.args[0], env)):
        raise NeedsUnfolding(items)
    before: list[Expr] = []
    for term, condition in items.items:
        for new, extra in _bind(env, (lit.args[0], term)):
            fits = and_(condition, extra)
            first = and_(fits, *(not_(b) for b in before))
            if first is not FALSE:
                yield new, first
            before.append(fits)
        if before and before[-1] is TRUE:
            return


def _append(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    a, b, c = (resolve(x, env) for x in lit.args)
    for x in (a, b, c):
        if type(x) is CondList:
            raise NeedsUnfolding(x)
    if type(a) is tuple and (type(b) is tuple or type(c) is not tuple):
        whole = a + b if type(b) is tuple else Cons(a, b)
        yield from _bind(env, (c, whole if a else b))
        return
    items = _list(c, lit.span)
    for i in range(len(items) + 1):
        yield from _bind(env, (a, items[:i]), (b, items[i:]))


def _nth(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    first = 0 if lit.name == "nth0" else 1
    items = _list(resolve(lit.args[1], env), lit.span)
    for i, item in enumerate(items):
        yield from _bind(env, (lit.args[0], i + first), (lit.args[2], item))


def _length(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    items = resolve(lit.args[0], env)
    if type(items) is CondList:
        return _bind(env, (lit.args[1], summarise("count", items.items, lit.span, items.given)[0]))
    if type(items) is V and type(resolve(lit.args[1], env)) is int:
        fail("E302", "the list is not known yet", lit.span, "bind it by a literal to the left")
    return _bind(env, (lit.args[1], len(_list(items, lit.span))))


def _summary(kind: str) -> Callable[[Grounder, BuiltinLit, Env], Results]:
    def goal(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
        items = resolve(lit.args[0], env)
        given = items if type(items) is CondList else certain(_list(items, lit.span))
        pairs = tuple(
            (host.evaluator.number(term, lit.span, lit.timed), c) for term, c in given.items
        )
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
            yield from _bind(env, (lit.args[1], value))
            return
        value, exists = summarise(kind, pairs, lit.span, given.given)
        if exists is FALSE:
            return
        for new, condition in _bind(env, (lit.args[1], value)):
            yield new, and_(condition, exists)

    return goal


def _ambiguous(given: CondList, pairs: tuple) -> bool:
    """Whether numbers are equal that are written differently: 1 and 1.0."""
    written: dict[Any, Any] = {}
    for (term, _), (number, _) in zip(given.items, pairs, strict=True):
        if written.setdefault(number, key_of(term)) != key_of(term):
            return True
    return False


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


def _sort(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    term = resolve(lit.args[0], env)
    if type(term) is CondList and term.certain:
        given = tuple(item for item, _ in term.items)
    else:
        given = _list(term, lit.span)
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
    return _bind(env, (lit.args[1], tuple(items)))


def _to_set(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    items = _list(resolve(lit.args[0], env), lit.span)
    return _bind(env, (lit.args[1], tuple({key_of(i): i for i in items}.values())))


def _reverse(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    return _bind(env, (lit.args[1], _list(resolve(lit.args[0], env), lit.span)[::-1]))


def _last(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    items = _list(resolve(lit.args[0], env), lit.span)
    return _bind(env, (lit.args[1], items[-1])) if items else ()


def _select(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    items = _list(resolve(lit.args[1], env), lit.span)
    for i, item in enumerate(items):
        yield from _bind(env, (lit.args[0], item), (lit.args[2], items[:i] + items[i + 1 :]))


# ---------------------------------------------------------------- distance


def _distance(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
    metric = resolve(lit.args[3], env) if len(lit.args) == 4 else "chebyshev"
    pair = [entries_of(resolve(x, env)) for x in lit.args[:2]]
    points = []
    for point in pair:
        if type(point) is CondList:
            raise NeedsUnfolding(point)
        items = point if type(point) is tuple else (point,)
        points.append([as_expr(host.evaluator.number(i, lit.span, lit.timed)) for i in items])
    a, b = points
    if len(a) != len(b) or not a:
        fail(
            "E308",
            f"the points have {len(a)} and {len(b)} coordinates",
            lit.span,
            "distance/3 takes two numbers or two lists of the same length",
        )
    gaps = [arithmetic("abs", arithmetic("sub", x, y)) for x, y in zip(a, b, strict=True)]
    if metric == "chebyshev":
        total = gaps[0]
        for gap in gaps[1:]:
            total = arithmetic("max", total, gap)
    elif metric == "manhattan":
        total = gaps[0]
        for gap in gaps[1:]:
            total = arithmetic("add", total, gap)
    elif metric == "euclidean":
        total = arithmetic("mul", gaps[0], gaps[0])
        for gap in gaps[1:]:
            total = arithmetic("add", total, arithmetic("mul", gap, gap))
        total = arithmetic("sqrt", total)
    else:
        fail(
            "E308", "this metric is not known", lit.span, "write chebyshev, manhattan or euclidean"
        )
    return _bind(env, (lit.args[2], _plain(total)))


# ---------------------------------------------------------------- kinds of terms


def _kind(test: Callable[[Any], bool]) -> Callable[[Grounder, BuiltinLit, Env], Results]:
    def goal(host: Grounder, lit: BuiltinLit, env: Env) -> Results:
        term = resolve(lit.args[0], env)
        if type(term) is CondList and test(()) != test((0,)):
            # It depends on whether the list is empty: `[]` is an atom.
            raise NeedsUnfolding(term)
        return _if(env, test(term))

    return goal


def _is_number(term: Any) -> bool:
    return type(term) in (int, float) or (
        isinstance(term, Expr) and isinstance(term.type, Int | Real)
    )


def _is_list(term: Any) -> bool:
    """As in ProbLog, a list whose end is still open is one."""
    return type(term) in (tuple, CondList) or (type(term) is Cons and type(term.tail) is V)


def _truth(value: bool) -> Callable[[Grounder, BuiltinLit, Env], Results]:
    return lambda host, lit, env: _if(env, value)


def _unfinished(term: Any) -> bool:
    return type(term) is V


_GOALS: dict[str, Callable[[Any, BuiltinLit, Env], Results]] = {
    **dict.fromkeys(("<", ">", "=<", ">=", "=:=", "=\\="), _compare),
    "=": _unify,
    "\\=": _not_unify,
    "==": _identical,
    "\\==": _identical,
    "is": _is,
    "true": _truth(True),
    "fail": _truth(False),
    "false": _truth(False),
    "between": _between,
    "succ": _succ,
    "plus": _plus,
    "member": _member,
    "memberchk": _memberchk,
    "append": _append,
    "length": _length,
    "nth0": _nth,
    "nth1": _nth,
    "reverse": _reverse,
    "last": _last,
    "sum_list": _summary("sum"),
    "sumlist": _summary("sum"),
    "max_list": _summary("max"),
    "min_list": _summary("min"),
    "sort": _sort,
    "msort": _sort,
    "list_to_set": _to_set,
    "select": _select,
    "distance": _distance,
    "number": _kind(_is_number),
    "integer": _kind(lambda t: type(t) is int or (isinstance(t, Expr) and isinstance(t.type, Int))),
    "float": _kind(
        lambda t: type(t) is float or (isinstance(t, Expr) and isinstance(t.type, Real))
    ),
    "atom": _kind(lambda t: type(t) is str or t == ()),
    "atomic": _kind(lambda t: type(t) in (str, int, float) or t == () or isinstance(t, Expr)),
    "compound": _kind(lambda t: type(t) is Compound or (type(t) is tuple and bool(t))),
    "is_list": _kind(_is_list),
    "ground": _kind(is_ground),
    "var": _kind(_unfinished),
    "nonvar": _kind(lambda t: not _unfinished(t)),
}
