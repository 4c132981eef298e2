"""Clauses made ready for resolution: variables are numbered, goals inside goals
(negation, findall, the bodies of random clauses) become predicates of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from nesymm.errors import Span
from nesymm.ground.unify import shift
from nesymm.ir.algebra import const, eq, le
from nesymm.ir.expr import TIME, Expr
from nesymm.ir.symbols import has_symbol, is_ground, key_of, parts
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
from nesymm.language.terms import Term, Var, subterms
from nesymm.language.values import heads, valued_variables

# The collections that have each solution once. The others have one item per proof.
DISTINCT = frozenset({"all", *AGGREGATES})


@dataclass(frozen=True, slots=True)
class CallLit:
    """`lag` 0: this step (or no time); k: k steps ago; -1: step 0."""

    pred: Pred
    args: tuple
    lag: int
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class BuiltinLit:
    """`hint` is the name of the last argument, if it is a variable."""

    name: str
    args: tuple
    span: Span | None
    site: str
    timed: bool
    hint: str = "I"


@dataclass(frozen=True, slots=True)
class NegLit:
    pred: Pred
    args: tuple
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class DisjLit:
    bodies: tuple[tuple[Lit, ...], ...]


@dataclass(frozen=True, slots=True)
class CollectLit:
    """Call `pred(outer…, groups…, template)` and gather the templates into `result`."""

    kind: str
    pred: Pred
    outer: tuple
    groups: tuple
    result: Any
    span: Span | None
    site: str
    timed: bool


@dataclass(frozen=True, slots=True)
class DrawLit:
    """Call the body predicate, then bind `drawn` to the random variable of clause `number`."""

    clause: Draw
    number: int
    pred: Pred
    keys: tuple
    params: tuple
    drawn: tuple
    span: Span | None
    site: str


@dataclass(frozen=True, slots=True)
class ChoiceLit:
    """Call the body predicate, then require option `option` of the choice `number`.

    `proved`: the derivation has been through the body already.
    """

    clause: Choice
    number: int
    option: int
    pred: Pred
    variables: tuple
    names: tuple[str, ...]
    probabilities: tuple
    span: Span | None
    site: str
    proved: bool = False


@dataclass(frozen=True, slots=True)
class GuardLit:
    condition: Expr


Lit = CallLit | BuiltinLit | NegLit | DisjLit | CollectLit | DrawLit | ChoiceLit | GuardLit


def shift_literal(lit: Lit, offset: int) -> Lit:
    """The same literal in a larger frame: its variables start at `offset`."""

    def move(terms: tuple) -> tuple:
        return tuple(shift(t, offset) for t in terms)

    match lit:
        case GuardLit():
            return lit
        case DisjLit(bodies):
            return DisjLit(tuple(tuple(shift_literal(x, offset) for x in b) for b in bodies))
        case CollectLit():
            return replace(
                lit,
                outer=move(lit.outer),
                groups=move(lit.groups),
                result=shift(lit.result, offset),
            )
        case DrawLit():
            return replace(lit, keys=move(lit.keys), params=move(lit.params), drawn=move(lit.drawn))
        case ChoiceLit():
            return replace(
                lit, variables=move(lit.variables), probabilities=move(lit.probabilities)
            )
        case CallLit() | BuiltinLit() | NegLit():
            return replace(lit, args=move(lit.args))


@dataclass(frozen=True, slots=True)
class Origin:
    """The clause that a resolvent was made from, and which of its heads.

    A distributional clause is two resolvents: its body, which has no head (None), and the draw.
    """

    clause: int
    option: int | None


@dataclass(frozen=True, slots=True)
class Resolvent:
    """One way to prove a predicate: head arguments, literals, frame size.

    Explanations tell those that have an `origin`.
    """

    pred: Pred
    head: tuple
    body: tuple[Lit, ...]
    size: int
    names: tuple[str, ...]
    span: Span | None
    evaluate_head: bool
    timed: bool
    optional: frozenset[int] = frozenset()
    origin: Origin | None = None


@dataclass
class Clauses:
    """All resolvents by predicate, with an index on constants in head arguments."""

    resolvents: dict[Pred, list[Resolvent]] = field(default_factory=dict)
    values: dict[Pred, frozenset[int]] = field(default_factory=dict)
    random: set[Pred] = field(default_factory=set)
    drawn: set[Pred] = field(default_factory=set)
    fluents: set[Pred] = field(default_factory=set)
    lagged: dict[tuple[Pred, int], Span | None] = field(default_factory=dict)
    _index: dict[Pred, list[dict[Any, list[int]] | None]] = field(default_factory=dict)
    _facts: dict[Pred, bool] = field(default_factory=dict)
    _recursive: dict[Pred, bool] = field(default_factory=dict)

    def matching(self, pred: Pred, args: Iterable[Any]) -> list[Resolvent]:
        """The resolvents whose heads may match; constants in the call narrow them down."""
        rules = self.resolvents.get(pred, [])
        if len(rules) <= 4:
            return rules
        if pred not in self._index:
            self._index[pred] = [_index(rules, i) for i in range(len(rules[0].head))]
        best: list[int] | None = None
        for i, arg in enumerate(args):
            index = self._index[pred][i]
            if index is None or type(arg) not in (str, int, float):
                continue
            found = index.get(key_of(arg), index.get(None, []))
            if best is None or len(found) < len(best):
                best = found
        return rules if best is None else [rules[j] for j in best]

    def numbers(self) -> set[Any]:
        """All numbers that stand in heads, as they are."""
        return {
            a
            for rules in self.resolvents.values()
            for r in rules
            for a in r.head
            if type(a) in (int, float)
        }

    def is_functional(self, pred: Pred) -> bool:
        """Whether the values of a predicate are determined by its keys."""
        return pred in self.drawn or pred in self.fluents

    def is_keyed(self, pred: Pred) -> bool:
        """Whether a predicate is random or carried: it is found for all its keys at once."""
        return pred in self.random or pred in self.fluents

    def is_recursive(self, pred: Pred) -> bool:
        """Whether the predicate can call itself."""
        if pred not in self._recursive:
            seen: set[Pred] = set()
            pending = [pred]
            while pending:
                called = {p for r in self.resolvents.get(pending.pop(), ()) for p in _calls(r.body)}
                pending.extend(called - seen)
                seen |= called
            self._recursive[pred] = pred in seen
        return self._recursive[pred]

    def is_fact_table(self, pred: Pred) -> bool:
        """Whether the predicate consists of ground facts only."""
        if pred not in self._facts:
            rules = self.resolvents.get(pred, [])
            self._facts[pred] = bool(rules) and all(
                not r.body
                and all(is_ground(a) and not has_symbol(a) for a in r.head)
                and not any(parts(a) for a in r.head)
                for r in rules
            )
        return self._facts[pred]


def _calls(body: Iterable[Lit]) -> Iterator[Pred]:
    """The predicates that a body calls."""
    for lit in body:
        match lit:
            case DisjLit(bodies):
                for alternative in bodies:
                    yield from _calls(alternative)
            case CallLit() | NegLit() | CollectLit() | DrawLit() | ChoiceLit():
                yield lit.pred


def _index(rules: list[Resolvent], position: int) -> dict[Any, list[int]] | None:
    """Constant -> clauses; under None the clauses that match any constant."""
    index: dict[Any, list[int]] = {None: []}
    for j, rule in enumerate(rules):
        arg = rule.head[position]
        if type(arg) in (str, int, float):
            index.setdefault(key_of(arg), list(index[None])).append(j)
        else:
            for found in index.values():
                found.append(j)
    return index if len(index) > 1 else None


@dataclass(frozen=True, slots=True)
class Root:
    """A question put to the clauses: a predicate of its own, and what it stands for.

    `alone` is the question without the body that selects what is asked, if there is one, and
    `selected` that body: a predicate of the variables that it binds.
    """

    pred: Pred
    atom: Atom
    size: int
    term: tuple
    alone: Pred | None = None
    selected: tuple[Pred, tuple[V, ...]] | None = None


def compile_clauses(
    program: CheckedProgram, values: dict[Pred, frozenset[int]]
) -> tuple[Clauses, dict[Any, Root]]:
    """All clauses, and a root for each observation, query and guide."""
    out = Clauses(values=dict(values))
    compiler = _Compiler(program, out)
    for number, clause in enumerate(program.clauses):
        compiler.clause(number, clause)
    compiler.number = len(program.clauses)
    roots: dict[Any, Root] = {}
    statements: list[Observation | Query] = [*program.observations, *program.queries]
    for statement in statements:
        roots[id(statement)] = compiler.root(statement.atom, statement.body, statement.span)
    for guide in program.guides:
        roots[id(guide)] = compiler.guide(guide)
    return out, roots


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
                self._rule(number, head, body, clause.span)
            case Choice():
                self._choice(number, clause)
            case Draw():
                self._draw(number, clause)

    def _origin(self, number: int, option: int | None, told: bool = True) -> Origin | None:
        """Facts and rules without time are background, and nothing is told without time."""
        return Origin(number, option) if told and self.program.temporal else None

    def _rule(self, number: int, head: Atom, body: Body, span: Span | None) -> None:
        frame = _Frame()
        args = tuple(frame.term(a) for a in head.args)
        guards = self.guards = _guards(head.time, body)
        timed = head.time is not None
        lits = self._body(body, frame, _names(head.args), timed)
        origin = self._origin(number, 0, told=timed)
        body_lits = (*guards, *lits)
        self._add(head.pred, args, body_lits, frame, span or head.span, timed, origin=origin)

    def _choice(self, number: int, clause: Choice) -> None:
        timed = clause.options[0][1].time is not None
        names = _variable_names(clause)
        aux = self._auxiliary("choice", len(names))
        self.out.values[aux] = frozenset(
            i for i, n in enumerate(names) if n in valued_variables(clause.body, self.out.values)
        )
        frame = _Frame()
        for name in names:
            frame.term(Var(name))
        guards = self.guards = _guards(clause.options[0][1].time, clause.body)
        lits = self._body(clause.body, frame, set(names), timed)
        variables = tuple(V(i) for i in range(len(names)))
        sure = set(_binding_names(clause.body)) | _head_names(clause)
        optional = frozenset(i for i, n in enumerate(names) if n not in sure)
        self._add(aux, variables, (*guards, *lits), frame, clause.span, timed, optional=optional)
        for option, (_, head) in enumerate(clause.options):
            frame = _Frame()
            for name in names:
                frame.term(Var(name))
            args = tuple(frame.term(a) for a in head.args)
            probabilities = tuple(frame.term(p) for p, _ in clause.options)
            lit = ChoiceLit(
                clause,
                number,
                option,
                aux,
                variables,
                names,
                probabilities,
                clause.span,
                self._site(),
            )
            origin = self._origin(number, option)
            self._add(head.pred, args, (lit,), frame, head.span, timed, origin=origin)
            self.out.random.add(head.pred)

    def _draw(self, number: int, clause: Draw) -> None:
        head = clause.head
        timed = head.time is not None
        frame = _Frame()
        keys = tuple(frame.term(a) for i, a in enumerate(head.args) if i not in clause.drawn)
        params = tuple(frame.term(p) for p in clause.params)
        aux = self._auxiliary("draw", len(keys) + len(params))
        key_positions = [i for i in range(len(head.args)) if i not in clause.drawn]
        head_values = self.out.values.get(head.pred, frozenset())
        self.out.values[aux] = frozenset(
            j for j, i in enumerate(key_positions) if i in head_values
        ) | frozenset(range(len(keys), len(keys) + len(params)))
        guards = self.guards = _guards(head.time, clause.body)
        wanted = {
            v.name for a in (*head.args, *clause.params) for v in subterms(a) if isinstance(v, Var)
        }
        lits = self._body(clause.body, frame, wanted, timed)
        self._add(
            aux,
            (*keys, *params),
            (*guards, *lits),
            frame,
            clause.span,
            timed,
            evaluate=False,
            origin=self._origin(number, None),
        )
        frame = _Frame()
        args = tuple(frame.term(a) for a in head.args)
        lit = DrawLit(
            clause,
            number,
            aux,
            tuple(a for i, a in enumerate(args) if i not in clause.drawn),
            tuple(V(frame.fresh()) for _ in params),
            tuple(args[i] for i in clause.drawn),
            clause.span,
            self._site(),
        )
        origin = self._origin(number, 0)
        self._add(head.pred, args, (lit,), frame, head.span, timed, evaluate=False, origin=origin)
        self.out.drawn.add(head.pred)
        self.out.random.add(head.pred)

    def _add(
        self,
        pred: Pred,
        head: tuple,
        body: tuple[Lit, ...],
        frame: _Frame,
        span: Span | None,
        timed: bool,
        evaluate: bool = True,
        optional: frozenset[int] = frozenset(),
        origin: Origin | None = None,
    ) -> None:
        rule = Resolvent(
            pred,
            head,
            body,
            frame.size,
            frame.names(),
            span,
            evaluate and timed and any(parts(a) for a in head),
            timed,
            optional,
            origin,
        )
        self.out.resolvents.setdefault(pred, []).append(rule)

    def root(self, atom: Atom, body: Body, span: Span | None) -> Root:
        """`$root(args) :- body, atom.` The time of the atom is the caller's business."""
        self.sites = 0
        self.number += 1
        self.guards = ()
        frame = _Frame()
        args = tuple(frame.term(a) for a in atom.args)
        lits = self._body(body, frame, _names(atom.args), atom.time is not None)
        call = CallLit(atom.pred, args, 0, span, self._site())
        aux = self._auxiliary("root", len(args))
        timed = atom.time is not None
        self._add(aux, args, (*lits, call), frame, span, timed, evaluate=False)
        if not body:
            return Root(aux, atom, frame.size, args)
        alone = self._auxiliary("root", len(args))
        self._add(alone, args, (call,), frame, span, timed, evaluate=False)
        shared = _names(atom.args) & set(_binding_names(body, every=True))
        bound = tuple(V(frame.slots[name]) for name in sorted(shared))
        select = self._auxiliary("root", len(bound))
        self._add(select, bound, lits, frame, span, timed, evaluate=False)
        return Root(aux, atom, frame.size, args, alone, (select, bound))

    def guide(self, guide: Guide) -> Root:
        """`$guide(keys, params) :- body.`"""
        self.sites = 0
        self.number += 1
        self.observed = frozenset(o.atom.pred for o in self.program.observations)
        frame = _Frame()
        terms = tuple(frame.term(a) for a in (*guide.target.args, *guide.params))
        timed = guide.target.time is not None
        wanted = _names((*guide.target.args, *guide.params))
        guards = self.guards = _guards(guide.target.time, guide.body)
        lits = self._body(guide.body, frame, wanted, timed)
        aux = self._auxiliary("guide", len(terms))
        self.out.values[aux] = frozenset(range(len(guide.target.args), len(terms)))
        self._add(aux, terms, (*guards, *lits), frame, guide.span, timed, evaluate=False)
        self.observed = frozenset()
        return Root(aux, guide.target, frame.size, terms)

    def _auxiliary(self, kind: Kind, arity: int) -> Pred:
        self.auxiliaries += 1
        return Pred(f"${kind}{self.auxiliaries}", arity, kind)

    def _site(self) -> str:
        self.sites += 1
        return f"{self.number}.{self.sites}"

    # ------------------------------------------------------------ bodies

    def _body(self, body: Body, frame: _Frame, outside: set[str], timed: bool) -> tuple[Lit, ...]:
        """Compile a body; `outside` are the variables that matter beyond it."""
        out: list[Lit] = []
        for i, literal in enumerate(body):
            others = outside | {
                n for j, other in enumerate(body) if j != i for n in literal_names(other)
            }
            out.append(self._literal(literal, frame, others, timed))
        return tuple(out)

    def _literal(self, literal: Any, frame: _Frame, others: set[str], timed: bool) -> Lit:
        match literal:
            case Call(atom):
                lag = _lag(atom.time)
                if lag:
                    self.out.lagged.setdefault((atom.pred, lag), literal.span)
                    self.out.fluents.add(atom.pred)
                args = tuple(frame.term(a) for a in atom.args)
                pred = atom.pred
                if not lag and pred in self.observed:
                    pred = replace(pred, kind="observed")
                return CallLit(pred, args, lag, literal.span, self._site())
            case Builtin(name, args):
                filled = tuple(frame.term(a) for a in args)
                last = args[-1] if args else None
                hint = last.name if isinstance(last, Var) and last.name[0] != "_" else "I"
                return BuiltinLit(name, filled, literal.span, self._site(), timed, hint)
            case Disjunction(bodies):
                # Each alternative looks back on its own, and applies when it can.
                alternatives = (
                    (*_guards(None, b), *self._body(b, frame, others, timed)) for b in bodies
                )
                return DisjLit(tuple(alternatives))
            case Negation(body):
                shared = [n for n in _ordered_names(body) if n in others]
                aux = self._inner("not", body, shared, (), timed, literal.span)
                return NegLit(
                    aux, tuple(frame.term(Var(n)) for n in shared), literal.span, self._site()
                )
            case Collect(kind, template, body, result, groups):
                inner = set(_ordered_names(body)) | _names((template,))
                shared = sorted(n for n in inner if n in others and n not in groups)
                # All variables of the goal are arguments: solutions that differ in any of
                # them are collected one by one.
                visible = {*shared, *groups, *_names((template,))}
                local = [n for n in _binding_names(body, every=False) if n not in visible]
                extra = (*(Var(g) for g in groups), template, *map(Var, local))
                sure = set(_binding_names(body))
                first = len(shared) + len(groups) + 1
                optional = frozenset(first + i for i, n in enumerate(local) if n not in sure)
                # ... `all` and the aggregates of heads once, findall as often as proved.
                once: Kind = "each" if kind in DISTINCT else "all"
                aux = self._inner(once, body, shared, extra, timed, literal.span, optional)
                return CollectLit(
                    kind,
                    aux,
                    tuple(frame.term(Var(n)) for n in shared),
                    tuple(frame.term(Var(g)) for g in groups),
                    frame.term(result),
                    literal.span,
                    self._site(),
                    timed,
                )
        raise TypeError(literal)

    def _inner(
        self,
        kind: Kind,
        body: Body,
        shared: list[str],
        extra: tuple[Term, ...],
        timed: bool,
        span: Span | None,
        optional: frozenset[int] = frozenset(),
    ) -> Pred:
        """A predicate of its own for a goal inside a goal."""
        aux = self._auxiliary(kind, len(shared) + len(extra))
        frame = _Frame()
        head = (*(frame.term(Var(n)) for n in shared), *(frame.term(e) for e in extra))
        lits = self._body(body, frame, set(shared) | _names(extra), timed)
        # When the clause around it cannot apply, neither need the goal inside it.
        body_lits = (*self.guards, *lits)
        self._add(aux, head, body_lits, frame, span, timed, evaluate=False, optional=optional)
        return aux


class _Frame:
    """The variables of one clause, numbered as they are met."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.size = 0

    def fresh(self) -> int:
        self.size += 1
        return self.size - 1

    def term(self, term: Term) -> Any:
        return compile_term(term, self.slots, self.fresh)

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


def literal_names(literal: Any) -> set[str]:
    match literal:
        case Call(atom):
            return _names(atom.args)
        case Builtin(args=args):
            return _names(args)
        case Negation(body):
            return set(_ordered_names(body))
        case Disjunction(bodies):
            return {n for b in bodies for n in _ordered_names(b)}
        case Collect(template=template, body=body, result=result, groups=groups):
            return set(_ordered_names(body)) | _names((template, result)) | set(groups)
    return set()


def _ordered_names(body: Body) -> list[str]:
    return list(dict.fromkeys(n for x in body for n in sorted(literal_names(x))))


def _binding_names(body: Body, every: bool = True) -> list[str]:
    """The variables that a body binds; those inside negation and findall are not.

    Of a disjunction, what every alternative binds, or what any of them does.
    """
    names: dict[str, None] = {}
    for literal in body:
        match literal:
            case Call() | Builtin():
                names.update(dict.fromkeys(sorted(literal_names(literal))))
            case Disjunction(bodies):
                found = [set(_binding_names(b, every)) for b in bodies]
                both = set.intersection(*found) if every else set.union(*found)
                names.update(dict.fromkeys(sorted(both)))
            case Collect(result=result):
                names.update(dict.fromkeys(sorted(_names((result,)))))
    return list(names)


def _names(terms: Iterable[Term]) -> set[str]:
    return {v.name for t in terms for v in subterms(t) if isinstance(v, Var) and v.name != "_"}


def _head_names(clause: Choice) -> set[str]:
    """The variables of the heads and probabilities of a clause."""
    terms = [a for atom in heads(clause) for a in atom.args]
    return _names([*terms, *(probability for probability, _ in clause.options)])


def _variable_names(clause: Choice) -> tuple[str, ...]:
    """All variables of a clause, head first; they tell its random choices apart."""
    names: dict[str, None] = dict.fromkeys(sorted(_head_names(clause)))
    names.update(dict.fromkeys(_binding_names(clause.body, every=False)))
    return tuple(names)
