"""Facts, rules, choices, draws, guides and neural annotations."""

from __future__ import annotations

from collections import Counter

from nesymm.errors import fail
from nesymm.language import builtins
from nesymm.language.check.bodies import fetch, read_body
from nesymm.language.check.context import Context, Scope, retime
from nesymm.language.check.heads import (
    check_head_argument,
    drawn_positions,
    guided,
    read_head,
    read_head_atom,
    time_variable,
)
from nesymm.language.check.numbers import check_number, check_probability, name_parameters
from nesymm.language.check.terms import (
    HIDDEN,
    OURS,
    alternatives,
    counted,
    is_op,
    is_struct,
    nearest,
    split_clause,
)
from nesymm.language.families import FAMILIES
from nesymm.language.program import (
    Atom,
    Body,
    Builtin,
    Choice,
    Clause,
    Collect,
    Draw,
    Guide,
    Literal,
    Rule,
)
from nesymm.language.terms import ListTerm, Struct, Term, Var, mapped, variables


def read_clause(ctx: Context, statement: Term) -> Clause | Guide | None:
    statement = _name_anonymous(ctx, statement)
    ctx.mentioned = Counter(v.name for v in variables(statement))
    head, body = split_clause(statement)
    if is_op(head, "~", 2):
        return _read_draw(ctx, statement, head.args[0], head.args[1], body)
    if is_op(head, "::", 2) and is_struct(head.args[0], "nn"):
        return _read_neural(ctx, statement, head.args[0], head.args[1], body)
    if is_op(head, "::", 2) or is_op(head, ";"):
        return _read_choice(ctx, statement, head, body)
    scope = Scope()
    bare = head.args[0] if is_op(head, "@", 2) else head
    if isinstance(bare, Struct) and any(is_op(a, "<>", 2) for a in bare.args):
        atom, body_out = _read_aggregate_head(ctx, head, bare, body, scope)
        return Rule(atom, body_out, statement.span)
    atom = read_head_atom(ctx, head, scope)
    return Rule(atom, read_body(ctx, body, scope), statement.span)


def _name_anonymous(ctx: Context, term: Term) -> Term:
    """Give every `_` a name: it tells random choices apart as any variable does."""
    match term:
        case Var("_"):
            ctx.counter += 1
            return Var(f"_{OURS}{ctx.counter}", term.span)
        case Struct("t", args) if args:
            return Struct("t", (args[0], *(_name_anonymous(ctx, a) for a in args[1:])), term.span)
    return mapped(term, lambda t: _name_anonymous(ctx, t))


def _read_choice(ctx: Context, statement: Term, head: Term, body: Term | None) -> Choice:
    options: list[tuple[Term, Atom]] = []
    total = 0.0
    scope = Scope()
    for option in alternatives(head):
        if not is_op(option, "::", 2):
            fail(
                "E103",
                "every alternative of a disjunction in a head needs a probability",
                option.span,
                "write `0.3::a; 0.7::b.`",
            )
        probability, written = option.args
        if is_struct(probability, "nn"):
            fail(
                "E106",
                "a neural annotation has one head",
                probability.span,
                "choose between values: `nn(net, [X], Y, [a, b]) :: kind(X, Y).`",
            )
        atom = read_head_atom(ctx, written, scope)
        total += check_probability(ctx, probability)
        check_number(ctx, retime(probability, scope), scope)
        options.append((name_parameters(ctx, probability, atom.pred), atom))
    if total > 1 + 1e-9:
        ctx.report(
            "E112",
            f"the probabilities of this disjunction add up to {total:g}",
            head.span,
            "let them add up to at most 1",
        )
    times = {atom.time for _, atom in options}
    if len(times) > 1:
        fail(
            "E204",
            "the alternatives of a disjunction must have the same time",
            head.span,
            "write one disjunction per time",
        )
    literals = read_body(ctx, body, scope)
    prelude: list[Literal] = []
    filled = []
    for probability, atom in options:
        probability = retime(probability, scope)
        filled.append((fetch(ctx, probability, scope, prelude), atom))
    return Choice(tuple(filled), (*literals, *prelude), statement.span)


def _read_draw(
    ctx: Context, statement: Term, head: Term, family: Term, body: Term | None
) -> Clause | Guide:
    scope = Scope()
    target = guided(head)
    if target is not None:
        return _read_guide(ctx, statement, target, family, body)
    pred, time, args = read_head(ctx, head)
    scope.enter(time, time_variable(ctx, head))
    family, params = _read_family(ctx, family, scope, "for example `normal(0, 1)`")
    if family.functor == "bernoulli":
        check_probability(ctx, params[0])
    for i, arg in enumerate(args):
        if i not in drawn_positions(args, family, body):
            check_head_argument(ctx, arg)
    scope.owner = pred
    literals = read_body(ctx, body, scope)
    prelude: list[Literal] = []
    params = tuple(fetch(ctx, name_parameters(ctx, p, pred), scope, prelude) for p in params)
    drawn = drawn_positions(args, family, body)
    if pred in ctx.self_valued:
        if drawn:
            fail(
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


def _read_family(
    ctx: Context, family: Term, scope: Scope, example: str
) -> tuple[Struct, tuple[Term, ...]]:
    """The family behind `~`, and its parameters."""
    if not isinstance(family, Struct):
        fail("E110", "after `~` stands a family of distributions", family.span, example)
    params = tuple(retime(p, scope) for p in family.args)
    _check_family(ctx, family, params)
    _check_parameters(ctx, family.functor, params, scope)
    return family, params


def _check_family(ctx: Context, family: Struct, params: tuple[Term, ...]) -> None:
    known = FAMILIES.get(family.functor)
    if known is None:
        near = nearest(family.functor, FAMILIES)
        fail(
            "E110",
            f"there is no family of distributions called {family.functor}",
            family.span,
            f"did you mean {near}?" if near else "the families are " + ", ".join(FAMILIES),
        )
    # One network may give all parameters, unless some must be known when compiling.
    neural = len(params) == 1 and ctx.is_network(params[0])
    if len(params) != len(known.params) and not (neural and known.from_network):
        fail(
            "E110",
            f"{family.functor} takes {counted(len(known.params), 'parameter')} "
            f"({', '.join(known.params)}), this has {len(params)}",
            family.span,
            f"for example `{known.example}`",
        )


def _check_parameters(ctx: Context, family: str, params: tuple[Term, ...], scope: Scope) -> None:
    """Report parameters that can never be what the family needs."""
    known = FAMILIES[family]
    if family == "multivariate_normal":
        return
    for name, param in zip(known.params, params, strict=False):
        if family != "categorical":
            if not isinstance(param, ListTerm):
                check_number(ctx, param, scope)
            continue
        neural = name == "probabilities" and ctx.is_network(param)
        if not isinstance(param, Var | ListTerm) and not neural:
            fail(
                "E110",
                f"the {name} of a categorical are a list",
                param.span,
                f"for example `{known.example}`",
            )


def _read_guide(
    ctx: Context, statement: Term, target: Term, family: Term, body: Term | None
) -> Guide:
    scope = Scope()
    pred, time, args = read_head(ctx, target)
    scope.enter(time, time_variable(ctx, target))
    matches = [p for p in ctx.defined if p.name == pred.name and p.arity >= pred.arity]
    if not matches:
        ctx.unknown(pred, target.span)
    found = pred if pred in matches else matches[0]
    if found not in ctx.drawn:
        fail(
            "E103",
            f"{found} is not drawn with `~`, so it needs no guide",
            target.span,
            "guide a variable that has a distribution: `x ~ normal(0, 1).`",
        )
    ctx.check_time(found, time, target.span, f"write `guide({pred.name}@t) ~ …`")
    family, params = _read_family(ctx, family, scope, "for example `normal(encoder(image))`")
    literals = read_body(ctx, body, scope)
    prelude: list[Literal] = []
    params = tuple(fetch(ctx, p, scope, prelude) for p in params)
    # The value may be written, `guide(x(V)) ~ …`, or left out.
    drawn = drawn_positions(args, family, body) if found == pred else ()
    args = tuple(a for i, a in enumerate(args) if i not in drawn)
    atom = Atom(found, args, time, target.span)
    return Guide(atom, family.functor, params, (*literals, *prelude), statement.span)


def _read_neural(
    ctx: Context, statement: Term, nn: Term, head: Term, body: Term | None
) -> Clause | Guide:
    """DeepProbLog's `nn(net, [In], Out, [values]) :: h`."""
    assert isinstance(nn, Struct)
    if not 2 <= nn.arity <= 4 or not isinstance(nn.args[0], Struct):
        fail(
            "E106",
            "a neural annotation is nn(network, [inputs], Output, [values])",
            nn.span,
            "for example `nn(net, [X], Y, [0, 1]) :: digit(X, Y).`",
        )
    net, inputs = nn.args[0], nn.args[1]
    if not isinstance(inputs, ListTerm):
        fail("E106", "the inputs of a network are a list", inputs.span, "write `[X]`")
    call = Struct(net.functor, inputs.items, nn.span)
    if nn.arity == 4:
        domain = nn.args[3]
        if not isinstance(domain, ListTerm) or not domain.items:
            fail(
                "E106",
                "the values a network chooses from are a list",
                domain.span,
                "for example `[0, 1, 2]`",
            )
        if not isinstance(nn.args[2], Var):
            fail(
                "E106",
                "the output of a neural annotation is a variable",
                nn.args[2].span,
                "write `nn(net, [X], Y, [0, 1]) :: digit(X, Y).`",
            )
        family = Struct("categorical", (call, domain), nn.span)
        return _read_draw(ctx, statement, head, family, body)
    if nn.arity == 3:
        scope = Scope()
        atom = read_head_atom(ctx, head, scope)
        literals = read_body(ctx, body, scope)
        compute = Builtin("is", (nn.args[2], call), nn.span)
        return Rule(atom, (*literals, compute), statement.span)
    probability = Struct("::", (call, head), statement.span)
    return _read_choice(ctx, statement, probability, body)


def _read_aggregate_head(
    ctx: Context, written: Term, head: Struct, body: Term | None, scope: Scope
) -> tuple[Atom, Body]:
    """ProbLog's `p(X, min<Y>) :- body`: one result per binding of the other arguments."""
    found = [i for i, a in enumerate(head.args) if is_op(a, "<>", 2)]
    if len(found) > 1 or body is None:
        fail(
            "E105",
            "a head takes one aggregate and needs a body",
            written.span,
            "write one clause per aggregate",
        )
    aggregate = head.args[found[0]]
    assert isinstance(aggregate, Struct)
    kind = aggregate.args[0]
    if not isinstance(kind, Struct) or kind.functor not in builtins.AGGREGATES:
        fail(
            "E105",
            "this aggregate is not known",
            aggregate.span,
            "the aggregates are " + ", ".join(sorted(builtins.AGGREGATES)),
        )
    result = Var(f"_aggregate{OURS}", aggregate.span)
    args = tuple(result if i == found[0] else a for i, a in enumerate(head.args))
    plain: Term = Struct(head.functor, args, head.span)
    if is_op(written, "@", 2):
        plain = Struct("@", (plain, written.args[1]), written.span)
    atom = read_head_atom(ctx, plain, scope)
    groups = {v.name for a in atom.args if a is not result for v in variables(a)}
    inner = read_body(ctx, body, scope)
    prelude: list[Literal] = []
    template = fetch(ctx, retime(aggregate.args[1], scope), scope, prelude)
    collect = Collect(
        kind.functor,
        template,
        (*inner, *prelude),
        result,
        tuple(sorted(groups)),
        aggregate.span,
    )
    return atom, (collect,)
