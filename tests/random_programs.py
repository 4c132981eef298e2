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
        w.add(w.pick((f"evidence({atom}).", f"evidence(\\+ {atom}).", f"evidence({atom}, false).")))


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
        "same(X,Y) :- path(X,Y), path(Y,X).",
    )
    chosen = w.draw(st.lists(st.sampled_from(extra), max_size=2, unique=True))
    heads = [line.split(" :-")[0] for line in chosen]
    for line in chosen:
        w.add(line)
    x, y = w.pick(nodes), w.pick(nodes)
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
        st.lists(
            st.sampled_from(("s(_)", "r(_)", "u", "die(_)", f"r({k})")),
            min_size=1,
            max_size=3,
            unique=True,
        )
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
        f"s(L) :- append({listed},[z],L), \\+ on.",
        f"s(X) :- nth1(1,{listed},X).",
        f"s(yes) :- i(_,X), memberchk(X,{listed}).",
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
    """Any of the programs without time but `graphs`, whose cycles need a method of their own."""
    return st.one_of(propositional(), relational(), numeric(), lists())


# ---------------------------------------------------------------- over time


@dataclass(frozen=True)
class Case:
    """A temporal program, how long it runs, and what is observed: per name and step."""

    source: str
    horizon: int
    data: dict[str, list[Any]]


@dataclass
class _Fluent:
    """A predicate with a time: its name, whether it has an entity and a value."""

    name: str
    keyed: bool
    valued: bool = False
    top: int = 2
    recursive: bool = False


class _Temporal(_Writer):
    """Writes the clauses of a temporal program."""

    def __init__(self, draw: DrawFn, budget: int):
        super().__init__(draw, budget)
        self.fluents: list[_Fluent] = []
        self.statics: list[str] = []
        self.entities: tuple[str, ...] = ()
        self.variables = 0
        self.horizon = self.number(1, 3)

    # -------------------------------------------------------- pieces

    def people(self) -> None:
        """The entities: none, facts with names or numbers, or counted by `between`."""
        kind = self.pick(("none", "names", "facts", "between", "between"))
        if kind == "none":
            return
        if kind == "names":
            self.entities = ("a", "b")
            self.add("e(a). e(b).")
        elif kind == "facts":
            self.entities = ("1", "2")
            self.add("e(1). e(2).")
        else:
            n = self.pick((1, 2, 2, 3))
            self.entities = tuple(str(i + 1) for i in range(n))
            self.add(f"e(E) :- between(1, {n}, E).")

    def groundings(self, text: str) -> int:
        """How many groundings a clause can have: one per binding of its entities."""
        n = max(1, len(self.entities))
        return int(n ** sum(f"({v}" in text or f"{v})" in text for v in ("E", "F")))

    def clause(self, head: str, body: Sequence[str], outof: int = 2) -> None:
        tail = f" :- {', '.join(body)}" if body else ""
        self.add(f"{self.chance(self.groundings(head + tail), outof)}{head}{tail}.")

    def entity(self, bound: bool) -> str:
        """An entity where one may stand: the clause's own, another, or a constant."""
        return self.pick(("E", "E", "E", "F", self.pick(self.entities)) if bound else
                         (self.pick(self.entities),))  # fmt: skip

    def literal(
        self, below: Sequence[_Fluent], keyed: bool, lags: Sequence[str], start: bool = True
    ) -> list[str]:
        """Goals about the past, about lower fluents now, about statics or about time."""
        options: list[str] = []
        if self.fluents:
            options += ["past"] * 4
        if start and self.fluents:
            options.append("start")
        if below:
            options += ["now"] * 3
        if self.statics:
            options.append("static")
        options.append("time")
        kind = self.pick(options)
        negated = self.flip(3)
        if kind == "time":
            return [self.pick(("t > 1", "t =:= 1", "t mod 2 =:= 0", "t < 2"))]
        if kind == "static":
            goal = self.pick(self.statics)
            if "(E)" in goal and not keyed:
                goal = goal.replace("E", self.pick(self.entities))
            return [f"\\+ {goal}" if negated else goal]
        fluent = self.pick(below if kind == "now" else self.fluents)
        when = {"now": "t", "start": "0", "past": self.pick(lags)}[kind]
        before: list[str] = []
        args = []
        if fluent.keyed:
            who = self.entity(keyed)
            args.append(who)
            if who == "F":
                before += [self.pick(("e(F)", "e(F), F \\= E"))]
        if not fluent.valued:
            atom = f"{fluent.name}({','.join(args)})" if args else fluent.name
            return [*before, f"\\+ {atom}@{when}" if negated else f"{atom}@{when}"]
        if self.flip(3):
            args.append(str(self.number(0, fluent.top)))
            goal = f"{fluent.name}({','.join(args)})@{when}"
            return [*before, f"\\+ {goal}" if negated else goal]
        self.variables += 1
        variable = f"W{self.variables}"
        args.append(variable)
        test = self.pick((">", "<", "=:=", ">=", "=\\="))
        goal = f"{fluent.name}({','.join(args)})@{when}"
        check = f"{variable} {test} {self.number(0, fluent.top)}"
        return [*before, f"\\+ ({goal}, {check})"] if negated else [*before, goal, check]

    def body(self, below: Sequence[_Fluent], keyed: bool, lags: Sequence[str]) -> list[str]:
        parts: list[str] = ["e(E)"] if keyed else []
        for _ in range(self.number(1, 2)):
            goals = self.literal(below, keyed, lags)
            if self.flip(6):
                others = self.literal(below, keyed, lags, start=False)
                if "@0" not in goals[0] and len(goals) == len(others) == 1:
                    goals = [f"({goals[0]} ; {others[0]})"]
            parts += goals
        certain = [part for part in parts if " ; " not in part]
        if any("@0" in part for part in parts) and not any("(t-" in part for part in certain):
            # At step 0 itself a fluent must not depend on what is defined later.
            parts.append(f"{self.fluents[0].name}({self.blank()})@(t-1)".replace("()", ""))
        return parts

    def blank(self) -> str:
        """The arguments of the first fluent, whatever they are."""
        first = self.fluents[0]
        return ",".join("_" for _ in range(first.keyed + first.valued))

    # -------------------------------------------------------- fluents

    def static(self) -> None:
        if self.flip():
            self.spend(1)
            self.add(f"{self.pick(PROBABILITIES)}::s.")
            self.statics.append("s")
        if self.entities and self.flip(3) and self.spend(len(self.entities)):
            self.add(f"{self.pick(PROBABILITIES)}::k(E) :- e(E).")
            self.statics.append("k(E)")

    def boolean(self, fluent: _Fluent, below: list[_Fluent]) -> None:
        name, keyed = fluent.name, fluent.keyed
        head = f"{name}(E)" if keyed else name
        domain = ["e(E)"] if keyed else []
        if self.flip(5) and keyed:
            self.clause(f"{name}({self.pick(self.entities)})@0", [], 2)
        else:
            self.clause(f"{head}@0", domain, 1)
        if self.flip(4):
            self.clause(f"{head}@1", [*domain, *self.literal(below, keyed, ("(t-1)",))], 2)
        for _ in range(self.number(1, 2)):
            lags = ("(t-1)", "(t-1)", "(t-1)", "(t-2)")
            one = f"{name}({self.pick(self.entities)})" if keyed and self.flip(6) else head
            self.clause(f"{one}@t", self.body(below, keyed, lags), 2)
        if keyed and len(self.entities) < 3 and self.flip(5):
            # In-step recursion: what holds for one entity spreads to the next.
            fluent.recursive = True
            self.clause(f"{head}@t", ["e(E)", "e(F)", f"{name}(F)@t", "E \\= F"], 3)

    def valued(self, fluent: _Fluent, below: list[_Fluent]) -> None:
        """A fluent with a value in 0..top, at most one clause of which applies."""
        name, keyed, top = fluent.name, fluent.keyed, fluent.top
        key = "E," if keyed else ""
        domain = ["e(E)"] if keyed else []
        start = " :- e(E)" if keyed else ""
        n = max(1, len(self.entities)) if keyed else 1
        values = list(range(top + 1))
        ps = self.pick(CERTAIN[:2] if top == 1 else CERTAIN[2:])
        drawn = f"categorical([{', '.join(ps)}], {values})"
        if self.flip() and self.spend(n):
            self.add(f"{name}({key}V)@0 ~ {self.pick((drawn, f'uniform_int(0, {top})'))}{start}.")
        else:
            self.add(f"{name}({key}{self.number(0, top)})@0{start}.")
        w = f"{name}({key}W)@(t-1)"
        when = self.literal(below, keyed, ("(t-1)",))
        condition = ", ".join(when)
        form = self.number(0, 8)
        if form in (1, 2, 7) and not self.spend(2 * n):
            form = 0
        if form == 0:
            self.add(f"{name}({key}W+1)@t :- {w}, W < {top}, {condition}.")
            self.add(f"{name}({key}W)@t :- {w}, \\+ (W < {top}, {condition}).")
        elif form == 1:
            self.add(f"d({key}D)@t ~ categorical([{', '.join(ps)}], {[-1, 0, 1][: len(ps)]})"
                     f"{' :- e(E)' if keyed else ''}.")  # fmt: skip
            self.add(f"{name}({key}M)@t :- {w}, d({key}D)@t, M is max(0, min({top}, W + D)).")
        elif form == 2:
            others = self.pick(CERTAIN[:2] if top == 1 else CERTAIN[2:])
            self.add(f"{name}({key}V)@t ~ {drawn} :- {w}, W > 0.")
            self.add(f"{name}({key}V)@t ~ categorical([{', '.join(others)}], {values}) :- {w}, "
                     "W =< 0.")  # fmt: skip
        elif form == 3:
            self.add(f"{name}({key}W)@t :- {w}, \\+ ({condition}).")
            self.add(f"{name}({key}0)@t :- {w}, {condition}.")
        elif form == 4:
            self.add(f"{name}({key}(W+1) mod {top + 1})@t :- {w}, {condition}.")
            self.add(f"{name}({key}W)@t :- {w}, \\+ ({condition}).")
        elif form == 5:
            self.add(f"{name}({key}W)@t :- {w}, {condition}.")
        elif form == 6:
            self.add("".join(f"next({v},{(v * 2 + 1) % (top + 1)}). " for v in values).strip())
            self.add(f"{name}({key}X)@t :- {w}, next(W,X).")
        elif form == 7:
            self.add(f"{name}({key}V)@t ~ categorical([P, Q], [0, {top}]) :- {w}, "
                     f"P is (W + 1) / {top + 2}, Q is 1 - P.")  # fmt: skip
        else:
            self.add(f"{name}({key}{self.number(0, top)})@1{start}.")
            self.add(f"{name}({key}W)@t :- {name}({key}W)@(t-2), {condition}.")
            self.add(f"{name}({key}{top} - W)@t :- {name}({key}W)@(t-2), \\+ ({condition}).")
        if domain and self.flip(6):
            self.add(f"same@t :- {name}(E,W)@t, {name}(F,W)@t, E \\= F.")
            self.fluents.append(_Fluent("same", False))

    # -------------------------------------------------------- what follows from fluents

    def views(self) -> list[str]:
        """Predicates derived from the fluents; returns what can be asked about them."""
        boolean = self.pick([f for f in self.fluents if not f.valued])
        valued = [f for f in self.fluents if f.valued]
        name, keyed = boolean.name, boolean.keyed
        n = max(1, len(self.entities)) if keyed else 1
        lag = self.pick(("t", "t", "(t-1)"))
        forms: list[tuple[int, str, str]] = [
            (0, "ever", f"ever@t :- {name}{'(_)' if keyed else ''}@t.\never@t :- ever@(t-1)."),
            (
                0,
                "first",
                f"first@t :- {name}{'(_)' if keyed else ''}@t, \\+ seen@t.\n"
                f"seen@t :- {name}{'(_)' if keyed else ''}@(t-1).\nseen@t :- seen@(t-1).",
            ),
            (2, "late", "luck(V) ~ uniform_int(1, 2).\nlate@t :- luck(V), t >= V."),
        ]
        if keyed:
            forms += [
                (0, "n(_)", f"n(N)@t :- findall(E, {name}(E)@{lag}, L), length(L, N)."),
                (0, "n(_)", f"n(N)@t :- findall(E, (e(E), \\+ {name}(E)@{lag}), L), length(L, N)."),
                (0, "n(_)", f"n(N)@t :- findall(x, {name}(_)@{lag}, L), length(L, N)."),
                (0, "every", f"every@t :- forall(e(E), {name}(E)@{lag})."),
                (0, "every", f"every@t :- \\+ (e(E), \\+ {name}(E)@{lag})."),
                (0, "two", f"two@t :- {name}(E)@{lag}, {name}(F)@t, E \\= F."),
                (0, "pair(_,_)", f"pair(E,F)@t :- {name}(E)@t, e(F), \\+ {name}(F)@{lag}."),
                (n, "ad(_,_)", f"0.3::ad(E,r)@t; 0.5::ad(E,g)@t :- {name}(E)@{lag}."),
                (n, "ad(_)", f"0.3::ad(r)@t; 0.5::ad(E)@t :- {name}(E)@{lag}."),
                (n, "any", f"0.4::any@t :- {name}(E)@{lag}."),
                (n * n, "any", f"0.4::any@t :- {name}(E)@{lag}, e(F), F \\= E."),
            ]
            if all(e.isdigit() for e in self.entities):
                forms += [
                    (0, "nb(_)", f"nb(E)@t :- e(E), F is E + 1, {name}(F)@{lag}."),
                    (0, "nb(_)", f"nb(F)@t :- {name}(E)@{lag}, F is E + 1."),
                    (0, "least(_)", f"least(E)@t :- {name}(E)@t, \\+ ({name}(F)@t, F < E)."),
                    (n, "pe(_)", f"P::pe(E)@t :- {name}(E)@{lag}, P is 1 / (E + 1)."),
                    (0, "sum(_)", f"sum(S)@t :- findall(E, {name}(E)@{lag}, L), sum_list(L, S)."),
                ]
            else:
                forms.append((0, "l(_)", f"l(L)@t :- findall(E, {name}(E)@{lag}, L)."))
        for value in valued:
            v, one = value.name, "_," if value.keyed else ""
            who = f"{self.pick(self.entities)}," if value.keyed else ""
            change = f"{v}({one}W)@t, {v}({one}X)@(t-1)"
            forms += [
                (
                    0,
                    "see(_)",
                    "tab(0,x). tab(1,y). tab(2,x). tab(3,z).\n"
                    f"see(C)@t :- {v}({one}W)@{lag}, tab(W,C).",
                ),
                (
                    0,
                    "visited(_)",
                    f":- fluent(visited(key)).\nvisited(W)@t :- {v}({one}W)@t.\n"
                    "visited(W)@t :- visited(W)@(t-1).",
                ),
                (2, "pv", f"P::pv@t :- {v}({who}W)@{lag}, P is (W + 1) / 4."),
                (0, "up", f"up@t :- {change}, W > X."),
                (0, "diff(_)", f":- fluent(diff(key)).\ndiff(D)@t :- {change}, D is W - X."),
            ]
            if value.keyed:
                some = f"{v}(_,W)@{lag}"
                forms += [
                    (0, "total(_)", f"total(S)@t :- findall(W, {some}, L), sum_list(L, S)."),
                    (0, "top(_)", f"top(S)@t :- findall(W, {some}, L), max_list(L, S)."),
                    (0, "best(_)", f"best(E)@t :- {v}(E,W)@t, \\+ ({v}(F,X)@t, X > W)."),
                    (0, "zero(_)", f"zero(N)@t :- findall(E, {v}(E,0)@{lag}, L), length(L, N)."),
                ]
        cost, asked, text = self.pick(forms)
        # ProbLog collects slowly, and miscounts what is recursive.
        collects = "findall" in text and (self.horizon > 2 or boolean.recursive)
        if collects or not self.spend(cost):
            return []
        for line in text.split("\n"):
            self.add(line)
        return [asked]

    # -------------------------------------------------------- evidence and queries

    def atom(self, fluent: _Fluent) -> str:
        """A ground atom of a fluent, its value given."""
        args = [self.pick(self.entities)] if fluent.keyed else []
        if fluent.valued:
            args.append(str(self.number(0, fluent.top)))
        return f"{fluent.name}({','.join(args)})" if args else fluent.name

    def evidence(self) -> dict[str, list[Any]]:
        data: dict[str, list[Any]] = {}
        steps = self.horizon + 1
        truths = st.sampled_from((True, False, None))
        if self.flip():
            fluent = self.pick(self.fluents)
            seen = self.atom(fluent)
            self.add(f"{self.pick(PROBABILITIES)}::o@t :- {seen}@t.")
            self.add(f"{self.pick(PROBABILITIES)}::o@t :- \\+ {seen}@t.")
            self.add("observe(o@t).")
            data["o"] = [self.draw(truths) for _ in range(steps)]
        if self.flip(4):
            fluent = self.pick(self.fluents)
            seen = self.atom(fluent)
            self.add(f"observe({seen}@t).")
            if "(" in seen or not fluent.valued:
                data[seen] = [self.draw(truths) for _ in range(steps)]
        if self.flip(4):
            when = self.pick(("0", "1", "T", "(1:T)", f"{self.horizon}"))
            value = self.pick(("true", "false"))
            self.add(f"observe({self.atom(self.pick(self.fluents))}@{when}, {value}).")
        valued = [f for f in self.fluents if f.valued]
        # Only what is drawn or computed can be observed by its value.
        computed = any("~" in line or "+ 1" in line or "W+1" in line or "- W" in line
                       for line in self.lines if line.startswith("v("))  # fmt: skip
        if valued and computed and self.flip(4):
            fluent = self.pick(valued)
            who = f"({self.pick(self.entities)})" if fluent.keyed else ""
            when = self.number(0, self.horizon)
            self.add(f"observe({fluent.name}{who}@{when}, {self.number(0, fluent.top)}).")
        return data

    def queries(self) -> None:
        for _ in range(self.number(1, 3)):
            fluent = self.pick(self.fluents)
            when = self.pick(("T", "T", *(str(i) for i in range(self.horizon + 1))))
            args = [self.pick((*self.entities, "_", "_"))] if fluent.keyed else []
            if fluent.valued:
                args.append(self.pick(("_", "_", str(self.number(0, fluent.top)))))
            shown = f"{fluent.name}({','.join(args)})" if args else fluent.name
            self.add(f"query({shown}@{when}).")
        for static in self.statics:
            self.add(f"query({static.replace('E', '_')}).")


@st.composite
def temporal(draw: DrawFn) -> Case:
    """Programs with time: fluents over entities, values, statics, lags, evidence."""
    w = _Temporal(draw, 7)
    w.people()
    w.static()
    wanted = [_Fluent(f"p{i}", bool(w.entities) and not w.flip(3)) for i in range(w.number(1, 2))]
    if w.flip():
        value = _Fluent("v", bool(w.entities) and w.flip(), True, w.pick((1, 2)))
        wanted.insert(w.number(0, len(wanted)), value)
    w.fluents = list(wanted)
    for i, fluent in enumerate(wanted):
        if fluent.valued:
            w.valued(fluent, wanted[:i])
        else:
            w.boolean(fluent, wanted[:i])
    asked = w.views() if w.flip() else []
    data = w.evidence()
    w.queries()
    for view in asked:
        w.add(f"query({view}@{w.pick(('T', 'T', '1'))}).")
    return Case(w.text(), w.horizon, data)


__all__ = [
    "Case",
    "graphs",
    "lists",
    "numeric",
    "propositional",
    "relational",
    "static_programs",
    "temporal",
]
