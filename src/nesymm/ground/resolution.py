"""Tabled resolution over symbolic terms.

Each call pattern has a table of answers. An answer is a tuple of terms, which may hold
symbols, and a condition. Tables are completed depth first; the calls that form a cycle
are completed together, exchanging answers as they come, and the conditions of a cycle
are read as a least fixpoint. Everything is iterative: a recursion ten thousand calls
deep is only a long list here.

What the engine does not know (builtins, random variables, state) it asks its `Host`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from nesymm.errors import Diagnostic, ProgramError, Span, fail
from nesymm.ground.clauses import (
    BuiltinLit,
    CallLit,
    ChoiceLit,
    Clauses,
    CollectLit,
    DisjLit,
    DrawLit,
    GuardLit,
    Lit,
    NegLit,
    Resolvent,
    shift_literal,
)
from nesymm.ground.cycles import break_cycles
from nesymm.ground.lists import refuse_order, unfold
from nesymm.ground.merge import align, merge
from nesymm.ground.summary import certain
from nesymm.ground.tables import lookup_facts
from nesymm.ground.tabling import (
    Answer,
    Derivation,
    Host,
    Split,
    State,
    Table,
    coincide,
    spelt_out,
)
from nesymm.ground.unify import (
    Env,
    NeedsUnfolding,
    count_variables,
    number_variables,
    replace_list,
    resolve,
    shift,
    unify,
)
from nesymm.ir.algebra import and_, axis_value, conjuncts, const, eq, not_, or_
from nesymm.ir.axes import any_, anywhere, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, make
from nesymm.ir.symbols import (
    CondList,
    as_expr,
    atoms_of,
    axes_of,
    has_symbol,
    inside,
    key_of,
    map_symbols,
    parts,
)
from nesymm.ir.terms import FREE, Compound, V, atom_text, bare
from nesymm.ir.types import Enum, Int, is_finite
from nesymm.language.builtins import FUNCTIONS, PREDICATES
from nesymm.language.program import Pred

MAX_TABLES = 400_000
MAX_ANSWERS = 400_000
MAX_SYMBOLIC_DEPTH = 64
MAX_OPEN = 50_000
MAX_GROWTH = 1_500
MAX_NUMBERS = 2**15
MAX_EXPANSION = 400

# The goals that need to know the items of a list, and not their order.
ORDERLESS = frozenset({"sort", "msort", "sum_list", "sumlist", "max_list", "min_list"})


class Engine:
    def __init__(self, clauses: Clauses, host: Host):
        self.clauses = clauses
        self.host = host
        self.tables: dict[Any, Table] = {}
        self.open: list[Table] = []
        self.tasks: list[Any] = []
        self.created = 0
        self.equalities: dict[Expr, Span | None] = {}

    # ------------------------------------------------------------ entry

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
                    consumer, answer = task
                    self._feed_raw(consumer, answer)
            except RecursionError:
                self._too_deep(task)

    # ------------------------------------------------------------ tables

    def _open(self, pred: Pred, args: tuple, span: Span | None, caller: State | None) -> Table:
        """A new table, its derivations started."""
        self.created += 1
        table = Table(pred, args, self.created, span)
        table.waiting = caller
        if any(isinstance(a, Expr) for a in args):
            depth = caller.table.symbolic_depth + 1 if caller is not None else 1
            table.symbolic_depth = depth
        elif caller is not None:
            table.symbolic_depth = caller.table.symbolic_depth
        size = sum(_size(a) for a in args)
        table.largest = size if caller is None else max(size, caller.table.largest)
        if caller is not None:
            table.growth = caller.table.growth + (size > caller.table.largest)
        if (
            self.created > MAX_TABLES
            or len(self.open) > MAX_OPEN
            or table.growth > MAX_GROWTH
            or table.symbolic_depth > MAX_SYMBOLIC_DEPTH
        ):
            self._unbounded(table)
        self.tables[pred, key_of(args)] = table
        self.open.append(table)
        self.tasks.append(table)
        free = count_variables(args)
        for rule in reversed(self.clauses.matching(pred, args)):
            env: Env = [None] * (rule.size + free)
            conditions: list[Expr] = []
            shifted = tuple(shift(a, rule.size) for a in args) if free else args
            if all(
                unify(h, a, env, conditions)
                for h, a in zip(rule.head, shifted, strict=True)
                if not (rule.evaluate_head and _computes(h))
            ):
                condition = and_(*conditions)
                if condition is not FALSE:
                    self.tasks.append(State(table, rule, rule.body, env, condition))
        return table

    def _too_deep(self, task: Any) -> None:
        state = task[0] if type(task) is tuple else task
        table = state if type(state) is Table else state.table
        raise ProgramError(
            Diagnostic(
                "E305",
                f"the terms of {table.pred} are nested without end",
                table.span,
                "use a list or a number instead of a term inside a term inside a term",
            )
        ) from None

    def _unbounded(self, table: Table, terms: tuple | None = None) -> None:
        reached = table.name() if terms is None else atom_text(table.pred.name, terms)
        symbolic = any(isinstance(a, Expr) for a in table.args)
        fail(
            "E305",
            f"the recursion of {table.pred} does not end"
            + (": its argument is only known at run time" if symbolic else ""),
            table.span,
            "give the argument that changes a bound that the clauses test, "
            "or declare it with `:- domain(…)`",
            f"reached {reached[:80]}",
        )

    # ------------------------------------------------------------ one derivation

    def _step(self, state: State) -> None:
        body = state.body
        if not body:
            self._answer(state)
            return
        lit = body[0]
        rest = body[1:]
        match lit:
            case GuardLit(condition):
                both = and_(state.condition, condition)
                if both is not FALSE:
                    self.tasks.append(state.then(rest, state.env, both))
            case CallLit():
                self._call(state, lit, rest)
            case BuiltinLit(name="call"):
                self.tasks.append(
                    state.then(
                        (self._goal(state, lit), *rest),
                        state.env,
                        state.condition,
                    )
                )
            case BuiltinLit():
                self._push(state, rest, self._builtin(state, lit), lit.span)
            case DisjLit(bodies):
                for alternative in reversed(bodies):
                    self.tasks.append(
                        state.then(
                            alternative + rest,
                            list(state.env),
                            state.condition,
                        )
                    )
            case NegLit():
                values = self._negated_args(state, lit)
                self._await_all(state, lit, values)
            case CollectLit():
                outer = self._canonical((*lit.outer, *lit.groups), state.env)
                free = count_variables(outer)
                others = range(lit.pred.arity - len(outer))
                self._await_all(state, lit, (*outer, *(V(free + i) for i in others)))
            case DrawLit(keys=keys, params=params):
                self._await_all(state, lit, self._asked(lit.pred, (*keys, *params), state.env))
            case ChoiceLit() if state.table.bag and self._has_proofs(lit):
                # Each proof of the body counts, so it is proved here before the choice.
                proof = CallLit(lit.pred, lit.variables, 0, lit.span, lit.site)
                body = (proof, replace(lit, proved=True), *rest)
                self.tasks.append(state.then(body, state.env, state.condition))
            case ChoiceLit(variables=variables):
                self._await_all(state, lit, self._asked(lit.pred, variables, state.env))

    def _await_all(
        self, state: State, lit: NegLit | CollectLit | DrawLit | ChoiceLit, args: tuple
    ) -> None:
        if not self._unfolds(state, args, lit.span):
            self._await(state, lit.pred, args, lit.span)

    def _goal(self, state: State, lit: BuiltinLit) -> Lit:
        """`call(Goal, Extra…)`: the literal that the goal turns out to be."""
        goal = resolve(lit.args[0], state.env)
        if type(goal) is str:
            goal = Compound(goal, ())
        if type(goal) is not Compound:
            fail(
                "E302",
                "the goal to call is not known yet",
                lit.span,
                "bind it by a literal to the left",
            )
        args = (*goal.args, *lit.args[1:])
        if len(args) in PREDICATES.get(goal.functor, ()):
            return BuiltinLit(goal.functor, args, lit.span, lit.site, lit.timed)
        pred = Pred(goal.functor, len(args))
        if pred not in self.clauses.resolvents or self.clauses.resolvents[pred][0].timed:
            fail(
                "E101",
                f"{pred} cannot be called: nothing without a time defines it",
                lit.span,
                "call a predicate that has no time, or write the literal itself",
            )
        return CallLit(pred, args, 0, lit.span, lit.site)

    def _push(
        self,
        state: State,
        rest: tuple[Lit, ...],
        results: Iterable[tuple[Env, Expr]],
        span: Span | None = None,
    ) -> None:
        found = []
        for env, condition in results:
            for part in conjuncts(condition):
                if part.op == "eq":
                    self.equalities.setdefault(part, span)
            both = and_(state.condition, condition)
            if both is not FALSE:
                found.append(state.then(rest, env, both))
        self.tasks.extend(reversed(found))

    def _builtin(self, state: State, lit: BuiltinLit) -> Iterator[tuple[Env, Expr]]:
        """Run a builtin; a conditional list that it cannot use is unfolded first."""
        pending: list[tuple[Env, Expr]] = [(list(state.env), TRUE)]
        while pending:
            env, condition = pending.pop()
            try:
                for new, extra in self.host.builtin(lit, env):
                    test = extra.args[0] if extra.op == "not" else extra
                    if test.op == "eq":
                        self.equalities.setdefault(test, lit.span)
                    yield new, and_(condition, extra)
            except NeedsUnfolding as needed:
                value = needed.value
                if value.certain or lit.name not in ORDERLESS:
                    refuse_order(value, lit.span)
                for items, holds in reversed(self._unfold(value, lit.span)):
                    # Spelt out, the list is still one whose order must not matter.
                    spelt = items if value.ordered else CondList(certain(items).items, False)
                    replaced = [replace_list(t, value, spelt) for t in env]
                    pending.append((replaced, and_(condition, holds)))

    def _negated_args(self, state: State, lit: NegLit) -> tuple:
        values = self._canonical(lit.args, state.env)
        for original, value in zip(lit.args, values, strict=True):
            if any(type(leaf) is V for leaf in atoms_of(value)):
                named = type(original) is V and original.i < len(state.rule.names)
                name = state.rule.names[original.i] if named else "a variable"
                fail(
                    "E309",
                    f"the negation would have to bind {name}",
                    lit.span,
                    f"bind {name} before the negation, by a literal to the left of it",
                )
        return values

    # ------------------------------------------------------------ calls

    def _call(self, state: State, lit: CallLit, rest: tuple[Lit, ...]) -> None:
        if lit.lag:
            results = self.host.read_state(lit, state.env)
            if lit.lag < 0:
                # `@0`: at step 0 the current value, afterwards the one kept from then.
                now = CallLit(lit.pred, lit.args, 0, lit.span, lit.site)
                at_start = and_(state.condition, eq(make("time", type_=Int(0)), const(0)))
                if at_start is not FALSE:
                    self.tasks.append(state.then((now, *rest), list(state.env), at_start))
            self._push(state, rest, results, lit.span)
            return
        given = self.host.read_input(lit, state.env)
        if given is not None:
            self._push(state, rest, given, lit.span)
            return
        args = tuple([resolve(a, state.env) for a in lit.args])
        if self._unfolds(state, args, lit.span):
            return
        pred = lit.pred
        order = state.table.order
        if order is not None and not order.calls(pred, alone=state.alone):
            state.table.ordered = False
        functional = pred in self.clauses.random or pred in self.clauses.fluents
        if not functional and self.clauses.is_fact_table(pred):
            self._push(state, rest, self._facts(lit, args, state.env), lit.span)
            return
        if state.table.bag and self._expand(state, lit, rest, args):
            return
        if functional:
            args = self._abstract(lit, args, state.env)
        values = number_variables(args)
        self._await(state, pred, values, lit.span)

    def _has_proofs(self, lit: ChoiceLit) -> bool:
        """Whether the body of a choice may be proved in several ways, one by one."""
        rules = self.clauses.resolvents[lit.pred]
        return not lit.proved and all(r.body and not r.optional for r in rules)

    def _expand(self, state: State, lit: CallLit, rest: tuple[Lit, ...], args: tuple) -> bool:
        """Resolve a call in place, clause by clause, as Prolog does.

        The answers to collect are counted by their proofs, and a table has each answer
        only once.
        """
        pred = lit.pred
        functional = pred in self.clauses.drawn or pred in self.clauses.fluents
        if functional or self.host.has_axes():
            return False
        if state.depth >= MAX_EXPANSION:
            fail(
                "E305",
                f"the answers to collect have no end: the recursion of {pred} proves them "
                "over and over",
                lit.span,
                "collect from a predicate whose proofs are finitely many",
            )
        rules = self.clauses.matching(pred, args)
        if any(isinstance(a, Expr) for a in args) or any(r.evaluate_head for r in rules):
            return False
        if self.clauses.is_recursive(pred):
            state.table.ordered = False
        offset = len(state.env)
        found = []
        for rule in rules:
            env = state.env + [None] * rule.size
            conditions = [state.condition]
            head = (shift(h, offset) for h in rule.head)
            if all(unify(h, a, env, conditions) for h, a in zip(head, args, strict=True)):
                body = tuple(shift_literal(x, offset) for x in rule.body)
                condition = and_(*conditions)
                if condition is not FALSE:
                    found.append(state.then(body + rest, env, condition, deeper=1))
        self.tasks.extend(reversed(found))
        return True

    def _unfolds(self, state: State, args: tuple, span: Span | None) -> bool:
        """Whether a call has a list with uncertain items; it is then made for each list
        that it can be."""
        value = next((x for a in args for x in inside(a) if type(x) is CondList), None)
        if value is None:
            return False
        refuse_order(value, span)
        for items, holds in self._unfold(value, span):
            env = [replace_list(t, value, items) for t in state.env]
            both = and_(state.condition, holds)
            if both is not FALSE:
                self.tasks.append(state.then(state.body, env, both))
        return True

    def _abstract(self, lit: CallLit, args: tuple, env: Env) -> tuple:
        """How a functional predicate is called: values unbound, symbols in keys as axes."""
        values = self.clauses.values.get(lit.pred, frozenset())
        out: list[Any] = []
        for i, arg in enumerate(args):
            if i in values:
                out.append(V(len(env) + i))
            elif isinstance(arg, Expr) and arg.op != "axis":
                out.append(axis_value(self.key_axis(lit, i, arg)))
            else:
                out.append(arg)
        return tuple(out)

    def key_axis(self, lit: CallLit, position: int, symbol: Expr) -> Axis:
        """An axis over the values that a symbol in key position can take."""
        type_ = symbol.type
        if not is_finite(type_) or not isinstance(type_, Int | Enum):
            fail(
                "E306",
                f"argument {position + 1} of {lit.pred} is a key, and the value used for it "
                f"here is unbounded ({type_})",
                lit.span,
                "declare the domain of the value with `:- domain(…)`, or make the argument "
                "a value with `:- fluent(…)`",
            )
        sites = self.host.sites_of(symbol.axes)
        return self.host.axis(Axis(f"κ{position}", type_, lit.site, "key"), sites)

    def _facts(self, lit: CallLit, args: tuple, env: Env) -> Iterator[tuple[Env, Expr]]:
        """Ground facts: enumerate the rows, or look symbols up in an array."""
        rows = self.clauses.matching(lit.pred, args)
        symbolic = [i for i, a in enumerate(args) if isinstance(a, Expr)]
        if symbolic and len(rows) > 3:
            found = lookup_facts(lit.pred, args, [r.head for r in rows], symbolic)
            if found is not None:
                for terms, condition in found:
                    new = list(env)
                    conditions: list[Expr] = [condition]
                    if all(
                        unify(a, t, new, conditions)
                        for i, (a, t) in enumerate(zip(lit.args, terms, strict=True))
                        if i not in symbolic
                    ):
                        yield new, and_(*conditions)
                return
        for row in rows:
            new = list(env)
            conditions = []
            if all(unify(a, h, new, conditions) for a, h in zip(args, row.head, strict=True)):
                yield new, and_(*conditions)

    def _canonical(self, args: tuple, env: Env) -> tuple:
        return number_variables(tuple([resolve(a, env) for a in args]))

    def _asked(self, body: Pred, args: tuple, env: Env) -> tuple:
        """How the body of a random clause is called: for what is known, or as a whole."""
        if self.host.asks_whole(body):
            return tuple(V(i) for i in range(body.arity))
        return self._canonical(args, env)

    def _await(self, state: State, pred: Pred, args: tuple, span: Span | None) -> None:
        """Continue `state` with the answers to a call, now or when its table completes."""
        table = self.tables.get((pred, key_of(args)))
        opened = table is None
        if table is None:
            table = self._open(pred, args, span, state)
        if table.symbolic:
            state.table.calls.append((table, state.condition))
        if opened:
            return
        if table.complete:
            self._resume(state, table)
        else:
            # The table is under way: the two belong to one cycle.
            self._subscribe(state, table)

    def _subscribe(self, state: State, table: Table) -> None:
        state.table.low = min(state.table.low, table.low)
        table.recursive = True
        lit = state.body[0]
        if axes_of(table.args) or any(axes_of(a.terms) for a in table.answers.values()):
            self._split(self._cycle_axes(table), table)
        match lit:
            case CallLit() | ChoiceLit():
                table.consumers.append(state)
                for answer in list(table.answers.values()):
                    self.tasks.append((state, answer))
            case NegLit():
                reference = make("atom", data=("not", table.number, len(table.negations)))
                table.negations.append((reference, state))
                state.table.ordered = False
                both = and_(state.condition, not_(reference))
                self.tasks.append(state.then(state.body[1:], state.env, both))
            case CollectLit():
                self._cyclic(table, lit.span, "the answers to collect depend on the result")
            case DrawLit():
                self._cyclic(table, lit.span, "the random variable depends on itself")

    def _cycle_axes(self, table: Table) -> set[Axis]:
        axes = set(axes_of(table.args))
        for answer in table.answers.values():
            axes |= axes_of(answer.terms)
        return axes

    def _split(self, axes: set[Axis], table: Table) -> None:
        """What is solved for single values, not along an axis: a cycle, or what is counted."""
        sites = self.host.sites_of(axes)
        if not sites:
            self._unbounded(table)
        raise Split(sites)

    def _cyclic(self, table: Table, span: Span | None, why: str) -> None:
        fail(
            "E312",
            f"{why}, within one step",
            span,
            "look one step back (`@(t-1)`), or break the cycle",
            "through " + " → ".join(self._visible_cycle(table)),
        )

    def _visible_cycle(self, table: Table) -> list[str]:
        start = next(i for i, t in enumerate(self.open) if t.number >= table.low)
        names = [t.name() for t in self.open[start:] if t.pred.kind == "program"]
        return (names or ["itself"])[:8]

    def _feed_raw(self, state: State, answer: Answer) -> None:
        """An answer of an open table, for a derivation of the same cycle."""
        if axes_of(answer.terms):
            self._split(axes_of(answer.terms), state.table)
        if answer.reference is None:
            answer.reference = make("atom", data=("answer", answer))
        reference = answer.reference
        lit = state.body[0]
        if isinstance(lit, CallLit):
            self._consume(state, lit, answer.terms, reference)
        else:
            assert isinstance(lit, ChoiceLit)
            # What chooses within a cycle is found before it is known what coincides at run time.
            answer = copy(answer)
            answer.condition = reference
            for one in spelt_out(answer):
                self._consume_choice(state, lit, one, one.condition, None)

    def _resume(self, state: State, table: Table) -> None:
        lit = state.body[0]
        answers = table.final
        if not table.ordered:
            state.table.ordered = False
        match lit:
            case CallLit():
                if state.table.bag and state.rule.timed:
                    answers = self._told_once(table)
                for answer in reversed(answers):
                    terms, condition = self._instantiate(lit.site, answer, table)
                    self._consume(state, lit, terms, condition)
            case ChoiceLit():
                for answer in reversed(answers):
                    self._consume_choice(state, lit, answer, answer.condition, table)
            case DrawLit():
                self._consume_draw(state, lit, table)
            case NegLit(site=site):
                found = []
                for answer in answers:
                    terms, condition = self._instantiate(site, answer, table)
                    env = list(state.env)
                    conditions = [condition]
                    if all(
                        unify(a, t, env, conditions) for a, t in zip(lit.args, terms, strict=True)
                    ):
                        holds = and_(*conditions)
                        for axis in axes_of(terms) - table.given:
                            holds = any_(axis, holds)
                        found.append(holds)
                some = or_(*found)
                if state.table.order is not None and some not in (TRUE, FALSE):
                    state.table.ordered = False
                both = and_(state.condition, not_(some))
                if both is not FALSE:
                    self.tasks.append(state.then(state.body[1:], state.env, both))
            case CollectLit():
                if lit.timed and not table.bag:
                    answers = self._told_once(table)
                rows = [(a.terms, a.condition) for a in answers]
                ordered = lit.timed or table.ordered
                results = self.host.collect(lit, rows, list(state.env), ordered)
                self._push(state, state.body[1:], results)

    def _told_once(self, table: Table) -> list[Answer]:
        """Answers to be counted: of those that say the same at run time, only the first holds."""
        out: list[Answer] = []
        symbolic = [has_symbol(answer.terms) for answer in table.final]
        for i, answer in enumerate(table.final):
            bare = {t.data for t in answer.terms if isinstance(t, Expr) and t.op == "axis"}
            hidden = axes_of(answer.terms) - bare - table.given
            if hidden:
                self._split(hidden, table)  # its elements may say the same as well
            others = (table.final[k] for k in range(i) if symbolic[i] or symbolic[k])
            before = or_(*(coincide(self.host, table.given, x, answer) for x in others))
            if before is not FALSE:
                answer = copy(answer)
                answer.condition = and_(answer.condition, not_(before))
            out.append(answer)
        return out

    def _instantiate(self, site: str, answer: Answer, table: Table) -> tuple[tuple, Expr]:
        """An answer with its own axes renamed for the place where it is used."""
        own = [a for a in axes_of(answer.terms) if a not in table.given]
        if not own:
            return answer.terms, answer.condition
        exprs = self.host.renamed_axes(own, site)
        memo: dict[int, Expr] = {}
        terms = tuple(map_symbols(t, lambda e: substitute(e, exprs, memo)) for t in answer.terms)
        return terms, substitute(answer.condition, exprs, memo)

    def _consume(self, state: State, lit: CallLit, terms: tuple, condition: Expr) -> None:
        env = list(state.env)
        conditions: list[Expr] = []
        keyed: dict[Axis, Expr] = {}
        if lit.pred in self.clauses.random or lit.pred in self.clauses.fluents:
            # Symbols that were called as axes: put the symbols back.
            for arg, term in zip(lit.args, terms, strict=True):
                actual = resolve(arg, env)
                if not isinstance(actual, Expr) or not isinstance(term, Expr) or actual is term:
                    continue
                if term.op == "axis" and term.data.role == "key":
                    keyed[term.data] = actual
        if keyed:
            memo: dict[int, Expr] = {}
            terms = tuple(map_symbols(t, lambda e: substitute(e, keyed, memo)) for t in terms)
            condition = substitute(condition, keyed, memo)
        for a, t in zip(lit.args, terms, strict=True):
            if not unify(a, t, env, conditions):
                return
        for extra in conditions:
            if extra.op == "eq":
                self.equalities.setdefault(extra, lit.span)
        both = and_(state.condition, condition, *conditions)
        if both is not FALSE:
            self.tasks.append(state.then(state.body[1:], env, both))

    def _consume_choice(
        self, state: State, lit: ChoiceLit, answer: Answer, condition: Expr, table: Table | None
    ) -> None:
        env = list(state.env)
        conditions: list[Expr] = []
        if not all(
            unify(a, t, env, conditions) for a, t in zip(lit.variables, answer.terms, strict=True)
        ):
            return
        chosen = self.host.choose(lit, answer, table)
        both = and_(state.condition, condition, *conditions, chosen)
        if both is not FALSE:
            self.tasks.append(state.then(state.body[1:], env, both))

    def _consume_draw(self, state: State, lit: DrawLit, table: Table) -> None:
        for answer in table.final:
            keys = answer.terms[: len(lit.keys)]
            # Of a whole array that was drawn, the element that is asked for.
            asked: dict[Axis, Expr] = {}
            for arg, term in zip(lit.keys, keys, strict=True):
                known = resolve(arg, state.env)
                own = isinstance(term, Expr) and term.op == "axis" and term.data not in table.given
                if own and type(known) is not V and not parts(known):
                    asked.setdefault(term.data, as_expr(known))
            for drawn, extra in self.host.draw(lit, answer, table):
                env = list(state.env)
                conditions: list[Expr] = []
                here = map_symbols(drawn, partial(substitute, mapping=asked))
                pairs = zip((*lit.keys, *lit.drawn), (*keys, *here), strict=True)
                if all(unify(a, t, env, conditions) for a, t in pairs):
                    both = and_(state.condition, answer.condition, extra, *conditions)
                    if both is not FALSE:
                        self.tasks.append(state.then(state.body[1:], env, both))

    # ------------------------------------------------------------ answers

    def _answer(self, state: State) -> None:
        table, rule = state.table, state.rule
        offset = rule.size
        if rule.evaluate_head:
            head = tuple(
                self.host.evaluate(resolve(a, state.env), rule.span, rule.timed)
                if _computes(a)
                else resolve(a, state.env)
                for a in rule.head
            )
            env, conditions = list(state.env), [state.condition]
            shifted = tuple(shift(a, offset) for a in table.args)
            if not all(unify(a, h, env, conditions) for a, h in zip(shifted, head, strict=True)):
                return
            terms = tuple(resolve(a, env) for a in head)
            condition = and_(*conditions)
            if condition is FALSE:
                return
        else:
            terms = tuple([resolve(a, state.env) for a in rule.head])
            env, condition = state.env, state.condition
        if rule.optional:
            # Another alternative of a disjunction would have bound it.
            terms = tuple(
                FREE if type(t) is V and i in rule.optional else t for i, t in enumerate(terms)
            )
        for i, term in enumerate(terms):
            for leaf in atoms_of(term):
                if type(leaf) is V:
                    self._unbound_head(rule, i, leaf)
        if rule.origin is not None:
            table.derived.append(Derivation(rule, terms, env, condition))
        if table.order is not None and not table.order.proves(_bindings(state), alone=state.alone):
            table.ordered = False
        terms = self._as_asked(table, terms)
        for unfolded, holds in self._unfold_all(terms, rule.span):
            self._add(table, unfolded, and_(condition, holds), rule.span)

    def _as_asked(self, table: Table, terms: tuple) -> tuple:
        """An answer about a symbol says it of the symbol; which value it has is in the condition.

        So `wall(1, 4)` and `wall(2, 4)` are one answer to a call whose row and column are known
        at run time only, and what follows from it is derived once.
        """
        pred = table.pred
        if table.bag or pred.kind != "program":
            return terms
        if pred in self.clauses.random or pred in self.clauses.fluents:
            return terms
        return tuple(
            a if isinstance(a, Expr) and a.op != "axis" and isinstance(a.type, Int | Enum) else t
            for a, t in zip(table.args, terms, strict=True)
        )

    def _unfold_all(self, terms: tuple, span: Span | None) -> list[tuple[tuple, Expr]]:
        """Answers hold plain lists: conditional ones are unfolded when they leave a clause."""
        found: list[tuple[tuple, Expr]] = []
        pending = [(terms, TRUE)]
        while pending:
            row, holds = pending.pop()
            value = next((x for t in row for x in inside(t) if type(x) is CondList), None)
            if value is None:
                found.append((row, holds))
                continue
            refuse_order(value, span)
            for items, extra in self._unfold(value, span):
                both = and_(holds, extra)
                if both is not FALSE:
                    pending.append((tuple(replace_list(t, value, items) for t in row), both))
        return found

    def _unfold(self, value: CondList, span: Span | None) -> list[tuple[tuple, Expr]]:
        axes = axes_of(x for item in value.items for x in item)
        if axes:
            # The list must be spelt out, so its items cannot lie along an axis.
            raise Split(self.host.sites_of(axes))
        return list(unfold(value, span))

    def _unbound_head(self, rule: Resolvent, position: int, leaf: V) -> None:
        name = rule.names[leaf.i] if leaf.i < len(rule.names) else "_"
        original = rule.head[position]
        if type(original) is V and not rule.names[original.i].startswith("_"):
            name = rule.names[original.i]
        chosen = rule.pred.kind == "choice"
        what, code = ("a probabilistic clause", "E303") if chosen else ("a head", "E301")
        name = "a variable" if name.startswith("_") else f"the variable {name}"
        fail(
            code,
            f"{name} of {what} is not bound when the clause is used",
            rule.span,
            "bind it in the body, or call the predicate with that argument known",
        )

    def _add(self, table: Table, terms: tuple, condition: Expr, span: Span | None) -> None:
        visible = axes_of(terms)
        condition = anywhere(condition, visible | table.given)
        if condition is FALSE:
            return
        terms, condition = self._canonical_axes(table, terms, condition)
        key = (key_of(terms), len(table.answers)) if table.bag else key_of(terms)
        found = table.answers.get(key)
        if found is not None:
            found.derivations.append(condition)
            return
        answer = Answer(terms, condition, span)
        table.answers[key] = answer
        if table.recursive:
            self._check_growth(table, terms)
        if len(table.answers) > MAX_ANSWERS:
            self._unbounded(table)
        for state in table.consumers:
            self.tasks.append((state, answer))

    def _check_growth(self, table: Table, terms: tuple) -> None:
        """A cycle that makes ever larger terms, or ever more numbers, will not end."""
        size = sum(_size(t) for t in terms)
        if size > table.largest:
            table.largest = size
            table.growth += 1
        count = len(table.answers)
        endless = table.growth > MAX_GROWTH
        if not endless and count >= MAX_NUMBERS and count & (count - 1) == 0:
            made = {t for a in table.answers.values() for t in a.terms if type(t) in (int, float)}
            endless = len(made - self.clauses.numbers()) >= MAX_NUMBERS // 2
        if endless:
            self._unbounded(table, terms)

    def _canonical_axes(self, table: Table, terms: tuple, condition: Expr) -> tuple[tuple, Expr]:
        """Name the axes of an answer by argument, so that answers can be compared."""
        mapping: dict[Axis, Expr] = {}
        for i, term in enumerate(terms):
            if not isinstance(term, Expr) or term.op != "axis" or term.data in table.given:
                continue
            axis = term.data
            own = replace(axis, site=f"{table.pred.name}.{i}")
            if axis not in mapping and axis != own:
                mapping[axis] = axis_value(self.host.axis(own, self.host.sites_of([axis])))
        if not mapping:
            return terms, condition
        memo: dict[int, Expr] = {}
        renamed = tuple(map_symbols(t, lambda e: substitute(e, mapping, memo)) for t in terms)
        return renamed, substitute(condition, mapping, memo)

    # ------------------------------------------------------------ completion

    def _try_complete(self, table: Table) -> None:
        """All derivations that `table` started are done or wait for open tables."""
        position = next(i for i in range(len(self.open) - 1, -1, -1) if self.open[i] is table)
        group = self.open[position:]
        table.low = min(t.low for t in group)
        if table.low < table.number:
            # Part of a cycle that an earlier table leads.
            caller = table.waiting
            assert caller is not None
            table.waiting = None
            self._subscribe(caller, table)
            return
        del self.open[position:]
        self._finish(group)
        caller = table.waiting
        table.waiting = None
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
            table.consumers = []
            table.negations = []
            rows = [a for a in table.answers.values() if a.condition is not FALSE]
            table.ordered = table.ordered and not table.recursive
            for row in rows:
                row.derivations = []
            if table.recursive and table.pred.kind == "choice":
                rows = _each_once(one for row in rows for one in spelt_out(row))
            if not table.bag:
                rows = align(self.clauses, self.host, table, rows)
            table.final = merge(self.clauses, self.host, table, rows)
            table.answers = {}
            self.host.completed(table)


def _each_once(answers: Iterable[Answer]) -> list[Answer]:
    """Answers that say the same as one."""
    out: dict[Any, Answer] = {}
    for answer in answers:
        known = out.setdefault(key_of(answer.terms), answer)
        known.condition = or_(known.condition, answer.condition)
    return list(out.values())


def _size(term: Any) -> int:
    """The number of leaves of a list or compound; 0 for anything else."""
    return sum(1 for _ in atoms_of(term)) if parts(term) else 0


def _bindings(state: State) -> Any:
    """What all variables of a clause are bound to, those without a name included."""
    return key_of(tuple([resolve(V(i), state.env) for i in range(state.rule.size)]))


def _computes(term: Any) -> bool:
    return type(term) is Compound and (bare(term.functor), len(term.args)) in FUNCTIONS


__all__ = ["Answer", "Engine", "Host", "Split", "State", "Table"]
