"""Step programs as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nesymm.compiler.expr import Axis, Expr, postorder
from nesymm.compiler.runtime import show as show_term
from nesymm.compiler.step import Param, RandomVariable, StepProgram

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


def axis_text(axis: Axis) -> str:
    return axis.name.split("~")[0]


def describe(expr: Expr, names: dict[int, str] | None = None, level: int = 0) -> str:
    """An expression in infix notation; nodes in `names` are shown by name."""
    names = names or {}
    if level and id(expr) in names:
        return names[id(expr)]
    return _text(expr, names, 0)


def _sub(expr: Expr, names: dict[int, str], precedence: int) -> str:
    if id(expr) in names:
        return names[id(expr)]
    return _text(expr, names, precedence)


def _index(name: str, args: Iterable[Expr], names: dict[int, str]) -> str:
    keys = [_sub(a, names, 0) for a in args]
    return name + (f"[{', '.join(keys)}]" if keys else "")


def _text(expr: Expr, names: dict[int, str], precedence: int) -> str:
    op, args, data = expr.op, expr.args, expr.data
    if op == "add" and args[1].op == "const" and isinstance(args[1].data, int) and args[1].data < 0:
        text = f"{_sub(args[0], names, 5)} - {-args[1].data}"
        return f"({text})" if precedence > 5 else text
    if op == "not" and args[0].op == "eq":
        inner = args[0]
        text = f"{_sub(inner.args[0], names, 5)} \\= {_sub(inner.args[1], names, 5)}"
        return f"({text})" if precedence > 4 else text
    if op in _INFIX:
        symbol, own = _INFIX[op]
        parts = [
            _sub(a, names, own + (i > 0 and op not in ("and", "or"))) for i, a in enumerate(args)
        ]
        text = symbol.join(parts)
        return f"({text})" if own < precedence else text
    match op:
        case "const":
            return (
                {True: "true", False: "false"}[data]
                if isinstance(data, bool)
                else (show_term(data))
            )
        case "axis":
            return axis_text(data)
        case "time":
            return "t"
        case "input":
            name, field = data
            if field == "now":
                return name
            if isinstance(field, int):
                return f"{name}.{field + 1}"
            return f"{name}@0" if field == "first" else f"{name}@(t-{field[3:]})"
        case "given":
            return f"given({data})"
        case "slot":
            name, field = data
            text = _index(f"prev {name}", args, names)
            return f"{text}?" if field == "present" else f"{text}.{field + 1}"
        case "rv":
            return _index(f"~{data}", args, names)
        case "param":
            return _index(f"θ {data}", args, names)
        case "neural":
            net, output = data
            call = f"{net}({', '.join(_sub(a, names, 0) for a in args)})"
            return call if output is None else f"{call}[{output + 1}]"
        case "not":
            text = f"not {_sub(args[0], names, 3)}"
            return f"({text})" if precedence > 3 else text
        case "case":
            parts = [
                f"{_sub(args[i], names, 0)}: {_sub(args[i + 1], names, 0)}"
                for i in range(0, len(args), 2)
            ]
            return "{" + "; ".join(parts) + "}"
        case "any":
            return f"any {axis_text(data)}: ({_sub(args[0], names, 0)})"
        case "sum" | "min" | "max" | "pick" if isinstance(data, Axis):
            where = "" if args[0].data is True else f" where {_sub(args[0], names, 2)}"
            return f"{op} {axis_text(data)}: ({_sub(args[1], names, 0)}{where})"
        case "lookup":
            return _index(f"table {data.name}", args, names)
        case "item":
            return f"{_sub(args[0], names, 9)}.{data + 1}"
        case "lfp":
            system, i = data
            return f"lfp {system.names[i]}"
        case "atom":
            return "atom"
        case "number":
            return f"[{_sub(args[0], names, 0)}]"
    return f"{op}({', '.join(_sub(a, names, 0) for a in args)})"


# ---------------------------------------------------------------- whole programs


def show(step: StepProgram) -> str:
    names, shared = _shared(step)
    lines: list[str] = []

    def section(title: str, rows: list[str]) -> None:
        if rows:
            lines.append(title)
            lines.extend(f"  {row}" for row in rows)

    def text(expr: Expr) -> str:
        return describe(expr, names, 1)

    def param(p: Param) -> str:
        return f"[{', '.join(text(e) for e in p)}]" if isinstance(p, tuple) else text(p)

    section(
        "inputs",
        [
            f"{i.name}{'@t' if i.timed else ''}: "
            + ("tensor" if i.tensor else ", ".join(map(str, i.fields)))
            for i in step.inputs
        ],
    )
    section(
        "networks",
        [
            f"{name}: {'outputs not declared' if shape is None else _shape(shape)}"
            for name, shape in step.networks
        ],
    )
    section(
        "parameters",
        [
            f"θ {_axes(p.name, p.axes)}: {p.constraint}"
            + ("" if p.initial is None else f", starts at {p.initial:g}")
            for p in step.parameters
        ],
    )
    section(
        "variables",
        [
            f"{_axes(v.name, v.axes)} ~ {v.family}({', '.join(param(p) for p in v.params)})"
            + (f" if {text(v.guard)}" if v.guard.data is not True else "")
            + f"    {_kind(v, step.temporal)}"
            + (
                f"\n    guide {v.guide[0]}({', '.join(param(p) for p in v.guide[1])})"
                if v.guide
                else ""
            )
            for v in step.variables
        ],
    )
    section("state", [row for s in step.slots for row in _slot_rows(s, text)])
    section(
        "observe",
        [
            f"{_axes(o.name, o.axes)}{o.when or ''} = {_observed(o.value)}: "
            + (
                "; ".join(
                    f"{text(b.condition)}: {', '.join(map(text, b.values))}" for b in o.branches
                )
                if o.is_value
                else text(o.holds)
            )
            for o in step.observations
        ],
    )
    section(
        "query",
        [
            f"{_axes(q.name, q.axes)}: {text(q.holds)}"
            + (f"  values {', '.join(map(text, q.values))}" if q.values else "")
            for q in step.queries
        ],
    )
    section("must not happen", [f"{f.message}: {text(f.condition)}" for f in step.flags])
    section("where", [f"{names[id(e)]} = {describe(e, names)}" for e in shared])
    section("least fixpoints", [row for row in _systems(step, names)])
    section(
        "clusters",
        [
            ", ".join(c.variables)
            + (f"  coupled along {', '.join(c.coupled)}" if c.coupled else "")
            + (f"  through {', '.join(c.factors)}" if c.factors else "")
            for c in step.clusters
        ],
    )
    lines.append(f"{len(step.nodes())} nodes")
    return "\n".join(lines) + "\n"


def _shape(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} outputs" if len(shape) == 1 else f"outputs {list(shape)}"


def _axes(name: str, axes: tuple[Axis, ...]) -> str:
    if not axes:
        return name
    return f"{name}[{', '.join(f'{axis_text(a)} in {_domain(a)}' for a in axes)}]"


def _domain(axis: Axis) -> str:
    return str(axis.type).removeprefix("int ")


def _kind(variable: RandomVariable, temporal: bool) -> str:
    words = []
    if variable.static and temporal:
        words.append("static")
    words.append(
        f"infinite, {variable.type}"
        if variable.support is None
        else f"finite, {len(variable.support)} values"
    )
    return f"({', '.join(words)})"


def _observed(value: object) -> str:
    if value is None:
        return "data"
    if isinstance(value, bool):
        return str(value).lower()
    assert isinstance(value, tuple)
    return ", ".join(show_term(v) for v in value)


def _slot_rows(slot, text) -> list[str]:  # type: ignore[no-untyped-def]
    types = ", ".join(map(str, slot.fields))
    head = _axes(slot.name, slot.axes) + (f": {types}" if types else "")
    if slot.deterministic:
        head += "    (deterministic)"
    rows = [head, f"  present: {text(slot.present)}"]
    rows += [f"  {i + 1}: {text(v)}" for i, v in enumerate(slot.values)]
    return rows


def _systems(step: StepProgram, names: dict[int, str]) -> list[str]:
    seen: dict[int, object] = {}
    rows = []
    for node in step.nodes():
        if node.op == "lfp" and id(node.data[0]) not in seen:
            system = node.data[0]
            seen[id(system)] = system
            rows += [
                f"{name} = {describe(definition, names, 1)}"
                for name, definition in zip(system.names, system.definitions, strict=True)
            ]
    return rows


def _shared(step: StepProgram) -> tuple[dict[int, str], list[Expr]]:
    """Expressions that are used more than once and are worth a name."""
    uses: Counter[int] = Counter()
    sizes: dict[int, int] = {}
    nodes = step.nodes()
    for node in nodes:
        sizes[id(node)] = 1 + sum(sizes.get(id(a), 1) for a in node.args)
        for arg in node.args:
            uses[id(arg)] += 1
    for root in step.roots():
        uses[id(root)] += 1
    shared = [n for n in nodes if uses[id(n)] > 1 and sizes[id(n)] > 5]
    names = {id(n): f"%{i + 1}" for i, n in enumerate(shared)}
    return names, shared


__all__ = ["axis_text", "describe", "postorder", "show"]
