"""Guides: what the filters draw variables from instead of their priors.

A guide is resolved like a clause: its answers say for which keys and under which condition it
proposes what. In its body an atom of an observed predicate means what is observed of it at this
step, which is known before anything is drawn; where it is missing, there is no such atom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from nesymm.errors import fail
from nesymm.ground.context import Context
from nesymm.ground.literals import CallLit
from nesymm.ground.questions import Observed
from nesymm.ground.random_variables.draws import outcomes
from nesymm.ground.random_variables.identity import KeyAxis, Owner
from nesymm.ground.random_variables.parameters import read_parameters
from nesymm.ground.random_variables.variables import Variables
from nesymm.ground.resolution import Engine
from nesymm.ground.state.blocks import AxisKey, Block
from nesymm.ground.state.reading import match
from nesymm.ground.tabling import Answer
from nesymm.ground.unify import Env, number_variables, unify_all
from nesymm.ir.algebra import and_, axis_value, conjuncts, eq, exclusive, item, within
from nesymm.ir.axes import any_, reduce_, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, in_order, make
from nesymm.ir.step import ObservationDecl, Proposal, RandomVariable, flat
from nesymm.ir.symbols import as_expr, axis_of, key_of
from nesymm.ir.types import BOOL, Tensor, Type
from nesymm.language.families import FAMILIES
from nesymm.language.program import Guide

Solved = list[tuple[Guide, list[Answer]]]


# ---------------------------------------------------------------- what is observed


def read_observed(
    ctx: Context, observed: Iterable[Observed], lit: CallLit, env: Env
) -> Iterator[tuple[Env, Expr]]:
    """A literal of a guide about a predicate that is observed, as `observed` says."""
    lit = replace(lit, pred=replace(lit.pred, kind="program"))
    for one in observed:
        # That there is some value does not say which.
        if one.terms is not None and (one.decl.is_value or not one.values):
            yield from _read(ctx, lit, env, one.decl, one.terms, one.values)


def _read(
    ctx: Context,
    lit: CallLit,
    env: Env,
    decl: ObservationDecl,
    terms: tuple,
    values: tuple[int, ...],
) -> Iterator[tuple[Env, Expr]]:
    keys = [i for i in range(len(terms)) if i not in values]
    places = [axis_of(terms[i]) for i in keys]
    block_keys = (
        terms[i] if axis is None else AxisKey(axis.type)
        for i, axis in zip(keys, places, strict=True)
    )
    block = Block(tuple(block_keys), (), ())
    asked = tuple(lit.args[i] for i in keys)
    for new, indices, condition in match(ctx, lit, env, asked, block):
        conditions = [condition]
        at: dict[Axis, Expr] = {}
        for axis, index in zip((a for a in places if a is not None), indices, strict=True):
            conditions.append(eq(at.setdefault(axis, index), index))
        here = tuple(at[a] for a in decl.axes)
        conditions.append(_leaf(decl, here, "given", BOOL))
        if not decl.is_value:
            holds = _leaf(decl, here, 0, BOOL) if decl.value is None else as_expr(decl.value)
            conditions.append(holds)
        columns = _columns(decl, here, len(values))
        if unify_all(zip([lit.args[i] for i in values], columns, strict=True), new, conditions):
            yield new, and_(*conditions)


def _leaf(decl: ObservationDecl, keys: tuple[Expr, ...], column: Any, type_: Type) -> Expr:
    return make("observed", keys, (decl.name, decl.when, decl.value is None, column), type_)


def _columns(decl: ObservationDecl, keys: tuple[Expr, ...], count: int) -> list[Expr]:
    """What is observed in each of so many arguments."""
    columns = []
    for i in range(len(decl.branches[0].values) if decl.branches else 0):
        if decl.value is not None:
            columns.append(decl.constant(i))
            continue
        columns.append(_leaf(decl, keys, i, decl.column_type(i)))
    if len(columns) == count:
        return columns
    # A vector is observed as one: its entries are the arguments.
    (vector,) = columns
    assert isinstance(vector.type, Tensor)
    return [item(vector, i) for i in range(count)]


# ---------------------------------------------------------------- which variables it is for


def solve_guides(ctx: Context, engine: Engine) -> Solved:
    out: Solved = []
    for guide in ctx.program.guides:
        root = ctx.clauses.roots[id(guide)]
        answers = engine.solve(root.pred, number_variables(root.term), guide.span)
        out.append((guide, answers))
    return out


def attach_guides(variables: Variables, solved: Solved) -> None:
    for guide, answers in solved:
        targets = {n: o for n, o in variables.owner.items() if o.pred == guide.target.pred}
        for answer in answers:
            fits = [_attach(variables, guide, answer, n, o) for n, o in targets.items()]
            if targets and not any(fits):
                fail(
                    "E103",
                    f"this guide fits no variable of {guide.target.pred}: its keys are different",
                    guide.span,
                    "bind its keys in the body in the same way as in the clause that draws",
                )
    for variable in variables.declared.values():
        for one, other in combinations(variable.guides, 2):
            _must_agree(variables.ctx, variable, one, other)


def _attach(variables: Variables, guide: Guide, answer: Answer, name: str, owner: Owner) -> bool:
    """Give a guide to a variable; returns whether it has such keys."""
    variable = variables.declared[name]
    arity = len(guide.target.args)
    keys, raw = answer.terms[:arity], answer.terms[arity:]
    met = _same_keys(owner.keys, keys, variable.axes)
    if met is None:
        return False
    if variable.finite:
        fail(
            "E103",
            f"{name} has finitely many values: it is summed out, and needs no guide",
            guide.span,
            "leave the guide out",
        )
    mapping, here = met
    timed = guide.target.time is not None
    params, neural = read_parameters(variables.ctx, FAMILIES[guide.family], raw, guide.span, timed)
    proposal = Proposal(answer.condition, guide.family, params, neural, guide.span)
    proposal = proposal.map(lambda e: substitute(e, mapping))
    proposal = replace(proposal, condition=and_(here, proposal.condition))
    proposal = _without_other_axes(variable, guide, proposal)
    if and_(variable.guard, proposal.condition) is FALSE:
        return True
    _check_type(guide, proposal, variable)
    # Where the variable is not drawn, no guide is asked for.
    sure = conjuncts(variable.guard)
    condition = and_(*(c for c in conjuncts(proposal.condition) if c not in sure))
    proposal = replace(proposal, condition=condition)
    if proposal not in variable.guides:
        guided = replace(variable, guides=(*variable.guides, proposal))
        variables.declared[name] = guided
    return True


def _same_keys(
    own: tuple, keys: tuple, axes: tuple[Axis, ...]
) -> tuple[dict[Axis, Expr], Expr] | None:
    """What the axes of a guide's keys are in a variable, and where its keys are met; None if
    they never are."""
    if len(own) != len(keys):
        return None
    mapping: dict[Axis, Expr] = {}
    conditions: list[Expr] = []
    for wanted, key in zip(own, keys, strict=True):
        along = isinstance(wanted, KeyAxis)
        axis = axis_of(key)
        if axis is None and not along and not isinstance(key, Expr):
            if key_of(wanted) != key_of(key):
                return None
            continue
        target = axis_value(axes[wanted.axis]) if along else as_expr(wanted)
        if axis is None:
            conditions.append(eq(target, as_expr(key)))
        else:
            conditions.append(within(target, axis.type))
            conditions.append(eq(mapping.setdefault(axis, target), target))
    condition = and_(*conditions)
    return None if condition is FALSE else (mapping, condition)


def _without_other_axes(variable: RandomVariable, guide: Guide, proposal: Proposal) -> Proposal:
    """Axes of the body that are none of the variable's: whether the guide applies anywhere."""
    others = {a for e in proposal.expressions() for a in e.axes} - set(variable.axes)
    for axis in in_order(others):
        condition = proposal.condition

        def pick(expr: Expr, axis: Axis = axis, condition: Expr = condition) -> Expr:
            return reduce_("pick", axis, condition, expr)

        params = replace(proposal, condition=TRUE).map(pick).params
        pairs = zip(flat(proposal.params), flat(params), strict=True)
        if any(axis in old.axes and new.op == "pick" for old, new in pairs):
            name = axis.name
            fail(
                "E103",
                f"the parameters of this guide depend on {name}, which its keys do not determine",
                guide.span,
                f"make {name} a key of the variable, or determine it in the body",
            )
        proposal = replace(proposal, condition=any_(axis, condition), params=params)
    return proposal


def _check_type(guide: Guide, proposal: Proposal, variable: RandomVariable) -> None:
    """A guide must propose what its target draws."""
    proposed, _ = outcomes(FAMILIES[guide.family], proposal.params, guide.span)
    if type(proposed) is not type(variable.type):
        fail(
            "E110",
            f"the guide proposes {proposed}, but {variable.name} is {variable.type}",
            guide.span,
            "let the network of the guide have one output per parameter",
        )


def _must_agree(ctx: Context, variable: RandomVariable, one: Proposal, other: Proposal) -> None:
    """Guides that apply at once must propose the same."""
    conditions = (one.condition, other.condition)
    both = and_(variable.guard, *conditions)
    if both is FALSE or exclusive(*conditions) or _same(one, other):
        return
    if conditions == (TRUE, TRUE):
        fail(
            "E307",
            f"two guides of {variable.name} apply at the same time and propose different things",
            other.span,
            "let their bodies exclude each other: `guide(x@t) ~ … :- not u(_)@t.`",
        )
    ctx.must_not(f"two guides of {variable.name} apply at once and differ", both, other.span)


def _same(one: Proposal, other: Proposal) -> bool:
    return replace(one, condition=TRUE) == replace(other, condition=TRUE)
