"""From a checked program to a `StepProgram`: symbolic execution, round by round.

One round resolves all roots (observations, queries, next state) against what is known
of the state so far. Rounds are repeated until nothing new is learned about the keys and
types of the state; an axis that met something it cannot serve is split into its values
and the round starts over.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any, NoReturn

from nesymm.errors import ProgramError, Span, fail
from nesymm.ground import collect, goals
from nesymm.ground import fluents as state
from nesymm.ground.atoms import apart
from nesymm.ground.clauses import Clauses, Root
from nesymm.ground.elements import divided, refuse_parts, share_elements
from nesymm.ground.evaluate import Evaluator
from nesymm.ground.guides import Observed, Solved, attach_guides, read_observed, solve_guides
from nesymm.ground.identity import Owner, Whole, distinct
from nesymm.ground.literals import BuiltinLit, CallLit, ChoiceLit, CollectLit, DrawLit
from nesymm.ground.merge import agree
from nesymm.ground.normalise import can_start, normalise
from nesymm.ground.provenance import provenance
from nesymm.ground.random_variables import Variables
from nesymm.ground.resolution import Engine
from nesymm.ground.tabling import Answer, Split, Table
from nesymm.ground.unify import Env, NeedsUnfolding, number_variables, resolve, unify
from nesymm.ir.algebra import and_, axis_value, const, eq, not_, or_, whole_vector
from nesymm.ir.axes import anywhere, case, substitute
from nesymm.ir.expr import FALSE, TIME, TRUE, Axis, Expr, in_order, make
from nesymm.ir.passes.finish import finish
from nesymm.ir.step import Branch, Flag, InputDecl, ObservationDecl, QueryDecl, Slot, StepProgram
from nesymm.ir.symbols import (
    as_expr,
    as_tensor,
    atoms_of,
    axes_of,
    has_symbol,
    key_of,
    map_symbols,
    symbols,
)
from nesymm.ir.terms import Compound, V, atom_text, compile_term, quote, show
from nesymm.ir.types import BOOL, Enum, Int, Real, Tensor, Type, is_finite
from nesymm.language.program import At, CheckedProgram, Observation, Pred, Query
from nesymm.language.terms import ListTerm, Num, Struct, Term, subterms
from nesymm.language.values import value_positions

_SOFT_ROUNDS = 4
_HARD_ROUNDS = 9
_MAX_ROUNDS = 40

# Rounds that find keys of the state that no earlier round found do not count above: an infection
# on a path of many nodes reaches one more in each. After a few, only what the new keys bring is
# followed. So many of them are too many, and fewer where the keys themselves grow: nested terms, or
# numbers beyond 64 bits.
_FOLLOWED_AFTER = 3
_GROWING_ROUNDS = 5_000
_NESTING_ROUNDS = 40
_HUGE_ROUNDS = 4

# What is said of clauses that need arguments from a caller where there is none.
_NEED_A_CALLER = {"E301", "E302", "E303", "E309"}


def ground(program: CheckedProgram) -> StepProgram:
    """Compile a checked program to one transition."""
    # Large groundings make millions of small objects and hardly any garbage; searching
    # them for cycles over and over costs a quarter of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _ground(program)
    finally:
        if collecting:
            gc.enable()


def _ground(program: CheckedProgram) -> StepProgram:
    values = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
    clauses, roots = normalise(program, values)
    blocks: state.Blocks = {}
    splits: frozenset[str] = frozenset()
    whole: dict[Pred, Owner] = {}
    restarts = 0
    rounds = growing = 0
    widening: tuple[Pred, int] | None = None
    while rounds < _MAX_ROUNDS:
        number = rounds
        while True:
            grounder = Grounder(program, clauses, roots, blocks, splits, whole)
            try:
                grounder.run()
                break
            except Split as split:
                restarts += 1
                if split.sites <= splits or restarts > 200:
                    raise AssertionError(f"splitting {set(split.sites)} did not help") from None
                splits |= split.sites
                number = 0
            except Whole as parts:
                if parts.owner.body in whole:
                    refuse_parts(parts.owner, program)
                whole[parts.owner.body] = parts.owner
                number = 0
            except NeedsUnfolding:
                fail(
                    "E316",
                    "a list with uncertain items is used where its items must be known",
                    None,
                    "take its length or sum, or pass it to member/2",
                )
        found = grounder.found_blocks()
        if number >= _SOFT_ROUNDS:
            hard = number >= _HARD_ROUNDS
            found = state.widen(blocks, found, _thresholds(program), hard=hard)
        if state.same(found, blocks):
            return grounder.result()
        grown = state.new_keys(blocks, found)
        widening = state.growing_key(grounder, blocks, found)
        before, blocks = blocks, found
        if grown is None:
            rounds += 1
            continue
        growing += 1
        _limit_growth(grounder, *grown, growing)
        if growing >= _FOLLOWED_AFTER:
            blocks, growing = _follow(grounder, blocks, before, growing)
    if widening is not None:
        pred, position = widening
        fail(
            "E306",
            f"argument {position + 1} of {pred} is a key, and no bound for its values was found",
            grounder._state_answers(pred)[-1].span,
            f"declare its domain: `:- domain({pred}, {position + 1}, 1..10).`",
        )
    raise AssertionError("the types of the state do not settle")


def _nesting(term: Any) -> int:
    if isinstance(term, Compound):
        return 1 + max(map(_nesting, term.args))
    if isinstance(term, tuple):
        return 1 + max(map(_nesting, term), default=0)
    return 0


def _limit_growth(grounder: Grounder, pred: Pred, keys: tuple, growing: int) -> None:
    limit = _GROWING_ROUNDS
    if any(_nesting(k) > _NESTING_ROUNDS / 2 for k in keys):
        limit = _NESTING_ROUNDS
    if any(isinstance(k, int) and abs(k) >= 2**63 for k in keys):
        limit = _HUGE_ROUNDS
    if growing <= limit:
        return
    answers = grounder._state_answers(pred)
    fail(
        "E306",
        f"the keys of {pred} were followed for {limit} steps, and each brought new ones",
        answers[-1].span if answers else next(iter(grounder.demands[pred].values())),
        "bound them in the clauses, as in `X < 10`, or by `:- domain(…)`, or make the argument "
        "a value with `:- fluent(…)`",
    )


def _follow(
    grounder: Grounder, blocks: state.Blocks, before: state.Blocks, growing: int
) -> tuple[state.Blocks, int]:
    """The keys that the newest keys lead to, and those in turn, without grounding all again.

    Each turn sees only what is newest, so it may miss what takes two keys, and find what an older
    one excludes. A round that sees all comes after.
    """
    known = state.known_keys(blocks)
    out = {pred: list(found) for pred, found in blocks.items()}
    new = state.not_in(blocks, state.known_keys(before))
    while new:
        try:
            found = grounder.brought_by(new)
        except (ProgramError, Split, Whole, NeedsUnfolding):
            break
        new = state.not_in(found, known)
        for pred, more in new.items():
            out.setdefault(pred, []).extend(more)
            known.setdefault(pred, set()).update(state.known_keys({pred: more})[pred])
        if new:
            growing += 1
            pred = next(iter(new))
            _limit_growth(grounder, pred, new[pred][-1].keys, growing)
    return {pred: tuple(found) for pred, found in out.items()}, growing


def _thresholds(program: CheckedProgram) -> list[int]:
    """The whole numbers of a program: where a growing bound may come to rest."""
    found: set[int] = {0, 1}
    for constant in program.constants.values():
        if isinstance(constant, int):
            found |= {constant - 1, constant, constant + 1}
    for clause in program.clauses:
        for term in _terms(clause):
            for sub in subterms(term):
                if isinstance(sub, Num) and isinstance(sub.value, int):
                    found |= {sub.value - 1, sub.value, sub.value + 1}
    for domain in program.domains.values():
        for sub in subterms(domain):
            if isinstance(sub, Num) and isinstance(sub.value, int):
                found |= {sub.value - 1, sub.value, sub.value + 1}
    return sorted(found)


def _terms(node: Any) -> Iterator[Term]:
    """All terms of a clause."""
    if isinstance(node, Struct | ListTerm | Num):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _terms(part)
    elif hasattr(node, "__dataclass_fields__"):
        for name in node.__dataclass_fields__:
            if name != "span":
                yield from _terms(getattr(node, name))


class Grounder:
    """One round. It is the engine's `Host`."""

    def __init__(
        self,
        program: CheckedProgram,
        clauses: Clauses,
        roots: Mapping[Any, Root],
        blocks: state.Blocks,
        splits: frozenset[str],
        whole: Mapping[Pred, Owner],
    ):
        self.program = program
        self.clauses = clauses
        self.roots = roots
        self.blocks = blocks
        self.splits = splits
        self.whole = whole
        self.inputs = {p: self._input_types(p) for p in program.inputs}
        tensors = {
            name: InputDecl(name, given.timed, (), True) for name, given in program.tensors.items()
        }
        self.evaluator = Evaluator(program.networks, tensors)
        self.variables = Variables(self)
        self.engine = Engine(clauses, self)
        self.axis_sites: dict[Axis, frozenset[str]] = {}
        self.demands: dict[Pred, dict[tuple, Span | None]] = {}
        self.by_keys: dict[Pred, dict[Any, state.Block] | None] = {}
        self.general: dict[Pred, list[tuple]] = {}
        self.covered: dict[Pred, set[tuple]] = {}
        self.solved: set[tuple[Pred, Any]] = set()
        # Which part of the next state is being asked for, what each part reads, and whether it had
        # been asked for elsewhere before, so that what it reads is not known.
        self.asked_for: tuple[Pred, tuple] | None = None
        self.readers: dict[Pred, dict[tuple, set[tuple[Pred, tuple]]]] = {}
        self.shared: dict[tuple[Pred, Any], bool] = {}
        self.lags: dict[Pred, set[int]] = {}
        self.lag_spans: dict[tuple[Pred, int], Span | None] = {}
        self.flags: list[Flag] = []
        self.observations: list[ObservationDecl] = []
        self.queries: list[QueryDecl] = []
        self.latches: list[Slot] = []
        self.observed: dict[Pred, list[Observed]] = {}
        self.guides: Solved = []
        self.tables: list[Table] = []

    # ------------------------------------------------------------ the round

    def run(self) -> None:
        for owner in self.whole.values():
            self._solve_whole(owner)
        for observation in self.program.observations:
            self.observations += self._observation(observation)
        for query in self.program.queries:
            self.queries += self._query(query)
        if not self.program.observations and not self.program.queries:
            self._explore()
        # What guides read of the state is part of it.
        self.guides = solve_guides(self)
        self._solve_states()
        self._check_domains()
        for owner in divided(self.variables.owner):
            raise Whole(owner)

    def _solve_states(self) -> None:
        """Ask for the next state, and for what that in turn reads of the state."""
        while pending := [
            (pred, pattern, span)
            for pred, patterns in self.demands.items()
            for pattern, span in patterns.items()
            if (pred, key_of(pattern)) not in self.solved
        ]:
            for pred, pattern, span in pending:
                self.solved.add((pred, key_of(pattern)))
                self._solve_state(pred, pattern, span)

    def _check_domains(self) -> None:
        """Arguments that leave their declared domain: an error, never a clamp.

        The values of fluents are checked where the next state is made.
        """
        declared: dict[Pred, list[int]] = {}
        for pred, position in self.program.domains:
            if pred not in self.program.inputs and pred in self.clauses.resolvents:
                declared.setdefault(pred, []).append(position)
        asked = {table.pred for table in self.engine.tables.values()}
        for pred, positions in declared.items():
            if pred in self.demands:
                keys = state.key_positions(self, pred)
                checked = [i for i in positions if i in keys]
                self._check_arguments(pred, checked, self._state_answers(pred) if checked else [])
            elif pred in asked or self.clauses.is_fact_table(pred):
                self._check_arguments(pred, positions, self._all_answers(pred))
        self._solve_states()

    def _check_arguments(self, pred: Pred, positions: list[int], answers: list[Answer]) -> None:
        for position in positions:
            type_ = self.declared_type(pred, position)
            assert type_ is not None
            for answer in answers:
                leaves = state.outside(answer, position, type_)
                if leaves is TRUE or leaves is eq(TIME, const(0)):
                    message = state.leaving(pred, type_)
                    atom = atom_text(pred.name, answer.terms)
                    fail(
                        "E321",
                        f"{message}: {atom}",
                        answer.span,
                        "widen the domain, or keep to it in the clauses",
                    )
                self.must_not(state.leaving(pred, type_), leaves, answer.span)

    def _all_answers(self, pred: Pred) -> list[Answer]:
        try:
            return self.engine.solve(pred, tuple(V(i) for i in range(self.width(pred))), None)
        except ProgramError as error:
            if set(error.codes) <= {*_NEED_A_CALLER, "E305"}:
                position, term = next(
                    (i, t) for (p, i), t in self.program.domains.items() if p == pred
                )
                fail(
                    "E321",
                    f"the domain of argument {position + 1} of {pred} cannot be checked: {pred} "
                    "needs a caller that knows its arguments",
                    term.span,
                    "bind all its variables in its clauses, or declare the domain of what is "
                    "drawn or carried",
                )
            raise

    def _solve_whole(self, owner: Owner) -> None:
        """Find all groundings of a random clause at once."""
        try:
            self.engine.solve(owner.body, tuple(V(i) for i in range(owner.body.arity)), None)
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
                anything = tuple(V(i) for i in range(self.width(pred)))
                answers = self.engine.solve(pred, anything, None)
            except ProgramError as error:
                if set(error.codes) <= _NEED_A_CALLER:
                    self.engine = Engine(self.clauses, self)
                    continue
                raise
            if pred in self.program.timed:
                self.demand(pred, 1, (None,) * len(state.key_positions(self, pred)), None)
            else:
                for answer in answers:
                    values = tuple(symbols(answer.terms))
                    # Values without end cannot be listed: whether there is one is asked.
                    listed = all(is_finite(v.type) for v in values)
                    shown = answer.terms
                    if not listed:
                        shown = map_symbols(shown, lambda _: V(0))
                    self.queries.append(
                        QueryDecl(
                            atom_text(pred.name, shown),
                            None,
                            tuple(in_order(axes_of(answer.terms))),
                            answer.condition,
                            values if listed else (),
                            answer.terms,
                        )
                    )

    def _solve_state(self, pred: Pred, pattern: tuple, span: Span | None) -> list[Answer]:
        """What the clauses say now of a fluent that is read with these keys."""
        keys = iter(pattern)
        positions = set(state.key_positions(self, pred))
        count = 0
        args: list[Any] = []
        for i in range(self.width(pred)):
            value = next(keys) if i in positions else None
            if value is None:
                args.append(V(count))
                count += 1
            else:
                args.append(value)
        if pred in self.program.inputs:
            terms, condition = self._input_terms(pred)
            return [Answer(tuple(terms), condition, None)]
        part = pred, key_of(pattern)
        if part not in self.shared:
            self.shared[part] = (pred, key_of(tuple(args))) in self.engine.tables
        self.asked_for = pred, pattern
        answers = self.engine.solve(pred, tuple(args), span)
        self.asked_for = None
        return answers

    def _state_answers(self, pred: Pred) -> list[Answer]:
        """The same for all keys that it is read with, each atom once."""
        found: dict[Any, Answer] = {}
        for pattern, span in self.demands[pred].items():
            for answer in self._solve_state(pred, pattern, span):
                found.setdefault(key_of(answer.terms), answer)
        return list(found.values())

    def found_blocks(self) -> state.Blocks:
        """What this round shows about the state."""
        out: state.Blocks = {}
        for pred in self.demands:
            span = next(iter(self.demands[pred].values()))
            out[pred] = state.find_blocks(self, pred, self._state_answers(pred), span)
        return out

    def brought_by(self, new: state.Blocks) -> state.Blocks:
        """What is in the next state, if nothing but `new` is in this one."""
        parts = {
            (pred, key_of(pattern)): (pred, pattern)
            for pred, patterns in self.demands.items()
            for pattern in patterns
            if self.shared.get((pred, key_of(pattern)))
        }
        for pred, blocks in new.items():
            for pattern, readers in self.readers.get(pred, {}).items():
                if any(_meets(pattern, block) for block in blocks):
                    parts |= {(p, key_of(asked)): (p, asked) for p, asked in readers}
        alone = Grounder(self.program, self.clauses, self.roots, new, self.splits, self.whole)
        answers: dict[Pred, list[Answer]] = {}
        for pred, pattern in parts.values():
            if pattern in self.demands.get(pred, ()):
                span = self.demands[pred][pattern]
                answers.setdefault(pred, []).extend(alone._solve_state(pred, pattern, span))
        return {p: state.find_blocks(self, p, found, None) for p, found in answers.items()}

    def result(self) -> StepProgram:
        slots, flags = self._slots()
        attach_guides(self, self.guides)
        draft = StepProgram(
            inputs=self._input_decls(),
            parameters=tuple(self.evaluator.parameters.values()),
            networks=tuple(self.program.networks.items()),
            slots=tuple(slots),
            variables=tuple(self.variables.declared.values()),
            observations=tuple(self.observations),
            queries=tuple(self.queries),
            flags=tuple(dict.fromkeys((*self.flags, *flags))),
            temporal=self.program.temporal,
            provenance=provenance(self.tables),
        )
        asked = self.program.observations or self.program.queries
        return finish(
            share_elements(draft, self.variables.owner), not asked, self.engine.equalities
        )

    def _slots(self) -> tuple[list[Slot], list[Flag]]:
        slots: list[Slot] = list(self.latches)
        flags: list[Flag] = []
        for pred, lags in self.lags.items():
            blocks = self.blocks.get(pred, ())
            if not blocks and pred not in can_start(self.program):
                lag = max(lags)
                atom = pred.name + ("(…)" if pred.arity else "")
                fail(
                    "E206",
                    f"nothing ever starts {pred}: it is read at an earlier step, but no "
                    "clause gives it a first value",
                    self.lag_spans.get((pred, lag)),
                    f"add a clause for step 0, for example `{atom}@0.`",
                )
            answers = self._state_answers(pred)
            keys = state.key_positions(self, pred)
            grouped: dict[tuple[int, ...], dict[Any, list[Answer]]] = {}
            for block in blocks:
                # Of many answers, those that have the constants of the block.
                fixed = [not isinstance(k, state.Along) for k in block.keys]
                places = tuple(compress(keys, fixed))
                if places not in grouped:
                    groups = grouped[places] = {}
                    for answer in answers:
                        own = key_of(tuple(answer.terms[i] for i in places))
                        groups.setdefault(own, []).append(answer)
                own = grouped[places].get(key_of(tuple(compress(block.keys, fixed))), [])
                slots += self._block_slots(pred, block, own, lags, flags)
        return slots, flags

    def _block_slots(
        self,
        pred: Pred,
        block: state.Block,
        answers: list[Answer],
        lags: set[int],
        flags: list[Flag],
    ) -> Iterator[Slot]:
        axes = state.block_axes(self, pred, block)
        present, values, found = state.next_values(self, pred, block, answers)
        current = (present, values)
        flags += found
        here = tuple(axis_value(a) for a in axes)
        deepest = max(lags)
        for lag in range(1, deepest + 1):
            own = state.slot_name(pred, block.keys, lag)
            if lag > 1:
                before = state.slot_name(pred, block.keys, lag - 1)
                present = make("slot", here, (before, "present"), BOOL)
                values = tuple(
                    make("slot", here, (before, i), t) for i, t in enumerate(block.types)
                )
            atom = (pred.name, state.arguments(self, pred, block)) if lag == 1 else None
            yield Slot(own, axes, block.types, present, values, False, atom=atom)
        if -1 in lags:
            own = state.slot_name(pred, block.keys, -1)
            yield latch(own, axes, block.types, 0, *current)

    # ------------------------------------------------------------ roots

    def _root(self, statement: Observation | Query) -> tuple[Root, list[Answer]]:
        root = self.roots[id(statement)]
        if root.alone is not None and root.selected is not None and root.atom.time is None:
            # As in ProbLog, the body says what is asked, not what has to hold.
            select, bound = root.selected
            chosen = self.engine.solve(select, number_variables(bound), statement.span)
            if not any(has_symbol(answer.terms) for answer in chosen):
                found: list[Answer] = []
                for answer in chosen:
                    env: list[Any] = [None] * root.size
                    for variable, term in zip(bound, answer.terms, strict=True):
                        env[variable.i] = term
                    asked = number_variables(resolve(root.term, env))
                    answers = self.engine.solve(root.alone, asked, statement.span)
                    never = (
                        []
                        if any(type(v) is V for v in atoms_of(asked))
                        else [Answer(asked, FALSE, statement.span)]
                    )
                    found += answers or never
                return root, found
        return root, self.engine.solve(root.pred, number_variables(root.term), statement.span)

    def _observation(self, observation: Observation) -> Iterator[ObservationDecl]:
        root, answers = self._root(observation)
        pred, time = observation.atom.pred, observation.atom.time
        values = [i for i in state.value_positions(self, pred) if type(root.term[i]) is V]
        keys = [i for i in range(len(root.term)) if i not in values]
        value = self._observed_value(observation)
        by_value = bool(values) and not isinstance(value, bool)
        groups: dict[Any, list[Answer]] = {}
        for answer in answers:
            groups.setdefault(key_of(tuple(answer.terms[i] for i in keys)), []).append(answer)
        if not groups:
            free = [i for i in keys if type(root.term[i]) is V] if value is None else []
            name = self._label(pred, tuple(root.term), [i for i in keys if i not in free])
            # Data of no entity at all: an array with an axis of size 0.
            axes = tuple(Axis(self.argument_name(pred, i), Int(1, 0)) for i in free)
            yield ObservationDecl(name, time, axes, FALSE, (), value, observation.span)
        for group in groups.values():
            terms = group[0].terms
            axes = tuple(in_order(axes_of(terms[i] for i in keys)))
            name = self._label(pred, terms, keys)
            holds = or_(*(anywhere(a.condition, axes) for a in group))
            branches: list[Branch] = []
            if by_value:
                self._must_agree(pred, group, values)
                for answer in group:
                    exprs = whole_vector(tuple(as_expr(answer.terms[i]) for i in values))
                    branches += split_cases(answer.condition, exprs)
            said = _vector_said(value, branches, observation)
            decl = ObservationDecl(name, time, axes, holds, tuple(branches), said, observation.span)
            self.observed.setdefault(pred, []).append(Observed(decl, terms, tuple(values)))
            yield decl

    def _must_agree(self, pred: Pred, group: list[Answer], values: list[int]) -> None:
        """An observed value is one value: clauses that apply together must give the same."""
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                same = and_(*(agree(as_expr(a.terms[j]), as_expr(b.terms[j])) for j in values))
                self.conflict(pred, and_(a.condition, b.condition, not_(same)), b.span)

    def _label(self, pred: Pred, terms: tuple, keys: list[int]) -> str:
        fixed = [t for i, t in enumerate(terms) if i in keys and not isinstance(t, Expr)]
        return atom_text(pred.name, tuple(fixed))

    def _observed_value(self, observation: Observation) -> Any:
        match observation.value:
            case None:
                return None
            case Struct("true", ()):
                return True
            case Struct("false", ()):
                return False
            case ListTerm(items, None):
                return tuple(self._constant(i) for i in items)
            case term:
                return (self._constant(term),)

    def _constant(self, term: Term) -> Any:
        value = self.evaluator.value(compile_term(term, {}, lambda: -1), term.span)
        if isinstance(value, Expr) or type(value) is V:
            fail("E308", "the observed value must be a constant", term.span)
        return value

    def _query(self, query: Query) -> Iterator[QueryDecl]:
        root, answers = self._root(query)
        pred, time = query.atom.pred, query.atom.time
        suffix = str(time) if time is not None else ""
        sign = "\\+" if query.negated else ""
        ground_atom = not any(type(t) is V for t in root.term)
        if not answers and ground_atom:
            name = sign + atom_text(pred.name, root.term) + suffix
            holds = TRUE if query.negated else FALSE
            yield QueryDecl(name, time, (), holds, (), root.term, query.span)
        hidden = pred in self.program.self_valued
        if self.program.temporal:
            answers = apart(answers)
        for answer in answers:
            terms = answer.terms
            axes = tuple(in_order(axes_of(terms)))
            values = tuple(symbols(terms))
            args = ["_" if has_symbol(t) else show(t) for t in terms]
            base = sign + quote(pred.name)
            alone = not terms or (hidden and len(terms) == 1)
            name = (base if alone else f"{base}({','.join(args)})") + suffix
            holds = anywhere(answer.condition, axes)
            if query.negated:
                if values:
                    fail(
                        "E103",
                        "the negation of a value that is drawn cannot be asked for",
                        query.span,
                        "query the predicate and take one minus its probability",
                    )
                holds = not_(holds)
            decl = QueryDecl(name, time, axes, holds, values, terms, query.span)
            yield self._latched(decl) if isinstance(time, At) else decl

    def _latched(self, query: QueryDecl) -> QueryDecl:
        """A query about a fixed step: its answer is carried along for later evidence."""
        assert isinstance(query.when, At)
        names = distinct(a.name for a in query.axes)
        own = {a: Axis(n, a.type) for n, a in zip(names, query.axes, strict=True)}
        mapping = {old: axis_value(new) for old, new in own.items()}
        axes = tuple(own.values())
        holds = substitute(query.holds, mapping)
        values = tuple(substitute(v, mapping) for v in query.values)
        name = f"query {query.name}"
        if any(s.name == name for s in self.latches):
            name = f"{name} #{len(self.latches)}"
        # What an element is by its place need not be remembered.
        open_ = tuple(v for v in values if v.op not in ("axis", "const"))
        slot = latch(name, axes, tuple(v.type for v in open_), query.when.index, holds, open_)
        self.latches.append(replace(slot, latch=True))
        remembered = iter(slot.values)
        return replace(
            query,
            axes=axes,
            holds=slot.present,
            values=tuple(next(remembered) if v in open_ else v for v in values),
            template=map_symbols(query.template, lambda e: substitute(e, mapping)),
        )

    # ------------------------------------------------------------ what the engine asks

    def builtin(self, lit: BuiltinLit, env: Env) -> Iterable[tuple[Env, Expr]]:
        return goals.run(self, lit, env)

    def read_state(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]]:
        return state.read(self, lit, env)

    def read_input(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]] | None:
        if lit.pred.kind == "observed":
            return read_observed(self, lit, env)
        if lit.pred not in self.program.inputs:
            return None
        terms, given = self._input_terms(lit.pred)
        new, conditions = list(env), [given]
        if all(unify(a, t, new, conditions) for a, t in zip(lit.args, terms, strict=True)):
            return [(new, and_(*conditions))]
        return []

    def draw(self, lit: DrawLit, answer: Answer, table: Table) -> Iterable[tuple[tuple, Expr]]:
        return self.variables.draw(lit, answer, table)

    def choose(self, lit: ChoiceLit, answer: Answer, table: Table | None) -> Expr:
        return self.variables.choose(lit, answer, table)

    def asks_whole(self, body: Pred) -> bool:
        return body in self.whole

    def collect(
        self, lit: CollectLit, answers: list[tuple[tuple, Expr]], env: Env, ordered: bool
    ) -> Iterable[tuple[Env, Expr]]:
        keys = slice(len(lit.outer), len(lit.outer) + len(lit.groups))
        apart = axes_of(key for terms, _ in answers for key in terms[keys])
        if lit.kind in collect.LISTS:
            apart |= axes_of(resolve(a, env) for a in lit.outer)
        if sites := self.sites_of(apart):
            raise Split(sites)  # there is one result, or one list, for each value
        return collect.gather(lit, answers, env, ordered)

    def axis(self, axis: Axis, sites: Iterable[str]) -> Axis:
        """An axis that comes from these places of the program."""
        self.axis_sites[axis] = self.axis_sites.get(axis, frozenset()) | frozenset(sites)
        return axis

    def renamed_axes(self, axes: Iterable[Axis], site: str) -> dict[Axis, Expr]:
        """Axes of their own for one use, at `site`, of what runs along these."""
        fresh: dict[Axis, Axis] = {}
        for axis in in_order(axes):
            taken = replace(axis, site=site) in fresh.values()
            own = replace(axis, site=f"{site}.{len(fresh)}" if taken else site)
            fresh[axis] = self.axis(own, self.sites_of([axis]))
        return {old: axis_value(new) for old, new in fresh.items()}

    def sites_of(self, axes: Iterable[Axis]) -> set[str]:
        return {site for axis in axes for site in self.axis_sites.get(axis, ())}

    def split_axes(self, axes: Iterable[Axis], span: Span | None) -> NoReturn:
        sites = self.sites_of(axes)
        if not sites:
            fail(
                "E306",
                "the same random variable is used with keys of different domains",
                span,
                "declare the domain of the value with `:- domain(…)`",
            )
        raise Split(sites)

    def has_axes(self) -> bool:
        return self.program.temporal

    def vectorises(self, site: str) -> bool:
        """Whether keys found at this place run along an axis. Programs without time are
        grounded atom by atom, as their users expect."""
        return self.program.temporal and site not in self.splits

    def key_name(self, lit: CallLit, position: int) -> str:
        return self.argument_name(lit.pred, state.key_positions(self, lit.pred)[position])

    def argument_name(self, pred: Pred, position: int) -> str:
        """The name that the clauses of a predicate give to an argument."""
        for rule in self.clauses.resolvents.get(pred, []):
            arg = rule.head[position]
            if type(arg) is V and rule.names[arg.i][0] not in "_$":
                return rule.names[arg.i]
        return f"K{position + 1}"

    def conflict(self, pred: Pred, condition: Expr, span: Span | None) -> None:
        self.must_not(state.different_values(pred), condition, span)

    def completed(self, table: Table) -> None:
        if self.program.temporal:
            self.tables.append(table)

    def must_not(self, message: str, condition: Expr, span: Span | None) -> None:
        flag = Flag(message, anywhere(condition), span)
        if flag.condition is not FALSE and flag not in self.flags:
            self.flags.append(flag)

    def evaluate(self, term: Any, span: Span | None, timed: bool) -> Any:
        value = self.evaluator.number(term, span, timed)
        if isinstance(value, Expr) and value.op == "const":
            return value.data
        return value

    # ------------------------------------------------------------ state and inputs

    def width(self, pred: Pred) -> int:
        return pred.arity + (pred in self.program.self_valued)

    def blocks_at(self, pred: Pred, pattern: tuple) -> Iterable[state.Block]:
        """The blocks that keys may be in; None is any key."""
        blocks = self.blocks.get(pred, ())
        if None in pattern or len(blocks) < 8:
            return blocks
        if pred not in self.by_keys:
            along = any(isinstance(k, state.Along) for b in blocks for k in b.keys)
            self.by_keys[pred] = None if along else {key_of(b.keys): b for b in blocks}
        index = self.by_keys[pred]
        if index is None:
            return blocks
        block = index.get(key_of(pattern))
        return () if block is None else (block,)

    def demand(self, pred: Pred, lag: int, pattern: tuple, span: Span | None) -> None:
        known = self.demands.setdefault(pred, {})
        # Whether a key leaves its domain is seen where all of them are asked for.
        keys = state.key_positions(self, pred)
        pattern = tuple(
            None if (pred, i) in self.program.domains else p
            for i, p in zip(keys, pattern, strict=True)
        )
        if self.asked_for is not None:
            readers = self.readers.setdefault(pred, {}).setdefault(pattern, set())
            readers.add(self.asked_for)
        self.lags.setdefault(pred, set()).add(lag)
        self.lag_spans.setdefault((pred, lag), span)
        if lag < 0:
            self.lags[pred].add(1)
        if pattern in self.covered.setdefault(pred, set()):
            return
        self.covered[pred].add(pattern)
        # Two patterns without a hole overlap only if they are the same.
        alike = known if None in pattern else self.general.get(pred, ())
        if any(_covers(general, pattern) for general in alike):
            return
        # Keys that are read in two ways are asked for in one: else the clauses would seem
        # to give such an atom twice.
        while met := [p for p in alike if _overlap(p, pattern)]:
            for other in met:
                del known[other]
                pattern = _join(other, pattern)
            alike = known
        known[pattern] = span
        if None in pattern:
            self.general[pred] = [p for p in known if None in p]

    def declared_type(self, pred: Pred, position: int) -> Type | None:
        term = self.program.domains.get((pred, position))
        return None if term is None else self.domain_type(term)

    def domain_type(self, term: Term) -> Type:
        """A domain as written: `0..12`, `[a, b]`, `int`, `real`."""
        match term:
            case Struct("..", (low, high)):
                lo = self.evaluator.number(compile_term(low, {}, lambda: -1), low.span)
                hi = self.evaluator.number(compile_term(high, {}, lambda: -1), high.span)
                if type(lo) is int and type(hi) is int and lo <= hi:
                    return Int(lo, hi)
                if isinstance(lo, float) or isinstance(hi, float):
                    return Real(float(lo), float(hi))
            case Struct("int", ()):
                return Int()
            case Struct("real", ()):
                return Real()
            case ListTerm(items, None) if items:
                values = tuple(compile_term(i, {}, lambda: -1) for i in items)
                if all(type(v) is int for v in values) and list(values) == list(
                    range(values[0], values[0] + len(values))
                ):
                    return Int(values[0], values[-1])
                if all(type(v) is str for v in values):
                    return Enum(values)
        fail("E106", "this is not a domain", term.span, "write `0..12`, `[up, down]`, int or real")

    def _input_types(self, pred: Pred) -> tuple[Type, ...]:
        given = self.program.inputs[pred]
        out: list[Type] = []
        for i, domain in enumerate(given.domains):
            declared = self.program.domains.get((pred, i), domain)
            self.evaluator = Evaluator({}, {})
            out.append(Real() if declared is None else self.domain_type(declared))
        return tuple(out)

    def _input_terms(self, pred: Pred) -> tuple[list[Expr], Expr]:
        given = self.program.inputs[pred]
        terms = [
            make("input", (), (pred.name, i), type_) for i, type_ in enumerate(self.inputs[pred])
        ]
        present = make("given", (), pred.name, BOOL)
        if given.boolean:
            present = and_(present, make("input", (), (pred.name, 0), BOOL))
        return terms, present

    def _input_decls(self) -> tuple[InputDecl, ...]:
        out = [
            InputDecl(
                p.name, given.timed, self.inputs[p] or ((BOOL,) if given.boolean else ()), False
            )
            for p, given in self.program.inputs.items()
        ]
        return (*out, *self.evaluator.tensors.values())


def latch(
    name: str,
    axes: tuple[Axis, ...],
    types: tuple[Type, ...],
    step: int,
    holds: Expr,
    values: tuple[Expr, ...],
) -> Slot:
    """A slot that takes its value at one step and keeps it."""
    now = eq(TIME, const(step))
    here = tuple(axis_value(a) for a in axes)
    kept = make("slot", here, (name, "present"), BOOL)
    present = or_(and_(now, holds), and_(not_(now), kept))
    following = tuple(
        case([(now, v), (TRUE, make("slot", here, (name, i), t))])
        for i, (v, t) in enumerate(zip(values, types, strict=True))
    )
    return Slot(name, axes, types, present, following, False)


def split_cases(condition: Expr, values: tuple[Expr, ...]) -> list[Branch]:
    """Take merged values apart again: an observation weighs each way by itself."""
    for value in values:
        if value.op != "case":
            continue
        out: list[Branch] = []
        taken: list[Expr] = []
        for i in range(0, len(value.args), 2):
            here = and_(condition, value.args[i], *(not_(c) for c in taken))
            taken.append(value.args[i])
            if here is FALSE:
                continue
            picked = tuple(_branch(v, value, i) for v in values)
            out += split_cases(here, picked)
        return out
    return [Branch(condition, values)]


def _branch(value: Expr, chosen: Expr, i: int) -> Expr:
    """Branch i of a case; values merged together have the same conditions."""
    if value is chosen:
        return value.args[i + 1]
    if value.op == "case" and value.args[::2] == chosen.args[::2]:
        return value.args[i + 1]
    return value


def _covers(general: tuple, pattern: tuple) -> bool:
    return all(
        g is None or (p is not None and key_of(g) == key_of(p))
        for g, p in zip(general, pattern, strict=True)
    )


def _meets(pattern: tuple, block: state.Block) -> bool:
    """Whether keys of the block fit the pattern."""
    return all(
        p is None or isinstance(k, state.Along) or key_of(p) == key_of(k)
        for p, k in zip(pattern, block.keys, strict=True)
    )


def _overlap(a: tuple, b: tuple) -> bool:
    """Whether some keys fit both patterns."""
    return all(x is None or y is None or key_of(x) == key_of(y) for x, y in zip(a, b, strict=True))


def _join(a: tuple, b: tuple) -> tuple:
    """The most special pattern that covers two overlapping ones."""
    return tuple(None if y is None else x for x, y in zip(a, b, strict=True))


def _vector_said(value: Any, branches: list[Branch], observation: Observation) -> Any:
    """What is observed, the numbers of a list as one value where it is said of a vector."""
    if type(value) is not tuple or not branches:
        return value
    first, *more = branches[0].values
    if more or not isinstance(first.type, Tensor):
        return value
    said = as_expr(as_tensor(value)).type
    if said != first.type and first.type.shape is not None:
        fail(
            "E308",
            f"what is observed is {said}, and the vector is {first.type}",
            observation.span,
            "write one number for each entry: `observe(x@1, [0.5, 2]).`",
        )
    return (value,)
