"""The heads of clauses, and the predicates that they define."""

from __future__ import annotations

from typing import NoReturn

from nesymm.errors import ProgramError, fail
from nesymm.language import builtins
from nesymm.language.check.context import Context, Scope, refuse
from nesymm.language.check.terms import (
    alternatives,
    arguments_shown,
    is_op,
    is_struct,
    predicate_name,
    replace_variable,
    split_clause,
)
from nesymm.language.program import (
    AtLast,
    Atom,
    Now,
    Pred,
    Time,
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

GOAL_STATEMENTS = {"query": (1,), "evidence": (1, 2), "observe": (1, 2)}
_GOAL_EXAMPLES = {
    "query": "query(rain@t).",
    "evidence": "evidence(rain, true).",
    "observe": "observe(rain@t).",
}
_NOT_HEADS = ("::", "~", ",", ";", ":-", "@", ":", "..", "<>")


def declare(ctx: Context, statement: Term) -> None:
    """Note which predicates a clause defines, before any body is read."""
    head, body = split_clause(statement)
    try:
        _declare_head(ctx, head, body)
    except ProgramError:
        for option in alternatives(head):
            name = predicate_name(option)
            if name is not None:
                ctx.broken.add(name)
        raise


def _declare_head(ctx: Context, head: Term, body: Term | None) -> None:
    if is_op(head, "~", 2):
        left, family = head.args
        if guided(left) is not None:
            return
        pred, time, args = read_head(ctx, left)
        drawn = drawn_positions(args, family, body)
        if not drawn and not is_struct(family, "bernoulli"):
            ctx.self_valued.add(pred)
        if drawn or pred in ctx.self_valued:
            ctx.drawn.add(pred)
        ctx.define(pred, time is not None, left.span)
        return
    for option in alternatives(head):
        atom = option
        if is_op(option, "::", 2):
            annotation, atom = option.args
            _declare_network(ctx, annotation)
        pred, time, _ = read_head(ctx, atom)
        ctx.define(pred, time is not None, atom.span)


def guided(head: Term) -> Term | None:
    """What a guide is for, `guide(x@t)` or `guide(x)@t`; None where the head is no guide's."""
    if is_op(head, "@", 2):
        inner, time = head.args
        target = guided(inner)
        if target is None:
            return None
        if is_op(target, "@", 2):
            fail("E207", "this guide has two times", head.span, "write one: `guide(x@t) ~ …`")
        return Struct("@", (target, time), head.span)
    return head.args[0] if is_struct(head, "guide") and head.arity == 1 else None


def _declare_network(ctx: Context, annotation: Term) -> None:
    """`nn(net, …)` declares its network, with as many outputs as there are values."""
    if isinstance(annotation, Struct) and annotation.functor == "nn" and annotation.args:
        net = annotation.args[0]
        values = annotation.args[3] if annotation.arity == 4 else None
        count = len(values.items) if isinstance(values, ListTerm) else 1
        if isinstance(net, Struct) and not net.args:
            ctx.directives.networks.setdefault(net.functor, (count,))


def read_head(ctx: Context, written: Term) -> tuple[Pred, Time | None, tuple[Term, ...]]:
    """Predicate, time and arguments of a head; refuses what cannot be one."""
    bare, pred, time, args = ctx.read_atom(
        written,
        lambda when: Now(0) if isinstance(when, Var) else read_time(when),
        "a head must be a predicate",
        "begin it with a lower-case name: `player(P) :- …`",
    )
    _check_name(bare, written)
    if isinstance(time, AtLast):
        fail(
            "E205",
            "`T`, the last step, can only be named in observe and query",
            written.span,
            "write `@t` for every step or a number",
        )
    if isinstance(time, Now) and time.lag:
        fail(
            "E207",
            "a head is at the current step `t`, not at an earlier one",
            written.span,
            "shift the whole clause: `head@t :- body@(t-1)`",
        )
    if pred in ctx.directives.inputs:
        fail(
            "E104",
            f"{pred} is an input: its values come from data, a clause cannot define it too",
            written.span,
            "choose another name, and use the input in the body: `place(X) :- start(X).`",
        )
    return pred, time, args


def _check_name(term: Struct, written: Term) -> None:
    """Refuses heads whose name means something else."""
    name = term.functor
    if name not in builtins.REFUSED_UNDEFINED:
        refuse(term)
    if name == "not" and term.arity == 1:
        fail(
            "E103",
            "what is negated here cannot be a head",
            written.span,
            "negate a predicate: `\\+a :- c.` or `0.5::\\+a :- c.`",
        )
    known = builtins.PREDICATES.get(name) or builtins.GOALS.get(name)
    if known and term.arity in known and name not in builtins.LIBRARY:
        fail(
            "E104",
            f"{name}/{term.arity} is built in and cannot be defined",
            term.span,
            "choose another name",
        )
    if name in _NOT_HEADS:
        fail(
            "E103",
            f"a head cannot be built with `{name}`",
            term.span,
            "a clause is `head.`, `head :- body.`, `p::head :- body.` or "
            "`head ~ family(…) :- body.`",
        )
    if name in GOAL_STATEMENTS:
        if term.arity not in GOAL_STATEMENTS[name]:
            fail(
                "E102",
                f"{name} takes {arguments_shown(GOAL_STATEMENTS[name])}, this has {term.arity}",
                term.span,
                f"for example `{_GOAL_EXAMPLES[name]}`",
            )
        if is_op(written, "@", 2):
            fail(
                "E103",
                f"the time stands inside the brackets of {name}",
                written.span,
                f"for example `{_GOAL_EXAMPLES[name]}`",
            )
        fail(
            "E103",
            f"{name} is a statement of its own, not a predicate",
            written.span,
            f"for example `{_GOAL_EXAMPLES[name]}`",
        )


def drawn_positions(args: tuple[Term, ...], family: Term, body: Term | None) -> tuple[int, ...]:
    """Positions of head variables that neither the body nor the parameters mention."""
    elsewhere = {v.name for v in variables(family)}
    if body is not None:
        elsewhere |= {v.name for v in variables(body)}
    drawn: list[int] = []
    names: set[str] = set()
    for i, arg in enumerate(args):
        if not isinstance(arg, Var) or arg.name in elsewhere:
            continue
        if arg.name != "_" and arg.name in names:
            fail(
                "E103",
                f"the drawn variable {arg.name} stands twice in the head",
                arg.span,
                "give each drawn argument its own name",
            )
        drawn.append(i)
        names.add(arg.name)
    return tuple(drawn)


def read_head_atom(ctx: Context, term: Term, scope: Scope) -> Atom:
    pred, time, args = read_head(ctx, term)
    if pred in ctx.self_valued:
        fail(
            "E103",
            f"{pred} is drawn with `~` and is its own value; a rule cannot define it too",
            term.span,
            f"give it a value argument: `{pred.name}(V) ~ …`",
        )
    for arg in args:
        check_head_argument(ctx, arg)
    scope.enter(time, time_variable(ctx, term))
    scope.owner = pred
    if scope.time_variable is not None:
        args = tuple(replace_variable(a, scope.time_variable, Struct("t")) for a in args)
    return Atom(pred, args, time, term.span)


def check_head_argument(ctx: Context, arg: Term) -> None:
    for part in subterms(arg):
        if not isinstance(part, Struct):
            continue
        if part.functor == "<>" and part.arity == 2:
            fail(
                "E105",
                "an aggregate stands only in the head of a rule, as an argument of its own",
                part.span,
                "write `best(X, min<C>) :- cost(X, C).`",
            )
        if part.functor == "@":
            fail(
                "E103",
                "the time of a head stands behind its arguments",
                part.span,
                "write `p(X)@t`",
            )
        if Pred(part.functor, part.arity) in ctx.self_valued:
            name_for_value(part)


def name_for_value(part: Struct) -> NoReturn:
    shown = part.functor if not part.args else f"{part.functor}(…)"
    fail(
        "E308",
        f"{shown} is drawn with `~` and stands for its value; it cannot be an argument here",
        part.span,
        f"fetch the value in the body: `p(V) :- V is {shown}.`",
    )


def time_variable(ctx: Context, term: Term) -> str | None:
    if isinstance(term, Struct) and not is_op(term, "@", 2):
        position = ctx.time_argument(term)
        variable = None if position is None else term.args[position]
        if isinstance(variable, Var):
            return variable.name
    return None
