"""Expressions as array programs: the fast counterpart of the reference interpreter.

`Lowering` evaluates expressions over named dimensions in NumPy or JAX. What leaves mean
(random variables, state, data) is up to who extends it. Terms (atoms) become their
position in the type of the expression; where types differ, codes are translated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from nesymm.inference.arrays import cast, indexed, stop_gradient, xp
from nesymm.inference.densities import constrain, log_interval, sound
from nesymm.inference.named import Named, apply, expand, reduce, take, union
from nesymm.ir.expr import Axis, ConstantTable, Expr, postorder
from nesymm.ir.types import Bool, Enum, Int, Real, Tensor, Type, domain, join


class Lowering(ABC):
    """Evaluates expressions; every expression once.

    `real` is the dtype of real numbers that data or parameters have a part in. Those that are
    known have 64 bits, so that comparing them does not depend on `real`.
    """

    def __init__(self, real: Any):
        self.real = real
        self.memo: dict[int, Named] = {}
        self.keep: list[Expr] = []

    def value(self, expr: Expr) -> Named:
        if id(expr) not in self.memo:
            # What has no value is computed too, and not used; or a flag says so.
            with np.errstate(all="ignore"):
                for node in postorder([expr], systems=False):
                    if id(node) not in self.memo:
                        self.memo[id(node)] = self._node(node)
                        # Ids are only unique while the nodes live.
                        self.keep.append(node)
        return self.memo[id(expr)]

    @abstractmethod
    def leaf(self, expr: Expr, keys: tuple[Named, ...]) -> Named:
        """The value of a leaf at some keys."""

    # ------------------------------------------------------------ one node

    def _node(self, expr: Expr) -> Named:
        args = tuple(self.memo[id(a)] for a in expr.args)
        match expr.op:
            case "const":
                return self.constant(expr.data, expr.type)
            case "axis":
                return self.axis(expr.data)
            case "and" | "or":
                both = xp.logical_and if expr.op == "and" else xp.logical_or
                result = args[0]
                for arg in args[1:]:
                    result = apply(both, result, arg)
                return result
            case "not":
                return Named(xp.logical_not(args[0].array), args[0].dims)
            case "eq":
                return self._equal(expr, args)
            case "lt":
                return apply(xp.less, *args)
            case "le":
                return apply(xp.less_equal, *args)
            case "number":
                return Named(args[0].array.astype(self.whole), args[0].dims)
            case "case":
                return self._case(expr, args)
            case "any":
                return reduce(xp.any, args[0], [expr.data])
            case "sum" | "min" | "max" | "pick" if isinstance(expr.data, Axis):
                return self._reduce(expr, args)
            case "lookup":
                return self.lookup(expr, args)
            case "sigmoid":
                return Named(constrain(xp, "unit", args[0].array), args[0].dims)
            case "softplus":
                return Named(constrain(xp, "positive", args[0].array), args[0].dims)
            case "log_mass":
                return apply(lambda *a: self._log_mass(expr, a), *args)
            case "vector":
                return self._vector(expr, args)
            case "item":
                (tensor,) = args
                return Named(xp.take(tensor.array, expr.data, len(tensor.dims)), tensor.dims)
            case "float":
                return Named(args[0].array * 1.0, args[0].dims)
            case "decimals":
                return Named(_decimals(args[0].array), args[0].dims)
            case op if op in _UNARY:
                return Named(getattr(xp, _UNARY[op])(args[0].array), args[0].dims)
            case op if op in _ROUNDING:
                return Named(getattr(xp, _ROUNDING[op])(args[0].array).astype(int), args[0].dims)
            case "pow" if isinstance(expr.type, Real):
                # Of whole numbers, a negative power would be zero.
                aligned = [
                    self.recode(x, a.type, Real()) for x, a in zip(args, expr.args, strict=True)
                ]
                return apply(xp.power, *aligned)
            case op if op in _BINARY:
                return apply(getattr(xp, _BINARY[op]), *args)
        return self.leaf(expr, args)

    def _vector(self, expr: Expr, args: tuple[Named, ...]) -> Named:
        """Numbers side by side, in the first dimension behind the named ones.

        Those that are known are kept by NumPy, so that JAX need not compute with them.
        """
        if all(a.op == "const" for a in expr.args):
            return Named(np.asarray([a.data for a in expr.args], self.real))
        if all(isinstance(a.array, np.ndarray) and not a.dims for a in args):
            return Named(np.stack([a.array for a in args]))
        dims = union(a.dims for a in args)
        aligned = [expand(a, dims).astype(self.real) for a in args]
        return Named(xp.stack(xp.broadcast_arrays(*aligned), len(dims)), dims)

    def _log_mass(self, expr: Expr, arrays: tuple[Any, ...]) -> Any:
        """The log-probability that a variable lies between two ends, of which one may be open."""
        family, closed = expr.data
        ends = iter(arrays[: sum(closed)])
        low, high = (next(ends) if known else None for known in closed)
        params = arrays[sum(closed) :]
        found = log_interval(xp, family, sound(xp, family, params), low, high)
        for param in params:
            found = xp.where(xp.isnan(param), stop_gradient(param), found)
        return found

    def nothing(self, type_: Type) -> Named:
        """A value of a type, where it does not matter which."""
        shape = (type_.shape or ()) if isinstance(type_, Tensor) else ()
        return Named(xp.zeros(shape, dtype=self._dtype(type_)))

    @property
    def whole(self) -> Any:
        return np.int64 if self.real == np.float64 else np.int32

    def constant(self, value: Any, type_: Type) -> Named:
        match type_:
            case Bool():
                return Named(xp.asarray(value, dtype=bool))
            case Int():
                return Named(xp.asarray(value, dtype=self.whole))
            case Real():
                return Named(xp.asarray(value, dtype=np.float64))
            case Enum(values):
                return Named(xp.asarray(values.index(value), dtype=self.whole))
            case Tensor(shape):
                return Named(xp.full(shape or (), value, dtype=self.real))
        raise TypeError(f"{value!r} cannot be a constant of {type_}")

    def axis(self, axis: Axis) -> Named:
        first = int(axis.type.lo) if isinstance(axis.type, Int) else 0
        values = xp.arange(first, first + axis.size, dtype=self.whole)
        return Named(values, (axis,))

    def _equal(self, expr: Expr, args: tuple[Named, ...]) -> Named:
        a, b = expr.args
        if isinstance(a.type, Enum) and isinstance(b.type, Enum):
            both = join(a.type, b.type)
            assert isinstance(both, Enum)
            args = (self.recode(args[0], a.type, both), self.recode(args[1], b.type, both))
        return apply(xp.equal, *args)

    def recode(self, value: Named, source: Type, target: Type) -> Named:
        """Translate values to the type of the expression that uses them.

        A term that the target does not have is guarded by its condition: any code will do.
        """
        if isinstance(source, Enum) and isinstance(target, Enum):
            if source.values == target.values[: len(source.values)]:
                return value
            known = {v: i for i, v in enumerate(target.values)}
            codes = np.asarray([known.get(v, 0) for v in source.values])
            return Named(indexed(codes.astype(self.whole), value.array), value.dims)
        if isinstance(source, Int) and isinstance(target, Real):
            return Named(cast(value.array, np.float64), value.dims)
        return value

    def _case(self, expr: Expr, args: tuple[Named, ...]) -> Named:
        branches = [
            self.recode(args[i], expr.args[i].type, expr.type) for i in range(1, len(args), 2)
        ]
        # Where no condition holds any value will do; the first keeps shapes simple.
        result = branches[0]
        for condition, branch in zip(reversed(args[::2]), reversed(branches), strict=True):
            result = apply(xp.where, condition, branch, result)
        return result

    def _reduce(self, expr: Expr, args: tuple[Named, ...]) -> Named:
        axis = expr.data
        condition, value = args
        if expr.op == "sum":
            masked = apply(lambda c, v: xp.where(c, v, 0), condition, value)
            if axis not in masked.dims:
                return Named(masked.array * axis.size, masked.dims)
            return reduce(xp.sum, masked, [axis])
        both = apply(lambda c, v: xp.broadcast_arrays(c, v)[0], condition, value)
        full = apply(lambda c, v: xp.broadcast_arrays(c, v)[1], condition, value)
        if axis not in both.dims:
            return full
        position = both.dims.index(axis)
        if expr.op == "pick":
            first = xp.argmax(both.array, axis=position)
            picked = xp.take_along_axis(full.array, xp.expand_dims(first, position), position)
            kept = tuple(d for d in both.dims if d != axis)
            return Named(xp.squeeze(picked, position), kept)
        worst = xp.min(full.array) if expr.op == "max" else xp.max(full.array)
        guarded = Named(xp.where(both.array, full.array, worst), both.dims)
        return reduce(xp.max if expr.op == "max" else xp.min, guarded, [axis])

    # ------------------------------------------------------------ tables and keys

    def lookup(self, expr: Expr, keys: tuple[Named, ...]) -> Named:
        table: ConstantTable = expr.data
        shape = tuple(int(d.size) for d in table.domains)
        columns = [_positions(d) for d in table.domains]
        dtype = np.float64 if isinstance(expr.type, Real) else self._dtype(expr.type)
        dense = np.full(shape, self._code(table.default, expr.type), dtype=dtype)
        for key, value in table.entries.items():
            at = tuple(column[k] for column, k in zip(columns, key, strict=True))
            dense[at] = self._code(value, expr.type)
        indices = [
            self.index(self.recode(k, a.type, d) if isinstance(d, Enum) else k, d)
            for k, a, d in zip(keys, expr.args, table.domains, strict=True)
        ]
        return take(xp.asarray(dense), indices)

    def _code(self, value: Any, type_: Type) -> Any:
        if value is None:
            return 0
        return type_.values.index(value) if isinstance(type_, Enum) else value

    def _dtype(self, type_: Type) -> Any:
        if isinstance(type_, Bool):
            return bool
        return self.real if isinstance(type_, Real | Tensor) else self.whole

    def index(self, key: Named, type_: Int | Enum) -> Named:
        """Positions along a finite type. Keys out of range are guarded by their condition;
        here they are only kept inside the array."""
        first = int(type_.lo) if isinstance(type_, Int) else 0
        size = int(type_.size)
        shifted = xp.clip(key.array - first, 0, size - 1).astype(self.whole)
        return Named(shifted, key.dims)

    def gather(
        self,
        table: Any,
        axes: tuple[Axis, ...],
        keys: tuple[Named, ...],
        sources: tuple[Expr, ...],
        trailing: tuple = (),
    ) -> Named:
        """An array that has one leading dimension per axis, at some keys."""
        plain = all(
            s.op == "axis" and s.data.type == a.type for s, a in zip(sources, axes, strict=True)
        ) and len({s.data for s in sources}) == len(sources)
        if plain:
            # Along the whole axis: nothing to gather, only other names.
            return Named(table, (*(s.data for s in sources), *trailing))
        indices = [
            self.index(self.recode(k, s.type, a.type) if isinstance(a.type, Enum) else k, a.type)
            for k, s, a in zip(keys, sources, axes, strict=True)
        ]
        return take(table, indices, trailing)


def _positions(type_: Int | Enum) -> Mapping[Any, int]:
    return {value: i for i, value in enumerate(domain(type_))}


# The functions of NumPy and JAX for one number; those for whole numbers; and for two.
_UNARY = {
    "neg": "negative", "abs": "abs", "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin",
    "cos": "cos", "tan": "tan", "atan": "arctan", "tanh": "tanh",
}  # fmt: skip
_ROUNDING = {
    "floor": "floor", "ceiling": "ceil", "round": "round", "truncate": "trunc", "sign": "sign"
}  # fmt: skip
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "idiv": "floor_divide",
    "mod": "mod", "min": "minimum", "max": "maximum", "pow": "power",
}  # fmt: skip


def _decimals(x: Any) -> Any:
    """`rounded`, for arrays; in 32 bits with 6 decimals. From 8 on, numbers have no more."""
    decimals, error = (15, 1e-10) if x.dtype == np.float64 else (6, 1e-6)
    kept = xp.round(x, decimals)
    whole = (xp.abs(x) >= 8) | (xp.abs(kept - x) > error * xp.abs(x))
    return xp.where(whole, x, kept)
