"""`subquery/2,3,5`: the probability of a goal as a number."""

from __future__ import annotations

from nesymm.errors import fail
from nesymm.ground.builtins.lists import known_list
from nesymm.ground.builtins.results import Results, bind
from nesymm.ground.context import Context
from nesymm.ground.literals import BuiltinLit
from nesymm.ground.unify import Env, number_variables, resolve
from nesymm.ir.symbols import has_symbol
from nesymm.ir.terms import Compound, Text

_PROBABILITIES = (Text("prob"), Text("logprob"))


def subquery(ctx: Context, lit: BuiltinLit, env: Env) -> Results:
    goal, _, *others = (resolve(x, env) for x in lit.args)
    evidence = known_list(others[0], lit.span) if others else ()
    if len(others) == 3 and others[1] not in _PROBABILITIES:
        fail(
            "E308",
            "a subquery gives a probability",
            lit.span,
            'write `subquery(Goal, P)`, or "prob" or "logprob" as the fourth argument',
        )
    asked, *given = number_variables((goal, *evidence))
    if has_symbol((asked, *given)) or ctx.clauses.subqueries is None:
        fail("E105", "`subquery` asks for what is known when compiling", lit.span, "query the goal")
    found = ctx.clauses.subqueries.answers(asked, tuple(given), lit.span)
    if not found:
        yield from bind(env, (lit.args[1], 0.0))
    for terms, probability in found:
        if isinstance(goal, Compound):
            pairs = zip(goal.args, terms, strict=True)
            yield from bind(env, *pairs, (lit.args[1], probability))
        else:
            yield from bind(env, (lit.args[1], probability))
