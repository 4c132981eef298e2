"""Expressions over enumerated dimensions, in tables that are kept small by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nesymm.inference.arrays import xp as jnp
from nesymm.inference.elimination.capacity import CAPACITY, NAMINGS, Capacity, Naming
from nesymm.inference.elimination.choices import Choice, cells, choices
from nesymm.inference.elimination.disjunction import disjunction
from nesymm.inference.elimination.factors import Factor
from nesymm.inference.lower import Lowering
from nesymm.inference.named import Named, apply, expand, union
from nesymm.inference.world import World
from nesymm.ir.algebra import is_const
from nesymm.ir.axes import places
from nesymm.ir.expr import Axis, Expr, System, make, postorder, rewrite
from nesymm.ir.passes.plates import written_out
from nesymm.ir.types import BOOL, Bool, Enum, Int, Type, domain, is_finite

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
        capacity: Capacity = CAPACITY,
        shared: frozenset[int] | None = None,
        naming: Naming = NAMINGS[0],
        often: frozenset[int] = frozenset(),
        edges: bool = False,
    ):
        super().__init__(real)
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

    def leaf(self, expr: Expr, keys: tuple[Named, ...]) -> Named:
        return self.world.leaf(self, expr, keys)

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
        if behind or _has_axes(value) or len(choices(value.dims)) < 2:
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
            result = apply(jnp.where, holds, value, result)
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
            if cells(value.dims) <= type_.size or self._side_by_side(value):
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
        self.factors.append((log_truth(apply(jnp.equal, own, value), self.real),))
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
            result = apply(both, result, arg)
        return result

    def named(self, condition: Named) -> Named:
        """The same condition as a choice of its own."""
        if cells(condition.dims) <= 2 or self._side_by_side(condition):
            return condition
        # Two names for one thing would tie together, through it, all that reads them.
        key = (id(condition.array), condition.dims)
        if key not in self.labels:
            self.labels[key] = (condition, self._labelled(condition))
        return self.labels[key][1]

    def _side_by_side(self, value: Named) -> bool:
        """Whether something stands for many elements where these are told apart: then it has no
        name, since each of them would need one."""
        return self.shared is not None and _has_axes(value)

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
        self.factors.append((log_truth(apply(jnp.equal, truth, condition), self.real),))
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
        array = expand(table, (*axes, *full))
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
                same = apply(jnp.logical_and, same, apply(jnp.equal, got, wanted))
            branches.append((same, at(key)))
        plain = not any(isinstance(d, Axis) for same, _ in branches for d in same.dims)
        if plain and self._many([v for pair in branches for v in pair]):
            return self._selected(branches, values)
        (_, result), *others = branches
        for same, here in others:
            self._check(union([same.dims, here.dims, result.dims]))
            result = apply(jnp.where, same, here, result)
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
            others = apply(jnp.logical_or, others, same)
        factors = []
        for number, (same, here) in enumerate(branches):
            # As everywhere, a key that is out of range picks the first element.
            picked = same if number else apply(jnp.logical_not, others)
            equal = apply(jnp.equal, own, here)
            self._check(union([picked.dims, equal.dims]))
            fits = apply(lambda p, e: jnp.logical_or(jnp.logical_not(p), e), picked, equal)
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


def _has_axes(value: Named) -> bool:
    return any(isinstance(d, Axis) for d in value.dims)


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
