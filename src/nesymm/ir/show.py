"""Step programs as text, section by section; `describe` has the notation of expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nesymm.ir.describe import ExprText, axis_text
from nesymm.ir.expr import TRUE, Axis, Expr
from nesymm.ir.terms import show as show_term

if TYPE_CHECKING:
    from nesymm.ir.step import ObservationDecl, QueryDecl, RandomVariable, Slot, StepProgram

_WIDTH = 100


# ---------------------------------------------------------------- whole programs


def show(step: StepProgram) -> str:
    """A step program, section by section; sections without rows are left out."""
    lines: list[str] = []
    for title, rows in sections(step):
        lines.append(title)
        lines += [f"  {line}" for row in rows for line in row.split("\n")]
    count = len(step.nodes())
    lines.append(f"{count} {'node' if count == 1 else 'nodes'}")
    return "\n".join(lines) + "\n"


def sections(step: StepProgram) -> Iterator[tuple[str, list[str]]]:
    """The titles and rows that `show` prints."""
    names, shared = _shared(step)
    text = ExprText(
        names,
        frozenset(s.name for s in step.slots if len(s.fields) == 1)
        | frozenset(i.name for i in step.inputs if len(i.fields) == 1),
        frozenset(i.name for i in step.inputs if i.timed),
    )
    found = {
        "inputs": [f"{i.name}{'@t' if i.timed else ''}: {i.shown}" for i in step.inputs],
        "networks": [f"{n.name}: {outputs(n.outputs)}" for n in step.networks],
        "parameters": [
            f"θ {p.name}{_domains(p.axes)}: {p.constraint}"
            + ("" if p.initial is None else f", starts at {p.initial:g}")
            for p in step.parameters
        ],
        "variables": [_variable(v, text, step.temporal) for v in step.variables],
        "state": [_slot(s, text) for s in step.slots],
        "observe": [_observation(o, text) for o in step.observations],
        "query": [_query(q, text) for q in step.queries],
        "must not happen": [f"{f.message}: {text(f.condition)}" for f in step.flags],
        "where": [f"{names[id(e)]} = {text.written(e)}" for e in shared],
        "least fixpoints": [f"{n} = {text(d)}" for n, d in _fixpoints(step)],
    }
    return ((title, rows) for title, rows in found.items() if rows)


def outputs(shape: tuple[int, ...] | None) -> str:
    """The outputs of a network in words."""
    if shape is None:
        return "outputs not declared"
    if len(shape) > 1:
        return f"outputs {list(shape)}"
    return f"{shape[0]} output" + ("s" if shape[0] != 1 else "")


def _axes(name: str, axes: tuple[Axis, ...]) -> str:
    return name + (f"[{_along(axes)}]" if axes else "")


def _along(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{axis_text(a)} in {_domain(a)}" for a in axes)


def _domains(axes: tuple[Axis, ...]) -> str:
    return f"[{', '.join(map(_domain, axes))}]" if axes else ""


def _domain(axis: Axis) -> str:
    return str(axis.type).removeprefix("int ")


def _variable(variable: RandomVariable, text: ExprText, temporal: bool) -> str:
    drawn = f"{_axes(variable.name, variable.axes)} ~ {variable.family}({_params(variable, text)})"
    guard = "" if variable.guard.data is True else f" if {text(variable.guard)}"
    words = ["static"] if variable.static and temporal else []
    if variable.support is None:
        words += ["infinite", str(variable.type)]
    else:
        words += ["finite", f"{len(variable.support)} values"]
    kind = f"    ({', '.join(words)})"
    if len(drawn + guard + kind) <= _WIDTH or not guard:
        row = drawn + guard + kind
    else:
        row = f"{drawn}{kind}\n {guard}"
    for guide in variable.guides:
        row += f"\n  guide {guide.family}({', '.join(map(text.param, guide.params))})"
        row += "" if guide.condition is TRUE else f" if {text(guide.condition)}"
    return row


def _params(variable: RandomVariable, text: ExprText) -> str:
    heads = variable.label.split("; ")
    first = variable.params[0] if variable.params else ()
    if variable.family != "choice" or not isinstance(first, tuple) or len(heads) != len(first):
        return ", ".join(map(text.param, variable.params))
    # The value of an annotated disjunction is the number of the head that was chosen.
    options = enumerate(zip(first, heads, strict=True))
    return ", ".join(f"{i}: {text(p)} {head}" for i, (p, head) in options)


def _slot(slot: Slot, text: ExprText) -> str:
    types = ", ".join(map(str, slot.fields))
    head = _axes(slot.name, slot.axes) + (f": {types}" if types else "")
    rows = [head + ("    (deterministic)" if slot.deterministic else "")]
    rows.append(f"  present: {text(slot.present)}")
    for i, value in enumerate(slot.values):
        rows.append(f"  value{f' {i + 1}' if len(slot.values) > 1 else ''}: {text(value)}")
    return "\n".join(rows)


def _observation(observation: ObservationDecl, text: ExprText) -> str:
    head = _axes(observation.name, observation.axes) + str(observation.when or "")
    value = observation.value
    if value is None:
        seen = "data"
    elif isinstance(value, bool):
        seen = str(value).lower()
    else:
        seen = ", ".join(map(show_term, value))
    ways = [
        ("" if b.condition.data is True else f"{text(b.condition)}: ") + text.several(b.values)
        for b in observation.branches
    ]
    return f"{head} = {seen}: " + ("; ".join(ways) if ways else text(observation.holds))


def _query(query: QueryDecl, text: ExprText) -> str:
    row = query.name + (f" for {_along(query.axes)}" if query.axes else "")
    row += f": {text(query.holds)}"
    return row + (f"  values {text.several(query.values)}" if query.values else "")


def _fixpoints(step: StepProgram) -> list[tuple[str, Expr]]:
    systems = {id(n.data[0]): n.data[0] for n in step.nodes() if n.op == "lfp"}
    return [row for s in systems.values() for row in zip(s.names, s.definitions, strict=True)]


def _shared(step: StepProgram) -> tuple[dict[int, str], list[Expr]]:
    """Expressions that are used more than once and are worth a name."""
    uses: Counter[int] = Counter()
    sizes: dict[int, int] = {}
    nodes = step.nodes()
    for node in nodes:
        # A list is as long as what stands in it.
        sizes[id(node)] = (node.op != "vector") + sum(sizes.get(id(a), 1) for a in node.args)
        uses.update(map(id, node.args))
    uses.update(map(id, step.roots()))
    uses.update(id(definition) for _, definition in _fixpoints(step))
    shared = [n for n in nodes if uses[id(n)] > 1 and sizes[id(n)] > 5]
    return {id(n): f"%{i + 1}" for i, n in enumerate(shared)}, shared
