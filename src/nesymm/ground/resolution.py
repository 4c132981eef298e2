"""Tabled resolution over symbolic terms.

Each call pattern has a table of answers. An answer is a tuple of terms, which may hold
symbols, and a condition. Tables are completed depth first; the calls that form a cycle
are completed together, exchanging answers as they come, and the conditions of a cycle
are read as a least fixpoint. Everything is iterative: a recursion ten thousand calls
deep is only a long list here.

A `Reader` answers what an earlier step, an input or an observation holds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from nesymm.errors import Span
from nesymm.ground import builtins, calls
from nesymm.ground.answers import (
    as_asked,
    by_argument,
    computes,
    conclusion,
    each_once,
    instantiated,
    split,
    to_be_counted,
)
from nesymm.ground.collect import gather
from nesymm.ground.context import Context
from nesymm.ground.cycles import break_cycles, refuse_cycle
from nesymm.ground.limits import check_answers, check_call, measure, too_deep
from nesymm.ground.literals import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    CollectLit,
    DisjLit,
    DrawLit,
    GuardLit,
    Lit,
    NegLit,
)
from nesymm.ground.merge import align, merge
from nesymm.ground.open_answers import placed
from nesymm.ground.random_variables.choices import choose
from nesymm.ground.random_variables.draws import draw
from nesymm.ground.random_variables.variables import Variables
from nesymm.ground.summary import certain
from nesymm.ground.tabling import Answer, Derivation, State, Table, spelt_out
from nesymm.ground.uncertain_lists import (
    each_list,
    refuse_order,
    uncertain_list,
    unfold_here,
    without_lists,
)
from nesymm.ground.unify import (
    Env,
    NeedsUnfolding,
    count_variables,
    meet,
    number_variables,
    replace_list,
    resolve,
    shift,
    unify_all,
)
from nesymm.ir.algebra import and_, conjuncts, const, eq, not_, or_
from nesymm.ir.axes import any_, substitute
from nesymm.ir.expr import FALSE, TIME, TRUE, Axis, Expr, make
from nesymm.ir.symbols import as_expr, axes_of, axis_of, key_of, map_symbols, parts
from nesymm.ir.terms import V
from nesymm.language.program import Pred

# The goals that need to know the items of a list, and not their order.
ORDERLESS = frozenset({"sort", "msort", "sum_list", "sumlist", "max_list", "min_list"})


# What answers a literal about something else than clauses; None where it is about clauses.
Reader = Callable[[CallLit, Env], Iterable[tuple[Env, Expr]] | None]


class Engine:
    """Solves goals. Clauses whose bodies are in `whole` are asked for all their keys at once."""

    def __init__(
        self, ctx: Context, variables: Variables, whole: Container[Pred], read: Reader
    ) -> None:
        self.ctx = ctx
        self.clauses = ctx.clauses
        self.axes = ctx.axes
        self.variables, self.whole, self.read = variables, whole, read
        self.tables: dict[Any, Table] = {}
        self.open: list[Table] = []
        self.tasks: list[Any] = []
        self.created = 0
        self.completed: list[Table] = []
        # Where each equality stands in the program.
        self.equalities: dict[Expr, Span | None] = {}

    def solve(self, pred: Pred, args: tuple, span: Span | None) -> list[Answer]:
        """All answers to a goal; variables in `args` are numbered from 0."""
        table = self.tables.get((pred, key_of(args)))
        if table is None:
            table = self._open(pred, args, span, None)
            self._run()
        return table.final

    def _run(self) -> None:
        while self.tasks:
            task = self.tasks.pop()
            try:
                if type(task) is State:
                    self._step(task)
                elif type(task) is Table:
                    self._try_complete(task)
                else:
                    self._feed_open(*task)
            except RecursionError:
                state = task[0] if type(task) is tuple else task
                too_deep(state if type(state) is Table else state.table)

    def _open(self, pred: Pred, args: tuple, span: Span | None, caller: State | None) -> Table:
        """A new table, its derivations started."""
        self.created += 1
        table = Table(pred, args, self.created, span, caller)
        measure(table, None if caller is None else caller.table)
        check_call(table, len(self.open))
        self.tables[pred, key_of(args)] = table
        self.open.append(table)
        self.tasks.append(table)
        free = count_variables(args)
        for rule in reversed(self.clauses.matching(pred, args)):
            env: Env = [None] * (rule.size + free)
            conditions: list[Expr] = []
            shifted = tuple(shift(a, rule.size) for a in args) if free else args
            pairs = zip(rule.head, shifted, strict=True)
            given = ((h, a) for h, a in pairs if not (rule.evaluate_head and computes(h)))
            if unify_all(given, env, conditions):
                condition = and_(*conditions)
                if condition is not FALSE:
                    self.tasks.append(State(table, rule, rule.body, env, condition))
        return table

    # ------------------------------------------------------------ one derivation

    def _step(self, state: State) -> None:
        self.axes.given = state.table.given
        if not state.body:
            self._answer(state)
            return
        lit, *others = state.body
        rest = tuple(others)
        match lit:
            case GuardLit(condition):
                self._continue(state, state.env, condition)
            case CallLit():
                self._call(state, lit)
            case BuiltinLit(name="call"):
                goals = calls.goal(self.clauses, lit, state.env)
                self.tasks.append(state.then((*goals, *rest), state.env, state.condition))
            case BuiltinLit():
                self._push(state, self._builtin(state, lit), lit.span)
            case DisjLit(bodies):
                for body in reversed(bodies):
                    self.tasks.append(state.then(body + rest, list(state.env), state.condition))
            case NegLit():
                self._await_all(state, lit, calls.of_negation(state, lit))
            case CollectLit():
                outer = calls.canonical((*lit.outer, *lit.groups), state.env)
                free = count_variables(outer)
                inner = range(lit.pred.arity - len(outer))
                self._await_all(state, lit, (*outer, *(V(free + i) for i in inner)))
            case DrawLit():
                self._await_body(state, lit, (*lit.keys, *lit.params))
            case ChoiceLit() if state.table.bag and calls.has_proofs(self.clauses, lit):
                # Each proof of the body counts, so it is proved here before the choice.
                proof = CallLit(lit.pred, lit.variables, 0, lit.span, lit.site)
                body = (proof, replace(lit, proved=True), *rest)
                self.tasks.append(state.then(body, state.env, state.condition))
            case ChoiceLit():
                self._await_body(state, lit, lit.variables)

    def _continue(
        self, state: State, env: Env, condition: Expr, body: tuple[Lit, ...] | None = None
    ) -> None:
        """Continue with a body, by default what is behind the first literal, where that holds."""
        both = and_(state.condition, condition)
        if both is not FALSE:
            body = state.body[1:] if body is None else body
            self.tasks.append(state.then(body, env, both))

    def _push(
        self, state: State, results: Iterable[tuple[Env, Expr]], span: Span | None = None
    ) -> None:
        """Continue with each of some results, the first one first."""
        found = []
        for env, condition in results:
            self._note(condition, span)
            both = and_(state.condition, condition)
            if both is not FALSE:
                found.append(state.then(state.body[1:], env, both))
        self.tasks.extend(reversed(found))

    def _note(self, condition: Expr, span: Span | None) -> None:
        """Note where the equalities of a condition stand."""
        for part in conjuncts(condition):
            test = part.args[0] if part.op == "not" else part
            if test.op == "eq":
                self.equalities.setdefault(test, span)

    def _builtin(self, state: State, lit: BuiltinLit) -> Iterator[tuple[Env, Expr]]:
        """Run a builtin; a conditional list that it cannot use is unfolded first."""
        pending: list[tuple[Env, Expr]] = [(list(state.env), TRUE)]
        while pending:
            env, condition = pending.pop()
            try:
                for new, extra in builtins.run(self.ctx, lit, env):
                    self._note(extra, lit.span)
                    yield new, and_(condition, extra)
            except NeedsUnfolding as needed:
                value = needed.value
                if value.certain or lit.name not in ORDERLESS:
                    refuse_order(value, lit.span)
                for items, holds in reversed(unfold_here(self.axes, value, lit.span)):
                    # Spelt out, the list is still one whose order must not matter.
                    spelt = items if value.ordered else certain(items, ordered=False)
                    replaced = [replace_list(t, value, spelt) for t in env]
                    pending.append((replaced, and_(condition, holds)))

    # ------------------------------------------------------------ calls

    def _call(self, state: State, lit: CallLit) -> None:
        found = self.read(lit, state.env)
        if lit.lag < 0:
            # `@0`: at step 0 the current value, afterwards the one kept from then.
            body = (replace(lit, lag=0), *state.body[1:])
            self._continue(state, list(state.env), eq(TIME, const(0)), body)
        if found is not None:
            self._push(state, found, lit.span)
            return
        args = tuple([resolve(a, state.env) for a in lit.args])
        if self._unfolds(state, args, lit.span):
            return
        order = state.table.order
        if order is not None:
            chances = self.clauses.is_chance_table(lit.pred)
            if not order.calls(lit.pred, args, state.alone, chances):
                state.table.ordered = False
        keyed = self.clauses.is_keyed(lit.pred)
        if not keyed and self.clauses.is_fact_table(lit.pred):
            self._push(state, calls.facts(self.clauses, lit, args, state.env), lit.span)
            return
        if state.table.bag:
            states = calls.expanded(self.ctx, state, lit, args)
            if states is not None:
                self.tasks.extend(reversed(states))
                return
        if keyed:
            args = calls.by_key(self.ctx, lit, args, state.env)
        self._await(state, lit.pred, number_variables(args), lit.span)

    def _unfolds(self, state: State, args: tuple, span: Span | None) -> bool:
        """Whether a call has a list with uncertain items; it is then made for each list
        that it can be."""
        value = uncertain_list(args)
        if value is None:
            return False
        for env, holds in each_list(self.axes, value, state.env, span):
            self._continue(state, list(env), holds, state.body)
        return True

    def _await_all(
        self, state: State, lit: NegLit | CollectLit | DrawLit | ChoiceLit, args: tuple
    ) -> None:
        if not self._unfolds(state, args, lit.span):
            self._await(state, lit.pred, args, lit.span)

    def _await_body(self, state: State, lit: DrawLit | ChoiceLit, args: tuple) -> None:
        """Call the body of a random clause: for what is known, or as a whole."""
        if lit.pred in self.whole:
            self._await_all(state, lit, tuple(V(i) for i in range(lit.pred.arity)))
        else:
            self._await_all(state, lit, calls.canonical(args, state.env))

    def _await(self, state: State, pred: Pred, args: tuple, span: Span | None) -> None:
        """Continue `state` with the answers to a call, now or when its table completes."""
        known = self.tables.get((pred, key_of(args)))
        table = self._open(pred, args, span, state) if known is None else known
        if table.symbolic:
            state.table.calls.append((table, state.condition))
        if known is None:
            return
        if table.complete:
            self._resume(state, table)
        else:
            # The table is under way: the two belong to one cycle.
            self._subscribe(state, table)

    # ------------------------------------------------------------ cycles

    def _subscribe(self, state: State, table: Table) -> None:
        state.table.low = min(state.table.low, table.low)
        table.recursive = True
        lit = state.body[0]
        axes = axes_of(table.args).union(*(axes_of(a.terms) for a in table.answers.values()))
        if axes:
            split(self.axes, axes, table)
        match lit:
            case CallLit() | ChoiceLit():
                table.consumers.append(state)
                for answer in list(table.answers.values()):
                    self.tasks.append((state, answer))
            case NegLit():
                reference = make("atom", data=("not", table.number, len(table.negations)))
                table.negations.append((reference, state))
                state.table.ordered = False
                self._continue(state, state.env, not_(reference))
            case CollectLit():
                why = "the answers to collect depend on the result"
                refuse_cycle(self.open, table, lit.span, why)
            case DrawLit():
                refuse_cycle(self.open, table, lit.span, "the random variable depends on itself")

    def _feed_open(self, state: State, answer: Answer) -> None:
        """An answer of an open table, for a derivation of the same cycle."""
        if axes := axes_of(answer.terms):
            split(self.axes, axes, state.table)
        if answer.reference is None:
            answer.reference = make("atom", data=("answer", answer))
        lit = state.body[0]
        if isinstance(lit, CallLit):
            self._consume(state, lit, answer.terms, answer.reference)
        else:
            assert isinstance(lit, ChoiceLit)
            # What chooses within a cycle is found before it is known what coincides at run time.
            reference, answer = answer.reference, copy(answer)
            answer.condition = reference
            for one in spelt_out(answer):
                self._consume_choice(state, lit, one, None)

    # ------------------------------------------------------------ answers of complete tables

    def _resume(self, state: State, table: Table) -> None:
        self.axes.given = state.table.given
        lit = state.body[0]
        if not table.ordered:
            state.table.ordered = False
        match lit:
            case CallLit():
                counted = state.table.bag and state.rule.timed
                answers = to_be_counted(self.ctx, table) if counted else table.final
                for answer in reversed(answers):
                    self._consume(state, lit, *instantiated(self.axes, lit.site, answer, table))
            case ChoiceLit():
                self._in_turn(self._consume_choice, state, lit, table)
            case DrawLit():
                self._in_turn(self._consume_draw, state, lit, table)
            case NegLit():
                some = self._some(state, lit, table)
                if state.table.order is not None and some not in (TRUE, FALSE):
                    state.table.ordered = False
                self._continue(state, state.env, not_(some))
            case CollectLit():
                counted = lit.timed and not table.bag
                answers = to_be_counted(self.ctx, table) if counted else table.final
                rows = [(a.terms, a.condition) for a in answers]
                ordered = lit.timed or table.ordered
                self._push(state, gather(self.axes, lit, rows, list(state.env), ordered))

    def _in_turn(self, consume: Callable[..., None], state: State, lit: Any, table: Table) -> None:
        """Variables and parameters are listed in the order of their keys; the first is proved
        first."""
        start = len(self.tasks)
        for answer in table.final:
            consume(state, lit, answer, table)
        self.tasks[start:] = reversed(self.tasks[start:])

    def _some(self, state: State, lit: NegLit, table: Table) -> Expr:
        """When some answer to what is negated holds."""
        found = []
        for answer in table.final:
            terms, condition = instantiated(self.axes, lit.site, answer, table)
            if met := meet(zip(lit.args, terms, strict=True), state.env, condition):
                holds = met[1]
                for axis in axes_of(terms) - table.given:
                    holds = any_(axis, holds)
                found.append(holds)
        return or_(*found)

    def _consume(self, state: State, lit: CallLit, terms: tuple, condition: Expr) -> None:
        if self.clauses.is_keyed(lit.pred):
            terms, condition = calls.with_keys(lit, terms, condition, state.env)
        env, conditions = list(state.env), [condition]
        if lit.pred in self.ctx.openings:
            terms = placed(terms, env)
        if unify_all(zip(lit.args, terms, strict=True), env, conditions):
            for extra in conditions[1:]:
                self._note(extra, lit.span)
            self._continue(state, env, and_(*conditions))

    def _consume_choice(
        self, state: State, lit: ChoiceLit, answer: Answer, table: Table | None
    ) -> None:
        met = meet(zip(lit.variables, answer.terms, strict=True), state.env, answer.condition)
        if met is not None:
            env, condition = met
            self._continue(state, env, and_(condition, choose(self.variables, lit, answer, table)))

    def _consume_draw(self, state: State, lit: DrawLit, answer: Answer, table: Table) -> None:
        keys = answer.terms[: len(lit.keys)]
        # Of a whole array that was drawn, the element that is asked for.
        asked: dict[Axis, Expr] = {}
        for arg, term in zip(lit.keys, keys, strict=True):
            known = resolve(arg, state.env)
            axis = axis_of(term)
            open_ = type(known) is V or parts(known)
            if axis is not None and axis not in table.given and not open_:
                asked.setdefault(axis, as_expr(known))
        for drawn, extra in draw(self.variables, lit, answer, table):
            here = map_symbols(drawn, partial(substitute, mapping=asked))
            pairs = zip((*lit.keys, *lit.drawn), (*keys, *here), strict=True)
            if met := meet(pairs, state.env, and_(answer.condition, extra)):
                self._continue(state, *met)

    # ------------------------------------------------------------ giving answers

    def _answer(self, state: State) -> None:
        table, rule = state.table, state.rule
        concluded = conclusion(self.ctx, state)
        if concluded is None:
            return
        terms, env, condition = concluded
        if rule.origin is not None:
            table.derived.append(Derivation(rule, terms, env, condition))
        if table.order is not None:
            bindings = key_of(tuple([resolve(V(i), state.env) for i in range(rule.size)]))
            if not table.order.proves(bindings, alone=state.alone):
                table.ordered = False
        terms = as_asked(self.clauses, table, terms)
        for row, holds in list(without_lists(self.axes, terms, TRUE, rule.span)):
            self._add(table, row, and_(condition, holds), rule.span)

    def _add(self, table: Table, terms: tuple, condition: Expr, span: Span | None) -> None:
        terms, condition = by_argument(self.axes, table, terms, condition)
        if condition is FALSE:
            return
        key = (key_of(terms), len(table.answers)) if table.bag else key_of(terms)
        found = table.answers.get(key)
        if found is not None:
            found.derivations.append(condition)
            return
        answer = table.answers[key] = Answer(terms, condition, span)
        check_answers(table, terms, self.clauses.numbers)
        for state in table.consumers:
            self.tasks.append((state, answer))

    # ------------------------------------------------------------ completion

    def _try_complete(self, table: Table) -> None:
        """All derivations that `table` started are done or wait for open tables."""
        position = next(i for i in range(len(self.open) - 1, -1, -1) if self.open[i] is table)
        group = self.open[position:]
        table.low = min(t.low for t in group)
        caller, table.waiting = table.waiting, None
        if table.low < table.number:
            # Part of a cycle that an earlier table leads.
            assert caller is not None
            self._subscribe(caller, table)
            return
        del self.open[position:]
        self._finish(group)
        if caller is not None:
            self._resume(caller, table)

    def _finish(self, group: list[Table]) -> None:
        if len(group) == 1 and not group[0].recursive:
            for answer in group[0].answers.values():
                answer.condition = or_(*answer.derivations)
        else:
            break_cycles(group)
        for table in group:
            table.complete = True
            self.completed.append(table)
            table.consumers = []
            table.negations = []
            rows = [a for a in table.answers.values() if a.condition is not FALSE]
            table.ordered = table.ordered and not table.recursive
            for row in rows:
                row.derivations = []
            if table.recursive and table.pred.kind == "choice":
                rows = each_once(one for row in rows for one in spelt_out(row))
            if not table.bag:
                rows = align(self.ctx, table, rows)
            table.final = merge(self.ctx, table, rows)
            table.answers = {}
