"""Step programs as text.

| text | meaning |
|---|---|
| `~hit[E]` | the value drawn for a random variable |
| `prev agent?`, `prev agent.1` | whether the slot was filled one step ago; its first value |
| `prev x` | the value of a slot that has only one |
| `θ hit` | a parameter |
| `{c: x; d: y}` | x where c holds, else y where d holds |
| `any E': (…)`, `sum E': (x where c)` | a reduction; `E'` is the axis it binds |
| `table room.3[A, M]` | an entry of a table of facts |
| `lfp path(a,b)` | an atom of a positive cycle, listed under `least fixpoints` |
| `%1` | an expression listed under `where` |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nesymm.ir.expr import TRUE, Axis, Expr, postorder
from nesymm.ir.terms import show as show_term

if TYPE_CHECKING:
    from nesymm.ir.step import (
        ObservationDecl,
        Param,
        QueryDecl,
        RandomVariable,
        Slot,
        StepProgram,
    )

_INFIX = {
    "and": (" and ", 2),
    "or": (" or ", 1),
    "eq": (" = ", 4),
    "lt": (" < ", 4),
    "le": (" =< ", 4),
    "add": (" + ", 5),
    "sub": (" - ", 5),
    "mul": (" * ", 6),
    "div": (" / ", 6),
    "idiv": (" // ", 6),
    "mod": (" mod ", 6),
}
_WIDTH = 100
_LONG_LIST = 8


def axis_text(axis: Axis) -> str:
    """The name of an axis; that of a bound one has a prime."""
    name = axis.name.split("~")[0]
    return f"{name[1:]}'" if name.startswith("∃") else name


def describe(expr: Expr) -> str:
    """One expression in infix notation."""
    return _Printer()._text(expr, 0)


class _Printer:
    """Expressions as text. Those in `names` are shown by name."""

    def __init__(
        self,
        names: dict[int, str] | None = None,
        single: frozenset[str] = frozenset(),
        timed: frozenset[str] = frozenset(),
    ):
        self.names = names or {}
        self.single = single  # slots and inputs with one value
        self.timed = timed  # tensors that change over time

    def __call__(self, expr: Expr, precedence: int = 0) -> str:
        name = self.names.get(id(expr))
        return self._text(expr, precedence) if name is None else name

    def definition(self, expr: Expr) -> str:
        """What the name of an expression stands for."""
        return self._text(expr, 0)

    def several(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self, exprs))

    def param(self, param: Param) -> str:
        if not isinstance(param, tuple):
            return self(param)
        if len(param) > _LONG_LIST and all(e.op == "const" for e in param):
            return f"[{self.several(param[: _LONG_LIST // 2])}, …, {self(param[-1])}]"
        return f"[{self.several(param)}]"

    def _index(self, name: str, args: Iterable[Expr]) -> str:
        keys = self.several(args)
        return name + (f"[{keys}]" if keys else "")

    def _field(self, name: str, text: str, field: int) -> str:
        if name in self.single:
            return text
        return f"({text}).{field + 1}" if "@" in name else f"{text}.{field + 1}"

    def _text(self, expr: Expr, precedence: int) -> str:
        op, args = expr.op, expr.args
        if op == "add" and args[1].op == "const" and args[1].data < 0:
            text = f"{self(args[0], 5)} - {show_term(-args[1].data)}"
            return f"({text})" if precedence > 5 else text
        if op == "not" and args[0].op == "eq":
            left, right = args[0].args
            text = f"{self(left, 5)} \\= {self(right, 5)}"
            return f"({text})" if precedence > 4 else text
        if op == "not":
            text = f"not {self(args[0], 3)}"
            return f"({text})" if precedence > 3 else text
        if op in _INFIX:
            symbol, own = _INFIX[op]
            inner = own if op in ("and", "or") else own + 1
            text = symbol.join(self(a, inner if i else own) for i, a in enumerate(args))
            return f"({text})" if own < precedence else text
        return self._leaf_or_call(expr)

    def _leaf_or_call(self, expr: Expr) -> str:
        op, args, data = expr.op, expr.args, expr.data
        match op:
            case "const":
                return str(data).lower() if isinstance(data, bool) else show_term(data)
            case "axis":
                return axis_text(data)
            case "time":
                return "t"
            case "input":
                return self._input(*data)
            case "given":
                return f"given({data})"
            case "observed":
                name, _, _, column = data
                text = self._index(f"observed {name}", args)
                return (
                    f"{text}?" if column == "given" else f"{text}.{column + 1}" if column else text
                )
            case "slot":
                name, field = data
                text = self._index(f"prev {name}", args)
                return f"{text}?" if field == "present" else self._field(name, text, field)
            case "rv":
                return self._index(f"~{data}", args)
            case "param":
                return self._index(f"θ {data}", args)
            case "neural":
                net, output = data
                call = f"{net}({self.several(args)})"
                return call if output is None else f"{call}.{output + 1}"
            case "case":
                pairs = zip(args[::2], args[1::2], strict=True)
                return "{" + "; ".join(f"{self(c)}: {self(v)}" for c, v in pairs) + "}"
            case "any":
                return f"any {axis_text(data)}: ({self(args[0])})"
            case "sum" | "min" | "max" | "pick" if isinstance(data, Axis):
                where = "" if args[0].data is True else f" where {self(args[0], 2)}"
                return f"{op} {axis_text(data)}: ({self(args[1])}{where})"
            case "lookup":
                return self._index(f"table {data.name}", args)
            case "vector":
                return f"[{self.several(args)}]"
            case "item":
                return f"{self(args[0], 9)}.{data + 1}"
            case "lfp":
                system, i = data
                return f"lfp {system.names[i]}"
            case "number":
                return f"[{self(args[0])}]"
        return f"{op}({self.several(args)})"

    def _input(self, name: str, field: str | int) -> str:
        if isinstance(field, int):
            return self._field(name, name, field)
        if field == "now":
            return f"{name}@t" if name in self.timed else name
        return f"{name}@0" if field == "first" else f"{name}@(t-{field[3:]})"


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
    text = _Printer(
        names,
        frozenset(s.name for s in step.slots if len(s.fields) == 1)
        | frozenset(i.name for i in step.inputs if len(i.fields) == 1),
        frozenset(i.name for i in step.inputs if i.timed),
    )
    found = {
        "inputs": [
            f"{i.name}{'@t' if i.timed else ''}: "
            + ("tensor" if i.tensor else ", ".join(map(str, i.fields)))
            for i in step.inputs
        ],
        "networks": [f"{name}: {outputs(shape)}" for name, shape in step.networks],
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
        "where": [f"{names[id(e)]} = {text.definition(e)}" for e in shared],
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


def _variable(variable: RandomVariable, text: _Printer, temporal: bool) -> str:
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


def _params(variable: RandomVariable, text: _Printer) -> str:
    heads = variable.label.split("; ")
    first = variable.params[0] if variable.params else ()
    if variable.family != "choice" or not isinstance(first, tuple) or len(heads) != len(first):
        return ", ".join(map(text.param, variable.params))
    # The value of an annotated disjunction is the number of the head that was chosen.
    options = enumerate(zip(first, heads, strict=True))
    return ", ".join(f"{i}: {text(p)} {head}" for i, (p, head) in options)


def _slot(slot: Slot, text: _Printer) -> str:
    types = ", ".join(map(str, slot.fields))
    head = _axes(slot.name, slot.axes) + (f": {types}" if types else "")
    rows = [head + ("    (deterministic)" if slot.deterministic else "")]
    rows.append(f"  present: {text(slot.present)}")
    for i, value in enumerate(slot.values):
        rows.append(f"  value{f' {i + 1}' if len(slot.values) > 1 else ''}: {text(value)}")
    return "\n".join(rows)


def _observation(observation: ObservationDecl, text: _Printer) -> str:
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


def _query(query: QueryDecl, text: _Printer) -> str:
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


__all__ = ["axis_text", "describe", "outputs", "postorder", "sections", "show"]
