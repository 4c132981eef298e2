"""Hypothesis strategies for program texts that mean something.

They are small enough to enumerate: each keeps a budget of random choices. Negation is
stratified (predicates have levels, and only lower ones are negated), positive recursion
is not restricted. Static programs are ProbLog programs as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

PROBABILITIES = ("0.1", "0.2", "0.25", "0.3", "0.4", "0.5", "0.6", "0.75", "0.8", "0.9")
# Several options of one choice; most leave something to none of them.
SPLITS = (
    ("0.5", "0.5"), ("0.3", "0.7"), ("0.2", "0.5"), ("0.1", "0.3"), ("1/3", "1/3"),
    ("0.2", "0.3", "0.5"), ("0.25", "0.25", "0.25"), ("0.1", "0.2", "0.3"),
)  # fmt: skip
CERTAIN = (("0.5", "0.5"), ("0.3", "0.7"), ("0.2", "0.3", "0.5"), ("0.25", "0.5", "0.25"))

LISTS = ":- use_module(library(lists))."


@dataclass
class _Writer:
    """Statements so far, and how many random choices they may still make."""

    draw: DrawFn
    budget: int
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(line)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flip(self, outof: int = 2) -> bool:
        """True once in `outof` times."""
        return self.draw(st.integers(1, outof)) == outof

    def spend(self, cost: int) -> bool:
        if cost > self.budget:
            return False
        self.budget -= cost
        return True

    def chance(self, cost: int = 1, outof: int = 2) -> str:
        """`0.3::` if the budget allows and luck wants it."""
        if self.flip(outof) and self.spend(cost):
            return f"{self.pick(PROBABILITIES)}::"
        return ""

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


# ---------------------------------------------------------------- without arguments


@st.composite
def propositional(draw: DrawFn) -> str:
    """Facts, disjunctions, rules with negation and cycles, evidence."""
    w = _Writer(draw, 7)
    levels: list[list[str]] = [[]]
    for i in range(w.number(1, 3)):
        w.spend(1)
        w.add(f"{w.pick(PROBABILITIES)}::f{i}.")
        levels[0].append(f"f{i}")
    for i in range(w.number(0, 2)):
        split = w.pick(SPLITS)
        if w.spend(len(split)):
            names = [f"g{i}{'abc'[j]}" for j in range(len(split))]
            body = f" :- {_conjunction(w, [[*levels[0]]], 0)}" if w.flip() else ""
            options = "; ".join(f"{p}::{n}" for p, n in zip(split, names, strict=True))
            w.add(f"{options}{body}.")
            levels[0] += names
    for level in range(1, w.number(1, 3) + 1):
        levels.append([f"d{level}{'ab'[j]}" for j in range(w.number(1, 2))])
        for name in levels[level]:
            for _ in range(w.number(1, 3)):
                w.add(f"{w.chance(1, 4)}{name} :- {_conjunction(w, levels, level)}.")
    everything = [n for names in levels for n in names]
    _evidence(w, everything, 2)
    for name in w.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=4, unique=True)):
        w.add(f"query({name}).")
    return w.text()


def _conjunction(w: _Writer, levels: list[list[str]], level: int) -> str:
    below = [n for names in levels[:level] for n in names] or levels[0]
    upto = [n for names in levels[: level + 1] for n in names]
    parts = []
    for _ in range(w.number(1, 3)):
        match w.number(0, 7):
            case 0 | 1:
                parts.append(f"\\+ {w.pick(below)}")
            case 2:
                parts.append(f"({w.pick(upto)} ; {w.pick(upto)})")
            case 3:
                parts.append(f"\\+ ({w.pick(below)}, {w.pick(below)})")
            case 4:
                parts.append(f"({w.pick(upto)}, \\+ {w.pick(below)} ; \\+ {w.pick(below)})")
            case _:
                parts.append(w.pick(upto))
    return ", ".join(parts)


def _evidence(w: _Writer, atoms: Sequence[str], at_most: int) -> None:
    found = w.draw(st.lists(st.sampled_from(atoms), max_size=at_most, unique=True))
    for atom in found:
        w.add(
            w.pick((f"evidence({atom}).", f"evidence(\\+ {atom}).", f"evidence({atom}, false)."))
        )


# ---------------------------------------------------------------- with arguments


@st.composite
def relational(draw: DrawFn) -> str:
    """Random rules over two or three constants."""
    w = _Writer(draw, 8)
    constants = w.pick((("a", "b"), ("1", "2"), ("a", "b", "c"), ("1", "2", "3"), ("a", "1")))
    n = len(constants)
    numbers = all(c.isdigit() for c in constants)
    arity = {"n": 1, "e": 2}
    levels: list[list[str]] = [["n", "e"]]
    for c in constants:
        w.add(f"n({c}).")
    for _ in range(w.number(1, 4)):
        w.add(f"{w.chance(1, 1)}e({w.pick(constants)},{w.pick(constants)}).")
    if w.flip() and w.spend(n):
        w.add(f"{w.pick(PROBABILITIES)}::q(X) :- n(X).")
        arity["q"] = 1
        levels[0].append("q")
    if w.flip(3):
        split = w.pick(SPLITS)
        if w.spend(n * (len(split) - 1)):
            options = "; ".join(
                f"{p}::c(X,{v})" for p, v in zip(split, ("a", "b", "c"), strict=False)
            )
            w.add(f"{options} :- n(X).")
            numbers = False
            arity["c"] = 2
            levels[0].append("c")
    for level in range(1, w.number(1, 3) + 1):
        levels.append([f"p{level}{'ab'[j]}" for j in range(w.number(1, 2))])
        for name in levels[level]:
            arity[name] = w.number(0, 2)
        for name in levels[level]:
            for _ in range(w.number(1, 3)):
                w.add(_rule(w, name, level, levels, arity, constants, numbers))
    everything = [name for names in levels for name in names]

    def atom(name: str, open_: bool) -> str:
        args = [w.pick((*constants, *(("_",) if open_ else ()))) for _ in range(arity[name])]
        return f"{name}({','.join(args)})" if args else name

    for _ in range(w.number(0, 2)):
        w.add(f"evidence({atom(w.pick(everything), False)}, {w.pick(('true', 'false'))}).")
    for _ in range(w.number(1, 3)):
        w.add(f"query({atom(w.pick(everything), True)}).")
    return w.text()


def _rule(
    w: _Writer,
    name: str,
    level: int,
    levels: list[list[str]],
    arity: dict[str, int],
    constants: Sequence[str],
    numbers: bool,
) -> str:
    variables = ("X", "Y", "Z")[: w.number(1, 3)]
    upto = [p for names in levels[: level + 1] for p in names]
    below = [p for names in levels[:level] for p in names]
    body: list[str] = []
    bound: dict[str, None] = {}

    def call(pred: str, terms: Sequence[str]) -> str:
        args = [w.pick(terms) for _ in range(arity[pred])]
        bound.update(dict.fromkeys(a for a in args if a in variables))
        return f"{pred}({','.join(args)})" if args else pred

    head_args = [w.pick((*variables, w.pick(constants))) for _ in range(arity[name])]
    for _ in range(w.number(1, 3)):
        body.append(call(w.pick(upto), (*variables, *variables, w.pick(constants), "_")))
    for a in head_args:
        if a in variables and a not in bound:
            body.insert(w.number(0, len(body)), f"n({a})")
            bound[a] = None
    known = [*bound] or list(constants)
    if w.flip(3):
        tests = ("\\=", "\\==", "=", "==") + (("<", ">=", "=:=", "=\\=") if numbers else ())
        body.append(f"{w.pick(known)} {w.pick(tests)} {w.pick((*known, w.pick(constants)))}")
    if w.flip(3):
        pred = w.pick(below)
        goal = call(pred, (*known, w.pick(constants), "_"))
        body.append(f"\\+ {goal}")
    if w.flip(8):
        pred = w.pick(below)
        body.append(f"\\+ ({call(pred, known)}, {call(w.pick(below), known)})")
    every = {v for v in variables if any(v in part for part in body)} | set(head_args)
    groundings = len(constants) ** (len(every) + sum(part.count("_") for part in body))
    head = f"{name}({','.join(head_args)})" if head_args else name
    return f"{w.chance(groundings, 4)}{head} :- {', '.join(body)}."


# ---------------------------------------------------------------- graphs


@st.composite
def graphs(draw: DrawFn) -> str:
    """Reachability and its relatives on a random graph, cycles welcome."""
    w = _Writer(draw, 8)
    nodes = w.pick((("a", "b", "c"), ("1", "2", "3", "4"), ("a", "b", "c", "d")))
    pairs = [(x, y) for x in nodes for y in nodes]
    edges = w.draw(st.lists(st.sampled_from(pairs), min_size=2, max_size=7, unique=True))
    for x, y in edges:
        w.add(f"{w.chance(1, 1)}edge({x},{y}).")
    w.add("".join(f"node({x}). " for x in nodes).strip())
    forms = [
        "path(X,Y) :- edge(X,Y).\npath(X,Y) :- edge(X,Z), path(Z,Y).",
        "path(X,Y) :- edge(X,Y).\npath(X,Y) :- path(X,Z), edge(Z,Y).",
        "path(X,Y) :- edge(X,Y).\npath(X,Y) :- path(X,Z), path(Z,Y).",
        "path(X,Y) :- edge(X,Y).\npath(X,Y) :- path(Y,X).\npath(X,Y) :- path(X,Z), path(Z,Y).",
        "path(X,Y) :- odd(X,Y).\npath(X,Y) :- even(X,Y).\nodd(X,Y) :- edge(X,Y).\n"
        "odd(X,Y) :- even(X,Z), edge(Z,Y).\neven(X,Y) :- odd(X,Z), edge(Z,Y).",
        "path(X,X) :- node(X).\npath(X,Y) :- node(X), edge(X,Z), path(Z,Y).",
        "path(X,Y) :- path(X,Y,[X]).\npath(X,Y,V) :- edge(X,Y), \\+ member(Y,V).\n"
        "path(X,Y,V) :- edge(X,Z), \\+ member(Z,V), path(Z,Y,[Z|V]).",
    ]
    if w.flip(3):
        w.add("path(X,Y) :- edge(X,Y).")
        w.add(f"{w.pick(PROBABILITIES)}::hop(X) :- node(X).")
        w.add("path(X,Y) :- hop(X), edge(X,Z), path(Z,Y).")
    else:
        w.add(w.pick(forms))
    w.add(LISTS)
    extra = (
        "cut(X,Y) :- node(X), node(Y), \\+ path(X,Y).",
        "loop(X) :- path(X,X).",
        "loopy :- path(X,X).",
        "sink(X) :- node(X), \\+ edge(X,_).",
        "source(X) :- node(X), forall(node(Y), \\+ edge(Y,X)).",
        "reach(X,N) :- node(X), findall(Y, path(X,Y), L), length(L,N).",
        "same(X,Y) :- path(X,Y), path(Y,X).",
    )
    chosen = w.draw(st.lists(st.sampled_from(extra), max_size=2, unique=True))
    heads = [line.split(" :-")[0] for line in chosen]
    for line in chosen:
        w.add(line)
    x, y = w.pick(nodes), w.pick(nodes)
    if w.flip():
        w.add(f"evidence(path({w.pick(nodes)},{w.pick(nodes)}), {w.pick(('true', 'false'))}).")
    for query in (*heads, w.pick((f"path({x},{y})", f"path({x},Y)", "path(X,Y)"))):
        w.add(f"query({query}).")
    return w.text()


# ---------------------------------------------------------------- numbers and lists


@st.composite
def numeric(draw: DrawFn) -> str:
    """Dice, arithmetic, comparisons, recursion on numbers."""
    w = _Writer(draw, 8)
    dice = w.number(1, 3)
    for i in range(dice):
        sides = w.number(2, 4)
        start = w.number(-2, 2)
        values = [start + j * w.pick((1, 1, 2)) for j in range(sides)]
        split = "; ".join(f"1/{sides}::d({i},{v})" for v in dict.fromkeys(values))
        w.add(f"{split}.")
    w.add("die(I) :- d(I,_).")
    x, y = w.number(0, dice - 1), w.number(0, dice - 1)
    op = w.pick(("+", "-", "*", "max", "min", "//", "mod", "/"))
    divisor = w.pick(("2", "3", "-2"))
    expr = {
        "max": "max(X, Y)", "min": "min(X,Y)", "//": f"(X+Y) // {divisor}",
        "mod": f"(X + Y*2) mod {divisor}", "/": "(X+Y) / 2",
    }.get(op, f"X {op} Y")  # fmt: skip
    w.add(f"r(Z) :- d({x},X), d({y},Y), Z is {expr}.")
    k = w.number(-2, 3)
    test = w.pick(("<", ">", "=<", ">=", "=:=", "=\\="))
    forms = (
        f"s(Z) :- r(Z), Z {test} {k}.",
        f"s(Z) :- r(Z), \\+ Z > {k}.",
        "s(Z) :- r(X), Z is abs(X) + 1.",
        f"s(X) :- between({k}, 4, X), r(Y), X >= Y.",
        "s(eq) :- d(0,X), r(X).",
        "s(X) :- r(X), \\+ bigger(X).\nbigger(X) :- r(X), d(_,Y), Y > X.",
        "s(N) :- d(0,X), X > 0, count(X,N).\ncount(0,0).\n"
        "count(X,N) :- X > 0, Y is X-1, count(Y,M), N is M+2.",
        "s(N) :- d(0,X), fib(X,N).\nfib(X,1) :- X < 2.\n"
        "fib(X,N) :- X >= 2, A is X-1, B is X-2, fib(A,F), fib(B,G), N is F+G.",
        "s(p(X,Y)) :- d(0,X), r(Y), X =\\= Y.",
        "s(X) :- r(X), die(I), \\+ d(I,X).",
        "s(big) :- r(X), X > 1.\ns(small) :- r(X), X =< 1.",
    )
    w.add(w.pick(forms))
    w.add(f"{w.chance(4, 2)}u :- s(_).")
    for _ in range(w.number(0, 1)):
        w.add(f"evidence({w.pick(('u', f'd(0,{k})', f'r({k})'))}, {w.pick(('true', 'false'))}).")
    for query in w.draw(
        st.lists(st.sampled_from(("s(_)", "r(_)", "u", "die(_)", f"r({k})")), min_size=1,
                 max_size=3, unique=True)  # fmt: skip
    ):
        w.add(f"query({query}).")
    return w.text()


@st.composite
def lists(draw: DrawFn) -> str:
    """findall, member, append and their like over uncertain facts."""
    w = _Writer(draw, 6)
    items = w.draw(st.lists(st.sampled_from(("1", "2", "3", "1", "5")), min_size=1, max_size=4))
    w.add(LISTS)
    for i, item in enumerate(items):
        w.add(f"{w.chance(1, 2)}i({'abcd'[i]},{item}).")
    w.add(f"{w.chance(1, 1)}on.")
    known = [w.pick(("1", "2", "3", "a")) for _ in range(w.number(0, 4))]
    listed = f"[{','.join(known)}]"
    numbers = f"[{','.join(k for k in known if k != 'a') or '7'}]"
    # An answer counts once here, however often ProbLog finds it; so collect distinct ones.
    forms = (
        "s(L) :- findall(K, i(K,_), L).",
        "s(L) :- findall(K-V, i(K,V), L).",
        "s(L) :- findall(V, i(_,V), M), sort(M,L).",
        "s(N) :- findall(K, i(K,_), L), length(L,N).",
        "s(N) :- findall(K, (i(K,V), V > 1), L), length(L,N), N > 0.",
        "s(N) :- findall(K-V, i(K,V), L), total(L,N).\ntotal([],0).\n"
        "total([_-V|T],N) :- total(T,M), N is M+V.",
        "s(X) :- findall(K, i(K,_), L), member(X,L), X \\= a.",
        "s(X) :- findall(K, i(K,_), L), L = [X|_].",
        "s(L) :- findall(K, (i(K,_), on), L).",
        "s(L) :- findall(K, (i(K,_) ; on, K = z), L).",
        "s(X) :- findall(K, i(K,_), L), last(L,X).",
        "s(X) :- findall(K, i(K,_), L), nth0(0,L,X).",
        "s(L) :- findall(K, i(K,_), M), reverse(M,L).",
        "s(L) :- findall(K, (i(K,V), \\+ V = 1), L).",
        f"s(X) :- member(X,{listed}), on.",
        f"s(A-B) :- append(A,B,{listed}).",
        f"s(N) :- length({listed},N), on.",
        f"s(X) :- member(X,{numbers}), i(_,X).",
        f"s(S) :- sum_list({numbers},S).",
        f"s(S) :- max_list({numbers},S), on.",
        f"s(L) :- reverse({listed},L).",
        f"s(L) :- msort({numbers},L).",
        f"s(L) :- append({listed},[z],L), \\+ on.",
        f"s(I-X) :- nth1(I,{listed},X).",
        f"s(X) :- memberchk(X,{listed}).",
        f"s(R) :- select(1,{listed},R).",
        "s(N) :- i(K,V), between(1,V,N).",
    )
    chosen = w.draw(st.lists(st.sampled_from(forms), min_size=1, max_size=2, unique=True))
    for form in chosen:
        w.add(form)
    if w.flip(3):
        w.add(f"evidence({w.pick(('on', 'i(a,1)', 'i(b,_)'))}, {w.pick(('true', 'false'))}).")
    w.add("query(s(_)).")
    if w.flip():
        w.add("query(on).")
    return w.text()


def static_programs() -> SearchStrategy[str]:
    """Any of the programs without time."""
    return st.one_of(propositional(), relational(), graphs(), numeric(), lists())


__all__ = [
    "graphs",
    "lists",
    "numeric",
    "propositional",
    "relational",
    "static_programs",
]
