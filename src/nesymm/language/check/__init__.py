"""From terms to meaning: classify every statement, report every mistake at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nesymm.errors import Diagnostic, ProgramError
from nesymm.language.check.clauses import read_clause
from nesymm.language.check.context import Context
from nesymm.language.check.goals import is_goal_statement, read_goal
from nesymm.language.check.heads import (
    declare,
)
from nesymm.language.check.negated_heads import without_negated_heads
from nesymm.language.check.qualified import qualified
from nesymm.language.check.terms import split_clause
from nesymm.language.check.unevaluated import unevaluated
from nesymm.language.directives import read_directives
from nesymm.language.library import library_clauses
from nesymm.language.program import (
    CheckedProgram,
    Clause,
    Guide,
    Observation,
    Query,
)
from nesymm.language.terms import (
    Program,
    Struct,
    Term,
)
from nesymm.language.values import value_positions


def check(
    programs: Program | Sequence[Program], constants: Mapping[str, object] | None = None
) -> CheckedProgram:
    """Check one program, or a program and its extensions, as a whole."""
    parts = [programs] if isinstance(programs, Program) else list(programs)
    errors: list[Diagnostic] = []
    commands: list[Term] = []
    others: list[Term] = []
    for statement in (s for part in parts for s in part.statements):
        if isinstance(statement, Struct) and statement.functor == ":-" and statement.arity == 1:
            commands.append(statement.args[0])
        else:
            others.append(statement)
    directives = read_directives(commands, constants or {}, errors)
    ctx = Context(directives, errors)
    plain = _rewritten(ctx, [directives.fill(s) for s in others])
    goals = [s for s in plain if is_goal_statement(s)]
    clauses, guides = _clauses(ctx, [s for s in plain if not is_goal_statement(s)])
    timed = frozenset(p for p, is_timed in ctx.timed.items() if is_timed)
    ctx.values = value_positions(clauses, directives.inputs, directives.fluents, timed)
    asked = [ctx.guard(read_goal, ctx, s) for s in goals]
    if not errors:
        asks = [g for g in asked if isinstance(g, Observation | Query)]
        errors.extend(unevaluated(clauses, guides, asks, directives.inputs, timed))
    if errors:
        raise ProgramError(*_in_order(errors, parts))
    return CheckedProgram(
        clauses=(*clauses, *ctx.asked_builtins),
        inputs=directives.inputs,
        tensors=directives.tensors,
        networks=directives.networks,
        domains=directives.domains,
        fluents=directives.fluents,
        constants=directives.constants,
        timed=timed,
        self_valued=frozenset(ctx.self_valued),
        observations=tuple(goal for goal in asked if isinstance(goal, Observation)),
        queries=tuple(goal for goal in asked if isinstance(goal, Query)),
        guides=tuple(guides),
        sources=tuple(p.source for p in parts if p.source is not None),
    )


def _rewritten(ctx: Context, statements: list[Term]) -> list[Term]:
    """The statements with scopes and negated heads spelt out, and what they use of libraries."""
    plain = without_negated_heads(ctx, qualified(ctx, statements))
    defined = {
        (head.functor, head.arity)
        for statement in plain
        if isinstance(head := split_clause(statement)[0], Struct)
    }
    return [*plain, *library_clauses(plain, defined)]


def _clauses(ctx: Context, statements: Sequence[Term]) -> tuple[list[Clause], list[Guide]]:
    """Read all clauses, once it is known what they define."""
    for pred, given in ctx.directives.inputs.items():
        ctx.define(pred, given.timed, given.span)
    for statement in statements:
        ctx.guard(declare, ctx, statement)
    for pred, span in ctx.directives.mentions:
        ctx.guard(ctx.known, pred, span)
    found = [ctx.guard(read_clause, ctx, s) for s in statements]
    guides = [f for f in found if isinstance(f, Guide)]
    return [f for f in found if f is not None and not isinstance(f, Guide)], guides


def _in_order(errors: Sequence[Diagnostic], parts: Sequence[Program]) -> list[Diagnostic]:
    """Each mistake once, in the order of the text."""
    sources = [part.source for part in parts]

    def place(d: Diagnostic) -> tuple[int, int]:
        if d.span is None:
            return -1, -1
        return (sources.index(d.span.source) if d.span.source in sources else 0), d.span.start

    unique = {(d.code, d.message, place(d)): d for d in errors}
    return sorted(unique.values(), key=place)


__all__ = ["check"]
