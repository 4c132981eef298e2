"""What is no mistake but may surprise: notes on a checked program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nesymm.errors import Diagnostic, Span
from nesymm.language.builtins import GOALS, PREDICATES
from nesymm.language.program import (
    At,
    Atom,
    Body,
    Builtin,
    Call,
    CheckedProgram,
    Collect,
    Disjunction,
    Literal,
    Negation,
    Now,
    Pred,
)
from nesymm.language.terms import Struct, subterms
from nesymm.language.values import heads


def notes(program: CheckedProgram) -> list[Diagnostic]:
    """Negations of an earlier step whose clause says nothing of the first steps.

    A clause that looks back applies only where there is an earlier step. Where nothing but a
    negation looks back, one may expect it to hold at the start, since nothing came before. A
    clause that speaks of the time itself, or a predicate that has a clause for step 0, shows
    that the start was thought of.
    """
    out = _own_definitions(program)
    started = {h.pred for c in program.clauses for h in heads(c) if h.time == At(0)}
    for clause in program.clauses:
        (head, *_) = heads(clause)
        if head.time != Now(0) or head.pred in started or _speaks_of_time(clause.body):
            continue
        if any(_lags(x) for x in clause.body if not isinstance(x, Negation)):
            continue
        for literal in clause.body:
            found = max(_lags(literal), default=(0, None), key=lambda x: x[0])
            if isinstance(literal, Negation) and found[0]:
                out.append(_note(head.pred, literal.span, *found))
    return out


def _own_definitions(program: CheckedProgram) -> list[Diagnostic]:
    """Definitions that take the place of what is built in."""
    found: dict[Pred, Span | None] = {}
    for clause in program.clauses:
        for head in heads(clause):
            name, arity = head.pred.name, head.pred.arity
            taken = arity in PREDICATES.get(name, GOALS.get(name, ()))
            if taken and clause.span is not None:
                found.setdefault(head.pred, clause.span)
    return [
        Diagnostic(
            "N002",
            f"{pred} is defined here, so the one that is built in is not used",
            span,
            "remove these clauses to have what is built in, or choose another name",
            level="note",
        )
        for pred, span in found.items()
    ]


def _note(pred: Pred, span: Span | None, lag: int, atom: Atom | None) -> Diagnostic:
    steps = "step 0" if lag == 1 else f"steps 0 to {lag - 1}"
    first = pred.name + ("(…)" if pred.arity else "")
    looked = f"{atom.pred.name}{atom.time}" if atom is not None else "it"
    return Diagnostic(
        "N001",
        f"this clause of {pred} does not apply at {steps}, where there is no {looked}: the "
        "negation does not hold there either",
        span,
        f"if {pred.name} should start true, add a clause for step 0: `{first}@0.`; if not, say "
        f"so with `t >= {lag}` in the body",
        level="note",
    )


def _lags(literal: Literal) -> list[tuple[int, Atom]]:
    """The earlier steps that a literal looks at, inside negations too."""
    return [
        (atom.time.lag, atom)
        for atom in _atoms([literal])
        if isinstance(atom.time, Now) and atom.time.lag > 0
    ]


def _atoms(body: Iterable[Literal]) -> Iterator[Atom]:
    for literal in body:
        match literal:
            case Call(atom):
                yield atom
            case Negation(inner) | Collect(body=inner):
                yield from _atoms(inner)
            case Disjunction(bodies):
                for inner in bodies:
                    yield from _atoms(inner)


def _speaks_of_time(body: Body) -> bool:
    """Whether a comparison mentions `t`."""
    now = Struct("t", ())
    return any(now in subterms(a) for x in body if isinstance(x, Builtin) for a in x.args)
