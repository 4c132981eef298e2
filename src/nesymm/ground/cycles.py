"""The conditions of tables that call each other in a cycle.

While such tables are open, their answers stand for themselves as `atom` expressions.
Here every atom gets its meaning: by substitution where the atoms do not really depend
on each other, as a least fixpoint where they do. A cycle through negation has no
meaning and is refused, showing the cycle.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from nesymm.errors import Span, fail
from nesymm.ground.tabling import Table
from nesymm.ir.algebra import conjuncts, or_
from nesymm.ir.axes import replacing
from nesymm.ir.expr import Expr, System, fold, make, rewrite
from nesymm.ir.reachability import strong_components
from nesymm.ir.terms import atom_text

Dependencies = dict[Expr, bool]  # atom -> whether it is needed to be false


def refuse_cycle(open_: list[Table], table: Table, span: Span | None, why: str) -> NoReturn:
    """Refuse what depends on itself, by way of the tables that are open."""
    start = next(i for i, t in enumerate(open_) if t.number >= table.low)
    names = [t.name() for t in open_[start:] if t.pred.kind == "program"]
    fail(
        "E312",
        f"{why}, within one step",
        span,
        "look one step back (`@(t-1)`), or break the cycle",
        "through " + " → ".join((names or ["itself"])[:8]),
    )


@dataclass
class _Atom:
    """What is known of an open atom: its derivations, what they need, where it stands.

    A goal inside a goal is not `visible` to users: it is shown as what is made of it.
    """

    derivations: list[Expr]
    name: str
    span: Span | None
    visible: bool
    needs: Dependencies = field(default_factory=dict)


Atoms = dict[Expr, _Atom]


def break_cycles(group: list[Table]) -> None:
    """Set the condition of every answer of a group of mutually recursive tables."""
    atoms = _read(group)
    scan = _Scanner()
    for reference, atom in atoms.items():
        # A derivation that uses its own conclusion adds nothing.
        atom.derivations = [d for d in atom.derivations if reference not in conjuncts(d)]
        for derivation in atom.derivations:
            for other, negative in scan.atoms(derivation).items():
                atom.needs[other] = atom.needs.get(other, False) or negative

    meaning: dict[Expr, Expr] = {}
    memo: dict[int, Expr] = {}

    def known(node: Expr) -> Expr | None:
        return meaning[node] if node.op == "atom" else None

    def defined(expr: Expr) -> Expr:
        return rewrite(expr, replacing(known), memo, keep=lambda n: not scan.atoms(n))

    def define(reference: Expr) -> Expr:
        return or_(*map(defined, atoms[reference].derivations))

    for component in strong_components(atoms, lambda reference: atoms[reference].needs):
        if len(component) == 1 and component[0] not in atoms[component[0]].needs:
            meaning[component[0]] = define(component[0])
            continue
        _refuse_negative(component, atoms)
        system = System(tuple(atoms[r].name for r in component))
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


def _read(group: list[Table]) -> Atoms:
    """The open atoms of a group of tables."""
    atoms: Atoms = {}
    for table in group:
        visible = table.pred.kind == "program"
        references = []
        for answer in table.answers.values():
            if answer.reference is None:
                answer.reference = make("atom", data=("answer", answer))
            references.append(answer.reference)
            name = atom_text(table.pred.name, answer.terms)
            atoms[answer.reference] = _Atom(answer.derivations, name, answer.span, visible)
        for reference, _ in table.negations:
            atoms[reference] = _Atom(references, table.name(), table.span, visible)
    return atoms


class _Scanner:
    """Which atoms an expression mentions, and whether under a negation."""

    def __init__(self) -> None:
        self.memo: dict[int, Dependencies] = {}

    def atoms(self, root: Expr) -> Dependencies:
        return fold(root, self._mentioned, self.memo)

    def _mentioned(self, node: Expr, below: tuple[Dependencies, ...]) -> Dependencies:
        if node.op == "atom":
            return {node: False}
        monotone = node.op in ("and", "or", "any")
        found: Dependencies = {}
        for atom, negative in (pair for atoms in below for pair in atoms.items()):
            found[atom] = found.get(atom, False) or negative or not monotone
        return found


def _refuse_negative(component: list[Expr], atoms: Atoms) -> None:
    members = set(component)
    for start in component:
        for target, negative in atoms[start].needs.items():
            if negative and target in members:
                path = [start, *_path(target, start, atoms, members)]
                fail(
                    "E304",
                    "a predicate depends on its own negation",
                    atoms[start].span or atoms[target].span,
                    "look one step back (`@(t-1)`), or state which of the two holds first",
                    "the cycle: " + " ← ".join(_readable(path, atoms)),
                )


def _readable(path: list[Expr], atoms: Atoms) -> list[str]:
    """The atoms of a path by name; the goals inside `not` are shown as what they negate."""
    out = [atoms[path[0]].name]
    negated = False
    for before, after in pairwise(path):
        negated = negated or atoms[before].needs[after]
        if atoms[after].visible:
            out.append(("not " if negated else "") + atoms[after].name)
            negated = False
    return out


def _path(source: Expr, target: Expr, atoms: Atoms, members: set[Expr]) -> list[Expr]:
    """A shortest way from one atom to another inside a component."""
    came: dict[Expr, Expr | None] = {source: None}
    queue = deque([source])
    while target not in came:
        node = queue.popleft()
        for child in atoms[node].needs:
            if child in members and child not in came:
                came[child] = node
                queue.append(child)
    path: list[Expr] = []
    step: Expr | None = target
    while step is not None:
        path.append(step)
        step = came[step]
    return path[::-1]
