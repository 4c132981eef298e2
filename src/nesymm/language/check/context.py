"""What the parts of the check share: what is known so far, and how to refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NoReturn, ParamSpec, TypeVar

from nesymm.errors import Diagnostic, ProgramError, Span, fail
from nesymm.language import builtins
from nesymm.language.check.terms import (
    arguments_shown,
    is_op,
    nearest,
    replace_variable,
)
from nesymm.language.directives import Directives
from nesymm.language.program import (
    Pred,
    Rule,
    Time,
)
from nesymm.language.terms import (
    Struct,
    Term,
    variables,
)
from nesymm.language.times import read_time

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Context:
    """What is known of the program so far, and the mistakes found in it."""

    def __init__(self, directives: Directives, errors: list[Diagnostic]):
        self.directives = directives
        self.errors = errors
        self.defined: dict[Pred, Span | None] = {}
        self.timed: dict[Pred, bool] = {}
        self.self_valued: set[Pred] = set()
        self.drawn: set[Pred] = set()
        self.values: Mapping[Pred, frozenset[int]] = {}
        self.counter = 0
        self.parameters: dict[str, int] = {}
        # Names whose own clauses were refused: no second message where they are used.
        self.broken: set[str] = set(directives.broken)
        self.mentioned: Counter[str] = Counter()
        # Clauses for the builtins that are asked for.
        self.asked_builtins: list[Rule] = []

    def guard(self, action: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Run one statement; keep its mistakes and continue with the next."""
        try:
            return action(*args, **kwargs)
        except ProgramError as error:
            self.errors.extend(error.diagnostics)
            return None

    def report(
        self, code: str, message: str, span: Span | None, cure: str | None = None, *notes: str
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, cure, notes))

    def define(self, pred: Pred, timed: bool, span: Span | None) -> None:
        first = self.defined.setdefault(pred, span)
        if self.timed.setdefault(pred, timed) != timed:
            how = "with" if not timed else "without"
            self.report(
                "E204",
                f"{pred} is defined both with and without a time",
                span,
                "give all its clauses a time (`@t`, `@0`) or none",
                *([f"it is defined {how} a time at line {first.line}"] if first else []),
            )

    def known(self, pred: Pred, span: Span | None) -> None:
        if pred not in self.defined:
            self.unknown(pred, span)

    def unknown(self, pred: Pred, span: Span | None) -> NoReturn:
        if pred.name in self.broken:
            raise ProgramError()
        same_name = sorted(p.arity for p in self.defined if p.name == pred.name)
        if same_name:
            cure = f"write {pred.name}/{same_name[0]} with all its arguments"
            if same_name == [0]:
                cure = (
                    f"write `{pred.name}`; what a predicate draws is an argument of its head: "
                    f"`{pred.name}(V) ~ …`"
                )
            fail(
                "E102",
                f"{pred.name} takes {arguments_shown(same_name)}, this has {pred.arity}",
                span,
                cure,
            )
        near = nearest(pred.name, {p.name for p in self.defined} | set(builtins.PREDICATES))
        if pred.name in self.directives.networks:
            fail(
                "E101",
                f"{pred.name} is a network, not a predicate",
                span,
                f"compute with it: `Y is {pred.name}(X)`",
            )
        if pred.name in self.directives.tensors:
            fail(
                "E101",
                f"{pred.name} is a tensor from outside, not a predicate",
                span,
                f"pass it to a network: `Y is net({pred.name})`",
            )
        fail(
            "E101",
            f"nothing defines the predicate {pred}",
            span,
            f"did you mean {near}?"
            if near
            else "add a fact or a rule for it, or declare it with `:- input(…)`",
        )

    def defined_here(self, term: Struct) -> bool:
        return any(p.name == term.functor for p in self.defined)

    def defines(self, term: Struct) -> bool:
        """Whether the program itself defines what a goal calls."""
        return Pred(term.functor, term.arity) in self.defined

    def check_time(self, pred: Pred, time: Time | None, span: Span | None, example: str) -> None:
        """A predicate is mentioned with a time if and only if it has one."""
        if self.timed[pred] and time is None:
            fail("E203", f"{pred} has a time; this mention of it has none", span, example)
        if time is not None and not self.timed[pred]:
            fail(
                "E208",
                f"{pred} has no time; this mention of it has one",
                span,
                f"write `{pred.name}` without a time: it is the same at all steps",
            )

    def time_argument(self, term: Struct) -> int | None:
        """Which of its arguments is a time."""
        return self.directives.time_args.get((term.functor, term.arity))

    def split_time(
        self, term: Struct, time: Time | None, read: Callable[[Term], Time]
    ) -> tuple[Pred, Time | None, tuple[Term, ...]]:
        """Predicate, time and the other arguments; `read` reads a time that is an argument."""
        args, at = term.args, self.time_argument(term)
        if at is not None and time is None:
            time, args = read(args[at]), args[:at] + args[at + 1 :]
        return Pred(term.functor, len(args)), time, args

    def read_atom(
        self, written: Term, read: Callable[[Term], Time], message: str, cure: str
    ) -> tuple[Struct, Pred, Time | None, tuple[Term, ...]]:
        """What is mentioned, its predicate, time and arguments; the message is for what is none."""
        term, time = written, None
        if is_op(written, "@", 2):
            term, when = written.args
            time = read_time(when)
        if not isinstance(term, Struct):
            fail("E103", message, written.span, cure)
        return term, *self.split_time(term, time, read)

    def is_network(self, term: Term) -> bool:
        return isinstance(term, Struct) and term.functor in self.directives.networks


class Scope:
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
            term = replace_variable(term, self.time_variable, Struct("t"))
        if not any(variables(term)):
            return read_time(term)
        fail(
            "E207",
            "the time of a body literal is the head's time, an earlier one, or a number",
            term.span,
            "use the head's time variable: `p(X, T) :- q(X, T-1).`",
        )


def retime(term: Term, scope: Scope) -> Term:
    """A clause's time variable, used as a number, is the current step `t`."""
    if scope.time_variable is None:
        return term
    return replace_variable(term, scope.time_variable, Struct("t"))


def refuse(term: Struct) -> None:
    """Prolog that is known and refused; without arguments, the name is the program's own."""
    if term.functor in builtins.REFUSED and (term.args or term.functor in ("!", "nl")):
        cause, cure = builtins.REFUSED[term.functor]
        fail("E105", f"`{term.functor}` is not supported: {cause}", term.span, cure)
