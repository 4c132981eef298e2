"""The declared domains of arguments, and the types and keys of inputs."""

from __future__ import annotations

from nesymm.errors import fail
from nesymm.ground.evaluate import Evaluator
from nesymm.ir.expr import Axis
from nesymm.ir.terms import compile_term
from nesymm.ir.types import Enum, Int, Real, Type, is_finite
from nesymm.language.program import CheckedProgram, Input, Pred
from nesymm.language.terms import ListTerm, Struct, Term

Domains = dict[tuple[Pred, int], Type]


def declared_domains(program: CheckedProgram) -> Domains:
    return {place: domain_type(term) for place, term in program.domains.items()}


def input_types(program: CheckedProgram, declared: Domains) -> dict[Pred, tuple[Type, ...]]:
    """The types of the columns of each input: real numbers where nothing else is declared."""
    return {
        pred: tuple(
            declared.get((pred, i)) or (Real() if domain is None else domain_type(domain))
            for i, domain in enumerate(given.domains)
            if i not in given.keys
        )
        for pred, given in program.inputs.items()
    }


def input_axes(given: Input) -> tuple[Axis, ...]:
    """The axes that the keys of an input run along."""
    axes = []
    for i in given.keys:
        domain = given.domains[i]
        assert domain is not None
        type_ = domain_type(domain)
        if not isinstance(type_, Int | Enum) or not is_finite(type_):
            fail(
                "E106",
                f"the domain of a key has finitely many values, and this is {type_}",
                domain.span,
                "write `1..12` or `[up, down]`",
            )
        axes.append(Axis(f"{given.pred.name}.{i + 1}", type_))
    return tuple(axes)


def domain_type(term: Term) -> Type:
    """A domain as written: `0..12`, `[a, b]`, `int`, `real`."""
    match term:
        case Struct("..", bounds):
            evaluator = Evaluator({}, {})
            lo, hi = (evaluator.number(compile_term(b, {}, lambda: -1), b.span) for b in bounds)
            if type(lo) is int and type(hi) is int and lo <= hi:
                return Int(lo, hi)
            if isinstance(lo, float) or isinstance(hi, float):
                return Real(float(lo), float(hi))
        case Struct("int", ()):
            return Int()
        case Struct("real", ()):
            return Real()
        case ListTerm(items, None) if items:
            values = tuple(compile_term(i, {}, lambda: -1) for i in items)
            if all(type(v) is int for v in values) and list(values) == list(
                range(values[0], values[0] + len(values))
            ):
                return Int(values[0], values[-1])
            if all(type(v) is str for v in values):
                return Enum(values)
    fail("E106", "this is not a domain", term.span, "write `0..12`, `[up, down]`, int or real")
