"""The parameters of distributions: as expressions, and checked.

What can be seen while grounding is refused; what is only known in a run becomes a flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from nesymm.errors import Span, fail
from nesymm.ground.context import Context
from nesymm.ir.algebra import and_, const, is_const, le, lt, not_, or_, vector
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.expr import Expr, leaves, make
from nesymm.ir.step import Param
from nesymm.ir.symbols import as_expr, has_symbol
from nesymm.ir.terms import Compound
from nesymm.ir.types import Int, Real, Tensor
from nesymm.language.families import Family

NO_PROBABILITY = "a probability is not between 0 and 1"


def read_parameters(
    ctx: Context, family: Family, raw: tuple, span: Span | None, timed: bool
) -> tuple[tuple[Param, ...], bool]:
    """The parameters as expressions, and whether one network gives them all."""
    evaluator = ctx.evaluator
    first = raw[0]
    if _is_network(ctx, first) and (family.name == "categorical" or len(raw) == 1):
        _check_outputs(family, first.functor, evaluator.networks[first.functor], raw, span)
        whole = evaluator.whole_network(first, span, timed)
        return (whole, *(_fixed(r, span) for r in raw[1:])), True
    if family.name == "multivariate_normal":
        return _vector_parameters(ctx, family, raw, span, timed), False
    params = tuple(
        _parameter(ctx, family, term, constraint, span, timed)
        for term, constraint in zip(raw, family.constraints, strict=True)
    )
    for name, constraint, param in zip(family.params, family.constraints, params, strict=True):
        _check_known(family, name, constraint, param, span)
    _check_together(family, params, span)
    return params, False


def _parameter(
    ctx: Context, family: Family, term: Any, constraint: str, span: Span | None, timed: bool
) -> Param:
    def number(term: Any) -> Expr:
        learnt = "real" if constraint == "fixed" else constraint
        return as_expr(ctx.number(term, span, timed, learnt))

    if constraint == "fixed" and (type(term) is tuple or family.name == "categorical"):
        return _fixed(term, span)
    if type(term) is tuple:
        return tuple(map(number, term))
    if constraint == "simplex":
        fail(
            "E110",
            "the probabilities of a categorical are a list",
            span,
            f"for example `{family.example}`",
        )
    if _is_network(ctx, term):
        return _network_parameter(ctx, term, constraint, span, timed)
    return term if constraint == "real" and _is_tensor(term) else number(term)


def _network_parameter(
    ctx: Context, term: Compound, constraint: str, span: Span | None, timed: bool
) -> Expr:
    """One network for one parameter: its output is mapped to what the family needs."""
    raw = ctx.evaluator.network(term, span, timed)
    if not isinstance(raw, Expr):
        return ctx.evaluator.whole_network(term, span, timed)
    if constraint == "unit":
        return make("sigmoid", (raw,), type_=Real(0, 1))
    if constraint == "positive" and isinstance(raw.type, Real):
        return make("softplus", (raw,), type_=Real(0))
    return raw


def _vector_parameters(
    ctx: Context, family: Family, raw: tuple, span: Span | None, timed: bool
) -> tuple[Expr, Expr]:
    """The mean, a vector, and the covariance, a matrix of known size."""

    def numbers(terms: tuple) -> Expr:
        return vector([as_expr(ctx.number(t, span, timed)) for t in terms])

    example = f"for example `{family.example}`"
    mean, rows = raw
    if _is_network(ctx, mean):
        mean = ctx.evaluator.whole_network(mean, span, timed)
    elif type(mean) is tuple and mean:
        mean = numbers(mean)
    if not _is_tensor(mean):
        fail("E110", f"the mean of {family.name} is a vector", span, example)
    size = len(rows) if type(rows) is tuple else 0
    if not size or any(type(row) is not tuple or len(row) != size for row in rows):
        fail(
            "E110",
            f"the covariance of {family.name} is a list of rows, as many as each has numbers",
            span,
            example,
        )
    if mean.type.shape not in (None, (size,)):
        fail(
            "E110",
            f"the mean is {mean.type}, and the covariance has {size} rows",
            span,
            "give the covariance one row for each entry of the mean",
        )
    covariance = vector([numbers(row) for row in rows])
    _check_covariance(covariance, span)
    return mean, covariance


def _fixed(term: Any, span: Span | None) -> tuple[Expr, ...]:
    """A list of known values (the outcomes of a categorical)."""
    if type(term) is not tuple or not term:
        fail("E308", "a list of values is needed here", span, "for example `[up, down]`")
    if has_symbol(term):
        fail(
            "E308",
            "the values to choose from must be known when compiling",
            span,
            "draw a position and compute the value from it in a rule",
        )
    return tuple(const(t) for t in term)


def _is_network(ctx: Context, term: Any) -> bool:
    return type(term) is Compound and term.functor in ctx.evaluator.networks


def _is_tensor(term: Any) -> bool:
    return isinstance(term, Expr) and isinstance(term.type, Tensor)


# ---------------------------------------------------------------- what is refused


def _check_outputs(
    family: Family, net: str, shape: tuple[int, ...] | None, raw: tuple, span: Span | None
) -> None:
    """Refuse a network whose outputs are not the parameters of a family."""
    if shape is None:
        return
    outputs = math.prod(shape)
    if family.name == "categorical":
        wanted = len(raw[1]) if type(raw[1]) is tuple else outputs
        if outputs != wanted:
            fail(
                "E110",
                f"{net} has {outputs} outputs, but there are {wanted} values to choose from",
                span,
                f"declare `:- network({net}, {wanted}).`",
            )
    elif outputs % len(family.params):
        fail(
            "E110",
            f"{net} has {outputs} outputs; {family.name} needs "
            f"{len(family.params)} ({', '.join(family.params)})",
            span,
            f"declare `:- network({net}, {len(family.params)}).`",
        )


def refuse_probability(value: Expr, span: Span | None) -> None:
    """Refuse a number that is no probability."""
    if is_const(value) and not 0 <= value.data <= 1:
        fail(
            "E111",
            f"a probability lies between 0 and 1, this one is {value.data:g}",
            span,
            "write it as a fraction: 30 % is `0.3`",
        )


def _check_known(
    family: Family, name: str, constraint: str, param: Param, span: Span | None
) -> None:
    """Refuse known numbers that a parameter cannot be."""
    if isinstance(param, tuple):
        if constraint == "simplex" and all(map(is_const, param)):
            numbers = [p.data for p in param]
            if any(x < 0 for x in numbers):
                fail("E111", "a probability is negative", span, "write numbers from 0 to 1")
            if abs(sum(numbers) - 1) > 1e-6:
                fail(
                    "E112",
                    f"the probabilities of this categorical add up to {sum(numbers):g}",
                    span,
                    "let them add up to 1",
                )
        return
    if constraint == "unit":
        refuse_probability(param, span)
    if _above_zero(family, constraint) and is_const(param) and param.data <= 0:
        fail(
            "E111",
            f"the {name} of {family.name} must be positive, it is {param.data:g}",
            span,
            f"for example `{family.example}`",
        )


def _check_together(family: Family, params: tuple[Param, ...], span: Span | None) -> None:
    """Refuse parameters that do not fit each other."""
    if len(params) != 2:
        return
    first, second = params
    if family.name == "categorical":
        if isinstance(first, tuple) and isinstance(second, tuple) and len(first) != len(second):
            fail(
                "E110",
                f"there are {len(first)} probabilities for {len(second)} values",
                span,
                "give one probability per value",
            )
    elif family.name in ("uniform", "uniform_int"):
        known = [p.data for p in params if isinstance(p, Expr) and is_const(p)]
        if len(known) == 2 and known[0] > known[1]:
            fail(
                "E110",
                f"{family.name} from {known[0]:g} to {known[1]:g} is empty",
                span,
                "write the smaller bound first",
            )


def _check_covariance(covariance: Expr, span: Span | None) -> None:
    """Refuse a matrix of known numbers that is no covariance."""
    rows = [row.args for row in covariance.args]
    if not all(is_const(entry) for row in rows for entry in row):
        return
    matrix = np.array([[entry.data for entry in row] for row in rows], float)
    if np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12):
        try:
            np.linalg.cholesky(matrix)
            return
        except np.linalg.LinAlgError:
            wrong = "positive definite"
    else:
        wrong = "symmetric"
    fail(
        "E111",
        f"the covariance of multivariate_normal is not {wrong}",
        span,
        "write variances on the diagonal, and beside it numbers small enough: "
        "`[[1, 0.5], [0.5, 1]]`",
    )


# ---------------------------------------------------------------- what must not hold in a run


def wrong_parameters(family: Family, params: tuple[Param, ...]) -> Iterator[tuple[str, Expr]]:
    """What must not hold of parameters that are only known in a run, and why."""
    for name, constraint, param in zip(family.params, family.constraints, params, strict=True):
        if constraint == "simplex" and isinstance(param, tuple) and is_computed(param):
            off = arithmetic("abs", arithmetic("sub", total_of(param), const(1)))
            yield f"the {name} of {family.name} do not add up to 1", lt(const(1e-6), off)
            yield "a probability is negative", or_(*(lt(p, const(0)) for p in param))
        if not isinstance(param, Expr) or not isinstance(param.type, Int | Real):
            continue
        if param.op in ("param", "softplus", "sigmoid"):
            continue  # learnt and mapped to what it must be
        if _above_zero(family, constraint):
            yield f"the {name} of {family.name} is not positive", le(param, const(0))
        if constraint == "unit":
            yield NO_PROBABILITY, outside_unit(param)
    if family.name in ("uniform", "uniform_int"):
        first, last = params
        if isinstance(first, Expr) and isinstance(last, Expr):
            empty = (le if family.name == "uniform" else lt)(last, first)
            yield f"the bounds of {family.name} leave nothing between them", empty


def _above_zero(family: Family, constraint: str) -> bool:
    """Whether a parameter must be positive: what never happens is never waited for."""
    return constraint == "positive" or family.name == "geometric"


def outside_unit(value: Expr) -> Expr:
    """When a number is no probability."""
    return not_(and_(le(const(0), value), le(value, const(1))))


def is_computed(params: Sequence[Expr]) -> bool:
    """Whether probabilities are computed in a run, and not learnt."""
    return not all(map(is_const, params)) and not (
        leaves(params, "param") or leaves(params, "neural")
    )


def total_of(params: Sequence[Expr]) -> Expr:
    return reduce(partial(arithmetic, "add"), params)
