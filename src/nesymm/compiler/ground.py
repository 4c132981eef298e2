"""From a checked program to a `StepProgram`: symbolic execution, round by round.

One round resolves all roots (observations, queries, next state) against what is known
of the state so far. Rounds are repeated until nothing new is learned about the keys and
types of the state; an axis that met something it cannot serve is split into its values
and the round starts over.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from nesymm.compiler import collect, goals, state
from nesymm.compiler.algebra import and_, axis_value, const, eq, not_, or_, whole_vector
from nesymm.compiler.axes import any_, case, substitute
from nesymm.compiler.clauses import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    Clauses,
    CollectLit,
    DrawLit,
    Root,
    compile_clauses,
    looks_back,
)
from nesymm.compiler.elements import divided, refuse_parts
from nesymm.compiler.engine import Engine
from nesymm.compiler.evaluate import Evaluator, fail
from nesymm.compiler.expr import FALSE, TIME, TRUE, Axis, Expr, make
from nesymm.compiler.finish import finish
from nesymm.compiler.identity import Along, Owner, distinct
from nesymm.compiler.merge import agree
from nesymm.compiler.random import Variables
from nesymm.compiler.runtime import (
    Env,
    NeedsUnfolding,
    V,
    as_expr,
    as_tensor,
    atom_text,
    axes_of,
    compile_term,
    has_symbol,
    key_of,
    map_symbols,
    number_variables,
    quote,
    show,
    symbols,
    unify,
)
from nesymm.compiler.step import (
    Branch,
    Flag,
    InputDecl,
    ObservationDecl,
    Param,
    QueryDecl,
    Slot,
    StepProgram,
)
from nesymm.compiler.tabling import Answer, Split, Table
from nesymm.compiler.types import BOOL, Enum, Int, Real, Tensor, Type, is_finite
from nesymm.distributions import FAMILIES, Family
from nesymm.errors import Diagnostic, ProgramError, Span
from nesymm.language.program import At, CheckedProgram, Draw, Guide, Observation, Pred, Query
from nesymm.language.terms import ListTerm, Num, Struct, Term, subterms
from nesymm.language.values import heads, value_positions

_SOFT_ROUNDS = 4
_HARD_ROUNDS = 9
_MAX_ROUNDS = 40

# What is said of clauses that need arguments from a caller where there is none.
_NEED_A_CALLER = {"E301", "E302", "E303", "E309"}


def ground(
    program: CheckedProgram, prepare: Callable[[Clauses], None] | None = None
) -> StepProgram:
    """Compile a checked program to one transition. `prepare` may add clauses of its own."""
    # Large groundings make millions of small objects and hardly any garbage; searching
    # them for cycles over and over costs a quarter of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _ground(program, prepare)
    finally:
        if collecting:
            gc.enable()


def _ground(program: CheckedProgram, prepare: Callable[[Clauses], None] | None) -> StepProgram:
    values = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
    clauses, roots = compile_clauses(program, values)
    if prepare is not None:
        prepare(clauses)
    blocks: state.Blocks = {}
    splits: frozenset[str] = frozenset()
    restarts = 0
    for number in range(_MAX_ROUNDS):
        while True:
            grounder = Grounder(program, clauses, roots, blocks, splits)
            try:
                grounder.run()
                break
            except Split as split:
                restarts += 1
                if split.sites <= splits or restarts > 200:
                    raise AssertionError(f"splitting {set(split.sites)} did not help") from None
                splits |= split.sites
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
        if found == blocks:
            return grounder.result()
        blocks = found
    raise AssertionError("the types of the state do not settle")


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
    ):
        self.program = program
        self.clauses = clauses
        self.roots = roots
        self.blocks = blocks
        self.splits = splits
        self.inputs = {p: self._input_types(p) for p in program.inputs}
        tensors = {
            name: InputDecl(name, given.timed, (), True) for name, given in program.tensors.items()
        }
        self.evaluator = Evaluator(program.networks, tensors)
        self.variables = Variables(self)
        self.engine = Engine(clauses, self)
        self.axis_sites: dict[Axis, frozenset[str]] = {}
        self.demands: dict[Pred, dict[tuple, Span | None]] = {}
        self.solved: set[tuple[Pred, Any]] = set()
        self.lags: dict[Pred, set[int]] = {}
        self.lag_spans: dict[tuple[Pred, int], Span | None] = {}
        self.flags: list[Flag] = []
        self.observations: list[ObservationDecl] = []
        self.queries: list[QueryDecl] = []
        self.latches: list[Slot] = []

    # ------------------------------------------------------------ the round

    def run(self) -> None:
        for observation in self.program.observations:
            self.observations += self._observation(observation)
        for query in self.program.queries:
            self.queries += self._query(query)
        if not self.program.observations and not self.program.queries:
            self._explore()
        whole: set[Pred] = set()
        while True:
            self._solve_states()
            parts = [o for o in divided(self.variables) if o.pred not in whole]
            if not parts:
                return
            for owner in parts:
                whole.add(owner.pred)
                self._solve_whole(owner)

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

    def _solve_whole(self, owner: Owner) -> None:
        """Ask for all of a predicate, so that its parts are seen to be of one array."""
        try:
            self.engine.solve(owner.pred, self._anything(owner.pred), None)
        except ProgramError as error:
            if set(error.codes) <= _NEED_A_CALLER:
                refuse_parts(owner, self.program)
            raise

    def _anything(self, pred: Pred) -> tuple[V, ...]:
        return tuple(V(i) for i in range(self.width(pred)))

    def _explore(self) -> None:
        """Nothing is asked: take everything that stands on its own as asked."""
        for pred in dict.fromkeys(self.clauses.resolvents):
            if pred in self.clauses.auxiliary:
                continue
            try:
                answers = self.engine.solve(pred, self._anything(pred), None)
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
                    listed = not self.program.temporal and all(is_finite(v.type) for v in values)
                    shown = answer.terms
                    if not self.program.temporal and not listed:
                        shown = map_symbols(shown, lambda _: V(0))
                    self.queries.append(
                        QueryDecl(
                            atom_text(pred.name, shown),
                            None,
                            tuple(sorted(axes_of(answer.terms), key=lambda a: a.name)),
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
        return self.engine.solve(pred, tuple(args), span)

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

    def result(self) -> StepProgram:
        slots, flags = self._slots()
        self._attach_guides()
        return finish(
            self.program,
            inputs=self._input_decls(),
            parameters=tuple(self.evaluator.parameters.values()),
            slots=slots,
            variables=self.variables,
            observations=tuple(self.observations),
            queries=tuple(self.queries),
            flags=(*self.flags, *flags),
            equalities=self.engine.equalities,
        )

    def _slots(self) -> tuple[list[Slot], list[Flag]]:
        slots: list[Slot] = list(self.latches)
        flags: list[Flag] = []
        for pred, lags in self.lags.items():
            blocks = self.blocks.get(pred, ())
            if not blocks and not self._can_start(pred):
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
            for block in blocks:
                slots += self._block_slots(pred, block, answers, lags, flags)
        return slots, flags

    def _can_start(self, pred: Pred) -> bool:
        """Whether some clause of a predicate does not look back; what it gives may still
        lie elsewhere than where the predicate is read."""
        if pred in self.program.inputs:
            return True
        return any(
            head.pred == pred and not looks_back(clause.body)
            for clause in self.program.clauses
            for head in heads(clause)
        )

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
            yield Slot(own, axes, block.types, present, values, False)
        if -1 in lags:
            own = state.slot_name(pred, block.keys, -1)
            yield latch(own, axes, block.types, 0, *current)

    # ------------------------------------------------------------ roots

    def _root(self, statement: Observation | Query) -> tuple[Root, list[Answer]]:
        root = self.roots[id(statement)]
        answers = self.engine.solve(root.pred, number_variables(root.term), statement.span)
        if root.alone is None or root.atom.time is not None:
            return root, answers
        # As in ProbLog, the body says what is asked, not what has to hold.
        asked = []
        for answer in answers:
            same = [answer]
            if not has_symbol(answer.terms):
                same = self.engine.solve(root.alone, answer.terms, statement.span)
            condition = or_(*(a.condition for a in same))
            asked.append(Answer(answer.terms, condition, answer.span))
        return root, asked

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
            name = self._label(pred, tuple(root.term), keys)
            yield ObservationDecl(name, time, (), FALSE, (), value, observation.span)
        for group in groups.values():
            terms = group[0].terms
            axes = tuple(sorted(axes_of(terms[i] for i in keys), key=lambda a: a.name))
            name = self._label(pred, terms, keys)
            holds = or_(*(self._project(a, axes) for a in group))
            branches: list[Branch] = []
            if by_value:
                self._must_agree(pred, group, values)
                for answer in group:
                    exprs = whole_vector(tuple(as_expr(answer.terms[i]) for i in values))
                    branches += split_cases(answer.condition, exprs)
            said = _vector_said(value, branches, observation)
            yield ObservationDecl(name, time, axes, holds, tuple(branches), said, observation.span)

    def _must_agree(self, pred: Pred, group: list[Answer], values: list[int]) -> None:
        """An observed value is one value: clauses that apply together must give the same."""
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                same = and_(*(agree(as_expr(a.terms[j]), as_expr(b.terms[j])) for j in values))
                self.conflict(pred, and_(a.condition, b.condition, not_(same)), b.span)

    def _project(self, answer: Answer, axes: tuple[Axis, ...]) -> Expr:
        condition = answer.condition
        for axis in sorted(condition.axes - set(axes), key=lambda a: a.name):
            condition = any_(axis, condition)
        return condition

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
        for answer in answers:
            terms = answer.terms
            axes = tuple(sorted(axes_of(terms), key=lambda a: a.name))
            values = tuple(symbols(terms))
            args = ["_" if has_symbol(t) else show(t) for t in terms]
            base = sign + quote(pred.name)
            alone = not terms or (hidden and len(terms) == 1)
            name = (base if alone else f"{base}({','.join(args)})") + suffix
            holds = self._project(answer, axes)
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
        names = distinct(a.name.split("~")[0] for a in query.axes)
        own = {a: Axis(n, a.type) for n, a in zip(names, query.axes, strict=True)}
        mapping = {old: axis_value(new) for old, new in own.items()}
        axes = tuple(own.values())
        holds = substitute(query.holds, mapping)
        values = tuple(substitute(v, mapping) for v in query.values)
        name = f"query {query.name}"
        if any(s.name == name for s in self.latches):
            name = f"{name} #{len(self.latches)}"
        slot = latch(name, axes, tuple(v.type for v in values), query.when.index, holds, values)
        self.latches.append(slot)
        return replace(
            query,
            axes=axes,
            holds=slot.present,
            values=slot.values,
            template=map_symbols(query.template, lambda e: substitute(e, mapping)),
        )

    def _attach_guides(self) -> None:
        for guide in self.program.guides:
            root = self.roots[id(guide)]
            arity = len(guide.target.args)
            answers = self.engine.solve(root.pred, number_variables(root.term), guide.span)
            family = FAMILIES[guide.family]
            timed = guide.target.time is not None
            for answer in answers:
                keys, raw = answer.terms[:arity], answer.terms[arity:]
                params, neural = self.variables.parameters(family, raw, guide.span, timed)
                self._attach(guide, family, keys, params, neural)

    def _attach(
        self, guide: Guide, family: Family, keys: tuple, params: tuple[Param, ...], neural: bool
    ) -> None:
        """Give a guide to the variables with its keys; keys along an axis guide an array."""
        targets = [(n, o) for n, o in self.variables.owner.items() if o.pred == guide.target.pred]
        fits = not targets
        for name, owner in targets:
            variable = self.variables.declared[name]
            mapping = _same_keys(owner.keys, keys, variable.axes)
            if mapping is None:
                continue
            fits = True
            if not self._serves(guide, owner.clause):
                continue
            moved = tuple(
                tuple(substitute(e, mapping) for e in p)
                if isinstance(p, tuple)
                else substitute(p, mapping)
                for p in params
            )
            self._check_guide(guide, family, moved, name)
            guided = replace(variable, guide=(family.name, moved, neural))
            self.variables.declared[name] = guided
        if not fits:
            fail(
                "E103",
                f"this guide fits no variable of {guide.target.pred}: its keys are different",
                guide.span,
                "bind its keys in the body in the same way as in the clause that draws",
            )

    def _serves(self, guide: Guide, number: int) -> bool:
        """A guide for every step serves a clause for one step, unless that has its own."""
        clause = self.program.clauses[number]
        own = clause.head.time if isinstance(clause, Draw) else None
        if guide.target.time == own or isinstance(guide.target.time, At):
            return guide.target.time == own
        return not any(
            g.target.pred == guide.target.pred and g.target.time == own for g in self.program.guides
        )

    def _check_guide(self, guide: Guide, family: Family, params: tuple, name: str) -> None:
        """A guide must propose what its target draws."""
        target = self.variables.declared[name].type
        proposed, _ = self.variables.support(family, params, guide.span)
        if type(proposed) is not type(target):
            fail(
                "E110",
                f"the guide proposes {proposed}, but {name} is {target}",
                guide.span,
                "let the network of the guide have one output per parameter",
            )

    # ------------------------------------------------------------ what the engine asks

    def builtin(self, lit: BuiltinLit, env: Env) -> Iterable[tuple[Env, Expr]]:
        return goals.run(self, lit, env)

    def read_state(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]]:
        return state.read(self, lit, env)

    def read_input(self, lit: CallLit, env: Env) -> Iterable[tuple[Env, Expr]] | None:
        if lit.pred not in self.program.inputs:
            return None
        terms, given = self._input_terms(lit.pred)
        new, conditions = list(env), [given]
        if all(unify(a, t, new, conditions) for a, t in zip(lit.args, terms, strict=True)):
            return [(new, and_(*conditions))]
        return []

    def draw(
        self, lit: DrawLit, answer: Answer, index: int, siblings: list[Answer]
    ) -> Iterable[tuple[tuple, Expr]]:
        return self.variables.draw(lit, answer, siblings)

    def choose(self, lit: ChoiceLit, env: Env, answer: Answer, table: Table | None) -> Expr:
        return self.variables.choose(lit, env, answer, table)

    def collect(
        self, lit: CollectLit, answers: list[tuple[tuple, Expr]], env: Env, ordered: bool
    ) -> Iterable[tuple[Env, Expr]]:
        return collect.gather(lit, answers, env, ordered)

    def axis(self, name: str, type_: Int | Enum, sites: Iterable[str]) -> Axis:
        axis = Axis(name, type_)
        self.axis_sites[axis] = self.axis_sites.get(axis, frozenset()) | frozenset(sites)
        return axis

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

    def variable_name(self, lit: BuiltinLit) -> str:
        return lit.hint

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
        self.must_not(f"two clauses give {pred} different values", condition, span)

    def must_not(self, message: str, condition: Expr, span: Span | None) -> None:
        for axis in sorted(condition.axes, key=lambda a: a.name):
            condition = any_(axis, condition)
        flag = Flag(message, condition, span)
        if condition is not FALSE and flag not in self.flags:
            self.flags.append(flag)

    def evaluate(self, term: Any, span: Span | None, timed: bool) -> Any:
        value = self.evaluator.number(term, span, timed)
        if isinstance(value, Expr) and value.op == "const":
            return value.data
        return value

    # ------------------------------------------------------------ state and inputs

    def width(self, pred: Pred) -> int:
        return pred.arity + (pred in self.program.self_valued)

    def demand(self, pred: Pred, lag: int, pattern: tuple, span: Span | None) -> None:
        known = self.demands.setdefault(pred, {})
        self.lags.setdefault(pred, set()).add(lag)
        self.lag_spans.setdefault((pred, lag), span)
        if lag < 0:
            self.lags[pred].add(1)
        if any(_covers(general, pattern) for general in known):
            return
        # Keys that are read in two ways are asked for in one: else the clauses would seem
        # to give such an atom twice.
        while met := [p for p in known if _overlap(p, pattern)]:
            for other in met:
                del known[other]
                pattern = _join(other, pattern)
        known[pattern] = span

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
        present = make("given", (), pred.name, BOOL) if given.timed else TRUE
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


def _same_keys(own: tuple, keys: tuple, axes: tuple[Axis, ...]) -> dict[Axis, Expr] | None:
    """How the axes of a guide's keys are named in the variable; None if keys differ."""
    if len(own) != len(keys):
        return None
    mapping: dict[Axis, Expr] = {}
    for wanted, key in zip(own, keys, strict=True):
        along = isinstance(key, Expr) and key.op == "axis"
        if isinstance(wanted, Along) != along or (not along and key_of(wanted) != key_of(key)):
            return None
        if along:
            mapping[key.data] = axis_value(axes[wanted.axis])
    return mapping


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


__all__ = ["Diagnostic", "Grounder", "ground", "has_symbol"]
