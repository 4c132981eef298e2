"""The clauses that resolution works on, found by their predicate and by constants in the call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nesymm.errors import Span
from nesymm.ground.domains import Domains
from nesymm.ground.literals import CallLit, ChoiceLit, CollectLit, DisjLit, DrawLit, Lit, NegLit
from nesymm.ground.subqueries import Subqueries
from nesymm.ir.reachability import reachable
from nesymm.ir.symbols import has_symbol, is_ground, key_of, parts
from nesymm.ir.terms import V
from nesymm.ir.types import Type
from nesymm.language.program import Atom, CheckedProgram, Pred


@dataclass(frozen=True, slots=True)
class Origin:
    """The clause that a resolvent was made from, and which of its heads.

    A distributional clause is two resolvents: its body, which has no head (None), and the draw.
    """

    clause: int
    option: int | None


@dataclass(frozen=True, slots=True)
class Resolvent:
    """One way to prove a predicate: head arguments, literals, frame size.

    Explanations list those that have an `origin`.
    """

    pred: Pred
    head: tuple
    body: tuple[Lit, ...]
    size: int
    names: tuple[str, ...]
    span: Span | None
    evaluate_head: bool
    timed: bool
    optional: frozenset[int] = frozenset()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """A question put to the clauses: a predicate of its own, and what it stands for.

    `alone` is the question without the body that selects what is asked, if there is one, and
    `selected` that body: a predicate of the variables that it binds.
    """

    pred: Pred
    atom: Atom
    size: int
    term: tuple
    alone: Pred | None = None
    selected: tuple[Pred, tuple[V, ...]] | None = None


@dataclass
class Clauses:
    """A program made ready: all resolvents by predicate, with an index on constants in head
    arguments; a root for each observation, query and guide; which arguments are values, and the
    types of inputs and declared domains."""

    program: CheckedProgram
    values: dict[Pred, frozenset[int]]
    domains: Domains
    inputs: dict[Pred, tuple[Type, ...]]
    subqueries: Subqueries | None = None
    resolvents: dict[Pred, list[Resolvent]] = field(default_factory=dict)
    roots: dict[int, Root] = field(default_factory=dict)
    random: set[Pred] = field(default_factory=set)
    drawn: set[Pred] = field(default_factory=set)
    fluents: set[Pred] = field(default_factory=set)
    _index: dict[Pred, list[dict[Any, list[int]] | None]] = field(default_factory=dict)
    _facts: dict[Pred, bool] = field(default_factory=dict)
    _chances: dict[Pred, bool] = field(default_factory=dict)
    _recursive: dict[Pred, bool] = field(default_factory=dict)

    def matching(self, pred: Pred, args: Iterable[Any]) -> list[Resolvent]:
        """The resolvents whose heads may match; constants in the call narrow them down."""
        rules = self.resolvents.get(pred, [])
        if len(rules) <= 4:
            return rules
        if pred not in self._index:
            self._index[pred] = [_index(rules, i) for i in range(len(rules[0].head))]
        best: list[int] | None = None
        for i, arg in enumerate(args):
            index = self._index[pred][i]
            if index is None or type(arg) not in (str, int, float):
                continue
            found = index.get(key_of(arg), index.get(None, []))
            if best is None or len(found) < len(best):
                best = found
        return rules if best is None else [rules[j] for j in best]

    def width(self, pred: Pred) -> int:
        """How many arguments a predicate has, the hidden one of its own value included."""
        return pred.arity + (pred in self.program.self_valued)

    def key_positions(self, pred: Pred) -> list[int]:
        values = self.values.get(pred, frozenset())
        return [i for i in range(self.width(pred)) if i not in values]

    def value_positions(self, pred: Pred) -> list[int]:
        values = self.values.get(pred, frozenset())
        return [i for i in range(self.width(pred)) if i in values]

    def argument_name(self, pred: Pred, position: int) -> str:
        """The name that the clauses of a predicate give to an argument."""
        for rule in self.resolvents.get(pred, []):
            arg = rule.head[position]
            if type(arg) is V and rule.names[arg.i][0] not in "_$":
                return rule.names[arg.i]
        return f"K{position + 1}"

    def numbers(self) -> set[Any]:
        """All numbers that stand in heads, as they are."""
        return {
            a
            for rules in self.resolvents.values()
            for r in rules
            for a in r.head
            if type(a) in (int, float)
        }

    def is_functional(self, pred: Pred) -> bool:
        """Whether the values of a predicate are determined by its keys."""
        return pred in self.drawn or pred in self.fluents

    def is_keyed(self, pred: Pred) -> bool:
        """Whether a predicate is random or carried: it is found for all its keys at once."""
        return pred in self.random or pred in self.fluents

    def is_recursive(self, pred: Pred) -> bool:
        """Whether the predicate can call itself."""
        if pred not in self._recursive:
            below = reachable(self._called(pred), self._called)
            self._recursive[pred] = pred in below
        return self._recursive[pred]

    def _called(self, pred: Pred) -> set[Pred]:
        return {p for rule in self.resolvents.get(pred, ()) for p in self.called_by(rule)}

    def called_by(self, rule: Resolvent) -> Iterator[Pred]:
        """The predicates that a clause calls, in the order of its body."""
        return _calls(rule.body)

    def is_fact_table(self, pred: Pred) -> bool:
        """Whether the predicate consists of ground facts only."""
        if pred not in self._facts:
            rules = self.resolvents.get(pred, [])
            self._facts[pred] = bool(rules) and all(
                not r.body
                and all(is_ground(a) and not has_symbol(a) for a in r.head)
                and not any(parts(a) for a in r.head)
                for r in rules
            )
        return self._facts[pred]

    def is_chance_table(self, pred: Pred) -> bool:
        """Whether the predicate consists of probabilistic facts only, each about another atom."""
        if pred not in self._chances:
            rules = self.resolvents.get(pred, [])
            heads = {key_of(rule.head) for rule in rules if all(map(is_ground, rule.head))}
            self._chances[pred] = len(heads) == len(rules) > 0 and all(map(self._is_fact, rules))
        return self._chances[pred]

    def _is_fact(self, rule: Resolvent) -> bool:
        """Whether a clause is one probabilistic fact."""
        if len(rule.body) != 1 or not isinstance(rule.body[0], ChoiceLit):
            return False
        lit = rule.body[0]
        return len(lit.clause.options) == 1 and not any(r.body for r in self.resolvents[lit.pred])


def _calls(body: Iterable[Lit]) -> Iterator[Pred]:
    """The predicates that a body calls."""
    for lit in body:
        match lit:
            case DisjLit(bodies):
                for alternative in bodies:
                    yield from _calls(alternative)
            case CallLit() | NegLit() | CollectLit() | DrawLit() | ChoiceLit():
                yield lit.pred


def _index(rules: list[Resolvent], position: int) -> dict[Any, list[int]] | None:
    """Constant -> clauses; under None the clauses that match any constant."""
    index: dict[Any, list[int]] = {None: []}
    for j, rule in enumerate(rules):
        arg = rule.head[position]
        if type(arg) in (str, int, float):
            index.setdefault(key_of(arg), list(index[None])).append(j)
        else:
            for found in index.values():
                found.append(j)
    return index if len(index) > 1 else None
