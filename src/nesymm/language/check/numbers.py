"""Where a number, a probability or a parameter is needed."""

from __future__ import annotations

from collections import Counter

from nesymm.errors import fail
from nesymm.language import builtins
from nesymm.language.check.context import Context, Scope
from nesymm.language.check.terms import (
    OURS,
    arguments_shown,
    constant_value,
    is_struct,
    nearest,
    verbatim,
)
from nesymm.language.program import (
    Pred,
)
from nesymm.language.terms import (
    ListTerm,
    Num,
    Str,
    Struct,
    Term,
    Var,
    mapped,
    variables,
)


def check_builtin(ctx: Context, written: Struct, args: tuple[Term, ...], scope: Scope) -> None:
    """Report what can never be compared or computed with, before anything runs."""
    name = written.functor
    numeric: list[Term]
    inputs: list[Term]
    if name in ("=:=", "=\\="):
        if all(isinstance(a, Struct) and not a.args and verbatim(a) for a in args):
            check_number(ctx, args[0], scope)
        numeric = [a for a in args if isinstance(a, Struct) and a.args]
        inputs = [*(a for a in args if isinstance(a, Var)), *numeric]
    elif name in builtins.COMPARISONS:
        numeric = inputs = list(args)
    elif name == "is":
        numeric = inputs = [args[1]]
    elif name == "between":
        endless = isinstance(args[1], Struct) and args[1].functor in ("inf", "infinite")
        numeric = [args[0], *(() if endless else (args[1],)), args[2]]
        inputs = list(args[:2])
    else:
        for term in args:
            if ctx.is_network(term) and isinstance(term, Struct) and term.args:
                fail(
                    "E103",
                    f"`{name}` does not evaluate the network {term.functor}",
                    term.span,
                    f"compute first: `Y is {term.functor}(X)`, or `[A, B] is …` for two outputs",
                )
        return
    for term in numeric:
        check_number(ctx, term, scope)
    here = Counter(v.name for v in variables(written))
    for term in inputs:
        for variable in variables(term):
            count = ctx.mentioned.get(variable.name, 0)
            if count and count == here[variable.name]:
                shown = "this variable" if OURS in variable.name else variable.name
                what = "arithmetic" if name in ("is", "between") else "comparison"
                fail(
                    "E302",
                    f"{shown} has no value in this {what}: nothing else in the clause mentions it",
                    variable.span,
                    "bind it by a literal to the left",
                )


def check_number(ctx: Context, term: Term, scope: Scope) -> None:
    """Refuse a term that can never be a number. Lists and texts are the evaluator's."""
    match term:
        case Struct(name, ()):
            _check_number_name(ctx, term, name, scope)
        case Struct("$param" | "t") | Struct("@"):
            return
        case Struct(name) if name in ctx.directives.networks:
            return
        case Struct(name, args) if (name, len(args)) in builtins.FUNCTIONS:
            for arg in args:
                check_number(ctx, arg, scope)
        case Struct(name, args) if Pred(name, len(args)) in ctx.self_valued:
            return
        case Struct(name, args):
            _not_arithmetic(ctx, term, name, len(args))
        case ListTerm():
            fail(
                "E308",
                "a number is needed here, not a list",
                term.span,
                "take an item out with member/2 or nth1/3, or use length/2 or sum_list/2",
            )
        case Str():
            fail(
                "E308",
                f'a number is needed here, not the text "{term.value}"',
                term.span,
                "compare terms with `=` and `\\=`",
            )


def _check_number_name(ctx: Context, term: Struct, name: str, scope: Scope) -> None:
    if name in builtins.FUNCTION_CONSTANTS or name in ctx.broken:
        return
    if Pred(name, 0) in ctx.self_valued:
        return
    if name == "t":
        if scope.time is None and not scope.goal:
            fail(
                "E202",
                "`t` is the current step, but the head has no time",
                term.span,
                "give the head a time: `head@t :- …`",
            )
        return
    if name in ctx.directives.tensors:
        fail(
            "E308",
            f"a number is needed here, and {name} is a tensor",
            term.span,
            f"pass it to a network: `Y is net({name})`",
        )
    values = [p for p in ctx.drawn if p.name == name]
    if values and values[0].arity:
        shown = ", ".join("V" if i == 0 else "_" for i in range(values[0].arity))
        fail(
            "E308",
            f"a number is needed here, not the predicate {name}",
            term.span,
            f"fetch its value first: `{name}({shown}), …`",
        )
    if not verbatim(term):
        fail(
            "E308",
            f"a number is needed here, and this constant is `{name}`",
            term.span,
            "give the constant a number",
        )
    known = {p.name for p in ctx.self_valued} | set(ctx.directives.constants)
    near = nearest(name, known | set(builtins.FUNCTION_CONSTANTS))
    fail(
        "E308",
        f"a number is needed here, not the term {name}",
        term.span,
        f"did you mean {near}?"
        if near
        else f"a constant is declared with `:- const({name}, …).`, a variable begins upper-case",
    )


def _not_arithmetic(ctx: Context, term: Struct, name: str, arity: int) -> None:
    if name in ctx.broken:
        return
    arities = sorted(n for f, n in builtins.FUNCTIONS if f == name)
    if arities:
        fail(
            "E102",
            f"{name} takes {arguments_shown(arities)}, this has {arity}",
            term.span,
            f"write {name}/{arities[0]} with all its arguments",
        )
    if Pred(name, arity) in ctx.defined:
        fail(
            "E308",
            f"{name}/{arity} is a predicate; it has no value to compute with",
            term.span,
            f"call it in the body first: `{name}(…, V), …`",
        )
    functions = {f for f, _ in builtins.FUNCTIONS} | set(ctx.directives.networks)
    near = nearest(name, functions)
    fail(
        "E308",
        f"there is no function {name}/{arity}",
        term.span,
        f"did you mean {near}?"
        if near
        else f"declare a network with `:- network({name}, 1).`, or compute the value in the body",
    )


def check_probability(ctx: Context, term: Term) -> float:
    """The value of a constant probability, checked; 0 for what is computed later."""
    if is_struct(term, "t") and term.arity >= 1:
        first = term.args[0]
        return check_probability(ctx, first) if isinstance(first, Num) else 0.0
    value = constant_value(term)
    if value is None:
        return 0.0
    if not 0 <= value <= 1:
        ctx.report(
            "E111",
            f"a probability lies between 0 and 1, this one is {value:g}",
            term.span,
            "write it as a fraction: 30 % is `0.3`",
        )
        return 0.0
    return value


def name_parameters(ctx: Context, term: Term, owner: Pred) -> Term:
    """Give every `t(_)` its name: the predicate's, numbered from the second one on.

    Names follow the order of the text, so they stay when clauses are added behind.
    """
    match term:
        case Struct("t", (initial, *index)):
            if not isinstance(initial, Num | Var):
                fail(
                    "E308",
                    "a learnable parameter starts at a number, or at `_`",
                    initial.span,
                    "write `t(_)` or `t(0.3)`; an index comes second: `t(_, E)`",
                )
            own = owner.name.partition(OURS)[0]
            count = ctx.parameters[own] = ctx.parameters.get(own, 0) + 1
            name = own if count == 1 else f"{own}.{count}"
            start = initial if isinstance(initial, Num) else Struct("none")
            return Struct("$param", (Struct(name), start, *index), term.span)
    return mapped(term, lambda t: name_parameters(ctx, t, owner))
