"""Terms with values: arithmetic, comparisons, families, and continuous values as intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy import stats

from differential import syntax as s

Binding = dict[str, Any]


class Unsupported(Exception):
    """Something that this oracle cannot say."""


@dataclass(frozen=True)
class Interval:
    """A continuous value between two numbers; `mean` and `sd` where it is normal."""

    low: float
    high: float
    mean: float = math.nan
    sd: float = math.nan

    def __str__(self) -> str:
        return f"<{self.low}..{self.high}>"


FAMILIES = {"normal", "uniform", "exponential", "laplace", "gamma", "beta", "lognormal"}
INFINITE = FAMILIES | {"poisson", "geometric"}


def distribution(family: str, params: tuple[float, ...]) -> Any:
    match family:
        case "normal":
            return stats.norm(params[0], params[1])
        case "uniform":
            return stats.uniform(params[0], params[1] - params[0])
        case "exponential":
            return stats.expon(scale=1 / params[0])
        case "laplace":
            return stats.laplace(params[0], params[1])
        case "gamma":
            return stats.gamma(params[0], scale=1 / params[1])
        case "beta":
            return stats.beta(params[0], params[1])
        case "lognormal":
            return stats.lognorm(params[1], scale=math.exp(params[0]))
        case "poisson":
            return stats.poisson(params[0])
        case "geometric":
            return stats.geom(params[0], loc=-1)
    raise Unsupported(family)


def outcomes(family: str, params: tuple[Any, ...]) -> list[tuple[Any, float]]:
    """The values of a finite family with their probabilities."""
    match family:
        case "categorical":
            return list(zip(params[1], params[0], strict=True))
        case "uniform_int":
            low, high = params
            return [(v, 1 / (high - low + 1)) for v in range(low, high + 1)]
        case "binomial":
            n, p = params
            return [(k, math.comb(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
        case "bernoulli":
            return [(0, 1 - params[0]), (1, params[0])]
    raise Unsupported(family)


def deepest(goals: s.Body) -> int:
    """How far back goals must be able to look, whatever alternative is taken."""
    deep = 0
    for goal in goals:
        match goal:
            case s.Atom():
                deep = max(deep, s.lag(goal.when) or 0)
            case s.Not(inner) | s.Aggregate(_, _, inner, _):
                deep = max(deep, deepest(inner))
            case s.Forall(condition, inner):
                deep = max(deep, deepest(condition), deepest(inner))
            case s.Either(options):
                deep = max(deep, min(map(deepest, options)))
    return deep


def unify(pattern: tuple[Any, ...], args: tuple[Any, ...], binding: Binding) -> Binding | None:
    if len(pattern) != len(args):
        return None
    out = binding
    for wanted, value in zip(pattern, args, strict=True):
        if wanted == "_":
            continue
        if s.is_variable(wanted):
            if wanted in out:
                if out[wanted] != value:
                    return None
            else:
                out = {**out, wanted: value}
        elif value_of(wanted, out, None) != value:
            return None
    return out


def value_of(term: Any, binding: Binding, time: Any) -> Any:
    if isinstance(term, tuple):
        op, *args = term
        values = [value_of(a, binding, time) for a in args]
        if any(isinstance(v, Interval) for v in values):
            return _interval(op, values)
        a, b = values if len(values) == 2 else (values[0], None)
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/":
                return a / b
            case "//":
                return a // b
            case "mod":
                return a % b
            case "min":
                return min(a, b)
            case "max":
                return max(a, b)
            case "abs":
                return abs(a)
        raise Unsupported(op)
    if term == "t" and time is not None:
        return time
    if s.is_variable(term):
        return binding[term]
    return term


def _interval(op: str, values: list[Any]) -> Interval:
    """Affine maps of an interval."""
    a, b = values if len(values) == 2 else (values[0], None)
    scale, shift = 1.0, 0.0
    if op == "+":
        x, shift = (a, b) if isinstance(a, Interval) else (b, a)
    elif op == "-" and isinstance(a, Interval):
        x, shift = a, -b
    elif op == "-":
        x, scale, shift = b, -1.0, a
    elif op == "*":
        x, scale = (a, b) if isinstance(a, Interval) else (b, a)
    else:
        raise Unsupported(f"{op} of an interval")
    ends = sorted((x.low * scale + shift, x.high * scale + shift))
    return Interval(ends[0], ends[1], x.mean * scale + shift, x.sd * abs(scale))


def compare(goal: s.Compare, binding: Binding, time: Any) -> Binding | None:
    op = goal.op
    if op in ("is", "="):
        right = value_of(goal.right, binding, time)
        if isinstance(right, float):
            right = round(right, 15)  # as ProbLog keeps numbers
        if s.is_variable(goal.left) and goal.left not in binding:
            return {**binding, goal.left: right}
        return binding if value_of(goal.left, binding, time) == right else None
    a, b = (value_of(x, binding, time) for x in (goal.left, goal.right))
    if isinstance(a, Interval) or isinstance(b, Interval):
        holds = _compare_intervals(op, a, b)
    else:
        holds = {
            "<": lambda: a < b, ">": lambda: a > b, "=<": lambda: a <= b, ">=": lambda: a >= b,
            "=:=": lambda: a == b, "=\\=": lambda: a != b, "\\=": lambda: a != b,
            "==": lambda: a == b, "\\==": lambda: a != b,
        }[op]()  # fmt: skip
    return binding if holds else None


def listed(goal: s.Listing, binding: Binding) -> list[Binding]:
    """The ways to satisfy a builtin about a list."""
    items = [value_of(x, binding, None) for x in goal.items]
    pattern: tuple[Any, ...] = (goal.result,)
    match goal.op:
        case "member":
            rows = [(x,) for x in items]
        case "nth0" | "nth1":
            pattern = (goal.place, goal.result)
            rows = [(i, x) for i, x in enumerate(items, int(goal.op[-1]))]
        case "last":
            rows = [(items[-1],)] if items else []
        case "length":
            rows = [(len(items),)]
        case "sum_list":
            rows = [(sum(items),)]
        case "max_list" | "min_list":
            rows = [((max if goal.op == "max_list" else min)(items),)] if items else []
        case _:
            raise Unsupported(goal.op)
    found = (unify(pattern, row, binding) for row in rows)
    return [f for f in found if f is not None]


def _compare_intervals(op: str, a: Any, b: Any) -> bool:
    if isinstance(a, Interval) and isinstance(b, Interval):
        raise Unsupported("two continuous values compared")
    if isinstance(b, Interval):
        return _compare_intervals({"<": ">", ">": "<", "=<": ">=", ">=": "=<"}[op], b, a)
    tiny = 1e-9
    if a.low >= b - tiny:
        return op in (">", ">=")
    if a.high <= b + tiny:
        return op in ("<", "=<")
    raise Unsupported(f"{b} lies inside {a}")


def density_given_interval(x: Interval, sd: float, value: float) -> float:
    """The density of value ~ normal(x, sd) where x is a truncated normal."""
    wide = math.sqrt(x.sd**2 + sd**2)
    mean = (x.mean * sd**2 + value * x.sd**2) / wide**2
    narrow = x.sd * sd / wide
    inside = stats.norm.cdf(x.high, mean, narrow) - stats.norm.cdf(x.low, mean, narrow)
    prior = stats.norm.cdf(x.high, x.mean, x.sd) - stats.norm.cdf(x.low, x.mean, x.sd)
    return float(stats.norm.pdf(value, x.mean, wide) * inside / prior)


def cut_points(case: s.Case) -> dict[str, set[float]]:
    """Per predicate the numbers that its continuous value is compared with.

    Read off the clauses: the variable in the last place of an atom, compared in the same body,
    alone or in an affine term, with a number."""
    out: dict[str, set[float]] = {}
    for statement in case.statements:
        if isinstance(statement, s.Clause | s.Draw):
            _cuts_in(statement.body, {}, out)
    return out


def _cuts_in(goals: s.Body, owner: dict[str, str], out: dict[str, set[float]]) -> None:
    owner = dict(owner)
    for goal in goals:
        match goal:
            case s.Atom(name, args) if args and s.is_variable(args[-1]):
                owner[args[-1]] = name
            case s.Not(inner) | s.Aggregate(_, _, inner, _):
                _cuts_in(inner, owner, out)
            case s.Forall(condition, inner):
                _cuts_in((*condition, *inner), owner, out)
            case s.Either(options):
                for option in options:
                    _cuts_in(option, owner, out)
            case s.Compare(op, left, right) if op not in ("is", "=") and isinstance(
                right, int | float
            ):
                inner, scale, shift = _affine(left)
                if inner in owner:
                    out.setdefault(owner[inner], set()).add((right - shift) / scale)


def _affine(term: Any) -> tuple[Any, float, float]:
    """A term as scale * variable + shift."""
    match term:
        case ("+", inner, int() | float() as b):
            x, scale, shift = _affine(inner)
            return x, scale, shift + b
        case ("-", inner, int() | float() as b):
            x, scale, shift = _affine(inner)
            return x, scale, shift - b
        case ("*", int() | float() as a, inner):
            x, scale, shift = _affine(inner)
            return x, a * scale, a * shift
    return term, 1.0, 0.0
