"""The statements observe, evidence and query."""

from __future__ import annotations

from collections import Counter

from nesymm.errors import Span, fail
from nesymm.language.builtins import PREDICATES
from nesymm.language.check.bodies import read_body
from nesymm.language.check.context import Context, Scope, refuse
from nesymm.language.check.heads import (
    GOAL_STATEMENTS,
    name_for_value,
)
from nesymm.language.check.terms import (
    HIDDEN,
    OURS,
    is_op,
    split_clause,
)
from nesymm.language.program import (
    Atom,
    Builtin,
    Now,
    Observation,
    Pred,
    Query,
    Rule,
)
from nesymm.language.terms import (
    ListTerm,
    Struct,
    Term,
    Var,
    subterms,
    variables,
)
from nesymm.language.times import read_time


def is_goal_statement(statement: Term) -> bool:
    head = statement.args[0] if is_op(statement, ":-", 2) else statement
    return isinstance(head, Struct) and head.arity in GOAL_STATEMENTS.get(head.functor, ())


def read_goal(ctx: Context, statement: Term) -> Observation | Query:
    head, body = split_clause(statement)
    assert isinstance(head, Struct)
    ctx.mentioned = Counter(v.name for v in variables(statement))
    scope = Scope(goal=True)
    literals = read_body(ctx, body, scope)
    target = head.args[0]
    value: Term | None = head.args[1] if head.arity == 2 else None
    if head.functor != "query" and is_op(target, "not", 1):
        if value is not None or head.functor == "observe":
            fail(
                "E103",
                "give the value instead of negating",
                target.span,
                "write `observe(a, false).`",
            )
        target, value = target.args[0], Struct("false")
    elif head.functor == "evidence" and value is None:
        value = Struct("true")
    negated = head.functor == "query" and is_op(target, "not", 1)
    written = target
    if negated and isinstance(target, Struct):
        target = target.args[0]
    atom, partial = _read_goal_atom(ctx, target)
    if negated and (atom.time is not None or atom.pred in ctx.self_valued):
        fail(
            "E103",
            "a query with a time or for a value asks for a predicate, not for its negation",
            written.span,
            "query the predicate and take one minus its probability",
        )
    if head.functor == "query":
        return Query(atom, literals, negated, statement.span)
    truth = isinstance(value, Struct) and value.functor in ("true", "false")
    values = ctx.values.get(atom.pred, frozenset())
    if (
        value is not None
        and not truth
        and not partial
        and not (
            atom.pred in ctx.self_valued
            or any(isinstance(atom.args[i], Var) for i in values if i < len(atom.args))
        )
    ):
        fail(
            "E308",
            f"{atom.pred} is true or false, it has no other value",
            value.span,
            "write `true` or `false`",
        )
    if value is not None and not truth:
        _check_observed(atom, value, values)
    return Observation(atom, value, literals, statement.span)


def _check_observed(atom: Atom, value: Term, values: frozenset[int]) -> None:
    for variable in variables(value):
        fail(
            "E308",
            "the observed value must be a constant",
            variable.span,
            "write the value itself, or leave it out to read it from the data",
        )
    wanted = sum(1 for i in values if i < len(atom.args) and isinstance(atom.args[i], Var))
    given = len(value.items) if isinstance(value, ListTerm) else 1
    if wanted > 1 and given != wanted:
        fail(
            "E308",
            f"{atom.pred} has {wanted} values, {given} observed",
            value.span,
            f"give a list of {wanted}, in the order of the arguments",
        )


def _read_goal_atom(ctx: Context, written: Term) -> tuple[Atom, bool]:
    """The atom asked for, and whether its value arguments were left out."""
    _, pred, time, args = ctx.read_atom(
        written,
        lambda t: Now(0) if isinstance(t, Var) and t.name != "T" else read_time(t),
        "ask for a predicate",
        "for example `query(rain).`",
    )
    if pred in ctx.directives.inputs:
        fail(
            "E103",
            f"{pred} is an input; it cannot be asked for or observed",
            written.span,
            "its values are in the data; ask for what depends on it",
        )
    for part in (p for a in args for p in subterms(a) if isinstance(p, Struct)):
        if Pred(part.functor, part.arity) in ctx.self_valued:
            name_for_value(part)
    partial = False
    named = pred.name.isidentifier() and pred.arity in PREDICATES.get(pred.name, ())
    if named and time is None and pred not in ctx.defined:
        _call_builtin(ctx, pred, written.span)
    if pred not in ctx.defined:
        if not any(p.name == pred.name for p in ctx.defined):
            refuse(Struct(pred.name, args, written.span))
        pred, args = _complete(ctx, pred, args, written.span)
        partial = True
    elif pred in ctx.self_valued:
        args = (*args, Var(HIDDEN, written.span))
        partial = True
    example = f"write `{pred.name}@t`, `{pred.name}@T` or `{pred.name}@3`"
    ctx.check_time(pred, time, written.span, example)
    if isinstance(time, Now) and time.lag:
        fail(
            "E207",
            "observe and query are at `t`, at a number or at `T`",
            written.span,
            "query a predicate that looks back: `before@t :- rain@(t-1).`",
        )
    return Atom(pred, args, time, written.span), partial


def _call_builtin(ctx: Context, pred: Pred, span: Span | None) -> None:
    """A clause for a builtin that is asked for: `append(A, B) :- append(A, B).`"""
    args = tuple(Var(f"A{OURS}{i}", span) for i in range(pred.arity))
    ctx.define(pred, False, span)
    ctx.asked_builtins.append(Rule(Atom(pred, args, None), (Builtin(pred.name, args, span),)))


def _complete(
    ctx: Context, pred: Pred, args: tuple[Term, ...], span: Span | None
) -> tuple[Pred, tuple[Term, ...]]:
    """A value predicate named without its value arguments."""
    for candidate in ctx.defined:
        # The hidden argument of a variable that is its own value is not one to leave out.
        values = {i for i in ctx.values.get(candidate, ()) if i < candidate.arity}
        if candidate.name == pred.name and candidate.arity - len(values) == pred.arity:
            keys = iter(args)
            full = tuple(
                Var("_", span) if i in values else next(keys) for i in range(candidate.arity)
            )
            return candidate, full
    if not ctx.directives.unknown_fails:
        ctx.unknown(pred, span)
    ctx.define(pred, False, span)
    return pred, args
