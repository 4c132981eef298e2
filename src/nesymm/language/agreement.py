"""Why clauses that disagree have to agree: where an argument became a value, and the cure."""

from __future__ import annotations

from nesymm.errors import Span
from nesymm.language.program import Call, CheckedProgram, Clause, Draw, Pred
from nesymm.language.terms import Term, Var, variables
from nesymm.language.values import Values, heads


def agreement(program: CheckedProgram, values: Values, pred: Pred) -> str:
    """What a user has to know where two clauses give a predicate different values."""
    cure = "let their bodies exclude each other"
    found = [(i, *_origin(program, values, pred, i)) for i in sorted(values[pred])]
    found = [(i, argument, source) for i, argument, source in found if source]
    # What is copied was hardly meant to be a value, what is drawn is one in any case.
    loose = {i for i, _, source in found if source.startswith("copied")}
    loose = loose or {i for i, _, source in found if source.startswith("computed")}
    if loose:
        kept = {i for i, *_ in found} - loose
        kinds = ", ".join("value" if i in kept else "key" for i in range(pred.arity))
        cure += f", or declare `:- fluent({pred.name}({kinds})).`, so that several can hold at once"
    reasons = [f"{argument} is a value, {source}" for _, argument, source in found]
    return "; ".join([*reasons, cure])


def _origin(program: CheckedProgram, values: Values, pred: Pred, position: int) -> tuple[str, str]:
    """The name of an argument, and what made it a value; nothing where the program says so."""
    if pred in program.fluents or position >= pred.arity:
        return "", ""
    for clause in program.clauses:
        for head in heads(clause):
            if head.pred != pred:
                continue
            if isinstance(clause, Draw) and position in clause.drawn:
                source: str | None = "drawn"
            else:
                source = _source(program, values, clause, pred, head.args[position])
            if source is not None:
                return _named(head.args[position], position), source + _place(clause.span)
    return "", ""


def _source(
    program: CheckedProgram, values: Values, clause: Clause, pred: Pred, arg: Term
) -> str | None:
    """Where the clause has an argument of its head from; None if it is no value there, or the
    clause only keeps it."""
    names = {v.name for v in variables(arg)}
    if not names:
        return None
    itself = False
    for literal in clause.body:
        if not isinstance(literal, Call):
            continue
        atom = literal.atom
        for i in values.get(atom.pred, ()):
            if i >= len(atom.args) or names.isdisjoint(v.name for v in variables(atom.args[i])):
                continue
            if atom.pred in program.inputs:
                return f"copied from the input {atom.pred}"
            if atom.pred != pred:
                return f"copied from the value of {atom.pred}"
            itself = True
    if itself and isinstance(arg, Var):
        return None
    bound = {v.name for c in clause.body if isinstance(c, Call) for a in c.atom.args
             for v in variables(a)}  # fmt: skip
    return "computed" if not isinstance(arg, Var) or not names <= bound else None


def _named(arg: Term, position: int) -> str:
    known = isinstance(arg, Var) and arg.name[0] != "_"
    return f"the argument {arg.name if known else position + 1}"  # type: ignore[union-attr]


def _place(span: Span | None) -> str:
    return f" ({span.source.name}:{span.line}:{span.column})" if span is not None else ""


__all__ = ["agreement"]
