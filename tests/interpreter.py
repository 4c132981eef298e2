"""The reference interpreter: slow, obvious, plain Python.

It runs a `StepProgram` one world at a time. Every expression means here exactly what
its table in `expr` says; every fast path is tested against it. Random variables are
drawn when they are first looked at, by whatever `choose` one passes in: a sampler, or
the enumeration of all worlds in `reference`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.ir.arithmetic import BINARY, UNARY, compute
from nesymm.ir.axes import places as keys_along
from nesymm.ir.expr import Axis, Expr
from nesymm.ir.step import ObservationDecl, QueryDecl, RandomVariable, Slot, StepProgram, active
from nesymm.ir.symbols import map_symbols
from nesymm.ir.types import Tensor, TensorAt, Type, domain, is_finite

Key = tuple
Place = dict[Axis, Any]
Choose = Callable[[RandomVariable, Key, tuple], Any]


class RunError(NesymmError):
    """Something that a program forbids, or that data lacks, at run time."""


@dataclass(frozen=True)
class State:
    """What one step leaves to the next: per slot and key its values (None if absent),
    and the static variables drawn so far."""

    slots: Mapping[str, Mapping[Key, tuple | None]] = field(default_factory=dict)
    statics: Mapping[tuple[str, Key], Any] = field(default_factory=dict)

    def frozen(self) -> tuple:
        """A hashable image of the state."""
        slots = tuple(
            (n, tuple(sorted(s.items(), key=repr))) for n, s in sorted(self.slots.items())
        )
        return slots, tuple(sorted(self.statics.items(), key=repr))


@dataclass
class World:
    """One step of one world: evaluates expressions on demand, draws on demand."""

    step: StepProgram
    time: int
    last: int
    state: State
    inputs: Mapping[str, Any]
    choose: Choose
    networks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.variables = {v.name: v for v in self.step.variables}
        self.slots = {s.name: s for s in self.step.slots}
        self.drawn: dict[tuple[str, Key], Any] = dict(self.state.statics)
        self.memo: dict[tuple[int, tuple], Any] = {}
        self.fixpoints: dict[int, list[bool]] = {}

    # ------------------------------------------------------------ expressions

    def value(self, expr: Expr, place: Place | None = None) -> Any:
        place = place or {}
        where = tuple(place[a] for a in sorted(expr.axes, key=lambda a: a.name))
        key = (id(expr), where)
        if key not in self.memo:
            self.memo[key] = self._value(expr, place)
        return self.memo[key]

    def _value(self, expr: Expr, place: Place) -> Any:
        op, args, data = expr.op, expr.args, expr.data
        match op:
            case "const":
                return data
            case "axis":
                return place[data]
            case "time":
                return self.time
            case "input":
                return self._input(*data, tuple(self.value(a, place) for a in args))
            case "given":
                return self._entry(data, tuple(self.value(a, place) for a in args)) is not None
            case "slot":
                return self._slot(data, tuple(self.value(a, place) for a in args))
            case "rv":
                return self.draw(data, tuple(self.value(a, place) for a in args))
            case "vector":
                return tuple(self.value(a, place) for a in args)
            case "item":
                return self.value(args[0], place)[data]
            case "param":
                found = self._named("parameter", self.parameters, data)
                keys = tuple(self.value(a, place) for a in args)
                return found[keys] if keys else found
            case "neural":
                net, output = data
                function = self._named("network", self.networks, net)
                result = function(*(_for_network(self.value(a, place)) for a in args))
                return result if output is None else _item(result, output)
            case "and":
                return all(self.value(a, place) for a in args)
            case "or":
                return any(self.value(a, place) for a in args)
            case "not":
                return not self.value(args[0], place)
            case "eq":
                return self.value(args[0], place) == self.value(args[1], place)
            case "lt":
                return self.value(args[0], place) < self.value(args[1], place)
            case "le":
                return self.value(args[0], place) <= self.value(args[1], place)
            case "number":
                return int(self.value(args[0], place))
            case "case":
                for i in range(0, len(args), 2):
                    if self.value(args[i], place):
                        return self.value(args[i + 1], place)
                return self.value(args[1], place)
            case "sigmoid":
                return 1 / (1 + math.exp(-self.value(args[0], place)))
            case "softplus":
                return math.log1p(math.exp(self.value(args[0], place)))
            case "lookup":
                keys = tuple(self.value(a, place) for a in args)
                return data.entries.get(keys, data.default)
            case "lfp":
                system, index = data
                return self._fixpoint(system)[index]
            case "any":
                return any(self.value(args[0], p) for p in _along(data, place))
            case "sum" | "min" | "max" | "pick" if isinstance(data, Axis):
                return self._reduce(op, data, args, place)
        if op in UNARY or op in BINARY:
            return self._compute(op, [self.value(a, place) for a in args])
        raise TypeError(f"the interpreter does not know `{op}`")

    def _compute(self, op: str, values: list) -> Any:
        try:
            return compute(op, *values)
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            shown = ", ".join(map(str, values))
            raise RunError(f"at step {self.time}: {op}({shown}) has no value: {error}") from None

    def _reduce(self, op: str, axis: Axis, args: tuple[Expr, ...], place: Place) -> Any:
        places = [p for p in _along(axis, place) if self.value(args[0], p)]
        if op == "pick":
            return self.value(args[1], places[0] if places else next(iter(_along(axis, place))))
        values = [self.value(args[1], p) for p in places]
        if op == "sum":
            return sum(values)
        if not values:
            return self.value(args[1], next(iter(_along(axis, place))))
        return min(values) if op == "min" else max(values)

    def _fixpoint(self, system: Any) -> list[bool]:
        """Least fixpoint: all false, then apply the definitions until nothing changes."""
        if id(system) in self.fixpoints:
            return self.fixpoints[id(system)]
        current = [False] * len(system.definitions)
        while True:
            inner = World(
                self.step,
                self.time,
                self.last,
                self.state,
                self.inputs,
                self.choose,
                self.networks,
                self.parameters,
            )
            inner.drawn = self.drawn
            inner.fixpoints = {**self.fixpoints, id(system): current}
            following = [bool(inner.value(d)) for d in system.definitions]
            if following == current:
                self.fixpoints[id(system)] = current
                return current
            current = following

    def _named(self, kind: str, table: Mapping[str, Any], name: str) -> Any:
        if name not in table:
            raise RunError(f"the {kind} {name} is not given")
        return table[name]

    def _entry(self, name: str, key: Key) -> Any:
        """What an input is at a key: lists within lists, in the order of the domains."""
        value = self.inputs.get(name)
        axes = next((i.axes for i in self.step.inputs if i.name == name), ())
        for axis, k in zip(axes, key, strict=True):
            values = domain(axis.type)
            value = None if value is None or k not in values else value[values.index(k)]
        return value

    def _input(self, name: str, fld: Any, key: Key) -> Any:
        value = self._entry(name, key)
        if isinstance(fld, TensorAt):
            return self.inputs.get(f"{name}@{fld}", value)
        if value is None:
            # Absent at this step; the presence of the input guards every use of it.
            decl = next(i for i in self.step.inputs if i.name == name)
            return anything(decl.fields[fld])
        return value[fld] if isinstance(value, tuple | list) else value

    def _slot(self, data: tuple[str, Any], key: Key) -> Any:
        name, fld = data
        found = self.state.slots.get(name, {}).get(key)
        if fld == "present":
            return found is not None
        if found is None:
            return anything(self.slots[name].fields[fld])
        return found[fld]

    # ------------------------------------------------------------ random variables

    def draw(self, name: str, key: Key) -> Any:
        if (name, key) in self.drawn:
            return self.drawn[name, key]
        variable = self.variables[name]
        place = dict(zip(variable.axes, key, strict=True))
        if not self.value(variable.guard, place):
            # Not applicable: whatever depends on it is guarded too.
            return variable.support[0] if variable.support else anything(variable.type)
        value = self.choose(variable, key, self.parameters_of(variable, place))
        self.drawn[name, key] = value
        return value

    def parameters_of(self, variable: RandomVariable, place: Place) -> tuple:
        return tuple(
            tuple(self.value(e, place) for e in p) if isinstance(p, tuple) else self.value(p, place)
            for p in variable.params
        )

    # ------------------------------------------------------------ the outcome of a step

    def check_flags(self) -> None:
        for flag in self.step.flags:
            if self.value(flag.condition):
                raise RunError(f"at step {self.time}: {flag.message}")

    def observed(self, observation: ObservationDecl, data: Mapping[str, Any]) -> float:
        """The likelihood of an observation: 0 or 1, or a density."""
        if not active(observation.when, self.time, self.last):
            return 1.0
        weight = 1.0
        for place in places(observation.axes):
            value = observation.value
            if value is None:
                value = data.get(observation.name)
                if isinstance(value, Mapping):
                    value = value.get(tuple(place.values()))
                elif observation.axes and isinstance(value, list):
                    for axis, key in place.items():
                        value = value[domain(axis.type).index(key)]
                if value is None:
                    continue
            if observation.is_value:
                weight *= self._value_weight(observation, value, place)
            else:
                weight *= float(bool(self.value(observation.holds, place)) == bool(value))
        return weight

    def _value_weight(self, observation: ObservationDecl, value: Any, place: Place) -> float:
        wanted = value if isinstance(value, tuple) else (value,)
        for branch in observation.branches:
            if not self.value(branch.condition, place):
                continue
            weight = 1.0
            for expr, want in zip(branch.values, wanted, strict=True):
                if expr.op == "rv" and not self.variables[expr.data].finite:
                    variable = self.variables[expr.data]
                    key = tuple(self.value(a, place) for a in expr.args)
                    own = dict(zip(variable.axes, key, strict=True))
                    weight *= density(variable, self.parameters_of(variable, own), want)
                    self.drawn[variable.name, key] = want
                else:
                    weight *= float(self.value(expr, place) == want)
            return weight
        return 0.0

    def asked(self, query: QueryDecl) -> list[tuple[str, bool]]:
        """The groundings of a query that hold in this world, by name."""
        if not query.axes and not query.values:
            return [(query.name, bool(self.value(query.holds)))]
        out = []
        suffix = str(query.when) if query.when is not None else ""
        for place in places(query.axes):
            if self.value(query.holds, place):
                values = iter(self.value(v, place) for v in query.values)
                terms = map_symbols(query.template, lambda _: next(values))  # noqa: B023
                out.append((query.answer(terms) + suffix, True))
        return out

    def next_state(self) -> State:
        slots = {}
        for slot in self.step.slots:
            slots[slot.name] = self._next_slot(slot)
        statics = {(n, k): v for (n, k), v in self.drawn.items() if self.variables[n].static}
        return State(slots, statics)

    def _next_slot(self, slot: Slot) -> dict[Key, tuple]:
        out = {}
        for place in places(slot.axes):
            if self.value(slot.present, place):
                key = tuple(place[a] for a in slot.axes)
                out[key] = tuple(self.value(v, place) for v in slot.values)
        return out


def places(axes: tuple[Axis, ...]) -> list[Place]:
    """Every combination of values along some axes."""
    return [dict(zip(axes, key, strict=True)) for key in keys_along(axes)]


def _along(axis: Axis, place: Place) -> list[Place]:
    return [{**place, axis: value} for value in domain(axis.type)]


def anything(type_: Type) -> Any:
    """A value where none is drawn or carried; nobody looks at it."""
    if isinstance(type_, Tensor):
        entries: Any = 0.0
        for size in reversed(type_.shape or ()):
            entries = (entries,) * size
        return entries
    return domain(type_)[0] if is_finite(type_) else 0


def _for_network(value: Any) -> Any:
    """Networks take arrays; here a vector is a tuple."""
    if not isinstance(value, tuple):
        return value
    import numpy as np

    return np.asarray(value)


def _item(result: Any, index: int) -> float:
    try:
        return float(result[index])
    except (TypeError, IndexError):
        return float(result)


# ---------------------------------------------------------------- densities


def density(variable: RandomVariable, params: tuple, value: Any) -> float:
    """The density of a continuous variable, or the mass of a discrete one, at a value."""
    match variable.family:
        case "normal":
            mean, sd = params[0] if variable.neural else params
            return math.exp(-0.5 * ((value - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
        case "uniform":
            low, high = params
            return float(low <= value <= high) / (high - low)
        case "exponential":
            return params[0] * math.exp(-params[0] * value) if value >= 0 else 0.0
        case "multivariate_normal":
            mean, covariance = params
            return normal_density(mean, covariance, value)
        case "poisson":
            return math.exp(-params[0] + value * math.log(params[0]) - math.lgamma(value + 1))
        case "geometric":
            return params[0] * (1 - params[0]) ** value
        case "gamma":
            a, b = params
            return math.exp(
                a * math.log(b) + (a - 1) * math.log(value) - b * value - math.lgamma(a)
            )
        case "beta":
            a, b = params
            log_b = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
            return math.exp((a - 1) * math.log(value) + (b - 1) * math.log(1 - value) - log_b)
    raise NesymmError(f"the reference interpreter has no density for {variable.family}")


def normal_density(
    mean: Sequence[float], covariance: Sequence[Sequence[float]], at: Sequence[float]
) -> float:
    """The density of a multivariate normal."""
    sigma, away = np.array(covariance), np.subtract(at, mean)
    if np.linalg.eigvalsh(sigma).min() <= 0:
        raise ValueError("the covariance is not positive definite")
    log = -0.5 * float(away @ np.linalg.solve(sigma, away))
    log -= 0.5 * float(np.linalg.slogdet(2 * math.pi * sigma)[1])
    return math.exp(log)
