"""One round of grounding: everything that is asked, given what is known of the state so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from nesymm.errors import ProgramError, Span, fail
from nesymm.ground.clauses import Clauses
from nesymm.ground.context import Context
from nesymm.ground.guides import Solved, attach_guides, read_observed, solve_guides
from nesymm.ground.inputs import input_answers, input_decls, read_input
from nesymm.ground.literals import CallLit
from nesymm.ground.open_answers import refuse_open_answers
from nesymm.ground.provenance import provenance
from nesymm.ground.questions import Observed, ask, ask_each, latched, observe
from nesymm.ground.random_variables.elements import divided, refuse_parts, share_elements
from nesymm.ground.random_variables.identity import Owner, Whole
from nesymm.ground.random_variables.variables import Variables
from nesymm.ground.resolution import Engine
from nesymm.ground.state.blocks import Blocks, Layout
from nesymm.ground.state.demands import Demands, Part
from nesymm.ground.state.reading import read
from nesymm.ground.state.shapes import find_blocks
from nesymm.ground.state.transition import leaving, outside, slots
from nesymm.ground.tabling import Answer
from nesymm.ground.unify import Env, resolve
from nesymm.ir.algebra import const, eq
from nesymm.ir.expr import TIME, TRUE, Expr
from nesymm.ir.passes.finish import finish
from nesymm.ir.step import Network, ObservationDecl, QueryDecl, Slot, StepProgram
from nesymm.ir.symbols import has_symbol, is_ground, key_of
from nesymm.ir.terms import V, atom_text
from nesymm.ir.types import Type
from nesymm.language.program import At, Pred

# The message about clauses that need arguments from a caller where there is none.
_NEED_A_CALLER = {"E301", "E302", "E303", "E309"}


class Round:
    """Resolves observations, queries, guides and the next state."""

    def __init__(
        self,
        clauses: Clauses,
        blocks: Blocks,
        split: frozenset[str],
        whole: Mapping[Pred, Owner],
    ):
        self.clauses = clauses
        self.program = clauses.program
        self.ctx = Context(clauses, split)
        self.layout = Layout(blocks)
        self.split = split
        self.whole = whole
        self.variables = Variables(self.ctx)
        self.engine = self._engine()
        self.demands = Demands(clauses)
        self.solved: set[tuple[Pred, Any]] = set()
        # Which part of the next state is being asked for, and whether each part had been asked
        # for elsewhere before, so that what it reads is not known.
        self.asked_for: Part | None = None
        self.shared: dict[tuple[Pred, Any], bool] = {}
        self.observed: dict[Pred, list[Observed]] = {}
        self.observations: list[ObservationDecl] = []
        self.queries: list[QueryDecl] = []
        self.latches: list[Slot] = []
        self.guides: Solved = []

    def _engine(self) -> Engine:
        return Engine(self.ctx, self.variables, self.whole, self._read)

    def run(self) -> None:
        for owner in self.whole.values():
            self._solve_whole(owner)
        for observation in self.program.observations:
            for observed in observe(self.ctx, self.engine, observation):
                self.observations.append(observed.decl)
                self.observed.setdefault(observation.atom.pred, []).append(observed)
        for query in self.program.queries:
            for decl in ask(self.ctx, self.engine, query):
                if isinstance(decl.when, At):
                    decl, slot = latched(decl, self.latches)
                    self.latches.append(slot)
                self.queries.append(decl)
        if not self.program.observations and not self.program.queries:
            self._explore()
        # What guides read of the state is part of it.
        self.guides = solve_guides(self.ctx, self.engine)
        self._solve_states()
        self._check_domains()
        for owner in divided(self.variables.owner):
            raise Whole(owner)

    def _all_answers(self, pred: Pred) -> list[Answer]:
        asked = tuple(V(i) for i in range(self.clauses.width(pred)))
        self.ctx.listed = pred
        try:
            answers = self.engine.solve(pred, asked, None)
        finally:
            self.ctx.listed = None
        refuse_open_answers(self.ctx.openings, pred, answers)
        return answers

    def _solve_whole(self, owner: Owner) -> None:
        """Find all groundings of a random clause at once."""
        try:
            self._all_answers(owner.body)
        except ProgramError as error:
            if set(error.codes) <= {*_NEED_A_CALLER, "E305"}:
                refuse_parts(owner, self.program)
            raise

    def _explore(self) -> None:
        """Nothing is asked: take everything that stands on its own as asked."""
        for pred in dict.fromkeys(self.clauses.resolvents):
            if pred.kind != "program":
                continue
            try:
                answers = self._all_answers(pred)
            except ProgramError as error:
                if set(error.codes) <= _NEED_A_CALLER:
                    completed, self.engine = self.engine.completed, self._engine()
                    self.engine.completed = completed
                    continue
                raise
            if pred in self.program.timed:
                self.demands.add(pred, 1, (None,) * len(self.clauses.key_positions(pred)), None)
            else:
                self.queries += ask_each(pred, answers)

    # ------------------------------------------------------------ the next state

    def _solve_states(self) -> None:
        """Ask for the next state, and for what that in turn reads of the state."""
        while pending := [
            (pred, pattern, span)
            for pred, patterns in self.demands.patterns.items()
            for pattern, span in patterns.items()
            if (pred, key_of(pattern)) not in self.solved
        ]:
            for pred, pattern, span in pending:
                self.solved.add((pred, key_of(pattern)))
                self._solve_state(pred, pattern, span)

    def _solve_state(self, pred: Pred, pattern: tuple, span: Span | None) -> list[Answer]:
        """What the clauses say now of a fluent that is read with these keys."""
        if pred in self.program.inputs:
            return input_answers(self.ctx, pred)
        args: list[Any] = [None] * self.clauses.width(pred)
        for i, key in zip(self.clauses.key_positions(pred), pattern, strict=True):
            args[i] = key
        free = count()
        asked = tuple(V(next(free)) if a is None else a for a in args)
        part = pred, key_of(pattern)
        if part not in self.shared:
            self.shared[part] = (pred, key_of(asked)) in self.engine.tables
        self.asked_for = pred, pattern
        answers = self.engine.solve(pred, asked, span)
        self.asked_for = None
        return answers

    def state_answers(self, pred: Pred) -> list[Answer]:
        """The same for all keys that it is read with, each atom once."""
        found: dict[Any, Answer] = {}
        for pattern, span in self.demands.patterns[pred].items():
            for answer in self._solve_state(pred, pattern, span):
                found.setdefault(key_of(answer.terms), answer)
        return list(found.values())

    def found_blocks(self) -> Blocks:
        """What this round shows about the state."""
        return {
            pred: find_blocks(
                self.clauses, pred, self.state_answers(pred), next(iter(patterns.values()))
            )
            for pred, patterns in self.demands.patterns.items()
        }

    def brought_by(self, new: Blocks) -> Blocks:
        """What is in the next state, if nothing but `new` is in this one."""
        read = [
            part for pred, blocks in new.items() for part in self.demands.readers_of(pred, blocks)
        ]
        shared = [
            (pred, pattern)
            for pred, patterns in self.demands.patterns.items()
            for pattern in patterns
            if self.shared.get((pred, key_of(pattern)))
        ]
        alone = Round(self.clauses, new, self.split, self.whole)
        answers: dict[Pred, list[Answer]] = {}
        for pred, pattern in {
            (p, key_of(asked)): (p, asked) for p, asked in shared + read
        }.values():
            if pattern in self.demands.patterns.get(pred, ()):
                span = self.demands.patterns[pred][pattern]
                answers.setdefault(pred, []).extend(alone._solve_state(pred, pattern, span))
        return {p: find_blocks(self.clauses, p, found, None) for p, found in answers.items()}

    # ------------------------------------------------------------ declared domains

    def _check_domains(self) -> None:
        """Arguments that leave their declared domain: an error, never a clamp.

        The values of fluents are checked where the next state is made.
        """
        asked = {table.pred for table in self.engine.tables.values()}
        checked: dict[Pred, list[Answer]] = {}
        for (pred, position), type_ in self.clauses.domains.items():
            if pred in self.program.inputs or pred not in self.clauses.resolvents:
                continue
            if pred in self.demands.patterns:
                if position not in self.clauses.key_positions(pred):
                    continue
                answers = checked.get(pred) or self.state_answers(pred)
            elif pred in asked or self.clauses.is_fact_table(pred):
                answers = checked.get(pred) or self._answers_in_domain(pred)
            else:
                continue
            checked[pred] = answers
            for answer in answers:
                self._must_not_leave(pred, position, type_, answer)
        self._solve_states()

    def _must_not_leave(self, pred: Pred, position: int, type_: Type, answer: Answer) -> None:
        leaves = outside(answer, position, type_)
        if leaves is TRUE or leaves is eq(TIME, const(0)):
            fail(
                "E321",
                f"{leaving(pred, type_)}: {atom_text(pred.name, answer.terms)}",
                answer.span,
                "widen the domain, or keep to it in the clauses",
            )
        self.ctx.must_not(leaving(pred, type_), leaves, answer.span)

    def _answers_in_domain(self, pred: Pred) -> list[Answer]:
        try:
            return self._all_answers(pred)
        except ProgramError as error:
            if set(error.codes) <= {*_NEED_A_CALLER, "E305"}:
                domains = self.program.domains.items()
                position, term = next((i, t) for (p, i), t in domains if p == pred)
                fail(
                    "E321",
                    f"the domain of argument {position + 1} of {pred} cannot be checked: {pred} "
                    "needs a caller that knows its arguments",
                    term.span,
                    "bind all its variables in its clauses, or declare the domain of what is "
                    "drawn or carried",
                )
            raise

    # ------------------------------------------------------------ the result

    def result(self) -> StepProgram:
        attach_guides(self.variables, self.guides)
        fluents = slots(self.ctx, self.demands, self.layout.blocks, self.state_answers)
        draft = StepProgram(
            slots=(*self.latches, *fluents),
            inputs=input_decls(self.ctx),
            parameters=tuple(self.ctx.evaluator.parameters.values()),
            networks=tuple(
                Network(name, outputs, self.program.calls(name))
                for name, outputs in self.program.networks.items()
            ),
            variables=tuple(self.variables.declared.values()),
            observations=tuple(self.observations),
            queries=tuple(self.queries),
            flags=tuple(self.ctx.flags),
            temporal=self.program.temporal,
            provenance=provenance(self.engine.completed if self.program.temporal else ()),
        )
        asked = self.program.observations or self.program.queries
        return finish(
            share_elements(draft, self.variables.owner), not asked, self.engine.equalities
        )

    # ------------------------------------------------------------ what the engine asks

    def _read(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]] | None:
        if lit.pred.kind == "observed":
            about = replace(lit.pred, kind="program")
            return read_observed(self.ctx, self.observed.get(about, ()), lit, env)
        if not lit.lag:
            return read_input(self.ctx, lit, env) if lit.pred in self.program.inputs else None
        asked = tuple(resolve(lit.args[i], env) for i in self.clauses.key_positions(lit.pred))
        pattern = tuple(None if not is_ground(a) or has_symbol(a) else a for a in asked)
        self.demands.add(lit.pred, lit.lag, pattern, lit.span, self.asked_for)
        return read(self.ctx, self.layout.at(lit.pred, pattern), lit, env, asked)
