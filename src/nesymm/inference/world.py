"""What the leaves of expressions mean inside one step of a filter.

A `Moment` is what is known of a step: its time, inputs and observations. A `World` adds
the previous state and the random variables, each of which has a value per particle, or
is enumerated along a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from nesymm.inference.arrays import cast, indexed, stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.lifting import fewer_values, finite_arguments, on_grid, read, value_types
from nesymm.inference.named import Named, expand, union
from nesymm.inference.state import checkpointed
from nesymm.ir.expr import Expr
from nesymm.ir.passes.phases import canonical_axes
from nesymm.ir.step import RandomVariable, StepProgram
from nesymm.ir.types import Enum, TensorAt, Type

if TYPE_CHECKING:
    from nesymm.inference.tables import Tables


@dataclass(frozen=True)
class Moment:
    """What is given at one step.

    `inputs` and `seen` hold per name the columns of the input or observation; `masks` say
    where they are there (None: everywhere). `last` is the last step of each sequence.
    `query_weights` are bonuses for queries: the gradient of the log-evidence with respect to one
    is a probability. `earlier` holds tensors of earlier steps, for networks.
    """

    time: Any
    last: Any
    inputs: Mapping[str, tuple[Named, ...]]
    seen: Mapping[str, tuple[Named, ...]]
    masks: Mapping[str, Named | None]
    query_weights: Mapping[str, Any] = field(default_factory=dict)
    earlier: Mapping[tuple[str, TensorAt], Named] = field(default_factory=dict)


@dataclass(frozen=True)
class Binding:
    """Networks and parameters, and the networks already evaluated for all arguments.

    `masses` are the log-probabilities that such networks give, by network and number of
    outcomes, `plain` the probabilities. `steady` holds the tables of calls that are the same at all
    later steps. Where `fixed`, nothing has a gradient.
    """

    parameters: Mapping[str, Any]
    networks: Mapping[str, Callable[..., Any]]
    lifted: Mapping[tuple, Named] = field(default_factory=dict)
    masses: Mapping[tuple, Named] = field(default_factory=dict)
    plain: Mapping[tuple, Named] = field(default_factory=dict)
    steady: Mapping[tuple, Named] = field(default_factory=dict)
    fixed: bool = False

    def outputs(self, value: Any) -> Any:
        """What a network or parameter gives, without its gradient where it is fixed."""
        return stop_gradient(value) if self.fixed else value


class World:
    """The leaves of expressions in one step.

    `values` are random variables with a value per particle; those in `enumerated` run along
    a choice. Elements of those in `split` are told apart; the others are treated alike
    along their axes. Any other variable is drawn by `draw` when it is first read. Fields of
    the previous state run along choices too if they are in `slot_domains`, unless their position
    is one of the `known_fields`.
    """

    def __init__(
        self,
        step: StepProgram,
        moment: Moment,
        binding: Binding,
        slots: Mapping[tuple[str, Any], Named],
        values: dict[str, Named],
        enumerated: frozenset[str] = frozenset(),
        split: frozenset[str] = frozenset(),
        draw: Callable[[Tables, RandomVariable], Named] | None = None,
        variables: Mapping[str, RandomVariable] | None = None,
        slot_domains: Mapping[tuple[str, Any], tuple] | None = None,
        known_fields: Mapping[str, Named] = MappingProxyType({}),
    ):
        self.step = step
        self.moment = moment
        self.binding = binding
        self.slots = slots
        self.values = values
        self.enumerated = enumerated
        self.split = split
        self.draw = draw
        self.variables = variables or {v.name: v for v in step.variables}
        self.slot_axes = {s.name: s.axes for s in step.slots}
        self.input_axes = {i.name: canonical_axes(i.axes) for i in step.inputs if i.axes}
        self.slot_domains = slot_domains or {}
        self.known_fields = known_fields

    def leaf(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        match expr.op:
            case "time":
                return Named(jnp.asarray(self.moment.time, dtype=low.whole))
            case "input":
                table = self._input(*expr.data)
                return low.at_keys(table, self.input_axes.get(expr.data[0], ()), expr, keys)
            case "given":
                mask = self.moment.masks.get(expr.data)
                if mask is None:
                    return Named(jnp.asarray(expr.data in self.moment.inputs))
                return low.at_keys(mask, self.input_axes.get(expr.data, ()), expr, keys)
            case "slot":
                return self._slot(low, expr, keys)
            case "rv":
                return self._variable(low, expr, keys)
            case "param":
                return self._parameter(low, expr, keys)
            case "neural":
                return self._neural(low, expr, keys)
            case "lfp":
                return low.fixpoint(expr.data[0])[expr.data[1]]
        raise TypeError(f"no value for `{expr.op}`")

    def _input(self, name: str, column: int | TensorAt) -> Named:
        if isinstance(column, TensorAt):
            if not column.is_now:
                return self.moment.earlier[name, column]
            column = 0
        columns = self.moment.seen if name in self.moment.seen else self.moment.inputs
        return columns[name][column]

    def _slot(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        name, _ = expr.data
        axes = self.slot_axes.get(name, ())
        if expr.data in self.slot_domains:
            values = self.slot_domains[expr.data]
            codes = np.asarray([_code(expr.type, v) for v in values])
            return low.elements("slot", expr.data, axes, codes, expr, keys)
        if expr.data not in self.slots:
            # At the first step nothing came before, and what is not carried is not read.
            return low.nothing(expr.type)
        return low.at_keys(self.slots[expr.data], axes, expr, keys)

    def _variable(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        name = expr.data
        variable = self.variables.get(name)
        if variable is None or (variable.guard.op == "const" and not variable.guard.data):
            return low.nothing(expr.type)
        if name in self.enumerated:
            codes = outcome_codes(variable)
            if name in self.split and variable.axes:
                return low.elements("rv", name, variable.axes, codes, expr, keys)
            if tuple(a.data for a in expr.args if a.op == "axis") != variable.axes:
                raise AssertionError(f"{name} is read at keys of its own")
            dim = Choice("rv", name, variable.axes, len(codes))
            return Named(codes, (dim,))
        if name not in self.values:
            if self.draw is None:
                raise AssertionError(f"{name} has no value")
            self.values[name] = self.draw(low, variable)
        return low.at_keys(self.values[name], variable.axes, expr, keys)

    def known(self, low: Tables, name: str) -> Named:
        """The values of a variable that has been drawn."""
        return self.values[name]

    def _parameter(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        given = jnp.asarray(self.binding.parameters[expr.data], dtype=low.real)
        value = self.binding.outputs(given)
        axes = next(p.axes for p in self.step.parameters if p.name == expr.data)
        return low.at_keys(Named(value, axes), axes, expr, keys)

    def _neural(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        _, output = expr.data
        table = self.binding.lifted.get(lift_key(expr))
        if table is not None:
            result = self._lifted(low, table, expr, keys)
        else:
            result = self._called(low, expr, keys)
        if output is None:
            return result
        array = result.array
        behind = array.ndim - len(result.dims)
        flat = array.reshape((*array.shape[: len(result.dims)], -1)) if behind else array[..., None]
        return Named(flat[..., output], result.dims)

    def _called(self, low: Tables, expr: Expr, keys: tuple[Named, ...]) -> Named:
        """What a network gives; where its finite arguments take fewer values than there are
        causes of them, it is called once for each value."""
        finite = finite_arguments(expr, self.types)
        table = self.binding.steady.get((expr.data[0], expr.args))
        if table is None:
            finite = fewer_values(keys, finite)
            table = call_network(self.binding.networks, expr.data[0], on_grid(keys, finite))
        table = Named(self.binding.outputs(table.array), table.dims)
        return read(low, table, expr, finite) if finite else table

    @cached_property
    def types(self) -> dict[Expr, Type]:
        return value_types(self.step)

    def _lifted(
        self, low: Tables, table: Named, expr: Expr, keys: tuple[Named, ...], *more: Named
    ) -> Named:
        """A tabulated network at some arguments (and at `more` positions of its output)."""
        finite = finite_arguments(expr, {})
        indices = [low.index(k, t) for k, t in zip(keys, finite.values(), strict=True)]
        indices += more
        dims = union(i.dims for i in indices)
        whole = self.binding.outputs(table.array)
        # One row number for all arguments: gathers and their transposes like it best.
        sizes = whole.shape[: len(indices)]
        row: Any = 0
        for index, size in zip(indices, sizes, strict=True):
            row = row * size + expand(index, dims)
        row = checkpointed(row)
        flat = whole.reshape(-1, *whole.shape[len(indices) :])
        return Named(jnp.take(flat, row, axis=0, mode="clip"), dims)

    def log_masses(self, low: Tables, expr: Any, outcomes: int, *at: Named) -> Named | None:
        """Log-probabilities from a tabulated network, of all outcomes or of one; else None."""
        if not isinstance(expr, Expr) or expr.op != "neural" or expr.data[1] is not None:
            return None
        table = self.binding.masses.get((lift_key(expr), outcomes))
        if table is None:
            return None
        return self._lifted(low, table, expr, tuple(low.value(a) for a in expr.args), *at)

    def plain_masses(self, low: Tables, expr: Any, outcomes: int) -> Named | None:
        """The same as probabilities."""
        table = self.binding.plain.get((lift_key(expr), outcomes))
        if table is None:
            return None
        return self._lifted(low, table, expr, tuple(low.value(a) for a in expr.args))


def call_network(networks: Mapping[str, Any], name: str, args: tuple[Named, ...]) -> Named:
    """A network on arrays of arguments: it is written for one, and mapped over the rest."""
    dims = union(a.dims for a in args)
    arrays = [expand(a, dims) for a in args]
    function = networks[name]
    if not dims:
        return Named(jnp.asarray(function(*arrays)))
    lead = jnp.broadcast_shapes(*(a.shape[: len(dims)] for a in arrays))
    flat = [
        jnp.broadcast_to(a, (*lead, *a.shape[len(dims) :])).reshape(-1, *a.shape[len(dims) :])
        for a in arrays
    ]
    result = jnp.asarray(jax.vmap(function)(*flat))
    return Named(result.reshape((*lead, *result.shape[1:])), dims)


def lift_key(expr: Expr) -> tuple:
    return (expr.data[0], tuple(a.type for a in expr.args))


def outcome_codes(variable: RandomVariable) -> np.ndarray:
    """The values of a finite variable as arrays hold them; reals have 64 bits, as constants."""
    return np.asarray([_code(variable.type, v) for v in variable.outcomes])


def coded(variable: RandomVariable, index: Any) -> Any:
    """The values of a finite variable at some positions. Consecutive ones need no gather."""
    codes = outcome_codes(variable)
    array = jnp.asarray(codes)
    if codes.dtype == bool and codes.tolist() == [False, True]:
        return index == 1
    if codes.dtype.kind == "i" and (np.diff(codes) == 1).all():
        return cast(index, array.dtype) + array[0]
    return indexed(array, index)


def _code(type_: Type, value: Any) -> Any:
    return type_.values.index(value) if isinstance(type_, Enum) else value
