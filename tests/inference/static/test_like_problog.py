"""Small programs where a difference from ProbLog has been, or could easily be.

Each is run through both, and the answers are compared, their names included. An answer with
probability zero may be missing: ProbLog lists what it could not rule out while grounding.
"""

from __future__ import annotations

import pytest
from oracles import problog

import nesymm
from nesymm.errors import ProgramError

LISTS = ":- use_module(library(lists)).\n"
AGGREGATES = ":- use_module(library(aggregate)).\n"


def same(source: str) -> None:
    expected = {name: p for name, p in problog(source).items() if p > 1e-12}
    found = nesymm.compile(source).infer(method="circuit").queries
    assert {name: p for name, p in found.items() if p > 1e-12} == pytest.approx(expected, abs=1e-9)


EXPRESSIONS = [
    "7 / 2", "4 / 2", "1 / 3", "2 / 3", "-7 // 2", "7 // -2", "7.5 // 2", "-7 mod 3", "7 mod -3",
    "7.5 mod 2", "2 ** 3", "2 ** 0.5", "2.0 ** 3", "2 ^ 3", "0 ** 0", "integer(7.5)",
    "integer(-7.5)", "integer(2)", "round(2.5)", "round(3.5)", "round(-2.5)", "truncate(2.7)",
    "truncate(-2.7)", "floor(-2.5)", "ceiling(-2.5)", "max(1, 1.0)", "max(1.0, 1)", "min(1, 1.0)",
    "min(2.5, 3)", "sign(-3)", "sign(-3.5)", "sign(0.0)", "abs(-2.5)", "float(3)", "-(5)",
    "atan(1.0)", "log(2)", "exp(1)", "sqrt(16)", "sin(1)", "cos(1)", "tan(1)", "tanh(1)", "pi",
    "e ** 2", "inf", "0.1 + 0.2", "1.5e300", "3 - 2 - 1", "2 - (3 - 1)", "5 - 3 mod 2", "0 * -1.0",
    "2 ** 70", "1 - -1", "0.1 * 3",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_arithmetic(expression: str) -> None:
    same(f"v(X) :- X is {expression}. query(v(_)).")


PROGRAMS = {
    "numbers": [
        # A real number keeps 15 decimals, wherever it comes from.
        "p(X) :- X is 0.1 + 0.2, X = 0.3. query(p(_)).",
        "p :- X is 0.1 + 0.2, X =:= 0.3. q :- 0.1 + 0.2 =:= 0.3. query(p). query(q).",
        "p(0.12345678901234567). query(p(_)).",
        LISTS + "p(S) :- sum_list([0.1, 0.2], S). query(p(_)).",
        LISTS + "0.5::x(0.1). 0.5::x(0.2). 0.5::x(0.7).\n"
        "p(S) :- findall(X, x(X), L), sum_list(L, S). query(p(_)).",
        LISTS + "0.5::x(1). 0.5::x(2). p(S) :- findall(X, x(X), L), length(L, N), S is 1 / (N + 1)."
        " query(p(_)).",
        "p(X) :- succ(X, 0). q(X) :- succ(3, X). r :- succ(3, 5). query(p(_)). query(q(_)).",
        "q(X) :- plus(1, 2, X). r(X) :- plus(1, X, 3). s(X) :- plus(X, 1, 3)."
        " query(q(_)). query(r(_)). query(s(_)).",
    ],
    "lists": [
        LISTS + "p(X) :- memberchk(X, [a, b, a]). query(p(_)).",
        LISTS + "p(X, Y) :- memberchk(f(X, Y), [f(1, 2), f(1, 3)]). query(p(_, _)).",
        LISTS + "0.5::a(1). 0.5::a(2). p(X) :- findall(Y, a(Y), L), memberchk(X, L). query(p(_)).",
        LISTS + "0.5::a(1). 0.5::a(2). p :- findall(Y, a(Y), L), memberchk(2, L). query(p).",
        LISTS + "p(A, B) :- max_list([1, 1.0], A), min_list([1.0, 1], B). query(p(_, _)).",
        LISTS + "p(X) :- max_list([1 + 1, 1], X). query(p(_)).",
        LISTS + "0.5::x(1). 0.5::x(2). p(S) :- findall(X + 1, x(X), L), max_list(L, S)."
        " query(p(_)).",
        LISTS + "p(X, R) :- select(X, [a, b, a], R). q(X, Y) :- append(X, Y, [a, b])."
        " query(p(_, _)). query(q(_, _)).",
        LISTS + "p(L) :- list_to_set([1, b, 1.0, b, 1], L). query(p(_)).",
        'p(L) :- sort([b, 1, "s", f(x), [1], 2.0, 2, a, [], g(1, 2), f(a), [1, 2], f(1, 2)], L).'
        " query(p(_)).",
        "p(L) :- sort([[b], [a, b], [a], [], [c, a]], L). query(p(_)).",
        "p(L) :- sort([a + b, f(1, 2), [1], a - b, 'x y'(1, 2), g(1)], L). query(p(_)).",
        "p(L) :- sort(['x y', a, 'B', '1', b, a], L). query(p(_)).",
        "p(L) :- sort([1.0, 1, 0.5, 2], L). query(p(_)).",
    ],
    "findall": [
        # One item per proof, in the body of a probabilistic clause too.
        "0.5::c(X) :- a(X), b(Y), X =< Y. 0.5::d(X) :- c(Y), X is Y + 1.\n"
        "0.5::a(1). a(2). 0.5::b(2). b(3). p(L) :- findall(X, d(X), L). query(p(_)).",
        "0.5::b(1, x). 0.5::b(1, y). c(X) :- b(X, _). p(L) :- findall(X, c(X), L). query(p(_)).",
        "0.5::a(X) :- d(X, Y). d(1, u). d(1, v). p(L) :- findall(X, a(X), L). query(p(_)).",
        "a(1, 2). a(2, 3). p(Y, L) :- findall(X, a(X, Y), L). query(p(2, _)). query(p(4, _)).",
        "0.5::a(1). 0.5::a(2). p(Y) :- findall(X, a(X), [Y | _]). query(p(_)).",
        # all/3 has each answer once.
        "0.5::a(1). 0.5::a(2). b(1). b(3). c(X) :- b(X). c(X) :- a(X).\n"
        "p(L) :- all(X, c(X), L). query(p(_)).",
        "0.5::b(1, x). 0.5::b(1, y). c(X) :- b(X, _). p(L) :- all(X, c(X), L)."
        " q(L) :- all(X, b(X, _), L). query(p(_)). query(q(_)).",
        "0.5::e(1, 2). 0.5::e(2, 1). 0.5::e(1, 3). r(X, Y) :- e(X, Y). r(X, Y) :- e(X, Z), r(Z, Y)."
        "\np(S) :- all(Y, r(1, Y), L), sort(L, S). query(p(_)).",
        "e(1, 2). e(1, 3). e(2, 2). p(L) :- all(X, (e(_, X) ; e(_, X)), L). query(p(_)).",
        # A list is an atom if it is empty.
        "0.5::a(1). 0.5::a(2). p :- findall(X, a(X), L), compound(L).\n"
        "q :- findall(X, a(X), L), atom(L). query(p). query(q).",
    ],
    "order of findall": [
        # Facts, and rules over facts: each proof has a node of its own.
        "b(1, x). b(2, x). b(1, y). c(X) :- b(X, _). p(L) :- findall(X, c(X), L). query(p(_)).",
        "a(1). a(2). a(3). b(3). b(0). e(X) :- b(X). e(X) :- a(X). p(L) :- findall(X, e(X), L)."
        " query(p(_)).",
        "a(1). a(2). a(3). e(X) :- a(X), X > 1. e(X) :- a(X), X < 2. p(L) :- findall(X, e(X), L)."
        " query(p(_)).",
        "e(1, 2). 0.5::e(2, 3). e(1, 3). e(3, 1). p(L) :- findall(X - Z, (e(X, Y), e(Y, Z)), L)."
        " query(p(_)).",
        "0.5::b(3); 0.5::b(1) :- c(X). c(3). c(1). 0.4::b(2). p(L) :- findall(X, b(X), L)."
        " query(p(_)).",
        "b(1). b(2). b(3). c(2). p(L) :- findall(X, (b(X), \\+ c(X)), L). query(p(_)).",
        # Items that exclude each other, or are all the same, have no order.
        "0.5::a. b(1) :- a. b(2) :- \\+ a. p(L) :- findall(X, b(X), L). query(p(_)).",
        "b(1). 0.5::b(2). 0.5::c(2). p(L) :- findall(k, (b(X), \\+ c(X)), L). query(p(_)).",
        # What does not depend on the order.
        LISTS + "0.5::b(1). b(2). b(3.5). 0.5::c(2).\n"
        "p(S, N, M) :- findall(X, (b(X), \\+ c(X)), L),\n"
        "sum_list(L, S), length(L, N), max_list(L, M). query(p(_, _, _)).",
        LISTS + "0.5::b(1). b(2). 0.5::c(2).\n"
        "p :- findall(X, (b(X), \\+ c(X)), L), memberchk(2, L).\n"
        "q(X) :- findall(Y, (b(Y), \\+ c(Y)), L), member(X, L). query(p). query(q(_)).",
    ],
    "aggregates": [
        AGGREGATES + "s(a, 1). s(a, 1). s(b, 3). c(K, sum<X>) :- s(K, X). query(c(_, _)).",
        AGGREGATES + "0.5::s(a, 1, x). 0.5::s(a, 1, y). c(K, sum<X>) :- s(K, X, _)."
        " query(c(_, _)).",
        AGGREGATES + "s(x, 1). s(y, 1). s(z, 2). t(X) :- s(_, X). c(sum<X>) :- t(X)."
        " d(avg<X>) :- s(_, X). query(c(_)). query(d(_)).",
        AGGREGATES + "0.5::s(0.1). 0.4::s(0.2). c(sum<X>) :- s(X). d(avg<X>) :- s(X)."
        " query(c(_)). query(d(_)).",
        AGGREGATES + "0.5::s(1). 0.4::s(2). 0.3::s(2.0). c(max<X>) :- s(X). d(min<X>) :- s(X)."
        " query(c(_)). query(d(_)).",
    ],
    "terms": [
        "p(a) :- atomic(a). p(b) :- atomic(1). p(c) :- atomic(\"s\"). p(d) :- atomic([]).\n"
        "p(e) :- atomic(f(x)). p(f) :- atomic(X). p(g) :- atomic(1.5). query(p(_)).",
        "p(a) :- is_list([]). p(b) :- is_list([a]). p(c) :- is_list([a | X]).\n"
        "p(d) :- is_list([a | b]). p(e) :- is_list(X). query(p(_)).",
        "p(a) :- compound(a). p(b) :- compound([a]). p(c) :- compound([]). p(d) :- compound(-1).\n"
        "p(e) :- compound(1 + 1). p(f) :- compound(X). query(p(_)).",
        "p :- 1 = 1.0. q :- 1 == 1.0. r :- 1 =:= 1.0. s :- f(X) \\= f(1)."
        " query(p). query(q). query(r). query(s).",
        "p((a, b, c)). q(X, Y) :- p((X, Y)). r(X) :- (a, X) = (a, b, c). query(q(_, _))."
        " query(r(_)). query(p(_)).",
        "p(\\+ a). q(not a). p(\\+ (a, b)). query(p(_)). query(q(_)).",
        "p(-a). p(-(-3)). p(+3). p(-X) :- X = 1. p(1 - (2 - 3)). p((a - b) * c). query(p(_)).",
        "p(a = b). p(a \\== b). p(a is b). p(a mod b). p(a / (b / c)). query(p(_)).",
        "'p q'(1). 'X'(2). query('p q'(_)). query('X'(_)).",
        "'p q'(1, N) :- findall(X, h(X), L), length(L, N). 0.5::h(1). 0.5::h(2)."
        " query('p q'(_, _)).",
        "p('a\\nb'). p(\"a\\\"b\"). p('Hello World'). p(\"x\"). p([]). query(p(_)).",
    ],
    "queries and evidence": [
        "0.3::a. query(\\+a). query(a).",
        "0.3::a(1). 0.4::a(2). 0.5::b. c :- a(_), b. query(\\+a(X)). query(\\+a(3)). evidence(c).",
        # A body says what is asked or observed, not what has to hold.
        "0.5::q(1). 0.3::p(1). 0.3::p(2). query(p(X)) :- q(X).",
        "0.5::q(1). 0.3::p(1). query(\\+p(X)) :- q(X).",
        "0.5::q(1). 0.3::p(1). evidence(p(X), false) :- q(X). query(p(1)). query(q(1)).",
        "0.5::q(1). 0.3::p(1, a); 0.7::p(1, b). query(p(X, Y)) :- q(X).",
    ],
    "clauses": [
        "P::a(X) :- w(X, P). w(x, 0.3). w(x, 0.4). w(y, 1). query(a(_)).",
        "0.3::a; 0.3::b :- c(X). c(1). c(2). query(a). query(b).",
        "0.3::a(X) :- b(Y). b(1). b(2). query(a(z)).",
        "0.5::a; 0.5::a. b. b. 0.3::c. 0.3::c. query(a). query(b). query(c).",
        "0.5::p :- (a ; b). 0.5::a. 0.5::b. query(p).",
        "0.4::h(C) :- coin(C). coin(a). coin(b). one :- h(X), \\+ (h(Y), Y \\= X). query(one).",
        "p(X) :- G = q(X), call(G). q(1). 0.5::q(2). query(p(_)).",
        "0.0::a. 1.0::b. c :- \\+ a, b. query(a). query(b). query(c).",
    ],
    "signs and brackets": [
        # A sign before a number is part of it, a sign that touches a bracket is a functor.
        "p(- 3). q :- p(-3). r :- p(-(3)). query(p(_)). query(q). query(r).",
        "p(-(a)). p(-b). q :- p(-a). r :- p(-(b)). query(p(_)). query(q). query(r).",
        "p(-(1, 2)). p(+(3)). p(+4). q :- p(1 - 2). query(p(_)). query(q).",
        "p(X) :- X is -(3) ** 2. q(X) :- X is - 3 ** 2. r(X) :- Y = 2, X is -(Y) ^ 2 + -(5, 1)."
        " query(p(_)). query(q(_)). query(r(_)).",
        "p(Y) :- X = -(3), Y is X + 1. query(p(_)).",
        LISTS + "p(L) :- sort([-(b), -a, -(1), -1, a - b, -(a, b)], L). query(p(_)).",
        # Conjunctions as goals are flat, as terms they are not.
        "0.5::a. 0.4::b. 0.3::c. p :- ((a, b), c). q :- ((a ; b) ; c). r :- \\+ ((a, b), c)."
        " query(p). query(q). query(r).",
        "p(((a, b), c)). q :- p((a, b, c)). r :- p(((a, b), c)). query(p(_)). query(q). query(r).",
        "p((a, (b ; c))). p(((b ; c), a)). p((a ; b, c)). p(((a ; b) ; c)). query(p(_)).",
        "p((a -> b)). p((a -> b ; c)). p((a -> b -> c)). p(((a -> b) -> c)). p((a, b -> c))."
        " p(((a -> b), c)). query(p(_)).",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "source", [s for group in PROGRAMS.values() for s in group],
    ids=[f"{name}-{i}" for name, group in PROGRAMS.items() for i in range(len(group))],
)  # fmt: skip
def test_program(source: str) -> None:
    same(source)


ORDER_UNKNOWN = [
    "b(1, x). b(2, x). b(1, y). c(X) :- b(X, _). d(1). d(2).\n"
    "p(L) :- findall(X - Y, (c(X), d(Y)), L). query(p(_)).",
    "b(1, x). b(2, x). b(1, y). c(X) :- b(X, _).\n"
    "p(L) :- findall(X, (c(X), X < 9), L). query(p(_)).",
    "b(1). b(2). c(X) :- b(X). d(1 - X) :- c(X). d(2 - X) :- c(X). p(L) :- findall(X, d(X), L)."
    " query(p(_)).",
    "b(1). b(2). 0.5::c(1). p(X) :- findall(Y, (b(Y), \\+ c(Y)), [X | _]). query(p(_)).",
    LISTS + "b(1). b(2). 0.5::c(1). p(X) :- findall(Y, (b(Y), \\+ c(Y)), L), memberchk(X, L)."
    " query(p(_)).",
    # Sorting one copy does not sort the other.
    "b(1). b(2). 0.5::c(1). p(X) :- findall(Y, (b(Y), \\+ c(Y)), L), sort(L, _), L = [X | _]."
    " query(p(_)).",
    # Of 1 and 1.0, the maximum is the last.
    LISTS + "b(1). b(1.0). 0.5::c(1). p(M) :- findall(X, (b(X), \\+ c(X)), L), max_list(L, M)."
    " query(p(_)).",
    # A list made of another has its order.
    LISTS + "b(1). b(2). 0.5::c(1).\n"
    "p(M) :- findall(Y, (findall(X, (b(X), \\+ c(X)), L), member(Y, L)), M). query(p(_)).",
    "e(1, 2). e(2, 1). e(1, 3). r(X, Y) :- e(X, Y). r(X, Y) :- e(X, Z), r(Z, Y).\n"
    "p(L) :- all(Y, r(1, Y), L). query(p(_)).",
]  # fmt: skip


@pytest.mark.parametrize("source", ORDER_UNKNOWN)
def test_a_list_in_an_order_of_its_own(source: str) -> None:
    with pytest.raises(ProgramError, match="may collect its items in another") as caught:
        nesymm.compile(source)
    assert caught.value.codes == ("E319",)


REFUSED = [
    # ProbLog sorts numbers as they are written.
    ("E308", "p(L) :- sort([10, 9], L). query(p(_))."),
    ("E302", "p(L) :- sort([c, B, a], L), B = b. query(p(_))."),
    # ProbLog takes 'x' for another atom than x, in some places.
    ("E008", "p('x'). query(p(x))."),
    ("E008", "q('f'(1)). query(q(f(1)))."),
    ("E309", "0.5::a(1). p :- \\+ a(X), \\+ a(X). query(p)."),
    ("E309", "w(X) :- \\+ b(X), a(X). a(1). 0.4::b(1). query(w(_))."),
    ("E305", "e(1, 2). e(2, 1). t(X, Y) :- e(X, Y). t(X, Y) :- e(X, Z), t(Z, Y).\n"
             "p(L) :- findall(Y, t(1, Y), L). query(p(_))."),
    ("E208", "0.3::a. query(a@1)."),
    ("E208", "0.3::a. observe(a@1, true). query(a)."),
    ("E208", "0.3::a. b :- a@t. query(b)."),
    ("E208", "0.3::a(1). query(a(X)) :- a(X)@2."),
    ("E103", "0.3::a@t. query(\\+a@t)."),
    ("E103", "x(V) ~ categorical([0.5, 0.5], [1, 2]). query(\\+x(V))."),
    ("E112", "P::a; P::b :- p(P). p(0.8). query(a)."),
    ("E302", "q(L) :- length(L, 2), L = [a, b]. query(q(_))."),
]  # fmt: skip


@pytest.mark.parametrize(("code", "source"), REFUSED)
def test_refused(code: str, source: str) -> None:
    with pytest.raises(ProgramError) as caught:
        nesymm.compile(source).infer()
    assert code in caught.value.codes
