"""The conditions of tables that call each other in a cycle.

While such tables are open, their answers stand for themselves as `atom` expressions.
Here every atom gets its meaning: by substitution where the atoms do not really depend
on each other, as a least fixpoint where they do. A cycle through negation has no
meaning and is refused, showing the cycle.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nesymm.errors import Diagnostic, ProgramError, Span
from nesymm.ir.algebra import conjuncts, or_
from nesymm.ir.axes import rebuild
from nesymm.ir.expr import Expr, System, make, rewrite
from nesymm.ir.strong_components import strong_components
from nesymm.ir.terms import atom_text

if TYPE_CHECKING:
    from nesymm.ground.tabling import Table

Dependencies = dict[Expr, bool]  # atom -> whether it is needed to be false


def break_cycles(group: list[Table]) -> None:
    """Set the condition of every answer of a group of mutually recursive tables."""
    definitions, names, spans = _read(group)
    scan = _Scanner()
    needs: dict[Expr, Dependencies] = {}
    for reference, derivations in definitions.items():
        # A derivation that uses its own conclusion adds nothing.
        kept = [d for d in derivations if all(p is not reference for p in conjuncts(d))]
        definitions[reference] = kept
        merged: Dependencies = {}
        for derivation in kept:
            for atom, negative in scan.atoms(derivation).items():
                merged[atom] = merged.get(atom, False) or negative
        needs[reference] = merged

    meaning: dict[Expr, Expr] = {}
    memo: dict[int, Expr] = {}

    def rule(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return meaning[node] if node.op == "atom" else rebuild(node, args)

    def defined(expr: Expr) -> Expr:
        return rewrite(expr, rule, memo, keep=lambda n: not scan.atoms(n))

    def define(reference: Expr) -> Expr:
        return or_(*map(defined, definitions[reference]))

    for component in strong_components(needs, needs.__getitem__):
        if len(component) == 1 and component[0] not in needs[component[0]]:
            meaning[component[0]] = define(component[0])
            continue
        _refuse_negative(component, needs, names, spans)
        system = System(tuple(names[r] for r in component))
        for i, reference in enumerate(component):
            meaning[reference] = make("lfp", data=(system, i))
        system.definitions = tuple(define(r) for r in component)

    for table in group:
        for answer in table.answers.values():
            assert answer.reference is not None
            answer.condition = meaning[answer.reference]
            answer.reference = None
        for way in table.derived:
            way.condition = defined(way.condition)
        table.calls = [(called, defined(when)) for called, when in table.calls]


def _read(
    group: list[Table],
) -> tuple[dict[Expr, list[Expr]], dict[Expr, str], dict[Expr, Span | None]]:
    """What each atom of a group follows from, what it is called and where it stands."""
    definitions: dict[Expr, list[Expr]] = {}
    names: dict[Expr, str] = {}
    spans: dict[Expr, Span | None] = {}
    for table in group:
        for answer in table.answers.values():
            if answer.reference is None:
                answer.reference = make("atom", data=("answer", answer))
            definitions[answer.reference] = answer.derivations
            names[answer.reference] = atom_text(table.pred.name, answer.terms)
            spans[answer.reference] = answer.span
        for reference, _ in table.negations:
            definitions[reference] = [
                a.reference for a in table.answers.values() if a.reference is not None
            ]
            names[reference] = table.name()
            spans[reference] = table.span
    return definitions, names, spans


class _Scanner:
    """Which atoms an expression mentions, and whether under a negation."""

    def __init__(self) -> None:
        self.memo: dict[int, Dependencies] = {}

    def atoms(self, root: Expr) -> Dependencies:
        if id(root) in self.memo:
            return self.memo[id(root)]
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if id(node) in self.memo:
                continue
            if node.op == "atom":
                self.memo[id(node)] = {node: False}
            elif not node.args:
                self.memo[id(node)] = {}
            elif expanded:
                found: Dependencies = {}
                monotone = node.op in ("and", "or", "any")
                for arg in node.args:
                    for atom, negative in self.memo[id(arg)].items():
                        found[atom] = found.get(atom, False) or negative or not monotone
                self.memo[id(node)] = found
            else:
                stack.append((node, True))
                stack.extend((arg, False) for arg in node.args)
        return self.memo[id(root)]


def _refuse_negative(
    component: list[Expr],
    needs: dict[Expr, Dependencies],
    names: dict[Expr, str],
    spans: dict[Expr, Span | None],
) -> None:
    members = set(component)
    for start in component:
        for target, negative in needs[start].items():
            if negative and target in members:
                path = [start, *_path(target, start, needs, members)]
                visible = _readable(path, needs, names)
                raise ProgramError(
                    Diagnostic(
                        "E304",
                        "a predicate depends on its own negation",
                        spans[start] or spans[target],
                        "look one step back (`@(t-1)`), or state which of the two holds first",
                        notes=("the cycle: " + " ← ".join(visible),),
                    )
                )


def _readable(
    path: list[Expr], needs: dict[Expr, Dependencies], names: dict[Expr, str]
) -> list[str]:
    """The atoms of a path by name; the goals inside `not` are shown as what they negate."""
    out = [names[path[0]]]
    negated = False
    for before, after in pairwise(path):
        negated = negated or needs[before][after]
        if not names[after].lstrip("'").startswith("$"):
            out.append(("not " if negated else "") + names[after])
            negated = False
    return out


def _path(
    source: Expr, target: Expr, needs: dict[Expr, Dependencies], members: set[Expr]
) -> list[Expr]:
    """A shortest way from one atom to another inside a component."""
    came: dict[Expr, Expr | None] = {source: None}
    frontier = [source]
    while frontier and target not in came:
        following = []
        for node in frontier:
            for child in needs[node]:
                if child in members and child not in came:
                    came[child] = node
                    following.append(child)
        frontier = following
    path: list[Expr] = []
    step: Expr | None = target
    while step is not None:
        path.append(step)
        step = came.get(step)
    return path[::-1]
