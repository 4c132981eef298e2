"""The second oracle: ProbLog on the program written out step by step.

It judges the first one, whose table of worlds is quicker. An atom `p(X)@(t-1)` at step 3 is
`p_at(2, X)`. Evidence is a conjunction that is asked for, so that one run of ProbLog answers
for every step. A continuous variable is a choice among one number from each interval between
the numbers that it is compared with.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from typing import Any

from differential import oracle
from differential import syntax as s
from differential.values import FAMILIES, Unsupported, deepest, distribution, outcomes
from differential.worlds import Table

TOLERANCE = 1e-6
ROUNDED = 1e-15  # ProbLog's probabilities, products of several included, have 15 decimals.
HELPERS = """:- use_module(library(lists)).
items__([], []).
items__([row__(X, _) | L], [X | M]) :- items__(L, M).
min__([X], X).
min__([X, Y | L], M) :- min__([Y | L], N), M is min(X, N).
max__([X], X).
max__([X, Y | L], M) :- max__([Y | L], N), M is max(X, N).
"""


def problog(case: s.Case, sequence: int) -> oracle.Expected:
    """What ProbLog answers for one sequence."""
    from problog import get_evaluatable
    from problog.program import PrologString

    unroller = _Unroller(case, sequence)
    text = unroller.text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_evaluatable("sdd").create_from(PrologString(text)).evaluate()
    return unroller.read({str(k): float(v) for k, v in found.items()})


class _Unroller:
    def __init__(self, case: s.Case, sequence: int):
        self.table = Table(case, sequence)  # for its reading of data; it is not run
        self.case = self.table.case
        if self.table.walks or any(s.nets(x) for x in case.statements):
            raise Unsupported("a random walk or a network")
        self.recursive = _recursive(self.table.clauses)
        self.last = self.table.last if case.timed else 0
        self.fresh = itertools.count()
        self.asked: list[tuple[str, s.Query, int | None]] = []

    def text(self) -> str:
        lines = [HELPERS]
        arity: dict[str, int] = {}
        for clause in self.table.clauses:
            arity |= {atom.name: len(atom.args) for atom in s.heads(clause)}
        for x in self.case.statements:
            if isinstance(x, s.Input):
                arity[x.name] = 0 if x.domains == ("bool",) else len(x.domains)
        for name, n in arity.items():
            blanks = ["_"] * (n + (name in self.table.timed))
            label = f"{name}_at" if name in self.table.timed else name
            lines.append(
                f"{label}({', '.join(blanks)}) :- fail." if blanks else f"{label} :- fail."
            )
        times: list[int | None] = [None]
        if self.case.timed:
            times += range(self.last + 1)
        for time in times:
            lines += self._inputs(time)
            for clause in self.table.clauses:
                if self.table._moments(clause, time):
                    lines.append(self._clause(clause, time))
            lines.append(self._evidence(time))
        lines += self._queries()
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------ clauses

    def _inputs(self, time: int | None) -> list[str]:
        self.table.columns = {}
        self.table._inputs(time)
        return [
            f"{self._atom(name, args, when)}."
            for (name, when), rows in self.table.columns.items()
            for args in rows
        ]

    def _clause(self, clause: Any, time: int | None) -> str:
        goals = self._goals(clause.body, time)
        behind: list[str] = []
        if isinstance(clause, s.Clause):
            heads = []
            for p, atom in clause.heads:
                p = p[1] if isinstance(p, tuple) else p
                args = tuple(self._computed(a, behind) for a in atom.args)
                shown = self._atom(atom.name, args, time if atom.when is not None else None)
                heads.append(shown if p is None else f"{p}::{shown}")
        else:
            heads = [
                f"{p}::{self._atom(clause.atom.name, (*clause.atom.args[:-1], v), time)}"
                for v, p in self._options(clause, behind)
            ]
        goals += behind
        return "; ".join(heads) + (f" :- {', '.join(goals)}." if goals else ".")

    def _computed(self, term: Any, behind: list[str]) -> Any:
        if not isinstance(term, tuple):
            return term
        name = f"C__{next(self.fresh)}"
        behind.append(f"{name} is {_show(term)}")
        return name

    def _options(self, clause: s.Draw, behind: list[str]) -> list[tuple[Any, Any]]:
        if clause.family in ("poisson", "geometric"):
            return self.table._countable(clause, clause.params)
        if clause.family in FAMILIES:
            if any(x.atom.name == clause.atom.name for x in self.table.observed):
                raise Unsupported("an observed density")
            if any(isinstance(p, str) for p in clause.params):
                raise Unsupported("a drawn mean")
            known = distribution(clause.family, clause.params)
            edges = sorted(self.table.cuts.get(clause.atom.name, ()))
            ends = [-math.inf, *edges, math.inf]
            inner = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
            places = [edges[0] - 1, *inner, edges[-1] + 1] if edges else [0.0]
            masses = [float(known.cdf(b) - known.cdf(a)) for a, b in itertools.pairwise(ends)]
            return [(x, p / sum(masses)) for x, p in zip(places, masses, strict=True) if p > 0]
        if any(
            isinstance(p, list) and any(isinstance(q, str) for q in p) for p in clause.params[:1]
        ):
            return list(zip(clause.params[1], clause.params[0], strict=True))
        return outcomes(clause.family, clause.params)

    # ------------------------------------------------------------ goals

    def _goals(self, goals: s.Body, time: int | None) -> list[str]:
        return [text for goal in goals for text in self._goal(goal, time)]

    def _inner(self, goals: s.Body, time: int | None) -> str:
        return f"({', '.join(self._goals(goals, time))})"

    def _goal(self, goal: Any, time: int | None) -> list[str]:
        match goal:
            case s.Atom():
                return [self._atom(goal.name, goal.args, self.table._resolve(goal, time))]
            case s.Own():
                name = f"O__{next(self.fresh)}"
                value = s.Atom(goal.atom.name, (*goal.atom.args, name), goal.atom.when)
                return self._goals((value, s.Compare(goal.op, name, goal.right)), time)
            case s.Not(inner):
                return [f"\\+ {self._inner(inner, time)}"]
            case s.Forall(condition, inner):
                return [f"\\+ ({self._inner(condition, time)}, \\+ {self._inner(inner, time)})"]
            case s.Between(low, high, variable):
                return [f"between({low}, {high}, {variable})"]
            case s.Listing():
                return [str(goal)]
            case s.Either(options):
                kept = [self._inner(o, time) for o in options if deepest(o) <= (time or 0)]
                return [f"({'; '.join(kept)})" if kept else "fail"]
            case s.Compare(op, left, right):
                a, b = (_show(x, time) for x in (left, right))
                if any(
                    isinstance(x, str) and not s.is_variable(x) and x != "t" for x in (left, right)
                ):
                    op = {"=:=": "=", "=\\=": "\\="}.get(op, op)
                return [f"{a} {op} {b}"]
            case s.Aggregate():
                return self._collect(goal, time)
        raise Unsupported(str(goal))

    def _collect(self, goal: s.Aggregate, time: int | None) -> list[str]:
        """One item per way to satisfy the goals; ProbLog has one per proof. In a findall it takes
        atoms for true that only a cycle supports."""
        if self.recursive:
            raise Unsupported("a collection beside a recursion")
        n = next(self.fresh)
        goals = self.table._anonymous(goal.goals)
        names = _names(goals)
        texts: list[str] = []
        for inner in goals:
            if isinstance(inner, s.Either):
                # The alternatives count each, so a row says which one it took.
                way = f"W__{next(self.fresh)}"
                options = [
                    self._way(way, i, o, time)
                    for i, o in enumerate(inner.options)
                    if deepest(o) <= (time or 0)
                ]
                texts.append(f"({'; '.join(options)})" if options else "fail")
                names.append(way)
            else:
                texts += self._goal(inner, time)
        raw, rows, items = f"R__{n}", f"S__{n}", f"L__{n}"
        row = f"row__({_show(goal.template)}, [{', '.join(names)}])"
        out = [
            f"findall({row}, ({', '.join(texts)}), {raw})",
            f"sort({raw}, {rows})",
            f"items__({rows}, {items})",
        ]
        result = _show(goal.result)
        match goal.kind.removesuffix("_list"):
            case "count" | "length":
                out.append(f"length({items}, {result})")
            case "member":
                out.append(f"member({result}, {items})")
            case "sum":
                out.append(f"sum_list({items}, {result})")
            case "min" | "max":
                out.append(f"{goal.kind.removesuffix('_list')}__({items}, {result})")
            case "avg":
                out += [f"length({items}, N__{n})", f"N__{n} > 0", f"sum_list({items}, T__{n})",
                        f"{result} is T__{n} / N__{n}"]  # fmt: skip
            case _:
                raise Unsupported(goal.kind)
        return out

    def _way(self, variable: str, number: int, goals: s.Body, time: int | None) -> str:
        mark = f"{variable} = way({number}, [{', '.join(_names(goals))}])"
        return f"({', '.join([*self._goals(goals, time), mark])})"

    def _atom(self, name: str, args: Any, time: Any) -> str:
        shown = [_show(a) for a in args]
        if time is not None:
            name, shown = f"{name}_at", [str(time), *shown]
        return f"{name}({', '.join(shown)})" if shown else name

    # ------------------------------------------------------------ evidence and queries

    def _evidence(self, time: int | None) -> str:
        goals = [] if time is None else ["ev_s" if time == 0 else f"ev_{time - 1}"]
        for name in sorted({o.atom.name for o in self.table.observed}):
            for atom, value in self.table._seen(name, time):
                if value is False:
                    goals.append(f"\\+ {self._atom(name, atom.args, time)}")
                elif value is True:
                    goals.append(self._atom(name, atom.args, time))
                else:
                    goals.append(self._atom(name, (*atom.args, value), time))
        label = "ev_s" if time is None else f"ev_{time}"
        return f"{label} :- {', '.join(goals or ['true'])}."

    def _queries(self) -> list[str]:
        final = f"ev_{self.last}" if self.case.timed else "ev_s"
        lines = ["query(ev_s)."]
        if self.case.timed:
            lines += [f"query(ev_{t})." for t in range(self.last + 1)]
        for number, query in enumerate(self.table.queries):
            when = query.atom.when
            every = when == "t" or isinstance(when, tuple)
            moments: list[Any] = [when]
            if every:
                moments = [t for t in range(self.last + 1) if self.table._active(when, t)]
            elif when == "T":
                moments = [self.last]
            for t in moments:
                if t is not None and t > self.last:
                    continue
                args = self.table._anonymous((query.atom,))[0].args
                label = f"q{number}_{'s' if t is None else t}"
                inner = ", ".join(_show(a) for a in args)
                head = f"{label}({inner})" if args else label
                timed = query.atom.name in self.table.timed
                body = [
                    f"ev_{t}" if every else final,
                    self._atom(query.atom.name, args, t if timed else None),
                    *self._goals(query.body, None),
                ]
                lines += [f"{head} :- {', '.join(body)}.", f"query({head})."]
                self.asked.append((label, query, t))
        return lines

    def read(self, found: dict[str, float]) -> oracle.Expected:
        """ProbLog's numbers as the answers of a sequence."""
        out = oracle.Expected()
        before = found.get("ev_s", 0.0)
        evidence = {None: before}
        for t in range(self.last + 1) if self.case.timed else ():
            now = found.get(f"ev_{t}", 0.0)
            if now <= 1e-14:
                out.failed, out.log_evidence = t, -math.inf
                return out
            out.gains.append(math.log(now / (before if t else 1.0)))
            before = evidence[t] = now
        if before <= 1e-14:
            out.failed = 0
            return out
        out.log_evidence = math.log(before)
        steps = self.last + 1
        for label, query, t in self.asked:
            every = query.atom.when == "t" or isinstance(query.atom.when, tuple)
            total = evidence[t] if every else before
            for name, p in found.items():
                match = re.fullmatch(rf"{label}(?:\((.*)\))?", name)
                if not match or "_" in name.removeprefix(label):
                    continue
                shown = f"({match[1].replace(' ', '')})" if match[1] else ""
                answer = f"{query.atom.name}{shown}{s.at(query.atom.when)}"
                if every:
                    out.filtered.setdefault(answer, [0.0] * steps)[t or 0] = p / total
                else:
                    out.final[answer] = p / total
        return out


def _recursive(clauses: Any) -> bool:
    """Whether a predicate depends on itself at the same time."""
    reads: dict[str, set[str]] = {}
    for clause in clauses:
        for head in s.heads(clause):
            read = {a.name for a in s.atoms(getattr(clause, "body", ())) if a.when == head.when}
            reads.setdefault(head.name, set()).update(read)
    for name in reads:
        reached: set[str] = set()
        ahead = [name]
        while ahead:
            new = reads.get(ahead.pop(), set()) - reached
            reached |= new
            ahead += new
        if name in reached:
            return True
    return False


def _names(goals: s.Body) -> list[str]:
    """The variables of the atoms among the goals."""
    found = {a for g in goals if isinstance(g, s.Atom) for a in g.args if s.is_variable(a)}
    return sorted(found - {"_"})


def _show(term: Any, time: int | None = None) -> str:
    if term == "t" and time is not None:
        return str(time)
    if isinstance(term, tuple):
        op, *args = term
        shown = [_show(a, time) for a in args]
        if op in ("min", "max", "abs"):
            return f"{op}({', '.join(shown)})"
        return f"({shown[0]} {op} {shown[1]})"
    return s.show(term)


def disagreement(case: s.Case) -> str:
    """What the two oracles say differently, or nothing."""
    for b, right in enumerate(oracle.expect(case)):
        if right.failed is None and right.log_evidence < math.log(ROUNDED / TOLERANCE):
            continue
        other = problog(case, b)
        if (right.failed is None) != (other.failed is None):
            return f"sequence {b}: impossible at {right.failed} and {other.failed}"
        if right.failed is not None:
            continue
        if abs(right.log_evidence - other.log_evidence) > TOLERANCE:
            return f"sequence {b}: log-evidence {right.log_evidence} and {other.log_evidence}"
        for name in {*right.final, *other.final}:
            p, q = right.final.get(name, 0.0), other.final.get(name, 0.0)
            if abs(p - q) > TOLERANCE:
                return f"sequence {b}: {name} {p} and {q}"
        for name in {*right.filtered, *other.filtered}:
            none = [0.0] * (case.lengths[b])
            rows = zip(right.filtered.get(name, none), other.filtered.get(name, none), strict=True)
            for t, (p, q) in enumerate(rows):
                if not math.isnan(p) and abs(p - q) > TOLERANCE:
                    return f"sequence {b}: {name} at {t} {p} and {q}"
    return ""
