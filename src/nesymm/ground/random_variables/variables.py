"""The random variables met in a round: what they are called, and which are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nesymm.ground.context import Context
from nesymm.ground.literals import ChoiceLit, DrawLit
from nesymm.ground.random_variables.elements import element_of
from nesymm.ground.random_variables.identity import (
    Identity,
    KeyAxis,
    Owner,
    Whole,
    distinct,
    identify,
)
from nesymm.ground.tabling import Answer, Table
from nesymm.ir.algebra import axis_value
from nesymm.ir.axes import substitute
from nesymm.ir.expr import Axis, Expr
from nesymm.ir.step import RandomVariable
from nesymm.ir.symbols import is_ground, key_of, map_symbols
from nesymm.ir.terms import atom_text, compile_term, show
from nesymm.language.program import Clause, Pred, Rule
from nesymm.language.values import heads


class Variables:
    """All random variables met while grounding."""

    def __init__(self, ctx: Context):
        self.ctx = ctx
        self.declared: dict[str, RandomVariable] = {}
        self.owner: dict[str, Owner] = {}
        self.names = _clause_names(ctx.program.clauses)

    def name(self, number: int, derivation: int, keys: tuple) -> str:
        """`hit`, `edge(a,b)`, `stress(ann)`; a constant key in a clause with variables is
        part of the name, a key along an axis is an index. Where two keys run along the same
        axis, its number tells them from independent ones: `edge(*1,*1)`."""
        base = self.names[number]
        if derivation:
            base += f"#{derivation + 1}"
        along = [k for k in keys if isinstance(k, KeyAxis)]
        repeated = len(set(along)) < len(along)
        if len(along) == len(keys) and not repeated:
            return base
        shown = [
            (f"*{k.axis + 1}" if repeated else "*") if isinstance(k, KeyAxis) else show(k)
            for k in keys
        ]
        return f"{base}({','.join(shown)})"

    def declare(
        self,
        pred: Pred,
        lit: ChoiceLit | DrawLit,
        derivation: int,
        identity: Identity,
        terms: tuple,
        call: Any,
        variable: RandomVariable,
    ) -> tuple[str, tuple[Expr, ...]]:
        """Register a variable; returns its name and the keys of this reference to it.

        `terms` is what the body is bound to, by an answer to `call`.
        """
        name = self.name(lit.number, derivation, identity.keys)
        own = tuple(
            Axis(n, axis.type)
            for n, axis in zip(distinct(identity.names), identity.axes, strict=True)
        )
        keys = tuple(axis_value(axis) for axis in identity.axes)
        mapping = {old: axis_value(new) for old, new in zip(identity.axes, own, strict=True)}
        memo: dict[int, Expr] = {}

        def move(expr: Expr) -> Expr:
            return substitute(expr, mapping, memo)

        moved = tuple(map_symbols(term, move) for term in terms)
        owner = Owner(pred, lit.pred, lit.number, identity.keys, own, moved, {call})
        known = self.owner.get(name)
        if known is not None:
            if element_of(owner, known) is not None:
                known.calls.add(call)
                return name, keys
            if element_of(known, owner) is None:
                raise Whole(owner)
            owner.calls |= known.calls
        self.declared[name] = replace(variable.map(move), name=name, axes=own)
        self.owner[name] = owner
        return name, keys


def _clause_names(clauses: Iterable[Clause]) -> dict[int, str]:
    """A name for each random clause: its head if that is ground, else its predicate.

    Further clauses of the same name are numbered from 2 in the order of the text, so
    names stay when clauses are added behind.
    """
    names: dict[int, str] = {}
    used: Counter[str] = Counter()  # by name, and by predicate where a clause has variables
    open_clauses: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for number, clause in enumerate(clauses):
        if isinstance(clause, Rule):
            continue
        head = heads(clause)[0]
        args = tuple(compile_term(a, {}, lambda: 0) for a in head.args)
        ground = all(is_ground(a) for a in args) and not any(clause.body)
        base = atom_text(head.pred.name, args) if ground else head.pred.name
        total[head.pred.name] += 1
        clash = used[base] or (open_clauses[head.pred.name] if ground else total[base] > 1)
        names[number] = f"{base}:{total[head.pred.name]}" if clash else base
        used[base] += 1
        open_clauses[head.pred.name] += not ground
    return names


def derivation_number(answer: Answer, table: Table | None, names: tuple[str, ...]) -> int:
    """Which of the answers that have the same constants and axes it is; `names` are those of the
    arguments that tell."""
    if table is None:
        return 0
    numbers = table.numbers.get(names)
    if numbers is None:
        alike: Counter[Any] = Counter()
        numbers = table.numbers[names] = {}
        for sibling in table.final:
            key = key_of(identify(sibling.terms[: len(names)], names).keys)
            numbers[id(sibling)] = alike[key]
            alike[key] += 1
    return numbers.get(id(answer), 0)
