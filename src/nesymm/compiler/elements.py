"""Which random variables are elements of which arrays.

A clause is used with some keys known and others along axes, so the variable of a grounding
may come up by itself, in a row and in the whole array. It is one variable: what lies in a
larger array is read from there. Two arrays that share elements while neither holds the
other are parts of one that must be asked for as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple, NoReturn

from nesymm.compiler.algebra import const
from nesymm.compiler.evaluate import fail
from nesymm.compiler.expr import Expr
from nesymm.compiler.identity import Along, Owner
from nesymm.compiler.random import Variables
from nesymm.compiler.runtime import key_of
from nesymm.compiler.types import domain
from nesymm.language.program import CheckedProgram

# An element's place in its array, per axis: an index, or an axis of the element's own.
Place = list[Expr | Along]


class Placed(NamedTuple):
    """Variables that are elements of arrays, and the arrays of each clause that are none."""

    elements: dict[str, tuple[str, Place]]
    arrays: list[list[str]]


def place(variables: Variables) -> Placed:
    """Find the largest array of every variable."""
    by_clause: dict[Any, list[str]] = {}
    for name, owner in variables.owner.items():
        by_clause.setdefault((owner.clause, owner.derivation), []).append(name)
    elements: dict[str, tuple[str, Place]] = {}
    arrays: list[list[str]] = []
    for names in by_clause.values():
        largest: list[str] = []
        for name in sorted(names, key=lambda n: -len(variables.declared[n].axes)):
            for array in largest:
                found = _element_of(variables, name, array)
                if found is not None:
                    elements[name] = (array, found)
                    break
            else:
                if variables.declared[name].axes:
                    largest.append(name)
        arrays.append(largest)
    return Placed(elements, arrays)


def divided(variables: Variables) -> Iterator[Owner]:
    """Clauses with a variable that lies in two arrays."""
    for arrays in place(variables).arrays:
        if any(_overlap(variables, a, b) for a, b in combinations(arrays, 2)):
            yield variables.owner[arrays[0]]


def refuse_parts(owner: Owner, program: CheckedProgram) -> NoReturn:
    """Nothing holds all parts of an array, so it cannot be seen that they overlap."""
    fail(
        "E318",
        f"the random choices of {owner.pred} are used in parts that overlap, and not as a whole",
        program.clauses[owner.clause].span,
        "bind its keys in the body of this clause, for example by `between(1, 3, X)`",
    )


def _element_of(variables: Variables, name: str, array: str) -> Place | None:
    mine, theirs = variables.owner[name].keys, variables.owner[array].keys
    if len(mine) != len(theirs) or mine == theirs:
        return None
    axes = variables.declared[array].axes
    found: dict[int, Any] = {}
    for own, other in zip(mine, theirs, strict=True):
        if isinstance(other, Along):
            inside = isinstance(own, Along) or own in domain(axes[other.axis].type)
            same = key_of(found.setdefault(other.axis, own)) == key_of(own)
        else:
            inside, same = True, key_of(own) == key_of(other)
        if not inside or not same:
            return None
    if len(found) < len(axes):
        return None
    places = (found[i] for i in range(len(axes)))
    return [key if isinstance(key, Along) else const(key) for key in places]


def _overlap(variables: Variables, a: str, b: str) -> bool:
    """Whether two arrays of one clause may have an element in common."""
    first, second = (_possible_keys(variables, name) for name in (a, b))
    return len(first) == len(second) and not any(
        x.isdisjoint(y) for x, y in zip(first, second, strict=True)
    )


def _possible_keys(variables: Variables, name: str) -> list[set[Any]]:
    axes = variables.declared[name].axes
    return [
        {key_of(v) for v in (domain(axes[k.axis].type) if isinstance(k, Along) else [k])}
        for k in variables.owner[name].keys
    ]


__all__ = ["Place", "Placed", "divided", "place", "refuse_parts"]
