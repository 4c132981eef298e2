"""Whatever the text, only our own errors come out, and they can be shown."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from fuzzing import CORPUS, mutants

from nesymm.errors import NesymmError
from nesymm.ground import limits
from nesymm.ground.grounder import ground
from nesymm.language.check import check
from nesymm.language.parser import parse
from nesymm.language.printer import pprint
from nesymm.language.terms import ListTerm, Num, Program, Str, Struct, Term, Var, children, subterms

PAPER = Path(__file__).parent.parent.parent / "examples" / "paper"

# Programs that use much of the language together, and that compile.
RICH = (
    """:- const(n, 3).
:- input(go(A)@t, [up, down]).
:- input(start(X), 1..n).
pos(X)@0 :- start(X).
pos(X)@t :- go(up)@(t-1), pos(Y)@(t-1), X is min(n, Y + 1).
pos(X)@t :- go(down)@(t-1), pos(Y)@(t-1), X is max(1, Y - 1).
foe(E) :- between(1, 2, E).
at(E, X)@0 ~ uniform_int(1, n) :- foe(E).
move(E, M)@t ~ categorical([0.2, 0.3, 0.5], [-1, 0, 1]) :- foe(E).
at(E, X)@t :- at(E, Y)@(t-1), move(E, M)@t, X is max(1, min(n, Y + M)).
hit@t ~ bernoulli(t(_)) :- foe(E), at(E, X)@t, pos(X)@t.
:- fluent(seen(key)).
seen(X)@t :- pos(X)@t.
seen(X)@t :- seen(X)@(t-1).
hits(N)@0 :- N = 0.
hits(N)@t :- hits(M)@(t-1), hit@t, N is M + 1.
hits(N)@t :- hits(N)@(t-1), not hit@t.
near(N)@t :- findall(E, (foe(E), at(E, X)@t, X > 1), L), length(L, N).
observe(hit@t).
query(pos(X)@T). query(near(N)@t). query(hits(2)@T). query(seen(2)@t).
""",
    """0.3::e(1, 2). 0.4::e(2, 3). 0.5::e(3, 1).
p(X, Y) :- e(X, Y).
p(X, Y) :- e(X, Z), p(Z, Y).
n(N) :- aggregate_all(count, e(1, _), N).
m(X, max<Y>) :- e(X, Y).
a(L) :- findall(X-Y, e(X, Y), L).
l(N) :- a(L), length(L, N).
s(N) :- findall(X, e(X, _), L), sum_list(L, N).
q(X) :- member(X, [1, 2, 3]), \\+ p(X, X).
r(X, Y) :- append(Z, _, [c]), nth1(X, [a, b | Z], Y), select(Y, [a, b], _).
query(p(X, Y)). query(n(N)). query(m(X, Y)). query(l(N)). query(q(X)). query(s(N)). query(r(1, Y)).
evidence(e(1, 2)). evidence(\\+e(2, 3)).
""",
    """x ~ normal(0, 1). y ~ normal(x, 2). h ~ categorical([0.3, 0.7], [dry, wet]).
a :- x > y, h =:= dry. b :- x < 0 ; y > 1. c :- between(1, 3, I), I > x.
d(N) ~ poisson(2). f :- d(N), N > 3.
z(K, V) ~ normal(K, 1) :- member(K, [1, 2]).
g :- z(1, A), z(2, B), distance(A, B, D), D < 1.
observe(y, 1.5). query(a). query(b). query(c). query(f). query(g).
""",
    """:- network(net, 3). :- network(f, 1). :- input(image@t).
k(K)@t ~ categorical(net(image@t), [a, b, c]).
w(X)@t ~ normal(Y, 1) :- Y is f(image@t, 2).
u@t :- k(a)@t, w(X)@t, X > 0.
v@t :- u@(t-1), not u@0.
t(0.3, K)::r(K)@t :- member(K, [1, 2]), u@t.
guide(w(X)@t) ~ normal(f(image@t), 1).
query(u@t). query(v@T). query(r(1)@1). observe(u@1, true).
""",
)


def checks(text: str) -> object:
    return check(parse(text))


def compiles(text: str) -> object:
    """The whole pipeline, unless compiling is bound to take long."""
    program = parse(text)
    checked = check(program)
    if not _cheap(program):
        return checked
    with (
        patch.object(limits, "MAX_TABLES", 3_000),
        patch.object(limits, "MAX_ANSWERS", 3_000),
        _within(20),
    ):
        return str(ground(checked))


def _cheap(program: Program) -> bool:
    """No large numbers: they are ranges to count over, or powers."""
    for term in (t for statement in program.statements for t in subterms(statement)):
        if isinstance(term, Num) and abs(term.value) > 1000:
            return False
        if isinstance(term, Struct) and term.functor in ("**", "^"):
            inner = [t for a in term.args for t in subterms(a)]
            if any(isinstance(t, Struct) and t.functor in ("**", "^", "exp") for t in inner):
                return False
    return True


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Fails what takes longer, where the platform can interrupt."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Each takes program text.
TARGETS: list[Callable[[str], object]] = [parse, checks, compiles]


def survive(target: Callable[[str], object], text: str) -> None:
    try:
        target(text)
    except NesymmError as error:
        message = str(error)
        message.encode("utf-8")  # a lone surrogate would break the terminal
        assert message
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}\nfor the program {text!r}")


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_read(text: str) -> None:
    assert parse(text).statements


@pytest.mark.parametrize("text", RICH)
def test_the_rich_programs_compile(text: str) -> None:
    assert compiles(text)


@pytest.mark.parametrize("target", TARGETS)
def test_broken_programs(target: Callable[[str], object]) -> None:
    for text in mutants(2_000, seed=1):
        survive(target, text)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_broken_programs(target: Callable[[str], object]) -> None:
    for text in mutants(100_000, seed=2):
        survive(target, text)


def test_mutants_are_reproducible() -> None:
    assert list(mutants(50, seed=3)) == list(mutants(50, seed=3))
    assert list(mutants(50, seed=3)) != list(mutants(50, seed=4))


# --- Programs that are well formed but mean little ---------------------------------------

# What may stand anywhere in a term.
_LEAVES: tuple[Term, ...] = (
    *map(Num, (0, 1, -1, 2, 0.5)),
    *map(Var, ("X", "Y", "_", "T")),
    *map(Struct, ("t", "a", "true", "inf")),
    ListTerm(),
    ListTerm((Num(1), Struct("a"))),
    Str("text"),
    Struct("f", (Var("X"),)),
    Struct("@", (Struct("a"), Num(0))),
)
_FUNCTORS = (
    "+", "-", "*", "/", "//", "mod", "min", "max", "abs", "log", "sqrt", "not", "findall", "is",
    "between", "member", "append", "length", "=", "\\=", "==", "<", ">=", "=:=", "@", "::", "~",
    ";", ",", ":-", "normal", "poisson", "categorical", "bernoulli", "uniform_int", "gamma", "beta",
    "t", "nth1", "select", "sort", "sum_list", "distance", "call", "forall", "aggregate_all",
    "plus", "succ", "query", "observe", "evidence", "guide",
)  # fmt: skip


def term_mutants(n: int, seed: int) -> Iterator[str]:
    """Programs with terms replaced, renamed, moved, added and left out."""
    rng = random.Random(seed)
    paper = [path.read_text(encoding="utf-8") for path in sorted(PAPER.glob("*.nsl"))]
    whole = [parse(text) for text in (*RICH, *paper)]
    every = [s for text in CORPUS for s in parse(text).statements]
    pool = [t for statement in every for t in subterms(statement)]
    for _ in range(n):
        statements = list(rng.choice(whole).statements)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _change(rng, statements, pool, every)
        yield pprint(Program(tuple(statements)))


def _change(
    rng: random.Random, statements: list[Term], pool: list[Term], every: list[Term]
) -> None:
    i = rng.randrange(len(statements))
    path = rng.choice(list(_paths(statements[i])))
    old = _get(statements[i], path)
    args = list(old.args) if isinstance(old, Struct) else []
    kind = rng.randrange(8)
    new: Term | None = None
    if kind == 0:
        new = rng.choice(pool)
    elif kind == 1:
        new = rng.choice(_LEAVES)
    elif kind == 2:
        other = rng.choice(statements)
        new = _get(other, rng.choice(list(_paths(other))))
    elif kind == 3 and isinstance(old, Struct):
        new = Struct(rng.choice(_FUNCTORS), old.args)
    elif kind == 4 and isinstance(old, Struct) and args:
        del args[rng.randrange(len(args))]
        new = Struct(old.functor, tuple(args))
    elif kind == 5 and isinstance(old, Struct) and args:
        args.insert(rng.randrange(len(args) + 1), rng.choice([*args, *_LEAVES]))
        new = Struct(old.functor, tuple(args))
    elif kind == 6 and len(statements) > 1:
        del statements[i]
        return
    elif kind == 7:
        statements.insert(i, rng.choice(every))
        return
    if new is not None:
        statements[i] = _put(statements[i], path, new)


def _paths(term: Term, here: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield here
    for i, child in enumerate(children(term)):
        yield from _paths(child, (*here, i))


def _get(term: Term, path: tuple[int, ...]) -> Term:
    for i in path:
        term = children(term)[i]
    return term


def _put(term: Term, path: tuple[int, ...], new: Term) -> Term:
    if not path:
        return new
    parts = list(children(term))
    parts[path[0]] = _put(parts[path[0]], path[1:], new)
    if isinstance(term, Struct):
        return Struct(term.functor, tuple(parts))
    assert isinstance(term, ListTerm)
    if term.tail is None:
        return ListTerm(tuple(parts))
    return ListTerm(tuple(parts[:-1]), parts[-1])


@pytest.mark.parametrize("target", TARGETS)
def test_programs_that_mean_little(target: Callable[[str], object]) -> None:
    for text in term_mutants(500, seed=1):
        survive(target, text)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_programs_that_mean_little(target: Callable[[str], object]) -> None:
    for text in term_mutants(10_000, seed=2):
        survive(target, text)
