"""What the leaves of expressions mean inside one step of a filter.

A `Moment` is what is known of a step: its time, inputs and observations. A `World` adds
the previous state and the random variables, each of which has a value per particle, or
is enumerated along a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import cast, indexed, stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.choices import Choice, cells, choices
from nesymm.inference.elimination.disjunction import disjunction
from nesymm.inference.elimination.factors import NAMINGS, ROOM, Capacity, Factor, Naming
from nesymm.inference.lifting import (
    fewer_values,
    finite_arguments,
    on_grid,
    read,
    value_types,
)
from nesymm.inference.lower import Lowering
from nesymm.inference.named import Named, apply, expand, union
from nesymm.inference.state import checkpointed
from nesymm.ir.algebra import is_const
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis, Expr, System, make, postorder, rewrite
from nesymm.ir.passes.phases import canonical_axes
from nesymm.ir.passes.plates import written_out
from nesymm.ir.step import RandomVariable, StepProgram
from nesymm.ir.types import BOOL, Bool, Enum, Int, Type, domain, is_finite


@dataclass(frozen=True)
class Moment:
    """What is given at one step.

    `inputs` and `seen` hold per name the columns of the input or observation; `masks` say
    where they are there (None: everywhere). `last` is the last step of each sequence.
    `query_weights` are bonuses for queries: the gradient of the log-evidence with respect to one
    is a probability.
    """

    time: Any
    last: Any
    inputs: Mapping[str, tuple[Named, ...]]
    seen: Mapping[str, tuple[Named, ...]]
    masks: Mapping[str, Named | None]
    query_weights: Mapping[str, Any] = field(default_factory=dict)


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

    def _input(self, name: str, column: Any) -> Named:
        if isinstance(column, str) and column != "now":
            name, column = f"{name}@{column}", "now"
        if name in self.moment.seen:
            return self.moment.seen[name][column]
        return self.moment.inputs[name][0 if isinstance(column, str) else column]

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
        indices = [low.index(k, _index_type(a.type)) for k, a in zip(keys, expr.args, strict=True)]
        indices += more
        dims = union(i.dims for i in indices)
        whole = self.binding.outputs(table.array)
        # One row number for all arguments: gathers and their transposes like it best.
        sizes = whole.shape[: len(indices)]
        row: Any = 0
        for index, size in zip(indices, sizes, strict=True):
            row = row * size + expand(jnp, index, dims)
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
    arrays = [expand(jnp, a, dims) for a in args]
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


def _index_type(type_: Type) -> Int | Enum:
    return type_ if isinstance(type_, Int | Enum) else Int(0, 1)


def outcome_codes(variable: RandomVariable) -> np.ndarray:
    """The values of a finite variable as arrays hold them."""
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


# A condition on more joint values than this gets a name where several others read it.
_FEW_CELLS = 16


class Tables(Lowering):
    """Evaluates expressions over enumerated dimensions; keeps their tables small.

    A condition over many joint values is replaced by a choice of its own, true or false,
    and factors that tie it to what it stands for: `factors` collects these. Where `shared`
    is given, the expressions in it, which several others read, get one in any case; the
    `positions` of these are not made into factors (see `summation`). Values that would make a
    table large get one too, where the `naming` says so. With `edges`, learnable probabilities have
    gradients where they are 0 or 1, too.
    """

    def __init__(
        self,
        world: World,
        real: Any,
        capacity: Capacity = ROOM,
        shared: frozenset[int] | None = None,
        naming: Naming = NAMINGS[0],
        often: frozenset[int] = frozenset(),
        edges: bool = False,
    ):
        super().__init__(jnp, world, real)
        self.edges = edges
        self.world = world
        self.capacity = capacity
        self.shared = shared
        self.naming = naming
        self.often = often
        self.factors: list[tuple[Named, ...]] = []
        self.positions: dict[int, Named] = {}
        self.fixpoints: dict[int, list[Named]] = {}
        self.names: dict[int, Any] = {}
        self.labels: dict[tuple, tuple[Named, Named]] = {}  # conditions with their names

    def name_of(self, expr: Expr, index: Named, type_: Int | Enum) -> Any:
        """The choice that stands for the positions of an expression in a finite type."""
        if id(expr) not in self.names:
            first = int(type_.lo) if isinstance(type_, Int) else 0
            (dim,) = self._named_value(Named(index.array + first, index.dims), type_).dims
            self.names[id(expr)] = dim
        return self.names[id(expr)]

    def _node(self, expr: Expr) -> Named:
        args = tuple(self.memo[id(a)] for a in expr.args)
        lifted = isinstance(expr.data, Axis) and any(
            expr.data in d.plates for a in args for d in choices(a.dims)
        )
        if lifted and expr.op == "any":
            result = self._any_along(args[0], expr.data)
        elif lifted:
            # See `lifting`: no other reduction has a rule for elements side by side.
            result = self.value(written_out(expr.op, expr.data, expr.args))
        elif expr.op in ("and", "or") and cells(union(a.dims for a in args)) > self.naming.above:
            result = self._connective(expr.op, args)
        elif expr.op == "case" and self._many(args):
            result = self._long_case(expr, args)
        else:
            if expr.op == "add" and self._ties_together(args):
                # The total of many things takes few values: it is kept, and not what led to it.
                self._name_addends(expr)
            elif len(args) > 1 and self._many(args):
                for arg in expr.args:
                    self.memo[id(arg)] = self._compact(self.memo[id(arg)], arg.type)
            self._check(union(self.memo[id(a)].dims for a in expr.args))
            result = super()._node(expr)
        self._check(result.dims)
        if self.shared is not None:
            result = _certain(result)
            if id(expr) in self.shared and (self.naming.shared or self._many([result])):
                result = self._compact(result, expr.type)
        elif id(expr) in self.often and expr.type == BOOL and cells(result.dims) > _FEW_CELLS:
            result = self.named(result)
        return result

    def _many(self, values: Sequence[Named]) -> bool:
        """Whether values depend on so much together that some of them should have names."""
        return self.naming.values and cells(union(v.dims for v in values)) > self.naming.above

    def _compact(self, value: Named, type_: Type) -> Named:
        """The same value as a choice of its own, where it has fewer values than causes."""
        behind = value.array.ndim - len(value.dims)
        if behind or any(isinstance(d, Axis) for d in value.dims) or len(choices(value.dims)) < 2:
            return value
        if isinstance(type_, Bool):
            return self.named(value)
        if not isinstance(type_, Int | Enum) or not is_finite(type_):
            return value
        return self._named_value(value, type_) if cells(value.dims) > type_.size else value

    def _long_case(self, expr: Expr, args: tuple[Named, ...]) -> Named:
        """A choice between many branches, the last ones first, a few causes at a time."""
        result: Named | None = None
        pairs = zip(expr.args[::2], expr.args[1::2], args[::2], args[1::2], strict=True)
        for condition, source, holds, branch in reversed([*pairs]):
            value = self.recode(branch, source.type, expr.type)
            if result is None:
                result = value
                continue
            if cells(union([holds.dims, value.dims, result.dims])) > self.naming.above:
                holds = self._compact(holds, condition.type)
                value = self._compact(value, expr.type)
                result = self._compact(result, expr.type)
            self._check(union([holds.dims, value.dims, result.dims]))
            result = apply(jnp, jnp.where, holds, value, result)
        assert result is not None
        return result

    def _ties_together(self, args: tuple[Named, ...]) -> bool:
        """Whether things that have little to do with each other meet in a large table."""
        together = cells(union(a.dims for a in args))
        return together > max(self.naming.above, *(cells(a.dims) for a in args))

    def _name_addends(self, total: Expr) -> None:
        """Whole numbers as choices of their own, where they have fewer values than causes."""
        for part in total.args:
            value, type_ = self.memo[id(part)], part.type
            if not isinstance(type_, Int) or not is_finite(type_):
                continue
            if cells(value.dims) <= type_.size:
                continue
            if part.op == "add":
                self._name_addends(part)
                value = super()._node(part)
            self.memo[id(part)] = self._named_value(value, type_)

    def _named_value(self, value: Named, type_: Int | Enum) -> Named:
        first = int(type_.lo) if isinstance(type_, Int) else 0
        values = jnp.arange(first, first + int(type_.size), dtype=self.whole)
        dim = self._aux(value, len(values))
        own = Named(values, (dim,))
        if self.shared is not None:
            index = jnp.clip(value.array - first, 0, len(values) - 1)
            return self._define(Named(index, value.dims), own)
        self.factors.append((log_truth(apply(jnp, jnp.equal, own, value), self.real),))
        return own

    def _define(self, index: Named, own: Named) -> Named:
        """Remember the position that a choice has given others; its values are `own`."""
        self.positions[len(self.factors)] = index
        self.factors.append(())
        return own

    def _check(self, dims: tuple) -> None:
        self.capacity.refuse(dims)

    def _connective(self, op: str, args: tuple[Named, ...]) -> Named:
        """and/or of many conditions, a few at a time."""
        both = jnp.logical_and if op == "and" else jnp.logical_or
        small = sorted(args, key=lambda a: cells(a.dims))
        result = small[0]
        for arg in small[1:]:
            if cells(union([result.dims, arg.dims])) > self.naming.above:
                result, arg = self.named(result), self.named(arg)
            result = apply(jnp, both, result, arg)
        return result

    def named(self, condition: Named) -> Named:
        """The same condition as a choice of its own."""
        if cells(condition.dims) <= 2:
            return condition
        # Two names for one thing would tie together, through it, all that reads them.
        key = (id(condition.array), condition.dims)
        if key not in self.labels:
            self.labels[key] = (condition, self._labelled(condition))
        return self.labels[key][1]

    def _labelled(self, condition: Named) -> Named:
        if self.shared is not None:
            dim = self._aux(condition, 2)
            truth = Named(jnp.asarray([False, True]), (dim,))
            return self._define(Named(condition.array * 1, condition.dims), truth)
        return Named(jnp.asarray([False, True]), (self._name(condition),))

    def _aux(self, value: Named, size: int) -> Choice:
        # What depends on choices of a plate lives in the plate, though it has no such axis.
        plates = [a for d in choices(value.dims) for a in d.plates]
        axes = union([[d for d in value.dims if isinstance(d, Axis)], plates])
        return Choice("aux", len(self.factors), axes, size)

    def _name(self, condition: Named) -> Choice:
        dim = self._aux(condition, 2)
        truth = Named(jnp.asarray([False, True]), (dim,))
        self.factors.append((log_truth(apply(jnp, jnp.equal, truth, condition), self.real),))
        return dim

    def _any_along(self, condition: Named, axis: Axis) -> Named:
        """Whether a condition on the choices of a plate holds anywhere in it."""
        part = self._name(condition)
        outside = tuple(a for a in part.plates if a != axis)
        whole = Choice("aux", len(self.factors), outside, 2)
        self.factors.append((disjunction(whole, part, axis),))
        return Named(jnp.asarray([False, True]), (whole,))

    # ------------------------------------------------------------ keys and elements

    def at_keys(
        self, table: Named, axes: tuple[Axis, ...], expr: Expr, keys: tuple[Named, ...]
    ) -> Named:
        """An array with named axes, at the keys of a reference to it."""
        if not axes or not any(a in table.dims for a in axes):
            return table
        full = [d for d in table.dims if d not in axes]
        array = expand(jnp, table, (*axes, *full))
        sizes = tuple(a.size for a in axes)
        array = jnp.broadcast_to(array, (*sizes, *array.shape[len(axes) :]))
        return self.gather(array, axes, keys, expr.args, tuple(full))

    def elements(
        self,
        kind: str,
        name: Any,
        axes: tuple[Axis, ...],
        codes: np.ndarray,
        expr: Expr,
        keys: tuple[Named, ...],
    ) -> Named:
        """The value of an enumerated thing whose elements are told apart."""
        values = jnp.asarray(codes)

        def at(key: tuple) -> Named:
            dim = Choice(kind, name, key, len(codes))
            known = self.world.known_fields.get(repr(dim))
            if known is not None:
                return Named(jnp.take(values, known.array, mode="clip"), known.dims)
            return Named(values, (dim,))

        if all(is_const(a) for a in expr.args):
            # As everywhere, a key that is out of range picks the first element: nobody reads it.
            domains = [domain(axis.type) for axis in axes]
            return at(
                tuple(
                    a.data if a.data in d else d[0] for a, d in zip(expr.args, domains, strict=True)
                )
            )
        branches = []
        for key in places(axes):
            same = Named(jnp.asarray(True))
            for k, value, source, axis in zip(keys, key, expr.args, axes, strict=True):
                wanted = self.constant(value, axis.type)
                got = self.recode(k, source.type, axis.type)
                same = apply(jnp, jnp.logical_and, same, apply(jnp, jnp.equal, got, wanted))
            branches.append((same, at(key)))
        plain = not any(isinstance(d, Axis) for same, _ in branches for d in same.dims)
        if plain and self._many([v for pair in branches for v in pair]):
            return self._selected(branches, values)
        (_, result), *others = branches
        for same, here in others:
            self._check(union([same.dims, here.dims, result.dims]))
            result = apply(jnp, jnp.where, same, here, result)
        return result

    def _selected(self, branches: list[tuple[Named, Named]], values: Any) -> Named:
        """An element picked by a key that is not known, as a choice of its own: one small factor
        per element, instead of one table over all of them."""
        dims = union(v.dims for pair in branches for v in pair)
        dim = self._aux(Named(None, dims), len(values))
        own = Named(values, (dim,))
        others = Named(jnp.asarray(False))
        for same, _ in branches[1:]:
            self._check(union([others.dims, same.dims]))
            others = apply(jnp, jnp.logical_or, others, same)
        factors = []
        for number, (same, here) in enumerate(branches):
            # As everywhere, a key that is out of range picks the first element.
            picked = same if number else apply(jnp, jnp.logical_not, others)
            equal = apply(jnp, jnp.equal, own, here)
            self._check(union([picked.dims, equal.dims]))
            fits = apply(jnp, lambda p, e: jnp.logical_or(jnp.logical_not(p), e), picked, equal)
            factors.append(log_truth(fits, self.real))
        self.factors.append(tuple(factors))
        return own

    # ------------------------------------------------------------ positive cycles

    def fixpoint(self, system: System) -> list[Named]:
        """The least fixpoint of mutually recursive conditions, by rounds."""
        if id(system) in self.fixpoints:
            return self.fixpoints[id(system)]
        current = [Named(jnp.asarray(False)) for _ in system.definitions]
        # What does not go round is evaluated once, and gets one name; what does changes with
        # each round, and gets one only where it becomes large.
        definitions = _apart(system.definitions)
        going = _going_round(definitions)
        fixed = {
            id(n): self._compact(self.value(n), n.type)
            for n in postorder(definitions, systems=False)
            if id(n) not in going
        }
        shared = None if self.shared is None else frozenset[int]()
        for _ in system.definitions:
            inner = Tables(self.world, self.real, self.capacity, shared, self.naming)
            inner.memo.update(fixed)
            inner.factors, inner.positions = self.factors, self.positions
            inner.fixpoints = {**self.fixpoints, id(system): current}
            current = [inner.value(d) for d in definitions]
        self.fixpoints[id(system)] = current
        return current


def _going_round(definitions: Sequence[Expr]) -> set[int]:
    """The nodes of a recursion that depend on what it defines."""
    going: set[int] = set()
    for node in postorder(definitions, systems=False):
        if node.op == "lfp" or any(id(a) in going for a in node.args):
            going.add(id(node))
    return going


def _apart(definitions: Sequence[Expr]) -> list[Expr]:
    """The same conditions, with what does not go round in parts of their own."""
    going = _going_round(definitions)

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op in ("and", "or"):
            both = [*zip(node.args, args, strict=True)]
            still = tuple(new for old, new in both if id(old) not in going)
            if 1 < len(still) < len(args):
                part = make(node.op, still, None, node.type)
                args = (part, *(new for old, new in both if id(old) in going))
        return make(node.op, args, node.data, node.type)

    memo: dict[int, Expr] = {}
    return [rewrite(d, rule, memo) for d in definitions]


def _certain(value: Named) -> Named:
    """A known value that is the same whatever the choices are does not depend on them."""
    array = value.array
    if not isinstance(array, np.ndarray) or array.ndim != len(value.dims) or not array.size:
        return value
    if not choices(value.dims) or array.min() != array.max():
        return value
    kept = tuple(d for d in value.dims if not isinstance(d, Choice))
    first = tuple(0 if isinstance(d, Choice) else slice(None) for d in value.dims)
    return Named(np.asarray(array[first]), kept)


def log_truth(condition: Named, real: Any) -> Factor:
    """0 where a condition holds, else -inf."""
    zero, never = jnp.asarray(0.0, real), jnp.asarray(-jnp.inf, real)
    return Factor(
        jnp.where(condition.array, zero, never), condition.dims, condition.array.astype(real)
    )
