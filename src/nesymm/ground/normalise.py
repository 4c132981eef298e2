"""From the clauses of a checked program to those of resolution.

Variables are numbered, goals inside goals (negation, findall, the bodies of random clauses)
become predicates of their own, and a clause that looks back is guarded by the time it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nesymm.errors import Span
from nesymm.ground.clauses import Clauses, Origin, Resolvent, Root
from nesymm.ground.domains import declared_domains, input_types
from nesymm.ground.literals import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    CollectLit,
    DisjLit,
    DrawLit,
    GuardLit,
    Lit,
    NegLit,
)
from nesymm.ground.scopes import (
    binding_names,
    head_names,
    literal_names,
    names,
    ordered_names,
    variable_names,
)
from nesymm.ir.algebra import const, eq, le
from nesymm.ir.expr import TIME
from nesymm.ir.symbols import parts
from nesymm.ir.terms import V, compile_term
from nesymm.language.builtins import AGGREGATES
from nesymm.language.program import (
    At,
    Atom,
    Body,
    Builtin,
    Call,
    CheckedProgram,
    Choice,
    Clause,
    Collect,
    Disjunction,
    Draw,
    During,
    Guide,
    Kind,
    Negation,
    Now,
    Observation,
    Pred,
    Query,
    Rule,
    Time,
)
from nesymm.language.terms import Term, Var
from nesymm.language.values import heads, value_positions, valued_variables

# The collections that have each solution once. The others have one item per proof.
DISTINCT = frozenset({"all", *AGGREGATES})


def normalise(program: CheckedProgram) -> Clauses:
    values = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
    domains = declared_domains(program)
    out = Clauses(program, values, domains, input_types(program, domains))
    compiler = _Compiler(program, out)
    for number, clause in enumerate(program.clauses):
        compiler.clause(number, clause)
    compiler.number = len(program.clauses)
    statements: list[Observation | Query] = [*program.observations, *program.queries]
    for statement in statements:
        out.roots[id(statement)] = compiler.root(statement.atom, statement.body, statement.span)
    for guide in program.guides:
        out.roots[id(guide)] = compiler.guide(guide)
    return out


class _Compiler:
    def __init__(self, program: CheckedProgram, out: Clauses):
        self.program = program
        self.out = out
        self.auxiliaries = 0
        self.guards: tuple[Lit, ...] = ()
        self.number = 0
        self.sites = 0
        self.observed: frozenset[Pred] = frozenset()

    # ------------------------------------------------------------ clauses

    def clause(self, number: int, clause: Clause) -> None:
        self.number, self.sites = number, 0
        match clause:
            case Rule(head, body):
                self._rule(head, body, clause.span)
            case Choice():
                self._choice(clause)
            case Draw():
                self._draw(clause)

    def _origin(self, option: int | None, explained: bool = True) -> Origin | None:
        """Facts and rules without time are background, and nothing is explained without time."""
        return Origin(self.number, option) if explained and self.program.temporal else None

    def _rule(self, head: Atom, body: Body, span: Span | None) -> None:
        frame = _Frame(head.time, span or head.span)
        args = frame.terms(head.args)
        lits = self._guarded(head.time, body, frame, names(head.args))
        origin = self._origin(0, explained=frame.timed)
        self._add(head.pred, args, lits, frame, evaluate=True, origin=origin)

    def _choice(self, clause: Choice) -> None:
        time = clause.options[0][1].time
        every = variable_names(clause)
        aux = self._auxiliary("choice", len(every))
        valued = valued_variables(clause.body, self.out.values)
        self.out.values[aux] = frozenset(i for i, n in enumerate(every) if n in valued)
        frame = _Frame(time, clause.span, every)
        lits = self._guarded(time, clause.body, frame, set(every))
        variables = tuple(V(i) for i in range(len(every)))
        sure = set(binding_names(clause.body)) | head_names(clause)
        optional = frozenset(i for i, n in enumerate(every) if n not in sure)
        self._add(aux, variables, lits, frame, optional=optional)
        for option, (_, head) in enumerate(clause.options):
            frame = _Frame(time, head.span, every)
            args = frame.terms(head.args)
            probabilities = frame.terms(p for p, _ in clause.options)
            lit = ChoiceLit(
                clause,
                self.number,
                option,
                aux,
                variables,
                every,
                probabilities,
                clause.span,
                self._site(),
            )
            origin = self._origin(option)
            self._add(head.pred, args, (lit,), frame, evaluate=True, origin=origin)
            self.out.random.add(head.pred)

    def _draw(self, clause: Draw) -> None:
        head = clause.head
        frame = _Frame(head.time, clause.span)
        places = [i for i in range(len(head.args)) if i not in clause.drawn]
        terms = (*frame.terms(head.args[i] for i in places), *frame.terms(clause.params))
        aux = self._auxiliary("draw", len(terms))
        valued = self.out.values.get(head.pred, frozenset())
        self.out.values[aux] = frozenset(
            j for j in range(len(terms)) if j >= len(places) or places[j] in valued
        )
        wanted = names((head.args, clause.params))
        lits = self._guarded(head.time, clause.body, frame, wanted)
        self._add(aux, terms, lits, frame, origin=self._origin(None))
        frame = _Frame(head.time, head.span)
        args = frame.terms(head.args)
        lit = DrawLit(
            clause,
            self.number,
            aux,
            tuple(args[i] for i in places),
            tuple(V(frame.fresh()) for _ in clause.params),
            tuple(args[i] for i in clause.drawn),
            clause.span,
            self._site(),
        )
        self._add(head.pred, args, (lit,), frame, origin=self._origin(0))
        self.out.drawn.add(head.pred)
        self.out.random.add(head.pred)

    def _add(
        self,
        pred: Pred,
        head: tuple,
        body: tuple[Lit, ...],
        frame: _Frame,
        evaluate: bool = False,
        optional: frozenset[int] = frozenset(),
        origin: Origin | None = None,
    ) -> None:
        rule = Resolvent(
            pred,
            head,
            body,
            frame.size,
            frame.names(),
            frame.span,
            evaluate and frame.timed and any(parts(a) for a in head),
            frame.timed,
            optional,
            origin,
        )
        self.out.resolvents.setdefault(pred, []).append(rule)

    def root(self, atom: Atom, body: Body, span: Span | None) -> Root:
        """`$root(args) :- body, atom.` The time of the atom is the caller's business."""
        self.number, self.sites, self.guards = self.number + 1, 0, ()
        frame = _Frame(atom.time, span)
        args = frame.terms(atom.args)
        lits = self._body(body, frame, names(atom.args))
        call = CallLit(atom.pred, args, 0, span, self._site())
        aux = self._auxiliary("root", len(args))
        self._add(aux, args, (*lits, call), frame)
        if not body:
            return Root(aux, atom, frame.size, args)
        alone = self._auxiliary("root", len(args))
        self._add(alone, args, (call,), frame)
        shared = names(atom.args) & set(binding_names(body, every=True))
        bound = tuple(V(frame.slots[name]) for name in sorted(shared))
        select = self._auxiliary("root", len(bound))
        self._add(select, bound, lits, frame)
        return Root(aux, atom, frame.size, args, alone, (select, bound))

    def guide(self, guide: Guide) -> Root:
        """`$guide(keys, params) :- body.`"""
        self.number, self.sites = self.number + 1, 0
        self.observed = frozenset(o.atom.pred for o in self.program.observations)
        frame = _Frame(guide.target.time, guide.span)
        written = (*guide.target.args, *guide.params)
        terms = frame.terms(written)
        lits = self._guarded(guide.target.time, guide.body, frame, names(written))
        aux = self._auxiliary("guide", len(terms))
        self.out.values[aux] = frozenset(range(len(guide.target.args), len(terms)))
        self._add(aux, terms, lits, frame)
        self.observed = frozenset()
        return Root(aux, guide.target, frame.size, terms)

    def _auxiliary(self, kind: Kind, arity: int) -> Pred:
        self.auxiliaries += 1
        return Pred(f"${kind}{self.auxiliaries}", arity, kind)

    def _site(self) -> str:
        self.sites += 1
        return f"{self.number}.{self.sites}"

    # ------------------------------------------------------------ bodies

    def _guarded(
        self, time: Time | None, body: Body, frame: _Frame, outside: set[str]
    ) -> tuple[Lit, ...]:
        """The body of a clause, behind what says when it can apply."""
        self.guards = _guards(time, body)
        return (*self.guards, *self._body(body, frame, outside))

    def _body(self, body: Body, frame: _Frame, outside: set[str]) -> tuple[Lit, ...]:
        """Compile a body; `outside` are the variables that matter beyond it."""
        out: list[Lit] = []
        for i, literal in enumerate(body):
            others = outside | {
                n for j, other in enumerate(body) if j != i for n in literal_names(other)
            }
            out.append(self._literal(literal, frame, others))
        return tuple(out)

    def _literal(self, literal: Any, frame: _Frame, others: set[str]) -> Lit:
        match literal:
            case Call(atom):
                lag = _lag(atom.time)
                if lag:
                    self.out.fluents.add(atom.pred)
                args = frame.terms(atom.args)
                pred = atom.pred
                if not lag and pred in self.observed:
                    pred = replace(pred, kind="observed")
                return CallLit(pred, args, lag, literal.span, self._site())
            case Builtin(name, args):
                filled = frame.terms(args)
                last = args[-1] if args else None
                hint = last.name if isinstance(last, Var) and last.name[0] != "_" else "I"
                return BuiltinLit(name, filled, literal.span, self._site(), frame.timed, hint)
            case Disjunction(bodies):
                # Each alternative looks back on its own, and applies when it can.
                alternatives = ((*_guards(None, b), *self._body(b, frame, others)) for b in bodies)
                return DisjLit(tuple(alternatives))
            case Negation(body):
                shared = [n for n in ordered_names(body) if n in others]
                aux = self._inner("not", body, shared, (), frame, literal.span)
                return NegLit(aux, frame.variables(shared), literal.span, self._site())
            case Collect(kind, template, body, result, groups):
                inner = set(ordered_names(body)) | names((template,))
                shared = sorted(n for n in inner if n in others and n not in groups)
                # All variables of the goal are arguments: solutions that differ in any of
                # them are collected one by one.
                visible = {*shared, *groups, *names((template,))}
                local = [n for n in binding_names(body, every=False) if n not in visible]
                extra = (*(Var(g) for g in groups), template, *map(Var, local))
                # What a goal leaves open of these need not be known: `findall(x, p(_), L)`.
                first = len(shared) + len(groups) + 1
                optional = frozenset(range(first, first + len(local)))
                # ... `all` and the aggregates of heads once, findall as often as proved.
                once: Kind = "each" if kind in DISTINCT else "all"
                aux = self._inner(once, body, shared, extra, frame, literal.span, optional)
                return CollectLit(
                    kind,
                    aux,
                    frame.variables(shared),
                    frame.variables(groups),
                    frame.term(result),
                    literal.span,
                    self._site(),
                    frame.timed,
                )
        raise TypeError(literal)

    def _inner(
        self,
        kind: Kind,
        body: Body,
        shared: list[str],
        extra: tuple[Term, ...],
        around: _Frame,
        span: Span | None,
        optional: frozenset[int] = frozenset(),
    ) -> Pred:
        """A predicate of its own for a goal inside a goal."""
        aux = self._auxiliary(kind, len(shared) + len(extra))
        frame = _Frame(around.time, span)
        head = (*frame.variables(shared), *frame.terms(extra))
        lits = self._body(body, frame, set(shared) | names(extra))
        # When the clause around it cannot apply, neither need the goal inside it.
        self._add(aux, head, (*self.guards, *lits), frame, optional=optional)
        return aux


class _Frame:
    """The variables of one clause, numbered as they are met; its time and its place."""

    def __init__(self, time: Time | None, span: Span | None, first: tuple[str, ...] = ()) -> None:
        self.time, self.span = time, span
        self.slots = {name: i for i, name in enumerate(first)}
        self.size = len(first)

    @property
    def timed(self) -> bool:
        return self.time is not None

    def fresh(self) -> int:
        self.size += 1
        return self.size - 1

    def term(self, term: Term) -> Any:
        return compile_term(term, self.slots, self.fresh)

    def terms(self, terms: Iterable[Term]) -> tuple:
        return tuple(self.term(term) for term in terms)

    def variables(self, names: Iterable[str]) -> tuple:
        return self.terms(map(Var, names))

    def names(self) -> tuple[str, ...]:
        out = ["_"] * self.size
        for name, i in self.slots.items():
            out[i] = name
        return tuple(out)


def _lag(time: Time | None) -> int:
    match time:
        case None | Now(0):
            return 0
        case Now(lag):
            return lag
        case At(0):
            return -1
    raise ValueError(time)


def _guards(time: Time | None, body: Body) -> tuple[Lit, ...]:
    """When a clause can apply at all: at its step, and not before what it looks back to."""
    guards: list[Lit] = []
    match time:
        case At(index):
            guards.append(GuardLit(eq(TIME, const(index))))
        case During(first, last):
            guards.append(GuardLit(le(const(first), TIME)))
            if last is not None:
                guards.append(GuardLit(le(TIME, const(last))))
    lag = max((_deepest(literal) for literal in body), default=0)
    if lag:
        guards.append(GuardLit(le(const(lag), TIME)))
    return tuple(guards)


def can_start(program: CheckedProgram) -> set[Pred]:
    """Predicates that may hold some day: a clause of theirs looks back at such ones only."""
    found = set(program.inputs)
    while True:
        more = {
            head.pred
            for clause in program.clauses
            if _may_hold(clause.body, found)
            for head in heads(clause)
        } - found
        if not more:
            return found
        found |= more


def _may_hold(body: Body, found: set[Pred]) -> bool:
    for literal in body:
        match literal:
            case Call(atom) if _lag(atom.time) > 0 and atom.pred not in found:
                return False
            case Disjunction(bodies) if not any(_may_hold(b, found) for b in bodies):
                return False
    return True


def _deepest(literal: Any) -> int:
    match literal:
        case Call(atom):
            return max(0, _lag(atom.time))
        case Negation(body) | Collect(body=body):
            return max((_deepest(x) for x in body), default=0)
        case Disjunction(bodies):
            # Each alternative looks back on its own; the slots start absent.
            return min((max((_deepest(x) for x in b), default=0) for b in bodies), default=0)
    return 0
