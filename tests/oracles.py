"""What other systems say: ProbLog, and a temporal program written out for ProbLog.

`problog` runs ProbLog on a text. `unroll` turns a program of our language into such a
text, step by step, knowing nothing of the compiler: `p(X)@(t-1)` at step 3 is
`p_at(2, X)`, and every clause with a time is written once per step.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, TypeGuard

from nesymm.language.parser import parse, parse_term
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var, variables


class Inconsistent(Exception):
    """ProbLog: the evidence has probability zero."""


class Refused(Exception):
    """ProbLog does not accept the program, or breaks down on it."""


def problog(source: str, method: str = "sdd") -> dict[str, float]:
    """The probabilities that ProbLog gives to the queries of a program.

    The method `fsdd` copes with dense cycles, but not with evidence that is impossible.
    """
    limit = sys.getrecursionlimit()  # ProbLog raises it
    try:
        return _problog(source, method)
    finally:
        sys.setrecursionlimit(limit)


def _problog(source: str, method: str) -> dict[str, float]:
    from problog import get_evaluatable
    from problog.errors import InconsistentEvidenceError, ProbLogError
    from problog.program import PrologString

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_evaluatable(method).create_from(PrologString(source)).evaluate()
    except InconsistentEvidenceError as error:
        raise Inconsistent(str(error)) from None
    except (ProbLogError, AssertionError, RecursionError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    return {str(term): float(probability) for term, probability in found.items()}


Data = Mapping[str, Any]

# Between the name of a predicate and the time that a query names.
_AT = "__at__"
_ASKED = re.compile(rf"(\w+){_AT}(\w+)")


def unrolled(
    source: str, horizon: int, data: Data | None = None, inputs: Data | None = None
) -> dict[str, float]:
    """ProbLog's answers to an unrolled program, under the names that we give to queries."""
    found = problog(unroll(source, horizon, data, inputs))
    out = {}
    for name, probability in found.items():
        match = _ASKED.match(name)
        if match:
            out[f"{match[1]}{name[match.end() :]}@{match[2]}"] = probability
        else:
            out[name] = probability
    return out


def unroll(source: str, horizon: int, data: Data | None = None, inputs: Data | None = None) -> str:
    """A temporal program as a plain ProbLog program for the steps 0 to `horizon`.

    `data` and `inputs` have the form that the reference interpreter takes: per name one
    value per step. Queries at `t` are asked at the last step.
    """
    return _Unroller(source, horizon, data or {}, inputs or {}).text()


_COMPARISONS = ("<", ">", "=<", ">=", "=:=", "=\\=", "is", "=", "\\=", "==", "\\==")
_ARITHMETIC = {
    ("+", 2), ("-", 2), ("*", 2), ("/", 2), ("//", 2), ("mod", 2), ("min", 2), ("max", 2),
    ("-", 1), ("abs", 1),
}  # fmt: skip
_LIBRARIES = """:- use_module(library(lists)).
:- use_module(library(apply)).
items__([], []).
items__([row__(X, _) | L], [X | M]) :- items__(L, M)."""


class _Unroller:
    def __init__(self, source: str, horizon: int, data: Data, inputs: Data):
        self.horizon = horizon
        self.data = data
        self.inputs = inputs
        self.fresh = 0
        self.constants: dict[str, Term] = {}
        self.domains: dict[str, None] = {}
        self.timed: dict[tuple[str, int], None] = {}
        self.own_value: set[tuple[str, int]] = set()
        self.valued: dict[str, int] = {}
        statements = parse(source).statements
        self.lines: list[str] = []
        for statement in statements:
            if _is(statement, ":-", 1):
                self._directive(statement.args[0])
        self.statements = [self._fill(s) for s in statements if not _is(s, ":-", 1)]
        for statement in self.statements:
            if not _is_goal(_split(statement)[0]):
                self._declare(statement)

    # ------------------------------------------------------------ what there is

    def _directive(self, term: Term) -> None:
        match term:
            case Struct("use_module" | "domain" | "fluent"):
                pass
            case Struct("const", (Struct(name, ()), value)):
                self.constants[name] = value
            case Struct("input", (Struct("@", (Struct(name, args), _)), *_)):
                self.timed[name, len(args)] = None
            case Struct("input", (Struct(name, args), *_)) if args:
                pass
            case _:
                raise NotImplementedError(f"unroll does not know the directive {term}")

    def _fill(self, term: Term) -> Term:
        """Constants replaced by their values."""
        match term:
            case Struct(name, ()) if name in self.constants:
                return self.constants[name]
            case Struct(functor, args):
                return Struct(functor, tuple(map(self._fill, args)))
            case ListTerm(items, tail):
                return ListTerm(tuple(map(self._fill, items)), tail and self._fill(tail))
        return term

    def _declare(self, statement: Term) -> None:
        head, body = _split(statement)
        draws = isinstance(head, Struct) and head.functor == "~"
        for atom in _head_atoms(head):
            inner, when = _timed(atom)
            if not isinstance(inner, Struct):
                raise NotImplementedError(f"unroll does not know the head {atom}")
            key = (inner.functor, inner.arity)
            if draws:
                assert isinstance(head, Struct)
                drawn = _drawn(inner, head.args[1], body)
                self.valued[inner.functor] = len(drawn) or 1
                if not drawn and not _is(head.args[1], "bernoulli", 1):
                    self.own_value.add(key)
            if when is not None:
                self.timed[key] = None

    # ------------------------------------------------------------ the whole

    def text(self) -> str:
        self.lines = [_LIBRARIES]
        for name, arity in self.timed:
            width = arity + ((name, arity) in self.own_value)
            blanks = "".join(", _" for _ in range(width))
            self.lines.append(f"{name}_at(_{blanks}) :- fail.")
        self._given()
        for statement in self.statements:
            head, body = _split(statement)
            if _is_goal(head):
                self._goal(head, body)
            else:
                self._clause(head, body)
        return "\n".join(self.lines) + "\n"

    def _given(self) -> None:
        for name, values in self.inputs.items():
            if not any(known == name for known, _ in self.timed):
                row = values if isinstance(values, tuple) else (values,)
                self.lines.append(f"{name}({', '.join(map(_constant, row))}).")
                continue
            for time, value in enumerate(values[: self.horizon + 1]):
                if value is not None:
                    row = value if isinstance(value, tuple) else (value,)
                    self.lines.append(f"{name}_at({time}, {', '.join(map(_constant, row))}).")

    # ------------------------------------------------------------ clauses

    def _clause(self, head: Term, body: Term | None) -> None:
        when = next(_timed(atom)[1] for atom in _head_atoms(head))
        for time in self._times(when):
            if body is not None and time is not None and _deepest(body, time) > time:
                continue
            self._write(head, body, time)

    def _times(self, when: Term | None) -> list[int | None]:
        match when:
            case None:
                return [None]
            case Num(int(index)):
                return [index] if index <= self.horizon else []
            case Struct("t", ()):
                return list(range(self.horizon + 1))
        raise NotImplementedError(f"unroll does not know the time {when} of a head")

    def _write(self, head: Term, body: Term | None, time: int | None) -> None:
        goals = [] if body is None else self._goals(body, time)
        behind: list[str] = []
        match head:
            case Struct("~", (left, Struct("bernoulli", (p,)))) if not self._draws(
                left, head, body
            ):
                before: list[str] = []
                probability = self._number(p, time, before)
                heads = [f"{probability}::{self._head(left, time, behind)}"]
                goals += before
            case Struct("~", (left, family)):
                options = self._outcomes(family, time, goals)
                heads = [
                    f"{p}::{self._head(self._choose(left, value, family, body), time, behind)}"
                    for p, value in options
                ]
            case _:
                heads = []
                for option in head.args if _is(head, ";") else (head,):
                    if _is(option, "::", 2):
                        p, atom = option.args
                        probability = self._number(p, time, goals)
                        heads.append(f"{probability}::{self._head(atom, time, behind)}")
                    else:
                        heads.append(self._head(option, time, behind))
        goals += behind
        tail = f" :- {', '.join(goals)}" if goals else ""
        self.lines.append(f"{'; '.join(heads)}{tail}.")

    def _draws(self, left: Term, family: Term, body: Term | None) -> bool:
        """Whether a distributional clause binds a value."""
        inner, _ = _timed(left)
        assert isinstance(inner, Struct)
        return bool(_drawn(inner, family, body)) or self._is_own(inner)

    def _is_own(self, term: Struct) -> bool:
        return (term.functor, term.arity) in self.own_value

    def _head(self, atom: Term, time: int | None, goals: list[str]) -> str:
        """A head; what it computes is computed by goals behind the body."""
        inner, when = _timed(atom)
        assert isinstance(inner, Struct)
        args = []
        for arg in inner.args:
            if (
                time is not None
                and isinstance(arg, Struct)
                and (arg.functor, arg.arity) in (_ARITHMETIC)
            ):
                args.append(self._computed(arg, time, goals))
            else:
                args.append(_text(arg))
        return _atom(inner.functor, args, None if when is None else time)

    def _computed(self, term: Term, time: int | None, goals: list[str]) -> str:
        self.fresh += 1
        name = f"V__{self.fresh}"
        goals.append(f"{name} is {_text(self._value(term, time, goals))}")
        return name

    def _number(self, term: Term, time: int | None, goals: list[str]) -> str:
        """A probability: a number or a variable that is bound to one."""
        if isinstance(term, Num | Var):
            return _text(term)
        if not any(True for _ in variables(term)) and not self.own_value:
            return _text(term)
        return self._computed(term, time, goals)

    def _outcomes(self, family: Term, time: int | None, goals: list[str]) -> list[tuple[str, Term]]:
        match family:
            case Struct("categorical", (ListTerm(ps, None), ListTerm(values, None))):
                return [(self._number(p, time, goals), v) for p, v in zip(ps, values, strict=True)]
            case Struct("uniform_int", (Num(int(low)), Num(int(high)))):
                count = high - low + 1
                return [(f"1/{count}", Num(low + i)) for i in range(count)]
            case Struct("binomial", (Num(int(n)), Num(p))):
                weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
                return [(repr(w), Num(k)) for k, w in enumerate(weights)]
            case Struct("bernoulli", (p,)):
                one = self._number(p, time, goals)
                zero = self._computed(Struct("-", (Num(1), p)), time, goals)
                return [(zero, Num(0)), (one, Num(1))]
        raise NotImplementedError(f"unroll does not know the family {family}")

    def _choose(self, left: Term, value: Term, family: Term, body: Term | None) -> Term:
        """The head with its drawn arguments replaced by an outcome."""
        inner, when = _timed(left)
        assert isinstance(inner, Struct)
        drawn = _drawn(inner, family, body)
        if not drawn:
            args = (*inner.args, value)
        else:
            several = isinstance(value, ListTerm) and len(drawn) > 1
            values = iter(value.items if several and isinstance(value, ListTerm) else (value,))
            args = tuple(next(values) if i in drawn else a for i, a in enumerate(inner.args))
        chosen = Struct(inner.functor, args)
        return chosen if when is None else Struct("@", (chosen, when))

    # ------------------------------------------------------------ bodies

    def _goals(self, body: Term, time: int | None) -> list[str]:
        parts = body.args if _is(body, ",") else (body,)
        return [text for part in parts for text in self._literal(part, time)]

    def _inner(self, body: Term, time: int | None) -> str:
        return "(" + ", ".join(self._goals(body, time)) + ")"

    def _literal(self, term: Term, time: int | None) -> list[str]:
        match term:
            case Struct("not", (goal,)):
                return [f"\\+ {self._inner(goal, time)}"]
            case Struct(";", (_, _, *_) as options):
                # An alternative that looks back too far does not exist yet.
                kept = [
                    self._inner(o, time)
                    for o in options
                    if time is None or _deepest(o, time) <= time
                ]
                return ["(" + "; ".join(kept or ["fail"]) + ")"]
            case Struct("findall", (template, goal, result)):
                return self._findall(template, goal, result, time)
            case Struct("forall", (condition, goal)):
                return [f"\\+ ({self._inner(condition, time)}, \\+ {self._inner(goal, time)})"]
            case Struct(name, (left, right)) if name in _COMPARISONS:
                before: list[str] = []
                a, b = (self._value(x, time, before) for x in (left, right))
                if any(isinstance(x, Struct) and not x.args for x in (a, b)):
                    name = {"=:=": "=", "=\\=": "\\="}.get(name, name)
                return [*before, f"{_text(a)} {name} {_text(b)}"]
            case Struct("distance", (left, right, result)):
                pairs = [(left, right)]
                if isinstance(left, ListTerm) and isinstance(right, ListTerm):
                    pairs = list(zip(left.items, right.items, strict=True))
                gaps = [f"abs({_text(a)} - {_text(b)})" for a, b in pairs]
                widest = reduce(lambda a, b: f"max({a}, {b})", gaps)
                return [f"{_text(result)} is {widest}"]
            case Struct("@", _):
                inner, when = _timed(term)
                assert isinstance(inner, Struct) and time is not None
                at = _moment(when, time)
                return [_atom(inner.functor, [_text(a) for a in inner.args], at)]
            case Struct(name, args):
                return [_atom(name, [_text(a) for a in args], None)]
        raise NotImplementedError(f"unroll does not know the goal {term}")

    def _findall(self, template: Term, goal: Term, result: Term, time: int | None) -> list[str]:
        """ProbLog's findall has one item per proof; ours one per solution, in order."""
        goal = self._named(goal)
        self.fresh += 1
        raw, distinct = f"L__{self.fresh}", f"M__{self.fresh}"
        names = dict.fromkeys(v.name for v in _binding(goal))
        row = f"row__({_text(template)}, [{', '.join(names)}])"
        return [
            f"findall({row}, {self._inner(goal, time)}, {raw})",
            f"sort({raw}, {distinct})",
            f"items__({distinct}, {_text(result)})",
        ]

    def _value(self, term: Term, time: int | None, before: list[str]) -> Term:
        """`t` is the step; a variable that is its own value is fetched beforehand."""
        match term:
            case Struct("t", ()) if time is not None:
                return Num(time)
            case Struct("@", (Struct() as inner, when)) if self._is_own(inner):
                assert time is not None
                return self._fetch(inner, _moment(when, time), before)
            case Struct() if self._is_own(term):
                return self._fetch(term, None, before)
            case Struct(functor, args) if args:
                return Struct(functor, tuple(self._value(a, time, before) for a in args))
        return term

    def _fetch(self, inner: Struct, time: int | None, before: list[str]) -> Var:
        self.fresh += 1
        name = f"V__{self.fresh}"
        before.append(_atom(inner.functor, [*map(_text, inner.args), name], time))
        return Var(name)

    # ------------------------------------------------------------ evidence, queries

    def _goal(self, head: Struct, body: Term | None) -> None:
        target = head.args[0]
        value = head.args[1] if head.arity == 2 else None
        if _is(target, "not", 1):
            target, value = target.args[0], Struct("false")
        elif head.functor == "evidence" and value is None:
            value = Struct("true")
        inner, when = _timed(target)
        assert isinstance(inner, Struct)
        tail = "" if body is None else f" :- {', '.join(self._goals(body, None))}"
        if head.functor == "query":
            self._query(inner, when, tail)
        elif value is not None:
            for time in self._moments(when):
                self._evidence(inner, time, value, tail)
        else:
            self._from_data(inner, when)

    def _moments(self, when: Term | None) -> Iterator[int | None]:
        last = self.horizon
        match when:
            case None:
                yield None
            case Num(int(index)):
                if index <= last:
                    yield index
            case Var("T"):
                yield last
            case Struct("t", ()):
                yield from range(last + 1)
            case Struct(":", (Num(int(first)), end)):
                stop = min(last, end.value) if isinstance(end, Num) else last
                yield from range(first, int(stop) + 1)
            case _:
                raise NotImplementedError(f"unroll does not know the time {when}")

    def _evidence(self, inner: Struct, time: int | None, value: Any, tail: str = "") -> None:
        truth = "true"
        args = [_text(a) for a in inner.args]
        if value is True or value == Struct("true"):
            pass
        elif value is False or value == Struct("false"):
            truth = "false"
        elif isinstance(value, ListTerm):
            args += [_text(v) for v in value.items]
        else:
            row = value if isinstance(value, tuple) else (value,)
            args += [_text(v) if isinstance(v, Struct | Num) else _constant(v) for v in row]
        self.lines.append(f"evidence({_atom(inner.functor, args, time)}, {truth}){tail}.")

    def _from_data(self, inner: Struct, when: Term | None) -> None:
        for name, values in self.data.items():
            named = parse_term(name)
            assert isinstance(named, Struct)
            if named.functor != inner.functor or not _covers(inner, named):
                continue
            for time in self._moments(when):
                given = values if time is None else values[time] if time < len(values) else None
                if given is None:
                    continue
                if not isinstance(given, Mapping):
                    self._evidence(named, time, given)
                    continue
                for key, single in given.items():
                    if single is not None:
                        full = (*named.args, *(parse_term(_constant(k)) for k in key))
                        self._evidence(Struct(named.functor, full), time, single)

    def _named(self, term: Term) -> Term:
        """Every `_` with a name of its own."""
        match term:
            case Var("_"):
                self.fresh += 1
                return Var(f"A__{self.fresh}")
            case Struct(functor, args):
                return Struct(functor, tuple(map(self._named, args)))
            case ListTerm(items, tail):
                return ListTerm(tuple(map(self._named, items)), tail and self._named(tail))
        return term

    def _query(self, inner: Struct, when: Term | None, tail: str) -> None:
        args = [_text(self._named(a)) for a in inner.args]
        if self._is_own(inner):
            args.append("V__")
        if when is None:
            self.lines.append(f"query({_atom(inner.functor, args, None)}){tail}.")
            return
        match when:
            case Var("T") | Struct("t", ()) | Struct(":", _):
                time, label = self.horizon, "T" if isinstance(when, Var) else "t"
            case Num(int(index)):
                time, label = index, str(index)
            case _:
                raise NotImplementedError(f"unroll does not know the time {when}")
        if time > self.horizon:
            return
        asked = _atom(f"{inner.functor}{_AT}{label}", args, None)
        self.lines.append(f"{asked} :- {_atom(inner.functor, args, time)}.")
        self.lines.append(f"query({asked}){tail}.")


# ---------------------------------------------------------------- terms


def _is(term: Term, functor: str, arity: int | None = None) -> TypeGuard[Struct]:
    return (
        isinstance(term, Struct)
        and term.functor == functor
        and (term.arity == arity if arity is not None else term.arity > 1)
    )


def _is_goal(head: Term) -> TypeGuard[Struct]:
    return isinstance(head, Struct) and head.functor in ("query", "evidence", "observe")


def _split(statement: Term) -> tuple[Term, Term | None]:
    if _is(statement, ":-", 2):
        return statement.args[0], statement.args[1]
    return statement, None


def _head_atoms(head: Term) -> Iterator[Term]:
    if _is(head, "~", 2):
        yield head.args[0]
        return
    for option in head.args if _is(head, ";") else (head,):
        yield option.args[1] if _is(option, "::", 2) else option


def _timed(term: Term) -> tuple[Term, Term | None]:
    if _is(term, "@", 2):
        return term.args[0], term.args[1]
    return term, None


def _drawn(head: Struct, family: Term, body: Term | None) -> list[int]:
    """Positions of the arguments that occur nowhere else in the clause."""
    elsewhere = {v.name for v in variables(family)}
    if body is not None:
        elsewhere |= {v.name for v in variables(body)}
    return [i for i, a in enumerate(head.args) if isinstance(a, Var) and a.name not in elsewhere]


def _moment(when: Term | None, time: int) -> int:
    match when:
        case Struct("t", ()):
            return time
        case Struct("-", (Struct("t", ()), Num(int(lag)))):
            return time - lag
        case Num(int(index)):
            return index
    raise NotImplementedError(f"unroll does not know the time {when}")


def _binding(goal: Term) -> Iterator[Var]:
    """The variables of a goal, those inside a negation aside."""
    if isinstance(goal, Struct) and goal.functor not in ("not", "forall"):
        for arg in goal.args:
            yield from [arg] if isinstance(arg, Var) else _binding(arg)
    elif isinstance(goal, ListTerm):
        yield from variables(goal)


def _deepest(body: Term, time: int) -> int:
    """How far back a body must be able to look, whatever alternative is taken."""
    if _is(body, ";"):
        return min(_deepest(a, time) for a in body.args)
    match body:
        case Struct("@", (_, when)):
            return time - _moment(when, time) if not isinstance(when, Num) else 0
        case Struct(_, args):
            return max((_deepest(a, time) for a in args), default=0)
    return 0


def _covers(general: Struct, special: Struct) -> bool:
    """Whether an observed atom, perhaps with variables, means a name in the data."""
    return all(
        isinstance(g, Var) or g == s for g, s in zip(general.args, special.args, strict=False)
    )


def _atom(name: str, args: list[str], time: int | None) -> str:
    if time is not None:
        name, args = f"{name}_at", [str(time), *args]
    return f"{_quoted(name)}({', '.join(args)})" if args else _quoted(name)


def _quoted(name: str) -> str:
    if re.fullmatch(r"[a-z]\w*", name):
        return name
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _constant(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


_INFIX = {"mod", "is", ":", *_COMPARISONS, *(name for name, n in _ARITHMETIC if name in "+-*//")}


def _text(term: Term) -> str:
    match term:
        case Var(name):
            return name
        case Num(value):
            return repr(value) if value >= 0 else f"({value!r})"
        case Str(value):
            return '"' + value.replace('"', '\\"') + '"'
        case ListTerm(items, tail):
            rest = "" if tail is None else f" | {_text(tail)}"
            return f"[{', '.join(map(_text, items))}{rest}]"
        case Struct(name, (left, right)) if name in _INFIX:
            return f"({_text(left)} {name} {_text(right)})"
        case Struct("-", (inner,)):
            return f"(-{_text(inner)})"
        case Struct(name, args):
            return _atom(name, [_text(a) for a in args], None)
    raise TypeError(term)


__all__ = ["Data", "Inconsistent", "Refused", "problog", "unroll", "unrolled"]
