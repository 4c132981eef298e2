"""Expressions as text, in infix notation.

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

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nesymm.ir.terms import show as show_term
from nesymm.ir.types import TensorAt

if TYPE_CHECKING:
    from nesymm.ir.expr import Axis, Expr

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
_LONG_LIST = 8


def axis_text(axis: Axis) -> str:
    """The name of an axis; that of a bound one has a prime."""
    return f"{axis.name}'" if axis.role == "bound" else axis.name


def describe(expr: Expr) -> str:
    """One expression in infix notation."""
    return ExprText().written(expr, 0)


class ExprText:
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
        return self.written(expr, precedence) if name is None else name

    def several(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self, exprs))

    def param(self, param: Expr | tuple[Expr, ...]) -> str:
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

    def written(self, expr: Expr, precedence: int = 0) -> str:
        """An expression in full, even where it has a name."""
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
                return self._input(data, args)
            case "given":
                return f"given({self._index(data, args)})"
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
            case "sum" | "min" | "max" | "pick" if data is not None:
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

    def _input(self, data: tuple[str, int | TensorAt], keys: tuple[Expr, ...]) -> str:
        name, field = data
        text = self._index(name, keys)
        if isinstance(field, int):
            return self._field(name, text, field)
        if field.lag:
            return f"{text}@({field})"
        return f"{text}@{field}" if name in self.timed else text
