"""A temporal program means what its clauses, written out step by step, mean in ProbLog."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import agree
from hypothesis import HealthCheck, assume, given, settings
from oracles import Data, Inconsistent, Refused, unroll, unrolled
from random_programs import Case, temporal
from reference import Impossible, infer

from nesymm.ground import compile_step

SETTINGS = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# ---------------------------------------------------------------- the unroller itself


def test_a_program_written_out() -> None:
    source = """
        0.3::s.
        0.5::f(E)@0 :- e(E).
        0.8::f(E)@t :- f(E)@(t-1), not s.
        v(W+1)@t :- v(W)@(t-1), (f(a)@(t-2) ; t > 1).
        v(0)@0.
        d(E,D)@t ~ categorical([0.2, 0.8], [x, y]) :- f(E)@0.
        w@t ~ uniform_int(1, 2).
        o@t :- w@t > 1.
        e(a).
        observe(o@t). observe(d(a)@1, x). observe(f(a)@(1:T), true).
        query(v(_)@T). query(f(a)@1). query(s).
    """
    lines = unroll(source, 1, {"o": [True, None]}).splitlines()
    start = lines.index("0.3::s.")
    assert lines[start:] == [
        "0.3::s.",
        "0.5::f_at(0, E) :- e(E).",
        "0.8::f_at(1, E) :- f_at(0, E), \\+ (s).",
        "v_at(1, V__1) :- v_at(0, W), ((1 > 1)), V__1 is (W + 1).",
        "v_at(0, 0).",
        "0.2::d_at(0, E, x); 0.8::d_at(0, E, y) :- f_at(0, E).",
        "0.2::d_at(1, E, x); 0.8::d_at(1, E, y) :- f_at(0, E).",
        "1/2::w_at(0, 1); 1/2::w_at(0, 2).",
        "1/2::w_at(1, 1); 1/2::w_at(1, 2).",
        "o_at(0) :- w_at(0, V__2), V__2 > 1.",
        "o_at(1) :- w_at(1, V__3), V__3 > 1.",
        "e(a).",
        "evidence(o_at(0), true).",
        "evidence(d_at(1, a, x), true).",
        "evidence(f_at(1, a), true).",
        "v__at__T(A__4) :- v_at(1, A__4).",
        "query(v__at__T(A__4)).",
        "f__at__1(a) :- f_at(1, a).",
        "query(f__at__1(a)).",
        "query(s).",
    ]


# ---------------------------------------------------------------- random programs


@settings(SETTINGS, max_examples=60)
@given(temporal())
def test_random_programs(case: Case) -> None:
    try:
        agree(case.source, case.horizon, case.data)
    except Refused:
        assume(False)


# ---------------------------------------------------------------- chosen programs

_TWO = "e(E) :- between(1, 2, E).\n"
_THREE = "e(E) :- between(1, 3, E).\n"
_NAMED = "e(a). e(b).\n"

Chosen = dict[str, tuple[str, int, dict[str, Any]]]

ENTITIES: Chosen = {
    "neighbours": (
        _THREE
        + """
        0.5::f(E)@0 :- e(E).
        f(E)@t :- e(E), F is E - 1, f(F)@(t-1).
        0.1::f(E)@t :- e(E), F is E + 1, \\+ f(F)@(t-1).
        query(f(_)@T). query(f(1)@1).
        """,
        2,
        {},
    ),
    "two keys": (
        _TWO
        + """
        0.5::near(E,F)@0 :- e(E), e(F), E < F.
        0.7::near(E,F)@t :- near(E,F)@(t-1).
        0.2::near(E,F)@t :- e(E), e(F), \\+ near(F,E)@(t-1).
        both@t :- near(E,F)@t, near(F,E)@t.
        query(near(_,_)@T). query(both@1). query(near(1,_)@1). query(near(_,_)@0).
        """,
        2,
        {},
    ),
    "statics with two keys": (
        _TWO
        + """
        0.4::st(E,F) :- e(E), e(F).
        f(E)@t :- st(E,F), e(F), F > t.
        0.5::g@t :- f(E)@t.
        observe(g@t).
        query(g@T). query(f(_)@T). query(st(_,_)). query(f(_)@1).
        """,
        2,
        {"g": [True, False, None]},
    ),
    "entities of different ranges": (
        """
        f(E)@t :- g(E)@t.
        0.5::g(E)@t :- between(1,2,E).
        0.4::g(X)@t :- between(2,4,X).
        h@t :- g(E)@t, f(E)@(t-1).
        n(N)@t :- findall(E, g(E)@t, L), length(L, N).
        0.5::c(E)@t :- g(E)@t.
        query(f(_)@T). query(h@T). query(g(2)@1). query(n(_)@T). query(c(_)@T).
        """,
        1,
        {},
    ),
    "a clause for one entity": (
        _TWO
        + """
        0.8::p(2)@0.
        0.1::p(E)@t :- e(E).
        0.5::h@t :- p(E)@t.
        0.5::k(E)@t :- p(E)@t.
        g@t :- k(1)@t, k(2)@t.
        n(N)@t :- findall(E, p(E)@t, L), length(L, N).
        query(h@0). query(k(_)@0). query(g@0). query(n(_)@0). query(p(_)@0). query(p(2)@T).
        """,
        1,
        {},
    ),
    "a clause for one entity, observed": (
        _TWO
        + """
        0.8::p(2)@0.
        0.1::p(E)@t :- e(E).
        observe(p(E)@t).
        0.5::r@t :- p(1)@t.
        0.7::r@t :- \\+ p(1)@t.
        q@t :- p(2)@t, r@t.
        query(q@0). query(q@T).
        """,
        1,
        {"p": [{(1,): False, (2,): True}, {(1,): True, (2,): None}]},
    ),
    "a certain clause for one entity": (
        _TWO
        + """
        p(2)@t :- s.
        0.3::s.
        p(E)@t :- r(E)@t.
        0.1::r(E)@t :- e(E).
        0.5::h(E)@t :- p(E)@t.
        k@t :- h(E)@(t-1).
        n(N)@t :- findall(E, p(E)@t, L), length(L, N).
        z(N)@t :- findall(E, p(E)@t, L), sum_list(L, N).
        query(h(_)@0). query(k@T). query(n(_)@T). query(z(_)@T).
        """,
        1,
        {},
    ),
    "a value clause for one entity": (
        _TWO
        + """
        v(E,V)@0 ~ uniform_int(0,1) :- e(E).
        v(E,V)@t :- v(E,V)@(t-1), E < 2.
        v(2,V)@t ~ uniform_int(0,2) :- v(1,0)@(t-1).
        v(2,5)@t :- \\+ v(1,0)@(t-1), v(1,_)@(t-1).
        z(N)@t :- findall(V, v(E,V)@t, L), sum_list(L, N).
        observe(v(E)@t).
        query(v(_,_)@T). query(z(_)@T).
        """,
        1,
        {"v": [{(1,): 0}, {(2,): 1}]},
    ),
    "probabilities that depend on the entity": (
        _THREE
        + """
        P::f(E)@t :- e(E), P is E / 4.
        Q::h(E)@t :- f(E)@(t-1), Q is 1 / (E + 1).
        query(h(_)@T).
        """,
        1,
        {},
    ),
    "tables of facts": (
        """
        e(E) :- between(1,4,E).
        w(1,2). w(2,3). w(3,4). w(4,1). w(1,3).
        m(1,0.1). m(2,0.2). m(3,0.3). m(4,0.4).
        P::f(E)@t :- e(E), m(E,P).
        g(F)@t :- f(E)@t, w(E,F).
        h(E)@t :- e(E), \\+ g(E)@(t-1), g(E)@t.
        query(g(_)@T). query(h(_)@T).
        """,
        1,
        {},
    ),
    "observed along an axis": (
        _TWO
        + """
        0.5::f(E)@0 :- e(E).
        0.9::f(E)@t :- f(E)@(t-1).
        0.8::o(E)@t :- f(E)@t.
        0.1::o(E)@t :- e(E), \\+ f(E)@t.
        observe(o(E)@t).
        query(f(_)@T). query(f(_)@0).
        """,
        2,
        {"o": [{(1,): True, (2,): False}, {(1,): None, (2,): True}, None]},
    ),
    "observed by name": (
        _NAMED
        + """
        0.5::f(E)@0 :- e(E).
        0.9::f(E)@t :- f(E)@(t-1).
        0.8::o(E)@t :- f(E)@t.
        0.1::o(E)@t :- e(E), \\+ f(E)@t.
        observe(o(E)@t).
        query(f(_)@T). query(f(_)@0).
        """,
        2,
        {"o(a)": [True, None, False], "o(b)": [None, True, True]},
    ),
    "a random number of entities": (
        """
        v(V)@t ~ uniform_int(1,3).
        0.5::f(E)@t :- v(V)@t, between(1,V,E).
        c(N)@t :- findall(E, f(E)@t, L), length(L, N).
        query(f(_)@T). query(c(_)@T).
        """,
        1,
        {},
    ),
    "recursion along the entities": (
        _THREE
        + """
        0.5::up(E)@t :- e(E).
        ok(1)@t :- up(1)@t.
        ok(E)@t :- e(E), up(E)@t, F is E - 1, ok(F)@t.
        query(ok(_)@T). query(ok(3)@1).
        """,
        1,
        {},
    ),
    "contagion within a step": (
        _THREE
        + """
        0.3::ill(E)@t :- e(E).
        0.5::meets(E,F)@t :- e(E), F is E + 1, e(F).
        ill(E)@t :- e(E), e(F), meets(F,E)@t, ill(F)@t.
        ill(E)@t :- e(E), e(F), meets(E,F)@t, ill(F)@t.
        query(ill(_)@T).
        """,
        0,
        {},
    ),
    "lists of entities": (
        _THREE
        + """
        0.5::up(E)@t :- e(E).
        l(L)@t :- findall(E, up(E)@t, L).
        f(X)@t :- l([X|_])@t.
        query(f(_)@T). query(l(_)@T).
        """,
        1,
        {},
    ),
    "nobody": (
        _THREE
        + """
        0.5::up(E)@t :- e(E).
        now@t :- \\+ up(_)@t.
        then@t :- \\+ up(_)@(t-1).
        query(now@T). query(then@T).
        """,
        1,
        {},
    ),
    "quantifiers": (
        _TWO
        + """
        0.5::f(E)@t :- e(E).
        a@t :- e(E), e(F), f(E)@t, \\+ f(F)@t.
        b@t :- e(E), \\+ (e(F), f(F)@t, F \\= E).
        c@t :- \\+ (e(E), \\+ (e(F), f(F)@t, F >= E)).
        d@t :- e(E), f(E)@t, \\+ (e(F), f(F)@(t-1), F =< E, \\+ (e(G), f(G)@(t-1), G < F)).
        query(a@T). query(b@T). query(c@T). query(d@T).
        """,
        2,
        {},
    ),
    "disjunctions per entity": (
        _TWO
        + """
        1/3::c(E,r)@t; 1/3::c(E,g)@t :- e(E).
        same@t :- c(1,X)@t, c(2,X)@t.
        new(E)@t :- c(E,X)@t, \\+ c(E,X)@(t-1).
        query(same@T). query(new(_)@T). query(c(_,r)@1). query(c(_,_)@T).
        """,
        2,
        {},
    ),
    "a key that never holds": (
        """
        0.5::p(1)@0.
        0.9::p(E)@t :- p(E)@(t-1).
        query(p(2)@T).
        """,
        1,
        {},
    ),
    "counting with a constant": (
        """
        :- const(n, 3).
        e(E) :- between(1, n, E).
        0.5::f(E)@t :- e(E).
        m(N)@t :- findall(x, (e(E), f(E)@t), L), length(L, N).
        k(N)@t :- findall(x, e(_), L), length(L, N).
        query(m(_)@T). query(k(_)@T).
        """,
        0,
        {},
    ),
}

VALUES: Chosen = {
    "visited places": (
        """
        v(X)@0 ~ uniform_int(0,3).
        v(X)@t ~ categorical([0.5,0.5],[0,1]) :- v(W)@(t-1), W > 1.
        v(W+1)@t :- v(W)@(t-1), W =< 1.
        :- fluent(visited(key)).
        visited(W)@t :- v(W)@t.
        visited(W)@t :- visited(W)@(t-1).
        again@t :- v(W)@t, visited(W)@(t-1).
        observe(again@2, true).
        query(again@T). query(visited(_)@T). query(visited(2)@1).
        """,
        3,
        {},
    ),
    "looking values up": (
        """
        v(X)@0 ~ uniform_int(0,5).
        v(Y)@t :- v(X)@(t-1), next(X,Y), \\+ stuck@t.
        v(X)@t :- v(X)@(t-1), stuck@t.
        0.3::stuck@t.
        next(0,1). next(1,2). next(2,5). next(3,3). next(4,1). next(5,0).
        wall(2). wall(3). wall(5). wall(1).
        hit@t :- v(X)@t, wall(X).
        0.6::pain@t :- v(X)@t, wall(X).
        col(0,r). col(1,g). col(2,r). col(3,b). col(4,g). col(5,b).
        see(C)@t :- v(X)@t, col(X,C).
        observe(see(r)@1, false).
        query(hit@T). query(pain@1). query(v(_)@T). query(see(_)@T).
        """,
        3,
        {},
    ),
    "its own value": (
        """
        w@0 ~ categorical([0.5,0.5],[sun,rain]).
        w@t ~ categorical([0.8,0.2],[sun,rain]) :- w@(t-1) =:= sun.
        w@t ~ categorical([0.3,0.7],[sun,rain]) :- w@(t-1) =:= rain.
        0.9::u@t :- w@t =:= rain.
        0.2::u@t :- w@t =:= sun.
        observe(u@t).
        query(w@T). query(w@0).
        """,
        2,
        {"u": [True, None, False]},
    ),
    "a walk": (
        """
        pos(1,1)@0.
        pos(X+1,Y)@t :- pos(X,Y)@(t-1), m(r)@t, X < 2.
        pos(X,Y)@t :- pos(X,Y)@(t-1), m(r)@t, X >= 2.
        pos(X,Y+1)@t :- pos(X,Y)@(t-1), m(u)@t.
        m(M)@t ~ categorical([0.5,0.5],[r,u]).
        0.5::hit@t :- pos(X,Y)@t, en(X1,Y1), distance(X,X1,D), D < 1, Y1 >= Y.
        far(D)@t :- pos(X,Y)@t, distance([X,Y],[2,2],D).
        en(2,2). en(1,3).
        observe(pos@1,[1,2]).
        query(pos(_,_)@T). query(hit@T). query(far(_)@T).
        """,
        2,
        {},
    ),
    "colours": (
        """
        0.3::c(red)@t; 0.5::c(blue)@t :- \\+ c(red)@(t-1).
        c(green)@t :- c(red)@(t-1).
        c(red)@0.
        query(c(_)@T). query(c(blue)@1).
        """,
        3,
        {},
    ),
    "causes that share values": (
        _THREE
        + """
        v(E,X)@0 ~ uniform_int(0,1) :- e(E).
        v(E,X)@t :- v(E,X)@(t-1).
        0.5::hit@t :- v(E,X)@t, X > 0.
        0.3::pair@t :- v(E,X)@t, v(F,X)@t, E < F.
        observe(hit@t).
        query(hit@T). query(pair@T).
        """,
        2,
        {"hit": [True, False, None]},
    ),
    "a cause per value": (
        """
        a(X)@0 ~ uniform_int(0,1).
        b(X)@0 ~ uniform_int(0,1).
        a(X)@t :- a(X)@(t-1).
        b(X)@t :- b(X)@(t-1).
        :- fluent(q(key)).
        q(X)@t :- a(X)@t.
        q(X)@t :- b(X)@t.
        0.5::r@t :- q(X)@t.
        query(r@T). query(q(_)@T).
        """,
        1,
        {},
    ),
    "causes that coincide, each on its condition": (
        """
        a(X)@t ~ uniform_int(0,1).
        b(X)@t ~ uniform_int(0,1).
        0.5::g1@t. 0.5::g2@t.
        q(X)@t :- a(X)@t, g1@t.
        q(X)@t :- b(X)@t, g2@t.
        0.5::r@t :- q(X)@t.
        0.3::s(X)@t; 0.4::w(X)@t :- q(X)@t.
        P::v@t :- q(X)@t, P is (X + 1) / 4.
        u@t :- r@t, \\+ g1@t.
        query(r@T). query(s(_)@T). query(w(_)@T). query(u@T). query(v@T).
        """,
        0,
        {},
    ),
    "three causes that coincide": (
        """
        a(X)@t ~ uniform_int(0,1).
        b(X)@t ~ uniform_int(0,1).
        c(X)@t ~ uniform_int(0,1).
        0.5::g1@t. 0.5::g2@t. 0.5::g3@t.
        q(X)@t :- a(X)@t, g1@t.
        q(X)@t :- b(X)@t, g2@t.
        q(X)@t :- c(X)@t, g3@t.
        0.5::r@t :- q(X)@t.
        0.3::s(X)@t; 0.4::w(X)@t :- q(X)@t.
        query(r@T). query(s(_)@T). query(w(_)@T).
        """,
        0,
        {},
    ),
    "a cause per occupied place": (
        _TWO
        + """
        v(E,X)@t ~ uniform_int(0,1) :- e(E).
        :- fluent(occ(key)).
        occ(X)@t :- v(E,X)@t.
        0.5::r@t :- occ(X)@t.
        0.5::s(X)@t :- occ(X)@t.
        query(occ(_)@T). query(r@T). query(s(_)@T).
        """,
        0,
        {},
    ),
    "static values": (
        _TWO
        + """
        w(E,V) ~ categorical([0.2,0.8],[1,2]) :- e(E).
        x(E,S)@t :- w(E,V), S is V * t.
        y(S)@t :- x(1,A)@t, x(2,B)@(t-1), S is A - B.
        observe(y(0)@2, false).
        query(x(_,_)@T). query(y(_)@T). query(w(_,_)).
        """,
        2,
        {},
    ),
    "a static value and the time": (
        """
        s(X) ~ uniform_int(1,2).
        s2(Y) ~ categorical([0.5,0.5],[a,b]).
        p@t :- s(X), t >= X.
        0.3::q@t :- s2(a), p@(t-1).
        observe(q@2, false).
        query(q@T). query(s(_)). query(s2(_)). query(p@1).
        """,
        2,
        {},
    ),
    "recursion on a value": (
        """
        v(V)@0 ~ uniform_int(1,3).
        v(V)@t :- v(V)@(t-1).
        fac(0,1). fac(N,F) :- N > 0, M is N - 1, fac(M,G), F is N * G.
        x(F)@t :- v(V)@t, fac(V,F).
        query(x(_)@T).
        """,
        1,
        {},
    ),
    "whole and real outcomes": (
        """
        x(V)@t ~ categorical([0.5,0.5],[1,2.5]).
        z(W)@t :- x(V)@(t-1), W is V + 1.
        query(x(_)@T). query(z(_)@T).
        """,
        1,
        {},
    ),
    "pairs": (
        """
        pos(X,Y)@0 ~ categorical([0.25,0.25,0.5],[[1,1],[1,2],[2,1]]).
        pos(X,Y)@t :- pos(Y,X)@(t-1).
        observe(pos(1,1)@1, false).
        query(pos(_,_)@T). query(pos(1,_)@1).
        """,
        2,
        {},
    ),
    "lists that are carried": (
        """
        v([X,Y])@0 :- a(X), b(Y).
        v([Y,X])@t :- v([X,Y])@(t-1), 1 =< X.
        a(X) ~ uniform_int(0,1).
        b(X) ~ uniform_int(0,1).
        query(v(_)@T). query(v([1,_])@1).
        """,
        2,
        {},
    ),
    "sums of values": (
        _TWO
        + """
        hp(E,H)@0 ~ uniform_int(0,1) :- e(E).
        hp(E,H)@t :- hp(E,H)@(t-1), \\+ hit(E)@t.
        hp(E,M)@t :- hp(E,H)@(t-1), hit(E)@t, M is max(0, H - 1).
        0.5::hit(E)@t :- e(E).
        sum(S)@t :- findall(H, hp(_,H)@t, L), sum_list(L, S).
        top(S)@t :- findall(H, hp(_,H)@t, L), max_list(L, S).
        alive(N)@t :- findall(E, (hp(E,H)@t, H > 0), L), length(L, N).
        dead@t :- forall(e(E), hp(E,0)@t).
        query(sum(_)@T). query(top(_)@T). query(alive(_)@T). query(dead@T).
        """,
        1,
        {},
    ),
    "sums of values by name": (
        _NAMED
        + """
        hp(E,H)@0 ~ uniform_int(0,1) :- e(E).
        hp(E,H)@t :- hp(E,H)@(t-1).
        sum(S)@t :- findall(H, hp(_,H)@t, L), sum_list(L, S).
        query(sum(_)@T).
        """,
        1,
        {},
    ),
}

TIMES: Chosen = {
    "two steps back": (
        """
        0.5::p@0. 0.3::p@1.
        0.9::p@t :- p@(t-2).
        0.2::p@t :- \\+ p@(t-2), p@(t-1).
        query(p@T). query(p@2). query(p@0).
        """,
        4,
        {},
    ),
    "the first step, later": (
        """
        0.5::p@0.
        p@1 :- \\+ p@0.
        p@t :- p@(t-2).
        q@t :- p@0, t > 0.
        0.5::r@t :- \\+ p@0, r@(t-1).
        r@0.
        observe(r@2, true).
        query(p@T). query(q@T). query(p@0). query(r@T).
        """,
        3,
        {},
    ),
    "a negated first step under a lag": (
        """
        0.25::p@0.
        0.5::q@t.
        p@t :- q@(t-1), \\+ p@0.
        query(p@T). query(p@1).
        """,
        2,
        {},
    ),
    "alternatives look back on their own": (
        """
        0.3::q@t.
        0.6::p@0.
        h@t :- (\\+ p@(t-1) ; q@t).
        p@t :- (p@(t-1) ; q@(t-2), t > 2).
        query(h@0). query(h@T). query(p@T).
        """,
        3,
        {},
    ),
    "variables of a negation inside an alternative": (
        """
        v(X)@0 ~ uniform_int(0,2).
        v(X)@t :- v(X)@(t-1).
        0.5::p@t :- (t =:= 1 ; \\+ (v(W)@t, W > 1)).
        query(p@0). query(p@T).
        """,
        1,
        {},
    ),
    "parity": (
        """
        0.5::p@t :- t mod 2 =:= 0.
        n(N)@t :- n(M)@(t-1), p@t, N is M + 1.
        n(M)@t :- n(M)@(t-1), \\+ p@t.
        n(0)@0.
        c(X)@t :- n(M)@t, X is M * t.
        query(n(_)@T). query(c(_)@T).
        """,
        4,
        {},
    ),
    "evidence after the query": (
        """
        0.5::x@0.
        0.9::x@t :- x@(t-1).
        0.2::x@t :- \\+ x@(t-1).
        0.8::o@t :- x@t.
        0.1::o@t :- \\+ x@t.
        observe(o@t).
        observe(x@3, false).
        query(x@0). query(x@1). query(x@2). query(x@T).
        """,
        4,
        {"o": [True, None, False, None, True]},
    ),
    "a range of evidence": (
        """
        0.5::x@t.
        y@t :- x@t, x@(t-1).
        observe(y@(2:T), true).
        observe(x@(0:1), true).
        query(x@0). query(x@T). query(y@1).
        """,
        3,
        {},
    ),
}

ALL = {**ENTITIES, **VALUES, **TIMES}


@pytest.mark.parametrize("name", ALL)
def test_chosen_programs(name: str) -> None:
    source, horizon, data = ALL[name]
    agree(source, horizon, data)


def test_inputs() -> None:
    source = """
        :- input(act(A)@t, [left, right]).
        :- input(start(X), 0..3).
        pos(X)@0 :- start(X).
        pos(X)@t :- pos(X)@(t-1), act(_)@(t-1), slip@t.
        pos(X)@t :- pos(Y)@(t-1), act(left)@(t-1), \\+ slip@t, X is max(0, Y - 1).
        pos(X)@t :- pos(Y)@(t-1), act(right)@(t-1), \\+ slip@t, X is min(3, Y + 1).
        0.2::slip@t.
        observe(pos(1)@2, false).
        query(pos(_)@T). query(slip@1).
    """
    agree(source, 3, {}, {"act": ["left", "right", "right", None], "start": 2})


# ---------------------------------------------------------------- filtering


def filtered_agree(source: str, horizon: int, data: Data) -> None:
    """A query at `t` is answered at each step from the evidence up to it."""
    result = infer(compile_step(source), horizon, data)
    for time in range(horizon + 1):
        known = {name: values[: time + 1] for name, values in data.items()}
        expected = {n: p for n, p in unrolled(source, time, known).items() if n.endswith("@t")}
        for name, probability in expected.items():
            if probability > 1e-12 or name in result.filtered:
                assert result.filtered[name][time] == pytest.approx(probability, abs=1e-9)


def test_filtering() -> None:
    source = """
        0.5::x@0.
        0.9::x@t :- x@(t-1).
        0.2::x@t :- \\+ x@(t-1).
        0.8::o@t :- x@t.
        0.1::o@t :- \\+ x@t.
        observe(o@t).
        query(x@t).
    """
    filtered_agree(source, 4, {"o": [True, None, False, False, True]})


def test_filtering_of_values_that_come_and_go() -> None:
    """A value that is impossible at one step has probability zero there, not a gap."""
    source = """
        v(0)@0.
        v(W+1)@t :- v(W)@(t-1), W < 3, \\+ stay@t.
        v(W)@t :- v(W)@(t-1), W < 3, stay@t.
        v(0)@t :- v(3)@(t-1).
        0.3::stay@t.
        query(v(_)@t).
    """
    filtered_agree(source, 5, {})


@settings(SETTINGS, max_examples=10)
@given(temporal())
def test_filtering_of_random_programs(case: Case) -> None:
    lines = [line for line in case.source.splitlines() if "@T" not in line]
    fixed = [line for line in lines if not line.startswith("query(")]
    asked = dict.fromkeys(
        line.split("@")[0] + "@t)." for line in lines if line.startswith("query(") and "@" in line
    )
    assume(asked)
    try:
        filtered_agree("\n".join([*fixed, *asked]) + "\n", case.horizon, case.data)
    except (Refused, Inconsistent, Impossible):
        assume(False)
