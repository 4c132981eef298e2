"""Which blocks the answers of a round show: keys, the structure of values, and their types."""

from __future__ import annotations

from typing import Any

from nesymm.errors import Span, fail
from nesymm.ground.clauses import Clauses
from nesymm.ground.state.blocks import AxisKey, Block
from nesymm.ground.state.transition import outside
from nesymm.ground.tabling import Answer
from nesymm.ir.arithmetic import refine
from nesymm.ir.expr import Expr
from nesymm.ir.step import Hole
from nesymm.ir.symbols import as_expr, as_tensor, key_of, parts
from nesymm.ir.terms import Compound
from nesymm.ir.types import Enum, Int, Tensor, Type, is_finite, join_all
from nesymm.language.program import Pred


def find_blocks(
    clauses: Clauses, pred: Pred, answers: list[Answer], span: Span | None
) -> tuple[Block, ...]:
    keys = clauses.key_positions(pred)
    declared = {i: clauses.domains[pred, i] for i in keys if (pred, i) in clauses.domains}
    # What a key outside its domain would be is not part of the state: it is an error.
    answers = [
        a for a in answers if all(outside(a, i, t) is not a.condition for i, t in declared.items())
    ]
    along = [any(isinstance(a.terms[i], Expr) for a in answers) for i in keys]
    groups: dict[Any, list[Answer]] = {}
    for answer in answers:
        fixed = tuple(answer.terms[i] for i, axis in zip(keys, along, strict=True) if not axis)
        groups.setdefault(key_of(fixed), []).append(answer)
    blocks = []
    for group in groups.values():
        block_keys = tuple(
            AxisKey(_key_type(pred, i, group, declared.get(i), span)) if axis else group[0].terms[i]
            for i, axis in zip(keys, along, strict=True)
        )
        types: list[Type] = []
        template = tuple(
            _template(
                pred,
                [(a.terms[i], a.condition) for a in group],
                types,
                clauses.domains.get((pred, i)),
                group[0].span,
            )
            for i in clauses.value_positions(pred)
        )
        blocks.append(Block(block_keys, template, tuple(types)))
    return tuple(blocks)


def _key_type(
    pred: Pred, position: int, group: list[Answer], declared: Type | None, span: Span | None
) -> Int | Enum:
    if isinstance(declared, Int | Enum) and is_finite(declared):
        return declared
    type_ = join_all(refine(as_expr(a.terms[position]), a.condition) for a in group)
    if not isinstance(type_, Int | Enum) or not is_finite(type_):
        fail(
            "E306",
            f"argument {position + 1} of {pred} is a key, and its values are unbounded ({type_})",
            group[0].span or span,
            f"declare its domain: `:- domain({pred}, {position + 1}, 1..10).`",
        )
    return type_


def _template(
    pred: Pred,
    column: list[tuple[Any, Expr]],
    types: list[Type],
    declared: Type | None,
    span: Span | None,
) -> Any:
    """One structure for the values of all answers, its leaves numbered as `types` are."""
    if any(isinstance(t, Expr) and isinstance(t.type, Tensor) for t, _ in column):
        column = [(as_tensor(t), c) for t, c in column]
    first = column[0][0]
    if len({_outermost(t) for t, _ in column}) > 1:
        fail(
            "E313",
            f"the clauses of {pred} give values of different structure",
            span,
            "carry the same kind of value in all clauses",
        )
    if type(first) in (tuple, Compound):
        inner = [
            _template(pred, [(parts(t)[i], c) for t, c in column], types, None, span)
            for i in range(len(parts(first)))
        ]
        return tuple(inner) if type(first) is tuple else Compound(first.functor, tuple(inner))
    type_ = _leaf_type(pred, column, span)
    types.append(declared or type_)
    return Hole("field", len(types) - 1)


def _outermost(term: Any) -> Any:
    if type(term) is Compound:
        return term.functor, len(term.args)
    return len(term) if type(term) is tuple else None


def _leaf_type(pred: Pred, column: list[tuple[Any, Expr]], span: Span | None) -> Type:
    type_ = join_all(refine(as_expr(term), condition) for term, condition in column)
    if type_ is None:
        fail(
            "E313",
            f"the clauses of {pred} give values of different types",
            span,
            "carry only numbers, or only terms, in one argument",
        )
    if isinstance(type_, Tensor) and type_.shape is None:
        if all(as_expr(t).type.shape for t, _ in column):  # type: ignore[union-attr]
            fail(
                "E313",
                f"the clauses of {pred} give tensors of different shapes",
                span,
                "carry the same shape in all clauses",
            )
        fail(
            "E313",
            f"{pred} would carry a tensor whose shape is not known",
            span,
            "say how many outputs the network has: `:- network(net, 2).`",
        )
    return type_
