"""The bodies of clauses: literals, calls and the values they fetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from nesymm.errors import fail
from nesymm.language import builtins
from nesymm.language.check.context import Context, Scope, refuse, retime
from nesymm.language.check.numbers import (
    check_builtin,
    name_parameters,
)
from nesymm.language.check.terms import (
    OURS,
    arguments_shown,
    is_op,
)
from nesymm.language.program import (
    At,
    AtLast,
    Atom,
    Body,
    Builtin,
    Call,
    Collect,
    Disjunction,
    During,
    Literal,
    Negation,
    Now,
    Pred,
    Time,
)
from nesymm.language.terms import (
    Num,
    Struct,
    Term,
    Var,
    mapped,
)
from nesymm.language.times import lagged, read_time


def read_body(ctx: Context, term: Term | None, scope: Scope) -> Body:
    if term is None:
        return ()
    if is_op(term, ","):
        return tuple(x for part in term.args for x in read_body(ctx, part, scope))
    found = ctx.guard(_read_literal, ctx, term, scope)
    return found if found is not None else ()


def _read_literal(ctx: Context, term: Term, scope: Scope) -> Body:
    if isinstance(term, Var):
        term = Struct("call", (term,), term.span)
    if not isinstance(term, Struct):
        fail(
            "E103",
            "a number, text or list cannot be true or false",
            term.span,
            "a body is made of predicates and comparisons",
        )
    name, args = term.functor, term.args
    if not ctx.defined_here(term):
        refuse(term)
    if name == "<=":
        fail("E001", "`<=` is not a comparison", term.span, "write `=<`")
    if name == ";":
        return (Disjunction(tuple(read_body(ctx, a, scope) for a in args), term.span),)
    if name == "not" and len(args) == 1:
        return (Negation(read_body(ctx, args[0], scope), term.span),)
    if name == "forall" and len(args) == 2:
        counterexample = (
            *read_body(ctx, args[0], scope),
            Negation(read_body(ctx, args[1], scope), term.span),
        )
        return (Negation(counterexample, term.span),)
    if name in ("findall", "all") and len(args) == 3:
        return _read_collect(ctx, name, args[0], args[1], args[2], term, scope)
    if name == "aggregate_all" and len(args) == 3 and not ctx.defines(term):
        return _read_aggregate_all(ctx, term, scope)
    inner: Term
    when: Term | None
    inner, when = (args[0], args[1]) if name == "@" and len(args) == 2 else (term, None)
    if isinstance(inner, Struct) and _is_builtin(ctx, inner):
        # A builtin is the same at all times, so a time on it says nothing.
        prelude: list[Literal] = []
        given = inner.args
        if scope.owner is not None and (
            inner.functor == "is" or inner.functor in builtins.COMPARISONS
        ):
            given = tuple(name_parameters(ctx, a, scope.owner) for a in given)
        filled = tuple(fetch(ctx, retime(a, scope), scope, prelude) for a in given)
        check_builtin(ctx, inner, filled, scope)
        return (*prelude, Builtin(inner.functor, filled, term.span))
    if isinstance(inner, Struct) and not ctx.defined_here(inner):
        _refuse_other_builtin(inner, when is not None, term)
    return _read_call(ctx, inner, when, term, scope)


def _is_builtin(ctx: Context, term: Struct) -> bool:
    """Whether a goal is built in, and the program has no definition of its own."""
    return term.arity in builtins.PREDICATES.get(term.functor, ()) and not ctx.defines(term)


def _refuse_other_builtin(inner: Struct, timed: bool, term: Term) -> None:
    """Refuse the name of a builtin with other arguments, and a time on a whole goal."""
    if inner.functor in builtins.PREDICATES:
        _wrong_arity(inner, builtins.PREDICATES[inner.functor])
    if inner.functor in builtins.GOALS:
        if timed and inner.arity in builtins.GOALS[inner.functor]:
            fail(
                "E103",
                "only a predicate can have a time",
                term.span,
                "put the time on each predicate inside: `not a@t`",
            )
        _wrong_arity(inner, builtins.GOALS[inner.functor])


def _wrong_arity(term: Struct, arities: Sequence[int]) -> NoReturn:
    fail(
        "E102",
        f"{term.functor} takes {arguments_shown(arities)}, this has {term.arity}",
        term.span,
        f"write {term.functor}/{arities[0]} with all its arguments",
    )


def _read_aggregate_all(ctx: Context, term: Struct, scope: Scope) -> Body:
    spec, goal, result = term.args
    template: Term
    match spec:
        case Struct("count", ()):
            kind, template = "count", Num(1)
        case Struct(kind, (template,)) if kind in builtins.AGGREGATES:
            pass
        case _:
            fail(
                "E105",
                "this aggregate is not known",
                spec.span,
                "write count, sum(X), min(X), max(X), avg(X), bag(X) or set(X)",
            )
    kind = {"bag": "findall", "set": "set"}.get(kind, kind + "_all")
    return _read_collect(ctx, kind, template, goal, result, term, scope)


def _read_collect(
    ctx: Context, kind: str, template: Term, goal: Term, result: Term, term: Term, scope: Scope
) -> Body:
    inner = list(read_body(ctx, goal, scope))
    item = fetch(ctx, retime(template, scope), scope, inner)
    # The list is made first and compared with what it should be afterwards.
    ctx.counter += 1
    made = Var(f"_all{OURS}{ctx.counter}", result.span)
    after: list[Literal] = []
    wanted = fetch(ctx, retime(result, scope), scope, after)
    collect = Collect(kind, item, tuple(inner), made, (), term.span)
    if kind in builtins.LISTS:
        after.append(Builtin("$list", (wanted,), term.span))
    return (collect, *after, Builtin("=", (wanted, made), term.span))


def _read_call(ctx: Context, term: Term, when: Term | None, whole: Struct, scope: Scope) -> Body:
    if not isinstance(term, Struct):
        fail(
            "E103",
            "only a predicate can have a time",
            whole.span,
            "write the time behind a predicate: `rain@t`",
        )
    time = None if when is None else read_time(when)
    pred, time, args = ctx.split_time(term, time, scope.relative)
    if pred not in ctx.defined:
        if ctx.directives.unknown_fails:
            return (Builtin("fail", (), whole.span),)
        ctx.unknown(pred, term.span)
    if pred in ctx.self_valued:
        fail(
            "E308",
            f"{pred.name} is a value, not true or false",
            whole.span,
            f"compare it, for example `{pred.name} > 0`",
        )
    time = _body_time(ctx, pred, time, whole, scope)
    prelude: list[Literal] = []
    args = tuple(fetch(ctx, retime(a, scope), scope, prelude) for a in args)
    return (*prelude, Call(Atom(pred, args, time, term.span), whole.span))


def _body_time(
    ctx: Context, pred: Pred, time: Time | None, term: Term, scope: Scope
) -> Time | None:
    if not ctx.timed[pred] and scope.time is not None:
        return None  # in a clause with a time it is the same at that time
    ctx.check_time(pred, time, term.span, f"write `{pred.name}@t` or `{pred.name}@(t-1)`")
    if time is None:
        return None
    if isinstance(time, AtLast | During):
        fail(
            "E205",
            f"`{time}` can only stand in observe and query",
            term.span,
            "write `@t`, `@(t-1)` or a number",
        )
    if scope.goal:
        return time
    if scope.time is None:
        fail(
            "E202",
            "the head has no time, but this part of its body has one",
            term.span,
            "give the head a time: `head@t :- …`",
        )
    if isinstance(time, At):
        if isinstance(scope.time, At):
            lag = scope.time.index - time.index
            if lag < 0:
                fail(
                    "E201",
                    f"this is about the future: the head is at step {scope.time.index}",
                    term.span,
                    f"let the head be at step {time.index} or later",
                )
            # Step 0 is kept as it is; others are counted back to.
            return lagged(lag, term.span) if time.index or not lag else time
        if time.index > 0:
            fail(
                "E201",
                f"before step {time.index} this is about the future",
                term.span,
                f"let the head be at step {time.index}, or carry the "
                "value along in a predicate of its own",
            )
    if isinstance(time, Now) and isinstance(scope.time, At) and time.lag > scope.time.index:
        fail(
            "E207",
            f"the head is at step {scope.time.index}; there is no step {time.lag} before it",
            term.span,
            f"let the head be at step {time.lag} or later, or at t",
        )
    return time


def fetch(ctx: Context, term: Term, scope: Scope, prelude: list[Literal]) -> Term:
    """Replace variables that are their own value by fresh ones, fetched beforehand."""
    match term:
        case Struct("$param", (name, start, *index)):
            # The name of a parameter is not a value, even where a variable has it too.
            keys = (fetch(ctx, i, scope, prelude) for i in index)
            return Struct("$param", (name, start, *keys), term.span)
        case Struct("@", (Struct(name, args), when)) if name in ctx.directives.tensors:
            time = read_time(when)
            if not isinstance(time, Now | At) or (isinstance(time, At) and time.index):
                fail(
                    "E207",
                    "a tensor is read at t, at an earlier step or at 0",
                    term.span,
                    f"write `{name}@t`, `{name}@(t-1)` or `{name}@0`",
                )
            inner = Struct(name, tuple(fetch(ctx, a, scope, prelude) for a in args), term.span)
            lag = time.lag if isinstance(time, Now) else 0
            now = Struct("-", (Struct("t"), Num(lag))) if lag else Struct("t")
            return Struct("@", (inner, Num(0) if isinstance(time, At) else now), term.span)
        case Struct("@", (Struct(name, args) as inner, when)):
            pred = Pred(name, len(args))
            if pred in ctx.self_valued:
                return _value_of(ctx, inner, read_time(when), term, scope, prelude)
            if not any(p.name == name for p in ctx.defined):
                ctx.unknown(pred, inner.span)
            fail(
                "E308",
                f"{name} is not its own value, so it cannot stand here",
                term.span,
                f"fetch its value in the body first: `{name}(V)@t, …`",
            )
        case Struct("@", _):
            fail(
                "E103",
                "only a predicate can have a time",
                term.span,
                "write the time behind a name: `temperature@t`",
            )
        case Struct("<>", (_, _)):
            fail(
                "E105",
                "an aggregate stands only in the head of a rule",
                term.span,
                "in a body write `aggregate_all(min(X), goal(X), M)`",
            )
        case Struct(name, args) if Pred(name, len(args)) in ctx.self_valued:
            return _value_of(ctx, term, None, term, scope, prelude)
    return mapped(term, lambda t: fetch(ctx, t, scope, prelude))


def _value_of(
    ctx: Context,
    inner: Struct,
    time: Time | None,
    whole: Term,
    scope: Scope,
    prelude: list[Literal],
) -> Var:
    pred = Pred(inner.functor, inner.arity)
    time = _body_time(ctx, pred, time, whole, scope)
    ctx.counter += 1
    fresh = Var(f"_v{OURS}{ctx.counter}", whole.span)
    keys = tuple(fetch(ctx, a, scope, prelude) for a in inner.args)
    prelude.append(Call(Atom(pred, (*keys, fresh), time, whole.span), whole.span))
    return fresh
