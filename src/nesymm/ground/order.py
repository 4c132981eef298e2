"""Whether ProbLog collects the items of a `findall` in the order of their proofs.

ProbLog sorts the items by the numbers of the nodes that stand for their proofs. A proof by
several literals has a node of its own, made when it is found, so that the order is that of
Prolog. It can be another one where a node is older than its proof: where what was proved
before is proved again.
"""

from __future__ import annotations

from typing import Any

from nesymm.ir.symbols import is_ground, key_of
from nesymm.language.program import Pred


class Order:
    """What has been called and proved to collect the answers of one goal."""

    __slots__ = ("_atoms", "_called", "_last", "_latest", "_open", "_proved")

    def __init__(self) -> None:
        self._called: set[Pred] = set()
        # Of these, the ones with other calls than of single facts; the facts, and the last call.
        self._open: set[Pred] = set()
        self._atoms: set[Any] = set()
        self._latest: Any = None
        self._proved: set[Any] = set()
        self._last: Any = None

    def calls(self, pred: Pred, args: tuple, alone: bool, chances: bool) -> bool:
        """Note a call; False if it may find nodes that are older than the last one.

        What is `alone`, not one literal of several, passes the nodes of its answers on. A predicate
        of `chances`, probabilistic facts, has one node for each of its atoms.
        """
        atom = (pred, key_of(args)) if chances and all(map(is_ground, args)) else None
        if atom is None:
            old = pred in self._called
            self._open.add(pred)
        else:
            old = pred in self._open or (atom in self._atoms and atom != self._latest)
            self._atoms.add(atom)
        self._called.add(pred)
        self._latest = atom if alone else None
        return not (old and alone)

    def proves(self, bindings: Any, alone: bool) -> bool:
        """Note a proof of the goal; False if it may belong beside an earlier one.

        Where an answer is one literal of several, ProbLog has all its proofs in one place.
        """
        apart = not alone and bindings in self._proved and bindings != self._last
        self._proved.add(bindings)
        self._last = bindings
        return not apart
