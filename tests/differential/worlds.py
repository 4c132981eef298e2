"""Exact answers from a table of worlds: the first oracle, which shares no code with the library.

A row is a set of worlds that agree on every atom that something may still read; its weight is
their probability, times the evidence so far. A clause that may or may not fire splits the rows
in which it matters. Atoms that nothing reads any more are dropped, and equal rows are merged.
Clauses run predicate by predicate, in the order of what they read.

A continuous variable is a choice among the intervals between the numbers that it is compared
with; where it is observed, its density weighs the rows and its value is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from differential import syntax as s
from differential.values import (
    FAMILIES,
    Binding,
    Interval,
    Unsupported,
    compare,
    cut_points,
    deepest,
    density_given_interval,
    distribution,
    listed,
    outcomes,
    unify,
    value_of,
)

Key = tuple[str, Any]  # a predicate and a time, None for what has none
MAX_ROWS = 200_000


class TooManyWorlds(Exception):
    """The table would not fit."""


class Conflict(Exception):
    """Two clauses give different values in some world: the program has no meaning."""


class Table:
    """The worlds of one sequence. `parameters` replaces the starts of learnable numbers."""

    def __init__(self, case: s.Case, sequence: int, parameters: Mapping[Any, float] | None = None):
        case = replace(case, statements=tuple(map(s.resolved, case.statements)))
        self.case, self.sequence = case, sequence
        self.last = case.lengths[sequence] - 1
        self.parameters = parameters or {}
        self.weight = np.ones(1)
        self.columns: dict[Key, dict[tuple[Any, ...], np.ndarray]] = {}
        self.cuts = cut_points(case)
        self.clauses = plain_clauses(case)
        self.fresh = itertools.count()
        # Observations and queries by the predicate that they are about.
        self.walks = [x for x in case.statements if isinstance(x, s.Walk)]
        measured = {x.z for x in self.walks}
        self.observed = [
            x for x in case.statements if isinstance(x, s.Observe) and x.atom.name not in measured
        ]
        self.queries = [x for x in case.statements if isinstance(x, s.Query)]
        self.timed = {a.name for c in self.clauses for a in s.heads(c) if a.when is not None}
        self.timed |= {x.name for x in case.statements if isinstance(x, s.Input) and x.timed}
        self.kept: list[tuple[s.Atom, Any]] = []  # further atoms to keep: (atom, time)
        self.numbers = self._number_learnables()

    def _number_learnables(self) -> dict[int, list[int]]:
        """Per clause the numbers of its learnable heads, in the order of the text."""
        counter = itertools.count()
        out: dict[int, list[int]] = {}
        for clause in self.clauses:
            if isinstance(clause, s.Clause):
                out[id(clause)] = [
                    next(counter) if isinstance(p, tuple) and p[0] == "t" else -1
                    for p, _ in clause.heads
                ]
        return out

    # ------------------------------------------------------------ running

    def run(self) -> Iterator[int | None]:
        """Runs all steps; yields None before the first and the number of each that is done."""
        self._inputs(None)
        self._stretch(None)
        yield None
        for time in range(self.last + 1):
            self._inputs(time)
            self._stretch(time)
            for walk in self.walks:
                self._walk(walk, time)
            yield time
            if time < self.last:
                self._forget(time)

    def _inputs(self, time: int | None) -> None:
        for given in self.case.statements:
            if not isinstance(given, s.Input) or given.timed != (time is not None):
                continue
            if not given.domains:
                continue  # A tensor, which only networks read.
            values = self.case.data[given.name][self.sequence]
            value = values[time] if given.timed else values
            table = self.columns.setdefault((given.name, time), {})
            if value is None or (isinstance(value, list) and None in value):
                continue
            if given.domains == ("bool",):
                if value:
                    table[()] = np.ones(len(self.weight), bool)
                continue
            row = tuple(value) if isinstance(value, list) else (value,)
            table[row] = np.ones(len(self.weight), bool)

    def _stretch(self, time: int | None) -> None:
        """All clauses of one step, or those without time."""
        self.now = time
        active = [(c, self._moments(c, time)) for c in self.clauses]
        active = [(c, m) for c, m in active if m]
        names = {a.name for c, _ in active for a in s.heads(c)}
        names |= {o.atom.name for o in self.observed}
        order = components(names, lambda n: self._reads_now(n, active, time))
        for position, group in enumerate(order):
            mine = [c for c, _ in active if any(a.name in group for a in s.heads(c))]
            recursive = len(group) > 1 or any(
                a.name in group and self._resolve(a, time) == time
                for c in mine
                for a in self._atoms_read(c)
            )
            for name in group:
                self.columns.setdefault((name, time), {})
            if recursive:
                self._fixpoint(mine, time)
            else:
                for clause in mine:
                    self._apply(clause, time)
            for name in group:
                self._evidence(name, time)
            if len(self.weight) > 32:
                later = [n for g in order[position + 1 :] for n in g]
                self._forget(time, later, active)

    def _walk(self, walk: s.Walk, time: int) -> None:
        """By Kalman's filter. What is above is drawn anew at each step: right for what is asked
        of one step given the past, and for nothing else."""
        if self.kept:
            raise Unsupported("a random walk given later evidence")
        series = self.case.data.get(walk.z, {}).get((), [[None] * self.case.steps] * 99)
        density, above = list(walk.filtered(series[self.sequence][: time + 1]))[-1]
        self.weight = self.weight * density
        self.origin = np.arange(len(self.weight))
        everywhere = np.ones(len(self.weight), bool)
        self._choose([((s.Atom(walk.up), time), above)], everywhere)

    def _moments(self, clause: Any, time: int | None) -> bool:
        """Whether a clause applies at this step."""
        when = s.heads(clause)[0].when
        if (when is None) != (time is None):
            return False
        if time is None:
            return True
        if isinstance(when, tuple):
            stop = self.last if when[1] == "T" else when[1]
            if not when[0] <= time <= stop:
                return False
        elif when != "t" and when != time:
            return False
        return deepest(clause.body) <= time

    def _atoms_read(self, clause: Any) -> list[s.Atom]:
        return list(s.atoms(clause.body))

    def _reads_now(self, name: str, active: list[Any], time: int | None) -> set[str]:
        return {
            a.name
            for c, _ in active
            if any(h.name == name for h in s.heads(c))
            for a in [*self._atoms_read(c), *s.heads(c)]
            if self._resolve(a, time) == time
        } - ({name} if not _self_reading(name, active, self, time) else set())

    def _resolve(self, atom: s.Atom, time: int | None) -> Any:
        """The step that an atom of a clause is about."""
        if atom.name not in self.timed:
            return None
        if atom.when == "t" or isinstance(atom.when, tuple):
            return time
        back = s.lag(atom.when)
        if back is not None:
            return time - back if time is not None else None
        return atom.when

    # ------------------------------------------------------------ clauses

    def _apply(self, clause: Any, time: int | None) -> None:
        if isinstance(clause, s.Draw):
            self._draw(clause, time)
            return
        groundings = list(self._groundings(clause, time))
        for _, atom in clause.heads[:-1]:
            # In a list that is collected, each head has its atoms together, as in ProbLog.
            for binding, _ in groundings:
                self._column(self._ground(atom, binding), time)
        for binding, mask in groundings:
            mask = self._extend(mask)
            chances = [self._chance(clause, i, binding) for i in range(len(clause.heads))]
            atoms = [self._ground(a, binding) for _, a in clause.heads]
            if len(atoms) == 1:
                self._cause(atoms[0], time, mask, chances[0])
            else:
                self._choose([((a, time), p) for a, p in zip(atoms, chances, strict=True)], mask)

    def _groundings(self, clause: Any, time: int | None) -> Iterator[tuple[Binding, Any]]:
        """Every grounding of a clause with the rows in which its body holds. Rows that later
        splits add are copies: `_extend` carries a mask over to them."""
        found: dict[Any, tuple[Binding, np.ndarray]] = {}
        everything = np.ones(len(self.weight), bool)
        self.origin = np.arange(len(self.weight))
        for binding, mask in self._solve(self._anonymous(clause.body), {}, everything, time):
            key = tuple(sorted(binding.items(), key=lambda kv: kv[0]))
            if key in found:
                mask = mask | found[key][1]
            found[key] = (binding, mask)
        yield from found.values()

    def _extend(self, mask: np.ndarray) -> np.ndarray:
        return mask[self.origin]

    def _anonymous(self, goals: s.Body) -> s.Body:
        """Each `_` outside of negations is a variable of its own."""
        out = []
        for goal in goals:
            if isinstance(goal, s.Atom):
                args = tuple(f"_{next(self.fresh)}" if a == "_" else a for a in goal.args)
                goal = s.Atom(goal.name, args, goal.when)
            elif isinstance(goal, s.Either):
                goal = s.Either(tuple(self._anonymous(o) for o in goal.options))
            out.append(goal)
        return tuple(out)

    def _chance(self, clause: s.Clause, index: int, binding: Binding) -> float:
        p = clause.heads[index][0]
        if p is None:
            return 1.0
        if isinstance(p, tuple) and p[0] == "t":
            number = self.numbers[id(clause)][index]
            everywhere = self.parameters.get(number, p[1])
            here = tuple(binding[v] for v in p[2:])
            return self.parameters.get((number, *here), everywhere) if here else everywhere
        if isinstance(p, s.Net):
            return 1 / (1 + math.exp(-self._outputs(p, binding)[0]))
        chance = float(value_of(p, binding, None))
        if not 0 <= chance <= 1:
            raise Unsupported("a probability that is none")
        return chance

    def _outputs(self, net: s.Net, binding: Binding) -> list[float]:
        x = value_of(net.arg, binding, None)
        if net.tensor:
            x = self.case.data[net.tensor.removesuffix("@t")][self.sequence]
            x = x[self.now] if net.tensor.endswith("@t") else x
        return net.raw(x, self.parameters.get(net.name, 0.0))

    def _masses(self, net: s.Net, family: str, binding: Binding) -> Any:
        raw = self._outputs(net, binding)
        if family == "bernoulli":
            return 1 / (1 + math.exp(-raw[0]))
        total = sum(map(math.exp, raw))
        return [math.exp(r) / total for r in raw]

    def _ground(self, atom: s.Atom, binding: Binding) -> s.Atom:
        args = tuple(value_of(a, binding, None) for a in atom.args)
        return s.Atom(atom.name, args)

    def _column(self, atom: s.Atom, time: Any) -> np.ndarray:
        table = self.columns.setdefault((atom.name, time), {})
        if atom.args not in table:
            table[atom.args] = np.zeros(len(self.weight), bool)
        return table[atom.args]

    def _cause(self, atom: s.Atom, time: Any, mask: np.ndarray, p: float) -> None:
        column = self._column(atom, time)
        open_ = mask & ~column
        if p >= 1:
            self.columns[atom.name, time][atom.args] = column | mask
        elif p > 0 and open_.any():
            self._choose([((atom, time), p)], open_)

    def _choose(self, options: list[tuple[Any, float]], mask: np.ndarray) -> None:
        """In these rows one of the options comes true, or none with what is left."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return
        for (atom, time), _ in options:
            self._column(atom, time)
        total = sum(p for _, p in options)
        rest = max(0.0, 1 - total)
        live = [(o, p) for o, p in options if p > 0]
        before = self.weight[rows]
        copies = [rows for _ in live]
        if rest < 1e-12:
            copies = copies[1:]
        index = np.concatenate([np.arange(len(self.weight)), *copies])
        if len(index) > MAX_ROWS:
            raise TooManyWorlds(len(index))
        targets = [
            len(self.weight) + i * len(rows) + np.arange(len(rows)) for i in range(len(copies))
        ]
        if rest < 1e-12:
            targets = [rows, *targets]
        self.weight = self.weight[index]
        self.origin = self.origin[index]
        for table in self.columns.values():
            for args in table:
                table[args] = table[args][index]
        if rest >= 1e-12:
            self.weight[rows] = before * rest
        for ((atom, time), p), target in zip(live, targets, strict=True):
            self.weight[target] = before * p
            self.columns[atom.name, time][atom.args][target] = True

    def _draw(self, clause: s.Draw, time: int | None) -> None:
        for binding, mask in self._groundings(clause, time):
            mask = self._extend(mask)
            keys = tuple(value_of(a, binding, None) for a in clause.atom.args[:-1])
            params = tuple(
                [value_of(x, binding, None) for x in p] if isinstance(p, list)
                else self._masses(p, clause.family, binding) if isinstance(p, s.Net)
                else value_of(p, binding, None)
                for p in clause.params
            )  # fmt: skip
            self._check_alone(clause.atom.name, keys, time, mask)
            if clause.family in FAMILIES:
                self._draw_real(clause, keys, params, time, mask)
                continue
            if clause.family in ("poisson", "geometric"):
                options = self._countable(clause, params)
            else:
                options = outcomes(clause.family, params)
            chosen = [((s.Atom(clause.atom.name, (*keys, v)), time), p) for v, p in options]
            self._choose(chosen, mask)

    def _check_alone(self, name: str, keys: Any, time: Any, mask: np.ndarray) -> None:
        for args, column in self.columns.get((name, time), {}).items():
            if args[:-1] == keys and (column & mask & (self.weight > 0)).any():
                raise Conflict(name)

    def _countable(self, clause: s.Draw, params: Any) -> list[tuple[Any, float]]:
        """Numbers up to the largest that matters; the others are one."""
        top = int(max([c for c in self.cuts.get(clause.atom.name, ())], default=0)) + 2
        known = distribution(clause.family, params)
        return [*((k, float(known.pmf(k))) for k in range(top)), (top, float(known.sf(top - 1)))]

    def _draw_real(
        self, clause: s.Draw, keys: Any, params: Any, time: Any, mask: np.ndarray
    ) -> None:
        name = clause.atom.name
        given = self._given(name, keys, time)
        mean = params[0]
        if isinstance(mean, Interval):
            if given is None:
                return  # Nothing else reads it, by construction.
            density = density_given_interval(mean, params[1], given)
        elif given is not None:
            density = float(distribution(clause.family, params).pdf(given))
        if given is not None:
            self.weight = np.where(mask, self.weight * density, self.weight)
            atom = s.Atom(name, (*keys, float(given)))
            column = self._column(atom, time)
            self.columns[name, time][atom.args] = column | mask
            return
        known = distribution(clause.family, params)
        edges = [-math.inf, *sorted(self.cuts.get(name, ())), math.inf]
        normal = params if clause.family == "normal" else (math.nan, math.nan)
        options = []
        for low, high in itertools.pairwise(edges):
            p = float(known.cdf(high) - known.cdf(low))
            if p > 1e-15:
                atom = s.Atom(name, (*keys, Interval(low, high, *normal)))
                options.append(((atom, time), p))
        scale = sum(p for _, p in options)
        self._choose([(o, p / scale) for o, p in options], mask)

    def _fixpoint(self, clauses: list[Any], time: int | None) -> None:
        """Positive recursion: first all choices, then rules until nothing changes."""
        names = {a.name for c in clauses for a in s.heads(c)}
        if any(isinstance(c, s.Draw) or len(c.heads) > 1 for c in clauses):
            raise Unsupported("recursion through a draw")
        coins: dict[Any, s.Atom] = {}
        for _ in range(100):
            before = {n: {k: v.copy() for k, v in self.columns[n, time].items()} for n in names}
            rows = len(self.weight)
            for number, clause in enumerate(clauses):
                for binding, mask in list(self._groundings(clause, time)):
                    mask = self._extend(mask)
                    p = self._chance(clause, 0, binding)
                    atom = self._ground(clause.heads[0][1], binding)
                    if p < 1:
                        shown = tuple(sorted((k, v) for k, v in binding.items() if k[0] != "_"))
                        coin = coins.setdefault(
                            (number, shown, atom), s.Atom(f"coin {number}", (shown, atom))
                        )
                        if coin.args not in self.columns.setdefault((coin.name, time), {}):
                            everywhere = np.ones(len(self.weight), bool)
                            self._choose([((coin, time), p)], everywhere)
                            mask = self._extend(mask) if len(mask) < len(self.weight) else mask
                        mask = mask & self._column(coin, time)
                    column = self._column(atom, time)
                    self.columns[atom.name, time][atom.args] = column | mask
            after = {n: self.columns[n, time] for n in names}
            if rows == len(self.weight) and _same(before, after):
                break
        else:
            raise Unsupported("no fixpoint")
        for coin in coins.values():
            self.columns.pop((coin.name, time), None)

    # ------------------------------------------------------------ bodies

    def _solve(
        self, goals: s.Body, binding: Binding, mask: np.ndarray, time: int | None
    ) -> Iterator[tuple[Binding, np.ndarray]]:
        """The ways to satisfy goals from left to right, each with the rows where it holds."""
        if not mask.any():
            return
        if not goals:
            yield binding, mask
            return
        goal, rest = goals[0], goals[1:]
        match goal:
            case s.Atom():
                when = self._resolve(goal, time)
                if when is not None and when < 0:
                    return
                for args, column in list(self.columns.get((goal.name, when), {}).items()):
                    found = unify(goal.args, args, binding)
                    if found is not None:
                        yield from self._solve(rest, found, mask & column, time)
            case s.Not(inner):
                holds = self._any(inner, binding, mask, time)
                yield from self._solve(rest, binding, mask & ~holds, time)
            case s.Forall(condition, inner):
                broken = self._any((*condition, s.Not(inner)), binding, mask, time)
                yield from self._solve(rest, binding, mask & ~broken, time)
            case s.Either(options):
                for option in options:
                    if deepest(option) <= (time or 0):
                        yield from self._solve((*option, *rest), binding, mask, time)
            case s.Between(low, high, variable):
                for number in range(low, high + 1):
                    found = unify((variable,), (number,), binding)
                    if found is not None:
                        yield from self._solve(rest, found, mask, time)
            case s.Own():
                name = f"Own{next(self.fresh)}"
                value = s.Atom(goal.atom.name, (*goal.atom.args, name), goal.atom.when)
                yield from self._solve(
                    (value, s.Compare(goal.op, name, goal.right), *rest), binding, mask, time
                )
            case s.Listing():
                for found in listed(goal, binding):
                    yield from self._solve(rest, found, mask, time)
            case s.Compare():
                found = compare(goal, binding, time)
                if found is not None:
                    yield from self._solve(rest, found, mask, time)
            case s.Aggregate():
                for value, part in self._collect(goal, binding, mask, time):
                    found = unify((goal.result,), (value,), binding)
                    if found is not None:
                        yield from self._solve(rest, found, mask & part, time)

    def _any(self, goals: s.Body, binding: Binding, mask: np.ndarray, time: Any) -> np.ndarray:
        out = np.zeros(len(mask), bool)
        for _, part in self._solve(goals, binding, mask, time):
            out |= part
        return out

    def _collect(
        self, goal: s.Aggregate, binding: Binding, mask: np.ndarray, time: Any
    ) -> Iterator[tuple[Any, np.ndarray]]:
        items = []
        for found, part in self._solve(self._anonymous(goal.goals), binding, mask, time):
            value = 0
            if goal.kind not in ("count", "length"):
                value = value_of(goal.template, found, time)
            items.append((value, part))
        shape = len(mask)
        if goal.kind == "member":
            for value in dict.fromkeys(v for v, _ in items):
                yield value, np.logical_or.reduce([part for v, part in items if v == value])
            return
        count = np.zeros(shape, int)
        if goal.kind.startswith("nth1 "):
            # The item at a place is another one from world to world.
            for value, part in items:
                count = count + part
                here = part & (count == int(goal.kind[5:]))
                if here.any():
                    yield value, here
            return
        count = sum((part.astype(int) for _, part in items), count)
        total = sum((np.where(part, v, 0) for v, part in items), np.zeros(shape, int))
        there = mask & (count > 0)
        kind = goal.kind.removesuffix("_list")
        match kind:
            case "count" | "length":
                result, there = count, mask
            case "sum":
                result, there = total, mask
            case "avg":
                result = total / np.maximum(count, 1)
            case "min" | "max":
                far = math.inf if kind == "min" else -math.inf
                reduce = np.minimum if kind == "min" else np.maximum
                result = np.full(shape, far)
                for v, part in items:
                    result = reduce(result, np.where(part, v, far))
            case _:
                raise Unsupported(goal.kind)
        for value in np.unique(result[there]):
            exact = float(value) if goal.kind == "avg" else int(value)
            yield exact, there & (result == value)

    # ------------------------------------------------------------ evidence

    def _active(self, when: Any, time: Any) -> bool:
        if when is None or time is None:
            return when is None and time is None
        if isinstance(when, tuple):
            return bool(when[0] <= time <= (self.last if when[1] == "T" else when[1]))
        return when == "t" or when == time or (when == "T" and time == self.last)

    def _given(self, name: str, keys: Any, time: Any) -> Any:
        """The value observed of a variable, if any."""
        for atom, value in self._seen(name, time):
            if atom.args == keys and not isinstance(value, bool):
                return value
        return None

    def _seen(self, name: str, time: Any) -> Iterator[tuple[s.Atom, Any]]:
        """Ground atoms of a predicate that are observed now, with truth or value."""
        for observe in self.observed:
            atom = observe.atom
            if atom.name != name or not self._active(atom.when, time):
                continue
            if observe.value is not None:
                yield s.Atom(name, atom.args), observe.value
                continue
            for keys, values in self.case.data[name].items():
                if unify(atom.args, keys, {}) is None:
                    continue
                value = values[self.sequence]
                value = value if time is None else value[time]
                if value is not None:
                    yield s.Atom(name, keys), value

    def _evidence(self, name: str, time: Any) -> None:
        for atom, value in self._seen(name, time):
            table = self.columns.get((name, time), {})
            nothing = np.zeros(len(self.weight), bool)
            if isinstance(value, bool):
                fits = table.get(atom.args, nothing) == value
            elif isinstance(value, float):
                fits = table.get((*atom.args, value), nothing)
            else:
                fits = table.get((*atom.args, value), nothing)
            self.weight = np.where(fits, self.weight, 0.0)

    # ------------------------------------------------------------ forgetting

    def _forget(
        self, time: int | None, later: list[str] | None = None, active: list[Any] | None = None
    ) -> None:
        """Drop the columns that nothing reads after this, then merge equal rows.

        `later`: predicates of this step that are still to come."""
        needed = self._needed(time, later, active)
        for key in list(self.columns):
            keep = needed(key)
            if keep is True:
                continue
            if not keep:
                del self.columns[key]
        alive = self.weight > 0
        names = [(k, a) for k, table in self.columns.items() for a in table]
        if not alive.any():
            return
        self.weight = self.weight[alive]
        matrix = np.array([self.columns[k][a][alive] for k, a in names], bool)
        if not len(names):
            self.weight = np.array([self.weight.sum()])
            return
        packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
        view = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, inverse = np.unique(view, return_index=True, return_inverse=True)
        self.weight = np.bincount(inverse.ravel(), self.weight, len(first))
        for row, (key, args) in zip(matrix, names, strict=True):
            self.columns[key][args] = row[first]
        for table in self.columns.values():
            for args in [a for a, c in table.items() if not c.any()]:
                del table[args]

    def _needed(self, time: Any, later: list[str] | None, active: list[Any] | None) -> Any:
        lags: dict[str, int] = {}
        starts: set[str] = set()
        for clause in self.clauses:
            for atom in s.atoms(clause.body):
                if atom.name not in self.timed:
                    continue
                back = s.lag(atom.when)
                if back is not None:
                    lags[atom.name] = max(lags.get(atom.name, 0), back)
                elif isinstance(atom.when, int):
                    starts.add(atom.name)
        asked = {q.atom.name for q in self.queries}
        now = set()
        if later is not None:
            now = {a.name for c, _ in active or () for a in s.atoms(c.body)
                   if any(h.name in later for h in s.heads(c))}  # fmt: skip
            now |= {*later, *asked}

        def keep(key: Key) -> bool:
            name, when = key
            if when is None:
                return True
            for atom, at_step in self.kept:
                if atom.name == name and at_step == when:
                    return True
            for query in self.queries:
                if query.atom.name == name and query.atom.when == when:
                    return True
            if name in starts and when == 0:
                return True
            if later is not None:
                if name in now and (when == time or when >= time - lags.get(name, 0)):
                    return True
                # The next step still reads it.
                return bool(when > time - lags.get(name, 0))
            return bool(when > time - lags.get(name, 0))

        return keep

    # ------------------------------------------------------------ answers

    @property
    def evidence(self) -> float:
        return float(self.weight.sum())

    def probability(self, name: str, args: Any, time: Any) -> float:
        column = self.columns.get((name, time), {}).get(args)
        return 0.0 if column is None else float(self.weight[column].sum())

    def truths(self, query: s.Query, time: Any) -> dict[str, np.ndarray]:
        """The rows in which each answer holds, by the names that the library gives to answers."""
        atom = query.atom
        out: dict[str, np.ndarray] = {}
        pattern = self._anonymous((atom,))[0].args
        everything = np.ones(len(self.weight), bool)
        for args, column in self.columns.get((atom.name, time), {}).items():
            binding = unify(pattern, args, {})
            if binding is None:
                continue
            if query.body and not any(
                True for _ in self._solve(query.body, binding, everything, 0)
            ):
                continue
            out[answer_name(atom, args)] = column
        if not any(s.is_variable(a) for a in atom.args):
            out.setdefault(answer_name(atom, atom.args), np.zeros(len(self.weight), bool))
        return out

    def answers(self, query: s.Query, time: Any) -> dict[str, float]:
        """P(answer, evidence so far)."""
        return {n: float(self.weight[c].sum()) for n, c in self.truths(query, time).items()}


def plain_clauses(case: s.Case) -> list[Any]:
    """Clauses and draws, those that stand for others written out; guides mean nothing."""
    out: list[Any] = []
    for x in case.statements:
        if isinstance(x, s.Best | s.Contest):
            out.append(x.clause)
        elif isinstance(x, s.Clause) or (isinstance(x, s.Draw) and not x.guide):
            out.append(x)
    return out


def answer_name(atom: s.Atom, args: tuple[Any, ...]) -> str:
    shown = ",".join(str(a) for a in args)
    return f"{atom.name}({shown}){s.at(atom.when)}" if args else f"{atom.name}{s.at(atom.when)}"


def _same(before: Any, after: Any) -> bool:
    return all(
        before[n].keys() == after[n].keys()
        and all(np.array_equal(before[n][k], after[n][k]) for k in before[n])
        for n in before
    )


def _self_reading(name: str, active: list[Any], table: Table, time: Any) -> bool:
    return any(
        a.name == name and table._resolve(a, time) == time
        for c, _ in active
        if any(h.name == name for h in s.heads(c))
        for a in s.atoms(c.body)
    )


def components(names: set[str], reads: Any) -> list[list[str]]:
    """Groups of predicates that read each other, lowest first (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(reads(name)):
            if other not in names:
                continue
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            out.append(group)

    for name in sorted(names):
        if name not in index:
            visit(name)
    return out
