"""Directives: `:- const`, `:- input`, `:- network`, `:- domain`, `:- fluent`, `:- time`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import NoReturn

from nesymm.errors import Diagnostic, NesymmError, ProgramError, Span, fail
from nesymm.language.builtins import REFUSED_DIRECTIVES, REFUSED_LIBRARIES
from nesymm.language.program import Input, Pred
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var, mapped

_FORMS = {
    "const": "`:- const(n, 10).`",
    "input": "`:- input(action(A)@t, [up, down]).`, `:- input(start(X, Y)).` or `:- input(image).`",
    "network": "`:- network(policy, 9).`",
    "domain": "`:- domain(hp/1, 1, 0..12).`",
    "fluent": "`:- fluent(visited(key, key)).`",
    "time": "`:- time(agent/3, 3).`",
    "use_module": "`:- use_module(library(lists)).`",
    "unknown": "`:- unknown(fail).`",
    "consult": "`:- consult('rules.pl').`",
    "csv_load": "`:- csv_load('edges.csv', edge).`",
}
_LIBRARIES = {"lists", "aggregate", "apply", "db"}
# Arguments that are goals: a name there is a predicate, not a constant.
GOAL_ARGUMENTS = {
    **dict.fromkeys(("query", "observe", "evidence", "guide"), (0,)),
    **dict.fromkeys(("findall", "all", "aggregate_all"), (1,)),
    "forall": (0, 1),
}
# Names that mean something where a constant would be replaced by its value.
_TAKEN = {"t", "true", "false", "bool", "int", "real", "key", "value"}


@dataclass
class Directives:
    constants: dict[str, object] = field(default_factory=dict)
    inputs: dict[Pred, Input] = field(default_factory=dict)
    tensors: dict[str, Input] = field(default_factory=dict)
    networks: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    domains: dict[tuple[Pred, int], Term] = field(default_factory=dict)
    fluents: dict[Pred, tuple[bool, ...]] = field(default_factory=dict)
    time_args: dict[tuple[str, int], int] = field(default_factory=dict)
    terms: dict[str, Term] = field(default_factory=dict)
    # Whether what nothing defines fails, instead of being a mistake.
    unknown_fails: bool = False
    # Names whose declaration was refused: no second message for their uses.
    broken: set[str] = field(default_factory=set)
    # Predicates that a directive speaks about, with the place.
    mentions: list[tuple[Pred, Span | None]] = field(default_factory=list)

    def fill(self, statement: Term) -> Term:
        """Replace constants by their values, in argument positions only."""
        if not self.terms:
            return statement
        return self._goal(statement)

    def _goal(self, term: Term) -> Term:
        match term:
            case Struct(":-" | "," | ";" | "not" | "->"):
                return mapped(term, self._goal)
            case Struct("::" as functor, (chance, goal)):
                return Struct(functor, (self._value(chance), self._goal(goal)), term.span)
            case Struct("~" | "@" as functor, (goal, value)):
                return Struct(functor, (self._goal(goal), self._value(value)), term.span)
            case Struct(functor, args) if functor in GOAL_ARGUMENTS:
                goals = GOAL_ARGUMENTS[functor]
                filled = (
                    self._goal(a) if i in goals else self._value(a) for i, a in enumerate(args)
                )
                return Struct(functor, tuple(filled), term.span)
        return mapped(term, self._value)

    def _value(self, term: Term) -> Term:
        match term:
            case Struct(name, ()) if name in self.terms:
                # A constant's value is shown where the constant is used.
                return replace(self.terms[name], span=term.span)
        return mapped(term, self._value)


def read_directives(
    terms: Iterable[Term], overrides: Mapping[str, object], errors: list[Diagnostic]
) -> Directives:
    """Read all directives; mistakes are appended to `errors`."""
    terms = list(terms)
    out = Directives()
    # Constants first: the other directives may use them.
    ordered = [t for t in terms if _name(t) == "const"] + [t for t in terms if _name(t) != "const"]
    overridden = dict(overrides)
    for term in ordered:
        try:
            _read(term, out, overridden)
        except ProgramError as error:
            errors.extend(error.diagnostics)
            out.broken.add(_declared(term))
    _drop_times(out)
    for name in overridden:
        known = ", ".join(out.constants) or "none"
        errors.append(
            Diagnostic(
                "E108",
                f"the program has no constant called {name} (it has: {known})",
                None,
                f"declare it with `:- const({name}, …).`",
            )
        )
    return out


def _drop_times(out: Directives) -> None:
    """Where an argument is a time, `domain` and `fluent` may count it or leave it out."""
    for (pred, i), domain in list(out.domains.items()):
        at = out.time_args.get((pred.name, pred.arity))
        if at is not None and i != at:
            del out.domains[pred, i]
            out.domains[Pred(pred.name, pred.arity - 1), i - (i > at)] = domain
    for pred, flags in list(out.fluents.items()):
        at = out.time_args.get((pred.name, pred.arity))
        if at is not None:
            del out.fluents[pred]
            out.fluents[Pred(pred.name, pred.arity - 1)] = flags[:at] + flags[at + 1 :]
    out.mentions = [
        (Pred(p.name, p.arity - ((p.name, p.arity) in out.time_args)), span)
        for p, span in out.mentions
    ]


def _declared(directive: Term) -> str:
    """The name that a directive would have declared."""
    if not isinstance(directive, Struct) or not directive.args:
        return ""
    if directive.functor not in ("const", "input", "network"):
        return ""
    what = directive.args[0]
    return _name(what.args[0]) if isinstance(what, Struct) and what.functor == "@" else _name(what)


def _name(term: Term) -> str:
    return term.functor if isinstance(term, Struct) else ""


def _read(term: Term, out: Directives, overrides: dict[str, object]) -> None:
    if isinstance(term, Struct) and term.functor != "const":
        term = mapped(term, out._value)
    match term:
        case Struct("const", (Struct(name, ()), *rest)) if len(rest) <= 1:
            _read_constant(term, name, rest, out, overrides)
        case Struct("input", (what, *domains)) if len(domains) <= 8:
            _read_input(term, what, tuple(domains), out)
        case Struct("network", (Struct(name, ()), *rest)) if len(rest) <= 1:
            shape = _shape(rest[0]) if rest else None
            if out.networks.get(name, shape) != shape:
                raise _twice(term, f"the network {name}")
            out.networks[name] = shape
        case Struct("domain", (Struct("/", (Struct(name, ()), Num(int(arity)))), Num(int(i)), d)):
            if not 1 <= i <= arity:
                raise _malformed(term, f"{name}/{arity} has no argument {i}; they count from 1")
            out.domains[Pred(name, arity), i - 1] = _domain(d, out)
            out.mentions.append((Pred(name, arity), term.args[0].span))
        case Struct("domain", (Struct("/", (Struct(name, ()), Num(0))), d)):
            out.domains[Pred(name, 0), 0] = _domain(d, out)
            out.mentions.append((Pred(name, 0), term.args[0].span))
        case Struct("fluent", (Struct(name, args),)):
            flags = []
            for arg in args:
                if not isinstance(arg, Struct) or arg.functor not in ("key", "value", "time"):
                    raise _malformed(term, "each argument of a fluent is `key` or `value`")
                flags.append(arg.functor == "value")
            out.fluents[Pred(name, len(args))] = tuple(flags)
            out.mentions.append((Pred(name, len(args)), term.args[0].span))
        case Struct("time", (Struct("/", (Struct(name, ()), Num(int(arity)))), Num(int(i)))):
            if not 1 <= i <= arity:
                raise _malformed(term, f"{name}/{arity} has no argument {i}; they count from 1")
            out.time_args[name, arity] = i - 1
            out.mentions.append((Pred(name, arity), term.args[0].span))
        case Struct("unknown", (Struct("fail" | "error" as reaction, ()),)):
            out.unknown_fails = reaction == "fail"
        case Struct("use_module", (Struct("library", (Struct(name, ()),)), *_)):
            _check_library(name, term)
        case Struct("use_module", (Struct(name, ()) | Str(name), *_)):
            _refuse_module(name, term)
        case Struct("consult" | "csv_load" as name, (_, *_)):
            fail(
                "E007",
                f"{name} reads a file next to the program, and this program is in no file",
                term.span,
                "write the program to a file and compile that, "
                "`nesymm.compile(Path('model.nsl'))`; or write the clauses themselves",
            )
        case _:
            _refuse(term)


def _check_library(name: str, term: Term) -> None:
    if name in REFUSED_LIBRARIES:
        cause, cure = REFUSED_LIBRARIES[name]
        fail("E105", f"the library {name} is not supported: {cause}", term.span, cure)
    if name not in _LIBRARIES:
        fail(
            "E106",
            f"there is no library called {name} here",
            term.span,
            "the libraries lists, aggregate, apply and db are built in",
        )


def _refuse_module(name: str, term: Term) -> NoReturn:
    if name.endswith(".py"):
        fail(
            "E105",
            f"`{name}` is not loaded: a program never runs Python that it names",
            term.span,
            "write what it computes as clauses, or give it as a network: "
            "`:- network(f, 1).` and `compile(…, networks={'f': f})`",
        )
    fail(
        "E106",
        "a module of clauses is read as a part of the program",
        term.span,
        f"write `:- consult('{name}').`",
    )


def _read_constant(
    term: Struct, name: str, rest: list[Term], out: Directives, overrides: dict[str, object]
) -> None:
    if name in out.terms:
        raise _twice(term, f"the constant {name}")
    if name in _TAKEN:
        raise _malformed(term, f"a constant cannot be called {name}")
    value = to_term(overrides.pop(name)) if name in overrides else None
    if value is None:
        if not rest:
            fail(
                "E107",
                f"the constant {name} has no value",
                term.span,
                f"give it one in the program, `:- const({name}, 10).`, or when "
                f"compiling: `--const {name}=10`, `constants={{'{name}': 10}}`",
            )
        value = out._value(rest[0])
    out.terms[name] = value
    out.constants[name] = to_value(value)


def _refuse(term: Term) -> NoReturn:
    """Say what is wrong with a directive that was not read."""
    name = _name(term)
    if name in _FORMS:
        raise _malformed(term, f"this {name} directive is malformed")
    if not name:
        raise _malformed(term, "this is not a directive")
    if name in REFUSED_DIRECTIVES:
        cause, cure = REFUSED_DIRECTIVES[name]
        fail("E105", f"`{name}` is not supported: {cause}", term.span, cure)
    near = difflib.get_close_matches(name, _FORMS, 1, 0.7)
    fail(
        "E106",
        f"there is no directive called {name}",
        term.span,
        f"did you mean {_FORMS[near[0]]}?" if near else _ALL,
    )


_ALL = "the directives are " + ", ".join(_FORMS)


def _malformed(term: Term, message: str) -> ProgramError:
    form = _FORMS.get(_name(term))
    return ProgramError(Diagnostic("E106", message, term.span, f"write {form}" if form else _ALL))


def _twice(term: Term, what: str) -> ProgramError:
    return ProgramError(
        Diagnostic("E106", f"{what} is declared twice", term.span, "keep one of the two")
    )


def _domain(term: Term, out: Directives) -> Term:
    """Refuses what cannot be a domain."""
    match term:
        case Struct("..", bounds) if unknown := [
            b
            for b in bounds
            if isinstance(b, Struct) and not b.args and b.functor not in out.broken
        ]:
            name = unknown[0].functor
            fail(
                "E106",
                f"the bound {name} is not a number",
                unknown[0].span,
                f"declare the constant: `:- const({name}, 10).`",
            )
        case Struct("..", (Num(low), Num(high))) if low > high:
            message = "this domain is empty: it ends before it begins"
        case Struct("..", (_, _)) | Struct("int" | "real" | "bool", ()):
            return term
        case ListTerm(items, None) if items:
            return term
        case _:
            message = "this is not a domain"
    fail("E106", message, term.span, "write `0..12`, `[up, down]`, int or real")


def _read_input(term: Term, what: Term, domains: tuple[Term, ...], out: Directives) -> None:
    timed = False
    if isinstance(what, Struct) and what.functor == "@" and what.arity == 2:
        timed = True
        if what.args[1] != Struct("t"):
            raise _malformed(term, "an input that changes over time is declared at `t`")
        what = what.args[0]
    if not isinstance(what, Struct) or not all(isinstance(a, Var) or a == _KEY for a in what.args):
        raise _malformed(term, "the arguments of an input are variables, or `key`")
    pred = Pred(what.functor, what.arity)
    if pred in out.inputs or what.functor in out.tensors:
        raise _twice(term, f"the input {pred}")
    keys = tuple(i for i, a in enumerate(what.args) if a == _KEY)
    whole = len(keys) == what.arity
    tensor = domains[-1:] == (_TENSOR,) if keys else whole and domains != (Struct("bool"),)
    if keys and tensor:
        domains = domains[:-1]
    for domain in domains:
        _domain(domain, out)
    at = "@t" if timed else ""
    if tensor and not keys and domains:
        fail(
            "E106",
            "an input without arguments is a tensor and has no domain",
            domains[0].span,
            f"for a number, write `:- input({what.functor}(X){at}, 0..10).`",
        )
    if tensor and not whole:
        raise _malformed(term, "the arguments of a tensor are keys")
    if what.arity and (domains or keys) and len(domains) != what.arity:
        least = "" if keys else ", or none"
        raise _malformed(term, f"give a domain for each of the {what.arity} arguments{least}")
    given = Input(
        pred,
        timed,
        tuple(domains) if what.arity and domains else (None,) * what.arity,
        tensor,
        whole and not tensor,
        keys,
        term.span,
    )
    if tensor:
        out.tensors[what.functor] = given
    else:
        out.inputs[pred] = given


_KEY, _TENSOR = Struct("key"), Struct("tensor")


def _shape(term: Term) -> tuple[int, ...]:
    match term:
        case Num(int(n)) if n > 0:
            return (n,)
        case ListTerm(items, None) if items and all(
            isinstance(i, Num) and isinstance(i.value, int) and i.value > 0 for i in items
        ):
            return tuple(i.value for i in items)  # type: ignore[union-attr,misc]
    fail(
        "E106",
        "the outputs of a network are a number or a shape",
        term.span,
        "write `:- network(policy, 9).` or `:- network(decoder, [3, 64, 64]).`",
    )


def to_term(value: object) -> Term:
    """A Python value as a term: numbers, texts (atoms), lists, or a term itself."""
    if isinstance(value, Var | Num | Str | Struct | ListTerm):
        return value
    if isinstance(value, bool):
        return Struct("true" if value else "false")
    if isinstance(value, Integral):
        return Num(int(value))
    if isinstance(value, Real):
        if value != value:
            raise NesymmError("a constant is a number, and NaN is none")
        return Num(float(value))
    if isinstance(value, str):
        return Struct(value)
    if isinstance(value, list | tuple):
        return ListTerm(tuple(to_term(v) for v in value))
    raise NesymmError(
        f"a constant is a number, a text or a list of these; received {type(value).__name__}"
    )


def to_value(term: Term) -> object:
    """The inverse of `to_term`, where there is one."""
    match term:
        case Num(value):
            return value
        case Struct(name, ()):
            return name
        case ListTerm(items, None):
            return [to_value(i) for i in items]
    return term
