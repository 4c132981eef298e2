"""The graphical model of a `StepProgram`, as a graph that `nesymm.draw` can draw.

There is one node per predicate: its random variables (of all its clauses), the state it
carries, its observation and its query are one. An edge means that some expression of the
target looks at the source. The compiler writes derived predicates out in full; where an
expression contains the whole definition of another node (what a slot will hold, what an
observation is about), the edge comes from that node, and not from what it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from nesymm.ir.arithmetic import refine
from nesymm.ir.axes import any_
from nesymm.ir.describe import axis_text
from nesymm.ir.expr import FALSE, TIME, Axis, Expr, fold
from nesymm.ir.graph import Edge, Graph, Kind, Node
from nesymm.ir.step import ObservationDecl, QueryDecl, RandomVariable, Slot, StepProgram, flat
from nesymm.ir.symbols import has_symbol
from nesymm.ir.terms import show as show_term
from nesymm.ir.types import Int, TensorAt
from nesymm.language.program import At

# With more atoms than this, those of one predicate are one node even where some are
# observed or asked for and others are not.
_MAX_ATOMS = 8

_LEAVES = frozenset(("rv", "slot", "input", "given"))


def graph_of(step: StepProgram, title: str) -> Graph:
    """The plate model: static nodes outside, temporal ones once per step."""
    members = _members(step)
    reader = _Reader(step, members)
    edges: list[Edge] = []
    for member in members.values():
        found = _dependencies(reader, member)
        edges += [use.edge(member.id) for use in found if use.source in members]
    used = {edge.source for edge in edges}
    kept = [m for m in members.values() if m.id in used or not m.inputs or m.roots]
    temporal = {m.id for m in kept if m.temporal}
    return Graph(
        tuple(member.node() for member in kept),
        tuple(_fitting(edge, temporal) for edge in edges),
        title,
    )


def _fitting(edge: Edge, temporal: set[str]) -> Edge:
    """A static node that looks at one step of a temporal one has a plain edge to that step."""
    if edge.across and not {edge.source, edge.target} <= temporal:
        last = 0 if edge.latched else edge.last
        return Edge(edge.source, edge.target, label=edge.label, last=last)
    return edge


# ---------------------------------------------------------------- what the nodes are


@dataclass
class _Member:
    """What is drawn as one node: everything about a predicate (or one atom of it)."""

    id: str
    label: str
    temporal: bool = False
    inputs: int = 0
    slots: list[Slot] = field(default_factory=list)
    variables: list[RandomVariable] = field(default_factory=list)
    observations: list[ObservationDecl] = field(default_factory=list)
    queries: list[QueryDecl] = field(default_factory=list)

    @property
    def roots(self) -> list[ObservationDecl | QueryDecl]:
        return [*self.observations, *self.queries]

    def node(self) -> Node:
        kind: Kind = "derived"
        if self.inputs and not self.variables:
            kind = "input"
        elif self.observations:
            kind = "observed"
        elif self.queries:
            kind = "query"
        elif self.variables:
            kind = "variable"
        asked = bool(self.queries) and kind != "query"
        label = self.label + self._axes()
        first, last = self._steps()
        return Node(
            self.id, label, kind=kind, temporal=self.temporal, asked=asked, first=first, last=last
        )

    def _steps(self) -> tuple[int, int | None]:
        """The steps at which it can be there."""
        conditions = [v.guard for v in self.variables] + [s.present for s in self.slots]
        conditions += [root.holds for root in self.roots]
        spans = [_during(c) for c in conditions if c is not FALSE]
        spans = [span for span in spans if span[0] <= span[1]]
        if not self.temporal or self.inputs or not spans:
            return 0, None
        last = max(b for _, b in spans)
        return int(min(a for a, _ in spans)), None if last == inf else int(last)

    def _axes(self) -> str:
        """The axes that all parts run along."""
        parts: list[Slot | RandomVariable | ObservationDecl | QueryDecl]
        parts = [*self.variables, *self.slots, *self.roots]
        found = {tuple(axis_text(a) for a in part.axes) for part in parts}
        axes = found.pop() if len(found) == 1 else ()
        return f"({','.join(axes)})" if axes else ""


@dataclass(frozen=True)
class _Name:
    """The name of a variable, slot, observation or query, taken apart."""

    pred: str
    keys: str = ""
    lag: int = 1
    latched: bool = False


def _variable_name(variable: RandomVariable) -> _Name:
    heads = dict.fromkeys(head.partition("(")[0] for head in variable.label.split("; "))
    return _Name("; ".join(heads), _keys(variable.name))


def _slot_name(name: str) -> _Name:
    whole = re.fullmatch(r"(.*?)(?:\((.*)\))?(?:@(?:-(\d+)|(0)))?", name, re.DOTALL)
    assert whole is not None
    return _Name(whole[1], whole[2] or "", int(whole[3] or 1), whole[4] is not None)


def _observation_name(observation: ObservationDecl) -> _Name:
    return _Name(observation.name.partition("(")[0], _keys(observation.name))


def _query_name(query: QueryDecl) -> _Name:
    pred = query.name.removesuffix(str(query.when or "")).partition("(")[0]
    terms = query.template if isinstance(query.template, tuple) else ()
    return _Name(pred, ",".join(show_term(t) for t in terms if not has_symbol(t)))


def _keys(name: str) -> str:
    _, opening, rest = name.partition("(")
    return rest.removesuffix(")") if opening else ""


def _members(step: StepProgram) -> dict[str, _Member]:
    apart = _told_apart(step)
    members: dict[str, _Member] = {}

    def member(name: _Name, temporal: bool) -> _Member:
        label = f"{name.pred}({name.keys})" if name.pred in apart else name.pred
        found = members.setdefault(label, _Member(label, label))
        found.temporal |= temporal and step.temporal
        return found

    for given in step.inputs:
        member(_Name(given.name), given.timed).inputs += 1
    for variable in step.variables:
        member(_variable_name(variable), not variable.static).variables.append(variable)
    for slot in step.slots:
        if not slot.latch:
            name = _slot_name(slot.name)
            owner = member(name, True)
            # What lies further back is a copy of what the first slot held.
            if name.lag == 1 and not name.latched:
                owner.slots.append(slot)
    for observation in step.observations:
        owner = member(_observation_name(observation), observation.when is not None)
        owner.observations.append(observation)
    for query in step.queries:
        member(_query_name(query), query.when is not None).queries.append(query)
    return members


def _told_apart(step: StepProgram) -> set[str]:
    """Predicates some of whose atoms are observed or asked for, and others not."""
    atoms: dict[str, set[str]] = {}
    roles: dict[str, dict[str, set[str]]] = {}
    for name in (
        *map(_variable_name, step.variables),
        *(_slot_name(s.name) for s in step.slots if not s.latch),
    ):
        atoms.setdefault(name.pred, set()).add(name.keys)
    roots = [("observed", _observation_name(o)) for o in step.observations]
    roots += [("asked", _query_name(q)) for q in step.queries]
    for role, name in roots:
        roles.setdefault(name.pred, {}).setdefault(name.keys, set()).add(role)
    found = set()
    for pred, by_atom in roles.items():
        known = atoms.get(pred, set(by_atom))
        mixed = len({frozenset(by_atom.get(keys, ())) for keys in known}) > 1
        fits = set(by_atom) <= known and "" not in known and not any("*" in k for k in known)
        if mixed and fits and len(known) <= _MAX_ATOMS:
            found.add(pred)
    return found


# ---------------------------------------------------------------- what they depend on


@dataclass
class _Use:
    """That a node is looked at, at which distance in time, when, and through which networks."""

    source: str
    lag: int
    latched: bool
    first: float = inf
    last: float = -inf
    networks: dict[str, None] = field(default_factory=dict)

    def edge(self, target: str) -> Edge:
        first = 0 if self.first <= max(self.lag, self.latched) else int(self.first)
        last = None if self.last == inf else int(self.last)
        label = ", ".join(self.networks)
        return Edge(self.source, target, self.lag, label, first, last, self.latched)


_Interval = tuple[float, float]
_Nets = tuple[str, ...]
_ALWAYS: _Interval = (0, inf)


class _Reader:
    """Which node a slot, a variable or a definition belongs to."""

    def __init__(self, step: StepProgram, members: dict[str, _Member]):
        # The node of a slot, and how far back it looks.
        self.slots: dict[str, tuple[str, _Name]] = {}
        self.variables: dict[str, str] = {}
        self.shapes = _Shapes()
        # The definition of a node, as a whole or as parts of a conjunction.
        self.whole: dict[int, list[str]] = {}
        self.parts: list[tuple[frozenset[int], str]] = []
        for member in members.values():
            self.variables |= {v.name: member.id for v in member.variables}
            for slot in member.slots:
                anywhere = slot.present
                for axis in slot.axes:
                    anywhere = any_(axis, anywhere)
                for expr in (slot.present, anywhere, *slot.values):
                    self._define(expr, member.id)
        for slot in (s for s in step.slots if not s.latch):
            name = _slot_name(slot.name)
            label = f"{name.pred}({name.keys})"
            self.slots[slot.name] = (label if label in members else name.pred, name)
        for member in members.values():
            truths: list[ObservationDecl | QueryDecl]
            truths = [o for o in member.observations if not o.is_value]
            truths += [q for q in member.queries if not q.values and not isinstance(q.when, At)]
            for root in truths:
                if root.holds.op in ("and", "or", "any", "lfp"):
                    self._define(root.holds, member.id)

    def _define(self, expr: Expr, owner: str) -> None:
        if expr.op in _LEAVES or expr.op in ("const", "axis", "time") or _is_about_time(expr):
            return
        owners = self.whole.setdefault(self.shapes.of(expr), [])
        if owner not in owners:
            owners.append(owner)
        if expr.op == "and":
            self.parts.append((frozenset(map(self.shapes.of, expr.args)), owner))


def _dependencies(reader: _Reader, member: _Member) -> Iterable[_Use]:
    """What the expressions of a node look at."""
    walk = _Walk(reader, member.id)
    for expr, when in _expressions(member):
        walk.follow(expr, when)
    for owners, when in walk.unclear:
        if not any((owner, 0, False) in walk.uses for owner in owners):
            walk.add(owners[0], when, ())
    return (use for key, use in walk.uses.items() if key != (member.id, 0, False))


@dataclass
class _Walk:
    """Follows the expressions of one node to what they look at."""

    reader: _Reader
    own: str
    uses: dict[tuple[str, int, bool], _Use] = field(default_factory=dict)
    # Definitions that several nodes have.
    unclear: list[tuple[list[str], _Interval]] = field(default_factory=list)

    def add(
        self, source: str, when: _Interval, nets: _Nets, lag: int = 0, latched: bool = False
    ) -> None:
        use = self.uses.setdefault((source, lag, latched), _Use(source, lag, latched))
        use.first, use.last = min(use.first, when[0]), max(use.last, when[1])
        use.networks.update(dict.fromkeys(nets))

    def follow(self, root: Expr, when: _Interval) -> None:
        reader = self.reader
        seen: set[tuple[int, _Interval, _Nets]] = set()
        stack: list[tuple[Expr, _Interval, _Nets]] = [(root, when, ())]
        while stack:
            expr, when, nets = stack.pop()
            if (id(expr), when, nets) in seen or when[0] > when[1]:
                continue
            seen.add((id(expr), when, nets))
            if expr.op in _LEAVES:
                self._leaf(expr, when, nets)
                stack.extend((arg, when, nets) for arg in reversed(expr.args))
                continue
            owners = reader.whole.get(reader.shapes.of(expr), [])
            if self.own in owners:  # of nodes with one definition, the first stands for it
                owners = owners[: owners.index(self.own)]
            if len(owners) == 1:
                self.add(owners[0], when, nets)
            elif owners:
                self.unclear.append((owners, when))
            else:
                stack.extend(reversed([*self._below(expr, when, nets)]))

    def _below(
        self, expr: Expr, when: _Interval, nets: _Nets
    ) -> Iterator[tuple[Expr, _Interval, _Nets]]:
        """The operands of an expression, with the steps at which each matters."""
        match expr.op:
            case "and":
                when = _during(expr, when)
                ids = {self.reader.shapes.of(arg): arg for arg in expr.args}
                covered: set[int] = set()
                for parts, owner in self.reader.parts:
                    if owner != self.own and parts <= ids.keys() and not parts <= covered:
                        covered |= parts
                        self.add(owner, when, nets)
                yield from ((arg, when, nets) for i, arg in ids.items() if i not in covered)
            case "case":
                for condition, value in zip(expr.args[::2], expr.args[1::2], strict=True):
                    yield condition, when, nets
                    yield value, _during(condition, when), nets
                    if _is_about_time(condition) and _during(condition) == (0, 0):
                        when = max(when[0], 1), when[1]
            case "neural":
                inner = nets if expr.data[0] in nets else (*nets, expr.data[0])
                yield from ((arg, when, inner) for arg in expr.args)
            case "lfp":
                system, index = expr.data
                yield system.definitions[index], when, nets
            case _:
                yield from ((arg, when, nets) for arg in expr.args)

    def _leaf(self, expr: Expr, when: _Interval, nets: _Nets) -> None:
        if expr.op == "rv":
            self.add(self.reader.variables[expr.data], when, nets)
        elif expr.op == "given":
            self.add(expr.data, when, nets)
        elif expr.op == "input":
            name, which = expr.data
            at = which if isinstance(which, TensorAt) else TensorAt()
            self.add(name, when, nets, at.lag, at.first)
        elif expr.data[0] in self.reader.slots:
            owner, slot = self.reader.slots[expr.data[0]]
            self.add(owner, when, nets, 0 if slot.latched else slot.lag, slot.latched)


def _expressions(member: _Member) -> Iterator[tuple[Expr, _Interval]]:
    for variable in member.variables:
        yield variable.guard, _ALWAYS
        when = _during(variable.guard)
        yield from ((param, when) for param in flat(variable.params))
    for slot in member.slots:
        yield from ((e, _ALWAYS) for e in slot.expressions())
    for root in member.roots:
        yield from ((e, _ALWAYS) for e in root.expressions())


def _during(condition: Expr, when: _Interval = _ALWAYS) -> _Interval:
    """Those of the steps `when` at which a condition can hold."""
    steps = refine(TIME, condition)
    assert isinstance(steps, Int)
    return max(when[0], steps.lo), min(when[1], steps.hi)


def _is_about_time(condition: Expr) -> bool:
    literal = condition.args[0] if condition.op == "not" else condition
    return literal.op in ("eq", "le", "lt") and {a.op for a in literal.args} == {"time", "const"}


class _Shapes:
    """Numbers for expressions that are equal but for their axes and keys."""

    def __init__(self) -> None:
        self.numbers: dict[tuple, int] = {}
        self.known: dict[int, int] = {}
        self.alive: list[Expr] = []

    def of(self, root: Expr) -> int:
        return fold(root, self._number, self.known)

    def _number(self, expr: Expr, below: tuple[int, ...]) -> int:
        data = expr.data
        if isinstance(data, Axis):
            data = data.type
        elif expr.op == "lfp":
            data = (id(data[0]), data[1])
        key = (expr.op, type(data), data, *(() if expr.op in _LEAVES else below))
        self.alive.append(expr)
        return self.numbers.setdefault(key, len(self.numbers))
