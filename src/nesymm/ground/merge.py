"""Merging answers: one answer per key, its values given by cases.

Answers would otherwise multiply along rule chains. Answers of a predicate that is
functional in its keys (a drawn or carried value) are always merged, and where it cannot
be proved that at most one of them applies, a run-time flag reports a conflict. Answers
of other predicates are merged only if they evidently exclude each other.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import Any

from nesymm.errors import fail
from nesymm.ground.answers import each_once, split
from nesymm.ground.axes import Axes
from nesymm.ground.calls import replaced
from nesymm.ground.context import Context
from nesymm.ground.tabling import Answer, Table
from nesymm.ir.algebra import and_, axis_value, eq, exclusive, is_const, not_, or_, within
from nesymm.ir.arithmetic import refine
from nesymm.ir.axes import anywhere, case
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, leaves
from nesymm.ir.symbols import (
    CondList,
    as_expr,
    atoms_of,
    axes_of,
    axis_of,
    has_symbol,
    is_ground,
    key_of,
    parts,
)
from nesymm.ir.terms import Compound, atom_text
from nesymm.ir.types import Enum, Int, Real, Tensor, contains, is_finite, join


def align(ctx: Context, table: Table, rows: list[Answer]) -> list[Answer]:
    """Write answers whose keys overlap along one axis, so that each atom is there once.

    `p(E)` for E in 1..3 and `p(2)`, or `p(E)` for E in 2..5, speak of the same atoms.
    """
    values = ctx.clauses.values.get(table.pred, frozenset())
    if table.pred.kind == "choice":
        values = frozenset()  # every binding tells groundings apart
    along = set().union(*(axes_of(r.terms) for r in rows)) - table.given
    if not along:
        return rows
    if table.pred in ctx.openings and not all(is_ground(r.terms) for r in rows):
        split(ctx.axes, along, table)  # an open argument may be any of its elements
    rows = [_spread(ctx.axes, table, row, values) for row in rows]
    keys = [i for i in range(len(rows[0].terms)) if i not in values]
    rows = _off_diagonal(ctx.axes, table, rows, keys)
    for i in keys:
        rows = _align_position(ctx.axes, table, rows, i)
    return each_once(rows)


def _off_diagonal(axes: Axes, table: Table, rows: list[Answer], keys: list[int]) -> list[Answer]:
    """An axis for each key, where two run along the same one in some rows and not in others:
    `p(E, E)` beside `p(1, 2)` is `p(E, F)` where E = F."""
    for i, j in combinations(keys, 2):
        if all(key_of(row.terms[i]) == key_of(row.terms[j]) for row in rows):
            continue
        for number, row in enumerate(rows):
            axis = axis_of(row.terms[j])
            if axis is None or axis in table.given or axis_of(row.terms[i]) != axis:
                continue
            own = axis_value(axes.note(replace(axis, site=f"{axis.site}={j}"), axes.sites([axis])))
            rows[number] = new = copy(row)
            new.terms = (*row.terms[:j], own, *row.terms[j + 1 :])
            new.condition = and_(eq(own, axis_value(axis)), row.condition)
    return rows


def _spread(axes: Axes, table: Table, row: Answer, values: frozenset[int]) -> Answer:
    """A key that is computed along an axis which is no key itself: entities that meet in
    one place are one place. It becomes an axis over the places."""
    bare = set(map(axis_of, row.terms))
    loose: set[Axis] = set()
    terms = list(row.terms)
    condition = row.condition
    for i, term in enumerate(row.terms):
        if i in values or not isinstance(term, Expr) or term.op == "axis":
            continue
        hidden = term.axes - bare - table.given
        if not hidden:
            continue
        type_ = refine(term, row.condition)
        if not isinstance(type_, Int | Enum) or not is_finite(type_):
            fail(
                "E306",
                f"a clause tells its random choices apart by a value that is unbounded ({type_})",
                row.span,
                "declare the domain of the value with `:- domain(…)`",
            )
        loose |= hidden
        axis = Axis(f"X{i + 1}", type_, f"{table.pred.name}.{i}")
        axes.note(axis, axes.sites(hidden))
        condition = and_(condition, eq(axis_value(axis), term))
        terms[i] = axis_value(axis)
    if not loose:
        return row
    still = axes_of(terms)
    new = copy(row)
    new.terms, new.condition = tuple(terms), anywhere(condition, still | table.given)
    return new


def _align_position(axes: Axes, table: Table, rows: list[Answer], i: int) -> list[Answer]:
    terms = [r.terms[i] for r in rows]
    along = [axis_of(term) for term in terms]
    own = [axis for axis in along if axis is not None and axis not in table.given]
    if not own or all(axis == own[0] for axis in along):
        return rows
    hull: Int | Enum = own[0].type
    for term in terms:
        wider = join(hull, as_expr(term).type) if not parts(term) else None
        hull = wider if isinstance(wider, Int | Enum) and is_finite(wider) else hull
    axis = axes.note(replace(own[0], type=hull), axes.sites(own))
    here = axis_value(axis)
    out = []
    for row in rows:
        term = row.terms[i]
        if parts(term) or not contains(hull, as_expr(term).type):
            out.append(row)
            continue
        axis_here = axis_of(term)
        if axis_here is not None and axis_here not in table.given:
            inside = within(here, axis_here.type)
            moved, condition = replaced(row.terms, row.condition, {axis_here: here})
            condition = and_(inside, condition)
        else:
            moved = (*row.terms[:i], here, *row.terms[i + 1 :])
            condition = and_(eq(here, as_expr(term)), row.condition)
        new = copy(row)
        new.terms, new.condition = moved, condition
        out.append(new)
    return out


def merge(ctx: Context, table: Table, rows: list[Answer]) -> list[Answer]:
    """Join the answers that have the same keys into one, by cases."""
    values = ctx.clauses.values.get(table.pred, frozenset())
    if not values or len(rows) < 2:
        return rows
    if table.pred in ctx.openings and not all(is_ground(r.terms) for r in rows):
        return rows
    functional = ctx.clauses.is_functional(table.pred)
    groups: dict[Any, list[Answer]] = {}
    for row in rows:
        keys = tuple(t for i, t in enumerate(row.terms) if i not in values)
        groups.setdefault(key_of(keys), []).append(row)
    out: list[Answer] = []
    for group in groups.values():
        out += _merge_group(ctx, table, group, values, functional)
    return out


def _merge_group(
    ctx: Context, table: Table, group: list[Answer], values: frozenset[int], functional: bool
) -> list[Answer]:
    if len(group) == 1:
        return group
    if not functional and not _mergeable(group, values):
        return group
    keep = not functional and table.pred.kind != "draw"
    if keep and not any(has_symbol(a.terms[i]) for a in group for i in values):
        # Constants are worth keeping: they can be keys, list items, arguments of recursion.
        return group
    overlaps = [
        (a, b)
        for i, a in enumerate(group)
        for b in group[i + 1 :]
        if not exclusive(a.condition, b.condition)
    ]
    if overlaps and not functional:
        return group
    for a, b in overlaps:
        _disagreement(ctx, table, a, b, values)
    if not _mergeable(group, values):
        return group
    terms = list(group[0].terms)
    for i in values:
        terms[i] = _merge_terms([(a.condition, a.terms[i]) for a in group])
    merged = Answer(tuple(terms), or_(*(a.condition for a in group)), group[0].span)
    merged.condition = anywhere(merged.condition, axes_of(merged.terms) | table.given)
    return [merged]


def _disagreement(ctx: Context, table: Table, a: Answer, b: Answer, values: frozenset[int]) -> None:
    """Two clauses that may apply together must give the same value."""
    pairs = [
        (as_expr(x), as_expr(y))
        for i in values
        if _shape(a.terms[i]) == _shape(b.terms[i])
        for x, y in zip(atoms_of(a.terms[i]), atoms_of(b.terms[i]), strict=True)
    ]
    alike = all(_shape(a.terms[i]) == _shape(b.terms[i]) for i in values)
    same = and_(*(agree(x, y) for x, y in pairs)) if alike else FALSE
    if same is TRUE:
        return
    certain = same is FALSE and (a.condition is b.condition or TRUE in (a.condition, b.condition))
    if certain and all(is_const(x) and is_const(y) for x, y in pairs):
        mine, others = (atom_text(table.pred.name, r.terms) for r in (a, b))
        fail(
            "E307",
            f"two clauses give {table.pred} different values at the same time: {mine} and {others}",
            b.span,
            ctx.agreement(table.pred),
        )
    ctx.must_not_differ(table.pred, and_(a.condition, b.condition, not_(same)), b.span)


def agree(x: Expr, y: Expr) -> Expr:
    """Whether two values are the same. Two continuous ones are so only if they are one."""
    drawn = any(isinstance(v.type, Real) and leaves([v], "rv") for v in (x, y))
    continuous = drawn or isinstance(x.type, Tensor)
    return FALSE if continuous and x is not y else eq(x, y)


def _shape(term: Any) -> Any:
    """The structure of a term with its leaves left out."""
    kind = type(term)
    if kind is tuple:
        return ("list", tuple(_shape(t) for t in term))
    if kind is Compound:
        return (term.functor, tuple(_shape(t) for t in term.args))
    return None


def _mergeable(group: list[Answer], values: frozenset[int]) -> bool:
    """Whether all values have one structure, and leaves of a common type."""
    for i in values:
        if any(type(a.terms[i]) is CondList for a in group):
            return False
        shapes = {_shape(a.terms[i]) for a in group}
        if len(shapes) > 1:
            return False
        columns = zip(*(list(atoms_of(a.terms[i])) for a in group), strict=True)
        for column in columns:
            types = [as_expr(x).type for x in column]
            joined = types[0]
            for other in types[1:]:
                both = join(joined, other)
                if both is None or (
                    isinstance(both, Real) != isinstance(joined, Real)
                    and any(is_const(as_expr(x)) and isinstance(x, int) for x in column)
                    and all(is_const(as_expr(x)) for x in column)
                ):
                    return False
                joined = both
    return True


def _merge_terms(branches: list[tuple[Expr, Any]]) -> Any:
    first = branches[0][1]
    kind = type(first)
    if all(key_of(t) == key_of(first) for _, t in branches):
        return first
    if kind is tuple:
        return tuple(_merge_terms([(c, t[i]) for c, t in branches]) for i in range(len(first)))
    if kind is Compound:
        merged = tuple(
            _merge_terms([(c, t.args[i]) for c, t in branches]) for i in range(len(first.args))
        )
        return Compound(first.functor, merged)
    return case([(c, as_expr(t)) for c, t in branches])
