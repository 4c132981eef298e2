"""Arithmetic over constants and symbols, with networks and parameters in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ir.algebra import is_const, within
from nesymm.ir.arithmetic import NotANumber, arithmetic, compute
from nesymm.ir.axes import position
from nesymm.ir.expr import TIME, TRUE, Axis, Expr, make
from nesymm.ir.step import InputDecl, Parameter
from nesymm.ir.symbols import CondList, as_expr
from nesymm.ir.terms import Compound, Cons, Text, V, bare, show
from nesymm.ir.types import BOOL, INF, Enum, Int, Real, Tensor, TensorAt, Type, join
from nesymm.language.builtins import FUNCTION_CONSTANTS, FUNCTIONS

# How many outputs of a network are still spelt out as single numbers.
_SPELL_OUT = 64

_RANGES: dict[str, Type] = {
    "unit": Real(0, 1),
    "simplex": Real(0, 1),
    "positive": Real(0, INF),
    "real": Real(),
}


@dataclass
class Evaluator:
    """Evaluates terms of arithmetic. Keeps the parameters that it meets."""

    networks: Mapping[str, tuple[int, ...] | None]
    tensors: Mapping[str, InputDecl]
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def number(
        self, term: Any, span: Span | None, timed: bool = True, constraint: str = "real"
    ) -> Any:
        """A number: concrete, or a symbol of numeric type. A parameter in it has `constraint`."""
        value = self.value(term, span, timed, constraint)
        if isinstance(value, Expr) and isinstance(value.type, Int | Real):
            return value
        if type(value) in (int, float):
            return value
        fail("E308", f"a number is needed here, not {_what(value)}", span, _number_cure(value))

    def value(
        self, term: Any, span: Span | None, timed: bool = True, constraint: str = "real"
    ) -> Any:
        """A number or a symbol; atoms, lists and texts are returned as they are."""
        kind = type(term)
        if kind in (int, float, Expr):
            return term
        if kind is V:
            fail(
                "E302",
                "a variable in this arithmetic has no value yet",
                span,
                "bind it by a literal to the left",
            )
        if kind is str:
            if term == "t" and timed:
                return TIME
            return FUNCTION_CONSTANTS.get(term, term)
        if kind is Compound:
            return self._compound(term, span, timed, constraint)
        return term

    def _compound(self, term: Compound, span: Span | None, timed: bool, constraint: str) -> Any:
        if term.functor == "$param":
            return self.parameter(term, span, constraint)
        if term.functor in self.networks:
            return self.network(term, span, timed)
        op = FUNCTIONS.get((bare(term.functor), len(term.args)))
        if op is None:
            fail(
                "E308",
                f"{show(term)} is not arithmetic",
                span,
                "declare a network with `:- network(…)`, or compute it in the body",
            )
        args = [self.number(a, span, timed, constraint) for a in term.args]
        try:
            if all(type(a) in (int, float) for a in args):
                result = compute(op, *args)
                if isinstance(result, complex) or (
                    isinstance(result, float) and math.isnan(result)
                ):
                    raise ValueError("not a real number")
                return result
            return arithmetic(op, *(as_expr(a) for a in args))
        except NotANumber as error:
            fail("E308", f"a number is needed here, not {_what(error.operand)}", span)
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            shown = show(Compound(term.functor, tuple(args)))
            fail(
                "E314",
                f"{shown} has no value: {error}",
                span,
                "guard it with a comparison to the left",
            )

    # ------------------------------------------------------------ parameters

    def parameter(self, term: Compound, span: Span | None, constraint: str) -> Expr:
        name, initial, *index = term.args
        concrete = [show(i) for i in index if not isinstance(i, Expr)]
        symbols = [i for i in index if isinstance(i, Expr)]
        full = name + (f"[{','.join(concrete)}]" if concrete else "")
        axes: list[Axis] = []
        for symbol in symbols:
            if not isinstance(symbol.type, Int | Enum) or math.isinf(symbol.type.size):
                fail(
                    "E306",
                    f"the parameter {name} is indexed by an unbounded value",
                    span,
                    "declare the domain of the value with `:- domain(…)`",
                )
            axes.append(Axis(f"{name}.{len(axes)}", symbol.type))
        start = float(initial) if type(initial) in (int, float) else None
        if start is not None and start <= 0 and constraint == "positive":
            fail(
                "E111",
                f"this parameter must be positive, and starts at {start:g}",
                span,
                "start it at a positive number: `t(0.1)`",
            )
        known = self.parameters.get(full)
        if known is None:
            self.parameters[full] = Parameter(full, start, constraint, tuple(axes), span)
        elif known.axes != tuple(axes):
            pairs = zip(known.axes, axes, strict=True)
            wider = tuple(Axis(a.name, join(a.type, b.type)) for a, b in pairs)  # type: ignore[arg-type]
            self.parameters[full] = Parameter(full, start, known.constraint, wider, span)
        return make("param", tuple(symbols), full, _RANGES[self.parameters[full].constraint])

    # ------------------------------------------------------------ networks

    def network(self, term: Compound, span: Span | None, timed: bool) -> Any:
        """A network applied to its inputs: one number, a list of them, or a tensor."""
        shape = self.networks[term.functor]
        args = tuple(self._network_args(term, span, timed))
        name = term.functor
        if shape is None:
            return make("neural", args, (name, None), Tensor(None))
        if shape == (1,):
            return make("neural", args, (name, 0), Real())
        if len(shape) == 1 and shape[0] <= _SPELL_OUT:
            return tuple(make("neural", args, (name, i), Real()) for i in range(shape[0]))
        return make("neural", args, (name, None), Tensor(shape))

    def whole_network(self, term: Compound, span: Span | None, timed: bool) -> Expr:
        """All outputs of a network as one tensor, for the parameters of a family."""
        args = tuple(self._network_args(term, span, timed))
        return make("neural", args, (term.functor, None), Tensor(self.networks[term.functor]))

    def _network_args(self, term: Compound, span: Span | None, timed: bool) -> Any:
        stack = list(reversed(term.args))
        while stack:
            arg = stack.pop()
            if type(arg) is tuple:
                stack.extend(reversed(arg))
            elif _name(arg) in self.tensors:
                if self.tensors[_name(arg)].timed:
                    fail(
                        "E203",
                        f"the input {_name(arg)} changes over time; say at which step",
                        span,
                        f"write `{show(arg)}@t` or `{show(arg)}@0`",
                    )
                yield self._tensor(arg, TensorAt(), span)
            elif type(arg) is Compound and arg.functor == "@":
                yield self._tensor_at(arg, span)
            else:
                value = self.value(arg, span, timed)
                if type(value) is tuple:
                    stack.extend(reversed(value))
                    continue
                if isinstance(value, Expr) and isinstance(value.type, Enum):
                    yield position(value)
                    continue
                if isinstance(value, Expr) or type(value) in (int, float):
                    yield as_expr(value)
                    continue
                fail(
                    "E109",
                    f"{_what(value)} cannot be passed to the network {term.functor}",
                    span,
                    f"declare a tensor with `:- input({show(value)}).`, or pass numbers",
                )

    def _tensor_at(self, arg: Compound, span: Span | None) -> Expr:
        what, when = arg.args
        name = _name(what)
        if name not in self.tensors:
            fail("E109", f"{show(arg)} is not a tensor", span, f"declare `:- input({name}@t).`")
        if when == "t":
            return self._tensor(what, TensorAt(), span)
        at = TensorAt(first=True) if when == 0 else TensorAt(when.args[1])
        return self._tensor(what, at, span)

    def _tensor(self, what: Any, at: TensorAt, span: Span | None) -> Expr:
        """A tensor of the data, at its keys."""
        axes = self.tensors[_name(what)].axes
        keys = what.args if type(what) is Compound else ()
        if len(keys) != len(axes):
            fail(
                "E102",
                f"the tensor {_name(what)} has {len(axes)} keys, this has {len(keys)}",
                span,
                "write it with the keys that it is declared with",
            )
        found = []
        for key, axis in zip(keys, axes, strict=True):
            value = as_expr(self.value(key, span))
            if within(value, axis.type) is not TRUE:
                fail(
                    "E109",
                    f"a key of the tensor {_name(what)} is one of {axis.type}, this may be another "
                    f"({value.type})",
                    span,
                    "keep to these keys, or widen their domain in `:- input(…)`",
                )
            found.append(value)
        return make("input", tuple(found), (_name(what), at), Tensor(None))


def _name(term: Any) -> str:
    """The name of an atom or a compound term."""
    return term.functor if type(term) is Compound else term if type(term) is str else ""


def _what(value: Any) -> str:
    if type(value) is tuple or type(value) is Cons:
        return f"the list {show(value)}"
    if type(value) is CondList:
        return "a list"
    if type(value) is Text:
        return f"the text {value}"
    if isinstance(value, Expr):
        if is_const(value):
            return f"the term {show(value.data)}"
        if value.type == BOOL:
            return "a truth value"
        return "a tensor" if isinstance(value.type, Tensor) else f"a value of {value.type}"
    return f"the term {show(value)}"


def _number_cure(value: Any) -> str:
    if type(value) is tuple:
        return "take an item out with member/2 or nth1/3, or use length/2 or sum_list/2"
    if isinstance(value, Expr) and isinstance(value.type, Tensor):
        return "take the entries of a vector apart, as in `V = [X, Y]`, or use distance/3"
    if isinstance(value, str):
        return "a constant is declared with `:- const(name, value).`, a variable begins upper-case"
    return "compare terms with `=` and `\\=`"
