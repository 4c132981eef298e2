"""Explanation: the clauses that fired along a trajectory, and what held in their bodies.

Grounding keeps, beside the step program, when each clause fires and the values of its variables
then (`Provenance`). Here these expressions are evaluated, step by step, for what was drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from nesymm.inference.atoms import decode
from nesymm.inference.data import Sequences, prepare, wanted
from nesymm.inference.elimination.choices import BATCH
from nesymm.inference.loop import earlier_tensors, moment_of, to_arrays
from nesymm.inference.named import Named, expand, union
from nesymm.inference.networks import Networks
from nesymm.inference.sampling import Draws
from nesymm.inference.tables import Tables
from nesymm.inference.world import Binding, World
from nesymm.ir.expr import FALSE, Axis, in_order, leaves
from nesymm.ir.passes.phases import at_first, at_later
from nesymm.ir.step import ClauseUse, Hole, Provenance, RandomVariable
from nesymm.ir.symbols import CondList, inside
from nesymm.ir.terms import Compound, show
from nesymm.language.check.terms import OURS
from nesymm.language.printer import pprint
from nesymm.language.program import (
    At,
    Atom,
    Body,
    Builtin,
    Call,
    CheckedProgram,
    Clause,
    Collect,
    Draw,
    Literal,
    Negation,
    Now,
)
from nesymm.language.terms import ListTerm, Num, Struct, Term, Var
from nesymm.language.values import heads

if TYPE_CHECKING:
    from nesymm.model import Model

# The position of an element: along the axes of the program, and of the only sequence.
Place = Mapping[Any, int]


@dataclass(frozen=True)
class Firing:
    """A clause that fired: what it derived, and what held in its body.

    It stands in the text `source`, which is an extension of the program or (not `extends`) its
    first text.
    """

    step: int
    head: str
    because: tuple[str, ...]
    clause: str
    line: int | None
    source: str | None
    extends: bool = False

    def __str__(self) -> str:
        reason = f" because {', '.join(self.because)}" if self.because else ""
        if self.line is None:
            return f"{self.head}{reason}"
        place = f"line {self.line}" + (f" of {self.source}" if self.extends else "")
        return f"{self.head}{reason}  [{place}]"


class Explainer:
    """Finds which clauses fired along what was drawn, given some data."""

    def __init__(self, model: Model, drawn: Draws, given: Mapping[str, Any]):
        self.model = model
        self.drawn = drawn
        kinds = {name: want.kind for name, want in wanted(model.step).items()}
        self.given = {n: np.asanyarray(v) for n, v in given.items() if kinds[n] == "input"}
        whole = model.step.provenance
        self.past = earlier_tensors(whole.expressions())
        carried = {name for name, _ in drawn.fields}
        slots = {s.name for s in model.step.slots}
        self.first = self._known(at_first(whole), drawn.undrawn[0], slots)
        self.later = self._known(at_later(whole), drawn.undrawn[1], carried)

    def firings(self, sequence: int, trajectory: int) -> list[Firing]:
        """All that fired in one trajectory, in the order of steps and clauses."""
        inputs = self._inputs(sequence)
        arrays = to_arrays(inputs)
        out: list[Firing] = []
        for time in range(int(self.drawn.lengths[sequence])):
            low = self._world(inputs, arrays, (sequence, trajectory), time)
            for clause, uses in (self.first if time == 0 else self.later).items():
                out += _fired(self.model.program, clause, uses, low, time)
        return out

    def _known(
        self, phase: Provenance, undrawn: frozenset[str], carried: set[str]
    ) -> dict[int, list[ClauseUse]]:
        """The uses of clauses that can be evaluated in a phase, by clause: what they read was
        drawn."""
        drawn = self.drawn.variables.keys() - undrawn
        out: dict[int, list[ClauseUse]] = defaultdict(list)
        for use, here in zip(self.model.step.provenance.uses, phase.uses, strict=True):
            expressions = list(here.expressions())
            read = {n.data for n in leaves(expressions, "rv")}
            before = {n.data[0] for n in leaves(expressions, "slot")}
            if here.holds is not FALSE and read <= drawn and before <= carried:
                # The items of a list run along axes, also where they are all the same in a phase.
                out[use.clause].append(replace(use, holds=here.holds))
        return out

    def _inputs(self, sequence: int) -> Sequences:
        """The inputs of one sequence."""
        length = int(self.drawn.lengths[sequence])
        timed = any(w.timed for n, w in wanted(self.model.step).items() if n in self.given)
        rows = {n: a[sequence : sequence + 1] for n, a in self.given.items()}
        return prepare(self.model.step, rows, [length] if timed else length, ends=False)

    def _world(
        self, inputs: Sequences, arrays: Mapping[str, Any], at: tuple[int, int], time: int
    ) -> Tables:
        """What was drawn at a step, and at the step before."""
        step, real = self.model.step, np.dtype(jnp.zeros(()).dtype)
        slices = jax.tree.map(lambda x: x[time], arrays["timed"])
        moment = moment_of(inputs, arrays, slices, time, real, self.past)
        axes = {s.name: s.axes for s in step.slots} | {v.name: v.axes for v in step.variables}
        slots = {
            column: _named(array[at][time - 1], axes[column[0]])
            for column, array in self.drawn.fields.items()
            if time and column[0] in axes
        }
        values = {
            name: _named(array[at][time], axes[name])
            for name, array in self.drawn.variables.items()
            if name in axes
        }
        binding = Binding(self.model.parameters, Networks(step, self.model.networks))
        world = World(step, moment, binding, slots, values, draw=_undrawn)
        return Tables(world, real)


def _undrawn(low: Tables, variable: RandomVariable) -> Named:
    """A value that nothing depends on at this step."""
    return low.nothing(variable.type)


def _named(array: np.ndarray, axes: tuple[Axis, ...]) -> Named:
    """An array with the names of its axes, of which those of one value were left out."""
    return Named(array, tuple(a for a in axes if a.size > 1))


# ---------------------------------------------------------------- what fired


def _fired(
    program: CheckedProgram, number: int, uses: list[ClauseUse], low: Tables, time: int
) -> list[Firing]:
    """How a clause fired at a step, each way once."""
    clause = program.clauses[number]
    if heads(clause)[0].time is None and time > 0:
        return []
    bodies = [env for use in uses if use.head is None for _, env in _instances(low, use)]
    out: dict[Firing, None] = {}
    for use in uses:
        for head, env in _instances(low, use) if use.head is not None else ():
            whole = [env]
            if isinstance(clause, Draw):
                # Its body says what the other variables are.
                whole = [body | env for body in bodies if _agree(body, env)]
            for bound in whole:
                out[_firing(program, clause, use.option, head, bound, time)] = None
    return list(out)


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def _instances(low: Tables, use: ClauseUse) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """The arguments of the head and the variables, for each way in which a use holds."""
    holds = low.value(use.holds)
    values = [low.value(v) for v in use.values]
    lists = [x for _, term in use.bindings for x in inside(term) if type(x) is CondList]
    own = {axis for value in lists for axis in value.own}
    dims = union([holds.dims, *(v.dims for v in values)])
    axes = [d for d in dims if isinstance(d, Axis) and d not in own]
    sizes = [a.size for a in axes]
    truth = expand(_only(holds), tuple(axes))
    for position in np.argwhere(np.broadcast_to(truth, sizes)):
        place = dict(zip(axes, map(int, position), strict=True))

        def filled(term: Any, place: Place = place) -> Any:
            return _filled_holes(use, values, term, place)

        yield filled(use.head), {name: filled(term) for name, term in use.bindings}


def _filled_holes(use: ClauseUse, values: list[Named], term: Any, place: Place) -> Any:
    """A term with its holes filled by the values at a place."""
    match term:
        case Hole():
            value = _only(values[term.i])
            at = tuple(place[d] for d in value.dims)
            return decode(use.values[term.i].type, value.array[at])
        case tuple():
            return tuple(_filled_holes(use, values, t, place) for t in term)
        case Compound(functor, args):
            return Compound(functor, _filled_holes(use, values, args, place))
        case CondList():
            return tuple(_items(use, values, term, place))
    return term


def _items(use: ClauseUse, values: list[Named], term: CondList, place: Place) -> Iterator[Any]:
    """The items of a list that are there."""
    for item in term.items:
        read = {a for x in inside(item) if type(x) is Hole for a in use.values[x.i].axes}
        along = in_order(read & term.own)
        for position in np.ndindex(*(d.size for d in along)):
            here = {**place, **dict(zip(along, position, strict=True))}
            value, there = _filled_holes(use, values, item, here)
            if there:
                yield value


def _only(value: Named) -> Named:
    """A value of the only sequence."""
    if BATCH not in value.dims:
        return value
    at = value.dims.index(BATCH)
    return Named(np.take(value.array, 0, axis=at), tuple(d for d in value.dims if d != BATCH))


def _firing(
    program: CheckedProgram,
    clause: Clause,
    option: int,
    args: tuple,
    env: Mapping[str, Any],
    time: int,
) -> Firing:
    head = heads(clause)[option]
    span = clause.span or head.span
    text = span.text if span is not None else pprint(Struct(head.pred.name, head.args))
    return Firing(
        time,
        _shown(head, tuple(_as_term(a) for a in args[: len(head.args)]), time),
        _held(clause.body, env, time),
        " ".join(text.split()),
        span.line if span is not None else None,
        span.source.name if span is not None else None,
        span is not None and span.source != program.sources[0],
    )


# ---------------------------------------------------------------- words


def _held(body: Body, env: Mapping[str, Any], time: int) -> tuple[str, ...]:
    return tuple(_literal(literal, env, time) for literal in body if not _is_ours(literal))


def _is_ours(literal: Literal) -> bool:
    """The comparison of a collected list with what it should be: the program has one goal."""
    match literal:
        case Builtin("$list"):
            return True
        case Builtin("=", (_, Var(name))):
            return OURS in name
    return False


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
            inside = ", ".join(_held(body, env, time))
            goal = inside if len(body) == 1 else f"({inside})"
            item, found = pprint(_filled(template, env)), pprint(_filled(result, env))
            if kind in ("findall", "all"):
                return f"{kind}({item}, {goal}, {found})"
            kind = kind.removesuffix("_all")
            what = kind if kind == "count" else f"{kind}({item})"
            return f"aggregate_all({what}, {goal}, {found})"
    return "(" + "; ".join(", ".join(_held(b, env, time)) for b in literal.bodies) + ")"


def _atom(atom: Atom, env: Mapping[str, Any], time: int) -> str:
    return _shown(atom, tuple(_filled(a, env) for a in atom.args), time)


def _shown(atom: Atom, args: tuple[Term, ...], time: int) -> str:
    """An atom with some arguments, at its time where the step is `time`."""
    shown = pprint(Struct(atom.pred.name))
    if args:
        shown += f"({','.join(map(pprint, args))})"
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
            if name in env:
                return _as_term(env[name])
            return Var("_") if OURS in name else term  # an `_` has a name of ours
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
