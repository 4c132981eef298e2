"""Explanation: the rules that fired along a generated trajectory.

The program is compiled once more with a question per clause: for which values of its
variables did it fire? For a random clause the question reads the very random variable that
the clause draws. The reference interpreter then answers the questions step by step, every
draw being looked up in the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nesymm.compiler.clauses import ChoiceLit, Clauses
from nesymm.compiler.expr import Axis
from nesymm.compiler.ground import ground
from nesymm.compiler.interpret import Key, State, World, active, anything, places
from nesymm.compiler.runtime import Compound, map_symbols, show
from nesymm.compiler.step import QueryDecl, StepProgram
from nesymm.compiler.types import Bool, Tensor, domain
from nesymm.errors import ProgramError
from nesymm.filtering.data import Sequences, prepare, wanted
from nesymm.filtering.trajectories import decode
from nesymm.generation import Generated
from nesymm.language.pprint import pprint
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
    Draw,
    Literal,
    Negation,
    Now,
    Pred,
    Query,
    Rule,
)
from nesymm.language.terms import ListTerm, Num, Struct, Term, Var, variables
from nesymm.language.values import heads
from nesymm.model import Model

_FIRED = re.compile(r"fired__(\d+)__(\d+)")


@dataclass(frozen=True)
class Firing:
    """A clause that fired: what it derived, and what held in its body."""

    step: int
    head: str
    because: tuple[str, ...]
    clause: str
    line: int | None
    source: str | None

    def __str__(self) -> str:
        reason = f" because {', '.join(self.because)}" if self.because else ""
        place = f"  [line {self.line}]" if self.line is not None else ""
        return f"{self.head}{reason}{place}"


def explain(generated: Generated, sequence: int = 0, trajectory: int = 0) -> list[Firing]:
    """The clauses that fired along one trajectory, step by step."""
    generated._check(sequence, trajectory, 0)
    model = generated.model
    if not model._firings:
        model._firings.append(_compile(model.program))
    step = model._firings[0]
    drawn = _Drawn(generated, sequence, trajectory)
    last = int(generated.lengths[sequence]) - 1
    given = _inputs(model, generated, sequence)
    out: list[Firing] = []
    state = State()
    for time in range(last + 1):
        world = _Replayed(
            step, time, last, state, given(time), drawn.at(time), model.networks, model.parameters
        )
        out += _fired(model.program, step, world, time)
        state = world.next_state()
    return out


# ---------------------------------------------------------------- the questions


def _compile(program: CheckedProgram) -> StepProgram:
    """The program with a query per clause; clauses that only callers can use have none."""
    numbers = [k for k, clause in enumerate(program.clauses) if _told(clause)]
    try:
        return _with_questions(program, numbers)
    except ProgramError:
        good = [k for k in numbers if _answerable(program, k)]
        return _with_questions(program, good)


def _answerable(program: CheckedProgram, number: int) -> bool:
    try:
        _with_questions(program, [number])
    except ProgramError:
        return False
    return True


def _told(clause: Clause) -> bool:
    """Facts and rules without time are background; what has time or is drawn is told."""
    return not isinstance(clause, Rule) or clause.head.time is not None


def _with_questions(program: CheckedProgram, numbers: list[int]) -> StepProgram:
    rules: list[Clause] = []
    queries: list[Query] = []
    choices: dict[tuple[int, int], Pred] = {}
    for number in numbers:
        clause = program.clauses[number]
        for option, head in enumerate(heads(clause)):
            names = _names(clause)
            pred = Pred(f"fired__{number}__{option}", len(names))
            args: tuple[Term, ...] = tuple(Var(n) for n in names)
            asked = None if head.time is None else Now(0)
            queries.append(Query(Atom(pred, args, asked), ()))
            if isinstance(clause, Choice):
                choices[number, option] = pred
                continue
            body = clause.body
            if isinstance(clause, Draw):
                body = (*body, Call(head))
            else:
                body = (*body, *_computed(head))
            rules.append(Rule(Atom(pred, args, head.time), body, clause.span))
    timed = {q.atom.pred for q in queries if q.atom.time is not None}
    asking = replace(
        program,
        clauses=(*program.clauses, *rules),
        queries=(*program.queries, *queries),
        timed=program.timed | timed,
    )

    def add_choices(clauses: Clauses) -> None:
        """`fired(all variables)` holds where the choice of the clause falls on the option."""
        for resolvents in list(clauses.resolvents.values()):
            for resolvent in list(resolvents):
                lit = resolvent.body[0] if len(resolvent.body) == 1 else None
                pred = choices.get((lit.number, lit.option)) if isinstance(lit, ChoiceLit) else None
                if pred is not None and isinstance(lit, ChoiceLit):
                    asked = replace(resolvent, pred=pred, head=lit.variables, evaluate_head=False)
                    clauses.resolvents[pred] = [asked]
                    clauses.random.add(pred)

    return ground(asking, add_choices)


def _names(clause: Clause) -> tuple[str, ...]:
    """The variables that have a value when a clause fires."""
    if isinstance(clause, Choice):
        from nesymm.compiler.clauses import _variable_names

        return _variable_names(clause)
    (head,) = heads(clause)
    found = [v.name for a in head.args for v in variables(a)]
    for literal in clause.body:
        match literal:
            case Call(atom):
                found += [v.name for a in atom.args for v in variables(a)]
            case Builtin(_, args):
                found += [v.name for a in args for v in variables(a)]
            case Collect(result=result):
                found += [v.name for v in variables(result)]
    if isinstance(clause, Rule):
        found += [_result(i) for i, a in enumerate(head.args) if _is_computed(a)]
    return tuple(dict.fromkeys(found))


def _result(position: int) -> str:
    return f"Result__{position}"


def _is_computed(term: Term) -> bool:
    return isinstance(term, Struct) and bool(term.args) and any(True for _ in variables(term))


def _computed(head: Atom) -> Iterator[Literal]:
    """Arithmetic in a head is evaluated: its results are variables of their own."""
    for i, arg in enumerate(head.args):
        if _is_computed(arg):
            yield Builtin("is", (Var(_result(i)), arg))


# ---------------------------------------------------------------- the answers


class _Unknown(Exception):
    """Something that was not drawn, as nothing depended on it."""


class _Replayed(World):
    """A world whose draws are looked up; their parameters do not matter."""

    def draw(self, name: str, key: Key) -> Any:
        if (name, key) not in self.drawn:
            variable = self.variables[name]
            if not self.value(variable.guard, dict(zip(variable.axes, key, strict=True))):
                return variable.support[0] if variable.support else anything(variable.type)
            self.drawn[name, key] = self.choose(variable, key, ())
        return self.drawn[name, key]

    def _next_slot(self, slot: Any) -> dict[Key, tuple]:
        try:
            return super()._next_slot(slot)
        except _Unknown:
            return {}


class _Drawn:
    """The draws of one trajectory, by variable, key and step."""

    def __init__(self, generated: Generated, sequence: int, trajectory: int):
        self.values = generated.values
        self.undrawn = generated.undrawn
        self.lane = (sequence, trajectory)
        self.own = {v.name: v for v in generated.model.step.variables}
        self.spelt: dict[str, tuple[str, tuple[int, ...]]] = {}
        for variable in generated.model.step.variables:
            for place in places(variable.axes):
                key = tuple(place[a] for a in variable.axes)
                self.spelt[_spell(variable.name, key)] = (variable.name, _index(variable.axes, key))

    def at(self, time: int) -> Any:
        def look_up(variable: Any, key: Key, _: tuple) -> Any:
            # The same draw may be one of an array here and a variable of its own there.
            name, index = self.spelt.get(_spell(variable.name, key), (variable.name, ()))
            blank = self.undrawn[0 if time == 0 else 1]
            if name not in self.values or name not in self.own or name in blank:
                raise _Unknown(name)
            code = self.values[name][(*self.lane, time, *index)]
            return decode(variable.type, code)

        return look_up


def _spell(name: str, key: Key) -> str:
    """A name with all keys: those along axes stand in for the stars."""
    keys = [show(k) for k in key]
    if "(" not in name or not keys:
        return f"{name}({','.join(keys)})" if keys else name
    parts = name.split("*")
    filled = "".join(p + (keys.pop(0) if keys else "*") for p in parts[:-1]) + parts[-1]
    return filled + "".join(f",{k}" for k in keys)


def _index(axes: tuple[Axis, ...], key: Key) -> tuple[int, ...]:
    """The position of a key in an array, which has no axes of one value."""
    return tuple(domain(a.type).index(k) for a, k in zip(axes, key, strict=True) if a.size > 1)


def _fired(program: CheckedProgram, step: StepProgram, world: World, time: int) -> Iterator[Firing]:
    for query in step.queries:
        asked = _FIRED.match(query.name)
        if asked is None or not active(query.when, time, world.last):
            continue
        number, option = int(asked[1]), int(asked[2])
        clause = program.clauses[number]
        names = _names(clause)
        for terms in dict.fromkeys(_answers(world, query)):
            env = dict(zip(names, terms, strict=True))
            yield _firing(clause, option, env, time)


def _answers(world: World, query: QueryDecl) -> Iterator[tuple]:
    for place in places(query.axes):
        try:
            if not world.value(query.holds, place):
                continue
            values = iter([world.value(v, place) for v in query.values])
        except _Unknown:
            continue
        yield map_symbols(query.template, lambda _: next(values))  # noqa: B023


def _firing(clause: Clause, option: int, env: Mapping[str, Any], time: int) -> Firing:
    head = heads(clause)[option]
    args = tuple(
        Var(_result(i)) if isinstance(clause, Rule) and _is_computed(a) else a
        for i, a in enumerate(head.args)
    )
    span = clause.span or head.span
    text = span.text if span is not None else pprint(Struct(head.pred.name, head.args))
    return Firing(
        time,
        _atom(replace(head, args=args), env, time),
        _held(clause.body, env, time),
        " ".join(text.split()),
        span.line if span is not None else None,
        span.source.name if span is not None else None,
    )


# ---------------------------------------------------------------- words


def _held(body: Body, env: Mapping[str, Any], time: int) -> tuple[str, ...]:
    return tuple(_literal(literal, env, time) for literal in body)


def _literal(literal: Literal, env: Mapping[str, Any], time: int) -> str:
    match literal:
        case Call(atom):
            return _atom(atom, env, time)
        case Builtin(name, args):
            return pprint(_filled(Struct(name, args), env))
        case Negation(body):
            inside = ", ".join(_held(body, env, time))
            return f"not {inside}" if len(body) == 1 else f"not ({inside})"
        case Collect(kind, template, body, result):
            shown = pprint(_filled(template, env))
            inside = ", ".join(_held(body, env, time))
            return f"{kind}({shown}, ({inside}), {pprint(_filled(result, env))})"
    return "(" + "; ".join(", ".join(_held(b, env, time)) for b in literal.bodies) + ")"


def _atom(atom: Atom, env: Mapping[str, Any], time: int) -> str:
    shown = pprint(Struct(atom.pred.name))
    if atom.args:
        shown += f"({','.join(pprint(_filled(a, env)) for a in atom.args)})"
    match atom.time:
        case Now(lag):
            return f"{shown}@{time - lag}"
        case At(index):
            return f"{shown}@{index}"
    return shown


def _filled(term: Term, env: Mapping[str, Any]) -> Term:
    """A term with its variables replaced by their values."""
    match term:
        case Var(name):
            return _as_term(env[name]) if name in env else term
        case Struct():
            return replace(term, args=tuple(_filled(a, env) for a in term.args))
        case ListTerm(items, tail):
            rest = _filled(tail, env) if tail is not None else None
            return replace(term, items=tuple(_filled(i, env) for i in items), tail=rest)
    return term


def _as_term(value: Any) -> Term:
    match value:
        case bool():
            return Struct("true" if value else "false")
        case int():
            return Num(value)
        case float() | np.floating():
            return Num(float(f"{value:.6g}"))
        case str():
            return Struct(value)
        case tuple():
            return ListTerm(tuple(map(_as_term, value)))
        case Compound(functor, args):
            return Struct(functor, tuple(map(_as_term, args)))
    return Struct(show(value))


# ---------------------------------------------------------------- inputs


def _inputs(model: Model, generated: Generated, sequence: int) -> Any:
    """What was given at a step, as the interpreter takes it."""
    lengths = generated.lengths
    given = dict(generated.given)
    timed = any(w.timed for n, w in wanted(model.step).items() if n in given)
    horizon = None if timed else int(lengths.max()) - 1
    coded = prepare(model.step, given, horizon, np.asarray(lengths))

    def at(time: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, want in wanted(model.step).items():
            if name not in given:
                continue
            if isinstance(want.types[0], Tensor):
                out |= _tensors(coded, name, want.timed, sequence, time)
                continue
            where = (time, sequence) if want.timed else (sequence,)
            columns = (coded.timed if want.timed else coded.static)[name]
            if name in coded.masks and not coded.masks[name][where]:
                out[name] = None
                continue
            terms = tuple(
                decode(t, c.values[where]) for t, c in zip(want.types, columns, strict=True)
            )
            is_truth = want.types == (Bool(),)
            out[name] = (terms[0] or None) if is_truth else terms
        return out

    return at


def _tensors(coded: Sequences, name: str, timed: bool, sequence: int, time: int) -> dict[str, Any]:
    if not timed:
        return {name: coded.static[name][0].values[sequence]}
    whole = coded.timed[name][0].values[:, sequence]
    lags = {f"{name}@lag{k}": whole[max(time - k, 0)] for k in range(1, time + 1)}
    return {name: whole[time], f"{name}@first": whole[0], **lags}


__all__ = ["Firing", "explain"]
