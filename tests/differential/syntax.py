"""Programs as data: what the generator writes, the shrinker cuts and the oracles read.

A term is a number, a text (a variable if it begins in upper case or with `_`, else a name) or
arithmetic, `("+", X, 1)`. Times are "t", "t-1", "T", a number, a pair of numbers (a range) or
None. This file shares nothing with the library's own parser.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

Term = Any
Time = Any


class Named:
    """A constant of the program: `label` in the text, its value for whoever computes with it."""

    label: str


class _Int(Named, int): ...


class _Float(Named, float): ...


class _Text(Named, str): ...


def named(value: int | float | str, label: str) -> Any:
    """The value, shown by a name that a directive `:- const(label, value)` gives it."""
    kind = next(k for k in (_Int, _Float, _Text) if isinstance(value, k.__mro__[2]))
    out = kind(value)
    out.label = label
    return out


@dataclass(frozen=True)
class Net:
    """A small fixed network of a tensor input of two entries, "u@t", or of a number. Its weights
    follow from its name."""

    name: str
    arg: Term
    outputs: int
    tensor: str = ""

    def __str__(self) -> str:
        return f"{self.name}({self.tensor or show(self.arg)})"

    def raw(self, x: Any, shift: Any = 0.0) -> list[Any]:
        """The outputs before softmax or sigmoid; `shift` moves the first."""
        weights = random.Random(self.name)
        out = []
        for k in range(self.outputs):
            a, b, c = (weights.uniform(-1, 1) for _ in range(3))
            first, second = (x[0], x[1]) if self.tensor else (x, x * x)
            out.append(a + b * first + c * second + (shift if k == 0 else 0.0))
        return out


@dataclass(frozen=True)
class Atom:
    name: str
    args: tuple[Term, ...] = ()
    when: Time = None

    def __str__(self) -> str:
        inner = f"({', '.join(map(show, self.args))})" if self.args else ""
        return f"{self.name}{inner}{at(self.when)}"


@dataclass(frozen=True)
class Not:
    goals: tuple[Any, ...]

    def __str__(self) -> str:
        if len(self.goals) == 1 and isinstance(self.goals[0], Atom):
            return f"not {self.goals[0]}"
        return f"not ({joined(self.goals)})"


@dataclass(frozen=True)
class Compare:
    """Comparisons, `is`, and equality of terms."""

    op: str
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{show(self.left)} {self.op} {show(self.right)}"


@dataclass(frozen=True)
class Between:
    low: int
    high: int
    variable: str

    def __str__(self) -> str:
        return f"between({show(self.low)}, {show(self.high)}, {self.variable})"


@dataclass(frozen=True)
class Aggregate:
    """`kind` is count, sum, min, max, avg, or what is done with the list of a findall: length,
    sum_list, max_list, min_list, member, or nth1 with a place, as in "nth1 2". Where there is
    `again`, it reads the list of that result once more, which has the same goals."""

    kind: str
    template: Term
    goals: tuple[Any, ...]
    result: Term
    again: str = ""

    def __str__(self) -> str:
        inner = joined(self.goals)
        if len(self.goals) > 1:
            inner = f"({inner})"
        if self.kind in LISTED or self.kind.startswith("nth1 "):
            hidden = f"L{self.result}" if is_variable(self.result) else "L"
            hidden = f"L{self.again}" if self.again else hidden
            use = f"{self.kind}({hidden}, {show(self.result)})"
            if self.kind == "member":
                use = f"member({show(self.result)}, {hidden})"
            elif self.kind.startswith("nth1 "):
                use = f"nth1({self.kind[5:]}, {hidden}, {show(self.result)})"
            if self.again:
                return use
            return f"findall({show(self.template)}, {inner}, {hidden}), {use}"
        how = "count" if self.kind == "count" else f"{self.kind}({show(self.template)})"
        return f"aggregate_all({how}, {inner}, {show(self.result)})"


LISTED = ("length", "sum_list", "max_list", "min_list", "member")


@dataclass(frozen=True)
class Listing:
    """A builtin about a list that is written out. `op` is member, nth0, nth1 (at `place`), last,
    length, sum_list, max_list or min_list."""

    op: str
    items: tuple[Term, ...]
    result: Term
    place: Term = None

    def __str__(self) -> str:
        items = show(list(self.items))
        if self.op == "member":
            return f"member({show(self.result)}, {items})"
        if self.op.startswith("nth"):
            return f"{self.op}({show(self.place)}, {items}, {show(self.result)})"
        return f"{self.op}({items}, {show(self.result)})"


@dataclass(frozen=True)
class Either:
    options: tuple[tuple[Any, ...], ...]

    def __str__(self) -> str:
        return f"({' ; '.join(map(joined, self.options))})"


@dataclass(frozen=True)
class Forall:
    condition: tuple[Any, ...]
    goals: tuple[Any, ...]

    def __str__(self) -> str:
        parts = (
            joined(g) if len(g) == 1 else f"({joined(g)})" for g in (self.condition, self.goals)
        )
        return f"forall({', '.join(parts)})"


@dataclass(frozen=True)
class Own:
    """A comparison of a variable that is its own value: `mood(E)@t =:= calm`."""

    op: str
    atom: Atom
    right: Term

    def __str__(self) -> str:
        return f"{self.atom} {self.op} {show(self.right)}"


Goal = Own | Listing | Atom | Not | Compare | Between | Aggregate | Either | Forall
Body = tuple[Any, ...]


@dataclass(frozen=True)
class Clause:
    """Heads with probabilities: None (certain), a number, a variable, or ("t", start)."""

    heads: tuple[tuple[Any, Atom], ...]
    body: Body = ()
    tilde: bool = False  # written as `h ~ bernoulli(p)`

    def __str__(self) -> str:
        if self.tilde and len(self.heads) == 1 and self.heads[0][0] is not None:
            p, atom = self.heads[0]
            return f"{atom} ~ bernoulli({show(p)}){tail(self.body)}"
        heads = "; ".join(f"{chance(p)}{a}" for p, a in self.heads)
        return heads + tail(self.body)


@dataclass(frozen=True)
class Draw:
    """The last argument of the atom is drawn."""

    atom: Atom
    family: str
    params: tuple[Term, ...]
    body: Body = ()
    guide: bool = False
    own: bool = False  # the variable is its own value: the argument is not written

    def __str__(self) -> str:
        head = str(replace(self.atom, args=self.atom.args[:-1]) if self.own else self.atom)
        head = f"guide({head})" if self.guide else head
        return f"{head} ~ {self.family}({', '.join(map(show, self.params))}){tail(self.body)}"


@dataclass(frozen=True)
class Best:
    """`best(K, min<C>) :- body.`: the last argument of the atom is summarised."""

    atom: Atom
    kind: str
    body: Body

    def __str__(self) -> str:
        args = (*map(show, self.atom.args[:-1]), f"{self.kind}<{self.atom.args[-1]}>")
        return f"{self.atom.name}({', '.join(args)}){at(self.atom.when)}{tail(self.body)}"

    @property
    def clause(self) -> Clause:
        """The same with an aggregate over the body, where that has some answer."""
        *keys, summed = self.atom.args
        # The keys are bound by some answer; what else it binds stays out of the aggregate.
        some = tuple(renamed(g, lambda v: v if v in keys else f"{v}_") for g in self.body)
        there = some if keys else (Not((Not(some),)),)
        goal = Aggregate(self.kind, summed, self.body, "Result")
        return Clause(((None, replace(self.atom, args=(*keys, "Result"))),), (*there, goal))


@dataclass(frozen=True)
class Observe:
    """From data where `value` is None."""

    atom: Atom
    value: Any = None

    def __str__(self) -> str:
        given = "" if self.value is None else f", {show(self.value)}"
        return f"observe({self.atom}{given})"


@dataclass(frozen=True)
class Query:
    atom: Atom
    body: Body = ()

    def __str__(self) -> str:
        return f"query({self.atom}){tail(self.body)}"


@dataclass(frozen=True)
class Input:
    """A declared input with a domain for each argument: (low, high), names, "real" or "bool"."""

    name: str
    domains: tuple[Any, ...]
    timed: bool

    def __str__(self) -> str:
        when = "@t" if self.timed else ""
        if not self.domains:
            return f":- input({self.name}{when})"
        if self.domains == ("bool",):
            return f":- input({self.name}{when}, bool)"
        args = ", ".join("XYZ"[i] for i in range(len(self.domains)))
        return f":- input({self.name}({args}){when}, {', '.join(map(_domain, self.domains))})"


@dataclass(frozen=True)
class Directive:
    text: str

    def __str__(self) -> str:
        return f":- {self.text}"


@dataclass(frozen=True)
class Contest:
    """Two independent normals that only this head compares: `scale * X + shift > Y`."""

    head: Atom
    names: tuple[str, str]
    first: tuple[float, float]
    second: tuple[float, float]
    scale: float
    shift: float
    body: Body = ()
    condition: Body = ()

    def __str__(self) -> str:
        keys, when = self.head.args, self.head.when
        x, y = (
            Atom(n, (*keys, v), when) for n, v in zip(self.names, ("X", "Y"), strict=True)
        )  # fmt: skip
        lines = [
            str(Draw(x, "normal", self.first, (*self.body, *self.condition))),
            str(Draw(y, "normal", self.second, (*self.body, *self.condition))),
            f"{self.head} :- {x}, {y}, {show(self.scale)} * X + {show(self.shift)} > Y",
        ]
        return ".\n".join(lines)

    @property
    def clause(self) -> Clause:
        """The difference of two normals is normal: it is positive with a known probability.

        There is one pair per key, in however many ways the condition holds."""
        (m, sd), (n, other) = self.first, self.second
        mean = self.scale * m + self.shift - n
        spread = math.hypot(self.scale * sd, other)
        chance = 0.5 * (1 + math.erf(mean / spread / math.sqrt(2)))
        held = (Not((Not(self.condition),)),) if self.condition else ()
        return Clause(((chance, self.head),), (*self.body, *held))


@dataclass(frozen=True)
class Walk:
    """A normal random walk x, measured by z, and whether it lies above `cut`: `up`."""

    x: str
    z: str
    up: str
    start: tuple[float, float]
    slope: float
    step: float
    noise: float
    cut: float

    def __str__(self) -> str:
        mean, sd = map(show, self.start)
        return ".\n".join((
            f"{self.x}(X)@0 ~ normal({mean}, {sd})",
            f"{self.x}(X)@t ~ normal({show(self.slope)} * Y, {show(self.step)}) :- "
            f"{self.x}(Y)@(t-1)",
            f"{self.z}(Z)@t ~ normal(X, {show(self.noise)}) :- {self.x}(X)@t",
            f"{self.up}@t :- {self.x}(X)@t, X > {show(self.cut)}",
        ))  # fmt: skip

    def filtered(self, seen: list[float | None]) -> Iterator[tuple[float, float]]:
        """Kalman's filter: per step the density of what is seen given what was seen before, and
        the probability of `up` given all that."""
        mean, variance = self.start[0], self.start[1] ** 2
        for t, z in enumerate(seen):
            if t:
                mean, variance = self.slope * mean, self.slope**2 * variance + self.step**2
            density = 1.0
            if z is not None:
                total = variance + self.noise**2
                density = math.exp(-((z - mean) ** 2) / (2 * total)) / math.sqrt(math.tau * total)
                mean += variance / total * (z - mean)
                variance *= self.noise**2 / total
            above = (mean - self.cut) / math.sqrt(2 * variance)
            yield density, 0.5 * (1 + math.erf(above))


Statement = Contest | Walk | Clause | Draw | Best | Observe | Query | Input | Directive


@dataclass(frozen=True)
class Case:
    """A program with data: arrays [batch][time][entity…], None where something is missing."""

    statements: tuple[Statement, ...]
    steps: int
    lengths: tuple[int, ...]
    data: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    timed: bool = True
    features: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return "".join(f"{s}.\n" for s in self.statements)

    def __str__(self) -> str:
        lines = [self.text, f"% steps {self.steps}, lengths {list(self.lengths)}, seed {self.seed}"]
        lines += [f"% {name} = {values}" for name, values in self.data.items()]
        return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- text

OPERATORS = ("t", "+", "-", "*", "/", "//", "mod", "min", "max", "abs")


def is_variable(term: Term) -> bool:
    return isinstance(term, str) and (term[0].isupper() or term[0] == "_")


def show(term: Term) -> str:
    if isinstance(term, Named):
        return term.label
    if isinstance(term, bool):
        return "true" if term else "false"
    if isinstance(term, list):
        return f"[{', '.join(map(show, term))}]"
    if isinstance(term, tuple):
        op, *args = term
        if op == "t" or op in ("min", "max", "abs"):
            return f"{op}({', '.join(map(show, args))})"
        return f"({show(args[0])} {op} {show(args[1])})"
    if isinstance(term, int | float) and term < 0:
        return f"({term})"
    return str(term)


def at(when: Time) -> str:
    if when is None:
        return ""
    if isinstance(when, tuple):
        return f"@({show(when[0])}:{show(when[1])})"
    if isinstance(when, str) and len(when) > 1:
        return f"@({show(when)})"
    return f"@{show(when)}"


def chance(p: Any) -> str:
    if isinstance(p, Net):
        return f"nn({p.name}, [{p.tensor or show(p.arg)}])::"
    return "" if p is None else f"{show(p)}::"


def joined(goals: Body) -> str:
    return ", ".join(map(str, goals))


def tail(body: Body) -> str:
    return f" :- {joined(body)}" if body else ""


def _domain(domain: Any) -> str:
    if isinstance(domain, tuple):
        return f"{show(domain[0])}..{show(domain[1])}"
    return show(domain)


# ---------------------------------------------------------------- walking


def renamed(part: Any, name: Callable[[str], str]) -> Any:
    """A goal or a term with other variables; `_` stays."""
    return mapped(part, lambda x: name(x) if is_variable(x) and x not in ("_", "T") else x)


def resolved(part: Any) -> Any:
    """The same with the values of constants in place of their names."""
    return mapped(part, lambda x: type(x).__mro__[2](x) if isinstance(x, Named) else x)


# Fields that hold no terms.
_WORDS = {
    "outputs",
    "tensor",
    "name",
    "op",
    "kind",
    "family",
    "text",
    "tilde",
    "guide",
    "own",
    "timed",
}


def mapped(part: Any, leaf: Callable[[Any], Any]) -> Any:
    """A statement, goal or term with every number, name and variable replaced."""
    if isinstance(part, tuple) and part and part[0] in OPERATORS:
        return (part[0], *(mapped(p, leaf) for p in part[1:]))
    if isinstance(part, tuple | list):
        return type(part)(mapped(p, leaf) for p in part)
    if not is_dataclass(part) or isinstance(part, type):
        return leaf(part)
    if isinstance(part, Walk | Contest):
        return part
    return replace(
        part,
        **{
            f.name: mapped(getattr(part, f.name), leaf)
            for f in fields(part)
            if f.name not in _WORDS
        },
    )


def nets(statement: Any) -> list[Net]:
    """The networks that a clause or draw calls."""
    match statement:
        case Clause(heads=pairs):
            return [p for p, _ in pairs if isinstance(p, Net)]
        case Draw(params=params):
            return [p for p in params if isinstance(p, Net)]
    return []


def atoms(goals: Body) -> Iterator[Atom]:
    """All atoms in goals, however deep."""
    for goal in goals:
        match goal:
            case Atom():
                yield goal
            case Not(inner) | Aggregate(_, _, inner, _):
                yield from atoms(inner)
            case Either(options):
                for option in options:
                    yield from atoms(option)
            case Forall(condition, inner):
                yield from atoms((*condition, *inner))
            case Own():
                yield goal.atom


def heads(statement: Statement) -> list[Atom]:
    match statement:
        case Clause(pairs, _):
            return [a for _, a in pairs]
        case Draw(atom, guide=False) | Best(atom) | Contest(atom):
            return [atom]
    return []


def lag(when: Time) -> int | None:
    """How far back a time looks; None if it does not move with t."""
    if when == "t":
        return 0
    if isinstance(when, str) and when.startswith("t-"):
        return int(when[2:])
    return None
