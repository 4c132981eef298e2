"""Arithmetic that may have no value: whole numbers that do not fit the bits of an array, divisions
by zero, roots and logarithms of what has none.

Arrays wrap around where Python's whole numbers grow, and give infinity or NaN where Python stops.
Most expressions cannot get there, by their bounds. For the others a program gets flags: conditions
that must not hold at run time.

An expression is *invalid* where its value cannot be kept. What does not depend on an invalid
part is valid all the same: `X < 3, X ** 40 > 5` is false for X = 9, whatever the power is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from nesymm.errors import NesymmError, Span
from nesymm.ir.algebra import and_, const, eq, is_const, lt, not_, or_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import any_, anywhere, rebuild, reduce_
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, System, fold, make, postorder, rewrite
from nesymm.ir.step import Flag, StepProgram, flat
from nesymm.ir.types import Int, Real, Type

# Operations whose result can be larger than what they are computed from.
_GROWING = frozenset(
    ("add", "sub", "mul", "pow", "neg", "abs", "floor", "ceiling", "round", "truncate", "idiv")
)
# So close to the limit (a share of it), sums of real numbers do not tell the sides apart.
_MARGIN = 2.0**-20


def watch_overflow(
    step: StepProgram, bits: int, fields: Callable[[], Mapping[tuple[str, int], Type]]
) -> StepProgram:
    """The same program, with a flag wherever a whole number may not fit.

    `fields` gives the types of the fields of the state, where more is known of them than the
    program says; it is only asked if that matters.
    """
    _refuse_domains(step, bits)
    step = watch_undefined(step)
    if not _suspicious(step, _Growth(bits, {}).fails):
        return step
    watch = _Growth(bits, fields())
    if not _suspicious(step, watch.fails):
        return step
    step = _with_flags(step.rewrite(watch.real_constants), watch.fails, watch.message)
    return step.rewrite(watch.without_large_constants)


def watch_sampled(step: StepProgram) -> StepProgram:
    """The same for a program without time, whose finite part Python computes."""
    step = watch_undefined(step)
    watch = _Growth(64, {}, frozenset(v.name for v in step.variables if v.finite))
    return _with_flags(step, watch.fails, watch.message)


def watch_undefined(step: StepProgram) -> StepProgram:
    """The same program, with a flag wherever an operation may have no value."""
    for cause, ops, undefined in _UNDEFINED:

        def fails(node: Expr, ops: Ops = ops, undefined: Condition = undefined) -> Expr:
            return undefined(*node.args) if node.op in ops else FALSE

        step = _with_flags(step, fails, partial("{} in {}".format, cause))
    return step


# Where an operation on valid values has no valid value itself.
Fails = Callable[[Expr], Expr]


def _suspicious(step: StepProgram, fails: Fails) -> bool:
    return any(fails(node) is not FALSE for node in step.nodes())


def _with_flags(step: StepProgram, fails: Fails, message: Callable[[str], str]) -> StepProgram:
    if not _suspicious(step, fails):
        return step
    flags = []
    for name, span, condition in _roots(step, _Watch(fails).invalid):
        condition = anywhere(condition)
        if condition is not FALSE:
            flags.append(Flag(message(name), condition, span))
    return replace(step, flags=(*step.flags, *flags))


def _refuse_domains(step: StepProgram, bits: int) -> None:
    limit = 2 ** (bits - 1)
    for variable in step.variables:
        whole = [v for v in variable.support or () if isinstance(v, int)]
        odd = next((v for v in whole if not -limit <= v < limit), None)
        if odd is not None:
            raise NesymmError(
                f"the values of {variable.name} do not fit {bits} bits: one is {odd}{cure(bits)}"
            )


def cure(bits: int) -> str:
    """What to do about numbers that are too large."""
    if bits > 32:
        return "\n  = help: compute with smaller numbers, or with real ones"
    return '\n  = help: smaller numbers, or 64 bits: `jax.config.update("jax_enable_x64", True)`'


def _roots(
    step: StepProgram, invalid: Callable[[Expr], Expr]
) -> Iterator[tuple[str, Span | None, Expr]]:
    """What a step computes, by name, and where it is invalid."""
    for slot in step.slots:
        values = or_(*map(invalid, slot.values))
        yield slot.name, None, or_(invalid(slot.present), and_(slot.present, values))
    for variable in step.variables:
        wrong = and_(variable.guard, or_(*map(invalid, flat(variable.params))))
        yield variable.name, None, or_(invalid(variable.guard), wrong)
    for observation in step.observations:
        ways = [
            or_(invalid(b.condition), and_(b.condition, or_(*map(invalid, b.values))))
            for b in observation.branches
        ]
        holds = FALSE if ways else invalid(observation.holds)
        yield f"the observation of {observation.name}", observation.span, or_(holds, *ways)
    for query in step.queries:
        values = or_(*map(invalid, query.values))
        wrong = or_(invalid(query.holds), and_(query.holds, values))
        yield f"the query {query.name}", query.span, wrong
    for flag in step.flags:
        yield flag.message, flag.span, invalid(flag.condition)


class _Watch:
    """Finds where expressions are invalid; looks at every expression once."""

    def __init__(self, fails: Fails) -> None:
        self._fails = cache(fails)
        self._known: dict[int, Expr] = {}
        self._bounds: dict[System, tuple[System, System] | None] = {}

    def invalid(self, root: Expr) -> Expr:
        """The condition under which an expression has no valid value."""
        return fold(root, self._invalid, self._known)

    def _invalid_atom(self, system: System, index: int) -> Expr:
        """Where an atom of a positive cycle is invalid: it may hold, and does not hold for sure."""
        if system not in self._bounds:
            below = [self.invalid(n) for d in system.definitions for n in _outside(d, system)]
            wrong = any(b is not FALSE for b in below)
            self._bounds[system] = (
                (self._bound(system, True), self._bound(system, False)) if wrong else None
            )
        bounds = self._bounds[system]
        if bounds is None:
            return FALSE
        surely, maybe = (make("lfp", (), (bound, index)) for bound in bounds)
        return and_(maybe, not_(surely))

    def _bound(self, system: System, surely: bool) -> System:
        """The atoms that hold whatever the values of invalid parts; or may hold for some."""
        new = System(system.names)

        def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
            if node.op == "lfp":
                return make("lfp", (), (new, node.data[1]))
            return rebuild(node, args)

        memo = {}
        for definition in system.definitions:
            for node in _outside(definition, system):
                wrong = self.invalid(node)
                memo[id(node)] = and_(node, not_(wrong)) if surely else or_(node, wrong)
        new.definitions = tuple(rewrite(d, rule, memo) for d in system.definitions)
        return new

    def _invalid(self, node: Expr, below: Sequence[Expr]) -> Expr:
        own = self._fails(node)
        if all(b is FALSE for b in [own, *below]) and node.op != "lfp":
            return FALSE
        if node.op in ("lt", "le", "eq"):
            # Comparing with a constant is possible, however large it is.
            below = [b for a, b in zip(node.args, below, strict=True) if not is_const(a)]
        either = or_(*below)
        match node.op:
            case "and":
                return and_(either, *(or_(b, a) for a, b in zip(node.args, below, strict=True)))
            case "or":
                parts = zip(node.args, below, strict=True)
                return and_(either, *(or_(b, not_(a)) for a, b in parts))
            case "any":
                (condition,), (wrong,) = node.args, below
                sure = any_(node.data, and_(condition, not_(wrong)))
                return and_(any_(node.data, wrong), not_(sure))
            case "lfp":
                return self._invalid_atom(*node.data)
            case "case":
                conditions, values = node.args[::2], below[1::2]
                pairs = [*zip(conditions, values, strict=True), (TRUE, values[0])]
                taken = or_(
                    *(
                        and_(c, v, *(not_(before) for before, _ in pairs[:i]))
                        for i, (c, v) in enumerate(pairs)
                    )
                )
                return or_(*below[::2], taken)
            case "sum" | "min" | "max" | "pick" if isinstance(node.data, Axis):
                here = or_(below[0], and_(node.args[0], below[1]))
                return or_(any_(node.data, here), own)
        return or_(either, own)


def _outside(root: Expr, system: System) -> list[Expr]:
    """The parts of a definition that do not read its system, as large as they are."""
    reads: dict[int, bool] = {}

    def reads_it(node: Expr, below: tuple[bool, ...]) -> bool:
        return any(below) or (node.op == "lfp" and node.data[0] is system)

    if not fold(root, reads_it, reads):
        return [root]
    inside = [n for n in postorder([root], systems=False) if reads[id(n)]]
    return [a for n in inside for a in n.args if not reads[id(a)]]


def with_types(types: Mapping[tuple[str, int], Type]) -> Callable[[Expr, tuple[Expr, ...]], Expr]:
    """A rule for rewriting that gives fields of the state these types."""

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "slot" and node.data in types:
            return make("slot", args, node.data, types[node.data])
        return rebuild(node, args)

    return rule


class _Growth:
    """Whole numbers that do not fit."""

    def __init__(
        self,
        bits: int,
        fields: Mapping[tuple[str, int], Type],
        exact: frozenset[str] | None = None,
    ):
        self.bits = bits
        self.largest = 2 ** (bits - 1) - 1
        self.fields = fields
        # What depends on these variables alone is computed by Python (None: nothing is).
        self.exact = exact
        self._bounded: dict[int, Expr] = {}
        self._kept: list[Expr] = []

    def message(self, name: str) -> str:
        more = "" if self.bits > 32 else "; `jax_enable_x64` gives 64"
        return f"a whole number in {name} does not fit {self.bits} bits{more}"

    # ------------------------------------------------------------ what may be too large

    def _fits(self, value: float) -> bool:
        return -self.largest - 1 <= value <= self.largest

    def _too_large(self, expr: Expr) -> bool:
        return (
            self.exact is None
            and is_const(expr)
            and type(expr.data) is int
            and not self._fits(expr.data)
        )

    def _may_grow(self, node: Expr) -> bool:
        """Whether an operation has bounds that reach beyond what fits."""
        adds_up = node.op == "sum" and isinstance(node.data, Axis)
        if not isinstance(node.type, Int) or not (adds_up or node.op in _GROWING):
            return False
        if self._fits(node.type.lo) and self._fits(node.type.hi):
            return False
        if self.exact is not None and all(
            n.data in self.exact for n in postorder([node]) if not n.args and not is_const(n)
        ):
            return False
        self._kept.append(node)
        type_ = rewrite(node, with_types(self.fields), self._bounded).type
        return not (isinstance(type_, Int) and self._fits(type_.lo) and self._fits(type_.hi))

    # ------------------------------------------------------------ constants

    def real_constants(self, node: Expr, args: tuple[Expr, ...]) -> Expr:
        """Among real numbers, a constant is one."""
        real = isinstance(node.type, Real) and node.op != "case"
        if real or any(isinstance(a.type, Real) for a in args):
            args = tuple(_real(a) if self._too_large(a) else a for a in args)
        return rebuild(node, args)

    def without_large_constants(self, node: Expr, args: tuple[Expr, ...]) -> Expr:
        """Nothing uses a constant that is too large; but whatever fits lies on one side of it."""
        if node.op in ("lt", "le", "eq"):
            a, b = node.args
            for y, below in ((b, True), (a, False)):
                if self._too_large(y):
                    return const(node.op != "eq" and below == (y.data > 0))
        return make("const", (), 0, node.type) if self._too_large(node) else rebuild(node, args)

    def fails(self, node: Expr) -> Expr:
        if self._too_large(node):
            return TRUE
        if not self._may_grow(node):
            return FALSE
        if node.op == "sum":
            size = reduce_("sum", node.data, node.args[0], _real(node.args[1]))
        elif node.op in ("floor", "ceiling", "round", "truncate"):
            size = _real(node.args[0])
        else:
            size = arithmetic(node.op, *map(_real, node.args))
        limit = self.largest * (1 - _MARGIN)
        return not_(and_(lt(const(-limit), size), lt(size, const(limit))))


# ---------------------------------------------------------------- operations without a value


def _is_zero(expr: Expr) -> Expr:
    # Zero of either type: what is real is compared with a real number.
    return eq(expr, const(0 if isinstance(expr.type, Int) else 0.0))


def _no_power(base: Expr, exponent: Expr) -> Expr:
    below = lt(exponent, const(0))
    if isinstance(exponent.type, Int):
        return and_(_is_zero(base), below)
    whole = is_const(exponent) and float(exponent.data).is_integer()
    return or_(and_(_is_zero(base), below), FALSE if whole else lt(base, const(0)))


Ops = tuple[str, ...]
Condition = Callable[..., Expr]
_UNDEFINED: tuple[tuple[str, Ops, Condition], ...] = (
    ("a division by zero", ("div", "idiv", "mod"), lambda _, divisor: _is_zero(divisor)),
    ("a logarithm of a number that is not positive", ("log",), lambda x: not_(lt(const(0), x))),
    ("the root of a negative number", ("sqrt",), lambda x: lt(x, const(0))),
    ("a power without a value (of 0 or of a negative number)", ("pow",), _no_power),
)


def _real(expr: Expr) -> Expr:
    if isinstance(expr.type, Real):
        return expr
    if is_const(expr):
        largest = sys.float_info.max
        return const(float(max(-largest, min(largest, expr.data))))
    return arithmetic("float", expr)
