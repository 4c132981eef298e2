"""What is known of the state: the blocks of each fluent."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from nesymm.ground.clauses import Clauses
from nesymm.ground.random_variables.identity import distinct
from nesymm.ir.expr import Axis
from nesymm.ir.step import Hole
from nesymm.ir.symbols import key_of
from nesymm.ir.terms import show
from nesymm.ir.types import Enum, Int, Type
from nesymm.language.program import Pred


@dataclass(frozen=True, slots=True)
class AxisKey:
    """A key that runs along an axis of this type."""

    type: Int | Enum


@dataclass(frozen=True, slots=True)
class Block:
    """Part of a fluent: its keys (constants or axes), and the structure and types of its values.

    The template of a value has holes for the fields.
    """

    keys: tuple
    template: tuple
    types: tuple[Type, ...]

    @property
    def place(self) -> Any:
        """What tells it from the other blocks of its fluent: its constant keys."""
        return key_of(tuple("*" if isinstance(k, AxisKey) else k for k in self.keys))

    def meets(self, pattern: tuple) -> bool:
        """Whether keys of the block fit a pattern, in which None is any key."""
        return all(
            p is None or isinstance(k, AxisKey) or key_of(p) == key_of(k)
            for p, k in zip(pattern, self.keys, strict=True)
        )

    def slot(self, pred: Pred, lag: int) -> str:
        """The name of the slot that holds it, so many steps ago; -1 is step 0."""
        shown = [show(k) for k in self.keys if not isinstance(k, AxisKey)]
        name = pred.name + (f"({','.join(shown)})" if shown else "")
        if lag == -1:
            return name + "@0"
        return name if lag == 1 else f"{name}@-{lag}"

    def axes(self, clauses: Clauses, pred: Pred) -> tuple[Axis, ...]:
        along = [
            (clauses.argument_name(pred, i), key.type)
            for i, key in zip(clauses.key_positions(pred), self.keys, strict=True)
            if isinstance(key, AxisKey)
        ]
        names = distinct(name for name, _ in along)
        return tuple(Axis(n, type_) for n, (_, type_) in zip(names, along, strict=True))

    def arguments(self, clauses: Clauses, pred: Pred) -> tuple:
        """The arguments of the fluent as the program writes them, with holes for axes and
        fields."""
        number = count()
        keys = (Hole("key", next(number)) if isinstance(k, AxisKey) else k for k in self.keys)
        found = dict(zip(clauses.key_positions(pred), keys, strict=True))
        found |= dict(zip(clauses.value_positions(pred), self.template, strict=True))
        return tuple(found[i] for i in range(clauses.width(pred)))


Blocks = dict[Pred, tuple[Block, ...]]


class Layout:
    """The blocks that a round starts from, found by their keys."""

    def __init__(self, blocks: Blocks):
        self.blocks = blocks
        self._by_place: dict[Pred, dict[Any, Block] | None] = {}

    def at(self, pred: Pred, pattern: tuple) -> Iterable[Block]:
        """The blocks that keys may be in; None is any key."""
        blocks = self.blocks.get(pred, ())
        if None in pattern or len(blocks) < 8:
            return blocks
        if pred not in self._by_place:
            along = any(isinstance(k, AxisKey) for b in blocks for k in b.keys)
            self._by_place[pred] = None if along else by_place(blocks)
        index = self._by_place[pred]
        if index is None:
            return blocks
        block = index.get(key_of(pattern))
        return () if block is None else (block,)


# ---------------------------------------------------------------- from one round to the next


def by_place(blocks: Iterable[Block]) -> dict[Any, Block]:
    return {block.place: block for block in blocks}


def same(old: Blocks, new: Blocks) -> bool:
    """Whether two rounds show the same, in whatever order they found it."""
    return old.keys() == new.keys() and all(
        by_place(blocks) == by_place(new[pred]) for pred, blocks in old.items()
    )


def places(blocks: Blocks) -> dict[Pred, set[Any]]:
    return {pred: {b.place for b in found} for pred, found in blocks.items()}


def not_in(blocks: Blocks, known: Mapping[Pred, Container[Any]]) -> Blocks:
    """Those whose keys are not known."""
    out: Blocks = {}
    for pred, found in blocks.items():
        new = tuple(b for b in found if b.place not in known.get(pred, ()))
        if new:
            out[pred] = new
    return out


def new_keys(old: Blocks, new: Blocks) -> tuple[Pred, tuple] | None:
    """Keys of a fluent that it does not have in `old`: the last that were found."""
    for pred, blocks in not_in(new, places(old)).items():
        return pred, blocks[-1].keys
    return None


def growing_key(clauses: Clauses, old: Blocks, new: Blocks) -> tuple[Pred, int] | None:
    """An argument that is a key along an axis, of another size than in `old`."""
    for pred, blocks in new.items():
        known = by_place(old.get(pred, ()))
        for block in blocks:
            before = known.get(block.place)
            if before is None:
                continue
            positions = clauses.key_positions(pred)
            for i, a, b in zip(positions, before.keys, block.keys, strict=True):
                if isinstance(a, AxisKey) and a != b:
                    return pred, i
    return None
