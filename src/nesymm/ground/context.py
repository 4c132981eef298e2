"""What the parts of one round share."""

from __future__ import annotations

from typing import Any

from nesymm.errors import Span
from nesymm.ground.axes import Axes
from nesymm.ground.clauses import Clauses
from nesymm.ground.domains import input_axes
from nesymm.ground.evaluate import Evaluator
from nesymm.ground.open_answers import Openings
from nesymm.ir.axes import anywhere
from nesymm.ir.expr import FALSE, Expr
from nesymm.ir.step import Flag, InputDecl
from nesymm.ir.symbols import plain
from nesymm.language.agreement import agreement
from nesymm.language.program import Pred


class Context:
    """The program of a round, the axes and parameters that it meets, and what must not happen."""

    def __init__(self, clauses: Clauses, split: frozenset[str]):
        self.clauses = clauses
        self.program = clauses.program
        self.axes = Axes(self.program.temporal, split)
        tensors = {
            name: InputDecl(name, given.timed, (), True, input_axes(given))
            for name, given in self.program.tensors.items()
        }
        self.evaluator = Evaluator(self.program.networks, tensors)
        self.flags: dict[Flag, None] = {}
        self.openings: Openings = {}
        self.listed: Pred | None = None  # what all answers are asked of
        self.infinite: set[str] = set()  # the names of what is drawn from infinitely many values

    def number(
        self, term: Any, span: Span | None, timed: bool = True, constraint: str = "real"
    ) -> Any:
        """The value of an arithmetic term, a symbol where it is only known at run time."""
        return plain(self.evaluator.number(term, span, timed, constraint))

    def must_not(self, message: str, condition: Expr, span: Span | None, cure: str = "") -> None:
        flag = Flag(message, anywhere(condition), span, cure)
        if flag.condition is not FALSE:
            self.flags.setdefault(flag)

    def must_not_differ(self, pred: Pred, condition: Expr, span: Span | None) -> None:
        message = f"two clauses give {pred} different values"
        self.must_not(message, condition, span, self.agreement(pred))

    def agreement(self, pred: Pred) -> str:
        """Why clauses that differ have to agree, and what to do."""
        return agreement(self.program, self.clauses.values, pred)
