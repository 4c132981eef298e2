"""From a checked program to a `StepProgram`: symbolic execution, round by round.

One round resolves all roots (observations, queries, next state) against what is known of the state
so far. Rounds are repeated until nothing new is learned about the keys and types of the state; an
axis that met something it cannot serve is split into its values, and the rounds start over.
"""

from __future__ import annotations

import gc
from typing import Any

from nesymm.errors import ProgramError, fail
from nesymm.ground.axes import Split
from nesymm.ground.normalise import normalise
from nesymm.ground.random_variables.elements import refuse_parts
from nesymm.ground.random_variables.identity import Owner, Whole
from nesymm.ground.round import Round
from nesymm.ground.state.blocks import Blocks, growing_key, new_keys, not_in, places, same
from nesymm.ground.state.widening import thresholds, widen
from nesymm.ground.subqueries import Solve, Subqueries
from nesymm.ground.unify import NeedsUnfolding
from nesymm.ir.step import StepProgram
from nesymm.ir.symbols import parts
from nesymm.ir.terms import Compound
from nesymm.language.program import CheckedProgram, Pred

# After so many rounds, bounds that still grow are widened: first to numbers of the program.
_SOFT_ROUNDS = 4
_HARD_ROUNDS = 9
_MAX_ROUNDS = 40
_MAX_RESTARTS = 200

# Rounds that find keys of the state that no earlier round found do not count above: an infection
# on a path of many nodes reaches one more in each. After a few, only what the new keys bring is
# followed. So many of them are too many, and fewer where the keys themselves grow: nested terms, or
# numbers beyond 64 bits.
_FOLLOWED_AFTER = 3
_GROWING_ROUNDS = 5_000
_NESTING_ROUNDS = 40
_HUGE_ROUNDS = 4


def ground(program: CheckedProgram, solve: Solve | None = None, depth: int = 0) -> StepProgram:
    """Compile a checked program to one transition.

    `solve` answers the questions that clauses ask by `subquery`; `depth` counts questions within
    questions.
    """
    # Large groundings make millions of small objects and hardly any garbage; searching
    # them for cycles over and over costs a quarter of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _Rounds(program, solve, depth).run()
    finally:
        if collecting:
            gc.enable()


class _Rounds:
    """What is carried from one round to the next: what is known of the state, which axes are split,
    and which random clauses are asked as a whole."""

    def __init__(self, program: CheckedProgram, solve: Solve | None, depth: int):
        self.program = program
        self.clauses = normalise(program)
        self.clauses.subqueries = Subqueries(program, self._compile, solve, depth)
        self.blocks: Blocks = {}
        self.split: frozenset[str] = frozenset()
        self.whole: dict[Pred, Owner] = {}
        self.number = 0
        self.restarts = 0
        self.growing = 0

    def _compile(self, program: CheckedProgram, depth: int) -> StepProgram:
        assert self.clauses.subqueries is not None
        return ground(program, self.clauses.subqueries.solve, depth)

    def run(self) -> StepProgram:
        widening: tuple[Pred, int] | None = None
        while self.number < _MAX_ROUNDS:
            done = self._next()
            found = done.found_blocks()
            if self.number >= _SOFT_ROUNDS:
                hard = self.number >= _HARD_ROUNDS
                found = widen(self.blocks, found, thresholds(self.program), hard)
            if same(found, self.blocks):
                return done.result()
            grown = new_keys(self.blocks, found)
            widening = growing_key(self.clauses, self.blocks, found)
            before, self.blocks = self.blocks, found
            if grown is None:
                self.number += 1
                continue
            self._count(done, *grown)
            if self.growing >= _FOLLOWED_AFTER:
                self._follow(done, before)
        if widening is not None:
            pred, position = widening
            fail(
                "E306",
                f"argument {position + 1} of {pred} is a key, and no bound for its values was "
                "found",
                done.state_answers(pred)[-1].span,
                f"declare its domain: `:- domain({pred}, {position + 1}, 1..10).`",
            )
        raise AssertionError("the types of the state never stop changing")

    def _next(self) -> Round:
        """A round that ran to its end. Where the program has to be grounded in another way, what
        grew so far says nothing: the rounds are counted from the start."""
        while True:
            one = Round(self.clauses, self.blocks, self.split, self.whole)
            try:
                one.run()
                return one
            except Split as split:
                self.restarts += 1
                if split.sites <= self.split or self.restarts > _MAX_RESTARTS:
                    raise AssertionError(f"splitting {set(split.sites)} did not help") from None
                self.split |= split.sites
            except Whole as parts:
                if parts.owner.body in self.whole:
                    refuse_parts(parts.owner, self.program)
                self.whole[parts.owner.body] = parts.owner
            except NeedsUnfolding:
                fail(
                    "E316",
                    "a list with uncertain items is used where its items must be known",
                    None,
                    "take its length or sum, or pass it to member/2",
                )
            self.number = 0

    def _count(self, done: Round, pred: Pred, keys: tuple) -> None:
        """Count a round that found new keys, and refuse one too many."""
        self.growing += 1
        limit = _GROWING_ROUNDS
        if any(_nesting(k) > _NESTING_ROUNDS / 2 for k in keys):
            limit = _NESTING_ROUNDS
        if any(isinstance(k, int) and abs(k) >= 2**63 for k in keys):
            limit = _HUGE_ROUNDS
        if self.growing <= limit:
            return
        answers = done.state_answers(pred)
        fail(
            "E306",
            f"the keys of {pred} were followed for {limit} steps, and each brought new ones",
            answers[-1].span if answers else next(iter(done.demands.patterns[pred].values())),
            "bound them in the clauses, as in `X < 10`, or by `:- domain(…)`, or make the "
            "argument a value with `:- fluent(…)`",
        )

    def _follow(self, done: Round, before: Blocks) -> None:
        """The keys that the newest keys lead to, and those in turn, without grounding all again.

        Each turn sees only what is newest, so it may miss what takes two keys, and find what an
        older one excludes. A round that sees all comes after.
        """
        known = places(self.blocks)
        out = {pred: list(found) for pred, found in self.blocks.items()}
        new = not_in(self.blocks, places(before))
        while new:
            try:
                found = done.brought_by(new)
            except (ProgramError, Split, Whole, NeedsUnfolding):
                break
            new = not_in(found, known)
            for pred, more in new.items():
                out.setdefault(pred, []).extend(more)
                known.setdefault(pred, set()).update(block.place for block in more)
            if new:
                pred = next(iter(new))
                self._count(done, pred, new[pred][-1].keys)
        self.blocks = {pred: tuple(found) for pred, found in out.items()}


def _nesting(term: Any) -> int:
    if not isinstance(term, Compound | tuple):
        return 0
    return 1 + max(map(_nesting, parts(term)), default=0)
