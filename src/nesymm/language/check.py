"""From terms to meaning: classify every statement, report every mistake at once."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from nesymm.distributions import FAMILIES
from nesymm.errors import Diagnostic, ProgramError, Span
from nesymm.language import builtins
from nesymm.language.directives import Directives, read_directives
from nesymm.language.program import (
    At,
    AtLast,
    Atom,
    Body,
    Builtin,
    Call,
    CheckedProgram,
    Choice,
    Clause,
    Collect,
    Disjunction,
    Draw,
    During,
    Guide,
    Literal,
    Negation,
    Now,
    Observation,
    Pred,
    Query,
    Rule,
    Time,
)
from nesymm.language.terms import (
    ListTerm,
    Num,
    Program,
    Str,
    Struct,
    Term,
    Var,
    subterms,
    variables,
)
from nesymm.language.times import lagged, read_time
from nesymm.language.values import value_positions

_GOAL_STATEMENTS = {"query": (1,), "evidence": (1, 2), "observe": (1, 2)}
_GOAL_EXAMPLES = {
    "query": "query(rain@t).",
    "evidence": "evidence(rain, true).",
    "observe": "observe(rain@t).",
}
_NOT_HEADS = ("::", "~", ",", ";", ":-", "@", ":", "..", "<>")
# No text can contain this character in a variable, so names with it are ours.
_OURS = "·"
HIDDEN = f"_value{_OURS}"

# What to do instead of what `builtins.REFUSED` refuses, where it does not say so itself.
_INSTEAD = {
    **dict.fromkeys(
        ("assert", "asserta", "assertz", "retract"),
        "state it as a fact or a rule; what changes over time has a time: `seen@t :- seen@(t-1).`",
    ),
    **dict.fromkeys(
        ("=..", "functor", "arg"), "name the term in the head of a clause: `left(pair(X, Y), X).`"
    ),
    "copy_term": "give the variables of the second term names of their own",
    **dict.fromkeys(
        ("setof", "bagof"), "write `findall(X, goal(X), L)`, and `sort(L, S)` for a set"
    ),
    "subquery": "make it a predicate and query that",
    "once": "remove it, or say in the body which answer you mean",
    **dict.fromkeys(
        ("write", "writeln", "print", "nl"), "remove it, and query what you want to see"
    ),
}


def check(
    programs: Program | Sequence[Program], constants: Mapping[str, object] | None = None
) -> CheckedProgram:
    """Check one program, or a program and its extensions, as a whole."""
    parts = [programs] if isinstance(programs, Program) else list(programs)
    return _Checker(parts, constants or {}).run()


class _Checker:
    def __init__(self, parts: list[Program], constants: Mapping[str, object]):
        self.parts = parts
        self.overrides = constants
        self.errors: list[Diagnostic] = []
        self.defined: dict[Pred, Span | None] = {}
        self.timed: dict[Pred, bool] = {}
        self.self_valued: set[Pred] = set()
        self.drawn: set[Pred] = set()
        self.counter = 0
        self.parameters: dict[str, int] = {}
        # Names whose own clauses were refused: no second message where they are used.
        self.broken: set[str] = set()
        self.mentioned: Counter[str] = Counter()

    # -------------------------------------------------------------- the whole

    def run(self) -> CheckedProgram:
        statements = [s for part in self.parts for s in part.statements]
        is_directive = [
            isinstance(s, Struct) and s.functor == ":-" and s.arity == 1 for s in statements
        ]
        directives = [
            s.args[0]
            for s, d in zip(statements, is_directive, strict=True)
            if d and isinstance(s, Struct)
        ]
        self.directives = read_directives(directives, self.overrides, self.errors)
        self.broken |= self.directives.broken
        plain = [
            self.directives.fill(s) for s, d in zip(statements, is_directive, strict=True) if not d
        ]
        goals = [s for s in plain if self._is_goal_statement(s)]
        clauses_in = [s for s in plain if not self._is_goal_statement(s)]

        for pred, given in self.directives.inputs.items():
            self._define(pred, given.timed, given.span)
        for statement in clauses_in:
            self._guard(lambda s=statement: self._declare(s))
        for pred, span in self.directives.mentions:
            self._guard(lambda p=pred, s=span: self._known(p, s))
        clauses: list[Clause] = []
        guides: list[Guide] = []
        for statement in clauses_in:
            found = self._guard(lambda s=statement: self._clause(s))
            if isinstance(found, Guide):
                guides.append(found)
            elif found is not None:
                clauses.append(found)
        timed = frozenset(p for p, is_timed in self.timed.items() if is_timed)
        self.values = value_positions(
            clauses, self.directives.inputs, self.directives.fluents, timed
        )
        observations, queries = [], []
        for statement in goals:
            goal = self._guard(lambda s=statement: self._goal(s))
            if isinstance(goal, Observation):
                observations.append(goal)
            elif isinstance(goal, Query):
                queries.append(goal)
        if self.errors:
            raise ProgramError(*self._in_order())
        return CheckedProgram(
            clauses=tuple(clauses),
            inputs=self.directives.inputs,
            tensors=self.directives.tensors,
            networks=self.directives.networks,
            domains=self.directives.domains,
            fluents=self.directives.fluents,
            constants=self.directives.constants,
            timed=timed,
            self_valued=frozenset(self.self_valued),
            observations=tuple(observations),
            queries=tuple(queries),
            guides=tuple(guides),
            sources=tuple(p.source for p in self.parts if p.source is not None),
        )

    def _in_order(self) -> list[Diagnostic]:
        """Each mistake once, in the order of the text."""
        sources = [part.source for part in self.parts]

        def place(d: Diagnostic) -> tuple[int, int]:
            if d.span is None:
                return -1, -1
            return (sources.index(d.span.source) if d.span.source in sources else 0), d.span.start

        unique = {(d.code, d.message, place(d)): d for d in self.errors}
        return sorted(unique.values(), key=place)

    def _guard(self, action):  # type: ignore[no-untyped-def]
        """Run one statement; keep its mistakes and go on with the next."""
        try:
            return action()
        except ProgramError as error:
            self.errors.extend(error.diagnostics)
            return None

    def _fail(
        self, code: str, message: str, span: Span | None, cure: str | None = None, *notes: str
    ) -> NoReturn:
        raise ProgramError(Diagnostic(code, message, span, cure, notes))

    def _report(
        self, code: str, message: str, span: Span | None, cure: str | None = None, *notes: str
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, cure, notes))

    def _is_goal_statement(self, statement: Term) -> bool:
        head = statement.args[0] if _is(statement, ":-", 2) else statement  # type: ignore[union-attr]
        return isinstance(head, Struct) and head.arity in _GOAL_STATEMENTS.get(head.functor, ())

    # -------------------------------------------------------------- what is defined

    def _declare(self, statement: Term) -> None:
        """Note which predicates a clause defines, before any body is read."""
        head, body = _split(statement)
        try:
            self._declare_head(head, body)
        except ProgramError:
            for option in _options(head):
                name = _predicate_name(option)
                if name is not None:
                    self.broken.add(name)
            raise

    def _declare_head(self, head: Term, body: Term | None) -> None:
        if _is(head, "~", 2):
            left, family = head.args  # type: ignore[union-attr]
            if isinstance(left, Struct) and left.functor == "guide" and left.arity == 1:
                return
            pred, time, args = self._head(left)
            drawn = self._drawn(args, family, body)
            if not drawn and not _is_struct(family, "bernoulli"):
                self.self_valued.add(pred)
            if drawn or pred in self.self_valued:
                self.drawn.add(pred)
            self._define(pred, time is not None, left.span)
            return
        for option in _options(head):
            atom = option
            if _is(option, "::", 2):
                annotation, atom = option.args  # type: ignore[union-attr]
                self._declare_network(annotation)
            pred, time, _ = self._head(atom)
            self._define(pred, time is not None, atom.span)

    def _declare_network(self, annotation: Term) -> None:
        """`nn(net, …)` declares its network, with as many outputs as there are values."""
        if isinstance(annotation, Struct) and annotation.functor == "nn" and annotation.args:
            net = annotation.args[0]
            values = annotation.args[3] if annotation.arity == 4 else None
            count = len(values.items) if isinstance(values, ListTerm) else 1
            if isinstance(net, Struct) and not net.args:
                self.directives.networks.setdefault(net.functor, (count,))

    def _define(self, pred: Pred, timed: bool, span: Span | None) -> None:
        first = self.defined.setdefault(pred, span)
        if self.timed.setdefault(pred, timed) != timed:
            how = "with" if not timed else "without"
            self._report(
                "E204",
                f"{pred} is defined both with and without a time",
                span,
                "give all its clauses a time (`@t`, `@0`) or none",
                *([f"it is defined {how} a time at line {first.line}"] if first else []),
            )

    def _head(self, term: Term) -> tuple[Pred, Time | None, tuple[Term, ...]]:
        """Predicate, time and arguments of a head; refuses what cannot be one."""
        written = term
        time: Time | None = None
        if _is(term, "@", 2):
            term, when = term.args  # type: ignore[union-attr]
            time = read_time(when)
        if not isinstance(term, Struct):
            self._fail(
                "E103",
                "a head must be a predicate",
                written.span,
                "begin it with a lower-case name: `player(P) :- …`",
            )
        self._check_name(term, written)
        args = term.args
        position = self.directives.time_args.get((term.functor, term.arity))
        if position is not None and time is None:
            when = args[position]
            args = args[:position] + args[position + 1 :]
            time = Now(0) if isinstance(when, Var) else read_time(when)
        if isinstance(time, AtLast):
            self._fail(
                "E205",
                "`T`, the last step, can only be named in observe and query",
                written.span,
                "write `@t` for every step or a number",
            )
        if isinstance(time, Now) and time.lag:
            self._fail(
                "E207",
                "a head is at the current step `t`, not at an earlier one",
                written.span,
                "shift the whole clause: `head@t :- body@(t-1)`",
            )
        pred = Pred(term.functor, len(args))
        if pred in self.directives.inputs:
            self._fail(
                "E104",
                f"{pred} is an input: its values come from data, a clause cannot define it too",
                written.span,
                "choose another name, and use the input in the body: `place(X) :- start(X).`",
            )
        return pred, time, args

    def _check_name(self, term: Struct, written: Term) -> None:
        """Refuses heads whose name means something else."""
        name = term.functor
        self._refuse(term)
        if name == "not" and term.arity == 1:
            self._fail(
                "E103",
                "a head cannot be negated",
                written.span,
                "state when the predicate holds; elsewhere it does not",
            )
        known = builtins.PREDICATES.get(name) or builtins.GOALS.get(name)
        if known and term.arity in known:
            self._fail(
                "E104",
                f"{name}/{term.arity} is built in and cannot be defined",
                term.span,
                "choose another name",
            )
        if name in _NOT_HEADS:
            self._fail(
                "E103",
                f"a head cannot be built with `{name}`",
                term.span,
                "a clause is `head.`, `head :- body.`, `p::head :- body.` or "
                "`head ~ family(…) :- body.`",
            )
        if name in _GOAL_STATEMENTS:
            if term.arity not in _GOAL_STATEMENTS[name]:
                self._fail(
                    "E102",
                    f"{name} takes {_numbers(_GOAL_STATEMENTS[name])}, this has {term.arity}",
                    term.span,
                    f"for example `{_GOAL_EXAMPLES[name]}`",
                )
            if _is(written, "@", 2):
                self._fail(
                    "E103",
                    f"the time stands inside the brackets of {name}",
                    written.span,
                    f"for example `{_GOAL_EXAMPLES[name]}`",
                )
            self._fail(
                "E103",
                f"{name} is a statement of its own, not a predicate",
                written.span,
                f"for example `{_GOAL_EXAMPLES[name]}`",
            )

    def _refuse(self, term: Struct) -> None:
        """Prolog that is known and refused."""
        reason = builtins.REFUSED.get(term.functor)
        if reason is not None:
            cause, _, cure = reason.partition("; ")
            if cause.startswith("use "):
                cause = "it depends on the order in which answers are found"
            self._fail(
                "E105",
                f"`{term.functor}` is not supported: {cause}",
                term.span,
                cure or _INSTEAD.get(term.functor),
            )

    def _drawn(self, args: tuple[Term, ...], family: Term, body: Term | None) -> tuple[int, ...]:
        """Positions of head variables that neither the body nor the parameters mention."""
        elsewhere = {v.name for v in variables(family)}
        if body is not None:
            elsewhere |= {v.name for v in variables(body)}
        drawn = tuple(
            i for i, a in enumerate(args) if isinstance(a, Var) and a.name not in elsewhere
        )
        names = [args[i].name for i in drawn]  # type: ignore[union-attr]
        for i, name in enumerate(names):
            if name != "_" and name in names[:i]:
                self._fail(
                    "E103",
                    f"the drawn variable {name} stands twice in the head",
                    args[drawn[i]].span,
                    "give each drawn argument its own name",
                )
        return drawn

    # -------------------------------------------------------------- clauses

    def _clause(self, statement: Term) -> Clause | Guide | None:
        statement = self._name_anonymous(statement)
        self.mentioned = Counter(v.name for v in variables(statement))
        head, body = _split(statement)
        if _is(head, "~", 2):
            return self._draw(statement, head.args[0], head.args[1], body)  # type: ignore[union-attr]
        if _is(head, "::", 2) and _is_struct(head.args[0], "nn"):  # type: ignore[union-attr]
            return self._neural(statement, head.args[0], head.args[1], body)  # type: ignore[union-attr]
        if _is(head, "::", 2) or _is(head, ";"):
            return self._choice(statement, head, body)
        scope = _Scope()
        bare = head.args[0] if _is(head, "@", 2) else head  # type: ignore[union-attr]
        if isinstance(bare, Struct) and any(_is(a, "<>", 2) for a in bare.args):
            atom, body_out = self._aggregate_head(head, bare, body, scope)
            return Rule(atom, body_out, statement.span)
        atom = self._head_atom(head, scope)
        return Rule(atom, self._body(body, scope), statement.span)

    def _name_anonymous(self, term: Term) -> Term:
        """Give every `_` a name: it tells random choices apart as any variable does."""
        match term:
            case Var("_"):
                self.counter += 1
                return Var(f"_{_OURS}{self.counter}", term.span)
            case Struct("t", args) if args:
                return Struct("t", (args[0], *map(self._name_anonymous, args[1:])), term.span)
            case Struct(functor, args) if args:
                return Struct(functor, tuple(map(self._name_anonymous, args)), term.span)
            case ListTerm(items, tail):
                return ListTerm(
                    tuple(map(self._name_anonymous, items)),
                    None if tail is None else self._name_anonymous(tail),
                    term.span,
                )
        return term

    def _head_atom(self, term: Term, scope: _Scope) -> Atom:
        pred, time, args = self._head(term)
        if pred in self.self_valued:
            self._fail(
                "E103",
                f"{pred} is drawn with `~` and is its own value; a rule cannot define it too",
                term.span,
                f"give it a value argument: `{pred.name}(V) ~ …`",
            )
        for arg in args:
            self._check_head_argument(arg)
        scope.enter(time, self._time_variable(term))
        scope.owner = pred
        if scope.time_variable is not None:
            args = tuple(_replace_variable(a, scope.time_variable, Struct("t")) for a in args)
        return Atom(pred, args, time, term.span)

    def _check_head_argument(self, arg: Term) -> None:
        for part in subterms(arg):
            if not isinstance(part, Struct):
                continue
            if part.functor == "<>" and part.arity == 2:
                self._fail(
                    "E105",
                    "an aggregate stands only in the head of a rule, as an argument of its own",
                    part.span,
                    "write `best(X, min<C>) :- cost(X, C).`",
                )
            if part.functor == "@":
                self._fail(
                    "E103",
                    "the time of a head stands behind its arguments",
                    part.span,
                    "write `p(X)@t`",
                )
            if Pred(part.functor, part.arity) in self.self_valued:
                self._name_for_value(part)

    def _name_for_value(self, part: Struct) -> NoReturn:
        shown = part.functor if not part.args else f"{part.functor}(…)"
        self._fail(
            "E308",
            f"{shown} is drawn with `~` and stands for its value; it cannot be an argument here",
            part.span,
            f"fetch the value in the body: `p(V) :- V is {shown}.`",
        )

    def _time_variable(self, term: Term) -> str | None:
        if isinstance(term, Struct) and not _is(term, "@", 2):
            position = self.directives.time_args.get((term.functor, term.arity))
            if position is not None and isinstance(term.args[position], Var):
                return term.args[position].name  # type: ignore[union-attr]
        return None

    def _choice(self, statement: Term, head: Term, body: Term | None) -> Choice:
        options = []
        total = 0.0
        scope = _Scope()
        for option in _options(head):
            if not _is(option, "::", 2):
                self._fail(
                    "E103",
                    "every alternative of a disjunction in a head needs a probability",
                    option.span,
                    "write `0.3::a; 0.7::b.`",
                )
            probability, atom = option.args  # type: ignore[union-attr]
            if _is_struct(probability, "nn"):
                self._fail(
                    "E106",
                    "a neural annotation has one head",
                    probability.span,
                    "choose between values: `nn(net, [X], Y, [a, b]) :: kind(X, Y).`",
                )
            head_atom = self._head_atom(atom, scope)
            total += self._constant_probability(probability)
            self._number(_retime(probability, scope), scope)
            options.append((self._parameters_in(probability, head_atom.pred), head_atom))
        if total > 1 + 1e-9:
            self._report(
                "E112",
                f"the probabilities of this disjunction add up to {total:g}",
                head.span,
                "let them add up to at most 1",
            )
        times = {atom.time for _, atom in options}
        if len(times) > 1:
            self._fail(
                "E204",
                "the alternatives of a disjunction must have the same time",
                head.span,
                "write one disjunction per time",
            )
        literals = self._body(body, scope)
        prelude: list[Literal] = []
        filled = []
        for probability, atom in options:
            probability = _retime(probability, scope)
            filled.append((self._fetch(probability, scope, prelude), atom))
        return Choice(tuple(filled), (*literals, *prelude), statement.span)

    def _parameters_in(self, term: Term, owner: Pred) -> Term:
        """Give every `t(_)` its name: the predicate's, numbered from the second one on.

        Names follow the order of the text, so they stay when clauses are added behind.
        """
        match term:
            case Struct("t", (initial, *index)):
                if not isinstance(initial, Num | Var):
                    self._fail(
                        "E308",
                        "a learnable parameter starts at a number, or at `_`",
                        initial.span,
                        "write `t(_)` or `t(0.3)`; an index comes second: `t(_, E)`",
                    )
                count = self.parameters[owner.name] = self.parameters.get(owner.name, 0) + 1
                name = owner.name if count == 1 else f"{owner.name}.{count}"
                start = initial if isinstance(initial, Num) else Struct("none")
                return Struct("$param", (Struct(name), start, *index), term.span)
            case Struct(functor, args) if args:
                new = tuple(self._parameters_in(a, owner) for a in args)
                return Struct(functor, new, term.span)
            case ListTerm(items, tail):
                new = tuple(self._parameters_in(a, owner) for a in items)
                return ListTerm(new, tail, term.span)
        return term

    def _constant_probability(self, term: Term) -> float:
        """The value of a constant probability, checked; 0 for what is computed later."""
        if _is_struct(term, "t") and isinstance(term, Struct) and term.arity >= 1:
            first = term.args[0]
            return self._constant_probability(first) if isinstance(first, Num) else 0.0
        value = _constant_value(term)
        if value is None:
            return 0.0
        if not 0 <= value <= 1:
            self._report(
                "E111",
                f"a probability lies between 0 and 1, this one is {value:g}",
                term.span,
                "write it as a fraction: 30 % is `0.3`",
            )
            return 0.0
        return value

    def _draw(self, statement: Term, head: Term, family: Term, body: Term | None) -> Clause | Guide:
        scope = _Scope()
        if _is_struct(head, "guide") and isinstance(head, Struct) and head.arity == 1:
            return self._guide(statement, head.args[0], family, body)
        pred, time, args = self._head(head)
        scope.enter(time, self._time_variable(head))
        if not isinstance(family, Struct):
            self._fail(
                "E110",
                "after `~` stands a family of distributions",
                family.span,
                "for example `normal(0, 1)`",
            )
        params = tuple(_retime(p, scope) for p in family.args)
        self._check_family(family, params)
        if family.functor == "bernoulli":
            self._constant_probability(params[0])
        self._check_parameters(family.functor, params, scope)
        for i, arg in enumerate(args):
            if i not in self._drawn(args, family, body):
                self._check_head_argument(arg)
        scope.owner = pred
        literals = self._body(body, scope)
        prelude: list[Literal] = []
        params = tuple(self._fetch(self._parameters_in(p, pred), scope, prelude) for p in params)
        drawn = self._drawn(args, family, body)
        if pred in self.self_valued:
            if drawn:
                self._fail(
                    "E103",
                    f"{pred} is its own value in another clause; here an argument is drawn",
                    head.span,
                    "write all its clauses the same way",
                )
            args = (*args, Var(HIDDEN, head.span))
            drawn = (len(args) - 1,)
        atom = Atom(pred, args, time, head.span)
        whole = (*literals, *prelude)
        if family.functor == "bernoulli" and not drawn:
            return Choice(((params[0], atom),), whole, statement.span)
        return Draw(atom, drawn, family.functor, params, whole, statement.span)

    def _check_family(self, family: Struct, params: tuple[Term, ...]) -> None:
        known = FAMILIES.get(family.functor)
        if known is None:
            near = _nearest(family.functor, FAMILIES)
            self._fail(
                "E110",
                f"there is no family of distributions called {family.functor}",
                family.span,
                f"did you mean {near}?" if near else "the families are " + ", ".join(FAMILIES),
            )
        # One network may give all parameters, unless some must be known when compiling.
        neural = len(params) == 1 and self._is_network(params[0])
        if len(params) != len(known.params) and not (neural and "fixed" not in known.constraints):
            self._fail(
                "E110",
                f"{family.functor} takes {_count(len(known.params), 'parameter')} "
                f"({', '.join(known.params)}), this has {len(params)}",
                family.span,
                f"for example `{known.example}`",
            )

    def _check_parameters(self, family: str, params: tuple[Term, ...], scope: _Scope) -> None:
        """Report parameters that can never be what the family needs."""
        known = FAMILIES[family]
        if family == "multivariate_normal":
            return
        for name, param in zip(known.params, params, strict=False):
            if family != "categorical":
                if not isinstance(param, ListTerm):
                    self._number(param, scope)
                continue
            neural = name == "probabilities" and self._is_network(param)
            if not isinstance(param, Var | ListTerm) and not neural:
                self._fail(
                    "E110",
                    f"the {name} of a categorical are a list",
                    param.span,
                    f"for example `{known.example}`",
                )

    def _is_network(self, term: Term) -> bool:
        return isinstance(term, Struct) and term.functor in self.directives.networks

    def _guide(self, statement: Term, target: Term, family: Term, body: Term | None) -> Guide:
        scope = _Scope()
        pred, time, args = self._head(target)
        scope.enter(time, self._time_variable(target))
        matches = [p for p in self.defined if p.name == pred.name and p.arity >= pred.arity]
        if not matches:
            self._unknown(pred, target.span)
        found = pred if pred in matches else matches[0]
        if found not in self.drawn:
            self._fail(
                "E103",
                f"{found} is not drawn with `~`, so it needs no guide",
                target.span,
                "guide a variable that has a distribution: `x ~ normal(0, 1).`",
            )
        if self.timed[found] and time is None:
            self._fail(
                "E203",
                f"{found} has a time; this mention of it has none",
                target.span,
                f"write `guide({pred.name}@t) ~ …`",
            )
        if not isinstance(family, Struct):
            self._fail(
                "E110",
                "after `~` stands a family of distributions",
                family.span,
                "for example `normal(encoder(image))`",
            )
        params = tuple(_retime(p, scope) for p in family.args)
        self._check_family(family, params)
        self._check_parameters(family.functor, params, scope)
        literals = self._body(body, scope)
        prelude: list[Literal] = []
        params = tuple(self._fetch(p, scope, prelude) for p in params)
        # The value may be written, `guide(x(V)) ~ …`, or left out.
        drawn = self._drawn(args, family, body) if found == pred else ()
        args = tuple(a for i, a in enumerate(args) if i not in drawn)
        atom = Atom(found, args, time, target.span)
        return Guide(atom, family.functor, params, (*literals, *prelude), statement.span)

    def _neural(self, statement: Term, nn: Term, head: Term, body: Term | None) -> Clause | Guide:
        """DeepProbLog's `nn(net, [In], Out, [values]) :: h`."""
        assert isinstance(nn, Struct)
        if not 2 <= nn.arity <= 4 or not isinstance(nn.args[0], Struct):
            self._fail(
                "E106",
                "a neural annotation is nn(network, [inputs], Output, [values])",
                nn.span,
                "for example `nn(net, [X], Y, [0, 1]) :: digit(X, Y).`",
            )
        net, inputs = nn.args[0], nn.args[1]
        if not isinstance(inputs, ListTerm):
            self._fail("E106", "the inputs of a network are a list", inputs.span, "write `[X]`")
        call = Struct(net.functor, inputs.items, nn.span)
        if nn.arity == 4:
            domain = nn.args[3]
            if not isinstance(domain, ListTerm) or not domain.items:
                self._fail(
                    "E106",
                    "the values a network chooses from are a list",
                    domain.span,
                    "for example `[0, 1, 2]`",
                )
            if not isinstance(nn.args[2], Var):
                self._fail(
                    "E106",
                    "the output of a neural annotation is a variable",
                    nn.args[2].span,
                    "write `nn(net, [X], Y, [0, 1]) :: digit(X, Y).`",
                )
            family = Struct("categorical", (call, domain), nn.span)
            return self._draw(statement, head, family, body)
        if nn.arity == 3:
            scope = _Scope()
            atom = self._head_atom(head, scope)
            literals = self._body(body, scope)
            compute = Builtin("is", (nn.args[2], call), nn.span)
            return Rule(atom, (*literals, compute), statement.span)
        probability = Struct("::", (call, head), statement.span)
        return self._choice(statement, probability, body)

    def _aggregate_head(
        self, written: Term, head: Struct, body: Term | None, scope: _Scope
    ) -> tuple[Atom, Body]:
        """ProbLog's `p(X, min<Y>) :- body`: one result per binding of the other arguments."""
        found = [i for i, a in enumerate(head.args) if _is(a, "<>", 2)]
        if len(found) > 1 or body is None:
            self._fail(
                "E105",
                "a head takes one aggregate and needs a body",
                written.span,
                "write one clause per aggregate",
            )
        aggregate = head.args[found[0]]
        assert isinstance(aggregate, Struct)
        kind = aggregate.args[0]
        if not isinstance(kind, Struct) or kind.functor not in builtins.AGGREGATES:
            self._fail(
                "E105",
                "this aggregate is not known",
                aggregate.span,
                "the aggregates are " + ", ".join(sorted(builtins.AGGREGATES)),
            )
        result = Var(f"_aggregate{_OURS}", aggregate.span)
        args = tuple(result if i == found[0] else a for i, a in enumerate(head.args))
        plain: Term = Struct(head.functor, args, head.span)
        if _is(written, "@", 2):
            plain = Struct("@", (plain, written.args[1]), written.span)  # type: ignore[union-attr]
        atom = self._head_atom(plain, scope)
        groups = {v.name for a in atom.args if a is not result for v in variables(a)}
        inner = self._body(body, scope)
        prelude: list[Literal] = []
        template = self._fetch(_retime(aggregate.args[1], scope), scope, prelude)
        collect = Collect(
            kind.functor,
            template,
            (*inner, *prelude),
            result,
            tuple(sorted(groups)),
            aggregate.span,
        )
        return atom, (collect,)

    # -------------------------------------------------------------- bodies

    def _body(self, term: Term | None, scope: _Scope) -> Body:
        if term is None:
            return ()
        if _is(term, ","):
            return tuple(x for part in term.args for x in self._body(part, scope))  # type: ignore[union-attr]
        found = self._guard(lambda: self._literal(term, scope))
        return found if found is not None else ()

    def _literal(self, term: Term, scope: _Scope) -> Body:
        if isinstance(term, Var):
            term = Struct("call", (term,), term.span)
        if not isinstance(term, Struct):
            self._fail(
                "E103",
                "a number, text or list cannot be true or false",
                term.span,
                "a body is made of predicates and comparisons",
            )
        name, args = term.functor, term.args
        if not self._defined_here(term):
            self._refuse(term)
        if name == "<=":
            self._fail("E001", "`<=` is not a comparison", term.span, "write `=<`")
        if name == ";":
            return (Disjunction(tuple(self._body(a, scope) for a in args), term.span),)
        if name == "not" and len(args) == 1:
            return (Negation(self._body(args[0], scope), term.span),)
        if name == "forall" and len(args) == 2:
            inner = (*self._body(args[0], scope), Negation(self._body(args[1], scope), term.span))
            return (Negation(inner, term.span),)
        if name in ("findall", "all") and len(args) == 3:
            return self._collect(name, args[0], args[1], args[2], term, scope)
        if name == "aggregate_all" and len(args) == 3:
            return self._aggregate_all(term, scope)
        inner, when = (args[0], args[1]) if name == "@" and len(args) == 2 else (term, None)
        if isinstance(inner, Struct) and inner.arity in builtins.PREDICATES.get(inner.functor, ()):
            # A builtin is the same at all times, so a time on it says nothing.
            prelude: list[Literal] = []
            given = inner.args
            if scope.owner is not None and (
                inner.functor == "is" or inner.functor in builtins.COMPARISONS
            ):
                given = tuple(self._parameters_in(a, scope.owner) for a in given)
            filled = tuple(self._fetch(_retime(a, scope), scope, prelude) for a in given)
            self._check_builtin(inner, filled, scope)
            return (*prelude, Builtin(inner.functor, filled, term.span))
        if (
            isinstance(inner, Struct)
            and inner.functor in builtins.PREDICATES
            and (not self._defined_here(inner))
        ):
            self._wrong_arity(inner, builtins.PREDICATES[inner.functor])
        if (
            isinstance(inner, Struct)
            and inner.functor in builtins.GOALS
            and (not self._defined_here(inner))
        ):
            if when is not None and inner.arity in builtins.GOALS[inner.functor]:
                self._fail(
                    "E103",
                    "only a predicate can have a time",
                    term.span,
                    "put the time on each predicate inside: `not a@t`",
                )
            self._wrong_arity(inner, builtins.GOALS[inner.functor])
        return self._call(inner, when, term, scope)

    def _wrong_arity(self, term: Struct, arities: Sequence[int]) -> NoReturn:
        self._fail(
            "E102",
            f"{term.functor} takes {_numbers(arities)}, this has {term.arity}",
            term.span,
            f"write {term.functor}/{arities[0]} with all its arguments",
        )

    def _defined_here(self, term: Struct) -> bool:
        return any(p.name == term.functor for p in self.defined)

    def _aggregate_all(self, term: Struct, scope: _Scope) -> Body:
        spec, goal, result = term.args
        template: Term
        match spec:
            case Struct("count", ()):
                kind, template = "count", Num(1)
            case Struct(kind, (template,)) if kind in builtins.AGGREGATES:
                pass
            case _:
                self._fail(
                    "E105",
                    "this aggregate is not known",
                    spec.span,
                    "write count, sum(X), min(X), max(X), avg(X), bag(X) or set(X)",
                )
        kind = {"bag": "findall", "set": "set"}.get(kind, kind + "_all")
        return self._collect(kind, template, goal, result, term, scope)

    def _collect(
        self, kind: str, template: Term, goal: Term, result: Term, term: Term, scope: _Scope
    ) -> Body:
        inner = list(self._body(goal, scope))
        item = self._fetch(_retime(template, scope), scope, inner)
        # The list is made first and compared with what it should be afterwards.
        self.counter += 1
        made = Var(f"_all{_OURS}{self.counter}", result.span)
        after: list[Literal] = []
        wanted = self._fetch(_retime(result, scope), scope, after)
        collect = Collect(kind, item, tuple(inner), made, (), term.span)
        return (collect, *after, Builtin("=", (wanted, made), term.span))

    # -------------------------------------------------------------- numbers

    def _check_builtin(self, written: Struct, args: tuple[Term, ...], scope: _Scope) -> None:
        """Report what can never be compared or computed with, before anything runs."""
        name = written.functor
        if name in ("=:=", "=\\="):
            if all(isinstance(a, Struct) and not a.args and _verbatim(a) for a in args):
                self._number(args[0], scope)
            numeric = [a for a in args if isinstance(a, Struct) and a.args]
            inputs = [a for a in args if isinstance(a, Var)] + numeric
        elif name in builtins.COMPARISONS:
            numeric = inputs = list(args)
        elif name == "is":
            numeric = inputs = [args[1]]
        elif name == "between":
            endless = isinstance(args[1], Struct) and args[1].functor in ("inf", "infinite")
            numeric = [args[0], *(() if endless else (args[1],)), args[2]]
            inputs = list(args[:2])
        else:
            return
        for term in numeric:
            self._number(term, scope)
        here = Counter(v.name for v in variables(written))
        for term in inputs:
            for variable in variables(term):
                count = self.mentioned.get(variable.name, 0)
                if count and count == here[variable.name]:
                    shown = "this variable" if _OURS in variable.name else variable.name
                    what = "arithmetic" if name in ("is", "between") else "comparison"
                    self._fail(
                        "E302",
                        f"{shown} has no value in this {what}: nothing else in the "
                        "clause mentions it",
                        variable.span,
                        "bind it by a literal to the left",
                    )

    def _number(self, term: Term, scope: _Scope) -> None:
        """Refuse a term that can never be a number. Lists and texts are the evaluator's."""
        match term:
            case Struct(name, ()):
                self._number_name(term, name, scope)
            case Struct("$param" | "t") | Struct("@"):
                return
            case Struct(name) if name in self.directives.networks:
                return
            case Struct(name, args) if (name, len(args)) in builtins.FUNCTIONS:
                for arg in args:
                    self._number(arg, scope)
            case Struct(name, args) if Pred(name, len(args)) in self.self_valued:
                return
            case Struct(name, args):
                self._not_arithmetic(term, name, len(args))
            case ListTerm():
                self._fail(
                    "E308",
                    "a number is needed here, not a list",
                    term.span,
                    "take an item out with member/2 or nth1/3, or use length/2 or sum_list/2",
                )
            case Str():
                self._fail(
                    "E308",
                    f'a number is needed here, not the text "{term.value}"',
                    term.span,
                    "compare terms with `=` and `\\=`",
                )

    def _number_name(self, term: Struct, name: str, scope: _Scope) -> None:
        if name in builtins.FUNCTION_CONSTANTS or name in self.broken:
            return
        if Pred(name, 0) in self.self_valued:
            return
        if name == "t":
            if scope.time is None and not scope.goal:
                self._fail(
                    "E202",
                    "`t` is the current step, but the head has no time",
                    term.span,
                    "give the head a time: `head@t :- …`",
                )
            return
        if name in self.directives.tensors:
            self._fail(
                "E308",
                f"a number is needed here, and {name} is a tensor",
                term.span,
                f"pass it to a network: `Y is net({name})`",
            )
        values = [p for p in self.drawn if p.name == name]
        if values and values[0].arity:
            shown = ", ".join("V" if i == 0 else "_" for i in range(values[0].arity))
            self._fail(
                "E308",
                f"a number is needed here, not the predicate {name}",
                term.span,
                f"fetch its value first: `{name}({shown}), …`",
            )
        if not _verbatim(term):
            self._fail(
                "E308",
                f"a number is needed here, and this constant is `{name}`",
                term.span,
                "give the constant a number",
            )
        known = {p.name for p in self.self_valued} | set(self.directives.constants)
        near = _nearest(name, known | set(builtins.FUNCTION_CONSTANTS))
        self._fail(
            "E308",
            f"a number is needed here, not the term {name}",
            term.span,
            f"did you mean {near}?"
            if near
            else "a constant is declared with "
            f"`:- const({name}, …).`, a variable begins upper-case",
        )

    def _not_arithmetic(self, term: Struct, name: str, arity: int) -> None:
        if name in self.broken:
            return
        arities = sorted(n for f, n in builtins.FUNCTIONS if f == name)
        if arities:
            self._fail(
                "E102",
                f"{name} takes {_numbers(arities)}, this has {arity}",
                term.span,
                f"write {name}/{arities[0]} with all its arguments",
            )
        if Pred(name, arity) in self.defined:
            self._fail(
                "E308",
                f"{name}/{arity} is a predicate; it has no value to compute with",
                term.span,
                f"call it in the body first: `{name}(…, V), …`",
            )
        functions = {f for f, _ in builtins.FUNCTIONS} | set(self.directives.networks)
        near = _nearest(name, functions)
        self._fail(
            "E308",
            f"there is no function {name}/{arity}",
            term.span,
            f"did you mean {near}?"
            if near
            else "declare a network with "
            f"`:- network({name}, 1).`, or compute the value in the body",
        )

    # -------------------------------------------------------------- calls

    def _call(self, term: Term, when: Term | None, whole: Struct, scope: _Scope) -> Body:
        if not isinstance(term, Struct):
            self._fail(
                "E103",
                "only a predicate can have a time",
                whole.span,
                "write the time behind a predicate: `rain@t`",
            )
        args = term.args
        time: Time | None = None if when is None else read_time(when)
        position = self.directives.time_args.get((term.functor, term.arity))
        if position is not None and time is None:
            time = scope.relative(args[position])
            args = args[:position] + args[position + 1 :]
        pred = Pred(term.functor, len(args))
        if pred not in self.defined:
            self._unknown(pred, term.span)
        if pred in self.self_valued:
            self._fail(
                "E308",
                f"{pred.name} is a value, not true or false",
                whole.span,
                f"compare it, for example `{pred.name} > 0`",
            )
        time = self._body_time(pred, time, whole, scope)
        prelude: list[Literal] = []
        args = tuple(self._fetch(_retime(a, scope), scope, prelude) for a in args)
        return (*prelude, Call(Atom(pred, args, time, term.span), whole.span))

    def _body_time(self, pred: Pred, time: Time | None, term: Term, scope: _Scope) -> Time | None:
        if not self.timed[pred]:
            return None
        if time is None:
            self._fail(
                "E203",
                f"{pred} has a time; this mention of it has none",
                term.span,
                f"write `{pred.name}@t` or `{pred.name}@(t-1)`",
            )
        if isinstance(time, AtLast | During):
            self._fail(
                "E205",
                f"`{time}` can only stand in observe and query",
                term.span,
                "write `@t`, `@(t-1)` or a number",
            )
        if scope.goal:
            return time
        if scope.time is None:
            self._fail(
                "E202",
                "the head has no time, but this part of its body has one",
                term.span,
                "give the head a time: `head@t :- …`",
            )
        if isinstance(time, At):
            if isinstance(scope.time, At):
                lag = scope.time.index - time.index
                if lag < 0:
                    self._fail(
                        "E201",
                        f"this is about the future: the head is at step {scope.time.index}",
                        term.span,
                        f"let the head be at step {time.index} or later",
                    )
                # Step 0 is kept as it is; others are counted back to.
                return lagged(lag, term.span) if time.index or not lag else time
            if time.index > 0:
                self._fail(
                    "E201",
                    f"before step {time.index} this is about the future",
                    term.span,
                    f"let the head be at step {time.index}, or carry the "
                    "value along in a predicate of its own",
                )
        if isinstance(time, Now) and isinstance(scope.time, At) and time.lag > scope.time.index:
            self._fail(
                "E207",
                f"the head is at step {scope.time.index}; there is no step {time.lag} before it",
                term.span,
                f"let the head be at step {time.lag} or later, or at t",
            )
        return time

    def _known(self, pred: Pred, span: Span | None) -> None:
        if pred not in self.defined:
            self._unknown(pred, span)

    def _unknown(self, pred: Pred, span: Span | None) -> NoReturn:
        if pred.name in self.broken:
            raise ProgramError()
        same_name = sorted(p.arity for p in self.defined if p.name == pred.name)
        if same_name:
            self._fail(
                "E102",
                f"{pred.name} takes {_numbers(same_name)}, this has {pred.arity}",
                span,
                f"write {pred.name}/{same_name[0]} with all its arguments",
            )
        near = _nearest(pred.name, {p.name for p in self.defined} | set(builtins.PREDICATES))
        if pred.name in self.directives.networks:
            self._fail(
                "E101",
                f"{pred.name} is a network, not a predicate",
                span,
                f"compute with it: `Y is {pred.name}(X)`",
            )
        if pred.name in self.directives.tensors and not pred.arity:
            self._fail(
                "E101",
                f"{pred.name} is a tensor from outside, not a predicate",
                span,
                f"pass it to a network: `Y is net({pred.name})`",
            )
        self._fail(
            "E101",
            f"nothing defines the predicate {pred}",
            span,
            f"did you mean {near}?"
            if near
            else "add a fact or a rule for it, or declare it with `:- input(…)`",
        )

    def _fetch(self, term: Term, scope: _Scope, prelude: list[Literal]) -> Term:
        """Replace variables that are their own value by fresh ones, fetched beforehand."""
        match term:
            case Struct("$param", (name, start, *index)):
                # The name of a parameter is not a value, even where a variable has it too.
                keys = (self._fetch(i, scope, prelude) for i in index)
                return Struct("$param", (name, start, *keys), term.span)
            case Struct("@", (Struct(name, ()) as inner, when)) if name in self.directives.tensors:
                time = read_time(when)
                if not isinstance(time, Now | At) or (isinstance(time, At) and time.index):
                    self._fail(
                        "E207",
                        "a tensor is read at t, at an earlier step or at 0",
                        term.span,
                        f"write `{name}@t`, `{name}@(t-1)` or `{name}@0`",
                    )
                lag = time.lag if isinstance(time, Now) else 0
                now = Struct("-", (Struct("t"), Num(lag))) if lag else Struct("t")
                return Struct("@", (inner, Num(0) if isinstance(time, At) else now), term.span)
            case Struct("@", (Struct(name, args) as inner, when)):
                pred = Pred(name, len(args))
                if pred in self.self_valued:
                    return self._value_of(inner, read_time(when), term, scope, prelude)
                if not any(p.name == name for p in self.defined):
                    self._unknown(pred, inner.span)
                self._fail(
                    "E308",
                    f"{name} is not its own value, so it cannot stand here",
                    term.span,
                    f"fetch its value in the body first: `{name}(V)@t, …`",
                )
            case Struct("@", _):
                self._fail(
                    "E103",
                    "only a predicate can have a time",
                    term.span,
                    "write the time behind a name: `temperature@t`",
                )
            case Struct("<>", (_, _)):
                self._fail(
                    "E105",
                    "an aggregate stands only in the head of a rule",
                    term.span,
                    "in a body write `aggregate_all(min(X), goal(X), M)`",
                )
            case Struct(name, args) if Pred(name, len(args)) in self.self_valued:
                return self._value_of(term, None, term, scope, prelude)
            case Struct(name, args) if args:
                new = tuple(self._fetch(a, scope, prelude) for a in args)
                return Struct(name, new, term.span)
            case ListTerm(items, tail):
                new = tuple(self._fetch(a, scope, prelude) for a in items)
                rest = None if tail is None else self._fetch(tail, scope, prelude)
                return ListTerm(new, rest, term.span)
        return term

    def _value_of(
        self, inner: Struct, time: Time | None, whole: Term, scope: _Scope, prelude: list[Literal]
    ) -> Var:
        pred = Pred(inner.functor, inner.arity)
        time = self._body_time(pred, time, whole, scope)
        self.counter += 1
        fresh = Var(f"_v{_OURS}{self.counter}", whole.span)
        keys = tuple(self._fetch(a, scope, prelude) for a in inner.args)
        prelude.append(Call(Atom(pred, (*keys, fresh), time, whole.span), whole.span))
        return fresh

    # -------------------------------------------------------------- observe, query

    def _goal(self, statement: Term) -> Observation | Query:
        head, body = _split(statement)
        assert isinstance(head, Struct)
        self.mentioned = Counter(v.name for v in variables(statement))
        scope = _Scope(goal=True)
        literals = self._body(body, scope)
        target = head.args[0]
        value: Term | None = head.args[1] if head.arity == 2 else None
        if head.functor != "query" and _is(target, "not", 1):
            if value is not None or head.functor == "observe":
                self._fail(
                    "E103",
                    "give the value instead of negating",
                    target.span,
                    "write `observe(a, false).`",
                )
            target, value = target.args[0], Struct("false")  # type: ignore[union-attr]
        elif head.functor == "evidence" and value is None:
            value = Struct("true")
        if head.functor == "query" and _is(target, "not", 1):
            self._fail(
                "E103",
                "a query asks for a predicate, not for its negation",
                target.span,
                "query the predicate and take one minus its probability",
            )
        atom, partial = self._goal_atom(target)
        if head.functor == "query":
            return Query(atom, literals, statement.span)
        truth = isinstance(value, Struct) and value.functor in ("true", "false")
        values = self.values.get(atom.pred, frozenset())
        if (
            value is not None
            and not truth
            and not partial
            and not (
                atom.pred in self.self_valued
                or any(isinstance(atom.args[i], Var) for i in values if i < len(atom.args))
            )
        ):
            self._fail(
                "E308",
                f"{atom.pred} is true or false, it has no other value",
                value.span,
                "write `true` or `false`",
            )
        if value is not None and not truth:
            self._check_observed(atom, value, values)
        return Observation(atom, value, literals, statement.span)

    def _check_observed(self, atom: Atom, value: Term, values: frozenset[int]) -> None:
        for variable in variables(value):
            self._fail(
                "E308",
                "the observed value must be a constant",
                variable.span,
                "write the value itself, or leave it out to read it from the data",
            )
        wanted = sum(1 for i in values if i < len(atom.args) and isinstance(atom.args[i], Var))
        given = len(value.items) if isinstance(value, ListTerm) else 1
        if wanted > 1 and given != wanted:
            self._fail(
                "E308",
                f"{atom.pred} has {wanted} values, {given} observed",
                value.span,
                f"give a list of {wanted}, in the order of the arguments",
            )

    def _goal_atom(self, term: Term) -> tuple[Atom, bool]:
        """The atom asked for, and whether its value arguments were left out."""
        written = term
        time: Time | None = None
        if _is(term, "@", 2):
            term, when = term.args  # type: ignore[union-attr]
            time = read_time(when)
        if not isinstance(term, Struct):
            self._fail("E103", "ask for a predicate", written.span, "for example `query(rain).`")
        args = term.args
        position = self.directives.time_args.get((term.functor, term.arity))
        if position is not None and time is None:
            when = args[position]
            time = Now(0) if isinstance(when, Var) and when.name != "T" else read_time(when)
            args = args[:position] + args[position + 1 :]
        pred = Pred(term.functor, len(args))
        if pred in self.directives.inputs:
            self._fail(
                "E103",
                f"{pred} is an input; it cannot be asked for or observed",
                written.span,
                "its values are in the data; ask for what depends on it",
            )
        for part in (p for a in args for p in subterms(a) if isinstance(p, Struct)):
            if Pred(part.functor, part.arity) in self.self_valued:
                self._name_for_value(part)
        partial = False
        if pred not in self.defined:
            pred, args = self._complete(pred, args, written.span)
            partial = True
        elif pred in self.self_valued:
            args = (*args, Var(HIDDEN, written.span))
            partial = True
        if self.timed[pred] and time is None:
            self._fail(
                "E203",
                f"{pred} has a time; this mention of it has none",
                written.span,
                f"write `{pred.name}@t`, `{pred.name}@T` or `{pred.name}@3`",
            )
        if not self.timed[pred]:
            time = None
        if isinstance(time, Now) and time.lag:
            self._fail(
                "E207",
                "observe and query are at `t`, at a number or at `T`",
                written.span,
                "query a predicate that looks back: `before@t :- rain@(t-1).`",
            )
        return Atom(pred, args, time, written.span), partial

    def _complete(
        self, pred: Pred, args: tuple[Term, ...], span: Span | None
    ) -> tuple[Pred, tuple[Term, ...]]:
        """A value predicate named without its value arguments."""
        for candidate in self.defined:
            values = self.values.get(candidate, frozenset())
            if candidate.name == pred.name and candidate.arity - len(values) == pred.arity:
                keys = iter(args)
                full = tuple(
                    Var("_", span) if i in values else next(keys) for i in range(candidate.arity)
                )
                return candidate, full
        self._unknown(pred, span)


class _Scope:
    """What a clause's head says about time, for the times in its body."""

    def __init__(self, goal: bool = False):
        self.goal = goal
        self.time: Time | None = None
        self.time_variable: str | None = None
        self.owner: Pred | None = None

    def enter(self, time: Time | None, variable: str | None) -> None:
        self.time = time
        if variable is not None and variable != "_":
            self.time_variable = variable

    def relative(self, term: Term) -> Time:
        """The time that a time argument in a body means, given the head's."""
        if self.time_variable is not None:
            term = _replace_variable(term, self.time_variable, Struct("t"))
        if not any(variables(term)):
            return read_time(term)
        raise ProgramError(
            Diagnostic(
                "E207",
                "the time of a body literal is the head's time, an earlier one, or a number",
                term.span,
                "use the head's time variable: `p(X, T) :- q(X, T-1).`",
            )
        )


def _split(statement: Term) -> tuple[Term, Term | None]:
    if _is(statement, ":-", 2):
        return statement.args  # type: ignore[union-attr,return-value]
    return statement, None


def _options(head: Term) -> Iterable[Term]:
    return head.args if _is(head, ";") else (head,)  # type: ignore[union-attr]


def _predicate_name(head: Term) -> str | None:
    """The name that a clause's head defines, whatever else is wrong with it."""
    if _is(head, "::", 2):
        head = head.args[1]  # type: ignore[union-attr]
    for operator in ("~", "@"):
        if _is(head, operator, 2):
            head = head.args[0]  # type: ignore[union-attr]
    return head.functor if isinstance(head, Struct) else None


def _verbatim(term: Struct) -> bool:
    """Whether a name stands in the text as it is, and not for a constant."""
    return term.span is None or term.span.text == term.functor


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _numbers(arities: Sequence[int]) -> str:
    shown = " or ".join(map(str, arities))
    if len(arities) > 2 and list(arities) == list(range(arities[0], arities[-1] + 1)):
        shown = f"{arities[0]} to {arities[-1]}"
    return f"{shown} argument" if shown == "1" else f"{shown} arguments"


def _is(term: Term, functor: str, arity: int | None = None) -> bool:
    return (
        isinstance(term, Struct)
        and term.functor == functor
        and (term.arity == arity if arity is not None else term.arity >= 2)
    )


def _is_struct(term: Term, functor: str) -> bool:
    return isinstance(term, Struct) and term.functor == functor


def _constant_value(term: Term) -> float | None:
    """The value of an expression of constant numbers, or None."""
    match term:
        case Num(value):
            return float(value)
        case Struct("-", (inner,)):
            value = _constant_value(inner)
            return None if value is None else -value
        case Struct("+" | "-" | "*" | "/" as op, (left, right)):
            a, b = _constant_value(left), _constant_value(right)
            if a is None or b is None or (op == "/" and b == 0):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[op]
    return None


def _replace_variable(term: Term, name: str, by: Struct) -> Term:
    match term:
        case Var(n) if n == name:
            return replace(by, span=term.span)
        case Struct(functor, args) if args:
            return Struct(functor, tuple(_replace_variable(a, name, by) for a in args), term.span)
        case ListTerm(items, tail):
            return ListTerm(
                tuple(_replace_variable(a, name, by) for a in items),
                None if tail is None else _replace_variable(tail, name, by),
                term.span,
            )
    return term


def _retime(term: Term, scope: _Scope) -> Term:
    """A clause's time variable, used as a number, is the current step `t`."""
    if scope.time_variable is None:
        return term
    return _replace_variable(term, scope.time_variable, Struct("t"))


def _nearest(name: str, names: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name, [n for n in names if n[:1].isalpha()], 1, 0.7)
    return close[0] if close else None


__all__ = ["Directives", "check"]
