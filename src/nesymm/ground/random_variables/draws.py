"""Distributional clauses: what is drawn, and the terms that it binds."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nesymm.errors import Span, fail
from nesymm.ground.literals import DrawLit
from nesymm.ground.random_variables.identity import identify
from nesymm.ground.random_variables.parameters import read_parameters, wrong_parameters
from nesymm.ground.random_variables.variables import Variables, derivation_number
from nesymm.ground.tabling import Answer, Table
from nesymm.ir.algebra import and_, const, eq, item
from nesymm.ir.axes import lookup
from nesymm.ir.expr import TRUE, ConstantTable, Expr, make
from nesymm.ir.step import Param, RandomVariable, flat
from nesymm.ir.symbols import key_of
from nesymm.ir.types import Int, Real, Tensor, Type, join_all, numbers
from nesymm.language.families import FAMILIES, Family

# A finite variable has no more values.
MOST_VALUES = 10_000_000


def draw(
    variables: Variables, lit: DrawLit, answer: Answer, table: Table
) -> Iterator[tuple[tuple, Expr]]:
    """What a distributional clause binds its drawn arguments to."""
    clause, ctx = lit.clause, variables.ctx
    head, span = clause.head, clause.span
    static = head.time is None
    n = len(lit.keys)
    keys, raw = answer.terms[:n], answer.terms[n:]
    written = [a for i, a in enumerate(head.args) if i not in clause.drawn]
    key_names = tuple(getattr(a, "name", f"k{i}") for i, a in enumerate(written))
    identity = identify(keys, key_names)
    family = FAMILIES[clause.family]
    params, neural = read_parameters(ctx, family, raw, span, not static)
    type_, support = outcomes(family, params, span)
    if not neural:
        for message, wrong in wrong_parameters(family, params):
            ctx.must_not(message, and_(answer.condition, wrong), span)
    loose = {axis for param in flat(params) for axis in param.axes}
    if loose - set(identity.axes):
        fail(
            "E307",
            "the parameters differ along an axis that is not a key of the variable",
            span,
            "make the variable that tells them apart an argument of the head",
        )
    variable = RandomVariable(
        "",
        family.name,
        answer.condition,
        params,
        (),
        type_,
        support,
        static,
        neural,
        head.pred.name,
    )
    number = derivation_number(answer, table, key_names)
    call = key_of(table.args)
    name, refs = variables.declare(head.pred, lit, number, identity, answer.terms, call, variable)
    if support is None:
        ctx.infinite.add(name)
    yield from _bound(make("rv", refs, name, type_), support, len(lit.drawn), family, span)


# ---------------------------------------------------------------- what can be drawn


def outcomes(
    family: Family, params: tuple[Param, ...], span: Span | None
) -> tuple[Type, tuple | None]:
    """The type of what is drawn, and its values where they are finitely many."""
    if family.values is not None and any(isinstance(p, tuple) for p in params):
        fail(
            "E110",
            f"{family.name} takes numbers, and a parameter is a list",
            span,
            "for a vector use multivariate_normal, or pass the network itself: "
            "`normal(net(X), 0.1)`",
        )
    match family.name:
        case "bernoulli":
            return Int(0, 1), (0, 1)
        case "categorical":
            assert isinstance(params[1], tuple)
            values = tuple(v.data for v in params[1])
            if len({key_of(v) for v in values}) != len(values):
                fail(
                    "E110",
                    "a value stands twice in this categorical",
                    span,
                    "write it once, with the sum of the probabilities",
                )
            return _value_type(values), values
        case "uniform_int" | "binomial":
            whole = _whole_numbers(family, params, span)
            return Int(whole[0], whole[-1]), tuple(whole)
        case "multivariate_normal":
            covariance = params[1]
            assert isinstance(covariance, Expr)
            return Tensor((len(covariance.args),)), None
    shapes = [p.type.shape for p in params if isinstance(p, Expr) and isinstance(p.type, Tensor)]
    if not shapes or (len(params) == 1 and shapes[0] == (len(family.params),)):
        # Numbers; or a network that gives exactly the parameters of one.
        assert family.values is not None
        return numbers(*family.values), None
    if len(params) == 1 and shapes[0] is not None:
        # One network gives all parameters, side by side along the last dimension.
        each = shapes[0][-1] // len(family.params)
        return Tensor((*shapes[0][:-1], each)), None
    return Tensor(shapes[0]), None


def _whole_numbers(family: Family, params: tuple[Param, ...], span: Span | None) -> range:
    """The whole numbers that uniform_int and binomial draw from."""
    bounded = params[:1] if family.name == "binomial" else params
    bounds = [p.type for p in bounded if isinstance(p, Expr) and isinstance(p.type, Int)]
    if not bounds or len(bounds) < len(bounded):
        fail(
            "E308",
            f"the bounds of {family.name} are whole numbers",
            span,
            f"for example `{family.example}`",
        )
    low = 0.0 if family.name == "binomial" else bounds[0].lo
    high = bounds[-1].hi
    count = high - low + 1
    if math.isinf(count):
        fail(
            "E306",
            f"the bounds of {family.name} are not known",
            span,
            "declare the domain of the value with `:- domain(…)`",
        )
    if count > MOST_VALUES:
        fail(
            "E306",
            f"{family.name} from {low:,.0f} to {high:,.0f} has {count:,.0f} values; at most "
            f"{MOST_VALUES:,} can be listed",
            span,
            "draw from fewer, or declare the domains of its bounds with `:- domain(…)`",
        )
    return range(int(low), int(high) + 1)


def _value_type(values: tuple) -> Type:
    """The type of the outcomes, or of their positions where they have none in common."""
    type_ = join_all(const(v).type for v in values)
    mixed = isinstance(type_, Real) and any(type(v) is int for v in values)
    if type_ is None or mixed or any(type(v) is tuple for v in values):
        return Int(0, len(values) - 1)
    return type_


# ---------------------------------------------------------------- what it binds


def _bound(
    rv: Expr, support: tuple | None, drawn: int, family: Family, span: Span | None
) -> Iterator[tuple[tuple, Expr]]:
    """The values of so many drawn arguments, and when they are those."""
    if isinstance(rv.type, Tensor) and family.name == "multivariate_normal" and drawn > 1:
        if rv.type.shape not in (None, (drawn,)):
            fail(
                "E110",
                f"the mean is {rv.type}, the head draws {drawn} numbers",
                span,
                "draw as many arguments as the mean has entries, or one for the vector",
            )
        yield tuple(item(rv, i) for i in range(drawn)), TRUE
        return
    if drawn == 1 and (support is None or family.name != "categorical"):
        yield (rv,), TRUE
        return
    if support is None:
        fail(
            "E110",
            f"{family.name} draws one value, the head has {drawn}",
            span,
            "bind the other variables of the head in the body",
        )
    if drawn > 1 and any(type(v) is not tuple or len(v) != drawn for v in support):
        fail(
            "E110",
            f"the head draws {drawn} values at once, so each outcome must be a list of {drawn}",
            span,
            "for example `[[1, 1], [1, 2]]`",
        )
    rows = support if drawn > 1 else tuple((v,) for v in support)
    columns = list(zip(*rows, strict=True))
    positions = Int(0, len(support) - 1)
    if drawn == 1 and not any(type(v) is tuple for v in support):
        if rv.type != positions or all(type(v) is int for v in support):
            yield (rv,), TRUE
            return
        common = False
    else:
        common = all(join_all(const(v).type for v in column) for column in columns)
    if not common:
        # Outcomes of no common type: the variable is the position of the outcome.
        for i, row in enumerate(rows):
            yield row, eq(rv, const(i))
        return
    yield (
        tuple(
            lookup(
                ConstantTable(
                    f"{rv.data}.{i + 1}", (positions,), {(k,): v for k, v in enumerate(column)}
                ),
                rv,
            )
            for i, column in enumerate(columns)
        ),
        TRUE,
    )
