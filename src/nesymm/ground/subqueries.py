"""`subquery(Goal, P)`: the probability of a goal, as a program of its own would give it.

The program is grounded once more with the goal as its query; the evidence and the queries of the
program around it play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nesymm.errors import Span, fail
from nesymm.ir.step import StepProgram
from nesymm.ir.symbols import key_of
from nesymm.ir.terms import Compound, Text, V, rounded
from nesymm.ir.types import is_finite
from nesymm.language.program import Atom, CheckedProgram, Observation, Pred, Query
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var
from nesymm.language.values import heads

Compile = Callable[[CheckedProgram, int], StepProgram]
Solve = Callable[[StepProgram], Mapping[str, float]]
Answers = list[tuple[tuple, float]]

_MAX_DEPTH = 10


class Subqueries:
    """What is asked within one program, each question answered once.

    `compile` grounds a program at a depth of questions within questions, and `solve` gives the
    probabilities of its queries.
    """

    def __init__(
        self, program: CheckedProgram, compile: Compile, solve: Solve | None, depth: int
    ) -> None:
        self.program, self.compile, self.solve, self.depth = program, compile, solve, depth
        self.known: dict[Any, Answers] = {}

    def answers(self, goal: Any, evidence: tuple, span: Span | None) -> Answers:
        """The arguments of the answers to a goal, each with its probability."""
        key = key_of((goal, evidence))
        if key not in self.known:
            self.known[key] = list(self._ask(goal, evidence, span))
        return self.known[key]

    def _ask(self, goal: Any, evidence: tuple, span: Span | None) -> Iterator[tuple[tuple, float]]:
        if self.solve is None or self.program.temporal:
            where = "with time" if self.program.temporal else "that is only grounded"
            fail(
                "E105", f"`subquery` is not supported in a program {where}", span, "query the goal"
            )
        if self.depth >= _MAX_DEPTH:
            fail("E312", "this subquery depends on its own result", span, "break the cycle")
        asked = replace(
            self.program,
            queries=(Query(self._atom(goal, span), (), span=span),),
            observations=tuple(self._observed(evidence, span)),
            guides=(),
        )
        step = self.compile(asked, self.depth + 1)
        drawn = any(not is_finite(v.type) for v in step.variables)
        drawn = drawn or any(q.values or q.axes for q in step.queries)
        if step.parameters or step.inputs or drawn:
            fail(
                "E105",
                "`subquery` is not supported for what is learnt, given as data or drawn from a "
                "density",
                span,
                "ask for a goal whose probabilities are numbers of the program",
            )
        found = self.solve(step)
        for query in step.queries:
            yield query.template, rounded(float(found[query.name]))

    def _atom(self, goal: Any, span: Span | None) -> Atom:
        goal = Compound(goal, ()) if type(goal) is str else goal
        if type(goal) is not Compound:
            fail("E308", "what is asked is a predicate", span, "for example `subquery(a(X), P)`")
        pred = Pred(goal.functor, len(goal.args))
        if all(head.pred != pred for c in self.program.clauses for head in heads(c)):
            fail("E101", f"{pred} cannot be asked for: no clause defines it", span, "add a clause")
        return Atom(pred, tuple(_term(a, span) for a in goal.args), None, span)

    def _observed(self, evidence: tuple, span: Span | None) -> Iterator[Observation]:
        for item in evidence:
            negated = type(item) is Compound and item.functor in ("\\+", "not")
            atom = self._atom(item.args[0] if negated else item, span)
            yield Observation(atom, Struct("false" if negated else "true"), (), span)


def _term(value: Any, span: Span | None) -> Term:
    """A ground term, or one with variables, as it stands in a program."""
    match value:
        case str():
            return Struct(value)
        case int() | float():
            return Num(value)
        case Text(text):
            return Str(text)
        case V(i):
            return Var(f"V{i}")
        case tuple():
            return ListTerm(tuple(_term(v, span) for v in value))
        case Compound(functor, args):
            return Struct(functor, tuple(_term(a, span) for a in args))
    fail("E302", "the goal of this subquery is not known yet", span, "bind it to the left")
