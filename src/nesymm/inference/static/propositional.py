"""From expressions to propositional logic over finite variables.

Every finite random variable becomes a formula variable with one literal per value. A
numeric expression over such variables becomes a table from its values to the formulas
under which it takes them: sums and comparisons then need no enumeration of all worlds.

What is only known at run time (data, parameters, drawn continuous values) enters in two
ways: as the weights of literals, and as *leaves*, truth values with weights (b, 1 - b).
Where the parameters of a variable depend on other finite variables, there is one
independent choice per combination of their values, of which the right one is read.

That is right for sums, in which choices that are not read sum to 1. For the most probable
world, an encoding of `worlds` gives every choice that a world may do without one more
outcome, "not drawn", of weight 1, and says in `rules` when it is taken. Then assignments
that obey the rules and worlds are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from nesymm.errors import NesymmError
from nesymm.inference.circuits.enumerate import can_hold
from nesymm.inference.circuits.formula import Formula
from nesymm.inference.static.sources import Drawn, Leaf, Place, Source, Values, Weight
from nesymm.inference.static.value_tables import ValueTables, check_size, place_key
from nesymm.ir.algebra import const, eq, is_const, le, lt
from nesymm.ir.axes import replacing
from nesymm.ir.expr import TRUE, Expr, rewrite
from nesymm.ir.step import Param, RandomVariable, StepProgram, flat
from nesymm.ir.types import Bool, Tensor, domain, is_finite

# What is evaluated at run time, with its finite arguments fixed to each of their values.
_RUNTIME = {"input", "given", "slot", "param", "neural", "time", "log_mass", "sigmoid", "softplus"}

# Elements that depend on one another are found within one another up to this depth.
_MOST_VALUES = 100_000  # each is a literal, and what reads them a formula of all
_DEEPEST = 20


class _TooDeep(Exception):
    """An element that is to be found before those that depend on it."""

    def __init__(self, variable: RandomVariable, key: tuple):
        self.variable, self.key = variable, key


class Encoding:
    """A formula under construction, and what its variables stand for."""

    def __init__(self, step: StepProgram, *, worlds: bool = False):
        self.variables = {v.name: v for v in step.variables}
        self.formula = Formula()
        self.tables = ValueTables(self)
        self.sources: list[Source] = []
        self.worlds = worlds
        self.elements: dict[tuple[str, tuple], Values] = {}
        # Optional choices without a rule so far: when they are drawn (besides their guard).
        self._optional: list[tuple[int, Drawn, int]] = []
        self._rules: list[int] = []
        self._truths: dict[Any, int] = {}
        self._kinds: dict[int, tuple[bool, bool]] = {}
        self._systems: dict[int, list[int]] = {}
        self._leaves: dict[Any, int] = {}
        self._keep: list[Expr] = []
        self._depth = 0

    # ------------------------------------------------------------ kinds of expressions

    def kind(self, root: Expr) -> tuple[bool, bool]:
        """Whether an expression depends on finite variables, and on run-time values."""
        if id(root) in self._kinds:
            return self._kinds[id(root)]
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if id(node) in self._kinds:
                continue
            if not expanded:
                stack.append((node, True))
                stack.extend((a, False) for a in node.args)
                continue
            self._keep.append(node)
            finite = any(self._kinds[id(a)][0] for a in node.args)
            runtime = any(self._kinds[id(a)][1] for a in node.args)
            if node.op == "rv":
                listed = self.variables[node.data].finite
                # A key that is given is looked up like one that is drawn.
                apart = not all(self.has_table(a) for a in node.args)
                finite, runtime = finite or listed, apart or not listed
            elif node.op == "lfp":
                finite = True
            elif node.op in _RUNTIME:
                runtime = True
            self._kinds[id(node)] = (finite, runtime)
        return self._kinds[id(root)]

    # ------------------------------------------------------------ truths

    def truth(self, root: Expr, place: Place | None = None) -> int:
        """The formula of a condition."""
        place = place or {}
        stack: list[tuple[Expr, Place]] = [(root, place)]
        while stack:
            node, here = stack[-1]
            key = place_key(node, here)
            if key in self._truths:
                stack.pop()
                continue
            needed = self._below(node, here)
            missing = [(a, p) for a, p in needed if place_key(a, p) not in self._truths]
            if missing:
                stack.extend(missing)
                continue
            self._keep.append(node)
            self._truths[key] = self._truth(
                node, here, [self._truths[place_key(a, p)] for a, p in needed]
            )
            stack.pop()
        return self._truths[place_key(root, place)]

    def _below(self, node: Expr, place: Place) -> list[tuple[Expr, Place]]:
        """The conditions that a connective joins."""
        if node.op in ("and", "or", "not"):
            return [(a, place) for a in node.args]
        if node.op == "any":
            return [(node.args[0], {**place, node.data: v}) for v in domain(node.data.type)]
        return []

    def _truth(self, node: Expr, place: Place, below: list[int]) -> int:
        formula = self.formula
        match node.op:
            case "const":
                return formula.true if node.data else formula.false
            case "and":
                return formula.and_(below)
            case "or" | "any":
                return formula.or_(below)
            case "not":
                return formula.not_(below[0])
            case "lfp":
                system, index = node.data
                return self._system(system)[index]
            case "rv" if self.variables[node.data].finite:
                return self._boolean(self.element(node, place))
        return self._comparison(node, place)

    def _boolean(self, values: Values) -> int:
        return self.formula.or_([f for v, f in values.items() if v])

    def _system(self, system: Any) -> list[int]:
        if id(system) not in self._systems:
            atoms = self.formula.fixpoint(len(system.definitions))
            self._systems[id(system)] = atoms
            # What lies too deep is found inside: half of a system must not be left behind.
            depth, self._depth = self._depth, 0
            self.formula.define(atoms, [self.truth(d) for d in system.definitions])
            self._depth = depth
        return self._systems[id(system)]

    def _comparison(self, node: Expr, place: Place) -> int:
        """A test of values: finite ones by their tables, run-time ones by leaves."""
        _, runtime = self.kind(node)
        if not runtime and node.op in ("eq", "lt", "le"):
            left, right = (self.values(a, place) for a in node.args)
            check_size(node, len(left) * len(right))
            hits = [
                self.formula.and_([f, g])
                for x, f in left.items()
                for y, g in right.items()
                if _holds(node.op, x, y)
            ]
            return self.formula.or_(hits)
        if not runtime:
            return self._boolean(self.tables.computed(node, place))
        parts = []
        for fixed, formula in self._combinations([node], place):
            leaf = self._specialise(node, place, fixed)
            parts.append(self.formula.and_([formula, self.leaf(leaf)]))
        return self.formula.or_(parts)

    def leaf(self, condition: Expr) -> int:
        """A truth value known only at run time."""
        if is_const(condition):
            return self.formula.true if condition.data else self.formula.false
        if condition.op in ("and", "or", "not"):
            below = [self.leaf(a) for a in condition.args]
            if condition.op == "not":
                return self.formula.not_(below[0])
            return (self.formula.and_ if condition.op == "and" else self.formula.or_)(below)
        if id(condition) not in self._leaves:
            self._keep.append(condition)
            variable = self._variable(2, Leaf(condition))
            self._leaves[id(condition)] = self.formula.literal(variable, 1)
        return self._leaves[id(condition)]

    def _variable(self, size: int, source: Source) -> int:
        self.sources.append(source)
        return self.formula.add_variable(size)

    # ------------------------------------------------------------ values

    def has_table(self, root: Expr) -> bool:
        """Whether a value is one of finitely many that are known: those of finite variables and
        of inputs with a finite domain."""
        stack = [root]
        while stack:
            node = stack.pop()
            if isinstance(node.type, Bool) or not self.kind(node)[1]:
                continue  # What is true or false has a leaf.
            if node.op == "input" and is_finite(node.type):
                continue
            if node.op in _RUNTIME or node.op == "rv":
                return False
            stack.extend(node.args)
        return True

    def values(self, root: Expr, place: Place) -> Values:
        """The values of a finite expression, each with the formula under which it holds."""
        return self.tables.values(root, place)

    # ------------------------------------------------------------ random variables

    def element(self, node: Expr, place: Place) -> Values:
        """The values of a finite random variable at given keys."""
        variable = self.variables[node.data]
        tables = [self.values(a, place) for a in node.args]
        if all(len(t) == 1 for t in tables):
            return self._element(variable, tuple(next(iter(t)) for t in tables))
        inside = [set(domain(a.type)) for a in variable.axes]
        ways = []
        for combo in product(*(t.items() for t in tables)):
            key = tuple(v for v, _ in combo)
            if all(k in allowed for k, allowed in zip(key, inside, strict=True)):
                at = self.formula.and_([f for _, f in combo])
                for value, holds in self._element(variable, key).items():
                    ways.append((value, self.formula.and_([at, holds])))
        return self.tables.merged(ways)

    def _element(self, variable: RandomVariable, key: tuple) -> Values:
        """The values of one element; those it depends on come first, however many lie below."""
        found = self.elements.get((variable.name, key))
        if found is not None:
            return found
        if self._depth == _DEEPEST:
            raise _TooDeep(variable, key)
        if self._depth:
            return self._nested_element(variable, key)
        waiting = [(variable, key)]
        while waiting:
            try:
                self._nested_element(*waiting[-1])
                waiting.pop()
            except _TooDeep as below:
                waiting.append((below.variable, below.key))
        return self.elements[variable.name, key]

    def _nested_element(self, variable: RandomVariable, key: tuple) -> Values:
        self._depth += 1
        try:
            return self._new_element(variable, key)
        finally:
            self._depth -= 1

    def _new_element(self, variable: RandomVariable, key: tuple) -> Values:
        formula, outcomes = self.formula, variable.outcomes
        if len(outcomes) > _MOST_VALUES:
            raise NesymmError(
                f"{variable.name} has {len(outcomes):,} values: exact inference tells at most "
                f"{_MOST_VALUES:,} apart\n"
                "  = help: draw from a continuous family, or take fewer values"
            )
        found: dict[Any, list[int]] = {v: [] for v in outcomes}
        for params, holds in self._cases(variable, key):
            always = holds == formula.true and variable.guard is TRUE
            source = Drawn(variable, key, params, optional=self.worlds and not always)
            index = self._variable(len(outcomes) + source.optional, source)
            if source.optional:
                self._optional.append((index, source, holds))
            for i, value in enumerate(outcomes):
                found[value].append(formula.and_([holds, formula.literal(index, i)]))
        values = {v: formula.or_(fs) for v, fs in found.items()}
        if self.worlds:
            # What is not drawn counts as the first value, as in the reference interpreter: any
            # will do, since whatever reads it has the same guard.
            first, *others = values
            values[first] = formula.not_(formula.or_(values[v] for v in others))
        self.elements[variable.name, key] = values
        return values

    def rules(self) -> int:
        """That exactly those choices are drawn that apply; true unless in `worlds`."""
        formula = self.formula
        # Guards come last, because they may lead to more variables.
        while self._optional:
            index, source, holds = self._optional.pop()
            place = dict(zip(source.variable.axes, source.key, strict=True))
            drawn = formula.and_([holds, self.truth(source.variable.guard, place)])
            unused = formula.literal(index, len(source.variable.outcomes))
            taken = formula.and_([formula.not_(unused), drawn])
            left_out = formula.and_([unused, formula.not_(drawn)])
            self._rules.append(formula.or_([taken, left_out]))
        return formula.and_(self._rules)

    def weigh(
        self, variable: RandomVariable, key: tuple, value: Expr, where: int
    ) -> tuple[int, int]:
        """Weigh by the density of a value where `where` holds.

        Returns two formulas over literals made for this purpose: one that weighs, and one
        that does not.
        """
        formula = self.formula
        on, off = [], []
        for params, holds in self._cases(variable, key):
            index = self._variable(2, Weight(variable, params, value))
            literal, active = formula.literal(index, 1), formula.and_([where, holds])
            both = formula.and_([literal, active])
            neither = formula.and_([formula.not_(literal), formula.not_(active)])
            on.append(formula.or_([both, neither]))
            off.append(formula.not_(literal))
        return formula.and_(on), formula.and_(off)

    def _cases(
        self, variable: RandomVariable, key: tuple
    ) -> Iterator[tuple[tuple[Param, ...], int]]:
        """The parameters of an element with their finite parts fixed to each of their values."""
        place, prior = dict(zip(variable.axes, key, strict=True)), variable.prior
        params = list(flat(variable.params))
        if all(map(is_const, params)):  # as those of facts, which are many
            yield variable.params, self.formula.true
            return
        for fixed, holds in self._combinations(params, place):
            yield prior.map(lambda e, f=fixed: self._specialise(e, place, f)).params, holds  # type: ignore[misc]

    # ------------------------------------------------------------ combinations

    def _combinations(
        self, exprs: list[Expr], place: Place
    ) -> Iterable[tuple[dict[int, Expr], int]]:
        """Fix the finite parts of expressions to each of their values in turn."""
        finite = self._finite_parts(exprs)
        tables = [self.values(e, place) for e in finite]
        joined: list[tuple[tuple, int]] = [((), self.formula.true)]
        for part, table in zip(finite, tables, strict=True):
            check_size(part, len(joined) * len(table))
            joined = [
                ((*values, value), self.formula.and_([here, holds]))
                for values, here in joined
                for value, holds in table.items()
            ]
            # Values that never meet (`X` is 0 and `1 - X` is 0) need not make sense.
            joined = [row for row in joined if len(tables) == 1 or can_hold(self.formula, row[1])]
        for values, holds in joined:
            if holds != self.formula.false:
                yield {id(e): const(v) for e, v in zip(finite, values, strict=True)}, holds

    def _finite_parts(self, exprs: list[Expr]) -> list[Expr]:
        """The largest subexpressions that depend on finite variables only."""
        found: dict[int, Expr] = {}
        stack = list(exprs)
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            finite, runtime = self.kind(node)
            if not finite:
                continue
            if runtime or isinstance(node.type, Tensor):
                # A tensor has no table of values; its entries have.
                stack.extend(node.args)
            else:
                found[id(node)] = node
        return list(found.values())

    def _specialise(self, expr: Expr, place: Place, fixed: Mapping[int, Expr]) -> Expr:
        """The expression with its axes and finite parts replaced by constants."""
        if is_const(expr):
            return expr

        def known(node: Expr) -> Expr | None:
            if node.op == "axis" and node.data in place:
                return fixed.get(id(node), const(place[node.data]))
            return fixed.get(id(node))

        def keep(node: Expr) -> bool:
            return not node.args and node.op != "axis" and id(node) not in fixed

        return rewrite(expr, replacing(known), keep=keep)


# Whether numbers or terms compare is known to the algebra of expressions.
_TESTS = {"eq": eq, "lt": lt, "le": le}


def _holds(op: str, x: Any, y: Any) -> bool:
    return _TESTS[op](const(x), const(y)).data is True
