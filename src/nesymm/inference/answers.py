"""Probabilities by the names of atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesymm.errors import NesymmError
from nesymm.inference.questions import Grounding, Question
from nesymm.language.program import Time


class Answers(dict[str, np.ndarray]):
    """Probabilities by the names of atoms. Those that are impossible are not listed; who asks for
    one by its name gets zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: set[tuple[str, Any]] = set()
        self.impossible: dict[str, np.ndarray] = {}
        # The predicate and the arguments of each, and when it is asked.
        self.atoms: dict[str, tuple[str, tuple, Time | None]] = {}

    def __missing__(self, name: str) -> np.ndarray:
        if name in self.impossible:
            return self.impossible[name]
        raise KeyError(f"{name} is not asked (there are: {', '.join(self) or 'none'})")

    def list_all(self) -> None:
        """List what is impossible, too."""
        for name, zeros in self.impossible.items():
            self.setdefault(name, zeros)

    def add(self, question: Question, about: Grounding, probabilities: np.ndarray) -> None:
        name = about.name
        self.atoms[name] = about.predicate, about.terms, question.query.when
        if question.axes and not np.nansum(probabilities) > 0:
            self.impossible.setdefault(name, probabilities)
            return
        # Queries of one statement are derivations of its atoms.
        if (name, question.query.span) in self._asked:
            raise NesymmError(
                f"the query for {name} has several derivations, each with a part of its "
                "probability\n  = help: ask for the atom alone, or for a predicate that says "
                "which derivation it is"
            )
        known = self.get(name, probabilities)
        if not np.allclose(known, probabilities, atol=1e-6, equal_nan=True):
            raise NesymmError(
                f"two queries of the program ask for {name}, each for a part of it; ask for it "
                "alone"
            )
        self._asked.add((name, question.query.span))
        self[name] = probabilities
