"""Which random variables are elements of which arrays.

A clause is used with some keys known and others along axes, so the variable of a grounding
may come up by itself, in a row and in the whole array. It is one variable: what lies in a
larger array is read from there. It does only if all that the clause is bound to is the same
there, what the keys determine included: `mark(X) :- v(E, X)` is asked for X = 1, and E, or for
E alone, and then the choice of E is that of whichever X it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any, NoReturn

from nesymm.errors import fail
from nesymm.ground.random_variables.identity import Owner
from nesymm.ir.algebra import axis_value, const
from nesymm.ir.axes import rebuild, substitute
from nesymm.ir.expr import Axis, Expr, make
from nesymm.ir.step import StepProgram
from nesymm.ir.symbols import has_symbol, key_of, map_symbols
from nesymm.ir.types import contains, domain, is_finite
from nesymm.language.program import CheckedProgram

# An element's place in its array, per axis: an index, or an axis of the element's own.
Place = tuple[Expr, ...]


def place(owners: dict[str, Owner]) -> dict[str, tuple[str, Place]]:
    """The largest array of every variable that is an element of one."""
    return {
        name: (array, found)
        for names in _alike(owners)
        for name, array, found in _placed(owners, names)
        if found is not None
    }


def divided(owners: dict[str, Owner]) -> Iterator[Owner]:
    """Clauses with a grounding that may be meant by two variables."""
    for names in _alike(owners):
        largest = [owners[name] for name, _, found in _placed(owners, names) if found is None]
        arrays = [owner for owner in largest if not owner.constant]
        single = [owner for owner in largest if owner.constant]
        pairs = chain(combinations(arrays, 2), product(arrays, single))
        # A call that finds both tells them apart; one that finds the one alone takes it for both.
        if any(a.calls != b.calls and _overlap(a, b) for a, b in pairs):
            yield largest[0]


def refuse_parts(owner: Owner, program: CheckedProgram) -> NoReturn:
    """The parts cannot be found together, so it cannot be seen how they overlap."""
    fail(
        "E318",
        f"the random choices of {owner.pred} are used in parts that overlap, and not as a whole",
        program.clauses[owner.clause].span,
        "bind its keys in the body of this clause, for example by `between(1, 3, X)`",
    )


def element_of(one: Owner, other: Owner) -> Place | None:
    """Where in another array of its clause a variable lies, if it does."""
    found: dict[Axis, Expr] = {}
    own = {axis_value(axis) for axis in other.axes}
    for mine, theirs in zip(one.terms, other.terms, strict=True):
        if not isinstance(theirs, Expr) or theirs not in own:
            continue
        if isinstance(mine, Expr):
            inside = mine.op == "axis" and contains(theirs.data.type, mine.data.type)
        else:
            inside = not has_symbol(mine) and contains(theirs.data.type, const(mine).type)
        if not inside:
            return None
        found.setdefault(theirs.data, mine if isinstance(mine, Expr) else const(mine))
    if len(found) < len(other.axes):
        return None
    for mine, theirs in zip(one.terms, other.terms, strict=True):
        there = map_symbols(theirs, lambda e: substitute(e, found))
        if key_of(_plain(there)) != key_of(mine):
            return None
    return tuple(found[axis] for axis in other.axes)


def _plain(term: Any) -> Any:
    return map_symbols(term, lambda e: e.data if e.op == "const" else e)


def _alike(owners: dict[str, Owner]) -> Iterator[list[str]]:
    """The variables of each clause, apart where the same key is a different constant in all."""
    clauses: dict[Any, list[str]] = defaultdict(list)
    for name, owner in owners.items():
        clauses[owner.body].append(name)
    for names in clauses.values():
        if all(owners[name].constant for name in names):
            continue
        rows = [owners[name].terms for name in names]
        fixed = [not any(map(has_symbol, column)) for column in zip(*rows, strict=True)]
        groups: dict[Any, list[str]] = defaultdict(list)
        for name, row in zip(names, rows, strict=True):
            known = tuple(t for t, here in zip(row, fixed, strict=True) if here)
            groups[key_of(known)].append(name)
        yield from groups.values()


def _placed(owners: dict[str, Owner], names: list[str]) -> Iterator[tuple[str, str, Place | None]]:
    arrays: list[str] = []
    for name in sorted(names, key=lambda n: -len(owners[n].axes)):
        for array in arrays:
            found = element_of(owners[name], owners[array])
            if found is not None:
                yield name, array, found
                break
        else:
            if not owners[name].constant:
                arrays.append(name)
            yield name, name, None


def _overlap(a: Owner, b: Owner) -> bool:
    """Whether two variables of one clause may have an element in common."""
    for x, y in zip(a.terms, b.terms, strict=True):
        first, second = _possible(x), _possible(y)
        if first is not None and second is not None and first.isdisjoint(second):
            return False
    return True


def _possible(term: Any) -> set[Any] | None:
    """What a term may be, where that is finitely much."""
    if not has_symbol(term):
        return {key_of(term)}
    if not isinstance(term, Expr):
        return None
    type_ = term.data.type if term.op == "axis" else term.type
    return {key_of(v) for v in domain(type_)} if is_finite(type_) else None


def share_elements(step: StepProgram, owners: dict[str, Owner]) -> StepProgram:
    """A variable referred to by a constant key is an element of the array that has it."""
    element = place(owners)
    if not element:
        return step

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "rv" and node.data in element:
            array, index = element[node.data]
            here = dict(zip(owners[node.data].axes, args, strict=True))
            keys = tuple(substitute(i, here) for i in index)
            return make("rv", keys, array, node.type)
        return rebuild(node, args)

    kept = tuple(v for v in step.variables if v.name not in element)
    whole = step.provenance.rewrite(rule)
    return replace(step, variables=kept, provenance=whole).rewrite(rule)
