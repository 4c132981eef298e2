"""Continuous variables that can be summed out in closed form.

A variable that is only ever compared with thresholds matters only through the interval
that it falls into, which is a finite variable with known probabilities. The same holds
for a weighted sum of independent normals (a difference of positions, say) and for its
absolute value. What is used in any other way is left for sampling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn

from nesymm.errors import Diagnostic, ProgramError
from nesymm.inference.densities import DENSITIES
from nesymm.ir.algebra import and_, const, is_const, le, lt, not_, or_
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import case, rebuild, replacing
from nesymm.ir.expr import FALSE, TRUE, Expr, leaves, make, postorder
from nesymm.ir.step import ObservationDecl, RandomVariable, StepProgram
from nesymm.ir.types import Int, Real, Tensor

Form = tuple[tuple[Expr, float], ...]  # random variables with their factors, the first 1


@dataclass(frozen=True)
class Linear:
    """A weighted sum of continuous variables, and the rest."""

    factors: dict[Expr, float]
    rest: Expr


@dataclass(frozen=True)
class Comparison:
    """`node` compares a linear form with a threshold, or its absolute value."""

    node: Expr
    absolute: bool
    linear: Linear
    form: Form


def substitute_observed(step: StepProgram) -> StepProgram:
    """Put observed values in the place of the continuous variables that they are values of.

    The observations themselves keep naming the variables: they weigh by their densities.
    """
    given: dict[Expr, Expr] = {}
    unobserved: list[RandomVariable] = []
    owners: dict[Expr, ObservationDecl] = {}
    for observation in step.observations:
        for rv, (i, where) in _observed_variables(step, observation).items():
            seen = observed_value(observation, i)
            if rv not in given:
                owners[rv] = observation
                given[rv] = seen
                if where is not TRUE:
                    # Elsewhere it is another variable that has this value.
                    free = _unobserved(step.variable(rv.data), where, observation)
                    unobserved.append(free)
                    given[rv] = case(
                        [(where, seen), (TRUE, make("rv", rv.args, free.name, rv.type))]
                    )
            elif given[rv].op == "case" or where is not TRUE:
                _refuse(observation, f"{rv.data} is observed twice, and not always")
    if not given:
        return step

    changed = step.rewrite(replacing(given.get))
    kept = tuple(
        replace(
            new,
            branches=tuple(
                replace(
                    b,
                    values=tuple(
                        # What was observed before is known: its second value must be the same.
                        v if owners.get(v) is old else w
                        for v, w in zip(before.values, b.values, strict=True)
                    ),
                )
                for before, b in zip(old.branches, new.branches, strict=True)
            ),
        )
        for old, new in zip(step.observations, changed.observations, strict=True)
    )
    changed = replace(changed, observations=kept)
    used = {node.data for node in leaves(changed.roots(), "rv")}
    added = tuple(v for v in unobserved if v.name in used)
    return replace(changed, variables=(*changed.variables, *added))


def _observed_variables(
    step: StepProgram, observation: ObservationDecl
) -> dict[Expr, tuple[int, Expr]]:
    """The continuous variables that have an observed value: which, and where that is so."""
    infinite = {v.name: v for v in step.variables if not v.finite}
    found: dict[Expr, tuple[int, list[Expr]]] = {}
    for branch in observation.branches:
        for i, value in enumerate(branch.values):
            if value.op == "rv" and value.data in infinite:
                found.setdefault(value, (i, []))[1].append(branch.condition)
    out: dict[Expr, tuple[int, Expr]] = {}
    for rv, (i, conditions) in found.items():
        where = or_(*conditions)
        drawn = infinite[rv.data].guard
        # If all ways to explain the observation name it, it has this value for certain.
        certain = len(conditions) == len(observation.branches)
        out[rv] = i, TRUE if certain or and_(drawn, not_(where)) is FALSE else where
    return out


def _unobserved(
    variable: RandomVariable, where: Expr, observation: ObservationDecl
) -> RandomVariable:
    """A copy of a variable for where its value is not the observed one."""
    if any(node.data == variable.name for node in leaves([where], "rv")):
        _refuse(observation, f"whether {variable.name} is observed depends on its own value")
    name = f"{variable.name} (not observed)"
    return replace(variable, name=name, guard=and_(variable.guard, not_(where)))


def _refuse(observation: ObservationDecl, message: str) -> NoReturn:
    cure = "observe the variable itself, once"
    raise ProgramError(Diagnostic("E311", message, observation.span, cure))


def observed_value(observation: ObservationDecl, i: int) -> Expr:
    """What an observation says of its i-th value."""
    if observation.value is None:
        return make("input", (), (observation.name, i), observation.column_type(i))
    return observation.constant(i)


def eliminate(step: StepProgram) -> StepProgram:
    """Replace comparisons of continuous variables by comparisons of interval numbers."""
    if not any(node.op in ("lt", "le", "eq") for node in postorder(step.roots())):
        return step
    countable = {v.name for v in step.variables if not v.finite and isinstance(v.type, Int)}

    def split(node: Expr, args: tuple[Expr, ...]) -> Expr:
        node = rebuild(node, args)
        whole = node.op == "eq" and all(isinstance(a.type, Int) for a in node.args)
        if whole and any(leaf.data in countable for leaf in leaves([node], "rv")):
            # A whole number is k if it is neither below nor above k.
            x, y = node.args
            return and_(*(_by_cases(test, test.args) for test in (le(x, y), le(y, x))))
        return _by_cases(node, node.args)

    step = step.rewrite(split)
    finder = _Finder(step)
    groups = finder.groups()
    if not groups:
        return step
    replaced: dict[Expr, Expr] = {}
    added: list[RandomVariable] = []
    for form, comparisons in groups.items():
        added.append(finder.interval_variable(form, comparisons, replaced))

    # The guard of one may compare others.
    whole = replace(step, variables=(*step.variables, *added))
    changed = whole.rewrite(replacing(replaced.get))
    gone = {node.data for form in groups for node, _ in form}
    return replace(changed, variables=tuple(v for v in changed.variables if v.name not in gone))


def _by_cases(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """A comparison of merged values is one of the comparisons of what was merged."""
    node = rebuild(node, args)
    if node.op not in ("lt", "le"):
        return node
    for i, merged in enumerate(node.args):
        if merged.op != "case" or not leaves([merged], "rv"):
            continue
        parts: list[Expr] = []
        taken: list[Expr] = []
        for j in range(0, len(merged.args), 2):
            pair = [merged.args[j + 1], node.args[1 - i]]
            test = (lt if node.op == "lt" else le)(*(pair if i == 0 else pair[::-1]))
            here = and_(merged.args[j], *(not_(c) for c in taken))
            parts.append(and_(here, _by_cases(test, test.args)))
            taken.append(merged.args[j])
        return or_(*parts)
    return node


class _Finder:
    def __init__(self, step: StepProgram):
        self.step = step
        self.variables = {v.name: v for v in step.variables}
        self.infinite = {
            v.name for v in step.variables if not v.finite and not isinstance(v.type, Tensor)
        }
        self._touched: dict[int, bool] = {}
        self._keep: list[Expr] = []

    def touches(self, expr: Expr) -> bool:
        """Whether an expression mentions a continuous variable."""
        if id(expr) not in self._touched:
            for node in postorder([expr]):
                below = node.data[0].definitions if node.op == "lfp" else node.args
                self._touched[id(node)] = (node.op == "rv" and node.data in self.infinite) or any(
                    self._touched.get(id(a), node.op == "lfp") for a in below
                )
                self._keep.append(node)
        return self._touched[id(expr)]

    def groups(self) -> dict[Form, list[Comparison]]:
        """The comparisons that can be replaced, by what they compare."""
        found: dict[Form, list[Comparison]] = {}
        blocked: set[str] = set()
        seen: set[int] = set()
        pending = list(self.step.roots())
        while pending:
            node = pending.pop()
            if id(node) in seen or not self.touches(node):
                continue
            seen.add(id(node))
            if node.op in ("and", "or", "not", "any"):
                pending.extend(node.args)
            elif node.op == "lfp":
                pending.extend(node.data[0].definitions)
            elif node.op in ("lt", "le"):
                comparison = self._comparison(node)
                if comparison is None:
                    blocked |= self._names([node])
                else:
                    found.setdefault(comparison.form, []).append(comparison)
            else:
                # Any other use of a variable needs its value.
                blocked |= self._names([node])
        owners: dict[str, set[Form]] = {}
        for form in found:
            for rv, _ in form:
                owners.setdefault(rv.data, set()).add(form)
        blocked |= {name for name, forms in owners.items() if len(forms) > 1}
        while True:
            bad = [
                form
                for form, comparisons in found.items()
                if blocked & {rv.data for rv, _ in form} or not self._closed(form, comparisons)
            ]
            if not bad:
                return found
            for form in bad:
                blocked |= {rv.data for rv, _ in form}
                del found[form]

    def _names(self, exprs: Iterable[Expr]) -> set[str]:
        return {n.data for n in postorder(exprs) if n.op == "rv" and n.data in self.infinite}

    def _comparison(self, node: Expr) -> Comparison | None:
        left, right = node.args
        for absolute, plain in ((left, right), (right, left)):
            if absolute.op == "abs" and self.touches(absolute) and not self.touches(plain):
                linear = self._linear(absolute.args[0])
                if linear is None or not is_const(plain) or not is_const(linear.rest):
                    return None
                return Comparison(node, True, linear, self._normal_form(linear))
        linear = self._linear(arithmetic("sub", left, right))
        if linear is None or not linear.factors:
            return None
        return Comparison(node, False, linear, self._normal_form(linear))

    def _normal_form(self, linear: Linear) -> Form:
        items = sorted(linear.factors.items(), key=lambda item: item[0].data)
        scale = items[0][1]
        return tuple((rv, factor / scale) for rv, factor in items)

    def _linear(self, expr: Expr) -> Linear | None:
        if not self.touches(expr):
            return Linear({}, expr)
        match expr.op:
            case "rv" if not expr.args:
                return Linear({expr: 1.0}, const(0))
            case "neg":
                return _scale(self._linear(expr.args[0]), -1.0)
            case "add" | "sub":
                sign = 1.0 if expr.op == "add" else -1.0
                return _plus(self._linear(expr.args[0]), _scale(self._linear(expr.args[1]), sign))
            case "mul":
                for one, other in (expr.args, expr.args[::-1]):
                    if is_const(one):
                        return _scale(self._linear(other), float(one.data))
            case "div" if is_const(expr.args[1]) and expr.args[1].data != 0:
                return _scale(self._linear(expr.args[0]), 1 / float(expr.args[1].data))
        return None

    def _closed(self, form: Form, comparisons: list[Comparison]) -> bool:
        if any(self.variables[rv.data].guides for rv, _ in form):
            return False  # What a guide proposes is to be drawn.
        families = [self.variables[rv.data].family for rv, _ in form]
        if len(form) > 1 and any(f != "normal" for f in families):
            return False
        if DENSITIES[families[0]].log_below is None:
            return False
        # Several thresholds must be ordered, so they must be known.
        known = all(is_const(c.linear.rest) for c in comparisons)
        if self.step.temporal:
            # A value that is drawn once meets its thresholds, and its partners, at every step.
            once = {self.variables[rv.data].static for rv, _ in form}
            if len(once) > 1 or (True in once and not known):
                return False
        return known or (len(comparisons) == 1 and families[0] == "normal")

    # ------------------------------------------------------------ the new variable

    def interval_variable(
        self,
        form: Form,
        comparisons: list[Comparison],
        replaced: dict[Expr, Expr],
    ) -> RandomVariable:
        family, params, guard = self._distribution(form)
        whole = isinstance(self.variables[form[0][0].data].type, Int)
        tests = [self._tests(form, c, whole) for c in comparisons]
        points = {id(p): p for own in tests for p, _ in own}
        ordered = sorted(points.values(), key=lambda p: p.data if is_const(p) else 0.0)
        unique: list[Expr] = []
        for point in ordered:
            if not unique or unique[-1] is not point:
                unique.append(point)
        steps = [_mass(family, params, low, high) for low, high in pairwise([None, *unique, None])]
        support = tuple(range(len(steps)))
        name = "interval of " + " + ".join(rv.data for rv, _ in form)
        static = all(self.variables[rv.data].static for rv, _ in form)
        variable = RandomVariable(
            name,
            "intervals",
            guard,
            (tuple(steps), tuple(const(i) for i in support)),
            (),
            Int(0, len(support) - 1),
            support,
            static,
            False,
            name,
        )
        rv = make("rv", (), name, variable.type)
        for comparison, own in zip(comparisons, tests, strict=True):
            parts = []
            for point, upper in own:
                at_most = le(rv, const(next(i for i, u in enumerate(unique) if u is point)))
                parts.append(at_most if upper else not_(at_most))
            inside = comparison.node.args[0].op == "abs"
            replaced[comparison.node] = and_(*parts) if inside else or_(*parts)
        return variable

    def _tests(self, form: Form, comparison: Comparison, whole: bool) -> list[tuple[Expr, bool]]:
        """The comparison as tests `form =< point` (True) or `form > point` (False)."""
        node, linear = comparison.node, comparison.linear
        scale = linear.factors[form[0][0]]
        strict = node.op == "lt"
        if not comparison.absolute:
            # scale * form + rest < 0
            threshold = arithmetic("div", arithmetic("neg", linear.rest), const(scale))
            upper = scale > 0
            return [(_point(threshold, strict == upper, whole), upper)]
        inside = node.args[0].op == "abs"
        bound = node.args[1] if inside else node.args[0]
        offset, limit = float(linear.rest.data), float(bound.data)
        low, high = sorted(((-limit - offset) / scale, (limit - offset) / scale))
        if inside:
            # |…| < limit: above the lower end and below the upper one
            return [
                (_point(const(low), not strict, whole), False),
                (_point(const(high), strict, whole), True),
            ]
        return [
            (_point(const(low), strict, whole), True),
            (_point(const(high), not strict, whole), False),
        ]

    def _distribution(self, form: Form) -> tuple[str, tuple[Expr, ...], Expr]:
        guard = and_(*(self.variables[rv.data].guard for rv, _ in form))
        if len(form) == 1:
            variable = self.variables[form[0][0].data]
            return variable.family, _scalars(variable), guard
        mean: Expr = const(0.0)
        variance: Expr = const(0.0)
        for rv, factor in form:
            m, s = _scalars(self.variables[rv.data])
            mean = arithmetic("add", mean, arithmetic("mul", const(factor), m))
            square = arithmetic("mul", s, s)
            variance = arithmetic("add", variance, arithmetic("mul", const(factor**2), square))
        return "normal", (mean, arithmetic("sqrt", variance)), guard


def _mass(family: str, params: tuple[Expr, ...], low: Expr | None, high: Expr | None) -> Expr:
    """The log-probability of an interval."""
    ends = [end for end in (low, high) if end is not None]
    known = (low is not None, high is not None)
    return make("log_mass", (*ends, *params), (family, known), Real(hi=0))


def _point(threshold: Expr, strict: bool, whole: bool) -> Expr:
    """The largest value that counts as below a threshold."""
    if not whole or not is_const(threshold):
        return threshold
    value = float(threshold.data)
    return const(float(math.ceil(value) - 1 if strict else math.floor(value)))


def _scalars(variable: RandomVariable) -> tuple[Expr, ...]:
    """The parameters of a continuous variable, each as one number."""
    if not variable.neural:
        assert all(isinstance(p, Expr) for p in variable.params)
        return tuple(p for p in variable.params if isinstance(p, Expr))
    from nesymm.language.families import FAMILIES

    whole = variable.params[0]
    assert isinstance(whole, Expr)
    out = []
    for i, constraint in enumerate(FAMILIES[variable.family].constraints):
        raw = make("neural", whole.args, (whole.data[0], i), Real())
        if constraint == "positive":
            raw = make("softplus", (raw,), type_=Real(0))
        elif constraint == "unit":
            raw = make("sigmoid", (raw,), type_=Real(0, 1))
        out.append(raw)
    return tuple(out)


def _plus(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None:
        return None
    factors = dict(a.factors)
    for rv, factor in b.factors.items():
        factors[rv] = factors.get(rv, 0.0) + factor
    return Linear({r: f for r, f in factors.items() if f}, arithmetic("add", a.rest, b.rest))


def _scale(a: Linear | None, factor: float) -> Linear | None:
    if a is None:
        return None
    rest = arithmetic("mul", const(factor), a.rest)
    return Linear({r: f * factor for r, f in a.factors.items()}, rest)
