"""`StepProgram`: one transition of a model, as data.

Everything that inference needs and nothing else: inputs, the slots of the state with
their next values, random variables in the order in which they can be drawn,
observations, queries. It is immutable, prints as readable text (`show`) and runs, slowly
and obviously, in the interpreter of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from nesymm.errors import NesymmError, Span
from nesymm.ir.expr import TRUE, Axis, Expr, System, make, postorder, rewrite
from nesymm.ir.symbols import as_expr, as_tensor, rebuilt
from nesymm.ir.terms import rounded, show
from nesymm.ir.types import BOOL, Int, Tensor, Type, join_all
from nesymm.language.program import AtLast, Time, steps_of

# The name of a predicate, before its arguments and its time.
_NAME = re.compile(r"'(?:[^'\\]|\\.)*'|[^(@]+")


# A field of a part that holds no expressions of the step, whatever its values look like.
_APART = {"apart": True}


def _span() -> Any:
    return field(default=None, compare=False, repr=False, metadata=_APART)


class Part:
    """What is made of expressions: a step program, and each of its declarations.

    Traversals follow the fields, so that a field that is added is never left out.
    """

    __slots__ = ()

    def expressions(self) -> Iterator[Expr]:
        """Every expression, in the order of the fields."""
        for f in fields(self):  # type: ignore[arg-type]
            if not f.metadata:
                yield from flat(getattr(self, f.name))

    def map(self, change: Callable[[Expr], Expr]) -> Self:
        """The same with every expression changed."""
        changed = {}
        for f in fields(self):  # type: ignore[arg-type]
            old = getattr(self, f.name)
            new = old if f.metadata else _mapped(old, change)
            if new is not old:
                changed[f.name] = new
        return replace(self, **changed) if changed else self  # type: ignore[type-var]

    def rewrite(self, rule: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Self:
        """The same with `rule(node, new arguments)` applied to every node, bottom up; the
        definitions of recursions included."""
        return self.map(rewriting(rule))


def rewriting(rule: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Callable[[Expr], Expr]:
    """A function that applies a rule to every node of expressions, bottom up; the definitions of
    recursions included, which stay shared by the expressions that it is called for."""
    memo: dict[int, Expr] = {}
    systems: dict[int, System] = {}
    kept: list[Any] = []  # Ids are only unique while what they belong to lives.

    def whole(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "lfp":
            return rule(node, args)
        system, index = node.data
        if id(system) not in systems:
            kept.append(system)
            new = systems[id(system)] = System(system.names)
            new.definitions = tuple(rewrite(d, whole) for d in system.definitions)
        return make("lfp", (), (systems[id(system)], index))

    def change(expr: Expr) -> Expr:
        kept.append(expr)
        return rewrite(expr, whole, memo)

    return change


def flat(value: Any) -> Iterator[Expr]:
    """The expressions in parts and tuples, such as the parameters of a family."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, Part):
        yield from value.expressions()
    elif isinstance(value, tuple | list):
        for item in value:
            yield from flat(item)


def _mapped(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, Part):
        return value.map(change)
    if isinstance(value, tuple):
        new = tuple(_mapped(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


@dataclass(frozen=True, slots=True)
class InputDecl:
    """Data that must be given: `fields` are the types of its columns, `axes` those of its keys."""

    name: str
    timed: bool
    fields: tuple[Type, ...]
    tensor: bool
    axes: tuple[Axis, ...] = ()

    @property
    def shown(self) -> str:
        """Its type, and the domains of its keys."""
        keys = " × ".join(str(a.type) for a in self.axes)
        type_ = "tensor" if self.tensor else ", ".join(map(str, self.fields))
        return f"{type_} for each of {keys}" if keys else type_


@dataclass(frozen=True, slots=True)
class Network:
    """A function that the user gives: the shape of its outputs, where one is declared, and the
    places where the program calls it."""

    name: str
    outputs: tuple[int, ...] | None = None
    calls: tuple[Span, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A learnable number, or one per value of its axes.

    `constraint`: unit (a probability), simplex (one of several that sum to at most 1),
    positive or real.
    """

    name: str
    initial: float | None
    constraint: str
    axes: tuple[Axis, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Hole:
    """Stands in a term for what is only known in a run: in the atom of a slot for its key (along
    an axis) or field number i, in the use of a clause for value number i."""

    kind: str
    i: int


@dataclass(frozen=True, slots=True)
class Slot(Part):
    """A piece of the state: whether it is present, and its values, per value of its axes.

    `present` and `values` are the *next* state. A slot is deterministic if it depends
    only on inputs and on other such slots. A `latch` keeps the answer to a query about a fixed
    step for the evidence that follows. `atom` is the predicate that a slot stands for and its
    arguments as the program writes them, with holes for keys and fields; None if there is no
    such atom (an older value, kept for later).
    """

    name: str
    axes: tuple[Axis, ...]
    fields: tuple[Type, ...]
    present: Expr
    values: tuple[Expr, ...]
    deterministic: bool
    latch: bool = False
    atom: tuple[str, tuple] | None = field(default=None, compare=False, repr=False, metadata=_APART)

    def arguments(self, keys: tuple, fields: Sequence[Any]) -> tuple:
        """The arguments of its atom, with keys and fields filled in."""
        assert self.atom is not None
        return filled(self.atom[1], {"key": keys, "field": fields})


def filled(term: Any, values: Mapping[str, Sequence[Any]]) -> Any:
    """A term with its holes filled, by their kind."""
    if type(term) is Hole:
        return values[term.kind][term.i]
    return rebuilt(term, lambda t: filled(t, values))


Param = Expr | tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Proposal(Part):
    """What a variable is drawn from where `condition` holds: a guide, or its prior.

    Where `neural`, the only parameter is a network whose outputs are mapped to the parameters
    of the family.
    """

    condition: Expr
    family: str
    params: tuple[Param, ...]
    neural: bool
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class RandomVariable(Part):
    """One family of independent draws, one per value of its axes.

    It is drawn where `guard` holds. A static variable is drawn once, at step 0. `support`
    lists the values of a finite variable. Where `neural`, the only parameter is a network
    whose outputs are mapped to the parameters of the family. The filters draw it from the
    first of its `guides` whose condition holds, and weigh the draw. It may stand for many
    `causes`.
    """

    name: str
    family: str
    guard: Expr
    params: tuple[Param, ...]
    axes: tuple[Axis, ...]
    type: Type
    support: tuple | None = field(metadata=_APART)
    static: bool
    neural: bool
    label: str
    guides: tuple[Proposal, ...] = ()
    causes: Causes | None = field(default=None, metadata=_APART)

    @property
    def finite(self) -> bool:
        return self.support is not None

    @property
    def prior(self) -> Proposal:
        return Proposal(TRUE, self.family, self.params, self.neural)

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """What it is drawn from: the first that applies counts, and one always does."""
        sure = next((i for i, g in enumerate(self.guides) if g.condition is TRUE), None)
        return (*self.guides, self.prior) if sure is None else self.guides[: sure + 1]

    @property
    def outcomes(self) -> tuple:
        """The values that a reference to a finite variable takes, in order of its weights.

        Where the listed values have no common type, they are their positions in the list.
        """
        assert self.support is not None
        positions = self.type == Int(0, len(self.support) - 1) and not all(
            isinstance(v, int) for v in self.support
        )
        return tuple(range(len(self.support))) if positions else self.support


@dataclass(frozen=True, slots=True)
class Causes:
    """What a variable stands for: whether a draw comes up anywhere along the axis at `position`
    of the `variable` of each cause, of those that count."""

    variable: RandomVariable
    position: int
    counts: Expr


@dataclass(frozen=True, slots=True)
class Branch(Part):
    """One way a value comes about: where `condition` holds it is `values`."""

    condition: Expr
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ObservationDecl(Part):
    """Evidence. Either a truth (`holds`, compared with a truth value) or a value
    (`branches`). `value` is None where it is read from the data array `name`."""

    name: str
    when: Time | None
    axes: tuple[Axis, ...]
    holds: Expr
    branches: tuple[Branch, ...]
    value: Any
    span: Span | None = _span()

    @property
    def is_value(self) -> bool:
        return bool(self.branches)

    @property
    def of_nothing(self) -> bool:
        """Whether it is about no entity at all: it then says nothing."""
        return any(axis.size == 0 for axis in self.axes)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of what is observed, one per column."""
        if not self.is_value:
            return (BOOL,)
        return tuple(self.column_type(i) for i in range(len(self.branches[0].values)))

    def column_type(self, i: int) -> Type:
        """The type of what is observed in column i: one that holds the values of all branches."""
        if self.value is not None:
            return self.constant(i).type
        type_ = join_all(branch.values[i].type for branch in self.branches)
        if type_ is None:
            raise NesymmError(f"the values of {self.name} have no common type")
        return type_

    def constant(self, i: int) -> Expr:
        """The constant that is observed in column i; of a vector, a list."""
        value = self.value[i]
        vector = isinstance(self.branches[0].values[i].type, Tensor)
        return as_expr(as_tensor(value) if vector else value)


@dataclass(frozen=True, slots=True)
class QueryDecl(Part):
    """A question. `values` are what the query leaves open, in the order of `template`."""

    name: str
    when: Time | None
    axes: tuple[Axis, ...]
    holds: Expr
    values: tuple[Expr, ...]
    template: Any = field(metadata=_APART)
    span: Span | None = _span()

    def answer(self, terms: tuple) -> str:
        """The name of an answer, its values filled in."""
        name = _NAME.match(self.name)
        assert name is not None
        shown = ",".join(show(rounded(t) if self.when is None else t) for t in terms)
        return f"{name[0]}({shown})" if terms else name[0]


@dataclass(frozen=True, slots=True)
class Flag(Part):
    """A condition that must never hold at run time, and what it means if it does, with a cure."""

    message: str
    condition: Expr
    span: Span | None = _span()
    cure: str = field(default="", compare=False, repr=False, metadata=_APART)

    def __str__(self) -> str:
        span, cure = self.span, f"; {self.cure}" if self.cure else ""
        place = f" ({span.source.name}:{span.line}:{span.column})" if span is not None else ""
        return f"{self.message}{place}{cure}"


@dataclass(frozen=True, slots=True)
class ClauseUse(Part):
    """One way in which a clause fires: it does where `holds`.

    `head` holds the arguments of its head, `bindings` the values of its variables by name, both
    with holes for `values`. A distributional clause has uses of its body, without a head (None),
    and uses of its draw; the two belong together where their variables have the same values.
    `option` is which of the heads of a disjunction.
    """

    clause: int
    option: int
    holds: Expr
    values: tuple[Expr, ...]
    head: tuple | None = field(metadata=_APART)
    bindings: tuple[tuple[str, Any], ...] = field(metadata=_APART)


@dataclass(frozen=True, slots=True)
class Provenance(Part):
    """Which clauses what holds came from. Inference does not look at it."""

    uses: tuple[ClauseUse, ...] = ()


@dataclass(frozen=True, slots=True)
class StepProgram(Part):
    inputs: tuple[InputDecl, ...]
    parameters: tuple[Parameter, ...]
    networks: tuple[Network, ...]
    variables: tuple[RandomVariable, ...]
    observations: tuple[ObservationDecl, ...]
    queries: tuple[QueryDecl, ...]
    slots: tuple[Slot, ...]
    flags: tuple[Flag, ...]
    temporal: bool
    provenance: Provenance = field(default=Provenance(), compare=False, repr=False, metadata=_APART)

    def roots(self) -> Iterator[Expr]:
        """Every expression that stands in the program itself, guides included."""
        return self.expressions()

    def nodes(self) -> list[Expr]:
        """Every expression of the program, arguments first."""
        return list(postorder(self.roots()))

    def variable(self, name: str) -> RandomVariable:
        return next(v for v in self.variables if v.name == name)

    def slot(self, name: str) -> Slot:
        return next(s for s in self.slots if s.name == name)

    def __str__(self) -> str:
        from nesymm.ir.show import show

        return show(self)


def active(when: Time | None, time: Any, last: Any) -> Any:
    """Whether a time stands for this step; `time` and `last` may be arrays."""
    first, end = steps_of(when)
    if isinstance(when, AtLast):
        return time == last
    return (first <= time) & (end is None or time <= end)
