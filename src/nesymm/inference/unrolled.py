"""Exact inference over time by a circuit, for where the tables of a step are too large.

All steps of a sequence become one program without time: what was state is written out in terms
of the step before, each step has random variables of its own, and data are constants. The
evidence up to each step, alone and with each query, are the roots of one circuit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.circuits.circuit import compile_formula
from nesymm.inference.data import Sequences, wanted
from nesymm.inference.forward import ExactFilter
from nesymm.inference.questions import Question
from nesymm.inference.state import Info
from nesymm.inference.static.problem import Problem
from nesymm.inference.static.weights import Given
from nesymm.ir.algebra import and_, const, eq, is_const, or_
from nesymm.ir.axes import at_place, case, places, position_along, rebuild, replacing
from nesymm.ir.expr import FALSE, Expr, make
from nesymm.ir.passes.phases import prune
from nesymm.ir.step import ObservationDecl, QueryDecl, RandomVariable, Slot, StepProgram, active
from nesymm.ir.terms import atom_text
from nesymm.ir.types import Bool, Enum, Int, Real, Type, domain
from nesymm.language.program import AtLast

# The circuits of all sequences together must be compiled in so many seconds.
MAX_SECONDS = 10.0

_Placed = TypeVar("_Placed", RandomVariable, Slot, ObservationDecl)


class NoCircuit(NesymmError):
    """Why the steps of a sequence cannot become one circuit."""


def solve_by_circuit(
    engine: ExactFilter,
    step: StepProgram,
    sequences: Sequences,
    parameters: Mapping[str, Any],
    smooth: bool = False,
) -> Info:
    """What filtering says of all steps of all sequences. With `smooth`, queries that are asked at
    every step are answered given all evidence. Raises `NesymmError` if there is no small circuit.

    `step` is the program that the data were prepared for.
    """
    steps, batch = sequences.steps, sequences.batch
    out = Info(
        np.zeros((steps, batch)),
        np.ones((steps, batch)),
        np.zeros((steps, batch), bool),
        {
            q.key: np.zeros((steps if q.at_every_step else 1, batch, *(a.size for a in q.axes)))
            for q in engine.questions
        },
        np.zeros((steps, batch, len(engine.phases.later.flags)), bool),
        np.zeros((steps, batch), bool),
    )
    deadline = time.monotonic() + MAX_SECONDS
    for sequence in range(batch):
        known = _Known(step, sequences, parameters, sequence)
        unrolled = _Unrolled(engine, known, smooth)
        _solve(unrolled, out, sequence, deadline)
    return out


# ---------------------------------------------------------------- one circuit


@dataclass(frozen=True)
class _Asked:
    """Where the probability of a condition belongs, given the evidence up to a step: in the
    answers to a question, or, without one, among the flags."""

    given: int
    question: Question | None
    place: tuple[int, ...]


def _solve(unrolled: _Unrolled, out: Info, sequence: int, deadline: float) -> None:
    """Compile and evaluate the circuit of one sequence, and enter what it says."""
    try:
        problem = Problem(unrolled.program())
    except RecursionError:
        raise NoCircuit("its steps depend on each other too deeply") from None
    if problem.sampled or len(problem.evidences) > 1:
        raise NoCircuit("continuous variables would have to be sampled")
    formula = problem.encoding.formula
    made = [formula.or_([points, densities]) for points, densities, _ in problem.explained]
    ignored = [off for *_, off in problem.explained]
    upto = [
        formula.and_(
            here if at <= t else off
            for here, off, at in zip(made, ignored, unrolled.times, strict=True)
        )
        for t in range(unrolled.last + 1)
    ]
    asked = unrolled.asked
    both = [
        formula.and_([upto[a.given], query.formula])
        for a, query in zip(asked, problem.queries, strict=False)
    ]
    # The compiler orders variables as it meets them. It meets the things of the last state first
    # and goes back from each, and so orders by things and not by steps: that keeps a circuit
    # small where many things seldom meet.
    roots = [*upto, *both, *made, *(q.formula for q in problem.queries[len(asked) :])]
    left = max(0.0, deadline - time.monotonic())
    circuit = compile_formula(formula, roots[::-1], max_seconds=left)
    values = np.asarray(circuit.log_values(problem.weights(Given()), np))[::-1]
    evidence, joint = values[: len(upto)], values[len(upto) : len(upto) + len(both)]
    possible = np.isfinite(evidence)
    before = np.concatenate([[0.0], evidence[:-1]])
    out.dead[: len(upto), sequence] = ~possible
    # After impossible evidence nothing counts.
    out.log_gain[: len(upto), sequence] = evidence - np.where(np.isfinite(before), before, 0.0)
    for a, value in zip(asked, joint, strict=True):
        if a.question is None:
            at, flag = a.place
            out.flags[at, sequence, flag] = value > -np.inf
        elif possible[a.given]:
            at, *position = a.place
            array = out.answers[a.question.key]
            array[(at, sequence, *position)] = np.exp(value - evidence[a.given])


# ---------------------------------------------------------------- steps as one program


@dataclass(frozen=True)
class _Known:
    """What is known of one sequence: its data, and the parameters."""

    step: StepProgram
    sequences: Sequences
    parameters: Mapping[str, Any]
    sequence: int

    @property
    def last(self) -> int:
        return int(self.sequences.last[self.sequence])

    def there(self, name: str, at: int, position: tuple[int, ...] = ()) -> bool:
        """Whether data are given, and not missing."""
        data = self.sequences
        if name not in data.timed and name not in data.static:
            return False
        mask = data.masks.get(name)
        return mask is None or bool(mask[(*self._row(name, at), *position)])

    def value(self, name: str, column: int, at: int, position: tuple[int, ...] = ()) -> Any:
        """A number or term of the data."""
        data = self.sequences
        type_ = wanted(self.step)[name].types[column]
        columns = data.timed[name] if name in data.timed else data.static[name]
        value = columns[column].values[(*self._row(name, at), *position)]
        match type_:
            case Bool():
                return bool(value)
            case Int():
                return int(value)
            case Real():
                return float(value)
            case Enum(values):
                return values[int(value)]
        raise NoCircuit(f"{name} is a tensor")

    def input(self, node: Expr, keys: tuple[Expr, ...], at: int) -> Expr:
        """What an input is at some keys, or whether it is given there."""
        name, column = (node.data, None) if node.op == "given" else node.data
        axes = next((i.axes for i in self.step.inputs if i.name == name), ())
        known = all(map(is_const, keys))
        read = [tuple(k.data for k in keys)] if known else places(axes)
        entries: dict[tuple, Expr] = {}
        for key in read:
            if any(k not in domain(a.type) for k, a in zip(key, axes, strict=True)):
                continue  # Out of range: nobody reads it.
            position = tuple(map(position_along, axes, key))
            there = self.there(name, at, position)
            if column is None:
                entries[key] = const(there)
            elif there:
                entries[key] = const(self.value(name, column, at, position))
            else:
                entries[key] = _nothing(node.type)
        return _at(entries, keys, node.type)

    def _row(self, name: str, at: int) -> tuple[int, ...]:
        return (at, self.sequence) if name in self.sequences.timed else (self.sequence,)

    def parameter(self, name: str, keys: tuple[Expr, ...]) -> Expr:
        axes = next(p.axes for p in self.step.parameters if p.name == name)
        table = np.asarray(self.parameters[name], float)
        entries = {
            key: const(float(table[tuple(map(position_along, axes, key))])) for key in places(axes)
        }
        return _at(entries, keys, Real())


class _Unrolled:
    """All steps of a sequence as one program: when its observations are made, and what its
    queries are for."""

    def __init__(self, engine: ExactFilter, known: _Known, smooth: bool):
        self.engine, self.known, self.smooth, self.last = engine, known, smooth, known.last
        self.variables: list[RandomVariable] = []
        self.observations: list[ObservationDecl] = []
        self.times: list[int] = []
        self.queries: list[QueryDecl] = []
        self.asked: list[_Asked] = []
        # The elements of slots as the step before left them, and of random variables.
        self.state: dict[tuple[str, Any], dict[tuple, Expr]] = {}
        self.drawn: dict[str, dict[tuple, Expr]] = {}
        both = engine.phases
        self.infinite = {v.name for p in both for v in p.variables if not v.finite}
        for at in range(self.last + 1):
            self._add(both.later if at else both.first, at)

    def program(self) -> StepProgram:
        """The program; its queries are in the order of `asked`, and then whether the things of
        the state are there in the end."""
        things = [e for (_, c), es in self.state.items() if c == "present" for e in es.values()]
        asked = [*self.queries, *map(_query, things)]
        queries = tuple(replace(q, name=str(i)) for i, q in enumerate(asked))
        variables, observations = tuple(self.variables), tuple(self.observations)
        whole = StepProgram((), (), (), variables, observations, queries, (), (), False)
        # What is never drawn may still be named, under conditions that never hold.
        never = {v.name: _nothing(v.type) for v in variables if v.guard is FALSE}
        if never:
            whole = whole.rewrite(replacing(lambda n: never.get(n.data) if n.op == "rv" else None))
        return prune(whole, ())

    def _add(self, phase: StepProgram, at: int) -> None:
        """One more step."""
        variables = [(v, *element) for v in phase.variables for element in _elements(v)]
        slots = [(s, *element) for s in phase.slots for element in _elements(s)]
        names = [atom_text(v.name, key) + ("" if v.static else f"@{at}") for v, key, _ in variables]
        statics = self.engine.phases.statics
        self.drawn = {n: elements for n, elements in self.drawn.items() if n in statics}
        for (variable, key, _), name in zip(variables, names, strict=True):
            element = make("rv", (), name, variable.type)
            self.drawn.setdefault(variable.name, {})[key] = element
        asked, queries = self._questions(phase, at)
        here = replace(
            phase,
            variables=tuple(replace(e, guides=()) for *_, e in variables),
            observations=tuple(self._seen(phase, at)),
            queries=tuple(queries),
            slots=tuple(e for *_, e in slots),
        ).rewrite(lambda node, args: self._rewritten(node, args, at))
        self.variables += [replace(v, name=n) for v, n in zip(here.variables, names, strict=True)]
        self.observations += here.observations
        self.times += [at] * len(here.observations)
        self.queries += here.queries
        self.asked += asked
        for number, flag in enumerate(here.flags):
            if flag.condition is not FALSE:
                self.queries.append(_query(flag.condition))
                self.asked.append(_Asked(at, None, (at, number)))
        self.state = {}
        for (slot, key, _), new in zip(slots, here.slots, strict=True):
            for column, expr in (("present", new.present), *enumerate(new.values)):
                self.state.setdefault((slot.name, column), {})[key] = expr

    def _rewritten(self, node: Expr, args: tuple[Expr, ...], at: int) -> Expr:
        """A node of the step program as it is at a step of this sequence."""
        known = self.known
        match node.op:
            case "time":
                return const(at)
            case "slot":
                return _at(self.state.get(node.data, {}), args, node.type)
            case "rv":
                if node.data in self.infinite and not all(map(is_const, args)):
                    raise NoCircuit(f"which element of {node.data} is read depends on others")
                return _at(self.drawn.get(node.data, {}), args, node.type)
            case "param":
                return known.parameter(node.data, args)
            case "given" | "input":
                return known.input(node, args, at)
            case "neural":
                raise NoCircuit(f"{node.data[0]} is a network")
        return rebuild(node, args)

    def _seen(self, phase: StepProgram, at: int) -> Iterator[ObservationDecl]:
        """The observations that are made at a step, each of one element."""
        known = self.known
        for observation in phase.observations:
            if observation.when is not None and not active(observation.when, at, self.last):
                continue
            positions = product(*(range(a.size) for a in observation.axes))
            for position, (_, element) in zip(positions, _elements(observation), strict=True):
                if observation.value is not None:
                    yield element
                elif known.there(observation.name, at, position):
                    columns = [
                        known.value(observation.name, i, at, position)
                        for i in range(len(observation.types))
                    ]
                    observed = tuple(columns) if observation.is_value else columns[0]
                    yield replace(element, value=observed)

    def _questions(self, phase: StepProgram, at: int) -> tuple[list[_Asked], list[QueryDecl]]:
        """What is asked about a step."""
        asked, queries = [], []
        for question in self.engine.questions:
            when, every = question.query.when, question.at_every_step
            if self.smooth and not every:
                continue
            # What has no time is asked when all evidence is in.
            if not active(AtLast() if when is None else when, at, self.last):
                continue
            given = at if every and not self.smooth else self.last
            condition = question.condition(phase.queries[question.number])
            positions = product(*(range(a.size) for a in question.axes))
            for position, key in zip(positions, places(question.axes), strict=True):
                asked.append(_Asked(given, question, (at if every else 0, *position)))
                queries.append(_query(at_place(condition, question.axes, key)))
        return asked, queries


def _query(holds: Expr) -> QueryDecl:
    return QueryDecl("", None, (), holds, (), ())


def _elements(part: _Placed) -> Iterator[tuple[tuple, _Placed]]:
    """The elements of a plate, told apart."""
    for key in places(part.axes):
        yield key, replace(part.map(partial(at_place, axes=part.axes, key=key)), axes=())


def _at(elements: Mapping[tuple, Expr], keys: tuple[Expr, ...], type_: Type) -> Expr:
    """The element at some keys, which may be values themselves."""
    if all(map(is_const, keys)):
        return elements.get(tuple(k.data for k in keys), _nothing(type_))
    ways = [
        (and_(*(eq(k, const(v)) for k, v in zip(keys, key, strict=True))), expr)
        for key, expr in elements.items()
    ]
    ways = [(here, expr) for here, expr in ways if here is not FALSE]
    if isinstance(type_, Bool):
        return or_(*(and_(here, expr) for here, expr in ways))
    return case(ways) if ways else _nothing(type_)


def _nothing(type_: Type) -> Expr:
    """A value of a type, where it does not matter which."""
    match type_:
        case Bool():
            return FALSE
        case Enum(values):
            return const(values[0])
        case Int(low, high):
            return const(int(low) if low > -np.inf else int(min(high, 0)))
    return const(0.0)
